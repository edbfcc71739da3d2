"""mdtrace scaling and mdtrace fusion."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mdtrace.build.job import build
from mdtrace.commands import app
from mdtrace.commands.scaling import options
from mdtrace.errors import InputError, UsageError
from shared import ROOT


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaling") / "job.mdtrace"
    build(sorted((ROOT / "sample_traces" / "simulated_8rank" / "kineto").glob("*.gz")), folder)
    return folder


def test_the_table_says_what_it_rests_on(job: Path) -> None:
    result = _run("scaling", job, "--gpus", "8,16", "--batch", "32")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert max(len(line) for line in lines) <= 100
    assert "Predicted steps (ms)" in result.output
    assert "between hosts: latency 11.8" in result.output
    assert "Held-out steps" in result.output
    row = next(line for line in lines if line.strip().startswith("16 "))
    assert row.split()[:5] == ["16", "4", "8.04", "0.489", "7.83"]


def test_scaling_rows(job: Path) -> None:
    rows = json.loads(_run("scaling", job, "--gpus", "8,16,12,6", "--format", "json").output)
    by_gpus = {row["gpus"]: row for row in rows}
    measured = by_gpus[8]
    assert (measured["run"], measured["fitted"]) == ("job", True)
    assert measured["error"] == pytest.approx(measured["step_ns"] / measured["measured_ns"] - 1, abs=1e-6)
    assert abs(measured["error"]) < 0.01
    assert measured["scaling_factor"] == pytest.approx(measured["compute_ns"] / measured["step_ns"], abs=1e-6)
    # Rank 5 of 8 is slow by 3 ms, less what hides; the median rank is not.
    assert measured["costs_most"] == "imbalance"
    assert measured["saved_imbalance_ns"] == pytest.approx(2.37e6, rel=0.02)
    assert by_gpus[16]["measured_ns"] is None


def test_a_link_that_is_told(job: Path) -> None:
    told = ("--bandwidth", "320Gb/s", "--latency", "12us")
    rows = json.loads(_run("scaling", job, "--gpus", "8", *told, "--format", "json").output)
    assert abs(rows[0]["error"]) < 0.01  # as simulated
    slow = json.loads(_run("scaling", job, "--bandwidth", "1GB/s", "--latency", "12us", "-f", "json").output)
    assert slow[0]["costs_most"] == "bandwidth"


@pytest.mark.parametrize("network", ["tree", "hierarchical"])
def test_other_networks(job: Path, network: str) -> None:
    result = _run("scaling", job, "--network", network)
    if network == "tree":
        assert result.exit_code == 0, result.output
    else:  # two classes of links are needed, and one is shown
        assert isinstance(result.exception, InputError)


def test_fusion_table(job: Path) -> None:
    result = _run("fusion", job)
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.output.splitlines()) <= 100
    assert "Today: DDP's default" in result.output
    assert "For the best constant cap: bucket_cap_mb=1" in result.output


@pytest.mark.parametrize("command", ["scaling", "fusion"])
def test_one_rank_alone_says_first_that_waiting_may_be_in_it(command: str, job: Path, tmp_path: Path) -> None:
    kineto = ROOT / "sample_traces" / "simulated_8rank" / "kineto"
    build(sorted(kineto.glob("*rank0*.gz")), tmp_path / "one.mdtrace")
    output = _run(command, tmp_path / "one.mdtrace").output
    assert output.startswith("Take these figures with care: the messages are not matched across all ranks")
    assert output.count("with care") == 1
    told = _run(command, tmp_path / "one.mdtrace", "--latency", "12us", "--bandwidth", "40GB/s").output
    assert "with care" not in told
    assert "with care" not in _run(command, job).output


def test_fusion_rows(job: Path) -> None:
    rows = {row["plan"]: row for row in json.loads(_run("fusion", job, "--format", "json").output)}
    assert (rows["today"]["buckets"], rows["today"]["gain"]) == (2, 0)
    assert rows["best buckets"]["step_ns"] == min(row["step_ns"] for row in rows.values())
    assert rows["best buckets"]["gain"] == pytest.approx(0.04, abs=0.005)
    buckets = json.loads(_run("fusion", job, "--buckets", "--gpus", "16", "--format", "json").output)
    today = [row for row in buckets if row["plan"] == "today"]
    assert [row["bytes"] for row in today] == [8_396_800, 29_374_464]
    assert [row["gradients"] for row in today] == [2, 6]
    assert all(row["end_ns"] > row["start_ns"] >= row["ready_ns"] for row in buckets)


def test_a_run_without_gradients_is_refused(tmp_path: Path) -> None:
    sample = ROOT / "sample_traces" / "nsys_ddp_w2_straggler1"
    build(sorted(sample.glob("*.sqlite")), tmp_path / "x.mdtrace")
    for command in ("scaling", "fusion"):
        result = _run(command, tmp_path / "x.mdtrace")
        assert isinstance(result.exception, InputError)
        assert "carry gradients" in result.exception.what


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bandwidth", "fast"), ("--bandwidth", "0Gb/s"), ("--bandwidth", "100Gb"), ("--latency", "20"),
        ("--latency", "-3us"), ("--fusion", "magic"), ("--network", "star"), ("--gpus", "0"), ("--gpus", "x"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(job: Path, arguments: tuple[str, str]) -> None:
    result = _run("scaling", job, *arguments)
    assert isinstance(result.exception, UsageError), result.output


def test_bandwidths_and_latencies_in_their_units() -> None:
    def given(bandwidth: str, latency: str) -> tuple[float | None, float | None]:
        found = options(bandwidth, latency, None, "recorded", None, "ring", ()).given
        return found.bytes_per_s, found.latency_ns

    assert given("100Gb/s", "20us") == (12.5e9, 20_000)
    assert given("12.5GB/s", "0.02ms") == (12.5e9, 20_000)
    assert given("800Mbps", "5µs") == (1e8, 5_000)
    assert given("1Tbit/s", "7ns") == (1.25e11, 7)


@pytest.mark.parametrize(
    ("command", "field", "values"),
    [
        (["scaling", "--gpus", "8,16"], "gpus", {8, 16}),
        (["fusion"], "plan", {"today", "best constant cap", "best buckets", "all together"}),
        (["whatif"], "worker", {str(rank) for rank in range(8)}),
    ],
)
def test_a_picture(job: Path, tmp_path: Path, command: list[str], field: str, values: set[object]) -> None:
    name, *options_ = command
    result = _run(name, job, *options_, "-o", tmp_path / "p.json")
    assert (result.exit_code, result.output) == (0, "")
    drawn = json.loads((tmp_path / "p.json").read_text())
    assert values <= {row.get(field) for rows in drawn["datasets"].values() for row in rows}
    assert _run(name, job, *options_, "-o", tmp_path / "p.svg", "--dark").exit_code == 0
    assert "<svg" in (tmp_path / "p.svg").read_text()
    assert isinstance(_run(name, job, *options_, "-o", tmp_path / "p.doc").exception, UsageError)
