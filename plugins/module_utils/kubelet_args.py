# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration that RKE2 gives its kubelet, as knobs: flags of RKE2's files, of its unit, and settings of KubeletConfiguration files."""

from __future__ import annotations

import re
import shlex
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, quantity
from ansible_collections.inferops.locality.plugins.module_utils.cpulist import CpuListError
from ansible_collections.inferops.locality.plugins.module_utils.kubelet_state import DEFAULT_ROOT_DIR
from ansible_collections.inferops.locality.plugins.module_utils.rke2_config import KUBELET_FLAGS, Rke2Config, split_argument
from ansible_collections.inferops.locality.plugins.module_utils.state_files import Setting, unit_setting
from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

DEFAULT_DATA_DIR = "/var/lib/rancher/rke2"

FLAGS: Mapping[str, str] = {
    "cpu-manager-policy": "kubelet.cpu_manager_policy",
    "cpu-manager-policy-options": "kubelet.cpu_manager_options",
    "topology-manager-policy": "kubelet.topology_manager_policy",
    "topology-manager-scope": "kubelet.topology_manager_scope",
    "topology-manager-policy-options": "kubelet.topology_manager_options",
    "memory-manager-policy": "kubelet.memory_manager_policy",
    "reserved-memory": "kubelet.reserved_memory",
    "reserved-cpus": "kubelet.reserved_cpus",
    "system-reserved": "kubelet.system_reserved",
    "kube-reserved": "kubelet.kube_reserved",
    "eviction-hard": "kubelet.eviction_hard",
}

# The same settings in a KubeletConfiguration file. Flags beat files, but a file that sets one is somebody's decision.
FIELDS: Mapping[str, str] = {
    "cpuManagerPolicy": "kubelet.cpu_manager_policy",
    "cpuManagerPolicyOptions": "kubelet.cpu_manager_options",
    "topologyManagerPolicy": "kubelet.topology_manager_policy",
    "topologyManagerScope": "kubelet.topology_manager_scope",
    "topologyManagerPolicyOptions": "kubelet.topology_manager_options",
    "memoryManagerPolicy": "kubelet.memory_manager_policy",
    "reservedMemory": "kubelet.reserved_memory",
    "reservedSystemCPUs": "kubelet.reserved_cpus",
    "systemReserved": "kubelet.system_reserved",
    "kubeReserved": "kubelet.kube_reserved",
    "evictionHard": "kubelet.eviction_hard",
}
# Flags that the kubelet has beside those of KUBELET_FLAGS, whose values stay on the node.
_OTHER_FLAGS = frozenset("""
application-metrics-count-limit authentication-token-webhook authentication-token-webhook-cache-ttl authorization-webhook-cache-authorized-ttl
authorization-webhook-cache-unauthorized-ttl boot-id-file bootstrap-kubeconfig cert-dir container-hints containerd containerd-namespace enable-load-reader
event-storage-age-limit event-storage-event-limit exit-on-lock-contention experimental-mounter-path fail-cgroupv1 global-housekeeping-interval
http-check-frequency image-credential-provider-bin-dir image-credential-provider-config kernel-memcg-notification kube-api-content-type kubeconfig lock-file
log-cadvisor-usage log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream machine-id-file manifest-url
manifest-url-header provider-id qos-reserved runonce storage-driver-buffer-duration storage-driver-db storage-driver-host storage-driver-password
storage-driver-secure storage-driver-table storage-driver-user tls-cert-file tls-private-key-file
""".split())
# Flags of earlier versions that Kubernetes 1.36 does not have. Which version was the first without them is not known here.
_GONE_FLAGS = frozenset(("iptables-drop-bit", "iptables-masquerade-bit", "keep-terminated-pod-volumes", "pod-infra-container-image"))
_GONE_BY = 36
# The flags of a kubelet from then on, and those that earlier ones have for certain (cmd/kubelet/app/options).
KNOWN_FLAGS = (KUBELET_FLAGS | _OTHER_FLAGS) - _GONE_FLAGS
# Written by RKE2 itself at each start.
_RKE2_DEFAULTS = "00-rke2-defaults.conf"


