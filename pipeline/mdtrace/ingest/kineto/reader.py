"""Reads a trace of the PyTorch profiler: ranges → one account of the file, its processes and findings."""

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdtrace.ingest.bytes import TextFile
from mdtrace.ingest.facts import EventCounts, ProcessFacts, Source, SourceFacts
from mdtrace.ingest.json_ranges import Header, header, split_ranges
from mdtrace.ingest.kineto.collective_args import complete
from mdtrace.ingest.kineto.duplicates import flag_duplicates
from mdtrace.ingest.kineto.findings import diagnostics
from mdtrace.ingest.kineto.metadata import Metadata, metadata
from mdtrace.ingest.kineto.owners import assign_device_rows
from mdtrace.ingest.kineto.parts import DEVICE, MOST_RANGES, NO_PID, UNOWNED, Range, Segment
from mdtrace.ingest.kineto.rewrite import rewrite, shift_times
from mdtrace.ingest.kineto.segment import read_range
from mdtrace.ingest.pool import Pool

SMALLEST_RANGE = 16 << 20  # bytes of text that are worth a task of their own
_RANGES_PER_WORKER = 4
_UNPACK = 4 << 20  # compressed bytes from which unpacking to disk first is worth it
_BLOCK = 4 << 20


@dataclass
class Account:
    """All ranges of a file together; see `Segment`."""

    counts: EventCounts = field(default_factory=EventCounts)
    pids: dict[int, int] = field(default_factory=dict)
    unsure: dict[tuple[int, str], int] = field(default_factory=dict)
    tally: Counter[str] = field(default_factory=Counter)
    document: dict[str, Any] = field(default_factory=dict)
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    truncated: bool = False

    def add(self, segment: Segment) -> None:
        self.counts.merge(segment.counts)
        for key, launches in segment.pids.items():
            self.pids[key] = self.pids.get(key, 0) + launches
        for place, count in segment.unsure.items():
            self.unsure[place] = self.unsure.get(place, 0) + count
        self.tally.update(segment.tally)
        self.document.update(segment.document)
        self.repaired.update(segment.repaired)
        self.skipped.update(segment.skipped)
        self.truncated |= segment.truncated


def read_kineto(source: Source, folder: Path, pool: Pool) -> SourceFacts:
    """Stage the events of a Kineto trace; see `ingest.facts.Reader`.

    Rows are in file order, the same for any number of workers. With more than one worker, ranges of a
    large file are read side by side; a compressed one is unpacked into `folder` first.

    Raises:
        InputError: the file cannot be read, or is no JSON.
    """
    folder.mkdir(parents=True, exist_ok=True)
    head = header(source.path)
    base = metadata(head.document).base_ns or 0
    account = _read(source.path, folder, pool, head, base)
    facts = metadata(account.document)
    base_ns = _settle_times(folder, account, facts, base)
    if account.tally["comm_records"] and (facts.groups or facts.world_size):
        rewrite(folder, "comm_records", lambda batch: complete(batch, facts.groups, facts.world_size))
    processes = _processes(folder, account, facts)
    _settle_counts(account)
    keys = {key for process in processes for key in process.staged_as}
    account.tally["duplicates"] = flag_duplicates(folder, keys, pool.workers)
    absolute = base_ns > 0 or _mostly_epoch(account)
    return SourceFacts(
        format="kineto",
        clock_base="epoch" if absolute else "file",
        clock_base_ns=base_ns or None,
        format_version=facts.format_version,
        producer=facts.producer,
        compression=head.compression,
        truncated=account.truncated,
        events=account.counts,
        processes=processes,
        diagnostics=diagnostics(source, account),
    )


