"""Spans, threads, copies and the Parquet form: the same rows however they are read."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdtrace.errors import InputError
from mdtrace.ingest.nsys import duplicates, parquet, sqlite, sqlite_arrow, sqlite_salvage
from mdtrace.ingest.nsys.sink import by_process
from nsys_export import BASE, Read, call, export, global_pid, global_tid, kernel, nvtx, session, strings
from shared import shared

TABLES = ("device_ops", "launches", "host_ops", "counters", "comm_records")


def job(path: Path, kernels: int = 500) -> Path:
    pids = [11, 12, 13]
    return export(
        path,
        StringIds=strings("gemm", "ncclDevKernel_AllReduce", "cudaLaunchKernel_v7000", "step"),
        TARGET_INFO_SESSION_START_TIME=session(),
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(
                7 * i,
                7 * i + 5,
                globalPid=global_pid(pids[i * i % 3]),
                correlationId=i,
                demangledName=1 + i % 2,
            )
            for i in range(kernels)
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(7 * i, 7 * i + 1, globalTid=global_tid(pids[i % 3], 5), correlationId=i, nameId=3)
            for i in range(kernels)
        ],
        NVTX_EVENTS=[
            nvtx(i, i + 1, None if i % 2 else f"aten::add, seq = {i}", textId=4 if i % 2 else None)
            for i in range(kernels)
        ],
        PROFILER_OVERHEAD=[{"start": 1, "end": 2, "globalTid": global_tid(12, 5), "nameId": 4}],
    )


def small_spans(monkeypatch: pytest.MonkeyPatch, rows: int, batch: int) -> None:
    for module in (sqlite, parquet):
        monkeypatch.setattr(module, "SPAN_ROWS", rows)
    for module in (sqlite_arrow, sqlite_salvage, parquet):
        monkeypatch.setattr(module, "BATCH_ROWS", batch)


def everything(read: Read) -> list[Any]:
    rows = [[read.rows(t, i) for t in TABLES] for i in range(len(read.processes))]
    return [rows, [p.pid for p in read.processes], read.facts.events.rows(), read.codes()]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_same_rows_whoever_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    path = job(tmp_path / "x.sqlite")
    whole = everything(Read(path, tmp_path / "whole"))
    small_spans(monkeypatch, 64, 16)
    split = Read(path, tmp_path / "split", workers)
    assert everything(split) == whole
    assert len(list((tmp_path / "split").glob("[0-9]*"))) == 8 * 3 + 1


def test_staged_files_do_not_depend_on_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = job(tmp_path / "x.sqlite")
    small_spans(monkeypatch, 64, 16)
    files = []
    for workers in (1, 3):
        read = Read(path, tmp_path / f"w{workers}", workers)
        files.append(
            {f.relative_to(read.folder): f.read_bytes() for f in read.folder.rglob("*") if f.is_file()}
        )
    assert files[0] == files[1]


def test_rowids_with_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = job(tmp_path / "x.sqlite", 200)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId BETWEEN 30 AND 170")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = 1 << 40 WHERE correlationId = 199")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = -5 WHERE correlationId = 0")
    db.close()
    small_spans(monkeypatch, 16, 4)
    read = Read(path, tmp_path / "s", 2)
    found = sorted(r["correlation"] for i in range(3) for r in read.rows("device_ops", i))
    assert found == [*range(30), *range(171, 200)]


@pytest.mark.parametrize("span", [1000, 8])
@pytest.mark.parametrize("at_once", [1 << 20, 4])
def test_copies_are_flagged_over_all_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: int, at_once: int
) -> None:
    rows = [kernel(10 * i, 10 * i + 5, correlationId=i, gridId=i) for i in range(20)]
    copies = [rows[3], rows[3], rows[19]]
    near = [{**rows[4], "gridId": 99}, {**rows[5], "globalPid": global_pid(12)}]
    calls = [call(0, 1), call(0, 1), call(0, 1, correlationId=2)]
    ranges = [nvtx(0, 1, "a"), nvtx(0, 1, "b"), nvtx(0, 1, "a")]
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm"),
        CUPTI_ACTIVITY_KIND_KERNEL=[*rows, *copies, *near],
        CUPTI_ACTIVITY_KIND_RUNTIME=calls,
        NVTX_EVENTS=ranges,
    )
    small_spans(monkeypatch, span, 4)
    monkeypatch.setattr(duplicates, "_AT_ONCE", at_once)
    read = Read(path, tmp_path / "s", 2)
    flagged = [i for i, r in enumerate(read.rows("device_ops")) if r["duplicate"]]
    assert flagged == [20, 21, 22]
    assert [r["duplicate"] for r in read.rows("launches")] == [False, True, False]
    assert [(r["name"], r["duplicate"]) for r in read.rows("host_ops")] == [
        ("a", False),
        ("b", False),
        ("a", True),
    ]
    assert not any(r["duplicate"] for r in read.rows("device_ops", 1))
    assert read.codes()["duplicate_events"] == 5
    assert read.events() == (25 + 3 + 3, 0)
    assert not list(read.folder.rglob("*.npy"))


def parquetdir(source: Path, folder: Path) -> Path:
    """The same tables as `nsys export --type parquetdir` writes them."""
    folder.mkdir()
    db = sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)
    db.text_factory = bytes
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        table = name.decode()
        declared = [(c[1].decode(), c[2].decode()) for c in db.execute(f'PRAGMA table_info("{table}")')]
        rows = db.execute(f'SELECT * FROM "{table}"').fetchall()
        arrays = {}
        for i, (column, kind) in enumerate(declared):
            values = [r[i] for r in rows]
            if kind == "TEXT":
                arrays[column] = pa.array(
                    [None if v is None else v.decode() for v in values], pa.large_string()
                )
            else:
                arrays[column] = pa.array(values, pa.float64() if kind == "REAL" else pa.int64())
        pq.write_table(pa.table(arrays), folder / f"{table}.parquet", row_group_size=50)
    db.close()
    return folder


@pytest.mark.parametrize(
    "parts",
    [
        ("nsys", "cuda_graph_2025.sqlite"),
        ("nsys", "mpi_saxpy_a100_2021.sqlite"),
        ("own", "nsys_cpu", "ddp_w2_straggler1", "rank1.sqlite"),
    ],
)
def test_parquetdir_gives_the_same_rows(tmp_path: Path, parts: tuple[str, ...]) -> None:
    path = shared("traces", *parts)
    as_sqlite = Read(path, tmp_path / "a")
    as_parquet = Read(parquetdir(path, tmp_path / "p"), tmp_path / "b", 2)
    assert everything(as_parquet) == everything(as_sqlite)
    ours, theirs = as_parquet.facts, as_sqlite.facts
    assert (ours.clock_base_ns, ours.format_version, ours.producer) == (
        theirs.clock_base_ns,
        theirs.format_version,
        theirs.producer,
    )
    assert ours.processes == theirs.processes


def test_parquetdir_in_small_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = job(tmp_path / "x.sqlite")
    whole = everything(Read(path, tmp_path / "a"))
    folder = parquetdir(path, tmp_path / "p")
    small_spans(monkeypatch, 64, 16)
    assert everything(Read(folder, tmp_path / "b", 2)) == whole


def test_parquetdir_with_other_types_and_a_broken_file(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    kernels = {
        "start": pa.array([1, 2], pa.uint64()),
        "end": pa.array([3, 4], pa.int32()),
        "globalPid": pa.array([global_pid(11)] * 2, pa.uint64()),
        "deviceId": pa.array([0, 1], pa.uint32()),
        "correlationId": pa.array(["x", "y"]),
        "demangledName": pa.array(["gemm", "ncclDevKernel_AllReduce"]).dictionary_encode(),
    }
    pq.write_table(pa.table(kernels), folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    (folder / "NVTX_EVENTS.parquet").write_bytes(b"PAR1 cut off")
    read = Read(folder, tmp_path / "s")
    columns = ("name", "class", "start_ns", "dur_ns", "device_id", "correlation")
    assert [tuple(r.get(c) for c in columns) for r in read.rows("device_ops")] == [
        ("gemm", "compute", 1, 2, 0, None),
        ("ncclDevKernel_AllReduce", "communication", 2, 2, 1, None),
    ]
    codes = read.codes()
    assert codes["wrong_types"] == 2
    assert codes["damaged_pages"] == 1
    assert read.facts.truncated


def test_a_folder_of_broken_files(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "NVTX_EVENTS.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="none of its 1 Parquet files"):
        Read(folder, tmp_path / "s")


def test_progress_adds_up_to_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advanced: list[int] = []
    monkeypatch.setattr("mdtrace.ingest.pool.Pool.advance", advanced.append)
    path = job(tmp_path / "x.sqlite")
    Read(path, tmp_path / "s")
    assert sum(advanced) == path.stat().st_size
    assert all(a >= 0 for a in advanced)


def test_rows_by_process() -> None:
    assert by_process(np.array([4, 4, 4])) == [(4, None)]
    split = by_process(np.array([9, 4, 9, 5]))
    assert [(k, rows.tolist()) for k, rows in split if rows is not None] == [(4, [1]), (5, [3]), (9, [0, 2])]


def test_epoch_times_are_exact(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        TARGET_INFO_SESSION_START_TIME=session(),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(2**53 + 1, 2**53 + 4, globalPid=global_pid(2**24 - 1, 3))],
    )
    read = Read(path, tmp_path / "s")
    assert read.rows("device_ops")[0]["start_ns"] == BASE + 2**53 + 1
    assert read.processes[0].pid == 2**24 - 1
