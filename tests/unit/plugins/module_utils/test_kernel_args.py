# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel command lines and GRUB's files: what the kernel makes of them, and that nothing is lost on the way there and back."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import kernel_args

# -- the kernel's grammar


@pytest.mark.parametrize(
    "line, args, init",
    [
        ("", [], ()),
        ("quiet", [("quiet", None)], ()),
        ("  ro\tquiet \n", [("ro", None), ("quiet", None)], ()),
        ("a=1 b= c", [("a", "1"), ("b", ""), ("c", None)], ()),
        ('x="a b" y', [("x", "a b"), ("y", None)], ()),
        ('"x=a b" y', [("x", "a b"), ("y", None)], ()),
        ('dyndbg="file a.c +p; file b.c +p"', [("dyndbg", "file a.c +p; file b.c +p")], ()),
        ('x=a"b c"d', [("x", 'a"b c"d')], ()),
        ("root=UUID=1-2 ro", [("root", "UUID=1-2"), ("ro", None)], ()),
        ("quiet -- --port 2024", [("quiet", None)], ("--port", "2024")),
        ("--", [], ()),
        ("a--b -- c", [("a--b", None)], ("c",)),
        ('x="open', [("x", "open")], ()),
    ],
)
def test_parse(line: str, args: list, init: tuple) -> None:
    found = kernel_args.parse(line)
    assert [(arg.name, arg.value) for arg in found.args] == args
    assert found.init == init


def test_names_with_dash_and_underscore_are_equal() -> None:
    assert kernel_args.parse("a-b_c=1").args[0].key == kernel_args.parse("a_b-c=1").args[0].key == "a_b_c"


@pytest.mark.parametrize("name, value", [("a b", None), ("", "1"), ("a=b", "1"), ("a", 'x"y'), ("a", "x\ny"), ("--", None), ("a", "\x00")])
def test_make_refuses_what_a_line_cannot_carry(name: str, value: Optional[str]) -> None:
    with pytest.raises(kernel_args.KernelArgsError):
        kernel_args.make(name, value)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,12}", fullmatch=True)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x17F).filter(lambda char: char.isprintable() and char != '"'), max_size=20)


@given(st.lists(st.tuples(NAMES, st.none() | VALUES), max_size=8), st.lists(NAMES, max_size=3))
def test_what_is_made_is_read_back(pairs: list, init: list) -> None:
    line = kernel_args.render([kernel_args.make(name, value) for name, value in pairs], init)
    found = kernel_args.parse(line)
    assert [(arg.name, arg.value) for arg in found.args] == pairs
    assert list(found.init) == init


@given(st.text(alphabet=st.sampled_from('ab=-_," \t;'), max_size=40))
def test_any_text_is_a_line_and_printing_keeps_its_meaning(text: str) -> None:
    first = kernel_args.parse(text)
    if all(arg.closed for arg in first.args) and "--" not in text.split():
        again = kernel_args.parse(kernel_args.render(first.args, first.init))
        assert again == first


# -- merging

ARGS = [
    ("ro quiet", ["isolcpus=managed_irq,2-7"], "ro quiet isolcpus=managed_irq,2-7"),
    ("isolcpus=1 ro isolcpus=3", ["isolcpus=2-7"], "ro isolcpus=2-7"),
    ("numa-balancing=enable", ["numa_balancing=disable"], "numa_balancing=disable"),
    ("console=tty0 console=ttyS0", ["iommu=pt"], "console=tty0 console=ttyS0 iommu=pt"),
    ("hugepagesz=2M hugepages=8 default_hugepagesz=1G", ["hugepagesz=1G", "hugepages=0:8,1:8"], "hugepagesz=1G hugepages=0:8,1:8"),
    ("pci=noats,config_acs=x@1:0.0,realloc", ["pci=config_acs=xx000xx@0000:17:00.0"], "pci=noats,realloc pci=config_acs=xx000xx@0000:17:00.0"),
    ("pci=config_acs=x@1:0.0", ["pci=config_acs=0@2:0.0"], "pci=config_acs=0@2:0.0"),
    ("", [], ""),
]


