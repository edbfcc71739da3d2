"""Copies of events, against a comparison of all rows with all."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kineto_read import event, kernel, read_events
from mdtrace.ingest.kineto import duplicates

_SOME = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.integers(0, 1)), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(_SOME)
def test_against_brute_force(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]
) -> None:
    trace = read_events(
        tmp_path_factory.mktemp("t"),
        *(kernel(f"k{a}", b, c, correlation=5, registers_per_thread=d) for a, b, c, d in rows),
    )
    expected = [row in rows[:i] for i, row in enumerate(rows)]
    assert trace.rows("device_ops", "duplicate") == expected


def test_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than hashes fit in memory: the same copies are found in several passes."""
    events = [event("cpu_op", "a", i % 700, External_id=i % 700) for i in range(1000)]
    monkeypatch.setattr(duplicates, "_ROWS", 100)
    trace = read_events(tmp_path, *events)
    assert trace.rows("host_ops", "duplicate") == [False] * 700 + [True] * 300
