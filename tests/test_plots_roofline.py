"""Charts under the roofs: what is drawn from rows made by hand."""

import pyarrow as pa
import pytest

from mdtrace.plots import save
from mdtrace.plots.bounds import borders, three_bounds
from mdtrace.plots.points import shown, summed, why_none
from mdtrace.plots.roofline import roofline, time_size
from mdtrace.plots.roofs import roofs as merged
from mdtrace.plots.trajectory import trajectory
from plot_rows import drawn, layers_of, names, points, roofs

MEMORY = ("intensity_memory", "achieved_flops_per_s")


def test_ranks_are_summed_and_rates_follow_from_the_sums() -> None:
    (row,) = summed(
        points(
            {"rank": 0, "flops": 4e9, "bytes": 1e7, "device_ns": 1_000_000, "attainable_flops_per_s": 8e12},
            {
                "process_id": 1,
                "rank": 1,
                "flops": 4e9,
                "bytes": 3e7,
                "device_ns": 3_000_000,
                "coverage": 0.5,
                "attainable_flops_per_s": 8e12,
                "bound": "memory",
            },
        )
    )
    assert row["intensity_memory"] == 200
    assert row["achieved_flops_per_s"] == 2e12
    assert row["efficiency"] == 0.25
    assert row["bound"] == "memory"  # of three of four milliseconds
    assert row["coverage"] == 0.625
    assert row["ms"] == 4


def test_points_without_a_place_on_log_axes_are_left_out_and_counted() -> None:
    table = points(
        {"name": "whole", "device_ns": 6_000_000},
        {"name": "no bytes", "bytes": None, "device_ns": 2_000_000},
        {"name": "zero", "flops": 0, "device_ns": 2_000_000},
    )
    found = shown(table, MEMORY)
    assert names(list(found.rows)) == ["whole"]
    assert (found.left_out, found.time_left_out) == (2, 0.4)
    assert found.note == "1 point; 2 without a place here, 40 % of the time"
    spec = save.spec(roofline(table, roofs()))
    assert spec["title"]["subtitle"] == found.note
    assert names(drawn(spec, "point", "mark")[0]) == ["whole"]


def test_axes_are_logarithmic_and_area_is_time() -> None:
    spec = save.spec(roofline(points({}), roofs()))
    (mark,) = [m for m in layers_of(spec) if m["mark"].get("style") == "mark"]
    encoding = mark["encoding"]
    assert encoding["x"]["scale"]["type"] == encoding["y"]["scale"]["type"] == "log"
    assert encoding["size"]["field"] == "ms"
    assert encoding["color"]["scale"]["domain"] == ["compute"]
    assert {"picked", "bounds", "find"} <= {p["name"] for p in spec["params"]}


def test_roofs_meet_at_the_ridge() -> None:
    spec = save.spec(roofline(points({}), roofs(peak=100e12, memory=1e12)))
    (ridge,) = drawn(spec, "point", "ridge")[0]
    assert (ridge["x"], ridge["y"]) == (100, 100e12)
    line = drawn(spec, "line", "roof")[0]
    assert all(row["y"] == pytest.approx(min(100e12, row["x"] * 1e12), rel=1e-5) for row in line)
    assert {row["roof"] for row in line} == {"bf16 matrix 100 TFLOP/s", "memory 1 TB/s"}


def test_only_roofs_of_element_types_in_use_are_drawn_and_equal_ones_are_one() -> None:
    table = pa.concat_tables([
        roofs(),
        roofs().set_column(roofs().schema.get_field_index("dtype"), "dtype", pa.array(["f16", None, None])),
    ])  # fmt: skip
    assert [r.name for r in merged(table, "memory", ["bf16"]).compute] == ["bf16 matrix 100 TFLOP/s"]
    assert [r.name for r in merged(table, "memory").compute] == ["bf16 matrix, f16 matrix 100 TFLOP/s"]
    assert len(merged(table, "memory").slopes) == 1


def test_two_planes_share_what_is_picked() -> None:
    table = points({"wire_bytes": 1e5}, {"name": "local", "bound": "memory"})
    spec = save.spec(roofline(table, roofs(), ("memory", "communication")))
    assert len(spec["vconcat"]) == 2
    assert len([p for p in spec["params"] if p["name"] == "picked"]) == 1
    first, second = drawn(spec, "point", "mark")
    assert (len(first), names(second)) == (2, ["Net/Linear_0"])
    assert second[0]["x"] == 1e4  # FLOP per byte on the wire


