"""What the step would take with other durations: slowdown, waste, who and what causes it.

`T` is the replay of the recorded durations, `T_ideal` that of the ideal ones, both the mean over steps. With
only worker w's, or type t's, recorded durations put back into the ideal replay, `S_w`, `S_t` say how much
they alone cost. `M_W` and `M_S` say how much of the loss goes away when the worst 3 % of the workers, or the
last stage, are made ideal. (Definitions as in ByteDance's what-if analysis of stragglers.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from mdtrace.errors import MdtraceError, UsageError
from mdtrace.models.replay import Times, replays_at_once
from mdtrace.models.replay_job import Job, Mask, ideal, nodes_of

LARGEST_ERROR = 0.05
_WORST_PERCENT = 3  # of the workers, rounded up
Reference = Literal["all", "others"]


class ReplayError(MdtraceError):
    """The replay does not reproduce the measured step times, so it can predict none."""


@dataclass(frozen=True)
class Slowdown:
    """A job's loss against its own ideal.

    Attributes:
        measured_ns, replayed_ns, ideal_ns: mean time of a step: as measured, T, T_ideal.
        error: |T − measured| / measured.
        slowdown: S = T/T_ideal.
        waste: 1 − 1/S.
        worst_workers: M_W; None without a loss to share out.
        last_stage: M_S; None without stages, or a loss.
        worst: rank of each of the worst ⌈3 %⌉ of the workers.
    """

    measured_ns: float
    replayed_ns: float
    ideal_ns: float
    error: float
    slowdown: float
    waste: float
    worst_workers: float | None
    last_stage: float | None
    worst: tuple[int, ...]


@dataclass(frozen=True)
class Edit:
    """Durations to change. Nothing given: nothing changes.

    Attributes:
        ideal: make all operations ideal.
        ranks, types: make the operations of these ranks, of these types, ideal; both given: of these ranks
            those of these types.
        network: transfers take 1/network of their time.
        reference: what ideal means for `ranks`: the mean over all ranks, or over the others.
    """

    ideal: bool = False
    ranks: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    network: float | None = None
    reference: Reference = "all"


@dataclass(frozen=True)
class Answer:
    """Step times with and without an edit.

    Attributes:
        before_ns, after_ns: mean time of a step in the replay.
        speed_up: before / after.
        steps: columns step, measured_ns, before_ns, after_ns.
    """

    before_ns: float
    after_ns: float
    speed_up: float
    steps: pa.Table


class WhatIf:
    """What-ifs of one job; replays that several answers need are made once.

    Args:
        job: from `oplog_job` or `dataset_job`.
        largest_error: of the replay against the measurement.

    Raises:
        ReplayError: the replay with nothing edited is further off, or steps take no time.
    """

    def __init__(self, job: Job, *, largest_error: float = LARGEST_ERROR) -> None:
        self.job = job
        self.ideal = ideal(job)
        self.before = job.step_times(job.recorded)
        self.t = float(self.before.mean())
        self.t_ideal = self._mean(self.ideal)
        if not min(self.t, self.t_ideal) > 0:
            raise ReplayError("the steps take no time")
        self.measured = float(job.measured_ns.mean())
        self.error = abs(self.t - self.measured) / self.measured if self.measured > 0 else 0.0
        if self.error > largest_error:
            both = f"{self.t / 1e6:.4g} ms a step where {self.measured / 1e6:.4g} ms were measured"
            limit = f"more than {100 * largest_error:g} %, so it can predict nothing"
            raise ReplayError(
                f"the replay gives {both}: {100 * self.error:.1f} % off, {limit}",
                "; ".join(job.notes) or None,
            )

    def _mean(self, durations: Times) -> float:
        return float(self.job.step_times(durations).mean())

    def _means(self, masks: Sequence[Mask], inside: Times, outside: Times) -> list[float]:
        """Mean step time for each mask, with the nodes in it lasting `inside`, the others `outside`."""
        at_once = replays_at_once(self.job.plan)
        found: list[float] = []
        for first in range(0, len(masks), at_once):
            chosen = masks[first : first + at_once]
            durations = np.repeat(outside[:, None], len(chosen), axis=1)
            for i, mask in enumerate(chosen):
                durations[mask, i] = inside[mask]
            found += self.job.step_times(durations).mean(axis=0).tolist()
        return found

    def only(self, masks: Sequence[Mask]) -> list[float]:
        """Slowdown with the recorded durations of the nodes in each mask alone put back."""
        return [t / self.t_ideal for t in self._means(masks, self.job.recorded, self.ideal)]

    def without(self, masks: Sequence[Mask]) -> list[float]:
        """Mean step time, ns, with the nodes in each mask made ideal."""
        return self._means(masks, self.ideal, self.job.recorded)

    def slowdown(self) -> Slowdown:
        """The job's loss, and how much of it the worst workers and the last stage explain."""
        job = self.job
        worst = self._worst_workers()
        stages = [w.stage for w in job.workers]
        last = max((s for s in stages if s is not None), default=None)
        in_last = [i for i, s in enumerate(stages) if s is not None and s == last]
        return Slowdown(
            measured_ns=self.measured,
            replayed_ns=self.t,
            ideal_ns=self.t_ideal,
            error=self.error,
            slowdown=self.t / self.t_ideal,
            waste=1 - self.t_ideal / self.t,
            worst_workers=self._share(worst),
            last_stage=self._share(in_last) if last else None,
            worst=tuple(job.workers[i].rank for i in worst),
        )

    def _share(self, workers: Sequence[int]) -> float | None:
        """How much of the loss goes away with these workers made ideal."""
        if not abs(self.t - self.t_ideal) > 1e-9 * self.t:
            return None
        (fixed,) = self.without([nodes_of(self.job.worker, workers)])
        return (self.t - fixed) / (self.t - self.t_ideal)

    def scores(self) -> list[float]:
        """How slow each worker is: S_w; with dp ranks and stages the lesser of both slowdowns."""
        workers = self.job.workers
        if any(w.stage is None or w.dp_rank is None for w in workers):
            return self.only([nodes_of(self.job.worker, [i]) for i in range(len(workers))])
        dp, stage = self.by("dp_rank"), self.by("stage")
        return [
            min(dp[w.dp_rank], stage[w.stage])
            for w in workers
            if w.dp_rank is not None and w.stage is not None
        ]

    def _worst_workers(self) -> list[int]:
        scores = self.scores()
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        return order[: -(-len(order) * _WORST_PERCENT // 100)]

    def by(self, column: Literal["dp_rank", "stage"]) -> Mapping[int, float]:
        """Slowdown of each dp rank, or stage."""
        values = [getattr(w, column) for w in self.job.workers]
        keys = sorted({v for v in values if v is not None})
        members = [[i for i, v in enumerate(values) if v == key] for key in keys]
        return dict(zip(keys, self.only([nodes_of(self.job.worker, m) for m in members]), strict=True))

    def edited(self, edit: Edit) -> Times:
        """Durations with an edit, ns, shape (n,).

        Raises:
            UsageError: no such rank or type of operation, or a network that is no positive number.
        """
        job = self.job
        durations = job.recorded.copy()
        if edit.ideal or edit.ranks or edit.types:
            chosen = self._chosen(edit)
            better = self.ideal
            if edit.reference == "others" and edit.ranks:
                better = ideal(job, ~nodes_of(job.worker, self._workers(edit.ranks)))
            durations[chosen] = better[chosen]
        if edit.network is not None:
            if not 0 < edit.network < float("inf"):
                raise UsageError(f"network {edit.network}: no positive number")
            moved = nodes_of(job.op_type, [i for i, t in enumerate(job.types) if t.communication])
            durations[moved] /= edit.network
        return durations

    def _chosen(self, edit: Edit) -> Mask:
        chosen = np.ones(self.job.plan.nodes, np.bool_)
        if edit.ranks:
            chosen &= nodes_of(self.job.worker, self._workers(edit.ranks))
        if edit.types:
            chosen &= nodes_of(self.job.op_type, self._types(edit.types))
        return chosen

    def _workers(self, ranks: Sequence[int]) -> list[int]:
        known = {w.rank for w in self.job.workers}
        for rank in ranks:
            if rank not in known:
                raise UsageError(f"no rank {rank}", f"ranks: {', '.join(map(str, sorted(known)[:20]))}")
        return [i for i, w in enumerate(self.job.workers) if w.rank in ranks]

    def _types(self, names: Sequence[str]) -> list[int]:
        known = [t.name for t in self.job.types]
        for name in names:
            if name not in known:
                raise UsageError(f"no type of operation {name!r}", f"types: {', '.join(known[:20])}")
        return [known.index(name) for name in names]

    def answer(self, edit: Edit) -> Answer:
        """Step times with an edit.

        Raises:
            UsageError: as `edited`.
        """
        after = self.job.step_times(self.edited(edit))
        steps = pa.table(
            {
                "step": pa.array(self.job.steps, pa.int64()),
                "measured_ns": self.job.measured_ns,
                "before_ns": self.before,
                "after_ns": after,
            }
        )
        mean = float(after.mean())
        return Answer(self.t, mean, self.t / mean, steps)
