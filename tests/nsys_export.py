"""Makes small nsys exports row by row, and reads them into plain rows."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdtrace.ingest.facts import ProcessFacts, Source, SourceFacts
from mdtrace.ingest.nsys import read_nsys
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.stage import StagedProcess

Rows = Sequence[Mapping[str, Any]]

BASE = 1_700_000_000_000_000_000


def global_pid(pid: int, machine: int = 1) -> int:
    return machine << 48 | pid << 24


def global_tid(pid: int, tid: int, machine: int = 1) -> int:
    return global_pid(pid, machine) | tid


def strings(*texts: str) -> Rows:
    """StringIds rows with ids from 1."""
    return [{"id": i, "value": t} for i, t in enumerate(texts, 1)]


def session(start: int = BASE) -> Rows:
    return [{"utcEpochNs": start}]


def kernel(start: int, end: int, **more: Any) -> dict[str, Any]:
    row = {"start": start, "end": end, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 1}
    return {**row, "globalPid": global_pid(11), "demangledName": 1, "shortName": 1, **more}


def call(start: int, end: int, **more: Any) -> dict[str, Any]:
    row = {"start": start, "end": end, "eventClass": 0, "globalTid": global_tid(11, 12), "correlationId": 1}
    return {**row, "nameId": 1, **more}


def nvtx(start: int, end: int | None, text: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"start": start, "end": end, "eventType": 59, "globalTid": global_tid(11, 12), "domainId": 0}
    return {**row, "text": text, **more}


def export(path: Path, **tables: Rows) -> Path:
    """Write an SQLite file; columns are those of the rows, typed by their first value that is not None."""
    with sqlite3.connect(path) as db:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(c for r in rows for c in r)) or ["start"]
            declared = ", ".join(f'"{c}" {_type(rows, table, c)}' for c in columns)
            db.execute(f'CREATE TABLE "{table}" ({declared})')
            marks = ", ".join("?" * len(columns))
            db.executemany(
                f'INSERT INTO "{table}" VALUES ({marks})', [[r.get(c) for c in columns] for r in rows]
            )
    db.close()
    return path


def _type(rows: Rows, table: str, column: str) -> str:
    value = next((r[column] for r in rows if r.get(column) is not None), 0)
    if table == "StringIds" and column == "id":
        return "INTEGER PRIMARY KEY"
    return {str: "TEXT", float: "REAL", bytes: "TEXT"}.get(type(value), "INTEGER")


class Read:
    """What the reader made of an export."""

    def __init__(self, path: Path, folder: Path, workers: int = 1) -> None:
        folder.mkdir()
        self.folder = folder
        with Pool(workers) as pool:
            self.facts: SourceFacts = read_nsys(Source(path, path.name), folder, pool)

    @property
    def processes(self) -> list[ProcessFacts]:
        return self.facts.processes

    def rows(self, table: str, process: int = 0) -> list[dict[str, Any]]:
        """Staged rows of a process, without the columns that are NULL."""
        if not self.facts.processes:
            return []
        staged = StagedProcess(self.folder, self.facts.processes[process].staged_as)
        return [{k: v for k, v in r.items() if v is not None} for r in staged.table(table).to_pylist()]

    def count(self, table: str) -> int:
        """Staged rows of all processes."""
        return sum(StagedProcess(self.folder, p.staged_as).rows(table) for p in self.facts.processes)

    def codes(self) -> dict[str, int]:
        """Diagnostics and their counts; every message can be made."""
        for diagnostic in self.facts.diagnostics:
            diagnostic.row(0, None)
        return {d.code: d.count for d in self.facts.diagnostics}

    def events(self) -> tuple[int, int]:
        """Events stored and skipped."""
        rows = self.facts.events.rows()
        return sum(r["stored"] for r in rows), sum(r["skipped"] for r in rows)

    def staged_bytes(self) -> bytes:
        """Everything on disk, for searching."""
        return b"".join(f.read_bytes() for f in sorted(self.folder.rglob("*")) if f.is_file())
