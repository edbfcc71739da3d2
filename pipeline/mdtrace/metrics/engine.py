"""Runs metrics: a DuckDB in memory with a view per table and per metric, over one dataset.

`connect` gives the connection for SQL, `run` the answer of one metric. Nothing is written and nothing is
fetched: DuckDB's extensions are neither installed nor loaded. What a query cannot hold in memory goes to
the system's folder for temporary files.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from mdtrace.errors import DatasetError, QueryError, UsageError
from mdtrace.metrics.catalog import Metric, metrics
from mdtrace.metrics.filters import FilterName, Filters
from mdtrace.metrics.macros import create_macros, literal
from mdtrace.metrics.roofs import GIVEN, create_given
from mdtrace.metrics.sources import Part, empty_sql, parquet_sql, part_source, parts
from mdtrace.process import interruptible
from mdtrace.tables.dataset import Dataset
from mdtrace.tables.schema import tables

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Filters", "Result", "connect", "run"]

_FILTER_COLUMNS: dict[FilterName, str] = {"rank": "rank", "step": "step", "layer": "layer"}


@dataclass(frozen=True)
class Result:
    """The answer of one metric."""

    metric: Metric
    table: pa.Table

    def arrow(self) -> pa.Table:
        """As an Arrow table; each field's metadata has its documentation and unit."""
        return self.table

    def df(self) -> "pd.DataFrame":
        """As a pandas data frame; integers with NULLs in pandas' nullable types, so that they stay exact."""
        import pandas as pd

        nullable = {
            pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(),
        }  # fmt: skip
        frame: pd.DataFrame = self.table.to_pandas(types_mapper=nullable.get)
        return frame

    def pl(self) -> "pl.DataFrame":
        """As a polars data frame."""
        import polars as pl

        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame


def run(dataset: Dataset, name: str, filters: Filters | None = None, **parameters: object) -> Result:
    """The rows of one metric, in the order its SELECT gives.

    Args:
        name: a metric of the catalog.
        parameters: values for the metric's parameters.

    Raises:
        UsageError: no such metric or parameter, or a filter that has no meaning for it.
        QueryError: the query failed.
    """
    if name not in metrics():
        raise UsageError(f"{name}: no such metric", "list them with: mdtrace tables")
    metric = metrics()[name]
    wanted = filters or Filters()
    for given in wanted.given():
        if given not in metric.filters:
            can = ", ".join(metric.filters) or "none"
            raise UsageError(
                f"{name} has no {given} to filter by", f"filters that have a meaning for it: {can}"
            )
    connection = _connect(dataset, wanted, _with_reads(metric), None, parameters)
    try:
        table = connection.sql(f"FROM {name}").to_arrow_table()
    except duckdb.Error as error:
        raise QueryError(f"{name} failed: {error}") from error
    return Result(metric, _documented(metric, table))


def _with_reads(metric: Metric) -> list[Metric]:
    """The metric after all that it reads."""
    needed: dict[str, Metric] = {}

    def add(some: Metric) -> None:
        for name in some.reads:
            if name in metrics():
                add(metrics()[name])
        needed[some.name] = some

    add(metric)
    return list(needed.values())


def _documented(metric: Metric, table: pa.Table) -> pa.Table:
    fields = []
    for column in metric.columns:
        about = {"doc": column.doc, "unit": column.unit, "null": column.null}
        fields.append(
            table.schema.field(column.name).with_metadata({k: v for k, v in about.items() if v is not None})
        )
    return table.cast(pa.schema(fields))


def connect(
    dataset: Dataset, filters: Filters | None = None, *, threads: int | None = None, **parameters: object
) -> duckdb.DuckDBPyConnection:
    """A connection with a view for each table and metric of a dataset.

    With filters, the views of metrics give the filtered answers; tables, and the metrics in the schema
    `whole`, stay whole. A metric for which a filter has no meaning is as without it.

    Args:
        threads: threads that queries may use; all cores by default.
        parameters: values for parameters of metrics; in SQL they are variables.

    Raises:
        UsageError: no metric has such a parameter.
        DatasetError: a file of the dataset is damaged.
    """
    return _connect(dataset, filters or Filters(), list(metrics().values()), threads, parameters)


