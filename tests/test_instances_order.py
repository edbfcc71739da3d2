"""Aligning sequences: only what every longest common subsequence pairs."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.link.instances_order import align, certain_pairs

TOKENS = st.lists(st.integers(0, 2), max_size=7)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


def forced_by_brute_force(a: list[int], b: list[int]) -> set[tuple[int, int]]:
    """Pairs in the intersection of all longest common subsequences."""

    @lru_cache(None)
    def length(i: int, j: int) -> int:
        if i == len(a) or j == len(b):
            return 0
        best = max(length(i + 1, j), length(i, j + 1))
        return max(best, 1 + length(i + 1, j + 1)) if a[i] == b[j] else best

    alignments: list[frozenset[tuple[int, int]]] = []

    def extend(i: int, j: int, left: int, chosen: frozenset[tuple[int, int]]) -> None:
        if not left:
            alignments.append(chosen)
            return
        for x in range(i, len(a)):
            for y in range(j, len(b)):
                if a[x] == b[y] and 1 + length(x + 1, y + 1) == left:
                    extend(x + 1, y + 1, left - 1, chosen | {(x, y)})

    extend(0, 0, length(0, 0), frozenset())
    return set(frozenset.intersection(*alignments))


@given(TOKENS, TOKENS)
def test_pairs_what_all_alignments_agree_on(a: list[int], b: list[int]) -> None:
    ia, ib = certain_pairs(array(a), array(b))
    pairs = set(zip(ia.tolist(), ib.tolist(), strict=True))
    forced = forced_by_brute_force(a, b)
    assert forced <= pairs
    assert all(a[i] == b[j] for i, j in pairs)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    # What is paired beyond that changed places: its token stands once on either side of a gap.
    for i, j in pairs - forced:
        others = {(x, y) for x, y in forced if (x < i) != (y < j)}
        assert not others


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=4))
def test_labels_are_unique_and_pair_equal_tokens_only(sequences: list[list[int]]) -> None:
    labels, doubtful = align([array(s) for s in sequences])
    token_of: dict[int, int] = {}
    for tokens, own, doubt in zip(sequences, labels, doubtful, strict=True):
        assert len(set(own.tolist())) == len(tokens) == len(doubt)
        for token, label in zip(tokens, own.tolist(), strict=True):
            assert token_of.setdefault(label, token) == token


def test_equal_sequences_match_whole() -> None:
    labels, _ = align([array([1, 1, 1, 2])] * 3)
    assert [own.tolist() for own in labels] == [[0, 1, 2, 3]] * 3


def test_a_rank_of_its_own_does_not_disturb_the_others() -> None:
    """Two ranks agree, the third ran something else between."""
    labels, doubtful = align([array([1, 2, 3]), array([1, 9, 2, 3]), array([1, 2, 3])])
    assert labels[0].tolist() == labels[2].tolist()
    assert labels[1][[0, 2, 3]].tolist() == labels[0].tolist()
    assert not any(d.any() for d in doubtful)


def test_what_only_the_minority_has_is_matched_among_them() -> None:
    """Three ranks lost the record that the other two have."""
    short, long = array([1, 3]), array([1, 2, 3])
    labels, _ = align([short, long, short, long, short])
    assert labels[1].tolist() == labels[3].tolist()
    assert labels[1][[0, 2]].tolist() == labels[0].tolist()


@pytest.mark.parametrize("lost", [[], [5000], [100, 7000, 9000]])
def test_ten_thousand_with_a_few_lost(lost: list[int]) -> None:
    tokens = np.random.default_rng(1).integers(0, 50, 10_000)
    ia, ib = certain_pairs(tokens, np.delete(tokens, lost))
    assert len(ia) >= 10_000 - 3 * (len(lost) + 1)
    kept = np.delete(np.arange(10_000), lost)
    assert np.array_equal(kept[ib], ia)
