"""What an event of the trace holds, and where its category sends it."""

from typing import Any, Literal

from msgspec import Raw, Struct, field

Table = Literal["host_ops", "launches", "device_ops"]

# Phases of the Chrome trace format. As literals they are not made anew for each event, which saves a
# fifth of decoding; another phase comes out as None.
Phase = Literal[
    "X", "M", "s", "t", "f", "i", "I", "R", "C", "B", "E", "b", "n", "e", "S", "T", "p", "F", "N", "O", "D",
    "P", "V", "v", "a", "c", "(", ")",
]  # fmt: skip


class Event(Struct, gc=False):
    """One element of traceEvents. `Any` and `Raw` where files differ: no oddity loses the event."""

    ph: Phase | None = None
    cat: str | None = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Raw = Raw(b"")
    dur: Raw = Raw(b"")
    args: Raw = Raw(b"{}")


class CommArgs(Struct, gc=False):
    """What the distributed backend tells of a collective, on its host record and on its kernel."""

    collective: Any = field(name="Collective name", default=None)
    elements_in: Any = field(name="In msg nelems", default=None)
    elements_out: Any = field(name="Out msg nelems", default=None)
    group_size: Any = field(name="Group size", default=None)
    dtype: Any = None
    group_name: Any = field(name="Process Group Name", default=None)
    group_desc: Any = field(name="Process Group Description", default=None)
    group_ranks: Any = field(name="Process Group Ranks", default=None)
    rank_start: Any = field(name="Global rank start", default=None)
    rank_stride: Any = field(name="Global rank stride", default=None)
    source_rank: Any = field(name="Src Rank", default=None)
    target_rank: Any = field(name="Dst Rank", default=None)
    seq: Any = field(name="Seq", default=None)
    communicator: Raw = field(name="Comms Id", default=Raw(b""))
    input_types: Raw = field(name="Input type", default=Raw(b""))
    input_dims: Raw = field(name="Input Dims", default=Raw(b""))


class HostArgs(CommArgs, gc=False):
    """Arguments of operators, annotations and Python frames."""

    external_id: Any = field(name="External id", default=None)
    concrete_inputs: Raw = field(name="Concrete Inputs", default=Raw(b""))
    input_strides: Raw = field(name="Input Strides", default=Raw(b""))
    event_index: Any = field(name="Ev Idx", default=None)
    sequence: Any = field(name="Sequence number", default=None)
    forward_thread: Any = field(name="Fwd thread id", default=None)
    python_id: Any = field(name="Python id", default=None)
    python_module: Any = field(name="Python module id", default=None)
    old_external_id: Any = field(name="external id", default=None)
    old_input_dims: Raw = field(name="Input dims", default=Raw(b""))


class LaunchArgs(Struct, gc=False):
    """Arguments of runtime and driver calls."""

    external_id: Any = field(name="External id", default=None)
    correlation: Any = None
    old_external_id: Any = field(name="external id", default=None)


class DeviceArgs(CommArgs, gc=False):
    """Arguments of kernels, copies, sets and synchronisation."""

    external_id: Any = field(name="External id", default=None)
    device: Any = None
    context: Any = None
    stream: Any = None
    correlation: Any = None
    registers: Any = field(name="registers per thread", default=None)
    shared_memory: Any = field(name="shared memory", default=None)
    grid: Any = None
    block: Any = None
    occupancy: Any = field(name="est. achieved occupancy %", default=None)
    bytes: Any = None
    kind: Any = None
    graph_id: Any = field(name="graph id", default=None)
    graph_node_id: Any = field(name="graph node id", default=None)
    old_external_id: Any = field(name="external id", default=None)
    # Copies between devices.
    in_device: Any = field(name="inDevice", default=None)
    in_context: Any = field(name="inContext", default=None)
    # Synchronisation.
    wait_stream: Any = field(name="wait_on_stream", default=None)
    wait_correlation: Any = field(name="wait_on_cuda_event_record_corr_id", default=None)
    wait_event: Any = field(name="wait_on_cuda_event_id", default=None)
    event_id: Any = None


