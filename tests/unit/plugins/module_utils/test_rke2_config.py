# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RKE2's configuration: the YAML it uses, its merge rules, and what never leaves the node."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.inferops.locality.plugins.module_utils import rke2_config
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CANARY = "K10canary::server:0f1e2d3c4b5a"


def node(tmp_path: Path, files: Dict[str, str]) -> SysRoot:
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return SysRoot(str(tmp_path))


def read(tmp_path: Path, files: Dict[str, str]) -> rke2_config.Rke2Config:
    return rke2_config.read(node(tmp_path, files))


def plain(entries: list) -> list:
    """What was read, in the shape of PyYAML's BaseLoader; None for what is not read."""
    return [(entry.key, None if entry.kind == "nested" else [item.text for item in entry.items] if entry.kind == "list" else entry.items[0].text)
            for entry in entries]


FORMS = {
    "plain": ("node-name: gpu-1\n", [("node-name", "gpu-1")]),
    "double quoted with an escape": ('a: "x\\ty\\u00e9"\n', [("a", "x\tyé")]),
    "single quoted": ("a: 'it''s'\n", [("a", "it's")]),
    "quoted key": ('"kubelet-arg": v=1\n', [("kubelet-arg", "v=1")]),
    "blank before the colon": ("a : b\n", [("a", "b")]),
    "null": ("a:\nb: ~\n", [("a", ""), ("b", "~")]),
    "list not indented": ("a:\n- x\n- y\nb: z\n", [("a", ["x", "y"]), ("b", "z")]),
    "list indented by one": ("a:\n - x\n - y\nb: z\n", [("a", ["x", "y"]), ("b", "z")]),
    "list indented by seven": ("a:\n       - x\n", [("a", ["x"])]),
    "mapping indented": ("  a: b\n  c:\n  - d\n", [("a", "b"), ("c", ["d"])]),
    "comments": ("# one\na: b # two\nc:\n  # three\n  - d#e # four\n# five\n", [("a", "b"), ("c", ["d#e"])]),
    "flow list": ("a: [x, 'y, z', \"w\"]  # end\n", [("a", ["x", "y, z", "w"])]),
    "flow list over lines": ("a: [\n  x,  # one\n  y\n]\nb: c\n", [("a", ["x", "y"]), ("b", "c")]),
    "flow list, comma at the end": ("a: [x,]\n", [("a", ["x"])]),
    "flow list, empty": ("a: []\n", [("a", [])]),
    "flag with equals and colon": ("a:\n- eviction-hard=memory.available<500Mi\n- x=0:memory=6Gi;1:memory=6Gi\n",
                                   [("a", ["eviction-hard=memory.available<500Mi", "x=0:memory=6Gi;1:memory=6Gi"])]),
    "dashes are no list": ("a:\n- --v=2\n", [("a", ["--v=2"])]),
    "brackets inside a plain value": ("a:\n- --c=[X,Y]\n", [("a", ["--c=[X,Y]"])]),
    "literal block": ("a: |\n  x\n   y\n\n  z\nb: c\n", [("a", "x\n y\n\nz\n"), ("b", "c")]),
    "literal block, strip and keep": ("a: |-\n  x\nb: |+\n  y\n\nc: d\n", [("a", "x"), ("b", "y\n\n"), ("c", "d")]),
    "literal block with an indent": ("a: |2\n   x\n", [("a", " x\n")]),
    "folded block": ("a: >-\n  x\n  y\n", [("a", "x y")]),
    "block in a list": ("a:\n- |-\n  x\n- y\n", [("a", ["x", "y"])]),
    "one document marker": ("---\na: b\n...\n# end\n", [("a", "b")]),
    "windows line ends": ("a: b\r\nc:\r\n- d\r\n", [("a", "b"), ("c", ["d"])]),
    "byte order mark": ("\ufeffa: b\n", [("a", "b")]),
    "only comments": ("# nothing\n\n", []),
    "no line end": ("a: b", [("a", "b")]),
    "nested mapping": ("a:\n  b: 'c'\n  d:\n  - e\nf: g\n", [("a", None), ("f", "g")]),
    "nested mapping in a flow": ("a: {b: [c, 'd}']}\nf: g\n", [("a", None), ("f", "g")]),
    "nested mapping with a block that looks like keys": ("a:\n  b: |\n    token: \"x\n    [\nf: g\n", [("a", None), ("f", "g")]),
    "nested list": ("a:\n- - x\n- y\nf: g\n", [("a", None), ("f", "g")]),
    "mapping in a list": ("a:\n- b: c\n  d: e\n- f\ng: h\n", [("a", None), ("g", "h")]),
    "folded block with paragraphs": ("a: >\n  x\n\n  y\nb: c\n", [("a", None), ("b", "c")]),
}


