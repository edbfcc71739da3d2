"""Writes a job as PyTorch's profiler would have: one gzipped Chrome trace for each rank."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulate.collectives import WORDINGS
from simulate.events import Collective, HostOp, Launch, Member, Sync, Task
from simulate.job import Job

BLOCK_NS = 90 * 86_400 * 10**9  # the profiler counts from the start of such a block
PYTHON_KINDS = ("module", "python")
SYNC_NAMES = {"stream wait": "Stream Wait Event", "stream": "Stream Sync", "context": "Context Sync"}
CBIDS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
}
SHOWN_RANKS = 30  # the profiler cuts a list of ranks here

Args = dict[str, Any]


def write_kineto(job: Job, folder: Path) -> list[Path]:
    """Write `rank<r>.pt.trace.json.gz` for every rank; the paths in the order of ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(job.config.ranks):
        path = folder / f"rank{rank}.pt.trace.json.gz"
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
            for piece in _document(job, rank):
                out.write(piece.encode())
        paths.append(path)
    return paths


def base_ns(job: Job) -> int:
    """What the times of the traces count from, ns since 1970."""
    return job.config.epoch_ns // BLOCK_NS * BLOCK_NS


def _document(job: Job, rank: int) -> Iterator[str]:
    yield "{\n"
    for key, value in _header(job, rank).items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    yield '  "traceEvents": ['
    separator = ""
    for event in _RankWriter(job, rank).events():
        yield f"{separator}\n  {event}"
        separator = ","
    yield f'\n  ],\n  "traceName": "rank{rank}.pt.trace.json"\n}}\n'


def _header(job: Job, rank: int) -> Args:
    gpu = job.config.gpu
    return {
        "schemaVersion": 1,
        "deviceProperties": [
            {
                "id": 0,
                "name": gpu.name,
                "totalGlobalMem": gpu.memory_bytes,
                "computeMajor": gpu.major,
                "computeMinor": gpu.minor,
                "maxThreadsPerBlock": 1024,
                "maxThreadsPerMultiprocessor": 2048,
                "regsPerBlock": 65536,
                "warpSize": 32,
                "sharedMemPerBlock": 49152,
                "numSms": gpu.sm_count,
            }
        ],
        "cuda_runtime_version": 12080,
        "cuda_driver_version": 12080,
        "record_shapes": 1,
        "with_stack": 1,
        "with_modules": 1,
        "distributedInfo": _distributed(job, rank),
        "host_name": job.clock(rank).host,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns(job),
    }


def _distributed(job: Job, rank: int) -> Args:
    """The default group comes first, whoever uses it."""
    everyone = list(range(job.config.ranks))
    groups = [("0", "default_pg", everyone)]
    groups += [(g.name, g.desc, list(g.ranks)) for g in job.places[rank].groups if g.name != "0"]
    config = [
        {
            "pg_name": name,
            "pg_desc": desc,
            "backend_config": "cuda:nccl",
            "pg_size": len(ranks),
            "ranks": ranks,
        }
        for name, desc, ranks in groups
    ]
    return {
        "backend": "nccl",
        "rank": rank,
        "world_size": job.config.ranks,
        "pg_count": len(config),
        "pg_config": config,
        "nccl_version": "2.27.3",
    }


