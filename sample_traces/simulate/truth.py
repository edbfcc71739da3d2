"""What is true about a simulated job: the answers that an analysis of its traces must come to."""

import json
from bisect import bisect_left, bisect_right
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simulate.config import Straggler
from simulate.events import Collective, Group, Task
from simulate.intervals import Interval, clip, length
from simulate.job import Job
from simulate.lost import blame, lost
from simulate.model import ELEMENT, layers
from simulate.network import alpha_beta, link_class
from simulate.passes import WRAPPERS

Row = dict[str, Any]
Classes = dict[str, list[Interval]]


def truth(job: Job) -> Row:
    """Everything, ready for JSON. Times are ns since 1970.

    `true_…` are in true time, other times by the rank's own clock.
    """
    config = job.config
    waits = lost(job.collectives, config.ranks)
    return {
        "config": asdict(config),
        "hosts": [asdict(clock) for clock in job.clocks],
        "ranks": [_rank(job, rank) for rank in range(config.ranks)],
        "groups": [_group(job, group) for group in _groups(job)],
        "layers": _layers(job),
        "stragglers": [_straggler(straggler) for straggler in config.stragglers],
        "steps": _steps(job),
        "collectives": [_collective(job, collective) for collective in job.collectives],
        "accounting": [row for rank in range(config.ranks) for row in accounting(job, rank)],
        "counts": [_counts(job, rank) for rank in range(config.ranks)],
        "gradients": _gradients(job),
        "lost": waits,
        "blame": blame(waits),
    }


def _rank(job: Job, rank: int) -> Row:
    place = job.places[rank]
    return {
        "rank": rank,
        "host": job.clocks[place.host].host,
        "local_rank": place.local_rank,
        "pid": place.pid,
        "stage": place.stage,
    }


def _groups(job: Job) -> list[Group]:
    found: dict[str, Group] = {}
    for place in job.places:
        for group in place.groups:
            found.setdefault(group.name, group)
    return list(found.values())


def _group(job: Job, group: Group) -> Row:
    kinds = sorted({c.kind for c in job.collectives if c.group.name == group.name})
    link = link_class(job.config, group)
    return {
        "name": group.name,
        "desc": group.desc,
        "ranks": list(group.ranks),
        "link": link,
        "alpha_ns_beta_ns_per_byte": {k: alpha_beta(job.config.links[link], group.size, k) for k in kinds},
    }


def _layers(job: Job) -> list[Row]:
    """Layers with what one step costs on one rank of an unhindered job."""
    config = job.config
    wrapper = WRAPPERS[config.strategy]
    own: dict[int, int] = {}
    rows = []
    for layer in layers(config):
        local = own[layer.stage] = own.get(layer.stage, -1) + 1
        rows.append(
            {
                "layer": layer.index,
                "stage": layer.stage,
                "path": f"{wrapper}/Net_0/Linear_{local}",
                "inputs": layer.inputs,
                "outputs": layer.outputs,
                "parameters": dict(layer.parameters),
                "gradient_bytes": layer.elements * ELEMENT,
                "flops_forward": layer.flops_forward(config.tokens),
                "flops_backward": layer.flops_backward(config.tokens),
            }
        )
    return rows


def _straggler(straggler: Straggler) -> Row:
    return asdict(straggler)


def _steps(job: Job) -> list[Row]:
    """Steps as each host marked them."""
    return [
        {
            "rank": trace.rank,
            "step": step.step,
            "start_ns": job.read(trace.rank, step.start),
            "end_ns": job.read(trace.rank, step.end),
            "true_start_ns": job.config.epoch_ns + step.start,
            "true_end_ns": job.config.epoch_ns + step.end,
        }
        for trace in job.ranks
        for step in trace.steps
    ]


def _collective(job: Job, collective: Collective) -> Row:
    """One collective: who arrived when, who was last and by how much.

    `last` is NULL where the two latest arrivals are the same. `ready`: when the rank's gradients were all
    there, which is earlier than the arrival where the stream still ran the collective before.
    """
    epoch = job.config.epoch_ns
    tasks = {rank: _task(collective, rank) for rank in sorted(collective.members)}
    arrivals = {rank: task.start for rank, task in tasks.items()}
    ready = {
        rank: max(task.end for task in member.ready.values())
        for rank, member in sorted(collective.members.items())
        if member.ready
    }
    latest = sorted(arrivals.values())
    lead = latest[-1] - latest[-2]
    return {
        "index": collective.index,
        "kind": collective.kind,
        "group": collective.group.name,
        "group_ranks": list(collective.group.ranks),
        "seq": collective.sequence,
        "step": collective.step,
        "dtype": collective.dtype,
        "elements": collective.elements,
        "payload_bytes": collective.payload,
        "source": collective.source,
        "target": collective.target,
        "tensors": list(collective.tensors),
        "layers": list(collective.layers),
        "true_arrival_ns": {str(rank): epoch + at for rank, at in arrivals.items()},
        "true_end_ns": {str(rank): epoch + task.end for rank, task in tasks.items()},
        "true_ready_ns": {str(rank): epoch + at for rank, at in ready.items()},
        "delay_ns": {str(rank): at - latest[0] for rank, at in arrivals.items()},
        "wait_ns": {str(rank): latest[-1] - at for rank, at in arrivals.items()},
        "transfer_ns": collective.transfer,
        "last": max(arrivals, key=lambda rank: arrivals[rank]) if lead else None,
        "lead_ns": lead,
        "spread_ns": latest[-1] - latest[0],
    }


