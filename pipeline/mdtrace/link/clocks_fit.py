"""The offset between two clocks, from operations that both took part in. Pure functions on arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

ENOUGH = 5  # operations from which the deviation of the ends is an error bar
_ENOUGH_FOR_DRIFT = 10
_LINE_POINTS = 400
_CERTAIN = 3
# Five standard errors of a median, in median absolute deviations: 5 · 1.253 · 1.483; times 1/√n.
_OF_A_MEDIAN = 9.29


@dataclass(frozen=True)
class Shared:
    """Operations that clocks q (reference) and r share; all arrays have one length, times in ns.

    Attributes:
        end: end on clock r.
        difference: end on clock r − end on clock q.
        lower: last arrival on r − first end on q: r's clock is ahead by no less.
        upper: first end on r − last arrival on q: r's clock is ahead by no more.
    """

    end: Ints
    difference: Ints
    lower: Ints
    upper: Ints


@dataclass(frozen=True)
class Fit:
    """How far clock r is ahead of clock q.

    Attributes:
        offset: ns, at `origin` on clock r where there is a drift.
        drift: growth of the offset per ns of clock r; None: none beyond the error.
        lower, upper: causal bounds of the offset; lower > upper: no offset fits all operations.
        span: time that the operations cover.
    """

    offset: int
    drift: float | None
    origin: int
    error: int
    lower: int
    upper: int
    count: int
    span: int

    @property
    def reach(self) -> int:
        """How far the offset is from 0 at most, over the time that the operations cover."""
        return abs(self.offset) + round(abs(self.drift or 0.0) * self.span / 2)

    @property
    def consistent(self) -> bool:
        return self.lower <= self.upper


def fit(shared: Shared, resolution: int) -> Fit:
    """Fit offset and, where the data show one, drift.

    Median of the end differences, or a Theil–Sen line through them, clipped to what causality allows:
    `max(a_r − e_q) ≤ o_r − o_q ≤ min(e_r − a_q)`. The error bar is the median absolute deviation of the
    ends over at least 5 operations (see `_deviation`), else half the causal interval, never below the
    resolution.

    Args:
        shared: at least one operation.
        resolution: of the timestamps, ns.
    """
    flat = _clipped(shared, 0.0, int(shared.end[0]), resolution)
    slope, certain = _slope(shared)
    if slope is None:
        return flat
    origin = int(shared.end.min()) + flat.span // 2
    sloped = _clipped(shared, slope, origin, resolution)
    visible = abs(slope) * flat.span > 2 * resolution and sloped.error <= flat.error
    rescues = sloped.consistent and not flat.consistent
    return sloped if (visible and certain) or rescues else flat


def _slope(shared: Shared) -> tuple[float | None, bool]:
    """Theil–Sen: the median slope over pairs of operations half the capture apart or more.

    Returns:
        the slope (None: too few operations), and whether there is a trend at all: Kendall's rank test
        of the differences against time, beyond `_CERTAIN` standard deviations of chance.
    """
    count = len(shared.end)
    if count < _ENOUGH_FOR_DRIFT:
        return None, False
    order = np.argsort(shared.end, kind="stable")
    picked = order[np.linspace(0, count - 1, min(count, _LINE_POINTS)).astype(np.int64)]
    time = (shared.end[picked] - shared.end[picked[0]]).astype(np.float64)
    value = (shared.difference[picked] - shared.difference[picked[0]]).astype(np.float64)
    i, j = np.triu_indices(len(picked), k=1)
    rise, run = value[j] - value[i], time[j] - time[i]
    points = len(picked)
    chance = np.sqrt(points * (points - 1) * (2 * points + 5) / 18)
    certain = bool(abs(np.sign(rise).sum()) > _CERTAIN * chance)
    apart = (run * 2 >= time[-1]) & (run > 0)
    return (float(np.median(rise[apart] / run[apart])), certain) if apart.any() else (None, False)


def _clipped(shared: Shared, slope: float, origin: int, resolution: int) -> Fit:
    """Median around a given slope, inside the causal bounds."""
    growth = np.rint(slope * (shared.end - origin)).astype(np.int64)
    flat = shared.difference - growth
    lower, upper = int((shared.lower - growth).max()), int((shared.upper - growth).min())
    offset = _median(flat)
    if lower <= upper:
        offset = min(max(offset, lower), upper)
    error = _deviation(np.abs(flat - offset), slope) if len(flat) >= ENOUGH else abs(upper - lower) // 2
    drift, span = slope if slope else None, int(shared.end.max() - shared.end.min())
    return Fit(offset, drift, origin, max(error, resolution), lower, upper, len(flat), span)


def _deviation(residuals: Ints, slope: float) -> int:
    """Median absolute deviation; of few operations five standard errors of their median (at the ends of a
    line: twice that), so that the offset itself lies within."""
    few = _OF_A_MEDIAN / np.sqrt(len(residuals)) * (2 if slope else 1)
    return round(_median(residuals) * max(1.0, float(few)))


def _median(values: Ints) -> int:
    """Median to the ns; differences of epoch times would lose it as floats."""
    base = int(values[0])
    return base + round(float(np.median(values - base)))


def granularity(times: Ints) -> int:
    """Resolution that times are recorded with: 1 ns, or coarser up to 1 µs (the coarsest of the formats)."""
    step = int(np.gcd.reduce(times - times[0])) if len(times) else 1
    if step == 0:  # a single time
        step = 1000 if times[0] % 1000 == 0 else 1
    return min(step, 1000)