@pytest.mark.parametrize("text, wanted", FORMS.values(), ids=FORMS)
def test_form_is_read_as_yaml_has_it(text: str, wanted: list) -> None:
    assert plain(rke2_config.parse(text)) == wanted
    loaded = yaml.load(text, yaml.BaseLoader) or {}
    assert {key: value for key, value in wanted if value is not None} == {key: loaded[key] for key, value in wanted if value is not None}


REFUSED = {
    "anchor": ("a: &x b\n", 1, "anchor"),
    "alias": ("a: b\nc: *x\n", 2, "anchor"),
    "tag": ("a: !!str b\n", 1, "tag"),
    "merge key": ("<<: b\n", 1, "not 'key: value'"),
    "tab before a key": ("a: b\n\tc: d\n", 2, "tab"),
    "tab in a value": ("a: b\tc\n", 1, "tab"),
    "tab behind a colon": ("a:\tb\n", 1, "not 'key: value'"),
    "two documents": ("a: b\n---\nc: d\n", 2, "second document"),
    "text behind the end": ("a: b\n...\nc: d\n", 3, "second document"),
    "directive": ("%YAML 1.1\n---\na: b\n", 1, "directive"),
    "quote over lines": ('a: "b\nc: d"\n', 1, "does not end"),
    "plain value over lines": ("a: b\n  c\nd: e\n", 2, "goes on"),
    "list item over lines": ("a:\n- b\n  c\n", 3, "goes on"),
    "open flow list": ("a: [b,\nc\n", 3, "ends within"),
    "mapping in a flow list": ("a: [b, c: d]\n", 1, "not read here"),
    "missing comma": ('a: ["b" "c"]\n', 1, "not read here"),
    "two commas": ("a: [b,,c]\n", 1, "comma"),
    "text behind a flow list": ("a: [b] c\n", 1, "behind a list"),
    "text behind a quote": ("a: 'b'c\n", 1, "behind a quoted"),
    "unknown escape": ('a: "\\d"\n', 1, "escape"),
    "half a character": ('a: "\\ud800"\n', 1, "no character"),
    "list at the top": ("- a\n", 1, "not 'key: value'"),
    "text at the top": ("just words\n", 1, "not 'key: value'"),
    "flow mapping at the top": ("{a: b}\n", 1, "not 'key: value'"),
    "key without a blank": ("a:b\n", 1, "not 'key: value'"),
    "mapping as a value": ("a: b: c\n", 1, "mapping"),
    "less indented key": ("  a: b\nc: d\n", 2, "indented"),
    "list less indented": ("a:\n    - b\n  - c\n", 3, "indented"),
    "block of blanks": ("a: |+\n  \n", 1, "blanks only"),
    "block that ends in blanks": ("a: |-\n  b\n    ", 3, "ends in blanks"),
    "control character": ("a: b\x01\n", 1, "character"),
    "quote left open in a nested mapping": ('a:\n  b: "c\ntoken: d"\n', 2, "does not end"),
    "bracket left open in a nested mapping": ("a:\n  b: [c,\ntoken]\n", 2, "do not close"),
}


@pytest.mark.parametrize("text, line, reason", REFUSED.values(), ids=REFUSED)
def test_what_could_mean_something_else_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(rke2_config.ConfigError, match=reason) as caught:
        rke2_config.parse(text)
    assert caught.value.line == line


# Texts made of what YAML gives a meaning, so that documents go wrong in every way.
_PIECES = ["a", "b", "kubelet-arg", "kubelet-arg+", "x=1", "0", "- ", "-", "  ", " ", ": ", ":", "\n", "\n", "\n", "\n- ", "\n  - ", "\n  ", "'", '"',
           "[", "]", "{", "}", ", ", ",", "#", " #", "|", ">", "|-", "|+", "|2", "&a ", "*a", "!", "?", "? ", "---", "...", "\t", "~", "%", "\\", "é"]


