"""Accounts of time: rows in, accounts out; and against a bitmap with one bit per ns."""

import tempfile
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace.build.job import build
from mdtrace.ingest.pool import Pool
from mdtrace.metrics.catalog import metrics
from mdtrace.metrics.engine import Filters, connect, run
from mdtrace.tables.dataset import Dataset, open_dataset, write_manifest
from mdtrace.tables.writer import write_table
from rows import dataset
from shared import shared

Row = dict[str, Any]
_PARTS = ("compute_ns", "comm_ns", "overlap_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "span_ns")


def _op(start: int, end: int | None, kind: str = "compute", **more: Any) -> Row:
    """One device activity of a class."""
    return {
        "start_ns": start, "end_ns": end, "class": kind,
        "kind": "kernel" if kind in ("compute", "communication") else kind, **more,
    }  # fmt: skip


def _answer(opened: Dataset, name: str, filters: Filters | None = None, **parameters: object) -> list[Row]:
    return run(opened, name, filters, **parameters).arrow().to_pylist()


def _figures(row: Mapping[str, Any]) -> tuple[int | None, ...]:
    return tuple(row[p] for p in _PARTS)


def test_the_parts_of_a_device_add_up_to_its_span(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            _op(0, 100),
            _op(50, 80),  # inside, on another stream
            _op(90, 150, "communication"),
            _op(140, 170, "memcpy"),
            _op(160, 200, "memset"),
            _op(300, 310),
            _op(0, 5000, "sync"),
        ],
    )
    (row,) = _answer(opened, "time_breakdown")
    # compute 0-100, 300-310; communication 90-150; memory 150-200 outside them; idle 200-300
    assert _figures(row) == (110, 60, 10, 50, 50, 100, 310)
    assert row["overlap_ratio"] == pytest.approx(10 / 60)
    assert (row["rank"], row["device_id"], row["basis"]) == (0, 0, "device activity")


def test_devices_and_processes_have_accounts_of_their_own(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            _op(0, 10),
            _op(5, 25, device_id=1),
            _op(1000, 1100, device_id=None),
            _op(0, 7, "communication", process_id=3, device_id=0),
        ],
    )
    rows = _answer(opened, "time_breakdown")
    assert [(r["process_id"], r["device_id"], r["compute_ns"], r["span_ns"]) for r in rows] == [
        (0, 0, 10, 10), (0, 1, 20, 20), (0, None, 100, 100), (3, 0, 0, 7),
    ]  # fmt: skip


def test_no_communication_is_no_overlap_rather_than_none_of_it(tmp_path: Path) -> None:
    (row,) = _answer(dataset(tmp_path, device_ops=[_op(0, 10)]), "time_breakdown")
    assert (row["comm_ns"], row["overlap_ns"], row["exposed_comm_ns"], row["overlap_ratio"]) == (
        0, None, 0, None,
    )  # fmt: skip


def test_copies_of_an_event_and_open_events_do_not_count_twice_or_at_all(tmp_path: Path) -> None:
    opened = dataset(tmp_path, device_ops=[_op(0, 10), _op(0, 10, duplicate=True), _op(3, None)])
    (row,) = _answer(opened, "time_breakdown")
    assert (row["compute_ns"], row["span_ns"]) == (10, 10)


@pytest.mark.parametrize(
    ("start", "dur", "compute"),
    [
        (0, 2**63 - 1, 2**62 - 1),  # bounded to the year 2116
        (2**63 - 10, 100, 0),
        (5, -3, 0),
        (-(2**63), 10, 10),
    ],
)
def test_absurd_times_overflow_nothing(tmp_path: Path, start: int, dur: int, compute: int) -> None:
    opened = dataset(tmp_path, device_ops=[{"start_ns": start, "dur_ns": dur}])
    for name in ("time_breakdown", "step_breakdown", "idle_breakdown", "layer_breakdown"):
        (row,) = _answer(opened, name)
        assert row.get("compute_ns", compute) == compute


