"""Files and folders that no profiler makes: nothing hangs, nothing crashes, nothing is lost in silence."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mdtrace.build.job import build
from mdtrace.metrics.engine import run
from mdtrace.tables.dataset import Dataset


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block must end in time."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def operator(name: str, ts: Any = 1, dur: Any = 2, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, **more}


def kineto(path: Path, events: list[Any]) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), "utf-8")
    return path


def ingest(tmp_path: Path, *files: Path) -> Dataset:
    return build(list(files), tmp_path / "out.mdtrace")


@pytest.mark.parametrize("following", range(0, 9000, 750))
def test_an_event_of_kilobytes_before_a_bad_one(tmp_path: Path, following: int) -> None:
    """The piece decoded at once shrinks below the long event, and must not grow and shrink for ever."""
    events = [operator("a" * 3000), {"ph": "X", "cat": 5, "pid": 1}, operator("b"), operator("c" * following)]
    with within(20):
        dataset = ingest(tmp_path, kineto(tmp_path / "t.json", events))
    names = dataset.table("host_ops", ["name"]).column(0).to_pylist()
    assert names == ["a" * 3000, "b", "c" * following]


def kernel(name: str, ts: Any = 1, dur: Any = 2, **args: Any) -> dict[str, Any]:
    event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur}
    return {**event, "args": {"device": 0, "stream": 7, **args}}


def all_reduce(elements: Any, ranks: Any) -> dict[str, Any]:
    sizes = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float", "Group size": ranks}
    return kernel("ncclDevKernel_AllReduce_Sum_f32", **{"Collective name": "allreduce", **sizes})


@pytest.mark.parametrize(
    ("elements", "ranks", "payload", "known_ranks", "busbw"),
    [
        (1000, 2, 4000, 2, 2.0),  # 4000 bytes in 2 µs, times 2(n-1)/n
        (2**61, 2, None, 2, None),
        (1000, 2**31 - 1, 4000, 2**31 - 1, 4.0),
        (1000, 0, 4000, None, None),
        (10**40, -1, None, None, None),
    ],
)
def test_sizes_of_collectives_that_no_number_holds(
    tmp_path: Path,
    elements: int,
    ranks: int,
    payload: int | None,
    known_ranks: int | None,
    busbw: float | None,
) -> None:
    dataset = ingest(tmp_path, kineto(tmp_path / "t.json", [all_reduce(elements, ranks)]))
    (row,) = run(dataset, "collective_transfers").arrow().to_pylist()
    assert (row["payload_bytes"], row["group_size"]) == (payload, known_ranks)
    assert row["busbw_gb_s"] == (None if busbw is None else pytest.approx(busbw))


def test_the_cost_of_a_collective_that_no_number_holds(tmp_path: Path) -> None:
    sizes = {"In msg nelems": 2**61, "Out msg nelems": 2**61, "dtype": "Float", "Group size": 2}
    record = operator("record_param_comms", args={"Collective name": "allreduce", **sizes})
    dataset = ingest(tmp_path, kineto(tmp_path / "t.json", [record]))
    (cost,) = dataset.table("op_costs", ["flops", "bytes", "reason"]).to_pylist()
    assert cost == {"flops": None, "bytes": None, "reason": "out of range"}
