"""Finds which collectives of different ranks are one operation: by key, else by aligned order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from mdtrace.link.instances_groups import NO_GROUP, Group
from mdtrace.link.instances_pairs import is_pair, match_pairs
from mdtrace.link.instances_rows import NONE, Flags, Ints, Rows, runs
from mdtrace.link.instances_seq import Labels, match_by_seq
from mdtrace.link.instances_unnumbered import match_by_order


def match(
    rows: Rows, group: Ints, groups: list[Group], timeline: Flags, steps_named: Mapping[int, bool]
) -> Labels:
    """Match the collectives of a job.

    Args:
        group: per row, from `resolve_groups`.
        timeline: rows that stand for all ranks (Horovod): each is its own operation.
        steps_named: by process, whether its step numbers are the job's own rather than counted.
    """
    labels = Labels(rows)
    labels.give(np.flatnonzero(timeline), np.arange(int(timeline.sum())), "timeline")
    sizes = np.array([NONE if g.size is None else g.size for g in groups] or [NONE], np.int64)
    size = np.where(group == NO_GROUP, NONE, sizes[group])
    left, pairs = ~timeline, is_pair(rows)
    for reason, hit in (
        ("rank unknown", rows.rank == NONE),
        ("group unknown", (group == NO_GROUP) & ~pairs),
        ("group of one", size == 1),
    ):
        labels.refuse(left & hit, reason)
        left &= ~hit
    capture = _capture_numbers(rows)
    pairs &= left
    match_pairs(rows, group, groups, np.flatnonzero(pairs), capture, labels)
    _match_groups(rows, group, np.flatnonzero(left & ~pairs), capture, labels, steps_named)
    return labels


def _capture_numbers(rows: Rows) -> Ints:
    """Per row the number of its capture among those of its rank, in order of their first collective."""
    first: dict[int, tuple[int, int]] = {}
    for process, start, rank in zip(*_process_starts(rows), strict=True):
        first[process] = (rank, start)
    number: dict[int, int] = {}
    seen: dict[int, int] = defaultdict(int)
    for process in sorted(first, key=lambda p: (first[p][1], p)):
        number[process] = seen[first[process][0]]
        seen[first[process][0]] += 1
    processes = np.array(sorted(number), np.int64)
    values = np.array([number[p] for p in processes.tolist()], np.int64)
    return values[np.searchsorted(processes, rows.process)] if len(rows) else np.empty(0, np.int64)


def _process_starts(rows: Rows) -> tuple[list[int], list[int], list[int]]:
    order = np.lexsort((rows.start, rows.process))
    starts = [lo for lo, _ in runs(rows.process[order])]
    rows_at = order[starts]
    return rows.process[rows_at].tolist(), rows.start[rows_at].tolist(), rows.rank[rows_at].tolist()


def _match_groups(
    rows: Rows, group: Ints, where: Ints, capture: Ints, labels: Labels, steps_named: Mapping[int, bool]
) -> None:
    """Collectives of whole groups: by sequence number where every capture of the group has them."""
    by_order = _unnumbered_groups(rows, group, where)
    ordered = np.isin(group[where], by_order) | (rows.seq[where] == NONE)
    match_by_seq(rows, [group], where[~ordered], capture, labels, "group and seq")
    for members in _split(group, where[ordered]):
        match_by_order(rows, members, capture, labels, steps_named)


def _unnumbered_groups(rows: Rows, group: Ints, where: Ints) -> Ints:
    """Groups of which some capture has no sequence number at all."""
    if not len(where):
        return np.empty(0, np.int64)
    pairs, inverse = np.unique(
        np.stack([group[where], rows.process[where]], axis=1), axis=0, return_inverse=True
    )
    numbered = np.bincount(inverse.reshape(-1), rows.seq[where] != NONE, minlength=len(pairs))
    return np.unique(pairs[numbered == 0, 0])


def _split(by: Ints, where: Ints) -> Iterable[Ints]:
    """The rows of each value of `by`."""
    order = where[np.argsort(by[where], kind="stable")]
    return [order[lo:hi] for lo, hi in runs(by[order])]
