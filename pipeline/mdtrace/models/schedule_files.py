"""Jobs and clusters from TOML, and schedules as rows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pyarrow as pa

from mdtrace.errors import InputError
from mdtrace.models.schedule import Cluster, Done, Job, Schedule
from mdtrace.models.topology import Topology
from mdtrace.models.topology_files import Amount, LevelEntry, Name, Positive, levels, read_toml

_FORM = "its form: mdtrace schedule --help"
_MOST = 1_000_000  # GPUs of a cluster
Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
Gamma = Annotated[float, msgspec.Meta(ge=1, le=10)]


class JobEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[job]]`."""

    name: Name
    gpus: Positive
    steps: Count
    arrival_s: Amount = 0.0
    batch: Amount = 0.0
    gradient_bytes: Amount = 0.0
    messages: Amount = 0.0
    constant_s: Amount = 0.0
    sample_s: Amount = 0.0
    gb_s: dict[str, Amount] = {}
    hop_s: dict[str, Amount] = {}
    gamma: Gamma = 1.0
    step_s: dict[str, Amount] = {}


class JobsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of jobs."""

    job: Annotated[list[JobEntry], msgspec.Meta(min_length=1, max_length=100_000)]


class ClusterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a cluster."""

    nodes: Positive
    gpus_per_node: Positive
    level: list[LevelEntry]
    exchange: Literal["ring", "hierarchical"] = "ring"


def read_jobs(path: Path) -> list[Job]:
    """The jobs of a file.

    Raises:
        InputError: it is none, or a job says nothing of what a step takes.
    """
    entries = read_toml(path, JobsFile, "file of jobs", known=_FORM).job
    (twice, times), *_ = Counter(entry.name for entry in entries).most_common(1)
    if times > 1:
        raise InputError(f"{path}: {times} jobs are named {twice}", "give each a name of its own")
    return [_job(entry, path) for entry in entries]


def _job(entry: JobEntry, path: Path) -> Job:
    own = entry.constant_s + entry.sample_s * entry.batch
    if entry.step_s and (own or entry.gb_s or entry.hop_s):
        raise InputError(
            f"{path}: job {entry.name} has step_s and coefficients of the model", "give one of them"
        )
    if not entry.step_s and own <= 0:
        raise InputError(
            f"{path}: job {entry.name} does not say what a step takes",
            "give step_s by class of links, or constant_s, sample_s with batch, gb_s with gradient_bytes",
        )
    if any(seconds <= 0 for seconds in entry.step_s.values()):
        raise InputError(f"{path}: job {entry.name} has a step of no time", "step_s is more than 0")
    for what, amount in (("sample_s", "batch"), ("gb_s", "gradient_bytes"), ("hop_s", "messages")):
        if getattr(entry, what) and not getattr(entry, amount):
            raise InputError(f"{path}: job {entry.name} has {what} without {amount}", f"give {amount} too")
    return Job(**msgspec.structs.asdict(entry))


def read_cluster(path: Path) -> Cluster:
    """The cluster of a file.

    Raises:
        InputError: it is none, or too large.
    """
    file = read_toml(path, ClusterFile, "file of a cluster", known=_FORM)
    if file.nodes * file.gpus_per_node > _MOST:
        raise InputError(f"{path}: more than {_MOST} GPUs", "simulate a part of it")
    return Cluster(file.nodes, file.gpus_per_node, Topology(tuple(levels(file.level, path)), file.exchange))


def table(schedules: Sequence[Schedule]) -> pa.Table:
    """A row for each policy and job; times in seconds."""
    rows = [_row(schedule, done) for schedule in schedules for done in schedule.jobs]
    return pa.Table.from_pylist(rows, _ROWS)


def _row(schedule: Schedule, done: Done) -> dict[str, object]:
    return {
        "policy": schedule.policy,
        "job": done.job.name,
        "gpus": done.job.gpus,
        "arrival_s": done.job.arrival_s,
        "start_s": done.start_s,
        "finish_s": done.finish_s,
        "wait_s": done.start_s - done.job.arrival_s,
        "jct_s": done.jct_s,
        "step_s": done.step_s,
        "nodes": done.nodes,
        "link": done.link,
    }


def summary(schedules: Sequence[Schedule]) -> pa.Table:
    """A row for each policy: mean job completion time, makespan, and mean wait, in seconds."""
    return pa.Table.from_pylist(
        [
            {
                "policy": s.policy,
                "jobs": len(s.jobs),
                "mean_jct_s": s.mean_jct_s,
                "makespan_s": s.makespan_s,
                "mean_wait_s": sum(d.start_s - d.job.arrival_s for d in s.jobs) / len(s.jobs),
            }
            for s in schedules
        ]
    )


_ROWS = pa.schema(
    [
        ("policy", pa.string()), ("job", pa.string()), ("gpus", pa.int64()), ("arrival_s", pa.float64()),
        ("start_s", pa.float64()), ("finish_s", pa.float64()), ("wait_s", pa.float64()),
        ("jct_s", pa.float64()), ("step_s", pa.float64()), ("nodes", pa.int64()), ("link", pa.string()),
    ]
)  # fmt: skip
