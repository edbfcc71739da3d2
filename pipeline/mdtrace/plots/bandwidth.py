"""Bus bandwidth against message size, with the link's limit and the fitted roof of small messages."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from mdtrace.plots.theme import SERIES
from mdtrace.plots.values import Row, Size, data, log_axis, log_scale, positive, si

_STEPS = 40  # points of a fitted curve


def bus_bandwidth(
    sizes: pa.Table,
    hardware: pa.Table,
    fits: pa.Table | None = None,
    size: Size = Size(),  # noqa: B008 - frozen
) -> alt.LayerChart:
    """Median bus bandwidth of each operation and message size, from the least to the greatest.

    Args:
        sizes: rows of `collective_bandwidth`; buckets of unknown size or bandwidth are left out and counted.
        hardware: rows of `hardware_roofs`: the limit is the roof `bus`.
        fits: rows of `roofline_bus`.
    """
    every = sizes.to_pylist()
    rows = [
        _point(row) for row in every if positive(row["bucket_bytes"]) and positive(row["busbw_median_gb_s"])
    ]
    limits = sorted({r["per_s"] for r in hardware.to_pylist() if r["roof"] == "bus" and positive(r["per_s"])})
    origins = {r["per_s"]: r["origin"] for r in hardware.to_pylist() if r["roof"] == "bus"}
    xs = log_scale([row["bytes"] for row in rows], 3)
    ys = log_scale([row[k] for row in rows for k in ("least", "most") if positive(row[k])] + limits, 2)
    x = alt.X("bytes:Q", scale=xs, title="payload, bytes", axis=log_axis(xs))
    y = alt.Y("bandwidth:Q", scale=ys, title="bus bandwidth, B/s", axis=log_axis(ys))
    layers = [*_limit(limits, origins, xs, x, y), *_fits(fits, xs, ys, x, y), *_marks(rows, x, y, ys)]
    counted = sum(row["count"] for row in every)
    left = counted - sum(row["count"] for row in rows)
    note = f"{counted} collectives" + (f"; {left} of unknown size or time left out" if left else "")
    title = alt.TitleParams("Bus bandwidth by message size", subtitle=note)
    return alt.layer(*layers).properties(title=title, width=size.width, height=min(size.height, 320))


def _point(row: Row) -> dict[str, Any]:
    group = f" of {row['group_size']}" if row["group_size"] else ""
    waits = row["from_transfer"] < row["count"] - row["untimed"]
    return {
        "what": f"{row['kind']}{group}",
        "bytes": row["bucket_bytes"] * 1.414,  # the middle of a bucket of one power of two
        "bandwidth": row["busbw_median_gb_s"] * 1e9,
        "least": row["busbw_min_gb_s"] * 1e9,
        "most": row["busbw_max_gb_s"] * 1e9,
        "count": row["count"],
        "time": "whole collective, waiting included" if waits else "transfer alone",
    }


def _marks(rows: Sequence[Row], x: alt.X, y: alt.Y, ys: alt.Scale) -> list[alt.Chart]:
    kinds = sorted({row["what"] for row in rows}) or ["none"]
    scale = alt.Scale(domain=kinds, range=_series(len(kinds)))
    colour = alt.Color("what:N", title="operation", scale=scale, legend=alt.Legend(symbolOpacity=1))
    times = ["transfer alone", "whole collective, waiting included"]
    filled = alt.Shape(
        "time:N", title="timed", scale=alt.Scale(domain=times, range=["circle", "triangle-down"])
    )
    base = alt.Chart(data(rows)).encode(x=x, color=colour)
    whisker = base.mark_rule(strokeWidth=2, opacity=0.5).encode(y=alt.Y("least:Q", scale=ys), y2="most:Q")
    points = base.mark_point(style="mark", filled=True, opacity=0.95).encode(
        y=y,
        shape=filled,
        size=alt.Size("count:Q", title="count", scale=alt.Scale(range=[40, 300]), legend=None),
        tooltip=[
            alt.Tooltip("what:N", title="operation"),
            alt.Tooltip("count:Q", title="count", format=","),
            alt.Tooltip("bytes:Q", title="payload, about", format=".3s"),
            alt.Tooltip("bandwidth:Q", title="median, B/s", format=".4s"),
            alt.Tooltip("least:Q", title="least, B/s", format=".4s"),
            alt.Tooltip("most:Q", title="greatest, B/s", format=".4s"),
            alt.Tooltip("time:N", title="timed"),
        ],
    )
    return [whisker, points]


def _series(count: int) -> list[str]:
    return [SERIES[n % len(SERIES)] for n in range(count)]


def _limit(
    limits: Iterable[float], origins: dict[float, str], xs: alt.Scale, x: alt.X, y: alt.Y
) -> list[alt.Chart]:
    rows = [
        {"bandwidth": per_s, "bytes": xs.domain[1], "text": f"limit {si(per_s, 'B/s')} ({origins[per_s]})"}
        for per_s in limits
    ]
    if not rows:
        return []
    rule = alt.Chart(data(rows)).mark_rule(style="limit").encode(y=y)
    name = alt.Chart(data(rows)).mark_text(style="roof-name", align="right", dx=-4, dy=-8)
    return [rule, name.encode(x=x, y=y, text="text:N")]


def _fits(fits: pa.Table | None, xs: alt.Scale, ys: alt.Scale, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """busbw(S) = k S / (α + k S / β) of each fit."""
    low, high = xs.domain
    rows = []
    for fit in fits.to_pylist() if fits is not None else []:
        if fit["alpha_ns"] is None or not positive(fit["beta_bytes_per_s"]):
            continue
        for n in range(_STEPS + 1):
            payload = low * (high / low) ** (n / _STEPS)
            wire = fit["k"] * payload
            value = wire / (fit["alpha_ns"] / 1e9 + wire / fit["beta_bytes_per_s"])
            if ys.domain[0] <= value <= ys.domain[1]:
                rows.append({"bytes": payload, "bandwidth": value, "what": f"fit of {fit['kind']}"})
    if not rows:
        return []
    return [
        alt.Chart(data(rows))
        .mark_line(strokeDash=[2, 3], strokeWidth=1.5)
        .encode(x=x, y=y, detail="what:N", tooltip=["what:N"])
    ]
