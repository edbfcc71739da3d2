"""Matches collectives by the sequence numbers that their files give them."""

import numpy as np

from mdtrace.link.instances_rows import Flags, Ints, Rows, boundaries

# Keys in the order of their numbers in `Labels.key`, reasons in that of `Labels.reason`.
KEYS = ("group and seq", "pair and seq", "order", "pair order", "timeline")
REASONS = (
    "no other rank has it",
    "ambiguous order",
    "unlike the others",
    "second capture of the rank",
    "rank unknown",
    "group unknown",
    "peer unknown",
    "group of one",
)


class Labels:
    """For each collective the number of its operation, and what it was matched by, or why it was not.

    Attributes:
        label: equal for collectives of one operation, -1 where there is none.
        key: position in KEYS.
        reason: position in REASONS, of those without label or alone with theirs.
    """

    def __init__(self, rows: Rows) -> None:
        self.label = np.full(len(rows), -1, np.int64)
        self.key = np.zeros(len(rows), np.int64)
        self.reason = np.zeros(len(rows), np.int64)
        self.next = 0

    def give(self, where: Ints, labels: Ints, key: str) -> None:
        """Label rows with numbers of the caller's own, made unique here."""
        if len(where):
            self.label[where] = labels + self.next
            self.key[where] = KEYS.index(key)
            self.next += int(labels.max()) + 1

    def refuse(self, where: Ints | Flags, reason: str) -> None:
        self.label[where] = -1
        self.reason[where] = REASONS.index(reason)


def match_by_seq(
    rows: Rows, within: list[Ints], where: Ints, capture: Ints, labels: Labels, key: str
) -> None:
    """Equal sequence numbers in one group are one operation.

    Several rows of a capture with one number (coalesced calls) are told apart by their order; several
    captures of a rank by their own number, so that a rank is never matched with itself.
    """
    if not len(where):
        return
    keys = [*(w[where] for w in within), rows.seq[where]]
    twin = _occurrence([*keys, rows.process[where]], rows.start[where])
    keys = [*keys, twin]
    several = _of_several_captures(keys, rows, where)
    labels.reason[where[several & (capture[where] > 0)]] = REASONS.index("second capture of the rank")
    keys = [*keys, np.where(several, capture[where], 0)]
    order = np.lexsort(keys[::-1])
    label = np.empty(len(where), np.int64)
    label[order] = np.cumsum(np.isin(np.arange(len(where)), boundaries(*(k[order] for k in keys))))
    labels.give(where, label, key)
    if key == "group and seq":  # the two ends of a transfer differ in kind
        _refuse_unlike(rows, where[order], labels)


def _occurrence(keys: list[Ints], start: Ints) -> Ints:
    """Number of each row among those with equal keys, in order of start."""
    order = np.lexsort((start, *keys[::-1]))
    cuts = boundaries(*(k[order] for k in keys))
    begin = np.zeros(len(order), np.int64)
    begin[cuts] = cuts
    occurrence = np.empty(len(order), np.int64)
    occurrence[order] = np.arange(len(order)) - np.maximum.accumulate(begin)
    return occurrence


def _of_several_captures(keys: list[Ints], rows: Rows, where: Ints) -> Flags:
    """Rows whose key some rank has in more than one capture."""
    order = np.lexsort((rows.rank[where], *keys[::-1]))
    sorted_keys = [k[order] for k in keys]
    same = np.zeros(len(order), np.bool_)
    cuts = boundaries(*sorted_keys)
    same[1:] = rows.rank[where][order][1:] == rows.rank[where][order][:-1]
    same[cuts] = False
    segment = np.zeros(len(order), np.int64)
    segment[cuts] = 1
    segment = np.cumsum(segment)
    hit = np.bincount(segment, same, minlength=1) > 0
    result = np.empty(len(order), np.bool_)
    result[order] = hit[segment]
    return result


def _refuse_unlike(rows: Rows, sorted_rows: Ints, labels: Labels) -> None:
    """Rows of one label whose kinds differ: the majority stays together, the others are refused."""
    unknown = rows.code("unknown")
    label, kind = labels.label[sorted_rows], rows.kind[sorted_rows]
    changes = boundaries(kind)
    suspects = changes[label[changes] == label[changes - 1]]
    for wrong in np.unique(label[suspects]).tolist():
        members = sorted_rows[np.searchsorted(label, wrong) : np.searchsorted(label, wrong, side="right")]
        known = members[rows.kind[members] != unknown]
        kinds, counts = np.unique(rows.kind[known], return_counts=True)
        if len(kinds) < 2:
            continue
        most = kinds[counts == counts.max()]
        odd = known if len(most) > 1 else known[rows.kind[known] != most[0]]
        labels.refuse(odd, "unlike the others")
