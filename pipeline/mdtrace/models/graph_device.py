"""The device's part of the graph: streams in order, launches, waits between streams, collectives.

An activity follows the one before it on its stream, the start of its launch, and what its stream was told to
wait for. Where a capture does not record such waits, a communication kernel follows the last computation
launched before it, and an activity that began right after one of another stream ended is taken to have waited
for it. How long an activity usually starts after what it followed is a lag of the edge, the same for all
of a rank; what is left over is a delay that the graph does not explain, and the replay leaves it out.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from mdtrace.models.graph_draft import Draft
from mdtrace.models.replay import Ids, Times

_STREAM = ["worker", "device_id", "context_id", "stream_id"]
_UNEXPLAINED_NS = 5_000.0
_WOKEN_NS = 20_000.0  # an activity that waited starts within this time
_CONTRADICTED_NS = 1_000.0


@dataclass(frozen=True)
class _Edges:
    """Edges of one kind between activities.

    Attributes:
        before, after: nodes.
        kind: 0 launch, 1 stream, 2 wait.
        slack: ns from the end of `before` to the start of `after`, as measured.
    """

    before: Ids
    after: Ids
    kind: int
    slack: Times


def add_activities(
    draft: Draft, activities: pl.DataFrame, calls: pl.DataFrame, joined: pl.DataFrame
) -> pl.DataFrame:
    """Add device activities and what they wait for.

    Args:
        activities: of `graph_tables`, stream waits with called and recorded.
        calls: with nodes, of `graph_host.add_calls`.
        joined: collectives with a device_op_id, from `graph.meetings`.

    Returns:
        activities that are work, with node: starts with the activity; leave: ends with it.
    """
    about = joined.select("device_op_id", "meeting", "met", "kind", "payload_bytes", "group_size")
    work = activities.filter(pl.col("class") != "sync").join(
        about, on="device_op_id", how="left", maintain_order="left"
    )
    work = work.with_columns(place=pl.int_range(pl.len()).over("worker", "step", "class", "name"))
    node = draft.add(_nodes(work))
    work = work.with_columns(node=pl.Series(node))
    leave = _meet(draft, work)
    work = work.with_columns(leave=pl.Series(leave))
    edges = [_launched(work, calls), _in_order(work), *_told(work, activities, calls)]
    _connect(draft, work, edges)
    return work


def _nodes(work: pl.DataFrame) -> pl.DataFrame:
    compute = pl.col("class") == "compute"
    named = (
        pl.when(compute & pl.col("phase").is_not_null())
        .then(pl.concat_str("phase", pl.lit("-compute")))
        .when(pl.col("class") == "communication")
        .then(pl.coalesce("kind", pl.lit("communication")))
        .otherwise("class")
    )
    waits = pl.col("meeting").is_not_null()
    cell = pl.struct("class", "name", "place").hash()
    return work.select(
        "start",
        "worker",
        "step",
        end=pl.when(waits).then("start").otherwise("end"),
        type=pl.when(~waits).then(named),
        communication=pl.col("class") == "communication",
        cell=pl.when(~waits & pl.col("step").is_not_null()).then(cell),
    )


def _meet(draft: Draft, work: pl.DataFrame) -> Ids:
    """Collectives: members arrive, meet, and transfer. The node with which each activity ends."""
    return meet(draft, work, work["node"].to_numpy())


def meet(draft: Draft, rows: pl.DataFrame, arrivals: Ids) -> Ids:
    """Let members of collectives meet.

    Args:
        rows: columns worker, step, end, meeting (NULL: does not meet anybody), met (when all had come), kind,
            payload_bytes, group_size.
        arrivals: the node with which each row arrives.

    Returns:
        the node with which each row ends.
    """
    leave = arrivals.copy()
    chosen = np.flatnonzero(rows["meeting"].is_not_null().to_numpy())
    if not len(chosen):
        return leave
    members = rows[chosen].with_columns(number=pl.col("meeting").rank("dense").cast(pl.Int64) - 1)
    members = members.with_columns(place=pl.int_range(pl.len()).over("worker", "step", "kind"))
    places = members.group_by("number").agg(pl.col("met").first()).sort("number")
    meeting = draft.add(places.select(start="met", end="met"))
    size = pl.coalesce(pl.col("payload_bytes"), -1 - pl.col("place"))
    transfers = members.select(
        "worker",
        "step",
        start="met",
        end=pl.max_horizontal("met", "end"),
        type="kind",
        communication=True,
        cell=pl.when(pl.col("step").is_not_null()).then(
            pl.struct(pl.lit("transfer"), "kind", "group_size", size.alias("size")).hash()
        ),
    )
    transfer = draft.add(transfers)
    together = meeting[members["number"].to_numpy()]
    draft.wait(arrivals[chosen], together)
    draft.wait(together, transfer)
    leave[chosen] = transfer
    return leave


def _launched(work: pl.DataFrame, calls: pl.DataFrame) -> _Edges:
    """Activities behind the start of their launch."""
    launched = calls.select("launch_id", "before", called="start")
    pairs = work.join(launched, on="launch_id", maintain_order="left")
    return _edges(pairs, "before", 0, pl.col("start") - pl.col("called"))


def _edges(pairs: pl.DataFrame, before: str, kind: int, slack: pl.Expr) -> _Edges:
    return _Edges(
        pairs[before].to_numpy(),
        pairs["node"].to_numpy(),
        kind,
        pairs.select(slack.alias("s"))["s"].to_numpy(),
    )


def _in_order(work: pl.DataFrame) -> _Edges:
    """Activities behind the one before them on their stream."""
    previous = {c: pl.col(c).shift().over(_STREAM) for c in ("leave", "end")}
    pairs = work.with_columns(previous=previous["leave"], previous_end=previous["end"]).drop_nulls("previous")
    return _edges(pairs, "previous", 1, pl.col("start") - pl.col("previous_end"))


def _told(work: pl.DataFrame, activities: pl.DataFrame, calls: pl.DataFrame) -> list[_Edges]:
    """Activities behind what their stream was told to wait for, or must have waited for."""
    ordered = _with_launch(work, calls)
    waits = activities.filter((pl.col("class") == "sync") & pl.col("wait_stream_id").is_not_null())
    told = [_recorded(ordered, waits)] if len(waits) else []
    untold = ordered.join(waits.select("worker").unique(), on="worker", how="anti", maintain_order="left")
    return [*told, _communication(untold)]


def _with_launch(work: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Column launched: when the activity was launched; without a launch, when it started."""
    launched = calls.select("launch_id", launched="start")
    joined = work.join(launched, on="launch_id", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("launched", "start").alias("launched"))


