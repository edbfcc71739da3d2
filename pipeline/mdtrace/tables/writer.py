"""Rows → Parquet files of the dataset, the same bytes for the same rows.

Row groups and files are cut at fixed row numbers, so that the result does not depend on how the
rows were batched on their way or on how many processes wrote them.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdtrace.tables.schema import ID_COLUMNS, row_id, tables

ROW_GROUP = 128 * 1024
ROWS_PER_FILE = 2 * ROW_GROUP


def write_rows(
    folder: Path,
    table: str,
    batches: Iterable[pa.RecordBatch],
    *,
    process_id: int,
    rank: int | None,
    linked: Mapping[str, Any] | None = None,
    first_row: int = 0,
) -> int:
    """Write one file of a process's table.

    Args:
        batches: the `read` columns of rows first_row…, at most ROWS_PER_FILE of them.
        linked: the `link` columns of the same rows; absent ones are NULL.
        first_row: a multiple of ROWS_PER_FILE.

    Returns:
        Rows written; with none, no file is made.
    """
    path = folder / table / f"p{process_id:05d}-{first_row // ROWS_PER_FILE:04d}.parquet"
    groups = _groups(batches)
    first = next(groups, None)
    if first is None:
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    row = first_row
    with _open(path, table) as writer:
        group: pa.Table | None = first
        while group is not None:
            writer.write_table(_complete(table, group, linked or {}, row, row - first_row, process_id, rank))
            row += group.num_rows
            group = next(groups, None)
    return row - first_row


def write_table(folder: Path, table: str, rows: pa.Table, name: str) -> None:
    """Write a small table whole, as one file; columns are those of the declaration."""
    if rows.num_rows:
        path = folder / table / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with _open(path, table) as writer:
            writer.write_table(rows.select(writer.schema.names).cast(writer.schema), ROW_GROUP)


def _open(path: Path, table: str) -> pq.ParquetWriter:
    """Text is stored by dictionary; the least and greatest of each group are kept of numbers alone, since
    queries leave out groups by time, step and rank."""
    schema = tables()[table].arrow()
    text = [f.name for f in schema if pa.types.is_string(f.type)]
    numbers = [f.name for f in schema if pa.types.is_integer(f.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=text,
        write_statistics=numbers,
    )


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of the batches in tables of ROW_GROUP rows, the last one shorter."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        while rows >= ROW_GROUP:
            table = pa.Table.from_batches(held)
            yield table.slice(0, ROW_GROUP)
            held = table.slice(ROW_GROUP).to_batches()
            rows -= ROW_GROUP
    if rows:
        yield pa.Table.from_batches(held)


def _complete(
    table: str,
    rows: pa.Table,
    linked: Mapping[str, Any],
    row: int,
    offset: int,
    process_id: int,
    rank: int | None,
) -> pa.Table:
    """Read columns with the linked and written ones beside, in declared order."""
    count = rows.num_rows
    arrays: list[Any] = []
    for column in tables()[table].columns:
        if column.name == ID_COLUMNS.get(table):
            arrays.append(pa.array(np.arange(row, row + count, dtype=np.int64) + row_id(process_id, 0)))
        elif column.name == "process_id":
            arrays.append(pa.array(np.full(count, process_id, np.int32)))
        elif column.origin == "write":  # rank, the only other one
            arrays.append(
                pa.nulls(count, pa.int32()) if rank is None else pa.array(np.full(count, rank, np.int32))
            )
        elif column.name in rows.schema.names:
            arrays.append(rows.column(column.name))
        elif column.name in linked:
            arrays.append(linked[column.name].slice(offset, count))
        else:
            arrays.append(pa.nulls(count, column.type))
    return pa.Table.from_arrays(arrays, schema=tables()[table].arrow())
