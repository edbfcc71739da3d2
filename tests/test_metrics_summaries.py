"""Layers, kernels, operators, steps, launch delays, collectives: rows in, rows out."""

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


def _rows(opened: Dataset, name: str, filters: Filters | None = None) -> list[Row]:
    return run(opened, name, filters).arrow().to_pylist()


def _columns(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(r[n] for n in names) for r in rows]


def test_a_layer_has_its_own_work_and_the_part_of_its_communication_that_shows(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        layers=[{"path": "net"}, {"path": "net/conv", "depth": 1}],
        device_ops=[
            {"start_ns": 0, "end_ns": 20, "layer_id": 1},
            {"start_ns": 10, "end_ns": 30, "layer_id": 1, "stream_id": 8},
            {"start_ns": 40, "end_ns": 60, "layer_id": 0},
            {"start_ns": 50, "end_ns": 90, "layer_id": 1, "class": "communication"},
            {"start_ns": 80, "end_ns": 100, "layer_id": 1, "class": "communication"},
            {"start_ns": 85, "end_ns": 110},
        ],
    )
    rows = _rows(opened, "layer_breakdown")
    names = ("layer", "compute_ns", "comm_ns", "overlap_ns", "exposed_comm_ns")
    assert _columns(rows, *names) == [
        ("net/conv", 30, 50, 25, 25),  # 50-60 and 85-100 are hidden by other layers' compute
        (None, 25, 0, None, 0),
        ("net", 20, 0, None, 0),
    ]
    assert [r["compute_share"] for r in rows] == pytest.approx([0.4, 25 / 75, 20 / 75])
    assert _columns(_rows(opened, "layer_breakdown", Filters(layer="*/conv")), *names) == [
        ("net/conv", 30, 50, 25, 25)
    ]
    clipped = _rows(opened, "layer_breakdown", Filters(time=(55, 86), layer="*/conv"))
    assert _columns(clipped, *names) == [("net/conv", 0, 31, 6, 25)]


def test_layers_of_a_host(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        layers=[{"path": "net"}],
        host_ops=[
            {"start_ns": 0, "end_ns": 20, "name": "aten::mm", "layer_id": 0},
            {"start_ns": 5, "end_ns": 15, "name": "aten::t", "layer_id": 0, "depth": 1},
            {"start_ns": 10, "end_ns": 40, "name": "gloo:all_reduce", "kind": "annotation", "thread_id": 2},
        ],
        collectives=[{"start_ns": 10, "end_ns": 40, "host_op_id": 2, "evidence": "host record"}],
    )
    rows = _rows(opened, "layer_breakdown")
    names = ("device_id", "layer", "compute_ns", "comm_ns", "overlap_ns", "exposed_comm_ns")
    assert _columns(rows, *names) == [(None, None, 0, 30, 10, 20), (None, "net", 20, 0, None, 0)]


