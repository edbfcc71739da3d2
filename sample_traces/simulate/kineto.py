"""Writes a job as PyTorch's profiler would have: one gzipped Chrome trace for each rank."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from simulate.chrome import Args, EventText, Where, base_ns
from simulate.events import HostOp, Launch, RankTrace, Task
from simulate.job import Job
from simulate.kineto_args import SYNC_NAMES, device_args, frame_args, operator_args, sync_args

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


def write_kineto(job: Job, folder: Path) -> list[Path]:
    """Write `rank<r>.pt.trace.json.gz` for every rank; the paths in the order of ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(job.config.ranks):
        path = folder / f"rank{rank}.pt.trace.json.gz"
        # No name and no time in the gzip header: the same job gives the same bytes.
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
            for piece in _document(job, rank):
                out.write(piece.encode())
        paths.append(path)
    return paths


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
    return {
        "schemaVersion": 1,
        "deviceProperties": [_device(job)],
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


def _device(job: Job) -> Args:
    gpu = job.config.gpu
    return {
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


def _distributed(job: Job, rank: int) -> Args:
    """The default group comes first, whether somebody uses it or not."""
    groups = [("0", "default_pg", list(range(job.config.ranks)))]
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
        self.trace: RankTrace = job.ranks[rank]
        self.text = EventText(job, rank)
        self.pid = job.places[rank].pid
        self.threads = {"main": self.pid, "autograd": self.pid + 1}
        self.sm_count = job.config.gpu.sm_count

    def events(self) -> Iterator[str]:
        first = min(op.start for op in self.trace.host_ops)
        last = max(op.end for op in self.trace.host_ops)
        yield from self._metadata(first)
        yield from self._host()
        yield from self._backward_flows()
        yield from self._device()
        yield from self._device_annotations()
        yield self.text.whole(first, last)
        yield self.text.instant(
            "Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", first
        )
        yield self.text.instant("Record Window End", "", "", last)

    def _metadata(self, at: int) -> Iterator[str]:
        main, autograd = self.threads["main"], self.threads["autograd"]
        named: list[tuple[str, Where, Args]] = [
            ("process_name", (self.pid, 0), {"name": "python3"}),
            ("process_labels", (self.pid, 0), {"labels": "CPU"}),
            ("process_name", (0, 0), {"name": "python3"}),
            ("process_labels", (0, 0), {"labels": "GPU 0"}),
            ("thread_name", (self.pid, main), {"name": f"thread {main} (python3)"}),
            ("thread_name", (self.pid, autograd), {"name": f"thread {autograd} (pt_autograd_0)"}),
        ]
        streams = sorted({task.stream for task in self.trace.tasks})
        named += [("thread_name", (0, stream), {"name": f"stream {stream}"}) for stream in streams]
        for name, where, args in named:
            yield self.text.metadata(name, where, at, args)

    def _thread(self, event: HostOp | Launch) -> Where:
        return self.pid, self.threads[event.thread]

    def _host(self) -> Iterator[str]:
        for index, op in enumerate(self.trace.host_ops):
            if op.kind in ("module", "python"):
                category, args = "python_function", frame_args(op)
            else:
                category = "cpu_op" if op.kind == "operator" else "user_annotation"
                args = operator_args(op)
            args["Ev Idx"] = index
            yield self.text.complete(category, op.name, self._thread(op), (op.start, op.end), args)
        for launch in self.trace.launches:
            yield self._launch(launch)

    def _launch(self, launch: Launch) -> str:
        operator = launch.operator
        args: Args = {} if operator is None else {"External id": operator.external_id}
        args |= {"cbid": CBIDS[launch.name], "correlation": launch.correlation}
        when = (launch.start, launch.end)
        return self.text.complete("cuda_runtime", launch.name, self._thread(launch), when, args)

    def _backward_flows(self) -> Iterator[str]:
        """From the forward operator of a sequence number to its backward function."""
        ops = [op for op in self.trace.host_ops if op.sequence is not None]
        forward = {op.sequence: op for op in ops if op.forward_thread is None}
        for number, op in enumerate(ops):
            if op.forward_thread is None or op.name.startswith("autograd::"):
                continue
            first = forward[op.sequence]
            yield self.text.flow("s", "fwdbwd", number, self._thread(first), first.start)
            yield self.text.flow("f", "fwdbwd", number, self._thread(op), op.start)

    def _device(self) -> Iterator[str]:
        for task in self.trace.tasks:
            category = "kernel" if task.kind == "kernel" else f"gpu_{task.kind}"
            where, launch = (0, task.stream), task.launch
            args = device_args(task, self.sm_count)
            yield self.text.complete(category, task.name, where, (task.start, task.end), args)
            yield self.text.flow("s", "ac2g", launch.correlation, self._thread(launch), launch.start)
            yield self.text.flow("f", "ac2g", launch.correlation, where, task.start)
        for sync in self.trace.syncs:
            where, when = (0, sync.stream), (sync.start, sync.end)
            yield self.text.complete("cuda_sync", SYNC_NAMES[sync.kind], where, when, sync_args(sync))

    def _device_annotations(self) -> Iterator[str]:
        """What an annotation of the host covers on each stream: its first activity to its last."""
        covered: dict[tuple[int, int], tuple[HostOp, int, int]] = {}
        for task in self.trace.tasks:
            for op in _annotations(task):
                key = (op.external_id, task.stream)
                _, start, end = covered.get(key, (op, task.start, task.end))
                covered[key] = (op, min(start, task.start), max(end, task.end))
        for (external, stream), (op, start, end) in covered.items():
            args: Args = {"External id": external}
            yield self.text.complete("gpu_user_annotation", op.name, (0, stream), (start, end), args)


def _annotations(task: Task) -> Iterator[HostOp]:
    """The annotations around a launch, innermost first."""
    op = task.launch.op
    while op is not None:
        if op.kind in ("annotation", "step"):
            yield op
        op = op.parent
