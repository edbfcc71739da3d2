"""What-ifs: the worked numbers, by hand, and the published answers of two real jobs."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from mdtrace.errors import InputError, UsageError
from mdtrace.models.oplog import oplog, read_oplog
from mdtrace.models.oplog_graph import oplog_job
from mdtrace.models.whatif import Edit, ReplayError, WhatIf
from mdtrace.models.whatif_tables import groups, heat, operations, workers
from oplogs import two_stages
from replay_jobs import rounds
from shared import shared


def test_worked_numbers():
    golden = json.loads(shared("spec", "golden.json").read_text())["straggler"]
    whatif = WhatIf(rounds(golden["inputs"]["local_work"], golden["inputs"]["transfer"]))
    found = whatif.slowdown()
    assert found.replayed_ns == golden["T"]
    assert found.ideal_ns == golden["T_ideal"]
    assert found.slowdown == pytest.approx(golden["S"], abs=5e-7)
    assert found.waste == pytest.approx(golden["waste"], abs=1e-15)
    assert found.error == 0
    ranks = workers(whatif).sort_by("rank").to_pydict()
    assert ranks["slowdown"] == pytest.approx(golden["S_rank"], abs=5e-7)
    assert ranks["without_ns"] == golden["T_with_rank_made_ideal"]
    speed_up = whatif.answer(Edit(ranks=(3,))).speed_up
    assert speed_up == pytest.approx(golden["speed_up_with_rank3_made_ideal"], abs=5e-7)
    assert found.worst == (3,)
    assert found.worst_workers == pytest.approx((60 - 47.5) / (60 - 47.25))
    assert found.last_stage is None  # no stages


def test_edits_by_hand():
    # Rounds: 10 | 20, then 4; 10 | 10, then 4. T = 20 + 4 + 10 + 4.
    whatif = WhatIf(rounds([[10, 20], [10, 10]], 4))
    assert whatif.t == 38
    assert whatif.answer(Edit()).after_ns == 38
    assert whatif.answer(Edit(network=2)).after_ns == 34
    assert whatif.answer(Edit(types=("all_reduce",))).after_ns == 38
    assert whatif.answer(Edit(types=("compute",))).after_ns == 12.5 * 2 + 8 == whatif.t_ideal
    assert whatif.answer(Edit(ideal=True, network=4)).after_ns == 12.5 * 2 + 2
    assert whatif.answer(Edit(ranks=(1,))).after_ns == 12.5 * 2 + 8
    assert whatif.answer(Edit(ranks=(1,), reference="others")).after_ns == 10 * 2 + 8
    assert whatif.answer(Edit(ranks=(1,), types=("all_reduce",))).after_ns == 38
    cells = heat(whatif).to_pylist()
    assert [(r["rank"], r["op_type"], r["work_ns"], r["ideal_work_ns"]) for r in cells] == [
        (0, "compute", 20, 25), (0, "all_reduce", 8, 8), (1, "compute", 30, 25), (1, "all_reduce", 8, 8),
    ]  # fmt: skip
    assert [r["ratio"] for r in cells] == [0.8, 1, 1.2, 1]


def test_nothing_to_share_out_without_a_loss():
    found = WhatIf(rounds([[10, 10], [10, 10]], 4)).slowdown()
    assert (found.slowdown, found.waste, found.worst_workers) == (1, 0, None)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (Edit(ranks=(7,)), "no rank 7"),
        (Edit(types=("gemm",)), "no type of operation 'gemm'"),
        (Edit(network=0), "no positive number"),
        (Edit(network=float("nan")), "no positive number"),
    ],
)
def test_edits_that_cannot_be(edit, words):
    with pytest.raises(UsageError, match=words):
        WhatIf(rounds([[1, 2]], 1)).edited(edit)


def test_a_replay_that_is_off_is_refused():
    job = rounds([[10, 20]], 5)
    assert WhatIf(replace(job, measured_ns=job.measured_ns * 1.04)).error == pytest.approx(1 - 1 / 1.04)
    with pytest.raises(ReplayError, match=r"9\.1 % off, more than 5 %"):
        WhatIf(replace(job, measured_ns=job.measured_ns * 1.1))


def _published(name: str) -> tuple[WhatIf, dict]:
    answer = json.loads(shared("traces", "straggler", "published.json").read_text())[name]
    return WhatIf(oplog_job(read_oplog(shared("traces", "straggler", f"trace-{name}.parquet")))), answer


@pytest.mark.parametrize("name", ["AR", "ST"])
def test_published_answers(name):
    """The rest, a few 1e-7, is the single precision of the times in the file."""
    whatif, answer = _published(name)
    found = whatif.slowdown()
    assert found.slowdown == pytest.approx(answer["S"], rel=1e-6)
    assert found.replayed_ns == pytest.approx(answer["T_s"] * 1e9, rel=1e-6)
    assert found.ideal_ns == pytest.approx(answer["T_ideal_s"] * 1e9, rel=1e-6)
    assert found.measured_ns / found.replayed_ns == pytest.approx(answer["launch_slowdown"], rel=1e-6)
    assert found.worst_workers == pytest.approx(answer["M_W"], abs=1e-6)
    assert found.last_stage == pytest.approx(answer["M_S"], abs=1e-6)
    by_type = dict(zip(*operations(whatif).select(["op_type", "slowdown"]).to_pydict().values(), strict=True))
    assert by_type == pytest.approx(answer["S_by_operation"], rel=1e-6)
    assert [t for t in by_type if by_type[t] > 1.0005] == [
        t for t, s in answer["S_by_operation"].items() if s > 1.0005
    ]
    for column in ("dp_rank", "stage"):
        found_groups = groups(whatif, column).to_pydict()
        found_by = dict(zip(map(str, found_groups[column]), found_groups["slowdown"], strict=True))
        assert found_by == pytest.approx(answer[f"S_by_{column}"], rel=1e-6)


def test_two_stages_by_hand():
    """Stage 1 computes until 13.5; its last gradient arrives at 14, stage 0 ends at 16, then 0.5 s."""
    job = oplog_job(oplog(two_stages()))
    assert job.step_times(job.recorded).tolist() == [16.5e9]
    assert job.measured_ns.tolist() == [17e9]
    whatif = WhatIf(job)
    # Ideal: forward 1.5, backward 3, transfers 0.5, optimizer 0.5: 1.5, 2, 3.5, 6.5, 8, 11, 11.5, 14.5, 15.
    assert whatif.t_ideal == 15e9
    assert whatif.slowdown().slowdown == 1.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop("seq_id"), "no column seq_id"),
        (lambda f: f.with_columns(pl.lit("x").alias("stage")), "another type"),
        (lambda f: f.with_columns(pl.lit(None, pl.Int64).alias("step")), "empty values in step"),
        (lambda f: f.clear(), "no operations"),
        (lambda f: f.with_columns(optype=pl.lit("dance")), "unknown type of operation 'dance'"),
        (lambda f: f.with_columns(duration=pl.lit(-1.0)), "out of range"),
        (lambda f: f.with_columns(start_ts=pl.lit(float("nan"))), "out of range"),
        (lambda f: f.with_columns(dp_rank=pl.lit(2**40)), "out of range"),
        (lambda f: pl.concat([f, f]), "two operations with the same"),
    ],
)
def test_logs_that_cannot_be(change, words):
    with pytest.raises(InputError, match=words):
        oplog(change(two_stages()))


def test_transfers_that_cannot_be_paired():
    frame = two_stages().filter(~((pl.col("optype") == "forward-send") & (pl.col("seq_id") == 1)))
    with pytest.raises(InputError, match="1 forward-send for 2 computations"):
        oplog_job(oplog(frame))


def test_a_file_that_is_no_parquet(tmp_path: Path):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InputError, match="no readable Parquet"):
        read_oplog(path)
    with pytest.raises(InputError, match="no such file"):
        read_oplog(tmp_path / "none.parquet")


def test_an_incomplete_step_is_left_out_and_said():
    whole = two_stages()
    steps = [whole.with_columns(step=pl.lit(s, pl.Int64)) for s in (3, 4, 5)]
    steps[1] = steps[1].filter(pl.col("optype") != "optimizer")
    job = oplog_job(oplog(pl.concat(steps)))
    assert job.steps == (3, 5)
    assert job.notes == ("1 of 3 steps left out: not complete on all workers",)
