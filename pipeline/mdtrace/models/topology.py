"""Placements of a data-parallel job on a cluster, and what of its gradients passes which links.

A topology is a list of levels, from the closest links to the farthest: GPUs joined in pairs by NVLink, the
GPUs of a node joined by PCIe, nodes joined by a network. A ring over n GPUs goes as slow as the worst level
that it has to cross.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from mdtrace.errors import UsageError
from mdtrace.models.fusion import Floats

Exchange = Literal["ring", "hierarchical"]
GB = 1e9


@dataclass(frozen=True)
class Level:
    """A class of links.

    Attributes:
        gpus: so many GPUs of a node are joined by such links; None: all.
        nodes: so many nodes are; None: all.
        between: it joins nodes (then `nodes` counts), not the GPUs of one (then `gpus` does).
    """

    name: str
    gpus: int | None = None
    nodes: int | None = None
    between: bool = False


@dataclass(frozen=True)
class Placement:
    """Where a job runs, and on what.

    Attributes:
        gpus, nodes: GPUs of the job, spread evenly over so many nodes.
        batch: samples per GPU and step; None: not known.
        gradient_bytes: S, what each GPU averages in a step.
        messages: collectives it does so with; None: not known.
    """

    gpus: int
    nodes: int = 1
    batch: float | None = None
    gradient_bytes: float = 0.0
    messages: float | None = None

    @property
    def per_node(self) -> int:
        """GPUs of the fullest node."""
        return -(-self.gpus // self.nodes)


@dataclass(frozen=True)
class Topology:
    """Classes of links, from the closest to the farthest: inside nodes first, then between them.

    Attributes:
        exchange: ring: one ring over all GPUs; hierarchical: reduced level by level, so that the farther
            levels carry a share.
    """

    levels: tuple[Level, ...]
    exchange: Exchange = "ring"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the levels."""
        return tuple(level.name for level in self.levels)

    def reach(self, placement: Placement) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        """Levels that the job crosses inside nodes, with the GPUs each joins; between nodes, with the nodes.

        Raises:
            UsageError: no level joins as many.
        """
        inside = [(level.name, level.gpus) for level in self.levels if not level.between]
        between = [(level.name, level.nodes) for level in self.levels if level.between]
        return (
            _up_to(placement.per_node, inside, "GPUs of a node"),
            _up_to(placement.nodes, between, "nodes"),
        )

    def worst(self, placement: Placement) -> str | None:
        """The worst class of links on the job's ring; None for one GPU."""
        inside, between = self.reach(placement)
        crossed = inside + between
        return crossed[-1][0] if crossed else None

    def groups(self, placement: Placement) -> list[tuple[str, float]]:
        """Levels that an exchange uses, each with the members g of its rings."""
        if self.exchange == "ring":
            worst = self.worst(placement)
            return [] if worst is None else [(worst, float(placement.gpus))]
        inside, between = self.reach(placement)
        return [*_rings(inside), *_rings(between)]

    def volumes(self, placement: Placement) -> dict[str, float]:
        """Bytes that each GPU moves over links of each class: 2(g_l − 1)/g_l · S / Π_{j<l} g_j."""
        found, share = {}, 1.0
        for name, members in self.groups(placement):
            found[name] = 2 * (members - 1) / members * placement.gradient_bytes / share
            share *= members
        return found

    def rounds(self, placement: Placement) -> dict[str, float]:
        """Hops that the messages of a step take one after the other over links of each class: 2(g_l − 1)."""
        messages = placement.messages or 0.0
        return {name: 2 * (members - 1) * messages for name, members in self.groups(placement)}


def _up_to(wanted: int, levels: list[tuple[str, int | None]], what: str) -> list[tuple[str, int]]:
    """The levels up to the first that joins so many, with how many each joins."""
    found: list[tuple[str, int]] = []
    for name, size in levels if wanted > 1 else []:
        found.append((name, wanted if size is None else min(size, wanted)))
        if size is None or size >= wanted:
            return found
    if wanted > 1:
        raise UsageError(f"no class of links of the topology joins {wanted} {what}", "add a level that does")
    return found


def _rings(levels: list[tuple[str, int]]) -> list[tuple[str, float]]:
    """Members of each level's rings, from what it joins in all."""
    below = [1, *(size for _, size in levels)]
    return [(name, size / before) for (name, size), before in zip(levels, below, strict=False)]


class Column(NamedTuple):
    """A coefficient of the model: constant, batch, volume of a class of links, rounds over one."""

    kind: Literal["constant", "batch", "volume", "rounds"]
    link: str | None = None

    @property
    def unit(self) -> str:
        """Unit of the coefficient."""
        return {"constant": "s", "batch": "s/sample", "volume": "s/GB", "rounds": "s/hop"}[self.kind]

    @property
    def text(self) -> str:
        """The coefficient in words."""
        return {
            "constant": "constant",
            "batch": "sample on each GPU",
            "volume": f"links {self.link}",
            "rounds": f"latency of {self.link}",
        }[self.kind]

    @property
    def computes(self) -> bool:
        """Of the GPUs' own work, not of the exchange."""
        return self.kind in ("constant", "batch")


def columns(topology: Topology, *, batch: bool, rounds: bool) -> tuple[Column, ...]:
    """The coefficients: θ0, θ1 where batches are known, θ_p of each class of links, α_p where wanted."""
    return (
        Column("constant"),
        *([Column("batch")] if batch else []),
        *(Column("volume", name) for name in topology.names),
        *(Column("rounds", name) for name in (topology.names if rounds else ())),
    )


def features(topology: Topology, placement: Placement, wanted: tuple[Column, ...]) -> Floats:
    """What the coefficients are multiplied by: 1, samples, GB, hops; shape (C,).

    Raises:
        UsageError: no level of the topology joins as many GPUs or nodes.
    """
    volumes, rounds = topology.volumes(placement), topology.rounds(placement)

    def value(column: Column) -> float:
        match column.kind:
            case "constant":
                return 1.0
            case "batch":
                return placement.batch or 0.0
            case "volume":
                return volumes.get(str(column.link), 0.0) / GB
            case "rounds":
                return rounds.get(str(column.link), 0.0)

    return np.array([value(column) for column in wanted])
