"""The graph of an operation log: the order on each worker, and who meets whom.

Between workers: a send and its receive, the data-parallel collectives of a stage, the embedding gradients
of the first and last stage, and the gradient norm of all workers.
"""

import numpy as np
import polars as pl

from mdtrace.models.oplog import OP_TYPES, TRANSFERS, OpLog
from mdtrace.models.oplog_edges import Edges, column, edges_of, of_types, transfers_served
from mdtrace.models.replay import Ids, Plan, Times, plan
from mdtrace.models.replay_job import Codes, Job, OpType, Worker

COMMUNICATION = frozenset(
    {
        *TRANSFERS,
        "params-all-gather",
        "grads-reduce-scatter",
        "separate-grads-all-reduce",
        "layernorm-grads-all-reduce",
        "embedding-grads-all-reduce",
        "optimizer-clip-main-grad",
    }
)
# Collectives by who takes part: the columns that all members share.
_MEETINGS = {
    "params-all-gather": ("step", "stage"),
    "grads-reduce-scatter": ("step", "stage"),
    "separate-grads-all-reduce": ("step", "stage"),
    "embedding-grads-all-reduce": ("step", "dp_rank"),
    "optimizer-clip-main-grad": ("step",),
}
# Both directions of a pipeline under one name, as they are reported.
_REPORTED = {t: f"{t.split('-')[0]}-pp-comm" for t in TRANSFERS}


def oplog_job(log: OpLog) -> Job:
    """Lay out an operation log for replay.

    Raises:
        InputError: transfers between stages that cannot be paired.
        GraphError: operations wait for each other in a circle.
    """
    ops = log.ops.with_row_index("node").with_columns(pl.col("node").cast(pl.Int64))
    served = transfers_served(ops)
    return _job(ops, edges_of(ops, served), _meetings(ops, served), log.notes)


def _meetings(ops: pl.DataFrame, served: pl.DataFrame) -> pl.DataFrame:
    """Who meets whom: columns node, meeting (text, the same for all members)."""
    transfers = served.drop_nulls("crossing").select(
        "node", meeting=pl.concat_str("step", "dp_rank", "crossing", separator="/")
    )
    found = [transfers]
    for optype, shared in _MEETINGS.items():
        together = pl.concat_str(pl.lit(optype), "seq_id", *shared, separator="/")
        found.append(of_types(ops, optype).select("node", meeting=together))
    return pl.concat(found)


def _job(ops: pl.DataFrame, edges: Edges, meetings: pl.DataFrame, notes: tuple[str, ...]) -> Job:
    """Nodes: the operations (of those that meet others the arrival), then meetings, then transfers."""
    count = len(ops)
    member = column(meetings, "node")
    meets = meetings["meeting"].rank("dense").to_numpy().astype(np.int64) - 1
    places = int(meets.max()) + 1 if len(meets) else 0
    transfer = count + places + np.arange(len(member))
    after = np.arange(count + places + len(member))
    after[member] = transfer  # what follows a member follows its transfer
    before = np.concatenate([after[b] for b, _ in edges] + [member, count + meets])
    behind = np.concatenate([a for _, a in edges] + [count + meets, transfer])
    own = np.full(len(after), -1, np.int64)  # the operation whose duration a node has
    own[:count] = np.arange(count)
    own[member] = -1
    own[transfer] = member
    recorded = np.zeros(len(after))
    recorded[:count] = _floats(ops, "end_ns") - _floats(ops, "start_ns")
    recorded[transfer] = _transfers(ops, member, meets, places)
    recorded[member] = 0
    return _coded(ops, plan(len(after), before, behind), recorded, own, notes)


def _floats(frame: pl.DataFrame, name: str) -> Times:
    return frame[name].to_numpy().astype(np.float64)


_BACKWARDS_NS = 10e6  # a transfer that ends this long before it can begin: clocks that disagree


def _transfers(ops: pl.DataFrame, member: Ids, meets: Ids, places: int) -> Times:
    """How long each member's transfer took once all had come, ns."""
    arrived = np.full(places, -np.inf)
    np.maximum.at(arrived, meets, _floats(ops, "start_ns")[member])
    took = _floats(ops, "end_ns")[member] - arrived[meets]
    return np.where(took <= -_BACKWARDS_NS, 0, took)


def _coded(ops: pl.DataFrame, layout: Plan, recorded: Times, own: Ids, notes: tuple[str, ...]) -> Job:
    """The job, with the codes of each node taken from its operation."""
    found = set(ops["optype"].unique())
    names = [n for n in OP_TYPES if n in found]
    reported = list(dict.fromkeys(_REPORTED.get(n, n) for n in names))
    workers = ops.group_by("dp_rank", "stage").agg(pl.col("rank").first()).sort("dp_rank", "stage")
    numbered = workers.with_row_index("worker").select("dp_rank", "stage", "worker")
    types = pl.DataFrame(
        {
            "optype": names,
            "cell": range(len(names)),
            "type": [reported.index(_REPORTED.get(n, n)) for n in names],
        },
        schema_overrides={"optype": pl.String},
    )
    times = ops.group_by("step").agg(pl.col("end_ns").max() - pl.col("start_ns").min()).sort("step")
    coded = ops.join(types, on="optype", maintain_order="left").join(
        numbered, on=["dp_rank", "stage"], maintain_order="left"
    )

    def code(values: pl.Series) -> Codes:
        codes = values.to_numpy()
        return np.where(own >= 0, codes[own], -1).astype(np.int32)

    return Job(
        plan=layout,
        recorded=recorded,
        cell=code(coded["cell"]).astype(np.int64),
        op_type=code(coded["type"]),
        worker=code(coded["worker"]),
        step=code(ops["step"].rank("dense").cast(pl.Int64) - 1),
        types=tuple(OpType(n, n in COMMUNICATION or n in _REPORTED.values()) for n in reported),
        workers=_workers(workers),
        steps=tuple(times["step"].to_list()),
        measured_ns=_floats(times, "end_ns"),
        chained=False,
        notes=notes,
    ).in_order()


def _workers(found: pl.DataFrame) -> tuple[Worker, ...]:
    """Workers by dp rank and stage; without ranks in the log they are numbered in that order."""
    ranks = found["rank"].to_list()
    if min(ranks) < 0 or len(set(ranks)) < len(ranks):
        ranks = list(range(len(ranks)))
    places = found.select("dp_rank", "stage").rows()
    return tuple(Worker(rank, dp, stage) for rank, (dp, stage) in zip(ranks, places, strict=True))
