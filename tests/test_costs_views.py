"""Views of costs: rows in, rows out."""

from pathlib import Path
from typing import Any

import pytest

from mdtrace.metrics.engine import Filters, run
from mdtrace.tables.dataset import Dataset
from mdtrace.tables.schema import row_id
from rows import dataset

DIMS = "[[2, 3],\n [3, 5]]"


def costed(folder: Path) -> Dataset:
    """Rank 0 with a device: two products, an operator without a model, a kernel alone; rank 1 without one."""
    other = row_id(1, 0)
    return dataset(
        folder,
        host_ops=[
            {"name": "aten::mm", "start_ns": 0, "dur_ns": 7, "input_dims": DIMS, "step": 1, "layer_id": 0},
            {"name": "aten::mm", "start_ns": 10, "dur_ns": 8, "input_dims": DIMS, "step": 2},
            {"name": "my::op", "start_ns": 20, "dur_ns": 9, "step": 2},
            {"process_id": 1, "name": "aten::mm", "start_ns": 0, "dur_ns": 30, "input_dims": DIMS},
            {"process_id": 1, "name": "c10d::allreduce_", "start_ns": 40, "dur_ns": 100},
        ],
        layers=[{"path": "net/fc", "name": "fc"}],
        device_ops=[
            {"start_ns": 5, "dur_ns": 10, "host_op_id": 0, "launch_id": 0},
            {"start_ns": 20, "dur_ns": 20, "host_op_id": 1, "launch_id": 1},
            {"start_ns": 50, "dur_ns": 30, "host_op_id": 2, "launch_id": 2},
            {"start_ns": 90, "dur_ns": 40},
            {"start_ns": 140, "dur_ns": 50, "class": "communication"},
        ],
        op_costs=[
            {
                "host_op_id": 0, "flops": 60, "bytes": 124, "model": "gemm", "dtype": "f32",
                "device_op_count": 1, "device_ns": 10, "compute_ns": 10, "profiler_flops": 60,
            },
            {
                "host_op_id": 1, "flops": 60, "bytes": 124, "model": "gemm", "dtype": "f32",
                "device_op_count": 1, "device_ns": 20, "compute_ns": 20,
            },
            {"host_op_id": 2, "reason": "no model", "device_op_count": 1, "device_ns": 30, "compute_ns": 30},
            {"process_id": 1, "host_op_id": other, "flops": 60, "bytes": 124, "model": "gemm"},
            {"process_id": 1, "host_op_id": other + 1, "model": "collective", "reason": "communication"},
        ],
    )  # fmt: skip


def answer(data: Dataset, metric: str, *columns: str, **filters: Any) -> list[tuple[Any, ...]]:
    rows = run(data, metric, Filters(**filters)).arrow().to_pylist()
    return [tuple(r[c] for c in columns) for r in rows]


def test_operator_costs(tmp_path: Path) -> None:
    columns = (
        "rank",
        "name",
        "input_dims",
        "calls",
        "flops",
        "bytes",
        "device_ns",
        "model",
        "reason",
        "host_ns",
    )
    assert answer(costed(tmp_path), "operator_costs", *columns) == [
        (1, "c10d::allreduce_", None, 1, None, None, 100, "collective", "communication", 100),
        (1, "aten::mm", "[[2,3],[3,5]]", 1, 60, 124, 30, "gemm", None, 30),
        (0, "aten::mm", "[[2,3],[3,5]]", 2, 120, 248, 30, "gemm", None, 15),
        (0, "my::op", None, 1, None, None, 30, None, "no model", 9),
    ]


def test_operator_costs_by_time_and_the_profilers_figure(tmp_path: Path) -> None:
    columns = ("flops_per_s", "bytes_per_s", "profiler_flops")
    found = answer(costed(tmp_path), "operator_costs", *columns, ranks=(0,))
    assert found == [(pytest.approx(4e9), pytest.approx(248 / 30 * 1e9), None), (None, None, None)]
    (first, *_) = answer(costed(tmp_path / "again"), "operator_costs", *columns, ranks=(0,), steps=(1,))
    assert first == (pytest.approx(6e9), pytest.approx(12.4e9), 60)


def test_filters_pick_what_is_summed(tmp_path: Path) -> None:
    data = costed(tmp_path)
    columns = ("name", "calls", "flops", "device_ns")
    assert answer(data, "operator_costs", *columns, ranks=(0,), steps=(2,)) == [
        ("my::op", 1, None, 30),
        ("aten::mm", 1, 60, 20),
    ]
    assert answer(data, "operator_costs", *columns, layer="net/*") == [("aten::mm", 1, 60, 10)]
    assert answer(data, "operator_costs", *columns, ranks=(0,), time=(15, 25)) == [("my::op", 1, None, 30)]


def test_coverage_adds_up_to_the_time_of_compute_kernels(tmp_path: Path) -> None:
    columns = ("process_id", "reason", "operators", "time_ns", "share", "flops_share", "bytes_share")
    assert answer(costed(tmp_path), "cost_coverage", *columns) == [
        (0, "the launch is not in the file", None, 40, 0.4, 0, 0),
        (0, None, 2, 30, 0.3, 0.3, 0.3),
        (0, "no model", 1, 30, 0.3, 0, 0),
        (1, None, 1, 30, 1, 1, 1),
    ]


def test_unknown_costs_by_time(tmp_path: Path) -> None:
    columns = ("rank", "name", "reason", "missing", "calls", "device_ns", "share")
    assert answer(costed(tmp_path), "cost_unknown", *columns) == [
        (1, "c10d::allreduce_", "communication", "FLOP and bytes", 1, 100, pytest.approx(100 / 130)),
        (0, "my::op", "no model", "FLOP and bytes", 1, 30, 0.5),
    ]


def test_models_against_sampled_counters(tmp_path: Path) -> None:
    """Reads at 50 % then 25 % of 1 GB/s, 100 ns each: 75 bytes; writes at 10 % for 200 ns: 20 bytes."""
    read, write = "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]"
    samples = [
        (read, 0, 50),
        (read, 100, 25),
        (read, 200, 0),
        (write, 0, 10),
        (write, 200, 0),
        ("SMs Active", 0, 9),
    ]
    data = dataset(
        tmp_path,
        host_ops=[{"name": "aten::mm", "start_ns": 0, "dur_ns": 7}],
        devices=[{"device_id": 0, "memory_bandwidth_bytes_per_s": 10**9}],
        counters=[
            {"device_id": 0, "kind": "gpu_metric", "name": n, "time_ns": t, "value": v, "unit": "%"}
            for n, t, v in samples
        ],
        op_costs=[{"host_op_id": 0, "flops": 60, "bytes": 190, "model": "gemm", "device_op_count": 1}],
    )
    columns = ("sampled_read_bytes", "sampled_write_bytes", "model_bytes", "ratio")
    assert answer(data, "cost_counters", *columns) == [(75, pytest.approx(20), 190, pytest.approx(2))]


def test_without_samples_there_is_no_row(tmp_path: Path) -> None:
    assert answer(costed(tmp_path), "cost_counters", "process_id") == []
