"""Real nsys exports: counts and sums that independent programs found in the same files."""

import sqlite3
from pathlib import Path

import pytest

from nsys_export import Read
from shared import shared

FILES = [
    ("nsys", "ddp_2gpu_2process.sqlite"),
    ("nsys", "cuda_graph_2025.sqlite"),
    ("nsys", "mpi_saxpy_a100_2021.sqlite"),
    ("own", "nsys_cpu", "nvtx_2022.4.sqlite"),
    ("own", "nsys_cpu", "nvtx_2023.4.sqlite"),
    ("own", "nsys_cpu", "every_table_2023.4.sqlite"),
    ("own", "nsys_cpu", "ddp_w2_straggler1", "rank0.sqlite"),
]


def union(intervals: list[tuple[int, int]]) -> int:
    total, reached = 0, -(1 << 62)
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def spans(read: Read, process: int, *classes: str) -> list[tuple[int, int]]:
    rows = read.rows("device_ops", process)
    return [(r["start_ns"], r["start_ns"] + r["dur_ns"]) for r in rows if r["class"] in classes]


@pytest.mark.parametrize("parts", FILES, ids=[f[-1] for f in FILES])
def test_every_row_of_every_event_table_is_accounted_for(tmp_path: Path, parts: tuple[str, ...]) -> None:
    path = shared("traces", *parts)
    read = Read(path, tmp_path / "s")
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = 0
    for table in tables:
        columns = {c[1] for c in db.execute(f"PRAGMA table_info({table})")}
        is_event = {"start", "timestamp"} & columns or table.endswith("CUDA_EVENT")
        if is_event and not table.startswith(("ENUM", "TARGET", "META")):
            rows += db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    db.close()
    assert sum(read.events()) == rows
    staged = ("device_ops", "launches", "host_ops", "counters")
    assert read.events()[0] == sum(read.count(t) for t in staged)


@pytest.mark.parametrize(
    ("process", "pid", "device", "kernels", "comm", "memory", "times"),
    [
        (0, 144, 0, 1993, 33, 643, (253690832, 17172652, 2954303, 299848812)),
        (1, 145, 1, 2017, 33, 646, (256095624, 8229100, 2951192, 298661551)),
    ],
)
def test_two_processes_of_one_report(
    tmp_path: Path,
    process: int,
    pid: int,
    device: int,
    kernels: int,
    comm: int,
    memory: int,
    times: tuple[int, ...],
) -> None:
    read = Read(shared("traces", "nsys", "ddp_2gpu_2process.sqlite"), tmp_path / "s")
    facts = read.processes[process]
    assert (facts.pid, facts.rank, facts.host) == (pid, None, "host0")
    rows = [r for r in read.rows("device_ops", process) if r["kind"] != "sync" and r["device_id"] == device]
    assert sum(r["kind"] == "kernel" for r in rows) == kernels
    assert sum(r["class"] == "communication" for r in rows) == comm
    assert sum(r["kind"] in ("memcpy", "memset") for r in rows) == memory
    of = [{**r, "end": r["start_ns"] + r["dur_ns"]} for r in rows]
    compute = [(r["start_ns"], r["end"]) for r in of if r["class"] == "compute"]
    communication = [(r["start_ns"], r["end"]) for r in of if r["class"] == "communication"]
    every = [(r["start_ns"], r["end"]) for r in of]
    exposed = union(every) - union(compute + communication)
    span = max(e for _, e in every) - min(s for s, _ in every)
    assert (union(compute), union(communication), exposed, span) == times


def test_emit_nvtx_texts_of_a_real_run(tmp_path: Path) -> None:
    read = Read(shared("traces", "nsys", "ddp_2gpu_2process.sqlite"), tmp_path / "s")
    rows = read.rows("host_ops", 0) + read.rows("host_ops", 1)
    operators = [r for r in rows if r["kind"] == "operator"]
    assert len(rows) == 19118 + 6  # NVTX and the profiler's overhead
    assert {r["form"] for r in rows if r["kind"] != "overhead"} == {"nested"}
    assert not any("op_id" in r["name"] or "seq =" in r["name"] for r in rows)
    first = min((r for r in operators if r["name"] == "AllToAll4D"), key=lambda r: r["event_index"])
    assert first["sequence"] > 0
    assert first["event_index"] > 0
    assert len({r["name"] for r in operators}) < 200
    assert any(r["name"] == "ncclGroupStart" for r in rows)


