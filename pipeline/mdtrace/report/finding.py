"""What a finding is, and what the size of its gain is of."""

from dataclasses import dataclass
from typing import Literal

from mdtrace.report.facts import Facts

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Finding:
    """One loss, what shows it and what to do about it.

    Attributes:
        gain: share of the time, at most. gain_ns: the same for each step (or capture) of a rank.
        evidence: figures, one sentence each. why: what the confidence rests on.
        sql: gives the figures.
    """

    title: str
    gain: float
    gain_ns: float
    evidence: tuple[str, ...]
    confidence: Confidence
    why: str
    next_step: str
    sql: str


def span_ns(facts: Facts) -> float:
    """What a gain's share is of: a rank's mean step, without steps its mean capture."""
    if facts.step_ns is not None:
        return facts.step_ns
    _, rows = facts.totals
    return sum(row["span_ns"] for row in rows) / len(rows) if rows else 0.0


def share(facts: Facts, column: str) -> float:
    """A part of the account as a share of all ranks' time."""
    _, rows = facts.totals
    whole = sum(row["span_ns"] for row in rows)
    return sum(row[column] or 0 for row in rows) / whole if whole else 0.0
