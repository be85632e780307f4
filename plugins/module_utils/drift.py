# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does a node still agree with its plan? One entry for each knob of the plan, and what else was found on the node.

No I/O. A knob is in sync only if every side it has equals the plan; a side that could not be read is not in sync.
"""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.inferops.locality.plugins.module_utils import cilium_status
from ansible_collections.inferops.locality.plugins.module_utils import cpulist
from ansible_collections.inferops.locality.plugins.module_utils import dra_knobs
from ansible_collections.inferops.locality.plugins.module_utils import findings as findings_m
from ansible_collections.inferops.locality.plugins.module_utils import irq
from ansible_collections.inferops.locality.plugins.module_utils import knobs
from ansible_collections.inferops.locality.plugins.module_utils import kubelet_predict
from ansible_collections.inferops.locality.plugins.module_utils import pcie_knobs
from ansible_collections.inferops.locality.plugins.module_utils import plan as plan_m
from ansible_collections.inferops.locality.plugins.module_utils import policy as policy_m
from ansible_collections.inferops.locality.plugins.module_utils import quantity

WRITTEN = "written, not in force"

# How many settings of somebody else in one of our files are named.
_STRAYS = 8

# Values by device: the state has every device, the plan the ones it places.
_BY_DEVICE = ("irq.affinity", "nic.queues", "nic.rps", "nic.xps")
_CPU_LISTS = (
    "kernel.nohz_full",
    "kernel.irqaffinity",
    "kernel.rcu_nocbs",
    "workqueue.cpumask",
    "irq.default_affinity",
    "kubelet.reserved_cpus",
)


class DriftError(ValueError):
    """Plan or state is not of the shape that locality_plan and locality_state return."""


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DriftError(f"{name} is {policy_m.shown(value)}, wanted a mapping")
    return value


def _sequence(value: Any, name: str) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise DriftError(f"{name} is {policy_m.shown(value)}, wanted a list")
    return value


# -- comparing values


def _as_cpus(value: Any) -> Any:
    """CPU lists are compared as sets; what is no list is compared as it stands."""
    try:
        return cpulist.from_list(value) if isinstance(value, str) else value
    except cpulist.CpuListError:
        return value


def _unset(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_unset(item) for item in value.values())
    return value is None or value in ("", [], ())


def _hugepages_differ(wanted: Mapping[str, Any], found: Any, whole: bool) -> List[str]:
    """Sizes whose counts differ; sizes the plan does not name count only where ``whole`` says that the side is ours alone."""
    found = found or {}
    result = []
    for size in sorted(set(wanted) | (set(found) if whole else set())):
        want = {node: count for node, count in (wanted.get(size) or {}).items() if count}
        have = {node: count for node, count in (found.get(size) or {}).items() if count}
        # An old kernel takes a total and deals it evenly; then the plan's counts are all equal.
        even = set(have) == {"total"} and len(set(want.values())) == 1 and sum(want.values()) == have["total"]
        if want != have and not even:
            result.append(size)
    return result


def _equal(knob: str, wanted: Any, found: Any, side: str, ours: bool) -> Tuple[bool, str]:
    """Whether one side of a knob is as planned, and where it differs if that needs words.

    Words without a difference are what looks like a fault and is none.
    """
    if knobs.KNOBS[knob].layer == "pcie":
        return pcie_knobs.judge(wanted, found)
    if knob == "kernel.hugepages" and isinstance(wanted, Mapping) and (found is None or isinstance(found, Mapping)):
        sizes = _hugepages_differ(wanted, found, side == "configured" and ours)
        return not sizes, f"pages of {', '.join(sizes)}" if sizes else ""
    if knob in _BY_DEVICE and isinstance(wanted, Mapping):
        found = {} if found is None else found
        if not isinstance(found, Mapping):
            return False, ""
        # A device all of whose interrupts belong to the kernel, or that has none yet, has nothing to be placed; packets to
        # send of one with a single queue have nothing to be steered to.
        unread = [] if knob in ("irq.affinity", "nic.xps") and side == "running" else [device for device in wanted if device not in found]
        other = [device for device in wanted if device in found and _as_cpus(wanted[device]) != _as_cpus(found[device])]
        # In our own file a device that the plan does not name is a leftover.
        extra = [device for device in found if device not in wanted and not _unset(found[device])] if side == "configured" else []
        words = [f"{device} not found" for device in unread] + other + [f"{device} is not in the plan" for device in extra]
        return not words, ", ".join(words)
    if knob == "node.labels" and isinstance(wanted, Mapping) and isinstance(found, Mapping):
        wrong = [key for key in wanted if found.get(key) != wanted[key]]
        return not wrong, ", ".join(wrong)
    if knob == "node.taints" and isinstance(found, (list, tuple)):
        missing = [taint for taint in wanted or [] if taint not in found]
        return not missing, ", ".join(missing)
    if knob in _CPU_LISTS:
        return _as_cpus(wanted) == _as_cpus(found), ""
    if knob == "cilium.bpf_maps" and side == "running" and isinstance(wanted, Mapping) and isinstance(found, Mapping):
        wrong = cilium_status.differing_maps(wanted, found)
        return not wrong, ", ".join(wrong)
    if knob.startswith("dra.") and isinstance(wanted, Mapping):
        return dra_knobs.judge(knob, wanted, found)
    return wanted == found, ""


# -- entries


def _entry(
    knob: knobs.Knob,
    wanted: Any,
    sides: Mapping[str, Any],
    judged: Sequence[str],
    source: Optional[str],
    ours: bool,
    live: bool,
    idle: bool = False,
) -> Dict[str, Any]:
    """The entry of a knob. ``idle``: nothing runs that would have to be restarted."""
    reasons: List[str] = []
    wrong: List[str] = []
    for side in judged:
        if side not in sides:
            wrong.append(side)
            reasons.append(f"{side} could not be read")
            continue
        same, where = _equal(knob.id, wanted, sides[side], side, ours)
        if not same:
            wrong.append(side)
            what = policy_m.shown(sides[side]) if knob.id == "kubelet.state_files" else ""
            reasons.append(f"{side} differs" + (f": {where or what}" if where or what else ""))
        elif where:
            reasons.append(f"{side} as wanted: {where}")
    needs = knob.needs
    if wrong == ["configured"] and ("running" in judged or idle) and knob.writer:
        # What runs is right already; writing the file is all there is to do.
        needs = "live"
    if not wrong and not live:
        reasons.append(WRITTEN)
    return {
        "knob": knob.id,
        "wanted": wanted,
        "running": sides.get("running"),
        "configured": sides.get("configured"),
        "in_sync": not wrong,
        "class": knob.klass,
        "needs": needs,
        "source": source,
        "reason": "; ".join(reasons) or None,
    }


def _asked(knob: knobs.Knob, cluster_state: Optional[Mapping[str, Any]]) -> Optional[Tuple[Dict[str, Any], Optional[str], List[str]]]:
    """Sides of a knob that no file of the node shows, the source of the configured one, and which are judged; None where nobody asked for it."""
    if cluster_state is None:
        return None
    known = _mapping(cluster_state, "cluster_state")
    part, _dot, name = knob.id.partition(".")
    if part == "node":
        return {"running": known.get(name)}, None, ["running"]
    if known.get(part) is None:
        return None
    found = _mapping(known[part], f"cluster_state.{part}")
    sides: Dict[str, Any] = {}
    source = None
    running = _mapping(found.get("running"), f"cluster_state.{part}.running")
    configured = _mapping(found.get("configured"), f"cluster_state.{part}.configured")
    if knob.id in running:
        sides["running"] = running[knob.id]
    if knob.id in configured:
        item = _mapping(configured[knob.id], f"cluster_state.{part}.configured.{knob.id}")
        sides["configured"], source = item.get("value"), item.get("source")
    # An agent that gave no answer: only what it will be started with is judged.
    return sides, source, [side for side in knob.sides if side == "configured" or found.get("running") is not None]


def _checkpoints(entry: Dict[str, Any], wanted: Mapping[str, Any], state: Mapping[str, Any], runs: Mapping[str, Any]) -> None:
    """What checkpoint files cost that do not fit RKE2's configuration as it is now: nothing of their own if they fit that of the plan."""
    if not _mapping(state.get("kubelet"), "state.kubelet").get("state_files"):
        return
    prediction = kubelet_predict.foretell(state, wanted)
    if prediction.refused:
        # A kubelet that runs would write them again, so it is stopped before they go.
        entry["needs"] = "restart" if runs.get("unit") else entry["needs"]
    elif not prediction.unknown:
        entry["needs"] = "live"
        entry["reason"] += "; they fit the plan"


