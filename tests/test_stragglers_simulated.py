"""Simulated jobs whose truth is known: offsets, drift and delays come back within the stated error bars."""

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from matched_rows import matched
from mdtrace.build.job import build
from mdtrace.metrics.engine import run
from mdtrace.metrics.stragglers import verdict
from mdtrace.tables.dataset import Dataset
from simulate import CAUSES, Config, Job, Straggler, job, write_horovod, write_kineto, write_nsys

MS = 1_000_000


def recorded(folder: Path, simulated: Job) -> Dataset:
    """The job's collectives and steps as its ranks' own clocks record them, without writing traces."""
    truth = simulated.truth
    hosts = {r["rank"]: r["host"] for r in truth["ranks"]}
    epoch = simulated.config.epoch_ns
    rows = [
        {
            "process_id": int(rank), "kind": c["kind"], "evidence": "kernel", "group_name": c["group"],
            "group_ranks": c["group_ranks"], "seq": c["seq"], "step": c["step"],
            "start_ns": simulated.read(int(rank), arrival - epoch),
            "end_ns": simulated.read(int(rank), c["true_end_ns"][rank] - epoch),
        }
        for c in truth["collectives"]
        if c["source"] is None
        for rank, arrival in c["true_arrival_ns"].items()
    ]  # fmt: skip
    steps = [
        {"process_id": s["rank"], "step": s["step"], "name": f"ProfilerStep#{s['step']}"}
        | {k: s[k] for k in ("start_ns", "end_ns")}
        for s in truth["steps"]
    ]
    processes = [{"process_id": r, "host": host} for r, host in hosts.items()]
    return matched(folder, collectives=rows, steps=steps, processes=processes)


def skew_against_truth(dataset: Dataset, simulated: Job) -> list[tuple[int, int, bool]]:
    """Of every compared arrival: error of its delay, stated error bar, and whether the last rank is right
    (or not called late)."""
    truth = {(c["group"], c["seq"]): c for c in simulated.truth["collectives"] if c["source"] is None}
    keys = {i["instance_id"]: (i["group_name"], i["seq"]) for i in dataset.table("instances").to_pylist()}
    found = []
    for row in run(dataset, "arrival_skew").table.to_pylist():
        true = truth[keys[row["instance_id"]]]
        error = abs(row["delay_ns"] - true["delay_ns"][str(row["rank"])])
        found.append((error, row["error_ns"], row["last_rank"] == true["last"] or not row["significant"]))
    return found


def offset_error(dataset: Dataset, simulated: Job) -> float:
    """Error of host 1's solved offset over its error bar: where it is stated for, or in mid-capture."""
    clock, epoch = simulated.clocks[1], simulated.config.epoch_ns
    solved = next(c for c in dataset.table("clocks").to_pylist() if c["host"] == clock.host)
    if solved["drift_origin_ns"] is not None:
        at = solved["drift_origin_ns"] - clock.offset_ns
    else:
        at = median(run(dataset, "arrival_skew").table.column("arrival_ns").to_pylist())
    true = clock.offset_ns + (at - epoch) * clock.drift_ppm * 1e-6
    return float(abs(solved["offset_ns"] - true) / solved["error_ns"])


@pytest.mark.parametrize("seed", range(20))
def test_offsets_drift_and_delays_are_recovered(tmp_path: Path, seed: int) -> None:
    """Two hosts, clocks apart by up to milliseconds and drifting; one rank 3 ms late in every step."""
    late = seed % 8
    drift = (0.0, (-1) ** seed * 25.0 * (seed % 5))
    config = Config(layers=4, steps=8, seed=seed, drifts_ppm=drift, stragglers=(Straggler(late),))
    simulated = job(config)
    dataset = recorded(tmp_path, simulated)
    found = skew_against_truth(dataset, simulated)
    assert len(found) > 8 * 8
    # A drift too small to be seen leaves a little more than the bar at the ends of the capture.
    assert max(error / bar for error, bar, _ in found) <= 1.5
    assert offset_error(dataset, simulated) <= 1
    assert all(right for _, _, right in found)
    ranks = run(dataset, "straggler_ranks").table.to_pylist()
    assert [r["rank"] for r in ranks if r["persistent"]] == [late]


def ingested(folder: Path, write: Any, simulated: Job) -> Dataset:
    write(simulated, folder / "traces")
    return build(sorted(f for f in (folder / "traces").rglob("*") if f.is_file()), folder / "job.mdtrace")


EXPECTED = {
    "host": "host sleep in forward",
    "data": "data loading",
    "compute": "more compute",
    "clock": "slower device",
    "copy": "memory copies",
}


def small(cause: Any, delay: int = 3 * MS) -> Job:
    return job(Config(ranks=4, gpus_per_host=2, layers=3, steps=4, stragglers=(Straggler(2, delay, cause),)))


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_from_kineto(tmp_path: Path, cause: str) -> None:
    dataset = ingested(tmp_path, write_kineto, small(cause))
    ranks = run(dataset, "straggler_ranks").table.to_pylist()
    assert [(r["rank"], r["cause"]) for r in ranks if r["persistent"]] == [(2, EXPECTED[cause])]


@pytest.mark.parametrize("cause", ["host", "clock"])
def test_the_cause_from_nsys(tmp_path: Path, cause: str) -> None:
    """No Python frames there: the sleep is a range in which nothing is recorded."""
    dataset = ingested(tmp_path, write_nsys, small(cause))
    ranks = run(dataset, "straggler_ranks").table.to_pylist()
    expected = "host idle" if cause == "host" else EXPECTED[cause]
    assert [(r["rank"], r["cause"]) for r in ranks if r["persistent"]] == [(2, expected)]


def test_a_horovod_timeline_names_the_rank_not_the_cause(tmp_path: Path) -> None:
    dataset = ingested(tmp_path, write_horovod, small("host", delay=20 * MS))
    ranks = run(dataset, "straggler_ranks").table.to_pylist()
    assert [(r["rank"], r["cause"]) for r in ranks if r["persistent"]] == [(2, None)]


def test_a_job_in_which_nobody_is_late(tmp_path: Path) -> None:
    dataset = recorded(tmp_path, job(Config(layers=4, steps=5)))
    ranks = run(dataset, "straggler_ranks").table.to_pylist()
    assert [r["persistent"] for r in ranks] == [False] * 8
    assert "makes the others wait:" not in verdict(dataset).text