def test_without_roofs_points_are_drawn_and_it_is_said() -> None:
    chart = roofline(points({}), roofs().slice(0, 0))
    spec = save.spec(chart)
    assert "no roof is known" in spec["title"]["subtitle"]
    assert len(drawn(spec, "point", "mark")[0]) == 1
    assert not drawn(spec, "line")


def test_no_points_at_all_draw_an_empty_plane() -> None:
    assert "0 points" in save.spec(roofline(points({}).slice(0, 0), roofs()))["title"]["subtitle"]


def test_ten_thousand_points_are_drawn_on_a_canvas_with_few_labels() -> None:
    table = points(
        *[{"name": f"layer {n}", "flops": 1e9 + n * 1e6, "device_ns": 1000 + n} for n in range(10_000)]
    )
    spec = save.spec(roofline(table, roofs()))
    assert spec["usermeta"]["embedOptions"]["renderer"] == "canvas"
    assert len(drawn(spec, "point", "mark")[0]) == 10_000
    assert sum(len(rows) for rows in drawn(spec, "text", "name")) <= 12


def test_borders_of_three_bounds() -> None:
    # P 15.7e12, β_m 900e9, β_c 10e9: ridges 17.4 FLOP/byte and 90 bytes of memory a byte on the wire.
    assert borders(15.7e12, 900e9, 10e9) == pytest.approx((17.4444, 90), rel=1e-5)
    table = points({"flops": 1e9, "bytes": 1e8, "wire_bytes": 1e6}, {"phase": "backward", "wire_bytes": 1e6})
    spec = save.spec(three_bounds(table, roofs(15.7e12, 900e9, 10e9)))
    (point,) = drawn(spec, "point")[0]
    assert point["x"] == pytest.approx(2e9 / 1.1e8, rel=1e-5)  # forward and backward summed
    assert point["y"] == pytest.approx(1.1e8 / 2e6, rel=1e-5)
    memory, compute, links = drawn(spec, "area")
    assert {row["low"] for row in memory} == {90.0}
    assert compute[0]["x"] == pytest.approx(17.4444, rel=1e-5)
    assert compute[1]["x"] * compute[1]["low"] == pytest.approx(15.7e12 / 10e9, rel=1e-4)
    assert links[0]["high"] == 90.0


def test_trajectory_joins_points_in_order_with_arrows() -> None:
    base = {"peak_flops_per_s": 1e14, "memory_bytes_per_s": 1e12, "of": "job", "point": "run"}
    rows = [
        {**base, "value": 8.0, "intensity_memory": 10.0, "flops_per_s": 1e12},
        {**base, "value": 16.0, "intensity_memory": 10.0, "flops_per_s": 1e13},  # straight up
        {**base, "value": 32.0, "intensity_memory": 100.0, "flops_per_s": 1e13},  # right
        {**base, "value": 64.0, "intensity_memory": None, "flops_per_s": 1e13},
    ]
    spec = save.spec(trajectory(pa.Table.from_pylist(rows), "gpus"))
    assert spec["title"]["subtitle"] == "3 points by gpus; 1 without FLOP or bytes left out"
    heads, dots = drawn(spec, "point")
    assert [round(head["angle"]) for head in heads] == [0, 90]
    assert [dot["label"] for dot in dots] == ["gpus 8", "gpus 16", "gpus 32"]
    assert heads[0]["y"] == pytest.approx(10**12.5, rel=1e-5)  # in the middle of the arrow


def test_why_a_plane_has_no_points() -> None:
    flops, wire = {"name": "a"}, {"name": "b", "flops": None, "bytes": None, "wire_bytes": 10}
    assert why_none(points(flops), "communication") == "no bytes on the wire are known"
    assert why_none(points(flops, wire), "communication") == "none has FLOP and bytes on the wire at once"
    assert why_none(points(wire), "memory") == "no FLOP and no bytes of memory are known"
    assert why_none(points(flops).slice(0, 0), "memory") == "nothing was accounted"


@pytest.mark.parametrize(("most", "told"), [(27.0, [2.0, 10.0, 20.0]), (0.7, [0.05, 0.25, 0.5]), (0.0, [])])
def test_the_legend_of_times_has_round_times_and_no_zero(most: float, told: list[float]) -> None:
    assert time_size([{"ms": most}]).to_dict()["legend"]["values"] == told