class _RankWriter:
    """The events of one rank, each as JSON text."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job = job
        self.rank = rank
        self.pid = job.places[rank].pid
        self.threads = {"main": self.pid, "autograd": self.pid + 1}
        self.base = base_ns(job)

    def _time(self, true_ns: int) -> str:
        """Microseconds with three decimals: exact to the ns."""
        ns = self.job.read(self.rank, true_ns) - self.base
        return f"{ns // 1000}.{ns % 1000:03d}"

    def _span(self, start: int, end: int) -> str:
        ns = self.job.read(self.rank, end) - self.job.read(self.rank, start)
        return f'"ts": {self._time(start)}, "dur": {ns // 1000}.{ns % 1000:03d}'

    def _complete(
        self, category: str, name: str, where: tuple[int, int], when: tuple[int, int], args: Args
    ) -> str:
        return (
            f'{{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, "pid": {where[0]}, "tid": {where[1]},\n'
            f'    {self._span(*when)},\n    "args": {json.dumps(args)}\n  }}'
        )

    def events(self) -> Iterator[str]:
        trace = self.job.ranks[self.rank]
        first = min(op.start for op in trace.host_ops)
        last = max(op.end for op in trace.host_ops)
        yield from self._metadata(first)
        for index, op in enumerate(trace.host_ops):
            yield self._host_op(op, index)
        yield from self._backward_flows(trace.host_ops)
        for launch in trace.launches:
            yield self._launch(launch)
        for task in trace.tasks:
            yield self._task(task)
            yield self._flow(
                "s", "ac2g", task.launch.correlation, self._thread(task.launch), task.launch.start
            )
            yield self._flow("f", "ac2g", task.launch.correlation, (0, task.stream), task.start)
        for sync in trace.syncs:
            yield self._sync(sync)
        yield from self._device_annotations(trace.tasks)
        yield (
            f'{{\n    "ph": "X", "cat": "Trace", {self._span(first, last)},\n    "pid": "Spans", "tid": "PyTorch Profiler",\n'
            '    "name": "PyTorch Profiler (0)",\n    "args": {"Op count": 0}\n  }'
        )
        yield self._instant(
            "Iteration Start: PyTorch Profiler", '"Traces"', '"Trace PyTorch Profiler"', first
        )
        yield self._instant("Record Window End", '""', '""', last)

    def _instant(self, name: str, pid: str, tid: str, at: int) -> str:
        return f'{{\n    "ph": "i", "s": "g", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {self._time(at)}\n  }}'

    def _metadata(self, at: int) -> Iterator[str]:
        named: list[tuple[str, int, int, Args]] = [
            ("process_name", self.pid, 0, {"name": "python3"}),
            ("process_labels", self.pid, 0, {"labels": "CPU"}),
            ("process_name", 0, 0, {"name": "python3"}),
            ("process_labels", 0, 0, {"labels": "GPU 0"}),
            (
                "thread_name",
                self.pid,
                self.threads["main"],
                {"name": f"thread {self.threads['main']} (python3)"},
            ),
            (
                "thread_name",
                self.pid,
                self.threads["autograd"],
                {"name": f"thread {self.threads['autograd']} (pt_autograd_0)"},
            ),
        ]
        streams = sorted({task.stream for task in self.job.ranks[self.rank].tasks})
        named += [("thread_name", 0, stream, {"name": f"stream {stream}"}) for stream in streams]
        for name, pid, tid, args in named:
            yield (
                f'{{\n    "ph": "M", "name": "{name}", "ts": {self._time(at)}, "pid": {pid}, "tid": {tid},\n'
                f'    "args": {json.dumps(args)}\n  }}'
            )

    def _thread(self, event: HostOp | Launch) -> tuple[int, int]:
        return self.pid, self.threads[event.thread]

    def _host_op(self, op: HostOp, index: int) -> str:
        if op.kind in PYTHON_KINDS:
            category, args = "python_function", self._frame(op)
        else:
            category = "cpu_op" if op.kind == "operator" else "user_annotation"
            args = self._operator(op)
        args["Ev Idx"] = index
        return self._complete(category, op.name, self._thread(op), (op.start, op.end), args)

    def _frame(self, op: HostOp) -> Args:
        args: Args = {"Python id": op.python_id, "Python parent id": op.python_parent or 0}
        if op.kind == "module":
            args["Python module id"] = op.module_id or 0
        return args

    def _operator(self, op: HostOp) -> Args:
        args: Args = {"External id": op.external_id, "Record function id": 0}
        if op.sequence is not None:
            args["Sequence number"] = op.sequence
            args["Fwd thread id"] = op.forward_thread or 0
        if op.collective is not None:
            args |= collective_args(op.collective)
            args["Rank"] = self.rank
        if op.dims is not None and op.types is not None:
            args["Concrete Inputs"] = [""] * len(op.dims)
            args["Input type"] = op.types
            args["Input Strides"] = [_strides(dims) for dims in op.dims]
            args["Input Dims"] = op.dims
        return args

    def _backward_flows(self, ops: list[HostOp]) -> Iterator[str]:
        """From the forward operator of a sequence number to its backward function."""
        forward = {op.sequence: op for op in ops if op.sequence is not None and op.forward_thread is None}
        for number, op in enumerate(ops):
            if op.forward_thread is None or op.name.startswith("autograd::") or op.sequence not in forward:
                continue
            first = forward[op.sequence]
            yield self._flow("s", "fwdbwd", number, self._thread(first), first.start)
            yield self._flow("f", "fwdbwd", number, self._thread(op), op.start)

    def _flow(self, phase: str, name: str, number: int, where: tuple[int, int], at: int) -> str:
        end = ', "bp": "e"' if phase == "f" else ""
        return (
            f'{{\n    "ph": "{phase}", "id": {number}, "pid": {where[0]}, "tid": {where[1]}, "ts": {self._time(at)},\n'
            f'    "cat": "{name}", "name": "{name}"{end}\n  }}'
        )

    def _launch(self, launch: Launch) -> str:
        args: Args = {} if launch.op is None else {"External id": launch.op.external_id}
        args |= {"cbid": CBIDS[launch.name], "correlation": launch.correlation}
        return self._complete(
            "cuda_runtime", launch.name, self._thread(launch), (launch.start, launch.end), args
        )

    def _task(self, task: Task) -> str:
        args: Args = {} if task.launch.op is None else {"External id": task.launch.op.external_id}
        if task.kind == "kernel":
            args["queued"] = 0
        args |= {"device": 0, "context": 1, "stream": task.stream, "correlation": task.launch.correlation}
        if task.kind == "kernel":
            args |= self._kernel(task)
        else:
            seconds = (task.end - task.start) / 1e9
            args |= {"bytes": task.bytes, "memory bandwidth (GB/s)": task.bytes / 1e9 / seconds}
        category = task.kind if task.kind == "kernel" else f"gpu_{task.kind}"
        return self._complete(category, task.name, (0, task.stream), (task.start, task.end), args)

    def _kernel(self, task: Task) -> Args:
        blocks = task.grid[0] * task.grid[1] * task.grid[2] / self.job.config.gpu.sm_count
        warps = task.block[0] * task.block[1] * task.block[2] / 32
        args: Args = {
            "registers per thread": task.registers,
            "shared memory": task.shared,
            "blocks per SM": round(blocks, 6),
            "warps per SM": round(blocks * warps, 6),
            "grid": list(task.grid),
            "block": list(task.block),
            "est. achieved occupancy %": min(100, round(blocks * warps * 100 / 64)),
        }
        return args if task.collective is None else args | collective_args(task.collective)

    def _sync(self, sync: Sync) -> str:
        name = SYNC_NAMES[sync.kind]
        args: Args = {"cuda_sync_kind": name}
        if sync.kind == "stream wait":
            args["wait_on_stream"] = sync.wait_stream
            args["wait_on_cuda_event_record_corr_id"] = sync.wait_correlation
            args["wait_on_cuda_event_id"] = sync.event_id
        args |= {"stream": sync.stream, "correlation": sync.correlation, "device": 0, "context": 1}
        return self._complete("cuda_sync", name, (0, sync.stream), (sync.start, sync.end), args)

    def _device_annotations(self, tasks: list[Task]) -> Iterator[str]:
        """What an annotation of the host covers on each stream: its first launch to its last."""
        covered: dict[tuple[int, int], tuple[HostOp, int, int]] = {}
        for task in tasks:
            op = task.launch.op
            while op is not None:
                if op.kind in ("annotation", "step"):
                    _, start, end = covered.get((op.external_id, task.stream), (op, task.start, task.end))
                    covered[op.external_id, task.stream] = (op, min(start, task.start), max(end, task.end))
                op = op.parent
        for (external, stream), (op, start, end) in covered.items():
            yield self._complete(
                "gpu_user_annotation", op.name, (0, stream), (start, end), {"External id": external}
            )


def collective_args(member: Member) -> Args:
    """What the profiler records about a collective, with its operator and with its kernel."""
    collective, group = member.collective, member.collective.group
    role = _role(member)
    into, out = _elements(collective)
    args: Args = {
        "Collective name": WORDINGS[role].record,
        "In msg nelems": into,
        "Out msg nelems": out,
        "Group size": group.size,
        "dtype": "BFloat16",
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": group.name,
        "Process Group Description": group.desc,
        "Process Group Ranks": _shown(group.ranks),
        "Seq": collective.sequence,
        "Comms Id": group.communicator,
    }
    if collective.point_to_point:
        args |= {"Src Rank": collective.source, "Dst Rank": collective.target}
    return args


def _role(member: Member) -> str:
    collective = member.collective
    if not collective.point_to_point:
        return collective.kind
    return "send" if member.rank == collective.source else "recv"


def _elements(collective: Collective) -> tuple[int, int]:
    """Elements in and out of one rank."""
    whole, share = collective.elements, collective.elements // collective.group.size
    if collective.kind == "all_gather":
        return share, whole
    if collective.kind == "reduce_scatter":
        return whole, share
    return whole, whole


def _shown(ranks: tuple[int, ...]) -> str:
    text = ", ".join(map(str, ranks[:SHOWN_RANKS]))
    return f"[{text}, ...]" if len(ranks) > SHOWN_RANKS else f"[{text}]"


def _strides(dims: object) -> list[Any]:
    """Strides of a contiguous tensor; of each, for a list of tensors."""
    if not isinstance(dims, list) or not dims:
        return []
    if isinstance(dims[0], list):
        return [_strides(inner) for inner in dims]
    strides = [1]
    for size in reversed(dims[1:]):
        strides.insert(0, strides[0] * size)
    return strides
