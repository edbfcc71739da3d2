"""Scaling curves with measured points, fusion plans in time, predicted against measured."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from mdtrace.plots.theme import BLUE, ORANGE, VERMILLION
from mdtrace.plots.values import Row, Size, data, log_axis, log_scale, positive

_MS = 1e6


def scaling_curve(points: pa.Table, size: Size = Size()) -> alt.VConcatChart:  # noqa: B008 - frozen
    """Scaling factor and step time by number of GPUs, predicted as lines, measured as points.

    Args:
        points: rows of `scaling_study.table`: gpus, step_ns, scaling_factor, measured_ns, error, run; those
            without a prediction are left out.
    """
    rows = [_scaled(row) for row in points.to_pylist() if positive(row["step_ns"])]
    counts = sorted({row["gpus"] for row in rows})
    x = alt.X(
        "gpus:Q",
        title="GPUs",
        scale=alt.Scale(type="log", base=2, nice=False, padding=24),
        axis=alt.Axis(values=counts, format="d"),
    )
    height = size.height // 2
    factor = _curve(rows, x, "factor", "measured_factor", "scaling factor", "%")
    time = _curve(rows, x, "step", "measured", "step, ms", "~r")
    top = factor.properties(width=size.width, height=height, title="Scaling: predicted and measured")
    return alt.vconcat(top, time.properties(width=size.width, height=height), spacing=24)


def _scaled(row: Row) -> dict[str, Any]:
    measured = row["measured_ns"]
    ratio = row["step_ns"] / measured if positive(measured) else None
    return {
        "gpus": row["gpus"],
        "step": row["step_ns"] / _MS,
        "factor": row["scaling_factor"],
        "measured": measured / _MS if measured else None,
        "measured_factor": row["scaling_factor"] * ratio if ratio and row["scaling_factor"] else None,
        "error": row["error"],
        "run": row["run"],
        "costs_most": row["costs_most"],
    }


def _curve(rows: Sequence[Row], x: alt.X, key: str, measured: str, title: str, form: str) -> alt.LayerChart:
    y = alt.Y(f"{key}:Q", title=title, axis=alt.Axis(format=form), scale=alt.Scale(zero=True))
    tooltip = [
        alt.Tooltip("gpus:Q", title="GPUs"),
        alt.Tooltip("factor:Q", title="scaling factor", format=".1%"),
        alt.Tooltip("step:Q", title="predicted step, ms", format=",.4~r"),
        alt.Tooltip("measured:Q", title="measured step, ms", format=",.4~r"),
        alt.Tooltip("error:Q", title="error", format="+.1%"),
        alt.Tooltip("costs_most:N", title="costs most"),
        alt.Tooltip("run:N", title="run"),
    ]
    base = alt.Chart(data(rows)).encode(x=x)
    line = base.mark_line(color=BLUE, point=alt.OverlayMarkDef(color=BLUE, size=40)).encode(
        y=y, tooltip=tooltip
    )
    seen = [row for row in rows if row[measured] is not None]
    if not seen:
        return alt.layer(line)
    dots = alt.Chart(data(seen)).mark_point(
        shape="diamond", size=130, filled=True, color=VERMILLION, opacity=1
    )
    return alt.layer(line, dots.encode(x=x, y=alt.Y(f"{measured}:Q", title=title), tooltip=tooltip))


def fusion_timeline(buckets: pa.Table, size: Size = Size()) -> alt.LayerChart:  # noqa: B008 - frozen
    """When each plan's buckets are ready and travel.

    Args:
        buckets: rows of `fusion_study.timeline`: plan, bucket, gradients, first, last, bytes, ready_ns,
            start_ns, end_ns.
    """
    rows = [
        {**row, "ready": row["ready_ns"] / _MS, "start": row["start_ns"] / _MS, "end": row["end_ns"] / _MS}
        for row in buckets.to_pylist()
    ]
    plans = list(dict.fromkeys(row["plan"] for row in rows))
    y = alt.Y("plan:N", sort=plans, title=None, axis=alt.Axis(labelLimit=220))
    tooltip = [
        alt.Tooltip("plan:N"),
        alt.Tooltip("bucket:Q"),
        alt.Tooltip("gradients:Q"),
        alt.Tooltip("bytes:Q", format=".4s"),
        alt.Tooltip("first:N", title="first gradient"),
        alt.Tooltip("last:N", title="last gradient"),
        alt.Tooltip("ready:Q", title="ready, ms", format=",.4~r"),
        alt.Tooltip("start:Q", title="starts, ms", format=",.4~r"),
        alt.Tooltip("end:Q", title="ends, ms", format=",.4~r"),
    ]
    base = alt.Chart(data(rows)).encode(y=y, tooltip=tooltip)
    waits = base.mark_rule(strokeWidth=1, opacity=0.5).encode(x="ready:Q", x2="start:Q")
    shade = alt.when(alt.datum.bucket % 2 == 0).then(alt.value(ORANGE)).otherwise(alt.value("#b87f00"))
    bars = base.mark_bar(height=alt.RelativeBandSize(0.7)).encode(
        x=alt.X(
            "start:Q",
            scale=alt.Scale(zero=False, nice=False, padding=12),
            title="time since the step began, ms",
        ),
        x2="end:Q",
        color=shade,
    )
    ready = base.mark_tick(color=BLUE, thickness=2, size=24).encode(x="ready:Q")
    subtitle = "bars: a bucket travels; ticks: it is ready; lines: it waits for the link"
    title = alt.TitleParams("Buckets of each plan", subtitle=subtitle)
    return alt.layer(waits, bars, ready).properties(
        title=title, width=size.width, height=max(1, len(plans)) * 34
    )


def predicted_measured(points: pa.Table, size: Size = Size(460, 420)) -> alt.LayerChart:  # noqa: B008 - frozen
    """Predicted against measured times, with the line of equality and 10 % on both sides.

    Args:
        points: name, measured_ns, predicted_ns; what lacks one is left out and counted.
    """
    every = points.to_pylist()
    rows = [
        {
            "name": row["name"],
            "measured": row["measured_ns"] / _MS,
            "predicted": row["predicted_ns"] / _MS,
            "error": row["predicted_ns"] / row["measured_ns"] - 1,
        }
        for row in every
        if positive(row["measured_ns"]) and positive(row["predicted_ns"])
    ]
    scale = log_scale([row[k] for row in rows for k in ("measured", "predicted")], 1.3)
    x = alt.X("measured:Q", scale=scale, title="measured, ms", axis=log_axis(scale))
    y = alt.Y("predicted:Q", scale=scale, title="predicted, ms", axis=log_axis(scale))
    ends = [
        {"measured": m, "predicted": m * f, "band": band}
        for f, band in ((1, "equal"), (1.1, "10 % more"), (0.9, "10 % less"))
        for m in scale.domain
    ]
    dash = alt.when(alt.datum.band == "equal").then(alt.value([1, 0])).otherwise(alt.value([4, 4]))
    lines = alt.Chart(data(ends)).mark_line(clip=True, strokeWidth=1)
    tooltip = [
        alt.Tooltip("name:N", title="run"),
        alt.Tooltip("measured:Q", title="measured, ms", format=",.4~r"),
        alt.Tooltip("predicted:Q", title="predicted, ms", format=",.4~r"),
        alt.Tooltip("error:Q", title="error", format="+.1%"),
    ]
    dots = alt.Chart(data(rows)).mark_point(filled=True, size=90, color=BLUE, opacity=0.9)
    errors = [abs(row["error"]) for row in rows]
    note = f"{len(rows)} of {len(every)} points; mean error {100 * sum(errors) / max(1, len(errors)):.3g} %"
    return alt.layer(
        lines.encode(x=x, y=y, detail="band:N", strokeDash=dash), dots.encode(x=x, y=y, tooltip=tooltip)
    ).properties(
        title=alt.TitleParams("Predicted against measured", subtitle=note),
        width=size.width,
        height=size.height,
    )
