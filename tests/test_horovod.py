"""Horovod timelines → staged rows: the format's own cases, and what is made of each kind of event."""

import gzip
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mdtrace.ingest.facts import Source, SourceFacts
from mdtrace.ingest.horovod import read_horovod
from mdtrace.ingest.horovod.events import nanoseconds
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.stage import StagedProcess
from shared import shared

Row = dict[str, Any]


@dataclass
class Read:
    facts: SourceFacts
    ops: list[Row]
    collectives: list[Row]
    arrivals: list[Row]
    steps: list[Row]

    def said(self) -> dict[str, int]:
        for diagnostic in self.facts.diagnostics:
            assert diagnostic.row(0, None)["message"]  # every placeholder is filled
        return {d.code: d.count for d in self.facts.diagnostics}

    def read(self) -> int:
        counts = self.facts.events
        return sum(counts.stored.values()) + sum(counts.skipped.values())

    def spans(self, name: str) -> list[tuple[int, int | None]]:
        return [(r["start_ns"], r["dur_ns"]) for r in self.ops if r["name"] == name]


def read(path: Path, folder: Path) -> Read:
    stage = folder / f"stage-{len(list(folder.glob('stage-*')))}"
    facts = read_horovod(Source(path, path.name), stage, Pool(1))
    staged = StagedProcess(stage, facts.processes[0].staged_as)
    tables = ("host_ops", "collectives", "arrivals", "steps")
    return Read(facts, *(staged.table(t).to_pylist() for t in tables))


def read_text(text: str, folder: Path) -> Read:
    path = folder / "timeline.json"
    path.write_text(text)
    return read(path, folder)


