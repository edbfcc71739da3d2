"""Solves the clocks of the captures against each other: table `clocks`.

One clock a host. Times in the tables are never changed; views subtract the offsets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mdtrace.link.clocks_fit import ENOUGH, granularity
from mdtrace.link.clocks_graph import Marks, Path, collect, solve_paths
from mdtrace.link.instances_rows import NONE, Flags, Ints, Rows, integers
from mdtrace.link.instances_tables import SYNCHRONISING
from mdtrace.tables.dataset import Dataset
from mdtrace.tables.diagnostics import Diagnostic
from mdtrace.tables.schema import tables

# Horovod's coordinator hears of ready tensors once a cycle: 1 ms today, 5 ms before 0.21.
_SHORTEST_CYCLE_NS = 1_000_000
_LONGEST_CYCLE_NS = 10_000_000

_UNCONNECTED = "shares no synchronising collective with another clock: compared on its own clock only"
_OWN_ZERO = "the file has no wall clock: its times are compared within the file only"
_INCONSISTENT = "no offset fits all collectives: some are mismatched, or the clock is not steady"


@dataclass(frozen=True)
class Capture:
    """What decides which clock a process was recorded on."""

    process_id: int
    rank: int | None
    host: str | None
    source_id: int
    epoch: bool
    timeline: bool

    @property
    def wall(self) -> bool:
        """Recorded on a wall clock that can be aligned with others."""
        return self.epoch and not self.timeline


@dataclass(frozen=True)
class _Solution:
    """Clocks by number: how each was solved, and the first process on it; `one_host`: all are one."""

    paths: Mapping[int, Path]
    process: Mapping[int, int]
    one_host: bool


def solve_clocks(dataset: Dataset, rows: Rows, instance: Ints) -> tuple[pa.Table, list[Diagnostic]]:
    """Solve the clocks of all captures.

    Args:
        rows: the collectives.
        instance: per row its instance, -1 for none.

    Returns:
        rows of `clocks`, one per process; and what is doubtful about them.
    """
    captures = _captures(dataset)
    clock = _clock_numbers(captures)
    marks = _usable(rows, instance)
    resolution = {c.process_id: _resolution(rows, c.process_id) for c in captures}
    solution = _solve(captures, clock, _to_marks(rows, instance, marks), resolution)
    shared_clock = clock
    if solution.one_host:
        first = min(clock[c.process_id] for c in captures if c.wall)
        shared_clock = clock | {c.process_id: first for c in captures if c.wall}
    spreads = _spreads(rows, instance, marks, shared_clock)
    cycle = _cycle(dataset) if any(c.timeline for c in captures) else _SHORTEST_CYCLE_NS
    made = []
    for capture in captures:
        number = capture.process_id
        spread = None if number not in spreads else max(spreads[number], resolution[number])
        row = _row(capture, clock[number], solution, spread)
        made.append(row | _own_timeline(capture, shared_clock, cycle, spread))
    return pa.Table.from_pylist(made, tables()["clocks"].arrow()), _diagnostics(made)


def _captures(dataset: Dataset) -> list[Capture]:
    sources = {
        s["source_id"]: s for s in dataset.table("sources", ["source_id", "format", "clock_base"]).to_pylist()
    }
    found = []
    for process in dataset.table("processes", ["process_id", "rank", "host", "source_id"]).to_pylist():
        source = sources.get(process["source_id"], {})
        timeline = source.get("format") == "horovod"
        # Kineto's times are absolute where it states no base, however small they are.
        epoch = source.get("clock_base") == "epoch" or source.get("format") == "kineto"
        found.append(Capture(**process, epoch=epoch, timeline=timeline))
    return sorted(found, key=lambda c: c.process_id)


def _clock_numbers(captures: Sequence[Capture]) -> dict[int, int]:
    """By process the number of its clock: one a host; where no host is named one a file; one a timeline."""
    numbers: dict[tuple[str, object], int] = {}
    clock = {}
    for c in captures:
        named = c.wall and c.host is not None
        key: tuple[str, object] = ("host", c.host) if named else ("file", c.source_id)
        clock[c.process_id] = numbers.setdefault(key, len(numbers))
    return clock


def _usable(rows: Rows, instance: Ints) -> Flags:
    """Rows that can serve as clock marks: matched, synchronising, closed, and not of a timeline."""
    synchronising = np.isin(rows.kind, rows.codes(SYNCHRONISING)) & ~rows.point_to_point
    whole = (instance >= 0) & (rows.end != NONE) & (rows.evidence != rows.code("timeline"))
    usable: Flags = synchronising & whole
    return usable


def _to_marks(rows: Rows, instance: Ints, where: Flags) -> Marks:
    firm = rows.evidence[where] != rows.code("range")
    return Marks(instance[where], rows.process[where], rows.start[where], rows.end[where], firm)


def _resolution(rows: Rows, process_id: int) -> int:
    own = rows.process == process_id
    return granularity(np.concatenate([rows.start[own], rows.end[own & (rows.end != NONE)]]))


def _solve(
    captures: Sequence[Capture], clock: Mapping[int, int], marks: Marks, resolution: Mapping[int, int]
) -> _Solution:
    """Solve the wall clocks; `marks.clock` holds processes. The lowest rank's clock is the reference."""
    wall = sorted((c for c in captures if c.wall), key=lambda c: (c.rank is None, c.rank or 0, c.process_id))
    clocks = list(dict.fromkeys(clock[c.process_id] for c in wall))
    if not clocks:
        return _Solution({}, {}, False)
    first = {clock[c.process_id]: c.process_id for c in reversed(wall)}
    column = np.full(max(clock) + 1, -1, np.int64)
    for c in wall:
        column[c.process_id] = clocks.index(clock[c.process_id])
    keep = column[marks.clock] >= 0
    marks = Marks(
        marks.instance[keep], column[marks.clock[keep]], marks.start[keep], marks.end[keep], marks.firm[keep]
    )
    coarsest = [max(resolution[c.process_id] for c in wall if clock[c.process_id] == n) for n in clocks]
    found = solve_paths(collect(marks, len(clocks)), coarsest)
    paths = {
        number: replace(path, reference=None if path.reference is None else first[clocks[path.reference]])
        for number, path in zip(clocks, found, strict=True)
    }
    return _Solution(paths, first, _is_one_host(wall, paths))


