"""Tracks of a process: their numbers and names, and lanes that keep slices nested."""

from collections.abc import Hashable, Iterator

from mdtrace.export.writer import Writer

_LANES = 16  # side by side on one track; what fits in none crosses


class Lane:
    """Slices that nest: each ends before those around it."""

    def __init__(self) -> None:
        self._ends: list[int] = []

    def takes(self, start: int, end: int) -> bool:
        """Place a slice, if it lies inside or after those here. Slices come in order of start."""
        while self._ends and self._ends[-1] <= start:
            self._ends.pop()
        if self._ends and self._ends[-1] < end:
            return False
        self._ends.append(end)
        return True


class Tracks:
    """The tracks of one process, described in the trace when they are first used."""

    def __init__(self, writer: Writer, pid: int, numbers: Iterator[int]) -> None:
        self._writer = writer
        self._pid = pid
        self._numbers = numbers  # of tracks; viewers confuse equal ones of different processes
        self._tids: dict[tuple[Hashable, int], int] = {}
        self._lanes: dict[Hashable, list[Lane]] = {}

    def tid(self, key: Hashable, name: str, place: int, lane: int = 0) -> int:
        """Number of a track.

        Args:
            key: what it is the track of.
            place: tracks are shown in this order.
            lane: which of several side by side.
        """
        known = self._tids.get((key, lane))
        if known is not None:
            return known
        tid = self._tids[key, lane] = next(self._numbers)
        self._writer.describe("thread_name", self._pid, tid, f"{name} ({lane + 1})" if lane else name)
        self._writer.describe("thread_sort_index", self._pid, tid, place * 1000 + len(self._tids))
        return tid

    def lane(self, key: Hashable, start: int, end: int) -> int | None:
        """The lane of the track that takes a slice and keeps it nested; None: it crosses others in all."""
        lanes = self._lanes.setdefault(key, [Lane()])
        for number, lane in enumerate(lanes):
            if lane.takes(start, end):
                return number
        if len(lanes) == _LANES:
            return None
        lanes.append(Lane())
        return len(lanes) - 1 if lanes[-1].takes(start, end) else None
