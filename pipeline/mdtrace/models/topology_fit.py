"""Step time from features: T = θ·x with θ ≥ 0, or with overlap T = (T_g^γ + T_s^γ)^(1/γ), 1 ≤ γ ≤ 10.

T_g is what the GPUs compute, T_s what their exchange takes; γ = 1 is the sum: nothing overlaps; towards
γ = 10 the longer one alone counts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdtrace.models.fusion import Floats
from mdtrace.models.topology import Column
from mdtrace.models.topology_nnls import independent, nnls, outside

_COARSE = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0)
_FINE = 8  # steps of the golden-section search between neighbours of the best coarse one
_ROUNDS = 25
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Model:
    """A fitted model.

    Attributes:
        columns: the coefficients. theta: their values, shape (C,). gamma: 1 where nothing overlaps.
        rows: features it was fitted on, shape (R, C).
    """

    columns: tuple[Column, ...]
    theta: Floats
    gamma: float
    overlap: bool
    rows: Floats

    def parts(self, row: Floats) -> tuple[float, float]:
        """Seconds of compute T_g and of exchange T_s for features, shape (C,)."""
        own = np.array([column.computes for column in self.columns])
        return float(row[own] @ self.theta[own]), float(row[~own] @ self.theta[~own])

    def step_s(self, row: Floats) -> float:
        """Seconds a step takes for features, shape (C,)."""
        own, exchange = self.parts(row)
        return float(_joined(np.array([own]), np.array([exchange]), self.gamma)[0])

    def unknown(self, row: Floats) -> str | None:
        """Why the runs do not identify a step with these features; None where they do."""
        if not self.overlap:
            return unidentified(row, self.rows, self.columns)
        own = np.array([column.computes for column in self.columns])
        for part in (np.flatnonzero(own), np.flatnonzero(~own)):
            names = tuple(self.columns[i] for i in part)
            if names and row[part].any():
                reason = unidentified(row[part], self.rows[:, part], names)
                if reason is not None:
                    return reason
        return None


def unidentified(row: Floats, rows: Floats, columns: tuple[Column, ...]) -> str | None:
    """Why a placement is not in the row space of the runs; None where it is.

    Args:
        row: its features, shape (C,). rows: those of the runs, shape (R, C).
    """
    unseen = [columns[i] for i in np.flatnonzero((row != 0) & ~(rows != 0).any(axis=0))]
    if unseen:
        links = " and ".join(dict.fromkeys(str(c.link) for c in unseen if c.link is not None))
        return f"no run uses links of class {links}"
    rest = outside(row, rows)
    if rest is None:
        return None
    at = next((i for i, c in enumerate(columns) if c.kind == "batch"), None)
    if at is not None and np.ptp(rows[:, at]) == 0 and row[at] != rows[0, at]:
        return f"all runs have a per-GPU batch of {rows[0, at]:g}, none tells what a sample takes"
    mixed = [c.text for c, part in zip(columns, rest, strict=True) if abs(part) > 0.05 * np.abs(rest).max()]
    return (
        f"the runs differ too little to tell apart {', '.join(mixed)}"
        f" ({independent(rows)} independent, {np.count_nonzero(rows.any(axis=0))} needed)"
    )


def fit(
    rows: Floats, times: Floats, columns: tuple[Column, ...], *, overlap: bool = False, weighted: bool = True
) -> Model:
    """Fit step times by non-negative least squares.

    Args:
        rows: features, shape (R, C). times: seconds, shape (R,), > 0.
        overlap: search γ too.
        weighted: by 1/T², so that relative errors count.
    """
    weights = 1 / times if weighted else np.ones_like(times)
    sums = nnls(rows * weights[:, None], times * weights)
    if not overlap:
        return Model(columns, sums, 1.0, overlap=False, rows=rows)
    task = _Task(rows, times, weights, np.array([column.computes for column in columns]))
    loss, gamma, theta = _search(task.given_gamma, sums)
    if loss >= (1 - 1e-6) * task.loss(sums, 1.0)[0]:
        gamma, theta = 1.0, sums
    return Model(columns, theta, gamma, overlap=True, rows=rows)


def _search(
    at: Callable[[float, Floats], tuple[float, Floats]], start: Floats
) -> tuple[float, float, Floats]:
    """Least loss over γ: the best of a coarse grid, then golden section between its neighbours."""
    tried: dict[float, tuple[float, Floats]] = {}
    for gamma in _COARSE:
        tried[gamma] = at(gamma, start)
        start = tried[gamma][1]
    best = min(_COARSE, key=lambda gamma: tried[gamma][0])
    index = _COARSE.index(best)
    low, high, start = _COARSE[max(index - 1, 0)], _COARSE[min(index + 1, len(_COARSE) - 1)], tried[best][1]
    for _ in range(_FINE):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        tried[left], tried[right] = at(left, start), at(right, start)
        if tried[left][0] <= tried[right][0]:
            high = right
        else:
            low = left
    best = min(tried, key=lambda gamma: tried[gamma][0])
    return tried[best][0], best, tried[best][1]


@dataclass(frozen=True)
class _Task:
    """What is fitted: features (R, C), seconds (R,), weights (R,), which columns are compute (C,)."""

    rows: Floats
    times: Floats
    weights: Floats
    own: np.ndarray

    def loss(self, theta: Floats, gamma: float) -> tuple[float, Floats]:
        """Squared loss, and the derivative of T by θ, shape (R, C)."""
        total, slopes = _derivative(self.rows, self.own, theta, gamma)
        return float((((total - self.times) * self.weights) ** 2).sum()), slopes

    def given_gamma(self, gamma: float, start: Floats) -> tuple[float, Floats]:
        """Squared loss and θ for one γ.

        T is homogeneous in θ, so T(θ) = J(θ)·θ with its derivative J: each round solves the linear problem
        with J of the last θ and goes as far towards its solution as the loss falls.
        """
        theta = np.where(start > 0, start, _small(self.rows, self.times))
        loss, slopes = self.loss(theta, gamma)
        for _ in range(_ROUNDS):
            target = nnls(slopes * self.weights[:, None], self.times * self.weights)
            before = loss
            for share in (1.0, 0.5, 0.25):
                trial = theta + share * (target - theta)
                found, its_slopes = self.loss(trial, gamma)
                if found < loss:
                    theta, loss, slopes = trial, found, its_slopes
                    break
            if before - loss <= 1e-6 * before:
                break
        return loss, theta


def _small(rows: Floats, times: Floats) -> Floats:
    """Coefficients that each explain a tenth of a step: none starts at zero, where the slope vanishes."""
    largest = rows.max(axis=0)
    return np.where(largest > 0, 0.1 * times.mean() / np.where(largest > 0, largest, 1.0), 0.0)


def _derivative(rows: Floats, own: np.ndarray, theta: Floats, gamma: float) -> tuple[Floats, Floats]:
    """T, shape (R,), and its derivative by θ, shape (R, C)."""
    work, exchange = rows[:, own] @ theta[own], rows[:, ~own] @ theta[~own]
    total = _joined(work, exchange, gamma)
    safe = np.where(total > 0, total, 1.0)
    by_work, by_exchange = (work / safe) ** (gamma - 1), (exchange / safe) ** (gamma - 1)
    return total, rows * np.where(own, by_work[:, None], by_exchange[:, None])


def _joined(work: Floats, exchange: Floats, gamma: float) -> Floats:
    """(T_g^γ + T_s^γ)^(1/γ), without overflow."""
    most = np.maximum(work, exchange)
    safe = np.where(most > 0, most, 1.0)
    joined: Floats = most * ((work / safe) ** gamma + (exchange / safe) ** gamma) ** (1 / gamma)
    return joined
