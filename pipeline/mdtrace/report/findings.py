"""What to try first: findings from the metrics, ranked by the time to gain. Pure: facts in, findings out.

A gain is the share of the steps' time (without steps: of the capture's) that would go if the loss went
altogether: an upper bound. Gains do not add up: the same time may be lost to two causes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mdtrace.plots.names import short
from mdtrace.plots.points import summed
from mdtrace.plots.values import si
from mdtrace.report import advice
from mdtrace.report.facts import Facts, Row
from mdtrace.report.text import digits, duration, listed, percent, sentence, size

Confidence = Literal["high", "medium", "low"]
WORTH = 0.01  # a finding must be worth this share of the time
TRUST: dict[Confidence, float] = {"high": 1.0, "medium": 0.75, "low": 0.5}  # for the order alone


@dataclass(frozen=True)
class Finding:
    """One loss, what shows it and what to do about it.

    Attributes:
        gain: share of the time, at most. gain_ns: the same for each step (or capture) of a rank.
        evidence: figures, one sentence each. why: what the confidence rests on.
        sql: gives the figures.
    """

    title: str
    gain: float
    gain_ns: float
    evidence: tuple[str, ...]
    confidence: Confidence
    why: str
    next_step: str
    sql: str


def findings(facts: Facts) -> list[Finding]:
    """All findings worth 1 % of the time or more, the most to gain first, less sure ones counting less."""
    makers = (_straggler, _imbalance, _network, _idle, _memory, _kernels, _precision, _slow_steps, _buckets)
    found = [finding for maker in makers if (finding := maker(facts)) is not None]
    return sorted((f for f in found if f.gain >= WORTH), key=lambda f: -f.gain * TRUST[f.confidence])


def span_ns(facts: Facts) -> float:
    """What a gain's share is of: a rank's mean step, without steps its mean capture."""
    if facts.step_ns is not None:
        return facts.step_ns
    _, rows = facts.totals
    return sum(row["span_ns"] for row in rows) / len(rows) if rows else 0.0


def _share(facts: Facts, column: str) -> float:
    """A part of the account as a share of all ranks' time."""
    _, rows = facts.totals
    whole = sum(row["span_ns"] for row in rows)
    return sum(row[column] or 0 for row in rows) / whole if whole else 0.0


def _straggler(facts: Facts) -> Finding | None:
    """One rank that makes the others wait step after step."""
    late = next((row for row in facts.stragglers.ranks if row["persistent"]), None)
    if late is None or not late["loss_ns"]:
        return None
    job = facts.job
    gain = job["straggler_share"] if job and job["straggler_share"] is not None else None
    if gain is None:
        gain = late["loss_ns"] / late["step_ns"] if late["step_ns"] else 0.0
    sure = not late["error_ns"] or late["loss_ns"] >= 10 * late["error_ns"]
    evidence = [
        sentence(facts.stragglers.text),
        f"It caused {percent(late['blame'])} of the time lost by waiting and came last at "
        f"{late['last_count']} of {late['collectives']} collectives.",
        f"Waiting for other ranks is {percent(gain)} of the ranks' time.",
    ]
    return Finding(
        title=f"Rank {late['rank']} makes the others wait",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="high" if sure else "medium",
        why=f"in {late['worst_steps']} of {late['steps']} steps; error of the arrivals "
        f"{duration(late['error_ns'] or 0)}",
        next_step=advice.straggler(late["cause"]),
        sql="FROM straggler_ranks ORDER BY blame DESC",
    )


def _imbalance(facts: Facts) -> Finding | None:
    """Waiting that no single rank is to blame for."""
    job = facts.job
    if job is None or not job["straggler_share"] or any(r["persistent"] for r in facts.stragglers.ranks):
        return None
    gain = job["straggler_share"]
    return Finding(
        title="Ranks wait for each other, in turn",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=(
            f"Waiting for other ranks, hidden by nothing, is {percent(gain)} of the ranks' time.",
            sentence(facts.stragglers.text),
        ),
        confidence="medium",
        why="no rank is late step after step",
        next_step="Look at who is late when (mdtrace stragglers, view straggler_steps): uneven batches, data "
        "loading, or garbage collection in turn.",
        sql="FROM straggler_steps ORDER BY step_lost_ns DESC",
    )


