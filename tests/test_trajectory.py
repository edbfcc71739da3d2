"""Roofline trajectories: exponents, readings, knobs; the worked example."""

import json
from math import log, log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.errors import InputError, UsageError
from mdtrace.models.trajectory import Point, Segment, saturated, trajectory
from mdtrace.models.trajectory_runs import Run, of_runs, of_steps, rows
from rows import dataset
from shared import shared

positive = st.floats(1e-3, 1e3)


def _golden() -> dict[str, Any]:
    return json.loads(shared("spec", "golden.json").read_text())["trajectory"]


def _only(first: tuple[float, float, float], last: tuple[float, float, float], **roofs: float) -> Segment:
    """The segment between two points (knob, FLOP/s, FLOP/byte)."""
    a = Point("a", *first)
    b = Point("b", *last, **roofs)  # type: ignore[arg-type]
    return trajectory([a, b]).segments[0]


def test_the_worked_example() -> None:
    golden = _golden()
    roofs = golden["inputs"]
    points = [
        Point(
            str(knob), knob, rate * 1e9, intensity,
            peak_flops_per_s=roofs["peak_gflops"] * 1e9, memory_bytes_per_s=roofs["bandwidth_gb_s"] * 1e9,
        )
        for knob, rate, intensity in roofs["points"]
    ]  # fmt: skip
    found = trajectory(points)
    for segment, expected in zip(found.segments, golden["segments"], strict=True):
        exponents = (segment.e_performance, segment.e_intensity, segment.e_bandwidth)
        assert exponents == pytest.approx(expected, abs=1e-6)
    assert found.last_point == golden["last_point"]
    assert found.segments[0].reading == "straight up: ideal scaling, locality kept"
    assert found.segments[4].reading == (
        "up-left, 15 % of the ideal gain: locality lost, more bytes per FLOP; bandwidth saturated"
    )
    assert found.advice == "less than half of the ideal gain from 8 on"


@pytest.mark.parametrize(
    ("first", "last", "roofs", "says"),
    [
        ((1, 10, 4), (2, 20, 4), {}, "straight up: ideal scaling, locality kept"),
        ((1, 10, 4), (2, 14, 4), {}, "up, 49 % of the ideal gain: contention, imbalance or a serial part"),
        ((1, 10, 4), (2, 15, 3), {}, "up-left, 58 % of the ideal gain: locality lost, more bytes per FLOP"),
        ((1, 10, 4), (2, 20, 5), {}, "up-right, full gain: locality gained"),
        (
            (1, 10, 1), (2, 20, 2), {"memory_bytes_per_s": 10},
            "along the diagonal: bandwidth-bound, only intensity helps",
        ),
        ((1, 20, 2), (2, 20, 4), {"peak_flops_per_s": 20}, "right along the top: compute-bound"),
        ((1, 10, 4), (2, 8, 4), {}, "down: overhead or contention wins, stop scaling here"),
    ],
)  # fmt: skip
def test_readings(first: Any, last: Any, roofs: dict[str, float], says: str) -> None:
    assert _only(first, last, **roofs).reading == says


@given(*[positive] * 6)
def test_exponents_add_up(k: float, p0: float, p1: float, i0: float, i1: float, ratio: float) -> None:
    found = _only((k, p0, i0), (k * (1.01 + ratio), p1, i1))
    assert found.e_performance == pytest.approx(found.e_intensity + found.e_bandwidth, abs=1e-6)  # type: ignore[operator]
    assert found.e_performance == pytest.approx(log(p1 / p0) / log(1.01 + ratio))


def test_devices_that_work_alike_count_together() -> None:
    a = Point("2", 2, 10.0, 4.0, devices=2)
    b = Point("4", 4, 9.0, 4.0, devices=4)
    segment = trajectory([b, a], "gpus").segments[0]
    assert segment.e_performance == pytest.approx(1 + log2(0.9))
    assert segment.e_intensity == 0


def test_unknown_values_have_no_exponents() -> None:
    found = trajectory([Point("a", 1, None, None), Point("b", 2, 5.0, None), Point("c", 2, 5.0, 1.0)])
    assert [s.e_performance for s in found.segments] == [None, None]
    assert found.segments[1].reading.startswith("not known")
    assert trajectory([]).last_point == "no points"
    with pytest.raises(ValueError, match="positive"):
        trajectory([Point("a", 0, 1.0, 1.0)])


def test_saturation_by_each_roof() -> None:
    assert saturated(Point("a", 1, 96.0, 10.0, peak_flops_per_s=100)) == "compute"
    assert saturated(Point("a", 1, 96.0, 10.0, memory_bytes_per_s=10)) == "bandwidth"
    assert saturated(Point("a", 1, 96.0, 10.0, 4.0, bus_bytes_per_s=25)) == "network"
    assert saturated(Point("a", 1, 94.0, 10.0, 4.0, 1, 100, 10, 25)) is None


