# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has to say to people: the drift lines of a host, its refusal, the table of a node, the summary of a run.

A *result* is what the role ``observe`` leaves as ``observe_result`` of a host: ``{root, chassis, plan, drift, problems, errors,
drifting}``; playbooks add ``before`` (what drifted before the node was written), ``outcome``, ``window`` and ``topology_differences``.
"""

from __future__ import annotations

import difflib
from typing import Any, Iterable, Mapping, Sequence

from ansible_collections.inferops.locality.plugins.module_utils import cpulist, knobs, kubelet_predict, quantity
from ansible_collections.inferops.locality.plugins.plugin_utils import record_files
from ansible_collections.inferops.locality.plugins.plugin_utils.plain import plain

# Tags of the playbooks, one for each layer that has a role.
LAYERS = ("host", "irq", "kubelet", "network", "dra")

# Knobs that the role of another layer than theirs brings.
_BROUGHT_BY = {"runtime.version": "irq"}

OUTCOMES = {
    "in_sync": "in sync",
    "drifting": "drifting",
    "written": "written, in sync",
    "would_write": "would be written (check mode)",
    "refused": "refused",
    "failed": "failed",
    "removed": "taken off",
    "would_remove": "would be taken off (check mode)",
    "clean": "has nothing of this collection",
    "left": "left out, the rollout stopped before it",
    "closed": "left out, its maintenance window is closed",
    "unfinished": "not finished, the connection was lost",
    "unreachable": "not reached",
}

# What only reads refuses nothing: it says what site.yml would do.
_WOULD_REFUSE = "has errors, site.yml would refuse it"
STYLES: dict[str, dict[str, str]] = {
    "table": OUTCOMES,
    "audit": {**OUTCOMES, "refused": _WOULD_REFUSE},
    "plan": {**OUTCOMES, "in_sync": "is as planned", "drifting": "is not as planned yet", "refused": _WOULD_REFUSE},
}


def layers(run_tags: Iterable[str], skip_tags: Iterable[str]) -> list[str]:
    """Layers that a run with these ``--tags`` and ``--skip-tags`` brings to their plan."""
    run, skip = set(run_tags), set(skip_tags)
    chosen = [layer for layer in LAYERS if layer in run] if run and not run & {"all", "tagged"} else list(LAYERS)
    return [layer for layer in chosen if layer not in skip]


def strange_tags(run_tags: Iterable[str], skip_tags: Iterable[str]) -> list[str]:
    """Tags of a run that were meant for a layer and name none: those of ``--tags``, and of ``--skip-tags`` those that look like a layer.

    Whoever imports a playbook skips tags of his own, as molecule does (``notest``).
    """
    known = {*LAYERS, "all", "always", "tagged"}
    alike = [tag for tag in skip_tags if difflib.get_close_matches(tag, LAYERS, cutoff=0.75)]
    return [tag for tag in [*run_tags, *alike] if tag not in known]


def drifting(drift: Mapping[str, Any], only: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Entries of managed knobs that are not as planned. ``only``: those of these layers; a knob without a role is in all of them."""
    result = []
    for entry in drift.get("entries") or []:
        knob = knobs.KNOBS.get(entry["knob"])
        layer = _BROUGHT_BY.get(entry["knob"], knob.layer) if knob else None
        if entry["class"] == "managed" and not entry["in_sync"] and (only is None or layer not in LAYERS or layer in only):
            result.append(dict(entry))
    return result


# Knobs whose numbers are bytes.
_BYTES = ("kubelet.reserved_memory", "kubelet.system_reserved", "kubelet.kube_reserved", "kubelet.eviction_hard")


def stale_files(state: Mapping[str, Any], plan: Mapping[str, Any]) -> list[dict[str, str]]:
    """Checkpoint files of the kubelet that must be gone before it starts as planned: ``[{file, reason}]``.

    Files of a form nobody here knows are left alone: the proof that follows names them.
    """
    wanted = plan.get("knobs") or {}
    return kubelet_predict.stale(state, wanted) if "kubelet.state_files" in wanted else []


