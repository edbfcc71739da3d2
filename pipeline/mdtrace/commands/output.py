"""Rows to the terminal or a file. Data goes to stdout, everything else to stderr."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mdtrace.commands.options import Format
from mdtrace.errors import UsageError, check_path
from mdtrace.process import interruptible

_ENDINGS = {
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".parquet": Format.PARQUET,
}
_COPY = {
    Format.CSV: "FORMAT csv, HEADER",
    Format.JSON: "FORMAT json, ARRAY true",
    Format.NDJSON: "FORMAT json, ARRAY false",
    Format.PARQUET: "FORMAT parquet, COMPRESSION zstd",
}


@dataclass(frozen=True)
class Shown:
    """How one column appears in a printed table."""

    title: str
    text: Callable[[Any], str] = str  # of the value; NULL never reaches it
    right: bool = True
    wide: bool = False  # gives way, shortened, where the table would not fit


def chosen(format: Format | None, out: Path | None) -> Format:  # noqa: A002 - the option's name
    """The output format: the option, else what the file's ending says, else a table."""
    if format is not None:
        return format
    if out is not None:
        ending = out.suffix.lower()
        if ending not in _ENDINGS:
            raise UsageError(
                f"{out}: its ending names no format", "add --format csv, json, ndjson or parquet"
            )
        return _ENDINGS[ending]
    return Format.TABLE


def width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def write_rows(rows: Any, format: Format, out: Path | None) -> None:  # noqa: A002
    """Write rows in a machine format, to a file (whole or not at all) or to stdout.

    Args:
        rows: an Arrow table or record batch reader.
    """
    import duckdb

    if out is None and format is Format.PARQUET and sys.stdout.isatty():
        raise UsageError("Parquet does not belong on a terminal", "write it to a file with -o FILE")
    connection = duckdb.connect()
    interruptible(connection)
    connection.register("rows", rows)
    with _target(out) as path:
        connection.execute(f"COPY (SELECT * FROM rows) TO '{_quoted(path)}' ({_COPY[format]})")


@contextlib.contextmanager
def _target(out: Path | None) -> Iterator[Path]:
    """A temporary file that becomes `out`, or goes to stdout, when the block ends well."""
    folder = out.parent if out is not None else Path(tempfile.gettempdir())
    check_path(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", "make it first, or choose another -o")
    handle, name = tempfile.mkstemp(prefix=".mdtrace-", dir=folder)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if out is not None:
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)  # as if it had been opened by name
            temporary.replace(out)
        else:
            with temporary.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    finally:
        temporary.unlink(missing_ok=True)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def printable(text: str, *, lines: bool = True) -> str:
    """Text that may hold names from traces, without what would steer a terminal; line ends stay if asked."""
    return "".join(c if c.isprintable() or (lines and c == "\n") else "�" for c in text)


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Shown],
    *,
    title: str | None = None,
    null: str = "–",
) -> None:
    """Print rows as a table that fits the terminal.

    Args:
        columns: by key of the rows, in order.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
    )
    cells = [[_cell(row.get(key), shown, null) for key, shown in columns.items()] for row in rows]
    for shown, wanted in zip(columns.values(), _widths(columns, cells), strict=True):
        justify: Literal["left", "right"] = "right" if shown.right else "left"
        table.add_column(shown.title, justify=justify, overflow="ellipsis", no_wrap=True, width=wanted)
    for cells_of_row in cells:
        table.add_row(*cells_of_row)
    _console(err=False).print(table)


_GAP = 3  # between columns
_MARGINS = 2  # left and right of all
_NARROWEST = 8  # what a wide column keeps


def _widths(columns: Mapping[str, Shown], cells: Sequence[Sequence[Any]]) -> list[int]:
    """Width of each column: as its cells want, the widest of the wide ones cut until the table fits."""
    shown = list(columns.values())
    widths = [max([len(s.title), *(len(row[i]) for row in cells)]) for i, s in enumerate(shown)]
    while sum(widths) + _GAP * (len(widths) - 1) + _MARGINS > width():
        flexible = [i for i, s in enumerate(shown) if s.wide and widths[i] > _NARROWEST]
        if not flexible:
            break
        widths[max(flexible, key=lambda i: widths[i])] -= 1
    return widths


def _cell(value: Any, shown: Shown, null: str) -> Any:
    from rich.text import Text

    text = null if value is None else str(shown.text(value))
    # Names come from traces: no markup, and no control characters that would move the cursor.
    return Text(printable(text, lines=False))


def note(text: str) -> None:
    """A line for the reader, on stderr."""
    from rich.text import Text

    _console(err=True).print(Text(printable(text)))


def line(text: str = "", style: str = "") -> None:
    """A line of the answer, on stdout, wrapped at words."""
    from rich.text import Text

    _console(err=False).print(Text(printable(text), style=style))


def print_text(text: Any) -> None:
    """Styled text (rich) of our own making, on stdout."""
    _console(err=False).print(text)


def _console(*, err: bool) -> Any:
    from rich.console import Console

    return Console(stderr=err, width=width(), highlight=False, soft_wrap=False)


def duration(ns: int) -> str:
    """Nanoseconds in a unit that reads well."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns:.0f} ns"


def size(count: float) -> str:
    """Bytes in a decimal unit: GB = 1e9."""
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= one:
            return f"{count / one:.2f} {unit}"
    return f"{count:.0f} B"


def percent(share: float) -> str:
    """A share of one as a percentage."""
    return f"{100 * share:.1f} %"


def count(number: int) -> str:
    """A count with thin separators."""
    return f"{number:,}".replace(",", " ")
