"""What PyTorch's profiler records beside the times of an event."""

from typing import Any

from simulate.chrome import Args
from simulate.collectives import WORDINGS, role
from simulate.events import Collective, HostOp, Member, Sync, Task

SYNC_NAMES = {"stream wait": "Stream Wait Event", "stream": "Stream Sync", "context": "Context Sync"}
SHOWN_RANKS = 30  # the profiler cuts a list of ranks here


def frame_args(op: HostOp) -> Args:
    args: Args = {"Python id": op.python_id, "Python parent id": op.python_parent or 0}
    if op.kind == "module":
        args["Python module id"] = op.module_id or 0
    return args


def operator_args(op: HostOp) -> Args:
    args: Args = {"External id": op.external_id, "Record function id": 0}
    if op.sequence is not None:
        args["Sequence number"] = op.sequence
        args["Fwd thread id"] = op.forward_thread or 0
    if op.collective is not None:
        args |= collective_args(op.collective)
        args["Rank"] = op.collective.collective.group.ranks.index(op.collective.rank)
    if op.dims is not None and op.types is not None:
        args["Concrete Inputs"] = [""] * len(op.dims)
        args["Input type"] = op.types
        args["Input Strides"] = [_strides(dims) for dims in op.dims]
        args["Input Dims"] = op.dims
    return args


def device_args(task: Task, sm_count: int) -> Args:
    operator = task.launch.operator
    args: Args = {} if operator is None else {"External id": operator.external_id}
    if task.kind == "kernel":
        args["queued"] = 0
    args |= {"device": 0, "context": 1, "stream": task.stream, "correlation": task.launch.correlation}
    if task.kind == "kernel":
        return args | _kernel_args(task, sm_count)
    bandwidth = task.bytes / (task.end - task.start)
    return args | {"bytes": task.bytes, "memory bandwidth (GB/s)": bandwidth}


def _kernel_args(task: Task, sm_count: int) -> Args:
    blocks = task.grid[0] * task.grid[1] * task.grid[2] / sm_count
    warps = blocks * task.block[0] * task.block[1] * task.block[2] / 32
    args: Args = {
        "registers per thread": task.registers,
        "shared memory": task.shared,
        "blocks per SM": round(blocks, 6),
        "warps per SM": round(warps, 6),
        "grid": list(task.grid),
        "block": list(task.block),
        "est. achieved occupancy %": min(100, round(warps * 100 / 64)),
    }
    return args if task.collective is None else args | collective_args(task.collective)


def sync_args(sync: Sync) -> Args:
    args: Args = {"cuda_sync_kind": SYNC_NAMES[sync.kind]}
    if sync.kind == "stream wait":
        args["wait_on_stream"] = sync.wait_stream
        args["wait_on_cuda_event_record_corr_id"] = sync.wait_correlation
        args["wait_on_cuda_event_id"] = sync.event_id
    return args | {"stream": sync.stream, "correlation": sync.correlation, "device": 0, "context": 1}


def collective_args(member: Member) -> Args:
    """What is recorded about a collective, with its operator and with its kernel."""
    collective, group = member.collective, member.collective.group
    into, out = _elements(collective)
    args: Args = {
        "Collective name": WORDINGS[role(member)].record,
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
