"""The sections of the page, in the order one asks: each from the facts, or with why it is empty."""

from collections.abc import Sequence
from typing import Any

from mdtrace.plots.bandwidth import bus_bandwidth
from mdtrace.plots.bounds import three_bounds
from mdtrace.plots.heat import straggler_heat
from mdtrace.plots.names import short
from mdtrace.plots.points import summed
from mdtrace.plots.roofline import roofline
from mdtrace.plots.timeline import overlap_timeline, time_bars
from mdtrace.plots.values import Size, si
from mdtrace.report.blocks import Block, Column, Missing, Section, Text, figure, rows
from mdtrace.report.changes import changes
from mdtrace.report.facts import Facts
from mdtrace.report.text import count, digits, duration, percent, sentence, size

_WIDE = Size(820, 380)
_TOP = 20
_RANKS = 128  # rows of a table by rank


def sections(facts: Facts) -> list[Section]:
    """All of them."""
    return [
        Section("time", "Where the time goes", _time(facts)),
        Section("layers", "Layers under three roofs", _layers(facts)),
        Section("communication", "Communication", _communication(facts)),
        Section("stragglers", "Stragglers", _stragglers(facts)),
        Section("changes", "What would change it", changes(facts)),
        Section("kernels", "Kernels and operators", _kernels(facts)),
        Section("unanswered", "Not answered", _unanswered(facts)),
        Section("sources", "Sources", _sources(facts)),
    ]


def _failed(facts: Facts, *names: str) -> list[Block]:
    """A word about each metric that could not be answered."""
    return [
        Missing(f"{name} could not be answered: {facts.failed[name]}")
        for name in names
        if name in facts.failed
    ]


def steps_covered(facts: Facts) -> str:
    """Which steps the figures are of, in words."""
    steps = facts.rows("step_summary")
    if not steps:
        return "the whole capture: no steps are marked"
    steady = [row["step"] for row in steps if row["steady"]]
    left = len(steps) - len(steady)
    names = (
        f"steps {steady[0]} to {steady[-1]}"
        if len(steady) > 1
        else f"step {steady[0]}"
        if steady
        else "no step"
    )
    return names + (f"; {left} of {len(steps)} left out (warm-up or incomplete)" if left else "")


def costs_covered(facts: Facts) -> str:
    """For how much of the compute time FLOP and bytes are known, in words."""
    job = facts.job
    if job is None or job["coverage"] is None:
        return "FLOP and bytes are not known"
    return f"FLOP and bytes known for {percent(job['coverage'])} of compute time; {steps_covered(facts)}"


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
    blocks = _failed(facts, "steady_breakdown", "time_breakdown", "step_breakdown")
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
        "By rank and device", found[:_RANKS], _TIMES, f"FROM {view}", coverage, folded=len(found) > 16
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
    blocks = _failed(facts, "layer_roofline", "hardware_roofs")
    found = summed(points) if points.num_rows else []
    if not found:
        return [*blocks, Missing("no work of layers is known", "record shapes, stacks and modules")]
    if all(row["name"] == "no layer" for row in found):
        hint = "torch: with_stack=True, with_modules=True; Nsight Systems: NVTX ranges around layers"
        blocks.append(Missing("no layer is named in the capture", hint))
    roofs, coverage = facts.tables["hardware_roofs"], costs_covered(facts)
    sql = "FROM layer_roofline"
    blocks.append(figure("roofline-memory", roofline(points, roofs, ("memory",), _WIDE), sql, coverage))
    if any(row["wire_bytes"] for row in found):
        chart = roofline(points, roofs, ("communication",), _WIDE)
        blocks.append(figure("roofline-communication", chart, sql, coverage))
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
    blocks = _failed(facts, "collective_bandwidth")
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
    blocks: list[Block] = [Text(sentence(verdict.text), strong=True), *_failed(facts, "straggler_ranks")]
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
    blocks.append(rows("By rank", ranks[:_RANKS], _STRAGGLERS, order, coverage, folded=folded))
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
    found = facts.rows("clock_offsets")[:_RANKS]
    return rows("Clocks", found, columns, "FROM clock_offsets", "collectives used: column from", folded=True)


