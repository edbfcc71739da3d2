"""Which gradients should travel together: best constant cap, MG-WFBP's greedy, the exact optimum."""

from dataclasses import dataclass, replace

import numpy as np

from mdtrace.models.fusion import Backward, Cost, Floats, Ints, Rule, Schedule, run, schedule

CAPS = 2048  # caps tried at most
_SLOW_CAPS = 64  # of rules whose buckets depend on time, which are tried one by one
_ALIKE = 1e-12  # relative difference of times that is rounding


@dataclass(frozen=True)
class CapPlan:
    """The best constant cap of a rule.

    Attributes:
        cap: bytes; the smallest of those equally good.
        exhaustive: every cap that makes a difference was tried.
    """

    cap: float
    plan: Schedule
    exhaustive: bool


def optimum(backward: Backward, cost: Cost) -> Schedule:
    """The buckets of consecutive gradients whose last one arrives first, exactly. O(L²).

    f(i) = min over j < i of max(f(j), ready_i) + α + β·(bytes of gradients j+1 … i), f(i) being the earliest
    time at which the first i have arrived. Of plans that are equally good, one with the fewest buckets.
    """
    edges, arrived, before = _earliest(backward, cost)
    stops, at = [], len(backward.sizes)
    while at > 0:
        stops.append(at)
        at = int(before[at])
    first = run(backward, cost, np.array(stops[::-1], np.int64))
    few = run(backward, cost, _fewest(backward, cost, edges, arrived))
    better = len(few.stops) < len(first.stops) and few.last <= first.last * (1 + _ALIKE)
    return few if better else first


def _earliest(backward: Backward, cost: Cost) -> tuple[Floats, Floats, Ints]:
    """Bytes up to each gradient, earliest arrival of the first i, and where the last bucket of it begins."""
    count = len(backward.sizes)
    edges = np.concatenate(([0.0], np.cumsum(backward.sizes)))
    sent = cost.beta * edges
    arrived = np.zeros(count + 1)
    arrived[0] = -np.inf
    before = np.zeros(count + 1, np.int64)
    for i in range(1, count + 1):
        options = np.maximum(arrived[:i], backward.ready[i - 1]) - sent[:i]
        before[i] = int(np.argmin(options))
        arrived[i] = options[before[i]] + cost.alpha + sent[i]
    return edges, arrived, before


def _fewest(backward: Backward, cost: Cost, edges: Floats, arrived: Floats) -> Ints:
    """Buckets from the last to the first, each as large as the time that is left allows.

    Taking one gradient more into a bucket leaves less to the others, and no less time for it than they need.
    """
    stops, at, due = [], len(backward.sizes), float(arrived[-1])
    while at > 0:
        stops.append(at)
        takes = cost.alpha + cost.beta * (edges[at] - edges[:at])
        ends = np.maximum(arrived[:at], backward.ready[at - 1]) + takes
        at = int(np.argmax(ends <= due + _ALIKE * abs(due)))
        due -= float(takes[at])
    return np.array(stops[::-1], np.int64)


def greedy(backward: Backward, cost: Cost) -> Schedule:
    """MG-WFBP's merging: gradient i joins the open bucket, which starts at s and ends at e, if it is ready
    before e and either s comes after it or it comes less than α after s."""
    sizes, ready = backward.sizes, backward.ready
    stops: list[int] = []
    free, size = -np.inf, float(sizes[0])  # end of the bucket before the open one, bytes in the open one
    start = float(ready[0])
    for i in range(1, len(sizes)):
        end = start + cost.alpha + cost.beta * size
        if ready[i] < end and (start > ready[i] or ready[i] - start < cost.alpha):
            size += float(sizes[i])
        else:
            stops.append(i)
            free, size = end, float(sizes[i])
        start = max(float(ready[i]), free)
    return run(backward, cost, np.array([*stops, len(sizes)], np.int64))


def best_cap(backward: Backward, cost: Cost, rule: Rule | None = None) -> CapPlan:
    """The constant cap with which a rule is fastest.

    Args:
        rule: threshold (the default) or any other with a cap; its own cap does not count.
    """
    base = rule or Rule("threshold")
    by_time = base.name not in ("threshold", "ddp")
    caps, exhaustive = _caps(backward.sizes, _SLOW_CAPS if by_time else CAPS)
    if by_time:
        ends = np.array([schedule(replace(base, cap=float(cap)), backward, cost).last for cap in caps])
    else:
        ends = _ends(backward, cost, base, caps)
    best = float(caps[int(np.argmax(ends <= ends.min() * (1 + _ALIKE)))])
    return CapPlan(best, schedule(replace(base, cap=best), backward, cost), exhaustive)


def _ends(backward: Backward, cost: Cost, rule: Rule, caps: Floats) -> Floats:
    """When the last bucket arrives under each cap, bucket by bucket for all caps at once; shape of caps."""
    count, edges = len(backward.sizes), np.concatenate(([0.0], np.cumsum(backward.sizes)))
    ends = np.full(len(caps), -np.inf)
    at = np.zeros(len(caps), np.int64)
    left = np.arange(len(caps))
    wanted = caps if rule.first is None or rule.name == "threshold" else np.full(len(caps), rule.first)
    while len(left):
        begun = at[left]
        side, back = ("right", 1) if rule.name == "threshold" else ("left", 0)
        reached = np.searchsorted(edges, edges[begun] + wanted[left], side=side) - back  # type: ignore[call-overload]
        stop = np.minimum(count, np.maximum(begun + 1, reached))
        takes = cost.alpha + cost.beta * (edges[stop] - edges[begun])
        ends[left] = np.maximum(ends[left], backward.ready[stop - 1]) + takes
        at[left] = stop
        left = left[stop < count]
        wanted = caps
    return ends


def _caps(sizes: Floats, most: int) -> tuple[Floats, bool]:
    """Caps that make a difference, which are sums of consecutive sizes; a selection where they are many."""
    edges = np.concatenate(([0.0], np.cumsum(sizes)))
    if len(sizes) > 1000:
        lowest = max(float(sizes.max()) / 1e3, 1.0)
        return np.unique(np.geomspace(lowest, max(float(edges[-1]), lowest), most)), False
    pairs = np.triu_indices(len(sizes) + 1, 1)
    # A cap above all of them too: empty gradients at the end stay in a bucket that is not full.
    sums = np.unique(np.append(edges[pairs[1]] - edges[pairs[0]], edges[-1] + 1))
    if len(sums) <= most:
        return sums, True
    return np.unique(sums[np.linspace(0, len(sums) - 1, most).astype(int)]), False
