"""Which event lies inside which, on each thread: parents, depths, nearest wanted ancestor.

Rows are numbers of staged rows; NONE stands for no row. Everything here is linear, or n log n, in
the rows, whatever their order. What there is one of for each event of a process is kept in 32 bits:
a process has fewer than 2³¹ of them, and several such columns live at a time.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.signedinteger[Any]]
Times = NDArray[np.int64]
Flags = NDArray[np.bool_]

NONE = -1
Int = TypeVar("Int", bound=np.signedinteger[Any])
OPEN = np.iinfo(np.int64).max  # the end of what was never closed
_CLIMB = 256  # levels to climb one by one before all rows are resolved at once
_WORK = 32  # jumps per row after which a plain stack takes over


@dataclass(frozen=True)
class Nest:
    """Nested events of one process.

    Attributes:
        order: the nested rows by thread, start, longer first, producer's order; parents come before children.
        parent: by row, the innermost event around it, NONE where outermost or not nested.
        nested: by row, whether it takes part.
        crossings: events that start inside another of their thread and end after it.
    """

    order: Rows
    parent: Rows
    nested: Flags
    crossings: int

    def depth(self) -> NDArray[np.int32]:
        """Events around each row, by row; NONE where it is not nested."""
        jump = _with_sentinel(self.parent)
        depth = (jump < len(self.parent)).astype(np.int32)
        while True:
            further = depth[jump]
            if not further.any():
                break
            depth += further
            jump = jump[jump]
        depth = depth[:-1]
        depth[~self.nested] = NONE
        return depth


def nest(thread: Rows, start: Times, end: Times, index: Rows, nested: Flags) -> Nest:
    """Parents by containment on each thread.

    Of events with equal bounds the later is the child: later by `index` (the producer's order) where all of
    them have one, else by row. An event's parent is the latest opened before it that ends no earlier, so an
    event that crosses the end of another one belongs to what is around both. An event that was never closed
    (end OPEN) contains all that follows on its thread: an NVTX push without its pop does.

    Args:
        thread: number of the thread, by row.
        start, end: ns, by row.
        index: the producer's own number, NONE where it gave none.
        nested: the rows to nest.
    """
    rows = np.flatnonzero(nested).astype(np.int32)
    order = rows[_sorted(thread[rows], start[rows], end[rows], index[rows])]
    del rows
    first = np.diff(thread[order], prepend=NONE - 1) != 0
    position, crossings = _enclosing(start[order], end[order], first)
    parent = np.full(len(start), NONE, np.int32)
    parent[order] = np.concatenate(([NONE], order))[position]
    return Nest(order, parent, nested, crossings)


def _sorted(thread: Rows, start: Times, end: Times, index: Rows) -> Rows:
    """Order by thread, start, longer first, then as `nest` says."""
    order = by_thread_and_start(thread, start)
    same = (np.diff(thread[order]) == 0) & (np.diff(start[order]) == 0)
    if not same.any():
        return order
    tied = np.concatenate((same, [False])) | np.concatenate(([False], same))
    places, rows = np.flatnonzero(tied), order[tied]
    rows = rows[np.lexsort((rows, ~end[rows], start[rows], thread[rows]))]
    group = np.cumsum(
        (np.diff(thread[rows], prepend=NONE - 1) != 0)
        | (np.diff(start[rows], prepend=0) != 0)
        | (np.diff(end[rows], prepend=0) != 0)
    )
    numbered = np.bincount(group, index[rows] == NONE)[group] == 0
    order[places] = rows[np.lexsort((np.where(numbered, index[rows], rows), group))]
    return order


def by_thread_and_start(thread: Rows, start: Times) -> Rows:
    """Stable order by thread, then start; one sort where both fit into 62 bits."""
    if not len(start):
        return np.empty(0, np.int64)
    low, high = int(start.min()), int(start.max())
    span, threads = high - low + 1, int(thread.max()) - int(thread.min()) + 1
    if span * threads >= 1 << 62:
        return np.lexsort((start, thread))
    return np.argsort((thread.astype(np.int64) - thread.min()) * span + (start - low), kind="stable")


def _enclosing(start: Times, end: Times, first: Flags) -> tuple[Rows, int]:
    """For events in nesting order, 1 + the position of the nearest earlier one of the thread that ends no
    earlier, 0 for none; and how many cross another one.

    Each event looks at its predecessor and jumps on from candidate to candidate. What lies between an event
    and its candidate ends before the event does, and that stays so when it jumps to the candidate's own
    candidate, whether that is final or not: so chains of siblings halve with each round.
    """
    count = len(end)
    ends = np.concatenate(([OPEN], end))
    jump = np.arange(-1, count, dtype=np.int32)
    jump[0] = 0
    jump[1:][first] = 0
    crossing = np.zeros(count, np.bool_)
    todo = 1 + np.flatnonzero(ends.take(jump[1:]) < end)
    work = 0
    while len(todo):
        work += len(todo)
        if work > _WORK * count:
            return _by_stack(start, end, first)
        candidate = jump[todo]  # the latest to end of all it has passed since its last jump
        crossing[todo - 1] |= ends.take(candidate) > start[todo - 1]
        further = jump.take(candidate)
        jump[todo] = further
        todo = todo[ends.take(further) < ends[todo]]
    return jump[1:], int(np.count_nonzero(crossing))


def _by_stack(start: Times, end: Times, first: Flags) -> tuple[Rows, int]:
    """The same with a stack, an event at a time: for shapes on which the jumps would be many."""
    found = np.zeros(len(end), np.int64)
    crossings = 0
    stack: list[tuple[int, int]] = []
    for i, (s, e, new) in enumerate(zip(start.tolist(), end.tolist(), first.tolist(), strict=True)):
        if new:
            stack.clear()
        crossing = False
        while stack and stack[-1][0] < e:
            crossing |= stack.pop()[0] > s
        crossings += crossing
        found[i] = stack[-1][1] if stack else 0
        stack.append((e, i + 1))
    return found, crossings


def nearest(parent: Rows, wanted: Flags) -> Rows:
    """The row itself where wanted, else its nearest wanted ancestor, else NONE; by row."""
    count = len(parent)
    jump = _with_sentinel(parent)
    here = np.flatnonzero(wanted)
    jump[here] = here
    final = np.concatenate((wanted, [True]))
    todo = np.flatnonzero(~final.take(jump))
    while len(todo):
        further = jump.take(jump[todo])
        jump[todo] = further
        todo = todo[~final.take(further)]
    found = jump[:-1]
    found[found == count] = NONE
    return found


def nearest_of(parent: Rows, wanted: Flags, rows: Rows) -> Rows:
    """`nearest` for some rows only, NONE for the row NONE: climbs from each of them, if they are few."""
    found = rows.copy()
    todo = np.flatnonzero(found != NONE)
    todo = todo[~wanted.take(found[todo])]
    for _ in range(_CLIMB if 2 * len(todo) <= len(parent) else 0):
        if not len(todo):
            return found
        found[todo] = parent.take(found[todo])
        todo = todo[found[todo] != NONE]
        todo = todo[~wanted.take(found[todo])]
    return take(nearest(parent, wanted), rows)


def _with_sentinel(parent: Rows) -> Rows:
    """Parents with one row more, which stands for none and is its own parent."""
    jump = np.append(parent, np.int32(len(parent))).astype(np.int32, copy=False)
    jump[jump == NONE] = len(parent)
    return jump


def take(values: NDArray[Int], rows: Rows) -> NDArray[Int]:
    """values[row], NONE for the row NONE."""
    if not len(values):
        return np.full(len(rows), NONE, values.dtype)
    taken = values.take(rows)
    taken[rows == NONE] = NONE
    return taken


def inside(nest: Nest, thread: Rows, start: Times, end: Times, at: "Spans") -> Rows:
    """The innermost nested event around each span on its thread, NONE where there is none.

    Args:
        thread, start, end: of the nested events, by row; as for `nest`.
        at: the spans; one that starts with an event and is no longer counts as inside it.
    """
    order = nest.order
    found = np.full(len(at.start), NONE, np.int32)
    bounds = np.flatnonzero(np.diff(thread[order], prepend=NONE - 1, append=NONE - 1))
    spans = by_thread_and_start(at.thread, at.start)
    threads = at.thread[spans]
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        number = thread[order[low]]
        mine = spans[np.searchsorted(threads, number) : np.searchsorted(threads, number, "right")]
        if len(mine):
            place = low - 1 + np.searchsorted(start[order[low:high]], at.start[mine], "right")
            found[mine] = np.where(place >= low, order[place], NONE)
    return _climb(found, nest.parent, end, at.end)


def _climb(found: Rows, parent: Rows, end: Times, until: Times) -> Rows:
    """From each candidate up to the first ancestor that ends no earlier than the span."""
    todo = np.flatnonzero(found != NONE)
    todo = todo[end[found[todo]] < until[todo]]
    while len(todo):
        found[todo] = parent[found[todo]]
        todo = todo[found[todo] != NONE]
        todo = todo[end[found[todo]] < until[todo]]
    return found


@dataclass(frozen=True)
class Spans:
    """Spans of time on threads: by span, the thread's number, start and end in ns."""

    thread: Rows
    start: Times
    end: Times


def with_copies(nest: Nest, copy: Flags, *keys: Rows) -> Nest:
    """The nest with exact copies of nested events beside their originals: same parent, no children.

    Args:
        copy: rows that are copies, and not nested yet.
        keys: columns that are equal in a copy and its original, thread and start the first two.
    """
    copies = np.flatnonzero(copy)
    if not len(copies):
        return nest
    rows = np.concatenate((nest.order[np.isin(keys[1][nest.order], keys[1][copies])], copies))
    rows = rows[np.lexsort((rows, copy[rows], *(k[rows] for k in reversed(keys))))]
    new = np.zeros(len(rows), np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= np.diff(key[rows]) != 0
    original = rows[np.flatnonzero(new)[np.cumsum(new) - 1]]
    paired = copy[rows] & ~copy[original]
    parent, nested = nest.parent.copy(), nest.nested.copy()
    parent[rows[paired]] = nest.parent[original[paired]]
    nested[rows[paired]] = True
    return Nest(nest.order, parent, nested, nest.crossings)
