"""The verdict on stragglers: who makes the others wait, or why it cannot be said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow.compute as pc

from mdtrace.metrics.engine import Filters, run
from mdtrace.tables.dataset import Dataset

_ADD_RANKS = "add the traces of the other ranks: mdtrace ingest FILES --add DATASET"
_NO_CACHE = (
    "run with HOROVOD_CACHE_CAPACITY=0: the timeline then records every rank's readiness in every step"
)
_MORE_STEPS = "capture at least 3 steps"


@dataclass(frozen=True)
class Verdict:
    """The answer in words.

    Attributes:
        text: one sentence; where ranks have no capture it says which, and that it is about the others.
        hint: what would answer better; None: nothing is missing.
        ranks: rows of `straggler_ranks` that it rests on; empty where nothing can be said.
        rho: throughput that the slowest rank takes from the group, 0…1; None without steps.
    """

    text: str
    hint: str | None
    ranks: Sequence[Mapping[str, Any]]
    rho: float | None


def rho(throughput: Sequence[float]) -> tuple[float, float]:
    """Share of the group's throughput that its slowest rank takes from it.

    `1 − N·min P / (N·median P)`, and the same against what the ranks could do alone, `1 − N·min P / Σ P`.

    Args:
        throughput: of each rank, in any unit; positive.
    """
    slowest = min(throughput)
    return 1 - slowest / median(throughput), 1 - len(throughput) * slowest / sum(throughput)


def verdict(dataset: Dataset, filters: Filters | None = None) -> Verdict:
    """Judge a dataset's stragglers."""
    rows = run(dataset, "straggler_ranks", filters).table.to_pylist()
    if not rows:
        text, hint = _why_nothing(dataset)
        return Verdict(f"cannot be said: {text}", hint, (), None)
    text, hint = _judge(rows, dataset)
    missing = _missing(dataset)
    if missing is not None:
        text = f"{missing}; among those present, {text}"
        hint = "; ".join(filter(None, (_ADD_RANKS, hint)))
    return Verdict(text, hint, rows, _slowest_share(dataset, filters))


