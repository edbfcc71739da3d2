"""Accounts of the shared cases, from their files."""

from pathlib import Path
from typing import Any

import pytest

from mdtrace.build.job import build
from mdtrace.ingest.pool import Pool
from mdtrace.metrics.engine import run
from mdtrace.tables.dataset import Dataset
from shared import shared

Row = dict[str, Any]


def _ingest(folder: Path, *parts: str) -> Dataset:
    with Pool(1) as pool:
        traces = [shared("cases", *parts)]
        return build(traces, folder / "d", ranks={}, add=False, overwrite=False, pool=pool)


def _account(opened: Dataset) -> Row:
    (row,) = run(opened, "time_breakdown").arrow().to_pylist()
    return dict(row)


def _busy(row: Row) -> int:
    return int(row["span_ns"] - row["idle_ns"])


@pytest.mark.parametrize(
    ("parts", "busy"),
    [
        (("11_sub_microsecond_durations", "tiny.json"), 2600),
        (("12_same_stream_overlap", "rounding.json"), 19_999),
        (("12_same_stream_overlap", "corrupt.json"), 2_000_000_000),  # as recorded
        (("15_overlap_sync_and_new_nccl_names", "sync.json"), 120_000),
        (("18_cuda_graph_kernels", "graph.json"), 56_000),
        (("18_cuda_graph_kernels", "graph.sqlite"), 56_000),
        (("18_cuda_graph_kernels", "graph_level.sqlite"), 1000),
        (("20_gpu_only_and_cpu_only", "gpu_only.json"), 30_000),
        (("23_no_profilerstep", "nostep.json"), 30_000),
        (("41_duplicate_keys_and_events", "dups.json"), 10_000),
    ],
    ids=lambda value: "/".join(value) if isinstance(value, tuple) else "",
)
def test_busy_time_of_a_case(tmp_path: Path, parts: tuple[str, str], busy: int) -> None:
    row = _account(_ingest(tmp_path, *parts))
    assert _busy(row) == busy
    assert row["compute_ns"] + row["exposed_comm_ns"] + row["exposed_memory_ns"] == busy


def test_sync_and_annotations_change_nothing(tmp_path: Path) -> None:
    row = _account(_ingest(tmp_path, "15_overlap_sync_and_new_nccl_names", "sync.json"))
    assert (row["comm_ns"], row["compute_ns"], row["overlap_ns"], row["exposed_comm_ns"]) == (
        100_000, 60_000, 40_000, 60_000,
    )  # fmt: skip
    assert row["overlap_ratio"] == 0.4


def test_a_capture_of_operators_alone_knows_no_overlap(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "20_gpu_only_and_cpu_only", "cpu_only.json")
    row = _account(opened)
    assert row["overlap_ratio"] is None
    assert row["basis"] == "host records"
    assert sum(r["count"] for r in run(opened, "operator_summary").arrow().to_pylist()) == 2
    assert run(opened, "kernel_summary").arrow().num_rows == 0


def test_a_capture_of_kernels_alone_knows_no_launch(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "20_gpu_only_and_cpu_only", "gpu_only.json")
    assert run(opened, "launch_delays").arrow().num_rows == 0
    layers = run(opened, "layer_breakdown").arrow().to_pylist()
    assert [r["layer"] for r in layers] == [None]


def test_a_capture_without_steps_is_one_row(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "23_no_profilerstep", "nostep.json")
    (row,) = run(opened, "step_breakdown").arrow().to_pylist()
    assert row["step"] is None
    assert _busy(row) == 30_000


def test_kernels_shorter_than_a_microsecond_by_name(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "11_sub_microsecond_durations", "tiny.json")
    rows = {r["name"]: r for r in run(opened, "kernel_summary").arrow().to_pylist()}
    tiny = rows["tiny"]
    assert (tiny["count"], tiny["total_ns"], tiny["mean_ns"], tiny["min_ns"]) == (3, 600, 200, 200)


def test_a_graph_launch_counts_once(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "18_cuda_graph_kernels", "graph.json")
    delays = run(opened, "launch_delays").arrow().to_pylist()
    assert len(delays) == 5
    assert len({r["launch_id"] for r in delays}) == 1


def test_a_copy_of_an_event_is_counted_apart(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "41_duplicate_keys_and_events", "dups.json")
    (row,) = run(opened, "kernel_summary").arrow().to_pylist()
    assert (row["count"], row["duplicates"], row["total_ns"]) == (1, 1, 10_000)


def test_a_timeline_whose_third_reduction_has_no_size(tmp_path: Path) -> None:
    opened = _ingest(tmp_path, "35_horovod_cached_no_rank_ticks", "timeline.json")
    rows = run(opened, "collective_bandwidth").arrow().to_pylist()
    assert sum(r["count"] for r in rows) == 3
    assert sum(r["unknown_size"] for r in rows) == 1
    assert [r["time_median_ns"] for r in rows] == [100_000] * len(rows)
    row = _account(opened)
    assert (row["comm_ns"], row["compute_ns"], row["basis"]) == (300_000, None, "timeline")
