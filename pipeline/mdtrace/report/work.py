"""Findings on the work itself: kernels under their roofs, element types, slow steps, gradient buckets."""

from collections.abc import Iterable, Sequence
from typing import Any

from mdtrace.plots.names import short
from mdtrace.plots.points import summed
from mdtrace.report import advice
from mdtrace.report.facts import Facts, Row
from mdtrace.report.finding import Finding, span_ns
from mdtrace.report.text import digits, duration, listed, percent, sentence


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
    spent, allowed = sum(_known_ns(r) for r in rows), sum(_roof_ns(r) or 0 for r in rows)
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
        title=f"{'Operators' if facts.on_host else 'Kernels'} run far under the roofs",
        gain=min(gain, 1.0),
        gain_ns=min(gain, 1.0) * span_ns(facts),
        evidence=tuple(evidence),
        confidence="low" if origin == "empirical" or (coverage or 0) < 0.8 else "medium",
        why=f"roofs: {origin or 'not known'}; {percent(coverage or 0)} of compute time has FLOP and bytes",
        next_step=advice.kernels(_main_bound(facts), on_host=facts.on_host),
        sql="SELECT layer, phase, compute_ns * coverage AS known_ns, "
        "1e9 * greatest(t_compute_s, t_memory_s) AS roof_ns, bound FROM layer_roofline "
        "ORDER BY known_ns - roof_ns DESC",
    )


def _known_ns(row: Row) -> float:
    """Compute time of operators whose FLOP and bytes are known: roofs say nothing about the rest."""
    return float(row["compute_ns"] * (row["coverage"] or 0))


def _roof_ns(row: Row) -> float | None:
    times = [t for t in (row["t_compute_s"], row["t_memory_s"]) if t is not None]
    return 1e9 * max(times) if times else None


def _gaps(rows: Iterable[Row]) -> dict[str | None, float]:
    """By layer: compute time beyond what the roofs allow, ns."""
    gaps: dict[str | None, float] = {}
    for row in rows:
        beyond = _known_ns(row) - (_roof_ns(row) or 0)
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


MAKERS = (_kernels, _precision, _slow_steps, _buckets)
