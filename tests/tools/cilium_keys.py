# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the table of plugins/module_utils/cilium_keys.py from charts: which keys their values have, and of which types.

    python cilium_keys.py FOLDER    writes the table anew from FOLDER/cilium and FOLDER/rke2-cilium, which hold values-VERSION.yaml
                                    and values.schema-VERSION.json of each chart version that the table names

A new chart version gets a letter in VERSIONS there first.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

MODULE = Path(__file__).resolve().parents[2] / "plugins" / "module_utils" / "cilium_keys.py"
LETTERS = {"boolean": "b", "integer": "i", "number": "n", "string": "s", "array": "a", "object": "o", "null": "0"}
# Below these anything may stand: parts of Kubernetes objects, and mappings whose keys are the operator's.
FREE = re.compile(
    r"affinity|nodeSelector|resources|limits|requests|updateStrategy|.*[sS]ecurityContext|.*[aA]nnotations|.*[lL]abels|lifecycle|readinessProbe|livenessProbe"
    r"|maglev|tmpVolume|matchLabels|global|certManagerIssuerRef"
)
# Keys that a chart's templates ask for by hasKey, and that stand neither in its defaults nor in its schema.
HIDDEN: dict[tuple[str, ...], tuple[str, str]] = {
    ("devices",): ("sa", "abcxy"),
    ("loadBalancer", "mode"): ("s", ""),
    ("loadBalancer", "algorithm"): ("s", ""),
    ("loadBalancer", "dsrDispatch"): ("s", ""),
    ("socketLB", "hostNamespaceOnly"): ("b", ""),
    ("socketLB", "tracing"): ("b", ""),
    ("socketLB", "terminatePodConnections"): ("b", ""),
}


def collect(folder: Path, versions: dict[str, tuple[str, str]]) -> dict[tuple[str, ...], tuple[set[str], set[str], bool]]:
    """By path: letters of its types, letters of the versions that have it, whether anything may stand below."""
    found: dict[tuple[str, ...], tuple[set[str], set[str], bool]] = {}

    def walk(schema: dict[str, Any], value: Any, path: tuple[str, ...], letter: str) -> None:
        below = schema.get("properties") or {}
        for key in sorted(set(below) | set(value if isinstance(value, dict) else ())):
            part = below.get(key) or {}
            inner = value.get(key) if isinstance(value, dict) else None
            types = part.get("type") or []
            here = {LETTERS[name] for name in ([types] if isinstance(types, str) else types)}
            empty = ((here <= {"o", "0"} and "o" in here) or isinstance(inner, dict)) and not part.get("properties") and not inner
            free = (bool(FREE.fullmatch(key)) and ("o" in here or isinstance(inner, dict))) or empty
            kinds, letters, was = found.setdefault((*path, key), (set(), set(), False))
            found[(*path, key)] = (kinds | here, letters | {letter}, was or free)
            if not free:
                walk(part, inner, (*path, key), letter)

    for letter, (chart, version) in versions.items():
        schema = json.loads((folder / chart / f"values.schema-{version}.json").read_text(encoding="utf-8"))
        walk(schema, yaml.safe_load((folder / chart / f"values-{version}.yaml").read_text(encoding="utf-8")), (), letter)
    for path, (types, letters) in HIDDEN.items():
        kinds, had, free = found.get(path, (set(), set(), False))
        found[path] = (kinds | set(types), had | set(letters or versions), free)
    return {path: entry for path, entry in found.items() if not any(found[path[:end]][2] for end in range(1, len(path)))}


def table(folder: Path, versions: dict[str, tuple[str, str]]) -> str:
    """The table as text."""
    found = collect(folder, versions)

    def render(path: tuple[str, ...], above: set[str]) -> str:
        words = []
        for here in sorted(each for each in found if each[:-1] == path):
            kinds, letters, free = found[here]
            below = render(here, letters)
            mark = "" if letters == above else "@" + "".join(sorted(letters))
            types = "" if (kinds == {"o"} and (below or free)) or not kinds else ":" + "".join(sorted(kinds))
            words.append(here[-1] + types + ("*" if free else "") + mark + ("{" + below + "}" if below else ""))
        return " ".join(words)

    return "\n".join(textwrap.wrap(render((), set(versions)), 158, break_long_words=False, break_on_hyphens=False))


def main() -> None:
    """Write the table into the module."""
    text = MODULE.read_text(encoding="utf-8")
    scope: dict[str, Any] = {}
    start = text.index("VERSIONS: ")
    exec(text[start:text.index("\n}\n", start) + 3], {"Dict": dict, "Tuple": tuple}, scope)  # noqa: S102  # our own file, which cannot be imported from here
    new = table(Path(sys.argv[1]), scope["VERSIONS"])
    MODULE.write_text(re.sub(r'(?s)(_TABLE = """\\\n).*?(""")', lambda match: match.group(1) + new + "\n" + match.group(2), text), encoding="utf-8")


if __name__ == "__main__":
    main()