@pytest.mark.parametrize("line, ours, wanted", ARGS)
def test_merge(line: str, ours: list, wanted: str) -> None:
    mine = [kernel_args.parse(token).args[0] for token in ours]
    merged = kernel_args.merge(kernel_args.parse(line).args, mine)
    assert kernel_args.render(merged) == wanted
    assert kernel_args.merge(merged, mine) == merged


def test_merge_refuses_an_open_quote() -> None:
    with pytest.raises(kernel_args.KernelArgsError, match="not closed"):
        kernel_args.merge(kernel_args.parse('ro x="a b').args, [])


# -- what a line sets

MEANING: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("isolcpus=2-3", {"kernel.isolcpus": "domain,2-3"}),
    ("isolcpus=managed_irq,2-3,5", {"kernel.isolcpus": "managed_irq,2-3,5"}),
    ("isolcpus=managed_irq,domain,2-3", {"kernel.isolcpus": "domain,managed_irq,2-3"}),
    ("isolcpus=2-N", {"kernel.isolcpus": "domain,2-7"}),
    ("isolcpus=domain,managed_irq:1-6", {}),
    ("isolcpus=managed_irq,domain,", {}),
    ("isolcpus=5-2", {}),
    ("isolcpus=2-3 isolcpus=4-5", {"kernel.isolcpus": "domain,2-3"}),
    ("isolcpus=domain,2-3 isolcpus=managed_irq,4-5", {"kernel.isolcpus": "domain,2-3 managed_irq,4-5"}),
    ("nohz_full=2-3 nohz-full=4-5", {"kernel.nohz_full": "2-3"}),
    ("nohz_full= rcu_nocbs=", {}),
    ("isolcpus=nohz,2-3 nohz_full=4-5", {"kernel.isolcpus": "nohz,2-3"}),
    ("isolcpus=domain,2-3 nohz_full=4-5", {"kernel.isolcpus": "domain,2-3", "kernel.nohz_full": "4-5"}),
    ("irqaffinity=0-1 irqaffinity=2", {"kernel.irqaffinity": "0,2"}),
    ("irqaffinity=1", {"kernel.irqaffinity": "0-1"}),
    ("rcu_nocbs=2-3 rcu_nocbs=4", {"kernel.rcu_nocbs": "4"}),
    ("rcu_nocbs", {"kernel.rcu_nocbs": "0-7"}),
    ("rcu_nocbs=x", {"kernel.rcu_nocbs": "0-7"}),
    ("iommu=pt", {"kernel.iommu": "pt"}),
    ("intel_iommu=on iommu=pt", {"kernel.iommu": "pt"}),
    ("iommu.passthrough=1", {"kernel.iommu": "pt"}),
    ("iommu.passthrough=1 iommu.passthrough=0", {}),
    ("intel_iommu=off", {"kernel.iommu": "off"}),
    ("iommu=pt intel_iommu=off", {"kernel.iommu": "off"}),
    ("intel_iommu=on", {}),
    ("pci=noats", {}),
    ("pci=config_acs=xx000xx@0000:17:00.0;x@0000:18:00.0", {"kernel.acs": "config_acs=xx000xx@0000:17:00.0;x@0000:18:00.0"}),
    ("pci=disable_acs_redir=1:0.0 pci=noats,disable_acs_redir=2:0.0", {"kernel.acs": "disable_acs_redir=2:0.0"}),
    ("transparent_hugepage=never transparent-hugepage=madvise", {"vm.thp": "madvise"}),
    ("transparent_hugepage=no", {}),
    ("numa_balancing=disable", {"kernel.numa_balancing": 0}),
    ("workqueue.unbound_cpus=0-1", {"workqueue.cpumask": "0-1"}),
    ("hugepages=16", {"kernel.hugepages": {"2Mi": {"total": 16}}}),
    ("default_hugepagesz=1G hugepages=16", {"kernel.hugepages": {"1Gi": {"total": 16}}}),
    ("hugepages=16 default_hugepagesz=1G", {"kernel.hugepages": {"1Gi": {"total": 16}}}),
    ("hugepagesz=1G hugepages=0:16,1:8", {"kernel.hugepages": {"1Gi": {"0": 16, "1": 8}}}),
    ("hugepagesz=1G hugepages=8 hugepagesz=2M hugepages=512", {"kernel.hugepages": {"1Gi": {"total": 8}, "2Mi": {"total": 512}}}),
    ("hugepages=512 hugepagesz=1G hugepages=8", {"kernel.hugepages": {"1Gi": {"total": 8}, "2Mi": {"total": 512}}}),
    ("default_hugepagesz=1G hugepagesz=1G hugepages=8", {"kernel.hugepages": {"1Gi": {"total": 8}}}),
    ("hugepagesz=1G hugepages=8 hugepagesz=1G hugepages=9", {"kernel.hugepages": {"1Gi": {"total": 8}}}),
    ("hugepagesz=1G hugepages=8 hugepages=9", {"kernel.hugepages": {"1Gi": {"total": 8}}}),
    ("hugepagesz=1X hugepages=8", {}),
    ("hugepagesz=1G hugepages=0", {}),
    ("hugepagesz=1G hugepages=x", {}),
    ("hugepagesz=16M", {}),
]


