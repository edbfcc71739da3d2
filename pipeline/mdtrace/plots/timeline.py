"""Where each rank's time goes, by step and in sum: compute, communication hidden and exposed, copies."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from mdtrace.plots.theme import TIME_COLOURS
from mdtrace.plots.values import Row, Size, data

_STEPS = 40  # drawn at most, and fewer of many ranks
_CELLS = 1600  # ranks times steps
_ROW = 22  # pixels of a rank
_MS = 1e6


def overlap_timeline(steps: pa.Table, size: Size = Size()) -> alt.LayerChart:  # noqa: B008 - frozen
    """Each rank's steps one after the other, split into what the time went to.

    Every rank starts at its own first step: clocks are not compared.

    Args:
        steps: rows of `step_breakdown`.
    """
    rows = [row for row in steps.to_pylist() if row["span_ns"] and row["step"] is not None]
    numbers = sorted({row["step"] for row in rows})
    ranks = max(1, len({(row["process_id"], row["device_id"]) for row in rows}))
    kept = set(numbers[: max(3, min(_STEPS, _CELLS // ranks))])
    parts = list(_laid_out([row for row in rows if row["step"] in kept]))
    note = f"{len(kept)} of {len(numbers)} steps; each rank from the start of its first"
    bars = alt.Chart(data(parts)).mark_bar(height=alt.RelativeBandSize(0.8))
    begins = alt.Chart(data(_begins(parts))).mark_tick(thickness=2, bandSize=18, style="begin")
    drawn = bars.encode(
        x=alt.X("start:Q", title="time, ms", axis=alt.Axis(format="~r"), scale=alt.Scale(nice=False)),
        x2="end:Q",
        y=_ranks(parts),
        color=_colour(parts),
        tooltip=[
            alt.Tooltip("rank:N", title="rank"),
            alt.Tooltip("step:Q", title="step"),
            alt.Tooltip("what:N", title="time in"),
            alt.Tooltip("ms:Q", title="ms", format=",.4~r"),
            alt.Tooltip("share:Q", title="of the step", format=".1%"),
        ],
    )
    return alt.layer(drawn, begins.encode(x="start:Q", y=_ranks(parts))).properties(
        title=alt.TitleParams("Where the time of each step goes", subtitle=note),
        width=size.width,
        height=_height(parts),
    )


def _begins(parts: Iterable[Row]) -> list[dict[str, Any]]:
    """Where each step of each rank begins."""
    first: dict[tuple[Any, Any], float] = {}
    for part in parts:
        first.setdefault((part["rank"], part["step"]), part["start"])
    return [{"rank": rank, "start": start} for (rank, _), start in first.items()]


def time_bars(totals: pa.Table, size: Size = Size()) -> alt.Chart:  # noqa: B008 - frozen
    """Each rank's time in sum, as shares.

    Args:
        totals: rows of `steady_breakdown` or `time_breakdown`.
    """
    rows = [row for row in totals.to_pylist() if row["span_ns"]]
    parts = [
        {"rank": _who(row), "what": what, "ms": ns / _MS, "share": ns / row["span_ns"], "order": order}
        for row in rows
        for order, (what, ns) in enumerate(_split(row).items())
        if ns
    ]
    bars = alt.Chart(data(parts)).mark_bar(height=alt.RelativeBandSize(0.8))
    return bars.encode(
        x=alt.X(
            "share:Q",
            stack="zero",
            title="share of the time",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        y=_ranks(parts),
        color=_colour(parts),
        order="order:Q",
        tooltip=[
            alt.Tooltip("rank:N", title="rank"),
            alt.Tooltip("what:N", title="time in"),
            alt.Tooltip("ms:Q", title="ms", format=",.4~r"),
            alt.Tooltip("share:Q", title="share", format=".1%"),
        ],
    ).properties(title="Where the time of each rank goes", width=size.width, height=_height(parts))


def _laid_out(rows: Iterable[Row]) -> Iterable[dict[str, Any]]:
    """The parts of each step, one after the other, from the start of the rank's first step."""
    ends: dict[tuple[Any, Any], float] = {}
    for row in sorted(rows, key=lambda r: (r["process_id"], r["device_id"] or 0, r["step"])):
        who = (row["process_id"], row["device_id"])
        start = ends.get(who, 0.0)
        for what, ns in _split(row).items():
            if ns:
                yield {
                    "rank": _who(row), "step": row["step"], "what": what, "ms": ns / _MS,
                    "start": start / _MS, "end": (start + ns) / _MS, "share": ns / row["span_ns"],
                }  # fmt: skip
                start += ns
        ends[who] = start


def _split(row: Row) -> dict[str, int]:
    """Time by what it went to; the parts add up to the span."""
    hidden = row["overlap_ns"] or 0
    return {
        "compute": (row["compute_ns"] or 0) - hidden,
        "compute and communication": hidden,
        "exposed communication": row["exposed_comm_ns"] or 0,
        "exposed memory": row["exposed_memory_ns"] or 0,
        "idle": row["idle_ns"] or 0,
    }


def _who(row: Row) -> str:
    return f"capture {row['process_id']}" if row["rank"] is None else str(row["rank"])


def _ranks(parts: Sequence[Row]) -> alt.Y:
    order = list(dict.fromkeys(row["rank"] for row in parts))
    # The domain is given, not only its order: layers of other data would put it in the order of letters.
    scale = alt.Scale(domain=order)
    return alt.Y("rank:N", sort=None, scale=scale, title="rank", axis=alt.Axis(labelOverlap=True))


def _colour(parts: Sequence[Row]) -> alt.Color:
    found = [what for what in TIME_COLOURS if any(row["what"] == what for row in parts)] or ["idle"]
    scale = alt.Scale(domain=found, range=[TIME_COLOURS[what] for what in found])
    return alt.Color("what:N", scale=scale, title=None, legend=alt.Legend(orient="top", labelLimit=300))


def _height(parts: Sequence[Row]) -> int:
    ranks = max(1, len({row["rank"] for row in parts}))
    return ranks * (_ROW if ranks <= 16 else 11 if ranks <= 64 else 6)