def name(pid: int, tensor: str) -> Row:
    return {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": tensor}}


def begin(pid: int, ts: int, what: str) -> Row:
    return {"ph": "B", "name": what, "ts": ts, "pid": pid}


def end(pid: int, ts: int, **args: str) -> Row:
    return {"ph": "E", "ts": ts, "pid": pid} | ({"args": args} if args else {})


def tick(pid: int, ts: int, rank: int) -> Row:
    return {"ph": "X", "name": str(rank), "ts": ts, "pid": pid, "dur": 0}


def reduced(pid: int, ts: int, shape: str = "[4]", activity: str = "NCCL_ALLREDUCE") -> list[Row]:
    """An all-reduce of one tensor from ts to ts + 40, its transfer from ts + 10 to ts + 30."""
    operation = activity.split("_")[1]
    return [
        begin(pid, ts, operation),
        begin(pid, ts + 10, activity),
        end(pid, ts + 30),
        end(pid, ts + 40, dtype="float32", shape=shape),
    ]


def negotiated(pid: int, ts: int, *ready: int, what: str = "ALLREDUCE") -> list[Row]:
    """A negotiation from ts on: rank i ready at ready[i], closed with the last."""
    ticks = [tick(pid, t, rank) for rank, t in enumerate(ready)]
    return [begin(pid, ts, f"NEGOTIATE_{what}"), *ticks, end(pid, max(ready, default=ts))]


def read_events(events: list[Row], folder: Path) -> Read:
    found = read_text("[\n" + "".join(json.dumps(e) + ",\n" for e in events), folder)
    assert found.read() == len(events)
    return found


# The cases


def test_only_an_open_bracket(tmp_path: Path) -> None:
    found = read(shared("cases", "06_horovod_only_open_bracket", "timeline.json"), tmp_path)
    assert found.said() == {"empty_source": 1}
    assert (found.ops, found.collectives, found.arrivals, found.steps) == ([], [], [], [])
    assert (found.read(), found.facts.truncated) == (0, False)


def test_cut_line_and_open_negotiation(tmp_path: Path) -> None:
    found = read(shared("cases", "07_horovod_no_close_partial_line", "timeline.json"), tmp_path)
    ready = {(a["collective_id"], a["rank"]): a["ready_ns"] for a in found.arrivals}
    assert ready == {(0, 0): 1001_000, (0, 1): 1400_000, (0, 2): 1100_000, (None, 0): 3001_000}
    assert found.spans("NEGOTIATE_ALLREDUCE") == [(1000_000, 410_000), (3000_000, None)]
    assert found.spans("NCCL_ALLREDUCE") == [(1430_000, 500_000)]
    assert found.spans("ALLREDUCE") == [(1420_000, 515_000)]
    assert found.said() == {"truncated": 1, "activities_open": 1}
    assert found.facts.truncated
    assert found.facts.processes[0].world_size == 3
    (collective,) = found.collectives
    assert (collective["payload_bytes"], collective["dtype"], collective["group_size"]) == (4096, "f32", 3)


def test_cached_collectives_have_no_arrivals(tmp_path: Path) -> None:
    found = read(shared("cases", "35_horovod_cached_no_rank_ticks", "timeline.json"), tmp_path)
    assert [dur for _, dur in found.spans("ALLREDUCE")] == [110_000] * 3
    assert [c["end_ns"] - c["start_ns"] for c in found.collectives] == [100_000] * 3
    assert [c["payload_bytes"] for c in found.collectives] == [40, 40, None]
    assert [c["step"] for c in found.collectives] == [0, 1, 2]
    assert [(a["collective_id"], a["rank"], a["ready_ns"]) for a in found.arrivals] == [
        (0, 0, 101_000),
        (0, 1, 160_000),
    ]
    assert found.said() == {"payload_unknown": 1, "rank_ticks_some_steps": 2}
    assert found.facts.events.skipped["{}", "empty object"] == 1
    assert found.facts.processes[0].backend == "mpi"


def test_stopped_and_started_again_in_two_files(tmp_path: Path) -> None:
    folder = shared("cases", "37_horovod_dynamic_start_stop")
    first, second = read(folder / "first.json", tmp_path), read(folder / "second.json", tmp_path)
    assert [(c["start_ns"], c["end_ns"]) for c in first.collectives] == [
        (1700000000001055_000, 1700000000001155_000),
        (1700000000001300_000, None),
    ]
    assert [(c["start_ns"], c["end_ns"]) for c in second.collectives] == [
        (1700000060000555_000, 1700000060000655_000)
    ]
    assert first.said() == {"activities_open": 1, "payload_unknown": 2}  # the open step lacks no ticks
    assert second.said()["ends_without_begin"] == 1
    assert second.facts.events.skipped["E", "an end without a begin"] == 1
    for found in (first, second):
        assert {r["domain"] for r in found.ops} == {"g/a"}
        ready = sorted(a["ready_ns"] for a in found.arrivals)
        assert ready[1] - ready[0] == 30_000
        assert found.facts.clock_base == "epoch"


def test_many_events_on_a_line(tmp_path: Path) -> None:
    found = read(shared("cases", "39_horovod_many_events_per_line", "timeline.json"), tmp_path)
    ready = {a["rank"]: a["ready_ns"] - 1700000000000000_000 for a in found.arrivals}
    assert sorted(ready) == list(range(12))
    assert (min(ready, key=ready.__getitem__), max(ready, key=ready.__getitem__)) == (0, 10)
    assert max(ready.values()) - min(ready.values()) == 980_000
    assert found.spans("NCCL_ALLREDUCE") == [(1700000000001002_000, 50_000)]
    assert found.facts.processes[0].world_size == 12


# Fusion


def fused(pids: list[int], ts: int) -> list[Row]:
    """Tensors in one buffer as Horovod writes them: each stamp 1 µs after the one before it."""
    events: list[Row] = [begin(p, ts + i, "ALLREDUCE") for i, p in enumerate(pids)]
    at = ts + len(pids)
    for activity in ("MEMCPY_IN_FUSION_BUFFER", "GLOO_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER"):
        events += [begin(p, at + i, activity) for i, p in enumerate(pids)]
        events += [end(p, at + 500 + i) for i, p in enumerate(pids)]
        at += 500 + len(pids)
    return events + [end(p, at + i, dtype="float32", shape=f"[{p}]") for i, p in enumerate(pids)]


def test_fused_tensors_are_one_collective(tmp_path: Path) -> None:
    events = [*(name(p, f"t{p}") for p in (1, 2, 3, 4)), *fused([3, 1], 100), *fused([2, 4], 3000)]
    found = read_events([*events, *reduced(1, 9000, "[7]", "GLOO_ALLREDUCE")], tmp_path)
    assert [(c["tensors"], c["members"], c["payload_bytes"]) for c in found.collectives] == [
        (["t3", "t1"], 2, 16),
        (["t2", "t4"], 2, 24),
        (["t1"], 1, 28),
    ]
    # The transfer lies between the last begin (105) and the first end (604 + 500 + …): see `Collective.span`.
    first = found.collectives[0]
    assert (first["start_ns"], first["end_ns"]) == (605_000, 1104_000)
    assert found.ops[first["host_op_id"]]["name"] == "ALLREDUCE"
    assert found.ops[first["host_op_id"]]["domain"] == "t3"
    assert [c["elements_in"] for c in found.collectives] == [4, 6, 7]


def test_one_unknown_size_makes_the_sum_unknown(tmp_path: Path) -> None:
    events = [name(1, "a"), name(2, "b"), *fused([1, 2], 100)]
    del events[-1]["args"]
    (collective,) = read_events(events, tmp_path).collectives
    assert (collective["payload_bytes"], collective["elements_in"], collective["dtype"]) == (None, None, None)


def test_tensor_by_tensor_with_equal_times(tmp_path: Path) -> None:
    """A file sorted by tensor: the same activity at the same time is one collective, at another time not."""
    events = [name(p, f"t{p}") for p in (1, 2, 3)]
    for pid in (1, 2, 3):
        events += reduced(pid, 100) + reduced(pid, 500 + pid)
    found = read_events(events, tmp_path)
    assert [(c["start_ns"], c["tensors"]) for c in found.collectives] == [
        (110_000, ["t1", "t2", "t3"]),
        (511_000, ["t1"]),
        (512_000, ["t2"]),
        (513_000, ["t3"]),
    ]
    assert [c["step"] for c in found.collectives] == [0, 1, 1, 1]


def test_concurrent_but_not_fused(tmp_path: Path) -> None:
    """Two streams: the activities overlap, nothing was copied into a buffer, the times differ."""
    a, b = reduced(1, 100), reduced(2, 115)
    order = [a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]]
    found = read_events([name(1, "a"), name(2, "b"), *sorted(order, key=lambda e: e["ts"])], tmp_path)
    assert [c["tensors"] for c in found.collectives] == [["a"], ["b"]]


