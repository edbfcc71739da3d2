"""The scheduler what-if: placements, the queue, golden times, files, the command."""

import csv
import io
import json
import random
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from mdtrace.commands import app
from mdtrace.errors import InputError, UsageError
from mdtrace.models.schedule import Cluster, Job, Schedule, closest, simulate, spread, step_s, worst
from mdtrace.models.schedule_example import CLUSTER, JOBS
from mdtrace.models.schedule_files import read_cluster, read_jobs
from mdtrace.models.topology import Level, Topology
from shared import shared

TWO = Topology((Level("in"), Level("net", between=True)))
DEEP = Topology(
    (Level("pair", gpus=2), Level("bus"), Level("rack", nodes=2, between=True), Level("spine", between=True))
)


def _job(name: str, gpus: int, steps: int = 1000, arrival: float = 0.0, near: float = 0.1, far: float = 0.16):
    return Job(name, gpus, steps, arrival, step_s={"alone": near, "in": near, "net": far})


def test_golden_two_jobs_on_two_nodes():
    golden = json.loads(shared("spec", "golden.json").read_text())["topology"]["scheduler"]
    cluster = Cluster(golden["nodes"], golden["gpus_per_node"], TWO)
    near, far = golden["step_ms_together"] / 1e3, golden["step_ms_apart"] / 1e3
    jobs = [
        _job(str(i), golden["gpus_per_job"], golden["steps"], near=near, far=far)
        for i in range(golden["jobs"])
    ]
    aware, blind = simulate(jobs, cluster, "aware"), simulate(jobs, cluster, "blind")
    assert [d.jct_s for d in aware.jobs] == pytest.approx([golden["aware_jct_s"]] * 2)
    assert [d.jct_s for d in blind.jobs] == pytest.approx([golden["blind_jct_s"]] * 2)
    assert blind.mean_jct_s / aware.mean_jct_s == pytest.approx(golden["ratio"])
    assert blind.makespan_s / aware.makespan_s == pytest.approx(golden["ratio"])
    assert [d.nodes for d in aware.jobs + blind.jobs] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("gpus", "link"),
    [((3,), None), ((2, 3), "pair"), ((1, 2), "bus"), ((3, 4), "rack"), ((0, 7), "rack"), ((7, 8), "spine")],
)
def test_the_worst_links_between_gpus(gpus: tuple[int, ...], link: str | None):
    assert worst(Cluster(4, 4, DEEP), gpus) == link


def test_where_jobs_go():
    cluster = Cluster(4, 4, DEEP)
    free = set(range(16)) - {0, 5, 6, 7, 8, 9}  # 1 2 3 | 4 | 10 11 | 12 13 14 15
    assert spread(cluster, free, 3) == (1, 12, 13)  # four, then three free on two nodes: the first of them
    assert closest(cluster, free, 1) == (1,)
    assert closest(cluster, free, 2) == (2, 3)
    assert closest(cluster, free, 3) == (1, 2, 3)
    assert closest(cluster, free, 4) == (12, 13, 14, 15)
    assert closest(cluster, free, 6) == (10, 11, 12, 13, 14, 15)
    assert closest(cluster, free, 11) is None
    assert spread(cluster, free, 11) is None
    # Racks: 1 2 3 4 has no room for five, the other has.
    assert closest(cluster, free, 5) == (10, 12, 13, 14, 15)


def test_a_step_as_the_model_has_it():
    job = Job(
        "m", 4, 1, batch=32, gradient_bytes=2e9, messages=5, constant_s=0.1, sample_s=0.01,
        gb_s={"in": 0.02, "net": 0.3}, hop_s={"in": 1e-4, "net": 1e-3},
    )  # fmt: skip
    cluster = Cluster(2, 4, TWO)
    assert step_s(job, cluster, (0, 1, 2, 3)) == pytest.approx(0.42 + 0.02 * 3 + 1e-4 * 30)
    assert step_s(job, cluster, (2, 3, 4, 5)) == pytest.approx(0.42 + 0.3 * 3 + 1e-3 * 30)
    overlapped = step_s(replace(job, gamma=2.0), cluster, (2, 3, 4, 5))
    assert overlapped == pytest.approx((0.42**2 + 0.93**2) ** 0.5)
    levels = replace(cluster, topology=replace(TWO, exchange="hierarchical"))
    # Inside: rings of 2, 2 GB; between: rings of 2, of the half.
    expected = 0.42 + 0.02 * 2 + 1e-4 * 10 + 0.3 * 1 + 1e-3 * 10
    assert step_s(job, levels, (2, 3, 4, 5)) == pytest.approx(expected)


