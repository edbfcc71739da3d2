"""Writes a job as Horovod's coordinator would have: one timeline, all of it on rank 0's clock."""

import random
from collections.abc import Iterator
from pathlib import Path

from simulate.events import Collective, Task
from simulate.job import Job
from simulate.model import layers

BEFORE_NS = 1_000_000  # the timeline starts this long before the job
MESSAGE_NS = (1_000, 4_000)  # from a rank's readiness until the coordinator has heard of it
CYCLE_NS = 1_000_000
OPERATIONS = {"all_reduce": "ALLREDUCE", "broadcast": "BROADCAST"}
PREFIXES = {"all_reduce": "allreduce", "broadcast": "broadcast"}

Event = tuple[int, int, str]
"""Microseconds since the start of the timeline, the tensor's number (0: none), the record."""


def write_horovod(job: Job, folder: Path, cached: bool = False, cycle_marks: bool = True) -> Path:
    """Write `timeline.json`.

    Gradients that the job packs into one bucket are fused. A rank's tick is when its device had made the
    gradient, plus a message of a few µs.

    Args:
        cached: as with the response cache on: only the first step's tensors are negotiated in full.
        cycle_marks: mark the coordinator's cycles.

    Raises:
        ValueError: Horovod knows data-parallel jobs of at least two ranks only.
    """
    if not can_horovod(job):
        raise ValueError("a Horovod timeline needs a data-parallel job: two ranks or more, ddp")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "timeline.json"
    path.write_text(_Timeline(job, cached, cycle_marks).text())
    return path


def can_horovod(job: Job) -> bool:
    """Is it a job that Horovod could have run?"""
    config = job.config
    return config.strategy == "ddp" and config.data == config.ranks and config.ranks > 1