def is_ours(source: Optional[str]) -> bool:
    """Whether a file (``path`` or ``path:line``) or an object (``CiliumNodeConfig namespace/name``) is one that this collection writes."""
    if (source or "").startswith("CiliumNodeConfig "):
        return f"/{knobs.OWNER}-" in str(source)
    path = re.sub(r":\d+$", "", source or "")
    name = path.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[0] == knobs.DROP_IN or f"/{knobs.OWNER}/" in path


def compare(  # noqa: PLR0917
    plan: Mapping[str, Any],
    state: Mapping[str, Any],
    cluster_state: Optional[Mapping[str, Any]] = None,
    adopt: bool = False,
    live: bool = True,
    kubelet_running: Optional[Mapping[str, Any]] = None,
) -> Dict[str, Any]:
    """Compare a node with its plan.

    :param plan: what :func:`plan.make_plan` returned.
    :param state: ``ansible_facts.locality_state`` of the node.
    :param cluster_state: what the API server knows of it, ``{"labels": {...}, "taints": ["key=value:Effect"]}``, and what is known of Cilium on it,
        ``{"cilium": {"running": {knob: value}, "configured": {knob: {"value": ..., "source": ...}}}}``, ``running`` None if its agent gave no answer; ``dra``
        likewise of DRANET; None or without these where nobody asked, and then the knobs that only these show have no entry.
    :param adopt: take over keys of ours that stand in files of someone else: these findings become notes.
    :param kubelet_running: what the kubelet itself says of its knobs; taken instead of what its command line says, where the plan sets one.
    :param live: False below another root, where only the configured side is judged.
    :returns: ``entries`` (one for each knob that the plan judges, and one for each knob that we wrote earlier and the plan no longer
        has), ``summary`` (``needs``: the dearest of what the managed knobs that drift need, None without drift; ``count``) and
        ``findings``.
    :raises DriftError: plan or state is of another shape.
    """
    for name, value in (("plan", plan), ("state", state)):
        if not isinstance(value, Mapping):
            raise DriftError(f"{name} is {policy_m.shown(value)}, wanted a mapping")
    wanted = _mapping(plan.get("knobs"), "plan.knobs")
    running, configured = _mapping(state.get("running"), "state.running"), _mapping(state.get("configured"), "state.configured")
    entries: List[Dict[str, Any]] = []
    found = findings_m.Findings()
    runs = _mapping(_mapping(state.get("kubelet"), "state.kubelet").get("runs"), "state.kubelet.runs")
    if live and runs.get("kubelet") is False and any(id in wanted and knob.layer == "kubelet" for id, knob in knobs.KNOBS.items()):
        found.note("kubelet.not_running", "no kubelet runs on this node: what it will be started with was judged, not what it does")
    for id, knob in knobs.KNOBS.items():
        sides: Dict[str, Any] = {}
        source = None
        if id in configured:
            part = _mapping(configured[id], f"state.configured.{id}")
            sides["configured"], source = part.get("value"), part.get("source")
        if id in running:
            sides["running"] = running[id]
        if kubelet_running is not None and wanted.get(id) is not None and id in kubelet_running:
            sides["running"] = kubelet_running[id]
        ours = is_ours(source)
        judged = [side for side in knob.sides if live or side == "configured"]
        idle = live and knob.needs == "restart" and runs.get("unit") is False
        if idle or (live and runs.get("kubelet") is False and knob.layer == "kubelet"):
            judged = [side for side in judged if side == "configured"] or judged
        if knob.api:
            asked = _asked(knob, cluster_state)
            if asked is None:
                continue
            sides, source, judged = asked
            judged = judged if live else []
            # For an agent of which nothing is known nobody is disturbed.
            idle = knob.layer == "network" and "running" not in judged
            ours = is_ours(source)
        if id in wanted:
            if judged:
                entry = _entry(knob, wanted[id], sides, judged, source, ours, live, idle)
                if id == "kubelet.state_files" and "configured" in sides and not entry["in_sync"]:
                    _checkpoints(entry, wanted, state, runs)
                entries.append(entry)
        elif ours and "configured" in judged and id != "runtime.version" and not _unset(sides.get("configured")):
            entry = _entry(knob, None, sides, ["configured"], source, ours, live, idle)
            entry["reason"] = "written earlier, no longer in the plan"
            entries.append(entry)
    if live:
        entries += _softirq_share(plan, state)
    drifted = [entry for entry in entries if entry["class"] == "managed" and not entry["in_sync"]]
    needs = max((entry["needs"] for entry in drifted), key=knobs.NEEDS.index, default=None)
    _foreign(state, wanted, adopt, found)
    _recipes(plan, state, adopt, found)
    _piled_up(state, found)
    _inherited(state, found)
    _strays(state, found)
    for problem in _sequence(state.get("problems"), "state.problems"):
        if "leaves the root" in str(problem.get("reason")):
            found.error("root.escape", f"{problem.get('file')}: {problem.get('reason')}", "remove the link, or give the node's real root")
    return {"entries": entries, "summary": {"needs": needs, "count": len(drifted)}, "findings": found.sorted()}