@pytest.mark.parametrize("line, wanted", MEANING, ids=[row[0] or "empty" for row in MEANING])
def test_meaning(line: str, wanted: dict) -> None:
    found = kernel_args.meaning(kernel_args.parse(line).args, 7, "2Mi")
    assert found.values == wanted
    assert all(knob in found.origin for knob in found.values)


@pytest.mark.parametrize(
    "line, token, word",
    [
        ("isolcpus=domain,managed_irq:1-30", "isolcpus=domain,managed_irq:1-30", "comma"),
        ("nohz_full=", "nohz_full=", "no CPUs"),
        ("isolcpus=2 isolcpus=3", "isolcpus=3", "first wins"),
        ("hugepagesz=1G hugepages=8 hugepages=9", "hugepages=9", "second number"),
        ("hugepagesz=1X hugepages=8", "hugepagesz=1X", "not a size"),
        ("hugepagesz=1X hugepages=8", "hugepages=8", "follows a size"),
        ("default_hugepagesz=2M default_hugepagesz=1G", "default_hugepagesz=1G", "first wins"),
        ("numa_balancing=0", "numa_balancing=0", "enable, disable only"),
        ("amd_iommu=on", "amd_iommu=on", "no option"),
    ],
)
def test_what_the_kernel_drops_is_named(line: str, token: str, word: str) -> None:
    ignored = kernel_args.meaning(kernel_args.parse(line).args, 31, "2Mi").ignored
    assert any(entry["token"] == token and word in entry["reason"] for entry in ignored), ignored


@pytest.mark.parametrize("line, names", [("isolcpus=2 isolcpus=2", ["isolcpus"]), ("console=a console=b", []), ("rcu-nocbs=1 rcu_nocbs=2", ["rcu_nocbs"])])
def test_duplicates(line: str, names: list) -> None:
    assert kernel_args.meaning(kernel_args.parse(line).args, 7).duplicates == names


@pytest.mark.parametrize(
    "token, knob",
    [
        ("isolcpus=1", "kernel.isolcpus"),
        ("nohz-full=1", "kernel.nohz_full"),
        ("hugepagesz=1G", "kernel.hugepages"),
        ("pci=noats", None),
        ("pci=noats,config_acs=x@1:0.0", "kernel.acs"),
        ("transparent_hugepage=never", "vm.thp"),
        ("quiet", None),
    ],
)
def test_knob_of(token: str, knob: Optional[str]) -> None:
    assert kernel_args.knob_of(kernel_args.parse(token).args[0]) == knob


# -- secrets


