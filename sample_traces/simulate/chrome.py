"""Chrome trace events as the text that PyTorch's profiler writes."""

import json
from typing import Any

from simulate.job import Job

BLOCK_NS = 90 * 86_400 * 10**9  # the profiler counts from the start of such a block

Args = dict[str, Any]
Where = tuple[int, int]
"""pid and tid: process and thread, or device and stream."""


def base_ns(job: Job) -> int:
    """What the times of the traces count from, ns since 1970."""
    return job.config.epoch_ns // BLOCK_NS * BLOCK_NS


def microseconds(ns: int) -> str:
    """Three decimals: exact to the ns."""
    return f"{ns // 1000}.{ns % 1000:03d}"


class EventText:
    """Events of one rank, with times by its own clock."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job = job
        self.rank = rank
        self._base = base_ns(job)

    def time(self, true_ns: int) -> str:
        return microseconds(self.job.read(self.rank, true_ns) - self._base)

    def _span(self, start: int, end: int) -> str:
        dur = microseconds(self.job.read(self.rank, end) - self.job.read(self.rank, start))
        return f'"ts": {self.time(start)}, "dur": {dur}'

    def complete(self, category: str, name: str, where: Where, when: tuple[int, int], args: Args) -> str:
        head = f'"ph": "X", "cat": "{category}", "name": {json.dumps(name)}'
        place = f'"pid": {where[0]}, "tid": {where[1]}'
        return f'{{\n    {head}, {place},\n    {self._span(*when)},\n    "args": {json.dumps(args)}\n  }}'

    def flow(self, phase: str, name: str, number: int, where: Where, at: int) -> str:
        end = ', "bp": "e"' if phase == "f" else ""
        place = f'"pid": {where[0]}, "tid": {where[1]}, "ts": {self.time(at)}'
        return (
            f'{{\n    "ph": "{phase}", "id": {number}, {place},\n'
            f'    "cat": "{name}", "name": "{name}"{end}\n  }}'
        )

    def metadata(self, name: str, where: Where, at: int, args: Args) -> str:
        place = f'"ts": {self.time(at)}, "pid": {where[0]}, "tid": {where[1]}'
        return f'{{\n    "ph": "M", "name": "{name}", {place},\n    "args": {json.dumps(args)}\n  }}'

    def instant(self, name: str, pid: str, tid: str, at: int) -> str:
        place = f'"pid": "{pid}", "tid": "{tid}", "ts": {self.time(at)}'
        return f'{{\n    "ph": "i", "s": "g", "name": "{name}", {place}\n  }}'

    def whole(self, start: int, end: int) -> str:
        """The profiler's own span around everything."""
        return (
            f'{{\n    "ph": "X", "cat": "Trace", {self._span(start, end)},\n'
            '    "pid": "Spans", "tid": "PyTorch Profiler",\n'
            '    "name": "PyTorch Profiler (0)",\n    "args": {"Op count": 0}\n  }'
        )
