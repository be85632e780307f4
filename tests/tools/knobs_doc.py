# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints docs/knobs.md from the registry of knobs.

    python knobs_doc.py           writes docs/knobs.md
    python knobs_doc.py --check   rc 1 if it is not current
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

TOP = Path(__file__).resolve().parents[2]
REGISTRY = TOP / "plugins" / "module_utils" / "knobs.py"
PAGE = TOP / "docs" / "knobs.md"

HEAD = """\
<!--
Copyright (c) 2026 The inferops.locality authors
GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->

# Knobs

This page is generated from `plugins/module_utils/knobs.py`; `make docs` writes it anew.

A *managed* knob has one writer, and a node where it drifts is not converged. A *reported* knob is shown and never blocks: it
needs load, pods or another owner. *Sides* says which of *running* (in force now) and *configured* (comes back at boot) exist;
below a root other than `/` only *configured* is judged. *Needs* is what mending costs, cheapest first: {needs}.
"""

BOOT = """
Which file the arguments stand in depends on the boot loader; all of them are written together, by `kernel_args`.
"""


def registry() -> ModuleType:
    """The registry, loaded from its file: this runs before the import tree exists."""
    spec = importlib.util.spec_from_file_location("_knobs", REGISTRY)
    if spec is None or spec.loader is None:
        raise ImportError(f"{REGISTRY} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def page(knobs: ModuleType) -> str:
    """The page as Markdown; layers and knobs in the order of the registry."""
    parts = [HEAD.format(needs=" < ".join(knobs.NEEDS))]
    layers = dict.fromkeys(knob.layer for knob in knobs.KNOBS.values())
    for layer in layers:
        for klass in ("managed", "reported"):
            chosen = [knob for knob in knobs.KNOBS.values() if knob.layer == layer and knob.klass == klass]
            if chosen:
                parts.append(f"\n## Layer `{layer}`, {klass}\n")
                parts.append(managed_table(chosen, knobs.FILE_GRUB) if klass == "managed" else reported_table(chosen))
    parts.append("\n## Boot arguments\n" + BOOT + boot_table(knobs))
    return "".join(parts)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def boot_table(knobs: ModuleType) -> str:
    lines = ["", "| `platform.boot_loader.kind` | files | how |", "|---|---|---|"]
    lines += [f"| `{kind}` | {'<br>'.join(f'`{file}`' for file in files)} | {cell(how)} |" for kind, (files, how) in knobs.BOOT_FILES.items()]
    return "\n".join(lines) + "\n"


def managed_table(chosen: list, boot: str) -> str:
    lines = ["", "| knob | needs | sides | writer | files | what it is | source |", "|---|---|---|---|---|---|---|"]
    for knob in chosen:
        files = "<br>".join(f"`{file}`" + (" or [another](#boot-arguments)" if file == boot else "") for file in knob.files) or "–"
        how = " Tested against recorded answers of the agent." if knob.api else " Tested on paper only: virtual machines lack it."
        text = cell(knob.text) + ("" if knob.lab else how)
        lines.append(f"| `{knob.id}` | {knob.needs} | {', '.join(knob.sides)} | `{knob.writer}` | {files} | {text} | {cell(knob.source)} |")
    return "\n".join(lines) + "\n"


def reported_table(chosen: list) -> str:
    lines = ["", "| knob | what it is | source |", "|---|---|---|"]
    lines += [f"| `{knob.id}` | {cell(knob.text)} | {cell(knob.source)} |" for knob in chosen]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    text = page(registry())
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/knobs.md is not current: run make docs", file=sys.stderr)
        return 1
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(text, encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(TOP)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
