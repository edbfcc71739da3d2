"""Operations on tensors → collectives: fused tensors are one, and each belongs to a training step."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mdtrace.ingest.classify import DTYPE_BYTES, collective_kind, short_dtype

_HELD = 256  # collectives kept for a tensor that is written later with the very same times


@dataclass(eq=False)
class Operation:
    """One operation on one tensor, from its begin to its end."""

    name: str  # ALLREDUCE …
    tensor: str | None
    lane: int  # thread_id of the tensor
    start_ns: int
    depth: int  # activities open on the tensor's row when it began
    step: int | None = None
    ticks: dict[int, int] = field(default_factory=dict)  # rank → ready_ns, of its negotiation
    group_size: int | None = None
    activity: str | None = None  # first activity of the communication library
    began_ns: int | None = None  # its start, and the last such activity's end
    ended_ns: int | None = None
    fused: bool = False
    row: int | None = None  # row in host_ops, once written
    end_ns: int | None = None
    dtype: str | None = None
    elements: int | None = None
    done: bool = False

    def span(self) -> tuple[int, int | None]:
        """Begin and end of the library's activities, or of the operation where none is recorded."""
        return (self.start_ns, self.end_ns) if self.began_ns is None else (self.began_ns, self.ended_ns)

    def size(self) -> int | None:
        """Bytes of its output; None if elements or type are unknown."""
        width = DTYPE_BYTES.get(short_dtype(self.dtype) or "")
        return None if width is None or self.elements is None else width * self.elements

    @property
    def kind(self) -> str:
        return "all_reduce" if self.name == "ADASUM" else collective_kind(self.name)


@dataclass(eq=False)
class Collective:
    """Operations that the library carried out as one."""

    activity: str
    members: list[Operation] = field(default_factory=list)
    lanes: set[int] = field(default_factory=set)
    closing: bool = False  # an activity of a member has ended: nothing begun later belongs to it

    def add(self, operation: Operation) -> None:
        self.members.append(operation)
        self.lanes.add(operation.lane)

    @property
    def done(self) -> bool:
        return all(m.done for m in self.members)

    def span(self) -> tuple[int, int | None]:
        """Begin of the transfer and its end, None if it never ended.

        Horovod stamps the begin of the activity tensor by tensor before it starts and the end tensor by
        tensor after it is done: the activity lies between the last begin and the first end.
        """
        starts = [m.span()[0] for m in self.members]
        ends = [end for m in self.members if (end := m.span()[1]) is not None]
        start, end = max(starts), min(ends, default=None)
        return (start, end) if end is None or end >= start else (starts[0], max(ends[0], starts[0]))

    def dtype(self) -> str | None:
        types = {short_dtype(m.dtype) for m in self.members}
        return types.pop() if len(types) == 1 else None

    def elements(self) -> int | None:
        """Elements of all tensors together; None if any is unknown."""
        return _total(m.elements for m in self.members)

    def payload_bytes(self) -> int | None:
        """Bytes of all tensors together as nccl-tests counts; None if any is unknown.

        The file states the shape of outputs: of a reduce-scatter that is not the input that counts.
        """
        return None if self.members[0].kind == "reduce_scatter" else _total(m.size() for m in self.members)


