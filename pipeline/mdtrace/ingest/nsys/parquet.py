"""A parquetdir export as tables: one Parquet file a table."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mdtrace.errors import InputError, check_path
from mdtrace.ingest.nsys.source import BATCH_ROWS, SPAN_ROWS, Columns, Kind, Span, Tally
from mdtrace.ingest.nsys.sqlite_arrow import utf8

_ENVIRONMENT = ("RANK=", "SLURM_PROCID=")


class ParquetSource:
    """A folder of Parquet files named after the tables."""

    truncated = False

    def __init__(self, path: Path, label: str) -> None:
        """Open an export.

        Raises:
            InputError: none of its files can be read.
            UsageError: the path is not UTF-8, which Arrow needs.
        """
        check_path(path)
        self._path = path
        files = sorted(path.glob("*.parquet"))
        self.size_bytes = sum(f.stat().st_size for f in files)
        self.tables: dict[str, tuple[str, ...]] = {}
        self.unreadable = 0  # tables that cannot be opened at all
        for file in files:
            try:
                self.tables[file.stem] = tuple(pq.read_schema(file).names)
            except (pa.ArrowException, OSError):
                self.unreadable += 1
        if not self.tables:
            raise InputError(
                f"{label}: none of its {len(files)} Parquet files can be read",
                "run again: nsys export --type parquetdir REPORT.nsys-rep",
            )
        self._lock = threading.Lock()
        self._strings: tuple[Any, pa.Array] | None = None

    def _file(self, table: str) -> pq.ParquetFile:
        return pq.ParquetFile(self._path / f"{table}.parquet")

    def close(self) -> None:
        """Nothing stays open."""

    def spans(self, table: str) -> list[Span]:
        with self._file(table) as file:
            rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        spans: list[Span] = []
        first = held = 0
        for i, count in enumerate(rows):
            held += count
            if held >= SPAN_ROWS or i == len(rows) - 1:
                spans += [Span(first, i)] if held else []
                first, held = i + 1, 0
        return spans

    def batches(self, table: str, columns: Columns, span: Span, tally: Tally) -> Iterator[pa.RecordBatch]:
        present = {c: kind for c, kind in columns.items() if c in self.tables[table]}
        try:
            with self._file(table) as file:
                groups = list(range(span.first, span.last + 1))
                for batch in file.iter_batches(BATCH_ROWS, groups, list(present), use_threads=False):
                    arrays = [_typed(batch.column(c), kind, tally) for c, kind in present.items()]
                    yield pa.RecordBatch.from_arrays(arrays, names=list(present))
        except (pa.ArrowException, OSError):
            tally.add("damaged_pages")

    def rows(
        self,
        table: str,
        columns: Columns,
        tally: Tally,
        where: tuple[str, Sequence[int]] | None = None,
    ) -> list[dict[str, Any]]:
        if table not in self.tables or (where and where[0] not in self.tables[table]):
            return []
        asked: dict[str, Kind] = {**columns, **({where[0]: "int"} if where else {})}
        found: list[dict[str, Any]] = []
        for span in self.spans(table):
            for batch in self.batches(table, asked, span, tally):
                if where:
                    batch = batch.filter(
                        pc.is_in(batch.column(where[0]), pa.array(list(where[1]), pa.int64()))
                    )
                found += batch.to_pylist()
        return [{c: row.get(c) for c in columns} for row in found]

    def count(self, table: str, tally: Tally) -> int:
        with self._file(table) as file:
            return int(file.metadata.num_rows)

    def names(self, ids: Sequence[int]) -> dict[int, str]:
        known, texts = self._string_ids()
        if not len(known):
            return {}
        wanted = np.asarray(sorted(ids), np.int64)
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        hit = known[places] == wanted
        values = texts.take(pa.array(places[hit])).to_pylist()
        return {int(i): v for i, v in zip(wanted[hit], values, strict=True) if v is not None}

    def _string_ids(self) -> tuple[Any, pa.Array]:
        """StringIds in memory, sorted by id: a Parquet file has no index to look single texts up by."""
        with self._lock:
            if self._strings is None:
                self._strings = self._load_strings()
            return self._strings

    def _load_strings(self) -> tuple[Any, pa.Array]:
        empty = (np.zeros(0, np.int64), pa.array([], pa.string()))
        if not {"id", "value"} <= set(self.tables.get("StringIds", ())):
            return empty
        kinds: dict[str, Kind] = {"id": "int", "value": "text"}
        parts = [
            b for span in self.spans("StringIds") for b in self.batches("StringIds", kinds, span, Tally())
        ]
        if not parts:
            return empty
        table = pa.Table.from_batches(parts)
        table = table.filter(pc.is_valid(table.column("id"))).sort_by("id").combine_chunks()
        ids = table.column("id").to_numpy()
        return ids, pa.concat_arrays(table.column("value").chunks) if len(ids) else empty[1]

    def environment_texts(self) -> list[str]:
        _, texts = self._string_ids()
        found = [pc.match_substring(texts, mark).fill_null(False) for mark in _ENVIRONMENT]
        return [str(t) for t in texts.filter(pc.or_(*found)).to_pylist()]

    def has_journal(self) -> bool:
        """Parquet has none."""
        return False


def _typed(array: pa.Array, kind: Kind, tally: Tally) -> pa.Array:
    """A column in the type that its kind asks for; what does not convert becomes NULL, counted."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if kind == "blob" or kind == "text":
        return _bytes_or_text(array, kind, tally)
    if kind == "name" and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return array.cast(pa.string())
    target = pa.float64() if kind == "real" else pa.int64()
    try:
        return array.cast(target, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        tally.add("wrong_types", len(array) - array.null_count)
        return pa.nulls(len(array), target)


def _bytes_or_text(array: pa.Array, kind: Kind, tally: Tally) -> pa.Array:
    try:
        raw = array.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        tally.add("wrong_types", len(array) - array.null_count)
        raw = pa.nulls(len(array), pa.binary())
    return raw if kind == "blob" else utf8(raw, tally)
