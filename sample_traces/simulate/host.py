"""A rank's host: its clock on each thread, its spans, its launches, what it makes its streams wait for."""

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from simulate.config import Config
from simulate.engine import Engine
from simulate.events import (
    COMPUTE_STREAM,
    HostKind,
    HostOp,
    Launch,
    Member,
    RankTrace,
    Sync,
    SyncKind,
    Task,
    TaskKind,
    Thread,
)
from simulate.model import Kernel

OPEN_NS, CLOSE_NS = 1_500, 700  # what entering and leaving an operator costs
CALL_NS = {
    "cudaLaunchKernel": 4_200,
    "cudaLaunchKernelExC": 5_600,
    "cudaMemcpyAsync": 6_500,
    "cudaMemsetAsync": 4_000,
    "cudaEventRecord": 900,
    "cudaStreamWaitEvent": 800,
    "cudaStreamSynchronize": 2_000,
    "cudaDeviceSynchronize": 2_000,
}
REACH_NS = (3_000, 6_500)  # from the start of a launch until the device can start


class Host:
    """Records what one process does. Time passes on the current thread alone."""

    def __init__(self, config: Config, engine: Engine, rank: int) -> None:
        self.config = config
        self.engine = engine
        self.rank = rank
        self.random = random.Random(f"rank {config.seed} {rank}")
        self.trace = RankTrace(rank)
        self.thread: Thread = "main"
        self.step: int | None = None
        self._now: dict[Thread, int] = {"main": 0, "autograd": 0}
        self._open: dict[Thread, list[HostOp]] = {"main": [], "autograd": []}
        self._tail: dict[int, Task] = {}
        self._pending: dict[int, list[Task]] = {}
        self._correlation = 1_000
        self._external = 0
        self._event = 0
        self._python = 0

    @property
    def now(self) -> int:
        return self._now[self.thread]

    def spend(self, nominal: float) -> None:
        """Let host time pass, a tenth more or less."""
        self._now[self.thread] += max(1, round(nominal * self.random.uniform(0.9, 1.1)))

    def sleep(self, duration: int) -> None:
        self._now[self.thread] += duration

    def switch(self, thread: Thread) -> None:
        """Go on on another thread, which starts a little after this one gave over."""
        handed_over = self.now
        self.thread = thread
        self._now[thread] = max(self._now[thread], handed_over) + self.random.randint(4_000, 9_000)

    @contextmanager
    def span(
        self,
        kind: HostKind,
        name: str,
        dims: list[object] | None = None,
        types: list[str] | None = None,
        sequence: int | None = None,
        forward_thread: int | None = None,
    ) -> Iterator[HostOp]:
        """A span around whatever happens inside, on the current thread."""
        stack = self._open[self.thread]
        op = HostOp(kind, name, self.thread, self.now, self.step, dims=dims, types=types)
        op.sequence, op.forward_thread = sequence, forward_thread
        op.parent = stack[-1] if stack else None
        self._number(op)
        self.trace.host_ops.append(op)
        stack.append(op)
        self.spend(OPEN_NS)
        yield op
        self.spend(CLOSE_NS)
        op.end = self.now
        stack.pop()

    def _number(self, op: HostOp) -> None:
        """Frames have Python ids, everything else an external id, as the profiler gives them."""
        if op.kind in ("module", "python"):
            self._python += 1
            op.python_id = self._python
            above = op.parent
            while above is not None and above.python_id is None:
                above = above.parent
            op.python_parent = None if above is None else above.python_id
        else:
            self._external += 1
            op.external_id = self._external

    def call(self, name: str) -> Launch:
        """A call of the runtime, inside the innermost operator."""
        start = self.now
        self.spend(CALL_NS[name])
        self._correlation += 1
        stack = [op for op in self._open[self.thread] if op.external_id]
        launch = Launch(
            name, self.thread, start, self.now, self._correlation, stack[-1] if stack else None, self.step
        )
        self.trace.launches.append(launch)
        return launch

    def tail(self, stream: int = COMPUTE_STREAM) -> Task | None:
        """The last activity put on a stream."""
        return self._tail.get(stream)

    def launch(self, kernel: Kernel, factor: float = 1.0, stream: int = COMPUTE_STREAM) -> Task:
        """Launch a kernel; `factor` stretches it."""
        call = self.call("cudaLaunchKernel")
        noise = self.random.gauss(1.0, self.config.jitter)
        task = self._task(
            "kernel", kernel.name, stream, call, round(kernel.duration * factor * max(noise, 0.5))
        )
        task.grid, task.block, task.registers, task.shared = (
            kernel.grid,
            kernel.block,
            kernel.registers,
            kernel.shared,
        )
        self._put(task)
        return task

    def copy(self, copy_kind: str, name: str, size: int, duration: int) -> Task:
        task = self._task("memcpy", name, COMPUTE_STREAM, self.call("cudaMemcpyAsync"), duration)
        task.bytes, task.copy_kind = size, copy_kind
        self._put(task)
        return task

    def set_memory(self, size: int) -> None:
        task = self._task("memset", "Memset (Device)", COMPUTE_STREAM, self.call("cudaMemsetAsync"), 1_200)
        task.bytes = size
        self._put(task)

    def join(self, member: Member, name: str) -> Task:
        """Launch a collective's kernel on its group's stream."""
        task = self._task("kernel", name, member.collective.group.stream, self.call("cudaLaunchKernelExC"), 0)
        task.collective, member.task = member, task
        task.grid, task.block, task.registers, task.shared = (16, 1, 1), (544, 1, 1), 96, 103_808
        self._put(task)
        return task

    def _task(self, kind: TaskKind, name: str, stream: int, launch: Launch, duration: int) -> Task:
        ready = launch.start + self.random.randint(*REACH_NS)
        return Task(self.rank, kind, name, stream, launch, ready, max(1, duration), self.step)

    def _put(self, task: Task) -> None:
        task.waits = self._pending.pop(task.stream, [])
        self._tail[task.stream] = task
        self.trace.tasks.append(task)
        self.engine.enqueue(task)

    def wait_for(self, stream: int, task: Task | None) -> None:
        """Make a stream wait for an activity of another: an event recorded behind it, then waited for."""
        if task is None:
            return
        self._event += 1
        record = self.call("cudaEventRecord")
        wait = self.call("cudaStreamWaitEvent")
        self._pending.setdefault(stream, []).append(task)
        self.trace.syncs.append(
            Sync(
                "stream wait",
                stream,
                wait.start,
                wait.end,
                wait.correlation,
                self._event,
                task.stream,
                record.correlation,
            )
        )

    def synchronize(self, name: str, task: Task) -> Generator[Task, None, None]:
        """Block the host until an activity has ended."""
        yield task
        start = self.now
        self._now[self.thread] = max(self.now, task.end)
        launch = self.call(name)
        launch.start = start
        if start < task.end:
            kind: SyncKind = "stream" if name == "cudaStreamSynchronize" else "context"
            self.trace.syncs.append(Sync(kind, task.stream, start, task.end, launch.correlation))
