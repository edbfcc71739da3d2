"""What a Kineto file lacks or had mended → diagnostics."""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from mdtrace.ingest.facts import EventCounts, Source
from mdtrace.tables.diagnostics import Diagnostic


class Account(Protocol):
    """What findings are made from; see `reader.Account`."""

    counts: EventCounts
    tally: Counter[str]
    repaired: Counter[str]
    skipped: Counter[str]
    truncated: bool


def diagnostics(source: Source, account: Account) -> list[Diagnostic]:
    """Findings of one file, damage first, then what the capture did not record."""
    return [*_damage(source, account), *_gaps(source, account)]


_CUT = "cut off"  # the event in which a file ends: `truncated` says so


def _damage(source: Source, account: Account) -> Iterator[Diagnostic]:
    if account.truncated:
        yield source.diagnostic("truncated")
    damaged = Counter({reason: n for reason, n in account.skipped.items() if reason != _CUT})
    for code, reasons in (("repaired_text", account.repaired), ("damaged_events", damaged)):
        if count := sum(reasons.values()):
            listed = ", ".join(f"{reason}: {number}" for reason, number in sorted(reasons.items()))
            yield source.diagnostic(code, count, reasons=listed)
    for name, code in _COUNTED.items():
        if count := account.tally[name]:
            yield source.diagnostic(code, count)


# Findings by the name they are counted under while reading.
_COUNTED = {
    "args_lost": "damaged_arguments",
    "timeless": "events_without_time",
    "negative_durations": "negative_durations",
    "duplicates": "duplicate_events",
    "unowned": "device_ops_unassigned",
}


def _gaps(source: Source, account: Account) -> Iterator[Diagnostic]:
    tally = account.tally
    if not account.counts.stored:
        yield source.diagnostic("empty_source")
        return
    if not tally["kernels"]:
        yield source.diagnostic("no_kernels")
    if not tally["host_ops"]:
        yield source.diagnostic("no_host_ops")
    if tally["operators"] and not tally["shapes"]:
        yield source.diagnostic("no_shapes")
