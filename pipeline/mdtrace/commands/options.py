"""Arguments that several commands share."""

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mdtrace.errors import UsageError

if TYPE_CHECKING:
    from mdtrace.metrics.filters import Filters
    from mdtrace.tables.dataset import Dataset


class Format(StrEnum):
    """How rows are put out."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    PARQUET = "parquet"


DatasetArgument = Annotated[
    Path,
    typer.Argument(help="Dataset folder, as mdtrace ingest wrote it.", metavar="DATASET", show_default=False),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", "-f", help="Output format; by default what the -o file's ending says, else a table."
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to this file instead of the terminal.", show_default=False),
]
RankOption = Annotated[
    str | None,
    typer.Option("--rank", help="Only these ranks: 3, or 0,2, or 0-3.", metavar="RANKS", show_default=False),
]
StepOption = Annotated[
    str | None,
    typer.Option("--step", help="Only these steps: 7, or 5,7, or 5-9.", metavar="STEPS", show_default=False),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Only this part of the capture: FROM:TO, seconds after its start (1.5:2), or epoch ns.",
        metavar="FROM:TO",
        show_default=False,
    ),
]
LayerOption = Annotated[
    str | None,
    typer.Option(
        "--layer",
        help="Only layers whose whole path matches this glob, such as '*/Conv2d_*'.",
        metavar="GLOB",
        show_default=False,
    ),
]


def numbers(text: str | None, what: str) -> tuple[int, ...] | None:
    """`3`, `0,2`, `0-3` → the numbers.

    Raises:
        UsageError: it is none of these.
    """
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if not match:
            raise UsageError(f"--{what} {text}: not a list of numbers", f"give --{what} 3, 0,2 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 100_000:
            raise UsageError(f"--{what} {text}: {part.strip()} is no range", f"give --{what} 3, 0,2 or 0-3")
        found += range(first, last + 1)
    return tuple(dict.fromkeys(found))


def filters(
    *datasets: "Dataset",
    rank: str | None = None,
    step: str | None = None,
    time: str | None = None,
    layer: str | None = None,
) -> "Filters":
    """The filter options as the metrics take them; what a dataset has only some of is said on stderr.

    Raises:
        UsageError: an option cannot be read, or asks for what a dataset has none of.
    """
    from mdtrace.metrics.filters import Filters
    from mdtrace.metrics.present import missing

    wanted = Filters(ranks=numbers(rank, "rank"), steps=numbers(step, "step"), time=_time(time), layer=layer)
    for dataset in datasets:
        where = f"{dataset.path.name}: " if len(datasets) > 1 else ""
        for text in missing(dataset, wanted, where):
            typer.echo(text, err=True)
    return wanted


def _time(text: str | None) -> tuple[float | int | None, float | int | None] | None:
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not colon:
        raise UsageError(
            f"--time {text}: no range", "give --time FROM:TO, in seconds; either may be left out"
        )
    return _moment(first, text), _moment(last, text)


def _moment(part: str, text: str) -> float | int | None:
    """Seconds after the capture's start (float), or an epoch time in ns (int, 16 digits or more)."""
    if not part:
        return None
    if re.fullmatch(r"\d{16,19}", part):
        return int(part)
    if re.fullmatch(r"\d+(\.\d*)?|\.\d+", part):
        return float(part)
    raise UsageError(f"--time {text}: {part} is no time", "give seconds after the start, such as 1.5:2")
