"""mdtrace whatif."""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.commands.charts import DarkOption, PictureOption
from mdtrace.commands.options import Format, FormatOption, numbers
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from mdtrace.models.whatif import Edit, Slowdown, WhatIf

_SHOWN_WORKERS = 16
_LONGER = 1.001  # times as long as recorded from where on it is worth a word
_MEAN = (
    "How can ideal be slower than recorded? Ideal is the mean over ranks and steps (of transfers the median),"
    " not the fastest: what a rank did faster than the mean gets slower with it, and where the others wait"
    " for that rank, so does the step."
)


class By(StrEnum):
    """What a row is."""

    JOB = "job"
    RANK = "rank"
    OPERATION = "operation"
    DP_RANK = "dp-rank"
    STAGE = "stage"
    STEP = "step"
    RANK_OPERATION = "rank-operation"


def run(
    source: Annotated[
        Path,
        typer.Argument(
            help="Dataset folder, or an operation log (Parquet).", metavar="DATASET|LOG", show_default=False
        ),
    ],
    ideal: Annotated[bool, typer.Option("--ideal", help="With every operation ideal.")] = False,
    rank_ideal: Annotated[
        str | None,
        typer.Option(
            "--rank-ideal",
            help="With the operations of these ranks ideal.",
            metavar="RANKS",
            show_default=False,
        ),
    ] = None,
    op_type: Annotated[
        list[str] | None,
        typer.Option(
            "--op-type",
            help="With operations of this type ideal (with --rank-ideal, those of its ranks); repeatable.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            help="With a network so many times as fast: 2x.",
            metavar="FACTOR",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            "--by",
            help=f"What a row is: {', '.join(By)}; with --format or -o by default rank.",
            metavar="WHAT",
            show_default=False,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    out: PictureOption = None,
    dark: DarkOption = False,
) -> None:
    """How long a step would take with other durations; who and what makes it slower than it could be.

    The job is replayed along what waits for what. S is its time over that of the ideal job, in
    which each operation takes the mean over ranks and steps (transfers: the median, without
    waiting). S of a rank or type of operation: only its own durations put back into the ideal job.
    Refused where the replay of what was recorded misses the measured step times by more than 5 %.

    An operation log of a pipeline-parallel job is a Parquet file with a row for each operation:
    dp_rank, stage, step, optype (forward-compute, backward-compute, forward-send, forward-recv,
    backward-send, backward-recv, params-all-gather, grads-reduce-scatter,
    embedding-grads-all-reduce, optimizer …), start_ts and duration (s), seq_id; where known also
    rank, mc, gmc, mb_id.

    [bold]Examples[/bold]

      mdtrace whatif job.mdtrace

      mdtrace whatif job.mdtrace --rank-ideal 3

      mdtrace whatif job.mdtrace --network 2x --by step --format csv

      mdtrace whatif operations.parquet --op-type forward-compute

      mdtrace whatif job.mdtrace -o slowdown.html
    """
    from mdtrace.commands import charts, output
    from mdtrace.models.whatif import Edit, WhatIf
    from mdtrace.models.whatif_source import load

    picture, chosen = charts.chosen(format, out)
    if ideal and (rank_ideal or op_type):
        raise UsageError(
            "--ideal makes every operation ideal already", "give --rank-ideal, --op-type, or --ideal"
        )
    wanted = Edit(ideal, numbers(rank_ideal, "rank-ideal") or (), tuple(op_type or ()), _factor(network))
    whatif = WhatIf(load(source))
    if picture is not None:
        from mdtrace.models import whatif_tables
        from mdtrace.plots.heat import slowdown_heat

        chart = slowdown_heat(whatif_tables.heat(whatif))
        charts.write([chart], picture, "Slowdown by rank and operation", dark=dark)
        return
    if chosen is not Format.TABLE or out is not None:
        output.write_rows(_rows(whatif, wanted, by or By.RANK), chosen, out)
        return
    found = whatif.slowdown()
    _summary(whatif, found)
    longer = found.ideal_ns > _LONGER * found.replayed_ns
    if wanted != Edit():
        longer |= _answer(whatif, wanted)
    longer |= _print(whatif, wanted, by)
    if longer:
        output.line(_MEAN)


def _factor(text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?|\.\d{1,6})\s*[x×]?", text.strip())
    if not match or not float(match[1]):
        raise UsageError(f"--network {text}: no factor", "give --network 2x for twice as fast, 0.5x for half")
    return float(match[1])


def _rows(whatif: "WhatIf", edit: "Edit", by: By) -> "pa.Table":
    from mdtrace.models import whatif_tables

    match by:
        case By.JOB:
            return whatif_tables.job(whatif, edit)
        case By.RANK:
            return whatif_tables.workers(whatif)
        case By.OPERATION:
            return whatif_tables.operations(whatif)
        case By.DP_RANK:
            return whatif_tables.groups(whatif, "dp_rank")
        case By.STAGE:
            return whatif_tables.groups(whatif, "stage")
        case By.STEP:
            return whatif.answer(edit).steps
        case By.RANK_OPERATION:
            return whatif_tables.heat(whatif)


def _summary(whatif: "WhatIf", found: "Slowdown") -> None:
    from mdtrace.commands.output import line, percent

    line(
        f"A step takes {_ns(found.replayed_ns)}; with every operation ideal it would take"
        f" {_ns(found.ideal_ns)}: S = {found.slowdown:.3f}, {percent(found.waste)} is wasted.",
        "bold",
    )
    line(
        f"Replay of {len(whatif.job.steps)} steps: measured {_ns(found.measured_ns)}, replayed"
        f" {_ns(found.replayed_ns)}, error {100 * found.error:.2g} %."
    )
    worst = ", ".join(map(str, found.worst[:8])) + (" …" if len(found.worst) > 8 else "")
    if found.worst_workers is not None:
        what = "rank" if len(found.worst) == 1 else "ranks"
        line(f"With the worst {what} {worst} ideal, {percent(found.worst_workers)} of the loss goes (M_W).")
    if found.last_stage is not None:
        line(f"With the last stage ideal, {percent(found.last_stage)} of the loss goes (M_S).")
    for note in whatif.job.notes:
        line(f"Note: {note}.")


def _answer(whatif: "WhatIf", edit: "Edit") -> bool:
    """Print the answer; whether it makes ideal something, and a step longer with it."""
    from dataclasses import replace

    from mdtrace.commands.output import line

    answer = whatif.answer(edit)
    line(f"{_named(edit)}: {_ns(answer.after_ns)} a step, {_times(answer.speed_up)}.", "bold")
    if edit.ranks and not edit.ideal:
        others = whatif.answer(replace(edit, reference="others"))
        line(f"Taken as the mean of the other ranks: {_ns(others.after_ns)}, {_times(others.speed_up)}.")
    return edit.network is None and answer.after_ns > _LONGER * answer.before_ns


def _ns(time: float) -> str:
    from mdtrace.commands.output import duration

    return duration(round(time))


def _times(speed_up: float) -> str:
    return f"{speed_up:.3f} times as fast"


def _named(edit: "Edit") -> str:
    """The edit in words."""
    ranks = f"rank{'s' * (len(edit.ranks) > 1)} {', '.join(map(str, edit.ranks))}"
    types = ", ".join(edit.types)
    parts = []
    if edit.ranks and edit.types:
        parts.append(f"{types} of {ranks} ideal")
    elif edit.ranks or edit.types:
        parts.append(f"{ranks if edit.ranks else types} ideal")
    elif edit.ideal:
        parts.append("every operation ideal")
    if edit.network is not None:
        parts.append(f"a network {edit.network:g} times as fast")
    return f"With {' and '.join(parts)}"


def _print(whatif: "WhatIf", edit: "Edit", by: By | None) -> bool:
    """Print the tables; whether a row of them makes ideal something, and a step longer with it."""
    from mdtrace.commands.output import line, print_table

    longer = False
    for which in (By.OPERATION, By.RANK) if by is None else (by,):
        table = _rows(whatif, edit, which)
        if not len(table):
            line("Stages and dp ranks are not known." if which in (By.STAGE, By.DP_RANK) else "No rows.")
            continue
        rows = table.to_pylist()
        shown = rows[:_SHOWN_WORKERS] if by is None else rows
        columns = {
            k: c for k, c in _columns().items() if k in rows[0] and any(r[k] is not None for r in rows)
        }
        title = (
            f"By {which.value}"
            if len(shown) == len(rows)
            else f"By {which.value}: {len(shown)} of {len(rows)}"
        )
        print_table(shown, columns, title=title)
        longer |= any(row.get("without_ns", 0) > _LONGER * whatif.t for row in shown)
    return longer


def _columns() -> dict[str, Any]:
    from mdtrace.commands.output import Shown, percent

    return {
        "rank": Shown("rank"),
        "dp_rank": Shown("dp rank"),
        "stage": Shown("stage"),
        "step": Shown("step"),
        "op_type": Shown("operation", right=False, wide=True),
        "measured_ns": Shown("measured", _ns),
        "before_ns": Shown("replayed", _ns),
        "replayed_ns": Shown("replayed", _ns),
        "after_ns": Shown("then", _ns),
        "ideal_ns": Shown("ideal", _ns),
        "error": Shown("error", percent),
        "slowdown": Shown("S", lambda s: f"{s:.3f}"),
        "score": Shown("score", lambda s: f"{s:.3f}"),
        "waste": Shown("waste", percent),
        "worst_workers": Shown("M_W", lambda m: f"{m:.3f}"),
        "last_stage": Shown("M_S", lambda m: f"{m:.3f}"),
        "work_ns": Shown("own/step", _ns),
        "ideal_work_ns": Shown("ideal/step", _ns),
        "ratio": Shown("own/ideal", lambda r: f"{r:.3f}"),
        "without_ns": Shown("step if ideal", _ns),
        "speed_up": Shown("speed-up", lambda s: f"{s:.3f}"),
    }
