"""Rows of one process in a report of Nsight Systems."""

import re
from typing import Any

from simulate.events import HostOp, Task, Thread
from simulate.job import Job
from simulate.nsys_nccl import DOMAIN, call_name, call_payload, init_payload
from simulate.nsys_schema import API_NAMES, COPY_KINDS, DOMAIN_CREATE, PUSH_POP, SYNC_TYPES
from simulate.placement import Place

VM = 0x1_0000_0000_0000  # what every serialised id of this machine starts with
DEVICE, CONTEXT = 0, 1

Row = tuple[Any, ...]


class Strings:
    """StringIds: each text once."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._ids.setdefault(text, len(self._ids))

    def rows(self) -> list[Row]:
        return [(number, text) for text, number in self._ids.items()]


class Process:
    """One rank's process. Times count from the start of the session."""

    def __init__(self, job: Job, place: Place, session: int, strings: Strings, payloads: bool) -> None:
        self.job = job
        self.place = place
        self.trace = job.ranks[place.rank]
        self.session = session
        self.strings = strings
        self.payloads = payloads
        self.global_pid = VM | place.pid << 24

    def tables(self) -> dict[str, list[Row]]:
        tasks = self.trace.tasks
        main, autograd = self._thread("main"), self._thread("autograd")
        return {
            "PROCESSES": [(self.global_pid, self.place.pid, "python3")],
            "ThreadNames": [
                (self.strings.number("python3"), 20, main),
                (self.strings.number("pt_autograd_0"), 20, autograd),
            ],
            "NVTX_EVENTS": self._nvtx(),
            "CUPTI_ACTIVITY_KIND_RUNTIME": self._calls(),
            "CUPTI_ACTIVITY_KIND_KERNEL": [
                self._kernel(n, t) for n, t in enumerate(tasks) if t.kind == "kernel"
            ],
            "CUPTI_ACTIVITY_KIND_MEMCPY": [self._copy(t) for t in tasks if t.kind == "memcpy"],
            "CUPTI_ACTIVITY_KIND_MEMSET": [
                (*self._device(t), 0, t.bytes, None, 2) for t in tasks if t.kind == "memset"
            ],
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": self._syncs(),
        }

    def _time(self, true_ns: int) -> int:
        return self.job.read(self.place.rank, true_ns) - self.session

    def _thread(self, thread: Thread) -> int:
        return self.global_pid | (self.place.pid + (thread == "autograd"))

    def _calls(self) -> list[Row]:
        return [
            (
                self._time(call.start),
                self._time(call.end),
                0,
                self._thread(call.thread),
                call.correlation,
                self.strings.number(API_NAMES[call.name]),
                0,
                None,
            )
            for call in self.trace.launches
        ]

    def _device(self, task: Task) -> Row:
        """The columns that all device activity begins with."""
        times = self._time(task.start), self._time(task.end)
        return (*times, DEVICE, CONTEXT, None, task.stream, task.launch.correlation, self.global_pid)

    def _kernel(self, number: int, task: Task) -> Row:
        names = self.strings.number(task.name), self.strings.number(short_name(task.name)), None
        shape = task.registers, *task.grid, *task.block, 0, task.shared
        return (*self._device(task), *names, 1, 0, *shape, 0, 0, number, None, None, None)

    def _copy(self, task: Task) -> Row:
        pinned, device, pageable = 1, 2, 0
        kinds = (pinned, device) if task.copy_kind == "HtoD" else (device, pageable)
        return (*self._device(task), task.bytes, COPY_KINDS[task.copy_kind or ""], None, *kinds, None)

    def _syncs(self) -> list[Row]:
        where = DEVICE, CONTEXT, None
        return [
            (
                *(self._time(sync.start), self._time(sync.end), *where, sync.stream, sync.correlation),
                *(self.global_pid, None, SYNC_TYPES[sync.kind], sync.event_id or 2**32 - 1, 0),
            )
            for sync in self.trace.syncs
        ]

    def _nvtx(self) -> list[Row]:
        rows = self._communicators()
        for op in self.trace.host_ops:
            if op.kind != "python":
                rows.append(self._host_op(op))
            if op.collective is not None:
                when = self._time(op.collective.called[0]), self._time(op.collective.called[1])
                payload = call_payload(op.collective)
                rows.append(self._nccl(when, self._thread(op.thread), call_name(op.collective), payload))
        return rows

    def _communicators(self) -> list[Row]:
        """NCCL's domain, then each communicator as the process enters it, before anything else."""
        at = self._time(self.trace.host_ops[0].start) - 100_000
        main = self._thread("main")
        rows = [self._range((at, None), main, "NCCL", DOMAIN, DOMAIN_CREATE)]
        for number, group in enumerate(self.place.groups):
            when = at + 1_000 + 20_000 * number, at + 20_000 + 20_000 * number
            rows.append(self._nccl(when, main, "ncclCommInitRank", init_payload(group, self.place.rank)))
        return rows

    def _nccl(self, when: tuple[int, int], thread: int, name: str, payload: bytes) -> Row:
        row = self._range(when, thread, name, DOMAIN, registered=True)
        return (*row[:-1], payload) if self.payloads else row

    def _host_op(self, op: HostOp) -> Row:
        """Operators carry what emit_nvtx says; steps and modules are registered strings."""
        when = self._time(op.start), self._time(op.end)
        registered = op.kind in ("step", "module")
        return self._range(when, self._thread(op.thread), nvtx_text(op), 0, registered=registered)

    def _range(
        self,
        when: tuple[int, int | None],
        thread: int,
        name: str,
        domain: int,
        event_type: int = PUSH_POP,
        registered: bool = False,
    ) -> Row:
        text, number = (None, self.strings.number(name)) if registered else (name, None)
        head = (*when, event_type, None, None, None, text, thread, None, number, domain)
        return (*head, *(None,) * 9)


def nvtx_text(op: HostOp) -> str:
    """What stands in the range of a host operation."""
    if op.kind == "step":
        return f"step {op.step}"
    if op.kind == "module":
        return op.name.removeprefix("nn.Module: ")
    text = op.name
    if op.sequence is not None:
        text += f", seq = {op.sequence}"
    text += f", op_id = {op.external_id}"
    return text if op.dims is None else f"{text}, sizes = {op.dims}"


def short_name(name: str) -> str:
    """A kernel's name without type, namespace, template and parameters."""
    plain = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.split(r"[<(]", plain, maxsplit=1)[0].rsplit("::", 1)[-1]
