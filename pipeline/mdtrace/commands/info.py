"""mdtrace info."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mdtrace.commands.options import DatasetArgument, Format, FormatOption, OutOption

if TYPE_CHECKING:
    from mdtrace.tables.dataset import Dataset


def run(dataset: DatasetArgument, format: FormatOption = None, out: OutOption = None) -> None:  # noqa: A002
    """Say what is in a dataset, what it can answer and what it cannot.

    With --format, the diagnostics alone as rows.

    [bold]Examples[/bold]

      mdtrace info job.mdtrace

      mdtrace info job.mdtrace --format json
    """
    from mdtrace.commands import output
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    chosen = output.chosen(format, out)
    if chosen is not Format.TABLE:
        output.write_rows(opened.table("diagnostics"), chosen, out)
        return
    _sources(opened)
    _processes(opened)
    _contents(opened)
    _answers(opened)
    _diagnostics(opened)


def _sources(dataset: "Dataset") -> None:
    from mdtrace.commands.output import Shown, count, print_table, size

    columns = {
        "file": Shown("file", right=False, wide=True),
        "format": Shown("format", right=False),
        "producer": Shown("producer", right=False, wide=True),
        "size_bytes": Shown("size", size),
        "events_stored": Shown("stored", count),
        "events_skipped": Shown("skipped", count),
        "clock_base": Shown("clock", right=False),
        "truncated": Shown("cut", lambda cut: "yes" if cut else "no"),
    }
    print_table(dataset.table("sources").to_pylist(), columns, title="Sources")


def _processes(dataset: "Dataset") -> None:
    from mdtrace.commands.output import Shown, duration, print_table

    devices: dict[int, list[str | None]] = {}
    for device in dataset.table("devices").to_pylist():
        devices.setdefault(device["process_id"], []).append(device["name"])
    rows = dataset.table("processes").to_pylist()
    for row in rows:
        row["devices"] = _named(devices.get(row["process_id"], []))
        row["span"] = None if row["start_ns"] is None else row["end_ns"] - row["start_ns"]
    columns = {
        "process_id": Shown("process"),
        "rank": Shown("rank"),
        "rank_origin": Shown("from", right=False),
        "world_size": Shown("world"),
        "host": Shown("host", right=False, wide=True),
        "backend": Shown("backend", right=False),
        "span": Shown("span", duration),
        "devices": Shown("devices", right=False, wide=True),
    }
    print_table(rows, columns, title="Processes")


def _named(devices: Sequence[str | None]) -> str | None:
    """`H100 ×8`, several products with commas; without a name how many there are."""
    counts = Counter(devices)
    return (
        ", ".join(f"{name or 'unnamed'} ×{n}" if n > 1 else name or "unnamed" for name, n in counts.items())
        or None
    )


def _contents(dataset: "Dataset") -> None:
    from mdtrace.commands.output import Shown, count, print_table
    from mdtrace.tables.schema import tables

    rows = [{"table": t, "rows": dataset.rows(t), "doc": tables()[t].doc} for t in tables()]
    columns = {
        "table": Shown("table", right=False),
        "rows": Shown("rows", count),
        "doc": Shown("", right=False, wide=True),
    }
    print_table(rows, columns, title="Tables")


def _answers(dataset: "Dataset") -> None:
    from mdtrace.commands.output import Shown, print_table
    from mdtrace.metrics.answers import answers

    rows: list[dict[str, Any]] = [
        {"question": a.question, "answer": "yes" if a.possible else "no", "why": a.why, "command": a.command}
        for a in answers(dataset)
    ]
    columns = {
        "question": Shown("question", right=False),
        "answer": Shown("can say", right=False),
        "command": Shown("command", right=False),
        "why": Shown("because", right=False, wide=True),
    }
    print_table(rows, columns, title="What it can answer")


def _diagnostics(dataset: "Dataset") -> None:
    from mdtrace.commands.output import line

    order = {"error": 0, "warning": 1, "info": 2}
    rows = sorted(dataset.table("diagnostics").to_pylist(), key=lambda d: (order[d["severity"]], d["code"]))
    line("Diagnostics" if rows else "No diagnostics: nothing was repaired, skipped or missing.", style="bold")
    style = {"error": "red", "warning": "yellow", "info": ""}
    several = Counter(p["source_id"] for p in dataset.table("processes", ["source_id"]).to_pylist())
    for row in rows:
        whose = row["process_id"] is not None and several[row["source_id"]] > 1
        process = f" (process {row['process_id']})" if whose else ""
        line(f"{row['severity']}: {row['message']}{process} [{row['code']}]", style=style[row["severity"]])
        if row["closes"]:
            line(f"    cannot be answered: {row['closes']}")
        if row["hint"]:
            line(f"    to do: {row['hint']}")
