"""Gradients sent while the backward pass runs: which go together, when each bucket travels.

The recursion over buckets k in the order they are dispatched, on one link, first in first out:

    start_k = max(dispatch_k, end_{k-1})      end_k = start_k + α + β·bytes_k

and a step takes max(end_K, end of the backward pass) plus what comes after. The dispatch rules are those of
Horovod (threshold, timeout, cycle) and of DistributedDataParallel. Times are in any one unit, sizes in any
other; α and β in the same.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mdtrace.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RuleName = Literal["each", "one", "threshold", "timeout", "cycle", "blocking cycle", "ddp"]


@dataclass(frozen=True)
class Backward:
    """The gradients of a step in the order they become ready.

    Attributes:
        sizes: bytes of each, shape (L,).
        ready: when each is ready, after the start of the step, shape (L,), ascending.
        end: end of the backward pass, not before the last gradient.
    """

    sizes: Floats
    ready: Floats
    end: float

    @classmethod
    def of(cls, sizes: object, ready: object, end: float | None = None) -> "Backward":
        """From sequences; the backward pass ends with the last gradient unless told otherwise.

        Raises:
            UsageError: no gradient, lengths that differ, times that go back, or numbers that are none.
        """
        size_array, ready_array = np.asarray(sizes, np.float64), np.asarray(ready, np.float64)
        if size_array.ndim != 1 or size_array.shape != ready_array.shape or not size_array.size:
            raise UsageError("gradients: as many sizes as times are needed, and at least one")
        finite = np.isfinite(size_array).all() and np.isfinite(ready_array).all()
        if not finite or (size_array < 0).any() or (np.diff(ready_array) < 0).any():
            raise UsageError("gradients: sizes must not be negative and times must not go back")
        last = float(ready_array[-1])
        return cls(size_array, ready_array, last if end is None else max(last, float(end)))


@dataclass(frozen=True)
class Cost:
    """Time of a message: alpha + beta·bytes."""

    alpha: float
    beta: float


@dataclass(frozen=True)
class Rule:
    """When a bucket is closed and sent.

    Attributes:
        name: each: every gradient alone; one: all together; threshold: closed before the gradient that would
            pass `cap`, sent when its last is ready; timeout: that, and no later than `period` after its
            first was ready; cycle: at every multiple of `period` what is ready goes, split by `cap`;
            blocking cycle: the same, but the next tick waits for what was sent; ddp: closed once it reaches
            `cap` (the first one: `first`).
        cap, first: bytes. period: time.
    """

    name: RuleName
    cap: float = np.inf
    first: float | None = None
    period: float = 0.0

    def __post_init__(self) -> None:
        ticking = self.name in ("timeout", "cycle", "blocking cycle")
        if self.cap < 0 or np.isnan(self.cap) or (ticking and not (0 < self.period < np.inf)):
            raise UsageError(
                f"fusion rule {self.name}: a cap of bytes, and a period where it has one, above 0"
            )


@dataclass(frozen=True)
class Schedule:
    """Buckets of consecutive gradients and when they travel; arrays of shape (K,).

    Attributes:
        stops: index after the last gradient of each bucket, ascending; the last is L.
        sizes: bytes.
        dispatch, start, end: when it could go, when it went, when it arrived.
    """

    stops: Ints
    sizes: Floats
    dispatch: Floats
    start: Floats
    end: Floats

    @property
    def buckets(self) -> list[list[int]]:
        """Indices of the gradients in each bucket."""
        starts = [0, *self.stops[:-1].tolist()]
        return [list(range(a, b)) for a, b in zip(starts, self.stops.tolist(), strict=True)]

    @property
    def last(self) -> float:
        """When the last bucket has arrived."""
        return float(self.end[-1])


def run(backward: Backward, cost: Cost, stops: Ints, dispatch: Floats | None = None) -> Schedule:
    """Times of given buckets.

    Args:
        stops: index after the last gradient of each bucket, shape (K,).
        dispatch: when each may go; by default when its last gradient is ready. Shape (K,), ascending.
    """
    edges = np.concatenate(([0.0], np.cumsum(backward.sizes)))
    sizes = edges[stops] - edges[np.concatenate(([0], stops[:-1]))]
    sent = backward.ready[stops - 1] if dispatch is None else dispatch
    costs = cost.alpha + cost.beta * sizes
    busy = np.cumsum(costs)
    # end_k = busy_k + max over j ≤ k of (dispatch_j − busy_{j−1}), the recursion solved for all k at once.
    end = busy + np.maximum.accumulate(sent - (busy - costs))
    return Schedule(stops, sizes, sent, end - costs, end)


def schedule(rule: Rule, backward: Backward, cost: Cost) -> Schedule:
    """Buckets and times under a dispatch rule."""
    count = len(backward.sizes)
    if rule.name == "each":
        return run(backward, cost, np.arange(1, count + 1))
    if rule.name == "one":
        return run(backward, cost, np.array([count]))
    if rule.name == "threshold":
        return run(backward, cost, _below(backward.sizes, rule.cap))
    if rule.name == "ddp":
        return run(backward, cost, _reaching(backward.sizes, rule))
    if rule.name == "timeout":
        return _with_timeout(rule, backward, cost)
    return _ticking(rule, backward, cost)


def _below(sizes: Floats, cap: float) -> Ints:
    """Buckets that close before the gradient that would pass the cap; a larger one goes alone."""
    edges = np.concatenate(([0.0], np.cumsum(sizes)))
    stops, at = [], 0
    while at < len(sizes):
        at = max(at + 1, int(np.searchsorted(edges, edges[at] + cap, side="right")) - 1)
        stops.append(at)
    return np.array(stops, np.int64)


def _reaching(sizes: Floats, rule: Rule) -> Ints:
    """Buckets that close once they reach their size."""
    edges = np.concatenate(([0.0], np.cumsum(sizes)))
    stops, at = [], 0
    wanted = rule.cap if rule.first is None else rule.first
    while at < len(sizes):
        at = min(len(sizes), max(at + 1, int(np.searchsorted(edges, edges[at] + wanted, side="left"))))
        stops.append(at)
        wanted = rule.cap
    return np.array(stops, np.int64)


def _with_timeout(rule: Rule, backward: Backward, cost: Cost) -> Schedule:
    """Threshold, but a bucket goes `period` after its first gradient at the latest.

    The last bucket goes when its last gradient is ready: nothing more can come.
    """
    edges, ready = np.concatenate(([0.0], np.cumsum(backward.sizes))), backward.ready
    stops: list[int] = []
    sent: list[float] = []
    at, count = 0, len(ready)
    while at < count:
        full = max(at + 1, int(np.searchsorted(edges, edges[at] + rule.cap, side="right")) - 1)
        due = ready[at] + rule.period
        in_time = int(np.searchsorted(ready, due, side="right"))
        closed_by_time = in_time < min(full, count)
        at = min(full, in_time)
        stops.append(at)
        sent.append(float(due if closed_by_time else ready[at - 1]))
    return run(backward, cost, np.array(stops, np.int64), np.array(sent))


def _ticking(rule: Rule, backward: Backward, cost: Cost) -> Schedule:
    """At each tick all that is ready goes, split by the cap; ticks start at 0."""
    ready, count, blocking = backward.ready, len(backward.ready), rule.name == "blocking cycle"
    stops: list[int] = []
    sent: list[float] = []
    tick, at = 0.0, 0
    while at < count:
        tick += rule.period * max(0.0, np.ceil((ready[at] - tick) / rule.period))
        stop = max(at + 1, int(np.searchsorted(ready, tick, side="right")))
        parts = at + _below(backward.sizes[at:stop], rule.cap)
        stops += parts.tolist()
        sent += [tick] * len(parts)
        at = stop
        ends = run(backward, cost, np.array(stops, np.int64), np.array(sent)).last if blocking else 0.0
        tick = max(tick + rule.period, ends)
    return run(backward, cost, np.array(stops, np.int64), np.array(sent))
