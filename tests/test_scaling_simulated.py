"""Simulated jobs: fitted on two small ones, the scaling factor of larger ones comes out."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import scaling_truth
from mdtrace.build.job import build
from mdtrace.errors import InputError
from mdtrace.models.fusion_study import advise
from mdtrace.models.gradients import gradients
from mdtrace.models.scaling_links import Given
from mdtrace.models.scaling_model import Options
from mdtrace.models.scaling_study import Job, predict, read, study
from mdtrace.tables.dataset import Dataset, open_dataset
from simulate import Config, Link, job, write_horovod, write_kineto, write_nsys

LINKS = {
    "fast": {"nvlink": Link(3_000, 200e9), "pcie": Link(6_000, 20e9), "net": Link(12_000, 40e9)},
    "slow": {"nvlink": Link(3_000, 200e9), "pcie": Link(6_000, 20e9), "net": Link(30_000, 5e9)},
    "far": {"nvlink": Link(3_000, 200e9), "pcie": Link(6_000, 20e9), "net": Link(60_000, 12.5e9)},
}
FUSIONS = {
    "default": {"fusion": "ddp"},
    "4 MiB": {"fusion": "ddp", "bucket_bytes": 4 << 20},
    "threshold": {"fusion": "threshold", "bucket_bytes": 16 << 20},
    "none": {"fusion": "none"},
    "one": {"fusion": "one"},
}
GRID = [
    *((fusion, "fast", ranks) for fusion in ("default", "threshold", "none") for ranks in (2, 16, 32)),
    *((fusion, "slow", ranks) for fusion in ("default", "none") for ranks in (2, 16, 32)),
    *((fusion, "far", ranks) for fusion in ("4 MiB", "threshold") for ranks in (2, 16, 32)),
    ("one", "fast", 32),
    ("one", "slow", 32),
]


@cache
def _run(fusion: str, links: str, ranks: int):
    config = Config(
        ranks=ranks, links=LINKS[links], seed=ranks, steps=5, layers=5, tokens=4096, **FUSIONS[fusion]
    )
    return scaling_truth.run(config)


@cache
def _single(links: str) -> float:
    return scaling_truth.step_ns(job(Config(ranks=1, links=LINKS[links], steps=5, layers=5, tokens=4096)))


def _error(fusion: str, links: str, ranks: int) -> float:
    """Error of the scaling factor, from runs on 8 and 4 ranks: on two hosts and on one.

    Where all gradients go together, all messages of a run have one size; then 16 ranks beside 8 tell
    bandwidth from latency.
    """
    counts = (8, 16) if fusion == "one" else (8, 4)
    jobs = [Job(str(n), _run(fusion, links, n)[0]) for n in counts]
    found = predict(jobs, Options(gpus=(ranks,), per_host=4))
    point = next(p for p in found.points if p.gpus == ranks)
    assert point.predicted is not None, point.reason
    return point.predicted.factor / (_single(links) / _run(fusion, links, ranks)[1]) - 1


@pytest.mark.slow
def test_scaling_factors_of_jobs_that_were_not_seen() -> None:
    errors = {row: _error(*row) for row in GRID}
    assert max(abs(e) for e in errors.values()) <= 0.084, errors
    assert np.mean([abs(e) for e in errors.values()]) < 0.03, errors


def _ingest(folder: Path, simulated, form: str) -> Dataset:
    """The job's traces of one format as a dataset."""
    if form == "horovod":
        files = [write_horovod(simulated, folder, cached=False)]
    else:
        files = {"kineto": write_kineto, "nsys": write_nsys}[form](simulated, folder)
    build(files, folder / f"{form}.mdtrace")
    return open_dataset(folder / f"{form}.mdtrace")


@pytest.fixture(scope="module")
def small():
    return job(Config(ranks=8, steps=5, layers=5, tokens=4096, seed=8))


