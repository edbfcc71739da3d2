"""Reads one nsys export: facts about the file first, then its event tables in parallel spans."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from mdtrace.ingest.facts import ProcessFacts, Source, SourceFacts
from mdtrace.ingest.nsys.duplicates import flag_copies
from mdtrace.ingest.nsys.environment import read_environments
from mdtrace.ingest.nsys.findings import findings
from mdtrace.ingest.nsys.gpu_metrics import metric_names
from mdtrace.ingest.nsys.launches import CallStarts, call_starts
from mdtrace.ingest.nsys.nccl import memberships
from mdtrace.ingest.nsys.nccl_payload import read_layouts
from mdtrace.ingest.nsys.nvtx import domain_names, metadata_rows, thread_names
from mdtrace.ingest.nsys.parquet import ParquetSource
from mdtrace.ingest.nsys.processes import Known, file_pids, merge_unknown, mpi_ranks, pid_of, processes
from mdtrace.ingest.nsys.sink import Sink
from mdtrace.ingest.nsys.source import NO_PROCESS, Columns, Ints, Span, Tally, column
from mdtrace.ingest.nsys.sqlite import SqliteSource
from mdtrace.ingest.nsys.tables import EVENTS, LATER, Handler, skipped, versions
from mdtrace.ingest.nsys.target import Gpus, read_export, read_gpus
from mdtrace.ingest.nsys.task import Context, Task
from mdtrace.ingest.nsys.values import ints
from mdtrace.ingest.pool import Pool

T = TypeVar("T")
R = TypeVar("R")


def read_nsys(source: Source, folder: Path, pool: Pool) -> SourceFacts:
    """Stage the rows of an nsys export.

    Works in `pool.workers` threads of this process: reading is in C and lets go of the interpreter, so
    threads scale as processes do and need no start. The parts that
    they read are the same however many they are.

    Args:
        source: an SQLite file, or the folder of a parquetdir export.

    Raises:
        InputError: the file is no such export, or too damaged for its tables to be told.
    """
    tables = open_source(source)
    try:
        return _Reading(source, tables, folder, pool).run()
    finally:
        tables.close()


def open_source(source: Source) -> SqliteSource | ParquetSource:
    """The tables of an export.

    Raises:
        InputError: it is none.
    """
    if source.path.is_dir():
        return ParquetSource(source.path, source.label)
    return SqliteSource(source.path, source.label)


@dataclass(frozen=True)
class _Part:
    """One reading task."""

    table: str
    handler: Handler
    span: Span
    segment: int
    context: Context
    share: int  # bytes of input that it stands for


class _Reading:
    """One export while it is read."""

    def __init__(
        self, source: Source, tables: SqliteSource | ParquetSource, folder: Path, pool: Pool
    ) -> None:
        self.source, self.tables, self.folder, self.pool = source, tables, folder, pool
        self.tally = Tally()
        self.tally.add("damaged_pages", tables.unreadable)
        self.keys: list[int] = []
        self.segment = 0
        self.advanced = 0

    def run(self) -> SourceFacts:
        export = read_export(self.tables, self.tally)
        gpus = read_gpus(self.tables, self.tally)
        nvtx = versions(self.tables.tables, "NVTX_EVENTS")
        named = metadata_rows(self.tables, nvtx, self.tally)
        layouts = read_layouts(self.tables, self.tally)
        members = memberships(self.tables, nvtx, layouts, Tally())
        context = Context(
            base_ns=export.base_ns or 0,
            domains=domain_names(named),
            payloads=layouts,
            group_sizes={key: size for key, (size, _) in members.items()},
        )
        self._read(EVENTS, context)
        known = Known(
            export,
            gpus,
            read_environments(self.tables, self.tally),
            mpi_ranks(self.tables, thread_names(named), self.tally),
            members,
            file_pids(self.tables, self.tally),
        )
        self._read(LATER, self._later(context, gpus))
        return self._facts(known)

    def _later(self, context: Context, gpus: Gpus) -> Context:
        """What the tables need that are read last."""
        return replace(
            context,
            only_keys=frozenset(self.keys),  # overhead alone makes no capture
            metrics=metric_names(self.tables, self.tally),
            gpus=_gpu_owners(gpus, self.keys, self.tally),
        )

    def _facts(self, known: Known) -> SourceFacts:
        for table, name, reason in skipped(self.tables.tables):
            self.tally.events.skip(name, reason, self.tables.count(table, self.tally))
        self.tally.add("duplicate_events", flag_copies(self.folder))
        found: list[ProcessFacts] = processes(self.keys, known, self.tally)
        damaged = bool(self.tally.counts.get("damaged_pages"))
        self.pool.advance(max(0, self.tables.size_bytes - self.advanced))
        export = known.export
        return SourceFacts(
            format="nsys",
            clock_base="file" if export.base_ns is None else "epoch",
            clock_base_ns=export.base_ns or None,
            format_version=export.schema_version,
            producer=export.producer,
            truncated=self.tables.truncated or damaged,
            events=self.tally.events,
            processes=found,
            diagnostics=findings(self.source, self.tables, export, self.tally, self.tables.has_journal()),
        )

    def _read(self, handlers: tuple[tuple[str, Handler], ...], context: Context) -> None:
        """Read tables; results are taken in the order of the parts, whichever thread is done first."""
        for keys, tally in _map(self.pool.workers, self._part, list(self._parts(handlers, context))):
            self.tally.merge(tally)
            self.keys += [k for k in keys if k not in self.keys]

    def _parts(self, handlers: tuple[tuple[str, Handler], ...], context: Context) -> Iterator[_Part]:
        planned = [
            (table, handler, span)
            for name, handler in handlers
            for table in versions(self.tables.tables, name)
            for span in self.tables.spans(table)
        ]
        share = int(self.tables.size_bytes * 0.9 / max(1, len(planned))) if handlers is EVENTS else 0
        for table, handler, span in planned:
            own = context
            if table.startswith("CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
                own = replace(context, call_starts=self._call_starts(table, span))
            yield _Part(table, handler, span, self.segment, own, share)
            self.segment += 1
            self.advanced += share

    def _part(self, part: _Part) -> tuple[list[int], Tally]:
        tally = Tally()
        sink = Sink(self.folder, part.segment)
        try:
            part.handler(Task(self.tables, part.table, part.span, part.context, sink, tally))
        finally:
            sink.close()
            if self.pool.workers > 1:
                self.tables.close()  # this thread's connection
        self.pool.advance(part.share)
        return sink.keys, tally

    def _call_starts(self, table: str, span: Span) -> CallStarts | None:
        """Where event records have no time of their own: the starts of the calls that made them."""
        wanted: list[Ints] = []
        columns: Columns = {"timestamp": "int", "correlationId": "int"}
        for batch in self.tables.batches(table, columns, span, Tally()):
            stamps = ints(column(batch, "timestamp"), batch.num_rows, 0)
            wanted.append(ints(column(batch, "correlationId"), batch.num_rows, -1)[stamps <= 0])
        needed = np.concatenate(wanted) if wanted else np.zeros(0, np.int64)
        if not len(needed):
            return None
        calls = versions(self.tables.tables, "CUPTI_ACTIVITY_KIND_RUNTIME")
        return call_starts(self.tables, calls, needed)


def _map(workers: int, call: Callable[[T], R], items: list[T]) -> Iterable[R]:
    if workers == 1 or len(items) < 2:
        yield from map(call, items)
        return
    with ThreadPoolExecutor(min(workers, len(items))) as threads:
        yield from threads.map(call, items)


def _gpu_owners(gpus: Gpus, keys: list[int], tally: Tally) -> dict[int, tuple[int, int]]:
    """Process and its ordinal for each GPU: the first process that is tied to it, else by use."""
    owners: dict[int, tuple[int, int]] = {}
    groups = merge_unknown(keys)
    for group in groups:
        for ordinal, row in gpus.of_process(pid_of(group[0])).items():
            if row["gpuId"] is not None:
                owners.setdefault(row["gpuId"], (group[0], ordinal))
    if owners:
        return owners
    for group in groups:  # nothing ties ordinals to GPUs: an ordinal is taken for the GPU of its number
        for ordinal in sorted({o for k in group for o in tally.devices.get(k, ())}):
            owners.setdefault(ordinal, (group[0], ordinal))
    if not owners and len(groups) == 1 and groups[0][0] != NO_PROCESS:
        owners = {gpu: (groups[0][0], gpu) for gpu in range(256)}
    return owners
