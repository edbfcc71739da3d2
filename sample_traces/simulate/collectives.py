"""Collectives as the framework issues them: one operation joined by every member of a group."""

import random
from dataclasses import dataclass

from simulate.config import Config
from simulate.events import COMPUTE_STREAM, Collective, Group, Member, Task
from simulate.fusion import Tensor
from simulate.host import Host
from simulate.model import DTYPE, ELEMENT, TORCH_TYPE
from simulate.network import transfer_ns


@dataclass(frozen=True)
class Wording:
    """What a kind of collective is called: operator, record, annotation, kernel, function of the library."""

    operator: str
    record: str
    annotation: str
    kernel: str
    function: str


_ARGS = "(ncclDevKernelArgsStorage<4096ul>)"
WORDINGS = {
    "all_reduce": Wording(
        "c10d::allreduce_",
        "allreduce",
        "nccl:all_reduce",
        f"ncclDevKernel_AllReduce_Sum_bf16_RING_LL{_ARGS}",
        "ncclAllReduce",
    ),
    "all_gather": Wording(
        "c10d::_allgather_base_",
        "_allgather_base",
        "nccl:_all_gather_base",
        f"ncclDevKernel_AllGather_RING_LL{_ARGS}",
        "ncclAllGather",
    ),
    "reduce_scatter": Wording(
        "c10d::_reduce_scatter_base_",
        "_reduce_scatter_base",
        "nccl:_reduce_scatter_base",
        f"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL{_ARGS}",
        "ncclReduceScatter",
    ),
    "broadcast": Wording(
        "c10d::broadcast_",
        "broadcast",
        "nccl:broadcast",
        f"ncclDevKernel_Broadcast_RING_LL{_ARGS}",
        "ncclBroadcast",
    ),
    "send": Wording("c10d::send", "send", "nccl:send", f"ncclDevKernel_SendRecv{_ARGS}", "ncclSend"),
    "recv": Wording("c10d::recv_", "recv", "nccl:recv", f"ncclDevKernel_SendRecv{_ARGS}", "ncclRecv"),
}


class Collectives:
    """All collectives of a job; ranks meet here by group and sequence number."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.all: list[Collective] = []
        self._by_key: dict[tuple[str, int], Collective] = {}
        self._counts: dict[tuple[int, str], int] = {}

    def join(
        self,
        host: Host,
        kind: str,
        group: Group,
        elements: int,
        tensors: list[Tensor],
        carried: tuple[int, ...],
        ready: dict[str, Task],
        role: str | None,
    ) -> Task:
        """One rank's call: its host operators, the wait for compute so far, the kernel.

        Args:
            ready: the activity that makes each gradient.
            role: send or recv, of point-to-point operations.
        """
        member = self._member(host, kind, group, elements, tensors, carried, role)
        wording = WORDINGS[role or kind]
        shape: list[object] = [[elements // group.size if kind == "all_gather" else elements]]
        with (
            host.span("operator", wording.operator, shape, ["TensorList"]),
            host.span("operator", "record_param_comms", shape, ["TensorList"]) as record,
            host.span("annotation", wording.annotation, shape, [TORCH_TYPE]),
        ):
            record.collective = member
            host.wait_for(group.stream, host.tail(COMPUTE_STREAM))
            member.ready = {name: ready[name] for name, _, _ in tensors if name in ready}
            start = host.now
            host.spend(600)
            task = host.join(member, wording.kernel)
            host.spend(300)
            member.called = (start, host.now)
            return task

    def _member(
        self,
        host: Host,
        kind: str,
        group: Group,
        elements: int,
        tensors: list[Tensor],
        carried: tuple[int, ...],
        role: str | None,
    ) -> Member:
        counter = (host.rank, group.name)
        sequence = self._counts[counter] = self._counts.get(counter, 0) + 1
        collective = self._by_key.get((group.name, sequence))
        if collective is None:
            collective = self._new(kind, group, sequence, elements, host.step)
            collective.tensors = tuple(t[0] for t in tensors)
            collective.layers = carried or tuple(dict.fromkeys(t[2] for t in tensors))
        if kind == "broadcast":
            collective.source = group.ranks[0]
        if role is not None:
            other = next(rank for rank in group.ranks if rank != host.rank)
            collective.source, collective.target = (
                (host.rank, other) if role == "send" else (other, host.rank)
            )
        member = collective.members[host.rank] = Member(collective, host.rank)
        return member

    def _new(self, kind: str, group: Group, sequence: int, elements: int, step: int | None) -> Collective:
        payload = elements * ELEMENT
        draw = random.Random(f"transfer {self.config.seed} {group.name} {sequence}")
        noise = max(0.5, draw.gauss(1.0, self.config.jitter))
        transfer = round(transfer_ns(self.config, group, kind, payload) * noise)
        collective = Collective(
            len(self.all), kind, group, sequence, elements, DTYPE, payload, transfer, step
        )
        self._by_key[group.name, sequence] = collective
        self.all.append(collective)
        return collective


def role(member: Member) -> str:
    """What a rank does in a collective: its kind, or send or recv."""
    collective = member.collective
    if not collective.point_to_point:
        return collective.kind
    return "send" if member.rank == collective.source else "recv"
