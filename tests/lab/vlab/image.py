# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds what nodes boot from: a tree with QEMU 11 and disk tools, and one disk image with a Debian system.

Both come from Debian's packages, are made once, and are kept in the cache under the hash of their recipe. Nothing is mounted
by us and no loop device is used: mmdebstrap hands over a tar, mke2fs writes it into the partition.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, List, Sequence, Tuple

from vlab import config, process
from vlab.config import SUITE, Cache
from vlab.process import LabError

# QEMU 10 and 7.2 lose timer interrupts or crash now and then under multi-threaded emulation, 11 was not seen to.
_BACKPORTS = f"{SUITE}-backports"
TOOLS: Tuple[str, ...] = (
    *(f"{name}/{_BACKPORTS}" for name in ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "qemu-utils", "seabios")),
    "e2fsprogs", "libarchive13t64", "fdisk",
)
# The generic kernel, for every node: the cloud kernel has no igb.
GUEST: Tuple[str, ...] = (
    "systemd-sysv", "dbus", "udev", "openssh-server", "python3", "iproute2", "iputils-ping", "pciutils", "kmod", "procps", "ethtool", "numactl", "dmidecode",
    "irqbalance", "tuned", "containerd", "runc", "initramfs-tools", "zstd", "linux-image-amd64", "grub-common", "grub2-common", "grub-pc-bin", "less",
)
DISK_MIB = 4096
_ROOT_SECTOR = 4096
_BOOT_SECTOR = 2048
_TABLE = f"""label: gpt
start={_BOOT_SECTOR}, size={_ROOT_SECTOR - _BOOT_SECTOR}, type=21686148-6449-6E6F-744E-656564454649, name="bios"
start={_ROOT_SECTOR}, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name="root"
"""
_GUEST_FILES = Path(__file__).resolve().parents[1] / "guest"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tools:
    """The unpacked tree. Its programs run on any machine: with their own loader and libraries."""

    top: Path

    def argv(self, program: str, *arguments: str) -> List[str]:
        """How a program of the tree is called; ``program`` is its path in the tree."""
        # The loader lies in usr/bin: QEMU looks for its modules from its own place, which it takes from /proc/self/exe.
        return [str(self.top / "usr/bin/lab-ld"), "--library-path", str(self.top / "usr/lib/x86_64-linux-gnu"), str(self.top / program), *arguments]

    def qemu(self, arguments: Sequence[str]) -> List[str]:
        data = [part for folder in ("qemu", "seabios") for part in ("-L", str(self.top / "usr/share" / folder))]
        return self.argv("usr/bin/qemu-system-x86_64", *data, *arguments)


def tree_hash(top: Path) -> str:
    """Hash of a folder's paths, kinds, execute bits and contents."""
    digest = hashlib.sha256()
    for path in sorted(top.rglob("*")):
        if path.is_dir():
            continue
        digest.update(f"{path.relative_to(top)}\0{os.access(path, os.X_OK)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """The name of a recipe in the cache."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def tools_key() -> str:
    """Changes with the packages of the tree."""
    return key_of(SUITE, *TOOLS)


def image_key(public_key: str) -> str:
    """Changes with anything that the image is made from, this file and the ssh key included."""
    return key_of(SUITE, tools_key(), *GUEST, public_key, tree_hash(_GUEST_FILES), hashlib.sha256(Path(__file__).read_bytes()).hexdigest())


def ssh_key(cache: Cache) -> str:
    """The public half of the cache's key; made if absent."""
    public = cache.key.with_suffix(".pub")
    if not (cache.key.exists() and public.exists()):
        for path in (cache.key, public):
            path.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "locality-lab", "-f", str(cache.key)], check=True)
    return public.read_text(encoding="ascii").strip()


def tools_path(cache: Cache) -> Path:
    return cache.top / f"tools-{tools_key()}"


def image_path(cache: Cache) -> Path:
    return cache.top / f"image-{image_key(ssh_key(cache))}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _workplace(cache: Cache, kind: str) -> Iterator[Path]:
    """A folder to build in; gone afterwards, whatever happened."""
    for old in cache.top.glob(f"build-{kind}-*"):  # we hold the lock: nobody builds there any more
        process.remove_tree(old)
    path = Path(tempfile.mkdtemp(prefix=f"build-{kind}-", dir=cache.top))
    path.chmod(0o755)
    try:
        yield path
    finally:
        process.remove_tree(path)


