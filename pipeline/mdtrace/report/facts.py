"""What a report rests on: the answers of the metrics, read once, and why some are empty."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from mdtrace.metrics.answers import Answer, answers
from mdtrace.metrics.catalog import metrics
from mdtrace.metrics.engine import connect
from mdtrace.metrics.stragglers import Verdict, verdict
from mdtrace.report.outlook import Outlook, look
from mdtrace.tables.dataset import Dataset

Row = Mapping[str, Any]

# Long chains of views that several answers read; kept as tables once read.
_KEPT = ("arrival_skew", "straggler_steps", "straggler_blame", "step_breakdown", "roofline_figures")
_METRICS = (
    "job_roofline", "time_breakdown", "steady_breakdown", "step_breakdown", "step_summary",
    "step_idle_breakdown", "idle_breakdown", "layer_roofline", "hardware_roofs", "collective_bandwidth",
    "roofline_bus", "straggler_ranks", "straggler_steps", "clock_offsets", "kernel_summary",
    "operator_summary", "cost_coverage", "cost_unknown", "trajectory",
)  # fmt: skip
_TOP = {"kernel_summary": 20, "operator_summary": 20, "cost_unknown": 12}


@dataclass(frozen=True)
class Facts:
    """The answers by metric, and what the dataset itself says.

    Attributes:
        name: of the dataset.
        tables: by metric; empty where nothing is known.
        failed: by metric, why it could not be answered at all.
        layout: rows of the tables sources, processes, devices and diagnostics.
        outlook: what models say would change it.
    """

    name: str
    tables: Mapping[str, pa.Table]
    failed: Mapping[str, str]
    layout: Mapping[str, Sequence[Row]]
    questions: Sequence[Answer]
    stragglers: Verdict
    outlook: Outlook = Outlook()  # noqa: RUF009 - frozen

    def rows(self, metric: str) -> list[dict[str, Any]]:
        """A metric's rows."""
        found: list[dict[str, Any]] = self.tables[metric].to_pylist()
        return found

    @property
    def job(self) -> Row | None:
        """The row of `job_roofline`; None: nothing was accounted."""
        rows = self.rows("job_roofline")
        return rows[0] if rows else None

    @property
    def totals(self) -> tuple[str, list[dict[str, Any]]]:
        """The account of each device: over the steps that count, without steps over the capture; its view."""
        for name in ("steady_breakdown", "time_breakdown"):
            rows = [row for row in self.rows(name) if row["span_ns"]]
            if rows:
                return name, rows
        return "time_breakdown", []

    @property
    def on_host(self) -> bool:
        """Whether compute is that of operators on CPUs: no device activity was captured."""
        bases = {row["basis"] for row in self.totals[1]}
        return bases == {"host records"}

    @property
    def timeline(self) -> bool:
        """Whether communication alone is known: all files are timelines."""
        bases = {row["basis"] for row in self.totals[1]}
        return bases == {"timeline"}

    @property
    def step_ns(self) -> float | None:
        """Mean length of a device's step; None: there are no steps."""
        rows = [row for row in self.rows("steady_breakdown") if row["span_ns"] and row["steps"]]
        steps = sum(row["steps"] for row in rows)
        return sum(row["span_ns"] for row in rows) / steps if steps else None


def read(dataset: Dataset, hardware: str | None = None) -> Facts:
    """Ask a dataset everything that a report shows.

    Args:
        hardware: an entry of the hardware table, a user's file, `empirical`, or None: by device names.

    Raises:
        UsageError, InputError: no such hardware, or its file cannot be used.
    """
    tables, failed = _answered(dataset, hardware)
    return Facts(
        name=dataset.path.name,
        tables=tables,
        failed=failed,
        layout={name: dataset.table(name).to_pylist() for name in _LAYOUT},
        questions=answers(dataset),
        stragglers=_verdict(dataset, failed),
        outlook=look(dataset),
    )


_LAYOUT = ("sources", "processes", "devices", "diagnostics")


def _answered(dataset: Dataset, hardware: str | None) -> tuple[dict[str, pa.Table], dict[str, str]]:
    tables: dict[str, pa.Table] = {}
    failed: dict[str, str] = {}
    with connect(dataset, hardware=hardware) as connection:
        for name in _KEPT:
            _keep(connection, name)
        for name in _METRICS:
            limit = f" LIMIT {_TOP[name]}" if name in _TOP else ""
            try:
                tables[name] = connection.sql(f"FROM {name}{limit}").to_arrow_table()
            except duckdb.Error as error:
                tables[name] = _empty(name)
                failed[name] = str(error).splitlines()[0]
    return tables, failed


def _keep(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Read a view once; those that read it, and whoever asks, then read a table."""
    try:
        connection.execute(f"CREATE TABLE kept_{name} AS FROM {name}")
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS FROM kept_{name}")
    except duckdb.Error:
        return  # whoever asks for it gets the error, and says so


def _empty(name: str) -> pa.Table:
    return pa.table({column.name: pa.array([], pa.null()) for column in metrics()[name].columns})


def _verdict(dataset: Dataset, failed: Mapping[str, str]) -> Verdict:
    if "straggler_ranks" in failed:
        return Verdict(f"cannot be said: {failed['straggler_ranks']}", None, (), None)
    return verdict(dataset)