@pytest.mark.parametrize(
    "line, wanted",
    [
        ("ro quiet", "ro quiet"),
        ("rd.iscsi.password=CANARY ro", "rd.iscsi.password=******** ro"),
        ('"my.token=CANARY b" ro', '"my.token=********" ro'),
        ("x.api-key=CANARY", "x.api-key=********"),
        ("mod.opts=debug,password=CANARY", "mod.opts=debug,password=********"),
        ("ks=http://user:CANARY@host/ks.cfg", "ks=http://********@host/ks.cfg"),
        ("netroot=iscsi:user:CANARY@10.0.0.1::3260::iqn", "netroot=iscsi:********@10.0.0.1::3260::iqn"),
        ("quiet -- --token CANARY --port 1", "quiet -- --token ******** --port 1"),
        ("quiet -- --auth-required", "quiet -- --auth-required"),
        ("pci=config_acs=xx000xx@0000:17:00.0;x@0000:18:00.0", "pci=config_acs=xx000xx@0000:17:00.0;x@0000:18:00.0"),
        ("inst.rootpw=CANARY inst.sshpw=CANARY bootpw=CANARY", "inst.rootpw=******** inst.sshpw=******** bootpw=********"),
        ("wifi.psk=CANARY x.cred=CANARY mycreds=CANARY tpm.pin=CANARY", "wifi.psk=******** x.cred=******** mycreds=******** tpm.pin=********"),
        ("ks=https://h/ks?x=1&sig=CANARY&y=CANARY", "ks=https://h/ks?x=1&sig=********"),
        ("ks=https://h/ks?token=CANARY ro", "ks=https://h/ks?token=******** ro"),
        ("ks=https://h/ks?X-Amz-Signature=CANARY", "ks=https://h/ks?X-Amz-Signature=********"),
        ("ks=https://token.example/ks?x=1 pinctrl.x=1 spin=2 sig=3", "ks=https://token.example/ks?x=1 pinctrl.x=1 spin=2 sig=3"),
        ("root=UUID=1 rd.lvm.lv=vg/root", "root=UUID=1 rd.lvm.lv=vg/root"),
        ("password=", "password="),
    ],
)
def test_masked(line: str, wanted: str) -> None:
    assert kernel_args.masked(line) == wanted


# -- /etc/default/grub

GRUB = [
    ('GRUB_CMDLINE_LINUX="a=1 b"', ["a=1", "b"]),
    ("GRUB_CMDLINE_LINUX='a b'", ["a", "b"]),
    ("GRUB_CMDLINE_LINUX=a", ["a"]),
    ("GRUB_CMDLINE_LINUX=", []),
    ("export GRUB_CMDLINE_LINUX=a", ["a"]),
    ("GRUB_CMDLINE_LINUX=a\nexport GRUB_CMDLINE_LINUX\n", ["a"]),
    ("  GRUB_CMDLINE_LINUX=a # why\n", ["a"]),
    ("GRUB_CMDLINE_LINUX=a; GRUB_CMDLINE_LINUX_DEFAULT=b", ["a", "b"]),
    ("GRUB_CMDLINE_LINUX_DEFAULT=b GRUB_CMDLINE_LINUX=a", ["a", "b"]),
    ("GRUB_CMDLINE_LINUX=a#b", ["a#b"]),
    ('GRUB_CMDLINE_LINUX="a \\\n  b"', ["a", "b"]),
    ("GRUB_CMDLINE_LINUX=a\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX b\"", ["a", "b"]),
    ("GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX} b\"", ["b"]),
    ("GRUB_CMDLINE_LINUX='$GRUB_X b'", ["b"]),
    ('GRUB_CMDLINE_LINUX="a=\\"x y\\" b"', ['"a=x y"', "b"]),
    ('GRUB_CMDLINE_LINUX="pci=config_acs=x@1:0.0\\;x@2:0.0 b"', ["pci=config_acs=x@1:0.0;x@2:0.0", "b"]),
    ('GRUB_CMDLINE_LINUX="a"\'b\'c', ["abc"]),
    ("GRUB_DISTRIBUTOR=`( . /etc/os-release; echo ${NAME:-Ubuntu} ) 2>/dev/null || echo Ubuntu`\nGRUB_CMDLINE_LINUX=a", ["a"]),
    ('GRUB_DISTRIBUTOR="$(sed \'s, (.*$,,g\' /etc/system-release)"\nGRUB_CMDLINE_LINUX=a', ["a"]),
    ("if [ -x /bin/x ]; then\n  GRUB_TIMEOUT=0\nfi\nGRUB_CMDLINE_LINUX=a", ["a"]),
]


