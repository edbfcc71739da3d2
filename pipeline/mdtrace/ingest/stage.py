"""Rows between reading and linking: one Arrow IPC file per process and table.

A reader appends columns as they come; linking reads only the columns it needs; the writer streams
the batches into Parquet with the linked columns beside. So what a process keeps in memory does not
grow with the text in the trace.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.tables.schema import tables

_CODED = pa.dictionary(pa.int8(), pa.string())

# What a collective's arguments are attached to: a row of device_ops or host_ops of the same
# process. Linking turns these into `collectives`; they are not a table of the dataset.
COMM_RECORDS = pa.schema(
    [
        ("anchor", pa.string()),  # device_ops | host_ops
        ("row", pa.int64()),  # row number in the anchor's staged table
        ("name", pa.string()),  # the collective's name as recorded, NULL: that of the anchor
        ("group_name", pa.string()),
        ("group_desc", pa.string()),
        ("group_ranks", pa.list_(pa.int32())),
        ("group_size", pa.int32()),
        ("communicator", pa.string()),
        ("seq", pa.int64()),
        ("point_to_point", pa.bool_()),
        ("peer_rank", pa.int32()),
        ("dtype", pa.string()),  # short form
        ("elements_in", pa.int64()),
        ("elements_out", pa.int64()),
        ("payload_bytes", pa.int64()),  # only where the file states bytes itself
    ]
)


@cache
def staged_schema(table: str) -> pa.Schema:
    """Columns a reader may supply for a table."""
    if table == "comm_records":
        return COMM_RECORDS
    return pa.schema([f.with_nullable(True) for f in tables()[table].arrow("read")])


@cache
def _stored_schema(table: str) -> pa.Schema:
    """The same as it is staged: texts of a few declared values as codes, which nobody has to hash again."""
    schema = staged_schema(table)
    if table != "comm_records":
        for column in tables()[table].columns:
            if column.values and column.origin == "read":
                place = schema.get_field_index(column.name)
                schema = schema.set(place, schema.field(place).with_type(_CODED))
    return schema


@cache
def _values(table: str, column: str) -> pa.Array:
    return pa.array(tables()[table].column(column).values, pa.string())


def segment_name(segment: int) -> str:
    """The folder of a segment, so named that names sort as numbers do."""
    return f"{segment:04d}"


def conform(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Columns as one batch of the schema: absent ones NULL (`duplicate`: false), names checked.

    Args:
        columns: Arrow arrays, numpy arrays or lists, all of one length; `None` stands for all NULL.

    Raises:
        KeyError: a column is not of the schema.
    """
    unknown = set(columns) - set(schema.names)
    if unknown:
        raise KeyError(f"no such columns: {sorted(unknown)}")
    length = _length(columns)
    return pa.RecordBatch.from_arrays(
        [_column(columns.get(f.name), f, length) for f in schema], schema=schema
    )


def _length(columns: Mapping[str, Any]) -> int:
    return next(len(c) for c in columns.values() if c is not None)


def _code(table: str, name: str, values: Any, length: int) -> pa.Array:
    """Texts as codes into the declared values.

    Raises:
        ValueError: a text is none of them.
    """
    declared = _values(table, name)
    if values is None:
        return pa.DictionaryArray.from_arrays(pa.nulls(length, pa.int8()), declared)
    array = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    if pa.types.is_dictionary(array.type):
        codes = pc.index_in(array.dictionary, declared).take(array.indices)
    else:
        codes = pc.index_in(array, declared)
    if codes.null_count != array.null_count:
        raise ValueError(f"{table}.{name}: not one of {declared.to_pylist()}")
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int8()), declared)


def _column(values: Any, field: pa.Field, length: int) -> pa.Array:
    if values is None:
        if pa.types.is_boolean(field.type) and field.name in ("duplicate", "truncated", "point_to_point"):
            return pa.array([False] * length, field.type)
        return pa.nulls(length, field.type)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    array = values if isinstance(values, pa.Array) else pa.array(values, from_pandas=False)
    return array if array.type == field.type else array.cast(field.type)


