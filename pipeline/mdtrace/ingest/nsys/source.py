"""One interface over the two forms of an export: an SQLite file, or a folder of Parquet files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdtrace.ingest.facts import EventCounts

# What a column must hold; a value of another type becomes NULL and is counted.
# `name` is an id into StringIds (some Parquet exports have the text itself), `blob` bytes or text.
Kind = Literal["int", "real", "text", "blob", "name"]
Columns = Mapping[str, Kind]

Ints = npt.NDArray[np.int64]

BATCH_ROWS = 64 * 1024
SPAN_ROWS = 512 * 1024  # rows of one task; a multiple of the batch, whatever the number of workers

NO_PROCESS = -(1 << 62)  # stage key of rows whose process the file does not tell


@dataclass(frozen=True)
class Span:
    """A contiguous part of a table: rowids (SQLite) or row groups (Parquet), both ends included."""

    first: int
    last: int


@dataclass
class Tally:
    """What one reading task met beside the rows it staged; tasks' tallies are added up in order."""

    events: EventCounts = field(default_factory=EventCounts)
    counts: dict[str, int] = field(default_factory=dict)  # findings by diagnostic code
    devices: dict[int, set[int]] = field(default_factory=dict)  # by process key, ordinals seen

    def add(self, code: str, count: int = 1) -> None:
        if count:
            self.counts[code] = self.counts.get(code, 0) + int(count)

    def merge(self, other: "Tally") -> None:
        self.events.merge(other.events)
        for code, count in other.counts.items():
            self.add(code, count)
        for key, ordinals in other.devices.items():
            self.devices.setdefault(key, set()).update(ordinals)


class TableSource(Protocol):
    """Tables by name; every table and every column may be absent."""

    tables: dict[str, tuple[str, ...]]  # columns of each table
    size_bytes: int
    truncated: bool  # the file ends before its own header says it does

    def spans(self, table: str) -> list[Span]:
        """The table in parts of about SPAN_ROWS, the same whoever reads them; none if it is empty."""

    def batches(self, table: str, columns: Columns, span: Span, tally: Tally) -> Iterator[pa.RecordBatch]:
        """The rows of a span in order: int64, float64, string and binary columns, absent ones left out."""

    def rows(
        self,
        table: str,
        columns: Columns,
        tally: Tally,
        where: tuple[str, Sequence[int]] | None = None,
    ) -> list[dict[str, Any]]:
        """Rows of a small table, or those whose integer column has one of the values; absent columns None."""

    def count(self, table: str, tally: Tally) -> int:
        """Number of rows."""

    def names(self, ids: Sequence[int]) -> dict[int, str]:
        """Texts of StringIds, of these ids alone; unknown ids are left out."""

    def environment_texts(self) -> list[str]:
        """StringIds texts that may be environment blocks: they name a rank variable."""

    def close(self) -> None:
        """Let go of the file, for the calling thread's use of it."""


def column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column, None where the export has none of the name."""
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)
