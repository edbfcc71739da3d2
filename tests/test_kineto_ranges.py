"""A file read in parts gives the same rows in the same order as read in one."""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from kineto_read import Trace, event, kernel, read_file
from mdtrace.ingest.kineto import reader
from mdtrace.ingest.pool import Pool

T = TypeVar("T")
R = TypeVar("R")


class Inline(Pool):
    """Several workers by name, all of them this process."""

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        return map(call, items)


def large(processes: int) -> str:
    """About 6 MB of events: operators, frames, launches, kernels, collectives, pid-less and unknown ones."""
    events = []
    for i in range(9_000):
        pid = 100 + i % processes
        events += [
            event("cpu_op", f"op {i % 7}", i, 3.25, pid, External_id=i, Input_Dims=[[i % 5, 2]]),
            event("python_function", "root", i, 9, 0, 0, Python_id=i),
            event("cuda_runtime", "cudaLaunchKernel", i + 0.5, 1, pid, correlation=i),
            kernel(
                f"k{i % 11}", i + 2, 2, device=pid - 100, correlation=i, Collective_name="allreduce", Seq=i
            ),
        ]
        if i % 100 == 0:
            events += [
                event("odd", "span", i, 1, pid),
                event("user_annotation", "gloo:all_reduce", i, 1, pid),
            ]
    return json.dumps(
        {
            "baseTimeNanoseconds": 10**18,
            "traceEvents": events,
            "distributedInfo": {"rank": 1, "world_size": 2},
        }
    )


def contents(trace: Trace) -> list[object]:
    tables = ("host_ops", "launches", "device_ops", "counters", "comm_records")
    processes = range(len(trace.facts.processes))
    return [trace.facts, *(trace.rows(t, process=p) for t in tables for p in processes)]


@pytest.mark.parametrize(("processes", "compressed"), [(1, False), (3, False), (1, True)])
def test_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, compressed: bool) -> None:
    monkeypatch.setattr(reader, "SMALLEST_RANGE", 1 << 20)
    monkeypatch.setattr(reader, "_UNPACK", 0)
    text = large(processes).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(text, 1) if compressed else text)
    whole = read_file(path, tmp_path / "one")
    parts = read_file(path, tmp_path / "many", Inline(4))
    assert len(list(parts.folder.glob("0*"))) >= 5
    assert not (parts.folder / "text.json").exists()
    assert contents(whole) == contents(parts)
    assert whole.facts.processes[0].rank == 1


def test_a_wrong_boundary_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges that do not begin at events: the file is read again in one piece."""
    path = tmp_path / "trace.json"
    path.write_text(large(1))
    size = path.stat().st_size
    wrong = [(0, size // 2 + 3), (size // 2 + 3, size)]
    monkeypatch.setattr(reader, "_ranges", lambda _path, _workers: wrong)
    parts = read_file(path, tmp_path / "many", Inline(2))
    monkeypatch.undo()
    assert contents(read_file(path, tmp_path / "one")) == contents(parts)
