"""What a page is made of: text, tables, charts, and what is missing and why."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import altair as alt

from mdtrace.plots import save
from mdtrace.report.facts import Row


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str
    strong: bool = False


@dataclass(frozen=True)
class Missing:
    """What cannot be shown: why, and how to capture it."""

    kind: ClassVar[str] = "missing"
    why: str
    hint: str | None = None


@dataclass(frozen=True)
class Cell:
    """One cell; `full` is shown when it is pointed at."""

    text: str
    right: bool
    full: str | None = None


@dataclass(frozen=True)
class Rows:
    """A table. coverage: what part of the time or events its figures rest on."""

    kind: ClassVar[str] = "rows"
    title: str
    head: Sequence[Cell]
    cells: Sequence[Sequence[Cell]]
    sql: str
    coverage: str
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """A chart: its Vega-Lite, where it stands in the page, and where its figures come from."""

    kind: ClassVar[str] = "figure"
    name: str
    spec: Mapping[str, Any]
    sql: str
    coverage: str


Block = Text | Missing | Rows | Figure


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    name: str
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


@dataclass(frozen=True)
class Column:
    """How one column of a metric appears."""

    key: str
    title: str
    text: Callable[[Any], str] = str
    right: bool = True
    short: Callable[[Any], str] | None = None  # shown instead; the whole text when pointed at


def rows(
    title: str,
    found: Iterable[Row],
    columns: Sequence[Column],
    sql: str,
    coverage: str,
    *,
    folded: bool = False,
) -> Rows:
    """A table of a metric's rows; NULL is a dash."""
    cells = [[_cell(row.get(column.key), column) for column in columns] for row in found]
    head = [Cell(column.title, column.right) for column in columns]
    return Rows(title, head, cells, sql, coverage, folded)


def _cell(value: Any, column: Column) -> Cell:
    if value is None:
        return Cell("–", column.right)
    text = column.text(value)
    if column.short is None:
        return Cell(text, column.right)
    return Cell(column.short(value), column.right, full=text)


def figure(name: str, chart: alt.TopLevelMixin, sql: str, coverage: str) -> Figure:
    """A chart of the page. `name`: an id of our own making."""
    return Figure(name, save.spec(chart), sql, coverage)
