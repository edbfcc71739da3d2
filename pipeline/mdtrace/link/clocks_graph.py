"""Clocks connected by the operations they share, each solved against a reference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mdtrace.link.clocks_fit import ENOUGH, Fit, Shared, fit

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Marks:
    """Records of operations that no rank leaves before all have entered; all arrays have one length.

    `firm` marks have ends that surely wait for the others (kernels, backend records); a range may
    close at once.
    """

    instance: Ints
    clock: Ints
    start: Ints
    end: Ints
    firm: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Cells:
    """By operation (row) and clock (column): whether it took part, its ends and its last arrival."""

    present: npt.NDArray[np.bool_]
    end: Ints
    first_end: Ints
    last_start: Ints
    firm: npt.NDArray[np.bool_]  # by operation


@dataclass(frozen=True)
class Path:
    """How a clock was solved: `fit` is None for a reference and for a clock without connection.

    Attributes:
        reference: clock that it is measured against; its own for a reference; None: not connected.
        through: other clocks stand between.
        component: clocks with the same number are connected.
    """

    fit: Fit | None
    reference: int | None
    through: bool
    component: int


def collect(marks: Marks, clocks: int) -> Cells:
    """Sum up the marks by operation and clock."""
    operations, row = np.unique(marks.instance, return_inverse=True)
    row = row.reshape(-1)
    order = np.lexsort((marks.end, marks.clock, row))
    cell = (row * clocks + marks.clock)[order]
    cells, first, count = np.unique(cell, return_index=True, return_counts=True)
    shape = (len(operations), clocks)
    filled = {name: np.zeros(shape[0] * clocks, np.int64) for name in ("end", "first_end", "last_start")}
    if len(cells):
        filled["end"][cells] = marks.end[order][first + (count - 1) // 2]
        filled["first_end"][cells] = marks.end[order][first]
        filled["last_start"][cells] = np.maximum.reduceat(marks.start[order], first)
    present = np.zeros(shape[0] * clocks, np.bool_)
    present[cells] = True
    soft = np.bincount(row, ~marks.firm, minlength=len(operations)) > 0
    return Cells(present.reshape(shape), **{n: v.reshape(shape) for n, v in filled.items()}, firm=~soft)


def solve_paths(cells: Cells, resolution: Sequence[int]) -> list[Path]:
    """Solve every clock against the first one it is connected with.

    Clocks that share at least 5 operations with the reference are solved directly; the others
    through the solved clock that leaves the smallest error, errors adding up.

    Args:
        cells: columns in order of preference as reference.
        resolution: of each clock's timestamps, ns.
    """
    count = len(resolution)
    paths: dict[int, Path] = {}
    component = 0
    for reference in range(count):
        if reference in paths:
            continue
        paths[reference] = Path(None, reference, False, component)
        _solve_directly(cells, resolution, paths, reference, component)
        _solve_through(cells, resolution, paths, reference, component)
        if not any(p.component == component and r != reference for r, p in paths.items()):
            paths[reference] = Path(None, reference if count == 1 else None, False, component)
        component += 1
    return [paths[c] for c in range(count)]


def _solve_directly(
    cells: Cells, resolution: Sequence[int], paths: dict[int, Path], reference: int, component: int
) -> None:
    for clock in range(len(resolution)):
        if clock not in paths:
            found = _edge(cells, clock, reference, resolution)
            if found is not None and found.count >= ENOUGH:
                paths[clock] = Path(found, reference, False, component)


def _solve_through(
    cells: Cells, resolution: Sequence[int], paths: dict[int, Path], reference: int, component: int
) -> None:
    """Grow the component clock by clock, the most certain connection first."""
    reached = [c for c, p in paths.items() if p.component == component]
    offers: dict[int, tuple[tuple[bool, int], Path]] = {}
    while reached:
        for clock in range(len(resolution)):
            if clock in paths:
                continue
            for solved in reached:
                _offer(cells, clock, solved, resolution, paths, offers)
        if not offers:
            return
        clock = min(offers, key=lambda c: (offers[c][0], c))
        paths[clock] = offers.pop(clock)[1]
        reached = [clock]


def _offer(
    cells: Cells,
    clock: int,
    solved: int,
    resolution: Sequence[int],
    paths: dict[int, Path],
    offers: dict[int, tuple[tuple[bool, int], Path]],
) -> None:
    """Note the connection of a clock through a solved one, if it is the best so far."""
    edge = _edge(cells, clock, solved, resolution)
    if edge is None:
        return
    base = paths[solved]
    whole = _joined(edge, base.fit)
    rank = (edge.count < ENOUGH, whole.error)
    if clock not in offers or rank < offers[clock][0]:
        offers[clock] = (rank, Path(whole, base.reference, base.fit is not None, base.component))


def _edge(cells: Cells, clock: int, other: int, resolution: Sequence[int]) -> Fit | None:
    """Fit of one clock against another; None where they share nothing that marks a time."""
    both = cells.present[:, clock] & cells.present[:, other]
    firm = both & cells.firm
    rows = np.flatnonzero(firm if firm.any() else both)
    if not len(rows):
        return None
    shared = Shared(
        end=cells.end[rows, clock],
        difference=cells.end[rows, clock] - cells.end[rows, other],
        lower=cells.last_start[rows, clock] - cells.first_end[rows, other],
        upper=cells.first_end[rows, clock] - cells.last_start[rows, other],
    )
    found = fit(shared, max(resolution[clock], resolution[other]))
    return found if firm.any() or found.consistent else None


def _joined(edge: Fit, base: Fit | None) -> Fit:
    """Offset against the reference: of the edge plus that of the clock it leads to."""
    if base is None:
        return edge
    moved = (
        base.offset if base.drift is None else base.offset + round(base.drift * (edge.origin - base.origin))
    )
    drift = None if edge.drift is None and base.drift is None else (edge.drift or 0) + (base.drift or 0)
    return replace(
        edge,
        offset=edge.offset + moved,
        drift=drift,
        error=edge.error + base.error,
        lower=edge.lower + base.lower + moved - base.offset,
        upper=edge.upper + base.upper + moved - base.offset,
        count=min(edge.count, base.count),
    )
