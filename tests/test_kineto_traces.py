"""Real files: every event is accounted for, and the rows are what the files hold."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kineto_read import read_file
from shared import ROOT, shared

_TRACES = ROOT.parent / "shared" / "traces"
FILES = sorted(
    str(p.relative_to(_TRACES))
    for folder in ("kineto", "own/torch_gloo")
    for p in (_TRACES / folder).rglob("*.json.gz")
)

# Kernels, and copies and sets, as the notes beside the files count them.
COUNTS = {
    "bert_small_h100.json.gz": (60, 1),
    "nccl_a100_rank0of2.json.gz": (2700, 1074),
    "resnet50_mi300x_rank0of8.json.gz": (2995, 658),
    "resnet50_v100_2021_old_categories.pt.trace.json.gz": (8772, 324),
    "vllm_graph_replay.json.gz": (425, 9),
    "dlrm_v100_8rank/rank0.pt.trace.json.gz": (245, 16),
}


@cache
def document(file: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress((_TRACES / file).read_bytes()), strict=False)
    return loaded


@pytest.mark.skipif(not FILES, reason="shared/traces is not beside the checkout")
@pytest.mark.parametrize("file", FILES)
def test_every_event_is_accounted_for(file: str, tmp_path: Path) -> None:
    trace = read_file(shared("traces", file), tmp_path)
    assert trace.stored + trace.skipped == len(document(file)["traceEvents"])
    assert trace.staged == trace.stored
    assert not {"damaged_events", "damaged_arguments", "duplicate_events", "truncated"} & set(trace.codes)
    assert trace.process.pid is not None


@pytest.mark.parametrize("file", COUNTS)
def test_counts(file: str, tmp_path: Path) -> None:
    trace = read_file(shared("traces", "kineto", file), tmp_path)
    kinds = trace.rows("device_ops", "kind")
    assert (kinds.count("kernel"), kinds.count("memcpy") + kinds.count("memset")) == COUNTS[file]


def test_times_are_exact(tmp_path: Path) -> None:
    """Against decimal arithmetic on the same file, whose times are absolute microseconds with decimals."""
    file = "kineto/nccl_a100_rank0of2.json.gz"
    trace = read_file(shared("traces", file), tmp_path)
    text = gzip.decompress(shared("traces", file).read_bytes())
    loaded = json.loads(text, parse_float=str)
    base = loaded["baseTimeNanoseconds"]
    expected = [
        (base + _nanoseconds(e["ts"]), _nanoseconds(e["dur"]))
        for e in loaded["traceEvents"]
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    assert trace.rows("device_ops", "start_ns", "dur_ns") == expected


def _nanoseconds(number: str | int) -> int:
    whole, _, fraction = str(number).partition(".")
    return int(whole) * 1000 + int(fraction.ljust(3, "0"))


def test_amd(tmp_path: Path) -> None:
    trace = read_file(shared("traces/kineto/resnet50_mi300x_rank0of8.json.gz"), tmp_path)
    assert (trace.process.rank, trace.process.world_size, len(trace.process.devices)) == (0, 8, 8)
    assert trace.facts.producer == "PyTorch profiler, HIP runtime 60443483"
    assert set(trace.rows("device_ops", "device_id")) == {2}
    assert 0 in trace.rows("device_ops", "stream_id")
    classes = trace.rows("device_ops", "class")
    assert classes.count("communication") == 17
    on_kernels = [r for r in trace.rows("comm_records") if r["anchor"] == "device_ops"]
    assert [r["name"] for r in on_kernels].count("broadcast") == 6
    assert {tuple(r["group_ranks"]) for r in on_kernels} == {tuple(range(8))}
    modules = [m for m in trace.rows("host_ops", "python_module_id") if m is not None]
    assert len(modules) == 450


def test_gloo(tmp_path: Path) -> None:
    trace = read_file(shared("traces/kineto/gloo_cpu_rank34of300.pt.trace.json.gz"), tmp_path)
    assert (trace.process.rank, trace.process.world_size, trace.process.backend) == (34, 300, "gloo")
    first = trace.rows("comm_records")[0]
    assert (first["anchor"], first["dtype"], first["elements_in"]) == ("host_ops", "f32", 321271)
    assert first["group_ranks"] is None  # the job has ten groups, and gloo does not say which


def test_own_run(tmp_path: Path) -> None:
    folder = shared("traces/own/torch_gloo/resnet_w4_straggler2")
    for rank in range(4):
        trace = read_file(folder / f"rank{rank}.pt.trace.json.gz", tmp_path)
        assert (trace.process.rank, trace.process.world_size, trace.process.host) == (rank, 4, "vm")
        reduces = [dur for name, dur in trace.rows("host_ops", "name", "dur_ns") if name == "gloo:all_reduce"]
        total_ms = sum(reduces) / 1e6
        assert (68 < total_ms < 72) if rank == 2 else (470 < total_ms < 655)
        assert set(map(tuple, trace.rows("comm_records", "group_ranks"))) == {(0, 1, 2, 3)}


def test_dlrm_records(tmp_path: Path) -> None:
    trace = read_file(shared("traces/kineto/dlrm_v100_8rank/rank3.pt.trace.json.gz"), tmp_path)
    assert (trace.process.rank, trace.facts.clock_base, trace.facts.clock_base_ns) == (3, "epoch", None)
    reduces = [
        (r["dtype"], r["elements_in"])
        for r in trace.rows("comm_records")
        if trace.rows("host_ops", "name")[r["row"]] == "nccl:all_reduce"
    ]
    assert ("f32", 394241) in reduces
