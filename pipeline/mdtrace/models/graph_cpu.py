"""The graph of ranks that compute on the CPU: operators, the time between them, and the backend's records.

The operators of a rank follow each other, with the host's own work between them. A collective is handed to
the backend by the operator during which its record begins, or follows the record before it on its thread. The
rank waits for a collective where nothing else runs until it ends: in the longest stretch (between operators,
or inside one) that the record fills for the most part and that ends with it.
"""

import numpy as np
import polars as pl

from mdtrace.models.graph_device import meet
from mdtrace.models.graph_draft import Draft
from mdtrace.models.replay import Ids, Times

_QUEUED_NS = 200_000.0  # a record that begins so soon after the one before on its thread was queued behind it
_FILLED = 0.5  # share of a stretch that the record awaited in it covers
_LATE = 0.1  # of a stretch's length: the record may be closed so long after the rank went on


def add_host_work(draft: Draft, operators: pl.DataFrame, records: pl.DataFrame) -> None:
    """Add the operators of ranks without devices and the collectives of their backend.

    Args:
        operators: of `graph_tables`.
        records: collectives without a device activity, from `graph.meetings`, with thread_id.
    """
    alike = not records["point_to_point"].any()  # ranks that pass work on to each other need not do the same
    records = records.filter(pl.col("worker").is_in(operators["worker"].unique().implode()))
    stretches = _stretches(operators)
    records = _placed(records.with_row_index("record"), stretches)
    stretches = _with_awaited(stretches, records)
    node = draft.add(_nodes(stretches).with_columns(everywhere=pl.lit(alike)))
    stretches = stretches.with_columns(node=pl.Series(node))
    _follow(draft, stretches)
    leave = _add_records(draft, records, stretches)
    waited = stretches.filter(pl.col("awaited").is_not_null())
    early = np.minimum(0.0, (waited["end"] - waited["awaited_end"]).to_numpy())
    draft.wait(leave[waited["awaited"].to_numpy()], waited["node"].to_numpy(), early)


def _stretches(operators: pl.DataFrame) -> pl.DataFrame:
    """Each worker's time from its first operator on, without holes: before each operator, and itself."""
    previous = pl.col("end").shift().over("worker")
    shared = operators.with_columns(place=pl.int_range(pl.len()).over("worker", "step", "name"))
    gaps = shared.with_columns(
        end=pl.col("start"), start=previous.fill_null(pl.col("start")), work=pl.lit(False)
    )
    both = pl.concat([gaps, shared.with_columns(work=pl.lit(True))])
    return both.sort("worker", "end", "work", "host_op_id").with_row_index("stretch")


def _placed(records: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """Columns stretch: where a record begins; before: the one before on its thread; queued: behind it."""
    begun = (
        records.sort("start")
        .join_asof(
            stretches.select("worker", "stretch", begun="start").sort("begun"),
            left_on="start",
            right_on="begun",
            by="worker",
            check_sortedness=False,
        )
        .sort("worker", "thread_id", "start", "record")
    )
    thread = ["worker", "thread_id"]
    since = pl.col("start") - pl.col("end").shift().over(thread)
    return begun.with_columns(
        before=pl.col("record").shift().over(thread),
        since=since,
        queued=(since < _QUEUED_NS).fill_null(False),
    ).sort("record")


def _with_awaited(stretches: pl.DataFrame, records: pl.DataFrame) -> pl.DataFrame:
    """Columns awaited: the record that a rank waits for in a stretch; awaited_end: when it was over."""
    over = records.select(
        who="worker", awaited="record", begins="start", ends=pl.max_horizontal("end", "met")
    )
    length = pl.col("end") - pl.col("start")
    timed = stretches.with_columns(length=length, latest=pl.col("end") + _LATE * length).filter(length > 0)
    inside = pl.min_horizontal("ends", "end") - pl.max_horizontal("begins", "start")
    found = (
        timed.join_where(
            over,
            pl.col("worker") == pl.col("who"),
            pl.col("start") < pl.col("ends"),
            pl.col("latest") >= pl.col("ends"),
        )
        .filter(inside >= _FILLED * pl.col("length"))
        .sort("length", "stretch")
        .unique("awaited", keep="last", maintain_order=True)
        .sort("ends", "awaited")
        .unique("stretch", keep="last", maintain_order=True)
        .select("stretch", "awaited", awaited_end="ends")
    )
    return stretches.join(found, on="stretch", how="left", maintain_order="left")


def _nodes(stretches: pl.DataFrame) -> pl.DataFrame:
    """A node for each stretch; where it waits, its duration is what is left after that."""
    compute = pl.concat_str(pl.col("phase"), pl.lit("-compute"))
    begins = pl.max_horizontal("start", pl.col("awaited_end").fill_null(0))
    cell = pl.when(pl.col("step").is_not_null()).then(
        pl.struct(pl.lit("cpu"), "work", "name", "place").hash()
    )
    return stretches.select(
        "start",
        "end",
        "worker",
        "step",
        duration=pl.max_horizontal(0.0, pl.col("end") - begins),
        type=pl.when("work").then(pl.coalesce(compute, pl.lit("compute"))).otherwise(pl.lit("host")),
        cell=cell,
    )


def _follow(draft: Draft, stretches: pl.DataFrame) -> None:
    linked = stretches.with_columns(before=pl.col("node").shift().over("worker")).drop_nulls("before")
    draft.wait(linked["before"].to_numpy(), linked["node"].to_numpy())


def _add_records(draft: Draft, records: pl.DataFrame, stretches: pl.DataFrame) -> Ids:
    """Add the records and what they follow. The node with which each ends."""
    alone = pl.col("meeting").is_null()
    place = pl.int_range(pl.len()).over("worker", "step", "kind")
    named = records.with_columns(place=place)
    cell = pl.when(alone & pl.col("step").is_not_null()).then(
        pl.struct(pl.lit("record"), "kind", "payload_bytes", "place").hash()
    )
    arrival = draft.add(
        named.select(
            "start",
            "worker",
            "step",
            end=pl.when(alone).then("end").otherwise("start"),
            type=pl.when(alone).then("kind"),
            communication=alone,
            cell=cell,
        )
    )
    leave = meet(draft, records, arrival)
    _hand_over(draft, records, stretches, arrival)
    behind = records.filter(pl.col("before").is_not_null())
    late: Times = np.minimum(0.0, behind["since"].to_numpy())
    draft.wait(leave[behind["before"].to_numpy()], arrival[behind["record"].to_numpy()], late)
    return leave


def _hand_over(draft: Draft, records: pl.DataFrame, stretches: pl.DataFrame, arrival: Ids) -> None:
    """Records begin as long after their stretch began as measured; those queued begin when they can."""
    handed = records.filter(~pl.col("queued")).join(
        stretches.select(
            "stretch", "work", "node", began="start", previous=pl.col("node").shift().over("worker")
        ),
        on="stretch",
        maintain_order="left",
    )
    known = handed.drop_nulls("previous")
    draft.wait(
        known["previous"].to_numpy(),
        arrival[known["record"].to_numpy()],
        (known["start"] - known["began"]).to_numpy(),
    )