def without_cause(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why late ranks have no cause, a sentence for each reason.

    Args:
        rows: of `straggler_ranks`.
    """
    ranks: dict[str, list[str]] = {}
    for row in rows:
        if row["late_count"] and row["cause"] is None and row["reason"]:
            ranks.setdefault(row["reason"], []).append(str(row["rank"]))
    return [f"No cause for rank {', '.join(some)}: {reason}." for reason, some in ranks.items()]


def _missing(dataset: Dataset) -> str | None:
    """Which ranks have no capture, in the words of the diagnostic; None: none is known to be missing."""
    rows = dataset.table("diagnostics", ["code", "message"]).to_pylist()
    return next((row["message"] for row in rows if row["code"] == "ranks_missing"), None)


def _slowest_share(dataset: Dataset, filters: Filters | None) -> float | None:
    """ρ from how long each rank's steps are without its waits; None where that is not known of all."""
    if _is_timeline(dataset):  # while it waits for a tensor's negotiation, a rank computes on
        return None
    own: dict[int, list[float]] = {}
    for row in run(dataset, "straggler_steps", filters).table.to_pylist():
        if row["step_ns"] is None:
            return None
        own.setdefault(row["rank"], []).append(row["step_ns"] - row["lost_ns"])
    times = [median(steps) for steps in own.values()]
    return rho([1 / ns for ns in times])[0] if min(times) > 0 else None


def _judge(rows: Sequence[Mapping[str, Any]], dataset: Dataset) -> tuple[str, str | None]:
    """The sentence for compared arrivals, and a hint."""
    worst = max(rows, key=lambda r: (bool(r["persistent"]), r["late_count"] > 0, r["blame"] or 0))
    if worst["persistent"]:
        return _persistent(worst), None
    if worst["error_ns"] is None:
        return "cannot be said: the error of the arrivals is unknown", None
    error = _microseconds(worst["error_ns"])
    if not worst["late_count"]:
        return f"no straggler above the clock's error of {error}", None
    if worst["persistent"] is None:
        text = f"{_known(worst)}: {_share(worst)}, but whether it recurs cannot be said"
        return text + _cause(worst), _more_steps(dataset)
    return f"no rank makes the others wait persistently: {_share(worst)}" + _cause(worst), None


def _persistent(row: Mapping[str, Any]) -> str:
    steps = f"in {row['worst_steps']} of {row['steps']} steps"
    return f"rank {row['rank']} makes the others wait: {_per_step(row)} {steps}" + _cause(row)


def _per_step(row: Mapping[str, Any]) -> str:
    """What the rank costs each of the others in a step."""
    part = "" if not row["step_ns"] else f" ({100 * row['loss_ns'] / row['step_ns']:.2g} % of it)"
    return f"{row['loss_ns'] / 1e6:.3g} ms per step{part}"


def _microseconds(ns: float) -> str:
    return f"{ns / 1e3:.3g} µs" if ns < 1e6 else f"{ns / 1e3:.0f} µs"


def _cause(row: Mapping[str, Any]) -> str:
    if row["cause"] is None:
        return ""
    return f"; cause: {row['cause']} ({row['evidence']})"


def _share(row: Mapping[str, Any]) -> str:
    return (
        f"rank {row['rank']} causes {100 * (row['blame'] or 0):.0f} % of the time lost by waiting"
        f" ({row['caused_ns'] / 1e6:.3g} ms of the other ranks' time)"
    )


def _known(row: Mapping[str, Any]) -> str:
    if row["steps"] == 0:
        return "no steps are marked"
    return (
        "arrival data for one step only"
        if row["steps"] == 1
        else f"arrival data for {row['steps']} steps only"
    )


def _more_steps(dataset: Dataset) -> str:
    return _NO_CACHE if _is_timeline(dataset) else _MORE_STEPS


def _is_timeline(dataset: Dataset) -> bool:
    formats = dataset.table("sources", ["format"]).column(0).to_pylist()
    return bool(formats) and set(formats) == {"horovod"}


def _why_nothing(dataset: Dataset) -> tuple[str, str | None]:
    """Why no arrivals could be compared, and what would help."""
    collectives = dataset.table("collectives", ["instance_id"]).column(0)
    if not len(collectives):
        return "no communication was captured", None
    if _is_timeline(dataset):
        return "no arrival data: the response cache spared the negotiation in every step", _NO_CACHE
    ranks = sorted({r for r in dataset.table("processes", ["rank"]).column(0).to_pylist() if r is not None})
    if len(ranks) < 2:
        only = f"one rank (rank {ranks[0]})" if ranks else "one capture of unknown rank"
        several = not ranks and dataset.rows("processes") > 1
        text = "the ranks of the captures are unknown" if several else f"{only} is in the dataset"
        return text, "say which with --rank or --ranks FILE=N" if several else _ADD_RANKS
    if collectives.null_count == len(collectives):
        return f"{len(ranks)} ranks, but no collective could be matched across them", "see the table matches"
    return _why_not_compared(dataset)


def _why_not_compared(dataset: Dataset) -> tuple[str, str | None]:
    synchronising = dataset.table("instances", ["synchronising", "start_up"])
    if not pc.any(synchronising.column("synchronising")).as_py():
        return "no collective that all ranks wait for was matched", None
    methods = set(dataset.table("clocks", ["method"]).column(0).to_pylist())
    if "own zero" in methods:
        return (
            "the files have no wall clock, so their times cannot be compared",
            "capture with a version that records the start of the session",
        )
    if pc.all(synchronising.column("start_up")).as_py():
        return "all collectives are of the start-up, before the first step", _MORE_STEPS
    return "no two ranks can be compared in time (see clock_offsets)", None
