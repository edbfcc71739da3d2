"""Rooflines of real traces and of simulated jobs: against their truth, and the plain functions."""

import json
from pathlib import Path
from typing import Any

import pytest

import simulate
from mdtrace.build.job import build
from mdtrace.ingest.pool import Pool
from mdtrace.metrics.engine import Filters, run
from mdtrace.metrics.roofline import bound, md_roofline
from mdtrace.tables.dataset import Dataset
from shared import shared

Row = dict[str, Any]


def _ingested(folder: Path, *files: Path) -> Dataset:
    with Pool(1) as pool:
        return build(list(files), folder, pool=pool)


def _rows(opened: Dataset, metric: str, filters: Filters | None = None, **parameters: object) -> list[Row]:
    return run(opened, metric, filters, **parameters).table.to_pylist()


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    file = shared("traces", "kineto", "bert_small_h100.json.gz")
    return _ingested(tmp_path_factory.mktemp("bert") / "d", file)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    file = shared("traces", "kineto", "resnet50_mi300x_rank0of8.json.gz")
    return _ingested(tmp_path_factory.mktemp("resnet") / "d", file)


@pytest.fixture(scope="module")
def vgg(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = shared("traces", "own", "torch_gloo", "vgg_w2_straggler1")
    return _ingested(tmp_path_factory.mktemp("vgg") / "d", *sorted(folder.glob("rank*.json.gz")))


def test_inference_on_an_h100(bert: Dataset) -> None:
    (job,) = _rows(bert, "job_roofline")
    assert (job["hardware"], job["dtype"], job["roof_origin"]) == ("h100-sxm", "bf16", "hardware table")
    assert job["peak_flops_per_s"] == pytest.approx(989.5e12)
    assert job["coverage"] == 1
    assert job["span_ns"] == 3_907_825
    assert job["compute_share"] == pytest.approx(307_197 / 3_907_825)
    # GEMMs and attention, as the shapes say, are 8.04 + 0.16 GFLOP.
    assert job["flops"] == pytest.approx(8.2e9, rel=0.01)
    assert job["mfu"] == pytest.approx(job["flops"] / (989.5e12 * 3_907_825e-9))
    layers = _rows(bert, "layer_roofline")
    assert sum(r["compute_ns"] for r in layers) == 307_197
    head = max(layers, key=lambda r: r["flops"] or 0)
    assert head["layer"].endswith("BertLMPredictionHead_0/Linear_25")
    # The output layer: 141 tokens × 512 by 512 × 30522.
    assert head["flops"] == 2 * 141 * 512 * 30522
    assert head["device_ns"] == 41_280
    assert head["achieved_flops_per_s"] == pytest.approx(head["flops"] / 41.28e-6)


def test_training_on_an_mi300x(resnet: Dataset) -> None:
    (job,) = _rows(resnet, "job_roofline")
    assert (job["hardware"], job["steps"], job["ranks"]) == ("mi300x", 2, 1)
    assert job["coverage"] > 0.95
    assert (job["rho"], job["straggler_share"]) == (None, None)
    assert job["bus_bytes_per_s"] == 448e9
    # Every bucket fits the gradients of its step: none is left over.
    shares = _rows(resnet, "roofline_shares")
    inside = [s for s in shares if s["step"] is not None]
    assert {s["basis"] for s in inside} == {"gradients", "own"}
    layers = _rows(resnet, "layer_roofline")
    wire = sum(r["wire_bytes"] or 0 for r in layers)
    assert wire == pytest.approx(job["wire_bytes"])
    # Two steps of 23 379 024 byte in buckets on 8 ranks, and what broadcasts of buffers carry.
    assert wire == pytest.approx(2 * (1.75 * 23_379_024 + 19_360))


def test_the_views_are_the_plain_functions(resnet: Dataset) -> None:
    roofs = {r["roof"]: r["per_s"] for r in _rows(resnet, "hardware_roofs") if r["roof"] in ("memory", "bus")}
    checked = 0
    for row in _rows(resnet, "layer_roofline"):
        if row["flops"] is None or not row["bytes"] or row["t_compute_s"] == 0:
            continue
        peak = row["flops"] / row["t_compute_s"]  # of the mix of its operators
        point = md_roofline(
            row["flops"], row["bytes"], row["wire_bytes"], peak, roofs["memory"], roofs["bus"], row["phi"]
        )
        assert row["t_memory_s"] == pytest.approx(point.memory_s)
        assert row["t_comm_s"] == pytest.approx(point.communication_s)
        assert row["attainable_overlap_flops_per_s"] == pytest.approx(point.overlap)
        assert row["attainable_serial_flops_per_s"] == pytest.approx(point.serial)
        assert row["attainable_flops_per_s"] == pytest.approx(point.attainable)
        seconds = row["device_ns"] / 1e9
        assert row["efficiency"] == pytest.approx(row["achieved_flops_per_s"] / point.attainable, rel=1e-3)
        assert row["bound"] == bound(row["t_compute_s"], row["t_memory_s"], row["t_comm_s"], seconds)
        checked += 1
    assert checked > 50


def test_a_run_on_cpus_stands_under_empirical_roofs(vgg: Dataset) -> None:
    truth = json.loads(shared("traces", "own", "torch_gloo", "vgg_w2_straggler1", "truth.json").read_text())
    (job,) = _rows(vgg, "job_roofline")
    assert (job["roof_origin"], job["hardware"]) == ("empirical", None)
    assert job["doubt"] == "the file names no device"
    # Rank 1 sleeps 0.1 s a step: rank 0 waits, and the slowest takes a good part of the throughput.
    assert job["bound"] == "straggler"
    assert job["rho"] > 0.2
    assert job["straggler_share"] > 0.15
    layers = _rows(vgg, "layer_roofline", Filters(ranks=(0,)))
    gradients = sum(r["wire_bytes"] or 0 for r in layers if r["shared"])
    steps = job["steps"]
    assert gradients == pytest.approx(steps * 814_122 * 4)
    assert all(r["efficiency"] is None or r["efficiency"] <= 1 + 1e-9 for r in layers)
    assert truth


def test_a_simulated_job_has_the_flop_of_its_shapes(tmp_path: Path) -> None:
    config = simulate.Config(
        ranks=4, gpus_per_host=4, layers=2, steps=3, jitter=0.0,
        stragglers=(simulate.Straggler(1, 3_000_000, "host"),),
    )  # fmt: skip
    job_truth = simulate.job(config)
    opened = _ingested(tmp_path / "d", *simulate.write_kineto(job_truth, tmp_path / "t"))
    (job,) = _rows(opened, "job_roofline")
    assert (job["ranks"], job["coverage"], job["steps"]) == (4, 1, 2)
    rows = {(r["layer"], r["phase"]): r for r in _rows(opened, "layer_roofline", Filters(ranks=(0,)))}
    operators = _rows(opened, "roofline_operators", Filters(ranks=(0,)))
    for layer in job_truth.truth["layers"]:
        assert rows[layer["path"], "forward"]["flops"] == 2 * layer["flops_forward"]
        products = sum(
            o["flops"]
            for o in operators
            if (o["layer"], o["phase"], o["unit"]) == (layer["path"], "backward", "matrix") and o["counts"]
        )
        assert products == 2 * layer["flops_backward"]
        backward = rows[layer["path"], "backward"]
        assert backward["wire_bytes"] == pytest.approx(2 * 1.5 * layer["gradient_bytes"])
        assert 0 < backward["efficiency"] <= 1
    waiting, late = _rows(opened, "roofline_ranks")[:2]
    assert waiting["bound"] == "straggler"
    assert late["wait_ns"] < waiting["wait_ns"] / 10
    # Rank 1 sleeps 3 ms of each step; without waiting the others could do so much more.
    lost = [x["lost_ns"] for x in job_truth.truth["lost"] if x["step"] in (1, 2)]
    assert job["straggler_share"] == pytest.approx(sum(lost) / job["span_ns"], rel=0.05)
    assert job["rho"] == pytest.approx(3e6 / (job["step_ns"]), rel=0.2)
