"""Events that a producer wrote twice: found over the whole file once it is staged.

An event is a copy if an earlier one of the same process and table agrees in every column. Most rows are
told apart by a hash of a few numbers; only those that agree in it are read again and compared.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mdtrace.ingest.kineto.rewrite import rewrite
from mdtrace.ingest.stage import StagedProcess

# Columns that differ between nearly all distinct events.
_NUMBERS = {
    "host_ops": ["start_ns", "dur_ns", "event_index"],
    "launches": ["start_ns", "dur_ns", "correlation"],
    "device_ops": ["start_ns", "dur_ns", "correlation"],
}
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
_ROWS = 1 << 23  # hashes in memory at a time, of 8 bytes


def flag_duplicates(folder: Path, keys: Iterable[int], workers: int = 1) -> int:
    """Set `duplicate` on every copy of an earlier event under the same stage key; returns how many.

    Args:
        workers: threads.
    """

    def flag(place: tuple[int, str]) -> int:
        key, table = place
        copies = _copies(StagedProcess(folder, (key,)), table, _NUMBERS[table])
        if len(copies):
            _flag(folder, table, key, copies)
        return len(copies)

    with ThreadPoolExecutor(workers) as threads:
        return sum(threads.map(flag, product(keys, _NUMBERS)))


def _copies(staged: StagedProcess, table: str, columns: list[str]) -> NDArray[np.int64]:
    """Rows that repeat an earlier one, ascending."""
    count = staged.rows(table)
    if count < 2:
        return np.empty(0, np.int64)
    parts = 1 + count // _ROWS
    alike = [_alike(staged, table, columns, part, parts) for part in range(parts)]
    rows = np.sort(np.concatenate(alike))
    return _repeated(staged, table, rows) if len(rows) else rows


def _alike(staged: StagedProcess, table: str, columns: list[str], part: int, parts: int) -> NDArray[np.int64]:
    """Rows whose hash another row has too; of the hashes that fall to one of several parts."""
    every = _numbered(staged, table, columns)
    values = np.concatenate([_part(_hash(batch), part, parts) for _, batch in every])
    values.sort()
    again = np.unique(values[1:][values[1:] == values[:-1]])
    if not len(again):
        return np.empty(0, np.int64)
    every = _numbered(staged, table, columns)
    return np.concatenate([np.flatnonzero(np.isin(_hash(batch), again)) + first for first, batch in every])


def _part(values: NDArray[np.uint64], part: int, parts: int) -> NDArray[np.uint64]:
    return values[values % np.uint64(parts) == part] if parts > 1 else values


def _numbered(
    staged: StagedProcess, table: str, columns: list[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    first = 0
    for batch in staged.batches(table, columns=columns):
        yield first, batch
        first += batch.num_rows


def _hash(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    result = np.zeros(batch.num_rows, np.uint64)
    for column in batch.columns:
        numbers = pc.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        result = (result ^ numbers.view(np.uint64)) * _FACTOR
        result ^= result >> np.uint64(29)
    return result


def _repeated(staged: StagedProcess, table: str, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of some rows (ascending), those that agree with an earlier one of them in every column."""
    parts = []
    for first, batch in _numbered(staged, table):
        low, high = np.searchsorted(rows, (first, first + batch.num_rows))
        if low < high:
            parts.append(batch.take(pa.array(rows[low:high] - first)))
    some = pa.Table.from_batches(parts)
    numbered = some.append_column("row", pa.array(rows))
    firsts = numbered.group_by(some.column_names).aggregate([("row", "min")]).column("row_min").to_numpy()
    return rows[~np.isin(rows, firsts)]


def _flag(folder: Path, table: str, key: int, copies: NDArray[np.int64]) -> None:
    seen = 0

    def flagged(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal seen
        mask = np.zeros(batch.num_rows, np.bool_)
        low, high = np.searchsorted(copies, (seen, seen + batch.num_rows))
        mask[copies[low:high] - seen] = True
        seen += batch.num_rows
        index = batch.schema.get_field_index("duplicate")
        return batch.set_column(index, batch.schema.field(index), pa.array(mask))

    rewrite(folder, table, flagged, key)
