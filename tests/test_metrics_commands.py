"""The commands that print metrics: tables that fit, notes that say what was left out, raw rows."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from mdtrace.commands import app
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
    assert "Steady state: steps 1-2; left out: 0 (first step captured)" in text
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


def test_a_filter_without_meaning_is_an_error(job: Path) -> None:
    result = _run("steps", job, "--layer", "x")
    assert isinstance(result.exception, UsageError)
    assert "step_summary has no layer to filter by" in str(result.exception)


def test_a_dataset_with_nothing_in_it_is_no_error(tmp_path: Path) -> None:
    dataset(tmp_path / "d", processes=[], sources=[])
    for command in _VIEWS:
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
