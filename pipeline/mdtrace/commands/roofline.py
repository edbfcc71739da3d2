"""mdtrace roofline."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mdtrace.commands.charts import DarkOption, PictureOption
from mdtrace.commands.layers import HardwareOption
from mdtrace.commands.options import (
    DatasetArgument,
    Format,
    FormatOption,
    LayerOption,
    RankOption,
    StepOption,
    filters,
)
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from mdtrace.metrics.engine import Filters
    from mdtrace.tables.dataset import Dataset

By = Literal["layer", "operator", "kernel"]
Axis = Literal["memory", "communication", "both", "bounds"]


def run(
    dataset: DatasetArgument,
    x: Annotated[
        Axis,
        typer.Option(
            "--x",
            help="Intensity against bytes of memory, of communication, both; bounds: three roofs at once.",
        ),
    ] = "memory",
    by: Annotated[By, typer.Option("--by", help="What a point is.")] = "layer",
    top: Annotated[int, typer.Option("--top", min=1, help="Rows to print without -o.")] = 20,
    rank: RankOption = None,
    step: StepOption = None,
    layer: LayerOption = None,
    hardware: HardwareOption = None,
    dark: DarkOption = False,
    format: FormatOption = None,  # noqa: A002
    out: PictureOption = None,
) -> None:
    """Layers, operators or kernels under the roofs of compute, memory and links: drawn, or as rows.

    A point is the sum over ranks and over the steps that count, or those picked. Its area is its time, its
    colour what binds it. A page zooms, picks by click and legend, and finds names; it needs no network.

    [bold]Examples[/bold]

      mdtrace roofline job.mdtrace -o roofline.html

      mdtrace roofline job.mdtrace --x both --by operator --rank 0 -o roofline.png

      mdtrace roofline job.mdtrace --x bounds --hardware my.toml -o bounds.svg

      mdtrace roofline job.mdtrace --by kernel --format csv
    """
    from mdtrace.commands import charts, output
    from mdtrace.metrics.engine import run as run_metric
    from mdtrace.tables.dataset import open_dataset

    picture, chosen = charts.chosen(format, out)
    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, layer=layer)
    points = _points(opened, by, wanted, hardware)
    if picture is None and (chosen is not Format.TABLE or out is not None):
        output.write_rows(points, chosen, out)
        return
    roofs = run_metric(opened, "hardware_roofs", _of_ranks(wanted), hardware=hardware).table
    if picture is not None:
        planes, said = _drawn(points, x)
        charts.write([_chart(points, roofs, planes)], picture, f"Roofline of {dataset.name}", dark=dark)
        output.note(f"{out}: {said}")
        return
    _print(points, roofs, by, top)


def _points(dataset: "Dataset", by: By, wanted: "Filters", hardware: str | None) -> "pa.Table":
    from mdtrace.metrics.engine import run as run_metric

    if by == "layer":
        table = run_metric(dataset, "layer_roofline", wanted, hardware=hardware).table
        return table.rename_columns(["name" if c == "layer" else c for c in table.column_names])
    return run_metric(dataset, "roofline_points", wanted, points_by=by, hardware=hardware).table


def _of_ranks(wanted: "Filters") -> "Filters":
    """The filters that have a meaning for roofs."""
    from mdtrace.metrics.engine import Filters

    return Filters(ranks=wanted.ranks)


def _drawn(points: "pa.Table", x: Axis) -> tuple[list[Any], str]:
    """The planes that have points, and in words what each shows or why it is left out.

    Raises:
        UsageError: none has.
    """
    from mdtrace.plots.bounds import within_bounds
    from mdtrace.plots.points import why_none
    from mdtrace.plots.roofline import on_plane

    drawn, said = [], []
    planes: Any = ("memory", "communication") if x == "both" else (x,)
    for plane in planes:
        found = within_bounds(points) if plane == "bounds" else on_plane(points, plane)
        if found.rows:
            drawn.append(plane)
            said.append(f"{plane}: {found.note}")
        else:
            said.append(f"{plane} left out: {why_none(points, plane)}")
    if not drawn:
        raise UsageError(
            f"nothing to draw: {'; '.join(said)}",
            "FLOP and bytes need operators with shapes (record_shapes=True); --by layer adds up those of a "
            "layer's computation and communication",
        )
    return drawn, "; ".join(said)


def _chart(points: "pa.Table", roofs: "pa.Table", planes: Sequence[Any]) -> Any:
    from mdtrace.plots.bounds import three_bounds
    from mdtrace.plots.roofline import roofline

    return three_bounds(points, roofs) if planes == ["bounds"] else roofline(points, roofs, planes)


def _print(points: "pa.Table", roofs: "pa.Table", by: By, top: int) -> None:
    from mdtrace.commands import output
    from mdtrace.commands.layers import room
    from mdtrace.plots.points import summed

    rows = summed(points)
    if not rows:
        output.note("nothing was accounted in the steps asked for")
        return
    shown, columns = rows[:top], _columns(by)
    free = room(shown, columns)
    output.print_table(
        [{**row, "name": _end(row["name"], free)} for row in shown],
        columns,
        title=f"The {len(shown)} of most time, of {len(rows)}; times are sums over ranks and steps",
    )
    used = {row["dtype"] for row in rows}
    drawn = [r for r in roofs.to_pylist() if r["roof"] in ("memory", "bus") or r["dtype"] in used]
    for text in _roof_lines(drawn):
        output.line(text)


def _end(name: str, room: int) -> str:
    """Of a path its last parts, which tell layers apart; of a signature the function's own name."""
    from mdtrace.commands.layers import path_end
    from mdtrace.plots.names import short

    return path_end(name, room) if "/" in name else short(name, room)


def _columns(by: By) -> Mapping[str, Any]:
    from mdtrace.commands.layers import PHASES
    from mdtrace.commands.output import Shown, duration, percent

    def digits(value: float) -> str:
        return f"{value:.3g}"

    return {
        "name": Shown(by, right=False, wide=True),
        "phase": Shown("phase", lambda p: PHASES.get(p, p), right=False),
        "ms": Shown("time", lambda ms: duration(round(ms * 1e6))),
        "intensity_memory": Shown("FLOP/B", digits),
        "intensity_communication": Shown("FLOP/wire B", digits),
        "achieved_flops_per_s": Shown("TFLOP/s", lambda v: digits(v / 1e12)),
        "efficiency": Shown("of roof", percent),
        "bound": Shown("bound", right=False),
    }


def _roof_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The roofs in words, each once."""
    from mdtrace.plots.values import si

    texts: dict[str, None] = {}
    for row in rows:
        if row["roof"] == "compute":
            name, unit = f"compute, {row['dtype']} {row['unit']}", "FLOP/s"
        else:
            name, unit = row["roof"], "B/s"
        texts[f"{name}: {si(row['per_s'], unit)} ({row['origin']}: {row['source'] or 'not stated'})"] = None
    return list(texts) or ["no roof is known: give --hardware"]
