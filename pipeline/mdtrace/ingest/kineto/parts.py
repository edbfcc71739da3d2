"""Parts of a trace that are read side by side, and the order that their rows take in the stage."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdtrace.ingest.facts import EventCounts

# Stage keys beside the pids of host processes (which are positive).
NO_PID = 0  # host events that name no process: the profiler's overhead, root frames of Python
DEVICE = -1  # device activities, until it is known which process each belongs to
UNOWNED = -2  # those that turn out to belong to none of several

# Series of stage segments. Rows of one process that stand under several keys, or that may not be its own,
# go to a later series, so that their order does not depend on where the file was cut.
SERIES = MAIN, PIDLESS, UNSURE, DEVICES, OWNED = 0, 2000, 4000, 6000, 8000
MOST_RANGES = 2000


@dataclass(frozen=True)
class Range:
    """A part of a file, in bytes, and where its rows go."""

    path: Path
    folder: Path
    number: int
    start: int
    stop: int | None
    base_ns: int
    advance: bool = True  # whether bytes read count as work done


@dataclass
class Segment:
    """What was met in a range beside the rows.

    Attributes:
        pids: stage keys of host events → launches under each.
        unsure: events of unknown categories, by pid and category: stored under the pid's key, and
            only valid if that turns out to be a host process.
        tally: rows and findings, by name.
    """

    counts: EventCounts = field(default_factory=EventCounts)
    pids: dict[int, int] = field(default_factory=dict)
    unsure: dict[tuple[int, str], int] = field(default_factory=dict)
    tally: Counter[str] = field(default_factory=Counter)
    document: dict[str, Any] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    truncated: bool = False
    joined: bool = True
