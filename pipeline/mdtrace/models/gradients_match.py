"""Which all-reduces of a step carry which gradients."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from mdtrace.models.fusion import Floats, Ints

_CYCLE_NS = 1_000_000  # Horovod's default cycle

Key = tuple[int, int]
"""Process and step."""


@dataclass(frozen=True)
class Step:
    """The gradients of one step on one rank.

    Attributes:
        names: of the gradients, unique. sizes: bytes on the wire, shape (L,). ready: ns, capture's clock.
        buckets: names in each bucket, in the order they were sent.
        over_ns: end of the exchange and of the backward pass.
        collectives: ids of the buckets' all-reduces. group: theirs; None where not recorded.
        origin: device, host, ticks, negotiation or buckets.
    """

    steady: bool
    names: tuple[str, ...]
    sizes: Floats
    ready: Ints
    buckets: tuple[tuple[str, ...], ...]
    over_ns: int
    collectives: tuple[int, ...]
    group: str | None
    origin: str

    def in_order(self, names: tuple[str, ...]) -> "Step":
        """The same with the gradients in the order of these names."""
        place = {name: i for i, name in enumerate(self.names)}
        order = [place[name] for name in names]
        return replace(self, names=names, sizes=self.sizes[order], ready=self.ready[order])


def steps(marks: pl.DataFrame, candidates: pl.DataFrame) -> dict[Key, Step]:
    """The steps whose gradient exchange is told by the dataset.

    Args:
        marks: rows of gradient_ready. candidates: rows of gradient_collectives.
    """
    by_step = _parts(marks)
    found = {}
    for key, rows in _parts(candidates).items():
        step = _step(by_step.get(key), rows)
        if step is not None:
            found[key] = step
    return found


def _parts(rows: pl.DataFrame) -> dict[Key, pl.DataFrame]:
    parts = rows.partition_by("process_id", "step", as_dict=True, maintain_order=True)
    return {(int(key[0]), int(key[1])): part for key, part in parts.items()}


def _step(marks: pl.DataFrame | None, rows: pl.DataFrame) -> Step | None:
    """One step; None where its all-reduces have no bytes or no end, or are none of gradients."""
    rows = rows.filter(pl.col("kind") == "all_reduce")
    if not rows.is_empty() and rows["evidence"][0] == "timeline":
        return None if marks is None else _negotiated(marks, rows)
    known = marks is not None and not marks.is_empty() and _complete(marks, "elements", "ready_ns")
    for group in _groups(rows):
        if known and marks is not None:
            step = _autograd(marks, group)
            if step is not None:
                return step
    backward = rows.filter(pl.col("phase") == "backward")
    groups = _groups(backward)
    return _buckets(groups[0]) if len(groups) == 1 else None


def _groups(rows: pl.DataFrame) -> list[pl.DataFrame]:
    return rows.partition_by("group_name", maintain_order=True) if not rows.is_empty() else []


def _complete(rows: pl.DataFrame, *columns: str) -> bool:
    return not any(rows[c].null_count() for c in columns)


def _autograd(marks: pl.DataFrame, rows: pl.DataFrame) -> Step | None:
    """Buckets that hold, in the order they were sent, just the numbers of the gradients.

    All-reduces of the backward pass where it is known; else those up to the one that completes the gradients.
    A gradient made several times in a step (parts of a batch) is sent after the last.
    """
    backward = rows.filter(pl.col("phase") == "backward")
    rows = backward if not backward.is_empty() else rows
    if not _complete(rows, "elements", "payload_bytes", "end_ns"):
        return None
    elements, sent = marks["elements"].to_numpy(), rows["elements"].to_numpy()
    tail = np.cumsum(elements[::-1])
    for count in range(len(sent), 0, -1):
        total = int(sent[:count].sum())
        at = int(np.searchsorted(tail, total))
        if at < len(tail) and tail[at] == total and sent[:count].min() > 0:
            return _packed(marks[len(elements) - 1 - at :], rows[:count])
        if not backward.is_empty():
            break
    return None


def _packed(marks: pl.DataFrame, rows: pl.DataFrame) -> Step:
    elements = marks["elements"].to_numpy()
    names = tuple(f"{i} {dims}" for i, dims in enumerate(marks["dims"]))
    edges = np.searchsorted(np.cumsum(elements), np.cumsum(rows["elements"].to_numpy())) + 1
    starts = [0, *edges[:-1].tolist()]
    buckets = tuple(names[a:b] for a, b in zip(starts, edges.tolist(), strict=True))
    wire = float(rows["payload_bytes"].sum()) / float(elements.sum())
    return _made(rows, names, elements * wire, marks["ready_ns"].to_numpy(), buckets, marks["origin"][0])


def _negotiated(marks: pl.DataFrame, rows: pl.DataFrame) -> Step | None:
    """A timeline names the tensors of each all-reduce. A single number is no gradient, but a loss."""
    rows = rows.filter((pl.col("elements").fill_null(0) > 1) & pl.col("tensors").is_not_null())
    if rows.is_empty() or not _complete(rows, "payload_bytes", "end_ns"):
        return None
    buckets = tuple(tuple(tensors) for tensors in rows["tensors"].to_list())
    wanted = [name for bucket in buckets for name in bucket]
    marks = marks.filter(pl.col("tensor").is_in(wanted)).unique("tensor", keep="last", maintain_order=True)
    if len(marks) != len(wanted) or not _complete(marks, "ready_ns"):
        return None
    if not _complete(marks, "elements"):
        return _buckets(rows)
    elements = marks["elements"].to_numpy()
    wire = float(rows["payload_bytes"].sum()) / max(float(elements.sum()), 1.0)
    names = tuple(str(name) for name in marks["tensor"])
    asked = (marks["origin"] == "negotiation").to_numpy()
    ready = np.where(asked, _agreed(marks, rows, buckets), marks["ready_ns"].to_numpy())
    origin = "negotiation" if asked.any() else "ticks"
    return _made(rows, names, elements * wire, ready, buckets, origin)


def _agreed(marks: pl.DataFrame, rows: pl.DataFrame, buckets: tuple[tuple[str, ...], ...]) -> Ints:
    """When the last rank was ready, where only the first one's request is recorded; shape of marks.

    Horovod's loop sends whatever all ranks have. Where it was idle before an operation, some rank was not
    ready when the operation before ended, nor two cycles ago.
    """
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    before = np.concatenate(([np.iinfo(np.int64).min // 2], np.maximum.accumulate(end)[:-1]))
    idle = start - before > _CYCLE_NS // 2
    floor = np.where(idle, np.maximum(before, start - 2 * _CYCLE_NS), np.iinfo(np.int64).min)
    by_name = {name: int(at) for bucket, at in zip(buckets, floor, strict=True) for name in bucket}
    floors = np.array([by_name[name] for name in marks["tensor"]], np.int64)
    agreed: Ints = np.maximum(marks["ready_ns"].to_numpy(), floors)
    return agreed


def _buckets(rows: pl.DataFrame) -> Step | None:
    """No gradients are told: each bucket is one, ready when it could go."""
    if not _complete(rows, "payload_bytes", "end_ns"):
        return None
    names = tuple(f"bucket {i}" for i in range(len(rows)))
    ready = rows["ready_ns"].fill_null(rows["start_ns"]).to_numpy()
    sizes = rows["payload_bytes"].cast(pl.Float64).to_numpy()
    return _made(rows, names, sizes, ready, tuple((name,) for name in names), "buckets")


def _made(
    rows: pl.DataFrame,
    names: tuple[str, ...],
    sizes: Floats,
    ready: Ints,
    buckets: tuple[tuple[str, ...], ...],
    origin: str,
) -> Step:
    last = rows["end_ns"].to_numpy().max()
    return Step(
        steady=bool(rows["steady"].all()),
        names=names,
        sizes=sizes,
        ready=ready,
        buckets=buckets,
        over_ns=int(max(last, ready.max())),
        collectives=tuple(rows["collective_id"].to_list()),
        group=rows["group_name"][0],
        origin=origin,
    )


def stops(step: Step, names: tuple[str, ...]) -> Ints | None:
    """Buckets as indices after their last gradients; None where those of a bucket do not follow each other.

    Args:
        names: the gradients in the order they become ready.
    """
    place = {name: i for i, name in enumerate(names)}
    found, at = [], 0
    for bucket in step.buckets:
        if {place[name] for name in bucket} != set(range(at, at + len(bucket))):
            return None
        at += len(bucket)
        found.append(at)
    return np.array(found, np.int64)
