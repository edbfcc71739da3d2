"""What waits for what on a worker of an operation log.

Forward and backward computations follow each other in their order; each kind of transfer between stages has a
queue of its own, so have the collectives of the data-parallel group. A computation waits for what it
receives, a send for what it sends; a receive is posted after the computation of its kind before it. After the
last computation: layer-norm and embedding gradients, the gradients of the data-parallel group, gradient norm,
optimizer.
"""

import numpy as np
import polars as pl

from mdtrace.errors import InputError
from mdtrace.models.oplog import COMPUTE, TRANSFERS
from mdtrace.models.replay import Ids

Edges = list[tuple[Ids, Ids]]

_DATA_PARALLEL = ("params-all-gather", "grads-reduce-scatter")
_WORKER = ["dp_rank", "stage", "step"]


def edges_of(ops: pl.DataFrame, served: pl.DataFrame) -> Edges:
    """All dependencies inside workers: pairs of nodes, the second waits for the first.

    Args:
        ops: operations of `OpLog`, with a column node.
        served: the transfers between stages, from `transfers_served`.
    """
    return [*_queues(ops), *_around_transfers(ops, served), *_around_data_parallel(ops), *_at_the_end(ops)]


def column(frame: pl.DataFrame, name: str) -> Ids:
    return frame[name].to_numpy().astype(np.int64)


def _chain(ops: pl.DataFrame, by: list[str]) -> tuple[Ids, Ids]:
    """Each operation after the one before it in its group, in the order of the rows."""
    linked = ops.select("node", pl.col("node").shift().over(by).alias("before")).drop_nulls()
    return column(linked, "before"), column(linked, "node")


def of_types(ops: pl.DataFrame, *types: str) -> pl.DataFrame:
    return ops.filter(pl.col("optype").is_in(types))


def _edges(pairs: pl.DataFrame, before: str, after: str) -> tuple[Ids, Ids]:
    return column(pairs, before), column(pairs, after)


def _queues(ops: pl.DataFrame) -> Edges:
    """What runs in order on each worker."""
    return [
        _chain(of_types(ops, *COMPUTE), _WORKER),
        _chain(of_types(ops, *TRANSFERS), [*_WORKER, "optype"]),
        _chain(of_types(ops, *_DATA_PARALLEL), _WORKER),
    ]


def transfers_served(ops: pl.DataFrame) -> pl.DataFrame:
    """Transfers with the computation that each belongs to.

    Returns:
        columns node, optype, dp_rank, stage, step, compute (node), and crossing, which is the same text for a
        send and its receive; NULL for transfers out of the model, which stages with several chunks record.
    """
    last = ops.select(pl.max_horizontal("gmc", "stage").max()).item()
    found = []
    for kind, onwards in (("forward", 1), ("backward", -1)):
        computes = of_types(ops, f"{kind}-compute").with_columns(
            # The chunk is the stage where stages hold one each.
            chunk=pl.when(pl.col("gmc") < 0).then("stage").otherwise("gmc"),
        )
        computes = computes.with_columns(turn=pl.int_range(pl.len()).over([*_WORKER, "chunk"]))
        for side, peer in (("send", onwards), ("recv", -onwards)):
            transfers = of_types(ops, f"{kind}-{side}")
            needed = (pl.col("chunk") + peer).is_between(0, last)
            crossing = pl.concat_str(
                pl.lit(kind), pl.min_horizontal("chunk", pl.col("chunk") + peer), "turn", separator=" "
            )
            served = computes.with_columns(needed=needed, crossing=pl.when(needed).then(crossing))
            found.append(_pair_up(transfers, served))
    return pl.concat(found)


def _pair_up(transfers: pl.DataFrame, computes: pl.DataFrame) -> pl.DataFrame:
    """The i-th transfer of a worker and step with the i-th computation, of all or of those that need one."""
    sizes = computes.group_by(_WORKER).agg(pl.len().alias("all"), pl.col("needed").sum())
    counted = transfers.with_columns(
        turn=pl.int_range(pl.len()).over(_WORKER), size=pl.len().over(_WORKER)
    ).join(sizes, on=_WORKER, how="left")
    wrong = counted.filter((pl.col("size") != pl.col("all")) & (pl.col("size") != pl.col("needed")))
    lone = counted.filter(pl.col("all").is_null())
    if len(wrong) or len(lone):
        row = (wrong if len(wrong) else lone).row(0, named=True)
        where = f"step {row['step']}, dp rank {row['dp_rank']}, stage {row['stage']}"
        what = f"{row['size']} {row['optype']} for {row['all'] or 0} computations"
        raise InputError(f"{where}: {what}: cannot tell which belongs to which")
    pairs = []
    for match, served in (("all", computes), ("needed", computes.filter("needed"))):
        mine = counted.filter(
            pl.col("size") == pl.col(match) if match == "all" else pl.col("size") != pl.col("all")
        )
        numbered = served.select(
            *_WORKER,
            "crossing",
            pl.col("node").alias("compute"),
            pl.int_range(pl.len()).over(_WORKER).alias("turn"),
        )
        pairs.append(mine.join(numbered, on=[*_WORKER, "turn"]))
    return pl.concat(pairs).select("node", "optype", *_WORKER, "compute", "crossing")