def test_first_come_first_served():
    jobs = [_job("a", 4), _job("b", 2, 100, arrival=1.0), _job("c", 1, 10, arrival=0.5)]
    done = simulate(jobs, Cluster(1, 4, TWO), "blind").jobs
    assert [d.start_s for d in done] == pytest.approx([0.0, 100.0, 100.0])  # c is before b, both wait for a
    assert [d.finish_s for d in done] == pytest.approx([100.0, 110.0, 101.0])
    assert [d.jct_s for d in done] == pytest.approx([100.0, 109.0, 100.5])


def test_none_overtakes_the_head_of_the_queue():
    # b needs all; c would fit beside a and has to wait for b.
    jobs = [_job("a", 2), _job("b", 4, 100, arrival=1.0), _job("c", 1, 10, arrival=2.0)]
    done = simulate(jobs, Cluster(1, 4, TWO), "aware").jobs
    assert [d.start_s for d in done] == pytest.approx([0.0, 100.0, 110.0])


@pytest.mark.parametrize(("far", "start", "link"), [(1.0, 10.0, "in"), (0.11, 1.0, "net")])
def test_waiting_for_closer_gpus_where_it_pays(far: float, start: float, link: str):
    # One GPU is free on each of two nodes until a ends at 10 s. Then two are; apart a step takes longer.
    jobs = [_job("a", 2, 100), _job("b", 2, 200), _job("late", 2, 100, arrival=1.0, far=far)]
    cluster = Cluster(2, 3, TWO)
    first, second, done = simulate(jobs, cluster, "aware").jobs
    assert (first.finish_s, second.finish_s) == pytest.approx((10.0, 20.0))
    assert (done.start_s, done.link) == (pytest.approx(start), link)
    blind = simulate(jobs, cluster, "blind").jobs[-1]
    assert blind.start_s == 1.0


def _check(schedule: Schedule, cluster: Cluster) -> None:
    """No more GPUs in use than there are; times add up."""
    events = sorted(
        event for d in schedule.jobs for event in ((d.finish_s, -d.job.gpus), (d.start_s, d.job.gpus))
    )
    used = 0
    for _, change in events:
        used += change
        assert used <= cluster.gpus
    for d in schedule.jobs:
        assert d.start_s >= d.job.arrival_s
        assert d.finish_s == pytest.approx(d.start_s + d.job.steps * d.step_s)
    starts = [d.start_s for d in sorted(schedule.jobs, key=lambda d: d.job.arrival_s)]
    assert starts == sorted(starts)


@pytest.mark.parametrize("seed", range(5))
def test_a_busy_cluster(seed: int):
    draw = random.Random(seed)
    jobs, now = [], 0.0
    for i in range(80):
        now += draw.expovariate(1 / 60)
        size = draw.choice([0.04, 0.2, 1.0]) * 1e9
        jobs.append(
            Job(
                str(i), draw.choice([1, 2, 2, 4, 4, 8]), draw.randint(300, 6000), now, gradient_bytes=size,
                constant_s=draw.uniform(0.05, 0.3),
                gb_s={"pair": 0.01, "bus": 0.1, "rack": 0.4, "spine": 0.5},
            )
        )  # fmt: skip
    cluster = Cluster(4, 8, DEEP)
    aware, blind = simulate(jobs, cluster, "aware"), simulate(jobs, cluster, "blind")
    _check(aware, cluster)
    _check(blind, cluster)
    assert aware.mean_jct_s < blind.mean_jct_s / 1.5
    assert aware.makespan_s < blind.makespan_s
    assert simulate(jobs, cluster, "aware") == aware


def test_jobs_that_cannot_run():
    cluster = Cluster(2, 2, TWO)
    with pytest.raises(UsageError, match="job a needs 5 GPUs, the cluster has 4"):
        simulate([_job("a", 5)], cluster, "aware")
    with pytest.raises(UsageError, match="step_s does not say what it takes over net"):
        simulate([Job("a", 2, 1, step_s={"in": 1.0})], cluster, "aware")
    with pytest.raises(UsageError, match="step_s does not say what it takes over alone"):
        simulate([Job("a", 1, 1, step_s={"in": 1.0, "net": 1.0})], cluster, "aware")
    with pytest.raises(UsageError, match="gb_s does not say what it takes over in"):
        simulate([Job("a", 2, 1, constant_s=1, gradient_bytes=1, gb_s={"net": 1.0})], cluster, "blind")
    with pytest.raises(UsageError, match="no job"):
        simulate([], cluster, "blind")
    # Four GPUs never stay inside a node: what these links take need not be said.
    assert simulate([Job("a", 4, 1, step_s={"net": 2.0})], cluster, "aware").makespan_s == 2.0
    with pytest.raises(UsageError, match="no class of links"):
        simulate([_job("a", 1)], Cluster(2, 8, Topology((Level("pair", gpus=2),))), "aware")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """The files of the help."""
    (tmp_path / "jobs.toml").write_text(JOBS)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    return tmp_path / "jobs.toml", tmp_path / "cluster.toml"


