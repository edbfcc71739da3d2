"""Comparing simulated and real runs, and the command."""

import csv
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mdtrace.build.job import build
from mdtrace.commands import app
from mdtrace.metrics.comparison import Comparison, compare
from mdtrace.tables.dataset import Dataset, open_dataset
from shared import shared
from simulate import Config, Straggler, job, write_kineto

SEEDS = 4


def _simulated(folder: Path, **changed: object) -> Dataset:
    config = {"ranks": 2, "gpus_per_host": 2, "steps": 7, "layers": 3, **changed}
    write_kineto(job(Config(**config)), folder / "traces")  # type: ignore[arg-type]
    return build(sorted((folder / "traces").iterdir()), folder / "job.mdtrace")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return _simulated(tmp_path_factory.mktemp("base"))


def _verdicts(found: Comparison, part: str) -> dict[str, str]:
    return {r["name"]: r["verdict"] for r in found.rows(part)}


def _run(*arguments: object, terminal: int = 100) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": str(terminal)})


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_another_seed_is_only_noise(base: Dataset, tmp_path: Path, seed: int) -> None:
    found = compare(base, _simulated(tmp_path, seed=seed))
    assert found.regressions == []
    changed = {r["name"] for r in found.table.to_pylist() if r["verdict"] in ("regression", "improvement")}
    assert changed == set()
    assert {r["matched"] for r in found.table.to_pylist()} == {"name"}


def test_a_slow_rank_shows_as_compute_and_as_waiting(base: Dataset, tmp_path: Path) -> None:
    found = compare(base, _simulated(tmp_path, stragglers=(Straggler(1, 2_000_000, "compute"),), seed=5))
    # A larger batch is longer copied, too.
    assert found.regressions == ["step", "compute", "exposed communication", "exposed copies"]
    step = found.rows("step")[0]
    assert 2_000_000 < step["change_ns"] < 3_000_000  # kernels, and their copy and loss
    assert _verdicts(found, "bucket")["exposed communication"] == "regression"
    # The devices' means: what the one computes longer, the other waits.
    assert sum(r["change_ns"] for r in found.rows("bucket")) == pytest.approx(step["change_ns"], rel=0.02)
    assert "aten::mm" in [r["name"] for r in found.rows("operator") if r["verdict"] == "regression"]


def test_one_bucket_for_two(base: Dataset, tmp_path: Path) -> None:
    found = compare(base, _simulated(tmp_path, fusion="one"))
    assert _verdicts(found, "collective") == {
        "all_reduce default_pg of 2, 16.8 MB": "regression",  # holds the smaller one's gradients now
        "all_reduce default_pg of 2, 4.19 MB": "gone",
    }
    assert {"new", "gone"}.isdisjoint(_verdicts(found, "operator").values())


def test_more_ranks_are_said_and_their_groups_still_match(base: Dataset, tmp_path: Path) -> None:
    more = _simulated(tmp_path, ranks=4, gpus_per_host=4)
    found = compare(base, more)
    assert {r["matched"] for r in found.rows("collective")} == {"normalised name"}
    result = _run("compare", base.path, more.path)
    assert "world sizes differ" in result.stdout


def test_the_command_says_nothing_changed(base: Dataset) -> None:
    result = _run("compare", base.path, base.path)
    assert result.exit_code == 0, result.output
    assert "No difference" in result.stdout
    assert "steps 1-6 (6 of 7 steps); left out: step 0 (first step captured)" in result.stdout
    assert "Kernels" not in result.stdout


def test_the_command_fails_on_a_regression_and_fits(base: Dataset, tmp_path: Path) -> None:
    late = _simulated(tmp_path, stragglers=(Straggler(1, 2_000_000, "compute"),))
    result = _run("compare", base.path, late.path)
    assert result.exit_code == 1
    assert "regression" in result.stdout
    assert "All together" in result.stdout
    assert max(len(line.rstrip()) for line in result.stdout.splitlines()) <= 100
    assert "…" not in "".join(line for line in result.stdout.splitlines() if line.startswith(" step"))
    assert _run("compare", late.path, base.path).exit_code == 0
    assert _run("compare", base.path, late.path, "--threshold", "500%").exit_code == 0
    rows = list(csv.DictReader(io.StringIO(_run("compare", base.path, late.path, "-f", "csv").stdout)))
    assert rows[0]["name"] == "step"
    assert rows[0]["verdict"] == "regression"


