"""What a what-if is asked of: operations with their recorded and ideal durations on a graph of dependencies.

Operation logs and datasets are both turned into a `Job`; everything behind it is the same for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mdtrace.models.replay import Ids, Plan, Times, ends

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class OpType:
    """A type of operation.

    Attributes:
        communication: its ideal duration is the median of the transfers; of all others the mean.
    """

    name: str
    communication: bool


@dataclass(frozen=True)
class Worker:
    """Who works: a rank of a dataset, or a (dp rank, stage) of an operation log.

    Attributes:
        dp_rank, stage: None where the job's layout is not known.
    """

    rank: int
    dp_rank: int | None = None
    stage: int | None = None


@dataclass(frozen=True)
class Job:
    """Operations of a job, one or more nodes each, laid out for replay.

    Attributes:
        plan: the graph, of n nodes.
        recorded: ns, shape (n,): durations as recorded, transfers without waiting; 0 where nodes only join.
        cell: shape (n,): which nodes are the same operation on different workers and steps: their mean or
            median is the ideal; −1: nothing to make ideal.
        op_type: shape (n,): index in `types`; −1 for nodes that only join.
        worker: shape (n,): index in `workers`; −1 for nodes of nobody.
        step: shape (n,): index in `steps`; −1 outside every step.
        types, workers, steps: what the codes mean.
        measured_ns: time of each step as measured, ns.
        chained: steps follow each other in the graph; else each begins at 0.
        notes: what was left out or assumed, in sentences.
        everywhere: nodes, shape (n,), of operations that all workers would do in a step if they did the same
            work: who lacks one counts as 0 in its mean. None: none.
    """

    plan: Plan
    recorded: Times
    cell: Ids
    op_type: Codes
    worker: Codes
    step: Codes
    types: tuple[OpType, ...]
    workers: tuple[Worker, ...]
    steps: tuple[int, ...]
    measured_ns: Times
    chained: bool
    notes: tuple[str, ...] = ()
    everywhere: Mask | None = None

    def step_times(self, durations: Times) -> Times:
        """Replay, and the time of each step in ns.

        Args:
            durations: ns, shape (n,) or (n, k).

        Returns:
            shape (steps,) or (steps, k).
        """
        return self.times_of(ends(self.plan, durations), durations)

    def times_of(self, ended: Times, durations: Times) -> Times:
        """Time of each step, ns, given when the nodes ended; shapes as of `step_times`."""
        order = self._closing
        first = np.searchsorted(self.step[order], np.arange(len(self.steps)))
        last: Times = np.maximum.reduceat(ended[order], first, axis=0)
        if not self.chained:
            return last
        opening = np.flatnonzero(self.step == 0)
        begin = (ended[opening] - durations[opening]).min(axis=0, keepdims=True)
        return np.diff(np.maximum.accumulate(last, axis=0), axis=0, prepend=begin)

    @cached_property
    def _closing(self) -> Ids:
        """By step, the nodes that may be the last of it to end: no node of it follows them."""
        layout = self.plan
        step = self.step if layout.place is None else self.step[np.argsort(layout.place)]
        ends_later = (self.recorded >= 0) & (self.op_type >= 0)
        later = ends_later if layout.place is None else ends_later[np.argsort(layout.place)]
        after = np.repeat(np.arange(layout.nodes), np.diff(layout.first_edge))
        followed = (step[after] == step[layout.sources]) & later[after]
        if layout.lags is not None:
            followed &= layout.lags >= 0
        last = np.ones(layout.nodes, np.bool_)
        last[layout.sources[followed]] = False
        inside = np.flatnonzero((last if layout.place is None else last[layout.place]) & (self.step >= 0))
        return inside[np.argsort(self.step[inside], kind="stable")]

    def in_order(self) -> "Job":
        """The same job with its nodes numbered as the plan lays them out, which replays fastest."""
        if self.plan.place is None:
            return self
        order = np.argsort(self.plan.place)
        names = ("recorded", "cell", "op_type", "worker", "step")
        moved = {n: getattr(self, n)[order] for n in names}
        everywhere = None if self.everywhere is None else self.everywhere[order]
        return replace(self, plan=replace(self.plan, place=None), everywhere=everywhere, **moved)


def ideal(job: Job, like: Mask | None = None) -> Times:
    """Durations with nothing slow: the mean of each cell, for communication the median; ns, shape (n,).

    Args:
        like: the nodes that the means and medians are taken over, shape (n,); None: all. A cell without any
            of them keeps its recorded durations.
    """
    real = job.cell >= 0
    counted = real if like is None else real & like
    communication = np.asarray([*(t.communication for t in job.types), False], np.bool_)[job.op_type]
    result = job.recorded.copy()
    for chosen, centre in ((~communication, _means), (communication, _medians)):
        nodes = np.flatnonzero(counted & chosen)
        if not len(nodes):
            continue
        by_cell = centre(job.cell[nodes], job.recorded[nodes], _expected(job, nodes))
        filled = np.flatnonzero(real & chosen)
        values = by_cell[job.cell[filled]]
        result[filled] = np.where(np.isnan(values), result[filled], values)
    return result


def _expected(job: Job, nodes: Ids) -> Ids:
    """How often each cell would be there if all workers of `nodes` did it in its steps; 0: as found."""
    count = int(job.cell.max()) + 1
    if job.everywhere is None:
        return np.zeros(count, np.int64)
    workers = len(np.unique(job.worker[nodes]))
    shared = np.flatnonzero(job.everywhere & (job.cell >= 0) & (job.step >= 0))
    steps = len(job.steps)
    pairs = np.unique(job.cell[shared] * steps + job.step[shared])
    return np.bincount(pairs // steps, minlength=count) * workers


def _means(cells: Ids, values: Times, expected: Ids) -> Times:
    """Mean of each cell over as many values as it has, or more where more are expected; NaN without any."""
    found = np.bincount(cells, minlength=len(expected))
    sizes = np.maximum(found, expected)
    sums = np.bincount(cells, values, minlength=len(expected))
    return np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)


def _medians(cells: Ids, values: Times, expected: Ids) -> Times:
    """Median of each cell; NaN where it has no value."""
    count = len(expected)
    order = np.lexsort((values, cells))
    ordered = values[order]
    sizes = np.bincount(cells, minlength=count)
    first = np.cumsum(sizes) - sizes
    some = sizes > 0
    low = np.where(some, first + (sizes - 1) // 2, 0)
    high = np.where(some, first + sizes // 2, 0)
    return np.where(some, (ordered[low] + ordered[high]) / 2, np.nan)


def nodes_of(codes: Codes, wanted: Sequence[int]) -> Mask:
    """Which nodes carry one of the codes, shape (n,)."""
    return np.isin(codes, np.asarray(wanted, codes.dtype))
