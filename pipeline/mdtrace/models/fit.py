"""Robust fit of latency and time per byte to measured messages.

time = a·x + b·y with a, b ≥ 0, where x counts latencies and y bytes on the wire. Theil and Sen's median of
slopes starts it; reweighted least squares with Tukey's weights on relative errors ends it, because what
disturbs a message grows with it, and a message that waited says nothing about the link.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mdtrace.models.fusion import Floats

_PAIRS = 400  # messages of which all pairs are looked at; of more, as many spread over the sizes
_TUKEY = 4.685  # standard deviations from which on a residual does not count at all
_ROUNDS = 25
SPREAD = (
    2.0  # ratio of the largest to the smallest bytes per latency below which a and b cannot be told apart
)


@dataclass(frozen=True)
class Fit:
    """Result of a fit.

    Attributes:
        a, b: time per latency and per byte.
        error: median of |fitted − measured| over measured.
        count: messages used.
        told_apart: sizes vary enough for a and b to be known each by itself.
    """

    a: float
    b: float
    error: float
    count: int
    told_apart: bool


def fit(x: Floats, y: Floats, times: Floats, a: float | None = None, b: float | None = None) -> Fit | None:
    """Fit times ≈ a·x + b·y; a or b may be given. None where there is no message.

    Args:
        x, y, times: shape (M,); x > 0, times > 0.
    """
    usable = (x > 0) & (times > 0) & np.isfinite(y)
    x, y, times = x[usable], y[usable], times[usable]
    if not len(times):
        return None
    ratio = y / x
    # Sizes seen once or twice are no base: the spread is that of the bulk.
    low, high = np.quantile(ratio, [0.02, 0.98]) if len(ratio) > 100 else (ratio.min(), ratio.max())
    apart = bool(high >= SPREAD * max(low, 1.0)) and len(times) >= 3
    if a is not None or b is not None:
        found_a, found_b = _one(x, y, times, a, b)
    else:
        found_a, found_b = _both(x, y, times) if apart else _one(x, y, times, 0.0, None)
    error = np.median(np.abs(found_a * x + found_b * y - times) / times)
    return Fit(found_a, found_b, float(error), len(times), apart or a is not None or b is not None)


def _one(x: Floats, y: Floats, times: Floats, a: float | None, b: float | None) -> tuple[float, float]:
    """The one that is not given, the median of what each message leaves for it."""
    if a is None:
        assert b is not None  # the caller gives at least one
        return max(0.0, float(np.median((times - b * y) / x))), b
    sized = y > 0
    rest = (times[sized] - a * x[sized]) / y[sized]
    return a, b if b is not None else max(0.0, float(np.median(rest)) if len(rest) else 0.0)


def _both(x: Floats, y: Floats, times: Floats) -> tuple[float, float]:
    a, b = theil_sen(y / x, times / x)
    for _ in range(_ROUNDS):
        a, b = max(a, 0.0), max(b, 0.0)
        # Relative to what is fitted: relative to what was measured, short ones would pull the fit down.
        expected = np.maximum(a * x + b * y, 1e-9 * times)
        residual = times / expected - 1
        scale = 1.4826 * float(np.median(np.abs(residual)))
        if scale < 1e-12:
            break
        far = np.minimum(1.0, np.abs(residual) / (_TUKEY * scale))
        weight = (1 - far**2) / expected
        a, b = _least_squares(x * weight, y * weight, times * weight)
    return a, b


def _least_squares(x: Floats, y: Floats, times: Floats) -> tuple[float, float]:
    """a, b ≥ 0 with the least squares: the free solution, or the better edge of the quadrant."""
    scale = max(float(np.abs(y).max()), 1e-300)  # bytes are large numbers beside counts
    solution = np.linalg.lstsq(np.stack([x, y / scale], axis=1), times, rcond=None)[0]
    a, b = float(solution[0]), float(solution[1]) / scale
    if a >= 0 and b >= 0:
        return a, b
    only_a, only_b = float(x @ times / (x @ x)), float(y @ times / max(float(y @ y), 1e-300))
    left_a, left_b = np.square(only_a * x - times).sum(), np.square(only_b * y - times).sum()
    return (only_a, 0.0) if left_a < left_b else (0.0, only_b)


def theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    """Intercept and slope of y over x: the median of all pairs' slopes, and of what it leaves."""
    order = np.argsort(x, kind="stable")
    if len(order) > _PAIRS:
        order = order[np.linspace(0, len(order) - 1, _PAIRS).astype(int)]
    first, second = np.triu_indices(len(order), 1)
    step = x[order][second] - x[order][first]
    apart = step > 1e-9 * max(1.0, float(np.abs(x).max()))
    slope = (
        float(np.median((y[order][second] - y[order][first])[apart] / step[apart])) if apart.any() else 0.0
    )
    return float(np.median(y - slope * x)), slope


Algorithm = Literal["ring", "tree"]


def wires(algorithm: Algorithm, members: Floats) -> tuple[Floats, Floats]:
    """Latencies and bytes on the wire per payload byte of an all-reduce of `members` ranks.

    ring: 2(n−1) and 2(n−1)/n; tree: 2·log2 n of both.
    """
    if algorithm == "ring":
        return 2 * (members - 1), 2 * (members - 1) / members
    rounds = 2 * np.log2(members)
    return rounds, rounds