def values(args: Sequence[Tuple[str, str]]) -> Dict[str, Any]:
    """Knobs of a list of kubelet flags and values, in order; a flag that is not there is None.

    Plain flags: the last wins. Maps and ``reserved-memory`` grow with each use. A value that the kubelet would not take stays
    as its text, which equals no plan.
    """
    given: Dict[str, List[str]] = {}
    for flag, value in args:
        given.setdefault(flag, []).append(value)
    found: Dict[str, Any] = dict.fromkeys(FLAGS.values())
    for flag, knob in FLAGS.items():
        texts = given.get(flag)
        if texts is None:
            continue
        if flag == "cpu-manager-policy-options":
            found[knob] = sorted(texts)
        elif flag == "topology-manager-policy-options":
            found[knob] = _pairs(texts, "=", str)
        elif flag == "reserved-memory":
            found[knob] = _reserved_memory(texts)
        elif flag == "reserved-cpus":
            try:
                found[knob] = cpulist.to_list(cpulist.from_kubelet(texts[-1]))
            except CpuListError:
                found[knob] = texts[-1]
        elif flag in ("system-reserved", "kube-reserved"):
            found[knob] = _pairs(texts, "=", _bytes)
        elif flag == "eviction-hard":
            found[knob] = _pairs(texts, "<", _bytes)
        else:
            found[knob] = texts[-1]
    return found


def _bytes(text: str) -> Any:
    """Bytes of a quantity of memory; the text itself for percentages and what is no quantity."""
    try:
        return quantity.to_bytes(text)
    except quantity.QuantityError:
        return text


def _pairs(texts: Sequence[str], separator: str, read: Callable[[str], Any]) -> Any:
    pairs: Dict[str, Any] = {}
    for text in texts:
        for part in text.split(","):
            name, found, value = part.partition(separator)
            if not found:
                return " ".join(texts)
            value = value.strip()
            pairs[name.strip()] = value if name.strip() == "cpu" else read(value)
    return pairs


def _reserved_memory(texts: Sequence[str]) -> Any:
    """``0:memory=6Gi;1:memory=6Gi`` as {"0": bytes}; another type than memory is a key of its own, ``0:hugepages-2Mi``."""
    sizes: Dict[str, Any] = {}
    for text in texts:
        for part in text.split(";"):
            node, colon, limits = part.partition(":")
            if not colon or not node.isdecimal() or len(node) > 9:
                return " ".join(texts)
            for limit in limits.split(","):
                kind, equals, value = limit.partition("=")
                key = str(int(node)) if kind == "memory" else f"{int(node)}:{kind}"
                if not equals or key in sizes:
                    return " ".join(texts)
                sizes[key] = _bytes(value)
    return sizes


def unit_settings(sysroot: SysRoot, role: Optional[str]) -> List[Tuple[str, Setting, str]]:
    """Our flags among the ``--kubelet-arg`` of RKE2's unit: RKE2 puts them behind those of its files, so that they win.

    :returns: knob, the line it is in, ``flag=value``.
    """
    found = []
    for name in ([role] if role else ["server", "agent"]):
        for setting in unit_setting(sysroot, f"rke2-{name}.service", "Service", "ExecStart").effective():
            try:
                words = shlex.split(setting.value)
            except ValueError:
                words = setting.value.split()
            for word, following in zip(words, [*words[1:], ""]):
                option, equals, text = word.partition("=")
                split = split_argument(text if equals else following) if option == "--kubelet-arg" else None
                # Nothing with a blank in it is a value of these flags: what stands behind one may be a secret.
                if split is not None and split[0] in FLAGS and not re.search(r"\s", split[1]):
                    found.append((FLAGS[split[0]], setting, "=".join(split)))
    return found