@given(st.lists(st.sampled_from(_PIECES), max_size=24).map("".join))
def test_any_text_is_read_as_pyyaml_reads_it_or_refused(text: str) -> None:
    try:
        entries = rke2_config.parse(text)
    except rke2_config.ConfigError:
        return
    try:
        loaded = yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError:
        # only what lies below a key that is not read may be wrong
        assert any(entry.kind == "nested" for entry in entries), text
        return
    seen = dict(plain(entries))
    assert list(seen) == list(loaded or {})
    for key, value in seen.items():
        assert value is None or value == loaded[key]


_SCALARS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="\n\r\x85\u2028\u2029\ufeff"), max_size=20)
_KEYS = st.from_regex(r"[a-z][a-z0-9-]{0,10}\+?", fullmatch=True)
_VALUES = st.one_of(_SCALARS, st.lists(_SCALARS, min_size=1, max_size=4), st.dictionaries(_KEYS, _SCALARS, min_size=1, max_size=2))


@given(st.dictionaries(_KEYS, _VALUES, min_size=1), st.sampled_from([(False, None), (False, '"'), (False, "'"), (None, '"')]))
def test_documents_printed_by_pyyaml_are_read_back(document: dict, form: tuple) -> None:
    text = yaml.safe_dump(document, default_flow_style=form[0], default_style=form[1], width=10**6, allow_unicode=True, sort_keys=False)
    wanted = [(key, None if isinstance(value, dict) else value) for key, value in document.items()]
    assert plain(rke2_config.parse(text)) == wanted


_ARGS = st.lists(st.sampled_from(["cpu-manager-policy=static", "v=5", "reserved-cpus=0-1,64-65", "--max-pods=250", "protect-kernel-defaults"]), max_size=4)


@given(_ARGS, st.sampled_from(["- {}", "  - {}", "    - \"{}\"", "- '{}'  # why"]))
def test_kubelet_arguments_keep_their_order_and_lines(args: list, form: str) -> None:
    text = "# head\ncni: none\nkubelet-arg:\n" + "".join(form.format(arg) + "\n" for arg in args) + "token: x\n"
    entry = next(entry for entry in rke2_config.parse(text) if entry.key == "kubelet-arg")
    if args:
        assert [(item.text, item.line) for item in entry.items] == [(arg, 4 + index) for index, arg in enumerate(args)]
    else:
        assert entry.kind == "scalar"


def flags(config: rke2_config.Rke2Config) -> list:
    return [(arg.flag, arg.value, f"{Path(arg.file).name}:{arg.line}") for arg in config.kubelet_args]


MAIN = "/etc/rancher/rke2/config.yaml"
DROP = "/etc/rancher/rke2/config.yaml.d/"

MERGES = {
    "main file alone": ({MAIN: "kubelet-arg:\n- v=1\n"}, [("v", "1", "config.yaml:2")]),
    "later file replaces": ({MAIN: "kubelet-arg: [v=1]\n", DROP + "50.yaml": "kubelet-arg: [v=2]\n"}, [("v", "2", "50.yaml:1")]),
    "plus appends": ({MAIN: "kubelet-arg: [v=1]\n", DROP + "50.yaml": "kubelet-arg+: [v=2]\n"}, [("v", "1", "config.yaml:1"), ("v", "2", "50.yaml:1")]),
    "plus first, then replaced": ({MAIN: "kubelet-arg+: [v=1]\n", DROP + "50.yaml": "kubelet-arg: [v=2]\n"}, [("v", "2", "50.yaml:1")]),
    "name order, not age": ({DROP + "90.yaml": "kubelet-arg+: [v=9]\n", DROP + "10.yaml": "kubelet-arg: [v=1]\n"},
                            [("v", "1", "10.yaml:1"), ("v", "9", "90.yaml:1")]),
    "yml counts, other names do not": ({DROP + "a.YML": "kubelet-arg+: [v=1]\n", DROP + "b.txt": "kubelet-arg+: [v=2]\n", DROP + "c.yaml.bak": "x"},
                                       [("v", "1", "a.YML:1")]),
    "a text is a list of one": ({MAIN: "kubelet-arg: v=1\n", DROP + "50.yaml": "kubelet-arg+: v=2\n"},
                                [("v", "1", "config.yaml:1"), ("v", "2", "50.yaml:1")]),
    "twice in one file": ({MAIN: "kubelet-arg+: [v=1]\nkubelet-arg+: [v=2]\n"}, [("v", "1", "config.yaml:1"), ("v", "2", "config.yaml:2")]),
    "dashes and a flag alone": ({MAIN: "kubelet-arg: [--v=1, --protect-kernel-defaults]\n"},
                                [("v", "1", "config.yaml:1"), ("protect-kernel-defaults", "true", "config.yaml:1")]),
    "split at the first equals": ({MAIN: "kubelet-arg: ['system-reserved=memory=8Gi']\n"}, [("system-reserved", "memory=8Gi", "config.yaml:1")]),
    "append to RKE2's own value": ({MAIN: "kubelet-arg: ['feature-gates+=A=true']\n"}, [("feature-gates", "A=true", "config.yaml:1")]),
    "quotes inside a plain value stay": ({MAIN: "kubelet-arg:\n- cpu-manager-policy=\"static\"\n"}, [("cpu-manager-policy", '"static"', "config.yaml:2")]),
    "null appended to a list adds nothing": ({MAIN: "kubelet-arg: [v=1]\n", DROP + "50.yaml": "kubelet-arg+:\n"}, [("v", "1", "config.yaml:1")]),
}


