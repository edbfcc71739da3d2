"""mdtrace idle."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from mdtrace.commands.options import (
    DatasetArgument,
    FormatOption,
    OutOption,
    RankOption,
    StepOption,
    TimeOption,
    filters,
)

_CAUSES = ("host_ns", "launch_ns", "dependency_ns", "queue_ns", "unknown_ns")


class By(StrEnum):
    """What a row is."""

    RANK = "rank"
    STEP = "step"


def run(
    dataset: DatasetArgument,
    by: Annotated[By, typer.Option("--by", help="What a row is.")] = By.RANK,
    rank: RankOption = None,
    step: StepOption = None,
    time: TimeOption = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """What devices wait for while they are idle: the host, the launch, other work, or nobody knows what.

    Each gap is split by the launch call of the activity that ends it: before the call (host), in it (launch),
    after it where a collective or awaited work ended (dependency), or else (queue). With --format, the rows
    of the view idle_breakdown, with --step or by step those of step_idle_breakdown; gap by gap: idle_gaps.

    [bold]Examples[/bold]

      mdtrace idle job.mdtrace

      mdtrace idle job.mdtrace --by step --rank 0
    """
    from mdtrace.commands.answer import (
        identity,
        print_rows,
        raw,
        scope,
        steady_note,
        steps_placed,
        unit,
        with_shares,
    )
    from mdtrace.commands.output import Shown, count, line
    from mdtrace.metrics import api
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, time=time)
    result = api.idle(opened, by.value, wanted)
    if raw(result, format, out):
        return
    rows: list[dict[str, Any]] = result.arrow().to_pylist()
    by_step = result.metric.name == "step_idle_breakdown"
    if by_step:
        rows = [dict(r) for r in steps_placed(rows)]
    name, text = unit(rows, "idle_ns")
    shown = with_shares(rows, "span_ns", ("idle_ns",), text)
    more = {"gaps": Shown("gaps", count), "longest_ns": Shown("longest", text)}
    columns = {
        **identity(rows),
        **({"step": Shown("step")} if by_step else {}),
        "idle_ns": Shown("idle"),
        **{cause: Shown(cause.removesuffix("_ns"), text) for cause in _CAUSES},
        **({} if by_step else more),
    }
    title = "Idle by step" if by_step else f"Idle, {scope(wanted)}"
    print_rows(shown, columns, f"{title} ({name}, share of span; its causes add up to it)")
    if by_step:
        line(f"Steady state: {steady_note(opened)}.")
