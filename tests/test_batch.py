"""mdtrace batch: jobs found, done, skipped, resumed, failed; time lost; the index."""

import csv
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import simulate
from mdtrace.batch import jobs as batch_jobs
from mdtrace.batch.figures import Figures, figures
from mdtrace.batch.index import table
from mdtrace.batch.jobs import JobFolder, State, find_jobs, is_done, read_state, write_state
from mdtrace.batch.page import page
from mdtrace.batch.run import Result as Ended
from mdtrace.batch.run import _ended, run_all
from mdtrace.batch.work import work
from mdtrace.commands import app
from mdtrace.errors import InputError, UsageError
from mdtrace.report.findings import Finding


def _simulated(folder: Path, straggler_ns: int = 2_000_000) -> None:
    stragglers = (simulate.Straggler(1, straggler_ns),)
    job = simulate.job(
        simulate.Config(ranks=2, gpus_per_host=2, layers=2, steps=3, stragglers=stragglers, offsets_ms=(0.0,))
    )
    simulate.write_kineto(job, folder)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of jobs: one with little, one with much time lost, one that is none."""
    folder = tmp_path_factory.mktemp("jobs")
    _simulated(folder / "good", 500_000)
    _simulated(folder / "slow", 9_000_000)
    (folder / "bad").mkdir()
    (folder / "bad" / "rank0.json").write_text("{ this is no trace")
    return folder


def _csv(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((out / "index.csv").read_text().splitlines()))


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["batch", *map(str, arguments)], env={"COLUMNS": "100"})


@pytest.mark.slow
def test_a_batch_from_end_to_end(traces: Path, tmp_path: Path):
    out = tmp_path / "out"
    first = _run(traces, "-o", out, "--jobs", 2)
    assert first.exit_code == 1, first.exception
    assert max(map(len, first.stdout.splitlines())) <= 100
    rows = _csv(out)
    assert [(row["place"], row["job"], row["outcome"]) for row in rows] == [
        ("1", "slow", "done"), ("2", "good", "done"), ("", "bad", "failed"),
    ]  # fmt: skip
    assert "rank0.json" in rows[2]["reason"]
    assert pl.read_parquet(out / "index.parquet")["job"].to_list() == ["slow", "good", "bad"]
    index = (out / "index.html").read_text()
    for row in rows[:2]:
        assert f'href="{row["report"]}"' in index
        assert "<html" in (out / row["report"]).read_text()[:200]
        assert (out / row["job"] / f"{row['job']}.mdtrace" / "manifest.json").is_file()
    assert rows[2]["reason"].split(":")[0] in index
    # The straggler makes the other rank wait for its sleep, in every step: each has half of the loss.
    assert float(rows[0]["wait_ns"]) == pytest.approx(9e6, rel=0.05)
    assert float(rows[0]["lost_ns"]) > float(rows[1]["lost_ns"])
    assert not list(out.glob("*/errors.txt"))

    reports = [(out / row["report"]).stat() for row in rows[:2]]
    second = _run(traces, "-o", out)
    assert second.exit_code == 1
    assert second.stderr.count("nothing has changed") == 2
    assert [(out / row["report"]).stat().st_mtime_ns for row in rows[:2]] == [s.st_mtime_ns for s in reports]
    assert _csv(out) == rows


@pytest.mark.slow
def test_a_batch_without_a_bad_job(traces: Path, tmp_path: Path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "only").symlink_to(traces / "good")
    done = _run(tmp_path / "jobs", "-o", tmp_path / "jobs" / "out", "-q")
    assert done.exit_code == 0, done.exception
    assert done.stdout.strip() == str(tmp_path / "jobs" / "out" / "index.html")
    # OUT lies among the jobs, and is none of them.
    again = _run(tmp_path / "jobs", "-o", tmp_path / "jobs" / "out")
    assert again.exit_code == 0
    assert "1 of 1 only: nothing has changed" in again.stderr


def test_what_a_job_is(tmp_path: Path):
    for name in ("b/x.json", "b/deep/y.json", "b/.hidden", "b/.tmp/z.json", "a/t.json", ".c/t.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "d.mdtrace").mkdir()
    (tmp_path / "d.mdtrace" / "manifest.json").write_text("{}")
    (tmp_path / "loose.json").write_text("{}")
    nsys = tmp_path / "e" / "report"
    nsys.mkdir(parents=True)
    (nsys / "CUPTI_ACTIVITY_KIND_KERNEL.parquet").write_bytes(b"PAR1")
    (nsys / "StringIds.parquet").write_bytes(b"PAR1PAR1")
    found = find_jobs(tmp_path, tmp_path / "out")
    assert [job.name for job in found] == ["a", "b", "e"]
    assert [str(path.relative_to(tmp_path)) for path in found[1].inputs] == ["b/deep/y.json", "b/x.json"]
    assert found[2].inputs == (nsys,)
    assert found[2].basis.inputs[0].size_bytes == 12


def test_folders_without_jobs(tmp_path: Path):
    with pytest.raises(UsageError, match="has no folder in it"):
        find_jobs(tmp_path, tmp_path / "out")
    with pytest.raises(UsageError, match="holds the jobs"):
        find_jobs(tmp_path, tmp_path / "x" / "..")
    with pytest.raises(InputError, match="cannot be listed: No such file"):
        find_jobs(tmp_path / "none", tmp_path / "out")
    (tmp_path / "job").mkdir()
    assert isinstance(_run(tmp_path, "-o", tmp_path / "out", "--hardware", "nothing").exception, UsageError)


@pytest.fixture
def one(tmp_path: Path) -> JobFolder:
    """A job of one file, and its folder in OUT."""
    (tmp_path / "jobs" / "one").mkdir(parents=True)
    (tmp_path / "jobs" / "one" / "t.json").write_text("{}")
    (job,) = find_jobs(tmp_path / "jobs", tmp_path / "out")
    job.out.mkdir(parents=True)
    return job


def _finished(job: JobFolder) -> None:
    job.dataset.mkdir()
    (job.dataset / "manifest.json").write_text("{}")
    (job.out / "report.html").write_text("")
    write_state(job, State(job.basis, "done", figures=Figures(ranks=2)))


def _again(job: JobFolder, hardware: str | None = None) -> JobFolder:
    return find_jobs(job.source.parent, job.out.parent, hardware)[0]


def test_a_job_that_is_done_stays_so(one: JobFolder):
    assert is_done(one) is None
    _finished(one)
    assert is_done(_again(one)) == State(one.basis, "done", figures=Figures(ranks=2))


def test_what_makes_a_job_be_done_again(one: JobFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    _finished(one)
    file = one.inputs[0]
    file.write_text("{ }")
    assert is_done(_again(one)) is None
    one = _again(one)
    write_state(one, State(one.basis, "done"))
    assert is_done(one) is not None
    os.utime(file, ns=(1, 1))
    assert is_done(_again(one)) is None
    one = _again(one)
    write_state(one, State(one.basis, "done"))
    assert is_done(_again(one)) is not None
    (one.source / "more.json").write_text("")
    assert is_done(_again(one)) is None
    (one.source / "more.json").unlink()
    assert is_done(_again(one)) is not None
    assert is_done(_again(one, "h100-sxm")) is None
    own = tmp_path / "own.toml"
    own.write_text("a")
    one = _again(one, str(own))
    write_state(one, State(one.basis, "done"))
    assert is_done(_again(one, str(own))) is not None
    own.write_text("ab")
    assert is_done(_again(one, str(own))) is None
    write_state(_again(one), State(_again(one).basis, "done"))
    (one.out / "report.html").unlink()
    assert is_done(_again(one)) is None
    (one.out / "report.html").write_text("")
    newer = replace_basis(_again(one))
    assert is_done(newer) is None


def replace_basis(job: JobFolder) -> JobFolder:
    """The job as another mdtrace sees it."""
    basis = batch_jobs.Basis(job.basis.inputs, job.basis.hardware, mdtrace="99.0")
    return replace(job, basis=basis)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"outcome": "done"}', b"\xff", b"[" * 100_000])
def test_a_damaged_state_is_none(one: JobFolder, text: bytes):
    _finished(one)
    (one.out / "state.json").write_bytes(text)
    assert read_state(one) is None


def test_failed_jobs_are_tried_again_and_say_why(one: JobFolder):
    state = work(one)
    assert state.outcome == "failed"
    assert "t.json" in str(state.reason)
    assert read_state(one) == state
    assert is_done(one) is None


def test_a_job_of_nothing(tmp_path: Path):
    (tmp_path / "jobs" / "none").mkdir(parents=True)
    (job,) = find_jobs(tmp_path / "jobs", tmp_path / "out")
    assert work(job).reason == "none: no file in it"


@pytest.mark.slow
def test_an_interrupted_job_is_not_ingested_again(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (job,) = (j for j in find_jobs(traces, tmp_path) if j.name == "good")
    assert work(job).outcome == "done"
    manifest = job.dataset / "manifest.json"
    before = manifest.stat()
    (job.out / "report.html").unlink()
    write_state(job, State(job.basis, "ingested"))  # ended between dataset and report
    assert is_done(job) is None
    assert work(job).outcome == "done"
    assert (manifest.stat().st_ino, manifest.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (job.out / "report.html").is_file()
    manifest.unlink()  # a dataset that is damaged is made anew
    monkeypatch.setattr(
        "mdtrace.batch.work._report", lambda job, _dataset, _hardware: State(job.basis, "done")
    )
    write_state(job, State(job.basis, "ingested"))
    assert work(job).outcome == "done"
    assert manifest.is_file()


def test_a_process_that_dies_fails_its_job_alone(one: JobFolder):
    process: Any = SimpleNamespace(exitcode=-9)
    state = _ended(one, process)
    assert (state.outcome, state.reason) == ("failed", "its process ended by signal 9, out of memory perhaps")
    (one.out / "errors.txt").write_text("what went wrong")
    process.exitcode = 1
    assert "with exit code 1" in str(_ended(one, process).reason)
    assert "errors.txt" in str(_ended(one, process).reason)
    write_state(one, State(one.basis, "ingested"))
    process.exitcode = 0
    assert _ended(one, process).outcome == "failed"


def test_a_file_in_the_way(one: JobFolder):
    one.out.rmdir()
    one.out.write_text("")
    results: list[Ended] = []
    run_all([one], results)
    assert results[0].state is not None
    assert results[0].state.reason == "one: a file is in the way of its folder"


@dataclass
class _Facts:
    """As much of a report's facts as figures read."""

    view: str
    account: list[dict[str, Any]]
    world: int | None
    waits: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def totals(self) -> tuple[str, list[dict[str, Any]]]:
        return self.view, self.account

    @property
    def layout(self) -> dict[str, list[dict[str, Any]]]:
        ranks = sorted({row["process_id"] for row in self.account})
        return {"processes": [{"world_size": self.world, "rank": rank} for rank in ranks]}

    def rows(self, metric: str) -> list[dict[str, Any]]:
        return {"straggler_steps": self.waits, "step_summary": self.steps}[metric]