def _network(facts: Facts) -> Finding | None:
    """Communication that no compute hides, without the waiting where that is known."""
    job = facts.job
    matched = job is not None and job["straggler_share"] is not None
    gain = (
        job["network_share"] if job and job["network_share"] is not None else _share(facts, "exposed_comm_ns")
    )
    if not gain:
        return None
    view, _ = facts.totals
    evidence = [f"{percent(gain)} of the ranks' time is communication that no compute hides."]
    if job and job["phi"] is not None:
        evidence.append(f"Compute hides {percent(job['phi'])} of all communication.")
    slow = _slowest_link(facts)
    if slow is not None:
        evidence.append(slow[0])
    waiting = "" if matched else ", waiting for other ranks included"
    return Finding(
        title=f"Communication is exposed{waiting}",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="medium" if matched else "low",
        why="waiting for other ranks is taken out"
        if matched
        else "other ranks are not matched, so waiting cannot be told from transfer",
        next_step=advice.network(job["phi"] if job else None, slow[1] if slow else None, matched=matched),
        sql=f"SELECT rank, exposed_comm_ns, overlap_ratio, span_ns FROM {view} ORDER BY exposed_comm_ns DESC",
    )


def _slowest_link(facts: Facts) -> tuple[str, float] | None:
    """The collective of most time against the roof of the links: in words, and its share of the roof."""
    rows = [r for r in facts.rows("collective_bandwidth") if r["busbw_median_gb_s"] and r["time_ns"]]
    limits = [r for r in facts.rows("hardware_roofs") if r["roof"] == "bus" and r["per_s"]]
    if not rows or not limits:
        return None
    most, limit = max(rows, key=lambda row: row["time_ns"]), max(limits, key=lambda row: row["per_s"])
    of_limit = most["busbw_median_gb_s"] * 1e9 / limit["per_s"]
    of = "the best in the data" if limit["origin"] == "empirical" else "the link's limit"
    speed, bucket = si(most["busbw_median_gb_s"] * 1e9, "B/s"), most["bucket_bytes"]
    text = (
        f"Most time is in {most['kind']} of {size(bucket)} to {size(2 * bucket)}: bus bandwidth {speed}, "
        f"{percent(of_limit)} of {of}."
    )
    return text, of_limit


_CAUSES = {
    "host_ns": "waiting for the host to launch",
    "launch_ns": "inside launch calls",
    "dependency_ns": "waiting for work on other streams",
    "queue_ns": "launched but not started",
    "unknown_ns": "cause not recorded",
}


def _idle(facts: Facts) -> Finding | None:
    """Devices on which nothing runs."""
    gain = _share(facts, "idle_ns")
    if not gain:
        return None
    view, rows = facts.totals
    steady = [row for row in facts.rows("step_idle_breakdown") if row["steady"]]
    accounts = steady or facts.rows("idle_breakdown")
    causes = {key: sum(row[key] or 0 for row in accounts) for key in _CAUSES}
    whole = sum(causes.values())
    main = max(causes, key=lambda key: causes[key])
    evidence = [f"Nothing runs in {percent(gain)} of the ranks' time."]
    if whole:
        evidence.append(f"{percent(causes[main] / whole)} of it is {_CAUSES[main]}.")
    worst = max(rows, key=lambda row: (row["idle_ns"] or 0) / row["span_ns"])
    share = (worst["idle_ns"] or 0) / worst["span_ns"]
    if len(rows) > 1 and share > 2 * gain and worst["rank"] is not None:
        evidence.append(f"Rank {worst['rank']} alone: {percent(share)} of its time.")
    known = main != "unknown_ns"
    late = [row["rank"] for row in facts.stragglers.ranks if row["persistent"]]
    first = f"Much of it is rank {late[0]}'s: begin there. " if late and late[0] == worst["rank"] else ""
    return Finding(
        title="Devices are idle" if known else "Nothing is recorded for part of the time",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="high" if known else "low",
        why="from launch records" if known else "the capture does not tell what was waited for",
        next_step=first + advice.idle(main),
        sql=f"SELECT rank, idle_ns, span_ns FROM {view} ORDER BY idle_ns DESC",
    )


