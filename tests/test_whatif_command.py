"""mdtrace whatif: what it prints, the rows of each format, what it refuses."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from mdtrace.commands import app
from mdtrace.commands.whatif import By
from mdtrace.errors import DatasetError, InputError, UsageError
from mdtrace.models.whatif import ReplayError
from oplogs import two_stages


@pytest.fixture
def log(tmp_path: Path) -> Path:
    two_stages().write_parquet(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["whatif", *map(str, arguments)], env={"COLUMNS": "100"})


def test_the_answer_in_words_and_tables(log: Path):
    shown = _run(log, "--rank-ideal", 1)
    assert shown.exit_code == 0, shown.exception
    assert (
        "A step takes 16.500 s; with every operation ideal it would take 15.000 s: S = 1.100" in shown.stdout
    )
    assert "measured 17.000 s, replayed 16.500 s, error 2.9 %." in shown.stdout
    # Stage 1 at 1.5 and 3 s: 1.5 … 3 … 6 … 7.5 … 10.5, then 0.5 + 2 + 0.5 s.
    assert "With rank 1 ideal: 13.500 s a step, 1.222 times as fast." in shown.stdout
    # Like stage 0, at 1 and 2 s: 1.5 … 2.5 … 4.5 … 5.5 … 7.5, then 0.5 + 2 + 0.5 s.
    assert "Taken as the mean of the other ranks: 10.500 s, 1.571 times as fast." in shown.stdout
    assert "With the last stage ideal, 200.0 % of the loss goes (M_S)." in shown.stdout
    assert "By operation" in shown.stdout
    # The mean of 1 and 2 s, 2 and 4 s makes the first stage slower.
    assert "How can ideal be slower than recorded? Ideal is the mean over ranks and steps" in shown.stdout
    assert "How can ideal be slower" not in _run(log, "--by", "job").stdout
    assert "How can ideal be slower" in _run(log, "--by", "job", "--rank-ideal", 0).stdout
    assert "forward-pp-comm" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


@pytest.mark.parametrize("by", [b.value for b in By])
def test_every_table_in_every_format(log: Path, by: str, tmp_path: Path):
    assert _run(log, "--by", by).exit_code == 0
    rows = json.loads(_run(log, "--by", by, "-f", "json").stdout)
    assert rows
    lines = _run(log, "--by", by, "-f", "ndjson").stdout.splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = list(csv.DictReader(io.StringIO(_run(log, "--by", by, "-f", "csv").stdout)))
    assert [set(r) for r in table] == [set(r) for r in rows]
    out = tmp_path / "rows.parquet"
    assert _run(log, "--by", by, "-o", out).exit_code == 0
    assert pl.read_parquet(out).columns == list(rows[0])


def test_rows_of_the_job(log: Path):
    (row,) = json.loads(_run(log, "--by", "job", "-f", "json", "--ideal", "--network", "2x").stdout)
    assert row["replayed_ns"] == 16.5e9
    assert row["slowdown"] == pytest.approx(1.1)
    assert row["steps"] == 1
    # Transfers on the way: one forward to the second stage, the last one back.
    assert row["after_ns"] == 15e9 - 2 * 0.25e9


def test_steps_and_edits_by_type(log: Path):
    arguments = (
        "--by",
        "step",
        "-f",
        "json",
        "--op-type",
        "forward-compute",
        "--op-type",
        "backward-compute",
    )
    (row,) = json.loads(_run(log, *arguments).stdout)
    assert row == {"step": 3, "measured_ns": 17e9, "before_ns": 16.5e9, "after_ns": 15e9}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("--rank-ideal", "7"), UsageError, "no rank 7"),
        (("--rank-ideal", "x"), UsageError, "not a list of numbers"),
        (("--op-type", "gemm"), UsageError, "no type of operation 'gemm'"),
        (("--network", "fast"), UsageError, "no factor"),
        (("--ideal", "--rank-ideal", "1"), UsageError, "every operation ideal already"),
        (("--network", "0x"), UsageError, "no factor"),
    ],
)
def test_arguments_that_cannot_be(log: Path, arguments, error, words):
    refused = _run(log, *arguments)
    assert isinstance(refused.exception, error)
    assert words in str(refused.exception)


def test_sources_that_cannot_be(tmp_path: Path):
    assert isinstance(_run(tmp_path).exception, DatasetError)
    assert isinstance(_run(tmp_path / "none.parquet").exception, InputError)
    (tmp_path / "notes.txt").write_text("nothing")
    assert isinstance(_run(tmp_path / "notes.txt").exception, InputError)


def test_a_log_whose_times_the_graph_does_not_explain_is_refused(tmp_path: Path):
    late = pl.when(pl.col("optype") == "optimizer").then(pl.col("start_ts") + 3).otherwise("start_ts")
    two_stages().with_columns(start_ts=late).write_parquet(tmp_path / "late.parquet")
    refused = _run(tmp_path / "late.parquet")
    assert isinstance(refused.exception, ReplayError)
    assert "17.5 % off, more than 5 %" in str(refused.exception)
