"""What a reading task has at hand, and the first steps that all event tables share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.names import Names
from mdtrace.ingest.nsys.sink import Sink
from mdtrace.ingest.nsys.source import Columns, Ints, Span, TableSource, Tally, column
from mdtrace.ingest.nsys.values import durations, process_keys, usable_times

NO_TIME = "no start time that can be used"


@dataclass(frozen=True)
class Context:
    """What is known of the file before its events are read; the same for all tasks."""

    base_ns: int  # added to every recorded time
    domains: Mapping[tuple[int, int], str] = field(default_factory=dict)  # NVTX, by process key and id
    payloads: Any = None  # layouts of NVTX payloads: nccl_payload.Layouts
    group_sizes: Mapping[tuple[int, int], int] = field(default_factory=dict)  # by process key, communicator
    metrics: Mapping[tuple[int, int], str] = field(default_factory=dict)  # names by type and metric id
    gpus: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # GPU id → process key, ordinal
    only_keys: frozenset[int] | None = None  # processes that may have rows of this table; None: any
    call_starts: Any = None  # start of API calls by process key and correlation: CUDA_EVENT has no times


@dataclass
class Task:
    """One span of one table."""

    source: TableSource
    table: str
    span: Span
    context: Context
    sink: Sink
    tally: Tally

    def __post_init__(self) -> None:
        self.names = Names(self.source, self.tally)

    def batches(self, columns: Columns, time: str = "start") -> Iterator[pa.RecordBatch]:
        """The rows that have a usable time; the others are counted as skipped."""
        for batch in self.source.batches(self.table, columns, self.span, self.tally):
            good = usable_times(column(batch, time), batch.num_rows)
            kept = batch if pc.all(good).as_py() is not False else batch.filter(good)
            self.tally.events.skip(self.table, NO_TIME, batch.num_rows - kept.num_rows)
            if kept.num_rows:
                yield kept

    def store(
        self, keys: Ints, table: str, columns: Mapping[str, Any], identity: pa.RecordBatch | None
    ) -> None:
        """Stage rows and count them as stored."""
        self.sink.write(keys, table, columns, identity)
        self.tally.events.store(self.table, len(keys))

    def times(self, batch: pa.RecordBatch, time: str = "start") -> dict[str, Any]:
        """Columns start_ns and dur_ns."""
        start = column(batch, time)
        dur, negative = durations(start, column(batch, "end"))
        self.tally.add("negative_durations", negative)
        return {"start_ns": pc.add(start, self.context.base_ns), "dur_ns": dur}


def keys_of(batch: pa.RecordBatch, *names: str) -> Ints:
    """Stage keys by the first of the columns that the batch has."""
    present = next((n for n in names if column(batch, n) is not None), "")
    return process_keys(column(batch, present), batch.num_rows)


def select(batch: pa.RecordBatch, mask: Any) -> pa.RecordBatch:
    """Rows of a boolean numpy mask."""
    return batch if mask.all() else batch.filter(pa.array(np.asarray(mask)))
