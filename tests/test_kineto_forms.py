"""Events decoded into the type of their category, and any events decoded at large, give the same rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from kineto_read import Event, Trace, event, read_events, read_file
from mdtrace.errors import InputError
from mdtrace.ingest.json_events import JsonEvents
from mdtrace.ingest.kineto import segment
from mdtrace.ingest.stage import StagedProcess
from shared import ROOT

_SHARED = ROOT.parent / "shared"
FILES = sorted(
    path
    for folder in (_SHARED / "cases", _SHARED / "traces" / "kineto", ROOT / "sample_traces")
    for path in folder.rglob("*.json*")
    if path.is_file()
)


def told(trace: Trace) -> Any:
    """All that was read of a trace."""
    tables = ("host_ops", "launches", "device_ops", "counters", "comm_records")
    processes = [StagedProcess(trace.folder, p.staged_as) for p in trace.facts.processes]
    rows = [process.table(table) for process in processes for table in tables]
    findings = [(d.code, d.count, d.detail) for d in trace.facts.diagnostics]
    return rows, trace.facts.events.rows(), findings, trace.facts.processes, trace.facts.clock_base_ns


def at_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "TYPED", None)


@pytest.mark.parametrize("path", FILES, ids=lambda p: "/".join(p.parts[-2:]))
def test_a_file_is_the_same_in_both_forms(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = _read(path, tmp_path / "typed")
    at_large(monkeypatch)
    assert _read(path, tmp_path / "at large") == typed


def _read(path: Path, folder: Path) -> Any:
    try:
        return told(read_file(path, folder))
    except InputError as error:  # of what is no Kineto trace
        return str(error)


ODD: list[Event] = [
    event("kernel", "b", 5, pid=0, tid=7, literally={"correlation": 1, "grid": [1, 2], "stream": "7"}),
    event("cpu_op", 7, 6, literally={"External id": "12", "Input Dims": [[1, 2], None]}),
    event("cpu_op", "c", 6, literally={"Sequence number": -1, "Fwd thread id": "x"}),
    event("cpu_op", "c", "7.5", dur=None),
    event("cpu_op", "d", None),
    event("xpu_runtime", "e", 8),
    event("mystery", "f", 9),
    event(None, "g", 10),
    event("cuda_runtime", "h", 11, dur=-1, literally=None) | {"args": None},
    event("cuda_runtime", "i", 11.123, dur=1.25, literally={"correlation": 1}),
    event("cpu_op", "j", 12, tid="main 5"),
    {**event("cpu_op", "k", 13), "ph": "B"},
    {**event("cpu_instant_event", "[memory]", 14, literally={"Bytes": -8, "Addr": 1}), "ph": "i"},
    {**event("cpu_instant_event", "other", 15), "ph": "i"},
    event("gpu_user_annotation", "l", 16),
    {**event("ac2g", "m", 17), "ph": "?"},
    {**event("ac2g", "m", 17), "ph": "s"},
    event("cpu_op", "n", 2.0**43),
    event("cpu_op", "o", 20.12345),
    {},
]  # fmt: skip


@pytest.mark.parametrize("odd", range(len(ODD)))
def test_an_odd_event_among_others_is_the_same_in_both_forms(
    odd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [event("cpu_op", f"op {i}", i, literally={"External id": i}) for i in range(40)]
    events = [*plain[:20], ODD[odd], *plain[20:]]
    for name in ("typed", "large"):
        (tmp_path / name).mkdir()
    typed = told(read_events(tmp_path / "typed", *events))
    at_large(monkeypatch)
    assert told(read_events(tmp_path / "large", *events)) == typed


def test_events_of_both_forms_keep_their_order(tmp_path: Path) -> None:
    """A list that holds an event of another category is decoded at large, those around it are not."""
    events = [event("mystery" if i % 4000 == 2000 else "cpu_op", f"{i:06}", i) for i in range(30_000)]
    kinds = {type(e).__name__ for batch in _batches(tmp_path, events) for e in batch}
    assert {"Event", "HostEvent_cpu_op"} <= kinds
    names = read_events(tmp_path, *events).rows("host_ops", "name")
    known = [e["name"] for e in events if e["cat"] == "cpu_op"]
    assert names == known + [e["name"] for e in events if e["cat"] == "mystery"]


def _batches(folder: Path, events: list[Event]) -> list[Any]:
    path = folder / "batches.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return list(JsonEvents(path, segment.Event, typed=segment.TYPED, chunk=1 << 16))
