"""Roofline trajectories: where the job moves under its roofs as a knob is turned, or from step to step."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from mdtrace.plots import labels
from mdtrace.plots.points import Plane
from mdtrace.plots.theme import SERIES
from mdtrace.plots.values import Row, Size, data, log_axis, log_scale, place, positive, si

_KEYS: dict[Plane, tuple[str, str, str]] = {
    "memory": ("intensity_memory", "memory_bytes_per_s", "FLOP per byte of device memory"),
    "communication": ("intensity_communication", "bus_bytes_per_s", "FLOP per byte on the wire"),
}
_LABELS = 24


def trajectory(
    points: pa.Table,
    knob: str,
    plane: Plane = "memory",
    size: Size = Size(),  # noqa: B008 - frozen
) -> alt.LayerChart:
    """Points joined by arrows in the order of the rows, with the knob's value at each; the roofs behind.

    Args:
        points: intensity_memory or intensity_communication, flops_per_s, peak_flops_per_s, memory_bytes_per_s
            or bus_bytes_per_s, and `value` (else a column of the name `knob`): the knob's. `point` and `of`
            (both optional): the name of the run, and what moves; each has a path of its own. Points without
            a place on the log axes are left out and counted.
    """
    key, slope, title = _KEYS[plane]
    every = points.to_pylist()
    rows = [
        {
            "x": row[key],
            "y": row["flops_per_s"],
            "label": _label(row["value"] if "value" in row else row[knob], knob),
            "run": row.get("point") or "",
            "of": row.get("of") or "job",
            "order": n,
        }
        for n, row in enumerate(every)
        if positive(row[key]) and positive(row["flops_per_s"])
    ]
    roofs = _roofs(every, slope)
    xs = log_scale([r["x"] for r in rows] + [p / b for p, b in roofs], 4)
    ys = log_scale([r["y"] for r in rows] + [p for p, _ in roofs], 3)
    x = alt.X("x:Q", scale=xs, title=title, axis=log_axis(xs))
    y = alt.Y("y:Q", scale=ys, title="FLOP/s of a device", axis=log_axis(ys))
    frame = (xs, ys, size)
    left = len(every) - len(rows)
    sides = _sides(rows, frame)
    unnamed = len({r["label"] for r in rows} - {rows[n]["label"] for n in sides})
    note = (
        f"{len(rows)} points by {knob}"
        + (f"; {left} without FLOP or bytes left out" if left else "")
        + (f"; {unnamed} without room for a name" if unnamed else "")
    )
    layers = [*_roof_layers(roofs, frame, x, y), *_path(rows, frame, x, y, knob), *_names(rows, sides, x, y)]
    return alt.layer(*layers).properties(
        title=alt.TitleParams("Trajectory under the roofs", subtitle=note),
        width=size.width,
        height=size.height,
    )


_Frame = tuple[alt.Scale, alt.Scale, Size]


def _label(value: Any, knob: str) -> str:
    if isinstance(value, float):
        value = f"{value:.6g}"
    return f"{knob} {value}"


def _roofs(rows: Sequence[Row], slope: str) -> list[tuple[float, float]]:
    """Peak and bandwidth, each pair that occurs once."""
    pairs = {(row["peak_flops_per_s"], row[slope]) for row in rows}
    return sorted((p, b) for p, b in pairs if positive(p) and positive(b))


def _pixels(row: Row, frame: _Frame) -> tuple[float, float]:
    xs, ys, size = frame
    return place(row["x"], xs, size.pixels), place(row["y"], ys, size.height)


def _roof_layers(roofs: Sequence[tuple[float, float]], frame: _Frame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    low, high = frame[0].domain
    rows, names = [], []
    for n, (peak, bandwidth) in enumerate(roofs):
        for order, at in enumerate((low, peak / bandwidth, high)):
            rows.append({"roof": n, "order": order, "x": at, "y": min(peak, at * bandwidth)})
        text = f"{si(peak, 'FLOP/s')}, {si(bandwidth, 'B/s')}"
        names.append({"x": high, "y": peak, "text": text})
    if not rows:
        return []
    line = alt.Chart(data(rows)).mark_line(style="roof", clip=True)
    name = alt.Chart(data(names)).mark_text(style="roof-name", align="right", dx=-4, dy=-9)
    return [
        line.encode(x=x, y=y, detail="roof:N", order="order:Q"),
        name.encode(x=x, y=y, text="text:N"),
    ]


def _path(rows: Sequence[Row], frame: _Frame, x: alt.X, y: alt.Y, knob: str) -> list[alt.Chart]:
    things = list(dict.fromkeys(row["of"] for row in rows)) or ["job"]
    scale = alt.Scale(domain=things, range=[SERIES[n % len(SERIES)] for n in range(len(things))])
    legend = alt.Legend(title=None, symbolOpacity=1) if len(things) > 1 else None
    colour = alt.Color("of:N", scale=scale, legend=legend)
    line = alt.Chart(data(rows)).mark_line(strokeWidth=2, opacity=0.7)
    heads = alt.Chart(data(_heads(rows, frame))).mark_point(shape="wedge", filled=True, size=220, opacity=1)
    dots = alt.Chart(data(rows)).mark_point(style="mark", filled=True, size=60, opacity=1)
    tooltip = [
        alt.Tooltip("of:N", title="of"),
        alt.Tooltip("run:N", title="run"),
        alt.Tooltip("label:N", title=knob),
        alt.Tooltip("x:Q", title="intensity, FLOP/byte", format=",.4~r"),
        alt.Tooltip("y:Q", title="FLOP/s", format=".4s"),
    ]
    turned = alt.Angle("angle:Q", scale=alt.Scale(domain=[0, 360], range=[0, 360]), legend=None)
    return [
        line.encode(x=x, y=y, order="order:Q", color=colour, detail="of:N"),
        heads.encode(x=x, y=y, angle=turned, color=colour),
        dots.encode(x=x, y=y, color=colour, tooltip=tooltip),
    ]


def _heads(rows: Sequence[Row], frame: _Frame) -> list[dict[str, Any]]:
    """An arrow head in the middle of each segment: place and angle, clockwise from up, in degrees."""
    heads = []
    for start, end in itertools.pairwise(rows):
        (x0, y0), (x1, y1) = _pixels(start, frame), _pixels(end, frame)
        if start["of"] != end["of"] or math.hypot(x1 - x0, y1 - y0) < 14:
            continue
        angle = math.degrees(math.atan2(x1 - x0, y1 - y0)) % 360
        middle = {k: math.sqrt(start[k] * end[k]) for k in ("x", "y")}
        heads.append({**middle, "angle": angle, "of": start["of"]})
    return heads


def _sides(rows: Sequence[Row], frame: _Frame) -> dict[int, str]:
    """By the number of the point, on which side its label has room."""
    room = labels.Room(frame[2].pixels, frame[2].height)
    spots = [labels.Spot(*_pixels(row, frame), 5, row["label"]) for row in rows]
    labels.block(spots, room)
    return labels.beside(spots, room, _LABELS)


def _names(rows: Sequence[Row], sides: dict[int, str], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    charts = []
    for side, align, dx in (("right", "left", 10), ("left", "right", -10)):
        picked = [rows[n] for n, where in sides.items() if where == side]
        if picked:
            text = alt.Chart(data(picked)).mark_text(style="name", align=align, dx=dx, baseline="middle")
            charts.append(text.encode(x=x, y=y, text="label:N"))
    return charts