def _connect(
    dataset: Dataset,
    filters: Filters,
    wanted: list[Metric],
    threads: int | None,
    parameters: dict[str, object],
) -> duckdb.DuckDBPyConnection:
    connection = database(threads)
    for table in tables():
        source = parquet_sql(dataset.files[table]) if dataset.files[table] else empty_sql(table)
        try:
            connection.execute(f"CREATE VIEW {table} AS {source}")
        except duckdb.Error as error:
            raise DatasetError(
                f"{dataset.path}: table {table} cannot be read: {error}", "ingest again"
            ) from error
    _set_parameters(connection, parameters)
    if any(name in GIVEN for metric in wanted for name in metric.reads):
        hardware = parameters.get("hardware")
        create_given(connection, None if hardware is None else str(hardware))
    create_macros(connection, filters)
    schema = "whole" if filters.given() else "main"
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for metric in wanted:
        connection.execute(f"CREATE VIEW {schema}.{metric.name} AS {_no_rows(metric)}")
        if filters.given():
            rows = _where(metric, filters)
            connection.execute(f"CREATE VIEW {metric.name} AS SELECT * FROM whole.{metric.name}{rows}")
    connection.execute(f"SET search_path = '{schema},main'")
    _fill_views(connection, dataset, wanted)
    connection.execute("SET search_path = 'main'")
    return connection


def _fill_views(connection: duckdb.DuckDBPyConnection, dataset: Dataset, wanted: list[Metric]) -> None:
    """Give the metrics' views, which have no rows yet, their SELECTs; each before those that it reads.

    DuckDB binds a view's text, and those of the views in it, when the view is made. Made in the order in
    which they read each other, views at the end of long chains would bind the whole chain each time; so each
    is bound against views that are still empty, and the chain once, when it is asked for.
    """
    found = parts(connection, dataset) if any(m.by_part for m in wanted) else []
    for metric in reversed(wanted):
        if select := _select(metric, dataset, found):
            connection.execute(f"CREATE OR REPLACE VIEW {metric.name} AS {select}")


def _select(metric: Metric, dataset: Dataset, found: list[Part]) -> str:
    """The metric's SELECT; of one that sees a part at a time, those of all parts, nothing without parts."""
    if not metric.by_part:
        return metric.sql
    return "\nUNION ALL\n".join(_part_select(metric, dataset, part) for part in found)


def _no_rows(metric: Metric) -> str:
    none = ", ".join(f"NULL::{c.type} AS {c.name}" for c in metric.columns)
    return f"SELECT {none} WHERE false"


def database(threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """An empty DuckDB in memory, as the head of this module says; signals end its queries."""
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": threads or os.cpu_count() or 1,
            "temp_directory": str(Path(tempfile.gettempdir()) / f"mdtrace-{os.getpid()}"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # a name in a query is a table, never a Python variable
            # The window functions of `per` metrics rely on the order of their input.
            "preserve_insertion_order": True,
        },
    )
    interruptible(connection)
    return connection


def _part_select(metric: Metric, dataset: Dataset, part: Part) -> str:
    """One part's SELECT: `device_ops`, and the `per` metrics that it reads, are the part's own.

    The part's constants stand in its rows, so that a filter on them leaves other parts unread.
    """
    own: dict[str, str] = {"device_ops": part_source(dataset, part)}

    def add(some: Metric) -> None:
        for name in some.reads:
            if name not in own and name in metrics() and metrics()[name].by_part:
                add(metrics()[name])
                own[name] = metrics()[name].sql

    add(metric)
    shadows = ",\n".join(f"{name} AS NOT MATERIALIZED ({sql})" for name, sql in own.items())
    return f"SELECT * REPLACE ({part.constants()}) FROM (WITH {shadows}\nSELECT * FROM ({metric.sql}))"


def _set_parameters(connection: duckdb.DuckDBPyConnection, given: dict[str, object]) -> None:
    known = {p.name: p for m in metrics().values() for p in m.parameters}
    unknown = set(given) - set(known)
    if unknown:
        raise UsageError(f"no metric has a parameter {', '.join(sorted(unknown))}")
    for name, parameter in known.items():
        value = parameter.default if name not in given else literal(given[name])
        try:
            connection.execute(f"SET VARIABLE {name} = ({value})::{parameter.type}")
        except duckdb.Error as error:
            raise UsageError(f"{name} = {given.get(name)}: not a {parameter.type}") from error


def _where(metric: Metric, filters: Filters) -> str:
    """The condition on rows of the answer."""
    conditions = []
    for name, value in filters.given().items():
        if metric.filters.get(name) != "rows":
            continue
        column = _FILTER_COLUMNS[name]
        if isinstance(value, tuple):
            conditions.append(f"{column} IN ({', '.join(literal(v) for v in value) or 'NULL'})")
        else:
            conditions.append(f"{column} GLOB {literal(value)}")
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
