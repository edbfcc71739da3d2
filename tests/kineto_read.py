"""Reads Kineto text or files into staged rows, for tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdtrace.ingest.facts import ProcessFacts, Source, SourceFacts
from mdtrace.ingest.kineto import read_kineto
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.stage import StagedProcess

Event = dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """A trace as read."""

    facts: SourceFacts
    folder: Path

    @property
    def process(self) -> ProcessFacts:
        """The only process."""
        (process,) = self.facts.processes
        return process

    @property
    def codes(self) -> list[str]:
        return [d.code for d in self.facts.diagnostics]

    @property
    def stored(self) -> int:
        return sum(self.facts.events.stored.values())

    @property
    def skipped(self) -> int:
        return sum(self.facts.events.skipped.values())

    @property
    def staged(self) -> int:
        """Rows of all processes and tables that stand for events."""
        tables = ("host_ops", "launches", "device_ops", "counters")
        processes = [StagedProcess(self.folder, p.staged_as) for p in self.facts.processes]
        return sum(process.rows(table) for process in processes for table in tables)

    def rows(self, table: str, *columns: str, process: int = 0) -> list[Any]:
        """Rows of a table: dicts, tuples of the named columns, or values of the one named column."""
        staged = StagedProcess(self.folder, self.facts.processes[process].staged_as)
        rows = staged.table(table).to_pylist()
        if len(columns) == 1:
            return [row[columns[0]] for row in rows]
        return [tuple(row[c] for c in columns) for row in rows] if columns else rows


def read_file(path: Path, folder: Path, pool: Pool | None = None) -> Trace:
    """Read a file; staged rows go under `folder`."""
    staged = folder / f"staged-{path.parent.name}-{path.name}"
    return Trace(read_kineto(Source(path, path.name), staged, pool or Pool(1)), staged)


def read_text(folder: Path, text: str | bytes, name: str = "trace.json") -> Trace:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_file(path, folder)


def read_events(folder: Path, *events: Event, **document: Any) -> Trace:
    """Read a document of these events, behind the given keys."""
    return read_text(folder, json.dumps({**document, "traceEvents": list(events)}))


def event(
    cat: str | None,
    name: Any,
    ts: Any,
    dur: Any = 1,
    pid: Any = 100,
    tid: Any = 100,
    literally: dict[str, Any] | None = None,
    **args: Any,
) -> Event:
    """A complete event; underscores in names of arguments stand for spaces, but for those of `literally`."""
    made = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    if args or literally:
        made["args"] = {key.replace("_", " "): value for key, value in args.items()} | (literally or {})
    return {key: value for key, value in made.items() if value is not None}


def kernel(name: str, ts: Any, dur: Any = 1, stream: Any = 7, device: Any = 0, **args: Any) -> Event:
    return event("kernel", name, ts, dur, device, stream, device=device, stream=stream, **args)
