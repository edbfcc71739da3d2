"""Writes a job as Nsight Systems' SQLite exports: one for each host, or for each rank."""

import sqlite3
import uuid
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from simulate.job import Job
from simulate.nsys_meta import capture, export
from simulate.nsys_nccl import schema_rows
from simulate.nsys_process import VM, Process, Strings
from simulate.nsys_schema import ENUM_ROWS, TABLES
from simulate.placement import Place

BEFORE_NS = 20_000_000  # the session starts this long before the job

Rows = Iterable[tuple[Any, ...]]


def write_nsys(
    job: Job, folder: Path, per_rank: bool = False, secrets: bool = False, payloads: bool = True
) -> list[Path]:
    """Write `node<h>.sqlite` for every host, or `rank<r>.sqlite` for every rank.

    Args:
        per_rank: one report for each process, as where every rank is started under the profiler.
        secrets: plant what must never leave the file: an environment, a command line, a user's name,
            paths. All of it contains `nsys_meta.PLANTED`.
        payloads: as exported with blobs: NCCL's ranges say communicator and bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reports = [(f"rank{place.rank}", [place]) for place in job.places]
    if not per_rank:
        hosts = range(job.config.hosts)
        reports = [(job.clocks[h].host, [p for p in job.places if p.host == h]) for h in hosts]
    return [_write(job, folder / f"{name}.sqlite", places, secrets, payloads) for name, places in reports]


def _write(job: Job, path: Path, places: list[Place], secrets: bool, payloads: bool) -> Path:
    path.unlink(missing_ok=True)
    session = job.config.epoch_ns + job.clocks[places[0].host].read(-BEFORE_NS)
    strings = Strings()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        report = _Report(database)
        for table, rows in ENUM_ROWS.items():
            report.insert(table, rows)
        _target(report, job, places, session)
        report.insert("META_DATA_CAPTURE", capture(job, places, strings, secrets))
        report.insert("META_DATA_EXPORT", export(path.name, secrets))
        schemas, entries = schema_rows() if payloads else ([], [])
        report.insert("NVTX_PAYLOAD_SCHEMAS", schemas)
        report.insert("NVTX_PAYLOAD_SCHEMA_ENTRIES", entries)
        for place in places:
            for table, rows in Process(job, place, session, strings, payloads).tables().items():
                report.insert(table, rows)
        report.insert("StringIds", strings.rows())
        report.finish()
    return path


class _Report:
    """A database being filled. A table without rows does not exist, as in the real exports."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._created: set[str] = set()
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("BEGIN")

    def insert(self, table: str, rows: Rows) -> None:
        for row in rows:
            if table not in self._created:
                self._created.add(table)
                self._database.execute(f"CREATE TABLE {table} ({TABLES[table]})")
            self._database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def finish(self) -> None:
        self._database.execute("COMMIT")


def _target(report: _Report, job: Job, places: list[Place], session: int) -> None:
    """The machine, its clock and its devices."""
    gpu, host = job.config.gpu, places[0].host
    report.insert("TARGET_INFO_SESSION_START_TIME", [(session, None, None, 28_254_349_605)])
    report.insert("TARGET_INFO_SYSTEM_ENV", [(VM, "Local (CLI)", "Hostname", 619, job.clocks[host].host)])
    for local in range(min(job.config.gpus_per_host, job.config.ranks)):
        device = (gpu.l2_bytes, gpu.memory_bytes, gpu.memory_bytes_per_s, gpu.clock_hz, gpu.sm_count)
        where = f"0000:{4 + local:02x}:00.0"
        row = (VM, local, gpu.name, where, 1, *device, _uuid(host, local), gpu.chip, gpu.major, gpu.minor)
        report.insert("TARGET_INFO_GPU", [row])
    # Every process sees one device and calls it 0.
    visible = [(p.local_rank, 0, p.pid, _uuid(host, p.local_rank), gpu.sm_count) for p in places]
    report.insert("TARGET_INFO_CUDA_DEVICE", visible)


def _uuid(host: int, local: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"gpu{local}.node{host}"))
