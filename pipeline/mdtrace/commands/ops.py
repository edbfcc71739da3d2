"""mdtrace ops."""

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
    """Operators by name: their time on the host, and the device activity that they launch.

    Those that take the most time of their own come first. Over all ranks and steps, unless filtered. With
    --format, all rows of the view operator_summary.

    [bold]Examples[/bold]

      mdtrace ops job.mdtrace

      mdtrace ops job.mdtrace --rank 0 --step 5-9 --top 50
    """
    from mdtrace.commands.answer import print_rows, raw, scope
    from mdtrace.commands.output import Shown, count, duration, line, percent
    from mdtrace.metrics import api
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, time=time, layer=layer)
    result = api.ops(opened, wanted)
    if raw(result, format, out):
        return
    rows = result.arrow().to_pylist()
    columns = {
        "name": Shown("name", right=False, wide=True),
        "count": Shown("count", count),
        "self_ns": Shown("own", duration),
        "self_share": Shown("share", percent),
        "total_ns": Shown("nested too", duration),
        "device_count": Shown("launched", count),
        "device_ns": Shown("on device", duration),
    }
    print_rows(rows, columns, "Operators by name", top)
    line(f"Sums of durations, {scope(wanted)}; on device: of what the operator itself launched.")
