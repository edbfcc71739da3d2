"""One source from its file to Parquet: read, link, write."""

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.errors import InputError
from mdtrace.ingest.detect import reader
from mdtrace.ingest.facts import ProcessFacts, Source, SourceFacts
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.ranks import resolve_ranks
from mdtrace.ingest.stage import StagedProcess, staged_schema
from mdtrace.tables.diagnostics import Diagnostic
from mdtrace.tables.schema import row_id
from mdtrace.tables.writer import ROWS_PER_FILE, write_rows

if TYPE_CHECKING:
    from mdtrace.link.process import Linked

_LINK = "mdtrace.link.process"
_LATER = (_LINK, "mdtrace.link.instances")  # needed once the source is read, loaded while workers read it

Rows = list[dict[str, Any]]

# Large tables (host_ops, launches, device_ops, counters) are streamed from the stage in parts. Small ones:
# staged and linked rows joined in memory.
SMALL = ("sources", "processes", "devices", "diagnostics")  # written once for the whole dataset
JOINED = ("steps", "layers", "collectives", "arrivals", "op_costs")

# References inside a process that a reader stages as plain row numbers, not knowing the process's id.
ROW_REFERENCES = {"collectives": ("host_op_id", "device_op_id"), "arrivals": ("collective_id",)}


@dataclass(frozen=True)
class Task:
    source: Source
    format: str
    source_id: int
    first_process: int  # process j of the source gets first_process + j * stride
    stride: int
    ranks: Sequence[int] | None  # given by the user, one for each process
    work: Path

    def process_id(self, ordinal: int) -> int:
        return self.first_process + ordinal * self.stride


@dataclass
class Done:
    """Rows of the small tables that one source adds."""

    rows: dict[str, Rows] = field(default_factory=lambda: {t: [] for t in SMALL})


def ingest_source(task: Task, pool: Pool) -> Done | InputError:
    """Read, link and write one source.

    Returns:
        The rows it adds to the small tables, or why it cannot be read.
    """
    folder = task.work / f"stage-{task.source_id}"
    folder.mkdir()
    try:
        if pool.workers > 1:
            threading.Thread(target=lambda: list(map(import_module, _LATER)), daemon=True).start()
        facts = reader(task.format)(task.source, folder, pool)
        link_process = import_module(_LINK).link_process
        pa.default_memory_pool().release_unused()  # linking needs blocks of other sizes
        found = resolve_ranks(task.source.label, facts, task.ranks)
        done = Done()
        for ordinal, process in enumerate(facts.processes):
            staged = StagedProcess(folder, process.staged_as)
            writer = _Writer(task, ordinal, process, staged, pool)
            name = task.source.label
            linked = link_process(staged, task.process_id(ordinal), name, writer.write, pool.workers)
            writer.finish(linked)
            done.rows["processes"].append(_process_row(task, ordinal, process, linked))
            done.rows["devices"] += _device_rows(task, ordinal, process)
            found += [_of_process(d, ordinal) for d in linked.diagnostics]
        done.rows["sources"].append(_source_row(task, facts))
        done.rows["diagnostics"] += [_diagnostic_row(task, d) for d in facts.diagnostics + found]
    except InputError as error:
        return error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return done


class _Writer:
    """Writes the event tables of one process: large ones in parts, each table once its columns are linked."""

    def __init__(
        self, task: Task, ordinal: int, process: ProcessFacts, staged: StagedProcess, pool: Pool
    ) -> None:
        self._task, self._process, self._staged, self._pool = task, process, staged, pool
        self._process_id = task.process_id(ordinal)
        self._columns = staged.folder / f"linked-{ordinal}"
        self._begun = [self._write("counters", None)]

    def write(self, table: str, columns: Mapping[str, Any]) -> None:
        """Begin to write a streamed table with its linked columns."""
        self._begun.append(self._write(table, _save(columns, self._columns.with_suffix(f".{table}.arrow"))))

    def _write(self, table: str, columns: Path | None) -> Iterator[None]:
        folder, rank = self._task.work / "dataset", self._process.rank
        parts = [
            _Part(folder, table, self._staged, first, columns, self._process_id, rank)
            for first in range(0, self._staged.rows(table), ROWS_PER_FILE)
        ]
        return self._pool.map(_write_part, parts)

    def finish(self, linked: "Linked") -> None:
        """Write the small tables, and wait for the large ones."""

        def write(table: str) -> None:
            rows = _joined(self._staged, linked, table, self._process_id)
            folder, rank = self._task.work / "dataset", self._process.rank
            write_rows(folder, table, rows.to_batches(), process_id=self._process_id, rank=rank)

        with ThreadPoolExecutor(self._pool.workers) as threads:
            list(threads.map(write, JOINED))
        for parts in self._begun:
            for _ in parts:
                pass