@pytest.mark.parametrize("files, wanted", MERGES.values(), ids=MERGES)
def test_files_are_merged_as_rke2_merges_them(tmp_path: Path, files: dict, wanted: list) -> None:
    config = read(tmp_path, files)
    assert flags(config) == wanted
    assert (config.problems, config.complete) == ([], True)


def test_values_are_the_texts_rke2_passes_on(tmp_path: Path) -> None:
    config = read(tmp_path, {MAIN: "node-name: GPU-1\nprotect-kernel-defaults: yes\ncni: [multus, cilium]\nprofile:\nnode-label+: a=b\nwith-node-id: 'true'\n"})
    assert config.values == {"node-name": "GPU-1", "protect-kernel-defaults": "true", "cni": ["multus", "cilium"], "profile": None,
                             "node-label": "a=b", "with-node-id": "true"}
    assert config.sources["cni"] == MAIN + ":3"


@pytest.mark.parametrize("text", ["010", "1_000", "0x1f", "1.10", "1e3", "12:30", "2026-11-29", ".5", "+1"])
def test_number_that_yaml_changes_is_not_guessed(tmp_path: Path, text: str) -> None:
    config = read(tmp_path, {MAIN: f"cni: none\nnode-name: {text}\n"})
    assert config.values == {"cni": "none"}
    assert config.problems == [{"file": MAIN, "reason": "line 2: has a number or date that YAML changes: quote it"}]
    assert not config.complete


def test_no_rke2_at_all_is_no_problem(tmp_path: Path) -> None:
    assert read(tmp_path, {}) == rke2_config.Rke2Config()


def test_broken_file_says_nothing_and_the_answer_is_incomplete(tmp_path: Path) -> None:
    config = read(tmp_path, {MAIN: "kubelet-arg: [v=1]\n", DROP + "50.yaml": f"kubelet-arg: &x [v=2]\ntoken: {CANARY}\n"})
    assert flags(config) == [("v", "1", "config.yaml:1")]
    assert not config.complete
    assert config.problems == [{"file": DROP + "50.yaml", "reason": "line 1: holds an anchor, an alias or a tag"}]
    assert config.files == [{"file": MAIN, "keys": ["kubelet-arg"]}]


def test_nested_value_of_a_wanted_key_is_a_problem(tmp_path: Path) -> None:
    config = read(tmp_path, {MAIN: "kubelet-arg:\n- a: b\n"})
    assert config.problems == [{"file": MAIN, "reason": "line 1: kubelet-arg is neither a value nor a list of values"}]
    assert "kubelet-arg" not in config.values and not config.complete


def test_environment_files_name_the_node_and_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, {
        "/etc/default/rke2-agent": f'RKE2_NODE_NAME="gpu-7"\nRKE2_TOKEN={CANARY}\nRKE2_CONFIG_FILE=/etc/other.yaml\n',
        "/etc/other.yaml": "cni: none\n", "/etc/other.yaml.d/1.yaml": "kubelet-arg: [v=3]\n",
    })
    assert config.values == {"node-name": "gpu-7", "cni": "none", "kubelet-arg": ["v=3"]}
    assert config.sources["node-name"] == "/etc/default/rke2-agent:1"


