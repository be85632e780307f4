# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments written for good, for each kind of loader: nothing of others is lost, and nothing stays when they go.

The tools are stand-ins (paper_loaders.py). Tests whose real tool was never met have "recorded" in their names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Sequence, Tuple

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import boot, boot_files, boot_steps, kernel_args, knobs, state_boot
from ansible_collections.inferops.locality.plugins.module_utils.boot_files import BootError
from ansible_collections.inferops.locality.plugins.module_utils.boot_steps import Outcome, Wish
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot
from ansible_collections.inferops.locality.tests.unit import paper_loaders

ARGS = ["isolcpus=managed_irq,2-7", "irqaffinity=0-1", "hugepagesz=1G", "hugepages=0:8,1:8", "hugepagesz=2M", "hugepages=512"]
ACS = "pci=config_acs=xx000xx@0000:17:00.0;xx000xx@0000:18:00.0"


def give(paper: paper_loaders.Paper, args: Sequence[str], check: bool = False, **wish: bool) -> Outcome:
    return boot_steps.present(paper.node(), args, Wish(**wish), check)  # type: ignore[arg-type]


def next_args(paper: paper_loaders.Paper) -> list[str]:
    found = paper.node().boot().args
    assert found is not None
    return [arg.raw for arg in found]


# -- drop-ins of grub-mkconfig


def test_a_drop_in_reaches_the_next_boot_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    outcome = give(paper, ARGS)
    assert (outcome.loader, outcome.changed, outcome.written) == ("grub-drop-in", True, [knobs.FILE_GRUB])
    assert paper.calls == [["update-grub"]]
    assert next_args(paper) == ["root=UUID=1", "ro", "quiet", *ARGS]
    assert outcome.next_boot["args"] == next_args(paper) and outcome.next_boot["entry"] == "gnulinux-simple-1"
    assert outcome.reboot_required
    again = give(paper, ARGS)
    assert (again.changed, again.written, again.diff, again.reboot_required) == (False, [], [], True)
    assert paper.calls == [["update-grub"]]
    paper.boot()
    assert not give(paper, ARGS).reboot_required