def test_an_absurd_span_overflows_nothing(tmp_path: Path) -> None:
    far = [{"start_ns": -(2**63), "dur_ns": 0}, {"start_ns": 2**63 - 1, "dur_ns": 2**63 - 1}]
    opened = dataset(tmp_path, device_ops=far * 3)
    (row,) = _answer(opened, "time_breakdown")
    assert row["idle_ns"] == row["span_ns"] == 2**63 - 2
    assert _answer(opened, "kernel_summary")[0]["total_ns"] == 2**63 - 1


def test_a_process_without_devices_is_accounted_from_its_host(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        host_ops=[
            {"start_ns": 0, "end_ns": 100, "name": "autograd::engine"},  # around a collective: compute
            {"start_ns": 40, "end_ns": 60, "name": "c10d::allreduce_", "depth": 1},
            {"start_ns": 45, "end_ns": 50, "name": "aten::copy_", "depth": 2},
            {"start_ns": 200, "end_ns": 220, "name": "c10d::allreduce_"},
            {"start_ns": 200, "end_ns": 215, "name": "aten::copy_", "depth": 1},  # inside it
            {"start_ns": 220, "end_ns": 230, "name": "aten::add"},
            {"start_ns": 300, "end_ns": 400, "name": "aten::mm", "kind": "annotation"},
            {"start_ns": 210, "end_ns": 240, "name": "aten::mul", "thread_id": 2},
        ],
        collectives=[
            {"start_ns": 50, "end_ns": 150, "evidence": "host record"},
            {"start_ns": 225, "end_ns": 250, "evidence": "host record"},
            {"start_ns": 500, "end_ns": 900, "evidence": "range"},  # no transfer time
            {"start_ns": 500, "end_ns": None, "evidence": "host record"},
        ],
    )
    (row,) = _answer(opened, "time_breakdown")
    # compute 0-100, 210-240; communication 50-150, 225-250; overlap 50-100, 225-240
    assert _figures(row) == (130, 125, 65, 60, 0, 60, 250)
    assert (row["device_id"], row["basis"]) == (None, "host records")


def test_what_was_not_captured_is_unknown_rather_than_zero(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        processes=[{"process_id": p} for p in range(3)],
        collectives=[{"process_id": 1, "start_ns": 10, "end_ns": 30, "evidence": "timeline"}],
        host_ops=[{"process_id": 2, "start_ns": 0, "end_ns": 5, "kind": "nvtx"}],
    )
    nothing, timeline, ranges = _answer(opened, "time_breakdown")
    assert _figures(nothing) == _figures(ranges) == (None,) * 7
    assert _figures(timeline) == (None, 20, None, None, None, None, 20)
    assert [r["basis"] for r in (nothing, timeline, ranges)] == [None, "timeline", None]
    assert [_figures(r) for r in _answer(opened, "step_breakdown")] == [
        _figures(nothing), _figures(timeline), _figures(ranges),
    ]  # fmt: skip


def test_windows_run_from_the_first_activity_of_a_step_to_that_of_the_next(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            _op(0, 20),  # launched before the capture
            _op(30, 50, step=7),
            _op(45, 130, "communication", step=7),  # runs into the next window, and past its end
            _op(100, 110, step=8),
            _op(105, 120, step=7),  # of step 7, but runs in the window of 8
            _op(200, 210),  # after the last launch of a step
        ],
        steps=[
            {"step": 7, "start_ns": 25, "end_ns": 60},
            {"step": 8, "start_ns": 60, "end_ns": 100},
        ],
    )
    rows = _answer(opened, "step_breakdown")
    assert [(r["step"], r["start_ns"], *_figures(r)) for r in rows] == [
        (None, 0, 20, 0, None, 0, 0, 10, 30),
        (7, 30, 20, 55, 5, 50, 0, 0, 70),
        (8, 100, 30, 30, 20, 10, 0, 70, 110),
    ]
    assert [(r["host_ns"], r["steady"]) for r in rows] == [(None, None), (35, False), (40, True)]