# Everything that looks like a place for a secret, and some that do not.
SECRET_FILES = {
    "token": f"token: {CANARY}\nagent-token: '{CANARY}'\nserver: https://{CANARY}\nnode-name: n1\n",
    "comment": f"# token: {CANARY}\nnode-name: n1 # {CANARY}\nkubelet-arg:\n# {CANARY}\n- v=1 # {CANARY}\n",
    "key": f"{CANARY}: x\nnode-name: n1\n",
    "broken": f"token: {CANARY}\n\tx\n",
    "nested": f"private-registry:\n  password: {CANARY}\nnode-name: n1\n",
    "block": f"token: |\n  {CANARY}\nnode-name: n1\n",
    "unknown kubelet flag": f"kubelet-arg:\n- azure-password={CANARY}\n- v=1\n",
    "behind a kubelet value": f"kubelet-arg: [\"v=2 --token={CANARY}\", 'max-pods=9 token={CANARY}']\n",
    "a line below a kubelet value": f"kubelet-arg:\n- |\n  v=2\n  token={CANARY}\n- v=1\n",
    "control character behind a value": f"kubelet-arg: [\"v=2\\r{CANARY}\"]\n",
    "behind another value": f"node-name: n1 --token={CANARY}\nprofile: |\n  cis\n  {CANARY}\n",
    "behind a date": f"node-name: 2026-11-29 {CANARY}\n",
    "key in lower case": f"{CANARY.lower().split(':', 1)[0]}: x\netcd-canary: y\ncanary+: z\nnode-name: n1\n",
    "bare word in the wrong list": f"kubelet-arg:\n- {CANARY}\n- v=1\n",
    "unfinished list": f"kubelet-arg: [\"v=1\"\ntoken: {CANARY}\n",
    "unfinished quote": f"node-name: \"n1\ntoken: {CANARY}\n",
    "mapping in the wrong list": f"kubelet-arg:\n- v=1\n- token: {CANARY}\n",
    "second document": f"node-name: n1\n---\ntoken: {CANARY}\n",
}


@pytest.mark.parametrize("text", SECRET_FILES.values(), ids=SECRET_FILES)
def test_no_secret_leaves_the_node(tmp_path: Path, text: str) -> None:
    sysroot = node(tmp_path, {MAIN: text})
    config = rke2_config.read(sysroot)
    assert "canary" not in repr(config) + repr(sysroot.problems)
    copy = rke2_config.redact(text)
    assert "canary" not in copy
    # the copy gives the same answers, on the same lines
    assert read(tmp_path / "copy", {MAIN: copy}) == config


@pytest.mark.parametrize("text", [text for text, dummy in FORMS.values()] + [text for text, dummy, dummy in REFUSED.values()])
def test_copy_gives_the_same_answers(tmp_path: Path, text: str) -> None:
    text = text.replace("a:", "kubelet-arg:").replace("b:", "node-label:")
    assert read(tmp_path / "copy", {MAIN: rke2_config.redact(text)}) == read(tmp_path / "node", {MAIN: text})


def test_what_is_glued_to_a_value_takes_the_value_along(tmp_path: Path) -> None:
    text = "kubelet-arg:\n- v=2 --token=x\n- feature-gates=A=true, B=false\n- |-\n  max-pods=1\n  token=x\n"
    config = read(tmp_path, {MAIN: text})
    assert flags(config) == [
        ("v", "(left out)", "config.yaml:2"), ("feature-gates", "A=true, B=false", "config.yaml:3"), ("max-pods", "(left out)", "config.yaml:4")]
    assert rke2_config.redact(text).splitlines()[:4] == [
        "kubelet-arg:", '- "v=(left out)"', '- "feature-gates=A=true, B=false"', '- "max-pods=(left out)"']


def test_only_keys_that_rke2_knows_are_named(tmp_path: Path) -> None:
    text = "token: x\nmysecret: x\ntls-san+: [y]\netcd-s3-secret-key: z\ndisable-everything: true\n"
    assert read(tmp_path, {MAIN: text}).files == [{"file": MAIN, "keys": ["token", "tls-san+", "etcd-s3-secret-key"]}]
    assert rke2_config.redact(text) == "token: (left out)\n\ntls-san+: (left out)\netcd-s3-secret-key: (left out)\n"


def test_environment_copy_holds_only_known_variables() -> None:
    text = f"# x\nRKE2_TOKEN={CANARY}\nRKE2_NODE_NAME=n1\nexport A={CANARY}\n"
    assert rke2_config.redact_environment(text) == "\n\nRKE2_NODE_NAME=n1\n\n"
