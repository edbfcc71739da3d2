"""The sections of the page, in the order one asks: each from the facts, or with why it is empty."""

from typing import Any

from mdtrace.plots.bandwidth import bus_bandwidth
from mdtrace.plots.bounds import three_bounds, within_bounds
from mdtrace.plots.heat import straggler_heat
from mdtrace.plots.names import short
from mdtrace.plots.points import summed, why_none
from mdtrace.plots.roofline import on_plane, roofline
from mdtrace.plots.timeline import overlap_timeline, time_bars
from mdtrace.plots.values import Size, si
from mdtrace.report.blocks import Block, Column, Missing, Section, Text, figure, rows
from mdtrace.report.changes import changes
from mdtrace.report.coverage import costs_covered, steps_covered
from mdtrace.report.facts import Facts
from mdtrace.report.sections_data import RANKS, failed, kernels, sources, unanswered
from mdtrace.report.text import count, digits, duration, percent, sentence, size

_WIDE = Size(820, 380)
_TOP = 20


def sections(facts: Facts) -> list[Section]:
    """All of them."""
    return [
        Section("time", "Where the time goes", _time(facts)),
        Section("layers", "Layers under three roofs", _layers(facts)),
        Section("communication", "Communication", _communication(facts)),
        Section("stragglers", "Stragglers", _stragglers(facts)),
        Section("changes", "What would change it", changes(facts)),
        Section("kernels", "Kernels and operators", kernels(facts)),
        Section("unanswered", "Not answered", unanswered(facts)),
        Section("sources", "Sources", sources(facts)),
    ]


_TIMES = (
    Column("rank", "rank"),
    Column("device_id", "device"),
    Column("span_ns", "time", duration),
    Column("compute_ns", "compute", duration),
    Column("comm_ns", "communication", duration),
    Column("overlap_ratio", "hidden", percent),
    Column("exposed_comm_ns", "exposed", duration),
    Column("exposed_memory_ns", "copies", duration),
    Column("idle_ns", "idle", duration),
)


def _time(facts: Facts) -> list[Block]:
    view, found = facts.totals
    blocks = failed(facts, "steady_breakdown", "time_breakdown", "step_breakdown")
    if not found:
        hint = "capture device activity (CUDA or ROCm activities), or record communication on the host"
        return [*blocks, Missing("neither device activity nor communication was captured", hint)]
    bases = ", ".join(sorted({row["basis"] for row in found if row["basis"]}))
    coverage = f"accounted from {bases}; {steps_covered(facts)}"
    blocks.append(figure("time-bars", time_bars(facts.tables[view], _WIDE), f"FROM {view}", coverage))
    if any(row["step"] is not None and row["span_ns"] for row in facts.rows("step_breakdown")):
        chart = overlap_timeline(facts.tables["step_breakdown"], _WIDE)
        blocks.append(figure("timeline", chart, "FROM step_breakdown", f"accounted from {bases}; every step"))
    table = rows(
        "By rank and device", found[:RANKS], _TIMES, f"FROM {view}", coverage, folded=len(found) > 16
    )
    return [*blocks, table]


_LAYERS = (
    Column("name", "layer", short=lambda name: short(name, 40), right=False),
    Column("phase", "phase", right=False),
    Column("ms", "time", lambda ms: duration(ms * 1e6)),
    Column("share", "of all", percent),
    Column("intensity_memory", "FLOP/B", digits),
    Column("intensity_communication", "FLOP/wire B", digits),
    Column("achieved_flops_per_s", "achieved", lambda value: si(value, "FLOP/s")),
    Column("efficiency", "of roof", percent),
    Column("bound", "bound by", right=False),
    Column("coverage", "coverage", percent),
)


def _layers(facts: Facts) -> list[Block]:
    points = facts.tables["layer_roofline"]
    blocks = failed(facts, "layer_roofline", "hardware_roofs")
    found = summed(points) if points.num_rows else []
    if not found:
        return [*blocks, Missing("no work of layers is known", "record shapes, stacks and modules")]
    if all(row["name"] == "no layer" for row in found):
        hint = "torch: with_stack=True, with_modules=True; Nsight Systems: NVTX ranges around layers"
        blocks.append(Missing("no layer is named in the capture", hint))
    job = facts.job
    if job and (job["coverage"] or 0) < 0.5:
        known = f"FLOP and bytes are known for only {percent(job['coverage'] or 0)} of compute time"
        blocks.append(Missing(known, "record shapes (record_shapes=True); the reasons stand below"))
    roofs, coverage = facts.tables["hardware_roofs"], costs_covered(facts)
    sql = "FROM layer_roofline"
    if on_plane(points, "memory").rows:
        blocks.append(figure("roofline-memory", roofline(points, roofs, ("memory",), _WIDE), sql, coverage))
    else:
        blocks.append(Missing(f"no points under the roofs: {why_none(points, 'memory')}"))
    if on_plane(points, "communication").rows:
        chart = roofline(points, roofs, ("communication",), _WIDE)
        blocks.append(figure("roofline-communication", chart, sql, coverage))
    if within_bounds(points).rows:
        blocks.append(figure("three-bounds", three_bounds(points, roofs, _WIDE), sql, coverage))
    whole = sum(row["ms"] for row in found) or 1
    top = [{**row, "share": row["ms"] / whole} for row in found[:_TOP]]
    order = f"{sql} ORDER BY device_ns DESC LIMIT {_TOP}"
    title = f"The {len(top)} of most time, of {len(found)}, ranks summed"
    return [*blocks, rows(title, top, _LAYERS, order, coverage), *_cost_gaps(facts)]