def file_settings(sysroot: SysRoot, config: Rke2Config, data_dir: str) -> List[Tuple[str, Setting]]:
    """Settings of ours in KubeletConfiguration files: RKE2's drop-in folder, and what ``config`` and ``config-dir`` name."""
    folders = [f"{data_dir}/agent/etc/kubelet.conf.d"] + [arg.value for arg in config.kubelet_args if arg.flag == "config-dir"]
    files = [arg.value for arg in config.kubelet_args if arg.flag == "config"]
    for folder in dict.fromkeys(folders):
        if folder.startswith("/"):
            files += [f"{folder}/{name}" for name in sysroot.listdir(folder) if name.endswith(".conf") and name != _RKE2_DEFAULTS]
    found = []
    for file in dict.fromkeys(files):
        for number, line in enumerate((sysroot.text(file, 2**20) or "").split("\n") if file.startswith("/") else [], 1):
            match = re.match(r"[ \t]{0,8}\"?(\w+)\"?[ \t]*:[ \t]*\"?([\w.%<>=,;:/+-]{0,200})", line)
            if match and match.group(1) in FIELDS:
                found.append((FIELDS[match.group(1)], Setting(f"{match.group(1)}: {match.group(2)}".rstrip(": ,"), file, number)))
    return found


def root_dir(config: Rke2Config) -> str:
    """The kubelet's directory: ``root-dir`` of its arguments, else the default that RKE2 keeps."""
    given = [arg.value for arg in config.kubelet_args if arg.flag == "root-dir" and arg.value.startswith("/")]
    return given[-1] if given else DEFAULT_ROOT_DIR


def data_dir(config: Rke2Config) -> str:
    """RKE2's directory."""
    given = config.values.get("data-dir")
    return given if isinstance(given, str) and given.startswith("/") else DEFAULT_DATA_DIR


def version(sysroot: SysRoot, config: Rke2Config) -> Optional[str]:
    """Version of the RKE2 that was started last, from the link to its programs; None where it cannot be told."""
    match = re.search(r"(?:^|/)data/(v\d+\.\d+\.\d+)[+-](rke2r\d+)", sysroot.readlink(f"{data_dir(config)}/bin") or "")
    return f"{match.group(1)}+{match.group(2)}" if match else None


def minor(text: Optional[str]) -> Optional[int]:
    """Minor version of Kubernetes in a version of RKE2."""
    match = re.match(r"v\d+\.(\d+)", text or "")
    return int(match.group(1)) if match else None


def gates(config: Rke2Config) -> Optional[Dict[str, bool]]:
    """Feature gates that RKE2's files set for the kubelet; None where they cannot be told."""
    found: Dict[str, bool] = {}
    for arg in config.kubelet_args:
        for part in arg.value.split(",") if arg.flag == "feature-gates" else ():
            name, equals, value = part.partition("=")
            if not equals:
                return None
            found[name.strip()] = value.strip() in ("1", "t", "T", "true", "TRUE", "True")
    return found if config.complete else None


def unknown_flags(config: Rke2Config, minor: Optional[int]) -> Tuple[List[str], List[str]]:
    """Arguments of RKE2's files for the kubelet that it has not, and those of which that is not known; with one that it has not it does not start.

    :param minor: of the kubelet's version; None where it is not known.
    """
    strange = {arg.flag for arg in config.kubelet_args} - KNOWN_FLAGS
    gone = strange & _GONE_FLAGS if minor is not None and minor >= _GONE_BY else set()
    return sorted(gone), sorted(strange - gone)


def configured(sysroot: SysRoot, config: Rke2Config) -> Tuple[Optional[Dict[str, Any]], str]:
    """Knobs of the kubelet that RKE2 would start now, or None and the reason where they cannot be told."""
    if not config.complete:
        return None, "RKE2's configuration cannot be read as a whole"
    found = values([(arg.flag, arg.value) for arg in config.kubelet_args])
    for _knob, setting, text in unit_settings(sysroot, None):
        return None, f"{setting.source} sets {text} for the kubelet, which RKE2's configuration does not show"
    for knob, setting in file_settings(sysroot, config, data_dir(config)):
        # A flag beats the file.
        if found[knob] is None:
            return None, f"{setting.source} sets '{setting.value}' for the kubelet, which RKE2's configuration does not show"
    return found, ""


__all__ = (
    "DEFAULT_DATA_DIR", "FIELDS", "FLAGS", "KNOWN_FLAGS", "configured", "data_dir", "file_settings", "gates", "minor", "root_dir", "unit_settings",
    "unknown_flags", "values", "version",
)