def _memory(facts: Facts) -> Finding | None:
    """Copies and sets that nothing hides."""
    gain = _share(facts, "exposed_memory_ns")
    if not gain:
        return None
    copies = [row for row in facts.rows("kernel_summary") if row["class"] in ("memcpy", "memset")]
    evidence = [f"{percent(gain)} of the ranks' time is copies and sets that no other work hides."]
    if copies:
        total, times = duration(copies[0]["total_ns"]), copies[0]["count"]
        evidence.append(f"Most in {copies[0]['name']}: {times} times, {total} over all ranks.")
    view, _ = facts.totals
    return Finding(
        title="Copies stand in the way",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=tuple(evidence),
        confidence="high",
        why="measured on the device",
        next_step=advice.copies(copies[0]["name"] if copies else None),
        sql=f"SELECT rank, exposed_memory_ns, span_ns FROM {view} ORDER BY exposed_memory_ns DESC",
    )


def _kernels(facts: Facts) -> Finding | None:
    """Compute that takes longer than its roofs allow."""
    rows = [r for r in facts.rows("layer_roofline") if r["compute_ns"] and _roof_ns(r) is not None]
    _, totals = facts.totals
    whole = sum(row["span_ns"] for row in totals)
    if not rows or not whole:
        return None
    gaps = _gaps(rows)
    gain = sum(gaps.values()) / whole
    names = sorted(gaps, key=lambda name: -gaps[name])[:3]
    spent, allowed = sum(r["compute_ns"] for r in rows), sum(_roof_ns(r) or 0 for r in rows)
    job = facts.job
    origin = job["roof_origin"] if job else None
    coverage = job["coverage"] if job else None
    evidence = [
        f"Compute takes {digits(spent / allowed)} times as long as the roofs of compute and memory allow."
        if allowed
        else "Compute has roofs only in part.",
        f"Most in {listed([f'{short(n)} ({percent(gaps[n] / whole)} of the time)' for n in names])}.",
    ]
    return Finding(
        title="Kernels run far under the roofs",
        gain=min(gain, 1.0),
        gain_ns=min(gain, 1.0) * span_ns(facts),
        evidence=tuple(evidence),
        confidence="low" if origin == "empirical" or (coverage or 0) < 0.8 else "medium",
        why=f"roofs: {origin or 'not known'}; {percent(coverage or 0)} of compute time has FLOP and bytes",
        next_step=advice.kernels(_main_bound(facts)),
        sql="SELECT layer, phase, compute_ns, 1e9 * greatest(t_compute_s, t_memory_s) AS roof_ns, bound "
        "FROM layer_roofline ORDER BY compute_ns - roof_ns DESC",
    )


def _roof_ns(row: Row) -> float | None:
    times = [t for t in (row["t_compute_s"], row["t_memory_s"]) if t is not None]
    return 1e9 * max(times) if times else None


def _gaps(rows: Iterable[Row]) -> dict[str | None, float]:
    """By layer: compute time beyond what the roofs allow, ns."""
    gaps: dict[str | None, float] = {}
    for row in rows:
        beyond = row["compute_ns"] - (_roof_ns(row) or 0)
        gaps[row["layer"]] = gaps.get(row["layer"], 0) + max(0, beyond)
    return gaps


def _main_bound(facts: Facts) -> str | None:
    """What binds most of the layers' time, communication aside."""
    times: dict[str, float] = {}
    for point in summed(facts.tables["layer_roofline"]):
        if point["bound"] in ("compute", "memory", "latency", "balanced"):
            times[point["bound"]] = times.get(point["bound"], 0) + point["ms"]
    return max(times, key=lambda bound: times[bound]) if times else None