def test_without_steps_the_capture_is_one_window(tmp_path: Path) -> None:
    (row,) = _answer(dataset(tmp_path, device_ops=[_op(0, 10), _op(15, 35)]), "step_breakdown")
    assert (row["step"], row["compute_ns"], row["idle_ns"], row["span_ns"]) == (None, 30, 5, 35)


def test_steps_of_a_host_cut_its_time_where_their_markers_are(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        host_ops=[{"start_ns": 0, "end_ns": 60, "name": "aten::mm"}],
        collectives=[{"start_ns": 50, "end_ns": 100, "evidence": "host record"}],
        steps=[
            {"step": 1, "start_ns": 10, "end_ns": 40},
            {"step": 2, "start_ns": 40, "end_ns": 70},
            {"step": 3, "start_ns": 80, "end_ns": None},
        ],
    )
    rows = {r["step"]: _figures(r) for r in _answer(opened, "step_breakdown")}
    assert rows == {
        None: (10, 10, 0, 10, 0, 0, 20),  # 0-10 and 70-80
        1: (30, 0, None, 0, 0, 0, 30),
        2: (20, 20, 10, 10, 0, 0, 30),
        3: (0, 20, 0, 20, 0, 0, 20),
    }


@pytest.mark.parametrize(
    ("durations", "steady"),
    [
        ([50], [True]),
        ([50, 50], [False, True]),
        ([50, 90, 40], [False, True, True]),
        ([50, 100, 40, 40, 40], [False, False, True, True, True]),
        ([50, 100, 100, 40, 40, 100, 40, 40], [False, False, False, True, True, True, True, True]),
        ([50, None, 40, 40], [False, True, True, True]),
    ],
)
def test_warm_up_is_the_first_step_and_slow_ones_after_it(
    tmp_path: Path, durations: list[int | None], steady: list[bool]
) -> None:
    steps = [
        {"step": n, "start_ns": 1000 * n, "end_ns": None if d is None else 1000 * n + d}
        for n, d in enumerate(durations)
    ]
    rows = _answer(dataset(tmp_path, steps=steps), "step_times")
    assert [r["steady"] for r in rows] == steady
    assert [r["left_out"] for r in rows] == [
        None if s else "first step captured" if n == 0 else "slow start" for n, s in enumerate(steady)
    ]


def test_the_factor_of_warm_up_is_a_parameter(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        steps=[
            {"step": n, "start_ns": 100 * n, "end_ns": 100 * n + d} for n, d in enumerate((9, 12, 10, 10))
        ],
    )
    assert [r["steady"] for r in _answer(opened, "step_times", warm_up_factor=1.1)] == [
        False,
        False,
        True,
        True,
    ]


def test_steady_state_is_the_sum_of_the_steps_that_count(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[_op(100 * s, 100 * s + 10 * s, step=s) for s in (1, 2, 3)]
        + [_op(205, 260, "communication", step=2)],
        steps=[{"step": s, "start_ns": 100 * s, "end_ns": 100 * s + 100} for s in (1, 2, 3)],
    )
    (row,) = _answer(opened, "steady_breakdown")
    assert (row["steps"], *_figures(row)) == (2, 50, 55, 15, 40, 0, 40, 130)
    (row,) = _answer(opened, "steady_breakdown", Filters(steps=(1, 3)))
    assert (row["steps"], *_figures(row)) == (2, 40, 0, None, 0, 0, 90, 130)


# --- against a bitmap ---

_CLASSES = ("compute", "communication", "memcpy", "memset", "sync")
_intervals = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 25), st.sampled_from(_CLASSES), st.sampled_from([None, 0, 1, 2]),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=14,
)  # fmt: skip


