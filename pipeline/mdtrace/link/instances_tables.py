"""The tables that matching makes: instances and matches."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from mdtrace.link.instances_groups import NO_GROUP, Group
from mdtrace.link.instances_rows import NONE, Flags, Ints, Rows, boundaries
from mdtrace.link.instances_seq import KEYS, REASONS, Labels
from mdtrace.tables.schema import row_id, tables

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")


def number_instances(rows: Rows, labels: Labels) -> Ints:
    """Number of each row's instance, -1 for none: labels that several ranks, or a timeline, have.

    Instances are numbered in the order of their first rows.
    """
    timeline = labels.key == KEYS.index("timeline")
    order = np.lexsort((rows.rank, labels.label))
    label, rank = labels.label[order], rows.rank[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (label[1:] != label[:-1]) | (rank[1:] != rank[:-1])
    size = int(label.max()) + 1 if len(label) else 0
    ranks = np.bincount(label[fresh & (label >= 0)], minlength=size)
    matched = labels.label >= 0
    matched[matched] = (ranks[labels.label[matched]] > 1) | timeline[matched]
    instance = np.full(len(rows), -1, np.int64)
    used, first, inverse = np.unique(labels.label[matched], return_index=True, return_inverse=True)
    place = np.empty(len(used), np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(used))
    instance[matched] = place[inverse.reshape(-1)]
    return instance


def instances_table(
    rows: Rows,
    group: Ints,
    groups: list[Group],
    labels: Labels,
    instance: Ints,
    first_steps: Mapping[int, int],
    arrived: Mapping[int, int],
) -> pa.Table:
    """Rows of `instances`.

    Args:
        instance: per row, from `number_instances`.
        first_steps: by process, when its first step starts.
        arrived: by collective_id, how many ranks' ticks a timeline has.
    """
    members = np.flatnonzero(instance >= 0)
    members = members[np.lexsort((rows.process[members], rows.rank[members], instance[members]))]
    starts = np.concatenate([[0], boundaries(instance[members])]).astype(np.int64)
    starts = starts[: len(members)]  # none of none
    first = members[starts]  # the member of the lowest rank
    present = _present(rows, members, starts, first, arrived)
    pairs = np.isin(labels.key[first], [KEYS.index("pair and seq"), KEYS.index("pair order")])
    described = [groups[g] if g != NO_GROUP else Group(None, None, None, None, None) for g in group[first]]
    sizes = [2 if pair else g.size for pair, g in zip(pairs.tolist(), described, strict=True)]
    columns = {
        "instance_id": pa.array(np.arange(len(first), dtype=np.int64)),
        "kind": _texts(rows, _kinds(rows, members, starts)),
        "group_name": pa.array([g.name for g in described], pa.string()),
        "group_desc": pa.array([g.desc for g in described], pa.string()),
        "group_ranks": _rank_lists(group[first], groups),
        "group_size": pa.array(sizes, pa.int32()),
        "communicator": pa.array([g.communicator for g in described], pa.string()),
        "seq": _nullable(np.where(np.isin(labels.key[first], (0, 1)), rows.seq[first], NONE)),
        "point_to_point": pa.array(pairs),
        "sender": _ends(rows, "send", members, starts, pairs),
        "receiver": _ends(rows, "recv", members, starts, pairs),
        "step": _nullable(_first_known(rows.step[members], starts)),
        "start_up": pa.array(_start_up(rows, members, starts, first_steps)),
        "present": pa.array(present, pa.int32()),
        "partial": pa.array(
            [None if s is None or p == 0 else p < s for s, p in zip(sizes, present.tolist(), strict=True)],
            pa.bool_(),
        ),
        "synchronising": pa.array(np.isin(_kinds(rows, members, starts), rows.codes(SYNCHRONISING)) & ~pairs),
        "evidence": _texts(rows, rows.evidence[first]),
        "matched_by": pa.array([KEYS[k] for k in labels.key[first].tolist()], pa.string()),
    }
    return pa.table(columns).cast(tables()["instances"].arrow())


def _present(rows: Rows, members: Ints, starts: Ints, first: Ints, arrived: Mapping[int, int]) -> Ints:
    """Ranks of each instance: distinct among its rows, or those whose tick the timeline has."""
    if not len(members):
        return np.empty(0, np.int64)
    number = np.zeros(len(members), np.int64)
    number[starts[1:]] = 1
    number = np.cumsum(number)
    fresh = np.ones(len(members), np.bool_)
    rank = rows.rank[members]
    fresh[1:] = (number[1:] != number[:-1]) | (rank[1:] != rank[:-1])
    present = np.bincount(number[fresh], minlength=len(starts)).astype(np.int64)
    position = _positions(rows)
    for i in np.flatnonzero(rows.evidence[first] == rows.code("timeline")).tolist():
        row = int(first[i])
        present[i] = arrived.get(row_id(int(rows.process[row]), int(position[row])), 0)
    return present


def _positions(rows: Rows) -> Ints:
    """Row number of each collective within its process (processes stand together)."""
    begin = np.zeros(len(rows), np.int64)
    cuts = boundaries(rows.process)
    begin[cuts] = cuts
    return np.arange(len(rows)) - np.maximum.accumulate(begin)


def _kinds(rows: Rows, members: Ints, starts: Ints) -> Ints:
    """Kind of each instance: the first member's whose kind is known."""
    kinds = np.where(rows.kind[members] == rows.code("unknown"), NONE, rows.kind[members])
    known = _first_known(kinds, starts)
    return np.where(known == NONE, rows.kind[members[starts]], known)


