"""The commands that print metrics: tables that fit, notes that say what was left out, raw rows."""

import csv
import io
import itertools
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from mdtrace.commands import COMMANDS, app
from mdtrace.commands.answer import steady_words, steps_placed
from mdtrace.errors import UsageError
from mdtrace.metrics.catalog import metrics
from rows import dataset


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Two ranks, three steps, layers with long paths, a collective in every step."""
    layer = "model/" + "/".join(f"TransformerBlock_{n}" for n in range(8))
    steps, ops, calls, host_ops, collectives = [], [], [], [], []
    for p in (0, 1):
        for s in range(3):
            at = 1_000_000_000 + s * 5_000_000
            first = len([o for o in ops if o["process_id"] == p])
            steps.append({"process_id": p, "step": s, "start_ns": at, "end_ns": at + 5_000_000})
            ops += [
                {
                    "process_id": p, "start_ns": at + 10, "end_ns": at + 3_000_010, "step": s,
                    "layer_id": p << 40, "launch_id": (p << 40) + s, "name": "void gemm<" + "float, " * 40,
                },
                {
                    "process_id": p, "start_ns": at + 2_000_010, "end_ns": at + 4_000_010, "step": s,
                    "class": "communication", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                },
            ]  # fmt: skip
            calls.append({"process_id": p, "start_ns": at, "dur_ns": 5})
            host_ops.append(
                {"process_id": p, "start_ns": at, "dur_ns": 1_000_000, "name": "aten::mm", "step": s}
            )
            collectives.append(
                {
                    "process_id": p, "start_ns": at + 2_000_010, "end_ns": at + 4_000_010, "step": s,
                    "payload_bytes": 25 * 2**20 if s else None, "group_size": 2, "group_desc": "default_pg",
                    "device_op_id": (p << 40) + first + 1,
                }
            )  # fmt: skip
    dataset(
        tmp_path / "job.mdtrace",
        processes=[{"process_id": p, "start_ns": 1_000_000_000} for p in (0, 1)],
        steps=steps, device_ops=ops, launches=calls, host_ops=host_ops, collectives=collectives,
        layers=[{"process_id": p, "path": layer, "name": "x"} for p in (0, 1)],
    )  # fmt: skip
    return tmp_path / "job.mdtrace"


def _run(*arguments: object, terminal: int = 100) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": str(terminal)})


_VIEWS = {
    ("overlap",): "time_breakdown",
    ("overlap", "--by", "step"): "step_breakdown",
    ("overlap", "--by", "layer"): "layer_breakdown",
    ("overlap", "--step", "1-2"): "steady_breakdown",
    ("idle",): "idle_breakdown",
    ("idle", "--by", "step"): "step_idle_breakdown",
    ("kernels",): "kernel_summary",
    ("ops",): "operator_summary",
    ("steps",): "step_summary",
    ("collectives",): "collective_bandwidth",
}


@pytest.mark.parametrize("command", _VIEWS, ids=" ".join)
def test_tables_fit_100_columns_and_cut_no_number(job: Path, command: tuple[str, ...]) -> None:
    result = _run(command[0], job, *command[1:])
    assert result.exit_code == 0, result.output
    assert result.stdout.strip()
    for line in result.stdout.splitlines():
        assert len(line.rstrip()) <= 100
    cut = [cell for cell in result.stdout.split() if cell.endswith("…") and cell[0].isdigit()]
    assert not cut


@pytest.mark.parametrize("command", _VIEWS, ids=" ".join)
def test_raw_rows_are_those_of_the_view(job: Path, command: tuple[str, ...]) -> None:
    declared = [c.name for c in metrics()[_VIEWS[command]].columns]
    text = _run(command[0], job, *command[1:], "--format", "csv")
    assert text.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(text.stdout)))
    assert list(rows[0]) == declared
    found = json.loads(_run(command[0], job, *command[1:], "--format", "json").stdout)
    assert len(found) == len(rows)
    out = job.parent / "rows.parquet"
    assert _run(command[0], job, *command[1:], "-o", out).exit_code == 0
    assert pq.read_table(out).num_rows == len(rows)


def test_overlap_says_which_steps_were_left_out(job: Path) -> None:
    text = _run("overlap", job).stdout
    assert "Whole capture, warm-up included" in text
    assert "Steady state: steps 1-2 (2 of 3 steps); left out: step 0 (first step captured)" in " ".join(
        text.split()
    )
    # of the whole capture: 3 × (3 ms compute, 1 ms exposed), 2 × 1 ms idle, 14 ms span
    first = next(line for line in text.splitlines() if line.strip().startswith("0 "))
    shown = "0 0 14.00 9.00 64.3% 3.00 21.4% 0.00 0.0% 2.00 14.3% 50.0 %"
    assert " ".join(first.split()) == shown


def test_layers_come_with_their_coverage(job: Path) -> None:
    text = _run("overlap", job, "--by", "layer").stdout
    assert "A layer is known for 100.0 % of compute" in text
    assert "TransformerBlock_7" in text  # the end of a long path tells layers apart


def test_collectives_count_what_they_cannot_size(job: Path) -> None:
    text = " ".join(_run("collectives", job).stdout.split())
    assert "6 records of collectives" in text
    assert "Of 2 the size is unknown" in text


def test_filters_reach_the_metric(job: Path) -> None:
    rows = json.loads(_run("overlap", job, "--rank", "1", "--time", "0:0.002", "--format", "json").stdout)
    assert [(r["rank"], r["compute_ns"], r["span_ns"]) for r in rows] == [(1, 1_999_990, 1_999_990)]
    (row,) = json.loads(_run("kernels", job, "--layer", "model/*", "--step", "2", "--format", "json").stdout)
    assert (row["count"], row["total_ns"]) == (2, 6_000_000)


@pytest.mark.parametrize("command", ["steps", "collectives", "idle"])
def test_a_filter_without_meaning_is_not_offered(job: Path, command: str) -> None:
    assert "--layer" not in _run(command, "--help").stdout
    assert _run(command, job, "--layer", "x").exit_code == 2


def test_layers_are_picked_by_layer_only(job: Path) -> None:
    result = _run("overlap", job, "--layer", "*")
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint == "add --by layer"


@pytest.mark.parametrize("command", ["overlap", "idle", "kernels", "ops", "steps", "collectives"])
@pytest.mark.parametrize(
    ("option", "asked", "message"),
    [
        ("--rank", "9", "no rank 9; ranks here: 0-1"),
        ("--step", "98-99", "no step 98-99; steps here: 0-2"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(
    job: Path, command: str, option: str, asked: str, message: str
) -> None:
    error = _run(command, job, option, asked).exception
    assert isinstance(error, UsageError)
    assert (error.what, error.exit_code) == (message, 2)


def test_what_is_there_in_part_is_shown_and_the_rest_named(job: Path) -> None:
    result = _run("overlap", job, "--rank", "1-2", "--format", "csv")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.strip() == "no rank 2; ranks here: 0-1"


def test_a_layer_that_is_not_there_is_an_error_with_examples(tmp_path: Path) -> None:
    paths = ["Net_0/Linear_0", "Net_0/Conv2d_0", "Net_0/Conv2d_1"]
    layers = [{"path": path, "name": "x"} for path in paths]
    dataset(tmp_path / "d", layers=layers)
    error = _run("overlap", tmp_path / "d", "--by", "layer", "--layer", "Net_0/Conv2d").exception
    assert isinstance(error, UsageError)
    assert error.what == "no layer matches Net_0/Conv2d"
    assert "for example Net_0/Conv2d_0 or Net_0/Conv2d_1" in (error.hint or "")


def test_a_time_gives_one_table(job: Path) -> None:
    text = _run("overlap", job, "--time", "0:0.006").stdout
    assert text.count("compute") == 1
    assert "Steady state" not in text
    assert "Steady state" not in _run("idle", job).stdout


def test_steps_are_named_apart_from_their_count() -> None:
    assert steady_words({10}, {}) == "step 10 (1 of 1 steps)"
    assert steady_words({3, 4}, {"cut": {5}}) == "steps 3-4 (2 of 3 steps); left out: step 5 (cut)"
    assert steady_words(set(), {"cut": {5}}) == "no step (0 of 1 steps); left out: step 5 (cut)"


def test_time_before_the_first_step_comes_first() -> None:
    def row(step: int | None, start: int, span: int) -> dict[str, int | None]:
        return {"process_id": 0, "device_id": 0, "step": step, "start_ns": start, "span_ns": span}

    placed = steps_placed([row(2, 10, 5), row(None, 4, 6), row(3, 15, 5)])
    assert [r["step"] for r in placed] == ["before", 2, 3]
    assert steps_placed([row(2, 10, 5), row(None, 4, 30)])[0]["step"] == "outside"
    assert steps_placed([row(None, 4, 30)])[0]["step"] is None


def test_a_wide_table_gives_up_decimals_and_not_its_titles(tmp_path: Path) -> None:
    ops = [{"process_id": p, "start_ns": 0, "end_ns": 99_999_000_000} for p in (0, 1)]
    processes = [{"process_id": p, "rank": None} for p in (0, 1)]
    steps = [{"process_id": p, "step": 7, "start_ns": 0, "end_ns": 99_999_000_000} for p in (0, 1)]
    dataset(tmp_path / "d", processes=processes, device_ops=ops, steps=steps)
    for by in ("rank", "step"):
        text = _run("overlap", tmp_path / "d", "--by", by).stdout
        assert "…" not in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= 100


def test_a_choice_that_there_is_not_is_named(job: Path) -> None:
    result = _run("overlap", job, "--by", "foo", terminal=200)
    assert result.exit_code == 2
    assert "Invalid value for '--by': 'foo' is not one of 'rank', 'step', 'layer'." in result.stderr


def test_an_empty_query_is_an_error_and_hidden_columns_are_counted(job: Path) -> None:
    assert isinstance(_run("sql", job, " ").exception, UsageError)
    wide = _run("sql", job, "FROM step_breakdown")
    assert wide.exit_code == 0
    assert "columns hidden: name them, or use --format csv" in wide.stderr
    assert "hidden" not in _run("sql", job, "SELECT 1 AS one").stderr


@pytest.mark.parametrize("command", [name for name, _ in COMMANDS])
def test_help_leaves_no_word_alone_within_a_paragraph(command: str) -> None:
    lines = [line.rstrip() for line in _run(command, "--help").stdout.splitlines()]
    told = lines[: next(n for n, line in enumerate(lines) if line.startswith("╭"))]
    for line, following in itertools.pairwise(told):
        if line and following and not following.startswith("  "):
            # The terminal broke the line: the next word had no room.
            assert len(line) + 1 + len(following.split()[0]) >= 99, (line, following)


def test_a_dataset_with_nothing_in_it_is_no_error(tmp_path: Path) -> None:
    dataset(tmp_path / "d", processes=[], sources=[])
    for command in _VIEWS:
        if "--step" in command:
            continue
        result = _run(command[0], tmp_path / "d", *command[1:])
        assert result.exit_code == 0, result.output
        assert "nothing to show" in " ".join(result.stdout.split())


def test_runs_without_devices_say_what_was_accounted(tmp_path: Path) -> None:
    dataset(
        tmp_path / "d",
        host_ops=[{"start_ns": 0, "end_ns": 100, "name": "aten::mm"}],
        collectives=[
            {"start_ns": 50, "end_ns": 150, "evidence": "host record"},
            {"process_id": 1, "start_ns": 50, "end_ns": 150, "evidence": "timeline"},
        ],
    )
    text = " ".join(_run("overlap", tmp_path / "d").stdout.split())
    assert "overlap does not mean that communication was hidden" in text
    assert "A timeline alone tells of communication" in text
    assert "no steps are marked" in text
    assert "1 0.10 0.10 100.0% – – – – –" in text  # the timeline's communication is known, no more


def test_hardware_shows_the_main_peak_of_all_and_the_closest_names() -> None:
    text = _run("hardware").stdout
    (line,) = [row for row in text.splitlines() if row.strip().startswith("v100-sxm2-16")]
    assert line.split()[3] == "125"  # f16: it has no bf16
    assert line.split()[-1] == "139"  # 125e12 / 900e9
    assert "…" not in text
    error = _run("hardware", "h10-sxm").exception
    assert isinstance(error, UsageError)
    assert (error.hint or "").startswith("closest: h100-sxm")