def _cost_gaps(facts: Facts) -> list[Block]:
    found = facts.rows("cost_unknown")
    if not found:
        return []
    columns = (
        Column("rank", "rank"),
        Column("name", "operator", short=lambda name: short(name, 40), right=False),
        Column("missing", "not known", right=False),
        Column("reason", "because", right=False),
        Column("calls", "calls", count),
        Column("device_ns", "time", duration),
        Column("share", "share", percent),
    )
    title = "Operators without FLOP or bytes, by time"
    return [rows(title, found, columns, "FROM cost_unknown LIMIT 12", costs_covered(facts), folded=True)]


_COLLECTIVES = (
    Column("kind", "operation", right=False),
    Column("group_desc", "group", right=False),
    Column("group_size", "ranks"),
    Column("bucket_bytes", "from size", size),
    Column("count", "count", count),
    Column("time_ns", "time", duration),
    Column("time_median_ns", "median", duration),
    Column("algbw_median_gb_s", "algbw", lambda value: si(value * 1e9, "B/s")),
    Column("busbw_median_gb_s", "busbw", lambda value: si(value * 1e9, "B/s")),
    Column("from_transfer", "timed by transfer", count),
)


def _communication(facts: Facts) -> list[Block]:
    table = facts.tables["collective_bandwidth"]
    blocks = failed(facts, "collective_bandwidth")
    if not table.num_rows:
        return [*blocks, Missing("no communication was captured")]
    found = sorted(table.to_pylist(), key=lambda row: -(row["time_ns"] or 0))
    every, unknown = sum(row["count"] for row in found), sum(row["unknown_size"] for row in found)
    coverage = f"sizes known of {every - unknown} of {every} collectives, each counted in every capture"
    job = facts.job
    if job and job["phi"] is not None:
        blocks.append(Text(f"Compute hides {percent(job['phi'])} of the communication. {_shares(job)}"))
    if any(row["busbw_median_gb_s"] and row["bucket_bytes"] for row in found):
        chart = bus_bandwidth(table, facts.tables["hardware_roofs"], facts.tables["roofline_bus"], _WIDE)
        blocks.append(figure("bus-bandwidth", chart, "FROM collective_bandwidth", coverage))
    else:
        blocks.append(Missing("no bus bandwidth: sizes, times or group sizes are not recorded"))
    order = f"FROM collective_bandwidth ORDER BY time_ns DESC LIMIT {_TOP}"
    return [
        *blocks,
        rows("By operation and size, the most time first", found[:_TOP], _COLLECTIVES, order, coverage),
    ]


def _shares(job: Any) -> str:
    parts = []
    if job["network_share"] is not None:
        what = "communication" if job["straggler_share"] is None else "transfer"
        parts.append(f"exposed {what} takes {percent(job['network_share'])} of the time")
    if job["straggler_share"] is not None:
        parts.append(f"exposed waiting for other ranks {percent(job['straggler_share'])}")
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


_STRAGGLERS = (
    Column("rank", "rank"),
    Column("blame", "blame", percent),
    Column("last_count", "last", count),
    Column("late_count", "late", count),
    Column("collectives", "of", count),
    Column("loss_ns", "costs each, a step", duration),
    Column("lost_ns", "waited", duration),
    Column("persistent", "persistent", lambda yes: "yes" if yes else "no", right=False),
    Column("cause", "cause", right=False),
)


def _stragglers(facts: Facts) -> list[Block]:
    verdict = facts.stragglers
    blocks: list[Block] = [Text(sentence(verdict.text), strong=True), *failed(facts, "straggler_ranks")]
    if verdict.hint:
        blocks.append(Missing("to know more", verdict.hint))
    if not verdict.ranks:
        return blocks
    ranks = sorted(verdict.ranks, key=lambda row: -(row["blame"] or 0))
    compared = max(row["collectives"] for row in ranks)
    coverage = f"{compared} collectives of {max(row['steps'] for row in ranks)} steps compared"
    if any(row["step"] is not None for row in facts.rows("straggler_steps")):
        chart = straggler_heat(facts.tables["straggler_steps"], _WIDE)
        blocks.append(figure("straggler-heat", chart, "FROM straggler_steps", coverage))
    order = "FROM straggler_ranks ORDER BY blame DESC"
    folded = len(ranks) > 16
    blocks.append(rows("By rank", ranks[:RANKS], _STRAGGLERS, order, coverage, folded=folded))
    return [*blocks, _clocks(facts)]


def _clocks(facts: Facts) -> Block:
    columns = (
        Column("rank", "rank"),
        Column("host", "host", right=False),
        Column("offset_ns", "ahead by", duration),
        Column("error_ns", "error", duration),
        Column("collectives", "from", count),
        Column("method", "method", right=False),
    )
    found = facts.rows("clock_offsets")[:RANKS]
    return rows("Clocks", found, columns, "FROM clock_offsets", "collectives used: column from", folded=True)
