# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RKE2's configuration files: read, merged as RKE2 merges them, and never more of them than may leave the node.

RKE2 reads ``config.yaml`` and then every ``*.yaml`` and ``*.yml`` of ``config.yaml.d`` in name order. The last value of a
key replaces earlier ones; ``key+`` appends (k3s ``pkg/configfilearg``). These files hold the cluster's join token, so a
value leaves this module only if its key is in ``WHITELIST``, and no problem quotes what a file says.

Nodes have no YAML library for the Python that Ansible uses there. The reader below takes the part of YAML that such files
use: one top-level mapping of scalars and lists. Whatever could mean something else (anchors, tags, tabs, several
documents, values that go over line ends) is a problem with its line, and then the file says nothing. It never guesses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple, Union

from ansible_collections.inferops.locality.plugins.module_utils.sysroot import SysRoot

CONFIG = "/etc/rancher/rke2/config.yaml"
ENVIRONMENT = tuple(f"/etc/{folder}/rke2-{role}" for folder in ("default", "sysconfig") for role in ("server", "agent"))
MAX_BYTES = 2**20

# Keys whose values hold an address or name the machine: left out of snapshots that are made anonymous.
ADDRESS_KEYS = frozenset(("node-ip", "node-external-ip", "node-name", "cluster-cidr", "service-cidr"))

# Keys whose values may leave the node. Tokens, servers, registries and object store settings never do.
WHITELIST = ADDRESS_KEYS | frozenset((
    "cloud-provider-name", "cni", "container-runtime-endpoint", "control-plane-resource-limits", "control-plane-resource-requests",
    "data-dir", "debug", "disable", "disable-cloud-controller", "disable-kube-proxy", "kubelet-arg", "kubelet-path", "node-label",
    "node-taint", "profile", "protect-kernel-defaults", "resolv-conf", "selinux", "snapshotter", "with-node-id",
))

# Names of keys that may leave the node: those of the references of "rke2 server" and "rke2 agent" (docs.rke2.io). A secret that was
# typed where a key belongs, or a key that somebody made up, is in none of them. Patterns such as etcd-* would let both through.
KNOWN_KEYS = WHITELIST | frozenset("""
advertise-address agent-token agent-token-file airgap-extra-registry audit-policy-file bind-address cloud-controller-manager-extra-env
cloud-controller-manager-extra-mount cloud-provider-config cluster-dns cluster-domain cluster-init cluster-reset
cluster-reset-restore-path config control-plane-probe-configuration datastore-cafile datastore-certfile datastore-endpoint
datastore-keyfile default-runtime disable-agent disable-apiserver disable-controller-manager disable-default-registry-endpoint
disable-etcd disable-scheduler egress-selector-mode embedded-registry enable-pprof enable-servicelb etcd-arg
etcd-disable-snapshots etcd-expose-metrics etcd-extra-env etcd-extra-mount etcd-image etcd-s3 etcd-s3-access-key etcd-s3-bucket
etcd-s3-bucket-lookup-type etcd-s3-config-secret etcd-s3-endpoint etcd-s3-endpoint-ca etcd-s3-folder etcd-s3-insecure etcd-s3-proxy
etcd-s3-region etcd-s3-retention etcd-s3-secret-key etcd-s3-session-token etcd-s3-skip-ssl-verify etcd-s3-timeout
etcd-snapshot-compress etcd-snapshot-dir etcd-snapshot-name etcd-snapshot-reconcile-interval etcd-snapshot-retention
etcd-snapshot-schedule-cron helm-job-image image-credential-provider-bin-dir image-credential-provider-config
ingress-controller kine-tls kube-apiserver-arg kube-apiserver-extra-env kube-apiserver-extra-mount kube-apiserver-image
kube-cloud-controller-manager-arg kube-controller-manager-arg kube-controller-manager-extra-env
kube-controller-manager-extra-mount kube-controller-manager-image kube-proxy-arg kube-proxy-extra-env kube-proxy-extra-mount
kube-proxy-image kube-scheduler-arg kube-scheduler-extra-env kube-scheduler-extra-mount kube-scheduler-image lb-server-port
log multus node-external-dns node-internal-dns node-name-from-cloud-provider-metadata nonroot-devices pause-image
pod-security-admission-config-file private-registry runtime-image secrets-encryption secrets-encryption-provider server
servicelb-namespace service-node-port-range supervisor-metrics system-default-registry tls-san tls-san-security token token-file vmodule
vpn-auth vpn-auth-file write-kubeconfig write-kubeconfig-group write-kubeconfig-mode
""".split())

