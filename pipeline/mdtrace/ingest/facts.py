"""What a reader tells about a source beside its rows, and the protocol of a reader."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from mdtrace.ingest.pool import Pool
from mdtrace.tables.diagnostics import Diagnostic


@dataclass(frozen=True)
class Source:
    """One input file (or nsys parquetdir folder)."""

    path: Path
    label: str  # what the dataset calls it: never a full path

    def diagnostic(self, code: str, count: int = 1, **detail: object) -> Diagnostic:
        return Diagnostic(code, count, {"file": self.label, **detail})


@dataclass
class EventCounts:
    """Events met, by kind as the format names it: every one is stored or skipped for a reason."""

    stored: dict[str, int] = field(default_factory=dict)
    skipped: dict[tuple[str, str], int] = field(default_factory=dict)

    def store(self, kind: str, count: int = 1) -> None:
        if count:
            self.stored[kind] = self.stored.get(kind, 0) + count

    def skip(self, kind: str, reason: str, count: int = 1) -> None:
        if count:
            self.skipped[kind, reason] = self.skipped.get((kind, reason), 0) + count

    def merge(self, other: "EventCounts") -> None:
        for kind, count in other.stored.items():
            self.store(kind, count)
        for (kind, reason), count in other.skipped.items():
            self.skip(kind, reason, count)

    def rows(self) -> list[dict[str, Any]]:
        """As `sources.events` holds them, sorted."""
        stored = [{"kind": k, "stored": n, "skipped": 0, "reason": None} for k, n in self.stored.items()]
        skipped = [{"kind": k, "stored": 0, "skipped": n, "reason": r} for (k, r), n in self.skipped.items()]
        return sorted(stored + skipped, key=lambda r: (str(r["kind"]), str(r["reason"] or "")))


@dataclass
class ProcessFacts:
    """One process capture; `devices` holds rows of the `devices` table without process and rank."""

    staged_as: tuple[int, ...]  # the stage keys whose rows are this process's, in order
    pid: int | None = None
    rank: int | None = None
    rank_origin: str | None = None
    world_size: int | None = None
    local_rank: int | None = None
    host: str | None = None
    backend: str | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class SourceFacts:
    """All a reader found out; processes in order of appearance, as they are staged."""

    format: Literal["kineto", "nsys", "horovod"]
    clock_base: Literal["epoch", "file"]
    clock_base_ns: int | None = None
    format_version: str | None = None
    producer: str | None = None
    compression: Literal["none", "gzip"] = "none"
    truncated: bool = False
    events: EventCounts = field(default_factory=EventCounts)
    processes: list[ProcessFacts] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


class Reader(Protocol):
    """One format. Stages rows of the declared tables and tells the facts.

    Rows go to `Stage(folder, segment)`; the reader closes its stages. Times are staged as absolute int64 ns
    (epoch where the file has a wall clock, else the file's own). Calls `pool.advance(bytes)` as it gets on.
    """

    def __call__(self, source: Source, folder: Path, pool: Pool) -> SourceFacts: ...
