"""mdtrace stragglers."""

from collections.abc import Mapping
from typing import Any

from mdtrace.commands.options import (
    DatasetArgument,
    Format,
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
    """Who makes the others wait, when, how long, how sure; or why it cannot be said.

    Arrivals at collectives that all ranks wait for are compared on aligned clocks; start-up is left out.
    With --format, the rows of the view straggler_ranks; step by step: straggler_steps; each
    collective: arrival_skew; what a late rank does instead: straggler_causes.

    [bold]Examples[/bold]

      mdtrace stragglers job.mdtrace

      mdtrace stragglers job.mdtrace --step 5-9 --format json

      mdtrace sql job.mdtrace "FROM arrival_skew WHERE is_last AND significant"
    """
    from mdtrace.commands import output
    from mdtrace.metrics.engine import run as run_metric
    from mdtrace.metrics.stragglers import verdict, without_cause
    from mdtrace.tables.dataset import open_dataset

    chosen = output.chosen(format, out)
    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, time=time)
    if chosen is not Format.TABLE or out is not None:
        output.write_rows(run_metric(opened, "straggler_ranks", wanted).table, chosen, out)
        return
    found = verdict(opened, wanted)
    output.line(found.text, "bold")
    if found.hint:
        output.line(found.hint)
    if found.rho is not None:
        output.line(
            f"The group loses {output.percent(found.rho)} of its throughput to its slowest rank,"
            " measured against the median rank (ρ)."
        )
    if found.ranks:
        output.print_table(found.ranks, _rank_columns(), title="Ranks")
    for text in without_cause(found.ranks):
        output.line(text)
    clocks = run_metric(opened, "clock_offsets").table.to_pylist()
    output.print_table(clocks, _clock_columns(), title="Clocks")
    for reason in dict.fromkeys(c["reason"] for c in clocks if c["reason"]):
        output.line(reason)


def _rank_columns() -> Mapping[str, Any]:
    from mdtrace.commands.output import Shown, count, duration, percent

    return {
        "rank": Shown("rank"),
        "blame": Shown("blame", percent),
        "last_count": Shown("last", count),
        "late_count": Shown("late", count),
        "collectives": Shown("of", count),
        "loss_ns": Shown("cost/step", _whole(duration)),
        "lost_ns": Shown("waited", duration),
        "persistent": Shown("persistent", _yes),
        "cause": Shown("cause", right=False, wide=True),
    }


def _clock_columns() -> Mapping[str, Any]:
    from mdtrace.commands.output import Shown, count, duration

    return {
        "rank": Shown("rank"),
        "host": Shown("host", right=False, wide=True),
        "offset_ns": Shown("ahead by", duration),
        "drift_ppb": Shown("drift", _drift),
        "error_ns": Shown("error", duration),
        "collectives": Shown("from", count),
        "method": Shown("method", right=False, wide=True),
    }


def _whole(text: Any) -> Any:
    return lambda value: text(round(value))


def _drift(ppb: float) -> str:
    return f"{ppb / 1000:.3f} ppm"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