def shown(value: Any, size: bool = False) -> str:
    """The value of a knob in one line; ``size``: numbers are bytes."""
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {shown(item, size)}" for key, item in value.items()) or "nothing"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item, size) for item in value) or "nothing"
    if size and isinstance(value, int):
        return quantity.binary(value)
    return str(value) if value != "" else '""'


def drift_line(entry: Mapping[str, Any]) -> str:
    """Knob, side, wanted, found and where: one line."""
    reason, size = entry.get("reason") or "", entry["knob"] in _BYTES
    knob = knobs.KNOBS.get(entry["knob"])
    # The reason names the sides that were judged and differ; below another root that is the configured one.
    sides = [side for side in (knob.sides if knob else ("running", "configured")) if side in reason]
    texts = []
    for side in sides or ("configured",):
        where = f" ({entry['source']})" if side == "configured" and entry.get("source") else ""
        texts.append(f"{side} {shown(entry.get(side), size)}{where}")
    return f"{entry['knob']}: {', '.join(texts)}; wanted {shown(entry.get('wanted'), size)}; needs {entry.get('needs')} [{reason}]"


def reported(drift: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of reported knobs that are not as wanted, or look so and are right: these never block a node."""
    return [dict(entry) for entry in drift.get("entries") or [] if entry["class"] == "reported" and entry.get("reason")]


def reported_line(entry: Mapping[str, Any]) -> str:
    """A reported knob: whether it is as wanted, and what there is to say."""
    return f"{entry['knob']}: {entry.get('reason') or ('as wanted' if entry['in_sync'] else 'differs')}"


def finding_line(finding: Mapping[str, Any]) -> str:
    """Severity, id, message and hint: one line."""
    hint = f" Hint: {finding['hint']}." if finding.get("hint") else ""
    return f"{finding['severity']} {finding['id']}: {finding['message'].rstrip('.')}.{hint}"


def errors(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What forbids to touch a host: the error findings, and files of its tree that lie outside it."""
    found = [dict(finding) for finding in result.get("findings") or [] if finding["severity"] == "error"]
    told = "\n".join(finding["message"] for finding in found)
    for problem in result.get("problems") or []:
        if "leaves the root" in problem["reason"] and problem["file"] not in told:
            found.append({
                "id": "root.escape", "severity": "error", "message": f"{problem['file']}: {problem['reason']}",
                "hint": "remove the link, or give the node's real root",
            })
    return found


# The finding of a node whose turn an earlier run began and did not end.
UNFINISHED = "site.turn_not_ended"

# What the role observe is used for, and how its errors are headed then.
_REFUSED: Mapping[str, str] = {
    "preflight": "refused, {}, nothing was written:",
    "audit": "{}, site.yml would refuse this node:",
    "proof": "{} after everything was written:",
}


def refusal(result: Mapping[str, Any], mode: str = "preflight") -> str:
    """All errors of a host as one message; empty where there are none. ``mode``: ``preflight``, ``audit`` or ``proof``."""
    wrong = result.get("errors") or []
    if not wrong:
        return ""
    count = "1 error" if len(wrong) == 1 else f"{len(wrong)} errors"
    # Nothing was written by this run, and the node is not as it was all the same.
    left = [finding for finding in result.get("findings") or [] if finding["id"] == UNFINISHED]
    return "\n".join([_REFUSED[mode].format(count)] + [f"- {finding_line(finding)}" for finding in [*wrong, *left]])


def proof(result: Mapping[str, Any]) -> str:
    """All managed knobs of a host that drift as one message; empty where there are none."""
    entries = result.get("drifting") or []
    if not entries:
        return ""
    count = "1 managed knob drifts" if len(entries) == 1 else f"{len(entries)} managed knobs drift"
    return "\n".join([f"{count}:"] + [f"- {drift_line(entry)}" for entry in entries])


def drift_names(result: Mapping[str, Any]) -> str:
    """The names of the managed knobs of a host that drift, for a place below a report that has the rest."""
    entries = result.get("drifting") or []
    if not entries:
        return ""
    count = "1 managed knob drifts" if len(entries) == 1 else f"{len(entries)} managed knobs drift"
    return f"{count}: {', '.join(entry['knob'] for entry in entries)}"


def cost(entries: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Knobs by what it costs to mend them, dearest first."""
    result: dict[str, list[str]] = {}
    for need in reversed(knobs.NEEDS):
        names = [entry["knob"] for entry in entries if entry.get("needs") == need]
        if names:
            result[need] = names
    return result


# Groups that playbooks/tasks/order.yml makes.
_FIRST, _LAST = "locality_first", "locality_last"


def turns(groups: Mapping[str, Sequence[str]], chosen: str, part: str = "all") -> list[str]:
    """Hosts of the group ``chosen`` in the order of their turns: begun ones first, servers last, the others as the inventory has them.

    :param part: ``servers`` for those that come last, ``agents`` for all before them, begun servers too.
    :raises ValueError: on another part than these and ``all``.
    """
    first, last, members = (set(groups.get(name) or ()) for name in (_FIRST, _LAST, chosen))
    if part not in ("all", "agents", "servers"):
        raise ValueError(f"found {part!r}, wanted all, agents or servers")
    last -= first
    if part != "all":
        members = members & last if part == "servers" else members - last
    # A sort keeps the order of those that are equal.
    return sorted((host for host in groups["all"] if host in members), key=lambda host: 0 if host in first else 2 if host in last else 1)


def cost_line(entries: Iterable[Mapping[str, Any]]) -> str:
    """The same in one line."""
    return "; ".join(f"{need}: {', '.join(names)}" for need, names in cost(entries).items())


def results(hostvars: Mapping[str, Any], hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The results of the hosts that the run asked, with the outcome of each; a host that left none was not reached."""
    hosts = list(hosts)
    # --limit: the hosts that were reached know who else was asked.
    asked = next((list(hostvars[host]["site_hosts"]) for host in hosts if "site_hosts" in hostvars[host]), hosts)
    found: dict[str, dict[str, Any]] = {}
    for host in (host for host in hosts if host in asked):
        variables = hostvars[host]
        result = plain(variables.get("observe_result") or {})
        outcome = variables.get("site_outcome")
        if not result:
            outcome = "unreachable"
        elif outcome is None and variables.get("site_begun"):
            outcome = "unfinished"
        elif outcome is None:
            outcome = "refused" if result.get("errors") else "drifting" if result.get("drifting") else "in_sync"
        result["outcome"] = outcome
        before = plain(variables.get("site_before") or {})
        result["before"] = before.get("drifting", result.get("drifting") or [])
        # How the node was disturbed is found before it is, and still to be said after the proof.
        told = [finding for finding in before.get("findings") or [] if finding["id"].startswith(("site.", "cluster."))]
        told = [*(result.get("findings") or []), *(finding for finding in told if finding not in (result.get("findings") or []))]
        # A turn that came to its end here, or of which the failure says how it ended.
        over = outcome in ("written", "removed", "failed")
        result["findings"] = [finding for finding in told if not (over and finding["id"] == UNFINISHED)]
        result["window"] = variables.get("site_window")
        result["failure"] = variables.get("site_failure")
        records_dir = variables.get("locality_records_dir")
        result["records_dir"] = record_files.folder(str(records_dir), variables.get("inventory_dir")) if records_dir else None
        result["topology_differences"] = plain(variables.get("audit_topology_differences") or [])
        found[str(host)] = result
    return found


# -- the table of a node


def _size(value: Any) -> str:
    if value is None:
        return "unknown"
    return quantity.binary(int(value)) if int(value) else "0"


def _count(text: str) -> int:
    return len(cpulist.from_list(text))


def _table(rows: Sequence[Sequence[str]], indent: str) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [(indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))).rstrip() for row in rows]


