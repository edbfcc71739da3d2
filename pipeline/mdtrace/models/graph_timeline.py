"""The graph of a Horovod timeline: at the grain of what ranks are ready for, since it shows nothing finer.

A rank works from the end of the step before until it is ready for its first collective, and from there until
it is ready for the next. A collective begins when all are ready and the one before it is done; what it takes
from there, negotiation and cycle included, is its transfer. Each step begins at the end of the one before.
Where no rank is ready for a collective, in any step, before those before it are done, ranks wait for them.
"""

import polars as pl

from mdtrace.errors import InputError
from mdtrace.models.graph_draft import Draft
from mdtrace.models.graph_tables import read
from mdtrace.models.replay_job import Job, Worker
from mdtrace.tables.dataset import Dataset

_HINT = "run with HOROVOD_CACHE_CAPACITY=0: the timeline then records every rank's readiness in every step"


def timeline_job(dataset: Dataset) -> Job:
    """Lay out a Horovod timeline for replay.

    Raises:
        InputError: no step in which every rank's readiness is recorded.
    """
    done = _collectives(dataset)
    ticks = _ticks(dataset, done)
    steps, notes = _usable(dataset, done, ticks)
    done = (
        done.join(steps, on="step", how="inner")
        .sort("step", "start", "collective_id")
        .with_row_index("number")
    )
    ticks = ticks.join(done.select("collective_id", "number", "zero", "tensors"), on="collective_id")
    return _draft(done, ticks, notes)


def _collectives(dataset: Dataset) -> pl.DataFrame:
    columns = ["collective_id", "kind", "step", "payload_bytes", "tensors", "start_ns", "end_ns", "evidence"]
    frame = read(dataset, "collectives", columns).filter(
        (pl.col("evidence") == "timeline") & pl.col("step").is_not_null() & pl.col("end_ns").is_not_null()
    )
    first = frame["start_ns"].min()
    moved = {c: (pl.col(f"{c}_ns") - first).cast(pl.Float64) for c in ("start", "end")}
    return frame.with_columns(**moved, first=pl.lit(first)).drop("start_ns", "end_ns")


def _ticks(dataset: Dataset, done: pl.DataFrame) -> pl.DataFrame:
    """When each rank was ready for all tensors of a collective: collective_id, rank, step, ready."""
    ticks = read(dataset, "arrivals", ["collective_id", "rank", "ready_ns"]).drop_nulls()
    shared = done.select("collective_id", "step", "first")
    return (
        ticks.join(shared, on="collective_id")
        .group_by("collective_id", "rank", "step")
        .agg(ready=(pl.col("ready_ns") - pl.col("first")).max().cast(pl.Float64))
    )


def _usable(
    dataset: Dataset, done: pl.DataFrame, ticks: pl.DataFrame
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Steps with all ranks' readiness for each collective, whose beginning is known: step, zero."""
    ranks = ticks["rank"].n_unique()
    if ranks < 2:
        raise InputError(f"{dataset.path}: the readiness of ranks is not recorded", _HINT)
    counted = done.join(ticks.group_by("collective_id").len("ready"), on="collective_id", how="left")
    whole = counted.group_by("step").agg(
        whole=(pl.col("ready").fill_null(0) == ranks).all(),
        last=pl.col("end").max(),
        first=pl.col("start").min(),
    )
    began = whole.sort("step").with_columns(zero=pl.col("last").shift())
    usable = began.filter("whole").drop_nulls("zero")
    if not len(usable):
        raise InputError(
            f"{dataset.path}: the readiness of all ranks is not recorded in any step but the first", _HINT
        )
    left_out = len(began) - len(usable)
    notes = (f"{left_out} of {len(began)} steps left out: readiness not recorded, or the first",) * (
        left_out > 0
    )
    return usable.select("step", "zero"), notes


def _draft(done: pl.DataFrame, ticks: pl.DataFrame, notes: tuple[str, ...]) -> Job:
    draft = Draft()
    ranks = ticks["rank"].unique().sort().to_list()
    worker = pl.col("rank").replace_strict(ranks, list(range(len(ranks))), return_dtype=pl.Int32)
    ready = pl.max_horizontal(0.0, pl.col("ready") - pl.col("zero"))
    ordered = ticks.with_columns(worker=worker, end=ready).join(_behind(done, ticks), on="number", how="left")
    ordered = ordered.sort("worker", "step", "end", "number")
    began = pl.max_horizontal(pl.col("end").shift().over("worker", "step").fill_null(0.0), "free")
    cell = pl.struct(pl.lit("ready"), pl.col("tensors").list.first()).hash()
    work = ordered.with_columns(start=began, type=pl.lit("compute"), cell=cell)
    work = work.with_columns(node=pl.Series(draft.add(work)))
    linked = work.with_columns(before=pl.col("node").shift().over("worker", "step")).drop_nulls("before")
    draft.wait(linked["before"].to_numpy(), linked["node"].to_numpy())
    _transfers(draft, done, work)
    return draft.job(tuple(Worker(r) for r in ranks), notes, chained=False)


def _behind(done: pl.DataFrame, ticks: pl.DataFrame) -> pl.DataFrame:
    """Collectives that ranks are ready for only after those before: number, after, free (when it ended)."""
    first = ticks.group_by("number").agg(ready=pl.col("ready").min())
    over = pl.col("end").cum_max().shift().over("step")
    rows = done.join(first, on="number", maintain_order="left").with_columns(
        over=over, after=pl.col("number").shift().over("step"), name=pl.col("tensors").list.first()
    )
    always = (pl.col("ready") >= pl.col("over")).fill_null(False).all().over("name")
    return rows.filter(always).select("number", "after", free=pl.col("over") - pl.col("zero"))


def _transfers(draft: Draft, done: pl.DataFrame, work: pl.DataFrame) -> None:
    """The collectives, one after the other, each behind its last rank."""
    last = work.group_by("number").agg(came=pl.col("end").max())
    moved = done.join(last, on="number", maintain_order="left").with_columns(
        end=pl.max_horizontal(pl.col("end") - pl.col("zero"), "came")
    )
    free = pl.col("end").shift().over("step").fill_null(0.0)
    rows = moved.with_columns(
        start=pl.min_horizontal(pl.max_horizontal("came", free), "end"),
        place=pl.int_range(pl.len()).over("step"),
    )
    cell = pl.struct(pl.lit("timeline"), "kind", "payload_bytes", "place").hash()
    node = draft.add(rows.select("start", "end", "step", type="kind", communication=True, cell=cell))
    rows = rows.with_columns(node=pl.Series(node))
    linked = rows.with_columns(before=pl.col("node").shift().over("step")).drop_nulls("before")
    draft.wait(linked["before"].to_numpy(), linked["node"].to_numpy())
    joined = work.select("number", came_node="node").join(rows.select("number", "node"), on="number")
    draft.wait(joined["came_node"].to_numpy(), joined["node"].to_numpy())
    behind = work.drop_nulls("after").join(
        rows.select(after="number", after_node="node"), on="after", maintain_order="left"
    )
    draft.wait(behind["after_node"].to_numpy(), behind["node"].to_numpy())
