"""Turns programs into times: streams run in order, collectives wait for their last member."""

import random
from collections import deque
from collections.abc import Generator, Sequence

from simulate.config import Config
from simulate.events import Collective, Task
from simulate.network import root_leaves_early_ns

GAP_NS = 900  # between two activities of one stream

Program = Generator[Task, None, None]
"""A rank's host: yields the device activity it waits for."""


class Engine:
    """Solves start and end of every device activity.

    An activity starts at the latest of: its launch, the end of the one before it on its stream, the ends
    of those its stream waits for. A collective ends on all its ranks when the last has arrived and the
    transfer is done; until then the activities behind it have no times.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._streams: dict[tuple[int, int], deque[Task]] = {}
        self._last: dict[tuple[int, int], Task] = {}
        self._blocked: dict[int, dict[tuple[int, int], None]] = {}

    def enqueue(self, task: Task) -> None:
        """Put an activity at the end of its stream, and solve what can be solved."""
        key = (task.rank, task.stream)
        self._streams.setdefault(key, deque()).append(task)
        self._advance([key])

    def _advance(self, keys: list[tuple[int, int]]) -> None:
        while keys:
            key = keys.pop()
            queue = self._streams[key]
            while queue and self._start(queue[0], key):
                task = queue[0]
                if task.end < 0 and task.collective is None:
                    task.end = task.start + task.duration
                elif task.end < 0 and task.collective is not None:
                    keys += self._arrive(task.collective.collective)
                if task.end < 0:
                    break
                self._done(queue.popleft(), key, keys)

    def _start(self, task: Task, key: tuple[int, int]) -> bool:
        """Set the start where it is known; a collective that has arrived but not ended stays in front."""
        if task.start >= 0:
            return task.end >= 0
        for waited in task.waits:
            if waited.end < 0:
                self._blocked.setdefault(id(waited), {})[key] = None
                return False
        previous = self._last.get(key)
        free = previous.end + GAP_NS if previous is not None else 0
        task.start = max(task.ready, free, *(waited.end + GAP_NS for waited in task.waits))
        return True

    def _done(self, task: Task, key: tuple[int, int], keys: list[tuple[int, int]]) -> None:
        self._last[key] = task
        keys += self._blocked.pop(id(task), {})

    def _arrive(self, collective: Collective) -> list[tuple[int, int]]:
        """End a collective once all its members have arrived; the streams that go on."""
        members = list(collective.members.values())
        tasks = [m.task for m in members if m.task is not None and m.task.start >= 0]
        if len(tasks) < collective.group.size:
            return []
        last = max(task.start for task in tasks)
        draw = random.Random(f"end {self.config.seed} {collective.group.name} {collective.sequence}")
        for task in sorted(tasks, key=lambda t: t.rank):
            task.end = last + collective.transfer + draw.randint(0, self.config.end_jitter_ns)
            if collective.kind == "broadcast" and task.rank == collective.source:
                task.end -= root_leaves_early_ns(self.config, collective.group)
        return [(task.rank, task.stream) for task in tasks]

    def run(self, programs: list[Program]) -> None:
        """Run all hosts to their ends.

        Raises:
            RuntimeError: when every host waits for a collective that somebody never joins.
        """
        waiting: Sequence[tuple[Program, Task | None]] = [(program, None) for program in programs]
        while waiting:
            resumed = [(program, self._resume(program, task)) for program, task in waiting]
            still = [(program, task) for program, task in resumed if task is not None]
            if (
                still
                and len(still) == len(waiting)
                and all(a[1] is b[1] for a, b in zip(still, waiting, strict=True))
            ):
                raise RuntimeError("the simulated ranks wait for each other")
            waiting = still

    @staticmethod
    def _resume(program: Program, task: Task | None) -> Task | None:
        """Run a host until it waits for an activity without an end; None: it has finished."""
        if task is not None and task.end < 0:
            return task
        for waited in program:
            if waited.end < 0:
                return waited
        return None