def test_check_mode_says_the_same_and_does_nothing(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    before = paper.tree()
    planned = give(paper, ARGS, check=True)
    assert paper.tree() == before and paper.calls == []
    done = give(paper, ARGS)
    assert (planned.changed, planned.written, planned.commands, planned.diff) == (done.changed, done.written, done.commands, done.diff)
    assert planned.next_boot["args"] == done.next_boot["args"]
    assert planned.reboot_required and done.reboot_required


@pytest.mark.parametrize("token", [ACS, 'dyndbg="file a.c +p; file b.c +p"', "x=$y", "x=`id`", "x=a\\b", "x='y'", "x=${z}&|<>#"])
def test_every_character_comes_through_the_shell_and_grub(tmp_path: Path, token: str) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    give(paper, [token])
    wanted = kernel_args.parse(token).args[0]
    assert (wanted.name, wanted.value) in [(arg.name, arg.value) for arg in paper.node().boot().args or []]


def test_what_was_given_before_and_is_not_listed_goes(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    give(paper, ARGS)
    give(paper, ["irqaffinity=0"])
    assert next_args(paper) == ["root=UUID=1", "ro", "quiet", "irqaffinity=0"]


def test_removal_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub.d/50-x.cfg": "GRUB_TIMEOUT=1\n"})
    before = paper.tree()
    give(paper, ARGS)
    outcome = boot_steps.absent(paper.node())
    assert outcome.changed and outcome.reboot_required is False
    assert paper.tree() == before
    assert not (tmp_path / "var/lib/inferops-locality").exists()
    assert not boot_steps.absent(paper.node()).changed


def test_no_arguments_are_the_same_as_removal(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub.d/50-x.cfg": ""})
    before = paper.tree()
    give(paper, ARGS)
    assert give(paper, []).changed
    assert paper.tree() == before


FOREIGN = [
    ({"/etc/default/grub": 'A=1\nGRUB_CMDLINE_LINUX="isolcpus=1 ro"\n'}, "/etc/default/grub:2"),
    ({"/etc/default/grub.d/50-x.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT irqaffinity=3"\n'}, "/etc/default/grub.d/50-x.cfg:1"),
    ({"/etc/default/grub.d/95-x.cfg": 'GRUB_CMDLINE_LINUX="hugepages=3"\n'}, "/etc/default/grub.d/95-x.cfg:1"),
]


@pytest.mark.parametrize("files, place", FOREIGN)
def test_arguments_of_others_are_named_and_nothing_is_written(tmp_path: Path, files: dict[str, str], place: str) -> None:
    paper = paper_loaders.Debian(tmp_path, files)
    before = paper.tree()
    with pytest.raises(BootError, match=place.replace(".", r"\.")) as error:
        give(paper, ARGS)
    assert [f"{entry['file']}:{entry['line']}" for entry in error.value.foreign] == [place]
    assert paper.tree() == before and paper.calls == []


@pytest.mark.parametrize("files, place", FOREIGN)
def test_arguments_of_others_are_taken_over_and_come_back(tmp_path: Path, files: dict[str, str], place: str) -> None:
    paper = paper_loaders.Debian(tmp_path, files)
    before, line = paper.tree(), next_args(paper)
    outcome = give(paper, ARGS, adopt=True)
    assert [f"{entry['file']}:{entry['line']}" for entry in outcome.foreign] == [place]
    own = [kernel_args.parse(token).args[0] for token in ARGS]
    assert kernel_args.lacks(paper.node().boot().args or [], own) == []
    assert not give(paper, ARGS).changed, "what was taken over is nobody's any more"
    assert not boot_steps.absent(paper.node()).warnings
    assert paper.tree() == before and next_args(paper) == line


def test_a_file_that_was_changed_after_it_was_taken_over_keeps_the_change(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub": 'GRUB_CMDLINE_LINUX="isolcpus=1 ro"\n'})
    give(paper, ARGS, adopt=True)
    paper.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX="ro debug"\n')
    outcome = boot_steps.absent(paper.node())
    assert paper.text("/etc/default/grub") == 'GRUB_CMDLINE_LINUX="ro debug"\n'
    assert ["isolcpus=1" in warning for warning in outcome.warnings] == [True]


@pytest.mark.parametrize(
    "line",
    [
        'GRUB_CMDLINE_LINUX="pci=noats,config_acs=x@1:0.0"',
        'X=isolcpus=1; GRUB_CMDLINE_LINUX="$X isolcpus=3"; Y="isolcpus=3"',
        'GRUB_CMDLINE_LINUX="isol""cpus=1"',
    ],
)
def test_what_cannot_be_taken_over_safely_is_refused(tmp_path: Path, line: str) -> None:
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub": line + "\n"})
    before = paper.tree()
    with pytest.raises(BootError, match=r"/etc/default/grub:\d"):
        give(paper, ["isolcpus=2-3", "pci=config_acs=xx000xx@0000:17:00.0"], adopt=True)
    assert paper.tree() == before


UNREADABLE = [
    ('GRUB_CMDLINE_LINUX="$(cat /x)"\n', "/etc/default/grub:1"),
    ("A=1\nGRUB_CMDLINE_LINUX=`uname`\n", "/etc/default/grub:2"),
    ('A=1\n\nif true; then GRUB_CMDLINE_LINUX="x"; fi\n', "/etc/default/grub:3"),
    ('GRUB_CMDLINE_LINUX="open\n', "/etc/default/grub:1"),
    (". /etc/other\n", "/etc/default/grub:1"),
    ('GRUB_CMDLINE_LINUX="a;b"\n', "/etc/default/grub:1"),
]


@pytest.mark.parametrize("text, place", UNREADABLE)
@pytest.mark.parametrize("kind", [paper_loaders.Debian, paper_loaders.Suse])
def test_a_file_that_cannot_be_understood_is_refused_with_its_line(tmp_path: Path, kind: type[paper_loaders.Debian], text: str, place: str) -> None:
    paper = kind(tmp_path, {})
    paper.put("/etc/default/grub", text)
    before = paper.tree()
    with pytest.raises(BootError, match=place):
        give(paper, ARGS)
    assert paper.tree() == before and paper.calls == []


def test_a_later_file_that_drops_ours_is_named(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {"/etc/default/grub.d/99-z.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="debug"\n'})
    before = paper.tree()
    with pytest.raises(BootError, match=r"is missing.*99-z\.cfg is read later"):
        give(paper, ARGS)
    assert paper.tree() == before


def without_pending(paper: paper_loaders.Paper) -> dict[str, bytes]:
    """The mark stays, so that the next run makes the menu once more."""
    left = paper.tree()
    left.pop(boot.PENDING)
    return left


def test_all_is_put_back_when_the_command_fails(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    before = paper.tree()
    paper.broken["update-grub"] = "out of space"
    with pytest.raises(BootError, match=r"'update-grub' failed with 1: out of space"):
        give(paper, ARGS)
    assert without_pending(paper) == before
    paper.broken.clear()
    assert give(paper, ARGS).changed


def test_all_is_put_back_when_the_next_boot_does_not_have_them(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    paper.put("/etc/grub.d/10_linux", paper.text("/etc/grub.d/10_linux").replace(" $GRUB_CMDLINE_LINUX_DEFAULT", " quiet"), 0o755)
    before = paper.tree()
    with pytest.raises(BootError, match=r"grub\.cfg:\d+: the entry of the next boot is not as wanted: 'isolcpus=managed_irq,2-7' is missing"):
        give(paper, ARGS)
    assert without_pending(paper) == before


def test_a_run_that_was_cut_before_the_menu_was_made_is_finished_by_the_next(tmp_path: Path) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    give(paper, ARGS)
    paper.put("/boot/grub/grub.cfg", paper.text("/boot/grub/grub.cfg").replace(" irqaffinity=0-1", ""))
    paper.calls.clear()
    assert give(paper, ARGS).changed
    assert paper.calls == [["update-grub"]]
    (tmp_path / knobs.FILE_GRUB.lstrip("/")).unlink()
    paper.put(boot.PENDING, "")
    assert boot_steps.absent(paper.node()).changed
    assert next_args(paper) == ["root=UUID=1", "ro", "quiet"]


@pytest.mark.parametrize(
    "args, reason",
    [
        (["a b"], "is not one kernel argument"),
        (["", "a=1"], "is not one kernel argument"),
        (["a=1\n"], "is not one kernel argument"),
        (["--"], "is not one kernel argument"),
        (['x="y'], "is not one kernel argument"),
        (["isolcpus=1", "isolcpus=2"], "twice"),
        (["x=" + "y" * 1900], "cuts it"),
    ],
)
def test_arguments_that_are_none_are_refused(tmp_path: Path, args: list[str], reason: str) -> None:
    paper = paper_loaders.Debian(tmp_path, {})
    before = paper.tree()
    with pytest.raises(BootError, match=reason):
        give(paper, args)
    assert paper.tree() == before


class Nothing(boot.Runner):
    """No command may be run."""

    def find(self, program: str) -> bool:
        raise AssertionError(program)

    def run(self, argv: Sequence[str]) -> Tuple[int, str, str]:
        raise AssertionError(argv)


def test_below_a_root_files_are_written_and_nothing_is_run(tmp_path: Path) -> None:
    paper_loaders.Debian(tmp_path, {})
    node = boot.Node(str(tmp_path), Nothing())
    outcome = boot_steps.present(node, ARGS, Wish(boot_once=True))
    assert outcome.written == [knobs.FILE_GRUB] and outcome.commands == [] and not outcome.reboot_required
    assert outcome.next_boot["args"] == ["quiet", *ARGS]
    assert not boot_steps.present(node, ARGS, Wish(boot_once=True)).changed
    assert boot_steps.absent(node).changed
    assert not (tmp_path / knobs.FILE_GRUB.lstrip("/")).exists()


def test_a_link_that_leaves_the_root_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    paper_loaders.Debian(inside, {})
    (inside / "etc/default/grub.d").symlink_to(outside)
    with pytest.raises(BootError, match="leaves the root"):
        boot_steps.present(boot.Node(str(inside), Nothing()), ARGS, Wish())
    assert list(outside.iterdir()) == []


def test_loaders_that_are_not_supported_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BootError, match="found boot loader 'unknown'"):
        boot_steps.present(boot.Node(str(empty), Nothing()), ARGS, Wish())
    assert not boot_steps.absent(boot.Node(str(empty), Nothing())).changed, "nothing was given, nothing is there to take"
    (empty / boot.DIR.lstrip("/")).mkdir(parents=True)
    with pytest.raises(BootError, match="found boot loader 'unknown'"):
        boot_steps.absent(boot.Node(str(empty), Nothing()))
    paper = paper_loaders.Debian(tmp_path / "uki", {"/boot/efi/EFI/Linux/debian.efi": ""})
    with pytest.raises(BootError, match=r"debian\.efi"):
        give(paper, ARGS)


# -- one file: SLES


def test_recorded_pbl_makes_the_menu_from_a_marked_part(tmp_path: Path) -> None:
    paper = paper_loaders.Suse(tmp_path, {"/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="splash=silent quiet"\nGRUB_TIMEOUT=8\n'})
    outcome = give(paper, ARGS)
    assert outcome.loader == "grub-default" and paper.calls == [["pbl", "--config"]]
    assert next_args(paper) == ["root=UUID=1", "ro", "splash=silent", "quiet", *ARGS]
    assert not give(paper, ARGS).changed
    give(paper, ["irqaffinity=0"])
    assert next_args(paper) == ["root=UUID=1", "ro", "splash=silent", "quiet", "irqaffinity=0"]
    found = state_boot.read_boot(paper.node().sysroot(), False)
    assert [arg.raw for arg in found.foreign_args] == ["splash=silent", "quiet"]


def test_recorded_grub2_mkconfig_is_called_where_pbl_is_not(tmp_path: Path) -> None:
    paper = paper_loaders.Suse(tmp_path, {})
    paper.programs = ("grub2-mkconfig", "systemctl")
    give(paper, ARGS)
    assert paper.calls == [["grub2-mkconfig", "-o", "/boot/grub2/grub.cfg"]]


CORPUS = ["grub-02-one-line-no-newline.txt", "grub-04-debian-backticks-empty.txt", "grub-06-backslash-continuation.txt", "grub-10-insights-blscfg.txt"]


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("kind", [paper_loaders.Debian, paper_loaders.Suse])
def test_recorded_files_of_real_machines_come_back_byte_by_byte(tmp_path: Path, corpus: Path, kind: type[paper_loaders.Debian], name: str) -> None:
    text = (corpus / "config" / name).read_text(encoding="utf-8")
    paper = kind(tmp_path, {"/etc/default/grub": text, "/etc/default/grub.d/50-x.cfg": ""})
    before, line = paper.tree(), next_args(paper)
    give(paper, ["irqaffinity=0-1"])
    assert next_args(paper) == [*line, "irqaffinity=0-1"], "arguments of others keep their order and number"
    boot_steps.absent(paper.node())
    assert paper.tree() == before


def test_recorded_one_file_changed_by_others_loses_our_part_only(tmp_path: Path) -> None:
    paper = paper_loaders.Suse(tmp_path, {"/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"'})
    give(paper, ARGS)
    text = paper.text("/etc/default/grub")
    paper.put("/etc/default/grub", text.replace("quiet", "quiet debug") + "GRUB_TIMEOUT=3\n")
    boot_steps.absent(paper.node())
    assert paper.text("/etc/default/grub") == 'GRUB_CMDLINE_LINUX_DEFAULT="quiet debug"\nGRUB_TIMEOUT=3\n'


# -- BLS entries


def test_recorded_grubby_is_called_once_with_all_arguments(tmp_path: Path) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    outcome = give(paper, ARGS)
    assert paper.calls == [["grubby", "--update-kernel=ALL", f"--args={' '.join(ARGS)}"]]
    assert outcome.loader == "bls" and outcome.changed
    for version in ("5.14.0-1", "5.14.0-2"):
        assert f"/boot/loader/entries/abc-{version}.conf" in outcome.written
        assert paper.options(version) == "root=UUID=1 ro quiet " + " ".join(ARGS)
    assert outcome.next_boot["entry"] == "abc-5.14.0-2" and outcome.reboot_required
    assert not give(paper, ARGS).changed and len(paper.calls) == 1
    found = state_boot.read_boot(paper.node().sysroot(), False)
    assert [arg.raw for arg in found.foreign_args] == ["root=UUID=1", "ro", "quiet"], "what we gave is not foreign"


def test_recorded_grubby_takes_away_what_is_not_listed_and_all_at_the_end(tmp_path: Path) -> None:
    paper = paper_loaders.RedHat(tmp_path, options="root=UUID=1 ro quiet pci=noats")
    before = paper.tree()
    give(paper, [*ARGS, "pci=disable_acs_redir=17:00.0"])
    give(paper, ["irqaffinity=0"])
    assert paper.options() == "root=UUID=1 ro quiet pci=noats irqaffinity=0"
    boot_steps.absent(paper.node())
    assert paper.tree() == before
    assert not boot_steps.absent(paper.node()).changed


def test_recorded_grubby_leaves_arguments_of_others_unless_told(tmp_path: Path) -> None:
    paper = paper_loaders.RedHat(tmp_path, options="root=UUID=1 isolcpus=1 ro")
    before = paper.tree()
    with pytest.raises(BootError, match=r"abc-5\.14\.0-1\.conf:5"):
        give(paper, ARGS)
    assert paper.tree() == before and paper.calls == []
    give(paper, ARGS, adopt=True)
    assert paper.options() == "root=UUID=1 ro " + " ".join(ARGS)
    boot_steps.absent(paper.node())
    assert sorted(paper.options().split()) == sorted(["root=UUID=1", "isolcpus=1", "ro"])


@pytest.mark.parametrize("token", [ACS, 'x="a b"', "x=a*b", "x=a&b", "x=a\\b"])
def test_recorded_grubby_is_not_given_what_it_would_spoil(tmp_path: Path, token: str) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    with pytest.raises(BootError, match="grubby cannot be trusted"):
        give(paper, [token])
    assert paper.calls == []


def test_recorded_grubby_that_does_nothing_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    before = paper.tree()
    monkeypatch.setattr(paper, "grubby", lambda *_argv: None)
    with pytest.raises(BootError, match=r"abc-5\.14\.0-2\.conf: the entry of the next boot is not as wanted"):
        give(paper, ARGS)
    assert without_pending(paper) == before


def test_recorded_entries_that_take_their_arguments_from_elsewhere_are_refused(tmp_path: Path, corpus: Path) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    paper.put("/boot/loader/entries/abc-9.conf", (corpus / "config/bls-01-rocky8-tuned-vars.conf").read_text(encoding="utf-8"))
    with pytest.raises(BootError, match="kernelopts"):
        give(paper, ARGS)
    assert paper.calls == []


def test_recorded_entry_of_a_real_machine_keeps_its_duplicates(tmp_path: Path, corpus: Path) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    for path in (tmp_path / "boot/loader/entries").iterdir():
        path.unlink()
    paper.put("/boot/loader/entries/f.conf", (corpus / "config/bls-04-fedora39-duplicate-console.conf").read_text(encoding="utf-8"))
    line = next_args(paper)
    assert sum(word.startswith("console=") for word in line) == 2
    give(paper, ["irqaffinity=0-1"])
    assert next_args(paper) == [*line, "irqaffinity=0-1"]


def test_entries_need_the_running_node(tmp_path: Path) -> None:
    paper_loaders.RedHat(tmp_path)
    with pytest.raises(BootError, match="needs the running node"):
        boot_steps.present(boot.Node(str(tmp_path), Nothing()), ARGS, Wish())


@pytest.mark.parametrize("text", ["{", "[]", '{"edited": 1}'])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    paper = paper_loaders.RedHat(tmp_path)
    paper.put(state_boot.FILE_RECORD, text)
    with pytest.raises(BootError, match=r"record\.json"):
        boot_steps.absent(paper.node())


# -- files


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "etc/x"
    target.parent.mkdir()
    target.write_text("a")
    target.chmod(0o640)
    files = boot_files.Files(SysRoot(str(tmp_path)))
    files.write("/etc/x", "b")
    files.apply()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("b", 0o640)
    files.undo()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("a", 0o640)
    assert [path.name for path in target.parent.iterdir()] == ["x"], "nothing is left beside it"


def test_files_before_one_that_cannot_be_written_are_put_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "b").write_text("a file where a folder is wanted")
    files = boot_files.Files(SysRoot(str(tmp_path)))
    files.write("/a", "new")
    files.write("/b/c", "new")
    with pytest.raises(BootError, match="/b/c cannot be written"):
        files.apply()
    assert (tmp_path / "a").read_text() == "old"