def _mmdebstrap(work: Path, log: Path, variant: str, packages: Sequence[str], output: Path, options: Sequence[str], backports: bool) -> None:
    listed = work / "sources.list"
    listed.write_text("\n".join(config.sources(backports)) + "\n", encoding="utf-8")
    argv = ["mmdebstrap", f"--variant={variant}", "--format=tar", f"--include={','.join(packages)}", "--aptopt=APT::Install-Recommends \"false\""]
    argv += [f"--aptopt={option}" for option in config.apt_options()]
    if backports:
        argv.append(f"--aptopt=APT::Default-Release \"{SUITE}\"")
    argv += [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "doc", "locale")]
    argv += [*options, SUITE, str(output), str(listed)]
    # As root it builds below our folder; otherwise in /tmp, which the user ids of its namespace can enter.
    env = {"DEBIAN_FRONTEND": "noninteractive", **({"TMPDIR": str(work)} if os.geteuid() == 0 else {})}
    process.run(argv, log, env)


def build_tools(cache: Cache, say: Say) -> Tools:
    """The tools of the cache, made if absent.

    :raises LabError: a package is missing here, or a step failed.
    """
    done = tools_path(cache)
    if done.is_dir():
        return Tools(done)
    config.require(os.geteuid() == 0)
    with _locked(cache.top / "tools.lock"):
        if done.is_dir():
            return Tools(done)
        began = time.monotonic()
        say(f"tools: unpacking QEMU from {_BACKPORTS}")
        log = cache.logs / "tools.log"
        log.unlink(missing_ok=True)
        with _workplace(cache, "tools") as work:
            _mmdebstrap(work, log, "extract", TOOLS, work / "tools.tar", [], backports=True)
            tree = work / "tree"
            tree.mkdir()
            process.run(["tar", "-C", str(tree), "--no-same-owner", "--exclude=./dev/*", "-xf", str(work / "tools.tar")], log)
            loader = (tree / "usr/lib64/ld-linux-x86-64.so.2").resolve()
            if not loader.is_relative_to(work.resolve()):
                loader = tree / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
            shutil.copyfile(loader, tree / "usr/bin/lab-ld")
            (tree / "usr/bin/lab-ld").chmod(0o755)
            subprocess.run(Tools(tree).qemu(["--version"]), check=True, capture_output=True)
            tree.rename(done)
        say(f"tools: done in {time.monotonic() - began:.0f} s")
    return Tools(done)


def files_tar(public_key: str) -> bytes:
    """What the guest gets beside its packages, as a tar owned by root."""
    out = io.BytesIO()
    seen = set()
    with tarfile.open(fileobj=out, mode="w") as tar:

        def folder(path: Path) -> None:
            if path == Path(".") or path in seen:
                return
            folder(path.parent)
            seen.add(path)
            # Folders that Debian has keep the mode that it gave them.
            if path == Path("root/.ssh"):
                entry = tarfile.TarInfo(str(path))
                entry.type, entry.mode = tarfile.DIRTYPE, 0o700
                tar.addfile(entry)

        def file(path: Path, content: bytes, mode: int) -> None:
            folder(path.parent)
            entry = tarfile.TarInfo(str(path))
            entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
            tar.addfile(entry, io.BytesIO(content))

        top = _GUEST_FILES / "root"
        for source in sorted(top.rglob("*")):
            if source.is_file():
                file(source.relative_to(top), source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)
        file(Path("root/.ssh/authorized_keys"), public_key.encode() + b"\n", 0o600)
        file(Path("tmp/lab-setup.sh"), (_GUEST_FILES / "setup.sh").read_bytes(), 0o755)
    return out.getvalue()