def _numa_rows(plan: Mapping[str, Any]) -> list[list[str]]:
    rows = [["NUMA node", "housekeeping", "isolated", "whole cores", "memory for pods", "huge pages", "GPUs", "NICs"]]
    capacity = plan["capacity"]["numa_nodes"]
    for node in plan["numa_nodes"]:
        mine = capacity.get(str(node["id"])) or {}
        pages = ", ".join(f"{count} x {size}" for size, count in (node.get("hugepages") or {}).items()) or "-"
        rows.append([
            str(node["id"]), node["housekeeping_cpus"] or "-", node["isolated_cpus"] or "-", str(mine.get("whole_cores", "-")),
            _size(node["allocatable_memory_bytes"]), pages, str(len(node["gpus"])), str(len(node["nics"])),
        ])
    return rows


def _queue_lines(plan: Mapping[str, Any]) -> list[str]:
    """Planned numbers of queues with the NICs that get each."""
    queues = (plan.get("knobs") or {}).get("nic.queues") or {}
    return [f"{count}: {', '.join(nic for nic, mine in queues.items() if mine == count)}" for count in dict.fromkeys(queues.values())]


def node_lines(host: str, result: Mapping[str, Any], style: str = "table") -> list[str]:
    """The table of a node: lists, capacity, pairs, findings, what its drift costs, its window. ``style``: one of ``STYLES``."""
    outcome = STYLES[style].get(result["outcome"], result["outcome"])
    lines = [" ".join(part for part in (host, f"({result['chassis']})" if result.get("chassis") else "", "-", outcome) if part)]

    def row(title: str, texts: Sequence[str]) -> None:
        for index, text in enumerate(texts):
            lines.append(f"  {title if index == 0 else '':<16}{text}".rstrip())

    if result.get("root") not in (None, "/"):
        row("files below", [str(result["root"])])
    plan = result.get("plan") or {}
    if plan.get("capacity"):
        capacity = plan["capacity"]
        row("housekeeping", [f"{plan['housekeeping_cpus'] or 'none'} ({_count(plan['housekeeping_cpus'])} CPUs)"])
        row("isolated", [f"{plan['isolated_cpus'] or 'none'} ({capacity['cpus']} CPUs, {capacity['whole_cores']} whole cores for pods)"])
        lines += _table(_numa_rows(plan), "  ") if plan["numa_nodes"] else []
        pairs = capacity["pairs"]
        if pairs:
            rows = [[pair["gpu"], pair["nic"] or "no NIC", pair["relation"] or "unknown"] for pair in pairs]
            row("GPU, its NIC", _table(rows, ""))
            if "aligned_pairs" in capacity:
                count = capacity["aligned_pairs"]
                row("one PCIe root", [f"{count} {'pair' if count == 1 else 'pairs'} of a GPU and an RDMA NIC"])
            row("far from NICs", [", ".join(capacity["gpus_far_from_nics"]) or "none"])
        row("queues", _queue_lines(plan))
    row("files of ours", result.get("ours") or [])
    # A rollback has no plan to drift from.
    if result["outcome"] != "unreachable" and "ours" not in result:
        before = result["before"]
        title = "drift before" if result["outcome"] == "written" else "drift"
        row(title, [f"{need}: {', '.join(names)}" for need, names in cost(before).items()] or ["none"])
        row("reported", [reported_line(entry) for entry in reported(result.get("drift") or {})])
        if result["outcome"] == "written":
            left = result.get("drifting") or []
            row("drift now", [drift_line(entry) for entry in left] or ["none (written, not in force)" if result.get("root") != "/" else "none"])
    if result.get("window"):
        row("window", [str(result["window"])])
    wrong = result.get("errors") or []
    findings = [*wrong, *(item for item in result.get("findings") or [] if item not in wrong)]
    row("findings", [finding_line(finding) for finding in findings])
    row("nvidia-smi", [_difference_line(item) for item in result["topology_differences"]])
    row("not readable", [f"{problem['file']}: {problem['reason']}" for problem in result.get("problems") or []])
    row("failure", str(result["failure"]).splitlines() if result.get("failure") else [])
    return lines


