"""All three roofs at once: x = F/B, y = B/C, and the borders between what binds.

With P, β_m, β_c the peaks of compute, memory and links: memory binds left of x = P/β_m and above y = β_m/β_c,
the links below that and under x·y = P/β_c, compute in the rest. The three borders meet in one point.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from mdtrace.plots import labels
from mdtrace.plots.points import Shown, shown
from mdtrace.plots.roofline import Pick, bound_colour, name_layers, radius, time_size, tooltip
from mdtrace.plots.roofs import roofs
from mdtrace.plots.theme import BLUE, GREEN, ORANGE
from mdtrace.plots.values import Row, Size, data, log_axis, log_scale, place

_LABELS = 10


def borders(peak: float, memory: float, bus: float) -> tuple[float, float]:
    """Where the three regions meet: x = P/β_m, y = β_m/β_c; peaks in FLOP/s and byte/s."""
    return peak / memory, memory / bus


def within_bounds(points: pa.Table) -> Shown:
    """The points that the plane of three bounds has a place for."""
    return shown(points, ("intensity_memory", "bytes_per_wire_byte"), phases=False)


def three_bounds(points: pa.Table, hardware: pa.Table, size: Size = Size()) -> alt.LayerChart:  # noqa: B008
    """Points on the plane of F/B and B/C, forward and backward of a layer summed, over the three regions.

    Args:
        points: rows of `layer_roofline` or `roofline_points`; ranks are summed. What has nothing on the wire
            has no place and is counted.
        hardware: rows of `hardware_roofs`.
    """
    found = within_bounds(points)
    rows = [{**row, "x": row["intensity_memory"], "y": row["bytes_per_wire_byte"]} for row in found.rows]
    dtypes = _main_dtype(rows)
    compute, memory = roofs(hardware, "memory", dtypes).compute, roofs(hardware, "memory").slopes
    bus = roofs(hardware, "communication").slopes
    meet = borders(compute[0].per_s, memory[0].per_s, bus[0].per_s) if compute and memory and bus else None
    xs = log_scale([r["x"] for r in rows] + _one(meet, 0), 6)
    ys = log_scale([r["y"] for r in rows] + _one(meet, 1), 6)
    x = alt.X("x:Q", scale=xs, title="F/B: FLOP per byte of device memory", axis=log_axis(xs))
    y = alt.Y("y:Q", scale=ys, title="B/C: bytes of device memory per byte on the wire", axis=log_axis(ys))
    layers = [*(_regions(meet, xs, ys, x) if meet else []), *_marks(rows, xs, ys, x, y, size)]
    roof = f"borders for {compute[0].name}" if meet and compute else "a roof is not known: no borders"
    title = alt.TitleParams("What binds: three roofs at once", subtitle=f"{found.note}; {roof}")
    return alt.layer(*layers).properties(title=title, width=size.width, height=size.height)


def _one(meet: tuple[float, float] | None, axis: int) -> list[float]:
    return [meet[axis]] if meet else []


def _main_dtype(rows: Sequence[Row]) -> list[str]:
    """The element type of most FLOP."""
    flops: dict[str, float] = {}
    for row in rows:
        if row["dtype"]:
            flops[row["dtype"]] = flops.get(row["dtype"], 0) + (row["flops"] or 0)
    return [max(flops, key=lambda d: flops[d])] if flops else []


def _regions(meet: tuple[float, float], xs: alt.Scale, ys: alt.Scale, x: alt.X) -> list[alt.Chart]:
    (x0, x1), (y0, y1) = xs.domain, ys.domain
    corner_x, corner_y = meet
    stop = min(x1, corner_x * corner_y / y0)  # where the border of compute and links leaves the chart
    edge = max(y0, corner_x * corner_y / x1)
    memory = [_span(x0, corner_y, y1), _span(corner_x, corner_y, y1)]
    compute = [_span(corner_x, corner_y, y1), _span(stop, edge, y1), _span(x1, edge, y1)]
    links = [_span(x0, y0, corner_y), _span(corner_x, y0, corner_y), _span(stop, y0, edge)]
    areas = ((memory, GREEN), (compute, BLUE), (links, ORANGE))
    charts = [_area(rows, colour, x, ys) for rows, colour in areas]
    names = [
        {"x": x0 * 1.3, "y": y1 / 1.5, "text": "memory binds", "align": "left"},
        {"x": x1 / 1.3, "y": y1 / 1.5, "text": "compute binds", "align": "right"},
        {"x": x0 * 1.3, "y": y0 * 1.5, "text": "links bind", "align": "left"},
    ]
    for align in ("left", "right"):
        rows = [row for row in names if row["align"] == align]
        text = alt.Chart(data(rows)).mark_text(style="roof-name", align=align, fontSize=13)
        charts.append(text.encode(x=x, y=alt.Y("y:Q", scale=ys), text="text:N"))
    return charts


def _span(x: float, low: float, high: float) -> dict[str, Any]:
    return {"x": x, "low": low, "high": high}


def _area(rows: list[dict[str, Any]], colour: str, x: alt.X, ys: alt.Scale) -> alt.Chart:
    mark = alt.Chart(data(rows)).mark_area(color=colour, opacity=0.13, line=False, clip=True)
    return mark.encode(x=x, y=alt.Y("low:Q", scale=ys), y2="high:Q")


def _marks(
    rows: Sequence[Row], xs: alt.Scale, ys: alt.Scale, x: alt.X, y: alt.Y, size: Size
) -> list[alt.Chart]:
    pick = Pick.new(rows)
    marks = alt.Chart(data(rows)).mark_point(style="mark", filled=True, strokeWidth=0.5)
    drawn = marks.encode(
        x=x, y=y, color=bound_colour(rows), size=time_size(rows), opacity=pick.opacity(), tooltip=tooltip()
    ).add_params(*pick.all(), alt.selection_interval(name="zoom", bind="scales"))
    room = labels.Room(size.pixels, size.height)
    spots = [
        labels.Spot(
            place(r["x"], xs, size.pixels), place(r["y"], ys, size.height), radius(r, rows), r["label"]
        )
        for r in rows
    ]
    labels.block(spots, room)
    return [drawn, *name_layers(rows, spots, room, _LABELS, x, y, pick)]
