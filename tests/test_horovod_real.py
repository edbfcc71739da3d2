"""Real Horovod 0.28.1 runs over gloo, against what the training script knew and counts made by hand."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from shared import shared
from test_horovod import Read, Row, read

RUNS = (
    "alexnet_w2_nofusion_nocache",
    "alexnet_w4",
    "resnet_w2",
    "resnet_w2_cycles",
    "resnet_w4_cycles_straggler2",
    "resnet_w4_straggler2_nocache",
)


def run(name: str, folder: Path) -> tuple[Read, Row]:
    """A run's rows and what rank 0 of its training script wrote down."""
    path = shared("traces", "own", "horovod", name, "timeline.json")
    truth = [json.loads(line) for line in (path.parent / "truth.jsonl").read_text().splitlines()]
    return read(path, folder), next(t for t in truth if t["rank"] == 0)


@pytest.mark.parametrize("name", RUNS)
def test_every_event_is_accounted_for(tmp_path: Path, name: str) -> None:
    found, truth = run(name, tmp_path)
    raw = json.loads(shared("traces", "own", "horovod", name, "timeline.json").read_text())
    phases = Counter(e["ph"] for e in raw)
    counts = found.facts.events
    assert found.read() == len(raw)
    assert counts.stored == {p: n for p, n in phases.items() if p != "M"}
    assert sum(counts.skipped.values()) == phases["M"]
    assert len(found.ops) == phases["B"] + phases["i"]
    assert len(found.arrivals) == phases["X"]
    assert not found.facts.truncated
    process = found.facts.processes[0]
    assert (process.world_size, process.rank, process.backend) == (truth["world"], 0, "gloo")
    assert found.facts.clock_base == "epoch"


@pytest.mark.parametrize("name", RUNS)
def test_bytes_and_steps_are_those_of_the_script(tmp_path: Path, name: str) -> None:
    """Per step: every parameter once and the loss, one all-gather, one all-to-all; start-up apart."""
    found, truth = run(name, tmp_path)
    sizes: dict[int | None, int] = defaultdict(int)
    tensors: dict[int | None, list[str]] = defaultdict(list)
    for collective in found.collectives:
        if collective["kind"] == "all_reduce":
            sizes[collective["step"]] += collective["payload_bytes"]
            tensors[collective["step"]] += collective["tensors"]
    steps = range(len(truth["wall_ms"]))
    expected = sorted(f"allreduce.{p}" for p in [*truth["params"], "avg_loss"])
    assert {s: sorted(t) for s, t in tensors.items()} == dict.fromkeys(steps, expected)
    assert sizes == dict.fromkeys(steps, sum(truth["params"].values()) + 4)
    for kind in ("all_gather", "all_to_all"):
        seen = [c["step"] for c in found.collectives if c["kind"] == kind]
        assert seen == list(steps)[: len(seen)]  # the last one may be cut off by the end of the run
        assert len(seen) >= len(steps) - 1
    assert {c["step"] for c in found.collectives if c["kind"] == "broadcast"} == {None}
    assert [s["step"] for s in found.steps] == list(steps)
    cadence = [s["end_ns"] - s["start_ns"] for s in found.steps[:-1]]
    assert all(0.2 < c / 1e6 / w < 5 for c, w in zip(cadence, truth["wall_ms"][1:], strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_fusion_is_what_was_copied_into_a_buffer(tmp_path: Path, name: str) -> None:
    """Horovod copies tensors into the buffer exactly if they share it: singles have no such activity."""
    found, _ = run(name, tmp_path)
    reduces = [c for c in found.collectives if c["kind"] == "all_reduce"]
    copied = len(found.spans("MEMCPY_IN_FUSION_BUFFER"))
    assert sum(c["members"] for c in reduces if c["members"] > 1) == copied
    assert sum(c["members"] for c in reduces) == len(found.spans("GLOO_ALLREDUCE"))
    if "nofusion" in name:
        assert (copied, len(reduces)) == (0, 68)
    for collective in found.collectives:
        assert collective["end_ns"] is None or collective["start_ns"] < collective["end_ns"]
        assert len(collective["tensors"]) == collective["members"] == len(set(collective["tensors"]))
    whole = sorted((c for c in found.collectives if c["end_ns"]), key=lambda c: c["start_ns"])
    overlaps = [b["start_ns"] < a["end_ns"] for a, b in pairwise(whole)]
    assert not any(overlaps)  # gloo runs one at a time


def last_ranks(found: Read, kind: str) -> tuple[int, Counter[int], int]:
    """Negotiations with ticks, how often each rank was the last one alone, and ties."""
    rows = {i: c for i, c in enumerate(found.collectives) if c["kind"] == kind}
    ready: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
    for arrival in found.arrivals:
        if arrival["collective_id"] in rows:
            ready[arrival["collective_id"], arrival["tensor"]][arrival["rank"]] = arrival["ready_ns"]
    last: Counter[int] = Counter()
    ties = 0
    for ticks in ready.values():
        latest = [rank for rank, at in ticks.items() if at == max(ticks.values())]
        ties += len(latest) > 1
        last.update(latest if len(latest) == 1 else ())
    return len(ready), last, ties


def test_straggler_is_last(tmp_path: Path) -> None:
    found, _ = run("resnet_w4_straggler2_nocache", tmp_path)
    assert last_ranks(found, "all_reduce") == (352, {2: 344, 3: 6}, 2)
    negotiations, last, _ = last_ranks(found, "broadcast")
    assert (negotiations, last) == (127, {0: 82, 2: 43, 3: 2})
    assert {a["collective_id"] is None for a in found.arrivals} == {False}
    assert set(found.said()) == {"payload_unknown"}


def test_cached_run_knows_one_step_only(tmp_path: Path) -> None:
    found, _ = run("resnet_w4_cycles_straggler2", tmp_path)
    negotiations, last, _ = last_ranks(found, "all_reduce")
    assert (negotiations, last) == (44, {2: 43, 3: 1})
    assert {c["group_size"] for c in found.collectives} == {4}
    assert found.said() == {"payload_unknown": 133, "activities_open": 2, "rank_ticks_some_steps": 5}
    said = next(d for d in found.facts.diagnostics if d.code == "rank_ticks_some_steps").row(0, None)
    assert "in 1 of 6 steps only" in said["message"]
    assert "HOROVOD_CACHE_CAPACITY=0" in said["hint"]


def test_nobody_slept(tmp_path: Path) -> None:
    found, _ = run("alexnet_w2_nofusion_nocache", tmp_path)
    assert last_ranks(found, "all_reduce") == (68, {0: 36, 1: 32}, 0)
