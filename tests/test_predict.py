"""mdtrace predict on ingested simulated jobs: what is read, what it prints, what it refuses."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import simulate
from mdtrace.build.job import build
from mdtrace.commands import app
from mdtrace.errors import InputError, UsageError
from mdtrace.models.topology_runs import Known, default_topology, placed, read, wanted
from mdtrace.tables.dataset import open_dataset
from scaling_truth import step_ns

# GPUs, GPUs of a node, samples
JOBS = {"j1": (1, 1, 4096), "j1b": (1, 1, 8192), "j2": (2, 2, 4096), "j4": (4, 4, 4096), "j4n": (4, 2, 4096)}
EXTRA = {"j6n": (6, 2, 8192)}


def _config(gpus: int, per_node: int, tokens: int) -> simulate.Config:
    return simulate.Config(
        ranks=gpus,
        gpus_per_host=per_node,
        tokens=tokens,
        steps=4,
        layers=2,
        offsets_ms=(0.0,) * -(-gpus // per_node),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset for each of the jobs."""
    folder = tmp_path_factory.mktemp("predict")
    for name, placement in JOBS.items():
        job = simulate.job(_config(*placement))
        build(simulate.write_kineto(job, folder / name), folder / f"{name}.mdtrace")
    return folder


def _all(folder: Path) -> list[Path]:
    return [folder / f"{name}.mdtrace" for name in JOBS]


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["predict", *map(str, arguments)], env={"COLUMNS": "100"})


def test_what_is_read(folder: Path):
    job = simulate.job(_config(*JOBS["j4n"]))
    facts = read(open_dataset(folder / "j4n.mdtrace"))
    sent = [c for c in job.truth["collectives"] if c["kind"] == "all_reduce" and c["step"] == 2]
    assert (facts.gpus, facts.nodes, facts.batch) == (4, 2, 4096)
    assert facts.gradient_bytes == sum(c["payload_bytes"] for c in sent)
    assert facts.messages == len(sent)
    assert facts.step_s == pytest.approx(step_ns(job) * 1e-9, rel=0.03)
    assert facts.steps == 3
    assert facts.device == "NVIDIA H100 80GB HBM3"
    alone = read(open_dataset(folder / "j1.mdtrace"))
    assert (alone.gpus, alone.nodes, alone.gradient_bytes, alone.messages) == (1, 1, 0, 0)
    assert default_topology([facts]).names == ("NVLink 4 inside a node", "between nodes")


def test_the_answer(folder: Path):
    shown = _run(*_all(folder), "--gpus", 6, "--per-node", 2, "--batch", 8192)
    assert shown.exit_code == 0, shown.exception
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert "Fitted on 5 runs on 4 placements" in shown.stdout
    assert "GB/s" in shown.stdout
    assert "Held-out error: " in shown.stdout
    assert "6 GPUs lie beyond the runs (1 to 4): extrapolated." in shown.stdout
    assert "j4n is not predicted without its placement: no run uses links of class between nodes." in (
        " ".join(shown.stdout.split())
    )
    truth = step_ns(simulate.job(_config(*EXTRA["j6n"])))
    rows = json.loads(_run(*_all(folder), "--gpus", 6, "--per-node", 2, "--batch", 8192, "-f", "json").stdout)
    assert rows[0]["predicted_ns"] == pytest.approx(truth, rel=0.06)
    assert rows[0]["samples_per_s"] == pytest.approx(6 * 8192e9 / rows[0]["predicted_ns"], rel=1e-6)
    assert [row["run"] for row in rows] == [None, *JOBS]


def test_every_format(folder: Path, tmp_path: Path):
    asked = (*_all(folder), "--gpus", "2,4", "--batch", 4096)
    rows = json.loads(_run(*asked, "-f", "json").stdout)
    assert [json.loads(line) for line in _run(*asked, "-f", "ndjson").stdout.splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(_run(*asked, "-f", "csv").stdout)))
    assert [row["gpus"] for row in table] == ["2", "4", "1", "1", "2", "4", "4"]
    assert _run(*asked, "-o", tmp_path / "p.parquet").exit_code == 0
    assert pl.read_parquet(tmp_path / "p.parquet").to_dicts() == [
        {**row, "batch": float(row["batch"])} for row in rows
    ]


def test_a_topology_file(folder: Path, tmp_path: Path):
    file = tmp_path / "topo.toml"
    file.write_text(
        '[[level]]\nname = "pair"\ngpus = 2\n[[level]]\nname = "bus"\n[[level]]\nname = "lan"\n'
        "between_nodes = true\n[runs.j4n]\nnodes = 2\nbatch = 4096\n"
    )
    rows = json.loads(
        _run(*_all(folder), "--gpus", 3, "--batch", 4096, "--topology", file, "-f", "json").stdout
    )
    assert [row["link"] for row in rows] == ["bus", None, None, "pair", "bus", "lan"]


