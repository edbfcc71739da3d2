"""Rows between reading and linking."""

from pathlib import Path

import pyarrow as pa
import pytest

from mdtrace.ingest.stage import Stage, StagedProcess


def staged(folder: Path) -> StagedProcess:
    """Two segments of one process (7), rows 0…2 and 3…4, and one row of another."""
    for segment, starts in enumerate(([1, 2, 3], [4, 5])):
        stage = Stage(folder, segment)
        stage.write(7, "device_ops", {"start_ns": starts, "dur_ns": [None] * len(starts)})
        stage.write(7, "comm_records", {"anchor": ["device_ops"], "row": [len(starts) - 1]})
        if segment:
            stage.write(8, "device_ops", {"start_ns": [9]})
        stage.close()
    return StagedProcess(folder, (7,))


def test_segments_follow_each_other(tmp_path: Path) -> None:
    process = staged(tmp_path)
    assert process.rows("device_ops") == 5
    table = process.table("device_ops", ["dur_ns", "start_ns"])
    assert table.schema.names == ["dur_ns", "start_ns"]
    assert table.column("start_ns").to_pylist() == [1, 2, 3, 4, 5]
    assert table.column("dur_ns").null_count == 5


@pytest.mark.parametrize(
    ("start", "stop", "rows"),
    [(0, None, [1, 2, 3, 4, 5]), (1, 4, [2, 3, 4]), (3, 4, [4]), (5, 9, []), (0, 0, [])],
)
def test_a_range_of_rows(tmp_path: Path, start: int, stop: int | None, rows: list[int]) -> None:
    batches = staged(tmp_path).batches("device_ops", start, stop)
    assert [v for b in batches for v in b.column("start_ns").to_pylist()] == rows


def test_anchors_count_through_the_segments(tmp_path: Path) -> None:
    assert staged(tmp_path).table("comm_records").column("row").to_pylist() == [2, 4]


def test_several_keys_make_one_process(tmp_path: Path) -> None:
    staged(tmp_path)
    both = StagedProcess(tmp_path, (7, 8))
    assert both.table("device_ops").column("start_ns").to_pylist() == [1, 2, 3, 4, 5, 9]


def test_absent_tables_are_empty_and_absent_columns_null(tmp_path: Path) -> None:
    process = staged(tmp_path)
    assert process.table("host_ops").num_rows == 0
    table = process.table("device_ops")
    assert table.column("name").null_count == 5
    assert table.column("duplicate").to_pylist() == [False] * 5


def test_a_column_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no such columns"):
        Stage(tmp_path).write(1, "device_ops", {"start": [1]})


def test_arrow_arrays_and_chunked_arrays_are_taken(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write(1, "device_ops", {"start_ns": pa.chunked_array([[1], [2]]), "name": pa.array(["a", None])})
    stage.close()
    table = StagedProcess(tmp_path, (1,)).table("device_ops", ["start_ns", "name"])
    assert table.to_pydict() == {"start_ns": [1, 2], "name": ["a", None]}


def test_texts_of_few_values_are_staged_as_codes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    given = ["memcpy", None, "kernel"]
    for kinds in (given, pa.array(given), pa.array(given).dictionary_encode()):
        stage.write(1, "device_ops", {"start_ns": [1, 2, 3], "kind": kinds})
    stage.close()
    process = StagedProcess(tmp_path, (1,))
    assert process.table("device_ops", ["kind"]).column(0).to_pylist() == given * 3
    assert process.table("device_ops").schema.field("kind").type == pa.string()
    (first, *_) = process.batches("device_ops", columns=["kind", "class"], coded=True)
    assert first.column("kind").indices.to_pylist() == [1, None, 0]  # in the order of the declaration
    assert first.column("class").null_count == 3


def test_a_text_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"device_ops.kind: not one of"):
        Stage(tmp_path).write(1, "device_ops", {"start_ns": [1], "kind": ["kernal"]})
