"""Replays a graph of operations: when each starts and ends, given how long each takes.

A node starts when all nodes it waits for have ended (an edge may add a lag), and ends its duration later. A
collective is drawn with nodes of no duration: one for each member's arrival, one where they meet, and from
there a node for each member's transfer.

The graph is laid out once, level by level (a node's level is the longest path to it), so that a replay
takes a few array operations a level and many replays share one layout.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mdtrace.errors import MdtraceError

Ids = NDArray[np.int64]
Times = NDArray[np.float64]

_BYTES_AT_ONCE = 128 << 20  # of replays worked out side by side: more would not fit the caches


class GraphError(MdtraceError):
    """The operations wait for each other in a circle, so none of them could ever have started."""


@dataclass(frozen=True)
class Plan:
    """A graph laid out for replay. Positions are the nodes sorted by level.

    Attributes:
        nodes: how many.
        place: position of each node; None: nodes are numbered by their positions.
        levels: first position of each level, and behind the last the number of nodes.
        sources: for each edge, sorted by the position of the node that waits, the position waited for.
        first_edge: for each position, its first edge in `sources`, and behind the last their number.
        lags: ns, for each edge: how long after the end of what it waits for a node starts; None: at once.
    """

    nodes: int
    place: Ids | None
    levels: Ids
    sources: Ids
    first_edge: Ids
    lags: Times | None = None

    @property
    def edges(self) -> int:
        """How many dependencies."""
        return len(self.sources)


def plan(nodes: int, before: Ids, after: Ids, lags: Times | None = None) -> Plan:
    """Lay out a graph.

    Args:
        nodes: number of nodes; they are numbered from 0.
        before, after: the edges: `after[i]` waits for `before[i]`.
        lags: ns, for each edge: how long after that end it starts; negative: before it.

    Raises:
        GraphError: the edges make a circle.
    """
    order, levels = _by_level(nodes, before, after)
    place = np.empty(nodes, np.int64)
    place[order] = np.arange(nodes)
    waiting = place[after]
    sorted_edges = np.argsort(waiting, kind="stable")
    sources = place[before][sorted_edges]
    first_edge = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(waiting, minlength=nodes), out=first_edge[1:])
    return Plan(nodes, place, levels, sources, first_edge, None if lags is None else lags[sorted_edges])


def _by_level(nodes: int, before: Ids, after: Ids) -> tuple[Ids, Ids]:
    """Nodes in the order of their levels, and where each level begins."""
    successors = after[np.argsort(before, kind="stable")]
    first = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(before, minlength=nodes), out=first[1:])
    open_edges = np.bincount(after, minlength=nodes)
    ready = np.flatnonzero(open_edges == 0)
    found, bounds, done = [], [0], 0
    while len(ready):
        found.append(ready)
        done += len(ready)
        bounds.append(done)
        reached = successors[_ranges(first[ready], first[ready + 1])]
        np.subtract.at(open_edges, reached, 1)
        ready = np.unique(reached[open_edges[reached] == 0])
    if done < nodes:
        raise GraphError(
            f"operations wait for each other in a circle: {nodes - done} of them",
            "are collectives that are not the same matched with each other? See the table matches",
        )
    order = np.concatenate(found) if found else np.zeros(0, np.int64)
    return order, np.asarray(bounds, np.int64)


def _ranges(first: Ids, behind: Ids) -> Ids:
    """The numbers of all half-open ranges, one after the other."""
    lengths = behind - first
    total = int(lengths.sum())
    if not total:
        return np.zeros(0, np.int64)
    shift: Ids = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
    return shift + np.arange(total)


def ends(layout: Plan, durations: Times) -> Times:
    """When each node ends, every node without a dependency starting at 0.

    Args:
        layout: of n nodes.
        durations: ns, shape (n,), or (n, k) for k replays at once; may be negative where a node can start
            before the end of what it follows.

    Returns:
        ns, of the same shape.
    """
    if durations.ndim == 1:
        return _ends(layout, durations[:, None])[:, 0]
    at_once = replays_at_once(layout)
    parts = [_ends(layout, durations[:, i : i + at_once]) for i in range(0, durations.shape[1], at_once)]
    return np.concatenate(parts, axis=1) if parts else durations


def replays_at_once(layout: Plan) -> int:
    """How many replays side by side are fastest."""
    return max(1, _BYTES_AT_ONCE // (8 * max(1, layout.nodes)))


def _ends(layout: Plan, durations: Times) -> Times:
    times = durations.copy(order="C")
    if layout.place is not None:
        times[layout.place] = durations
    bounds = layout.levels.tolist()
    edges = layout.first_edge[layout.levels].tolist()
    for level in range(1, len(bounds) - 1):
        low, high, first, last = bounds[level], bounds[level + 1], edges[level], edges[level + 1]
        ended = times[layout.sources[first:last]]
        if layout.lags is not None:
            ended += layout.lags[first:last, None]
        if last - first > high - low:  # some nodes wait for several
            ended = np.maximum.reduceat(ended, layout.first_edge[low:high] - first, axis=0)
        times[low:high] += ended
    return times if layout.place is None else times[layout.place]
