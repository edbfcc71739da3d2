"""Step time on N GPUs: what an all-reduce costs there, when the buckets travel, what costs most.

T_N = max(arrival of the last bucket, end of the backward pass) + what follows; scaling factor = T_1/T_N.
Costs: ring α = 2(N−1)·a, β = 2(N−1)/(N·B); tree 2·log2(N)·(a + bytes/B); hierarchical: the ring inside each
host, then a ring of the hosts for the part that each of its GPUs holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdtrace.models.fit import Algorithm, wires
from mdtrace.models.fusion import Backward, Cost, Floats, Schedule, run
from mdtrace.models.fusion_plans import optimum

Plan = Callable[[Backward, Cost], Schedule]


@dataclass(frozen=True)
class Link:
    """A class of links: latency of one hop in ns, ns per byte (1/bandwidth)."""

    latency_ns: float
    ns_per_byte: float

    @property
    def bytes_per_s(self) -> float | None:
        """Bandwidth; None where bytes cost nothing."""
        return 1e9 / self.ns_per_byte if self.ns_per_byte > 0 else None


def all_reduce(link: Link, members: int, algorithm: Algorithm = "ring") -> Cost:
    """Cost of an all-reduce over one class of links; nothing for one member."""
    if members < 2:
        return Cost(0.0, 0.0)
    hops, share = wires(algorithm, np.array([float(members)]))
    return Cost(float(hops[0]) * link.latency_ns, float(share[0]) * link.ns_per_byte)


def hierarchical(inside: Link, between: Link, per_host: int, hosts: int) -> Cost:
    """Cost of an all-reduce that first combines inside hosts: 1/per_host of the bytes cross hosts."""
    near, far = all_reduce(inside, per_host), all_reduce(between, hosts)
    return Cost(near.alpha + far.alpha, near.beta + far.beta / per_host)


@dataclass(frozen=True)
class StepTime:
    """A predicted step.

    Attributes:
        total: time of the step; compute: without gradient exchange, T_1.
        plan: when the buckets travel; None where nothing travels.
        saved: by how much the step would be shorter without a factor: latency (α = 0), bandwidth (β = 0),
            buckets (the best ones), overlap (transfers could begin with the step), imbalance (the slowest
            rank as fast as the median one).
    """

    total: float
    compute: float
    plan: Schedule | None
    saved: dict[str, float]

    @property
    def factor(self) -> float:
        """Scaling factor T_1/T_N."""
        return self.compute / self.total

    @property
    def costs_most(self) -> str | None:
        """The factor without which the step would be shortest; None where none saves 0.1 % of it."""
        name = max(self.saved, key=lambda k: self.saved[k], default=None)
        return name if name is not None and self.saved[name] > 1e-3 * self.total else None


def step_time(pace: Backward, typical: Backward, after: float, cost: Cost, plan: Plan) -> StepTime:
    """Predict a step.

    Args:
        pace: gradients as the slowest rank makes them ready; typical: as the median rank does.
        after: what follows the backward pass and the exchange.
        plan: packs and sends the gradients.
    """
    compute = typical.end + after
    if cost.alpha <= 0 and cost.beta <= 0:
        total = pace.end + after
        return StepTime(total, compute, None, {"imbalance": total - compute})

    def total_of(backward: Backward, some: Cost, packed: Plan) -> float:
        return max(packed(backward, some).last, backward.end) + after

    sent = plan(pace, cost)
    total = max(sent.last, pace.end) + after
    # Without a wait for gradients the transfers take what they take, and hide behind the compute.
    hidden = max(float(np.sum(sent.end - sent.start)), pace.end) + after
    saved = {
        "latency": total - total_of(pace, Cost(0.0, cost.beta), lambda b, c: _same(sent, b, c)),
        "bandwidth": total - total_of(pace, Cost(cost.alpha, 0.0), lambda b, c: _same(sent, b, c)),
        "buckets": total - total_of(pace, cost, optimum),
        "overlap": total - hidden,
        "imbalance": total - total_of(typical, cost, plan),
    }
    return StepTime(total, compute, sent, {k: max(0.0, v) for k, v in saved.items()})


def _same(sent: Schedule, backward: Backward, cost: Cost) -> Schedule:
    """The same buckets at another cost, each sent when its last gradient is ready."""
    return run(backward, cost, sent.stops)


def medians(ready: Floats) -> tuple[Floats, Floats]:
    """Pace and typical times from measured ones.

    Args:
        ready: shape (steps, ranks, gradients).

    Returns:
        Of the slowest rank in each step and of the median rank, medians over steps; never going back.
    """
    slowest = np.median(ready.max(axis=1), axis=0)
    typical = np.median(np.median(ready, axis=1), axis=0)
    return np.maximum.accumulate(slowest), np.maximum.accumulate(typical)
