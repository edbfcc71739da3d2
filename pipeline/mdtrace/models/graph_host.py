"""The host's part of the graph: its calls, the time before each, and what it waits for.

Threads run in program order; a thread also follows what the process's other threads had just finished when it
went on (autograd's thread takes over from the main thread and hands back). The time before a call is the
host's own work, an operation like others. Calls that synchronise end when the device activity that they wait
for has, and so do copies that block; what is left of them is their own.
"""

import numpy as np
import polars as pl

from mdtrace.models.graph_draft import Draft
from mdtrace.models.replay import Ids

_SYNCHRONISES = "Synchronize"
_COPIES = r"Memcpy"
_SLACK_NS = 5_000.0  # a call may return this long before the activity it waits for is seen to end


def add_calls(draft: Draft, calls: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Add the calls that start device activities or wait for them.

    Args:
        calls, activities: of `graph_tables`.

    Returns:
        the calls that have nodes, with before: the node that ends when the call starts; call: its own;
        awaited, awaited_end: the activity it waits for.
    """
    waits = pl.col("name").str.contains(_SYNCHRONISES)
    chosen = calls.filter((pl.col("device_op_count") > 0) | waits).with_columns(
        synchronises=waits.fill_null(False)
    )
    chosen = _with_awaited(chosen, activities)
    frame = chosen.with_columns(
        place=pl.int_range(pl.len()).over("worker", "step", "name"),
        own=pl.max_horizontal(
            0.0, pl.col("end") - pl.max_horizontal("start", pl.col("awaited_end").fill_null(0))
        ),
    )
    frame = _with_gaps(frame)
    before = draft.add(_nodes(frame, "before"))
    call = draft.add(_nodes(frame, "call"))
    draft.wait(before, call)
    frame = frame.with_columns(before=pl.Series(before), call=pl.Series(call))
    _chain(draft, frame)
    return frame


def _with_awaited(calls: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    """Column awaited: the device activity that a call waits for, awaited_end: when it ended.

    A copy that had ended when its own call returned blocked the host; a synchronising call waits for the last
    activity that ended while it lasted.
    """
    work = activities.filter(pl.col("class") != "sync").select(
        "worker", "launch_id", awaited="device_op_id", awaited_end="end"
    )
    own = work.sort("awaited_end").group_by("launch_id").last().drop("worker")
    copies = calls.filter(pl.col("name").str.contains(_COPIES) & ~pl.col("synchronises")).join(
        own, on="launch_id"
    )
    blocking = copies.filter(pl.col("awaited_end") <= pl.col("end"))
    latest = (
        calls.filter("synchronises")
        .with_columns(returned=pl.col("end") + _SLACK_NS)
        .sort("returned")
        .join_asof(
            work.drop("launch_id").sort("awaited_end"),
            left_on="returned",
            right_on="awaited_end",
            by="worker",
            coalesce=False,
            check_sortedness=False,
        )
        .filter(pl.col("awaited_end") > pl.col("start"))
    )
    found = pl.concat([f.select("launch_id", "awaited", "awaited_end") for f in (blocking, latest)])
    return calls.join(found, on="launch_id", how="left", maintain_order="left")


def _with_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns followed (row of the call that each follows on its thread), inside (it has not ended), handed
    (row of another thread's call just before), ready: when what it follows was done."""
    rows = frame.with_columns(row=pl.int_range(pl.len()))
    thread = ["worker", "thread_id"]
    previous = {c: pl.col(c).shift().over(thread) for c in ("row", "start", "end")}
    latest = {c: pl.col(c).shift().over("worker") for c in ("row", "end", "thread_id")}
    inside = previous["end"] > pl.col("start")
    handed = (latest["end"] <= pl.col("start")) & latest["thread_id"].ne_missing(pl.col("thread_id"))
    return rows.with_columns(
        followed=previous["row"],
        inside=inside.fill_null(False),
        handed=pl.when(handed).then(latest["row"]),
        ready=pl.max_horizontal(
            pl.when(inside).then(previous["start"]).otherwise(previous["end"]),
            pl.when(handed).then(latest["end"]),
        ),
    )


def _nodes(frame: pl.DataFrame, which: str) -> pl.DataFrame:
    """The nodes before the calls, or the calls' own."""
    cell = pl.when(pl.col("step").is_not_null()).then(pl.struct(pl.lit(which), "name", "place").hash())
    shared = frame.select("start", "end", "ready", "own", "worker", "step", type=pl.lit("host"), cell=cell)
    if which == "call":
        return shared.with_columns(duration=pl.col("own")).drop("ready", "own")
    # What nothing comes before starts where it was measured.
    ready = pl.col("ready").fill_null(pl.col("start"))
    return shared.with_columns(start=ready, end=pl.col("start")).drop("ready", "own")


def _chain(draft: Draft, frame: pl.DataFrame) -> None:
    before, call = frame["before"].to_numpy(), frame["call"].to_numpy()
    follows = frame.filter(pl.col("followed").is_not_null())
    rows: Ids = follows["followed"].to_numpy()
    source = np.where(follows["inside"].to_numpy(), before[rows], call[rows])
    draft.wait(source, follows["before"].to_numpy())
    handed = frame.filter(pl.col("handed").is_not_null())
    draft.wait(call[handed["handed"].to_numpy()], handed["before"].to_numpy())