class _Timeline:
    """Collects the events of all tensors, then writes them in the order of time."""

    def __init__(self, job: Job, cached: bool, cycle_marks: bool) -> None:
        self.job = job
        self.cached = cached
        self.cycle_marks = cycle_marks
        self.start = job.read(0, -BEFORE_NS)
        self._tensors: dict[str, int] = {}
        self._shapes = _shapes(job)
        self._sizes = {name: size for layer in layers(job.config) for name, size in layer.parameters}

    def text(self) -> str:
        events = [event for c in self.job.collectives for event in self._collective(c)]
        if self.cycle_marks:
            events += self._cycles()
        epoch = f'{{"start_time_since_epoch_in_micros":{self.start // 1000}}}'
        records = list(_named(0, epoch))
        named: set[int] = {0}
        by_number = {number: name for name, number in self._tensors.items()}
        for _, number, record in sorted(events, key=lambda event: event[0]):
            if number not in named:
                named.add(number)
                records += _named(number, f'{{"name": "{by_number[number]}"}}')
            records.append(record)
        return "[\n" + ",\n".join(records) + "\n]\n"

    def _us(self, true_ns: int) -> int:
        return (self.job.read(0, true_ns) - self.start) // 1000

    def _number(self, name: str) -> int:
        """A tensor is a process of the trace, numbered when it first appears."""
        return self._tensors.setdefault(name, len(self._tensors) + 1)

    def _collective(self, collective: Collective) -> Iterator[Event]:
        prefix = PREFIXES[collective.kind]
        numbers = {tensor: self._number(f"{prefix}.{tensor}") for tensor in collective.tensors}
        agreed = 0
        for tensor, number in numbers.items():
            ticks = self._ticks(collective, tensor)
            agreed = max(agreed, *ticks.values())
            if self._negotiated(collective):
                yield from self._negotiation(collective, number, ticks)
        for tensor, number in numbers.items():
            yield from self._operation(collective, number, tensor, agreed)

    def _negotiated(self, collective: Collective) -> bool:
        return not self.cached or collective.step in (None, self.job.config.first_step)

    def _ticks(self, collective: Collective, tensor: str) -> dict[int, int]:
        """When the coordinator heard of each rank, in its microseconds."""
        draw = random.Random(f"ticks {self.job.config.seed} {collective.sequence} {tensor}")
        heard = {}
        for rank, member in sorted(collective.members.items()):
            made = member.ready[tensor].end if tensor in member.ready else member.called[0]
            heard[rank] = self._us(made + draw.randint(*MESSAGE_NS))
        return heard

    def _negotiation(self, collective: Collective, number: int, ticks: dict[int, int]) -> Iterator[Event]:
        name = f"NEGOTIATE_{OPERATIONS[collective.kind]}"
        yield _begin(name, min(ticks.values()), number)
        for rank, ts in sorted(ticks.items(), key=lambda tick: (tick[1], tick[0])):
            yield ts, number, f'{{"ph": "X", "name": "{rank}", "ts": {ts}, "pid": {number}, "dur": 0}}'
        yield _end(max(ticks.values()), number)

    def _operation(self, collective: Collective, number: int, tensor: str, agreed: int) -> Iterator[Event]:
        """What follows when all are ready. The transfer starts when the last rank's kernel does."""
        tasks = [m.task for m in collective.members.values() if m.task is not None]
        own = next(task for task in tasks if task.rank == 0)
        kind = OPERATIONS[collective.kind]
        yield _begin(kind, agreed, number)
        yield _begin("QUEUE", agreed, number)
        start, end = self._transfer(collective, tasks, own, tensor, agreed)
        fused = collective.kind == "all_reduce" and len(collective.tensors) > 1
        packed = max(agreed, start - 8) if fused else start
        yield _end(packed, number)
        if fused:
            yield _begin("MEMCPY_IN_FUSION_BUFFER", packed, number)
            yield _end(start, number)
        yield _begin(f"NCCL_{kind}", start, number)
        yield _end(end, number)
        if fused:
            yield _begin("MEMCPY_OUT_FUSION_BUFFER", end, number)
            yield _end(end + 6, number)
        args = f'{{"dtype": "bfloat16", "shape": "{self._shapes[tensor]}"}}'
        yield end + 8, number, f'{{"ph": "E", "ts": {end + 8}, "pid": {number}, "args": {args}}}'

    def _transfer(
        self, collective: Collective, tasks: list[Task], own: Task, tensor: str, agreed: int
    ) -> tuple[int, int]:
        """The transfer of a fused bucket; broadcasts are not fused, their tensors follow each other."""
        end = self._us(own.end)
        start = min(end, max(agreed, self._us(max(task.start for task in tasks))))
        if collective.kind == "all_reduce":
            return start, end
        before = 0
        for name in collective.tensors[: collective.tensors.index(tensor)]:
            before += self._sizes[name]
        after = before + self._sizes[tensor]
        span = end - start
        return start + span * before // collective.elements, start + span * after // collective.elements

    def _cycles(self) -> Iterator[Event]:
        last = max(self._us(step.end) for step in self.job.ranks[0].steps)
        for ts in range(CYCLE_NS // 2000, last, CYCLE_NS // 1000):
            yield ts, 0, f'{{"ph": "i", "name": "CYCLE_START", "ts": {ts}, "s": "g"}}'


def _shapes(job: Job) -> dict[str, str]:
    found = {}
    for layer in layers(job.config):
        (weight, _), (bias, _) = layer.parameters
        found[weight] = f"[{layer.outputs}, {layer.inputs}]"
        found[bias] = f"[{layer.outputs}]"
    return found


def _begin(name: str, ts: int, number: int) -> Event:
    return ts, number, f'{{"ph": "B", "name": "{name}", "ts": {ts}, "pid": {number}}}'


def _end(ts: int, number: int) -> Event:
    return ts, number, f'{{"ph": "E", "ts": {ts}, "pid": {number}}}'


def _named(number: int, args: str) -> Iterator[str]:
    yield f'{{"name": "process_name", "ph": "M", "pid": {number}, "args": {args}}}'
    yield f'{{"name": "process_sort_index", "ph": "M", "pid": {number}, "args": {{"sort_index": {number}}}}}'
