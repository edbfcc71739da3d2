"""Heat maps: time lost by rank and step, slowdown by rank and type of operation."""

from collections.abc import Sequence

import altair as alt
import pyarrow as pa

from mdtrace.plots.theme import SEQUENCE
from mdtrace.plots.values import Row, Size, data

_STEPS = 200  # drawn at most, and fewer of many ranks
_CELLS = 6400  # ranks times steps


def straggler_heat(steps: pa.Table, size: Size = Size()) -> alt.HConcatChart:  # noqa: B008 - frozen
    """By rank and step: how long each rank waited, and how long it made the others wait.

    Args:
        steps: rows of `straggler_steps`.
    """
    rows = [row for row in steps.to_pylist() if row["step"] is not None]
    numbers = sorted({row["step"] for row in rows})
    ranks = max(1, len({row["rank"] for row in rows}))
    kept = set(numbers[: max(3, min(_STEPS, _CELLS // ranks))])
    cells = [_cell(row) for row in rows if row["step"] in kept]
    width = (size.pixels - 120) // 2
    height = _height(len({row["rank"] for row in cells}))
    waited = _map(cells, "waited", "Waited for others", width, height)
    caused = _map(cells, "caused", "Made each of the others wait", width, height)
    subtitle = f"{len(kept)} of {len(numbers)} steps"
    both = alt.hconcat(waited, caused).resolve_scale(color="shared")
    return both.properties(title=alt.TitleParams("Time lost by rank and step", subtitle=subtitle))


def _cell(row: Row) -> dict[str, object]:
    return {
        "rank": row["rank"],
        "step": row["step"],
        "waited": (row["lost_ns"] or 0) / 1e6,
        "caused": (row["loss_ns"] or 0) / 1e6,
        "late": row["late_count"],
        "of": row["collectives"],
    }


def _map(cells: Sequence[Row], key: str, title: str, width: int, height: int) -> alt.Chart:
    colour = alt.Color(
        f"{key}:Q", title="ms", scale=alt.Scale(scheme=SEQUENCE, domainMin=0), legend=alt.Legend(format="~r")
    )
    return (
        alt.Chart(data(cells))
        .mark_rect()
        .encode(
            x=alt.X("step:O", title="step", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("rank:O", title="rank", axis=alt.Axis(labelOverlap=True)),
            color=colour,
            tooltip=[
                alt.Tooltip("rank:O", title="rank"),
                alt.Tooltip("step:O", title="step"),
                alt.Tooltip("waited:Q", title="waited, ms", format=",.4~r"),
                alt.Tooltip("caused:Q", title="made each wait, ms", format=",.4~r"),
                alt.Tooltip("late:Q", title="late at"),
                alt.Tooltip("of:Q", title="of collectives"),
            ],
        )
        .properties(title=alt.TitleParams(title, fontSize=12), width=width, height=height)
    )


def _height(rows: int) -> int:
    return max(1, rows) * (22 if rows <= 16 else 11 if rows <= 64 else 6)


def slowdown_heat(cells: pa.Table, size: Size = Size()) -> alt.LayerChart:  # noqa: B008 - frozen
    """By rank and type of operation: work over the work of an ideal rank.

    Args:
        cells: rank (or dp_rank and stage), op_type, work_ns, ideal_work_ns, ratio; as `whatif_tables.heat`
            gives them. Cells without a ratio are left out.
    """
    rows = [
        {
            "worker": _worker(row),
            "operation": row["op_type"],
            "ratio": row["ratio"],
            "text": f"{row['ratio']:.2f}",
            "work": row["work_ns"] / 1e6,
            "ideal": row["ideal_work_ns"] / 1e6,
        }
        for row in cells.to_pylist()
        if row["ratio"] is not None
    ]
    order = list(dict.fromkeys(row["worker"] for row in rows))
    top = max((row["ratio"] for row in rows), default=1.0)
    low = min((row["ratio"] for row in rows), default=1.0)
    # Blue is less than ideal, orange more, white as much: the same to colour-blind eyes.
    scale = alt.Scale(scheme="blueorange", domain=[min(low, 0.99), max(top, 1.01)], domainMid=1)
    colour = alt.Color("ratio:Q", title="× ideal", scale=scale)
    base = alt.Chart(data(rows)).encode(
        x=alt.X("operation:N", title=None, axis=alt.Axis(labelAngle=-30, labelLimit=200)),
        y=alt.Y("worker:N", sort=order, title="rank", axis=alt.Axis(labelOverlap=True)),
        tooltip=[
            alt.Tooltip("worker:N", title="rank"),
            alt.Tooltip("operation:N", title="operation"),
            alt.Tooltip("ratio:Q", title="× ideal", format=".3f"),
            alt.Tooltip("work:Q", title="work, ms a step", format=",.4~r"),
            alt.Tooltip("ideal:Q", title="ideal, ms a step", format=",.4~r"),
        ],
    )
    layers = [base.mark_rect().encode(color=colour)]
    if len(order) <= 24:
        dark = (alt.datum.ratio > 1 + 0.7 * (top - 1)) | (alt.datum.ratio < 1 - 0.7 * (1 - low))
        ink = alt.when(dark).then(alt.value("#fff")).otherwise(alt.value("#111"))
        layers.append(base.mark_text(fontSize=10).encode(text="text:N", color=ink))
    return alt.layer(*layers).properties(
        title="Slowdown by rank and operation", width=size.width, height=_height(len(order))
    )


def _worker(row: Row) -> str:
    if row.get("rank") is not None:
        return str(row["rank"])
    return f"dp {row['dp_rank']} · stage {row['stage']}"
