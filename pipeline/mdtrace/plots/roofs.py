"""Roofs as a chart draws them: from the rows of `hardware_roofs`, equal ones merged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mdtrace.plots.points import Plane
from mdtrace.plots.values import Row, positive, si


@dataclass(frozen=True)
class Roof:
    """One roof: its height (FLOP/s) or its slope (byte/s), how it is called and where the figure is from."""

    per_s: float
    name: str
    source: str


@dataclass(frozen=True)
class Roofs:
    """Of one plane: compute roofs, the highest first, and bandwidths, the greatest first."""

    compute: tuple[Roof, ...]
    slopes: tuple[Roof, ...]

    @property
    def ridges(self) -> list[float]:
        """Intensities where the steepest slope meets the compute roofs."""
        return [c.per_s / self.slopes[0].per_s for c in self.compute] if self.slopes else []

    def at(self, intensity: float, roof: Roof) -> float:
        """What a compute roof and the steepest slope allow at an intensity."""
        return min(roof.per_s, intensity * self.slopes[0].per_s) if self.slopes else roof.per_s


def roofs(table: pa.Table, plane: Plane, dtypes: Sequence[str] = ()) -> Roofs:
    """The roofs of a plane.

    Args:
        table: rows of `hardware_roofs`.
        dtypes: element types whose compute roofs are wanted; those that are none of the roofs count for
            nothing, and if none is left all are drawn.
    """
    rows = [row for row in table.to_pylist() if positive(row["per_s"])]
    compute = [row for row in rows if row["roof"] == "compute"]
    wanted = [row for row in compute if row["dtype"] in dtypes] or compute
    slope = "memory" if plane == "memory" else "bus"
    return Roofs(_merged(wanted, "FLOP/s"), _merged([r for r in rows if r["roof"] == slope], "B/s"))


def _merged(rows: Sequence[Row], unit: str) -> tuple[Roof, ...]:
    """Roofs of one height are one line with several names."""
    groups: dict[float, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["per_s"], []).append(row)
    found = []
    for per_s, group in sorted(groups.items(), reverse=True):
        names = ", ".join(dict.fromkeys(_name(row) for row in group))
        sources = ", ".join(dict.fromkeys(_source(row) for row in group))
        found.append(Roof(per_s, f"{names} {si(per_s, unit)}", sources))
    return tuple(found)


def _name(row: Row) -> str:
    if row["roof"] == "compute":
        return f"{row['dtype']} {row['unit']}"
    return {"memory": "memory", "bus": "links"}.get(row["roof"], str(row["roof"]))


def _source(row: Row) -> str:
    device = row["device"] or row["hardware"] or "device not named"
    return f"{device}: {row['source'] or row['origin']}"


def lines(found: Roofs, low: float, high: float) -> list[dict[str, Any]]:
    """The roofs as lines from intensity `low` to `high`: rows of roof, x, y, source, order."""
    rows = []
    for roof in found.compute:
        ridge = roof.per_s / found.slopes[0].per_s if found.slopes else low
        start = min(max(ridge, low), high)
        rows += [_end(roof, x, found.at(x, roof), n) for n, x in enumerate((start, high))]
    top = max((c.per_s for c in found.compute), default=None)
    for slope in found.slopes:
        stop = high if top is None else min(high, max(top / slope.per_s, low))
        rows += [_end(slope, x, x * slope.per_s, n) for n, x in enumerate((low, stop))]
    return rows


def _end(roof: Roof, x: float, y: float, order: int) -> dict[str, Any]:
    return {"roof": roof.name, "x": x, "y": y, "source": roof.source, "order": order}
