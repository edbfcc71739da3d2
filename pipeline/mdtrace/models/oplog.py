"""Reads operation logs of pipeline-parallel jobs: one Parquet row for each operation of a worker.

Columns, times in seconds: `dp_rank`, `stage` (worker), `step`, `optype`, `start_ts`, `duration`, `seq_id`
(number of the operation among those of its type, worker and step); where present also `rank`, `mc`, `gmc`
(model chunk in the stage and in the model) and `mb_id` (microbatch). −1 means none.
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mdtrace.errors import InputError

COMPUTE = ("forward-compute", "backward-compute")
TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
OTHERS = (
    "params-all-gather",
    "grads-reduce-scatter",
    "separate-grads-all-reduce",
    "layernorm-grads-all-reduce",
    "embedding-grads-all-reduce",
    "optimizer-clip-main-grad",
    "optimizer",
    "gc",
)
OP_TYPES = (*COMPUTE, *TRANSFERS, *OTHERS)

_WHOLE = ("dp_rank", "stage", "step", "seq_id")
_TIMES = ("start_ts", "duration")
_OPTIONAL = ("rank", "mc", "gmc", "mb_id")
_LARGEST = 2**31 - 1
_LONGEST_S = 1e9
_HINT = (
    "columns: dp_rank, stage, step, optype, start_ts, duration (s), seq_id; optional: rank, mc, gmc, mb_id"
)


@dataclass(frozen=True)
class OpLog:
    """Operations of the complete steps of a job.

    Attributes:
        ops: columns dp_rank, stage, rank, step, optype, start_ns, end_ns (float64, ns), seq_id, mc, gmc; in
            the order of worker, step, start.
        notes: what was left out.
    """

    ops: pl.DataFrame
    notes: tuple[str, ...]


def is_oplog(path: Path) -> bool:
    """Whether a path is given as an operation log: a file, not a dataset's folder."""
    return path.suffix.lower() == ".parquet" or path.is_file()


def read_oplog(path: Path) -> OpLog:
    """Read an operation log.

    Raises:
        InputError: no such file, not Parquet, columns missing or of another kind, values that cannot be.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path}: no readable Parquet file", _HINT) from error
    return oplog(frame, str(path))


def oplog(frame: pl.DataFrame, name: str = "operation log") -> OpLog:
    """Check operations given as a data frame.

    Args:
        frame: the columns above.
        name: what to call it in messages.

    Raises:
        InputError: columns missing or of another kind, values that cannot be, no complete step.
    """
    ops = _typed(frame, name)
    _check(ops, name)
    ops = ops.with_columns(
        start_ns=pl.col("start_ts") * 1e9, end_ns=(pl.col("start_ts") + pl.col("duration")) * 1e9
    ).drop(_TIMES)
    kept, notes = _complete(ops, name)
    return OpLog(kept.sort("dp_rank", "stage", "step", "start_ns", "seq_id", "optype"), notes)


def _typed(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    missing = [c for c in (*_WHOLE, *_TIMES, "optype") if c not in frame.columns]
    if missing:
        raise InputError(f"{name}: no column {', '.join(missing)}: not an operation log", _HINT)
    absent = [pl.lit(-1).alias(c) for c in _OPTIONAL if c not in frame.columns]
    whole = [pl.col(c).cast(pl.Int64) for c in (*_WHOLE, *_OPTIONAL)]
    times = [pl.col(c).cast(pl.Float64) for c in _TIMES]
    try:
        return frame.with_columns(absent).select(*whole, *times, pl.col("optype").cast(pl.String))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{name}: a column is of another type than an operation log's", _HINT) from error


def _check(ops: pl.DataFrame, name: str) -> None:
    empty = [c for c in ops.columns if ops[c].null_count()]
    if empty:
        raise InputError(f"{name}: empty values in {', '.join(empty)}", _HINT)
    if not len(ops):
        raise InputError(f"{name}: no operations")
    unknown = sorted(set(ops["optype"].unique()) - set(OP_TYPES))
    if unknown:
        raise InputError(
            f"{name}: unknown type of operation {unknown[0]!r:.60}", f"known: {', '.join(OP_TYPES)}"
        )
    far = ops.select(pl.any_horizontal(pl.col(_WHOLE).abs() > _LARGEST).any()).item()
    wild = ops.select(pl.any_horizontal(~(pl.col(_TIMES).abs() <= _LONGEST_S)).any()).item()
    if far or wild or ops["duration"].min() < 0 or ops.select(pl.min_horizontal(*_WHOLE).min()).item() < 0:  # type: ignore[operator]
        raise InputError(f"{name}: numbers or times out of range", "no negative ones, no NaN; times in s")
    key = ["dp_rank", "stage", "step", "optype", "seq_id"]
    if ops.select(pl.struct(key).is_duplicated().any()).item():
        raise InputError(f"{name}: two operations with the same {', '.join(key)}")


def _complete(ops: pl.DataFrame, name: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The steps in which every worker has as many operations of each type as in most steps."""
    counts = ops.group_by("step", "dp_rank", "stage", "optype").len()
    usual = counts.group_by("dp_rank", "stage", "optype").agg(pl.col("len").mode().max().alias("usual"))
    whole = (
        counts.join(usual, on=["dp_rank", "stage", "optype"])
        .group_by("step")
        .agg((pl.col("len") == pl.col("usual")).sum().alias("alike"))
        .filter(pl.col("alike") == len(usual))
    )
    kept = ops.join(whole.select("step"), on="step", how="semi")
    steps = ops["step"].n_unique()
    if not len(kept):
        raise InputError(f"{name}: no step is complete on all workers")
    left_out = steps - len(whole)
    return kept, (f"{left_out} of {steps} steps left out: not complete on all workers",) * (left_out > 0)