def _kernels(facts: Facts) -> list[Block]:
    blocks: list[Block] = _failed(facts, "kernel_summary", "operator_summary")
    kernels, operators = facts.rows("kernel_summary"), facts.rows("operator_summary")
    if kernels:
        columns = (
            Column("name", "activity", short=lambda name: short(name, 56), right=False),
            Column("class", "class", right=False),
            Column("count", "count", count),
            Column("total_ns", "time", duration),
            Column("share", "share", percent),
            Column("median_ns", "median", duration),
            Column("max_ns", "longest", duration),
        )
        title, sql = "Device activities of most time", "FROM kernel_summary LIMIT 20"
        blocks.append(rows(title, kernels, columns, sql, "all device activity of the capture, all ranks"))
    else:
        blocks.append(Missing("no device activity was captured"))
    if operators:
        own = (
            Column("name", "operator", short=lambda name: short(name, 56), right=False),
            Column("count", "count", count),
            Column("self_ns", "own time on the host", duration),
            Column("self_share", "share", percent),
            Column("device_count", "launches", count),
            Column("device_ns", "time on devices", duration),
        )
        title, sql = "Operators of most time of their own", "FROM operator_summary LIMIT 20"
        blocks.append(rows(title, operators, own, sql, "all operators of the capture, all ranks"))
    return blocks


def _unanswered(facts: Facts) -> list[Block]:
    no = [
        {"question": a.question, "why": a.why, "command": f"mdtrace {a.command}"}
        for a in facts.questions
        if not a.possible
    ]
    blocks: list[Block] = []
    if no:
        columns = (
            Column("question", "question", right=False),
            Column("why", "why not", right=False),
            Column("command", "would be answered by", right=False),
        )
        blocks.append(rows("Questions", no, columns, "mdtrace info", "of those that mdtrace knows"))
    else:
        blocks.append(Text("Every question that mdtrace knows can be answered."))
    return blocks + _diagnostics(facts.layout["diagnostics"])


def _diagnostics(found: Sequence[Any]) -> list[Block]:
    if not found:
        return [Text("Nothing was repaired, skipped or missing.")]
    order = {"error": 0, "warning": 1, "info": 2}
    columns = (
        Column("severity", "", right=False),
        Column("message", "what was found", right=False),
        Column("closes", "cannot be answered", right=False),
        Column("hint", "what to do", right=False),
        Column("code", "code", right=False),
    )
    ordered = sorted(found, key=lambda row: (order.get(row["severity"], 3), row["code"]))
    title = f"Diagnostics, {len(ordered)}" if len(ordered) <= 60 else f"Diagnostics, 60 of {len(ordered)}"
    return [rows(title, ordered[:60], columns, "FROM diagnostics", "all files")]


def _sources(facts: Facts) -> list[Block]:
    files = facts.layout["sources"]
    columns = (
        Column("file", "file", short=lambda name: short(name, 44), right=False),
        Column("format", "format", right=False),
        Column("producer", "producer", right=False),
        Column("size_bytes", "size", size),
        Column("events_read", "events", count),
        Column("events_stored", "stored", count),
        Column("events_skipped", "skipped", count),
        Column("clock_base", "clock", right=False),
    )
    read, stored = sum(row["events_read"] for row in files), sum(row["events_stored"] for row in files)
    coverage = f"{count(stored)} of {count(read)} events are rows; the rest is counted with a reason"
    first = rows("Files", files[:_RANKS], columns, "FROM sources", coverage, folded=len(files) > 16)
    captures = (
        Column("process_id", "capture"),
        Column("rank", "rank"),
        Column("rank_origin", "rank from", right=False),
        Column("world_size", "of"),
        Column("host", "host", right=False),
        Column("backend", "backend", right=False),
    )
    found = facts.layout["processes"]
    second = rows("Captures", found[:_RANKS], captures, "FROM processes", "all files", folded=len(found) > 16)
    return [first, second]
