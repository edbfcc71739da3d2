"""SQLite rows → Arrow through ADBC, guarded: no stored value can change a column's type or stop the reading.

ADBC takes the types of columns from the first batch, so that a column of NULLs followed by text fails and
one REAL makes a whole column of integers double. Hence a first row of the right types (dropped again), and
`typeof` around every column: a value of another type becomes a mark that is counted and made NULL.
Text is read as bytes, because nothing says that it is UTF-8.
"""

from collections.abc import Iterator
from typing import Any

import adbc_driver_manager as adbc  # not its dbapi: that imports pandas
import adbc_driver_sqlite
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.source import BATCH_ROWS, Columns, Kind, Span, Tally

ReadErrors = (adbc.Error, pa.ArrowException, OSError)
READ_SHORTER = "PRAGMA writable_schema = ON"  # else SQLite refuses a file shorter than its header says

_MARK = -(1 << 63)  # stands for "another type" until it is counted; as text: one byte that UTF-8 cannot have
_MARK_SQL = "-9223372036854775807-1"
_TEXT_MARK = b"\xff"

_TYPES: dict[Kind, pa.DataType] = {
    "int": pa.int64(),
    "name": pa.int64(),
    "real": pa.float64(),
    "text": pa.binary(),
    "blob": pa.binary(),
}
_FIRST = {"int": "0", "name": "0", "real": "0.0", "text": "x''", "blob": "x''"}


def guarded(name: str, kind: Kind) -> str:
    """The SQL that reads one column."""
    column = '"' + name.replace('"', '""') + '"'
    if kind in ("int", "name"):
        other = f"WHEN {column} IS NOT NULL THEN {_MARK_SQL} END"
        return f"CASE WHEN typeof({column}) = 'integer' THEN {column} {other}"
    if kind == "real":
        return f"CASE WHEN typeof({column}) IN ('real', 'integer') THEN CAST({column} AS REAL) END"
    if kind == "text":
        other = f"WHEN {column} IS NOT NULL THEN x'ff' END"
        return f"CASE WHEN typeof({column}) = 'text' THEN CAST({column} AS BLOB) {other}"
    return f"CASE WHEN typeof({column}) IN ('text', 'blob') THEN CAST({column} AS BLOB) END"


def read(
    uri: str, table: str, columns: Columns, span: Span, *, shorter: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a span in rowid order, as stored; `cleaned` must see them next.

    Args:
        table: its name, quoted.
        shorter: the file is shorter than its header says.

    Raises:
        One of ReadErrors: a page of the table is damaged. Batches before it have come.
    """
    first = ", ".join(f"{_FIRST[kind]} AS c{i}" for i, kind in enumerate(columns.values()))
    body = ", ".join(guarded(name, kind) for name, kind in columns.items())
    query = (
        f"SELECT {span.first - 1} AS r, {first} UNION ALL SELECT rowid, {body} FROM {table}"
        f" WHERE rowid BETWEEN {span.first} AND {span.last}"
    )
    with (
        adbc_driver_sqlite.connect(uri) as database,
        adbc.AdbcConnection(database) as connection,
        adbc.AdbcStatement(connection) as statement,
    ):
        if shorter:
            statement.set_sql_query(READ_SHORTER)
            statement.execute_update()
        statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        statement.set_sql_query(query)
        stream, _ = statement.execute_query()
        before = span.first - 2
        skip = 1
        for batch in pa.RecordBatchReader.from_stream(stream):
            before = _in_order(batch.column(0), before)
            yield _typed(batch.slice(skip), columns)
            skip = 0


def _in_order(rowids: pa.Array, before: int) -> int:
    """The last rowid; ReadErrors where they do not rise: that page is not what was once written."""
    numbers = rowids.to_numpy()
    if numbers[0] <= before or (np.diff(numbers) <= 0).any():
        raise pa.ArrowInvalid("rowids out of order")
    return int(numbers[-1])


def _typed(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Without the leading rowid, under the columns' own names."""
    arrays = [batch.column(i + 1).cast(_TYPES[kind]) for i, kind in enumerate(columns.values())]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def from_rows(rows: list[Any], columns: Columns) -> pa.RecordBatch:
    """Rows of Python's sqlite3 (rowid first, then the guarded columns) as `read` yields them."""
    arrays = [pa.array([r[i + 1] for r in rows], _TYPES[kind]) for i, kind in enumerate(columns.values())]
    if not arrays:
        return pa.RecordBatch.from_pydict({"rowid": [r[0] for r in rows]})
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def cleaned(batch: pa.RecordBatch, columns: Columns, tally: Tally, encoding: str) -> pa.RecordBatch:
    """Marks → NULL, counted; text → UTF-8, repaired where it is none, counted."""
    if not columns:
        return batch
    arrays = [_clean(batch.column(i), kind, tally, encoding) for i, kind in enumerate(columns.values())]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _clean(array: pa.Array, kind: Kind, tally: Tally, encoding: str) -> pa.Array:
    if kind in ("int", "name"):
        return _without(array, pa.scalar(_MARK, pa.int64()), tally) if _has_mark(array) else array
    if kind != "text":
        return array
    return utf8(array, tally, encoding)


def _has_mark(array: pa.Array) -> bool:
    return bool(array.null_count < len(array) and pc.min(array).as_py() == _MARK)


def _without(array: pa.Array, mark: pa.Scalar, tally: Tally) -> pa.Array:
    marked = pc.equal(array, mark)
    tally.add("wrong_types", pc.sum(marked).as_py() or 0)
    return pc.if_else(marked, pa.scalar(None, array.type), array)


def utf8(array: pa.Array, tally: Tally, encoding: str = "UTF-8") -> pa.Array:
    """Bytes as text; what is not valid gets replacement characters, row by row."""
    if encoding == "UTF-8":
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid:
            array = _without(array, pa.scalar(_TEXT_MARK), tally)
    texts = [None if v is None else v.decode(encoding, "replace") for v in array.to_pylist()]
    plain = [v for v, t in zip(array.to_pylist(), texts, strict=True) if t is not None and "�" in t]
    tally.add("repaired_text", len(plain))
    return pa.array(texts, pa.string())
