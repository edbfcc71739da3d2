"""Non-negative least squares, and what a set of rows can tell of another one."""

import numpy as np

from mdtrace.models.fusion import Floats

_RANK = 1e-3  # singular values below this share of the largest are measurement noise, not information
_INSIDE = 1e-2  # a row is in the row space if less than this share of it lies outside


def nnls(a: Floats, b: Floats) -> Floats:
    """The x ≥ 0 that minimises ‖a·x − b‖, by the active-set method of Lawson and Hanson.

    Where several x do so, one of them; a·x is the same for all.

    Args:
        a: shape (M, N). b: shape (M,).

    Returns:
        Shape (N,).

    Source: Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1.0
    a = a / scale
    count = a.shape[1]
    x, passive = np.zeros(count), np.zeros(count, bool)
    enough = 1e-12 * max(float(np.linalg.norm(b)), 1e-300)
    for _ in range(10 * count):
        gain = a.T @ (b - a @ x)
        free = ~passive & (gain > enough)
        if not free.any():
            break
        passive[np.argmax(np.where(free, gain, -np.inf))] = True
        x = _feasible(a, b, x, passive)
    found: Floats = x / scale
    return found


def _feasible(a: Floats, b: Floats, x: Floats, passive: np.ndarray) -> Floats:
    """Least squares on the passive columns; those that would turn negative leave, one after the other."""
    while passive.any():
        trial = np.zeros_like(x)
        trial[passive] = np.linalg.lstsq(a[:, passive], b, rcond=None)[0]
        bad = passive & (trial <= 0)
        if not bad.any():
            return trial
        step = np.min(x[bad] / np.maximum(x[bad] - trial[bad], 1e-300))
        x = x + step * (trial - x)
        passive[bad & (x <= 1e-15 * max(float(x.max()), 1e-300))] = False
        x[~passive] = 0.0
    return np.zeros_like(x)


def outside(row: Floats, rows: Floats) -> Floats | None:
    """The part of a row that the rows say nothing about; None where it is in their row space.

    Columns are compared in units of their largest value, and differences of less than a thousandth count as
    none: bytes that vary by noise do not tell latency from bandwidth.

    Args:
        row: shape (N,). rows: shape (M, N).

    Returns:
        Shape (N,), in units of each column's largest value.
    """
    scale = np.maximum(np.abs(rows).max(axis=0, initial=0.0), np.abs(row))
    scale[scale == 0] = 1.0
    known, wanted = rows / scale, row / scale
    _, values, directions = np.linalg.svd(known, full_matrices=False)
    basis = directions[values > _RANK * max(float(values.max(initial=0.0)), 1e-300)]
    rest: Floats = wanted - basis.T @ (basis @ wanted)
    return None if np.linalg.norm(rest) <= _INSIDE * np.linalg.norm(wanted) else rest


def independent(rows: Floats) -> int:
    """Number of independent rows, as `outside` counts them."""
    scale = np.abs(rows).max(axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    values = np.linalg.svd(rows / scale, compute_uv=False)
    return int((values > _RANK * max(float(values.max(initial=0.0)), 1e-300)).sum())