@dataclass(frozen=True)
class _Part:
    dataset: Path
    table: str
    staged: StagedProcess
    first_row: int
    columns: Path | None
    process_id: int
    rank: int | None


def _write_part(part: _Part) -> None:
    stop = part.first_row + ROWS_PER_FILE
    linked: dict[str, Any] = {}
    if part.columns is not None:
        with pa.memory_map(str(part.columns)) as file:
            table = pa.ipc.open_file(file).read_all().slice(part.first_row, ROWS_PER_FILE)
            linked = {name: table.column(name) for name in table.schema.names}
    write_rows(
        part.dataset,
        part.table,
        part.staged.batches(part.table, part.first_row, stop),
        process_id=part.process_id,
        rank=part.rank,
        linked=linked,
        first_row=part.first_row,
    )


def _save(columns: Mapping[str, Any], path: Path) -> Path:
    """Linked columns on disk, where workers map the part they need."""
    table = pa.table(dict(columns))
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


def _joined(staged: StagedProcess, linked: "Linked", table: str, process_id: int) -> pa.Table:
    """Rows of a small table: what the reader staged, then what linking made."""
    rows = staged.table(table)
    for name in ROW_REFERENCES.get(table, ()):
        shifted = pc.add(rows.column(name), row_id(process_id, 0))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), shifted)
    if table in linked.tables:
        made = linked.tables[table]
        schema = staged_schema(table)
        full = [
            made.column(f.name) if f.name in made.schema.names else pa.nulls(len(made), f.type)
            for f in schema
        ]
        rows = pa.concat_tables([rows, pa.Table.from_arrays(full, schema=schema)])
    return rows


def _process_row(task: Task, ordinal: int, process: ProcessFacts, linked: "Linked") -> dict[str, Any]:
    names = ("pid", "rank", "rank_origin", "world_size", "local_rank", "host", "backend")
    return {
        "process_id": task.process_id(ordinal),
        "source_id": task.source_id,
        **{name: getattr(process, name) for name in names},
        "start_ns": linked.start_ns,
        "end_ns": linked.end_ns,
    }


def _device_rows(task: Task, ordinal: int, process: ProcessFacts) -> Rows:
    return [{"process_id": task.process_id(ordinal), "rank": process.rank, **d} for d in process.devices]


def _of_process(diagnostic: Diagnostic, ordinal: int) -> Diagnostic:
    diagnostic.process = ordinal
    return diagnostic


def _diagnostic_row(task: Task, diagnostic: Diagnostic) -> dict[str, Any]:
    process = diagnostic.process
    return diagnostic.row(task.source_id, None if process is None else task.process_id(process))


def _source_row(task: Task, facts: SourceFacts) -> dict[str, Any]:
    events = facts.events.rows()
    stored, skipped = (sum(e[k] for e in events) for k in ("stored", "skipped"))
    names = (
        "format",
        "format_version",
        "producer",
        "compression",
        "clock_base",
        "clock_base_ns",
        "truncated",
    )
    return {
        "source_id": task.source_id,
        "file": task.source.label,
        "size_bytes": _size(task.source.path),
        **{name: getattr(facts, name) for name in names},
        "events_read": stored + skipped,
        "events_stored": stored,
        "events_skipped": skipped,
        "events": events,
    }


def _size(path: Path) -> int:
    return (
        sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        if path.is_dir()
        else path.stat().st_size
    )
