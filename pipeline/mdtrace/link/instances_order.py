"""Aligns sequences of like operations across ranks where nothing numbers them.

The alignment is a longest common subsequence, and only what every longest common subsequence agrees
on is paired: a rank that recorded four of five equal operations could have lost any of them, so none of
them is paired. Times play no part.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# Cells of the alignment table (operations × band) beyond which two sequences are called too unlike.
_MAX_CELLS = 30_000_000
_CHUNK = 500_000  # cells looked at together


def align(sequences: Sequence[Ints]) -> tuple[list[Ints], list[npt.NDArray[np.bool_]]]:
    """Label the elements of each sequence: equal labels are the same operation.

    Args:
        sequences: tokens in order, one array per rank; only equal tokens are ever paired.

    Returns:
        labels, one array per sequence, unique within it; and, for elements that share their label with no
        other sequence, whether that is because the order is ambiguous (else no other has them).
    """
    classes: dict[bytes, list[int]] = {}
    for number, sequence in enumerate(sequences):
        classes.setdefault(sequence.tobytes(), []).append(number)
    ordered = sorted(classes.values(), key=lambda c: (-len(c), -len(sequences[c[0]]), c[0]))
    labels: list[Ints] = [np.empty(0, np.int64)] * len(sequences)
    doubtful: list[npt.NDArray[np.bool_]] = [np.empty(0, np.bool_)] * len(sequences)
    master = _Master(sequences[ordered[0][0]]) if ordered else None
    for members in ordered:
        assert master is not None  # there is one as soon as there is a class
        own = master.place(sequences[members[0]])
        for member in members:
            labels[member] = own
    for members in ordered:
        assert master is not None
        for member in members:
            doubtful[member] = master.is_doubtful(labels[member])
    return labels, doubtful


class _Master:
    """The sequence that all are aligned to; it grows by what others have between its elements."""

    def __init__(self, tokens: Ints) -> None:
        self.tokens = tokens
        self.labels = np.arange(len(tokens), dtype=np.int64)
        self.next_label = len(tokens)
        self.doubts: set[int] = set()

    def place(self, tokens: Ints) -> Ints:
        """Labels of a sequence's elements: those of the master where the pairing is certain, else new."""
        if np.array_equal(tokens, self.tokens):
            return self.labels.copy()
        mine, theirs = certain_pairs(self.tokens, tokens)
        labels = np.full(len(tokens), -1, np.int64)
        labels[theirs] = self.labels[mine]
        fresh = labels < 0
        labels[fresh] = self.next_label + np.arange(int(fresh.sum()), dtype=np.int64)
        self.next_label += int(fresh.sum())
        self._settle_gaps(tokens, labels, mine, theirs)
        return labels

    def is_doubtful(self, labels: Ints) -> npt.NDArray[np.bool_]:
        return np.isin(labels, np.fromiter(self.doubts, np.int64, len(self.doubts)))

    def _settle_gaps(self, tokens: Ints, labels: Ints, mine: Ints, theirs: Ints) -> None:
        """Note what is ambiguous between pairs; take over what stands where the master has nothing."""
        inserted: list[tuple[int, Ints, Ints]] = []
        for (i0, i1), (j0, j1) in zip(
            pairwise([-1, *mine.tolist(), len(self.tokens)]),
            pairwise([-1, *theirs.tolist(), len(tokens)]),
            strict=True,
        ):
            if j1 <= j0 + 1 or i1 < i0 or j1 < j0:
                continue
            gap = slice(j0 + 1, j1)
            if i1 == i0 + 1:
                inserted.append((i1, tokens[gap], labels[gap]))
                continue
            shared = np.intersect1d(tokens[gap], self.tokens[i0 + 1 : i1])
            for token_slice, label_slice in (
                (tokens[gap], labels[gap]),
                (self.tokens[i0 + 1 : i1], self.labels[i0 + 1 : i1]),
            ):
                self.doubts.update(label_slice[np.isin(token_slice, shared)].tolist())
        for place, more, names in reversed(inserted):
            self.tokens = np.concatenate([self.tokens[:place], more, self.tokens[place:]])
            self.labels = np.concatenate([self.labels[:place], names, self.labels[place:]])