def _around_transfers(ops: pl.DataFrame, served: pl.DataFrame) -> Edges:
    """Receives before their computation and behind the one before it; sends behind theirs."""
    receives = served.filter(pl.col("optype").str.ends_with("recv"))
    sends = served.filter(pl.col("optype").str.ends_with("send"))
    posted = []
    for compute in COMPUTE:
        before, after = _chain(of_types(ops, compute), _WORKER)
        previous = pl.DataFrame({"compute": after, "previous": before})
        posted.append(_edges(receives.join(previous, on="compute"), "previous", "node"))
    return [
        _edges(receives, "node", "compute"),
        _edges(sends, "compute", "node"),
        *posted,
        *_first_backward(ops),
    ]


def _first_backward(ops: pl.DataFrame) -> Edges:
    """The first backward transfers are posted behind the last forward computation but one of the warm-up."""
    computes = of_types(ops, *COMPUTE).with_columns(
        warm_up=(pl.col("optype") == "forward-compute").cast(pl.Int8).cum_min().over(_WORKER)
    )
    posted = (
        computes.filter(pl.col("warm_up") == 1)
        .group_by(_WORKER)
        .agg(pl.col("node").get(-2, null_on_oob=True).alias("before"))
        .drop_nulls()
    )
    first = of_types(ops, "backward-send", "backward-recv").filter(
        pl.int_range(pl.len()).over([*_WORKER, "optype"]) == 0
    )
    return [_edges(first.join(posted, on=_WORKER), "before", "node")]


def _around_data_parallel(ops: pl.DataFrame) -> Edges:
    """Parameters before their chunk's first computation; gradients, if overlapped, behind its last."""
    chunk = [*_WORKER, "mc"]
    first = of_types(ops, "forward-compute").group_by(chunk).agg(pl.col("node").first().alias("other"))
    last = of_types(ops, "backward-compute").group_by(chunk).agg(pl.col("node").last().alias("other"))
    gathers = of_types(ops, "params-all-gather").group_by(chunk).agg(pl.col("node").last())
    edges = [_edges(gathers.join(first, on=chunk), "node", "other")]
    if _overlapped(ops):
        scatters = of_types(ops, "grads-reduce-scatter").group_by(chunk).agg(pl.col("node").first())
        edges.append(_edges(scatters.join(last, on=chunk), "other", "node"))
    return edges


def _overlapped(ops: pl.DataFrame) -> bool:
    """Gradients are exchanged while backward runs: what cannot be is exchanged separately."""
    return "separate-grads-all-reduce" in ops["optype"].unique()


def _at_the_end(ops: pl.DataFrame) -> Edges:
    """What follows the last computation, one after the other."""
    overlapped = _overlapped(ops)
    gradients = "separate-grads-all-reduce" if overlapped else "grads-reduce-scatter"
    order = ["gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce", gradients]
    order += ["optimizer-clip-main-grad", "optimizer"]
    ranks = {name: i + 1 for i, name in enumerate(order)}
    last = (
        of_types(ops, *COMPUTE)
        .group_by(_WORKER, maintain_order=True)
        .last()
        .select("node", *_WORKER, turn=0, seq_id=0)
    )
    tail = of_types(ops, *order).select(
        "node",
        *_WORKER,
        pl.col("optype").replace_strict(ranks, return_dtype=pl.Int64).alias("turn"),
        "seq_id",
    )
    steps = pl.concat([last.with_columns(pl.col("turn", "seq_id").cast(pl.Int64)), tail]).sort(
        "turn", "seq_id"
    )
    edges = [_chain(steps, _WORKER)]
    if overlapped:
        scatters = of_types(ops, "grads-reduce-scatter").group_by(_WORKER, maintain_order=True).last()
        layer_norm = of_types(ops, "layernorm-grads-all-reduce").select(
            *_WORKER, pl.col("node").alias("after")
        )
        edges.append(_edges(scatters.join(layer_norm, on=_WORKER), "node", "after"))
    return edges
