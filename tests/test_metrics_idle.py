"""Idle time by cause: each gap by the activity that ends it and its launch call."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace.metrics.engine import Filters, run
from mdtrace.tables.dataset import Dataset
from rows import dataset

Row = dict[str, Any]
_CAUSES = ("host_ns", "launch_ns", "dependency_ns", "queue_ns", "unknown_ns")


def _causes(
    opened: Dataset, name: str = "idle_breakdown", filters: Filters | None = None
) -> list[tuple[int, ...]]:
    return [tuple(r[c] for c in _CAUSES) for r in run(opened, name, filters).arrow().to_pylist()]


@pytest.mark.parametrize(
    ("launch", "causes"),
    [
        ((150, 160), (50, 10, 0, 40, 0)),  # called in the gap
        ((50, 60), (0, 0, 0, 100, 0)),  # called before it
        ((90, 120), (0, 20, 0, 80, 0)),
        ((150, 230), (50, 50, 0, 0, 0)),  # started before the call returned
        ((200, 210), (100, 0, 0, 0, 0)),
        ((150, None), (50, 50, 0, 0, 0)),  # the call was never closed
        ((201, 210), (0, 0, 0, 0, 100)),  # after the start: a clock error
        (None, (0, 0, 0, 0, 100)),
    ],
)
def test_a_gap_is_split_by_the_launch_of_what_ends_it(
    tmp_path: Path, launch: tuple[int, int | None] | None, causes: tuple[int, ...]
) -> None:
    launched = {} if launch is None else {"launch_id": 0}
    opened = dataset(
        tmp_path,
        device_ops=[{"start_ns": 0, "end_ns": 100}, {"start_ns": 200, "end_ns": 300, **launched}],
        launches=[] if launch is None else [{"start_ns": launch[0], "end_ns": launch[1]}],
    )
    assert _causes(opened) == [causes]
    (gap,) = run(opened, "idle_gaps").arrow().to_pylist()
    assert (gap["start_ns"], gap["end_ns"]) == (100, 200)


def test_of_activities_that_start_together_the_earliest_launch_counts(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            {"start_ns": 0, "end_ns": 100},
            {"start_ns": 200, "end_ns": 210, "launch_id": 0, "stream_id": 1},
            {"start_ns": 200, "end_ns": 220, "launch_id": 1, "stream_id": 2},
            {"start_ns": 200, "end_ns": 230, "stream_id": 3},
        ],
        launches=[{"start_ns": 180, "dur_ns": 5}, {"start_ns": 110, "dur_ns": 10}],
    )
    assert _causes(opened) == [(10, 10, 0, 80, 0)]


def test_waiting_for_a_collective_is_a_dependency_once_launched(tmp_path: Path) -> None:
    def case(called: int) -> tuple[int, ...]:
        opened = dataset(
            tmp_path / str(called),
            device_ops=[
                {"start_ns": 0, "end_ns": 50},
                {"start_ns": 10, "end_ns": 100, "class": "communication", "stream_id": 9},
                {"start_ns": 130, "end_ns": 140, "launch_id": 0},
            ],
            launches=[{"start_ns": called, "dur_ns": 5}],
        )
        return _causes(opened)[0]

    assert case(called=20) == (0, 0, 30, 0, 0)
    assert case(called=110) == (10, 5, 0, 15, 0)  # the collective had ended before the call


def _with_wait(folder: Path, told: int, since: int | None = None) -> Dataset:
    """Work of stream 2 ends at 100, what is next on stream 1 (launched at 40) starts at 130."""
    ops: list[Row] = [
        {"start_ns": 0, "end_ns": 10, "stream_id": 1, "launch_id": 0},
        {"start_ns": 5, "end_ns": 100, "stream_id": 2},
        {"start_ns": 130, "end_ns": 140, "stream_id": 1, "launch_id": 1},
        {"start_ns": told, "dur_ns": 1, "class": "sync", "kind": "sync", "stream_id": 1, "wait_stream_id": 2},
    ]
    launches = [{"start_ns": -5 if since is None else since, "dur_ns": 1}, {"start_ns": 40, "dur_ns": 1}]
    return dataset(folder, device_ops=ops, launches=launches)


def test_waiting_for_another_stream_is_a_dependency_where_it_was_told_to(tmp_path: Path) -> None:
    assert _causes(_with_wait(tmp_path / "a", told=30)) == [(0, 0, 30, 0, 0)]
    assert _causes(_with_wait(tmp_path / "b", told=50)) == [(0, 0, 0, 30, 0)]  # told after the launch
    # the work before it was launched after the wait, so that one is over
    assert _causes(_with_wait(tmp_path / "c", told=-3, since=-2)) == [(0, 0, 0, 30, 0)]


def test_steps_have_their_own_idle_time(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            {"start_ns": 0, "end_ns": 10, "step": 1},
            {"start_ns": 30, "end_ns": 40, "step": 1},
            {"start_ns": 100, "end_ns": 110, "step": 2, "launch_id": 0},
            {"start_ns": 150, "end_ns": 160, "step": 2},
        ],
        launches=[{"start_ns": 90, "dur_ns": 10}],
        steps=[{"step": s, "start_ns": 100 * (s - 1), "end_ns": 100 * s} for s in (1, 2)],
    )
    # the gap before a step's first activity belongs to the window before
    assert _causes(opened, "step_idle_breakdown") == [(50, 10, 0, 0, 20), (0, 0, 0, 0, 40)]
    assert _causes(opened, "step_idle_breakdown", Filters(steps=(2,))) == [(0, 0, 0, 0, 40)]
    assert _causes(opened) == [(50, 10, 0, 0, 60)]
    assert _causes(opened, filters=Filters(time=(60, 95))) == [(30, 5, 0, 0, 0)]


def test_idle_time_of_a_host_is_of_unknown_cause_and_unknown_stays_unknown(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        processes=[{"process_id": 0}, {"process_id": 1}],
        host_ops=[{"start_ns": 0, "end_ns": 10}, {"start_ns": 50, "end_ns": 60}],
    )
    assert _causes(opened) == [(0, 0, 0, 0, 40), (None,) * 5]


_ops = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 12),
        st.sampled_from(["compute", "communication", "memcpy", "sync"]), st.integers(0, 2),
        st.one_of(st.none(), st.tuples(st.integers(-5, 45), st.integers(0, 10))),
    ),
    min_size=1,
    max_size=10,
)  # fmt: skip


def _brute(ops: list[Row], calls: list[Row]) -> tuple[int, ...]:
    """Causes ns by ns."""
    work = [o for o in ops if o["class"] != "sync"]
    found = dict.fromkeys(_CAUSES, 0)
    if not work:
        return ()
    starts, ends = [o["start_ns"] for o in work], [o["end_ns"] for o in work]
    for t in range(min(starts), max(ends)):
        if any(o["start_ns"] <= t < o["end_ns"] for o in work):
            continue
        until = min(s for s in starts if s > t)
        since = max(e for e, s in zip(ends, starts, strict=True) if s <= t)
        # a start within the gap (of no length) splits it
        since = max([since, *(s for s in starts if s <= t)])
        launched = [o["launch_id"] for o in work if o["start_ns"] == until and o["launch_id"] is not None]
        first = min((calls[i]["start_ns"], i) for i in launched) if launched else None
        found[_cause(t, until, since, calls[first[1]] if first else None, work)] += 1
    return tuple(found.values())


def _cause(t: int, until: int, since: int, call: Row | None, work: list[Row]) -> str:
    if call is None or call["start_ns"] > until:
        return "unknown_ns"
    if t < call["start_ns"]:
        return "host_ns"
    if t < call["end_ns"]:
        return "launch_ns"
    comm = [o["end_ns"] for o in work if o["class"] == "communication" and o["start_ns"] < until]
    after = max(since, call["end_ns"])
    return "dependency_ns" if any(after <= e <= until for e in comm) else "queue_ns"


@given(st.lists(_ops, min_size=1, max_size=20))
@settings(max_examples=6, deadline=None)
def test_causes_equal_those_found_ns_by_ns(cases: list[list[Any]]) -> None:
    ops: list[Row] = []
    calls: list[Row] = []
    for process, found in enumerate(cases):
        starts = set()
        for start, dur, kind, stream, call in found:
            launched = call is not None and (start, call[0]) not in starts  # no ties between calls
            starts.add((start, call[0] if call else None))
            ops.append(
                {
                    "process_id": process, "start_ns": start, "end_ns": start + dur, "class": kind,
                    "stream_id": stream, "launch_id": len(calls) if launched else None,
                }
            )  # fmt: skip
            if launched:
                calls.append(
                    {"process_id": process, "launch_id": len(calls), "start_ns": call[0], "end_ns": sum(call)}
                )
    with tempfile.TemporaryDirectory() as folder:
        rows = (
            run(dataset(Path(folder), device_ops=ops, launches=calls), "idle_breakdown").arrow().to_pylist()
        )
    got = {r["process_id"]: tuple(r[c] for c in _CAUSES) for r in rows if r["device_id"] is not None}
    expected = {p: _brute([o for o in ops if o["process_id"] == p], calls) for p in range(len(cases))}
    assert got == {p: causes for p, causes in expected.items() if causes}
