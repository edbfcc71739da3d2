"""What a job's steps lose, for the index."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from mdtrace.report.facts import Facts
    from mdtrace.report.findings import Finding

Row = Mapping[str, Any]


class Figures(msgspec.Struct, frozen=True):
    """Time lost by a job, over all its ranks.

    Attributes:
        ranks: of the job; captured: those the figures are of, scaled up to all.
        basis: steady steps: times are for each step; capture: no steps are marked, they are for the capture.
        span_ns: how long a rank's step (or capture) takes, mean.
        exposed_comm_ns, wait_ns, idle_ns: rank-ns. Communication that no compute hides; waiting for the last
            rank of collectives; nothing running. NULL: not known.
        lost_ns: rank-ns: the larger of exposed communication and waiting, as ranks mostly wait inside
            collectives, plus idle.
        lost_share: of the time of all ranks.
        finding: the first of the report, with the share of time that it could gain.
    """

    ranks: int | None = None
    captured: int = 0
    basis: Literal["steady steps", "capture"] | None = None
    span_ns: float | None = None
    exposed_comm_ns: float | None = None
    wait_ns: float | None = None
    idle_ns: float | None = None
    lost_ns: float | None = None
    lost_share: float | None = None
    finding: str | None = None
    gain: float | None = None


def figures(facts: "Facts", found: Sequence["Finding"]) -> Figures:
    """The figures of a report's facts and findings."""
    view, rows = facts.totals
    ranks = _ranks(facts)
    first = found[0] if found else None
    steady = view == "steady_breakdown"
    captured = len({row["process_id"] for row in rows})
    if not rows:
        return Figures(
            ranks=ranks, finding=first.title if first else None, gain=first.gain if first else None
        )
    scale = (ranks or captured) / captured
    span = _total(rows, "span_ns", steady)
    exposed, idle = _total(rows, "exposed_comm_ns", steady), _total(rows, "idle_ns", steady)
    waits = facts.rows("straggler_steps")
    wait = _waited(waits, {row["step"] for row in facts.rows("step_summary") if row["steady"]}, ranks, steady)
    known = [part for part in (_scaled(exposed, scale), wait) if part is not None]
    parts = ([max(known)] if known else []) + ([idle * scale] if idle is not None else [])
    lost = sum(parts) if parts else None
    return Figures(
        ranks=ranks,
        captured=captured,
        basis="steady steps" if steady else "capture",
        span_ns=None if span is None else span / len(rows),
        exposed_comm_ns=_scaled(exposed, scale),
        wait_ns=wait,
        idle_ns=_scaled(idle, scale),
        lost_ns=lost,
        lost_share=lost / (span * scale) if lost is not None and span else None,
        finding=first.title if first else None,
        gain=first.gain if first else None,
    )


def _ranks(facts: "Facts") -> int | None:
    processes = facts.layout["processes"]
    sizes = [p["world_size"] for p in processes if p["world_size"] is not None]
    seen = {p["rank"] for p in processes if p["rank"] is not None}
    return max([*sizes, len(seen)]) or None


def _total(rows: Sequence[Row], column: str, steady: bool) -> float | None:
    """Sum over the devices of what each has in a step, or in its capture; None where none says."""
    known = [row for row in rows if row[column] is not None]
    return sum(row[column] / (row["steps"] if steady else 1) for row in known) if known else None


def _scaled(amount: float | None, scale: float) -> float | None:
    return None if amount is None else amount * scale


def _waited(rows: Sequence[Row], steps: set[int], ranks: int | None, steady: bool) -> float | None:
    """Rank-ns that all ranks wait for others in a steady step, or in all; None where nothing was compared."""
    counted = [row for row in rows if not steady or row["step"] in steps]
    if not counted:
        return None
    compared = len({row["rank"] for row in counted})
    number = len({row["step"] for row in counted}) if steady else 1
    lost: float = sum(row["lost_ns"] for row in counted)
    return lost / number * (ranks or compared) / compared