def _difference_line(item: Mapping[str, Any]) -> str:
    return (
        f"{item['gpu']} ({item['gpu_address']}) and {item['other']} ({item['other_address']}): "
        f"printed {item['printed']}, computed {item['computed']} [{item['reason']}]"
    )


def audit_lines(host: str, result: Mapping[str, Any], style: str = "audit") -> list[str]:
    """A host in an audit: its outcome, then only what is not as planned. ``style``: one of ``STYLES``."""
    outcome = STYLES[style].get(result["outcome"], result["outcome"])
    lines = [f"{host} - {outcome}"]
    lines += [f"  {drift_line(entry)}" for entry in result.get("drifting") or []]
    lines += [f"  reported, blocks nothing: {reported_line(entry)}" for entry in reported(result.get("drift") or {})]
    shown_findings = [*(result.get("errors") or []), *(item for item in result.get("findings") or [] if item["severity"] == "warning")]
    lines += [f"  {finding_line(finding)}" for index, finding in enumerate(shown_findings) if finding not in shown_findings[:index]]
    lines += [f"  nvidia-smi: {_difference_line(item)}" for item in result["topology_differences"]]
    lines += [f"  {line}" for line in str(result.get("failure") or "").splitlines()]
    return lines


def count_line(found: Mapping[str, Mapping[str, Any]], style: str = "table") -> str:
    """How many nodes ended how."""
    counts = {outcome: [host for host, result in found.items() if result["outcome"] == outcome] for outcome in OUTCOMES}
    parts = [f"{len(hosts)} {STYLES[style][outcome]}" for outcome, hosts in counts.items() if hosts]
    total = "1 node" if len(found) == 1 else f"{len(found)} nodes"
    return f"{total}: {'; '.join(parts)}" if parts else "no nodes"