def _bits(ops: Iterable[Row], *classes: str) -> set[int]:
    return {t for o in ops if o["class"] in classes for t in range(o["start_ns"], o["end_ns"])}


def _brute(ops: list[Row], window: range) -> tuple[int | None, ...]:
    inside = set(window)
    compute, comm = _bits(ops, "compute") & inside, _bits(ops, "communication") & inside
    memory = _bits(ops, "memcpy", "memset") & inside
    busy = compute | comm | memory
    return (
        len(compute), len(comm), len(compute & comm) if comm else None, len(comm - compute),
        len(memory - compute - comm), len(window) - len(busy), len(window),
    )  # fmt: skip


@given(st.lists(_intervals, min_size=1, max_size=24))
@settings(max_examples=6, deadline=None)
def test_accounts_equal_a_bitmap(cases: list[list[tuple[int, int, str, int | None, int]]]) -> None:
    ops = [
        _op(s, s + d, c, step=step, device_id=device, process_id=process)
        for process, found in enumerate(cases)
        for s, d, c, step, device in found
    ]
    with tempfile.TemporaryDirectory() as folder:
        opened = dataset(Path(folder), device_ops=ops)
        whole = _by_device(_answer(opened, "time_breakdown"))
        steps = _by_device(_answer(opened, "step_breakdown"))
        clipped = _by_device(_answer(opened, "time_breakdown", Filters(time=(15, 40))))
    work = _by_device([o for o in ops if o["class"] != "sync"])
    assert set(work) == {key for key in whole if key[1] is not None}
    for key, own in work.items():
        first, last = min(o["start_ns"] for o in own), max(o["end_ns"] for o in own)
        assert [_figures(r) for r in whole[key]] == [_brute(own, range(first, last))]
        low, high = min(max(first, 15), 40), max(min(last, 40), 15)
        assert [_figures(r) for r in clipped[key]] == [_brute(own, range(low, high))]
        _check_windows(own, steps[key], range(first, last))


def _by_device(rows: list[Row]) -> dict[tuple[int, int | None], list[Row]]:
    found: dict[tuple[int, int | None], list[Row]] = {}
    for row in rows:
        found.setdefault((row["process_id"], row["device_id"]), []).append(row)
    return found


def _check_windows(work: list[Row], rows: list[Row], span: range) -> None:
    steps = {o["step"] for o in work if o["step"] is not None}
    starts = sorted((min(o["start_ns"] for o in work if o["step"] == s), s) for s in steps)
    borders = [(span.start, None), *starts, (span.stop, None)]
    expected = {step: _brute(work, range(start, after)) for (start, step), (after, _) in pairwise(borders)}
    got = {r["step"]: _figures(r) for r in rows}
    assert len(got) == len(rows)
    # An empty window need not have a row.
    assert {s: f for s, f in got.items() if f[-1]} == {s: f for s, f in expected.items() if f[-1]}


def test_many_activities_equal_numpy(tmp_path: Path) -> None:
    """More rows than one chunk, row group or thread: the sorted rows stay in order on their way."""
    random = np.random.default_rng(7)
    count = 300_000
    start = random.integers(0, 2_000_000_000, count)
    end = start + random.integers(0, 9_000, count)
    kinds = np.array(["compute", "communication", "memcpy"])[random.choice(3, count, p=[0.7, 0.2, 0.1])]
    device = random.integers(0, 2, count)
    template = dataset(tmp_path / "one", device_ops=[_op(0, 1)]).table("device_ops").slice(0, 1)
    rows = pa.concat_tables([template] * count).combine_chunks()
    for name, values in (
        ("start_ns", start), ("dur_ns", end - start), ("class", kinds), ("device_id", device),
        ("step", start // 400_000_000),
    ):  # fmt: skip
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values).cast(field.type))
    write_table(tmp_path / "many", "device_ops", rows, "p00000-0000")
    write_manifest(tmp_path / "many")
    opened = open_dataset(tmp_path / "many")
    with connect(opened, threads=4) as connection:
        found = connection.sql("FROM time_breakdown").to_arrow_table().to_pylist()
        steps = connection.sql("FROM step_breakdown").to_arrow_table().to_pylist()
    for row in found:
        mine = device == row["device_id"]
        unions = [
            _union(start[mine & np.isin(kinds, some)], end[mine & np.isin(kinds, some)])
            for some in (["compute"], ["communication"], ["compute", "communication"], list(set(kinds)))
        ]
        compute, comm, either, every = unions
        span = int(end[mine].max() - start[mine].min())
        assert _figures(row) == (
            compute, comm, compute + comm - either, either - compute, every - either, span - every, span,
        )  # fmt: skip
        own = [s for s in steps if s["device_id"] == row["device_id"]]
        assert len(own) == 5
        assert [sum(s[p] for s in own) for p in _PARTS] == list(_figures(row))
    assert len(found) == 2