@pytest.mark.parametrize("text, wanted", GRUB)
def test_grub_defaults(text: str, wanted: list) -> None:
    found = kernel_args.grub_defaults([("/etc/default/grub", text)])
    args = found.kernel_args()
    assert args is not None
    assert [arg.raw for arg in args] == wanted


@pytest.mark.parametrize(
    "text, line, word",
    [
        ("GRUB_CMDLINE_LINUX=`cat /x`", 1, "output of a command"),
        ('\nGRUB_CMDLINE_LINUX="a $(cat /x)"', 2, "output of a command"),
        ("GRUB_CMDLINE_LINUX=$HOME", 1, "output of a command"),
        ("GRUB_CMDLINE_LINUX=${GRUB_X:-a}", 1, "output of a command"),
        ("GRUB_CMDLINE_LINUX+=a", 1, "not an assignment"),
        ("if true; then\nGRUB_CMDLINE_LINUX=a\nfi", 2, "under a condition"),
        ("GRUB_TIMEOUT=1\n. /etc/other", 2, "cannot be told"),
        ("[ -f /x ] && . /x", 1, "cannot be told"),
        ('GRUB_CMDLINE_LINUX="a', 1, "not closed"),
        ("unset GRUB_CMDLINE_LINUX", 1, "cannot be told"),
    ],
)
def test_grub_defaults_refuse_what_they_cannot_read(text: str, line: int, word: str) -> None:
    found = kernel_args.grub_defaults([("/etc/default/grub", text)])
    assert found.kernel_args() is None
    assert any(entry["file"] == f"/etc/default/grub:{line}" and word in entry["reason"] for entry in found.problems), found.problems


def test_grub_problem_quotes_nothing() -> None:
    found = kernel_args.grub_defaults([("/etc/default/grub", "echo CANARY\nGRUB_CMDLINE_LINUX=\"a $(echo CANARY)\"\nGRUB_X='CANARY")])
    assert found.problems
    assert "CANARY" not in str(found.problems)


def test_a_bare_semicolon_ends_the_line() -> None:
    found = kernel_args.grub_defaults([("/etc/default/grub", 'GRUB_CMDLINE_LINUX="pci=config_acs=x@1:0.0;x@2:0.0 b"')])
    args = found.kernel_args()
    assert args is not None
    assert [arg.raw for arg in args] == ["pci=config_acs=x@1:0.0"]
    assert "bare ';'" in found.problems[0]["reason"]


def test_each_argument_knows_its_file_and_line() -> None:
    files = [
        ("/etc/default/grub", '# one\nGRUB_CMDLINE_LINUX_DEFAULT="quiet \\\nisolcpus=1"\n'),
        ("/etc/default/grub.d/50-x.cfg", '\nGRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"\n'),
    ]
    args = kernel_args.grub_defaults(files).kernel_args()
    assert args is not None
    assert [(arg.raw, arg.source) for arg in args] == [
        ("quiet", "/etc/default/grub:2"),
        ("isolcpus=1", "/etc/default/grub:3"),
        ("iommu=pt", "/etc/default/grub.d/50-x.cfg:2"),
    ]


TOKENS = st.builds(
    lambda name, value: kernel_args.make(name, value).raw, NAMES, st.text(st.sampled_from("ab01,.:;@/$`'\\ {}&|<>#*~!()-="), max_size=15),
)


@given(st.lists(TOKENS, min_size=1, max_size=6))
def test_grub_words_reach_the_kernel_unchanged(tokens: list) -> None:
    text = f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {kernel_args.grub_words(tokens)}"\n'
    found = kernel_args.grub_defaults([("/f", "GRUB_CMDLINE_LINUX_DEFAULT=ro"), ("/g", text)])
    args = found.kernel_args()
    assert args is not None and not found.problems
    wanted = [kernel_args.parse(token).args[0] for token in tokens]
    assert [(arg.name, arg.value) for arg in args] == [("ro", None)] + [(arg.name, arg.value) for arg in wanted]


@given(st.text(alphabet=st.sampled_from("GRUB_CMDLINE_LINUX=ab\"'`$(){}\\;#& \n"), max_size=60))
def test_grub_defaults_never_raise(text: str) -> None:
    found = kernel_args.grub_defaults([("/etc/default/grub", text)])
    found.kernel_args()
    kernel_args.grub_menu(text)
    kernel_args.grubenv(text)
    kernel_args.bls_args(text, "/x", {}, "/y")


