"""The engine: views, filters, parameters, errors, and what the answers come as."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from mdtrace import metrics
from mdtrace.errors import UsageError
from mdtrace.metrics import Filters
from mdtrace.metrics.engine import connect, run
from mdtrace.tables.dataset import Dataset
from mdtrace.tables.schema import tables
from rows import dataset


@pytest.fixture
def job(tmp_path: Path) -> Dataset:
    """Two ranks and one of unknown rank; steps 1 and 2; files that count from zero of their own."""
    return dataset(
        tmp_path / "job's [1]*.mdtrace",
        processes=[
            {"process_id": 0, "rank": 0, "start_ns": 1000},
            {"process_id": 1, "rank": 1, "start_ns": 1100, "source_id": 1},
            {"process_id": 2, "rank": None, "start_ns": 50, "source_id": 2},
        ],
        sources=[
            {"source_id": 0}, {"source_id": 1}, {"source_id": 2, "clock_base": "file"},
        ],
        steps=[
            {"process_id": p, "step": s, "start_ns": 900 + 100 * s, "end_ns": 1000 + 100 * s}
            for p in (0, 1)
            for s in (1, 2)
        ],
        device_ops=[
            {"process_id": 0, "start_ns": 1000, "end_ns": 1050, "step": 1, "name": "a"},
            {"process_id": 0, "start_ns": 1150, "end_ns": 1200, "step": 2, "name": "a"},
            {"process_id": 1, "start_ns": 1100, "end_ns": 1140, "step": 2, "name": "b"},
            {"process_id": 2, "start_ns": 60, "end_ns": 160, "name": "b"},
        ],
    )  # fmt: skip


def _rows(job: Dataset, name: str, filters: Filters | None = None) -> list[dict[str, Any]]:
    return run(job, name, filters).arrow().to_pylist()


def test_every_table_is_there_with_its_types_even_without_rows(job: Dataset) -> None:
    connection = connect(job)
    for name, table in tables().items():
        answer = connection.sql(f"FROM {name}")
        assert answer.columns == [c.name for c in table.columns]
        assert answer.to_arrow_table().schema.types == table.arrow().types


def test_the_rank_filter_picks_rows(job: Dataset) -> None:
    assert [r["process_id"] for r in _rows(job, "time_breakdown", Filters(ranks=(1, 7)))] == [1]
    assert _rows(job, "time_breakdown", Filters(ranks=())) == []
    assert [r["rank"] for r in _rows(job, "time_breakdown")] == [0, 1, None]


def test_the_step_filter_picks_rows_and_changes_none(job: Dataset) -> None:
    whole = _rows(job, "step_breakdown")
    assert _rows(job, "step_breakdown", Filters(steps=(2,))) == [r for r in whole if r["step"] == 2]
    # what is steady was decided with all steps
    assert [r["steady"] for r in _rows(job, "step_times", Filters(steps=(1,)))] == [False, False]


@pytest.mark.parametrize(
    ("time", "compute"),
    [
        ((None, None), [100, 40, 100]),
        ((1025, 1175), [50, 40, 0]),  # as the tables hold it: the third file's clock never gets there
        ((25e-9, 175e-9), [50, 40, 85]),  # after the start: of the job, or of the file
        ((25e-9, None), [75, 40, 85]),
        ((None, 1e-6), [100, 40, 100]),
        ((300e-9, 200e-9), [0, 0, 0]),
    ],
)
def test_a_time_range_cuts_intervals(job: Dataset, time: tuple[Any, Any], compute: list[int]) -> None:
    rows = _rows(job, "time_breakdown", Filters(time=time))
    assert [r["compute_ns"] for r in rows] == compute
    for row in rows:
        parts = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")
        assert sum(row[p] for p in parts) == row["span_ns"]


def test_a_time_range_counts_what_starts_in_it_whole(job: Dataset) -> None:
    rows = _rows(job, "kernel_summary", Filters(time=(100e-9, 160e-9)))
    assert [(r["name"], r["count"], r["total_ns"]) for r in rows] == [("a", 1, 50), ("b", 1, 40)]


def test_a_filter_that_has_no_meaning_is_refused(job: Dataset) -> None:
    with pytest.raises(UsageError, match="time_breakdown has no step to filter by"):
        run(job, "time_breakdown", Filters(steps=(1,)))
    with pytest.raises(UsageError, match="kernelz: no such metric"):
        run(job, "kernelz")
    with pytest.raises(UsageError, match="no metric has a parameter factor"):
        run(job, "step_times", factor=2)
    with pytest.raises(UsageError, match="not a DOUBLE"):
        run(job, "step_times", warm_up_factor="fast")


def test_a_filtered_connection_keeps_the_whole_answers_beside(job: Dataset) -> None:
    connection = connect(job, Filters(ranks=(1,)))
    assert connection.sql("SELECT count(*) FROM time_breakdown").fetchall() == [(1,)]
    assert connection.sql("SELECT count(*) FROM whole.time_breakdown").fetchall() == [(3,)]
    assert connection.sql("SELECT count(*) FROM device_ops").fetchall() == [(4,)]


def test_answers_carry_their_documentation(job: Dataset) -> None:
    field = run(job, "time_breakdown").arrow().schema.field("overlap_ns")
    assert field.metadata[b"unit"] == b"ns"
    assert field.metadata[b"null"].startswith(b"there is no communication")


def test_answers_come_as_arrow_pandas_and_polars_with_exact_integers(job: Dataset) -> None:
    result = metrics.overlap(job, by="rank")
    assert isinstance(result.arrow(), pa.Table)
    frame = result.df()
    assert str(frame["overlap_ns"].dtype) == "Int64"
    assert frame["rank"].isna().tolist() == [False, False, True]
    assert result.pl()["compute_ns"].to_list() == [100, 40, 100]


def test_functions_name_the_views(job: Dataset) -> None:
    assert metrics.overlap(job, by="step").metric.name == "step_breakdown"
    assert metrics.overlap(job, by="layer").metric.name == "layer_breakdown"
    by_rank = metrics.overlap(job, "rank", Filters(steps=(1,)))
    assert (by_rank.metric.name, by_rank.arrow()["compute_ns"].to_pylist()) == ("steady_breakdown", [50])
    assert metrics.steady(job).arrow()["steps"].to_pylist() == [1, 1]
    assert metrics.idle(job, filters=Filters(steps=(1,))).metric.name == "step_idle_breakdown"
    for call in (metrics.kernels, metrics.ops, metrics.steps, metrics.collectives):
        assert call(job).arrow().num_rows >= 0
    with pytest.raises(UsageError, match="by node"):
        metrics.overlap(job, by="node")  # type: ignore[arg-type]


def test_metrics_load_duckdb_only_when_asked() -> None:
    code = "import sys, mdtrace.metrics; sys.exit('duckdb' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_extension_is_fetched(job: Dataset) -> None:
    with pytest.raises(duckdb.Error):
        connect(job).execute("FROM sqlite_scan('x', 'y')")


def test_parts_equal_one_part_at_a_time(tmp_path: Path) -> None:
    """Many devices in one process, whose windows must not run into each other."""
    ops = [
        {"start_ns": 10 * d, "end_ns": 10 * d + 1000 - 100 * d, "device_id": d, "process_id": p}
        for p in range(3)
        for d in range(8)
    ]
    rows = _rows(dataset(tmp_path, device_ops=ops), "time_breakdown")
    assert [r["compute_ns"] for r in rows] == [1000 - 100 * d for d in range(8)] * 3
    assert {r["idle_ns"] for r in rows} == {0}
