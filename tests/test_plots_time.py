"""Charts of time, bandwidth, scaling and heat: what is drawn from rows made by hand."""

from typing import Any

import altair as alt
import pyarrow as pa
import pytest

from mdtrace.plots import save
from mdtrace.plots.bandwidth import bus_bandwidth
from mdtrace.plots.heat import slowdown_heat, straggler_heat
from mdtrace.plots.scaling import fusion_timeline, predicted_measured, scaling_curve
from mdtrace.plots.timeline import overlap_timeline, time_bars
from mdtrace.plots.values import log_axis
from plot_rows import drawn, roofs

STEP: dict[str, Any] = {
    "process_id": 0, "rank": 0, "device_id": 0, "step": 0, "compute_ns": 6_000_000, "overlap_ns": 2_000_000,
    "exposed_comm_ns": 1_000_000, "exposed_memory_ns": 0, "idle_ns": 3_000_000, "span_ns": 10_000_000,
}  # fmt: skip


def test_parts_of_a_step_follow_each_other_and_fill_it() -> None:
    rows = [{**STEP, "step": 1}, STEP, {**STEP, "process_id": 1, "rank": 1}, {**STEP, "step": None}]
    spec = save.spec(overlap_timeline(pa.Table.from_pylist(rows)))
    parts = drawn(spec, "bar")[0]
    first = [p for p in parts if p["rank"] == "0" and p["step"] == 0]
    assert [(p["what"], p["start"], p["end"]) for p in first] == [
        ("compute", 0, 4),
        ("compute and communication", 4, 6),
        ("exposed communication", 6, 7),
        ("idle", 7, 10),
    ]
    second = [p["start"] for p in parts if p["rank"] == "0" and p["step"] == 1]
    assert min(second) == 10
    assert {p["rank"] for p in parts} == {"0", "1"}
    assert spec["title"]["subtitle"].startswith("2 of 2 steps")


def test_steps_of_many_ranks_are_capped_and_it_is_said() -> None:
    rows = [{**STEP, "process_id": r, "rank": r, "step": s} for r in range(64) for s in range(60)]
    spec = save.spec(overlap_timeline(pa.Table.from_pylist(rows)))
    assert spec["title"]["subtitle"].startswith("25 of 60 steps")
    assert len({p["step"] for p in drawn(spec, "bar")[0]}) == 25


def test_time_of_ranks_as_shares() -> None:
    unknown = {**STEP, "process_id": 3, "rank": None}
    spec = save.spec(time_bars(pa.Table.from_pylist([STEP, unknown, {**STEP, "span_ns": None}])))
    shares = {(p["rank"], p["what"]): p["share"] for p in drawn(spec, "bar")[0]}
    assert shares[("0", "compute")] == 0.4
    assert shares[("capture 3", "idle")] == 0.3
    assert len(shares) == 8


def test_straggler_heat_shows_waiting_and_causing_apart() -> None:
    base = {"collectives": 4, "late_count": 0, "lost_ns": 3_000_000, "loss_ns": 0.0}
    late = {**base, "rank": 1, "lost_ns": 0, "loss_ns": 3e6, "late_count": 4}
    rows = [{**base, "rank": 0}, late]
    table = pa.Table.from_pylist([{**row, "step": s} for row in rows for s in (0, 1)])
    spec = save.spec(straggler_heat(table))
    cells = drawn(spec, "rect")[0]
    assert {(c["rank"], c["waited"], c["caused"]) for c in cells} == {(0, 3, 0), (1, 0, 3)}
    assert [part["encoding"]["color"]["field"] for part in spec["hconcat"]] == ["waited", "caused"]


SIZE: dict[str, Any] = {
    "kind": "all_reduce", "group_size": 8, "bucket_bytes": 1 << 20, "count": 3, "untimed": 0,
    "from_transfer": 3, "busbw_min_gb_s": 10.0, "busbw_median_gb_s": 20.0, "busbw_max_gb_s": 40.0,
}  # fmt: skip