def _is_one_host(wall: Sequence[Capture], paths: Mapping[int, Path]) -> bool:
    """No file names its host, and every solved offset is within 3 error bars: they share one clock."""
    if len(paths) < 2 or any(c.host is not None for c in wall):
        return False
    fits = [p.fit for p in paths.values() if p.fit is not None]
    connected = len(fits) == len(paths) - 1
    return connected and all(f.reach <= 3 * f.error for f in fits)


def _spreads(rows: Rows, instance: Ints, usable: Flags, clock: Mapping[int, int]) -> dict[int, int]:
    """By process the spread of the ends over the captures of its clock: median, or the largest of a few."""
    where = np.flatnonzero(usable)
    if not len(where):
        return {}
    of_process = np.zeros(max(clock) + 1, np.int64)
    for member, number in clock.items():
        of_process[member] = number
    process = rows.process[where]
    cells = np.stack([instance[where], of_process[process]], axis=1)
    _, inverse, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    last, first = np.full(len(count), NONE), np.full(len(count), np.iinfo(np.int64).max)
    np.maximum.at(last, inverse, rows.end[where])
    np.minimum.at(first, inverse, rows.end[where])
    shared = count[inverse] > 1
    spread = (last - first)[inverse]
    return {
        int(number): _typical(spread[shared & (process == number)]) for number in np.unique(process[shared])
    }


def _typical(values: Ints) -> int:
    """The median; of a few values the largest."""
    return int(np.median(values)) if len(values) >= ENOUGH else int(values.max())


def _cycle(dataset: Dataset) -> int:
    """How far apart the coordinator hears of ready tensors: the usual gap between bursts of ticks."""
    gaps = np.diff(np.sort(integers(dataset.table("arrivals", ["ready_ns"]).column(0))))
    gaps = gaps[gaps > _SHORTEST_CYCLE_NS // 4]
    usual = int(np.quantile(gaps, 0.25)) if len(gaps) else 0
    return min(max(usual, _SHORTEST_CYCLE_NS), _LONGEST_CYCLE_NS)


def _own_timeline(
    capture: Capture, clock: Mapping[int, int], cycle: int, spread: int | None
) -> dict[str, Any]:
    """Columns of a capture that is compared with nothing outside its file; of others just its clock."""
    number = clock[capture.process_id]
    row: dict[str, Any] = {"clock": number}
    if capture.wall:
        return row
    first = min(p for p, n in clock.items() if n == number)
    row |= {"timeline": -1 - number, "reference_process_id": first, "reason": None}
    if capture.timeline:
        return row | {"method": "timeline", "error_ns": cycle, "spread_ns": cycle}
    return row | {"method": "own zero", "error_ns": spread, "reason": _OWN_ZERO}


def _row(capture: Capture, clock: int, solution: _Solution, spread: int | None) -> dict[str, Any]:
    """One row of `clocks`, without the columns of `_own_timeline`."""
    row: dict[str, Any] = dict.fromkeys(tables()["clocks"].arrow().names)
    row |= {name: getattr(capture, name) for name in ("process_id", "rank", "host")}
    row |= {"offset_ns": 0, "collectives": 0, "corrected": False, "spread_ns": spread, "error_ns": spread}
    path = solution.paths.get(clock)
    if path is None:
        return row
    row |= {"timeline": path.component, "reference_process_id": path.reference}
    if path.fit is None:
        return row | _unfitted(capture, clock, path, solution)
    found = path.fit
    row |= {
        "measured_ns": found.offset,
        "lower_ns": found.lower,
        "upper_ns": found.upper,
        "collectives": found.count,
        "reason": None if found.consistent else _INCONSISTENT,
    }
    if solution.one_host:
        # With a handful of collectives the ends say less about the clocks than causality does.
        error = spread if found.count >= ENOUGH and spread is not None else found.error
        return row | {"method": "one host", "error_ns": error, "spread_ns": error}
    row |= {"offset_ns": found.offset, "error_ns": found.error, "corrected": True}
    if found.drift is not None:
        row |= {"drift_ppb": found.drift * 1e9, "drift_origin_ns": found.origin}
    method = "ends" if found.drift is None else "ends with drift"
    return row | {"method": "ends, through other hosts" if path.through else method}


def _unfitted(capture: Capture, clock: int, path: Path, solution: _Solution) -> dict[str, Any]:
    """Columns of a capture on a reference clock, or on one without connection."""
    if path.reference is None:
        return {"offset_ns": None, "method": "none", "reason": _UNCONNECTED}
    is_first = solution.process[clock] == capture.process_id
    return {"method": "reference" if is_first else "same host"}


def _diagnostics(made: Sequence[Mapping[str, Any]]) -> list[Diagnostic]:
    """Clocks that could not be solved, or not without doubt."""
    counts = (
        ("clock_inconsistent", sum(row["reason"] == _INCONSISTENT for row in made)),
        ("clock_unconnected", sum(row["reason"] == _UNCONNECTED for row in made)),
    )
    return [Diagnostic(code, count) for code, count in counts if count]