_layered = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 15), st.sampled_from(["compute", "communication", "memset"]),
        st.sampled_from([None, 0, 1]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@given(st.lists(_layered, min_size=1, max_size=20))
@settings(max_examples=6, deadline=None)
def test_layers_equal_a_bitmap(cases: list[list[tuple[int, int, str, int | None]]]) -> None:
    ops: list[Row] = [
        {"process_id": p, "start_ns": s, "end_ns": s + d, "class": c, "layer_id": layer}
        for p, found in enumerate(cases)
        for s, d, c, layer in found
    ]
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(dataset(Path(folder), device_ops=ops), "layer_breakdown")
    for row in rows:
        own = [o for o in ops if o["process_id"] == row["process_id"]]
        of_layer = [o for o in own if o["layer_id"] == row["layer_id"]]
        computing = _bits(own, "compute")
        comm = _bits(of_layer, "communication")
        expected = (len(_bits(of_layer, "compute")), len(comm), len(comm & computing) if comm else None)
        assert (row["compute_ns"], row["comm_ns"], row["overlap_ns"]) == expected
        assert row["exposed_comm_ns"] == len(comm - computing)
    wanted = {(o["process_id"], o["layer_id"]) for o in ops if o["class"] != "memset"}
    assert {(r["process_id"], r["layer_id"]) for r in rows} == wanted


def _bits(ops: list[Row], kind: str) -> set[int]:
    return {t for o in ops if o["class"] == kind for t in range(o["start_ns"], o["end_ns"])}


def test_kernels_by_name(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        layers=[{"path": "net/conv"}],
        device_ops=[
            {"start_ns": 0, "dur_ns": 10, "name": "gemm", "step": 1, "layer_id": 0},
            {"start_ns": 0, "dur_ns": 10, "name": "gemm", "step": 1, "duplicate": True, "layer_id": 0},
            {"start_ns": 10, "dur_ns": 30, "name": "gemm", "step": 2},
            {"start_ns": 50, "dur_ns": None, "name": "gemm", "step": 2},
            {"start_ns": 60, "dur_ns": 10, "kind": "memcpy", "class": "memcpy", "name": "HtoD", "bytes": 8},
            {"start_ns": 70, "dur_ns": 1000, "kind": "sync", "class": "sync"},
            {"start_ns": 5, "dur_ns": 50, "name": "gemm", "step": 2, "process_id": 1},
        ],
    )
    names = ("name", "class", "processes", "count", "total_ns", "mean_ns", "min_ns", "median_ns", "max_ns")
    rows = _rows(opened, "kernel_summary")
    assert _columns(rows, *names) == [
        ("gemm", "compute", 2, 4, 90, 30, 10, 30, 50),
        ("HtoD", "memcpy", 1, 1, 10, 10, 10, 10, 10),
    ]
    assert _columns(rows, "share", "bytes", "duplicates") == [(0.9, None, 1), (0.1, 8, 0)]
    for filters, total in (
        (Filters(ranks=(1,)), 50),
        (Filters(steps=(1,)), 10),
        (Filters(time=(5, 12)), 80),  # what starts there, whole
        (Filters(layer="net/*"), 10),
        (Filters(ranks=(0,), steps=(2,)), 30),
    ):
        assert _rows(opened, "kernel_summary", filters)[0]["total_ns"] == total


def test_kernels_shorter_than_a_microsecond_keep_their_time(tmp_path: Path) -> None:
    ops = [{"start_ns": 1000 * n + 700, "dur_ns": 200, "name": "tiny"} for n in range(3)]
    (row,) = _rows(dataset(tmp_path, device_ops=ops), "kernel_summary")
    assert (row["count"], row["total_ns"], row["mean_ns"], row["min_ns"]) == (3, 600, 200, 200)


def test_operators_by_name(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        host_ops=[
            {"start_ns": 0, "dur_ns": 100, "name": "aten::linear"},
            {"start_ns": 10, "dur_ns": 60, "name": "aten::addmm", "parent_id": 0, "depth": 1},
            {"start_ns": 20, "dur_ns": 10, "name": "aten::empty", "parent_id": 1, "depth": 2},
            {"start_ns": 75, "dur_ns": 5, "kind": "python", "name": "hook", "parent_id": 0, "depth": 1},
            {"start_ns": 200, "dur_ns": 40, "name": "aten::addmm"},
            {"start_ns": 200, "dur_ns": 40, "name": "aten::addmm", "duplicate": True},
            {"start_ns": 300, "dur_ns": None, "name": "aten::open"},
        ],
        device_ops=[
            {"start_ns": 0, "dur_ns": 7, "host_op_id": 1},
            {"start_ns": 0, "dur_ns": 9, "host_op_id": 4},
            {"start_ns": 0, "dur_ns": 99, "host_op_id": 4, "class": "sync"},
        ],
    )
    names = ("name", "count", "total_ns", "self_ns", "device_count", "device_ns", "duplicates")
    assert _columns(_rows(opened, "operator_summary"), *names) == [
        ("aten::addmm", 2, 100, 90, 2, 16, 1),
        ("aten::linear", 1, 100, 35, 0, None, 0),
        ("aten::empty", 1, 10, 10, 0, None, 0),
        ("aten::open", 1, None, None, 0, None, 0),
    ]


def test_launch_delays(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            {"start_ns": 30, "launch_id": 0},
            {"start_ns": 15, "launch_id": 0},  # a graph launch starts many; before the call returned
            {"start_ns": 5, "launch_id": 0},  # before the call began
            {"start_ns": 50, "launch_id": 1},
            {"start_ns": 60},
        ],
        launches=[{"start_ns": 10, "dur_ns": 10}, {"start_ns": 40, "dur_ns": None}],
    )
    rows = sorted(_columns(_rows(opened, "launch_delays"), "start_ns", "call_ns", "delay_ns", "before_call"))
    assert rows == [(5, 10, -15, True), (15, 10, -5, False), (30, 10, 10, False), (50, None, None, False)]


