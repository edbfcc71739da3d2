"""One of the two runs that are compared: per-step amounts of everything that runs are compared by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow.compute as pc

from mdtrace.errors import DatasetError
from mdtrace.metrics.catalog import metrics
from mdtrace.metrics.comparison.judge import Values
from mdtrace.metrics.comparison.match import Key
from mdtrace.metrics.engine import run
from mdtrace.metrics.filters import FilterName, Filters
from mdtrace.tables.dataset import Dataset

_IDLE = {
    "host_ns": "waiting for the host",
    "launch_ns": "launching",
    "dependency_ns": "waiting for other work",
    "queue_ns": "queued",
    "unknown_ns": "cause unknown",
}
_BUCKETS = {
    "compute_ns": "compute",
    "exposed_comm_ns": "exposed communication",
    "exposed_memory_ns": "exposed copies",
    "idle_ns": "idle",
}
_STEP = {"span_ns": "step", "host_ns": "step on the host", "comm_ns": "communication, hidden included"}


@dataclass(frozen=True)
class Amounts:
    """Amounts per step, each the mean over the devices (or captures) that have the step.

    Attributes:
        keys: what they are amounts of, each once.
        own: ns, rows by key, columns by step: durations, overlaps in full.
        shown: the same, of the part that makes up the step's time; None where that cannot be said.
        count: how often, by key and step.
    """

    keys: Sequence[Key]
    own: Values
    shown: Values | None
    count: Values | None = None


@dataclass(frozen=True)
class Side:
    """A run.

    Attributes:
        steps: those that count; empty: no steps are marked, and amounts are of the whole capture.
        left_out: reason by step that does not count.
        ranks: known ranks in the dataset.
        world_sizes: ranks in the job, as the captures state it.
        bases: what was accounted (device activity, host records, timeline, step markers).
        parts: amounts by part of the comparison.
    """

    steps: tuple[int, ...]
    left_out: Mapping[int, str]
    ranks: tuple[int, ...]
    world_sizes: tuple[int, ...]
    bases: tuple[str, ...]
    parts: Mapping[str, Amounts]


def side(dataset: Dataset, filters: Filters) -> Side:
    """Read a run.

    Raises:
        DatasetError: nothing in it was timed, or no step that counts is left.
    """
    accounts = _rows(dataset, "step_breakdown", filters).filter(pl.col("span_ns").is_not_null())
    if accounts.is_empty():
        accounts = _marked(dataset, filters)
    if accounts.is_empty():
        raise DatasetError(
            f"{dataset.path}: nothing in it can be compared",
            "neither device activity, nor operators, communication or steps of these ranks were captured",
        )
    steps, left_out = _steps(dataset, filters, accounts)
    devices = _Steps(steps, accounts, ("process_id", "device_id"))
    captures = _Steps(steps, accounts, ("process_id",))
    bases = tuple(sorted(accounts["basis"].drop_nulls().unique()))
    parts = {
        "step": devices.columns(accounts, _STEP),
        "bucket": devices.columns(accounts, _BUCKETS),
        "idle": devices.columns(_rows(dataset, "step_idle_breakdown", filters), _IDLE),
    }
    work = _rows(dataset, "compare_device", filters)
    host = _rows(dataset, "compare_host", filters)
    on_host = work.is_empty()
    parts["kernel"] = devices.amounts(work, ("name",))
    parts["operator"] = devices.amounts(work, ("operator",))
    operators = host.filter(pl.col("kind") == "operator").with_columns(shown_ns="own_ns")
    parts["layer"] = (
        captures.amounts(operators, ("layer", "phase"))
        if on_host
        else devices.amounts(work, ("layer", "phase"))
    )
    communication = _rows(dataset, "compare_collectives", filters)
    group = ("kind", "group_name", "group_size", "bucket_bytes")
    parts["collective"] = captures.amounts(communication, group)
    # Rows of a timeline run side by side: their sum is no part of the step.
    shown = pl.col("own_ns") if on_host and "timeline" not in bases else pl.lit(None, pl.Int64)
    parts["host"] = captures.amounts(host.with_columns(shown_ns=shown), ("kind", "name"))
    ranks, sizes = (_known(dataset, c, filters) for c in ("rank", "world_size"))
    return Side(tuple(s for s in steps if s is not None), left_out, ranks, sizes, bases, parts)


def _marked(dataset: Dataset, filters: Filters) -> pl.DataFrame:
    """Where nothing can be accounted, the host's steps, as accounts of which only the span is known."""
    times = _rows(dataset, "step_times", filters).filter(pl.col("host_ns").is_not_null())
    unknown = {c: pl.lit(None, pl.Int64) for c in (*_BUCKETS, "comm_ns", "device_id")}
    return times.select(
        "process_id", "step", span_ns="host_ns", host_ns=pl.lit(None, pl.Int64), basis=pl.lit("step markers"),
        **unknown,
    )  # fmt: skip


