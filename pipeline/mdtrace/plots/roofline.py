"""Log-log roofs with points under them: the memory plane and the communication plane.

S. Williams, A. Waterman, D. Patterson: Roofline, CACM 52(4), 2009; the communication plane has the
bytes on the wire in place of those of memory.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pyarrow as pa

from mdtrace.plots import labels
from mdtrace.plots.points import Plane, Shown, shown, summed
from mdtrace.plots.roofs import Roofs, lines, roofs
from mdtrace.plots.theme import BOUND_COLOURS
from mdtrace.plots.values import Row, Size, data, log_axis, log_scale, place

_LABELS = 12
BIGGEST = 800  # square pixels of the point of most time
_AXES: dict[Plane, tuple[str, str]] = {
    "memory": ("intensity_memory", "FLOP per byte of device memory"),
    "communication": ("intensity_communication", "FLOP per byte on the wire"),
}
_TITLES: dict[Plane, str] = {
    "memory": "Under the roofs of compute and memory",
    "communication": "Under the roofs of compute and links",
}
_SHAPES = {
    "forward": "circle", "backward": "triangle-up", "optimizer": "square", "all": "circle",
    "not known": "diamond",
}  # fmt: skip


def roofline(
    points: pa.Table,
    hardware: pa.Table,
    planes: Sequence[Plane] = ("memory",),
    size: Size = Size(),  # noqa: B008 - frozen
) -> alt.LayerChart | alt.VConcatChart:
    """Points under the roofs, one plane or several above each other; a layer picked in one is picked in all.

    Args:
        points: rows of `roofline_points` or `layer_roofline`; ranks are summed.
        hardware: rows of `hardware_roofs`.
    """
    pick = Pick.new(summed(points))
    charts = [_plane(points, hardware, plane, size, pick) for plane in planes]
    if len(charts) == 1:
        return charts[0]
    with warnings.catch_warnings():
        # One selection in several planes is what is wanted.
        warnings.filterwarnings("ignore", "Automatically deduplicated selection")
        return alt.vconcat(*charts, spacing=36)


def on_plane(points: pa.Table, plane: Plane) -> Shown:
    """The points that a plane has a place for."""
    return shown(points, (_AXES[plane][0], "achieved_flops_per_s"))


@dataclass(frozen=True)
class Pick:
    """How a reader tells and picks points: by colour, by click, by the legend, by a part of the name."""

    rows: Sequence[Row]
    name: Any
    bound: Any
    find: Any

    @classmethod
    def new(cls, rows: Sequence[Row]) -> "Pick":
        """A fresh one, to be shared by the planes of one chart, whose points are `rows`."""
        box = alt.binding(input="text", name="Find a name: ", placeholder="part of it")
        return cls(
            rows,
            alt.selection_point(name="picked", fields=["name"], on="click", clear="dblclick"),
            alt.selection_point(name="bounds", fields=["bound"], bind="legend"),
            alt.param(name="find", value="", bind=box),
        )

    def all(self) -> tuple[Any, Any, Any]:
        """The parameters, for the layer that is picked from."""
        return self.name, self.bound, self.find

    def opacity(self) -> alt.Opacity:
        """Points not picked fade."""
        found = alt.expr.indexof(alt.expr.lower(alt.datum.name), alt.expr.lower(self.find)) >= 0
        return alt.when(self.name & self.bound & found).then(alt.value(0.85)).otherwise(alt.value(0.07))


@dataclass(frozen=True)
class _Frame:
    """Scales of a plane."""

    x: alt.Scale
    y: alt.Scale
    size: Size

    def pixels(self, x: float, y: float) -> tuple[float, float]:
        return place(x, self.x, self.size.pixels), place(y, self.y, self.size.height)


def _plane(points: pa.Table, hardware: pa.Table, plane: Plane, size: Size, pick: Pick) -> alt.LayerChart:
    key, title = _AXES[plane]
    found = on_plane(points, plane)
    above = roofs(hardware, plane, sorted({row["dtype"] for row in pick.rows if row["dtype"]}))
    rows = [{**row, "x": row[key], "y": row["achieved_flops_per_s"]} for row in found.rows]
    frame = _frame(rows, above, size)
    room = labels.Room(size.pixels, size.height)
    x = alt.X("x:Q", scale=frame.x, title=title, axis=log_axis(frame.x))
    y = alt.Y("y:Q", scale=frame.y, title="FLOP/s", axis=log_axis(frame.y))
    spots = [labels.Spot(*frame.pixels(r["x"], r["y"]), radius(r, rows), r["label"]) for r in rows]
    labels.block(spots, room)
    layers = [*_roof_layers(above, frame, room, x, y), _marks(rows, x, y, pick, plane)]
    layers += name_layers(rows, spots, room, _LABELS, x, y, pick)
    note = found.note if above.compute or above.slopes else f"{found.note}; no roof is known: give --hardware"
    return alt.layer(*layers).properties(
        title=alt.TitleParams(_TITLES[plane], subtitle=note), width=size.width, height=size.height
    )


def _frame(rows: Sequence[Row], above: Roofs, size: Size) -> _Frame:
    xs = [row["x"] for row in rows] + above.ridges
    ys = [row["y"] for row in rows] + [roof.per_s for roof in above.compute]
    if not rows and above.ridges:
        ys += [min(above.ridges) / 100 * above.slopes[0].per_s]
    return _Frame(log_scale(xs, 3), log_scale(ys, 2), size)


def _roof_layers(above: Roofs, frame: _Frame, room: labels.Room, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    low, high = frame.x.domain
    rows = lines(above, low, high)
    if not rows:
        return []
    for start, end in zip(rows[::2], rows[1::2], strict=True):
        room.line(frame.pixels(start["x"], start["y"]), frame.pixels(end["x"], end["y"]))
    line = alt.Chart(data(rows)).mark_line(style="roof", clip=True)
    tooltip = [alt.Tooltip("roof:N", title="roof"), alt.Tooltip("source:N", title="from")]
    drawn = line.encode(x=x, y=y, detail="roof:N", order="order:Q", tooltip=tooltip)
    ridges = [
        {"x": ridge, "y": roof.per_s, "roof": roof.name}
        for ridge, roof in zip(above.ridges, above.compute, strict=False)
    ]
    corner = alt.Chart(data(ridges)).mark_point(style="ridge", shape="diamond", size=60, opacity=1)
    ridge_tip = [
        alt.Tooltip("roof:N", title="ridge of"),
        alt.Tooltip("x:Q", title="FLOP/byte", format=",.4~r"),
    ]
    return [
        drawn,
        corner.encode(x=x, y=y, tooltip=ridge_tip),
        *_roof_names(above, frame, room, x, y),
    ]


def _roof_names(above: Roofs, frame: _Frame, room: labels.Room, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    low, high = frame.x.domain
    ends: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for roof in above.compute:
        ridge = min(max(roof.per_s / above.slopes[0].per_s, low), high) if above.slopes else low
        right, left = frame.pixels(high, roof.per_s), frame.pixels(ridge, roof.per_s)
        for align, (px, py), dx, dy in (
            ("right", right, -4, 9),
            ("left", left, 24, 9),
            ("right", right, -4, -9),
            ("left", left, 24, -9),
        ):
            if room.take(px + dx, py + dy, roof.name, right=align == "right"):
                at = high if align == "right" else ridge
                ends.setdefault((align, dx, -dy), []).append({"x": at, "y": roof.per_s, "text": roof.name})
                break
    for slope in above.slopes:
        start = max(low, frame.y.domain[0] / slope.per_s) * 1.5
        px, py = frame.pixels(start, start * slope.per_s)
        if room.take(px + 14, py - 8, slope.name):
            ends.setdefault(("left", 14, 8), []).append(
                {"x": start, "y": start * slope.per_s, "text": slope.name}
            )
    return [
        alt.Chart(data(rows))
        .mark_text(style="roof-name", align=align, dx=dx, dy=dy)
        .encode(x=x, y=y, text="text:N")
        for (align, dx, dy), rows in ends.items()
    ]


def _marks(rows: Sequence[Row], x: alt.X, y: alt.Y, pick: Pick, plane: Plane) -> alt.Chart:
    chart = alt.Chart(data(_told(rows))).mark_point(style="mark", filled=True, strokeWidth=0.5)
    return chart.encode(
        x=x,
        y=y,
        color=bound_colour(pick.rows),
        shape=_phase_shape(pick.rows),
        size=time_size(rows),
        opacity=pick.opacity(),
        tooltip=tooltip(),
    ).add_params(*pick.all(), alt.selection_interval(name=f"zoom_{plane}", bind="scales"))


def bound_colour(rows: Sequence[Row]) -> alt.Color:
    """Colour by what binds; only what occurs is in the legend."""
    bounds = [b for b in BOUND_COLOURS if any(row["bound"] == b for row in rows)] or ["not known"]
    scale = alt.Scale(domain=bounds, range=[BOUND_COLOURS[b] for b in bounds])
    return alt.Color("bound:N", scale=scale, title="bound by")


def _phase_shape(rows: Sequence[Row]) -> alt.Shape:
    phases = [p for p in _SHAPES if any(row["phase"] == p for row in rows)] or ["not known"]
    scale = alt.Scale(domain=phases, range=[_SHAPES[p] for p in phases])
    return alt.Shape("phase:N", scale=scale, title="phase")


def time_size(rows: Sequence[Row]) -> alt.Size:
    """Area by time; `rows` has the most time first."""
    scale = alt.Scale(range=[20, BIGGEST])
    legend = alt.Legend(values=_round_times(rows[0]["ms"] if rows else 0.0), format=",.4~r")
    return alt.Size("ms:Q", title="time, ms", scale=scale, legend=legend)


def _round_times(most: float) -> list[float]:
    """The greatest 1, 2 or 5 of a power of ten up to the most time, a half and a tenth of it."""
    if most <= 0:
        return []
    power = 10.0 ** math.floor(math.log10(most))
    top = max((s * power for s in (1, 2, 5) if s * power <= most), default=power)
    return [float(f"{top * part:.3g}") for part in (0.1, 0.5, 1)]


def _told(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Without what only labels need."""
    return [{k: v for k, v in row.items() if k != "label"} for row in rows]