def test_steps_over_ranks(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        device_ops=[
            {"start_ns": 110 + p, "end_ns": 150 + 10 * p, "step": 2, "process_id": p} for p in range(3)
        ],
        steps=[
            {"process_id": p, "step": s, "start_ns": 100 * s, "end_ns": 100 * s + 50 + 10 * p}
            for p in range(3)
            for s in (1, 2)
        ],
    )
    names = ("step", "steady", "left_out", "processes", "host_min_ns", "host_median_ns", "host_max_ns")
    first, second = _rows(opened, "step_summary")
    assert _columns([first, second], *names) == [
        (1, False, "first step captured", 3, 50, 60, 70),
        (2, True, None, 3, 50, 60, 70),
    ]
    assert (first["span_median_ns"], second["span_median_ns"], second["longest_rank"]) == (None, 49, 2)
    (only,) = _rows(opened, "step_summary", Filters(ranks=(0,), steps=(2,)))
    assert (only["processes"], only["host_max_ns"], only["span_median_ns"]) == (1, 50, 40)


def _bandwidth(folder: Path, **collective: Any) -> Row:
    row = {"start_ns": 0, "end_ns": 1_200_000, "payload_bytes": 128 * 2**20, "group_size": 8, **collective}
    (found,) = _rows(dataset(folder, collectives=[row]), "collective_transfers")
    return found


def test_bandwidth_of_the_golden_all_reduce(tmp_path: Path) -> None:
    row = _bandwidth(tmp_path)
    assert row["algbw_gb_s"] == pytest.approx(111.8481, abs=5e-5)
    assert row["busbw_gb_s"] == pytest.approx(195.7342, abs=5e-5)
    assert (row["time_ns"], row["time_basis"]) == (1_200_000, "own")


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 1.5), ("reduce_scatter", 0.75), ("all_gather", 0.75), ("all_to_all", 0.75),
        ("gather", 0.75), ("scatter", 0.75), ("broadcast", 1), ("reduce", 1), ("send", 1), ("recv", 1),
        ("send_recv", 1), ("unknown", None), ("barrier", None),
    ],
)  # fmt: skip
def test_bus_bandwidth_by_kind(tmp_path: Path, kind: str, factor: float | None) -> None:
    row = _bandwidth(tmp_path, kind=kind, group_size=4, payload_bytes=4000, end_ns=1000)
    assert row["algbw_gb_s"] == 4
    assert row["busbw_gb_s"] == (None if factor is None else pytest.approx(4 * factor))


@pytest.mark.parametrize(
    ("changed", "algbw", "busbw"),
    [
        ({"group_size": None}, 4, None),
        ({"group_size": None, "group_ranks": [0, 2, 5, 7]}, 4, 6),
        ({"group_size": None, "kind": "broadcast"}, 4, 4),
        ({"payload_bytes": None}, None, None),
        ({"payload_bytes": 0}, None, None),
        ({"end_ns": None}, None, None),
        ({"end_ns": 0}, None, None),
        ({"evidence": "range"}, None, None),
    ],
)
def test_what_is_unknown_has_no_bandwidth(
    tmp_path: Path, changed: Row, algbw: float | None, busbw: float | None
) -> None:
    row = _bandwidth(tmp_path, **{"group_size": 4, "payload_bytes": 4000, "end_ns": 1000, **changed})
    assert (row["algbw_gb_s"], row["busbw_gb_s"]) == (algbw, busbw)