def test_a_buffer_and_a_single_tensor_at_the_same_time(tmp_path: Path) -> None:
    """The single tensor's transfer begins while those of the fused ones are being stamped."""
    copies = [
        step(p, 10, *what) for p in (1, 2) for step, *what in ((begin, "MEMCPY_IN_FUSION_BUFFER"), (end,))
    ]
    starts = [begin(p, 12, "NCCL_ALLREDUCE") for p in (1, 3, 2)]
    ends = [end(p, 90) for p in (1, 2, 3)] + [end(p, 99) for p in (1, 2, 3)]
    events = [name(p, f"t{p}") for p in (1, 2, 3)] + [begin(p, 5, "ALLREDUCE") for p in (1, 2, 3)]
    found = read_events([*events, *copies, *starts, *ends], tmp_path)
    assert sorted(c["tensors"] for c in found.collectives) == [["t1", "t2"], ["t3"]]


def test_hierarchical_operation_is_one_collective(tmp_path: Path) -> None:
    events = [begin(1, 0, "ALLREDUCE")]
    for ts, activity in ((10, "NCCL_REDUCESCATTER"), (20, "MPI_ALLREDUCE"), (30, "NCCL_ALLGATHER")):
        events += [begin(1, ts, activity), end(1, ts + 5)]
    found = read_events([name(1, "a"), *events, end(1, 40, dtype="float16", shape="[2, 3]")], tmp_path)
    (collective,) = found.collectives
    assert (collective["kind"], collective["start_ns"], collective["end_ns"]) == (
        "all_reduce",
        10_000,
        35_000,
    )
    assert collective["payload_bytes"] == 12
    assert found.facts.processes[0].backend == "nccl"


