"""mdtrace steps."""

from mdtrace.commands.options import (
    DatasetArgument,
    FormatOption,
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
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """How long each step takes, on which rank the longest, and which steps are steady.

    On the host by the step's marker; on devices by the window from its first activity to that of the next.
    With --format, the rows of the view step_summary; rank by rank: step_breakdown.

    [bold]Examples[/bold]

      mdtrace steps job.mdtrace

      mdtrace steps job.mdtrace --rank 2 --format csv
    """
    from mdtrace.commands.answer import print_rows, raw, steady_note, unit
    from mdtrace.commands.output import Shown, line
    from mdtrace.metrics import api
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    result = api.steps(opened, filters(opened, rank=rank, step=step, time=time))
    if raw(result, format, out):
        return
    rows = result.arrow().to_pylist()
    name, text = unit(rows, "host_max_ns")
    columns = {
        "step": Shown("step"),
        "steady": Shown("steady", lambda value: "yes" if value else "no"),
        "processes": Shown("ranks"),
        "host_min_ns": Shown("min", text),
        "host_median_ns": Shown("median", text),
        "host_max_ns": Shown("max", text),
        "longest_rank": Shown("max rank"),
        "span_median_ns": Shown("window", text),
        "compute_median_ns": Shown("compute", text),
        "exposed_comm_median_ns": Shown("exposed", text),
        "idle_median_ns": Shown("idle", text),
    }
    print_rows(rows, columns, f"Steps ({name}; on the host: min, median, max; medians of the windows)")
    line(f"Steady state: {steady_note(opened)}.")