@pytest.mark.parametrize("threshold", ["5", "many", "-1%", ""])
def test_a_threshold_is_a_share(base: Dataset, threshold: str) -> None:
    result = _run("compare", base.path, base.path, f"--threshold={threshold}")
    assert "no share" in str(result.exception)


def _real(folder: Path, *parts: str, pattern: str = "*.gz") -> Path:
    files = sorted(shared("traces", *parts).glob(pattern))
    return build(files, folder / f"{parts[-1]}-{pattern.strip('*.')}.mdtrace").path


def test_real_runs_against_themselves(tmp_path: Path) -> None:
    run = _real(tmp_path, "own", "torch_gloo", "alexnet_w2")
    assert _run("compare", run, run).exit_code == 0
    found = compare(open_dataset(run), open_dataset(run))
    assert set(found.df()["verdict"]) == {"same"}
    assert found.base.bases == ("host records",)
    assert len(found.base.steps) == 4
    timeline = _real(tmp_path, "own", "horovod", "resnet_w2", pattern="*.json")
    assert "No difference" in _run("compare", timeline, timeline).stdout


def test_ranges_of_a_cpu_run(tmp_path: Path) -> None:
    """Nsight Systems on a CPU program: steps, layers and collectives are NVTX ranges."""
    run = _real(tmp_path, "own", "nsys_cpu", "ddp_w2_straggler1", pattern="*.sqlite")
    found = compare(open_dataset(run), open_dataset(run))
    assert found.base.bases == ("step markers",)
    assert found.rows("bucket") == []
    assert {"straggler_sleep", "allreduce"} <= {r["name"] for r in found.rows("host")}
    assert _run("compare", run, run).exit_code == 0


def test_a_real_straggler_sleeps(tmp_path: Path) -> None:
    """Rank 1 of the second run sleeps 0.1 s in every forward; the networks differ otherwise too."""
    before = _real(tmp_path, "own", "torch_gloo", "alexnet_w2")
    after = _real(tmp_path, "own", "torch_gloo", "vgg_w2_straggler1")
    found = compare(open_dataset(before), open_dataset(after))
    sleep = next(r for r in found.rows("host") if r["name"] == "<built-in function sleep>")
    assert sleep["verdict"] == "new"
    assert sleep["change_ns"] == pytest.approx(50_000_000, rel=0.05)  # the mean of two ranks


def test_ranks_of_one_real_step(tmp_path: Path) -> None:
    """DLRM: rank 7 starts last, so rank 0 waits: figures of the accounts, to the ns."""
    first = _real(tmp_path, "kineto", "dlrm_v100_8rank", pattern="*rank0*")
    last = _real(tmp_path, "kineto", "dlrm_v100_8rank", pattern="*rank7*")
    found = compare(open_dataset(first), open_dataset(last))
    buckets = {r["name"]: (r["base_ns"], r["verdict"]) for r in found.rows("bucket")}
    assert not found.noise_is_known
    assert buckets["exposed communication"][1] == "cannot tell"
    assert sum(ns for ns, _ in buckets.values()) == found.rows("step")[0]["base_ns"]
    assert sum(r["contribution_ns"] for r in found.rows("kernel")) + next(
        r["change_ns"] for r in found.rows("bucket") if r["name"] == "idle"
    ) == pytest.approx(found.rows("step")[0]["change_ns"], abs=1)
    assert found.regressions == []  # the step itself is shorter
    result = _run("compare", first, last)
    assert result.exit_code == 0
    assert "noise cannot be told" in result.stdout