# Kinds and sizes


@pytest.mark.parametrize(
    ("operation", "activity", "kind", "payload"),
    [
        ("ALLREDUCE", "NCCL_ALLREDUCE", "all_reduce", 96),
        ("ADASUM", "MPI_ADASUM_ALLREDUCE", "all_reduce", 96),
        ("ALLGATHER", "MPI_ALLGATHER", "all_gather", 96),
        ("BROADCAST", "GLOO_BCAST", "broadcast", 96),
        ("ALLTOALL", "CCL_ALLTOALL", "all_to_all", 96),
        ("REDUCESCATTER", "NCCL_REDUCESCATTER", "reduce_scatter", None),  # the shape is of the output
        ("BARRIER", None, "barrier", 96),
        ("JOIN", None, "unknown", 96),
    ],
)
def test_kinds(tmp_path: Path, operation: str, activity: str | None, kind: str, payload: int | None) -> None:
    inner = [begin(1, 5, activity), end(1, 9)] if activity else []
    last = end(1, 10, dtype="float64", shape="[3, 4]")
    (collective,) = read_events([name(1, "a"), begin(1, 0, operation), *inner, last], tmp_path).collectives
    assert (collective["kind"], collective["payload_bytes"]) == (kind, payload)
    assert (collective["start_ns"], collective["end_ns"]) == ((5000, 9000) if activity else (0, 10_000))
    assert collective["name"] == (activity or operation)
    assert collective["evidence"] == "timeline"


@pytest.mark.parametrize(
    ("dtype", "shape", "payload"),
    [
        ("float32", "[]", 4),
        ("uint8", "[5]", 5),
        ("bool", "[2, 3]", 6),
        ("bfloat16", "[2,3]", 12),
        ("float32", "[0, 9]", 0),
        ("float32", "[-1]", None),
        ("float32", "5", None),
        ("float128", "[5]", None),
        ("float32", "[999999999999999999, 999999999999999999]", None),
    ],
)
def test_sizes(tmp_path: Path, dtype: str, shape: str, payload: int | None) -> None:
    events = [name(1, "a"), *reduced(1, 0)[:3], end(1, 40, dtype=dtype, shape=shape)]
    found = read_events(events, tmp_path)
    assert found.collectives[0]["payload_bytes"] == payload
    assert ("payload_unknown" in found.said()) == (payload is None)


def test_an_error_is_no_collective(tmp_path: Path) -> None:
    events = [name(1, "a"), *negotiated(1, 0, 1, 2), begin(1, 5, "ERROR"), end(1, 6)]
    found = read_events([*events, *negotiated(1, 10, 11, 12)], tmp_path)
    assert found.collectives == []
    assert [a["collective_id"] for a in found.arrivals] == [None] * 4
    assert len(found.ops) == 3


# Steps


def test_steps_are_counted_by_all_reduces(tmp_path: Path) -> None:
    events = [name(1, "w"), name(2, "loss"), name(3, "gather"), name(4, "metric"), name(5, "broadcast.w")]
    events += reduced(5, 0, activity="GLOO_BROADCAST")
    for step in range(4):
        at = 1000 * (step + 1)
        events += negotiated(1, at, at + 3, at + 7) + reduced(1, at + 10) + reduced(2, at + 60)
        events += reduced(3, at + 200, activity="GLOO_ALLGATHER")
        if step % 2:
            events += reduced(4, at + 300)
    found = read_events(events, tmp_path)
    steps: dict[str, list[int | None]] = {}
    for collective in found.collectives:
        steps.setdefault(collective["tensors"][0], []).append(collective["step"])
    assert steps == {
        "broadcast.w": [None],
        "w": [0, 1, 2, 3],
        "loss": [0, 1, 2, 3],
        "gather": [0, 1, 2, 3],
        "metric": [1, 3],  # not its first and second all-reduce, but where they happen
    }
    assert [(s["step"], s["start_ns"], s["end_ns"]) for s in found.steps] == [
        (0, 1000_000, 2000_000),
        (1, 2000_000, 3000_000),
        (2, 3000_000, 4000_000),
        (3, 4000_000, 4340_000),
    ]
    assert {(s["name"], s["origin"]) for s in found.steps} == {(f"step {n}", "horovod") for n in range(4)}