def _device(process: int, exposed: int | None, idle: int | None, span: int, steps: int = 2) -> dict[str, Any]:
    return {
        "process_id": process, "steps": steps, "exposed_comm_ns": exposed, "idle_ns": idle, "span_ns": span
    }  # fmt: skip


def _wait(rank: int, step: int, lost: int) -> dict[str, Any]:
    return {"rank": rank, "step": step, "lost_ns": lost}


STEPS = [{"step": 0, "steady": False}, {"step": 1, "steady": True}, {"step": 2, "steady": True}]


def test_time_lost_in_a_step():
    account = [_device(0, 20, 10, 200), _device(1, 40, 30, 200)]
    waits = [_wait(0, 0, 900), _wait(0, 1, 8), _wait(0, 2, 4), _wait(1, 1, 0), _wait(1, 2, 0)]
    facts: Any = _Facts("steady_breakdown", account, 4, waits, STEPS)
    found = figures(facts, [])
    # Two of four ranks: (20 + 40)/2 and (10 + 30)/2 a step, twice that; waits (8 + 4)/2, twice.
    assert found == Figures(
        ranks=4, captured=2, basis="steady steps", span_ns=100.0, exposed_comm_ns=60.0, wait_ns=12.0,
        idle_ns=40.0, lost_ns=100.0, lost_share=0.25,
    )  # fmt: skip