def _precision(facts: Facts) -> Finding | None:
    """Arithmetic in 32 bits on a device that is faster in 16."""
    job = facts.job
    if job is None or job["dtype"] != "f32" or not job["peak_flops_per_s"] or job["compute_share"] is None:
        return None
    half = [
        row["per_s"]
        for row in facts.rows("hardware_roofs")
        if row["roof"] == "compute" and row["unit"] == "matrix" and row["dtype"] in ("bf16", "f16")
        and row["origin"] != "empirical"
    ]  # fmt: skip
    if not half or max(half) < 1.5 * job["peak_flops_per_s"] or job["bound"] not in ("compute", "balanced"):
        return None
    faster = max(half) / job["peak_flops_per_s"]
    gain = job["compute_share"] * (1 - 1 / faster)
    return Finding(
        title="Arithmetic is in 32 bits",
        gain=gain,
        gain_ns=gain * span_ns(facts),
        evidence=(
            f"Most FLOP are f32; the device's matrix units are {digits(faster)} times as fast in 16 bits.",
            f"Compute is {percent(job['compute_share'])} of the time and binds the job.",
        ),
        confidence="low",
        why="from data sheet peaks; whether training converges in 16 bits is another question",
        next_step="Try mixed precision (torch.autocast with bfloat16), or TF32 for matrix products.",
        sql="SELECT dtype, unit, per_s, source FROM hardware_roofs WHERE roof = 'compute'",
    )


def _slow_steps(facts: Facts) -> Finding | None:
    """Steady steps that take much longer than the median."""
    steps = [row for row in facts.rows("step_summary") if row["steady"] and row["host_max_ns"]]
    if len(steps) < 4:
        return None
    typical = _median([row["host_max_ns"] for row in steps])
    slow = [row for row in steps if row["host_max_ns"] > 1.25 * typical]
    whole = sum(row["host_max_ns"] for row in steps)
    lost = sum(row["host_max_ns"] - typical for row in slow)
    if not slow:
        return None
    worst = max(slow, key=lambda row: row["host_max_ns"])
    rank = "" if worst["longest_rank"] is None else f", on rank {worst['longest_rank']}"
    return Finding(
        title="Some steps take much longer than the rest",
        gain=lost / whole,
        gain_ns=lost / whole * span_ns(facts),
        evidence=(
            f"{len(slow)} of {len(steps)} steady steps take over 1.25 times the median, {duration(typical)}.",
            f"The longest is step {worst['step']}: {duration(worst['host_max_ns'])}{rank}.",
        ),
        confidence="medium",
        why=f"{len(steps)} steps; more would tell whether it recurs",
        next_step=f"Compare it with the others: mdtrace overlap DATASET --by step --step {worst['step']}; "
        "checkpoints, evaluation, garbage collection and data loading come in turns.",
        sql="SELECT step, host_max_ns, longest_rank FROM step_summary WHERE steady ORDER BY host_max_ns DESC",
    )


def _buckets(facts: Facts) -> Finding | None:
    """Gradient buckets that a model finds better than today's."""
    plans = [row for row in facts.outlook.rows("fusion") if row["setting"] and row["gain"]]
    if not plans:
        return None
    best = max(plans, key=lambda row: row["gain"])
    matched = facts.job is not None and facts.job["straggler_share"] is not None
    return Finding(
        title="Gradient buckets could be cut better",
        gain=best["gain"],
        gain_ns=best["gain"] * span_ns(facts),
        evidence=(
            f"The plan '{best['plan']}' would expose {duration(best['exposed_ns'])} of communication a step, "
            f"which would take {duration(best['step_ns'])}.",
            *(sentence(words) for words in facts.outlook.words.get("fusion", ())),
        ),
        confidence="medium" if matched else "low",
        why="a model of this run's gradients and links"
        + ("" if matched else "; other ranks are not matched, so waiting counts as transfer"),
        next_step=f"Set {best['setting']}.",
        sql="mdtrace fusion DATASET",
    )


def _median(values: Sequence[Any]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)