class Stage:
    """The rows that one reader task stages, by process key and table.

    A key is any int that tells processes of the file apart while reading (Kineto: the pid); the
    reader's `ProcessFacts.staged_as` names the keys that make up each process in the end. Several tasks
    may read ranges of one file: each has its own `segment`, and rows count through the segments in order.
    """

    def __init__(self, folder: Path, segment: int = 0) -> None:
        self.folder = folder
        self.segment = segment
        (folder / segment_name(segment)).mkdir(parents=True, exist_ok=True)
        self._writers: dict[tuple[int, str], pa.ipc.RecordBatchFileWriter] = {}
        self._lengths: dict[str, list[int]] = {}

    def rows(self, key: int, table: str) -> int:
        """Rows staged so far under the key: the row number (within this segment) that the next one gets."""
        return sum(self._lengths.get(f"{key}-{table}", ()))

    def write(self, key: int, table: str, columns: Mapping[str, Any]) -> None:
        """Append rows of a table; see `conform`. Texts may come as dictionary arrays."""
        schema = _stored_schema(table)
        length = _length(columns)
        coded = {
            f.name: _code(table, f.name, columns.get(f.name), length) for f in schema if f.type == _CODED
        }
        batch = conform({**columns, **coded}, schema)
        if batch.num_rows == 0:
            return
        if (key, table) not in self._writers:
            path = self.folder / segment_name(self.segment) / f"{key}-{table}.arrow"
            self._writers[key, table] = pa.ipc.new_file(str(path), schema)
        self._writers[key, table].write_batch(batch)
        self._lengths.setdefault(f"{key}-{table}", []).append(batch.num_rows)

    def close(self) -> None:
        """Finish all files; only then can they be read."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        (self.folder / segment_name(self.segment) / "lengths.json").write_text(json.dumps(self._lengths))


@dataclass(frozen=True)
class _File:
    path: Path
    lengths: list[int]


class StagedProcess:
    """The staged tables of one process, in staged order. Reads columns or batches, never maps whole files."""

    def __init__(self, folder: Path, keys: tuple[int, ...]) -> None:
        self.folder = folder
        self.keys = keys

    def _files(self, table: str) -> list[_File]:
        names = [f"{key}-{table}" for key in self.keys]
        return [
            _File(segment / f"{name}.arrow", lengths.get(name, []))
            for segment, lengths in self._segments
            for name in names
        ]

    @cached_property
    def _segments(self) -> list[tuple[Path, dict[str, list[int]]]]:
        found = sorted(self.folder.glob("[0-9]*"))
        return [(segment, json.loads((segment / "lengths.json").read_text())) for segment in found]

    def rows(self, table: str) -> int:
        return sum(sum(f.lengths) for f in self._files(table))

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """A staged table, or columns of it, in memory; `comm_records.row` counts through all segments."""
        schema = staged_schema(name)
        wanted = columns or schema.names
        batches = list(self.batches(name, columns=wanted))
        return pa.Table.from_batches(batches, pa.schema([schema.field(c) for c in wanted]))

    def batches(
        self,
        name: str,
        start: int = 0,
        stop: int | None = None,
        columns: list[str] | None = None,
        *,
        coded: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of rows start…stop of a table, in order, one in memory at a time.

        Args:
            coded: give texts of a few declared values as the dictionary arrays that they are staged as.
        """
        schema = _stored_schema(name)
        wanted = columns or schema.names
        options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(c) for c in wanted])
        decoded = [] if coded else [c for c in wanted if schema.field(c).type == _CODED]
        row = 0
        shifts = self._shifts() if name == "comm_records" else None
        for number, file in enumerate(self._files(name)):
            end = row + sum(file.lengths)
            if not file.lengths or end <= start or (stop is not None and row >= stop):
                row = end
                continue
            with pa.OSFile(str(file.path)) as handle:
                reader = pa.ipc.open_file(handle, options=options)
                for i, length in enumerate(file.lengths):
                    first, last = max(start - row, 0), min(length, (stop or end) - row)
                    if first < last:
                        batch = reader.get_batch(i).select(wanted).slice(first, last - first)
                        for c in decoded:
                            place = wanted.index(c)
                            batch = batch.set_column(place, c, batch.column(place).dictionary_decode())
                        yield _shift(batch, shifts[number]) if shifts else batch
                    row += length

    def _shifts(self) -> list[dict[str, int]]:
        """How far the rows of each anchor table have moved, for each staged file."""
        shifts: list[dict[str, int]] = []
        anchors = ("device_ops", "host_ops")
        files = {a: self._files(a) for a in anchors}
        seen = dict.fromkeys(anchors, 0)
        for number in range(len(files["host_ops"])):
            shifts.append(dict(seen))
            for a in anchors:
                seen[a] += sum(files[a][number].lengths)
        return shifts


def _shift(batch: pa.RecordBatch, shift: Mapping[str, int]) -> pa.RecordBatch:
    """Comm records whose anchor rows count from the start of the process."""
    if "row" not in batch.schema.names or not any(shift.values()):
        return batch
    anchor = batch.column("anchor").to_pylist()
    rows = [r + shift[a] for a, r in zip(anchor, batch.column("row").to_pylist(), strict=True)]
    return batch.set_column(batch.schema.get_field_index("row"), "row", pa.array(rows, pa.int64()))