def _rows(dataset: Dataset, name: str, filters: Filters) -> pl.DataFrame:
    """A metric's rows under those of the filters that have a meaning for it."""
    can: Mapping[FilterName, object] = metrics()[name].filters
    return run(
        dataset,
        name,
        Filters(
            ranks=filters.ranks if "rank" in can else None,
            steps=filters.steps if "step" in can else None,
            layer=filters.layer if "layer" in can else None,
        ),
    ).pl()


def _steps(
    dataset: Dataset, filters: Filters, accounts: pl.DataFrame
) -> tuple[list[int | None], dict[int, str]]:
    """Steps that count, and why others do not. Without any step: one that has no number."""
    found = accounts.filter(pl.col("step").is_not_null())
    if found.is_empty():
        return [None], {}
    if filters.steps is not None:
        return sorted(found["step"].unique()), {}
    times = _rows(dataset, "step_times", filters).filter(~pl.col("steady"))
    left_out = dict(sorted(times.group_by("step").agg(pl.col("left_out").min()).rows()))
    steps = sorted(set(found["step"].unique()) - set(left_out))
    if not steps:
        raise DatasetError(
            f"{dataset.path}: all of its steps are warm-up", "name the steps to compare with --step"
        )
    return list(steps), left_out


def _known(dataset: Dataset, column: str, filters: Filters) -> tuple[int, ...]:
    rows = dataset.table("processes", ["rank", column] if column != "rank" else ["rank"])
    if filters.ranks is not None:
        rows = rows.filter(pc.is_in(rows["rank"], pc.cast(list(filters.ranks), "int32")))
    return tuple(sorted(pc.unique(rows[column].drop_null()).to_pylist()))


class _Steps:
    """Puts amounts of the steps that count beside each other."""

    def __init__(self, steps: Sequence[int | None], accounts: pl.DataFrame, whose: Sequence[str]) -> None:
        self._places = pl.DataFrame(
            {"step": pl.Series(steps, dtype=pl.Int64), "place": np.arange(len(steps), dtype=np.int64)}
        )
        self._length = len(steps)
        present = self._placed(accounts).select("place", *whose).unique().group_by("place").len()
        self._present = np.ones(self._length)
        self._present[present["place"].to_numpy()] = present["len"].to_numpy()

    def _placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.join(self._places, on="step", nulls_equal=True)

    def amounts(self, rows: pl.DataFrame, key: Sequence[str]) -> Amounts:
        """Sums of own_ns, shown_ns and count by key and step, over the number of devices."""
        rows = self._placed(rows)
        keys = rows.select(key).unique(maintain_order=True).with_row_index("row")
        summed = (
            rows.join(keys, on=list(key), nulls_equal=True)
            .group_by("row", "place")
            .agg(pl.col("own_ns", "shown_ns", "count").sum())
        )
        unknown = rows["shown_ns"].is_null().all()
        return Amounts(
            keys.select(key).rows(),
            self._matrix(summed, "own_ns", keys.height),
            None if unknown else self._matrix(summed, "shown_ns", keys.height),
            self._matrix(summed, "count", keys.height),
        )

    def _matrix(self, rows: pl.DataFrame, column: str, height: int) -> Values:
        matrix = np.zeros((height, self._length))
        matrix[rows["row"].to_numpy(), rows["place"].to_numpy()] = rows[column].to_numpy()
        return matrix / self._present

    def columns(self, rows: pl.DataFrame, names: Mapping[str, str]) -> Amounts:
        """Means over the devices of whole columns; a column that is nowhere known is left out."""
        known = [c for c in names if not rows[c].is_null().all()]
        means = self._placed(rows).group_by("place").agg(pl.col(known).mean()).sort("place")
        own = np.full((len(known), self._length), np.nan)
        for row, column in enumerate(known):
            own[row, means["place"].to_numpy()] = means[column].cast(pl.Float64).to_numpy()
        whole = ~np.isnan(own).any(axis=1)
        return Amounts([(names[c],) for c, w in zip(known, whole, strict=True) if w], own[whole], own[whole])
