"""What the rows of one process show to be missing or wrong, as diagnostics."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, flags, integers, names
from mdtrace.link.launches import DeviceLinks, Externals, Launches
from mdtrace.link.nesting import NONE, OPEN, Flags, Nest, Rows, Times, by_thread_and_start, nest
from mdtrace.link.steps import Steps
from mdtrace.tables.diagnostics import Diagnostic

_KERNEL_CALL = re.compile(r"(?i)launch(?!host)")
_TOLERANCE_NS = 1000  # overlap on a stream that rounding explains: a tick of the coarsest clock
_COVERED = 3  # whole successors that an activity has to outlast to be doubted,
_TIMES = 10  # and how many times as long as each of them it lasts


@dataclass(frozen=True)
class Activities:
    """Device activities that are work (all but sync), once each: rows, stream numbers, times."""

    rows: Rows
    stream: Rows
    start: Times
    end: Times

    def of(self, chosen: Flags) -> "Activities":
        return Activities(self.rows[chosen], self.stream[chosen], self.start[chosen], self.end[chosen])


@dataclass(frozen=True)
class Checked:
    """All that is looked at."""

    staged: StagedProcess
    work: Activities
    host: HostOps
    nest: Nest
    launches: Launches
    links: DeviceLinks
    steps: Steps
    operators: Externals
    collectives: pa.Table
    file: str


def activities(staged: StagedProcess, times: tuple[Times, Times]) -> Activities:
    """Work of the devices, copies of events left out.

    Args:
        times: starts and ends of device_ops.
    """
    work = names(staged, "device_ops", "kind").where(lambda kind: kind != "sync")
    rows = np.flatnonzero(work & ~flags(staged, "device_ops", "duplicate"))
    start, end = (t[rows] for t in times)
    pairs = np.stack([integers(staged, "device_ops", c)[rows] for c in ("device_id", "stream_id")], axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    new = np.any(np.diff(pairs[order], axis=0, prepend=pairs[order[:1]]) != 0, axis=1)
    stream = np.empty(len(rows), np.int32)
    stream[order] = np.cumsum(new)
    return Activities(rows, stream, start, end)


def check(checked: Checked) -> list[Diagnostic]:
    """Findings about one process, in a fixed order."""
    found = [
        *_launches(checked),
        *_nesting(checked),
        *_streams(checked),
        *_clocks(checked),
        *_graphs(checked),
        *_steps(checked),
        *_collectives(checked),
    ]
    for diagnostic in found:
        diagnostic.detail = {"file": checked.file, **diagnostic.detail}
    return found


def _launches(checked: Checked) -> Iterator[Diagnostic]:
    """Calls without kernels and activities without calls."""
    work = checked.work
    if not len(work.rows):
        return
    if not len(checked.launches):
        yield Diagnostic("no_launches", len(work.rows))
        return
    launches = checked.launches
    calls = launches.names.match(_KERNEL_CALL) & ~launches.duplicate & (launches.correlation != NONE)
    started = integers(checked.staged, "device_ops", "correlation")
    idle = int(np.count_nonzero(~np.isin(launches.correlation[calls], started)))
    if idle:
        yield Diagnostic("launch_without_kernel", idle)
    lost = checked.links.launch[work.rows] == NONE
    if lost.any():
        duration = np.where(work.end == OPEN, 0, work.end - work.start).astype(np.float64)
        share = duration[lost].sum() / max(duration.sum(), 1.0)
        yield Diagnostic("device_op_without_launch", int(lost.sum()), {"share": f"{100 * share:.1f} %"})


def _nesting(checked: Checked) -> Iterator[Diagnostic]:
    """Where times and the producer's own ids disagree about what lies in what."""
    launches = checked.launches
    named = checked.operators.row(launches.external)
    other = int(np.count_nonzero((named != NONE) & (launches.host != NONE) & (named != launches.host)))
    if other:
        yield Diagnostic("launch_operator_mismatch", other)
    if checked.nest.crossings:
        yield Diagnostic("crossing_host_ops", checked.nest.crossings)


