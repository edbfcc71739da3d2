"""Files and folders that no profiler makes: nothing hangs, nothing crashes, nothing is lost in silence."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mdtrace.build.job import build
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
