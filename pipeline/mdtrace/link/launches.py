"""API calls to the operators around them, device activities to the calls that started them."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, Names, bounds, flags, integers, names
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, Spans, Times, inside, nearest_of, take
from mdtrace.link.steps import Steps

# Calls that make a device work, as against those that ask, wait or record.
_WORK = re.compile(r"(?i)launch|memcpy|memset|copy|prefetch|enqueue")
_GRAPH = re.compile(r"(?i)graph_?launch")


@dataclass(frozen=True)
class Launches:
    """API calls by row: `inner` is the innermost host event of any kind around the call, `host` the
    operator (NVTX range, else annotation) it belongs to, `step` the step it started in."""

    start: Times
    end: Times
    duplicate: Flags
    names: Names
    correlation: Times
    external: Times
    inner: Rows
    host: Rows
    step: Times

    def __len__(self) -> int:
        return len(self.start)


def link_launches(
    staged: StagedProcess,
    host: HostOps,
    nest: Nest,
    thread: Rows,
    operator_ids: "Externals",
    steps: Steps,
) -> Launches:
    """Find what each call was made in.

    The innermost operator or NVTX range around the call on its own thread, else the innermost annotation.
    Where the thread shows none, the operator whose external id the call carries, if it runs while the
    call starts: some exporters give the calls of a thread another thread number than its operators.
    """
    start, end = bounds(staged, "launches")
    external = integers(staged, "launches", "external_id")
    inner = inside(nest, host.thread, host.start, host.end, Spans(thread, start, end))
    inner[thread == NONE] = NONE
    lost = np.flatnonzero((inner == NONE) & (external != NONE))
    inner[lost] = operator_ids.running(host, external[lost], start[lost])
    return Launches(
        start,
        end,
        flags(staged, "launches", "duplicate"),
        names(staged, "launches"),
        integers(staged, "launches", "correlation"),
        external,
        inner,
        _owner(host, nest, inner),
        steps.at(start),
    )


def _owner(host: HostOps, nest: Nest, inner: Rows) -> Rows:
    """From the innermost event to the operator or NVTX range it is or lies in, else the annotation."""
    owner = nearest_of(nest.parent, host.kind("operator", "nvtx"), inner)
    none = np.flatnonzero(owner == NONE)
    owner[none] = nearest_of(nest.parent, host.kind("annotation"), inner[none])
    return owner


@dataclass(frozen=True)
class Externals:
    """Operators by the external id that device events and calls refer to: ids ascending, and their rows."""

    ids: Times
    rows: Rows

    def row(self, external: Times) -> Rows:
        """The operator of each id, NONE for unknown ids."""
        if not len(self.ids):
            return np.full(len(external), NONE, np.int32)
        place = np.minimum(np.searchsorted(self.ids, external), len(self.ids) - 1)
        found = (self.ids[place] == external) & (external != NONE)
        return np.where(found, self.rows[place], NONE).astype(np.int32)

    def running(self, host: HostOps, external: Times, time: Times) -> Rows:
        """The same, only where the operator runs at the time."""
        row = self.row(external)
        if not len(host):
            return row
        running = (host.start[row] <= time) & (time <= host.end[row])
        return np.where(running, row, NONE)


def externals(staged: StagedProcess, host: HostOps) -> Externals:
    """External ids of operators and annotations; of several with one id the first."""
    external = integers(staged, "host_ops", "external_id")
    rows = np.flatnonzero((external != NONE) & host.kind("operator", "annotation") & ~host.duplicate)
    ids, first = np.unique(external[rows], return_index=True)
    return Externals(ids, rows[first])


@dataclass(frozen=True)
class DeviceLinks:
    """By row of device_ops: the call that started it, the innermost host event around that call, its
    operator, its step, whether it came out of a graph; and by launch how many activities it started."""

    launch: Rows
    inner: Rows
    host: Rows
    step: Times
    graph: Flags
    launched: NDArray[np.int32]


def link_device_ops(
    staged: StagedProcess, host: HostOps, launches: Launches, operator_ids: Externals, steps: Steps
) -> DeviceLinks:
    """Join device activities with calls by correlation within the process.

    Without correlation (older ROCm) an activity belongs to the operator whose external id it carries, and to
    a call where the operator made as many working calls as it has such activities, in order of time.
    The step is that of the call, else of the operator. Graph kernels, whose call replays work recorded
    elsewhere, are told by a graph node or a graph launch.
    """
    correlation = integers(staged, "device_ops", "correlation")
    external = integers(staged, "device_ops", "external_id")
    duplicate = flags(staged, "device_ops", "duplicate")
    launch = _by_correlation(launches, correlation)
    old = np.flatnonzero((correlation == NONE) & (external != NONE))
    launch[old] = _by_external(launches, external[old], integers(staged, "device_ops", "start_ns", 0)[old])
    inner, owner = take(launches.inner, launch), take(launches.host, launch)
    alone = old[owner[old] == NONE]
    inner[alone] = owner[alone] = operator_ids.row(external[alone])
    step = take(launches.step, launch)
    without = old[(launch[old] == NONE) & (owner[old] != NONE)]
    step[without] = steps.at(host.start[owner[without]])
    counted = launch[(launch != NONE) & ~duplicate]
    return DeviceLinks(
        launch,
        inner,
        owner,
        step,
        _in_graph(staged, launches, launch),
        np.bincount(counted, minlength=len(launches)).astype(np.int32),
    )


def _in_graph(staged: StagedProcess, launches: Launches, launch: Rows) -> Flags:
    replay = np.append(launches.names.match(_GRAPH), False)
    graph: Flags = replay[launch] | (integers(staged, "device_ops", "graph_node_id") != NONE)
    return graph


def _by_correlation(launches: Launches, correlation: Times) -> Rows:
    """The call of each correlation; where several share it the one that makes the device work, the
    outermost of these, the first in the file."""
    rows = np.flatnonzero(launches.correlation != NONE)
    shared = launches.correlation[rows]
    order = np.argsort(shared, kind="stable")
    rows, shared = rows[order], shared[order]
    new = np.diff(shared, prepend=shared[:1] - 1) != 0
    if not new.all():
        idle = ~launches.names.match(_WORK)[rows]
        keys = (rows, -launches.end[rows], launches.start[rows], idle, launches.duplicate[rows], shared)
        order = np.lexsort(keys)
        rows, shared = rows[order], shared[order]
        new = np.diff(shared, prepend=shared[:1] - 1) != 0
    return Externals(shared[new], rows[new]).row(correlation)


def _by_external(launches: Launches, external: Times, start: Times) -> Rows:
    """The k-th working call of an external id for its k-th activity, where there are as many of both."""
    calls = np.flatnonzero((launches.external != NONE) & launches.names.match(_WORK) & ~launches.duplicate)
    calls = calls[np.lexsort((launches.start[calls], launches.external[calls]))]
    activities = np.lexsort((start, external))
    found = np.full(len(external), NONE, np.int64)
    ids, first, counts = np.unique(launches.external[calls], return_index=True, return_counts=True)
    mine, begin, wanted = np.unique(external[activities], return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(ids, mine), max(len(ids) - 1, 0))
    if not len(ids):
        return found
    even = (ids[place] == mine) & (counts[place] == wanted)
    for a, b, n in zip(begin[even].tolist(), first[place[even]].tolist(), wanted[even].tolist(), strict=True):
        found[activities[a : a + n]] = calls[b : b + n]
    return found
