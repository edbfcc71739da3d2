"""Commands layers, trajectory and hardware: what they print fits and says which roofs, steps and coverage."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mdtrace.commands import app
from rows import dataset


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of one layer, 1e9 FLOP of bf16 in 2 µs each, under a very long path."""
    folder = tmp_path_factory.mktemp("roofline") / "job.mdtrace"
    path = "/".join(f"Block_{i}" for i in range(20)) + "/Linear_7"
    dataset(
        folder,
        devices=[{"device_id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        layers=[{"path": path, "name": "Linear_7"}],
        host_ops=[
            {
                "start_ns": 10_000 * s, "name": "aten::linear", "step": s, "layer_id": 0, "phase": "forward",
                "input_dims": "[[32, 8]]",
            }
            for s in range(3)
        ],
        device_ops=[
            {
                "start_ns": 10_000 * s, "dur_ns": 2000, "host_op_id": s, "step": s, "layer_id": 0,
                "phase": "forward",
            }
            for s in range(3)
        ],
        op_costs=[
            {
                "host_op_id": s, "flops": 1_000_000_000, "bytes": 1_000_000, "dtype": "bf16", "model": "gemm",
                "compute_ns": 2000, "device_ns": 2000, "device_op_count": 1,
            }
            for s in range(3)
        ],
        steps=[{"step": s, "start_ns": 10_000 * s, "end_ns": 10_000 * s + 9_000} for s in range(3)],
    )  # fmt: skip
    return folder


def test_layers_fit_the_terminal_and_say_what_they_stand_on(job: Path) -> None:
    found = _run("layers", job)
    assert found.exit_code == 0
    assert max(map(len, found.stdout.splitlines())) <= 100
    (line,) = [text for text in found.stdout.splitlines() if "Linear_7" in text]
    assert "fwd" in line
    assert "500" in line  # TFLOP/s: 1e9 FLOP in 2 µs
    assert "compute" in line
    assert "50.5 %" in line
    notes = " ".join(found.stderr.split())
    assert "FLOP and bytes known for 100.0 % of compute time, layers for 100.0 %" in notes
    assert "bf16 peak 989.5 TFLOP/s (hardware table), memory 3350 GB/s (hardware table)" in notes


def test_layers_say_that_times_are_sums_and_what_one_rank_cannot_tell(tmp_path: Path, job: Path) -> None:
    assert "Layers (µs, sums over 2 steps)" in _run("layers", job).stdout
    for ranks in (1, 2):
        ops = [
            {"process_id": p, "start_ns": 0, "end_ns": 100, "class": "communication"} for p in range(ranks)
        ]
        collectives = [
            {"process_id": p, "start_ns": 0, "end_ns": 100, "device_op_id": p << 40} for p in range(ranks)
        ]
        processes = [{"process_id": p, "world_size": 2} for p in range(ranks)]
        target = tmp_path / f"of{ranks}"
        dataset(target, processes=processes, device_ops=ops, collectives=collectives)
        said = "waiting for the others cannot be told" in " ".join(_run("layers", target).stderr.split())
        assert said == (ranks == 1)


def test_layers_in_machine_formats_and_filtered(job: Path) -> None:
    (row,) = json.loads(_run("layers", job, "--format", "json", "--step", "1").stdout)
    assert (row["flops"], row["device_ns"], row["steps"], row["bound"]) == (10**9, 2000, 1, "compute")
    assert json.loads(_run("layers", job, "--format", "json", "--phase", "backward").stdout) == []
    assert "no layer matches nothing" in str(_run("layers", job, "--layer", "nothing").exception)
    (row,) = json.loads(_run("layers", job, "--format", "json", "--hardware", "empirical").stdout)
    assert (row["roof_origin"], row["efficiency"]) == ("empirical", pytest.approx(1))


@pytest.mark.parametrize("command", ["layers", "trajectory"])
def test_hardware_that_there_is_not_is_a_usage_error(job: Path, command: str) -> None:
    found = CliRunner().invoke(
        app, [command, str(job), "--hardware", "h1000", "--by", "step"][: 4 if command == "layers" else 6]
    )
    assert found.exception is not None
    assert "h1000: no such hardware" in str(found.exception)


def test_a_trajectory_by_step_and_between_runs(job: Path) -> None:
    found = _run("trajectory", job, "--by", "step")
    assert found.exit_code == 0
    assert "step 0 → step 1: steady" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 100
    picture = job.parent / "steps.svg"
    drawn = _run("trajectory", job, "--by", "step", "-o", picture)
    assert "steps.svg: 3 points drawn" in " ".join(drawn.output.split())
    rows = json.loads(_run("trajectory", job, job, "--values", "1,2", "--format", "json").stdout)
    assert [(r["value"], r["e_performance"]) for r in rows] == [(1, None), (2, 0)]
    assert rows[1]["reading"] == "up, no gain: contention, imbalance or a serial part"
    for wrong in (
        ("trajectory", job),
        ("trajectory", job, job, "--by", "step"),
        ("trajectory", job, job, "--values", "a"),
    ):
        assert _run(*wrong).exit_code != 0


def test_the_hardware_table_is_listed_and_described(tmp_path: Path) -> None:
    listed = _run("hardware")
    assert listed.exit_code == 0
    assert max(map(len, listed.stdout.splitlines())) <= 100
    assert "mi355x" in listed.stdout
    one = " ".join(_run("hardware", "h100-sxm").stdout.split())
    assert "memory bandwidth: 3350 GB/s [NVIDIA H100 datasheet, 2023]" in one
    assert "matrix bf16 989.5 295.4 2199" in one
    out = tmp_path / "roofs.csv"
    assert _run("hardware", "mi300x", "-o", out).exit_code == 0
    assert out.read_text().splitlines()[0].startswith("hardware,name,unit,dtype,flops_per_s,")
    assert _run("hardware", "zzz").exit_code != 0
    assert _run("hardware", "calibrate", "-o", tmp_path / "my.json").exit_code != 0
