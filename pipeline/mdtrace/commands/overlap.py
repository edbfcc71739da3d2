"""mdtrace overlap."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

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
from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from mdtrace.metrics.engine import Filters
    from mdtrace.tables.dataset import Dataset

_PARTS = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")


class By(StrEnum):
    """What a row is."""

    RANK = "rank"
    STEP = "step"
    LAYER = "layer"


def run(
    dataset: DatasetArgument,
    by: Annotated[By, typer.Option("--by", help="What a row is.")] = By.RANK,
    rank: RankOption = None,
    step: StepOption = None,
    time: TimeOption = None,
    layer: LayerOption = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """Where the time goes: compute, communication that shows, copies that show, idle; and what is hidden.

    The four add up to the span. By rank: over the whole capture, then in steady state; with --step, over
    those steps. With --format, the rows of the view time_breakdown, step_breakdown or layer_breakdown
    (steady_breakdown by rank with --step).

    [bold]Examples[/bold]

      mdtrace overlap job.mdtrace

      mdtrace overlap job.mdtrace --by step --rank 0-3

      mdtrace overlap job.mdtrace --by layer --layer "*/Conv2d_*" --format csv
    """
    from mdtrace.commands.answer import raw
    from mdtrace.metrics import api
    from mdtrace.tables.dataset import open_dataset

    if layer is not None and by is not By.LAYER:
        raise UsageError("--layer picks rows by layer", "add --by layer")
    opened = open_dataset(dataset)
    wanted = filters(opened, rank=rank, step=step, time=time, layer=layer)
    result = api.overlap(opened, by.value, wanted)
    if raw(result, format, out):
        return
    rows = result.arrow().to_pylist()
    if by is By.LAYER:
        _layers(rows, wanted)
    elif by is By.STEP:
        _steps(opened, rows)
    else:
        _ranks(opened, rows, wanted)


def _ranks(dataset: "Dataset", rows: list[dict[str, Any]], wanted: "Filters") -> None:
    from mdtrace.commands.answer import basis_notes, scope, steady_note
    from mdtrace.metrics import api

    _print(rows, scope(wanted).capitalize())
    if wanted.steps is None and wanted.time is None:
        note = steady_note(dataset)
        steady = api.steady(dataset, wanted).arrow().to_pylist()
        if steady:
            _print(steady, f"Steady state: {note}")
        else:
            from mdtrace.commands.output import line

            line(f"Nothing to account in steady state: {note}.")
    basis_notes(rows)


def _print(rows: list[dict[str, Any]], title: str, extra: dict[str, Any] | None = None) -> None:
    from mdtrace.commands.answer import fits, identity, print_rows, unit, with_shares
    from mdtrace.commands.output import Shown, percent

    name, text = unit(rows, "span_ns")
    # Where nothing is known of compute, communication has no exposed part: it is shown whole.
    timeline = any(r["basis"] == "timeline" for r in rows)
    columns = {
        **identity(rows),
        **(extra or {}),
        "span_ns": Shown("span", text),
        **({"comm_ns": Shown("comm")} if timeline else {}),
        "compute_ns": Shown("compute"),
        "exposed_comm_ns": Shown("exposed comm"),
        "exposed_memory_ns": Shown("exposed copies"),
        "idle_ns": Shown("idle"),
        "overlap_ratio": Shown("overlap", percent),
    }
    one_device = len({(r["process_id"], r["device_id"]) for r in rows}) == len(
        {r["process_id"] for r in rows}
    )
    # What goes first where there is no room: a device that its process tells, decimals, the overlap.
    for decimals, without in (
        (1, ()),
        (1, ("device_id",) if one_device else ()),
        (0, ("device_id",) if one_device else ()),
        (0, ("device_id", "overlap_ratio") if one_device else ("overlap_ratio",)),
    ):
        shown = with_shares(rows, "span_ns", (*_PARTS, "comm_ns"), text, decimals)
        kept = {key: column for key, column in columns.items() if key not in without}
        if fits(shown, kept):
            break
    overlap = "; overlap: share of communication" if "overlap_ratio" in kept else ""
    print_rows(shown, kept, f"{title} ({name}, share of span{overlap})")


def _steps(dataset: "Dataset", rows: list[dict[str, Any]]) -> None:
    from mdtrace.commands.answer import basis_notes, steady_note, steps_placed
    from mdtrace.commands.output import Shown, line

    rows = [dict(r) for r in steps_placed(rows)]
    _print(rows, "By step", {"step": Shown("step")})
    line(f"Steady state: {steady_note(dataset)}.")
    if any(r["step"] == "before" for r in rows):
        line("before: until the first step's activity.")
    if any(r["step"] == "outside" for r in rows):
        line("outside: in no step.")
    basis_notes(rows)


def _layers(rows: list[dict[str, Any]], wanted: "Filters") -> None:
    from mdtrace.commands.answer import identity, print_rows, scope, unit
    from mdtrace.commands.output import Shown, line, percent, width

    rows = sorted(rows, key=lambda r: r["compute_ns"] + r["comm_ns"], reverse=True)
    name, text = unit(rows, "compute_ns")
    columns = {
        **identity(rows),
        "layer": Shown("layer", _end_of(max(16, width() - 70)), right=False, wide=True),
        "compute_ns": Shown("compute", text),
        "compute_share": Shown("share", percent),
        "comm_ns": Shown("comm", text),
        "exposed_comm_ns": Shown("exposed", text),
        "overlap_ratio": Shown("overlap", percent),
    }
    print_rows(rows, columns, f"By layer, {scope(wanted)} ({name}; share of the device's compute)")
    total = sum(r["compute_ns"] for r in rows)
    if wanted.layer is None and total:
        known = sum(r["compute_ns"] for r in rows if r["layer_id"] is not None)
        line(f"A layer is known for {percent(known / total)} of compute; layer –: the rest.")


def _end_of(length: int) -> Any:
    """A path's end, which tells layers apart, where it is too long."""
    return lambda path: path if len(path) <= length else "…" + path[1 - length :]
