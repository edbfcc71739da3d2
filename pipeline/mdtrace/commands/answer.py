"""What the commands that print a metric share: raw rows or a table, units, and the notes beside it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdtrace.commands.options import Format
from mdtrace.metrics.filters import spans

if TYPE_CHECKING:
    from mdtrace.metrics.engine import Filters, Result
    from mdtrace.tables.dataset import Dataset

Row = Mapping[str, Any]
ROWS = 40  # printed at most; a machine format has all

_UNITS = (("s", 1e9, 1e11), ("ms", 1e6, 1e6), ("µs", 1e3, 0))  # unit, its ns, used from this many ns on


def raw(result: "Result", format: Format | None, out: Path | None) -> bool:  # noqa: A002 - the option's name
    """Write the rows as they are, if a machine format or a file is asked for; say whether it was."""
    from mdtrace.commands import output

    chosen = output.chosen(format, out)
    if chosen is Format.TABLE:
        return False
    output.write_rows(result.arrow(), chosen, out)
    return True


def unit(rows: Iterable[Row], key: str) -> tuple[str, Callable[[float], str]]:
    """One unit of time for a whole table, fit for its largest value, and what writes a time in it."""
    largest = max((abs(r[key]) for r in rows if r[key] is not None), default=0)
    name, size, _ = next(u for u in _UNITS if largest >= u[2])
    return name, lambda ns: f"{ns / size:.2f}"


def with_shares(
    rows: Sequence[Row], of: str, keys: Sequence[str], text: Callable[[float], str], decimals: int = 1
) -> list[Row]:
    """The rows with the named times as text: time and share of another time."""
    return [{**r, **{k: _with_share(r[k], r[of], text, decimals) for k in keys}} for r in rows]


def _with_share(
    part: float | None, whole: float | None, text: Callable[[float], str], decimals: int
) -> str | None:
    if part is None:
        return None
    share = f"{100 * part / whole:{5 if decimals else 3}.{decimals}f}%" if whole else ""
    return f"{text(part)} {share}".rstrip()


def print_rows(rows: Sequence[Row], columns: Mapping[str, Any], title: str, limit: int = ROWS) -> None:
    """Print the first rows, and say how many are left out."""
    from mdtrace.commands import output

    if not rows:
        output.line(f"{title}: nothing to show.")
        return
    output.print_table(rows[:limit], columns, title=title)
    if len(rows) > limit:
        output.line(f"… and {len(rows) - limit} more rows: all of them with --format csv")


def fits(rows: Sequence[Row], columns: Mapping[str, Any]) -> bool:
    """Whether a table has room for all its cells and titles."""
    from mdtrace.commands.output import width

    cells = (
        max([len(shown.title), *(len(shown.text(r[key])) for r in rows if r[key] is not None)])
        for key, shown in columns.items()
    )
    return sum(cells) + 3 * len(columns) - 1 <= width()


def identity(rows: Sequence[Row]) -> dict[str, Any]:
    """Columns that say whose row it is: rank, or process where a rank is unknown or taken twice; device."""
    from mdtrace.commands.output import Shown

    processes = {r["process_id"]: r["rank"] for r in rows}
    ranks = [r for r in processes.values() if r is not None]
    columns = {"rank": Shown("rank")} if ranks else {}
    if len(set(ranks)) < len(processes):
        columns["process_id"] = Shown("process")
    if any(r["device_id"] is not None for r in rows):
        columns["device_id"] = Shown("device")
    return columns


def basis_notes(rows: Sequence[Row]) -> None:
    """Say what was accounted where it was not devices."""
    from mdtrace.commands.output import line

    bases = {r["basis"] for r in rows}
    if "host records" in bases:
        line(
            "No device activity: operators and the backend's records on the host are accounted. They share"
            " the cores, so overlap does not mean that communication was hidden."
        )
    if "timeline" in bases:
        line("A timeline alone tells of communication, and of nothing else.")
    if None in bases:
        line("–: no activity was captured that could be accounted.")


def scope(wanted: "Filters") -> str:
    """What the figures are of: the capture, or the part of it that was picked."""
    parts = [] if wanted.steps is None else [steps_in_words(wanted.steps)]
    parts += [] if wanted.time is None else ["the time picked"]
    return ", ".join(parts) or "whole capture, warm-up included"


def steady_note(dataset: "Dataset") -> str:
    """Which steps count in steady-state figures, and which were left out, and why."""
    from mdtrace.metrics.engine import run

    rows = run(dataset, "step_times").arrow().to_pylist()
    if not rows:
        return "no steps are marked, so warm-up cannot be told apart"
    steady = {r["step"] for r in rows if r["steady"]}
    reasons: dict[str, set[int]] = {}
    for row in rows:
        if row["left_out"]:
            reasons.setdefault(row["left_out"], set()).add(row["step"])
    return steady_words(steady, reasons)


def steady_words(steady: set[int], left_out: Mapping[str, set[int]]) -> str:
    """The steps that count, how many of how many, and those left out by reason."""
    every = steady.union(*left_out.values())
    left = "; ".join(f"{steps_in_words(steps)} ({why})" for why, steps in left_out.items())
    counted = f"{steps_in_words(steady)} ({len(steady)} of {len(every)} steps)"
    return counted + (f"; left out: {left}" if left else "")


def steps_in_words(steps: Iterable[int]) -> str:
    """Steps by number: "step 10", "steps 5-9", "no step"."""
    numbers = set(steps)
    return f"step{'s' if len(numbers) > 1 else ''} {spans(numbers)}" if numbers else "no step"


def steps_placed(rows: Sequence[Row]) -> list[Row]:
    """The rows of each device with that of no step first, called by where its time is: before, or outside."""
    first: dict[Any, int | None] = {}
    for row in rows:
        if row["step"] is not None:
            first.setdefault(_device(row), row.get("start_ns"))
    order = {key: place for place, key in enumerate(dict.fromkeys(_device(r) for r in rows))}
    placed = sorted(rows, key=lambda r: (order[_device(r)], r["step"] is not None))
    return [
        {**r, "step": _place(r, first[_device(r)])} if r["step"] is None and _device(r) in first else r
        for r in placed
    ]


def _device(row: Row) -> tuple[int, int | None]:
    return row["process_id"], row["device_id"]


def _place(row: Row, first: int | None) -> str:
    """Where the time of no step is, seen from the start of the first step."""
    start, span = row.get("start_ns"), row["span_ns"]
    known = first is not None and start is not None and span is not None
    return "before" if known and start + span <= first else "outside"