def test_the_size_of_a_job_stands_in_only_where_no_group_is_named(tmp_path: Path) -> None:
    opened = dataset(
        tmp_path,
        processes=[{"process_id": 0, "world_size": 4}],
        collectives=[
            {"start_ns": 0, "end_ns": 1000, "payload_bytes": 4000},
            {"start_ns": 0, "end_ns": 1000, "payload_bytes": 4000, "group_name": "tp"},
        ],
    )
    assert _columns(_rows(opened, "collective_transfers"), "group_size", "busbw_gb_s") == [
        (4, 6),
        (None, None),
    ]


def _matched(folder: Path) -> Dataset:
    """An all-reduce of two ranks: rank 1 comes 60 ns late, both leave at 100."""
    members = [{"process_id": p, "start_ns": s, "end_ns": 100} for p, s in ((0, 0), (1, 60))]
    return dataset(
        folder,
        collectives=[{"payload_bytes": 80, "group_size": 2, "instance_id": 0, **m} for m in members],
        instances=[{"instance_id": 0, "synchronising": True, "present": 2, "evidence": "kernel"}],
        clocks=[{"process_id": p, "offset_ns": 0, "error_ns": 0} for p in (0, 1)],
    )


def test_a_matched_collective_takes_the_time_after_the_last_rank_has_come(tmp_path: Path) -> None:
    rows = _rows(_matched(tmp_path), "collective_transfers")
    assert sorted(_columns(rows, "rank", "time_ns", "time_basis", "algbw_gb_s")) == [
        (0, 40, "transfer", 2), (1, 40, "transfer", 2),
    ]  # fmt: skip
    (found,) = _rows(_matched(tmp_path), "collective_bandwidth")
    assert (found["count"], found["from_transfer"], found["processes"]) == (2, 2, 2)


def test_bandwidth_by_kind_group_and_size(tmp_path: Path) -> None:
    tp: Row = {"group_name": "1", "group_desc": "tp", "group_size": 2, "end_ns": 1000}
    opened = dataset(
        tmp_path,
        collectives=[
            {**tp, "payload_bytes": 1024},
            {**tp, "payload_bytes": 2047},
            {**tp, "payload_bytes": 1500, "end_ns": 500},
            {**tp, "payload_bytes": 2048},
            {**tp, "payload_bytes": None},
            {**tp, "payload_bytes": None, "end_ns": None},
            {**tp, "payload_bytes": 0, "kind": "barrier"},
            {"kind": "broadcast", "end_ns": 10, "payload_bytes": 2**33},
        ],
    )
    rows = _rows(opened, "collective_bandwidth")
    names = ("kind", "group_desc", "bucket_bytes", "count", "unknown_size", "untimed", "bytes", "time_ns")
    assert _columns(rows, *names) == [
        ("all_reduce", "tp", 1024, 3, 0, 0, 4571, 2500),
        ("all_reduce", "tp", 2048, 1, 0, 0, 2048, 1000),
        ("all_reduce", "tp", None, 2, 2, 1, None, 1000),
        ("barrier", "tp", 0, 1, 0, 0, 0, 1000),
        ("broadcast", None, 2**33, 1, 0, 0, 2**33, 10),
    ]
    first = rows[0]
    assert [first[f"busbw_{p}_gb_s"] for p in ("min", "median", "max")] == [1.024, 2.047, 3.0]
    assert rows[-1]["of_best"] == 1.0
    assert first["of_best"] == pytest.approx(2.047 / (2**33 / 10))
    assert sum(r["count"] for r in rows) == 8


def test_no_collectives_no_rows(tmp_path: Path) -> None:
    assert _rows(dataset(tmp_path, processes=[{}]), "collective_bandwidth") == []