def _task(collective: Collective, rank: int) -> Task:
    task = collective.members[rank].task
    if task is None:
        raise RuntimeError("a member never launched its kernel")
    return task


def _class(task: Task) -> str:
    if task.kind != "kernel":
        return "memory"
    return "compute" if task.collective is None else "comm"


def accounting(job: Job, rank: int) -> list[Row]:
    """Where a rank's device time went, by its own clock: the whole capture (step "all"), then by step.

    A step's window runs from the start of the first activity launched in it to that of the next step's;
    the last one's to the end of its last activity. Time before the first window has step NULL.
    """
    spans = [(t, (job.read(rank, t.start), job.read(rank, t.end))) for t in job.ranks[rank].tasks]
    first = min(start for _, (start, _) in spans)
    last = max(end for _, (_, end) in spans)
    starts: dict[int | None, int] = {}
    for task, (start, _) in spans:
        if task.step is not None:
            starts[task.step] = min(start, starts.get(task.step, start))
    before: dict[int | None, int] = {None: first} if min(starts.values()) > first else {}
    starts = before | starts
    steps, bounds = list(starts), [*starts.values(), last]
    windows = _windows(spans, bounds)
    rows = [_split(rank, "all", _by_class(spans), first, last)]
    return rows + [_split(rank, step, windows[k], *bounds[k : k + 2]) for k, step in enumerate(steps)]


def _by_class(spans: list[tuple[Task, Interval]]) -> Classes:
    classes: Classes = {"compute": [], "comm": [], "memory": []}
    for task, span in spans:
        classes[_class(task)].append(span)
    return classes


def _windows(spans: list[tuple[Task, Interval]], bounds: list[int]) -> list[Classes]:
    """What runs in each window, not yet cut to it."""
    inside: list[list[tuple[Task, Interval]]] = [[] for _ in bounds[1:]]
    for task, (start, end) in spans:
        for window in range(bisect_right(bounds, start) - 1, min(bisect_left(bounds, end), len(inside))):
            inside[window].append((task, (start, end)))
    return [_by_class(part) for part in inside]


def _split(rank: int, step: int | str | None, classes: Classes, start: int, end: int) -> Row:
    """One window; compute + exposed_comm + exposed_memory + idle = span."""
    compute, comm, memory = (clip(classes[c], start, end) for c in ("compute", "comm", "memory"))
    exposed = length(compute + comm) - length(compute)
    busy = length(compute + comm + memory)
    return {
        "rank": rank,
        "step": step,
        "start_ns": start,
        "end_ns": end,
        "compute_ns": length(compute),
        "comm_ns": length(comm),
        "overlap_ns": length(comm) - exposed,
        "exposed_comm_ns": exposed,
        "exposed_memory_ns": busy - length(compute + comm),
        "idle_ns": end - start - busy,
        "span_ns": end - start,
    }


def _counts(job: Job, rank: int) -> Row:
    trace = job.ranks[rank]
    return {
        "rank": rank,
        "kernels": sum(t.kind == "kernel" for t in trace.tasks),
        "communication_kernels": sum(t.collective is not None for t in trace.tasks),
        "memcpy": sum(t.kind == "memcpy" for t in trace.tasks),
        "memset": sum(t.kind == "memset" for t in trace.tasks),
        "sync": len(trace.syncs),
        "launches": len(trace.launches),
        "operators": sum(op.kind == "operator" for op in trace.host_ops),
        "annotations": sum(op.kind in ("annotation", "step") for op in trace.host_ops),
        "modules": sum(op.kind == "module" for op in trace.host_ops),
        "python_frames": sum(op.kind == "python" for op in trace.host_ops),
    }


def _gradients(job: Job) -> list[Row]:
    """When each gradient was ready on each rank, in the order backward makes them."""
    rows = []
    for collective in job.collectives:
        for rank, member in sorted(collective.members.items()):
            for tensor, task in member.ready.items():
                at = job.config.epoch_ns + task.end
                rows.append({"rank": rank, "step": collective.step, "tensor": tensor, "true_ready_ns": at})
    return sorted(rows, key=lambda row: (row["rank"], row["step"], row["true_ready_ns"]))


def write_truth(job: Job, folder: Path) -> Path:
    """Write `truth.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "truth.json"
    path.write_text(json.dumps(job.truth, indent=1) + "\n")
    return path
