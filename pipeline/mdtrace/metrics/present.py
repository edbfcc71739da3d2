"""What a dataset has of the ranks, steps and layers that filters ask for."""

from typing import Any

import duckdb

from mdtrace.errors import UsageError
from mdtrace.metrics.filters import Filters, spans
from mdtrace.metrics.sources import parquet_sql
from mdtrace.tables.dataset import Dataset


def missing(dataset: Dataset, wanted: Filters, where: str = "") -> list[str]:
    """What filters ask for and the dataset lacks, a sentence each, where it has some of it.

    Args:
        where: what messages start with.

    Raises:
        UsageError: it has none of the ranks or steps asked for, or no layer matches.
    """
    said = [
        _numbers(dataset, where, name, table, asked)
        for name, table, asked in (("rank", "processes", wanted.ranks), ("step", "steps", wanted.steps))
        if asked is not None
    ]
    if wanted.layer is not None:
        _layer(dataset, where, wanted.layer)
    return [text for text in said if text]


def _numbers(dataset: Dataset, where: str, name: str, table: str, asked: tuple[int, ...]) -> str | None:
    """What is missing of the numbers asked for; None: nothing."""
    sql = f"SELECT DISTINCT {name} FROM {{rows}} WHERE {name} IS NOT NULL"
    here: set[int] = {number for (number,) in _rows(dataset, table, sql)}
    absent = set(asked) - here
    if not absent:
        return None
    has = f"{name}s here: {spans(here)}" if here else f"no {name} is known here"
    text = f"{where}no {name} {spans(absent)}; {has}"
    if absent == set(asked):
        raise UsageError(text, f"leave --{name} out for all of them")
    return text


def _layer(dataset: Dataset, where: str, glob: str) -> None:
    found = _rows(dataset, "layers", "SELECT 1 FROM {rows} WHERE path GLOB ? LIMIT 1", glob)
    if found:
        return
    near = "ORDER BY jaro_winkler_similarity(path, ?) DESC, path LIMIT 2"
    closest = [
        path for (path,) in _rows(dataset, "layers", f"SELECT DISTINCT path FROM {{rows}} {near}", glob)
    ]
    if not closest:
        raise UsageError(f"{where}no layer matches {glob}: no layer is known here")
    raise UsageError(
        f"{where}no layer matches {glob}", f"a glob over whole paths; for example {' or '.join(closest)}"
    )


def _rows(dataset: Dataset, table: str, sql: str, *values: str) -> list[tuple[Any, ...]]:
    """Rows of a SELECT over one table, none where the dataset has no file of it."""
    files = dataset.files[table]
    if not files:
        return []
    with duckdb.connect() as connection:
        return connection.execute(sql.format(rows=f"({parquet_sql(files)})"), list(values)).fetchall()
