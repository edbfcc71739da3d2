"""Collectives across ranks: which rows of `collectives` are one operation of the job."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.link.clocks import solve_clocks
from mdtrace.link.instances_groups import resolve_groups
from mdtrace.link.instances_match import match
from mdtrace.link.instances_rows import Ints, Rows, integers, read_rows
from mdtrace.link.instances_seq import Labels
from mdtrace.link.instances_tables import instances_table, matches_table, number_instances
from mdtrace.tables.dataset import Dataset
from mdtrace.tables.diagnostics import Diagnostic


@dataclass
class Matched:
    """What matching found.

    Attributes:
        instance_ids: by process_id the `instance_id` of its collectives, in table order; NULL: not matched.
        tables: rows of instances, matches and clocks.
    """

    instance_ids: dict[int, pa.Array] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def match_collectives(dataset: Dataset) -> Matched:
    """Match the collectives of all captures of a dataset and solve their clocks.

    Memory is a few hundred bytes per collective; the time nearly linear in their number.
    """
    rows = read_rows(dataset)
    processes = dataset.table("processes")
    group, groups = resolve_groups(rows, _world_size(processes))
    timeline = rows.evidence == rows.code("timeline")
    labels = match(rows, group, groups, timeline, _named_steps(dataset))
    instance = number_instances(rows, labels)
    arrived = _arrived(dataset)
    instances = instances_table(rows, group, groups, labels, instance, _first_steps(dataset), arrived)
    clocks, found = solve_clocks(dataset, rows, instance)
    tables = {"instances": instances, "matches": matches_table(rows, labels, instance), "clocks": clocks}
    return Matched(_by_process(rows, instance), tables, [*_diagnostics(rows, labels, instance), *found])


def _world_size(processes: pa.Table) -> int | None:
    """Ranks in the job: the largest that a capture states."""
    sizes: int | None = pc.max(processes.column("world_size")).as_py()
    return sizes


def _named_steps(dataset: Dataset) -> dict[int, bool]:
    """By process, whether its step numbers stand in the markers' texts: the job's own, not counted here."""
    table = dataset.table("steps", ["process_id", "step", "name"])
    own: dict[int, bool] = {}
    for process, step, name in zip(*(table.column(c).to_pylist() for c in table.column_names), strict=True):
        own[process] = own.get(process, True) and str(step) in (name or "")
    return own


def _first_steps(dataset: Dataset) -> dict[int, int]:
    """By process, when its first step starts."""
    table = dataset.table("steps", ["process_id", "start_ns"])
    first = table.group_by("process_id").aggregate([("start_ns", "min")])
    return dict(
        zip(first.column("process_id").to_pylist(), first.column("start_ns_min").to_pylist(), strict=True)
    )


def _arrived(dataset: Dataset) -> Mapping[int, int]:
    """By collective the number of ranks with a readiness tick; the key is process_id << 40 | row."""
    table = dataset.table("arrivals", ["collective_id", "rank"])
    table = table.filter(pc.is_valid(table.column("collective_id")))
    counts = table.group_by("collective_id").aggregate([("rank", "count_distinct")])
    ids = integers(counts.column("collective_id")).tolist()
    return dict(zip(ids, counts.column("rank_count_distinct").to_pylist(), strict=True))


def _by_process(rows: Rows, instance: Ints) -> dict[int, pa.Array]:
    """Instance ids as one nullable column per process."""
    columns: dict[int, pa.Array] = {}
    for process in np.unique(rows.process).tolist():
        own = instance[rows.process == process]
        columns[process] = pa.array(own, pa.int64(), mask=own < 0)
    return columns


def _diagnostics(rows: Rows, labels: Labels, instance: Ints) -> list[Diagnostic]:
    """Findings about the job's collectives that a reader of figures must know."""
    alone = instance < 0
    found = []
    for code, reason in (
        ("collectives_ambiguous", 1),
        ("collectives_unlike", 2),
        ("collectives_captured_twice", 3),
        ("collectives_without_group", 5),
    ):
        count = int((alone & (labels.reason == reason)).sum())
        if count:
            found.append(Diagnostic(code, count))
    return found
