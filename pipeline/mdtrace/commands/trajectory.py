"""mdtrace trajectory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mdtrace.commands.charts import DarkOption, PictureOption
from mdtrace.commands.layers import HardwareOption
from mdtrace.commands.options import (
    Format,
    FormatOption,
    LayerOption,
    RankOption,
    StepOption,
    numbers,
)
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from mdtrace.models.trajectory import Trajectory


def run(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            help="Dataset folders: one for each run; with --by step, one.",
            metavar="DATASET...",
            show_default=False,
        ),
    ],
    by: Annotated[
        Literal["run", "step"], typer.Option("--by", help="Points are runs, or the steps of one run.")
    ] = "run",
    knob: Annotated[
        str,
        typer.Option(
            "--knob", help="What differs between the runs: gpus and batch are read from the traces."
        ),
    ] = "gpus",
    values: Annotated[
        str | None,
        typer.Option(
            "--values",
            help="Values of the knob, in the order of the datasets.",
            metavar="8,16,32",
            show_default=False,
        ),
    ] = None,
    rank: RankOption = None,
    step: StepOption = None,
    layer: LayerOption = None,
    hardware: HardwareOption = None,
    dark: DarkOption = False,
    x: Annotated[
        Literal["memory", "communication"], typer.Option("--x", help="What the drawn intensity is against.")
    ] = "memory",
    format: FormatOption = None,  # noqa: A002
    out: PictureOption = None,
) -> None:
    """How performance and intensity move from run to run, or from step to step, and what that says.

    Exponents are against the knob: e_P of the performance of all devices together (1 is ideal), e_I of the
    intensity (FLOP per byte), e_B of the memory traffic; e_P = e_I + e_B. Between steps: logs of ratios.
    With --layer, each layer that matches has a trajectory of its own.

    [bold]Examples[/bold]

      mdtrace trajectory g8.mdtrace g16.mdtrace g32.mdtrace

      mdtrace trajectory a.mdtrace b.mdtrace --knob batch

      mdtrace trajectory old.mdtrace new.mdtrace --knob version --values 1,2 --layer "*/attention*"

      mdtrace trajectory job.mdtrace --by step

      mdtrace trajectory g8.mdtrace g16.mdtrace -o trajectory.html
    """
    from mdtrace.commands import charts, output
    from mdtrace.models.trajectory_runs import Run, of_runs, of_steps, rows
    from mdtrace.tables.dataset import open_dataset

    picture, chosen = charts.chosen(format, out)
    runs = [Run(path.name.removesuffix(".mdtrace") or str(path), open_dataset(path)) for path in datasets]
    if by == "step":
        if len(runs) != 1:
            raise UsageError("--by step takes one dataset", "leave out --by step to compare several")
        found = of_steps(runs[0], numbers(rank, "rank"), numbers(step, "step"), hardware, layer)
    else:
        _between_runs(runs, rank, step)
        found = of_runs(runs, knob, _values(values), hardware, layer)
    if picture is not None:
        points = rows(found)
        _draw(points, "step" if by == "step" else knob, x, picture, dark)
        output.note(f"{out}: {len(points)} points drawn")
        return
    if chosen is not Format.TABLE or out is not None:
        import pyarrow as pa

        output.write_rows(pa.Table.from_pylist(rows(found), schema=_schema()), chosen, out)
        return
    for each in found:
        _print(each, rows([each]))


def _draw(points: Sequence[Any], knob: str, x: Any, out: Path, dark: bool) -> None:
    import pyarrow as pa

    from mdtrace.commands import charts
    from mdtrace.plots.trajectory import trajectory

    chart = trajectory(pa.Table.from_pylist(points, schema=_schema()), knob, x)
    charts.write([chart], out, f"Trajectory by {knob}", dark=dark)


def _between_runs(runs: Sequence[object], rank: str | None, step: str | None) -> None:
    if len(runs) < 2:
        raise UsageError("a trajectory needs two runs or more", "or the steps of one: --by step")
    if rank is not None or step is not None:
        raise UsageError("--rank and --step go with --by step", "between runs all ranks and steps count")


def _values(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--values {text}: not a list of numbers", "give --values 8,16,32") from error


def _schema() -> Any:
    import pyarrow as pa

    texts, whole = {"of", "point", "knob", "reading"}, {"devices"}
    names = (
        "of", "point", "knob", "value", "devices", "flops_per_s", "intensity_memory",
        "intensity_communication", "bytes_per_s", "peak_flops_per_s", "memory_bytes_per_s",
        "bus_bytes_per_s", "e_performance", "e_intensity", "e_bandwidth", "e_communication", "reading",
    )  # fmt: skip
    return pa.schema([
        (n, pa.string() if n in texts else pa.int64() if n in whole else pa.float64()) for n in names
    ])  # fmt: skip


def _print(one: "Trajectory", points: Sequence[Mapping[str, Any]]) -> None:
    from mdtrace.commands import output

    if not points:
        output.note("nothing was accounted in these datasets")
        return
    output.print_table(points, _columns(one), title=f"{one.of} by {one.knob}")
    for segment in one.segments:
        first, last = one.points[segment.start], one.points[segment.end]
        names = (
            f"{first.label} → {last.label}"
            if first.label != last.label
            else f"{first.knob:g} → {last.knob:g}"
        )
        output.line(f"{names}: {segment.reading}")
    output.line(f"last point: {one.last_point}" + (f"; {one.advice}" if one.advice else ""))


def _columns(one: "Trajectory") -> Mapping[str, Any]:
    from mdtrace.commands.output import Shown

    def digits(value: float) -> str:
        return f"{value:.3g}"

    def exponent(value: float) -> str:
        return f"{value:.2f}"

    columns = {
        "point": Shown("point", right=False, wide=True),
        "value": Shown(one.knob[:10], lambda v: f"{v:g}"),
        "flops_per_s": Shown("TFLOP/s", lambda v: digits(v / 1e12)),
        "intensity_memory": Shown("FLOP/B", digits),
        "bytes_per_s": Shown("GB/s", lambda v: digits(v / 1e9)),
        "e_performance": Shown("e_P", exponent),
        "e_intensity": Shown("e_I", exponent),
        "e_bandwidth": Shown("e_B", exponent),
    }
    if one.knob == "step":
        del columns["value"]
    return columns