def test_graph_level_trace(tmp_path: Path) -> None:
    read = Read(shared("traces", "nsys", "cuda_graph_2025.sqlite"), tmp_path / "s")
    ops = read.rows("device_ops")
    assert [r["kind"] for r in ops].count("kernel") == 3
    graphs = [r for r in ops if r["kind"] == "graph"]
    assert [(r["correlation"], r["dur_ns"], r["graph_id"]) for r in graphs] == [
        (141, 1728, 1),
        (142, 1376, 1),
    ]
    assert [r["name"] for r in ops if r["kind"] == "sync"] == ["Stream Sync"] * 2 + ["Event Record"] * 2
    # Event records have timestamp 0 in this export: they stand where the call that made them started.
    calls = {r["correlation"]: r["start_ns"] for r in read.rows("launches")}
    records = [r for r in ops if r["name"] == "Event Record"]
    assert [(r["start_ns"], r["dur_ns"], r["event_id"]) for r in records] == [
        (calls[125], 0, 1),
        (calls[134], 0, 2),
    ]
    assert read.processes[0].devices == [
        {
            "device_id": 0,
            "name": "NVIDIA GeForce RTX 3060",
            "uuid": "b15c2a57-42ed-1d24-2c84-067081698645",
            "memory_bytes": 12488343552,
            "memory_bandwidth_bytes_per_s": 360048000000,
            "clock_rate_hz": 1777000000,
            "sm_count": 28,
            "compute_capability": "8.6",
            "l2_bytes": 2359296,
        }
    ]
    assert read.facts.format_version == "3.24.0"
    assert read.facts.producer == "Nsight Systems 2025.5.2.266"
    assert read.codes()["profiler_warnings"] == 3


def test_mpi_report_of_2021(tmp_path: Path) -> None:
    read = Read(shared("traces", "nsys", "mpi_saxpy_a100_2021.sqlite"), tmp_path / "s")
    facts = read.processes[0]
    assert (facts.pid, facts.rank, facts.rank_origin) == (1230493, 0, "communicator")
    assert (read.facts.format_version, read.facts.producer) == (None, None)
    assert read.facts.clock_base_ns == 1687813257637297504
    ops = read.rows("device_ops")
    assert [r["kind"] for r in ops].count("kernel") == 5
    assert [r["copy_kind"] for r in ops if r["kind"] == "memcpy"].count("DtoH") == 5
    assert union(spans(read, 0, "compute")) == 88573480
    exposed = union(spans(read, 0, "compute", "memcpy")) - union(spans(read, 0, "compute"))
    assert exposed == 284699600
    hosts = read.rows("host_ops")
    assert {r.get("domain") for r in hosts if r.get("name", "").startswith("MPI_")} == {"MPI"}
    assert [r["name"] for r in hosts if r["kind"] == "nvtx"].count("MPI_Send") == 10
    assert facts.devices[0]["memory_bandwidth_bytes_per_s"] == 1555200000000


@pytest.mark.parametrize("name", ["nvtx_2022.4.sqlite", "nvtx_2023.4.sqlite", "every_table_2023.4.sqlite"])
def test_ranges_marks_and_domains(tmp_path: Path, name: str) -> None:
    read = Read(shared("traces", "own", "nsys_cpu", name), tmp_path / "s")
    rows = [r for r in read.rows("host_ops") if r["kind"] == "nvtx"]
    forms = [r["form"] for r in rows]
    assert (forms.count("nested"), forms.count("async"), forms.count("mark")) == (29, 3, 3)
    assert {r["name"] for r in rows if r["form"] == "async"} == {"allreduce_async"}
    assert all(r["dur_ns"] == 0 for r in rows if r["form"] == "mark")
    assert {r["name"] for r in rows if r.get("domain") == "mdtrace.workers"} == {"worker0", "worker1"}
    assert len({r["thread_id"] for r in rows}) == 3
    assert [p.pid for p in read.processes] == [17]
    assert read.codes()["no_kernels"] == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_from_the_environment(tmp_path: Path, rank: int) -> None:
    path = shared("traces", "own", "nsys_cpu", "ddp_w2_straggler1", f"rank{rank}.sqlite")
    (facts,) = Read(path, tmp_path / "s").processes
    assert (facts.rank, facts.rank_origin, facts.world_size, facts.host) == (rank, "environment", 2, "vm")