def certain_pairs(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Positions (in a, in b) of the elements that every longest common subsequence pairs.

    Between two such pairs, a token that each side has exactly once is paired too: two operations
    that changed places. The result is sorted by the position in a.
    """
    ia, ib = _forced(a, b)
    extra = [
        _unique_pairs(a, b, (i0 + 1, i1), (j0 + 1, j1))
        for (i0, i1), (j0, j1) in zip(
            pairwise([-1, *ia.tolist(), len(a)]), pairwise([-1, *ib.tolist(), len(b)]), strict=True
        )
        if i1 - i0 > 1 and j1 - j0 > 1
    ]
    ia = np.concatenate([ia, *(e[0] for e in extra)])
    ib = np.concatenate([ib, *(e[1] for e in extra)])
    order = np.argsort(ia, kind="stable")
    return ia[order], ib[order]


def _unique_pairs(a: Ints, b: Ints, gap_a: tuple[int, int], gap_b: tuple[int, int]) -> tuple[Ints, Ints]:
    """Positions of the tokens that occur once in both gaps."""
    (tokens_a, first_a, count_a), (tokens_b, first_b, count_b) = (
        np.unique(s[lo:hi], return_index=True, return_counts=True) for s, (lo, hi) in ((a, gap_a), (b, gap_b))
    )
    _, in_a, in_b = np.intersect1d(
        tokens_a[count_a == 1], tokens_b[count_b == 1], assume_unique=True, return_indices=True
    )
    return first_a[count_a == 1][in_a] + gap_a[0], first_b[count_b == 1][in_b] + gap_b[0]


def _forced(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """The pairs that are in every longest common subsequence.

    A pair (i, j) is in some longest one iff prefix(i, j) + 1 + suffix(i+1, j+1) is its length; it is
    in all iff it is the only pair possible at its place, prefix(i, j), in the sequence.
    """
    none = np.empty(0, np.int64)
    if not len(a) or not len(b):
        return none, none
    band = abs(len(a) - len(b)) + 8
    while (len(a) + 1) * (2 * band + 1) <= _MAX_CELLS:
        prefix = _lengths(a, b, band)
        longest = int(prefix[-1, len(b) - len(a) + band])
        if len(a) + len(b) - 2 * longest <= band:
            return _single_cells(a, b, band, prefix, longest)
        if band > len(a) + len(b):
            return _single_cells(a, b, band, prefix, longest)
        band *= 2
    return none, none


def _lengths(a: Ints, b: Ints, band: int) -> npt.NDArray[np.int32]:
    """Row i, column j − i + band: length of the longest common subsequence of a[:i] and b[:j].

    Only diagonals within the band are filled; exact wherever the best path stays inside, which
    holds when no more than `band` elements are left unpaired.
    """
    width = 2 * band + 1
    table = np.zeros((len(a) + 1, width), np.int32)
    padded = np.full(len(a) + len(b) + 2 * width, np.iinfo(np.int64).min, np.int64)
    padded[width : width + len(b)] = b
    for i in range(1, len(a) + 1):
        before, row = table[i - 1], table[i]
        # b[j-1] for j = i - band … i + band
        equal = padded[width + i - band - 1 : width + i + band] == a[i - 1]
        np.add(before, equal, out=row)
        np.maximum(row[:-1], before[1:], out=row[:-1])
        np.maximum.accumulate(row, out=row)
    return table


def _single_cells(
    a: Ints, b: Ints, band: int, prefix: npt.NDArray[np.int32], longest: int
) -> tuple[Ints, Ints]:
    """The cells that alone can stand at their place in a longest common subsequence."""
    suffix = _lengths(a[::-1], b[::-1], band)
    width = 2 * band + 1
    offsets = np.arange(-band, band + 1)
    mirrored = len(b) - len(a) - offsets + band  # column of suffix(i+1, j+1)
    held = (mirrored >= 0) & (mirrored < width)
    offsets, mirrored, column = offsets[held], mirrored[held], np.flatnonzero(held)
    found: list[tuple[Ints, Ints, Ints]] = []
    for lo in range(0, len(a), max(1, _CHUNK // width)):
        i = np.arange(lo, min(len(a), lo + max(1, _CHUNK // width)))[:, None]
        j = i + offsets
        equal = (j >= 0) & (j < len(b)) & (b[np.clip(j, 0, len(b) - 1)] == a[i])
        place = prefix[i, column]
        rows, columns = np.nonzero(equal & (place + 1 + suffix[len(a) - i - 1, mirrored] == longest))
        found.append((rows + lo, j[rows, columns], place[rows, columns].astype(np.int64)))
    ia, ib, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
    single = np.bincount(places, minlength=longest)[places] == 1
    return ia[single], ib[single]
