"""Step time and scaling factor of a job on other numbers of GPUs, from runs that were traced.

`study([dataset, …])`: the first dataset is the job; the others are further runs of it (other numbers of
ranks, other buckets), which show further links and check the prediction: each is predicted without its own
messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mdtrace.errors import InputError, UsageError
from mdtrace.metrics.engine import run
from mdtrace.models.gradients import RECAPTURE, GradientTrace, gradients
from mdtrace.models.scaling import step_time
from mdtrace.models.scaling_links import LinkFit, Place, cost
from mdtrace.models.scaling_model import HINT, Model, Options, Point, backwards, notes
from mdtrace.tables.dataset import Dataset


@dataclass(frozen=True)
class Job:
    """One traced run: its name, and its gradients, or for a run on one GPU how long a step takes."""

    name: str
    trace: GradientTrace | None
    single_ns: float | None = None


@dataclass(frozen=True)
class Study:
    """The answer.

    Attributes:
        jobs: what was read; the first is the base. points: by GPUs. links: as fitted on all jobs.
        held_out_steps: error on the base's steps left out of a fit on the others, None with fewer than two.
        held_out_jobs: median and largest error over jobs left out.
        fusion: what packs the gradients, in words. notes: what to know about the figures.
    """

    jobs: tuple[Job, ...]
    points: tuple[Point, ...]
    links: dict[Place, LinkFit]
    compute_ns: float
    fusion: str
    held_out_steps: float | None
    held_out_jobs: tuple[float, float, int] | None
    notes: tuple[str, ...]


def study(datasets: Sequence[Dataset], options: Options = Options()) -> Study:  # noqa: B008 - frozen
    """Predict the job of the first dataset on other numbers of GPUs.

    Raises:
        InputError: the data does not show or identify what is needed.
        UsageError: the options do not fit.
    """
    return predict([read(dataset) for dataset in datasets], options)


def read(dataset: Dataset) -> Job:
    """A dataset as a job; one without collectives, of one rank, is a run on one GPU.

    Raises:
        InputError: neither is told by it.
    """
    name = dataset.path.name.removesuffix(".mdtrace")
    if dataset.rows("collectives") == 0 and dataset.rows("processes") == 1:
        return Job(name, None, _single(dataset))
    return Job(name, gradients(dataset))


def _single(dataset: Dataset) -> float:
    rows = run(dataset, "step_times").pl()
    starts, steady = rows["start_ns"].to_numpy(), rows["steady"].to_numpy()
    if len(starts) < 2:
        raise InputError(f"{dataset.path.name}: no collective, and no two steps", RECAPTURE)
    return float(np.median(np.diff(starts)[steady[:-1]])) if steady[:-1].any() else float(np.diff(starts)[-1])


def predict(jobs: Sequence[Job], options: Options = Options()) -> Study:  # noqa: B008 - frozen
    """The same from jobs that were read.

    Raises:
        InputError: the first job shows no gradient exchange, or nothing can be predicted.
        UsageError: the options do not fit.
    """
    base = jobs[0].trace if jobs else None
    if base is None:
        raise InputError("the first dataset has no gradient exchange", "give a run on several GPUs first")
    traces = [j.trace for j in jobs if j.trace is not None]
    model = Model(base, traces, options)
    points = [*_measured(model, jobs), *_asked(model, jobs)]
    if all(p.predicted is None for p in points):
        raise InputError(f"nothing can be predicted: {points[0].reason}", HINT)
    errors = [abs(p.error) for p in points if p.error is not None and p.fitted is False]
    return Study(
        jobs=tuple(jobs),
        points=tuple(sorted(points, key=lambda p: (p.gpus, p.job or ""))),
        links=model.links,
        compute_ns=model.typical.end,
        fusion=model.fusion,
        held_out_steps=_held_out_steps(model),
        held_out_jobs=(float(np.median(errors)), max(errors), len(errors)) if errors else None,
        notes=tuple(notes(model)),
    )


def _measured(model: Model, jobs: Sequence[Job]) -> list[Point]:
    """Each run, predicted: the base from all, the others without their own messages."""
    points = []
    index = -1
    for job in jobs:
        if job.trace is None:
            points.append(_with(model.point(1, model.links), job.single_ns, False, job.name))
            continue
        index += 1
        found = model.links if index == 0 else model.links_without(index)
        point = model.point(job.trace.world, found, job.trace if index else None, held_out=index > 0)
        points.append(_with(point, float(np.median(job.trace.period)), index == 0, job.name))
    return points


def _with(point: Point, measured: float | None, fitted: bool, job: str) -> Point:
    total = point.predicted.total if point.predicted is not None else None
    error = total / measured - 1 if total is not None and measured else None
    return replace(point, measured_ns=measured, error=error, fitted=fitted, job=job)


def _asked(model: Model, jobs: Sequence[Job]) -> list[Point]:
    """The numbers of GPUs asked for that no run has."""
    have = {1 if j.trace is None else j.trace.world for j in jobs}
    world = model.base.world
    wanted = model.options.gpus or (world, 2 * world, 4 * world, 8 * world)
    if min(wanted) < 1:
        raise UsageError("--gpus: a number of GPUs is 1 or more")
    return [model.point(gpus, model.links) for gpus in sorted(set(wanted) - have)]


def _held_out_steps(model: Model) -> float | None:
    """Error of a fit on every second step at the steps between."""
    count = len(model.base.steps)
    if count < 2:
        return None
    kept, other = np.arange(0, count, 2), np.arange(1, count, 2)
    found = model.links_without(None, model.base.steps[kept])
    hosts, place = model.where(model.base.world)
    price = cost(found, place, model.base.members, max(hosts, 1), model.options.network)
    if price is None:
        return None
    pace, typical = backwards(model.base, kept)
    measured = float(np.median(model.base.period[other]))
    return step_time(pace, typical, 0.0, price, model.plan).total / measured - 1


def table(found: Study, batch: int | None = None) -> pa.Table:
    """The points as rows.

    Args:
        batch: samples that each GPU takes in a step.
    """
    return pa.Table.from_pylist([_row(found, point, batch) for point in found.points], _POINTS)


def _row(found: Study, point: Point, batch: int | None) -> dict[str, object]:
    step = point.predicted
    row: dict[str, object] = {
        "gpus": point.gpus,
        "hosts": point.hosts,
        "links": point.place,
        "measured_ns": None if point.measured_ns is None else round(point.measured_ns),
        "error": point.error,
        "fitted": point.fitted,
        "run": point.job,
        "reason": point.reason,
    }
    if step is None:
        return row
    saved = {f"saved_{name}_ns": round(ns) for name, ns in step.saved.items()}
    per_second = point.gpus * step_rate(step.total)
    return {
        **row,
        "step_ns": round(step.total),
        "compute_ns": round(step.compute),
        "scaling_factor": step.factor,
        "speed_up": step.factor * point.members,
        "samples_per_s": None if batch is None else batch * per_second,
        "costs_most": step.costs_most,
        **saved,
    }


def step_rate(step_ns: float) -> float:
    """Steps per second."""
    return 1e9 / step_ns


_SAVED = ("latency", "bandwidth", "buckets", "overlap", "imbalance")
_POINTS = pa.schema(
    [
        ("gpus", pa.int64()), ("hosts", pa.int64()), ("links", pa.string()), ("step_ns", pa.int64()),
        ("compute_ns", pa.int64()), ("scaling_factor", pa.float64()), ("speed_up", pa.float64()),
        ("samples_per_s", pa.float64()), ("measured_ns", pa.int64()), ("error", pa.float64()),
        ("fitted", pa.bool_()), ("run", pa.string()), ("costs_most", pa.string()),
        *((f"saved_{name}_ns", pa.int64()) for name in _SAVED),
        ("reason", pa.string()),
    ]
)  # fmt: skip
