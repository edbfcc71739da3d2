"""Charts to files: which format an -o file's ending asks for, and writing it whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mdtrace.commands.options import Format

PICTURES = (".html", ".svg", ".png", ".json")
ROWS = (".csv", ".parquet", ".ndjson", ".jsonl")

PictureOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Draw to this file: .html (works offline), .svg, .png, .json (Vega-Lite); or rows: .csv, "
        ".parquet, .ndjson.",
        show_default=False,
    ),
]
DarkOption = Annotated[
    bool, typer.Option("--dark", help="Dark .svg and .png; a page follows the reader's system.")
]


def chosen(format: "Format | None", out: Path | None) -> "tuple[Path | None, Format]":  # noqa: A002
    """The file to draw to, if the -o file's ending asks for a chart and --format for nothing else; and the
    format of rows, for where it does not.

    Raises:
        UsageError: the ending names neither a chart nor rows.
    """
    from mdtrace.commands import output
    from mdtrace.commands.options import Format

    if out is None or format is not None:
        return None, output.chosen(format, out)
    ending = out.suffix.lower()
    if ending not in (*PICTURES, *ROWS):
        raise UsageError(
            f"{out}: its ending names no format",
            f"for a chart end it in {', '.join(PICTURES)}; for rows in {', '.join(ROWS)}, or add --format",
        )
    return (out, Format.TABLE) if ending in PICTURES else (None, output.chosen(format, out))


def write(charts: "Sequence[Any]", out: Path, title: str, *, dark: bool = False) -> None:
    """Write charts as the file's ending says; all but HTML take them above each other.

    Raises:
        UsageError: its folder does not exist.
    """
    import altair as alt

    from mdtrace.plots import save

    ending = out.suffix.lower()
    if ending == ".html":
        write_whole(out, save.html(list(charts), title).encode())
        return
    mode: Any = "dark" if dark else "light"
    one = charts[0] if len(charts) == 1 else alt.vconcat(*charts, spacing=40)
    if ending == ".png":
        write_whole(out, save.png(one, mode))
    else:
        text = save.svg(one, mode) if ending == ".svg" else save.vega_lite(one)
        write_whole(out, text.encode())


def write_whole(out: Path, content: bytes) -> None:
    """Write a file that appears complete or not at all.

    Raises:
        UsageError: its folder does not exist.
    """
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder", "make it first, or choose another -o")
    handle, name = tempfile.mkstemp(prefix=".mdtrace-", dir=out.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # as if it had been opened by name
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
