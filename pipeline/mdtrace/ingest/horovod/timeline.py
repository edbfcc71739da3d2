"""The course of a timeline: begins and ends paired per tensor, operations and readiness found on the way."""

from collections import Counter
from dataclasses import dataclass, field

from mdtrace.ingest.facts import EventCounts
from mdtrace.ingest.horovod.collectives import Fusion, Operation, Steps
from mdtrace.ingest.horovod.events import (
    FUSION,
    NEGOTIATE,
    OPERATIONS,
    Args,
    Event,
    arguments,
    backend_of,
    elements_of,
    nanoseconds,
    rank_number,
    tensor_number,
    usable,
)
from mdtrace.ingest.horovod.rows import Rows

Ticks = dict[int, int]  # rank → ready_ns


@dataclass
class Lane:
    """The row of one tensor in one section of the timeline."""

    thread_id: int
    tensor: str | None
    named: bool = False
    open: list[tuple[str | None, int]] = field(default_factory=list)  # name and start of what is not closed
    ticks: Ticks = field(default_factory=dict)  # of the negotiation under way, or of the last one
    negotiated_ns: int | None = None  # its begin
    operation: Operation | None = None


class Timeline:
    """Takes the events of a file in order; rows and counts come out.

    A file may hold several sections (recording stopped and started again): the numbers of tensors begin
    anew there, nothing is paired across, and each section has its own wall-clock base if it states one.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.counts = EventCounts()
        self.backends: Counter[str] = Counter()
        self.base_ns: int | None = None  # of the section under way
        self.first_base_ns: int | None = None
        self.lone_ends = 0
        self.reversed = 0
        self.steps = Steps()
        self.world = World()
        self._fusion = Fusion()
        self._lanes: dict[int, Lane] = {}
        self._section = 0
        self._last_ns: int | None = None

    def take(self, event: Event) -> None:
        """One event; it is counted as stored or skipped."""
        phase = event.ph
        if phase == "M":
            self._metadata(event)
        elif phase in ("B", "E", "X", "i", "I"):
            self._timed(phase, event)
        else:
            self.counts.skip(_kind(phase), "no kind of event that Horovod writes")

    def _timed(self, phase: str, event: Event) -> None:
        since = nanoseconds(event.ts)
        time_ns = (since or 0) + (self.base_ns or 0)
        if since is None or not usable(time_ns):
            self.counts.skip(phase, "no usable time")
            return
        if phase in ("i", "I"):
            self._mark(phase, event, time_ns)
            return
        number = tensor_number(event.pid)
        if number is None:
            self.counts.skip(phase, "no usable tensor number (pid)")
            return
        lane = self._lane(number)
        self._last_ns = time_ns if self._last_ns is None else max(self._last_ns, time_ns)
        if phase == "B":
            self._begin(lane, _text(event.name), time_ns)
        elif phase == "E":
            self._end(lane, time_ns, arguments(event))
        else:
            self._point(lane, event, time_ns)

    def _lane(self, number: int) -> Lane:
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = Lane(self._section << 32 | number, None)
        return lane

    def _metadata(self, event: Event) -> None:
        """Names of tensors, and the wall clock of a section."""
        self.counts.skip("M", "metadata: names of tensors and the wall clock, kept as columns")
        number = tensor_number(event.pid)
        if event.name != "process_name" or number is None:
            return
        given = arguments(event)
        if given.start_time_since_epoch_in_micros is not None:
            self._start_section(given)
        elif given.name is not None:
            if self._lane(number).named:  # numbers begin anew: the recording was started again
                self.stop()
            lane = self._lane(number)
            lane.tensor, lane.named = _text(given.name), True

    def _start_section(self, given: Args) -> None:
        if self._lanes or self._last_ns is not None:
            self.stop()
        self.base_ns = nanoseconds(given.start_time_since_epoch_in_micros)
        if self.first_base_ns is None:
            self.first_base_ns = self.base_ns

    def _mark(self, phase: str, event: Event, time_ns: int) -> None:
        self.rows.mark(_text(event.name), time_ns)
        self.counts.store(phase)

    def _begin(self, lane: Lane, name: str | None, time_ns: int) -> None:
        self.counts.store("B")
        backend = backend_of(name) if name else None
        if name and name.startswith(NEGOTIATE):
            self._unclaimed(lane)
            lane.negotiated_ns = time_ns
        elif lane.operation is None and name and (name in OPERATIONS or backend):
            self._operation(lane, name if name in OPERATIONS else name.split("_", 1)[1], time_ns)
        if lane.operation is not None and name == FUSION:
            lane.operation.fused = True
        if lane.operation is not None and name and backend:
            self.backends[backend] += 1
            self._fusion.begin(lane.operation, name, time_ns)
        lane.open.append((name, time_ns))

    def _operation(self, lane: Lane, name: str, time_ns: int) -> None:
        """An operation begins: it takes the ticks of its negotiation along."""
        operation = Operation(name, lane.tensor, lane.thread_id, time_ns, len(lane.open))
        identity = lane.thread_id if lane.tensor is None else lane.tensor
        if operation.kind == "all_reduce":
            negotiated = time_ns if lane.negotiated_ns is None else min(lane.negotiated_ns, time_ns)
            operation.step = self.steps.all_reduce(identity, time_ns, negotiated)
        else:
            operation.step = self.steps.at(time_ns)
        operation.ticks, lane.ticks = lane.ticks, {}
        operation.group_size = self.world.group(identity, operation.ticks)
        self._unclaimed(lane)
        lane.operation = operation

    def _end(self, lane: Lane, time_ns: int, given: Args) -> None:
        if not lane.open:
            self.lone_ends += 1
            self.counts.skip("E", "an end without a begin")
            return
        self.counts.store("E")
        name, start_ns = lane.open.pop()
        self.reversed += time_ns < start_ns
        shape = given.shape if elements_of(given.shape) is not None else None
        row = self.rows.span(lane.thread_id, lane.tensor, name, start_ns, time_ns, shape)
        if name and name.startswith(NEGOTIATE):
            self.world.negotiated(lane.ticks)
        operation = lane.operation
        if operation is None:
            return
        if name and backend_of(name):
            self._fusion.end(operation, time_ns)
        if len(lane.open) <= operation.depth:
            operation.end_ns = time_ns
            operation.dtype, operation.elements = given.dtype, elements_of(given.shape)
            self._complete(lane, operation, row)

    def _complete(self, lane: Lane, operation: Operation, row: int) -> None:
        operation.row = row
        lane.operation = None
        self._fusion.complete(operation)
        for collective in self._fusion.finished():
            self.rows.collective(collective)

    def _point(self, lane: Lane, event: Event, time_ns: int) -> None:
        """A rank is ready; or some event with a duration, which Horovod does not write."""
        rank = rank_number(event.name)
        if rank is None:
            duration = nanoseconds(event.dur)
            end_ns = None if duration is None else time_ns + duration
            self.rows.span(lane.thread_id, lane.tensor, _text(event.name), time_ns, end_ns)
            self.counts.store("X")
        elif not (lane.open and (lane.open[-1][0] or "").startswith(NEGOTIATE)):
            self.counts.store("X")
            self.world.saw(rank)
            self.rows.arrivals(lane.tensor, {rank: time_ns}, None)
        elif rank in lane.ticks:
            self.counts.skip("X", "the rank was ready already")
        else:
            self.counts.store("X")
            self.world.saw(rank)
            lane.ticks[rank] = time_ns

    def _unclaimed(self, lane: Lane) -> None:
        """Ticks of a negotiation whose operation is not in the file."""
        self.rows.arrivals(lane.tensor, lane.ticks, None)
        lane.ticks, lane.negotiated_ns = {}, None

    def stop(self) -> None:
        """The recording ends here, or starts anew: what is open stays open."""
        for lane in self._lanes.values():
            self._unclaimed(lane)
            self._abandon(lane)
        for collective in self._fusion.finished(everything=True):
            self.rows.collective(collective)
        if self._last_ns is not None:
            self.steps.stop(self._last_ns)
        self._lanes = {}
        self._last_ns = None
        self._section += 1

    def _abandon(self, lane: Lane) -> None:
        """Rows for what was never closed, innermost last; an operation under way has no end."""
        operation = lane.operation
        for depth, (name, start_ns) in enumerate(lane.open):
            row = self.rows.span(lane.thread_id, lane.tensor, name, start_ns, None)
            if operation is not None and depth == operation.depth:
                operation.row = row
        if operation is not None:
            self._fusion.complete(operation)


class World:
    """How many ranks there are, from the ranks that were ready."""

    def __init__(self) -> None:
        self._highest = -1
        self._complete = 0  # most ranks of a closed negotiation
        self._groups: dict[object, int] = {}

    def saw(self, rank: int) -> None:
        self._highest = max(self._highest, rank)

    def negotiated(self, ranks: Ticks) -> None:
        """A negotiation was closed: all its members had become ready, unless the response cache served it."""
        if ranks and len(ranks) == max(ranks) + 1:
            self._complete = max(self._complete, len(ranks))

    def group(self, tensor: object, ticks: Ticks) -> int | None:
        """Members of the group that a tensor is reduced in, from this or an earlier negotiation in full."""
        if ticks:
            self._groups[tensor] = len(ticks)
        return self._groups.get(tensor)

    @property
    def size(self) -> int | None:
        """World size, None where no negotiation shows every rank from 0 to the highest one seen."""
        return self._complete if 0 < self._complete == self._highest + 1 else None


def _text(value: str | int | float | None) -> str | None:
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _kind(phase: str | None) -> str:
    """A phase as sources.events names it: what is no phase is not copied."""
    return phase if phase and len(phase) == 1 else "unknown"
