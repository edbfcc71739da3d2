"""What the graph of a dataset is made from: its captures, calls, device activities and collectives.

Times are float64 ns on the reference clock, counted from the first of them.
"""

from dataclasses import dataclass

import polars as pl

from mdtrace.errors import InputError
from mdtrace.models.graph_clocks import timeline_offsets
from mdtrace.models.replay_job import Worker
from mdtrace.tables.dataset import Dataset


@dataclass(frozen=True)
class Captures:
    """One capture of each rank.

    Attributes:
        frame: columns process_id, worker, and the clock: offset, drift, origin.
        zero_ns: time that counts as 0, on the reference clock.
        stepless: no steps are marked: everything counts as one.
        workers: by number.
        notes: what was left out or assumed.
    """

    frame: pl.DataFrame
    zero_ns: int
    stepless: bool
    workers: tuple[Worker, ...]
    notes: tuple[str, ...]


def read(dataset: Dataset, table: str, columns: list[str]) -> pl.DataFrame:
    """Columns of a table."""
    frame = pl.from_arrow(dataset.table(table, columns))
    assert isinstance(frame, pl.DataFrame)
    return frame


def captures(dataset: Dataset) -> Captures:
    """The captures to replay.

    Raises:
        InputError: none, their ranks are unknown, or their clocks cannot be compared.
    """
    found = read(dataset, "processes", ["process_id", "source_id", "rank", "start_ns", "end_ns"]).drop_nulls(
        "start_ns"
    )
    formats = read(dataset, "sources", ["source_id", "format"])
    found = found.join(formats.filter(pl.col("format") != "horovod"), on="source_id", how="semi")
    if not len(found):
        raise InputError(f"{dataset.path}: no events to replay")
    clocks = read(dataset, "clocks", ["process_id", "timeline", "offset_ns", "drift_ppb", "drift_origin_ns"])
    notes = []
    if found["rank"].null_count():
        if len(found) > 1:
            raise InputError(
                f"{dataset.path}: the ranks of {found['rank'].null_count()} captures are unknown",
                "say which with --ranks FILE=N when ingesting",
            )
        found = found.with_columns(rank=pl.lit(0, pl.Int32))
    once = found.sort("process_id").unique("rank", keep="first", maintain_order=True)
    if len(once) < len(found):
        notes.append(f"{len(found) - len(once)} second captures of a rank left out")
    timed = once.join(clocks, on="process_id", how="left").sort("rank")
    frame = timed.select(
        "process_id",
        "timeline",
        "start_ns",
        worker=pl.int_range(pl.len(), dtype=pl.Int32),
        offset=pl.col("offset_ns").fill_null(0),
        drift=pl.col("drift_ppb").fill_null(0.0) / 1e9,
        origin=pl.col("drift_origin_ns").fill_null(0),
    )
    if frame["timeline"].n_unique() > 1:
        frame = _side_by_side(dataset, frame)
        notes.append("clocks of some hosts laid side by side by the ends of what their ranks share")
    zero = frame.select((pl.col("start_ns") - pl.col("offset")).min()).item()
    workers = tuple(Worker(rank) for rank in timed["rank"].to_list())
    notes += _apart(frame, found)
    stepless = dataset.rows("steps") == 0
    notes += ["no steps are marked: the whole capture counts as one"] * stepless
    return Captures(frame.drop("timeline", "start_ns"), zero, stepless, workers, tuple(notes))


_WORTH_SAYING = 0.01  # of the capture


def _apart(frame: pl.DataFrame, found: pl.DataFrame) -> list[str]:
    """That ranks begin at different times, which no edit changes."""
    timed = frame.join(found.select("process_id", "end_ns"), on="process_id")
    begin, end = timed["start_ns"] - timed["offset"], timed["end_ns"] - timed["offset"]
    first, last, over = begin.min(), begin.max(), end.max()
    if not isinstance(first, int) or not isinstance(last, int) or not isinstance(over, int):
        return []
    said = f"the captures of the ranks begin up to {(last - first) / 1e6:.3g} ms apart, which stays as it is"
    return [said] * (last - first > _WORTH_SAYING * (over - first))


def _side_by_side(dataset: Dataset, frame: pl.DataFrame) -> pl.DataFrame:
    """The captures with offsets that make their timelines one.

    Raises:
        InputError: a timeline shares nothing with the others.
    """
    rows = read(dataset, "collectives", ["process_id", "end_ns", "instance_id"]).drop_nulls()
    clock = frame.select("process_id", "timeline", "offset")
    ends = clock.join(rows, on="process_id", how="left", maintain_order="left").select(
        "timeline",
        "instance_id",
        end=(pl.col("end_ns") - pl.col("offset") - frame["start_ns"].min()).cast(pl.Float64),
    )
    found = timeline_offsets(ends)
    apart = sorted(set(frame["timeline"].unique()) - found.keys())
    if apart:
        raise InputError(
            f"{dataset.path}: clocks of its ranks cannot be compared, and they share no matched collective",
            f"see why with: mdtrace stragglers {dataset.path}",
        )
    ahead = pl.col("timeline").replace_strict(found, return_dtype=pl.Float64).round().cast(pl.Int64)
    return frame.with_columns(offset=pl.col("offset") + ahead)