# Variables of the units' environment files that stand for a configuration key (the flag wins over the variable).
ENVIRONMENT_KEYS = {"RKE2_DATA_DIR": "data-dir", "RKE2_NODE_NAME": "node-name", "RKE2_CNI": "cni", "RKE2_CONFIG_FILE": "config"}

# Flags of the kubelet whose values may leave the node: all that its reference lists and that hold no credentials.
KUBELET_FLAGS = frozenset("""
address allowed-unsafe-sysctls anonymous-auth authorization-mode cgroup-driver cgroup-root cgroups-per-qos client-ca-file
cloud-provider cluster-dns cluster-domain config config-dir container-log-max-files container-log-max-size
container-runtime-endpoint contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy cpu-manager-policy-options
cpu-manager-reconcile-period enable-controller-attach-detach enable-debugging-handlers enable-server enforce-node-allocatable
event-burst event-qps eviction-hard eviction-max-pod-grace-period eviction-minimum-reclaim eviction-pressure-transition-period
eviction-soft eviction-soft-grace-period experimental-allocatable-ignore-eviction fail-swap-on feature-gates file-check-frequency
hairpin-mode healthz-bind-address healthz-port hostname-override housekeeping-interval image-gc-high-threshold
image-gc-low-threshold image-service-endpoint iptables-drop-bit iptables-masquerade-bit keep-terminated-pod-volumes kube-api-burst
kube-api-qps kube-reserved kube-reserved-cgroup kubelet-cgroups local-storage-capacity-isolation log-flush-frequency
logging-format make-iptables-util-chains max-open-files max-pods maximum-dead-containers maximum-dead-containers-per-container
memory-manager-policy minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels
node-status-max-images node-status-update-frequency oom-score-adj pod-cidr pod-infra-container-image pod-manifest-path
pod-max-pids pods-per-core port protect-kernel-defaults read-only-port register-node register-with-taints registry-burst
registry-qps reserved-cpus reserved-memory resolv-conf root-dir rotate-certificates rotate-server-certificates
runtime-cgroups runtime-request-timeout seccomp-default serialize-image-pulls streaming-connection-idle-timeout
sync-frequency system-cgroups system-reserved system-reserved-cgroup tls-cipher-suites tls-min-version topology-manager-policy
topology-manager-policy-options topology-manager-scope v vmodule volume-plugin-dir volume-stats-agg-period
""".split())
ADDRESS_FLAGS = frozenset(("address", "cluster-dns", "healthz-bind-address", "hostname-override", "node-ip", "pod-cidr"))
LEFT_OUT = "(left out)"

# No value RKE2 or the kubelet means holds this: it is something else that was glued on, and that may be a secret. A space behind
# a comma is how lists are typed.
_GLUED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]|\s-|(?<![,;\s])\s+[^\s=]+=")
_FLAG_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_KEY = re.compile(r"""(?:(?P<plain>[A-Za-z0-9][A-Za-z0-9_.+/-]{0,200})|(?P<q>["'])(?P<quoted>[A-Za-z0-9_.+/-]{1,200})(?P=q))[ ]*:(?= |$)""")
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_BLOCK = re.compile(r"([|>])(?:([1-9])([+-]?)|([+-])([1-9]?))?[ ]*(?:(?<= )#.*)?")
_FLOW_PLAIN = re.compile(r"(?:-(?=[A-Za-z0-9-])|[A-Za-z0-9_./=+<~;^$()])(?:[A-Za-z0-9_./=+<>~;^$()%@-]|:(?=[A-Za-z0-9_./-])|[ ](?=[A-Za-z0-9]))*")
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0abtnvfre "\\N_LP]))')
_ESCAPED = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ", '"': '"',
            "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
_NULL = ("", "~", "null", "Null", "NULL")
_TRUE = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
# What YAML 1.1 turns into another text on its way through RKE2: 010 is 8, 1_000 is 1000, 1.10 is 1.1, a date is a time.
_NUMBERLIKE = re.compile(
    r"[-+]?(?:0[xXobOB][0-9A-Fa-f_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9_]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF|nan|NaN|NAN))"
    r"|[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")

# First line of what redact() makes of a file that cannot be read: its copy gives the same problem.
_MARK = "%LOCALITY "