def test_the_files_of_the_help(files: tuple[Path, Path]):
    vision, speech = read_jobs(files[0])
    assert (vision.gb_s, vision.gradient_bytes) == ({"nvlink": 0.0174, "net": 0.342}, 102e6)
    assert speech.step_s == {"nvlink": 0.1, "net": 0.16}
    cluster = read_cluster(files[1])
    assert (cluster.nodes, cluster.gpus_per_node, cluster.topology.names) == (2, 2, ("nvlink", "net"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "missing required field 'job'"),
        ("job = []", "length >= 1"),
        ("[[job]]\nname = 'a'\ngpus = 1", "missing required field 'steps'"),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1", "does not say what a step takes"),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\ncolour = 1", "unknown field 'colour'"),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\nconstant_s = -1", "'float' >= 0"),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\nconstant_s = nan", "'float' >= 0"),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\nconstant_s = inf", "'float' <= 1e+18"),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\nstep_s = {alone = 0}", "a step of no time"),
        (
            "[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\nconstant_s = 1\nstep_s = {alone = 1}",
            "give one of them",
        ),
        (
            "[[job]]\nname = 'a'\ngpus = 2\nsteps = 1\nconstant_s = 1\ngb_s = {a = 1}",
            "without gradient_bytes",
        ),
        ("[[job]]\nname = 'a'\ngpus = 1\nsteps = 1\nconstant_s = 1\n" * 2, "2 jobs are named a"),
    ],
)
def test_a_file_of_jobs_that_is_none(tmp_path: Path, text: str, message: str):
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    with pytest.raises(InputError) as failed:
        read_jobs(path)
    assert message in str(failed.value)


def test_a_cluster_that_is_none(tmp_path: Path):
    path = tmp_path / "cluster.toml"
    path.write_text("nodes = 2")
    with pytest.raises(InputError, match="missing required field 'gpus_per_node'"):
        read_cluster(path)
    path.write_text("nodes = 100000\ngpus_per_node = 100\nlevel = []")
    with pytest.raises(InputError, match="more than 1000000 GPUs"):
        read_cluster(path)


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["schedule", *map(str, arguments)], env={"COLUMNS": "100"})


def test_the_command(files: tuple[Path, Path]):
    shown = _run(*files)
    assert shown.exit_code == 0, shown.exception
    assert max(map(len, shown.stdout.splitlines())) <= 100
    lines = [line.split() for line in shown.stdout.splitlines()]
    # 0.016 + 32·0.0027 + 0.102·0.0174 = 0.1042 s; over the network 0.1373 s.
    assert ["vision", "2", "0", "nvlink", "net", "0.1042", "0.1373", "104.2", "137.3", "1.32"] in lines
    assert ["speech", "2", "0", "nvlink", "net", "0.1", "0.16", "100", "160", "1.60"] in lines
    assert ["makespan", "104.2", "160", "1.54"] in lines
    assert ["mean", "JCT", "102.1", "148.6", "1.46"] in lines


def test_the_formats(files: tuple[Path, Path], tmp_path: Path):
    rows = json.loads(_run(*files, "-f", "json").stdout)
    assert [(row["policy"], row["job"], row["link"]) for row in rows] == [
        ("aware", "vision", "nvlink"), ("aware", "speech", "nvlink"),
        ("blind", "vision", "net"), ("blind", "speech", "net"),
    ]  # fmt: skip
    assert rows[3]["jct_s"] == pytest.approx(160.0)
    assert [json.loads(line) for line in _run(*files, "-f", "ndjson").stdout.splitlines()] == rows
    assert len(list(csv.DictReader(io.StringIO(_run(*files, "-f", "csv").stdout)))) == 4
    assert _run(*files, "-o", tmp_path / "s.parquet").exit_code == 0
    assert pl.read_parquet(tmp_path / "s.parquet").columns == list(rows[0])


def test_what_the_command_refuses(files: tuple[Path, Path], tmp_path: Path):
    failed = _run(tmp_path / "none.toml", files[1])
    assert isinstance(failed.exception, InputError)
    assert "cannot be read" in str(failed.exception)
    swapped = _run(files[1], files[0])
    assert "no file of jobs: Object contains unknown field" in str(swapped.exception)
