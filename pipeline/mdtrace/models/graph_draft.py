"""A graph in the making: nodes with what is known of them, and who waits for whom."""

from dataclasses import replace

import numpy as np
import polars as pl

from mdtrace.errors import InputError
from mdtrace.models.replay import Ids, Times, plan
from mdtrace.models.replay_job import Job, OpType, Worker

# type: NULL for nodes that only join; cell: NULL where nothing can be made ideal; everywhere: each worker that
# lacks the cell in a step in which another has it counts as 0 in its mean.
SCHEMA = {
    "start": pl.Float64,
    "end": pl.Float64,
    "duration": pl.Float64,
    "type": pl.String,
    "communication": pl.Boolean,
    "cell": pl.UInt64,
    "everywhere": pl.Boolean,
    "worker": pl.Int32,
    "step": pl.Int64,
}


class Draft:
    """Collects nodes and edges.

    Times are ns since the capture's start on the reference clock; a node's `start` and `end` are as measured.
    Node 0 is the beginning of time, on which everything hangs that waits for nothing known.
    """

    def __init__(self) -> None:
        self._blocks: list[pl.DataFrame] = []
        self._count = 0
        self._before: list[Ids] = []
        self._after: list[Ids] = []
        self._lags: list[Times] = []
        self.add(pl.DataFrame({"start": [0.0], "end": [0.0]}))

    def add(self, frame: pl.DataFrame) -> Ids:
        """Add nodes: columns of `SCHEMA`, those absent NULL (duration: end − start). Their numbers."""
        absent = [pl.lit(None).alias(c) for c in SCHEMA if c not in frame.columns]
        block = frame.with_columns(absent).select(pl.col(c).cast(t) for c, t in SCHEMA.items())
        block = block.with_columns(
            pl.col("duration").fill_null(pl.col("end") - pl.col("start")),
            pl.col("communication", "everywhere").fill_null(False),
        )
        self._blocks.append(block)
        first = self._count
        self._count += len(block)
        return np.arange(first, self._count)

    def wait(self, before: Ids, after: Ids, lags: Times | None = None) -> None:
        """`after[i]` waits for the end of `before[i]`, and `lags[i]` longer."""
        self._before.append(before)
        self._after.append(after)
        self._lags.append(np.zeros(len(before)) if lags is None else lags)

    def hang(self) -> None:
        """Hang the nodes that wait for nothing on the beginning of time, where they were measured."""
        waiting = np.zeros(self._count, np.bool_)
        for after in self._after:
            waiting[after] = True
        waiting[0] = True
        loose = np.flatnonzero(~waiting)
        ends = self.column("end")[loose] - self.column("duration")[loose]
        self.wait(np.zeros(len(loose), np.int64), loose, ends)

    def column(self, name: str) -> Times:
        """A column of all nodes so far."""
        return pl.concat([b[name] for b in self._blocks]).to_numpy().astype(np.float64)

    def edges(self) -> tuple[Ids, Ids, Times]:
        """All edges so far: before, after, lags."""
        return np.concatenate(self._before), np.concatenate(self._after), np.concatenate(self._lags)

    def job(self, workers: tuple[Worker, ...], notes: tuple[str, ...], *, chained: bool = True) -> Job:
        """The graph as a job.

        Args:
            chained: its steps follow each other; else each begins at 0.

        Raises:
            InputError: no operation lies in a step.
            GraphError: operations wait for each other in a circle.
        """
        self.hang()
        nodes = pl.concat(self._blocks)
        typed = nodes.filter(pl.col("type").is_not_null()).group_by("type").agg(pl.col("communication").any())
        names = typed.sort("communication", "type")
        types = [OpType(*row) for row in names.rows()]
        codes = {t.name: i for i, t in enumerate(types)}
        steps = nodes["step"].drop_nulls().unique().sort().to_list()
        if not steps:
            raise InputError("nothing to replay: no operation lies in a step")
        numbers = {step: i for i, step in enumerate(steps)}
        before, after, lags = self.edges()
        code = [
            nodes["type"].replace_strict(codes, default=-1, return_dtype=pl.Int32),
            nodes["worker"].fill_null(-1),
            nodes["step"].replace_strict(numbers, default=-1, return_dtype=pl.Int32),
        ]
        op_type, worker, step = (c.fill_null(-1).to_numpy().astype(np.int32) for c in code)
        cell = nodes["cell"].rank("dense").cast(pl.Int64).fill_null(0).to_numpy() - 1
        times = nodes["end"].to_numpy(), nodes["duration"].to_numpy()
        job = Job(
            plan(self._count, before, after, lags), nodes["duration"].to_numpy(), cell, op_type, worker, step,
            tuple(types), workers, tuple(steps), np.zeros(len(steps)), chained, notes,
            nodes["everywhere"].to_numpy(),
        )  # fmt: skip
        return replace(job, measured_ns=job.times_of(*times)).in_order()
