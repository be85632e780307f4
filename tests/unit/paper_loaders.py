# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paper nodes with a boot loader that can be booted: stand-ins for the tools of GRUB, for grubby and for pbl.

The stand-ins do what the manuals and sources say of the real ones: grub-mkconfig has a real shell read the files and runs
/etc/grub.d, grub.cfg has its order and its next_entry, grubby takes every argument of the same key out before it appends.
The real GRUB is met in the lab only (molecule scenario boot_fallback); grubby and pbl nowhere.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import boot, kernel_args

KERNEL = "/boot/vmlinuz-6.12.0-1"
_MKCONFIG = r"""
root=$1
if [ -f $root/etc/default/grub ]; then . $root/etc/default/grub; fi
if [ "$2" = drop-ins ]; then
    for file in $root/etc/default/grub.d/*.cfg; do if [ -e "$file" ]; then . "$file"; fi; done
fi
set -e
export root GRUB_DEFAULT GRUB_CMDLINE_LINUX GRUB_CMDLINE_LINUX_DEFAULT
echo 'if [ "${next_entry}" ] ; then'
echo '   set default="${next_entry}"'
echo '   set next_entry='
echo '   save_env next_entry'
echo '   set boot_once=true'
echo 'else'
echo "   set default=\"${GRUB_DEFAULT:-0}\""
echo 'fi'
for script in $root/etc/grub.d/*; do
    if [ -x "$script" ]; then sed "s#^\(\|.* \)/etc/#\1$root/etc/#" "$script" | sh -e; fi
done
"""
_LINUX = r"""#!/bin/sh
set -e
echo 'function gfxmode {'
echo '	set gfxpayload="${1}"'
echo '}'
kernels=$(cd $root/boot; ls vmlinuz-* | sort -rV)
first=$(echo "$kernels" | head -n 1)
args="$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"
printf '%s\n' "menuentry 'Debian' --class os \$menuentry_id_option 'gnulinux-simple-1' {"
printf '%s\n' "	linux	/boot/$first root=UUID=1 ro $args"
echo '}'
printf '%s\n' "submenu 'Advanced' \$menuentry_id_option 'gnulinux-advanced-1' {"
for kernel in $kernels; do
    printf '%s\n' "	menuentry 'Debian, $kernel' \$menuentry_id_option 'gnulinux-$kernel-advanced-1' {"
    printf '%s\n' "		linux	/boot/$kernel root=UUID=1 ro $args"
    echo '	}'
done
echo '}'
"""
_EMPTY_ENV = "# GRUB Environment Block\n"
_BLS_MENU = 'if [ "${next_entry}" ] ; then\n set default="${next_entry}"\nelse\n set default="${saved_entry}"\nfi\nblscfg\n'


class Paper(boot.Runner):
    """A paper node that passes for the running one, and runs what is asked of it.

    :ivar calls: the commands that were run. :ivar broken: commands that fail, with what they say.
    """

    programs: Tuple[str, ...] = ("systemctl",)
    grub = "grub"

    def __init__(self, base: Path, files: Mapping[str, str]) -> None:
        self.base = base
        self.calls: List[List[str]] = []
        self.broken: Dict[str, str] = {}
        self.boots = 0
        for path, text in files.items():
            self.put(path, text)
        (base / "sys/class/watchdog/watchdog0").mkdir(parents=True)
        self.put(f"/boot/{self.grub}/grubenv", _EMPTY_ENV)
        self.put("/proc/mounts", "/dev/vda1 / ext4 rw 0 0\n")
        self.put(KERNEL, "")

    def put(self, path: str, text: str, mode: int = 0o644) -> Path:
        target = self.base / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode)
        return target

    def text(self, path: str) -> str:
        return (self.base / path.lstrip("/")).read_text(encoding="utf-8")

    def tree(self) -> Dict[str, bytes]:
        """Every file outside /proc."""
        files = (path for path in self.base.rglob("*") if path.is_file())
        return {f"/{path.relative_to(self.base)}": path.read_bytes() for path in files if "proc" not in path.relative_to(self.base).parts}

    def node(self) -> boot.Node:
        return boot.Node(str(self.base), self, live=True)

    # -- commands

    def find(self, program: str) -> bool:
        return program in self.programs

    def run(self, argv: Sequence[str]) -> Tuple[int, str, str]:
        self.calls.append(list(argv))
        if argv[0] in self.broken:
            return 1, "", self.broken[argv[0]]
        answer = getattr(self, argv[0].replace("-", "_").replace("grub2", "grub"))(*argv[1:])
        return (0, "", "") if answer is None else answer

    def systemctl(self, *_argv: str) -> None:
        return None

    @property
    def env(self) -> Dict[str, str]:
        return kernel_args.grubenv(self.text(f"/boot/{self.grub}/grubenv"))

    @env.setter
    def env(self, values: Mapping[str, str]) -> None:
        self.put(f"/boot/{self.grub}/grubenv", _EMPTY_ENV + "".join(f"{name}={value}\n" for name, value in values.items()))

    def grub_reboot(self, entry: str) -> None:
        self.env = {**self.env, "next_entry": entry}

    def grub_editenv(self, path: str, command: str, name: str) -> None:
        assert path == f"/boot/{self.grub}/grubenv" and command == "unset"
        self.env = {key: value for key, value in self.env.items() if key != name}

    # -- boots

    def boot(self) -> List[str]:
        """What the machine does: takes the entry, forgets next_entry, starts the kernel. :returns: its arguments."""
        found = self.node().boot(once=True)
        assert found.args is not None
        if self.env.get("next_entry"):
            self.env = {**self.env, "next_entry": ""}
        words = [arg.raw for arg in found.args]
        self.boots += 1
        self.put("/proc/cmdline", f"BOOT_IMAGE={found.kernel} " + " ".join(words) + "\n")
        self.put("/proc/sys/kernel/random/boot_id", f"boot-{self.boots}\n")
        return words


