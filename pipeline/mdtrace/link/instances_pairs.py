"""Matches point-to-point transfers: what one rank sends with what the other receives."""

import numpy as np

from mdtrace.link.instances_groups import NO_GROUP, Group
from mdtrace.link.instances_order import align
from mdtrace.link.instances_rows import NONE, Flags, Ints, Rows, runs
from mdtrace.link.instances_seq import REASONS, Labels, match_by_seq
from mdtrace.link.instances_unnumbered import split_positions


def is_pair(rows: Rows) -> Flags:
    """Rows that are transfers between two ranks."""
    return rows.point_to_point | np.isin(rows.kind, rows.codes(("send", "recv")))


def match_pairs(
    rows: Rows, group: Ints, groups: list[Group], where: Ints, capture: Ints, labels: Labels
) -> None:
    """Point-to-point transfers: sender with receiver, within their group."""
    if not len(where):
        return
    rank, peer = rows.rank[where], _peers(rows, group, groups, where)
    lost = peer == NONE
    labels.refuse(where[lost], "peer unknown")
    where, rank, peer = where[~lost], rank[~lost], peer[~lost]
    sends, receives = (rows.kind[where] == rows.code(k) for k in ("send", "recv"))
    ends = np.where(
        sends,
        rank * 2**32 + peer,
        np.where(receives, peer * 2**32 + rank, -1 - np.minimum(rank, peer) * 2**32 - np.maximum(rank, peer)),
    )
    order = np.lexsort((ends, group[where]))
    for lo, hi in runs(group[where][order], ends[order]):
        _match_one_pair(rows, groups, group, where[order[lo:hi]], capture, labels)


def _peers(rows: Rows, group: Ints, groups: list[Group], where: Ints) -> Ints:
    """The other rank of each transfer: recorded, or the other member of a group of two."""
    others = {
        (n, r): sum(g.ranks) - r
        for n, g in enumerate(groups)
        if g.ranks and len(g.ranks) == 2
        for r in g.ranks
    }
    peer = rows.peer[where].copy()
    for position in np.flatnonzero(peer == NONE).tolist():
        row = where[position]
        peer[position] = others.get((int(group[row]), int(rows.rank[row])), NONE)
    return peer


def _match_one_pair(
    rows: Rows, groups: list[Group], group: Ints, where: Ints, capture: Ints, labels: Labels
) -> None:
    """Transfers of one direction between two ranks.

    Numbers count all transfers of a rank in the group, so they agree only where the group is the pair.
    """
    number = int(group[where[0]])
    whole_group = number != NO_GROUP and groups[number].size == 2
    if whole_group and (rows.seq[where] != NONE).all():
        match_by_seq(rows, [], where, capture, labels, "pair and seq")
        return
    tokens = rows.bytes[where]
    for members in split_positions(capture[where]):
        sides = [members[part] for part in split_positions(rows.process[where[members]])]
        sides = [s[np.argsort(rows.start[where[s]], kind="stable")] for s in sides]
        known = all((tokens[s] != NONE).all() for s in sides)
        aligned, doubtful = align([tokens[s] if known else np.zeros(len(s), np.int64) for s in sides])
        for own, side in zip(doubtful, sides, strict=True):
            labels.reason[where[side[own]]] = REASONS.index("ambiguous order")
        labels.give(where[np.concatenate(sides)], np.concatenate(aligned), "pair order")