def lines(found: Mapping[str, Mapping[str, Any]], style: str) -> list[str]:
    """The text of a run; ``style`` is one of ``STYLES``."""
    one = audit_lines if style == "audit" else node_lines
    result: list[str] = []
    for host, item in found.items():
        if style != "audit":
            result.append("")
        result += one(host, item, style)
    return [*result, "", count_line(found, style)]


def host_summary(item: Mapping[str, Any]) -> dict[str, Any]:
    """A host for programs."""
    plan = item.get("plan") or {}
    return {
        "outcome": item["outcome"],
        "chassis": item.get("chassis"),
        "root": item.get("root"),
        "plan_version": plan.get("version"),
        "housekeeping_cpus": plan.get("housekeeping_cpus"),
        "isolated_cpus": plan.get("isolated_cpus"),
        "capacity": plan.get("capacity"),
        "drift_before": item["before"],
        "drift": item.get("drifting") or [],
        "reported": reported(item.get("drift") or {}),
        "errors": item.get("errors") or [],
        "findings": item.get("findings") or [],
        "window": item.get("window"),
        "failure": item.get("failure"),
    }


def summary(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The run for programs: by host its outcome, the drift before and now, its findings and capacity."""
    hosts = {host: host_summary(item) for host, item in found.items()}
    return {"counts": {outcome: sum(1 for item in found.values() if item["outcome"] == outcome) for outcome in OUTCOMES}, "hosts": hosts}


__all__ = (
    "LAYERS", "OUTCOMES", "STYLES", "UNFINISHED", "audit_lines", "cost", "cost_line", "count_line", "drift_line", "drift_names", "drifting", "errors",
    "finding_line", "host_summary", "layers", "lines", "node_lines", "proof", "refusal", "reported", "reported_line", "results", "shown", "stale_files",
    "strange_tags", "summary", "turns",
)