def test_steps_are_read_as_changes() -> None:
    points = [Point(f"step {i}", i, p, 4.0) for i, p in enumerate((10.0, 10.1, 5.0, 9.0))]
    found = trajectory(points, "step", in_time=True)
    assert [s.reading for s in found.segments] == [
        "steady", "slower at the same intensity", "faster at the same intensity",
    ]  # fmt: skip
    assert found.segments[1].e_performance == pytest.approx(log(5 / 10.1))
    assert found.advice is None


def _run(folder: Path, ranks: int, batch: int, time_ns: int, steps: int = 3) -> Run:
    """A job of one captured rank: each step one convolution of 1000·batch FLOP and 100·batch bytes."""
    host_ops = []
    device_ops = []
    costs = []
    for step in range(steps):
        start = 10_000 * step
        host_ops.append({
            "start_ns": start, "dur_ns": 10, "name": "aten::conv2d", "step": step, "layer_id": 0,
            "phase": "forward", "input_dims": f"[[{batch}, 3, 8, 8], [4, 3, 3, 3]]",
        })  # fmt: skip
        device_ops.append({
            "start_ns": start, "dur_ns": time_ns, "host_op_id": step, "step": step, "layer_id": 0,
            "phase": "forward",
        })  # fmt: skip
        costs.append({
            "host_op_id": step, "flops": 1000 * batch, "bytes": 100 * batch, "dtype": "f32",
            "model": "convolution", "compute_ns": time_ns, "device_ns": time_ns, "device_op_count": 1,
        })  # fmt: skip
    opened = dataset(
        folder,
        processes=[{"world_size": ranks}],
        devices=[{"device_id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        host_ops=host_ops,
        device_ops=device_ops,
        op_costs=costs,
        layers=[{"path": "net/conv", "name": "conv"}],
        steps=[{"step": s, "start_ns": 10_000 * s, "end_ns": 10_000 * s + 9_000} for s in range(steps)],
    )
    return Run(folder.name, opened)


def test_knobs_are_read_from_the_traces(tmp_path: Path) -> None:
    runs = [_run(tmp_path / "a", 2, 8, 1000), _run(tmp_path / "b", 4, 16, 1000)]
    (gpus,) = of_runs(runs)
    assert [(p.label, p.knob, p.devices) for p in gpus.points] == [("a", 2, 2), ("b", 4, 4)]
    (batch,) = of_runs(runs, "batch")
    assert [p.knob for p in batch.points] == [8, 16]
    assert all(p.intensity == 10 for p in batch.points)
    assert batch.segments[0].e_intensity == 0
    (given_values,) = of_runs(runs, "version", [3, 1])
    assert [p.label for p in given_values.points] == ["b", "a"]
    with pytest.raises(UsageError, match="traces do not tell"):
        of_runs(runs, "version")
    with pytest.raises(UsageError, match="3 values for 2"):
        of_runs(runs, "version", [1, 2, 3])


def test_a_run_that_does_not_tell_its_batch(tmp_path: Path) -> None:
    silent = Run("silent", dataset(tmp_path, device_ops=[{"start_ns": 0}]))
    with pytest.raises(InputError, match="silent: does not tell its batch"):
        of_runs([silent, silent], "batch")


def test_layers_have_trajectories_of_their_own(tmp_path: Path) -> None:
    runs = [_run(tmp_path / "a", 1, 8, 1000), _run(tmp_path / "b", 1, 16, 1500)]
    (found,) = of_runs(runs, "batch", layer="*conv")
    assert found.of == "net/conv forward"
    # 8 000 FLOP in 1 µs, 16 000 in 1.5 µs: the exponent is log2(2/1.5).
    assert found.segments[0].e_performance == pytest.approx(log2(2 / 1.5))
    assert of_runs(runs, "batch", layer="nothing*") == []


def test_steps_of_a_run(tmp_path: Path) -> None:
    one = _run(tmp_path / "a", 1, 8, 1000)
    (found,) = of_steps(one)
    assert [p.label for p in found.points] == ["step 0", "step 1", "step 2"]
    # The window of a step lasts until the next step's first kernel: 8 000 FLOP in 10 µs; the last one 1 µs.
    assert [p.flops_per_s for p in found.points] == pytest.approx([8e8, 8e8, 8e9])
    assert found.points[0].peak_flops_per_s == pytest.approx(67e12)
    (later,) = of_steps(one, steps=(1, 2))
    assert [(p.label, p.knob) for p in later.points] == [("step 1", 1), ("step 2", 2)]
    (layer,) = of_steps(one, steps=(1, 2), layer="net/*")
    assert [p.knob for p in layer.points] == [1, 2]
    (layer,) = of_steps(one, layer="net/*")
    assert [p.flops_per_s for p in layer.points] == pytest.approx([8e9, 8e9, 8e9])
    table = rows([found])
    assert [r["reading"] for r in table] == [None, "steady", "faster at the same intensity"]
