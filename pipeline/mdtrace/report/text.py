"""Figures as a reader takes them in."""

from collections.abc import Sequence


def duration(ns: float) -> str:
    """Nanoseconds in a unit that reads well."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            return f"{_digits(ns / size)} {unit}"
    return f"{ns:.0f} ns"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share of one as a percentage."""
    return f"{100 * share:.3g} %" if 0 < abs(share) < 0.1 else f"{100 * share:.1f} %"


def size(count: float) -> str:
    """Bytes in a decimal unit: GB = 1e9."""
    for unit, one in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count:.0f} B"


def count(number: float) -> str:
    """A count with thin separators."""
    return f"{number:,.0f}".replace(",", " ")


def digits(value: float) -> str:
    """Three digits; from a thousand on whole."""
    if 1000 <= abs(value) < 1e7:
        return count(float(f"{value:.3g}"))
    return f"{value:.3g}"


def sentence(words: str) -> str:
    """With a capital and a full stop."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
