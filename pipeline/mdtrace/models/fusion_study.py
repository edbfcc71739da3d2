"""What other buckets would gain: today's, the best constant cap, the best ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mdtrace.errors import InputError, UsageError
from mdtrace.models.fusion import Backward, Cost, Rule, Schedule, schedule
from mdtrace.models.fusion_plans import best_cap, greedy, optimum
from mdtrace.models.fusion_recognise import (
    MEBIBYTE,
    Recognised,
    below_caps,
    plain_cap,
    reaching_caps,
    recognise,
)
from mdtrace.models.gradients import GradientTrace
from mdtrace.models.scaling_links import cost
from mdtrace.models.scaling_model import HINT, Model, Options, notes, unknown
from mdtrace.models.scaling_study import Job, read
from mdtrace.tables.dataset import Dataset


@dataclass(frozen=True)
class PlanRow:
    """One way to pack the gradients.

    Attributes:
        name: what it is. plan: its buckets and when they travel, ns after the exchange of the step before.
        step_ns: predicted step. exposed_ns: what of it is the exchange alone.
        gain: share of today's step that it saves. setting: how to get it; None where no setting does.
    """

    name: str
    plan: Schedule
    step_ns: float
    exposed_ns: float
    gain: float
    setting: str | None


@dataclass(frozen=True)
class Advice:
    """The answer.

    Attributes:
        trace: the gradients. backward: as the slowest rank makes them ready. cost: of a message.
        gpus: number of GPUs it is for. today: the rule behind today's buckets; None where they vary by time.
        words: the same for people.
        rows: today's first. measured_ns: median step of the run; None at another number of GPUs.
        notes: what to know about the figures.
    """

    trace: GradientTrace
    backward: Backward
    cost: Cost
    gpus: int
    today: Recognised | None
    words: str
    rows: tuple[PlanRow, ...]
    measured_ns: float | None
    notes: tuple[str, ...]


def advise(datasets: Sequence[Dataset], options: Options = Options(), gpus: int | None = None) -> Advice:  # noqa: B008 - frozen
    """Compare ways to pack the gradients of the first dataset's job.

    Args:
        gpus: for so many GPUs; by default as many as the run had.

    Raises:
        InputError: the data does not show or identify what is needed.
        UsageError: the options do not fit.
    """
    return compare([read(dataset) for dataset in datasets], options, gpus)


def compare(jobs: Sequence[Job], options: Options = Options(), gpus: int | None = None) -> Advice:  # noqa: B008 - frozen
    """The same from jobs that were read."""
    base = jobs[0].trace
    if base is None or base.members < 2:
        raise InputError("the first dataset has no gradient exchange", "give a run on several GPUs first")
    model = Model(base, [j.trace for j in jobs if j.trace is not None], options)
    wanted = gpus or base.world
    hosts, place = model.where(wanted)
    members = model.members(wanted)
    if members is None:
        raise UsageError(f"--gpus {wanted}: no whole number of copies of the model")
    price = cost(model.links, place, members, max(hosts, 1), options.network)
    if price is None:
        raise InputError(f"nothing can be predicted: {unknown(model.links, place)}", HINT)
    today = None if base.buckets is None else recognise(base.sizes, base.buckets, timeline=base.timeline)
    rows = _rows(model, price, today)
    measured = float(np.median(base.period)) if wanted == base.world else None
    words = model.fusion if today is None else today.words
    return Advice(base, model.pace, price, wanted, today, words, rows, measured, tuple(notes(model)))


def _rows(model: Model, price: Cost, today: Recognised | None) -> tuple[PlanRow, ...]:
    base, pace = model.base, model.pace
    now = model.plan(pace, price)
    before = max(now.last, pace.end)

    def row(name: str, plan: Schedule, setting: str | None = None) -> PlanRow:
        step = max(plan.last, pace.end)
        return PlanRow(name, plan, step, step - pace.end, 1 - step / before, setting)

    rows = [row("today", now)]
    capped = best_cap(pace, price, Rule("threshold" if base.timeline else "ddp"))
    rows.append(row("best constant cap", capped.plan, _setting(base, capped.plan)))
    rows.append(row("best buckets", optimum(pace, price), _grouped(base)))
    rows.append(row("greedy (MG-WFBP)", greedy(pace, price)))
    rows += [row(name, schedule(rule, pace, price), setting) for name, rule, setting in _others(base)]
    return tuple(rows)


def _others(base: GradientTrace) -> list[tuple[str, Rule, str | None]]:
    if base.timeline:
        return [
            ("each gradient alone", Rule("each"), "HOROVOD_FUSION_THRESHOLD=0"),
            ("all together", Rule("one"), None),
        ]
    usual = Rule("ddp", 25 * MEBIBYTE, MEBIBYTE)
    return [
        ("default, 25 MiB", usual, "no bucket_cap_mb"),
        ("each gradient alone", Rule("each"), None),
        ("all together", Rule("one"), f"bucket_cap_mb={int(base.sizes.sum() / MEBIBYTE) + 1}"),
    ]


def _setting(base: GradientTrace, plan: Schedule) -> str:
    """The setting that makes a plan with one cap, as plain a number as makes it."""
    if base.timeline:
        low, high = below_caps(base.sizes, plan.stops)
        return f"HOROVOD_FUSION_THRESHOLD={int(np.ceil(plain_cap(low, high, from_low=True)))}"
    low, high = reaching_caps(base.sizes, plan.stops)
    if not np.isfinite(high):
        return f"bucket_cap_mb={int(base.sizes.sum() / MEBIBYTE) + 1}"
    return f"bucket_cap_mb={plain_cap(low, high) / MEBIBYTE:.7g}"


def _grouped(base: GradientTrace) -> str | None:
    return "DistributedOptimizer(groups=…), see --buckets" if base.timeline else None


def timeline(advice: Advice) -> pa.Table:
    """Each bucket of each plan: what is in it and when it travels."""
    names, sizes = advice.trace.names, advice.trace.sizes
    rows = []
    for row in advice.rows:
        plan = row.plan
        for k, bucket in enumerate(plan.buckets):
            rows.append(
                {
                    "plan": row.name,
                    "bucket": k,
                    "gradients": len(bucket),
                    "first": names[bucket[0]],
                    "last": names[bucket[-1]],
                    "bytes": int(sizes[bucket].sum()),
                    "ready_ns": round(plan.dispatch[k]),
                    "start_ns": round(plan.start[k]),
                    "end_ns": round(plan.end[k]),
                }
            )
    return pa.Table.from_pylist(rows, _TIMELINE)


def table(advice: Advice) -> pa.Table:
    """The plans as rows."""
    rows = [
        {
            "plan": row.name,
            "gpus": advice.gpus,
            "buckets": len(row.plan.stops),
            "largest_bytes": int(row.plan.sizes.max()),
            "step_ns": round(row.step_ns),
            "exposed_ns": round(row.exposed_ns),
            "gain": row.gain,
            "setting": row.setting,
        }
        for row in advice.rows
    ]
    return pa.Table.from_pylist(rows, _PLANS)


_TIMELINE = pa.schema(
    [("plan", pa.string()), ("bucket", pa.int64()), ("gradients", pa.int64()), ("first", pa.string()),
     ("last", pa.string()), ("bytes", pa.int64()), ("ready_ns", pa.int64()), ("start_ns", pa.int64()),
     ("end_ns", pa.int64())]
)  # fmt: skip
_PLANS = pa.schema(
    [("plan", pa.string()), ("gpus", pa.int64()), ("buckets", pa.int64()), ("largest_bytes", pa.int64()),
     ("step_ns", pa.int64()), ("exposed_ns", pa.int64()), ("gain", pa.float64()), ("setting", pa.string())]
)  # fmt: skip