@pytest.mark.parametrize("form", ["kineto", "nsys", "horovod"])
def test_what_is_read_from_traces_is_the_truth(form: str, small, tmp_path: Path) -> None:
    read_ = gradients(_ingest(tmp_path, small, form))
    true = scaling_truth.gradients(small)
    assert (read_.members, read_.hosts) == (8, None if form == "horovod" else 2)
    assert read_.sizes.sum() == true.sizes.sum()
    assert sorted(read_.sizes) == sorted(true.sizes)
    assert [len(s) for s in read_.stops] == [len(true.stops[0])] * len(read_.steps)
    shared = [list(read_.steps).index(step) for step in true.steps]
    assert np.median(read_.period[shared]) == pytest.approx(np.median(true.period), rel=0.005)
    # The last gradient of a bucket is what its dispatch waits for.
    last = np.median(true.ready.max(axis=1), axis=0)[true.stops[0] - 1]
    found = np.median(read_.ready[shared].max(axis=1), axis=0)[read_.stops[shared[0]] - 1]
    assert found == pytest.approx(last, abs=15_000)


@pytest.mark.parametrize("form", ["kineto", "nsys", "horovod"])
def test_links_come_back_from_traces(form: str, small, tmp_path: Path) -> None:
    found = predict([read(_ingest(tmp_path, small, form))])
    link = next(iter(found.links.values())).link
    assert link.latency_ns == pytest.approx(12_000, rel=0.12)
    assert link.bytes_per_s == pytest.approx(40e9, rel=0.02)
    assert found.held_out_steps == pytest.approx(0, abs=0.02)


@pytest.mark.slow
def test_runs_of_other_sizes_check_the_prediction(small, tmp_path: Path) -> None:
    paths = []
    for ranks in (1, 4, 16):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        paths.append(_ingest(folder, job(Config(ranks=ranks, steps=4, layers=5, tokens=4096)), "kineto"))
    found = study([_ingest(tmp_path, small, "kineto"), *paths])
    points = {p.gpus: p for p in found.points}
    assert {n: p.fitted for n, p in points.items() if p.measured_ns} == {
        1: False,
        4: False,
        8: True,
        16: False,
    }
    assert points[4].predicted is None  # without its own messages nothing shows links inside a host
    assert [abs(points[n].error or 1) < 0.03 for n in (1, 8, 16)] == [True] * 3
    assert found.held_out_jobs is not None
    assert found.held_out_jobs[2] == 2
    assert points[64].predicted is not None


@pytest.mark.slow
def test_advice_on_buckets(small, tmp_path: Path) -> None:
    advice = advise([_ingest(tmp_path, small, "kineto")])
    assert advice.today is not None
    assert advice.today.words.startswith("DDP's default")
    rows = {row.name: row for row in advice.rows}
    assert advice.measured_ns == pytest.approx(rows["today"].step_ns, rel=0.02)
    best = rows["best buckets"].step_ns
    assert all(row.step_ns >= best - 1 for row in advice.rows)
    # The advised setting, tried: the simulated step with it is as predicted.
    setting = rows["best constant cap"].setting or ""
    cap = int(float(setting.removeprefix("bucket_cap_mb=")) * 2**20)
    config = Config(ranks=8, steps=5, layers=5, tokens=4096, seed=8, bucket_bytes=cap, first_bucket_bytes=cap)
    tried = scaling_truth.step_ns(job(config))
    assert tried == pytest.approx(rows["best constant cap"].step_ns, rel=0.02)


def test_messages_of_one_size_are_refused_unless_the_link_is_told() -> None:
    jobs = [Job("8", _run("one", "fast", 8)[0])]
    with pytest.raises(InputError, match="latency and bandwidth cannot be told apart"):
        predict(jobs)
    given = Options(given=Given(latency_ns=12_000))
    found = predict(jobs, given)
    assert found.links["between hosts"].link.bytes_per_s == pytest.approx(40e9, rel=0.02)


def test_links_that_no_run_shows_are_refused_with_the_reason() -> None:
    jobs = [Job("4", _run("default", "fast", 4)[0])]
    found = predict(jobs, Options(gpus=(4, 8), per_host=4))
    beyond = next(p for p in found.points if p.gpus == 8)
    assert beyond.predicted is None
    assert beyond.reason == "no run shows links between hosts"
    further = predict([*jobs, Job("8", _run("default", "fast", 8)[0])], Options(gpus=(4, 8), per_host=4))
    held_out = next(p for p in further.points if p.gpus == 8)
    assert held_out.reason == "no other run (held out) shows links between hosts"
    told = predict(jobs, Options(gpus=(4, 8), per_host=4, given=Given(12_000, 40e9)))
    point = next(p for p in told.points if p.gpus == 8)
    assert point.predicted is not None
    assert point.predicted.total == pytest.approx(_run("default", "fast", 8)[1], rel=0.03)
