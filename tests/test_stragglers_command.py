"""`mdtrace stragglers`: what it prints."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from matched_rows import matched
from mdtrace.commands.stragglers import run
from test_stragglers import MS, host, persistent_rows, steps


def asked(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(run)
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command") / "job.mdtrace"
    ops = [host(2, s, "time.sleep", 0, 400_000, kind="python", phase="forward") for s in range(5)]
    ops += [host(p, s, "aten::mm", 0, 100_000) for p in range(4) for s in range(5)]
    matched(folder, collectives=persistent_rows(), steps=steps(4, range(5), 2 * MS), host_ops=ops)
    return folder


def test_the_verdict_stands_first_and_all_fits_100_columns(path: Path) -> None:
    lines = asked(str(path)).output.splitlines()
    assert lines[0].startswith("rank 2 makes the others wait: 0.399 ms per step (20 % of it) in 5 of 5 steps")
    assert max(map(len, lines)) <= 100
    table = next(line for line in lines if line.strip().startswith("2 "))
    assert "host sleep" in table
    assert "yes" in table
    assert any(line.startswith("Clocks") for line in lines)


def test_a_late_rank_without_a_cause(tmp_path: Path) -> None:
    marks = steps(4, range(5), 2 * MS)
    matched(tmp_path / "job.mdtrace", collectives=persistent_rows(), steps=marks)
    output = asked(str(tmp_path / "job.mdtrace")).output
    assert "No cause for rank 2: nothing in its own time explains half of the wait." in output
    assert "% of its throughput to its slowest rank, measured against the median rank" in output


def test_rows_for_machines(path: Path) -> None:
    rows = json.loads(asked(str(path), "--format", "json", "--rank", "2").output)
    assert [(r["rank"], r["persistent"], r["cause"]) for r in rows] == [(2, True, "host sleep in forward")]


def test_part_of_the_steps(path: Path) -> None:
    assert asked(str(path), "--step", "1-2").output.startswith("arrival data for 2 steps only: rank 2")
