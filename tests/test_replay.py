"""The replay of a graph of operations: against a plain reading of its rule, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.models.replay import GraphError, ends, plan
from mdtrace.models.replay_job import _means, _medians


def _plain(nodes: int, edges: list[tuple[int, int]], durations: list[float]) -> list[float]:
    """Each node in the order of its number, which no edge goes against."""
    ended: list[float] = []
    for node in range(nodes):
        ended.append(max([ended[a] for a, b in edges if b == node], default=0.0) + durations[node])
    return ended


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[float]]:
    nodes = draw(st.integers(1, 30))
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(lambda e: e[0] < e[1])
    edges = draw(st.lists(pair, max_size=60)) if nodes > 1 else []
    return nodes, edges, draw(st.lists(st.integers(-5, 50).map(float), min_size=nodes, max_size=nodes))


@given(graphs(), st.randoms(use_true_random=False))
def test_equals_the_plain_rule_whatever_the_numbering(graph, random):
    nodes, edges, durations = graph
    names = list(range(nodes))
    random.shuffle(names)
    before = np.asarray([names[a] for a, _ in edges], np.int64)
    after = np.asarray([names[b] for _, b in edges], np.int64)
    given_durations = np.zeros(nodes)
    given_durations[names] = durations
    found = ends(plan(nodes, before, after), given_durations)
    assert found[names].tolist() == _plain(nodes, edges, durations)


def test_several_replays_at_once_are_each_the_same():
    layout = plan(4, np.array([0, 0, 1, 2]), np.array([1, 2, 3, 3]))
    durations = np.array([[1.0, 2.0], [5.0, 1.0], [2.0, 9.0], [1.0, 1.0]])
    found = ends(layout, durations)
    assert found.tolist() == [[1, 2], [6, 3], [3, 11], [7, 12]]
    assert ends(layout, durations[:, 0]).tolist() == found[:, 0].tolist()


def test_a_circle_is_refused():
    with pytest.raises(GraphError, match="in a circle: 3 of them"):
        plan(4, np.array([0, 1, 2, 3]), np.array([1, 2, 3, 1]))


def test_no_nodes():
    assert ends(plan(0, np.zeros(0, np.int64), np.zeros(0, np.int64)), np.zeros(0)).tolist() == []


def test_means_and_medians_of_cells():
    cells, values = np.array([2, 0, 2, 2, 0]), np.array([9.0, 1.0, 2.0, 4.0, 2.0])
    none = np.zeros(4, np.int64)
    assert _means(cells, values, none).tolist()[::2] == [1.5, 5.0]
    assert _medians(cells, values, none).tolist()[::2] == [1.5, 4.0]
    assert np.isnan(_means(cells, values, none)[[1, 3]]).all()
    assert np.isnan(_medians(cells, values, none)[[1, 3]]).all()
    assert _means(cells, values, np.array([4, 2, 0, 0])).tolist()[:3] == [0.75, 0.0, 5.0]
