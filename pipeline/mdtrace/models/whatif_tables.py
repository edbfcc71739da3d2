"""A what-if's answers as Arrow tables: by type of operation, worker, dp rank or stage, and for a heat map."""

from typing import Literal

import numpy as np
import pyarrow as pa

from mdtrace.models.replay_job import nodes_of
from mdtrace.models.whatif import Edit, WhatIf


def job(whatif: WhatIf, edit: Edit) -> pa.Table:
    """The whole job, one row.

    Returns:
        the columns of `Slowdown` without worst; steps; after_ns, speed_up: with the edit.
    """
    found = vars(whatif.slowdown()).copy()
    del found["worst"]
    answer = whatif.answer(edit)
    row = {**found, "steps": len(whatif.job.steps), "after_ns": answer.after_ns, "speed_up": answer.speed_up}
    doubles = {k: pa.float64() for k in ("worst_workers", "last_stage")}
    return pa.table({k: pa.array([v], doubles.get(k)) for k, v in row.items()})


def operations(whatif: WhatIf) -> pa.Table:
    """By type of operation, the costliest first.

    Returns:
        op_type; communication; slowdown: S_t; without_ns: the step with the type made ideal; work_ns,
        ideal_work_ns: time of its operations, per worker and step.
    """
    job = whatif.job
    masks = [nodes_of(job.op_type, [i]) for i in range(len(job.types))]
    spread = len(job.workers) * len(job.steps)
    rows = {
        "op_type": [t.name for t in job.types],
        "communication": [t.communication for t in job.types],
        "slowdown": whatif.only(masks),
        "without_ns": whatif.without(masks),
        "work_ns": [float(job.recorded[m].sum()) / spread for m in masks],
        "ideal_work_ns": [float(whatif.ideal[m].sum()) / spread for m in masks],
    }
    return pa.table(rows).sort_by([("slowdown", "descending"), ("op_type", "ascending")])


def workers(whatif: WhatIf) -> pa.Table:
    """By worker, the slowest first.

    Returns:
        rank; dp_rank, stage: NULL where the layout is not known; slowdown: S_w; score: what ranks the
        workers; without_ns: the step with the worker made ideal; speed_up: T over that.
    """
    job = whatif.job
    masks = [nodes_of(job.worker, [i]) for i in range(len(job.workers))]
    alone, without = whatif.only(masks), whatif.without(masks)
    rows = {
        "rank": pa.array([w.rank for w in job.workers], pa.int32()),
        "dp_rank": pa.array([w.dp_rank for w in job.workers], pa.int32()),
        "stage": pa.array([w.stage for w in job.workers], pa.int32()),
        "slowdown": alone,
        "score": whatif.scores(),
        "without_ns": without,
        "speed_up": [whatif.t / t for t in without],
    }
    return pa.table(rows).sort_by([("score", "descending"), ("rank", "ascending")])


def groups(whatif: WhatIf, column: Literal["dp_rank", "stage"]) -> pa.Table:
    """By dp rank or stage: `column`, slowdown; empty where the layout is not known."""
    found = whatif.by(column)
    return pa.table(
        {
            column: pa.array(list(found), pa.int32()),
            "slowdown": pa.array(list(found.values()), pa.float64()),
        }
    )


def heat(whatif: WhatIf) -> pa.Table:
    """By worker and type of operation, for a heat map.

    Returns:
        rank, dp_rank, stage, op_type; work_ns, ideal_work_ns: per step; ratio: work over ideal, NULL where
        there is none.
    """
    job = whatif.job
    real = (job.worker >= 0) & (job.op_type >= 0)
    types = len(job.types)
    cells = job.worker[real].astype(np.int64) * types + job.op_type[real]
    count = len(job.workers) * types
    present = np.flatnonzero(np.bincount(cells, minlength=count))
    work = np.bincount(cells, job.recorded[real], minlength=count)[present] / len(job.steps)
    best = np.bincount(cells, whatif.ideal[real], minlength=count)[present] / len(job.steps)
    who = [job.workers[i] for i in present // types]
    return pa.table(
        {
            "rank": pa.array([w.rank for w in who], pa.int32()),
            "dp_rank": pa.array([w.dp_rank for w in who], pa.int32()),
            "stage": pa.array([w.stage for w in who], pa.int32()),
            "op_type": [job.types[i].name for i in present % types],
            "work_ns": work,
            "ideal_work_ns": best,
            "ratio": pa.array(
                [float(w / b) if b > 0 else None for w, b in zip(work, best, strict=True)], pa.float64()
            ),
        }
    )