def tooltip() -> list[alt.Tooltip]:
    """What a point tells when it is pointed at."""
    return [
        alt.Tooltip("name:N", title="name"),
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip("bound:N", title="bound by"),
        alt.Tooltip("ms:Q", title="time, ms", format=",.4~r"),
        alt.Tooltip("calls:Q", title="calls", format=","),
        alt.Tooltip("dtype:N", title="element type"),
        alt.Tooltip("flops:Q", title="FLOP", format=".4s"),
        alt.Tooltip("bytes:Q", title="bytes of memory", format=".4s"),
        alt.Tooltip("wire_bytes:Q", title="bytes on the wire", format=".4s"),
        alt.Tooltip("achieved_flops_per_s:Q", title="achieved, FLOP/s", format=".4s"),
        alt.Tooltip("attainable_flops_per_s:Q", title="attainable, FLOP/s", format=".4s"),
        alt.Tooltip("efficiency:Q", title="efficiency", format=".1%"),
        alt.Tooltip("coverage:Q", title="coverage", format=".1%"),
    ]


def radius(row: Row, rows: Sequence[Row]) -> float:
    """Of a point, in pixels, as `time_size` draws it; `rows` has the most time first."""
    share: float = row["ms"] / rows[0]["ms"] if rows[0]["ms"] else 0.0
    return math.sqrt((20 + share * (BIGGEST - 20)) / math.pi)


def name_layers(
    rows: Sequence[Row],
    spots: Sequence[labels.Spot],
    room: labels.Room,
    most: int,
    x: alt.X,
    y: alt.Y,
    pick: Pick,
) -> list[alt.Chart]:
    """Labels of the points of most time, where there is room; one for each name."""
    sides = labels.beside(spots, room, most)
    charts = []
    for side, align, sign in (("right", "left", 1), ("left", "right", -1)):
        picked = [_label(rows[n], sign * spots[n].reach) for n, where in sides.items() if where == side]
        if picked:
            mark = alt.Chart(data(picked)).mark_text(
                style="name", align=align, dx=alt.ExprRef("datum.dx"), baseline="middle"
            )
            charts.append(mark.encode(x=x, y=y, text="label:N", opacity=pick.opacity()))
    return charts


def _label(row: Row, dx: float) -> dict[str, Any]:
    return {**{key: row[key] for key in ("x", "y", "label", "name", "bound")}, "dx": dx}
