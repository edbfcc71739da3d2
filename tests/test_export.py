"""A dataset as a trace: every row there, on aligned clocks, valid for a viewer, with verdicts."""

import gzip
import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mdtrace.build.job import build
from mdtrace.commands import app
from mdtrace.errors import UsageError
from mdtrace.export import Exported, export
from mdtrace.export.writer import us
from mdtrace.metrics.filters import Filters
from mdtrace.tables.dataset import Dataset, open_dataset
from rows import dataset
from shared import shared
from simulate import Config, Straggler, job, write_kineto

Event = dict[str, Any]


def _trace(opened: Dataset, folder: Path, filters: Filters | None = None) -> tuple[list[Event], Exported]:
    out = folder / "out.trace.json"
    written = export(opened, out, filters)
    assert out.stat().st_size == written.size == written.plain_size
    events = json.loads(out.read_text("utf-8"), parse_constant=pytest.fail)["traceEvents"]
    _check(events)
    return events, written


def _check(events: list[Event]) -> None:
    """What the format asks of each event, and that slices of a track nest."""
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    open_ids: Counter[str] = Counter()
    named = {e["tid"] for e in events if e["ph"] == "M" and "tid" in e}
    for e in events:
        assert e["ph"] in "XbeisfCM"
        assert isinstance(e["name"], str)
        assert isinstance(e["pid"], int)
        if e["ph"] == "M":
            continue
        assert isinstance(e["ts"], float | int)
        assert e["ph"] == "C" or e["tid"] in named
        if e["ph"] == "X":
            assert e["dur"] >= 0
            slices[e["pid"], e["tid"]].append((_ns(e["ts"]), _ns(e["ts"]) + _ns(e["dur"])))
        if e["ph"] in "besf":
            assert isinstance(e["id"], str)
            open_ids[e["cat"] + e["id"]] += {"b": 1, "s": 1, "e": -1, "f": -1}[e["ph"]]
    assert set(open_ids.values()) <= {0}
    for track in slices.values():
        ends: list[int] = []
        for start, end in sorted(track, key=lambda s: (s[0], -s[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)


def _ns(time_us: float) -> int:
    return round(time_us * 1000)


def _named(events: list[Event], name: str) -> list[Event]:
    return [e for e in events if e["name"] == name and e["ph"] != "M"]


def _tracks(events: list[Event]) -> dict[int, str]:
    return {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, b"0.000"),
        (1, b"0.001"),
        (1_234_567, b"1234.567"),
        (-5, b"-0.005"),
        (2**62, b"4611686018427387.904"),
    ],
)
def test_times_are_exact(ns: int, text: bytes) -> None:
    assert us(ns) == text


