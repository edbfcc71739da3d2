"""The catalog of metrics: `sql/<name>.sql`, one SELECT each, with a header that says what it answers.

```
-- purpose: what it answers. A line that starts with three spaces goes on where the last one stopped,
--   like this.
-- grain: one row per …
-- reads: tables, views
-- per: process_id, device_id
-- filter: rank rows
-- parameter: name TYPE = default; what it is
-- column: name TYPE [unit] what it holds; NULL: what a NULL means
SELECT …
```
`reads` are tables and other metrics. `per` (optional): the SELECT sees one device of one process at a time in
`device_ops`, and in the other `per` metrics it reads; the engine runs it once for each and puts the rows
together, so that it may use window functions without partitions, which stream. `filter` (optional, several):
what a filter (rank, step, time, layer) does to the metric: see `engine.Filters`. Types are DuckDB's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import get_args

from mdtrace.metrics.filters import FilterMode, FilterName
from mdtrace.metrics.roofs import GIVEN
from mdtrace.tables.schema import tables

_COLUMN = re.compile(
    r"(?P<name>\w+) (?P<type>[A-Z]+(?:\[\])?) (?:\[(?P<unit>[^\]]+)\] )?(?P<doc>.+?)(?:; NULL: (?P<null>.+))?"
)
_PARAMETER = re.compile(r"(?P<name>\w+) (?P<type>[A-Z]+(?:\[\])?) = (?P<default>[^;]+); (?P<doc>.+)")
_FILTER = re.compile(r"(?P<name>\w+) (?P<mode>\w+)")
_PARTS = ["process_id", "device_id"]


@dataclass(frozen=True)
class MetricColumn:
    """One column of a metric; `null` says what a NULL means, None that there is none."""

    name: str
    type: str
    unit: str | None
    doc: str
    null: str | None


@dataclass(frozen=True)
class Parameter:
    """A setting of a metric: in SQL the variable of that name, `default` as SQL text."""

    name: str
    type: str
    default: str
    doc: str


@dataclass(frozen=True)
class Metric:
    """One question and the SELECT that answers it."""

    name: str
    purpose: str
    grain: str
    reads: tuple[str, ...]
    by_part: bool
    filters: dict[FilterName, FilterMode]
    parameters: tuple[Parameter, ...]
    columns: tuple[MetricColumn, ...]
    sql: str


@cache
def metrics() -> dict[str, Metric]:
    """All metrics by name, each after those it reads.

    Raises:
        ValueError: a header is incomplete or names what there is not.
    """
    folder = files("mdtrace.metrics") / "sql"
    texts = sorted((f.name[:-4], f) for f in folder.iterdir() if f.name.endswith(".sql"))
    return _ordered({name: parse(name, file.read_text("utf-8")) for name, file in texts})


def parse(name: str, text: str) -> Metric:
    """One SQL file as a metric.

    Raises:
        ValueError: the header is not as the module describes, or no SELECT follows.
    """
    fields = list(_fields(text))
    unknown = {k for k, _ in fields} - {"purpose", "grain", "reads", "per", "filter", "parameter", "column"}
    if unknown:
        raise ValueError(f"{name}: unknown header fields {sorted(unknown)}")
    sql = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
    if not re.match(r"(?:SELECT|WITH)\b", sql) or ";" in sql:
        raise ValueError(f"{name}: holds not exactly one SELECT")
    return Metric(
        name,
        purpose=_only(name, fields, "purpose"),
        grain=_only(name, fields, "grain"),
        reads=tuple(_only(name, fields, "reads").split(", ")),
        by_part=_by_part(name, fields),
        filters=_filters(name, fields),
        parameters=tuple(Parameter(**m) for m in _matches(name, fields, "parameter", _PARAMETER)),
        columns=tuple(MetricColumn(**m) for m in _matches(name, fields, "column", _COLUMN)),
        sql=sql,
    )


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """The header's fields in order, continued lines joined."""
    held: list[str] = []
    for line in text.splitlines():
        if not line.startswith("-- "):
            break
        if line.startswith("--   "):
            if not held:
                raise ValueError(f"a header cannot start with a continued line: {line}")
            held[-1] += " " + line[3:].strip()
        else:
            held.append(line[3:].strip())
    for field in held:
        key, _, value = field.partition(": ")
        yield key, value


def _only(name: str, fields: list[tuple[str, str]], key: str) -> str:
    values = [v for k, v in fields if k == key]
    if len(values) != 1 or not values[0]:
        raise ValueError(f"{name}: its header needs one '-- {key}:'")
    return values[0]


def _matches(
    name: str, fields: list[tuple[str, str]], key: str, pattern: re.Pattern[str]
) -> Iterator[dict[str, str]]:
    for value in (v for k, v in fields if k == key):
        match = pattern.fullmatch(value)
        if not match:
            raise ValueError(f"{name}: cannot read '-- {key}: {value}'")
        yield match.groupdict()


def _by_part(name: str, fields: list[tuple[str, str]]) -> bool:
    parts = [v for k, v in fields if k == "per"]
    if parts not in ([], [", ".join(_PARTS)]):
        raise ValueError(f"{name}: '-- per:' knows only {', '.join(_PARTS)}")
    return bool(parts)


def _filters(name: str, fields: list[tuple[str, str]]) -> dict[FilterName, FilterMode]:
    found = {m["name"]: m["mode"] for m in _matches(name, fields, "filter", _FILTER)}
    if not set(found) <= set(get_args(FilterName)) or not set(found.values()) <= set(get_args(FilterMode)):
        raise ValueError(f"{name}: unknown filter in {found}")
    return found  # type: ignore[return-value]  # both checked against the literals


def _ordered(found: dict[str, Metric]) -> dict[str, Metric]:
    """The metrics so that each comes after those it reads."""
    ordered: dict[str, Metric] = {}

    def place(name: str, asked_by: tuple[str, ...]) -> None:
        if name in ordered or name in tables() or name in GIVEN:
            return
        if name not in found:
            raise ValueError(f"{asked_by[-1]}: reads {name}, which is neither a table nor a metric")
        if name in asked_by:
            raise ValueError(f"{name}: reads itself through {', '.join(asked_by)}")
        for read in found[name].reads:
            place(read, (*asked_by, name))
        ordered[name] = found[name]

    for name in found:
        place(name, ())
    return ordered