class ConfigError(ValueError):
    """A file that is not in the part of YAML that is read here. The text never quotes the file.

    :ivar line: number of the line, from 1.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class _Nested(Exception):
    """A value that is neither a scalar nor a list of scalars."""


@dataclass(frozen=True)
class Item:
    """One scalar: its text as YAML 1.1 has it without types, its line, and whether it was quoted (and so is a string)."""

    text: str
    line: int
    quoted: bool


@dataclass(frozen=True)
class Entry:
    """One key of the file. ``kind``: ``scalar`` (one item), ``list``, or ``nested`` (no items: not read)."""

    key: str
    line: int
    kind: str
    items: Tuple[Item, ...] = ()
    flow: bool = False


@dataclass(frozen=True)
class KubeletArg:
    """One argument RKE2 hands to the kubelet. ``value`` is ``(left out)`` where the flag is not in KUBELET_FLAGS or has something glued to its value."""

    flag: str
    value: str
    file: str
    line: int


@dataclass(frozen=True)
class Replaced:
    """A plain ``kubelet-arg`` and one flag of an earlier file that the list loses by it. ``file`` and ``line``: of the plain key."""

    flag: str
    dropped_from: str
    file: str
    line: int


Value = Union[str, List[str], None]


@dataclass
class Rke2Config:
    """The merged configuration.

    :ivar values: whitelisted keys only, as the text RKE2 passes on; lists where the file has lists; None for null.
    :ivar sources: ``file:line`` of the last occurrence of each of these keys.
    :ivar kubelet_args: in the order RKE2 passes them.
    :ivar replaced: flags of earlier files that a plain ``kubelet-arg`` of a later file drops.
    :ivar files: ``{"file", "keys"}`` in the order read; only names in KNOWN_KEYS, with their ``+``.
    :ivar path: the main file; the folder of the others is beside it.
    :ivar complete: False where a file could not be read: then absence in ``values`` says nothing.
    """

    values: Dict[str, Value] = field(default_factory=dict)
    sources: Dict[str, str] = field(default_factory=dict)
    kubelet_args: List[KubeletArg] = field(default_factory=list)
    replaced: List[Replaced] = field(default_factory=list)
    files: List[Dict[str, object]] = field(default_factory=list)
    problems: List[Dict[str, str]] = field(default_factory=list)
    path: str = CONFIG
    complete: bool = True


class _Reader:
    def __init__(self, text: str) -> None:
        if text.startswith("\ufeff"):
            text = text[1:]
        self.lines = text.replace("\r\n", "\n").split("\n")
        self.at = 0
        for number, line in enumerate(self.lines):
            if _UNPRINTABLE.search(line):
                raise ConfigError(number + 1, "holds a character YAML does not allow")

    def stop(self, reason: str, at: Optional[int] = None) -> ConfigError:
        return ConfigError((self.at if at is None else at) + 1, reason)

    def content(self) -> Optional[int]:
        """Go to the next line that is neither blank nor a comment; its indentation, or None at the end."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            bare = line.lstrip(" ")
            if bare and bare[0] != "#":
                if bare[0] == "\t":
                    raise self.stop("holds a tab where blanks are needed")
                return len(line) - len(bare)
            self.at += 1
        return None

    def marker(self) -> bool:
        line = self.lines[self.at]
        return line[:3] in ("---", "...") and line[3:4] in ("", " ", "\t")

    def dash(self, column: int) -> bool:
        line = self.lines[self.at]
        return line[column:column + 1] == "-" and line[column + 1:column + 2] in ("", " ")

    # -- the document

    def document(self) -> List[Entry]:
        entries: List[Entry] = []
        base = None
        started = False
        while True:
            indent = self.content()
            if indent is None:
                return entries
            line = self.lines[self.at]
            if self.marker():
                if line[3:].strip(" ") and not line[3:].lstrip(" ").startswith("#"):
                    raise self.stop("has content beside a document marker")
                self.at += 1
                if line.startswith("..."):
                    if not started and not entries:
                        raise self.stop("ends a document before its start", self.at - 1)
                    if self.content() is not None:
                        raise self.stop("starts a second document")
                    return entries
                if started or entries:
                    raise self.stop("starts a second document", self.at - 1)
                started = True
                continue
            if line.startswith("%"):
                raise self.stop(line[len(_MARK):] if line.startswith(_MARK) else "is a YAML directive")
            base = indent if base is None else base
            if indent != base:
                raise self.stop("is indented in a way that does not fit the keys before it")
            entries.append(self.entry(base))

    def entry(self, base: int) -> Entry:
        line, number = self.lines[self.at], self.at
        match = _KEY.match(line, base)
        if not match:
            raise self.stop("is not 'key: value'")
        key = match.group("plain") or match.group("quoted")
        rest = line[match.end():].lstrip(" ")
        if rest and rest[0] != "#":
            try:
                items, kind, flow = self.inline(rest, base)
            except _Nested:
                self.at = number
                self.skip(base, first=match.end())
                items, kind, flow = (), "nested", False
            if (self.content() or 0) > base and not self.marker():
                raise self.stop("goes on with a value in a way that is not read here")
            return Entry(key, number + 1, kind, items, flow)
        self.at += 1
        indent = self.content()
        if indent is None or indent < base or self.marker() or (indent == base and not self.dash(base)):
            return Entry(key, number + 1, "scalar", (Item("", number + 1, False),))
        start = self.at
        try:
            if not self.dash(indent):
                raise _Nested
            return Entry(key, number + 1, "list", self.block_list(base, indent))
        except _Nested:
            self.at = start
            self.skip(base)
            return Entry(key, number + 1, "nested")

    def inline(self, rest: str, base: int) -> Tuple[Tuple[Item, ...], str, bool]:
        """A value that starts on the line of its key; ``at`` is behind it afterwards."""
        if rest[0] == "[":
            return self.flow_list(len(self.lines[self.at]) - len(rest)), "list", True
        if rest[0] == "{":
            raise _Nested
        item = self.scalar(rest, base)
        if item is None:
            raise self.stop("holds a mapping where a value is wanted")
        return (item,), "scalar", False

    def scalar(self, rest: str, parent: int) -> Optional[Item]:
        """A scalar up to the end of its line (or block); None if it is a key of a nested mapping."""
        number = self.at
        if rest[0] in "\"'":
            text, end = self.quoted(rest, 0)
            tail = rest[end:].lstrip(" ")
            if tail.startswith(":") and tail[1:2] in ("", " "):
                return None
            if tail and not (tail[0] == "#" and rest[end] == " "):
                raise self.stop("has something behind a quoted value")
            self.at += 1
            return Item(text, number + 1, True)
        if rest[0] in "|>":
            return Item(self.block_text(rest, parent), number + 1, True)
        if rest[0] in "&*!":
            raise self.stop("holds an anchor, an alias or a tag")
        if rest[0] in "%@`,[]{}#" or (rest[0] in "-?:" and rest[1:2] in ("", " ")):
            raise self.stop("has a value that is not read here: quote it")
        comment = rest.find(" #")
        text = (rest if comment < 0 else rest[:comment]).rstrip(" ")
        if "\t" in text:
            raise self.stop("holds a tab")
        if ": " in text or text.endswith(":"):
            return None
        self.at += 1
        return Item(text, number + 1, False)

    def quoted(self, line: str, start: int) -> Tuple[str, int]:
        """A quoted scalar that ends on its line; its text and the position behind it."""
        quote = line[start]
        at = start + 1
        parts: List[str] = []
        while at < len(line):
            char = line[at]
            if char == quote:
                if quote == "'" and line[at + 1:at + 2] == "'":
                    parts.append("'")
                    at += 2
                    continue
                return "".join(parts), at + 1
            if char == "\\" and quote == '"':
                match = _ESCAPE.match(line, at)
                if not match:
                    raise self.stop("has an escape in a quoted value that is not read here")
                code = match.group(1) or match.group(2) or match.group(3)
                if code is None:
                    parts.append(_ESCAPED[match.group(4)])
                elif int(code, 16) > 0x10ffff or 0xd800 <= int(code, 16) < 0xe000:
                    raise self.stop("has an escape in a quoted value that is no character")
                else:
                    parts.append(chr(int(code, 16)))
                at = match.end()
                continue
            parts.append(char)
            at += 1
        raise self.stop("has a quoted value that does not end on its line")

    def block_text(self, header: str, parent: int) -> str:
        """A literal or folded block (YAML 1.1 §9.2); ``at`` is behind it afterwards."""
        match = _BLOCK.fullmatch(header)
        if not match:
            raise self.stop("has a block header that is not read here")
        first = self.at
        start = self.at = first + 1
        chomp = match.group(3) or match.group(4) or ""
        digit = match.group(2) or match.group(5)
        indent = parent + int(digit) if digit else 0
        if not digit:
            deepest = 0
            while start < len(self.lines) and not self.lines[start].strip(" "):
                deepest = max(deepest, len(self.lines[start]))
                start += 1
            indent = len(self.lines[start]) - len(self.lines[start].lstrip(" ")) if start < len(self.lines) else 0
            if deepest > indent and indent > parent:
                raise self.stop("has a block whose first blank lines are deeper than its text", start)
            indent = max(indent, parent + 1)
        body: List[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip(" ") and len(line) - len(line.lstrip(" ")) < indent:
                break
            if not line.strip(" ") and self.at == len(self.lines) - 1:
                # what stands behind the last line end is no line
                if line:
                    raise self.stop("has a block that ends in blanks")
                self.at += 1
                break
            body.append(line[indent:])
            self.at += 1
        ended = self.at < len(self.lines) or not self.lines[-1].strip(" ")
        kept = list(body)
        while kept and not kept[-1]:
            kept.pop()
        if any(body) and not any(line.strip(" ") for line in body):
            raise self.stop("has a block of blanks only", first)
        if match.group(1) == ">":
            if any(not line or line[0] in " \t" for line in kept) or chomp == "+":
                raise _Nested
            text = " ".join(kept)
        else:
            text = "\n".join(kept)
        if chomp == "+":
            return "\n".join(body) + ("\n" if body and ended else "")
        return text + ("\n" if kept and not chomp and (ended or len(kept) < len(body)) else "")

    def block_list(self, base: int, column: int) -> Tuple[Item, ...]:
        items: List[Item] = []
        while True:
            indent = self.content()
            if indent is None or indent < column or (indent == column and not self.dash(column)) or self.marker():
                if indent is not None and indent > base and not self.marker():
                    raise self.stop("is indented in a way that does not fit the list before it")
                return tuple(items)
            if indent > column:
                # a value that goes on, or a mapping below an item
                raise _Nested
            number = self.at
            rest = self.lines[number][column + 1:].lstrip(" ")
            if not rest or rest[0] == "#":
                self.at += 1
                following = self.content()
                if following is not None and following > column and not self.marker():
                    raise _Nested
                items.append(Item("", number + 1, False))
                continue
            if rest[0] in "[{" or (rest[0] == "-" and rest[1:2] in ("", " ")):
                raise _Nested
            item = self.scalar(rest, column)
            if item is None:
                raise _Nested
            following = self.content()
            if following is not None and following > column and not self.marker():
                raise self.stop("goes on with a value in a way that is not read here")
            items.append(item)

    def flow_list(self, column: int) -> Tuple[Item, ...]:
        items: List[Item] = []
        column += 1
        value_wanted = True
        while True:
            line = self.lines[self.at] if self.at < len(self.lines) else ""
            while column < len(line) and line[column] == " ":
                column += 1
            if column >= len(line) or (line[column] == "#" and (column == 0 or line[column - 1] == " ")):
                self.at += 1
                column = 0
                if self.at >= len(self.lines):
                    raise self.stop("ends within a list", len(self.lines) - 1)
                if self.marker():
                    raise self.stop("starts a second document")
                continue
            char = line[column]
            if char == "]":
                tail = line[column + 1:].lstrip(" ")
                if tail and not (tail[0] == "#" and line[column + 1] == " "):
                    raise self.stop("has something behind a list")
                self.at += 1
                return tuple(items)
            if char == ",":
                if value_wanted:
                    raise self.stop("has a comma without a value before it")
                value_wanted = True
                column += 1
                continue
            if not value_wanted:
                raise self.stop("has a value in a list that is not read here: quote it")
            value_wanted = False
            if char in "\"'":
                text, column = self.quoted(line, column)
                items.append(Item(text, self.at + 1, True))
                continue
            match = _FLOW_PLAIN.match(line, column)
            if not match:
                raise self.stop("has a value in a list that is not read here: quote it")
            items.append(Item(match.group(), self.at + 1, False))
            column = match.end()
            if line[column:column + 1] not in ("", " ", ",", "]"):
                raise self.stop("has a value in a list that is not read here: quote it")

    # -- values that are not wanted

    def skip(self, base: int, first: Optional[int] = None) -> None:
        """Go behind a nested value. Only what could hide the end of it matters here: open quotes, brackets and blocks."""
        start = self.at
        while True:
            indent = self.content()
            if indent is None:
                return
            if first is None or self.at != start:
                if self.marker() or indent < base or (indent == base and not self.dash(base)):
                    return
                column = self.harmless(indent)
            else:
                column = self.harmless(first, base)
            self.at += 1
            if column is not None:
                while self.at < len(self.lines):
                    line = self.lines[self.at]
                    if line.strip(" ") and len(line) - len(line.lstrip(" ")) <= column:
                        break
                    self.at += 1

    def harmless(self, at: int, column: int = 0) -> Optional[int]:
        """Check that nothing stays open at the end of the line; the parent's column if a block starts there."""
        line = self.lines[self.at]
        while True:
            while line[at:at + 1] == " ":
                at += 1
            char = line[at:at + 1]
            if char in ("", "#"):
                return None
            if char == "-" and line[at + 1:at + 2] in ("", " "):
                column = at
                at += 1
                continue
            if char in "?\t" and line[at + 1:at + 2] in ("", " ", "\t"):
                raise self.stop("is not read here")
            if char in "|>":
                if not _BLOCK.fullmatch(line[at:]):
                    raise self.stop("has a block header that is not read here")
                return column
            if char in "&!":
                space = line.find(" ", at)
                if space < 0:
                    return None
                at = space
                continue
            begin = at
            if char in "\"'[{":
                at = self.quoted(line, at)[1] if char in "\"'" else self.brackets(at)
                tail = line[at:].lstrip(" ")
                if not tail or tail[0] == "#":
                    return None
                if tail[0] != ":" or tail[1:2] not in ("", " "):
                    raise self.stop("has something behind a value")
                at = len(line) - len(tail) + 1
                column = begin
                continue
            match = re.compile(r":(?= |$)| #").search(line, at)
            if not match or match.group() == " #":
                return None
            column = begin
            at = match.end()

    def brackets(self, at: int) -> int:
        """Position behind the flow list or mapping that starts here and must end on its line."""
        line = self.lines[self.at]
        depth = 0
        while at < len(line):
            char = line[at]
            if char in "\"'" and line[at - 1] in " [{,:":
                at = self.quoted(line, at)[1]
                continue
            if char == "#" and line[at - 1] == " ":
                break
            depth += (char in "[{") - (char in "]}")
            at += 1
            if depth == 0:
                return at
        raise self.stop("has brackets that do not close on their line")


def parse(text: str) -> List[Entry]:
    """Read one file. Values of nested keys are not read (``kind`` is ``nested``).

    :raises ConfigError: the file is not in the part of YAML that is read here.
    """
    return _Reader(text).document()


def resolve(item: Item) -> Optional[str]:
    """The text RKE2 makes of a scalar; None for null.

    :raises ConfigError: a plain number or date in another than the usual form, whose text RKE2 changes.
    """
    if item.quoted:
        return item.text
    if item.text in _NULL:
        return None
    if item.text in _TRUE or item.text in _FALSE:
        return "true" if item.text in _TRUE else "false"
    if _NUMBERLIKE.fullmatch(item.text) and not _INTEGER.fullmatch(item.text):
        raise ConfigError(item.line, "has a number or date that YAML changes: quote it")
    return item.text


def split_argument(text: str) -> Optional[Tuple[str, str]]:
    """Flag and value of one ``kubelet-arg`` as RKE2 splits it: ``--`` is dropped, split at the first ``=``, without one the
    value is ``true``, a ``+`` or ``-`` behind the flag means append or prepend to RKE2's own value (k3s ``pkg/util/args.go``).

    None where this is not a flag.
    """
    name, equals, value = (text[2:] if text.startswith("--") else text).partition("=")
    name = name.rstrip("+-")
    if not _FLAG_NAME.fullmatch(name) or (not equals and name not in KUBELET_FLAGS):
        return None
    return name, value if equals else "true"


def glued(value: str) -> bool:
    """Whether something follows a value that is not part of it: a line, a control character, or another argument."""
    return bool(_GLUED.search(value))


def _known_key(key: str) -> bool:
    return (key[:-1] if key.endswith("+") else key) in KNOWN_KEYS


def _allowed_argument(text: str) -> Optional[str]:
    split = split_argument(text)
    if split is None:
        return None
    return text if split[0] in KUBELET_FLAGS and not glued(split[1]) else f"{text.partition('=')[0]}={LEFT_OUT}"


def file_names(sysroot: SysRoot, config: str = CONFIG) -> List[str]:
    """The files RKE2 reads, in its order. A folder that holds no file of ours is still looked at: it may come later."""
    folder = config + ".d"
    names = [name for name in sysroot.listdir(folder) if name.lower().endswith((".yaml", ".yml"))]
    return [config] + [f"{folder}/{name}" for name in names if not sysroot.is_dir(f"{folder}/{name}")]


def read(sysroot: SysRoot) -> Rke2Config:
    """Read and merge the configuration of the node's RKE2. Never raises; see Rke2Config."""
    result = Rke2Config()
    environment, config = _environment(sysroot, result)
    result.path = config
    merged: Dict[str, List[Tuple[Item, str]]] = {}
    listed: Dict[str, bool] = {}
    unread: set[str] = set()
    for name in file_names(sysroot, config):
        before = len(sysroot.problems)
        text = sysroot.text(name, MAX_BYTES)
        if text is None:
            # absent is fine; whatever else happened is in the problems already
            if len(sysroot.problems) > before:
                result.complete = False
            continue
        try:
            entries = parse(text + "\n")
        except ConfigError as error:
            _problem(sysroot, result, name, str(error))
            result.complete = False
            continue
        result.files.append({"file": name, "keys": [entry.key for entry in entries if _known_key(entry.key)]})
        for entry in entries:
            key = entry.key[:-1] if entry.key.endswith("+") else entry.key
            if key not in WHITELIST:
                continue
            if entry.kind == "nested":
                _problem(sysroot, result, name, f"line {entry.line}: {key} is neither a value nor a list of values")
                unread.add(key)
                continue
            found = [(item, name) for item in entry.items]
            if entry.key.endswith("+") and key in merged:
                merged[key] = merged[key] + [pair for pair in found if entry.kind == "list" or pair[0].quoted or pair[0].text not in _NULL]
                listed[key] = True
            else:
                if key == "kubelet-arg":
                    _note_replaced(result, merged.get(key, []), name, entry.line)
                merged[key] = found
                listed[key] = entry.kind == "list"
                unread.discard(key)
            result.sources[key] = f"{name}:{entry.line}"
    for key, pairs in merged.items():
        _settle(sysroot, result, key, pairs, listed[key], unread)
    for key in unread:
        result.complete = False
        result.values.pop(key, None)
    for key, (value, source) in environment.items():
        if key not in result.values and key not in unread:
            result.values[key] = value
            result.sources[key] = source
    return result


def _note_replaced(result: Rke2Config, before: List[Tuple[Item, str]], file: str, line: int) -> None:
    """Keep the flags of other files that are dropped; what cannot be read was no flag to lose."""
    for item, origin in before:
        try:
            split = split_argument(resolve(item) or "")
        except ConfigError:
            continue
        entry = None if split is None or origin == file else Replaced(split[0], origin, file, line)
        if entry is not None and entry not in result.replaced:
            result.replaced.append(entry)


def _settle(sysroot: SysRoot, result: Rke2Config, key: str, pairs: List[Tuple[Item, str]], is_list: bool, unread: set[str]) -> None:
    """Put the merged items of one key into the result."""
    texts: List[str] = []
    for item, name in pairs:
        try:
            text = resolve(item)
        except ConfigError as error:
            _problem(sysroot, result, name, str(error))
            unread.add(key)
            continue
        if key != "kubelet-arg":
            texts.append("" if text is None else LEFT_OUT if glued(text) else text)
            continue
        split = split_argument(text or "")
        if split is None:
            _problem(sysroot, result, name, f"line {item.line}: is not a kubelet argument of the form flag=value")
            continue
        allowed = split[0] in KUBELET_FLAGS and not glued(split[1])
        result.kubelet_args.append(KubeletArg(split[0], split[1] if allowed else LEFT_OUT, name, item.line))
        texts.append(_allowed_argument(text or "") or "")
    if is_list:
        result.values[key] = texts
    elif key == "kubelet-arg":
        # RKE2 takes a single text for a list of one
        result.values[key] = texts
    elif texts:
        first = pairs[0][0]
        result.values[key] = None if not first.quoted and first.text in _NULL else texts[0]


def _problem(sysroot: SysRoot, result: Rke2Config, file: str, reason: str) -> None:
    result.problems.append({"file": file, "reason": reason})
    sysroot.problem(file, reason)


# -- environment files of the units (systemd.exec(5), EnvironmentFile=)

_VARIABLE = re.compile(r"\s*([A-Z0-9_]+)=(?:\"([^\"\\$`]*)\"|'([^']*)'|([^\s\"'\\]*))\s*")


def _environment(sysroot: SysRoot, result: Rke2Config) -> Tuple[Dict[str, Tuple[str, str]], str]:
    """Whitelisted variables of the environment files as ``key: (value, file:line)``, and the path of the main file."""
    found: Dict[str, Tuple[str, str]] = {}
    for name in ENVIRONMENT:
        text = sysroot.text(name, MAX_BYTES)
        for number, line in enumerate((text or "").split("\n"), start=1):
            match = _VARIABLE.fullmatch(line)
            if match and match.group(1) in ENVIRONMENT_KEYS:
                value = next(group for group in match.groups()[1:] if group is not None)
                found[ENVIRONMENT_KEYS[match.group(1)]] = (value, f"{name}:{number}")
    config = found.pop("config", (CONFIG, ""))[0]
    if not config.startswith("/"):
        _problem(sysroot, result, CONFIG, "RKE2_CONFIG_FILE is not an absolute path: this file is not read")
        result.complete = False
        config = CONFIG
    return found, config


# -- copies that may leave the node

def _literal(text: str) -> str:
    """A double quoted YAML scalar."""
    plain = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(plain.get(char, char) if char in plain or not _UNPRINTABLE.match(char) else f"\\U{ord(char):08x}" for char in text) + '"'


def redact(text: str) -> str:
    """The file as it may leave the node: whitelisted keys with their values, every key and value on its own line number.

    Comments and the values of other keys are dropped, keys that RKE2 does not know are dropped with their value. The copy
    gives the same answers as the file; of a file that cannot be read only the problem is kept.
    """
    try:
        # as read() has it
        entries = parse(text.rstrip() + "\n")
    except ConfigError as error:
        lines = [""] * error.line
        lines[error.line - 1] = _MARK + error.reason
        return "\n".join(lines) + "\n"
    lines = [""] * (text.count("\n") + 2)
    for entry in entries:
        key = entry.key[:-1] if entry.key.endswith("+") else entry.key
        if not _known_key(entry.key):
            continue
        head = f"{entry.key}:"
        if entry.kind == "nested":
            lines[entry.line - 1] = head + " {}"
        elif key not in WHITELIST:
            lines[entry.line - 1] = f"{head} {LEFT_OUT}"
        elif entry.kind == "scalar":
            lines[entry.line - 1] = f"{head} {_allowed_scalar(key, entry.items[0])}"
        elif entry.flow:
            lines[entry.line - 1] = head + " ["
            for item in entry.items:
                lines[item.line - 1] += ("" if item.line == entry.line else " ") + _allowed_scalar(key, item) + ","
            last = entry.items[-1].line if entry.items else entry.line
            lines[last - 1] += "]"
        else:
            lines[entry.line - 1] = head
            for item in entry.items:
                lines[item.line - 1] = f"- {_allowed_scalar(key, item)}"
    return "\n".join(lines).rstrip("\n") + "\n"


def _allowed_scalar(key: str, item: Item) -> str:
    try:
        text = resolve(item)
    except ConfigError:
        # another number that YAML changes, on the same line; a date may have anything behind it
        return "01"
    if key == "kubelet-arg":
        return _literal(_allowed_argument(text or "") or "")
    if glued(item.text):
        return _literal(LEFT_OUT)
    if item.quoted:
        return _literal(item.text)
    return item.text if item.text in _NULL + _TRUE + _FALSE or _INTEGER.fullmatch(item.text) else _literal(item.text)


def redact_environment(text: str) -> str:
    """An environment file as it may leave the node: the lines of whitelisted variables, on their own line numbers."""
    lines = []
    for line in text.split("\n"):
        match = _VARIABLE.fullmatch(line)
        lines.append(line if match and match.group(1) in ENVIRONMENT_KEYS else "")
    return "\n".join(lines)


__all__ = (
    "ADDRESS_FLAGS", "ADDRESS_KEYS", "CONFIG", "ConfigError", "ENVIRONMENT", "Entry", "Item", "KNOWN_KEYS", "KUBELET_FLAGS", "KubeletArg", "LEFT_OUT",
    "Replaced", "Rke2Config", "WHITELIST", "file_names", "glued", "parse", "read", "redact", "redact_environment", "resolve", "split_argument",
)