def _recorded(work: pl.DataFrame, waits: pl.DataFrame) -> _Edges:
    """The first activity launched on a stream after its wait, behind the other stream's last until then."""
    mine = waits.filter(pl.col("wait_stream_id") != pl.col("stream_id")).select(
        "worker", "device_id", "stream_id", "wait_stream_id", "called", "recorded"
    )
    first = mine.sort("called").join_asof(
        work.select("worker", "device_id", "stream_id", "launched", "node", "start").sort("launched"),
        left_on="called",
        right_on="launched",
        by=["worker", "device_id", "stream_id"],
        strategy="forward",
        check_sortedness=False,
    )
    others = work.select("worker", "device_id", "launched", "leave", wait_stream_id="stream_id", ended="end")
    last = (
        first.drop_nulls("node")
        .sort("recorded")
        .join_asof(
            others.sort("launched"),
            left_on="recorded",
            right_on="launched",
            by=["worker", "device_id", "wait_stream_id"],
            check_sortedness=False,
        )
        .drop_nulls("leave")
    )
    return _edges(last, "leave", 2, pl.col("start") - pl.col("ended"))


def _communication(work: pl.DataFrame) -> _Edges:
    """Communication behind the last computation launched before it on another stream."""
    compute = work.filter(pl.col("class") == "compute").select(
        "worker", "device_id", "launched", leave_before="leave", ended="end", other="stream_id"
    )
    found = (
        work.filter(pl.col("class") == "communication")
        .sort("launched")
        .join_asof(
            compute.sort("launched"), on="launched", by=["worker", "device_id"], check_sortedness=False
        )
        .filter(pl.col("other").ne_missing(pl.col("stream_id")) & pl.col("leave_before").is_not_null())
    )
    return _edges(found, "leave_before", 2, pl.col("start") - pl.col("ended"))


def _connect(draft: Draft, work: pl.DataFrame, edges: list[_Edges]) -> None:
    """Add the edges with their lags, and those that the measured times alone show."""
    before = np.concatenate([e.before for e in edges])
    after = np.concatenate([e.after for e in edges])
    kind = np.concatenate([np.full(len(e.after), e.kind) for e in edges])
    slack = np.concatenate([e.slack for e in edges])
    # Kernels of a stream may overlap; a launch or a wait cannot be over only after what it allowed.
    possible = (kind == 1) | (slack >= -_CONTRADICTED_NS)
    before, after, kind, slack = before[possible], after[possible], kind[possible], slack[possible]
    if not len(after):
        return
    first = int(work["node"].min())  # type: ignore[arg-type]
    worker = work["worker"].to_numpy()[after - first]
    usual = _usual(after, kind, slack, worker)
    lags = np.minimum(usual[worker, kind], slack)
    draft.wait(before, after, lags)
    _shown_by_times(draft, work, after, slack - lags, usual)


def _usual(after: Ids, kind: Ids, slack: Times, worker: Ids) -> Times:
    """Usual lag of each worker and kind of edge: the median over activities whose start that edge decided.

    Returns:
        ns, shape (workers, 3).
    """
    order = np.lexsort((slack, after))
    decides = order[np.flatnonzero(np.diff(after[order], prepend=-1))]  # least slack of each activity
    usual = np.zeros((int(worker.max()) + 1, 3))
    for who in np.unique(worker):
        for which in range(3):
            mine = slack[decides[(worker[decides] == who) & (kind[decides] == which)]]
            usual[who, which] = max(0.0, float(np.median(mine))) if len(mine) else 0.0
    return usual


def _shown_by_times(draft: Draft, work: pl.DataFrame, after: Ids, left: Times, usual: Times) -> None:
    """Activities with an unexplained delay that began right after another stream's ended: behind that."""
    first = int(work["node"].min())  # type: ignore[arg-type]
    unexplained = np.full(len(work), np.inf)
    np.minimum.at(unexplained, after - first, left)
    late = work.with_columns(unexplained=pl.Series(unexplained)).filter(
        pl.col("unexplained") > _UNEXPLAINED_NS, pl.col("unexplained").is_finite()
    )
    ended = work.select("worker", "device_id", woke="leave", woken="end", other="stream_id").sort("woken")
    found = (
        late.sort("start")
        .join_asof(
            ended,
            left_on="start",
            right_on="woken",
            by=["worker", "device_id"],
            coalesce=False,
            check_sortedness=False,
        )
        .filter(
            pl.col("other").ne_missing(pl.col("stream_id")),
            pl.col("start") - pl.col("woken") <= pl.min_horizontal(_WOKEN_NS, "unexplained"),
        )
    )
    lag = (found["start"] - found["woken"]).to_numpy()
    worker = found["worker"].to_numpy()
    draft.wait(found["woke"].to_numpy(), found["node"].to_numpy(), np.minimum(lag, usual[worker, 2]))