def test_rows_in_events_out(tmp_path: Path) -> None:
    zero = 1_760_000_000_000_000_000
    opened = dataset(
        tmp_path / "d",
        processes=[{"process_id": 0, "rank": 3, "host": "a", "pid": 77, "start_ns": zero}],
        host_ops=[
            {"start_ns": zero, "dur_ns": 5001, "name": 'say "hi"\n\\<b>\u2028', "input_dims": "[[2,3]]"},
            {"start_ns": zero + 7000, "dur_ns": None, "name": None},
            {"start_ns": zero + 100, "end_ns": zero + 9000, "name": "across", "form": "async"},
        ],
        launches=[{"start_ns": zero + 1000, "dur_ns": 500, "correlation": 5}],
        device_ops=[
            {"start_ns": zero + 2001, "end_ns": zero + 3002, "name": "gemm", "launch_id": 0, "step": 4},
            {"start_ns": zero + 2001, "dur_ns": 0, "name": "nothing", "kind": "sync", "class": "sync"},
        ],
        collectives=[{"start_ns": zero + 10, "end_ns": zero + 20, "kind": "barrier", "seq": 2**60}],
        counters=[
            {"kind": "memory", "device_id": 0, "name": "m", "time_ns": zero + 50, "allocated_bytes": 9},
            {"kind": "gpu_metric", "name": "SM active", "time_ns": zero + 60, "value": 12.5, "unit": "%"},
            {"kind": "gpu_metric", "name": "SM active", "time_ns": zero + 70},
        ],
    )  # fmt: skip
    events, written = _trace(opened, tmp_path)
    (slice_,) = _named(events, 'say "hi"\n\\<b>\u2028')
    assert (slice_["ph"], slice_["ts"], slice_["dur"]) == ("X", 0.0, 5.001)
    assert slice_["args"]["input_dims"] == "[[2,3]]"
    (mark,) = _named(events, "(no name)")
    assert (mark["ph"], mark["ts"], mark["args"]["end"]) == ("i", 7.0, "never closed")
    assert [(e["ph"], e["ts"]) for e in _named(events, "across")] == [("b", 0.1), ("e", 9.0)]
    (kernel,) = _named(events, "gemm")
    assert (kernel["ts"], kernel["dur"], kernel["args"]["step"]) == (2.001, 1.001, 4)
    arrow = {e["ph"]: e for e in events if e.get("cat") == "flow"}
    assert _tracks(events)[arrow["s"]["tid"]] == "thread 1"
    assert (arrow["s"]["ts"], arrow["f"]["ts"], arrow["f"]["bp"]) == (1.0, 2.001, "e")
    assert arrow["f"]["tid"] == kernel["tid"]
    assert _named(events, "barrier")[0]["args"]["seq"] == str(2**60)
    assert [(e["name"], e["args"]) for e in events if e["ph"] == "C"] == [
        ("memory, device 0 (byte)", {"allocated": 9}),
        ("SM active, host (%)", {"value": 12.5}),
    ]
    assert next(e for e in events if e["name"] == "process_name")["args"]["name"] == "rank 3 (a, pid 77)"
    assert dict(written.events) == {
        "host": 3, "launch": 1, "device": 2, "flow": 1, "collective": 1, "counter": 2,
    }  # fmt: skip
    assert written.valueless == 1


def test_clocks_are_aligned_and_timelines_kept_apart(tmp_path: Path) -> None:
    """Process 1 is 500 ns ahead and gains 1 % from 10000 on; process 2 has a zero of its own."""
    opened = dataset(
        tmp_path / "d",
        processes=[{"process_id": p, "start_ns": s} for p, s in enumerate((10_000, 10_500, 0))],
        clocks=[
            {"process_id": 0, "timeline": 0, "offset_ns": 0},
            {
                "process_id": 1, "timeline": 0, "offset_ns": 500, "drift_ppb": 1e7, "drift_origin_ns": 10_000,
                "corrected": True,
            },
            {"process_id": 2, "timeline": 2, "offset_ns": None},
        ],
        device_ops=[
            {"process_id": 0, "start_ns": 10_000, "end_ns": 20_000, "name": "0"},
            {"process_id": 1, "start_ns": 20_000, "end_ns": 30_000, "name": "1"},
            {"process_id": 2, "start_ns": 7, "end_ns": 9, "name": "2"},
        ],
    )  # fmt: skip
    events, written = _trace(opened, tmp_path)
    assert {e["name"]: (_ns(e["ts"]), _ns(e["dur"])) for e in events if e.get("cat") == "device"} == {
        "0": (5, 10_000),  # the first event of all is process 1's: 10500 - 500 - 5
        "1": (9_405, 9_900),
        "2": (7, 2),
    }
    assert written.apart == 2


def test_slices_that_cross_get_lanes_of_their_own(tmp_path: Path) -> None:
    spans = [(0, 100), (0, 50), (40, 120), (50, 60), (120, 130)] + [(i + 200, i + 300) for i in range(40)]
    opened = dataset(
        tmp_path / "d", device_ops=[{"start_ns": s, "end_ns": e, "name": f"{s}-{e}"} for s, e in spans]
    )
    events, written = _trace(opened, tmp_path)
    lanes = {e["name"]: _tracks(events)[e["tid"]] for e in events if e.get("cat") == "device"}
    assert lanes["0-100"] == lanes["0-50"] == lanes["50-60"] == lanes["120-130"] == "device 0 stream 7"
    assert lanes["40-120"] == "device 0 stream 7 (2)"
    assert Counter(e["ph"] for e in events if e.get("cat") == "device") == {"X": 21, "b": 24, "e": 24}
    assert written.events["device"] == len(spans)