def _total(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total if total < 1 << 63 else None


class Fusion:
    """Puts operations together that the library carried out as one.

    Horovod writes the begin of a fused activity for all its tensors, then runs it, then writes all ends. So
    tensors belong together when the same activity began for each before it ended for any; those copied into
    a fusion buffer and those that were not never mix. Without that copy the times must agree as well. A file
    put in another order (tensor by tensor) is told by times that are exactly the same.
    """

    def __init__(self) -> None:
        self._held: deque[Collective] = deque()
        self._last: dict[str, Collective] = {}  # by activity: the one begun last
        self._of: dict[Operation, Collective] = {}
        self._by_span: dict[tuple[object, ...], Collective] = {}  # those of one tensor, when it is over

    def begin(self, operation: Operation, activity: str, time_ns: int) -> None:
        """The library begins an activity for the operation's tensor."""
        if operation.activity is not None:  # one of several, as in a hierarchical all-reduce
            return
        operation.activity, operation.began_ns = activity, time_ns
        current = self._last.get(activity)
        if current is None or not _joins(operation, current):
            current = self._new(activity)
        current.add(operation)
        self._of[operation] = current

    def end(self, operation: Operation, time_ns: int) -> None:
        """The library has ended an activity for the operation's tensor."""
        operation.ended_ns = time_ns
        if operation in self._of:
            self._of[operation].closing = True

    def complete(self, operation: Operation) -> None:
        """The operation has ended, or never will."""
        operation.done = True
        own = self._of.pop(operation, None)
        if own is None:
            own = self._new(operation.name)
            own.add(operation)
        own.closing = True
        start, end = operation.span()
        if len(own.members) == 1 and end is not None and end > start:
            twin = self._by_span.setdefault(_key(own), own)
            if twin is not own and operation.lane not in twin.lanes:
                self._held.remove(own)
                twin.add(operation)

    def finished(self, everything: bool = False) -> Iterator[Collective]:
        """Collectives that are complete, in the order they began; at the end of a section all of them."""
        while self._held and (everything or (len(self._held) > _HELD and self._held[0].done)):
            collective = self._held.popleft()
            if self._by_span.get(_key(collective)) is collective:
                del self._by_span[_key(collective)]
            yield collective
        if everything:
            self._last.clear()
            self._of.clear()

    def _new(self, activity: str) -> Collective:
        collective = Collective(activity)
        self._held.append(collective)
        self._last[activity] = collective
        return collective


def _key(collective: Collective) -> tuple[object, ...]:
    first = collective.members[0]
    return collective.activity, first.name, first.fused, *first.span()


def _joins(operation: Operation, current: Collective) -> bool:
    """Whether a beginning activity belongs to the one of its kind begun last."""
    first = current.members[0]
    if current.closing or first.name != operation.name or first.fused != operation.fused:
        return False
    if operation.fused or first.began_ns is None or operation.began_ns is None:
        return True
    return operation.began_ns - first.began_ns <= 1000 * len(current.members)  # 1 µs to write each begin


class Steps:
    """Training steps: the n-th all-reduce of the same tensor is in step n, counted from 0.

    A tensor that is not reduced in every step (a metric, once an epoch) and all other operations belong to
    the step whose all-reduces had begun by then; what comes before the first all-reduce is start-up (None).
    """

    def __init__(self) -> None:
        self._next: dict[object, int] = {}  # by tensor: the step of its next all-reduce, if it is regular
        self._begun: list[int] = []  # begin of each step's first all-reduce
        self._start: list[int] = []  # and of its earliest negotiation: where the step starts
        self._stopped: dict[int, int] = {}  # end of the last step before the recording stopped
        self._fresh = True  # nothing reduced yet since the recording started

    def all_reduce(self, tensor: object, start_ns: int, negotiated_ns: int) -> int:
        """The step of an all-reduce that begins.

        Args:
            tensor: its identity.
            negotiated_ns: begin of its negotiation, or start_ns without one.
        """
        due, last = self._next.get(tensor, 0), len(self._begun) - 1
        if due > last or self._fresh:
            step = last + 1
            self._begun.append(start_ns)
            self._start.append(negotiated_ns)
            self._fresh = False
        else:
            step = due if due == last else self._late(due, start_ns)
        self._start[step] = min(self._start[step], negotiated_ns)
        self._next[tensor] = step + 1
        return step

    def _late(self, due: int, start_ns: int) -> int:
        """The step of a tensor that is behind: by time, unless that is just before its due step's begin."""
        by_time = self.at(start_ns)
        return due if by_time is None or by_time == due - 1 else by_time

    def at(self, time_ns: int) -> int | None:
        """The step under way at a time, None before the first."""
        if not self._begun or time_ns < self._begun[0]:
            return None
        return max(bisect_right(self._begun, time_ns) - 1, 0)

    def stop(self, last_ns: int) -> None:
        """The recording stopped."""
        if self._begun:
            self._stopped[len(self._begun) - 1] = last_ns
        self._fresh = True

    @property
    def count(self) -> int:
        return len(self._begun)

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """(step, start_ns, end_ns); a step ends where the next starts, or where the recording stopped."""
        start = None
        for step, earliest in enumerate(self._start):
            start = earliest if start is None else max(start, earliest)
            following = self._start[step + 1] if step + 1 < len(self._start) else start
            yield step, start, max(start, self._stopped.get(step, following))
