"""Training steps: which host events mark them, their numbers, and what started in which."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa

from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, closed, ids, integers
from mdtrace.link.nesting import NONE, OPEN, Flags, Nest, Rows, Times, nearest_of
from mdtrace.link.patterns import STEP, UNNUMBERED_STEP

_PROFILER = re.compile(r"^ProfilerStep#(\d{1,18})$")
_DIGITS = re.compile(r"\d+")
Origin = Literal["ProfilerStep", "NVTX", "annotation", "horovod"]


@dataclass(frozen=True)
class Steps:
    """Steps in order of time, none overlapping another.

    Attributes:
        number, start, end: by step; the end is OPEN where the marker was never closed.
        row: the marker's row in host_ops, NONE where there is none.
        names: text of each marker.
    """

    number: Times
    start: Times
    end: Times
    row: Rows
    names: list[str]
    origin: Origin = "annotation"

    def at(self, time: Times) -> Times:
        """The number of the step at each time, NONE outside; a step ends where its end is, exclusively."""
        if not len(self.number):
            return np.full(len(time), NONE, np.int64)
        place = np.searchsorted(self.start, time, "right") - 1
        return np.where((place >= 0) & (time < self.end[place]), self.number[place], NONE)

    def table(self, process_id: int) -> pa.Table:
        """The rows of `steps`."""
        count = len(self.number)
        return pa.table(
            {
                "step": self.number,
                "name": pa.array(self.names, pa.string()),
                "start_ns": self.start,
                "end_ns": closed(self.end),
                "origin": pa.array([self.origin] * count, pa.string()),
                "host_op_id": ids(self.row, process_id),
            }
        )


def _none() -> Steps:
    empty = np.empty(0, np.int64)
    return Steps(empty, empty, empty, empty, [])


def staged_steps(staged: StagedProcess) -> Steps:
    """Steps that the reader found itself, their ends taken as they are."""
    start = integers(staged, "steps", "start_ns", 0)
    order = np.argsort(start, kind="stable")
    end = integers(staged, "steps", "end_ns", OPEN)
    number = integers(staged, "steps", "step")
    row = np.full(len(order), NONE, np.int64)
    return Steps(number[order], start[order], end[order], row, [], "horovod")


def find_steps(host: HostOps, nest: Nest) -> Steps:
    """The steps that host events mark.

    `ProfilerStep#N` where there is one. Else annotations and NVTX ranges whose text is a step's ("step 3",
    "iteration_12", "train_step#5", "iter: 4"; or repeatedly just "step", "iteration", "train_step"): texts
    that differ in the number alone, on one thread and in one domain, are a family. Of the families whose
    members never overlap, those inside another one are left out, and the one with most members is taken.
    Numbers come from the text; where they are missing or repeat, steps count from 0.
    """
    marks = host.kind("operator", "annotation", "nvtx") & ~host.duplicate & ~host.form("mark")
    profiler = np.flatnonzero(host.names.match(_PROFILER, marks))
    if len(profiler):
        numbers = [
            int(m.group(1)) for r in profiler.tolist() if (m := _PROFILER.match(host.names.text(r) or ""))
        ]
        return _steps(host, profiler, np.array(numbers, np.int64), "ProfilerStep")
    families = _families(host)
    if not families:
        return _none()
    rows, numbers_of = max(_outermost(families, nest), key=lambda f: len(f[0]))
    origin: Origin = "NVTX" if host.kinds.text(int(rows[0])) == "nvtx" else "annotation"
    return _steps(host, rows, numbers_of, origin)


_Family = tuple[Times, Times]  # rows of the markers by start, and their numbers


def _families(host: HostOps) -> list[_Family]:
    """Rows that look like steps, by family, in order of first appearance."""
    kinds = host.kind("annotation", "nvtx") & ~host.duplicate & ~host.form("mark")
    found: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for row in np.flatnonzero(host.names.where(_parse, kinds)).tolist():
        parts = _parse(host.names.text(row) or "")
        assert parts is not None
        family, number = parts
        key = (family, int(host.thread[row]), int(host.domains.codes[row]))
        found.setdefault(key, []).append((row, number))
    return [f for members in found.values() if (f := _family(host, members)) is not None]


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[str, int] | None:
    """A marker's text without its numbers, and the step's number, NONE where it has none."""
    if UNNUMBERED_STEP.search(text):
        return text, NONE
    match = STEP.search(text)
    return (_DIGITS.sub("#", text), int(match.group(1))) if match else None


def _family(host: HostOps, members: list[tuple[int, int]]) -> _Family | None:
    """The family, unless its members overlap, or a single one has no number."""
    rows = np.array([r for r, _ in members])
    numbers = np.array([n for _, n in members])
    order = np.argsort(host.start[rows], kind="stable")
    rows, numbers = rows[order], numbers[order]
    if (host.start[rows[1:]] < host.end[rows[:-1]]).any() or (len(rows) == 1 and numbers[0] == NONE):
        return None
    return rows, numbers


def _outermost(families: list[_Family], nest: Nest) -> list[_Family]:
    """Families most of whose members do not lie in a member of another family."""
    marker = np.zeros(len(nest.parent), np.bool_)
    for rows, _ in families:
        marker[rows] = True
    kept = []
    for rows, numbers in families:
        inner = np.count_nonzero(nearest_of(nest.parent, marker, nest.parent[rows]) != NONE)
        if 2 * inner <= len(rows):
            kept.append((rows, numbers))
    return kept or families


def _steps(host: HostOps, rows: Rows, numbers: Times, origin: Origin) -> Steps:
    """Steps by start; one that starts inside its predecessor is left to it."""
    order = np.argsort(host.start[rows], kind="stable")
    rows, numbers = rows[order], numbers[order]
    kept = _apart(host.start[rows], host.end[rows])
    rows, numbers = rows[kept], numbers[kept]
    if NONE in numbers or max(Counter(numbers.tolist()).values()) > 1:
        numbers = np.arange(len(rows))
    texts = [host.names.text(r) or "" for r in rows.tolist()]
    return Steps(numbers, host.start[rows], host.end[rows], rows, texts, origin)


def _apart(start: Times, end: Times) -> Flags:
    """Spans, in order of start, that begin when those before them have ended."""
    kept = np.zeros(len(start), np.bool_)
    until = np.iinfo(np.int64).min
    for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if s >= until:
            kept[i] = True
            until = e
    return kept