class MemoryArgs(Struct, gc=False):
    """Arguments of `[memory]` marks."""

    reserved: Any = field(name="Total Reserved", default=None)
    allocated: Any = field(name="Total Allocated", default=None)
    bytes: Any = field(name="Bytes", default=None)
    address: Any = field(name="Addr", default=None)
    device: Any = field(name="Device Id", default=None)
    device_type: Any = field(name="Device Type", default=None)


class Route(Struct, frozen=True):
    """The table that a category's complete events (ph X) go to, and their kind (launches: the API) there."""

    table: Table
    kind: str
    known: bool = True  # False: kept as an annotation if its pid turns out to be a host process


KNOWN: dict[str, Route] = {
    "cpu_op": Route("host_ops", "operator"),
    "Operator": Route("host_ops", "operator"),
    "user_annotation": Route("host_ops", "annotation"),
    "python_function": Route("host_ops", "python"),
    "overhead": Route("host_ops", "overhead"),
    "Runtime": Route("launches", "runtime"),
    "cuda_runtime": Route("launches", "runtime"),
    "cuda_driver": Route("launches", "driver"),
    "hpu_op": Route("launches", "runtime"),  # what the host calls, in spite of its name
    "kernel": Route("device_ops", "kernel"),
    "Kernel": Route("device_ops", "kernel"),
    "mtia_ccp_events": Route("device_ops", "kernel"),
    "gpu_memcpy": Route("device_ops", "memcpy"),
    "Memcpy": Route("device_ops", "memcpy"),
    "gpu_memset": Route("device_ops", "memset"),
    "Memset": Route("device_ops", "memset"),
    "cuda_sync": Route("device_ops", "sync"),
    "cuda_event": Route("device_ops", "sync"),
}
# Other accelerators' categories are named like CUDA's: xpu_runtime, privateuse1_driver, mtia_runtime …
_BY_ENDING: dict[str, Route] = {
    "_runtime": Route("launches", "runtime"),
    "_driver": Route("launches", "driver"),
    "_kernel": Route("device_ops", "kernel"),
    "_memcpy": Route("device_ops", "memcpy"),
    "_memset": Route("device_ops", "memset"),
    "_sync": Route("device_ops", "sync"),
}
UNKNOWN = Route("host_ops", "annotation", known=False)

# Categories that are not stored, with what stands for them in the dataset.
SKIPPED: dict[str, str] = {
    "gpu_user_annotation": "span of a host annotation over its kernels; the annotation itself is stored",
    "Trace": "span of the profiler itself",
    "ac2g": "flow arrow; the correlation of both ends is stored",
    "async": "flow arrow; the correlation of both ends is stored",
    "async_cpu_to_gpu": "flow arrow; the correlation of both ends is stored",
    "fwdbwd": "flow arrow; the sequence number of both ends is stored",
    "forward_backward": "flow arrow; the sequence number of both ends is stored",
}
SKIPPED_PHASES: dict[str | None, str] = {
    "M": "name or order of a row in the viewer",
    "s": "flow arrow",
    "t": "flow arrow",
    "f": "flow arrow",
    "i": "mark without duration",
    "I": "mark without duration",
    "R": "mark without duration",
    "C": "counter of the viewer",
    None: "no phase that the format knows",
}


class Routes(dict[str | None, Route | None]):
    """Category → route, None for what is skipped; worked out once for each category met."""

    def __missing__(self, category: str | None) -> Route | None:
        route = KNOWN.get(category or "")
        if route is None and category not in SKIPPED:
            found = (r for ending, r in _BY_ENDING.items() if category and category.endswith(ending))
            route = next(found, UNKNOWN)
        self[category] = route
        return route


def skip_reason(category: str | None, phase: str | None) -> tuple[str, str]:
    """Kind and reason under which an event that is not stored is counted."""
    kind = category or (f"ph {phase}" if phase else "no phase")
    if category in SKIPPED:
        return kind, SKIPPED[category]
    return kind, SKIPPED_PHASES.get(phase, "phase that the profiler does not write")