def _read(path: Path, folder: Path, pool: Pool, head: Header, base_ns: int) -> Account:
    unpacked = None
    if pool.workers > 1 and head.compression == "gzip" and path.stat().st_size >= _UNPACK:
        unpacked, truncated = folder / "text.json", _unpack(path, folder / "text.json")
    text = unpacked or path
    ranges = _ranges(text, pool.workers)
    parts = [
        Range(text, folder, number, start, stop, base_ns, advance=unpacked is None)
        for number, (start, stop) in enumerate(ranges)
    ]
    segments = list(pool.map(read_range, parts)) if len(parts) > 1 else [read_range(parts[0])]
    if not all(segment.joined for segment in segments[:-1]):
        _discard(folder)
        segments = [read_range(Range(text, folder, 0, 0, None, base_ns, advance=False))]
    account = _together(segments)
    if unpacked:
        account.truncated |= truncated
        unpacked.unlink()
    return account


def _ranges(path: Path, workers: int) -> Sequence[tuple[int, int | None]]:
    size = path.stat().st_size
    count = min(workers * _RANGES_PER_WORKER, size // SMALLEST_RANGE, MOST_RANGES)
    return split_ranges(path, count) if workers > 1 and count > 1 else [(0, None)]


def _unpack(path: Path, target: Path) -> bool:
    """Decompress; returns whether the stream was cut."""
    with TextFile(path, advance=Pool.advance) as text, target.open("wb") as out:
        while block := text.read(_BLOCK):
            out.write(block)
        return text.truncated


def _discard(folder: Path) -> None:
    for staged in folder.glob("[0-9]*"):
        shutil.rmtree(staged)


def _together(segments: Iterable[Segment]) -> Account:
    account = Account()
    for segment in segments:
        account.add(segment)
    for reason, count in account.skipped.items():
        account.counts.skip("not decodable", reason, count)
    return account


def _mostly_epoch(account: Account) -> bool:
    return 2 * account.tally["epoch_times"] > account.tally["times"]


def _settle_times(folder: Path, account: Account, facts: Metadata, added: int) -> int:
    """Make sure that the base was added once: it may stand behind the events, and times that are absolute
    already need none. Returns the base that the staged times now include."""
    base = 0 if _mostly_epoch(account) else facts.base_ns or 0
    if base != added:
        shift_times(folder, base - added)
    return base


def _settle_counts(account: Account) -> None:
    """Events of unknown categories are stored where their pid is a host process, else they are skipped."""
    for (pid, kind), count in account.unsure.items():
        if pid in account.pids:
            account.counts.store(kind, count)
        else:
            account.counts.skip(kind, "category that is not known, of no host process", count)


def _processes(folder: Path, account: Account, facts: Metadata) -> list[ProcessFacts]:
    """Host processes by ascending pid, with the keys of their rows.

    What names no process (overhead, root frames of Python, and all device activity) is the only
    process's; with several, host events without a pid stand under a process of their own, and device
    activity is shared out by `owners`. Rank and world size are stated once a file: with several
    processes they are those of the one that launched most.
    """
    pids = sorted(pid for pid in account.pids if pid != NO_PID)
    if len(pids) <= 1:
        return [_process(facts, (*pids, NO_PID, DEVICE), *pids)]
    owned = assign_device_rows(folder, pids) if account.tally["device_ops"] else {}
    account.tally["unowned"] = owned.get(UNOWNED, 0)
    chief = max(pids, key=lambda pid: account.pids[pid])
    processes = [_process(facts, (pid,), pid, stated=pid == chief) for pid in pids]
    if NO_PID in account.pids or UNOWNED in owned:
        processes.append(_process(facts, (NO_PID, UNOWNED), stated=False))
    return processes


def _process(
    facts: Metadata, keys: tuple[int, ...], pid: int | None = None, *, stated: bool = True
) -> ProcessFacts:
    rank = facts.rank if stated else None
    return ProcessFacts(
        staged_as=keys,
        pid=pid,
        rank=rank,
        rank_origin=None if rank is None else "distributedInfo",
        world_size=facts.world_size,
        host=facts.host,
        backend=facts.backend,
        devices=facts.devices,
    )