def _streams(checked: Checked) -> Iterator[Diagnostic]:
    """Activities of one stream that overlap. Those of a graph may: it runs branches side by side."""
    work = checked.work
    serial = work.of(~checked.links.graph[work.rows] & (work.end != OPEN))
    if not len(serial.rows):
        return
    for row, covered in _outlasting(serial):
        name = names(checked.staged, "device_ops").text(row)
        yield Diagnostic("activity_outlasts_successors", covered, {"name": name})
    overlaps = _overlapping(serial)
    if overlaps:
        yield Diagnostic("stream_overlap", overlaps)


def _outlasting(serial: Activities) -> list[tuple[int, int]]:
    """The activity that covers most whole successors on its stream, if it is to be doubted, and how many.

    A stream runs one thing after the other, but for launches that may overlap their predecessor's end. So one
    that outlasts 3 whole successors, each 10 times shorter or more, was most likely recorded wrong.
    """
    everything = np.ones(len(serial.rows), np.bool_)
    index = np.full(len(serial.rows), NONE, np.int64)
    tree = nest(serial.stream, serial.start, serial.end, index, everything)
    inside = np.flatnonzero(tree.parent != NONE)
    around = tree.parent[inside]
    duration = serial.end - serial.start
    longest = np.zeros(len(serial.rows), np.int64)
    np.maximum.at(longest, around, duration[inside])
    covered = np.bincount(around, minlength=len(serial.rows))
    doubted = np.flatnonzero((covered >= _COVERED) & (duration // _TIMES >= longest))
    if not len(doubted):
        return []
    worst = doubted[np.argmax(covered[doubted])]
    return [(int(serial.rows[worst]), int(covered[worst]))]


def _overlapping(serial: Activities) -> int:
    """Activities that start more than the tolerance before everything earlier on their stream has ended."""
    order = by_thread_and_start(serial.stream, serial.start)
    stream, start, end = serial.stream[order], serial.start[order], serial.end[order]
    limits = np.flatnonzero(np.diff(stream, prepend=NONE - 1, append=NONE - 1)).tolist()
    count = 0
    for low, high in pairwise(limits):
        until = np.maximum.accumulate(end[low : high - 1])
        count += int(np.count_nonzero(until - start[low + 1 : high] > _TOLERANCE_NS))
    return count


def _clocks(checked: Checked) -> Iterator[Diagnostic]:
    """Activities that start before the call that asks for them began: the clocks disagree."""
    work = checked.work
    launch = checked.links.launch[work.rows]
    known = launch != NONE
    early = checked.launches.start[launch[known]] - work.start[known]
    early = early[early > 0]
    if len(early):
        yield Diagnostic("device_before_launch", len(early), {"most": int(early.max())})


def _graphs(checked: Checked) -> Iterator[Diagnostic]:
    whole = names(checked.staged, "device_ops", "kind").where(lambda kind: kind == "graph")
    if whole.any():
        yield Diagnostic("graphs_without_kernels", int(whole.sum()))
    kernels = int(np.count_nonzero(checked.links.graph & ~whole))
    if kernels:
        yield Diagnostic("graph_kernels", kernels)


def _steps(checked: Checked) -> Iterator[Diagnostic]:
    if not len(checked.steps.number) and (len(checked.host) or len(checked.links.launch)):
        yield Diagnostic("no_steps")


def _collectives(checked: Checked) -> Iterator[Diagnostic]:
    if not len(checked.collectives):
        return
    kinds = np.array(checked.collectives.column("kind").to_pylist(), object)
    unknown = checked.collectives.column("payload_bytes").is_null().to_numpy() & (kinds != "barrier")
    if unknown.any():
        yield Diagnostic("collective_size_unknown", int(unknown.sum()), {"of": len(unknown)})