def embed_grub(disk: Path, boot: bytes, core: bytes) -> None:
    """Writes GRUB for BIOS onto a disk with a partition table, as grub-bios-setup does with a BIOS boot partition.

    ``boot.img`` goes to sector 0 beside the partition table and is told where ``core.img`` begins; the first sector of that
    is told where the rest lies.

    :raises LabError: the core does not fit.
    """
    sectors = -(-len(core) // 512)
    if sectors > _ROOT_SECTOR - _BOOT_SECTOR:
        raise LabError(f"GRUB's core has {sectors} sectors, too many for its partition")
    image = bytearray(core.ljust(sectors * 512, b"\0"))
    struct.pack_into("<QHH", image, 0x1F4, _BOOT_SECTOR + 1, sectors - 1, 0x820)
    with disk.open("r+b") as file:
        old = file.read(512)
        sector = bytearray(boot[:512])
        struct.pack_into("<Q", sector, 0x5C, _BOOT_SECTOR)
        sector[0x66:0x68] = b"\x90\x90"  # boots any BIOS drive number, not only what it was told
        sector[0x03:0x5A] = old[0x03:0x5A]  # BIOS parameter block
        sector[0x1B8:0x1FE] = old[0x1B8:0x1FE]  # disk signature, partition table
        sector[0x1FE:0x200] = b"\x55\xaa"
        file.seek(0)
        file.write(sector)
        file.seek(_BOOT_SECTOR * 512)
        file.write(image)


def _disk(tools: Tools, work: Path, log: Path) -> Path:
    disk = work / "disk.raw"
    with disk.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    table = work / "table"
    table.write_text(_TABLE, encoding="ascii")
    with table.open("rb") as stdin:
        process.run(tools.argv("usr/sbin/sfdisk", "--quiet", str(disk)), log, stdin=stdin)
    size = DISK_MIB * 1024 - _ROOT_SECTOR // 2 - 1024  # the second partition table needs the end
    # lazy_itable_init=0: the guest shall not write its inode tables during tests.
    process.run(
        tools.argv(
            "usr/sbin/mke2fs", "-q", "-t", "ext4", "-L", "root", "-E", f"offset={_ROOT_SECTOR * 512},lazy_itable_init=0,root_owner=0:0",
            "-d", str(work / "root.tar"), str(disk), f"{size}k",
        ),
        log,
    )
    embed_grub(disk, (work / "boot.img").read_bytes(), (work / "core.img").read_bytes())
    return disk


def in_use(cache: Cache, image: Path) -> bool:
    """Whether a node's disk lies on this image: the overlay names it in its first sector."""
    for overlay in cache.nodes.glob("*/disk.qcow2"):
        with overlay.open("rb") as file:
            if os.fsencode(image) in file.read(4096):
                return True
    return False


def build(cache: Cache, say: Say, first_boot: Callable[[Tools, Path, Path], None]) -> Path:
    """The image of the cache (a raw disk), made if absent.

    :param first_boot: boots the given disk once, with a folder to work in, and finishes the image from inside.
    :raises LabError: a package is missing here, or a step failed.
    """
    public_key = ssh_key(cache)
    done = image_path(cache)
    if (done / "disk.raw").exists():
        return done / "disk.raw"
    config.require(os.geteuid() == 0)
    tools = build_tools(cache, say)
    with _locked(cache.top / "image.lock"):
        if (done / "disk.raw").exists():
            return done / "disk.raw"
        began = time.monotonic()
        say(f"image {done.name}: installing {SUITE}")
        log = cache.logs / "image.log"
        log.unlink(missing_ok=True)
        debs = cache.top / "debs"
        debs.mkdir(exist_ok=True)
        with _workplace(cache, "image") as work:
            (work / "files.tar").write_bytes(files_tar(public_key))
            options = [
                "--skip=download/empty", "--skip=essential/unlink",
                "--setup-hook=mkdir -p \"$1\"/var/cache/apt/archives",
                f"--setup-hook=sync-in {debs} /var/cache/apt/archives",
                f"--customize-hook=tar-in {work / 'files.tar'} /",
                "--customize-hook=chroot \"$1\" /tmp/lab-setup.sh",
                f"--customize-hook=download /tmp/grub/boot.img {work / 'boot.img'}",
                f"--customize-hook=download /tmp/grub/core.img {work / 'core.img'}",
                f"--customize-hook=download /etc/ssh/ssh_host_ed25519_key.pub {work / 'host.pub'}",
                f"--customize-hook=sync-out /var/cache/apt/archives {debs}",
                "--customize-hook=rm -rf \"$1\"/tmp/* \"$1\"/var/cache/apt/archives/*.deb \"$1\"/etc/apt/sources.list*",
            ]
            _mmdebstrap(work, log, "apt", GUEST, work / "root.tar", options, backports=False)
            say(f"image: packages after {time.monotonic() - began:.0f} s, writing the disk")
            disk = _disk(tools, work, log)
            host_key = (work / "host.pub").read_text(encoding="ascii").split()
            (work / "known_hosts").write_text(f"locality-lab {host_key[0]} {host_key[1]}\n", encoding="ascii")
            say(f"image: disk after {time.monotonic() - began:.0f} s, booting it once")
            (work / "node").mkdir()
            first_boot(tools, disk, work)
            ready = work / "ready"
            ready.mkdir()
            disk.rename(ready / "disk.raw")
            shutil.copyfile(work / "known_hosts", ready / "known_hosts")
            ready.rename(done)
            for old in cache.top.glob("image-*"):
                if old != done and not in_use(cache, old):
                    process.remove_tree(old)
        say(f"image: done in {time.monotonic() - began:.0f} s")
    return done / "disk.raw"