def test_waiting_counts_where_it_is_more_than_communication():
    waits = [_wait(0, 1, 50), _wait(1, 1, 30)]
    facts: Any = _Facts("steady_breakdown", [_device(0, None, None, 200)], 2, waits, STEPS)
    finding = Finding("Rank 1 waits", 0.2, 1.0, (), "high", "", "", "")
    found = figures(facts, [finding])
    assert (found.exposed_comm_ns, found.wait_ns, found.idle_ns, found.lost_ns) == (None, 80.0, None, 80.0)
    assert found.lost_share == pytest.approx(80 / 200)
    assert (found.finding, found.gain) == ("Rank 1 waits", 0.2)


def test_time_lost_in_a_capture_without_steps():
    waits = [_wait(0, 0, 5), _wait(1, 0, 7)]
    facts: Any = _Facts("time_breakdown", [_device(0, 30, 20, 100), _device(1, 10, 0, 100)], None, waits)
    found = figures(facts, [])
    assert (found.basis, found.ranks, found.lost_ns, found.lost_share) == ("capture", 2, 60.0, 0.3)
    assert (found.wait_ns, found.span_ns) == (12.0, 100.0)
    nothing: Any = _Facts("time_breakdown", [], None)
    assert figures(nothing, []) == Figures()


def _result(name: str, outcome: str, **known: Any) -> Ended:
    job = JobFolder(name, Path(name), Path("out") / name, (), batch_jobs.Basis(()))
    state = State(job.basis, outcome, known.pop("reason", None), Figures(**known))  # type: ignore[arg-type]
    return Ended(job, state)


