"""Sections on what is in the data: kernels, operators, what is missing, files."""

from collections.abc import Sequence
from typing import Any

from mdtrace.plots.names import short
from mdtrace.report.blocks import Block, Column, Missing, Text, rows
from mdtrace.report.facts import Facts
from mdtrace.report.text import count, duration, percent, size

RANKS = 128  # rows of a table by rank


def failed(facts: Facts, *names: str) -> list[Block]:
    """A word about each metric that could not be answered."""
    return [
        Missing(f"{name} could not be answered: {facts.failed[name]}")
        for name in names
        if name in facts.failed
    ]


def kernels(facts: Facts) -> list[Block]:
    blocks: list[Block] = failed(facts, "kernel_summary", "operator_summary")
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


def unanswered(facts: Facts) -> list[Block]:
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


def sources(facts: Facts) -> list[Block]:
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
    first = rows("Files", files[:RANKS], columns, "FROM sources", coverage, folded=len(files) > 16)
    captures = (
        Column("process_id", "capture"),
        Column("rank", "rank"),
        Column("rank_origin", "rank from", right=False),
        Column("world_size", "of"),
        Column("host", "host", right=False),
        Column("backend", "backend", right=False),
    )
    found = facts.layout["processes"]
    second = rows("Captures", found[:RANKS], captures, "FROM processes", "all files", folded=len(found) > 16)
    return [first, second]
