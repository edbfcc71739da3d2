"""Reproduction inputs: what each must come out as."""

from pathlib import Path

import pytest

from mdtrace.errors import InputError
from nsys_export import BASE, Read
from shared import shared


def test_two_processes_with_the_same_correlations(tmp_path: Path) -> None:
    read = Read(
        shared("cases", "16_same_correlation_id_in_two_processes", "two_procs.sqlite"), tmp_path / "s"
    )
    assert [p.pid for p in read.processes] == [11, 12]
    delays = []
    for process in (0, 1):
        ends = {c["correlation"]: c["start_ns"] + c["dur_ns"] for c in read.rows("launches", process)}
        kernels = read.rows("device_ops", process)
        delays.append([k["start_ns"] - ends[k["correlation"]] for k in kernels])
    assert delays == [[500, 700], [90, 100]]


def test_graph_kernels(tmp_path: Path) -> None:
    read = Read(shared("cases", "18_cuda_graph_kernels", "graph.sqlite"), tmp_path / "s")
    kernels = read.rows("device_ops")
    assert len(kernels) == 7
    assert sum(k["correlation"] == 50 for k in kernels) == 5
    assert sum(k["dur_ns"] for k in kernels) == 56_000
    assert all("graph_node_id" in k for k in kernels)
    assert [c["name"] for c in read.rows("launches")] == ["cudaGraphLaunch"]


def test_graph_level(tmp_path: Path) -> None:
    read = Read(shared("cases", "18_cuda_graph_kernels", "graph_level.sqlite"), tmp_path / "s")
    (graph,) = read.rows("device_ops")
    assert (graph["kind"], graph["class"], graph["dur_ns"], graph["correlation"]) == (
        "graph",
        "compute",
        1000,
        50,
    )


def test_no_nvtx(tmp_path: Path) -> None:
    read = Read(shared("cases", "30_nsys_missing_tables", "no_nvtx.sqlite"), tmp_path / "s")
    assert [k["dur_ns"] for k in read.rows("device_ops")] == [1000]
    assert [c["dur_ns"] for c in read.rows("launches")] == [100]
    assert read.codes() == {"no_host_ops": 1}


def test_no_cupti(tmp_path: Path) -> None:
    read = Read(shared("cases", "30_nsys_missing_tables", "no_cupti.sqlite"), tmp_path / "s")
    assert [(r["name"], r["dur_ns"]) for r in read.rows("host_ops")] == [("step", 5000)]
    assert read.codes() == {"no_kernels": 1}


def test_nothing(tmp_path: Path) -> None:
    read = Read(shared("cases", "30_nsys_missing_tables", "nothing.sqlite"), tmp_path / "s")
    assert read.processes == []
    assert read.codes() == {"empty_source": 1}


def test_a_report_renamed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not_sqlite.sqlite: not an SQLite export.*\n.*nsys export"):
        Read(shared("cases", "30_nsys_missing_tables", "not_sqlite.sqlite"), tmp_path / "s")


def test_names_that_are_not_there(tmp_path: Path) -> None:
    read = Read(shared("cases", "32_nsys_missing_stringids", "missing_id.sqlite"), tmp_path / "s")
    assert [k.get("name") for k in read.rows("device_ops")] == ["gemm_kernel", None]
    assert sum(k["dur_ns"] for k in read.rows("device_ops")) == 2000
    assert [c.get("name") for c in read.rows("launches")] == [None]
    assert read.codes()["names_missing"] == 1  # the kernel; the launch names nothing


def test_no_string_ids(tmp_path: Path) -> None:
    read = Read(shared("cases", "32_nsys_missing_stringids", "no_stringids.sqlite"), tmp_path / "s")
    assert [(k.get("name"), k["class"]) for k in read.rows("device_ops")] == [(None, "compute")]
    assert read.codes()["names_missing"] == 1


def test_one_report_a_process(tmp_path: Path) -> None:
    starts = []
    for rank in (0, 1):
        path = shared("cases", "34_nsys_one_report_per_process", f"rank{rank}.sqlite")
        read = Read(path, tmp_path / f"s{rank}")
        (row,) = read.rows("device_ops")
        assert read.processes[0].rank is None  # the name of the file is not the reader's business
        assert row["class"] == "communication"
        starts.append((row["start_ns"], row["start_ns"] + row["dur_ns"]))
    assert starts == [
        (BASE + 10_000_000_500, BASE + 10_000_100_500),
        (BASE + 10_000_040_500, BASE + 10_000_100_500),
    ]
