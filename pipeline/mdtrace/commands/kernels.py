"""mdtrace kernels."""

from typing import Annotated

import typer

from mdtrace.commands.options import (
    DatasetArgument,
    FormatOption,
    LayerOption,
    OutOption,
    RankOption,
    StepOption,
    TimeOption,
    filters,
)


def run(
    dataset: DatasetArgument,
    rank: RankOption = None,
    step: StepOption = None,
    time: TimeOption = None,
    layer: LayerOption = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows to print.")] = 20,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """Kernels, copies and sets by name, those that take the most time first.

    Over all ranks and steps, unless filtered. With --format, all rows of the view kernel_summary.

    [bold]Examples[/bold]

      mdtrace kernels job.mdtrace --top 50

      mdtrace kernels job.mdtrace --layer "*/Conv2d_*" --format csv
    """
    from mdtrace.commands.answer import print_rows, raw, scope
    from mdtrace.commands.output import Shown, count, duration, line, percent
    from mdtrace.metrics import api
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, time=time, layer=layer)
    result = api.kernels(opened, wanted)
    if raw(result, format, out):
        return
    rows = result.arrow().to_pylist()
    columns = {
        "name": Shown("name", right=False, wide=True),
        "class": Shown("class", lambda text: "comm" if text == "communication" else text, right=False),
        "count": Shown("count", count),
        "total_ns": Shown("total", duration),
        "share": Shown("share", percent),
        "median_ns": Shown("median", duration),
        "max_ns": Shown("longest", duration),
    }
    print_rows(rows, columns, "Device activity by name", top)
    line(f"Sums of durations, {scope(wanted)}: what overlaps counts in full.")
