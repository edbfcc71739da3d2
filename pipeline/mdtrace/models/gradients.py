"""What a dataset says about its gradients: sizes, when each rank makes them ready, buckets, messages.

Times of a step count from its anchor: the end of the exchange and the backward pass of the step before. Then
whatever follows an exchange (optimizer, loading, forward) stands before the first gradient, on each rank its
own, and a step takes as long as from anchor to anchor.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl

from mdtrace.errors import InputError
from mdtrace.metrics.engine import run
from mdtrace.models.fusion import Floats, Ints
from mdtrace.models.gradients_match import Key, Step, steps, stops
from mdtrace.tables.dataset import Dataset

RECAPTURE = (
    "record training steps with shapes (PyTorch: record_shapes=True and profiler.step(); Nsight Systems:"
    " emit_nvtx(record_shapes=True) and a range per step; Horovod: HOROVOD_TIMELINE)"
)


@dataclass(frozen=True)
class Messages:
    """Collectives of the gradients' group; arrays of shape (M,).

    Attributes:
        sizes: payload in bytes. start, end: ns, on the reference clock. step: −1 where unknown.
        transfer: timed from the last rank's arrival; else each record's own duration.
    """

    sizes: Floats
    start: Ints
    end: Ints
    step: Ints
    transfer: bool


@dataclass(frozen=True)
class GradientTrace:
    """The gradients of one job in steady state.

    Attributes:
        world: ranks of the job; members: ranks that average their gradients; hosts: those they are on, None
            where the files do not say.
        names: of the gradients in the order they become ready: tensor, or number and shape, or bucket.
        sizes: bytes on the wire, shape (L,).
        steps: numbers of the steps used, shape (T,); left_out: steps with an exchange that are not.
        ready: ns after the anchor, shape (T, R, L) for R captured ranks; period: ns from anchor to anchor,
            shape (T, R).
        stops: buckets of each step, as indices after their last gradients; None where gradients of a bucket
            do not follow each other.
        messages: of the gradients' group.
        origin: what tells when gradients are ready: device, host, ticks, negotiation, buckets.
        cycle_ns: Horovod's cycle, where marked.
        ranks_left_out: captures with other gradients, such as those of other pipeline stages.
    """

    world: int
    members: int
    hosts: int | None
    names: tuple[str, ...]
    sizes: Floats
    steps: Ints
    left_out: int
    ready: Floats
    period: Floats
    stops: tuple[Ints | None, ...]
    messages: Messages
    origin: str
    cycle_ns: float | None
    ranks_left_out: int = 0

    @property
    def buckets(self) -> Ints | None:
        """The buckets, where most steps have the same; None where they differ from step to step."""
        found = Counter(None if s is None else tuple(s.tolist()) for s in self.stops)
        most, count = found.most_common(1)[0]
        return np.array(most, np.int64) if most is not None and 2 * count > len(self.stops) else None

    @property
    def timeline(self) -> bool:
        """From a Horovod timeline."""
        return self.origin in ("ticks", "negotiation")


def gradients(dataset: Dataset) -> GradientTrace:
    """Gradients of the job in steady state; start-up is left out.

    Raises:
        InputError: the dataset does not show what is needed: what is missing, and how to record it.
    """
    marks = run(dataset, "gradient_ready").pl()
    candidates = run(dataset, "gradient_collectives").pl()
    if candidates.is_empty():
        raise InputError(f"{dataset.path.name}: no all-reduce lies in a training step", RECAPTURE)
    if not (candidates["kind"] == "all_reduce").any():
        raise InputError(
            f"{dataset.path.name}: no all-reduce in a step, but reduce-scatters: sharded data parallel",
            "this model knows gradients that are all-reduced",
        )
    found = steps(marks, candidates)
    if not found:
        raise InputError(
            f"{dataset.path.name}: no all-reduce of a step can be told to carry gradients, with its bytes",
            RECAPTURE,
        )
    return _trace(dataset, candidates, found)


def _trace(dataset: Dataset, candidates: pl.DataFrame, found: dict[Key, Step]) -> GradientTrace:
    alike = _alike(found)
    processes = sorted({process for process, _ in alike})
    numbers = sorted({number for _, number in alike})
    used = _used(found, alike, processes, numbers)
    if not used:
        raise InputError(
            f"{dataset.path.name}: no two steps follow each other with the same gradients, so that the length"
            " of a step is not known",
            RECAPTURE,
        )
    ready, period = _times(found, alike, processes, used)
    order = np.argsort(np.median(ready.max(axis=1), axis=0), kind="stable")
    first = alike[processes[0], used[0]]
    names = tuple(first.names[i] for i in order)
    world = _world(dataset)
    members = _members(candidates, first) or world
    messages, hosts = _messages(dataset, members, first)
    return GradientTrace(
        world=max(world, members),
        members=members,
        hosts=hosts,
        names=names,
        sizes=first.sizes[order],
        steps=np.array(used, np.int64),
        left_out=len(numbers) - len(used),
        ready=ready[:, :, order],
        period=period,
        stops=tuple(stops(alike[processes[0], n], names) for n in used),
        messages=messages,
        origin=first.origin,
        cycle_ns=_cycle(dataset) if first.origin in ("ticks", "negotiation") else None,
        ranks_left_out=len({process for process, _ in found}) - len(processes),
    )


def _alike(found: dict[Key, Step]) -> dict[Key, Step]:
    """The steps with the gradients that most have, brought into one order."""
    sets = {key: frozenset(step.names) for key, step in found.items()}
    wanted = Counter(sets.values()).most_common(1)[0][0]
    names = next(step.names for key, step in found.items() if sets[key] == wanted)
    return {key: step.in_order(names) for key, step in found.items() if sets[key] == wanted}


def _used(
    found: dict[Key, Step], alike: dict[Key, Step], processes: list[int], numbers: list[int]
) -> list[int]:
    """Steps that all captured ranks have, after another one: the steady ones, if there are any."""

    def follows(process: int, number: int) -> bool:
        step, before = alike.get((process, number)), found.get((process, number - 1))
        return step is not None and before is not None and int(step.ready.max()) > before.over_ns

    whole = [n for n in numbers if all(follows(p, n) for p in processes)]
    return [n for n in whole if all(alike[p, n].steady for p in processes)] or whole


def _times(
    found: dict[Key, Step], alike: dict[Key, Step], processes: list[int], numbers: list[int]
) -> tuple[Floats, Floats]:
    """Ready times and periods, ns after the anchor: shapes (T, R, L) and (T, R)."""
    ready = [[alike[p, n].ready - found[p, n - 1].over_ns for p in processes] for n in numbers]
    period = [[alike[p, n].over_ns - found[p, n - 1].over_ns for p in processes] for n in numbers]
    return np.array(ready, np.float64), np.array(period, np.float64)


def _world(dataset: Dataset) -> int:
    """Ranks of the job as the captures state it; else those captured."""
    processes = pl.from_arrow(dataset.table("processes", ["rank", "world_size"]))
    assert isinstance(processes, pl.DataFrame)
    stated = processes["world_size"].max()
    return int(stated) if isinstance(stated, int) else max(1, processes["rank"].drop_nulls().n_unique())


def _members(candidates: pl.DataFrame, first: Step) -> int | None:
    size = candidates.filter(pl.col("collective_id").is_in(list(first.collectives)))["group_size"].max()
    return int(size) if isinstance(size, int) else None


def _messages(dataset: Dataset, members: int, first: Step) -> tuple[Messages, int | None]:
    """All-reduces of the gradients' group, and the hosts that the group is on."""
    rows = run(dataset, "link_fit").pl()
    rows = rows.filter(
        (pl.col("kind") == "all_reduce")
        & (pl.col("group_size").fill_null(members) == members)
        & pl.col("payload_bytes").is_not_null()
    )
    if first.group is not None:
        rows = rows.filter(pl.col("group_name") == first.group)
    matched = rows.filter(pl.col("basis") == "transfer")
    # Unmatched, every capture has a record of the same message: those of one capture are each message once.
    one = (
        matched if not matched.is_empty() else rows.filter(pl.col("process_id") == pl.col("process_id").min())
    )
    hosts = one["hosts"].max()
    messages = Messages(
        one["payload_bytes"].cast(pl.Float64).to_numpy(),
        one["start_ns"].to_numpy(),
        one["end_ns"].to_numpy(),
        one["step"].fill_null(-1).to_numpy(),
        not matched.is_empty(),
    )
    return messages, int(hosts) if isinstance(hosts, int) else None


def _cycle(dataset: Dataset) -> float | None:
    """Horovod's cycle in ns: the median distance of its marks."""
    if not dataset.files["host_ops"]:
        return None
    ticks = pl.scan_parquet(list(dataset.files["host_ops"])).filter(pl.col("name") == "CYCLE_START")
    starts = ticks.select(pl.col("start_ns").sort()).collect()["start_ns"].to_numpy()
    return float(np.median(np.diff(starts))) if len(starts) > 10 else None
