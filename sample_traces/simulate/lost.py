"""Who made the others wait: the time lost in collectives, given to the rank that came last."""

from itertools import pairwise
from typing import Any

from simulate.events import Collective

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter")

Wait = tuple[int, int, int, int | None]
"""Start and end of a wait, end of the collective, the rank waited for (None: two came last together)."""


def lost(collectives: list[Collective], ranks: int) -> list[dict[str, Any]]:
    """Time that each rank lost in each step, and to whom. Start-up is left out.

    Waits of one rank are united: time in two of them counts once, for the collective that ends last.
    """
    rows = []
    steps = sorted({c.step for c in collectives if c.step is not None})
    for step in steps:
        own = [c for c in collectives if c.step == step and c.kind in SYNCHRONISING]
        for rank in range(ranks):
            by = _given(_waits(own, rank))
            total = sum(by.values())
            rows.append({"step": step, "rank": rank, "lost_ns": total, "by": _named(by)})
    return rows


def _waits(collectives: list[Collective], rank: int) -> list[Wait]:
    found: list[Wait] = []
    for collective in collectives:
        if rank not in collective.members:
            continue
        starts = {r: m.task.start for r, m in collective.members.items() if m.task is not None}
        last = max(starts.values())
        late = [r for r, start in starts.items() if start == last]
        found.append((starts[rank], last, last + collective.transfer, late[0] if len(late) == 1 else None))
    return [wait for wait in found if wait[1] > wait[0]]


def _given(waits: list[Wait]) -> dict[int | None, int]:
    """Time lost to each rank: between two neighbouring bounds the same waits run."""
    bounds = sorted({at for wait in waits for at in wait[:2]})
    by: dict[int | None, int] = {}
    for start, end in pairwise(bounds):
        running = [wait for wait in waits if wait[0] <= start and wait[1] >= end]
        if running:
            last = max(running, key=lambda wait: wait[2])[3]
            by[last] = by.get(last, 0) + end - start
    return by


def _named(by: dict[int | None, int]) -> dict[str, int]:
    return {"nobody" if rank is None else str(rank): ns for rank, ns in sorted(by.items(), key=str)}


def blame(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Each rank's share of all time lost."""
    shares: dict[str, int] = {}
    for row in rows:
        for rank, ns in row["by"].items():
            shares[rank] = shares.get(rank, 0) + ns
    total = sum(shares.values()) or 1
    return {rank: ns / total for rank, ns in sorted(shares.items())}