def _softirq_share(plan: Mapping[str, Any], state: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The entry of ``irq.softirq_share``, whose value is ``{share: 0..1, counted, seconds}``; none where nothing was counted.

    It depends on the load, so no plan wants anything of it.
    """
    softirqs = _mapping(state.get("softirqs"), "state.softirqs")
    counts = _mapping(softirqs.get("net_rx"), "state.softirqs.net_rx")
    try:
        housekeeping = cpulist.from_list(str(plan.get("housekeeping_cpus") or ""))
    except cpulist.CpuListError as error:
        raise DriftError(f"plan: {error}") from error
    try:
        share = irq.softirq_share(counts, housekeeping)
    except (TypeError, ValueError) as error:
        raise DriftError(f"state.softirqs.net_rx: {error}") from error
    if share is None:
        return []
    total, seconds = sum(counts.values()), softirqs.get("seconds")
    value = {"share": round(share, 4), "counted": total, "seconds": seconds}
    entry = _entry(knobs.KNOBS["irq.softirq_share"], None, {"running": value}, (), None, False, True)
    when = f"in {seconds:g} s" if seconds else "since the boot (locality_softirq_interval: 10 counts 10 s instead)"
    entry["reason"] = f"{share:.1%} of {total} receive softirqs were on housekeeping CPUs {when}"
    return [entry]


# -- other owners


def _where(item: Mapping[str, Any]) -> str:
    return str(item.get("file")) if item.get("line") is None else f"{item.get('file')}:{item.get('line')}"


def _foreign(state: Mapping[str, Any], wanted: Mapping[str, Any], adopt: bool, found: findings_m.Findings) -> None:
    for item in _sequence(state.get("foreign"), "state.foreign"):
        knob = str(item.get("knob"))
        if knob not in wanted:
            continue
        value = str(item.get("value"))
        if value.startswith(findings_m.REPLACES):
            # No run of ours undoes that, with locality_adopt or without: the file would drop what we write again.
            hint = "write kubelet-arg+ there" if knob.startswith("kubelet.") else "keep the old value there: VARIABLE=\"$VARIABLE ...\""
            found.error(f"foreign.{knob}", f"{_where(item)} {value}, and so drops {knob}", hint)
            continue
        if value == findings_m.UNIT_FILE:
            if wanted[knob] == "disabled":
                # As systemctl mask refuses it.
                hint = "move it to /usr/local/lib/systemd/system, or remove it"
                found.error(f"foreign.{knob}", f"{_where(item)} {value}, in the place of the link that masks the unit", hint)
            continue
        message = f"{_where(item)} sets {knob} to {policy_m.shown(item.get('value'))}"
        if adopt:
            found.note(f"foreign.{knob}", f"{message}; locality_adopt takes it over", "")
        else:
            found.error(f"foreign.{knob}", message, "remove it there, or set locality_adopt to let this collection take it over")


def _strays(state: Mapping[str, Any], found: findings_m.Findings) -> None:
    """A warning for each file, since no run is in the way of what was added, but the other way round."""
    by_file: Dict[str, List[str]] = {}
    for item in _sequence(state.get("strays"), "state.strays"):
        line = "" if item.get("line") is None else f" (line {item.get('line')})"
        by_file.setdefault(str(item.get("file")), []).append(f"{item.get('name')}{line}")
    for file, names in by_file.items():
        more = f" and {len(names) - _STRAYS} more" if len(names) > _STRAYS else ""
        found.warning(
            "file.stray",
            f"{file} has settings that this collection does not write there: {', '.join(names[:_STRAYS])}{more}; they go when the file is written again",
            "move them to a file of your own, with another name",
        )


# -- what the threads do


def _piled_up(state: Mapping[str, Any], found: findings_m.Findings) -> None:
    """A warning, since an error would refuse the run that mends it."""
    tasks = _mapping(state.get("tasks"), "state.tasks")
    for item in _sequence(tasks.get("piled_up"), "state.tasks.piled_up"):
        whose = f"pod {item.get('pod')} (cgroup {item.get('cgroup')})" if item.get("pod") else f"cgroup {item.get('cgroup')}"
        at_boot = _as_cpus(str(tasks.get("isolated_at_boot") or ""))
        boot = tasks.get("isolated_at_boot") if item.get("cpu") in at_boot else None
        partition = f"CPUs {tasks.get('isolated_by_partition')} are in a cpuset partition of type isolated"
        how = f"CPUs {boot} are isolated by isolcpus=domain" if boot else partition
        found.warning(
            "isolation.piled_up",
            f"{item.get('threads')} busy threads of {whose} share CPU {item.get('cpu')}, {item.get('share_percent')} % of it each, while CPUs "
            f"{item.get('idle_cpus')} of their cpuset {item.get('cpus')} are idle: {how}, where the scheduler does not balance",
            ("isolation.scheduler: balanced, which takes a reboot," if boot else "a partition of type member")
            + " lets them spread; or let the program pin its own threads",
        )


def _inherited(state: Mapping[str, Any], found: findings_m.Findings) -> None:
    """A mask set by sched_setaffinity stays with all children since kernel 6.2 and cuts every later cpuset; AllowedCPUs= does not."""
    for item in _sequence(state.get("cpu_affinity"), "state.cpu_affinity"):
        found.warning(
            "recipe.cpu_affinity",
            f"{_where(item)} sets CPUAffinity={item.get('value')} for {item.get('unit')}, and pods inherit it through RKE2 and containerd: with kernel 6.2 or "
            "newer and runc before 1.2.7, 1.3.1 or 1.4.0 a container stays on these CPUs whatever its cpuset",
            "remove it there; isolation.system_slices keeps system services off the pods' CPUs by AllowedCPUs=, which pods do not inherit",
        )


# -- recipes that are wrong wherever they come from


class _Recipes:
    """Findings about settings that break or waste a node.

    One that stands in a file of the operator is an error, since writing our files does not undo it; with ``adopt``, or in a
    file of ours that someone edited, the run repairs it and it is a warning.
    """

    def __init__(self, adopt: bool, found: findings_m.Findings) -> None:
        self.adopt = adopt
        self.found = found

    def add(self, id: str, message: str, hint: str, sources: Iterable[Optional[str]]) -> None:
        named = [source for source in sources if source]
        foreign = [source for source in named if not is_ours(source)]
        severity = findings_m.ERROR if foreign and not self.adopt else findings_m.WARNING
        where = f"{', '.join(dict.fromkeys(named))}: " if named else ""
        self.found.add(severity, f"recipe.{id}", where + message, hint)


def _recipes(plan: Mapping[str, Any], state: Mapping[str, Any], adopt: bool, found: findings_m.Findings) -> None:
    recipes = _Recipes(adopt, found)
    boot = _mapping(state.get("boot"), "state.boot")
    kubelet = _mapping(state.get("kubelet"), "state.kubelet")
    args = {
        str(flag): [str(value) for value in _sequence(values, f"state.kubelet.args.{flag}")]
        for flag, values in _mapping(kubelet.get("args"), "state.kubelet.args").items()
    }
    sources: Dict[str, List[str]] = {}
    for item in _sequence(kubelet.get("args_sources"), "state.kubelet.args_sources"):
        sources.setdefault(str(item.get("flag")), []).append(_where(item))
    tokens = _tokens(boot)
    # Boot arguments that stand in files of someone else; the generated grub.cfg, which has them all, says nothing about that.
    places = {str(item.get("value")): _where(item) for item in _sequence(state.get("foreign"), "state.foreign")}
    _boot_recipes(plan, boot, tokens, places, recipes)
    _option_recipe(args, sources, recipes)
    _memory_recipe(plan, args, sources, recipes)
    _cpu_recipe(plan, args, sources, tokens, places, recipes)


def _tokens(boot: Mapping[str, Any]) -> List[str]:
    """Arguments of the next boot; of the running kernel where the next boot could not be read."""
    next_args = _mapping(boot.get("next_boot"), "state.boot.next_boot").get("args")
    if next_args is not None:
        return [str(token) for token in _sequence(next_args, "state.boot.next_boot.args")]
    return str(boot.get("command_line") or "").split()


def _values(tokens: Iterable[str], key: str) -> List[str]:
    result = []
    for token in tokens:
        name, equals, value = token.partition("=")
        if equals and name.replace("-", "_") == key:
            result.append(value)
    return result


def _named(tokens: Sequence[str], name: str) -> List[str]:
    """The tokens of a parameter, or those that hold it as a part (``pci=config_acs=``)."""
    key = name.replace("-", "_")
    return [token for token in tokens if token.partition("=")[0].replace("-", "_") == key] or [token for token in tokens if f"{name}=" in token]


def _online(plan: Mapping[str, Any]) -> FrozenSet[int]:
    try:
        return cpulist.from_list(str(plan.get("housekeeping_cpus") or "")) | cpulist.from_list(str(plan.get("isolated_cpus") or ""))
    except cpulist.CpuListError as error:
        raise DriftError(f"plan: {error}") from error


def _boot_recipes(plan: Mapping[str, Any], boot: Mapping[str, Any], tokens: List[str], places: Mapping[str, str], recipes: _Recipes) -> None:
    planned = str(_mapping(plan.get("knobs"), "plan.knobs").get("kernel.isolcpus") or "")
    last = max(_online(plan), default=None)
    reported = set()
    for value in _values(tokens, "isolcpus"):
        token = f"isolcpus={value}"
        try:
            flags, cpus = cpulist.from_isolcpus(value, last)
        except cpulist.CpuListError as error:
            reported.add(token)
            recipes.add(
                "isolcpus_ignored",
                f"the kernel ignores {token} as a whole, so nothing is isolated: {error}",
                f"a comma ends each flag: isolcpus=managed_irq,{plan.get('isolated_cpus')}",
                [places.get(token)],
            )
            continue
        if "domain" in flags and cpus and not planned.startswith("domain"):
            recipes.add(
                "isolcpus_domain",
                f"{token}: {plan_m.ISOLATED_WARNING}",
                f"isolcpus=managed_irq,{plan.get('isolated_cpus')} keeps interrupts away and leaves the scheduler's balancing on",
                [places.get(token)],
            )
    for item in _sequence(boot.get("ignored"), "state.boot.ignored"):
        token = str(item.get("token"))
        # What only the running kernel was given goes away with the next boot.
        if token not in reported and token in tokens:
            recipes.add("boot_argument_ignored", f"the kernel ignores {token}: {item.get('reason')}", "correct or remove it", [places.get(token)])
    for name in _sequence(boot.get("duplicates"), "state.boot.duplicates"):
        named = _named(tokens, str(name))
        if not named:
            continue
        # One token of the next boot clashes with nothing: then the two are on the running kernel's command line.
        now = _named(str(boot.get("command_line") or "").split(), str(name))
        named = now if len(named) < 2 <= len(now) else named
        rule = "the first wins" if name in ("isolcpus", "nohz_full", "default_hugepagesz", "hugepages", "hugepagesz") else "the last wins"
        recipes.add(
            "boot_argument_twice",
            f"{name}= stands more than once on the kernel command line ({' '.join(named)}): {rule}",
            "leave one of them",
            [places.get(token) for token in named],
        )
    sizes = [token for token in tokens if re.match(r"(hugepagesz|hugepages|default_hugepagesz)=", token)]
    if len(sizes) > 1 and sizes[0].startswith("hugepages="):
        recipes.add(
            "hugepages_order",
            f"{sizes[0]} stands before any hugepagesz= and so belongs to the default size, not to a size that comes after it ({' '.join(sizes)})",
            "write hugepagesz=1G hugepages=16, each number after its size",
            [places.get(token) for token in sizes],
        )


def _option_recipe(args: Mapping[str, List[str]], sources: Mapping[str, List[str]], recipes: _Recipes) -> None:
    flag = "cpu-manager-policy-options"
    for value in args.get(flag, []):
        if "," in value:
            recipes.add(
                "cpu_manager_options",
                f"{flag}={value} is one option with a value the kubelet refuses, so it does not start: this flag takes one option, and is not "
                "split at commas",
                "one flag each: " + " ".join(f"{flag}={part}" for part in value.split(",")),
                sources.get(flag, []),
            )


def _pairs(values: Iterable[str], separator: str = "=") -> Dict[str, str]:
    """A map flag of the kubelet; given more than once, later keys win."""
    result: Dict[str, str] = {}
    for value in values:
        for part in value.split(","):
            key, found, text = part.partition(separator)
            if found:
                result[key.strip()] = text.strip()
    return result


def _bytes(text: Optional[str]) -> int:
    return 0 if text is None else quantity.to_bytes(text)


def _memory_recipe(plan: Mapping[str, Any], args: Mapping[str, List[str]], sources: Mapping[str, List[str]], recipes: _Recipes) -> None:
    """The sum of reserved-memory must be system + kube + hard eviction, exactly; only the Static policy looks."""
    flag = "reserved-memory"
    if (args.get("memory-manager-policy") or [""])[-1] != "Static":
        return
    given: Dict[int, int] = {}
    if any("%" in _pairs([value], "<").get("memory.available", "") for value in args.get("eviction-hard", [])):
        recipes.add(
            "eviction_share",
            "eviction-hard gives memory.available as a share, so the sum that reserved-memory must have depends on what the kernel takes at each boot",
            "give it as a quantity, such as memory.available<500Mi",
            sources.get("eviction-hard", []),
        )
        return
    try:
        needed = sum(_bytes(_pairs(args.get(name, [])).get("memory")) for name in ("system-reserved", "kube-reserved"))
        # RKE2 has no memory.available of its own: without the flag the eviction part is 0.
        needed += _bytes(_pairs(args.get("eviction-hard", []), "<").get("memory.available"))
        huge = []
        for value in args.get(flag, []):
            for part in filter(None, value.split(";")):
                node, _colon, limits = part.partition(":")
                for limit in limits.split(","):
                    kind, _equals, size = limit.partition("=")
                    if kind.startswith("hugepages-"):
                        huge.append(part)
                    elif kind == "memory":
                        given[int(node)] = given.get(int(node), 0) + quantity.to_bytes(size)
    except (quantity.QuantityError, ValueError) as error:
        recipes.add(
            "reserved_memory",
            f"the kubelet's memory reservations cannot be read ({error})",
            "write 0:memory=6Gi;1:memory=6Gi",
            [source for name in (flag, "system-reserved", "kube-reserved", "eviction-hard") for source in sources.get(name, [])],
        )
        return
    places = [source for name in (flag, "system-reserved", "kube-reserved") for source in sources.get(name, [])]
    room: Dict[int, Optional[int]] = {}
    for node in _sequence(plan.get("numa_nodes"), "plan.numa_nodes"):
        if node["housekeeping_cpus"] or node["isolated_cpus"]:
            left = node["allocatable_memory_bytes"]
            room[int(node["id"])] = None if left is None else left + node["reserved_memory_bytes"]
    right = plan_m.reserved_memory_value(plan_m.spread_memory(needed, room or {0: None})[0])
    if huge:
        recipes.add(
            "reserved_hugepages", f"{flag} reserves huge pages ({', '.join(huge)}), which the kubelet does not take", f"{flag}={right}", places
        )
    if sum(given.values()) != needed:
        recipes.add(
            "reserved_memory",
            f"the kubelet does not start: {flag} adds up to {_mi(sum(given.values()))}, needed is {_mi(needed)} (system-reserved + kube-reserved "
            "+ hard eviction, exactly)",
            f"right for this machine with these reservations: {flag}={right}",
            places,
        )


def _mi(size: int) -> str:
    return plan_m.kubelet_quantity(size)


def _cpu_recipe(
    plan: Mapping[str, Any],
    args: Mapping[str, List[str]],
    sources: Mapping[str, List[str]],
    tokens: List[str],
    places: Mapping[str, str],
    recipes: _Recipes,
) -> None:
    """Isolated and reserved CPUs must cover all online CPUs and not overlap; reserved ones must not lie on one NUMA node only."""
    online = _online(plan)
    flag = "reserved-cpus"
    if not args.get(flag):
        return
    value = args[flag][-1]
    try:
        reserved = cpulist.from_kubelet(value)
    except cpulist.CpuListError as error:
        recipes.add(
            "reserved_cpus",
            f"the kubelet does not start with {flag}={value}: {error}",
            f"{flag}={plan.get('housekeeping_cpus')}",
            sources.get(flag, []),
        )
        return
    isolated: FrozenSet[int] = cpulist.EMPTY
    for text in _values(tokens, "isolcpus"):
        try:
            isolated = isolated or cpulist.from_isolcpus(text, max(online, default=None))[1]
        except cpulist.CpuListError:
            continue
    owners = [*sources.get(flag, []), *(places[token] for token in tokens if token.startswith("isolcpus=") and token in places)]
    if isolated:
        uncovered, both = online - isolated - reserved, isolated & reserved
        if uncovered:
            recipes.add(
                "uncovered_cpus",
                f"CPUs {cpulist.to_list(uncovered)} are neither isolated (isolcpus: {cpulist.to_list(isolated)}) nor reserved ({flag}: {value})",
                f"isolate {cpulist.to_list(online - reserved)}, all that is not reserved",
                owners,
            )
        if both:
            recipes.add(
                "overlapping_cpus",
                f"CPUs {cpulist.to_list(both)} are isolated (isolcpus: {cpulist.to_list(isolated)}) and reserved ({flag}: {value}) at once",
                f"isolate {cpulist.to_list(online - reserved)}, all that is not reserved",
                owners,
            )
    homes = {
        node["id"]: cpulist.from_list(node["housekeeping_cpus"]) | cpulist.from_list(node["isolated_cpus"]) for node in plan.get("numa_nodes") or []
    }
    without = [node for node, cpus in homes.items() if cpus and not cpus & reserved]
    if without and reserved:
        having = [str(node) for node, cpus in homes.items() if cpus & reserved]
        nics = [nic for node in plan.get("numa_nodes") or [] if node["id"] in without for nic in node["nics"]]
        recipes.add(
            "one_numa_node",
            f"{flag}={value} lies on NUMA node {', '.join(having)} only; NUMA node {', '.join(map(str, without))} has no housekeeping CPU, so "
            "every interrupt of a device there crosses to another NUMA node" + (f" (NICs {', '.join(nics)})" if nics else ""),
            f"{flag}={plan.get('housekeeping_cpus')}",
            sources.get(flag, []),
        )


__all__ = ("WRITTEN", "DriftError", "compare", "is_ours")
