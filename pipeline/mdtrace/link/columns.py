"""Staged columns as numpy arrays, and names as numbers.

NULL becomes a value that the column cannot hold, said at each call; names become codes into the
few distinct texts, so that a pattern is tried once a text and not once an event.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.nesting import NONE, OPEN, Flags, Rows, Times
from mdtrace.tables.schema import row_id

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Names:
    """A text column: `texts[codes[row]]`, code NONE where NULL."""

    codes: Rows
    texts: list[str]

    def where(self, test: Callable[[str], object], among: Flags | None = None) -> Flags:
        """Rows whose text passes the test; NULL never does.

        Args:
            among: the rows asked about, of which there may be few; the others are false.
        """
        asked = range(len(self.texts)) if among is None else self._texts_of(among)
        passed = np.zeros(len(self.texts) + 1, np.bool_)  # code NONE finds the last
        passed[[code for code in asked if test(self.texts[code])]] = True
        found: Flags = passed.take(self.codes)
        return found if among is None else found & among

    def match(self, pattern: re.Pattern[str], among: Flags | None = None) -> Flags:
        """Rows whose text the pattern is found in; see `where`."""
        return self.where(pattern.search, among)

    def _texts_of(self, rows: Flags) -> list[int]:
        used = np.zeros(len(self.texts) + 1, np.bool_)
        used[self.codes[rows]] = True
        return np.flatnonzero(used[:-1]).tolist()

    def text(self, row: int) -> str | None:
        code = int(self.codes[row])
        return None if code == NONE else self.texts[code]

    def at(self, rows: Rows) -> list[str | None]:
        """Texts of some rows, None for the row NONE."""
        return [None if row == NONE else self.text(row) for row in rows.tolist()]


def names(staged: StagedProcess, table: str, column: str = "name") -> Names:
    """A text column of a staged table, encoded a batch at a time, in as few bytes as its codes need."""
    known: dict[str, int] = {}
    parts = [encode(b.column(0), known) for b in staged.batches(table, columns=[column], coded=True)]
    narrow = np.min_scalar_type(-len(known) - 1)
    return Names(np.concatenate([p.astype(narrow) for p in parts] or [np.empty(0, narrow)]), list(known))


def encode(values: pa.Array, known: dict[Any, int]) -> NDArray[np.int32]:
    """Values as their numbers in `known`, which takes up those not met before; NULL is NONE."""
    encoded = values.dictionary_encode()
    own = [known.setdefault(value, len(known)) for value in encoded.dictionary.to_pylist()]
    places = _filled(encoded.indices, len(own))
    found: NDArray[np.int32] = np.array([*own, NONE], np.int32).take(places)
    return found


def _filled(values: pa.Array, null: int) -> NDArray[Any]:
    array: NDArray[Any] = (values.fill_null(null) if values.null_count else values).to_numpy(
        zero_copy_only=False
    )
    return array


def integers(staged: StagedProcess, table: str, column: str, null: int = NONE) -> Times:
    """An integer column, `null` standing for NULL."""
    parts = [_filled(b.column(0), null) for b in staged.batches(table, columns=[column])]
    return np.concatenate(parts).astype(np.int64, copy=False) if parts else np.empty(0, np.int64)


def flags(staged: StagedProcess, table: str, column: str) -> Flags:
    """A boolean column, NULL as false."""
    parts = [_filled(b.column(0), False) for b in staged.batches(table, columns=[column])]
    return np.concatenate(parts) if parts else np.empty(0, np.bool_)


def bounds(staged: StagedProcess, table: str) -> tuple[Times, Times]:
    """Start and end of each row in ns; the end is OPEN where never closed, and no earlier than the start."""
    start = integers(staged, table, "start_ns", 0)
    duration = integers(staged, table, "dur_ns", OPEN)
    room = OPEN - np.maximum(start, 0)
    np.clip(duration, 0, room, out=duration)
    duration += start
    duration[duration == start + room] = OPEN
    return start, duration


def threads(staged: StagedProcess, *tables: str) -> Iterator[NDArray[np.int32]]:
    """Threads of each table's rows as small numbers, the same in all of them; NONE where none is named."""
    known: dict[int, int] = {}
    for table in tables:
        parts = [encode(b.column(0), known) for b in staged.batches(table, columns=["thread_id"])]
        yield np.concatenate(parts) if parts else np.empty(0, np.int32)


def nullable(values: Rows, kind: pa.DataType) -> pa.Array:
    """An Arrow array in which NONE is NULL."""
    return pa.array(values, kind, mask=values == NONE)


def closed(end: Times) -> pa.Array:
    """Ends as the tables hold them: NULL where never closed."""
    return pa.array(end, pa.int64(), mask=end == OPEN)


def ids(rows: Rows, process_id: int) -> pa.Array:
    """Ids of rows of a process's table, NULL for NONE."""
    numbers = rows.astype(np.int64)
    numbers += row_id(process_id, 0)
    return pa.array(numbers, pa.int64(), mask=rows == NONE)


@dataclass(frozen=True)
class HostOps:
    """What linking needs of all host operations, by row; the rest is read where it is needed."""

    staged: StagedProcess
    thread: Rows
    start: Times
    end: Times
    duplicate: Flags
    names: Names
    kinds: Names
    forms: Names

    def kind(self, *kinds: str) -> Flags:
        return self.kinds.where(lambda k: k in kinds)

    def form(self, form: str) -> Flags:
        return self.forms.where(lambda f: f == form)

    @cached_property
    def domains(self) -> Names:
        return names(self.staged, "host_ops", "domain")

    def __len__(self) -> int:
        return len(self.start)


def host_ops(staged: StagedProcess, thread: Rows, beside: Executor | None = None) -> HostOps:
    """All of them; columns are read side by side where there is an executor."""
    times = later(beside, bounds, staged, "host_ops")
    duplicate = later(beside, flags, staged, "host_ops", "duplicate")
    texts = [later(beside, names, staged, "host_ops", column) for column in ("name", "kind", "form")]
    return HostOps(staged, thread, *times(), duplicate(), *(text() for text in texts))


def later(
    beside: Executor | None, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> Callable[[], R]:
    """The result of a call: begun at once in the executor, without one made when it is first asked for."""
    return (
        cache(partial(call, *args, **kwargs))
        if beside is None
        else beside.submit(call, *args, **kwargs).result
    )
