"""Headers of the metrics: complete, true to what DuckDB returns, on empty and on filled datasets."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from mdtrace.metrics.catalog import Metric, metrics, parse
from mdtrace.metrics.engine import connect
from mdtrace.tables.dataset import Dataset
from mdtrace.tables.schema import tables
from rows import dataset


def _everything(folder: Path) -> Dataset:
    """A bit of every table, over a process with a device and one without."""
    return dataset(
        folder,
        device_ops=[
            {"start_ns": 0, "end_ns": 10, "step": 1, "launch_id": 0, "name": "gemm", "layer_id": 0},
            {"start_ns": 5, "end_ns": 25, "step": 1, "class": "communication", "name": "ncclDevKernel"},
            {"start_ns": 40, "end_ns": 50, "step": 2, "kind": "memcpy", "class": "memcpy", "bytes": 64},
        ],
        launches=[{"start_ns": 0, "dur_ns": 1}],
        layers=[{"path": "net/conv", "name": "conv"}],
        host_ops=[
            {"process_id": 1, "start_ns": 0, "end_ns": 30, "name": "aten::mm", "step": 1},
            {"process_id": 1, "start_ns": 5, "end_ns": 6, "name": "aten::copy_"},
        ],
        steps=[
            {"process_id": p, "step": s, "start_ns": 20 * s, "end_ns": 20 * s + 20, "name": f"Step#{s}"}
            for p in (0, 1)
            for s in (1, 2)
        ],
        collectives=[
            {
                "process_id": 0, "start_ns": 5, "end_ns": 25, "payload_bytes": 1024, "group_size": 2,
                "instance_id": 0, "device_op_id": 1, "step": 1,
            },
            {
                "process_id": 1, "start_ns": 10, "end_ns": 24, "payload_bytes": 1024, "group_size": 2,
                "instance_id": 0, "evidence": "host record", "step": 1,
            },
        ],
        instances=[{"instance_id": 0, "synchronising": True, "evidence": "kernel", "present": 2}],
        clocks=[{"process_id": p, "offset_ns": 0, "error_ns": 1} for p in (0, 1)],
    )  # fmt: skip


@pytest.fixture(scope="module", params=["empty", "filled"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp(request.param)
    empty = request.param == "empty"
    opened = dataset(folder, processes=[], sources=[]) if empty else _everything(folder)
    with connect(opened, threads=1) as connected:
        yield connected


@pytest.mark.parametrize("metric", metrics().values(), ids=list(metrics()))
def test_the_header_is_true_of_what_comes_out(metric: Metric, connection: duckdb.DuckDBPyConnection) -> None:
    answer = connection.sql(f"FROM {metric.name}")
    declared = [(c.name, c.type) for c in metric.columns]
    assert list(zip(answer.columns, map(str, answer.types), strict=True)) == declared
    rows = answer.to_arrow_table()
    for column in metric.columns:
        if column.null is None:
            assert rows[column.name].null_count == 0, column.name


@pytest.mark.parametrize("metric", metrics().values(), ids=list(metrics()))
def test_the_header_says_what_the_select_reads(metric: Metric) -> None:
    sql = re.sub(r"--.*", "", metric.sql)
    named = set(re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", sql))
    assert named & {*tables(), *metrics()} <= set(metric.reads) <= set(re.findall(r"\w+", sql))


@pytest.mark.parametrize("metric", metrics().values(), ids=list(metrics()))
def test_row_filters_have_their_column(metric: Metric) -> None:
    columns = {c.name for c in metric.columns}
    assert {name for name, mode in metric.filters.items() if mode == "rows"} <= columns


def test_units_stand_with_the_names_that_carry_them() -> None:
    endings = {"_ns": "ns", "_bytes": "byte", "_gb_s": "GB/s"}
    for metric in metrics().values():
        for column in metric.columns:
            for ending, unit in endings.items():
                if column.name.endswith(ending):
                    assert column.unit == unit, f"{metric.name}.{column.name}"


def test_metrics_come_after_what_they_read() -> None:
    seen: set[str] = set()
    for metric in metrics().values():
        assert set(metric.reads) & set(metrics()) <= seen, metric.name
        seen.add(metric.name)


HEADER = "-- purpose: a\n-- grain: b\n-- reads: steps\n"


def test_a_header_is_read() -> None:
    metric = parse(
        "some",
        "-- purpose: a question\n--   on two lines.\n-- grain: one row per step\n"
        "-- reads: steps, device_ops\n"
        "-- filter: rank rows\n-- parameter: factor DOUBLE = 1.5; how much\n"
        "-- column: wait_ns BIGINT [ns] time; waited; NULL: never\n-- column: name VARCHAR text\n"
        "SELECT 1",
    )
    assert metric.purpose == "a question on two lines."
    assert metric.reads == ("steps", "device_ops")
    assert metric.filters == {"rank": "rows"}
    assert (metric.parameters[0].name, metric.parameters[0].default) == ("factor", "1.5")
    first, second = metric.columns
    assert (first.name, first.type, first.unit, first.doc) == ("wait_ns", "BIGINT", "ns", "time; waited")
    assert first.null == "never"
    assert (second.unit, second.null) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- purpose: a\n-- reads: steps\nSELECT 1",
        HEADER + "-- author: me\nSELECT 1",
        HEADER + "-- column: wait_ns\nSELECT 1",
        HEADER + "-- filter: rank always\nSELECT 1",
        HEADER + "-- per: rank\nSELECT 1",
        HEADER + "CREATE TABLE x AS SELECT 1",
        HEADER + "SELECT 1; DROP TABLE x",
    ],
)
def test_a_header_that_says_too_little_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="some"):
        parse("some", text)