def test_ticks_of_start_up_say_nothing_about_training(tmp_path: Path) -> None:
    events = [name(1, "w"), *negotiated(1, 0, 1, 2, what="BROADCAST")]
    events += reduced(1, 10, activity="GLOO_BROADCAST") + reduced(1, 100) + reduced(1, 200)
    found = read_events(events, tmp_path)
    assert found.said() == {"no_rank_ticks": 2}
    assert [a["collective_id"] for a in found.arrivals] == [0, 0]


def test_recording_started_again_starts_a_step(tmp_path: Path) -> None:
    """Stopped behind the first of two tensors; from the second one on it may be any later step."""
    first, second = section(1_000_000, 5), section(9_000_000, 5)
    second = [e | {"pid": 2} if e["pid"] == 1 else e for e in second]
    second[1] = name(2, "other")
    found = read_events([*first, *second], tmp_path)
    assert [c["step"] for c in found.collectives] == [0, 1]


# World and groups


def test_world_is_known_when_all_ranks_were_seen_together(tmp_path: Path) -> None:
    events = [name(1, "a"), name(2, "b"), *reduced(2, 0), *negotiated(1, 100, 101, 102), *reduced(1, 110)]
    found = read_events(events, tmp_path)
    assert found.facts.processes[0].world_size == 2
    assert [(c["tensors"], c["group_size"]) for c in found.collectives] == [(["b"], 2), (["a"], 2)]
    found = read_events([*events, *negotiated(2, 200, what="ALLREDUCE")[:1], tick(2, 201, 3)], tmp_path)
    assert found.facts.processes[0].world_size is None  # ranks up to 3, never seen together
    assert [(c["tensors"], c["group_size"]) for c in found.collectives] == [(["b"], None), (["a"], 2)]


# Sections, marks, odd events


def section(base: int, ts: int) -> list[Row]:
    meta = {"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": base}}
    return [meta, name(1, "w"), *negotiated(1, ts, ts + 1, ts + 2), *reduced(1, ts + 10)]


def test_sections_of_one_file_have_their_own_clock_and_pairs(tmp_path: Path) -> None:
    first, second = section(1_000_000, 5), section(9_000_000, 5)
    events = [*first, begin(1, 100, "ALLREDUCE"), second[0], end(1, 1), *second[1:]]
    found = read_events(events, tmp_path)
    assert [(c["start_ns"], c["end_ns"], c["step"]) for c in found.collectives] == [
        (1_000_025_000, 1_000_045_000, 0),
        (1_000_100_000, None, 1),
        (9_000_025_000, 9_000_045_000, 2),
    ]
    assert {r["thread_id"] for r in found.ops} == {1, (1 << 32) + 1}
    assert found.said()["ends_without_begin"] == 1
    assert found.facts.clock_base_ns == 1_000_000_000
    assert [(s["start_ns"], s["end_ns"]) for s in found.steps] == [
        (1_000_005_000, 1_000_100_000),
        (1_000_100_000, 1_000_100_000),
        (9_000_005_000, 9_000_055_000),
    ]


def test_numbers_of_tensors_that_begin_anew(tmp_path: Path) -> None:
    """An older file without wall clock: the same number is another tensor from its second name on."""
    events = [name(1, "a"), name(2, "b"), *reduced(1, 0), begin(2, 60, "ALLREDUCE")]
    events += [name(1, "b"), *reduced(1, 500)]
    found = read_events(events, tmp_path)
    assert [(c["tensors"], c["end_ns"]) for c in found.collectives] == [
        (["a"], 30_000),
        (["b"], None),
        (["b"], 530_000),
    ]
    assert found.facts.clock_base == "file"
    assert found.facts.clock_base_ns is None