class Debian(Paper):
    """grub-mkconfig that reads drop-ins."""

    programs = ("update-grub", "grub-reboot", "grub-editenv", "systemctl")
    release = "ID=debian\nVERSION_ID=13\n"
    mode = "drop-ins"

    def __init__(self, base: Path, files: Mapping[str, str]) -> None:
        super().__init__(base, {"/etc/os-release": self.release, "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n', **files})
        self.put("/etc/grub.d/10_linux", _LINUX, 0o755)
        rc, _out, err = self.mkconfig()
        assert rc == 0, err
        self.boot()
        self.calls.clear()

    def mkconfig(self) -> Tuple[int, str, str]:
        done = subprocess.run(["sh", "-c", _MKCONFIG, "sh", str(self.base), self.mode], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            self.put(f"/boot/{self.grub}/grub.cfg", done.stdout)
        return done.returncode, "", done.stderr

    def update_grub(self) -> Tuple[int, str, str]:
        return self.mkconfig()


class Suse(Debian):
    """grub2-mkconfig that reads /etc/default/grub only, called by pbl."""

    programs = ("pbl", "grub2-reboot", "grub2-editenv", "systemctl")
    release = "ID=sles\nVERSION_ID=15.6\nID_LIKE=suse\n"
    mode = "one file"
    grub = "grub2"

    def pbl(self, option: str) -> Tuple[int, str, str]:
        assert option == "--config"
        return self.mkconfig()

    def grub_mkconfig(self, option: str, path: str) -> Tuple[int, str, str]:
        assert (option, path) == ("-o", "/boot/grub2/grub.cfg")
        return self.mkconfig()


class RedHat(Paper):
    """BLS entries and grubby."""

    programs = ("grubby", "grub2-reboot", "grub2-editenv", "systemctl")
    grub = "grub2"

    def __init__(self, base: Path, options: str = "root=UUID=1 ro quiet", files: Optional[Mapping[str, str]] = None) -> None:
        entries = {
            f"/boot/loader/entries/abc-{version}.conf":
            f"title Rocky {version}\nversion {version}\nlinux /vmlinuz-{version}\ninitrd /i-{version}\noptions {options}\n"
            for version in ("5.14.0-1", "5.14.0-2")
        }
        release = "ID=rocky\nVERSION_ID=9.5\nID_LIKE=rhel\n"
        super().__init__(base, {"/etc/os-release": release, "/boot/grub2/grub.cfg": _BLS_MENU, **entries, **(files or {})})
        self.boot()

    def options(self, version: str = "5.14.0-2") -> str:
        text = self.text(f"/boot/loader/entries/abc-{version}.conf")
        return next(line[len("options "):] for line in text.splitlines() if line.startswith("options "))

    def grubby(self, kernel: str, *changes: str) -> None:
        """grubby-bls: removes what is told, then for each argument every one of its key, then appends it."""
        for path in sorted((self.base / "boot/loader/entries").glob("*.conf")):
            text = path.read_text(encoding="utf-8")
            image = next(line.split()[1] for line in text.splitlines() if line.startswith("linux "))
            if kernel not in ("--update-kernel=ALL", f"--update-kernel=/boot{image}"):
                continue
            lines = [self._changed(line, changes) if line.startswith("options ") else line for line in text.splitlines()]
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @staticmethod
    def _changed(line: str, changes: Sequence[str]) -> str:
        for change in sorted(changes, key=lambda text: text.startswith("--args")):
            option, _equals, value = change.partition("=")
            for token in value.split():
                key = token.rpartition("=")[0] or token
                pattern = rf" {token}(?= |$)" if option == "--remove-args" and "=" in token else rf" {key}(=[^ ]*)?(?= |$)"
                line = re.sub(pattern, "", line)
            if option == "--args":
                line += f" {value}"
        return line
