"""Which rule packed the buckets of a run, and which caps make the same buckets."""

from dataclasses import dataclass

import numpy as np

from mdtrace.models.fusion import Floats, Ints, Rule

MEBIBYTE = 2**20
_DEFAULT = "DDP's default, 25 MiB and a first bucket of 1 MiB"
DDP_CAP, DDP_FIRST = 25 * MEBIBYTE, 1 * MEBIBYTE


@dataclass(frozen=True)
class Recognised:
    """A rule that makes just these buckets.

    Attributes:
        rule: None where no rule with one cap makes them.
        low, high: caps in bytes that make the same buckets, as far as the buckets tell.
        words: for people.
    """

    rule: Rule | None
    low: float
    high: float
    words: str


def recognise(sizes: Floats, stops: Ints, *, timeline: bool) -> Recognised:
    """The rule behind buckets.

    Args:
        sizes: bytes of the gradients in the order they become ready. stops: index after each bucket's last.
        timeline: of Horovod, which has thresholds; others close a bucket once it is full.
    """
    if len(stops) == len(sizes) and len(sizes) > 1:
        return Recognised(Rule("each"), 0.0, float(sizes.min()), "each gradient alone")
    if len(stops) == 1:
        return Recognised(Rule("one"), float(sizes.sum()), np.inf, "all gradients together")
    if timeline:
        return _threshold(sizes, stops) or _none()
    return _ddp(sizes, stops) or _threshold(sizes, stops) or _none()


def _none() -> Recognised:
    return Recognised(None, np.nan, np.nan, "by no rule with one cap")


def _ddp(sizes: Floats, stops: Ints) -> Recognised | None:
    first_low, first_high = reaching_caps(sizes[: stops[1]], stops[:1])
    rest_low, rest_high = reaching_caps(sizes[stops[0] :], stops[1:] - stops[0])
    default = first_low < DDP_FIRST <= first_high and rest_low < DDP_CAP <= rest_high
    if default:
        return Recognised(
            Rule("ddp", DDP_CAP, DDP_FIRST),
            rest_low,
            rest_high,
            "DDP's default, 25 MiB and a first bucket of 1 MiB",
        )
    low, high = reaching_caps(sizes, stops)
    if low < high:
        cap = plain_cap(low, high)
        return Recognised(Rule("ddp", cap), low, high, f"DDP buckets of {cap / MEBIBYTE:g} MiB")
    if first_low < first_high and rest_low < rest_high:
        cap, first = plain_cap(rest_low, rest_high), plain_cap(first_low, first_high)
        words = f"DDP buckets of {cap / MEBIBYTE:g} MiB, the first {first / MEBIBYTE:g} MiB"
        return Recognised(Rule("ddp", cap, first), rest_low, rest_high, words)
    return None


def _threshold(sizes: Floats, stops: Ints) -> Recognised | None:
    low, high = below_caps(sizes, stops)
    if low >= high:
        return None
    cap = plain_cap(low, high, from_low=True)
    return Recognised(Rule("threshold", cap), low, high, f"a threshold of {cap / MEBIBYTE:g} MiB")


def reaching_caps(sizes: Floats, stops: Ints) -> tuple[float, float]:
    """Caps c, low < c ≤ high, with which buckets that close once they reach c are these.

    Gradients after the last stop show that it was one.
    """
    edges = np.concatenate(([0.0], np.cumsum(sizes)))
    starts = np.concatenate(([0], stops[:-1]))
    full = edges[stops] - edges[starts]
    low = float((edges[stops - 1] - edges[starts]).max())
    closed = full if stops[-1] < len(sizes) else full[:-1]
    return low, float(closed.min()) if len(closed) else np.inf


def below_caps(sizes: Floats, stops: Ints) -> tuple[float, float]:
    """Caps c, low ≤ c < high, with which buckets that close before they pass c are these."""
    edges = np.concatenate(([0.0], np.cumsum(sizes)))
    starts = np.concatenate(([0], stops[:-1]))
    full = edges[stops] - edges[starts]
    several = full[(stops - starts) > 1]
    low = float(several.max()) if len(several) else 0.0
    passed = full[:-1] + sizes[stops[:-1]]
    return low, float(passed.min()) if len(passed) else np.inf


def plain_cap(low: float, high: float, *, from_low: bool = False) -> float:
    """The plainest cap between two, in bytes: a round number of MiB where there is one.

    Args:
        from_low: low itself is one of them and high is not; else the other way round.
    """
    for power in range(7):
        unit = MEBIBYTE / 10**power
        for number in (np.ceil(low / unit), np.floor(low / unit) + 1):
            cap = float(number * unit)
            inside = low <= cap < high if from_low else low < cap <= high
            if inside and cap > 0:
                return cap
    return low if from_low else high
