"""Makes the benchmark's inputs, once: a Kineto trace, an nsys export, a dataset of many intervals."""

import gzip
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]


def kineto(folder: Path, millions: float) -> Path:
    """One rank's trace of about so many million events, plain JSON.

    Its steps are renamed to annotations like any other: with step markers, the peer takes many times as long.
    """
    path = folder / f"kineto-{millions}.json"
    if not path.exists():
        work = folder / "simulated"
        shutil.rmtree(work, ignore_errors=True)
        simulate = [sys.executable, str(ROOT / "sample_traces" / "simulate"), str(work)]
        subprocess.run([*simulate, "--ranks", "1", "--formats", "kineto", "--big", str(millions)], check=True)
        unfinished = path.with_suffix(".part")
        with gzip.open(next((work / "kineto").glob("*.gz"))) as packed, unfinished.open("wb") as plain:
            for line in packed:
                plain.write(line.replace(b'"ProfilerStep#', b'"training step '))
        shutil.rmtree(work)
        unfinished.rename(path)
    return path


_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start end deviceId contextId streamId correlationId globalPid demangledName shortName mangledName "
        "launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
        "dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId "
        "sharedMemoryLimitConfig"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start end eventClass globalTid correlationId nameId returnValue callchainId"
    ),
    "NVTX_EVENTS": (
        "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value "
        "int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText binaryData"
    ),
}
_TEXT = {"text", "jsonText", "binaryData"}
_PID = 0x0100014000000000 | 4100 << 24


def nsys(folder: Path, kernels: int) -> Path:
    """An export of one process: kernels, two calls a kernel, half a range a kernel."""
    path = folder / f"nsys-{kernels}.sqlite"
    if path.exists():
        return path
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = off")
        db.execute("PRAGMA synchronous = off")
        db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        names = [
            (i, f"void kernel_{i}<float, {i % 7}>(Params)" if i > 200 else f"cudaApi{i}_v{3020 + i}")
            for i in range(3000)
        ]
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
        db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
        db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1760000000000000000)")
        db.execute("BEGIN")
        for table, rows in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", _kernels(kernels)),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", _calls(2 * kernels)),
            ("NVTX_EVENTS", _ranges(kernels // 2)),
        ):
            columns = _TABLES[table].split()
            declared = ", ".join(f'"{c}" {"TEXT" if c in _TEXT else "INTEGER"}' for c in columns)
            db.execute(f"CREATE TABLE {table} ({declared})")
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
        db.execute("COMMIT")
    unfinished.rename(path)
    return path


def _kernels(count: int):
    random = np.random.default_rng(1)
    start = np.cumsum(random.integers(1500, 12_000, count)).tolist()
    length = random.integers(1500, 11_000, count).tolist()
    for i in range(count):
        name = 201 + i * i % 2700
        yield (
            start[i], start[i] + length[i], 0, 1, 7 if i % 5 else 23, i, _PID, name, name, None, 0, 0,
            32 + (i & 127), i % 9999 + 1, 1, 1, 256, 1, 1, 0, 49_152, 0, 0, i, 65_536, None, 0,
        )  # fmt: skip


def _calls(count: int):
    random = np.random.default_rng(2)
    start = np.cumsum(random.integers(500, 4500, count)).tolist()
    for i in range(count):
        yield (
            start[i],
            start[i] + 400,
            0,
            _PID | 4100 + (i & 3),
            i >> 1,
            i * i % 200,
            0,
            None if i % 10 else i,
        )


def _ranges(count: int):
    random = np.random.default_rng(3)
    start = np.cumsum(random.integers(500, 20_000, count)).tolist()
    rest = (None,) * 9
    for i in range(count):
        own = f"iteration {i // 100} layer {i % 48} fwd" if i % 3 == 0 else None
        text = None if own else 201 + i % 2700
        yield start[i], start[i] + 400, 59, None, None, None, own, _PID | 4100, None, text, 0, *rest


def intervals(folder: Path, count: int, ranks: int = 8) -> Path:
    """A dataset of so many device intervals: three streams a rank, a fifth of them communication."""
    from mdtrace.tables.dataset import write_manifest
    from mdtrace.tables.schema import row_id, tables
    from mdtrace.tables.writer import write_table

    path = folder / f"intervals-{count}.mdtrace"
    if path.exists():
        return path
    shutil.rmtree(folder / "part.mdtrace", ignore_errors=True)
    schema = tables()["device_ops"].arrow()
    for rank in range(ranks):
        random = np.random.default_rng(rank)
        rows = count // ranks
        start = np.sort(random.integers(0, rows * 4000, rows)) + 1_760_000_000_000_000_000
        comm = random.random(rows) < 0.2
        made = {
            "device_op_id": np.arange(rows) + row_id(rank, 0),
            "process_id": np.full(rows, rank, np.int32),
            "rank": np.full(rows, rank, np.int32),
            "device_id": np.zeros(rows, np.int32),
            "stream_id": np.where(comm, 20, 7),
            "kind": np.full(rows, "kernel"),
            "class": np.where(comm, "communication", "compute"),
            "start_ns": start,
            "dur_ns": random.integers(500, 9000, rows),
            "duplicate": np.zeros(rows, bool),
        }
        table = pa.table(
            [pa.array(made[f.name]) if f.name in made else pa.nulls(rows, f.type) for f in schema],
            schema.names,
        )
        write_table(folder / "part.mdtrace", "device_ops", table.cast(schema), f"p{rank:05d}-0000")
    processes = [{"process_id": r, "source_id": 0, "rank": r, "world_size": ranks} for r in range(ranks)]
    write_table(
        folder / "part.mdtrace",
        "processes",
        pa.Table.from_pylist(processes, tables()["processes"].arrow()),
        "all",
    )
    write_manifest(folder / "part.mdtrace")
    (folder / "part.mdtrace").rename(path)
    return path
