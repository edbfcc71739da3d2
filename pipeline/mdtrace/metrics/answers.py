"""Which questions a dataset can answer, from which rows are there."""

from dataclasses import dataclass

import pyarrow.compute as pc

from mdtrace.tables.dataset import Dataset


@dataclass(frozen=True)
class Answer:
    """One question, whether the dataset can answer it, and why (not)."""

    question: str
    command: str
    possible: bool
    why: str


def answers(dataset: Dataset) -> list[Answer]:
    """The questions mdtrace knows, in the order one asks them."""
    return [
        _accounting(dataset),
        _steps(dataset),
        _layers(dataset),
        _collectives(dataset),
        _stragglers(dataset),
    ]


def _captures(dataset: Dataset, table: str) -> str:
    count = len(pc.unique(dataset.table(table, ["process_id"]).column(0)))
    return f"{count} capture{'s' if count != 1 else ''}"


def _accounting(dataset: Dataset) -> Answer:
    question, command = "where the time goes", "overlap"
    if dataset.rows("device_ops"):
        return Answer(question, command, True, "device activity was captured")
    if dataset.rows("collectives") and dataset.rows("host_ops"):
        return Answer(question, command, True, "from host records: no device activity was captured")
    return Answer(question, command, False, "neither device activity nor communication was captured")


def _steps(dataset: Dataset) -> Answer:
    found = len(pc.unique(dataset.table("steps", ["step"]).column(0)))
    why = (
        f"{found} steps marked on {_captures(dataset, 'steps')}"
        if found
        else "no step markers: call prof.step() or push NVTX step ranges"
    )
    return Answer("time per step", "steps", bool(found), why)


def _layers(dataset: Dataset) -> Answer:
    found = dataset.rows("layers")
    why = (
        f"{found} layers named"
        if found
        else "no module frames or layer ranges: with_stack=True, with_modules=True"
    )
    return Answer("which layer", "overlap --by layer", bool(found), why)


def _collectives(dataset: Dataset) -> Answer:
    sizes = dataset.table("collectives", ["payload_bytes"]).column(0)
    known = len(sizes) - sizes.null_count
    why = (
        f"{len(sizes)} collectives, {known} of known size" if len(sizes) else "no communication was captured"
    )
    return Answer("bus bandwidth", "collectives", known > 0, why)


def _stragglers(dataset: Dataset) -> Answer:
    question, command = "who makes the others wait", "stragglers"
    if dataset.rows("arrivals"):
        ranks = len(pc.unique(dataset.table("arrivals", ["rank"]).column(0)))
        return Answer(question, command, ranks > 1, f"arrivals of {ranks} ranks in the timeline")
    matched = dataset.table("collectives", ["rank", "instance_id"])
    ranks = len(pc.unique(matched.filter(pc.is_valid(matched["instance_id"])).column("rank").drop_null()))
    if ranks > 1:
        return Answer(question, command, True, f"collectives matched across {ranks} ranks")
    present = len(pc.unique(dataset.table("processes", ["rank"]).column(0).drop_null()))
    why = (
        "one rank is here: add the others"
        if present == 1
        else f"{present} known ranks, no collective matched"
    )
    return Answer(question, command, False, why)
