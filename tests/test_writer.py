"""Rows to Parquet: cut at fixed row numbers, the same bytes however they were batched."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdtrace.ingest.stage import staged_schema
from mdtrace.tables import writer


def batch(first: int, count: int) -> pa.RecordBatch:
    schema = staged_schema("launches")
    columns = [
        pa.array(range(first, first + count), pa.int64())
        if f.name == "start_ns"
        else pa.array([False] * count)
        if f.name == "duplicate"
        else pa.array(["runtime"] * count)
        if f.name == "api"
        else pa.nulls(count, f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write(folder: Path, batches: list[pa.RecordBatch], first_row: int = 0) -> int:
    rows = sum(b.num_rows for b in batches)
    linked = {"step": pa.array([7] * rows, pa.int64()), "device_op_count": pa.array([1] * rows, pa.int32())}
    return writer.write_rows(
        folder, "launches", batches, process_id=3, rank=2, linked=linked, first_row=first_row
    )


def test_ids_rank_and_linked_columns_are_filled(tmp_path: Path) -> None:
    assert write(tmp_path, [batch(10, 2)]) == 2
    (file,) = (tmp_path / "launches").iterdir()
    table = pq.read_table(file)
    assert table.column("launch_id").to_pylist() == [3 << 40, (3 << 40) + 1]
    assert table.column("process_id").to_pylist() == [3, 3]
    assert table.column("rank").to_pylist() == [2, 2]
    assert table.column("step").to_pylist() == [7, 7]
    assert table.column("host_op_id").null_count == 2


def test_batching_does_not_change_a_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROW_GROUP", 4)
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    write(whole, [batch(0, 11)])
    write(pieces, [batch(0, 3), batch(3, 6), batch(9, 2)])
    (a,), (b,) = (whole / "launches").iterdir(), (pieces / "launches").iterdir()
    assert a.read_bytes() == b.read_bytes()
    assert [pq.ParquetFile(a).metadata.row_group(i).num_rows for i in range(3)] == [4, 4, 3]
    assert pq.read_table(a).column("start_ns").to_pylist() == list(range(11))


def test_a_later_part_has_its_own_file_and_goes_on_counting(tmp_path: Path) -> None:
    write(tmp_path, [batch(0, 1)], first_row=writer.ROWS_PER_FILE)
    (file,) = (tmp_path / "launches").iterdir()
    assert file.name == "p00003-0001.parquet"
    assert pq.read_table(file).column("launch_id").to_pylist() == [(3 << 40) + writer.ROWS_PER_FILE]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, []) == 0
    assert not tmp_path.joinpath("launches").exists()
