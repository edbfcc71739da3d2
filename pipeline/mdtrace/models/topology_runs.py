"""Rows of the topology model from datasets: GPUs, nodes, batch, gradient bytes, step time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import polars as pl

from mdtrace.errors import InputError
from mdtrace.hardware.match import Device, match
from mdtrace.hardware.table import table
from mdtrace.metrics.engine import run
from mdtrace.models.topology import Level, Placement, Topology
from mdtrace.models.topology_predict import Run
from mdtrace.tables.dataset import Dataset

_OTHER = 0.1  # share of bytes in other collectives from which a job is not data parallel alone
_BATCH_OF = {  # which input of an operator has the batch as its first dimension
    "aten::linear": 0, "aten::conv1d": 0, "aten::conv2d": 0, "aten::conv3d": 0, "aten::embedding": 1,
    "aten::addmm": 1, "aten::mm": 0, "aten::matmul": 0, "aten::layer_norm": 0, "aten::batch_norm": 0,
}  # fmt: skip
_EVIDENCE = ("kernel", "host record", "range", "timeline")
_STEPS = "record several training steps (PyTorch: profiler.step(); Nsight Systems: a range per step)"


@dataclass(frozen=True)
class Known:
    """What is known of a run beside its traces; None: nothing."""

    gpus: int | None = None
    nodes: int | None = None
    batch: float | None = None


@dataclass(frozen=True)
class Facts:
    """What a dataset says.

    Attributes:
        nodes: None where hosts are not named or not all ranks are captured.
        device: name of its accelerators; None: not said, or none.
        steps: steady steps the time is the median of.
    """

    name: str
    gpus: int
    nodes: int | None
    batch: float | None
    gradient_bytes: float
    messages: float
    step_s: float
    steps: int
    device: str | None


def name_of(dataset: Dataset) -> str:
    """The dataset's name: its folder's without the ending."""
    return dataset.path.resolve().name.removesuffix(".mdtrace")


def read(dataset: Dataset, known: Known = Known()) -> Facts:
    """The row of a dataset.

    Raises:
        InputError: it has no steps, no bytes of its gradients, or is not data parallel alone.
    """
    name = name_of(dataset)
    processes = pl.DataFrame(dataset.table("processes", ["process_id", "rank", "world_size", "host"]))
    sent = pl.DataFrame(dataset.table("collectives", _SENT))
    gpus = known.gpus or _gpus(processes, sent)
    if gpus is None:
        raise InputError(f"{name}: the number of its ranks is not recorded", "state it: [runs] of --topology")
    step_s, steady = _step(dataset, name)
    gradient_bytes, messages = (0.0, 0.0) if gpus == 1 else _exchanged(sent, steady, gpus, name)
    devices = dataset.table("devices", ["name"]).column(0).to_pylist()
    batch = known.batch if known.batch is not None else _batch(dataset)
    return Facts(
        name=name,
        gpus=gpus,
        nodes=known.nodes or _nodes(processes, gpus),
        batch=batch,
        gradient_bytes=gradient_bytes,
        messages=messages,
        step_s=step_s,
        steps=len(steady),
        device=next((d for d in devices if d is not None), None),
    )


_SENT = ["process_id", "kind", "group_size", "payload_bytes", "members", "step", "evidence", "point_to_point"]


def _gpus(processes: pl.DataFrame, sent: pl.DataFrame) -> int | None:
    stated = [processes["world_size"].max(), sent["group_size"].max()]
    ranks = processes["rank"].drop_nulls().n_unique()
    sizes = [int(s) for s in stated if isinstance(s, int)] + ([ranks] if ranks else [])
    if not sizes and sent.is_empty() and len(processes) == 1:
        return 1
    return max(sizes, default=None)


def _nodes(processes: pl.DataFrame, gpus: int) -> int | None:
    """Hosts, where every rank is captured and each capture names its host."""
    if gpus == 1:
        return 1
    placed = processes.drop_nulls(["rank", "host"])
    return placed["host"].n_unique() if placed["rank"].n_unique() == gpus else None


def _step(dataset: Dataset, name: str) -> tuple[float, set[int]]:
    """Median seconds from the start of a steady step to the next; and these steps."""
    rows = run(dataset, "step_times").pl().sort("process_id", "start_ns")
    rows = rows.with_columns(period=(pl.col("start_ns").shift(-1) - pl.col("start_ns")).over("process_id"))
    steady = rows.filter(pl.col("steady"))
    timed = steady["period"].drop_nulls()
    if timed.is_empty():
        timed = steady["host_ns"].drop_nulls()
    median = timed.median()
    if not isinstance(median, float) or median <= 0:
        raise InputError(f"{name}: no training step is marked in it", _STEPS)
    return median * 1e-9, set(steady["step"].to_list())


def _exchanged(sent: pl.DataFrame, steady: set[int], gpus: int, name: str) -> tuple[float, float]:
    """Gradient bytes and messages of a step: all-reduced bytes, and half of those scattered and gathered.

    A sharded job gathers parameters and scatters gradients: the two halves of all-reduces.
    """
    sent = sent.filter(pl.col("step").is_in(steady))
    found = next((e for e in _EVIDENCE if (sent["evidence"] == e).any()), None)
    sent = sent.filter(pl.col("evidence") == found)
    whole = pl.col("kind").is_in(["all_reduce", "reduce_scatter", "all_gather"]) & (
        pl.col("group_size").is_null() | (pl.col("group_size") == gpus)
    )
    ours = sent.filter(whole)
    total = float(sent["payload_bytes"].sum())
    others = total > 0 and 1 - float(ours["payload_bytes"].sum()) / total > _OTHER
    if not others and (ours.is_empty() or ours["payload_bytes"].null_count()):
        what = "no exchange of gradients" if ours.is_empty() else "no bytes of its collectives"
        raise InputError(f"{name}: {what} in its steady steps", "record collectives with their shapes")
    if others:
        raise InputError(
            f"{name}: not data parallel alone: collectives and transfers of fewer than its {gpus} ranks",
            "this model predicts jobs in which all ranks average their gradients",
        )
    half = pl.when(pl.col("kind") == "all_reduce").then(1.0).otherwise(0.5)
    per_step = ours.group_by("process_id", "step").agg(
        bytes=(pl.col("payload_bytes") * half).sum(), messages=half.sum()
    )
    return float(np.median(per_step["bytes"])), float(np.median(per_step["messages"]))


def _batch(dataset: Dataset) -> float | None:
    """First dimension of the first input in a step, as recorded for most captures; None: no shapes."""
    if not dataset.files["host_ops"]:
        return None
    first = (
        pl.scan_parquet(list(dataset.files["host_ops"]))
        .select("process_id", "start_ns", "name", "input_dims", "step", "phase")
        .filter(
            pl.col("name").is_in(list(_BATCH_OF))
            & pl.col("input_dims").is_not_null()
            & pl.col("step").is_not_null()
            & (pl.col("phase").is_null() | (pl.col("phase") == "forward"))
        )
        .sort("start_ns")
        .group_by("process_id")
        .first()
        .collect()
    )
    found = [_dimension(row["input_dims"], _BATCH_OF[row["name"]]) for row in first.iter_rows(named=True)]
    sizes = [size for size in found if size is not None]
    return float(np.median(sizes)) if sizes else None


def _dimension(dims: str, which: int) -> int | None:
    try:
        shapes = msgspec.json.decode(dims)
    except (msgspec.DecodeError, RecursionError):
        return None
    shape = shapes[which] if isinstance(shapes, list) and len(shapes) > which else None
    size = shape[0] if isinstance(shape, list) and shape else None
    return size if isinstance(size, int) and size > 0 else None


def default_topology(facts: Sequence[Facts]) -> Topology:
    """Links inside a node, named as the hardware table names those of the device, and between nodes."""
    device = next((f.device for f in facts if f.device is not None), None)
    entry = match(Device(device), tuple(table().values())).entry
    inside = "inside a node" if entry is None or entry.link is None else f"{entry.link} inside a node"
    return Topology((Level(inside), Level("between nodes", between=True)))


def placed(facts: Sequence[Facts], per_node: int | None) -> list[Run]:
    """Runs of the model.

    Args:
        per_node: GPUs of a node, for runs whose hosts are not known.

    Raises:
        InputError: where a run was placed is not known, or the runs are on different devices.
    """
    devices = sorted({f.device for f in facts if f.device is not None})
    if len(devices) > 1:
        raise InputError(
            f"the runs are on different devices: {', '.join(devices)}", "predict from runs on one kind"
        )
    return [Run(f.name, _placement(f, per_node), f.step_s) for f in facts]


def _placement(facts: Facts, per_node: int | None) -> Placement:
    nodes = facts.nodes
    if nodes is None and per_node is not None:
        nodes = -(-facts.gpus // per_node)
    if nodes is None:
        raise InputError(
            f"{facts.name}: on how many nodes its {facts.gpus} ranks ran is not known",
            "ingest the traces of all ranks, give --per-node, or nodes in [runs] of --topology",
        )
    return Placement(facts.gpus, nodes, facts.batch, facts.gradient_bytes, facts.messages)


def wanted(
    runs: Sequence[Run], gpus: Sequence[int], per_node: int | None, batch: float | None
) -> list[Placement]:
    """The placements asked for, with batch, gradient bytes and messages of the runs where not given.

    Raises:
        InputError: a batch is asked for that the runs do not tell, or they have several and none is.
    """
    places = [run.placement for run in runs]
    batches = {p.batch for p in places}
    if batch is not None and None in batches:
        raise InputError("the batches of the runs are not recorded", "give --batches, one for each dataset")
    if None in batches and len(batches) > 2:
        raise InputError("runs have different batches, not all known", "give --batches, one for each dataset")
    if batch is None and None not in batches and len(batches) > 1:
        seen = ", ".join(f"{b:g}" for b in sorted(b for b in batches if b is not None))
        raise InputError(f"the runs have different batches: {seen}", "say which to predict for with --batch")
    several = [p for p in places if p.gpus > 1]
    volume = float(np.median([p.gradient_bytes for p in several])) if several else 0.0
    messages = float(np.median([p.messages or 0.0 for p in several])) if several else None
    base = Placement(1, 1, batch if batch is not None else places[0].batch, volume, messages)
    size = per_node or max(p.per_node for p in places)
    return [replace(base, gpus=n, nodes=-(-n // size)) for n in gpus]


def known_of(names: Sequence[str], runs: Mapping[str, Known], batches: Sequence[float] | None) -> list[Known]:
    """What the user states of each dataset.

    Raises:
        InputError: not as many batches as datasets, or a run of the file that is no dataset.
    """
    if batches is not None and len(batches) != len(names):
        raise InputError(
            f"--batches has {len(batches)} for {len(names)} datasets", "give one for each, in their order"
        )
    strange = sorted(set(runs) - set(names))
    if strange:
        raise InputError(f"[runs.{strange[0]}] of the topology file is none of the datasets", "name them so")
    found = [runs.get(name, Known()) for name in names]
    if batches is None:
        return found
    return [replace(k, batch=b) for k, b in zip(found, batches, strict=True)]
