"""Small jobs for the replay: rounds of local work that all ranks end in a collective."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdtrace.models.replay import plan
from mdtrace.models.replay_job import Job, OpType, Worker


def rounds(work: Sequence[Sequence[float]], transfer: float) -> Job:
    """One step: `work[k][r]`, then collective k, which all ranks enter and whose transfer takes as given."""
    count, ranks = len(work), len(work[0])
    worked = np.arange(count * ranks).reshape(count, ranks)
    meeting = worked.size + np.arange(count)
    moved = worked + worked.size + count
    before = [worked.ravel(), np.repeat(meeting, ranks), moved[:-1].ravel()]
    after = [np.repeat(meeting, ranks), moved.ravel(), worked[1:].ravel()]
    nodes = 2 * worked.size + count
    kind = np.concatenate([np.zeros(worked.size), np.full(count, -1), np.ones(worked.size)]).astype(np.int32)
    who = np.tile(np.arange(ranks), count)
    recorded = np.concatenate([np.ravel(work), np.zeros(count), np.full(worked.size, transfer)])
    job = Job(
        plan=plan(nodes, np.concatenate(before), np.concatenate(after)),
        recorded=recorded,
        cell=kind.astype(np.int64),
        op_type=kind,
        worker=np.concatenate([who, np.full(count, -1), who]).astype(np.int32),
        step=np.zeros(nodes, np.int32),
        types=(OpType("compute", False), OpType("all_reduce", True)),
        workers=tuple(Worker(r) for r in range(ranks)),
        steps=(0,),
        measured_ns=np.zeros(1),
        chained=False,
    )
    return replace(job, measured_ns=job.step_times(recorded))
