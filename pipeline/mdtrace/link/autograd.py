"""Backward operators to the forward operators whose gradient they compute."""

import numpy as np

from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, integers
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, Times
from mdtrace.link.patterns import ACCUMULATE, EVALUATE
from mdtrace.link.phases import autograd_nodes

_THREADS = 16  # threads looked at to find out how autograd numbers them; a job has one or two
_IDS = 8


def forward_of(staged: StagedProcess, host: HostOps) -> Rows:
    """The forward operator of each autograd node, by row of host_ops; NONE elsewhere.

    Both carry one sequence number, which counts per thread. Several operators carry the number that the next
    node will get: the last of them to start is the one that made the node. Numbers come again in a later
    step of another thread, so it must have started before the node; the thread is the one that the node's
    forward thread id stands for, as far as that can be told, else any.
    """
    sequence = integers(staged, "host_ops", "sequence")
    node = autograd_nodes(host)
    backward = np.flatnonzero(node & (sequence >= 0) & ~host.duplicate)
    found = np.full(len(host), NONE, np.int32)
    if not len(backward):
        return found
    number = integers(staged, "host_ops", "forward_thread_id")
    plain = host.kind("operator", "nvtx") & ~node & (sequence >= 0) & (number <= 0) & ~host.duplicate
    forward = np.flatnonzero(plain)
    rest = np.ones(len(backward), np.bool_)
    for autograd_id, thread in _threads(sequence, number, host.thread, forward, backward).items():
        mine = number[backward] == autograd_id
        theirs = forward[host.thread[forward] == thread]
        found[backward[mine]] = _last_before(sequence, host.start, theirs, backward[mine])
        rest &= ~mine
    found[backward[rest]] = _last_before(sequence, host.start, forward, backward[rest])
    return found


def _threads(sequence: Times, number: Times, thread: Rows, forward: Rows, backward: Rows) -> dict[int, int]:
    """The thread that each autograd thread id stands for: where most of its sequence numbers occur."""
    ids, counts = np.unique(number[backward], return_counts=True)
    ids = ids[np.argsort(-counts, kind="stable")][:_IDS]
    known, counts = np.unique(thread[forward], return_counts=True)
    known = known[np.argsort(-counts, kind="stable")][:_THREADS]
    by_thread = {int(t): np.unique(sequence[forward[thread[forward] == t]]) for t in known}
    found: dict[int, int] = {}
    for autograd_id in ids.tolist():
        if autograd_id <= 0:
            continue
        wanted = np.unique(sequence[backward[number[backward] == autograd_id]])
        free = {t: have for t, have in by_thread.items() if t not in found.values()}
        votes = {t: int(np.isin(wanted, have).sum()) for t, have in free.items()}
        best = max(votes, key=lambda t: votes[t], default=None)
        if best is not None and votes[best]:
            found[autograd_id] = best
    return found


def _last_before(sequence: Times, start: Times, forward: Rows, backward: Rows) -> Rows:
    """For each backward row, the last forward row of its sequence number to start before it."""
    rows = np.concatenate((forward, backward))
    late = np.arange(len(rows)) >= len(forward)
    order = np.lexsort((late, start[rows], sequence[rows]))
    place = np.maximum.accumulate(np.where(late[order], NONE, np.arange(len(rows))))
    before = rows[order[place]]
    same = (place != NONE) & (sequence[before] == sequence[rows[order]])
    found = np.empty(len(rows), np.int64)
    found[order] = np.where(same, before, NONE)
    return found[len(forward) :]


def accumulators(host: HostOps, nest: Nest) -> tuple[Flags, Rows]:
    """Which rows accumulate a gradient, and for the engine's records of them the record before: the node
    that made the gradient. The engine runs an accumulation straight after it, ahead of all other nodes."""
    accumulate = host.names.match(ACCUMULATE, host.kind("operator", "nvtx"))
    node = host.names.match(EVALUATE, host.kind("operator", "nvtx"))
    if not node.any():  # producers before the engine recorded itself: the outermost nodes
        node = autograd_nodes(host)
        node &= ~np.append(node, False)[nest.parent]
    rows = nest.order[node[nest.order]]
    maker = np.full(len(host), NONE, np.int32)
    if not len(rows):
        return accumulate, maker
    other = ~accumulate[rows]
    place = np.maximum.accumulate(np.where(other, np.arange(len(rows)), NONE))
    before = np.where(place == NONE, NONE, rows[place])
    beside = (host.thread[before] == host.thread[rows]) & (nest.parent[before] == nest.parent[rows])
    maker[rows] = np.where((before != NONE) & beside & ~other, before, NONE)
    return accumulate, maker