def test_runs_of_layers_waits_and_steps(tmp_path: Path) -> None:
    ops = [(0, 10, 0), (12, 20, 0), (20, 30, None), (25, 40, 1), (35, 50, 0)]
    opened = dataset(
        tmp_path / "d",
        processes=[{"process_id": p, "start_ns": 0} for p in (0, 1)],
        layers=[{"path": "net/a"}, {"path": "net/b"}],
        steps=[{"step": 1, "start_ns": 0, "end_ns": 60, "name": "Step#1"}],
        device_ops=[
            {"start_ns": s, "end_ns": e, "layer_id": layer, "phase": "forward", "step": 1}
            for s, e, layer in ops
        ],
        clocks=[{"process_id": p, "offset_ns": 0, "spread_ns": 1, "error_ns": 1} for p in (0, 1)],
        instances=[{"instance_id": 0, "synchronising": True, "kind": "all_reduce", "present": 2}],
        collectives=[
            {"process_id": p, "start_ns": 30 + 20 * p, "end_ns": 55, "instance_id": 0, "kind": "all_reduce"}
            for p in (0, 1)
        ],
    )
    events, _ = _trace(opened, tmp_path)
    layers = [(e["args"]["layer"], _ns(e["ts"]), _ns(e["dur"])) for e in events if e.get("cat") == "layer"]
    assert layers == [("net/a", 0, 20), ("net/b", 25, 10), ("net/a", 35, 15)]
    waits = [(e["name"], e["pid"], _ns(e["ts"]), _ns(e["dur"])) for e in events if e.get("cat") == "wait"]
    assert waits == [("waits for rank 1", 1, 30, 20)]
    (step,) = [e for e in events if e.get("cat") == "step"]
    assert (_ns(step["dur"]), step["args"]["marker"], step["args"]["compute_ns"]) == (60, "Step#1", 48)


def test_filters_take_what_starts_in_them(tmp_path: Path) -> None:
    both = [(p, s) for p in (0, 1) for s in (0, 1)]
    opened = dataset(
        tmp_path / "d",
        processes=[{"process_id": p, "start_ns": 0} for p in (0, 1)],
        steps=[
            {"process_id": p, "step": s, "start_ns": s * 10, "end_ns": s * 10 + 10} for p, s in both
        ],
        device_ops=[
            {
                "process_id": p, "start_ns": s * 10 + 5, "dur_ns": 9, "step": s, "name": f"{p}.{s}",
                "launch_id": (p << 40) + s,
            }
            for p, s in both
        ],
        launches=[{"process_id": p, "start_ns": s * 10, "dur_ns": 2, "step": s} for p, s in both],
        counters=[{"name": "m", "kind": "memory", "time_ns": t, "allocated_bytes": t} for t in (3, 13)],
    )  # fmt: skip

    def kernels(filters: Filters) -> list[str]:
        events, _ = _trace(opened, tmp_path, filters)
        return sorted(e["name"] for e in events if e.get("cat") == "device")

    assert kernels(Filters(ranks=(1,))) == ["1.0", "1.1"]
    assert kernels(Filters(steps=(1,))) == ["0.1", "1.1"]
    assert kernels(Filters(time=(0, 12))) == ["0.0", "1.0"]
    assert kernels(Filters(ranks=(7,))) == []
    events, written = _trace(opened, tmp_path, Filters(steps=(1,), ranks=(0,)))
    assert [e["args"] for e in events if e["ph"] == "C"] == [{"allocated": 13}]
    assert written.events["flow"] == 1
    _, written = _trace(opened, tmp_path, Filters(time=(4, 12)))
    assert "flow" not in written.events  # the calls start outside