# -- grub.cfg

MENU = """\
set default="0"
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="%s"
fi
if [ x"${feature_menuentry_id}" = xy ]; then
  menuentry_id_option="--id"
fi
set extra="splash vt.handoff=7"
function load_video {
  if [ x = x ]; then insmod all_video; fi
}
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1' {
\tload_video
\tlinux\t/boot/vmlinuz-6.12 root=UUID=1 ro quiet a=simple ${extra}
\tinitrd\t/boot/initrd.img-6.12
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-1' {
\tmenuentry 'Debian, with Linux 6.12' $menuentry_id_option 'gnulinux-6.12-advanced-1' {
\t\tlinux /boot/vmlinuz-6.12 ro a=advanced
\t}
\tmenuentry 'Debian, with Linux 6.12 (recovery mode)' $menuentry_id_option 'gnulinux-6.12-recovery-1' {
\t\tlinux /boot/vmlinuz-6.12 ro single a=recovery
\t}
}
menuentry "Other > OS" { linuxefi /vmlinuz a=other "x=y z" 'q=\\;' p=1\\;2; initrd /i; }
"""


@pytest.mark.parametrize(
    "default, wanted",
    [
        ("0", "simple"),
        ("gnulinux-simple-1", "simple"),
        ("Debian GNU/Linux", "simple"),
        ("1", "advanced"),
        ("1>0", "advanced"),
        ("1>1", "recovery"),
        ("gnulinux-advanced-1>gnulinux-6.12-recovery-1", "recovery"),
        ("Advanced options>Debian, with Linux 6.12 (recovery mode)", "recovery"),
        ("2", "other"),
        ("Other > OS", "other"),
    ],
)
def test_default_entry(default: str, wanted: str) -> None:
    menu = kernel_args.grub_menu(MENU % default)
    assert menu.default == default
    assert menu.next_entry
    entry = kernel_args.find_entry(menu.entries, default)
    assert entry is not None
    args = kernel_args.entry_args(entry, menu.variables, "/boot/grub/grub.cfg")
    assert args is not None
    assert f"a={wanted}" in [arg.raw for arg in args]


def test_entry_arguments_are_those_of_the_linux_command() -> None:
    menu = kernel_args.grub_menu(MENU % "0")
    first = kernel_args.entry_args(menu.entries[0], menu.variables, "/boot/grub/grub.cfg")
    other = kernel_args.entry_args(menu.entries[2], menu.variables, "/boot/grub/grub.cfg")
    assert first is not None and other is not None
    assert [arg.raw for arg in first] == ["root=UUID=1", "ro", "quiet", "a=simple", "splash", "vt.handoff=7"]
    assert [arg.raw for arg in other] == ["a=other", '"x=y z"', "q=\\;", "p=1;2"]
    assert first[0].source == "/boot/grub/grub.cfg:19"


@pytest.mark.parametrize("default", ["3", "1>7", "nothing", "9>0"])
def test_an_entry_that_is_not_there(default: str) -> None:
    assert kernel_args.find_entry(kernel_args.grub_menu(MENU % "0").entries, default) is None


def test_grubenv() -> None:
    text = "# GRUB Environment Block\nsaved_entry=abc-1\nkernelopts=root=/dev/sda ro a=\\\\b\n###########"
    assert kernel_args.grubenv(text) == {"saved_entry": "abc-1", "kernelopts": "root=/dev/sda ro a=\\b"}


def test_bls_variables() -> None:
    text = "title x\noptions $kernelopts quiet\n# options no\noptions ${tuned_params} isolcpus=1\n"
    args, missing = kernel_args.bls_args(text, "/boot/loader/entries/a.conf", {"kernelopts": "root=/dev/sda ro"}, "/boot/grub2/grubenv")
    assert [(arg.raw, arg.source) for arg in args] == [
        ("root=/dev/sda", "/boot/grub2/grubenv"),
        ("ro", "/boot/grub2/grubenv"),
        ("quiet", "/boot/loader/entries/a.conf:2"),
        ("isolcpus=1", "/boot/loader/entries/a.conf:4"),
    ]
    assert missing == ["tuned_params"]


