"""Containment on threads: by hand, and against a plain stack for random spans."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from link_stage import codes, column, link
from mdtrace.link import nesting
from mdtrace.link.nesting import NONE, OPEN, Spans, inside, nearest, nearest_of, nest

Event = tuple[int, int, int, int]  # thread, start, end, producer's number

_events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 8), st.integers(0, 8), st.integers(-1, 5)).map(
        lambda e: (e[0], e[1], OPEN if e[2] == 8 else e[1] + e[2], e[3])
    ),
    max_size=14,
)


def _nest(events: list[Event]) -> nesting.Nest:
    columns = np.array(events, np.int64).reshape(-1, 4).T
    return nest(columns[0], columns[1], columns[2], columns[3], np.ones(len(events), np.bool_))


def _order(events: list[Event]) -> list[int]:
    """Rows by thread, start, longer first; among equals by number where all have one, else by row."""

    def key(row: int) -> tuple[int, ...]:
        thread, start, end, number = events[row]
        numbered = all(e[3] != NONE for e in events if e[:3] == (thread, start, end))
        return thread, start, -end, number if numbered else row, row

    return sorted(range(len(events)), key=key)


def _parents(events: list[Event]) -> tuple[list[int], int]:
    """What the definition says, looking at all earlier events for each."""
    order, parents, crossings = _order(events), [NONE] * len(events), 0
    for place, row in enumerate(order):
        thread, start, end, _ = events[row]
        before = [r for r in order[:place] if events[r][0] == thread]
        parents[row] = next((r for r in reversed(before) if events[r][2] >= end), NONE)
        passed = before[before.index(parents[row]) + 1 :] if parents[row] != NONE else before
        crossings += any(events[r][2] > start for r in passed)
    return parents, crossings


@given(_events)
def test_parents_are_the_latest_opened_that_contain(events: list[Event]) -> None:
    found = _nest(events)
    parents, crossings = _parents(events)
    assert found.parent.tolist() == parents
    assert found.crossings == crossings
    assert found.order.tolist() == _order(events)


@given(_events)
def test_the_stack_finds_the_same(events: list[Event]) -> None:
    columns = np.array(sorted(events, key=lambda e: (e[0], e[1], -e[2])), np.int64).reshape(-1, 4).T
    first = np.diff(columns[0], prepend=NONE) != 0
    jumped, crossings = nesting._enclosing(columns[1], columns[2], first)
    stacked, same = nesting._by_stack(columns[1], columns[2], first)
    assert jumped.tolist() == stacked.tolist()
    assert crossings == same


@given(_events, st.data())
def test_ancestors_by_climbing(events: list[Event], data: st.DataObject) -> None:
    found = _nest(events)
    wanted = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(events), max_size=len(events))), np.bool_
    )
    expected, depths = [], []
    for row in range(len(events)):
        chain = [row]
        while found.parent[chain[-1]] != NONE:
            chain.append(int(found.parent[chain[-1]]))
        depths.append(len(chain) - 1)
        expected.append(next((r for r in chain if wanted[r]), NONE))
    assert nearest(found.parent, wanted).tolist() == expected
    assert found.depth().tolist() == depths
    rows = np.array([NONE, *range(len(events))], np.int64)
    assert nearest_of(found.parent, wanted, rows).tolist() == [NONE, *expected]


@given(_events, st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_inside_is_the_latest_opened_around(events: list[Event], asked: list[tuple[int, int, int]]) -> None:
    found = _nest(events)
    columns = np.array(events, np.int64).reshape(-1, 4).T
    spans = np.array(asked, np.int64).reshape(-1, 3).T
    at = Spans(spans[0], spans[1], spans[1] + spans[2])
    expected = []
    for thread, start, length in asked:
        around = [r for r in _order(events) if events[r][0] == thread and events[r][1] <= start]
        expected.append(next((r for r in reversed(around) if events[r][2] >= start + length), NONE))
    assert inside(found, columns[0], columns[1], columns[2], at).tolist() == expected


def test_a_deep_nest_before_many_siblings_stays_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    deep, wide = 3000, 3000
    start = np.concatenate(([0], np.arange(1, deep + 1), 2 * deep + 2 * np.arange(wide)))
    end = np.concatenate(([10 * deep], 2 * deep - np.arange(1, deep + 1), 2 * deep + 2 * np.arange(wide) + 1))
    stacks = []
    whole = nesting._by_stack
    monkeypatch.setattr(nesting, "_by_stack", lambda *a: stacks.append(1) or whole(*a))
    none = np.full(len(start), NONE)
    found = nest(np.zeros(len(start), np.int64), start, end, none, np.ones(len(start), np.bool_))
    assert stacks == [1]  # 3000 siblings that each climb 3000 levels would be 9 million jumps
    assert found.parent.tolist() == [NONE, *range(deep), *([0] * wide)]
    assert found.depth()[deep] == deep


def test_frames_operators_and_ranges_nest_in_one_tree(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "aten::linear", "start_ns": 20, "end_ns": 80},
            {"name": "forward", "kind": "annotation", "start_ns": 0, "end_ns": 100},
            {"name": "nn.Module: Linear_0", "kind": "python", "start_ns": 10, "end_ns": 90},
            {"name": "aten::addmm", "start_ns": 30, "end_ns": 70},
            {"name": "aten::mm", "thread_id": 2, "start_ns": 30, "end_ns": 70},
            {"name": "ranges that may cross", "form": "async", "start_ns": 25, "end_ns": 95},
            {"name": "no thread", "thread_id": None, "start_ns": 30, "end_ns": 40},
        ],
    )
    assert column(linked, "host_ops", "parent_id") == [2, None, 1, 0, None, None, None]
    assert column(linked, "host_ops", "depth") == [2, 0, 1, 3, 0, None, None]


def test_a_push_without_its_pop_contains_what_follows(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "lost", "kind": "nvtx", "start_ns": 10, "end_ns": None},
            {"name": "before", "kind": "nvtx", "start_ns": 0, "end_ns": 5},
            {"name": "after", "kind": "nvtx", "start_ns": 1000, "end_ns": 2000},
        ],
    )
    assert column(linked, "host_ops", "parent_id") == [None, None, 0]


def test_equal_bounds_nest_by_the_producers_order(tmp_path: Path) -> None:
    numbered = [
        {"name": n, "start_ns": 5, "end_ns": 5, "event_index": i} for n, i in (("c", 9), ("a", 7), ("b", 8))
    ]
    linked = link(tmp_path / "numbered", host_ops=numbered)
    assert column(linked, "host_ops", "parent_id") == [2, None, 1]
    numbered[1]["event_index"] = None
    linked = link(tmp_path / "mixed", host_ops=numbered)
    assert column(linked, "host_ops", "parent_id") == [None, 0, 1]


def test_a_copy_has_the_parent_of_its_original(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "outer", "start_ns": 0, "end_ns": 100},
            {"name": "inner", "start_ns": 10, "end_ns": 20},
            {"name": "inner", "start_ns": 10, "end_ns": 20, "duplicate": True},
            {"name": "same bounds", "start_ns": 10, "end_ns": 20},
            {"name": "outer", "start_ns": 0, "end_ns": 100, "duplicate": True},
        ],
    )
    assert column(linked, "host_ops", "parent_id") == [None, 0, 0, 1, None]
    assert column(linked, "host_ops", "depth") == [0, 1, 1, 2, 0]


def test_crossing_events_belong_to_what_is_around_both(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "outer", "start_ns": 0, "end_ns": 100},
            {"name": "first", "start_ns": 10, "end_ns": 50},
            {"name": "crosses", "start_ns": 40, "end_ns": 60},
        ],
    )
    assert column(linked, "host_ops", "parent_id") == [None, 0, 0]
    assert codes(linked)["crossing_host_ops"] == 1


def test_times_at_the_ends_of_int64_do_not_overflow(tmp_path: Path) -> None:
    low, high = -(2**63), 2**63 - 1
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "a", "start_ns": low, "dur_ns": high - 10},
            {"name": "b", "start_ns": high - 5, "dur_ns": high},
            {"name": "c", "start_ns": 0, "dur_ns": -5},
        ],
    )
    assert column(linked, "host_ops", "parent_id") == [None, None, None]
    assert (linked.start_ns, linked.end_ns) == (low, high - 5)