@pytest.mark.parametrize("name", ["out.txt", "none/out.json"])
def test_a_name_that_is_no_trace_is_refused(tmp_path: Path, name: str) -> None:
    opened = dataset(tmp_path / "d", device_ops=[{"start_ns": 0}])
    with pytest.raises(UsageError):
        export(opened, tmp_path / name)
    with pytest.raises(UsageError):
        export(opened, tmp_path / "out.json", Filters(layer="*"))
    assert not list(tmp_path.glob("*out*"))


_any_time = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 200))
_span = st.tuples(_any_time, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 50)))


@given(st.lists(_span, max_size=25), st.lists(_span, max_size=25), st.text(max_size=5))
@settings(max_examples=15, deadline=None)
def test_hostile_times_and_names_give_a_valid_trace(
    host: list[tuple[int, int | None]], device: list[tuple[int, int | None]], name: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = dataset(
            Path(folder) / "d",
            processes=[{"process_id": 0, "start_ns": min([s for s, _ in host + device], default=None)}],
            host_ops=[{"start_ns": s, "dur_ns": d, "name": name} for s, d in host],
            device_ops=[{"start_ns": s, "dur_ns": d, "name": name} for s, d in device],
        )
        out = Path(folder) / "out.json"
        written = export(opened, out)
        events = json.loads(out.read_text("utf-8"), parse_constant=pytest.fail)["traceEvents"]
    assert written.events.get("host", 0) == len(host)
    assert written.events.get("device", 0) == len(device)
    assert all(e["dur"] >= 0 for e in events if e["ph"] == "X")


def _counts(opened: Dataset) -> dict[str, int]:
    tables = {"host": "host_ops", "launch": "launches", "device": "device_ops", "collective": "collectives"}
    return {category: opened.rows(table) for category, table in tables.items()}


def test_a_simulated_job_and_the_command(tmp_path: Path) -> None:
    config = Config(
        ranks=4,
        gpus_per_host=2,
        steps=4,
        layers=3,
        stragglers=(Straggler(2, 3_000_000),),
        offsets_ms=(0, 7.0),
    )
    made = job(config)
    write_kineto(made, tmp_path / "t")
    opened = build(sorted((tmp_path / "t").iterdir()), tmp_path / "job.mdtrace")
    events, written = _trace(opened, tmp_path)
    assert {k: written.events[k] for k in _counts(opened)} == _counts(opened)
    assert written.events["step"] == 16
    for_whom = Counter(e["name"] for e in events if e.get("cat") == "wait" and e["dur"] > 1000)
    assert set(for_whom) == {"waits for rank 2"}
    # On aligned clocks, the ranks leave each collective together: hosts' clocks were 7 ms apart.
    ends = defaultdict(list)
    for e in events:
        if e.get("cat") == "collective" and e["args"]["name"].startswith("nccl") and "instance" in e["args"]:
            ends[e["args"]["instance"]].append(e["ts"] + e["dur"])
    assert max(max(v) - min(v) for v in ends.values() if len(v) == 4) < 100
    out = tmp_path / "job.trace.json.gz"
    result = CliRunner().invoke(app, ["export", str(opened.path), "-o", str(out), "--rank", "0"])
    assert result.exit_code == 0, result.output
    assert "of JSON" in result.stderr
    packed = json.loads(gzip.decompress(out.read_bytes()))
    assert {e["pid"] for e in packed["traceEvents"]} == {1}
    assert packed["otherData"]["clocks"] == "aligned"


@pytest.mark.parametrize(
    "parts",
    [
        ("kineto", "nccl_a100_rank0of2.json.gz"),
        ("kineto", "eager_b200_rank0of8.json.gz"),  # kernels overlap on one stream
        ("nsys", "ddp_2gpu_2process.sqlite"),
        ("own", "horovod", "resnet_w4_straggler2_nocache", "timeline.json"),
    ],
    ids=lambda parts: parts[-1],
)
def test_real_traces(tmp_path: Path, parts: tuple[str, ...]) -> None:
    opened = open_dataset(build([shared("traces", *parts)], tmp_path / "job.mdtrace").path)
    _, written = _trace(opened, tmp_path)
    assert {k: written.events.get(k, 0) for k in _counts(opened)} == _counts(opened)
    assert written.events.get("counter", 0) + written.valueless == opened.rows("counters")