def test_bus_bandwidth_against_size_with_limit_and_fit() -> None:
    unknown = {**SIZE, "bucket_bytes": None, "count": 2, "busbw_median_gb_s": None}
    fit = {"kind": "all_reduce", "k": 1.75, "alpha_ns": 100_000.0, "beta_bytes_per_s": 50e9}
    spec = save.spec(
        bus_bandwidth(pa.Table.from_pylist([SIZE, unknown]), roofs(bus=100e9), pa.Table.from_pylist([fit]))
    )
    assert spec["title"]["subtitle"] == "5 collectives; 2 of unknown size or time left out"
    (point,) = drawn(spec, "point")[0]
    assert (point["bandwidth"], point["least"], point["most"]) == (20e9, 10e9, 40e9)
    assert point["what"] == "all_reduce of 8"
    limit = drawn(spec, "rule", "limit")[0]
    assert [row["bandwidth"] for row in limit] == [100e9]
    for row in drawn(spec, "line")[0]:
        wire = 1.75 * row["bytes"]
        assert row["bandwidth"] == pytest.approx(wire / (1e-4 + wire / 50e9), rel=1e-4)


def test_times_that_hold_waiting_are_marked() -> None:
    spec = save.spec(bus_bandwidth(pa.Table.from_pylist([{**SIZE, "from_transfer": 1}]), roofs()))
    assert drawn(spec, "point")[0][0]["time"] == "whole collective, waiting included"


def test_scaling_has_measured_points_where_they_are_known() -> None:
    base = {"error": None, "run": None, "costs_most": "bandwidth"}
    rows = [
        {**base, "gpus": 8, "step_ns": 100_000_000, "scaling_factor": 0.8, "measured_ns": 125_000_000},
        {**base, "gpus": 16, "step_ns": 200_000_000, "scaling_factor": 0.4, "measured_ns": None},
        {**base, "gpus": 32, "step_ns": None, "scaling_factor": None, "measured_ns": None},
    ]
    spec = save.spec(scaling_curve(pa.Table.from_pylist(rows)))
    lines, dots = drawn(spec, "line"), drawn(spec, "point")
    assert [row["gpus"] for row in lines[0]] == [8, 16]
    assert dots[0][0]["measured_factor"] == pytest.approx(0.64)  # 0.8 × 100/125
    assert dots[1][0]["measured"] == 125


def test_predicted_against_measured_counts_what_it_lacks() -> None:
    rows = [
        {"name": "a", "measured_ns": 100, "predicted_ns": 110},
        {"name": "b", "measured_ns": 100, "predicted_ns": None},
    ]
    spec = save.spec(predicted_measured(pa.Table.from_pylist(rows)))
    assert spec["title"]["subtitle"] == "1 of 2 points; mean error 10 %"
    assert drawn(spec, "point")[0][0]["error"] == pytest.approx(0.1)


def test_fusion_plans_in_time() -> None:
    row = {
        "plan": "today", "bucket": 0, "gradients": 3, "first": "fc.weight", "last": "fc.bias", "bytes": 4096,
        "ready_ns": 1_000_000, "start_ns": 2_000_000, "end_ns": 5_000_000,
    }  # fmt: skip
    spec = save.spec(fusion_timeline(pa.Table.from_pylist([row, {**row, "plan": "best"}])))
    bars = drawn(spec, "bar")[0]
    assert [(b["plan"], b["ready"], b["start"], b["end"]) for b in bars] == [
        ("today", 1, 2, 5), ("best", 1, 2, 5),
    ]  # fmt: skip


def test_slowdown_by_rank_and_operation() -> None:
    base = {"dp_rank": 0, "stage": 1, "op_type": "forward", "work_ns": 3e6, "ideal_work_ns": 2e6}
    rows = [
        {**base, "rank": 4, "ratio": 1.5},
        {**base, "rank": None, "ratio": 1.0},
        {**base, "rank": 5, "ratio": None},
    ]
    cells = drawn(save.spec(slowdown_heat(pa.Table.from_pylist(rows))), "rect")[0]
    assert [(c["worker"], c["ratio"]) for c in cells] == [("4", 1.5), ("dp 0 · stage 1", 1.0)]


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        (1.0, 1e6, [10.0**p for p in range(7)]),
        (1.0, 20.0, [1, 2, 5, 10, 20]),
        (180.0, 290.0, [180, 200, 220, 240, 260, 280]),
        (96.0, 104.0, [96, 98, 100, 102, 104]),
    ],
)
def test_a_log_axis_has_lines_in_any_range(low: float, high: float, values: list[float]) -> None:
    axis = log_axis(alt.Scale(type="log", domain=[low, high], nice=False))
    assert axis.values == pytest.approx(values)
