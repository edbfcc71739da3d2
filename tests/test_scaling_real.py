"""Real runs over gloo on two cores: what is read is what the runs state; predictions of their own steps."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdtrace.build.job import build
from mdtrace.errors import InputError
from mdtrace.models.fusion_study import advise, compare
from mdtrace.models.gradients import gradients
from mdtrace.models.scaling_study import Job, predict
from mdtrace.tables.dataset import Dataset
from shared import shared

TORCH = ("alexnet_w2", "vgg_w2_straggler1", "resnet_w4_straggler2")
HOROVOD = (
    "alexnet_w2_nofusion_nocache", "alexnet_w4", "resnet_w2", "resnet_w2_cycles",
    "resnet_w4_cycles_straggler2", "resnet_w4_straggler2_nocache",
)  # fmt: skip


@pytest.fixture(scope="module", params=TORCH)
def torch_run(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Dataset, dict[str, Any]]:
    folder = shared("traces", "own", "torch_gloo", request.param)
    files = sorted(folder.glob("*.gz"))
    made = build(files, tmp_path_factory.mktemp("torch") / "run.mdtrace")
    return request.param, made, json.loads((folder / "truth.json").read_text())


@pytest.fixture(scope="module", params=HOROVOD)
def timeline(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Dataset, dict[str, Any]]:
    folder = shared("traces", "own", "horovod", request.param)
    made = build([folder / "timeline.json"], tmp_path_factory.mktemp("horovod") / "run.mdtrace")
    return request.param, made, json.loads((folder / "truth.jsonl").read_text().splitlines()[0])


def test_gradients_of_torch(torch_run: tuple[str, Dataset, dict[str, Any]]) -> None:
    _, made, truth = torch_run
    found = gradients(made)
    assert found.sizes.sum() == truth["grad_bytes"]
    assert (found.members, found.hosts, found.origin) == (truth["world"], 1, "host")
    wall = np.median([row["wall_ms"][-len(found.steps) :] for row in truth["per_rank_wall_ms"]])
    assert np.median(found.period) / 1e6 == pytest.approx(wall, rel=0.15)


def test_steps_of_torch_are_predicted(torch_run: tuple[str, Dataset, dict[str, Any]]) -> None:
    name, made, truth = torch_run
    found = predict([Job(name, gradients(made))])
    own = next(p for p in found.points if p.measured_ns is not None)
    assert own.error is not None
    assert abs(own.error) < 0.1
    assert own.predicted is not None
    if truth["sleep_s"]:
        assert own.predicted.costs_most == "imbalance"
        # Less than the sleep: the median of two ranks is half way, and who sleeps leaves its core to others.
        assert 0.25 * truth["sleep_s"] < own.predicted.saved["imbalance"] / 1e9 < 1.2 * truth["sleep_s"]
    assert any("cores" in note for note in found.notes)


def test_the_buckets_of_torch_are_recognised(tmp_path: Path) -> None:
    folder = shared("traces", "own", "torch_gloo", "alexnet_w2")
    advice = advise([build(sorted(folder.glob("*.gz")), tmp_path / "run.mdtrace")])
    assert advice.today is not None
    assert advice.today.words == "DDP buckets of 4 MiB"  # as its truth.json says


def test_gradients_of_horovod(timeline: tuple[str, Dataset, dict[str, Any]]) -> None:
    name, made, truth = timeline
    found = gradients(made)
    assert len(found.sizes) == len(truth["params"])
    sizes = {f"allreduce.{tensor}": size for tensor, size in truth["params"].items()}
    assert dict(zip(found.names, found.sizes, strict=True)) == sizes
    assert found.members == truth["world"]
    assert found.origin == ("ticks" if "nocache" in name else "negotiation")
    cycles = found.cycle_ns
    assert (cycles is not None) == ("cycles" in name)


def test_steps_of_horovod_are_predicted(timeline: tuple[str, Dataset, dict[str, Any]]) -> None:
    name, made, _ = timeline
    trace = gradients(made)
    if name == "alexnet_w2_nofusion_nocache":
        assert trace.buckets is not None
        assert len(trace.buckets) == len(trace.sizes)
    found = predict([Job(name, trace)])
    own = next(p for p in found.points if p.measured_ns is not None)
    assert own.error is not None
    assert abs(own.error) < 0.084
    rows = compare([Job(name, trace)]).rows
    best = next(row.step_ns for row in rows if row.name == "best buckets")
    assert best <= min(row.step_ns for row in rows) * (1 + 1e-9)


def test_a_dataset_of_other_gpus_without_steps(tmp_path: Path) -> None:
    files = [shared("traces", "nsys", "ddp_2gpu_2process.sqlite")]
    with pytest.raises(InputError, match="no all-reduce lies in a training step"):
        gradients(build(files, tmp_path / "run.mdtrace"))