def test_kernels_sort_by_version() -> None:
    names = ["a-5.14.0-70.el9", "a-5.14.0-503.el9", "a-5.14.0-503.2.el9", "a-6.1~rc1", "a-6.1"]
    shuffled = [names[index] for index in (4, 1, 3, 0, 2)]
    assert sorted(shuffled, key=kernel_args.version_key) == names


# -- what a line has and lacks, and taking words out of files

LACKS = [
    ("ro a=1 b=2", ["a=1", "b=2"], []),
    ("ro b=2 a=1", ["a=1", "b=2"], ["in another order"]),
    ("ro a=1", ["a=1", "b=2"], ["'b=2' is missing"]),
    ("a=1 a=1", ["a=1"], ["twice"]),
    ("a=1 a=3", ["a=1"], ["'a=3' is there too"]),
    ("a-b=1", ["a_b=1"], []),
    ('x="a b"', ['"x=a b"'], []),
    ("hugepagesz=1G hugepages=8 hugepagesz=2M hugepages=4", ["hugepagesz=2M", "hugepages=4"], ["'hugepagesz=1G' is there too"]),
    ("pci=noats pci=config_acs=1@1:0.0", ["pci=config_acs=1@1:0.0"], []),
    ("pci=config_acs=0@1:0.0 pci=config_acs=1@1:0.0", ["pci=config_acs=1@1:0.0"], ["'pci=config_acs=0@1:0.0' is there too"]),
    ("api_token=x", ["api_token=y"], ["'api_token=********' is missing"]),
    ("", [], []),
]


@pytest.mark.parametrize("line, ours, said", LACKS)
def test_lacks(line: str, ours: list, said: list) -> None:
    reasons = kernel_args.lacks(kernel_args.parse(line).args, [kernel_args.parse(token).args[0] for token in ours])
    assert bool(reasons) == bool(said)
    assert all(text in "; ".join(reasons) for text in said)


def test_what_lacks_finds_is_what_merge_mends() -> None:
    for line, ours, _said in LACKS:
        args = [kernel_args.parse(token).args[0] for token in ours]
        assert kernel_args.lacks(kernel_args.merge(kernel_args.parse(line).args, args), args) == []


BLOCK = f"{kernel_args.BLOCK_BEGIN} (x)\nA=1\n{kernel_args.BLOCK_END}\n"


@pytest.mark.parametrize(
    "text, lines, rest",
    [
        ("", [], ""),
        ("a\nb\n", [], "a\nb\n"),
        (f"a\n{BLOCK}", [2, 3, 4], "a\n"),
        (f"{BLOCK}b", [1, 2, 3], "b"),
        (f"a\n{kernel_args.BLOCK_BEGIN}\nb\n", [], f"a\n{kernel_args.BLOCK_BEGIN}\nb\n"),
        (f"{kernel_args.BLOCK_END}\na\n", [], f"{kernel_args.BLOCK_END}\na\n"),
    ],
)
def test_our_part_of_a_file(text: str, lines: list, rest: str) -> None:
    assert list(kernel_args.block_lines(text)) == lines
    assert kernel_args.without_block(text) == rest


@pytest.mark.parametrize(
    "text, line, raw, rest",
    [
        ('A="x=1 y"', 1, "x=1", 'A="y"'),
        ('A="y x=1"', 1, "x=1", 'A="y"'),
        ('A="y x=1 z"', 1, "x=1", 'A="y z"'),
        ("A=x=1", 1, "x=1", "A="),
        ("B=\nA='x=1'\n", 2, "x=1", "B=\nA=''\n"),
        ('A="x=1 x=1"', 1, "x=1", None),
        ('A="x=12 yx=1"', 1, "x=1", None),
        ('A="x=1"', 2, "x=1", None),
        ('A="x=1"', 0, "x=1", None),
    ],
)
def test_without_word(text: str, line: int, raw: str, rest: Optional[str]) -> None:
    assert kernel_args.without_word(text, line, raw) == rest
