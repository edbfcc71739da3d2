"""What to simulate: the job, the machines, the fault. Everything else follows from it and the seed."""

from dataclasses import dataclass, field
from typing import Literal

from simulate.check import check

Cause = Literal["compute", "host", "data", "clock", "copy"]
LinkClass = Literal["nvlink", "pcie", "net"]
Strategy = Literal["ddp", "fsdp"]
Fusion = Literal["ddp", "threshold", "none", "one"]

CAUSES: tuple[Cause, ...] = ("compute", "host", "data", "clock", "copy")


@dataclass(frozen=True)
class Link:
    """A class of links.

    Attributes:
        latency_ns: time of one hop of a ring without its bytes (a).
        bytes_per_s: what a ring over such links moves past each member (B).
    """

    latency_ns: int
    bytes_per_s: float


@dataclass(frozen=True)
class Gpu:
    """An accelerator, as its traces describe it.

    Attributes:
        flops_per_s: what its matrix kernels reach here.
        achieved_bytes_per_s: what its elementwise kernels reach here.
    """

    name: str = "NVIDIA H100 80GB HBM3"
    memory_bytes: int = 85_029_158_912
    memory_bytes_per_s: int = 3_352_320_000_000
    clock_hz: int = 1_980_000_000
    sm_count: int = 132
    l2_bytes: int = 52_428_800
    chip: str = "GH100"
    major: int = 9
    minor: int = 0
    flops_per_s: float = 400e12
    achieved_bytes_per_s: float = 2.4e12


@dataclass(frozen=True)
class Straggler:
    """One rank that loses time in every step.

    Attributes:
        rank: who.
        delay_ns: how much longer its own work takes in each step it is late in (compute: a little more,
            as its input is larger too). The others see less of it where it hides behind other work.
        cause: what takes longer. compute: a larger batch, so more FLOPs in forward and backward;
            host: a sleep at the start of forward; data: the data loader; clock: every kernel, with
            the same shapes; copy: the copy of the input to the device.
        steps: the steps it is late in; None: all.
    """

    rank: int
    delay_ns: int = 3_000_000
    cause: Cause = "host"
    steps: tuple[int, ...] | None = None

    def active(self, step: int) -> bool:
        return self.steps is None or step in self.steps


@dataclass(frozen=True)
class Config:
    """One simulated job.

    Attributes:
        ranks, gpus_per_host: placement; rank r sits on host r // gpus_per_host.
        steps, first_step: how many steps, and the number of the first.
        layers, width, tokens: the model (pairs of Linear and ReLU) and the batch of each rank.
        strategy: ddp: gradient buckets are all-reduced while backward runs; fsdp: parameters are
            gathered before a layer runs, gradients reduce-scattered after it.
        tensor, pipeline: ranks that share a layer, and stages that share the layers; the rest of
            the ranks are data parallel. Neighbours in rank share a layer.
        microbatches: parts of the batch that go through a pipeline one after the other.
        fusion, bucket_bytes, first_bucket_bytes: how gradients are packed. ddp: a bucket closes once it
            reaches its size (the first has a size of its own); threshold: it closes before the tensor
            that would pass the size; none: every tensor alone; one: all in one.
        startup: broadcast the parameters before the first step.
        offsets_ms, drifts_ppm: clock of each host against true time; None: drawn from the seed, host 0
            exact.
        intra, inter: class of the links inside a host and between hosts.
        jitter: standard deviation of durations, relative.
        end_jitter_ns: ends of one collective lie this close on all ranks.
        epoch_ns: wall clock at true time 0.
    """

    ranks: int = 8
    gpus_per_host: int = 4
    steps: int = 6
    first_step: int = 0
    layers: int = 8
    width: int = 4096
    tokens: int = 8192
    strategy: Strategy = "ddp"
    tensor: int = 1
    pipeline: int = 1
    microbatches: int = 4
    fusion: Fusion = "ddp"
    bucket_bytes: int = 25 << 20
    first_bucket_bytes: int = 1 << 20
    startup: bool = True
    stragglers: tuple[Straggler, ...] = ()
    offsets_ms: tuple[float, ...] | None = None
    drifts_ppm: tuple[float, ...] | None = None
    intra: LinkClass = "nvlink"
    inter: LinkClass = "net"
    links: dict[str, Link] = field(
        default_factory=lambda: {
            "nvlink": Link(3_000, 200e9),
            "pcie": Link(6_000, 20e9),
            "net": Link(12_000, 40e9),
        }
    )
    gpu: Gpu = field(default_factory=Gpu)
    data_ns: int = 300_000
    host_bytes_per_s: float = 25e9
    jitter: float = 0.004
    end_jitter_ns: int = 1_000
    seed: int = 0
    epoch_ns: int = 1_760_000_000_000_000_000

    def __post_init__(self) -> None:
        check(self)

    @property
    def hosts(self) -> int:
        return -(-self.ranks // self.gpus_per_host)

    @property
    def data(self) -> int:
        """Data-parallel ranks: copies of the model."""
        return self.ranks // (self.tensor * self.pipeline)

    def straggler(self, rank: int, step: int, cause: Cause) -> int:
        """Time that `rank` loses to `cause` in `step`, in ns."""
        return sum(
            s.delay_ns for s in self.stragglers if s.rank == rank and s.cause == cause and s.active(step)
        )