def test_times() -> None:
    assert nanoseconds(1795955952958668) == 1795955952958668000
    assert nanoseconds("1795955952958668.001") == 1795955952958668001
    assert nanoseconds(-0.5) == -500
    for unusable in (None, "", "N/A", "nan", "inf", "1e999999999", 10**17, float("inf")):
        assert nanoseconds(unusable) is None


def test_cycle_marks_belong_to_no_tensor(tmp_path: Path) -> None:
    found = read_events([{"ph": "i", "name": "CYCLE_START", "ts": 725, "s": "g"}], tmp_path)
    assert found.ops == [
        found.ops[0]
        | {"name": "CYCLE_START", "form": "mark", "thread_id": None, "start_ns": 725_000, "dur_ns": 0}
    ]
    assert found.ops[0]["kind"] == "annotation"


def test_odd_events_are_counted_or_kept(tmp_path: Path) -> None:
    events: list[Row] = [
        name(1, "a"),
        begin(1, 0, "NEGOTIATE_ALLREDUCE"),
        tick(1, 1, 0),
        tick(1, 2, 0),  # twice
        {"ph": "X", "name": "note", "ts": "3.5", "pid": "1", "dur": 2},
        {"ph": "E", "ts": None, "pid": 1},
        {"ph": "B", "name": "ALLREDUCE", "ts": 5},  # whose?
        {"ph": "C", "name": "counter", "ts": 1, "pid": 1},
        {"ph": "E", "ts": -7, "pid": 1.0},
        tick(1, 9, 1),  # outside a negotiation
        {"ph": "B", "name": "X", "ts": 1e300, "pid": 1},
    ]
    found = read_events(events, tmp_path)
    assert [(r["name"], r["start_ns"], r["dur_ns"]) for r in found.ops] == [
        ("note", 3500, 2000),
        ("NEGOTIATE_ALLREDUCE", 0, None),  # ends before it starts
    ]
    assert {(kind, reason) for kind, reason in found.facts.events.skipped if kind != "M"} == {
        ("X", "the rank was ready already"),
        ("E", "no usable time"),
        ("B", "no usable tensor number (pid)"),
        ("C", "no kind of event that Horovod writes"),
        ("B", "no usable time"),
    }
    assert found.said() == {"ends_before_start": 1}
    assert [(a["rank"], a["collective_id"]) for a in found.arrivals] == [(1, None), (0, None)]


def test_names_with_quotes_and_raw_bytes(tmp_path: Path) -> None:
    """Tensor names are not escaped by the writer; the events behind them are read all the same."""
    events = "".join(",\n" + json.dumps(e) for e in reduced(1, 0))
    path = tmp_path / "timeline.json"
    text = b'[\n{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a\\w\x01\xff"}}'
    path.write_bytes(text + events.encode() + b"]")
    found = read(path, tmp_path)
    assert len(found.collectives) == 1
    assert found.collectives[0]["tensors"] == ["a\\w\x01�"]
    assert found.said()["events_repaired"] >= 1


def test_gzip(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    path.write_bytes(gzip.compress(json.dumps(section(7, 5)).encode()))
    found = read(path, tmp_path)
    assert found.facts.compression == "gzip"
    assert len(found.collectives) == 1


def test_cut_anywhere(tmp_path: Path) -> None:
    """Whatever the byte of the cut, what is whole before it is read, and every event is accounted for."""
    text = json.dumps([*section(1_000_000, 5), *section(2_000_000, 5)])
    whole = read_text(text, tmp_path)
    for cut in range(1, len(text), 7):
        found = read_text(text[:cut], tmp_path)
        assert found.facts.truncated or found.read() <= whole.read()
        assert len(found.ops) == found.facts.events.stored.get("B", 0)
        assert len(found.arrivals) == found.facts.events.stored.get("X", 0)
        closed = Counter(r["dur_ns"] is not None for r in found.ops)[True]
        assert closed == found.facts.events.stored.get("E", 0)