def test_the_order_of_the_index():
    results = [
        _result("failed", "failed", reason="no trace"),
        _result("unknown", "done"),
        _result("capture", "done", basis="capture", lost_ns=9e9, lost_share=0.9),
        _result("less", "done", basis="steady steps", lost_ns=1e6, lost_share=0.8),
        _result("more", "done", basis="steady steps", lost_ns=2e6, lost_share=0.1),
        Ended(replace(_result("later", "done").job), None),
    ]
    rows = table(results).to_pylist()
    assert [(row["place"], row["job"]) for row in rows] == [
        (1, "more"), (2, "less"), (3, "capture"), (4, "unknown"), (None, "failed"), (None, "later"),
    ]  # fmt: skip
    assert rows[5]["outcome"] == "not begun"
    assert rows[0]["report"] == "more/report.html"
    assert rows[4]["report"] is None


def test_names_in_the_page_are_text():
    hostile = '<script>alert("1")</script>&\'"'
    results = [
        _result(hostile, "done", finding=hostile, gain=0.1, basis="steady steps", lost_ns=5e6, span_ns=1e6),
        _result(f"b{hostile}", "failed", reason=hostile),
    ]
    text = page(table(results).to_pylist())
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 4
    assert 'href="%3Cscript%3E' in text
    assert "5 ms" in text
    assert "http" not in text.replace("http-equiv", "")