def _union(start: "np.ndarray[Any, Any]", end: "np.ndarray[Any, Any]") -> int:
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    return int((end - np.maximum(start, np.concatenate([[start[0]], end[:-1]]))).clip(0).sum())


# --- the real files ---

_REAL = {
    "kineto/bert_small_h100.json.gz": [(307197, 0, None, 0, 2240, 3598388, 3907825)],
    "kineto/nccl_a100_rank0of2.json.gz": [
        (115655847, 46876493, 7317025, 39559468, 2284699, 503050991, 660551005)
    ],
    "kineto/resnet50_mi300x_rank0of8.json.gz": [
        (25739303, 71516523, 15891299, 55625224, 2637529, 2565652, 86567708)
    ],
    "kineto/resnet50_v100_2021_old_categories.pt.trace.json.gz": [
        (591532000, 0, None, 0, 12026000, 392919000, 996477000)
    ],
    "kineto/vllm_graph_replay.json.gz": [(10674517, 0, None, 0, 43191, 25473, 10743181)],
    "nsys/ddp_2gpu_2process.sqlite": [
        (253690832, 17172652, 0, 17172652, 2954303, 26031025, 299848812),
        (256095624, 8229100, 0, 8229100, 2951192, 31385635, 298661551),
    ],
    "nsys/mpi_saxpy_a100_2021.sqlite": [
        (88573480, 0, None, 0, 284699600, 724054763, 1097327843)
    ],
}  # fmt: skip


@pytest.mark.parametrize("file", _REAL)
def test_real_files_come_out_to_the_ns(tmp_path: Path, file: str) -> None:
    with Pool(1) as pool:
        opened = build(
            [shared("traces", file)], tmp_path / "d", ranks={}, add=False, overwrite=False, pool=pool
        )
    rows = _answer(opened, "time_breakdown")
    assert [_figures(r) for r in rows] == _REAL[file]
    for row in rows:
        whole = [r for r in _answer(opened, "step_breakdown") if r["device_id"] == row["device_id"]]
        for part in _PARTS:
            assert sum(r[part] or 0 for r in whole if r["process_id"] == row["process_id"]) == (
                row[part] or 0
            )
    for row in _answer(opened, "idle_breakdown"):
        parts = ("host_ns", "launch_ns", "dependency_ns", "queue_ns", "unknown_ns")
        assert sum(row[p] for p in parts) == row["idle_ns"]


def test_times_at_the_ends_of_int64_end_no_metric(tmp_path: Path) -> None:
    spans = [(0, 5_062_422_177_560_910_848), (-(2**62) - 1, 0), (-(2**62), 2**62), (2**62, 2**61)]
    rows = [
        {"kind": "kernel", "class": kind, "start_ns": start, "dur_ns": dur}
        for kind in ("compute", "communication")
        for start, dur in spans
    ]
    made = dataset(tmp_path, device_ops=rows)
    for name in metrics():
        run(made, name)
