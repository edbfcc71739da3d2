"""What is read from a dataset for a trace: a connection, the captures, and their clocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdtrace.metrics.engine import database
from mdtrace.metrics.filters import Filters
from mdtrace.metrics.sources import empty_sql, parquet_sql
from mdtrace.metrics.time_range import time_ranges
from mdtrace.tables.dataset import Dataset

_BOUND = 2**62 - 1  # as in metrics: differences of times within it fit an int64
_BATCH = 20_000
_OF_PROCESS = re.compile(r"p(\d+)-\d+\.parquet")


@dataclass(frozen=True)
class Capture:
    """A capture that goes into the trace.

    Attributes:
        zero: time of its timeline's first event, on the reference clock, in ns.
        between: start times wanted, from and to, on the capture's own clock; None: all.
    """

    process_id: int
    rank: int | None
    host: str | None
    os_pid: int | None
    timeline: int
    offset: int
    drift: float
    origin: int
    zero: int
    between: tuple[int, int] | None

    def aligned(self, time: str) -> str:
        """SQL: a time of this capture, since the zero, on the reference clock; NULL where it is NULL."""
        ahead = min(max(self.offset + self.zero, -_BOUND), _BOUND)
        drift = f" - round({self.drift!r} * (bounded({time}) - {self.origin}))::BIGINT" if self.drift else ""
        return f"(bounded({time}) - {ahead}{drift})"

    def at(self, time: int) -> int:
        """The same of a number."""
        return time - self.offset - round(self.drift * (time - self.origin)) - self.zero


# A NULL stays one: greatest and least alone would pass it over.
_MACROS = f"""
    CREATE MACRO bounded(t) AS
        CASE WHEN t IS NOT NULL THEN least(greatest(t, {-_BOUND}::BIGINT), {_BOUND}::BIGINT) END;
    CREATE MACRO ended(t, length) AS
        CASE WHEN length IS NOT NULL THEN bounded(bounded(t) + bounded(greatest(length, 0))) END;
"""


class Source:
    """The rows of a dataset that are wanted."""

    def __init__(self, dataset: Dataset, filters: Filters) -> None:
        self.dataset = dataset
        self.filters = filters
        self._connection = database()
        self._connection.execute(_MACROS)
        for table in ("processes", "sources", "clocks"):
            files = dataset.files[table]
            self._connection.execute(
                f"CREATE VIEW {table} AS {parquet_sql(files) if files else empty_sql(table)}"
            )
        self.captures = self._captures()

    def rows(self, capture: Capture, query: str, *read: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a query over the named tables, which hold the capture's rows alone."""
        cursor = self._connection.cursor()  # its temporary views are its own
        for table in read:
            cursor.execute(f"CREATE TEMP VIEW {table} AS {self._of(capture, table)}")
        cursor.execute(query)
        while batch := cursor.fetchmany(_BATCH):
            yield from batch

    def wanted(self, capture: Capture, start: str, step: str | None = "step") -> str:
        """SQL: whether a row is wanted, by its own start and step."""
        conditions = ["true"]
        if capture.between is not None:
            conditions.append(f"({start} >= {capture.between[0]} AND {start} < {capture.between[1]})")
        if self.filters.steps is not None and step is not None:
            numbers = ", ".join(map(str, self.filters.steps)) or "NULL"
            conditions.append(f"coalesce({step} IN ({numbers}), false)")
        return " AND ".join(conditions)

    def inside_steps(self, time: str) -> str:
        """SQL: a time lies in a step that is wanted, by the steps' markers."""
        if self.filters.steps is None:
            return "true"
        numbers = ", ".join(map(str, self.filters.steps)) or "NULL"
        return (
            f"EXISTS (SELECT 1 FROM steps WHERE step IN ({numbers})"
            f" AND start_ns <= {time} AND {time} < coalesce(end_ns, {_BOUND}))"
        )

    def _of(self, capture: Capture, table: str) -> str:
        files = []
        for file in self.dataset.files[table]:
            match = _OF_PROCESS.fullmatch(file.name)
            if match is None or int(match[1]) == capture.process_id:
                files.append(file)
        if not files:
            return empty_sql(table)
        return f"{parquet_sql(files)} WHERE process_id = {capture.process_id}"

    def _captures(self) -> list[Capture]:
        ranges = time_ranges(self._connection, self.filters.time, _BOUND)
        rows = self._connection.execute(
            """
            SELECT process_id, p.rank, p.host, p.pid, coalesce(timeline, -1 - process_id),
                   coalesce(offset_ns, 0), coalesce(drift_ppb, 0) / 1e9, coalesce(drift_origin_ns, 0),
                   coalesce(start_ns, 0)
            FROM processes AS p LEFT JOIN clocks USING (process_id)
            ORDER BY p.rank NULLS LAST, process_id
            """
        ).fetchall()
        zeros: dict[int, int] = {}
        for _, _, _, _, timeline, offset, drift, origin, start in rows:
            first = start - offset - round(drift * (start - origin))
            zeros[timeline] = min(zeros.get(timeline, first), first)
        wanted = self.filters.ranks
        captures = []
        for process_id, rank, host, os_pid, timeline, offset, drift, origin, _ in rows:
            if wanted is None or rank in wanted:
                zero, between = zeros[timeline], ranges.get(process_id)
                captures.append(
                    Capture(process_id, rank, host, os_pid, timeline, offset, drift, origin, zero, between)
                )
        return captures
