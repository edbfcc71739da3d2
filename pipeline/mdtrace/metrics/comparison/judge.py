"""What a change of a per-step amount is worth: noise, too small to matter, or a change."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Verdict = Literal["same", "noise", "small", "cannot tell", "regression", "improvement", "new", "gone"]

ENOUGH_STEPS = 3  # fewer have no spread to speak of
_BOUND = 3.0  # combined median absolute deviations
_UNLIKELY, _VERY_UNLIKELY = 0.05, 0.005  # chance that like steps differ so much in rank
_MOST = 0.9  # of all pairs of steps

# Factors that correct the median absolute deviation for few values (Croux and Rousseeuw, 1992).
_SMALL_SAMPLE = {1: 1.0, 2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


@dataclass(frozen=True)
class Change:
    """A change between the steps of two runs.

    Attributes:
        base, new: medians over the steps.
        base_spread, new_spread: median absolute deviations over the steps; None with fewer than 3.
        noise: how large a change may be by chance; None where it cannot be told.
        within_noise: it may be chance.
    """

    base: float
    new: float
    base_spread: float | None
    new_spread: float | None
    noise: float | None
    within_noise: bool

    @property
    def change(self) -> float:
        return self.new - self.base

    def verdict(self, limit: float) -> Verdict:
        """Judge it: `limit` is the least change that matters, in the amount's unit. More is worse."""
        if self.change == 0:
            return "same"
        if self.within_noise:
            return "noise"
        if abs(self.change) <= limit:
            return "small"
        if self.noise is None:
            return "cannot tell"
        return "regression" if self.change > 0 else "improvement"


def spread(values: Values) -> float:
    """Median absolute deviation, corrected for few values."""
    n = len(values)
    deviation = float(np.median(np.abs(values - np.median(values))))
    return _SMALL_SAMPLE.get(n, n / (n - 0.8)) * deviation


def judge(base: Values, new: Values) -> Change:
    """Compare per-step amounts.

    A change is noise where it is no larger than 3 combined median absolute deviations of a single step (2
    standard deviations, were steps normally distributed). The error of the medians is smaller, but what
    differs from run to run is shared by all steps of a run. The spread of few steps may be small by chance:
    so the runs' steps must be wholly apart too, or differ in rank as chance makes them in fewer than 5 % of
    cases (Mann-Whitney test). However steps spread, it is no noise where 9 of 10 pairs of steps differ the
    same way, and chance makes so many in fewer than 0.5 % of cases.

    Args:
        base, new: one value a step; at least one each.
    """
    medians = float(np.median(base)), float(np.median(new))
    if min(len(base), len(new)) < ENOUGH_STEPS:
        return Change(*medians, None, None, None, within_noise=False)
    spreads = spread(base), spread(new)
    noise = _BOUND * float(np.hypot(*spreads))
    share, chance = rank_test(base, new)
    beyond = abs(medians[1] - medians[0]) > noise and (share == 1 or chance < _UNLIKELY)
    clear = share >= _MOST and chance < _VERY_UNLIKELY
    return Change(*medians, *spreads, noise, within_noise=not (beyond or clear))


def rank_test(base: Values, new: Values) -> tuple[float, float]:
    """Mann-Whitney test: share of pairs of values that differ the same way (ties count half), at least 0.5,
    and how likely as large a share is by chance, either way."""
    n, m = len(base), len(new)
    in_order = np.sort(new)
    pairs = (np.searchsorted(in_order, base, "left") + np.searchsorted(in_order, base, "right")).sum() / 2
    fewer = min(float(pairs), n * m - float(pairs))  # pairs the other way
    if n * m > _EXACT:
        deviations = (n * m / 2 - fewer - 0.5) / math.sqrt(n * m * (n + m + 1) / 12)
        chance = math.erfc(max(deviations, 0) / math.sqrt(2))
    else:
        chance = min(1.0, 2 * _orders(n, m)[: math.floor(fewer) + 1].sum() / math.comb(n + m, n))
    return 1 - fewer / (n * m), float(chance)


_EXACT = 400  # pairs up to which all orders are counted


@cache
def _orders(n: int, m: int) -> npt.NDArray[np.float64]:
    """Orders of n and m values by how many pairs stand one way, 0 to n·m: coefficients of the Gaussian
    binomial, the product of (1 - q^(m+i)) / (1 - q^i) for i from 1 to n."""
    counts = np.zeros(n * m + 1)
    counts[0] = 1
    for i in range(1, n + 1):
        if m + i <= n * m:
            counts[m + i :] -= counts[: -(m + i)].copy()
        for k in range(i, n * m + 1):
            counts[k] += counts[k - i]
    return counts
