"""What happens in a job, in true time: int64 ns since the job's epoch."""

from dataclasses import dataclass, field
from typing import Literal

Thread = Literal["main", "autograd"]
HostKind = Literal["operator", "annotation", "module", "python", "step"]
SyncKind = Literal["stream wait", "stream", "context"]
TaskKind = Literal["kernel", "memcpy", "memset"]

COMPUTE_STREAM = 7


@dataclass(slots=True)
class HostOp:
    """A span on a host thread. Spans of one thread nest."""

    kind: HostKind
    name: str
    thread: Thread
    start: int
    step: int | None
    external_id: int = 0
    end: int = 0
    dims: list[object] | None = None
    types: list[str] | None = None
    sequence: int | None = None
    forward_thread: int | None = None
    parent: "HostOp | None" = None
    module_id: int | None = None
    python_id: int | None = None
    python_parent: int | None = None
    collective: "Member | None" = None


@dataclass(slots=True)
class Launch:
    """A call of the CUDA runtime.

    Attributes:
        op: the innermost operator, annotation or step around it.
    """

    name: str
    thread: Thread
    start: int
    end: int
    correlation: int
    op: HostOp | None
    step: int | None

    @property
    def operator(self) -> HostOp | None:
        """The innermost operator around it: the profiler names no annotation here."""
        op = self.op
        while op is not None and op.kind != "operator":
            op = op.parent
        return op


@dataclass(slots=True)
class Sync:
    """A synchronisation record of the device: it is no work."""

    kind: SyncKind
    stream: int
    start: int
    end: int
    correlation: int
    event_id: int | None = None
    wait_stream: int | None = None
    wait_correlation: int | None = None


@dataclass(slots=True)
class Task:
    """A device activity: starts when it is launched, its stream is free and what it waits for has ended."""

    rank: int
    kind: TaskKind
    name: str
    stream: int
    launch: Launch
    ready: int
    duration: int
    step: int | None
    waits: list["Task"] = field(default_factory=list)
    collective: "Member | None" = None
    layer: int | None = None
    phase: str | None = None
    bytes: int = 0
    copy_kind: str | None = None
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared: int = 0
    start: int = -1
    end: int = -1


@dataclass(frozen=True)
class Group:
    """A process group.

    Attributes:
        name, desc: as the framework calls it.
        ranks: members, ascending.
        stream: the stream its kernels run on.
        communicator: the same number on every member.
    """

    name: str
    desc: str
    ranks: tuple[int, ...]
    stream: int
    communicator: int

    @property
    def size(self) -> int:
        return len(self.ranks)


@dataclass(slots=True)
class Collective:
    """One operation across the ranks of a group.

    Attributes:
        elements: of the payload: of the output for all-gather, else of the input.
        transfer: what the operation takes once all have arrived.
        tensors: parameters whose gradients (or values) it carries, in order.
        source, target: the root of a broadcast; sender and receiver of a point-to-point operation.
    """

    index: int
    kind: str
    group: Group
    sequence: int
    elements: int
    dtype: str
    payload: int
    transfer: int
    step: int | None
    tensors: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    source: int | None = None
    target: int | None = None
    members: dict[int, "Member"] = field(default_factory=dict)

    @property
    def point_to_point(self) -> bool:
        return self.kind == "send_recv"


@dataclass(slots=True)
class Member:
    """One rank's part in a collective.

    Attributes:
        ready: the activity that makes each tensor.
        called: start and end of the call of the communication library.
    """

    collective: Collective
    rank: int
    ready: dict[str, Task] = field(default_factory=dict)
    task: Task | None = None
    called: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Step:
    """One step on one rank's host."""

    step: int
    start: int
    end: int


@dataclass(slots=True)
class RankTrace:
    """Everything one rank did, each list in the order of its start on the host."""

    rank: int
    host_ops: list[HostOp] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