def test_batches_given(folder: Path):
    rows = json.loads(
        _run(*_all(folder), "--batches", "1,2,1,1,1", "--gpus", 2, "--batch", 2, "-f", "json").stdout
    )
    assert [row["batch"] for row in rows] == [2, 1, 2, 1, 1, 1]


@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        (["j1", "j2"], ["--gpus", "4", "--per-node", "2"], InputError, "no run uses links of class between"),
        (["j1", "j2"], ["--gpus", "2", "--batch", "64"], InputError, "all runs have a per-GPU batch of 4096"),
        (["j1", "j1b", "j2"], ["--gpus", "2"], InputError, "different batches: 4096, 8192"),
        (["j1", "j2"], ["--gpus", "0"], UsageError, "a number of GPUs is 1 or more"),
        (["j1", "j2"], ["--gpus", "two"], UsageError, "not a list of numbers"),
        (["j1", "j2"], ["--gpus", "2", "--batches", "1"], InputError, "has 1 for 2 datasets"),
        (["j1", "j2"], ["--gpus", "2", "--batches", "1,x"], UsageError, "not a list of numbers"),
        (["j1", "j2"], ["--gpus", "2", "-o", "a.xyz"], UsageError, "its ending names no format"),
    ],
)
def test_what_is_refused(
    folder: Path, names: list[str], options: list[str], error: type[Exception], message: str
):
    failed = _run(*(folder / f"{name}.mdtrace" for name in names), *options)
    assert isinstance(failed.exception, error)
    assert message in str(failed.exception)
    assert failed.exception.exit_code == 2


def test_a_run_of_the_file_that_is_no_dataset(folder: Path, tmp_path: Path):
    file = tmp_path / "topo.toml"
    file.write_text('[[level]]\nname = "a"\n[runs.other]\nnodes = 2\n')
    failed = _run(folder / "j1.mdtrace", "--gpus", 1, "--topology", file)
    assert "[runs.other] of the topology file is none of the datasets" in str(failed.exception)


def test_hosts_that_are_not_known(folder: Path, tmp_path: Path):
    # The trace of one of four ranks does not say where the other three ran.
    build([folder / "j4n" / "rank0.pt.trace.json.gz"], tmp_path / "one.mdtrace")
    facts = read(open_dataset(tmp_path / "one.mdtrace"))
    assert (facts.gpus, facts.nodes) == (4, None)
    with pytest.raises(InputError, match="on how many nodes its 4 ranks ran is not known"):
        placed([facts], None)
    assert placed([facts], 2)[0].placement.nodes == 2
    assert read(open_dataset(tmp_path / "one.mdtrace"), Known(nodes=4)).nodes == 4


def test_a_job_that_is_not_data_parallel_alone(tmp_path: Path):
    job = simulate.job(simulate.Config(ranks=4, gpus_per_host=4, tensor=2, steps=3, layers=2))
    build(simulate.write_kineto(job, tmp_path), tmp_path / "tp.mdtrace")
    with pytest.raises(InputError, match="not data parallel alone"):
        read(open_dataset(tmp_path / "tp.mdtrace"))


def test_a_sharded_job_moves_the_halves_of_all_reduces(tmp_path: Path):
    job = simulate.job(simulate.Config(ranks=2, gpus_per_host=2, strategy="fsdp", steps=3, layers=2))
    build(simulate.write_kineto(job, tmp_path), tmp_path / "fsdp.mdtrace")
    facts = read(open_dataset(tmp_path / "fsdp.mdtrace"))
    sent = [c for c in job.truth["collectives"] if c["step"] == 1]
    assert {c["kind"] for c in sent} == {"all_gather", "reduce_scatter"}
    assert facts.gradient_bytes == pytest.approx(sum(c["payload_bytes"] for c in sent) / 2)


def test_the_placement_asked_for(folder: Path):
    runs = placed([read(open_dataset(folder / f"{name}.mdtrace")) for name in ("j1", "j2", "j4n")], None)
    sizes = runs[1].placement.gradient_bytes
    (asked,) = wanted(runs, [5], None, None)
    assert (asked.gpus, asked.nodes, asked.batch, asked.gradient_bytes) == (5, 3, 4096, sizes)
    assert [p.nodes for p in wanted(runs, [8, 9], 4, 4096)] == [2, 3]


def test_a_picture_of_predicted_against_measured(tmp_path: Path) -> None:
    datasets = []
    for ranks in (1, 2):
        made = simulate.job(simulate.Config(ranks=ranks, gpus_per_host=4, steps=3, layers=2))
        paths = simulate.write_kineto(made, tmp_path / str(ranks))
        datasets.append(str(build(paths, tmp_path / f"{ranks}.mdtrace").path))
    done = CliRunner().invoke(app, ["predict", *datasets, "--gpus", "2", "-o", str(tmp_path / "p.svg")])
    assert done.exit_code == 0, done.output
    assert "<svg" in (tmp_path / "p.svg").read_text()
