"""The graph of a dataset: what waited for what in the job, as far as its traces tell.

Program order on each thread and stream, launches before what they start, waits between streams, host calls
that wait for the device, and collectives and point-to-point transfers that ranks enter together. Steps follow
each other; the durations of collectives are their transfers alone.
"""

import numpy as np
import polars as pl

from mdtrace.models.graph_cpu import add_host_work
from mdtrace.models.graph_device import add_activities
from mdtrace.models.graph_draft import Draft
from mdtrace.models.graph_host import add_calls
from mdtrace.models.graph_tables import (
    Captures,
    activities,
    calls,
    captures,
    members,
    operators,
    read,
)
from mdtrace.models.graph_timeline import timeline_job
from mdtrace.models.replay_job import Job
from mdtrace.tables.dataset import Dataset


def dataset_job(dataset: Dataset) -> Job:
    """Lay out a dataset for replay.

    Raises:
        InputError: nothing to replay, or times of ranks that cannot be compared.
        GraphError: operations wait for each other in a circle.
    """
    formats = set(dataset.table("sources", ["format"]).column(0).to_pylist())
    if formats == {"horovod"}:
        return timeline_job(dataset)
    of = captures(dataset)
    draft = Draft()
    called = calls(dataset, of)
    device = _with_records(activities(dataset, of), called)
    collectives, notes = meetings(members(dataset, of))
    host = add_calls(draft, called, device)
    work = add_activities(draft, device, host, collectives.drop_nulls("device_op_id"))
    _awaited(draft, host, work)
    if device["worker"].n_unique() < len(of.workers):
        add_host_work(draft, *_without_devices(dataset, of, device, collectives))
    return draft.job(of.workers, (*of.notes, *notes))


def _without_devices(
    dataset: Dataset, of: Captures, device: pl.DataFrame, collectives: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Operators and collectives of ranks that recorded no device."""
    threads = read(dataset, "host_ops", ["host_op_id", "thread_id"])
    records = collectives.filter(pl.col("device_op_id").is_null() & (pl.col("evidence") != "timeline")).join(
        threads, on="host_op_id", how="left", maintain_order="left"
    )
    found = operators(dataset, of)
    on_device = device["worker"].unique().implode()
    return tuple(f.filter(~pl.col("worker").is_in(on_device)) for f in (found, records))  # type: ignore[return-value]


def meetings(collectives: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Who meets whom.

    Ranks meet in collectives that no rank can leave before all have entered, in transfers between two, and in
    others (broadcast, reduce) where the times allow it.

    Args:
        collectives: of `graph_tables.members`.

    Returns:
        collectives with meeting (NULL: the rank waits in it for no other of the dataset) and met: when the
        last rank came, ns; and what is to be said.
    """
    together = ["instance_id"]
    strict = (pl.col("synchronising") | pl.col("point_to_point")).fill_null(False)
    all_came = pl.col("start").max().over(together)
    fits = all_came <= pl.col("end").min().over(together)
    several = pl.col("worker").n_unique().over(together) > 1
    meets = pl.col("instance_id").is_not_null() & several & (strict | fits)
    found = collectives.with_columns(
        meeting=pl.when(meets).then("instance_id"), met=pl.when(meets).then(all_came)
    )
    alone = len(found.filter(pl.col("meeting").is_null() & (pl.col("group_size").fill_null(2) > 1)))
    notes = [f"{alone} of {len(found)} collectives not joined across ranks: waiting counts as transfer"]
    return found, notes * (alone > 0)


def _with_records(device: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Columns called, recorded: when a stream's wait, and the record of its event, were called."""
    called = calls.select("launch_id", called="start")
    records = calls.select("worker", wait_correlation="correlation", recorded="start").unique(
        ["worker", "wait_correlation"], keep="first"
    )
    told = device.join(called, on="launch_id", how="left", maintain_order="left").join(
        records, on=["worker", "wait_correlation"], how="left", maintain_order="left"
    )
    called_at = pl.coalesce("called", "start")
    return told.with_columns(called=called_at, recorded=pl.coalesce("recorded", called_at))


def _awaited(draft: Draft, calls: pl.DataFrame, work: pl.DataFrame) -> None:
    """Synchronising calls behind the activities that they wait for."""
    waited = calls.join(
        work.select(awaited="device_op_id", leave="leave"), on="awaited", maintain_order="left"
    )
    early = np.minimum(0.0, (waited["end"] - waited["awaited_end"]).to_numpy())
    draft.wait(waited["leave"].to_numpy(), waited["call"].to_numpy(), early)
