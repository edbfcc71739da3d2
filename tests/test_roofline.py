"""Three roofs: the worked example as plain functions, and the views on rows made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.errors import UsageError
from mdtrace.metrics.engine import Filters, run
from mdtrace.metrics.roofline import bound, bus_roof, md_roofline, ridge_points, roofline, roofs_in_words
from mdtrace.tables.dataset import Dataset
from rows import dataset
from shared import shared

Row = dict[str, Any]
positive = st.floats(1e-3, 1e3)

H100 = {"device_id": 0, "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85_018_279_936, "sm_count": 132}


def test_the_worked_example() -> None:
    golden = json.loads(shared("spec", "golden.json").read_text())["roofline"]
    roofs = [golden["inputs"][k] for k in ("peak_flops", "memory_bytes_per_s", "bus_bytes_per_s")]
    assert ridge_points(*roofs) == pytest.approx(
        (golden["ridge"]["memory"], golden["ridge"]["communication"])
    )
    for layer in golden["layers"].values():
        point = md_roofline(layer["flops"], layer["bytes"], layer["wire_bytes"], *roofs)
        assert point.bound == layer["bound"]
        assert point.intensity_memory == pytest.approx(layer["intensity_memory"])
        if layer["intensity_communication"] is None:
            assert point.intensity_communication is None
        else:
            assert point.intensity_communication == pytest.approx(layer["intensity_communication"])
        times = [point.compute_s, point.memory_s, point.communication_s]
        assert [t * 1e3 for t in times if t is not None] == pytest.approx(layer["t_ms"], abs=1e-6)
        assert point.overlap == pytest.approx(layer["overlap_tflops"] * 1e12, rel=1e-5)
        assert point.serial == pytest.approx(layer["serial_tflops"] * 1e12, rel=1e-5)


@given(positive, positive, positive, positive, positive, positive, st.floats(0, 1))
def test_hiding_communication_lies_between_all_and_none(
    f: float, b: float, c: float, p: float, m: float, x: float, phi: float
) -> None:
    point = md_roofline(f, b, c, p, m, x, phi)
    assert point.overlap == pytest.approx(min(p, f / b * m, f / c * x))
    assert point.serial is not None
    assert point.attainable is not None
    assert point.serial <= point.attainable * (1 + 1e-9)
    full = md_roofline(f, b, c, p, m, x, 1.0)
    assert full.attainable == pytest.approx(min(p, f / b * m))
    assert point.attainable <= full.attainable * (1 + 1e-9)


def test_what_is_not_known_is_left_out() -> None:
    point = md_roofline(None, 100, None, 10, 10, 10)
    assert (point.compute_s, point.memory_s, point.communication_s) == (None, 10, None)
    assert (point.overlap, point.intensity_memory, point.bound) == (None, None, "memory")
    assert md_roofline(None, None, None, 1, 1, 1).bound is None
    assert md_roofline(5, 5, 5, None, None, None).overlap is None


@pytest.mark.parametrize(
    ("times", "more", "expected"),
    [
        ((1.0, 0.9, 0.1), {}, "compute"),
        ((1.0, 0.96, 0.1), {}, "balanced"),
        ((0.1, 0.96, 1.0), {}, "balanced"),
        ((0.1, 0.2, 1.0), {}, "communication"),
        ((0.4, 0.2, 0.1), {"measured_s": 1.0}, "latency"),
        ((0.5, 0.2, 0.1), {"measured_s": 1.0}, "compute"),
        ((0.4, 0.2, 0.1), {"measured_s": 1.0, "wait_s": 0.2, "transfer_s": 0.1}, "straggler"),
        ((0.1, 0.2, 0.3), {"wait_s": 0.2, "transfer_s": 0.1}, "straggler"),
        ((0.1, 0.2, 0.3), {"wait_s": 0.1, "transfer_s": 0.1}, "communication"),
        ((0.6, 0.2, 0.1), {"measured_s": 1.0, "wait_s": 0.2, "transfer_s": 0.1}, "compute"),
        ((None, None, None), {}, None),
        ((0.0, 0.0, 0.0), {}, None),
    ],
)
def test_bounds(times: tuple[float | None, ...], more: dict[str, float], expected: str | None) -> None:
    assert bound(*times, **more) == expected


def test_the_bus_roof_of_a_size() -> None:
    # k = 1.5, 1 MB, 10 µs and 100 GB/s: 1.5e6 byte in 10 + 15 µs.
    assert bus_roof(1e6, 1.5, 10e-6, 100e9) == pytest.approx(60e9)


def _one(opened: Dataset, metric: str, filters: Filters | None = None, **parameters: object) -> Row:
    (row,) = run(opened, metric, filters, **parameters).table.to_pylist()
    return row


def _training(folder: Path, **more: Any) -> Dataset:
    """Two ranks on two GPUs, two steps of 10 µs: a GEMM forward, one backward, a bucket of its two gradients.

    Forward 67e6 FLOP of f32 in 2 µs (1 µs at the peak of 67 TFLOP/s), 3.35e6 byte (1 µs); backward twice the
    FLOP in 4 µs. The bucket of 1000 elements f32 starts with the backward and lasts 6 µs: 4 of them hidden.
    """
    host, device, costs, collectives, steps = [], [], [], [], []
    for rank in (0, 1):
        for step in (1, 2):
            at = 10_000 * step
            base = 6 * (step - 1) + (rank << 40)
            own, layer = {"process_id": rank, "step": step}, rank << 40
            host += [
                {**own, "start_ns": at, "name": "aten::mm", "layer_id": layer, "phase": "forward"},
                {**own, "start_ns": at + 3000, "name": "aten::mm", "layer_id": layer, "phase": "backward"},
                {
                    **own, "start_ns": at + 3100, "name": "torch::autograd::AccumulateGrad",
                    "layer_id": (rank << 40) + 1, "input_dims": "[[10, 90]]",
                },
                {
                    **own, "start_ns": at + 3200, "name": "torch::autograd::AccumulateGrad",
                    "layer_id": rank << 40, "input_dims": "[[100]]",
                },
                {**own, "start_ns": at + 3300, "name": "c10d::allreduce_"},
                {**own, "start_ns": at + 3400, "name": "aten::view"},
            ]  # fmt: skip
            device += [
                {
                    **own, "start_ns": at, "dur_ns": 2000, "host_op_id": base, "layer_id": rank << 40,
                    "phase": "forward",
                },
                {
                    **own, "start_ns": at + 4000, "dur_ns": 4000, "host_op_id": base + 1, "layer_id": layer,
                    "phase": "backward",
                },
                {
                    **own, "start_ns": at + 4000, "dur_ns": 6000, "class": "communication", "stream_id": 9,
                    "host_op_id": base + 4, "phase": "backward", "name": "ncclDevKernel_AllReduce",
                },
            ]  # fmt: skip
            costs += [
                _cost(rank, base, 67_000_000, 3_350_000, 2000),
                _cost(rank, base + 1, 134_000_000, 3_350_000, 4000),
            ]
            collectives.append({
                **own, "start_ns": at + 4000, "end_ns": at + 10_000, "device_op_id": 3 * step - 1 + layer,
                "kind": "all_reduce", "elements_in": 1000, "payload_bytes": 4000, "group_size": 2,
                "group_ranks": [0, 1], "dtype": "f32", "host_op_id": base + 4,
            })  # fmt: skip
            steps.append({**own, "start_ns": at, "end_ns": at + 9_000})
    tables: dict[str, Any] = {
        "processes": [{"process_id": r, "rank": r, "world_size": 2, "host": "a"} for r in (0, 1)],
        "devices": [{"process_id": r, **H100} for r in (0, 1)],
        "layers": [
            row
            for r in (0, 1)
            for row in (
                {"process_id": r, "path": "net/a", "name": "a", "depth": 0},
                {"process_id": r, "path": "net/a/b", "name": "b", "depth": 1, "parent_layer_id": r << 40},
            )
        ],
        "host_ops": host,
        "device_ops": device,
        "op_costs": costs,
        "collectives": collectives,
        "steps": steps,
        **more,
    }
    return dataset(folder, **tables)


def _cost(process: int, op: int, flops: int | None, size: int | None, ns: int) -> Row:
    return {
        "process_id": process, "host_op_id": op, "flops": flops, "bytes": size, "model": "gemm",
        "dtype": "f32",
        "device_op_count": 1, "device_ns": ns, "compute_ns": ns,
    }  # fmt: skip


def test_a_layer_under_three_roofs(tmp_path: Path) -> None:
    opened = _training(tmp_path)
    layers = run(opened, "layer_roofline", Filters(ranks=(0,))).table.to_pylist()
    by_phase = {(r["layer"], r["phase"]): r for r in layers}
    assert set(by_phase) == {("net/a", "forward"), ("net/a", "backward"), ("net/a/b", "backward")}
    # The first of two steps is warm-up: one step counts.
    forward = by_phase["net/a", "forward"]
    assert (forward["steps"], forward["calls"], forward["flops"]) == (1, 1, 67_000_000)
    assert (forward["device_ns"], forward["wire_bytes"], forward["coverage"]) == (2000, 0, 1)
    assert forward["intensity_memory"] == 20
    assert forward["intensity_communication"] is None
    assert (forward["t_compute_s"], forward["t_memory_s"]) == pytest.approx((1e-6, 1e-6))
    assert forward["achieved_flops_per_s"] == pytest.approx(33.5e12)
    assert forward["attainable_flops_per_s"] == pytest.approx(67e12)
    assert (forward["efficiency"], forward["bound"]) == (pytest.approx(0.5), "balanced")
    assert forward["roof_origin"] == "hardware table"


def test_a_bucket_is_shared_out_by_the_elements_of_its_gradients(tmp_path: Path) -> None:
    opened = _training(tmp_path)
    layers = run(opened, "layer_roofline", Filters(ranks=(0,))).table.to_pylist()
    by_phase = {(r["layer"], r["phase"]): r for r in layers}
    backward, inner = by_phase["net/a", "backward"], by_phase["net/a/b", "backward"]
    # 900 of 1000 elements are of net/a/b, 100 of net/a; 2(n-1)/n is 1.
    assert (backward["wire_bytes"], inner["wire_bytes"]) == pytest.approx((400, 3600))
    assert (backward["comm_ns"], inner["comm_ns"]) == pytest.approx((600, 5400))
    assert (backward["exposed_comm_ns"], inner["exposed_comm_ns"]) == pytest.approx((200, 1800))
    assert (backward["phi"], inner["phi"]) == pytest.approx((2 / 3, 2 / 3))
    assert (backward["device_ns"], inner["device_ns"]) == (4200, 1800)
    assert (backward["shared"], inner["flops"]) == (True, None)
    assert inner["t_comm_s"] == pytest.approx(3600 / 450e9)
    expected = md_roofline(134e6, 3.35e6, 400, 67e12, 3350e9, 450e9, 2 / 3)
    assert backward["attainable_overlap_flops_per_s"] == pytest.approx(expected.overlap)
    assert backward["attainable_serial_flops_per_s"] == pytest.approx(expected.serial)
    assert backward["attainable_flops_per_s"] == pytest.approx(expected.attainable)
    assert backward["efficiency"] == pytest.approx(134e6 / 4.2e-6 / expected.attainable)  # type: ignore[operator]
    assert backward["bound"] == "latency"


def test_a_bucket_that_does_not_begin_and_end_with_gradients_stays_one(tmp_path: Path) -> None:
    whole = _training(tmp_path / "a").table("collectives").to_pylist()
    smaller = [{**{k: v for k, v in r.items() if k != "rank"}, "elements_in": 999} for r in whole]
    opened = _training(tmp_path / "b", collectives=smaller)
    layers = run(opened, "layer_roofline", Filters(ranks=(0,))).table.to_pylist()
    bucket = next(r for r in layers if r["layer"] is None)
    assert (bucket["wire_bytes"], bucket["phase"], bucket["shared"]) == (4000, "backward", False)
    assert bucket["device_ns"] == 2000


def test_layers_inside_a_layer_add_up_at_a_depth(tmp_path: Path) -> None:
    opened = _training(tmp_path)
    layers = run(opened, "layer_roofline", Filters(ranks=(0,)), layer_depth=0).table.to_pylist()
    assert [(r["layer"], r["phase"]) for r in layers] == [("net/a", "backward"), ("net/a", "forward")]
    assert layers[0]["wire_bytes"] == pytest.approx(4000)


def test_the_job_and_its_ranks(tmp_path: Path) -> None:
    opened = _training(tmp_path)
    job = _one(opened, "job_roofline")
    assert (job["ranks"], job["steps"], job["span_ns"], job["dtype"]) == (2, 1, 20_000, "f32")
    # 201e6 FLOP in 10 µs of a rank that could do 670e6.
    assert job["mfu"] == pytest.approx(0.3)
    assert job["achieved_flops_per_s"] == pytest.approx(20.1e12)
    assert job["peak_flops_per_s"] == pytest.approx(67e12)
    assert job["t_compute_s"] == pytest.approx(3e-6)
    assert job["phi"] == pytest.approx(2 / 3)
    assert (job["compute_share"], job["network_share"]) == pytest.approx((0.6, 0.2))
    assert (job["rho"], job["straggler_share"]) == (None, None)
    both = run(opened, "roofline_ranks").table.to_pylist()
    assert [r["mfu"] for r in both] == pytest.approx([0.3, 0.3])
    steps = run(opened, "roofline_steps", Filters(ranks=(1,))).table.to_pylist()
    assert [(r["step"], r["span_ns"]) for r in steps] == [(1, 10_000), (2, 10_000)]
    assert _one(opened, "job_roofline", Filters(ranks=(1,)))["ranks"] == 1
    assert _one(opened, "job_roofline", Filters(steps=(1, 2)))["steps"] == 2


def test_unknown_work_is_null_with_coverage(tmp_path: Path) -> None:
    costs = [
        _cost(0, 0, 67_000_000, 3_350_000, 2000), _cost(0, 1, None, None, 4000),
        _cost(0, 6, 67_000_000, 3_350_000, 2000), _cost(0, 7, None, None, 4000),
    ]  # fmt: skip
    opened = _training(tmp_path, op_costs=costs)
    layers = run(opened, "layer_roofline", Filters(ranks=(0,))).table.to_pylist()
    backward = next(r for r in layers if (r["layer"], r["phase"]) == ("net/a", "backward"))
    assert [backward[k] for k in ("flops", "bytes", "achieved_flops_per_s", "intensity_memory")] == [None] * 4
    assert (backward["coverage"], backward["compute_ns"]) == (0, 4000)
    rank = _one(opened, "roofline_ranks", Filters(ranks=(0,)))
    assert rank["coverage"] == pytest.approx(1 / 3)
    # A third of the work says neither how good the rest is nor that it is slow.
    assert (rank["efficiency"], rank["bound"]) == (None, None)
    assert rank["t_compute_s"] == pytest.approx(1e-6)


def test_roofs_by_device_name_option_and_file(tmp_path: Path) -> None:
    opened = _training(tmp_path / "d")
    assert _peak(opened) == (67e12, "hardware table")
    assert _peak(opened, hardware="mi300x") == (163.4e12, "hardware table")
    file = tmp_path / "my.toml"
    file.write_text("[h100-sxm]\nvector_tflops = { f32 = 50 }\n")
    assert _peak(opened, hardware=str(file)) == (50e12, "user")
    # The best operator: 134e6 FLOP in 4 µs, and as fast 67e6 in 2 µs.
    assert _peak(opened, hardware="empirical") == (pytest.approx(33.5e12), "empirical")
    with pytest.raises(UsageError, match="no such hardware"):
        _peak(opened, hardware="h1000")


def _peak(opened: Dataset, hardware: str | None = None) -> tuple[float, str]:
    roofs = run(opened, "hardware_roofs", Filters(ranks=(0,)), hardware=hardware).table.to_pylist()
    row = next(r for r in roofs if (r["roof"], r["unit"], r["dtype"]) == ("compute", "matrix", "f32"))
    return row["per_s"], row["origin"]


def _memory(opened: Dataset, **parameters: object) -> tuple[float, str]:
    roofs = run(opened, "hardware_roofs", Filters(ranks=(0,)), **parameters).table.to_pylist()
    row = next(r for r in roofs if r["roof"] == "memory")
    return row["per_s"], row["origin"]


def test_the_drivers_memory_bandwidth_wins_over_the_table_not_over_the_user(tmp_path: Path) -> None:
    devices = [{"process_id": r, **H100, "memory_bandwidth_bytes_per_s": 3_352_320_000_000} for r in (0, 1)]
    opened = _training(tmp_path / "d", devices=devices)
    assert _memory(opened) == (3.35232e12, "driver")
    file = tmp_path / "my.toml"
    file.write_text("[h100-sxm]\nmemory_gb_per_s = 3000\n")
    assert _memory(opened, hardware=str(file)) == (3e12, "user")


def test_ranks_on_a_cpu_share_its_roofs(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        '[box]\nkind = "cpu"\nmemory_gb_per_s = 40\nlink_gb_per_s = 2\nmatrix_tflops = { f32 = 1 }\n'
    )
    host = [
        {
            "process_id": r, "start_ns": 0, "dur_ns": 1000, "name": "aten::mm", "layer_id": r << 40,
            "phase": "forward",
        }
        for r in (0, 1)
    ]  # fmt: skip
    opened = dataset(
        tmp_path / "d",
        processes=[{"process_id": r, "rank": r, "world_size": 2} for r in (0, 1)],
        host_ops=host,
        layers=[{"process_id": r, "path": "net", "name": "net"} for r in (0, 1)],
        op_costs=[
            {
                "process_id": r,
                "host_op_id": r << 40,
                "flops": 400_000,
                "bytes": 8000,
                "dtype": "f32",
                "model": "gemm",
            }
            for r in (0, 1)
        ],
    )
    roofs = run(opened, "hardware_roofs", Filters(ranks=(0,)), hardware=str(file)).table.to_pylist()
    per_s = {r["roof"]: r["per_s"] for r in roofs if r["roof"] != "compute" or r["dtype"] == "f32"}
    assert (per_s["memory"], per_s["bus"], per_s["compute"]) == (20e9, 2e9, 0.5e12)
    layer = run(opened, "layer_roofline", hardware=str(file)).table.to_pylist()[0]
    # 400 000 FLOP in 1 µs of half a TFLOP/s.
    assert (layer["device_ns"], layer["efficiency"], layer["steps"]) == (1000, pytest.approx(0.8), 0)
    assert (layer["bound"], layer["coverage"]) == ("compute", 1)


def test_between_nodes_the_adapters_of_a_node_carry_the_ring(tmp_path: Path) -> None:
    """Two hosts with one rank each: 50 GB/s; in one host the link."""
    apart = [{"process_id": r, "rank": r, "world_size": 2, "host": "ab"[r]} for r in (0, 1)]
    opened = _training(tmp_path, processes=apart)
    roofs = run(opened, "hardware_roofs", Filters(ranks=(0,))).table.to_pylist()
    assert {r["roof"]: r["per_s"] for r in roofs if r["roof"] in ("bus", "link", "internode")} == {
        "bus": 50e9, "link": 450e9, "internode": 50e9,
    }  # fmt: skip
    inner = run(opened, "layer_roofline", Filters(ranks=(0,), layer="net/a/b")).table.to_pylist()[0]
    assert inner["t_comm_s"] == pytest.approx(3600 / 50e9)


def test_f32_work_in_kernels_named_for_tf32_has_the_peak_of_tf32(tmp_path: Path) -> None:
    ops = _training(tmp_path / "a").table("device_ops").to_pylist()
    for op in ops:
        del op["rank"]
        if op["class"] == "compute":
            op["name"] = "sm80_xmma_gemm_tf32f32_tf32f32_f32_nn"
    opened = _training(tmp_path / "b", device_ops=ops)
    layer = run(opened, "layer_roofline", Filters(ranks=(0,), layer="net/a")).table.to_pylist()[0]
    assert (layer["dtype"], layer["t_compute_s"]) == ("tf32", pytest.approx(134e6 / 494.5e12))


def test_copies_are_no_compute_of_the_device(tmp_path: Path) -> None:
    costs = [{**_cost(0, 0, 0, 1 << 30, 0), "compute_ns": 0}]
    opened = _training(tmp_path, op_costs=costs)
    assert run(opened, "roofline_operators").table.num_rows == 0


def test_points_of_a_plot(tmp_path: Path) -> None:
    opened = _training(tmp_path)
    layers = roofline(opened, ranks=(0,))
    assert {(p["name"], p["phase"]) for p in layers.points} >= {("net/a", "forward")}
    assert layers.job is not None
    (forward, backward) = sorted(roofline(opened, "operator", ranks=(0,)).points, key=lambda p: p["flops"])
    assert (forward["name"], forward["flops"], forward["device_ns"]) == ("aten::mm", 67e6, 2000)
    assert (backward["phase"], backward["intensity_memory"]) == ("backward", 40)
    kernels = roofline(opened, "kernel", ranks=(1,)).points
    assert sum(k["flops"] for k in kernels) == pytest.approx(201e6)
    assert roofs_in_words(layers.roofs, "f32") == (
        "roofs of NVIDIA H100 80GB HBM3: f32 peak 67 TFLOP/s (hardware table), memory 3350 GB/s "
        "(hardware table), links 450 GB/s (hardware table)"
    )


def test_the_size_dependent_roof_of_collectives(tmp_path: Path) -> None:
    # All-reduces of 2 ranks (k = 1) that take 5 µs and 1 µs for each 10 000 bytes (10 GB/s).
    sizes = (10_000, 100_000, 1_000_000)
    opened = dataset(
        tmp_path,
        collectives=[
            {
                "start_ns": 0, "end_ns": 5000 + size // 10, "kind": "all_reduce", "payload_bytes": size,
                "group_size": 2,
            }
            for size in sizes
        ],
    )  # fmt: skip
    fit = _one(opened, "roofline_bus")
    assert (fit["sizes"], fit["basis"], fit["k"]) == (3, "own", 1)
    assert fit["alpha_ns"] == pytest.approx(5000)
    assert fit["beta_bytes_per_s"] == pytest.approx(10e9)
    assert fit["error"] == pytest.approx(0, abs=1e-9)
    assert fit["best_bytes_per_s"] == pytest.approx(1e6 / 105e-6)


def test_a_dataset_without_anything(tmp_path: Path) -> None:
    opened = dataset(tmp_path, processes=[], sources=[])
    for metric in ("layer_roofline", "job_roofline", "roofline_points", "trajectory", "hardware_roofs"):
        assert run(opened, metric).table.num_rows == 0
