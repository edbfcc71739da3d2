"""A dataset → a trace that Perfetto and Chrome open, on aligned clocks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from mdtrace import __version__
from mdtrace.errors import UsageError
from mdtrace.export.rows import Rows
from mdtrace.export.source import Capture, Source
from mdtrace.export.tracks import Tracks
from mdtrace.export.verdicts import Verdicts
from mdtrace.export.writer import Category, Writer, writing
from mdtrace.metrics.filters import Filters
from mdtrace.tables.dataset import Dataset

_TABLES = ("host_ops", "launches", "device_ops", "collectives", "counters")


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        events: by category; an arrow, or an asynchronous event, counts once.
        valueless: samples of counters left out, because they have no value.
        size: bytes of the file.
        plain_size: bytes of the JSON text that a viewer holds.
        apart: timelines that cannot be compared in time; each starts at 0.
    """

    events: Mapping[Category, int]
    valueless: int
    size: int
    plain_size: int
    apart: int


def export(
    dataset: Dataset,
    out: Path,
    filters: Filters | None = None,
    watch: Callable[[Callable[[], int]], None] | None = None,
) -> Exported:
    """Write a trace. Times are on the reference clock, since the first event of the captures.

    What is filtered by time or step is taken whole where it starts in it. Ranks that share no timeline start
    at 0 each.

    Args:
        out: ends in .json or .json.gz.
        watch: is given a function that tells how many events are written so far.

    Raises:
        UsageError: the name ends otherwise, its folder is missing, or a layer filter is given.
    """
    wanted = filters or Filters()
    _check(out, wanted)
    source = Source(dataset, wanted)
    verdicts = Verdicts(source)
    valueless = 0
    with writing(out, _about(source)) as writer:
        if watch is not None:
            watch(writer.done)
        numbers = count(len(source.captures) + 1)
        for pid, capture in enumerate(source.captures, 1):
            tracks = Tracks(writer, pid, numbers)
            valueless += _capture(source, capture, verdicts, writer, tracks, pid)
    apart = len({c.timeline for c in source.captures})
    return Exported(dict(writer.written), valueless, out.stat().st_size, writer.plain_bytes, apart)


def rows(dataset: Dataset) -> int:
    """How many rows an unfiltered export takes up: what its progress is measured against."""
    return sum(dataset.rows(table) for table in _TABLES)


def _check(out: Path, filters: Filters) -> None:
    if not out.name.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"{out}: no name of a trace", "end it in .json or .json.gz")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder", "make it first, or choose another -o")
    if filters.layer is not None:
        raise UsageError("a trace cannot be filtered by layer", "pick ranks, steps or a time range")


def _about(source: Source) -> dict[str, str]:
    zeros = {c.timeline: c.zero for c in source.captures}
    return {
        "producer": f"mdtrace {__version__}",
        "zero_ns": ", ".join(str(z) for _, z in sorted(zeros.items())),
        "clocks": "aligned" if len(zeros) < 2 else "several, which cannot be compared: each starts at 0",
    }


def _capture(
    source: Source, capture: Capture, verdicts: Verdicts, writer: Writer, tracks: Tracks, pid: int
) -> int:
    """Write a capture; returns the number of samples left out."""
    writer.describe("process_name", pid, None, _title(capture))
    writer.describe("process_sort_index", pid, None, pid)
    verdicts.write(capture, writer, tracks, pid)
    content = Rows(source, capture, writer, tracks, pid)
    content.host()
    content.device()
    content.collectives()
    content.counters()
    return content.valueless


def _title(capture: Capture) -> str:
    rank = "rank unknown" if capture.rank is None else f"rank {capture.rank}"
    more = [capture.host, None if capture.os_pid is None else f"pid {capture.os_pid}"]
    known = ", ".join(m for m in more if m is not None)
    return f"{rank} ({known})" if known else rank
