"""Stages hand-written rows and links them: what a test does not state gets a default."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mdtrace.ingest.detect import detect, reader
from mdtrace.ingest.facts import Source
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.stage import Stage, StagedProcess
from mdtrace.link.process import Linked, link_process

Rows = Sequence[Mapping[str, Any]]

_DEFAULTS: dict[str, dict[str, Any]] = {
    "host_ops": {"thread_id": 1, "kind": "operator", "form": "nested", "start_ns": 0},
    "launches": {"thread_id": 1, "api": "runtime", "name": "cudaLaunchKernel", "start_ns": 0},
    "device_ops": {
        "device_id": 0,
        "stream_id": 7,
        "kind": "kernel",
        "class": "compute",
        "name": "k",
        "start_ns": 0,
    },
    "comm_records": {},
    "steps": {"name": "step", "origin": "horovod"},
    "collectives": {"kind": "all_reduce", "name": "x", "evidence": "timeline", "members": 1, "start_ns": 0},
}


def stage(folder: Path, **given: Rows) -> StagedProcess:
    """Rows of the named tables as one process; `end_ns` stands for `dur_ns` where a table has that."""
    staged = Stage(folder)
    for table, some in given.items():
        rows = [_complete(table, row) for row in some]
        names = sorted({name for row in rows for name in row})
        staged.write(0, table, {name: [row.get(name) for row in rows] for name in names})
    staged.close()
    return StagedProcess(folder, (0,))


def _complete(table: str, given: Mapping[str, Any]) -> dict[str, Any]:
    row = {**_DEFAULTS[table], **given}
    if "end_ns" in row and table not in ("steps", "collectives"):
        end = row.pop("end_ns")
        row["dur_ns"] = None if end is None else end - row["start_ns"]
    if table in ("host_ops", "launches", "device_ops"):
        row.setdefault("duplicate", False)
    return row


def link(folder: Path, **given: Rows) -> Linked:
    """The rows, linked as process 0: ids are row numbers."""
    return link_process(stage(folder, **given), 0, "trace.json")


def column(linked: Linked, table: str, name: str) -> list[Any]:
    """A linked column, or one of a table made by linking."""
    if table in linked.columns:
        values: list[Any] = linked.columns[table][name].to_pylist()
    else:
        values = linked.tables[table].column(name).to_pylist() if table in linked.tables else []
    return values


def codes(linked: Linked) -> dict[str, int]:
    """Findings with their counts."""
    return {d.code: d.count for d in linked.diagnostics}


def link_file(path: Path, folder: Path) -> list[tuple[StagedProcess, Linked]]:
    """A trace file read by its reader, each process linked under its ordinal."""
    facts = reader(detect(path))(Source(path, path.name), folder, Pool(1))
    processes = [StagedProcess(folder, p.staged_as) for p in facts.processes]
    return [(staged, link_process(staged, i, path.name)) for i, staged in enumerate(processes)]


def rows(staged: StagedProcess, linked: Linked, table: str) -> pa.Table:
    """A staged table with its linked columns beside."""
    read = staged.table(table)
    for name, values in linked.columns[table].items():
        read = read.append_column(name, values)
    return read