def aligned(frame: pl.DataFrame, of: Captures) -> pl.DataFrame:
    """Rows of the captures, with worker, and start and end from start_ns and dur_ns or end_ns."""
    joined = frame.join(of.frame, on="process_id", how="inner", maintain_order="left")
    if of.stepless:
        joined = joined.with_columns(step=pl.lit(0, pl.Int64))

    def moved(time: str) -> pl.Expr:
        drifted = (pl.col("drift") * (pl.col(time) - pl.col("origin"))).round()
        return (pl.col(time) - pl.col("offset") - of.zero_ns).cast(pl.Float64) - drifted

    if "end_ns" not in frame.columns:
        joined = joined.with_columns(end_ns=pl.col("start_ns") + pl.col("dur_ns"))
    return joined.with_columns(start=moved("start_ns"), end=moved("end_ns")).drop(
        "offset", "drift", "origin", "process_id", "start_ns", "end_ns", "dur_ns", strict=False
    )


def calls(dataset: Dataset, of: Captures) -> pl.DataFrame:
    """Runtime and driver calls by worker and start."""
    columns = ["launch_id", "process_id", "thread_id", "name", "start_ns", "dur_ns", "correlation", "step"]
    frame = read(dataset, "launches", [*columns, "device_op_count", "duplicate"])
    kept = frame.filter(~pl.col("duplicate") & pl.col("dur_ns").is_not_null()).drop("duplicate")
    return aligned(kept, of).sort("worker", "start", "launch_id")


def activities(dataset: Dataset, of: Captures) -> pl.DataFrame:
    """Device activities by worker, stream and start, synchronisation among them."""
    columns = [
        "device_op_id",
        "process_id",
        "device_id",
        "context_id",
        "stream_id",
        "class",
        "name",
        "start_ns",
    ]
    columns += ["dur_ns", "launch_id", "step", "phase", "correlation", "event_id", "wait_stream_id"]
    frame = read(dataset, "device_ops", [*columns, "wait_correlation", "duplicate"])
    kept = frame.filter(~pl.col("duplicate") & pl.col("dur_ns").is_not_null()).drop("duplicate")
    return aligned(kept, of).sort("worker", "device_id", "stream_id", "start", "end", "device_op_id")


def members(dataset: Dataset, of: Captures) -> pl.DataFrame:
    """Collectives of the captures: kind, payload, group, instance and what the job knows of that."""
    columns = ["collective_id", "process_id", "kind", "evidence", "payload_bytes", "group_size", "start_ns"]
    columns += ["end_ns", "device_op_id", "host_op_id", "step", "instance_id"]
    frame = read(dataset, "collectives", columns).filter(pl.col("end_ns").is_not_null())
    instances = read(dataset, "instances", ["instance_id", "synchronising", "point_to_point"])
    found = aligned(frame, of).join(instances, on="instance_id", how="left", maintain_order="left")
    return found.sort("worker", "start", "collective_id")


def operators(dataset: Dataset, of: Captures) -> pl.DataFrame:
    """What the host computed, outermost: operators, or where a capture has none the innermost of its other
    ranges. Columns host_op_id, thread_id, name, step, phase, start, end; by worker and start."""
    columns = ["host_op_id", "process_id", "thread_id", "kind", "form", "name", "start_ns", "dur_ns", "step"]
    frame = read(dataset, "host_ops", [*columns, "parent_id", "phase", "duplicate"])
    kept = frame.filter(~pl.col("duplicate") & (pl.col("form") == "nested") & pl.col("dur_ns").is_not_null())
    operator = pl.col("kind") == "operator"
    innermost = ~pl.col("host_op_id").is_in(kept["parent_id"].drop_nulls().implode())
    chosen = kept.filter(
        operator
        | (innermost & pl.col("kind").is_in(["nvtx", "annotation"]) & ~operator.any().over("process_id"))
    )
    found = aligned(chosen, of).sort("worker", "start", "end", descending=[False, False, True])
    reached = pl.col("end").cum_max().shift().over("worker")
    return found.filter((pl.col("start") >= reached.fill_null(0)) | reached.is_null()).drop(
        "kind", "form", "parent_id", "duplicate"
    )