def _first_known(values: Ints, starts: Ints) -> Ints:
    """The first value of each segment that is not NONE; NONE where all are."""
    if not len(starts):
        return np.empty(0, np.int64)
    place = np.where(values != NONE, np.arange(len(values)), len(values))
    first = np.minimum.reduceat(place, starts)
    return np.append(values, NONE)[first]


def _start_up(rows: Rows, members: Ints, starts: Ints, first_steps: Mapping[int, int]) -> Flags:
    """Instances without a step whose members all start before the first step of their capture."""
    if not len(starts):
        return np.empty(0, np.bool_)
    processes, inverse = np.unique(rows.process[members], return_inverse=True)
    first = np.array([first_steps.get(p, NONE) for p in processes.tolist()], np.int64)[inverse.reshape(-1)]
    early = (rows.step[members] == NONE) & (first != NONE) & (rows.start[members] < first)
    return np.logical_and.reduceat(early, starts)


def _ends(rows: Rows, kind: str, members: Ints, starts: Ints, pairs: Flags) -> pa.Array:
    """Rank of the member of a kind (send, recv) of each point-to-point transfer."""
    ranks = np.where(rows.kind[members] == rows.code(kind), rows.rank[members], NONE)
    return _nullable(np.where(pairs, _first_known(ranks, starts), NONE)).cast(pa.int32())


def _rank_lists(group: Ints, groups: list[Group]) -> pa.Array:
    lists = pa.array([None if g.ranks is None else list(g.ranks) for g in groups], pa.list_(pa.int32()))
    return lists.take(pa.array(group, pa.int64(), mask=group == NO_GROUP))


def _texts(rows: Rows, codes: Ints) -> pa.Array:
    return pa.array(rows.texts, pa.string()).take(pa.array(codes, pa.int64(), mask=codes == NONE))


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == NONE)


def matches_table(rows: Rows, labels: Labels, instance: Ints) -> pa.Table:
    """Rows of `matches`."""
    matched = instance >= 0
    keys = np.stack(
        [
            rows.process,
            rows.rank,
            np.where(matched, labels.key, -1),
            np.where(matched, -1, labels.reason),
        ],
        axis=1,
    )
    distinct, counts = np.unique(keys, axis=0, return_counts=True)
    process, rank, key, reason = distinct.T
    columns = {
        "process_id": pa.array(process),
        "rank": _nullable(rank),
        "matched_by": pa.array([KEYS[k] if k >= 0 else None for k in key.tolist()], pa.string()),
        "reason": pa.array([REASONS[r] if r >= 0 else None for r in reason.tolist()], pa.string()),
        "collectives": pa.array(counts),
    }
    return pa.table(columns).cast(tables()["matches"].arrow())
