"""The offset between two clocks, from operations that both took part in. Pure functions on arrays."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

ENOUGH = 5  # operations from which the deviation of the ends is an error bar
_ENOUGH_FOR_DRIFT = 10
_LINE_POINTS = 400


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
    """

    offset: int
    drift: float | None
    origin: int
    error: int
    lower: int
    upper: int
    count: int

    @property
    def consistent(self) -> bool:
        return self.lower <= self.upper


def fit(shared: Shared, resolution: int) -> Fit:
    """Fit offset and, where the data show one, drift.

    Median of the end differences, or a Theil–Sen line through them, clipped to what causality allows:
    `max(a_r − e_q) ≤ o_r − o_q ≤ min(e_r − a_q)`. The error bar is the median absolute deviation of the
    ends over at least 5 operations, else half the causal interval, never below the resolution.

    Args:
        shared: at least one operation.
        resolution: of the timestamps, ns.
    """
    flat = _clipped(shared, 0.0, int(shared.end[0]), resolution)
    line = _slope(shared)
    if line is None:
        return flat
    span = int(shared.end.max() - shared.end.min())
    origin = int(shared.end.min()) + span // 2
    sloped = _clipped(shared, line, origin, resolution)
    # A line always fits a little better: it must explain clearly more than what it leaves.
    shows = abs(line) * span > 4 * sloped.error and 2 * sloped.error < max(flat.error, resolution + 1)
    rescues = sloped.consistent and not flat.consistent and abs(line) * span > 2 * sloped.error
    return sloped if shows or rescues else flat


def _slope(shared: Shared) -> float | None:
    """Theil–Sen: the median slope over pairs of operations half the capture apart or more."""
    count = len(shared.end)
    if count < _ENOUGH_FOR_DRIFT:
        return None
    order = np.argsort(shared.end, kind="stable")
    picked = order[np.linspace(0, count - 1, min(count, _LINE_POINTS)).astype(np.int64)]
    time = (shared.end[picked] - shared.end[picked[0]]).astype(np.float64)
    value = (shared.difference[picked] - shared.difference[picked[0]]).astype(np.float64)
    i, j = np.triu_indices(len(picked), k=1)
    apart = (time[j] - time[i]) * 2 >= time[-1]
    apart &= time[j] > time[i]
    if not apart.any():
        return None
    i, j = i[apart], j[apart]
    return float(np.median((value[j] - value[i]) / (time[j] - time[i])))


def _clipped(shared: Shared, slope: float, origin: int, resolution: int) -> Fit:
    """Median around a given slope, inside the causal bounds."""
    growth = np.rint(slope * (shared.end - origin)).astype(np.int64)
    flat = shared.difference - growth
    lower, upper = int((shared.lower - growth).max()), int((shared.upper - growth).min())
    offset = _median(flat)
    if lower <= upper:
        offset = min(max(offset, lower), upper)
    error = _median(np.abs(flat - offset)) if len(flat) >= ENOUGH else abs(upper - lower) // 2
    drift = slope if slope else None
    return Fit(offset, drift, origin, max(error, resolution), lower, upper, len(flat))


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
