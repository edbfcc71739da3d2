"""Points under the roofs: the rows of `roofline_points` and `layer_roofline`, ranks summed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from mdtrace.plots.names import short
from mdtrace.plots.values import Row, positive

Plane = Literal["memory", "communication"]
_SUMS = ("calls", "flops", "bytes", "wire_bytes", "device_ns")


@dataclass(frozen=True)
class Shown:
    """What a chart shows of its points.

    Attributes:
        rows: those with a place on both log axes, the most time first.
        left_out: how many have none. time_left_out: their share of the time.
        ranks: over how many ranks each was summed.
    """

    rows: Sequence[Row]
    left_out: int
    time_left_out: float
    ranks: int

    @property
    def note(self) -> str:
        """In words."""
        over = f", {self.ranks} ranks summed" if self.ranks > 1 else ""
        text = f"{len(self.rows)} {'point' if len(self.rows) == 1 else 'points'}{over}"
        if self.left_out:
            text += f"; {self.left_out} without a place here, {100 * self.time_left_out:.3g} % of the time"
        return text


def shown(points: pa.Table, keys: Sequence[str], *, phases: bool = True) -> Shown:
    """Points whose quantities `keys` are all positive, ranks (and, if not `phases`, phases) summed.

    Args:
        points: rows of `roofline_points` or `layer_roofline`.
        keys: columns of the result: `intensity_memory`, `intensity_communication`, `bytes_per_wire_byte`,
            `achieved_flops_per_s`.
    """
    every = summed(points, phases=phases)
    fit = [row for row in every if all(positive(row[key]) for key in keys)]
    whole = sum(row["ms"] for row in every)
    lost = whole - sum(row["ms"] for row in fit)
    ranks = len(points.column("process_id").unique())
    return Shown(fit, len(every) - len(fit), lost / whole if whole else 0.0, ranks)


_NEEDED: dict[str, str] = {"flops": "FLOP", "bytes": "bytes of memory", "wire_bytes": "bytes on the wire"}
_NEEDS: dict[str, tuple[str, ...]] = {
    "memory": ("flops", "bytes"),
    "communication": ("flops", "wire_bytes"),
    "bounds": ("flops", "bytes", "wire_bytes"),
}


def why_none(points: pa.Table, chart: Plane | Literal["bounds"]) -> str:
    """Why a chart has no point, in words: what no row has, or no row has at once."""
    if not points.num_rows:
        return "nothing was accounted"
    rows, needs = points.to_pylist(), _NEEDS[chart]
    lacking = [_NEEDED[key] for key in needs if not any(row[key] for row in rows)]
    if lacking:
        return f"no {' and no '.join(lacking)} are known"
    return f"none has {' and '.join(_NEEDED[key] for key in needs)} at once"


def summed(points: pa.Table, *, phases: bool = True) -> list[dict[str, Any]]:
    """Points with ranks (and, if not `phases`, phases) summed, the most time first; times in ms."""
    return sorted(_summed(points.to_pylist(), phases), key=lambda row: -row["ms"])


def _summed(rows: Iterable[Row], phases: bool) -> Iterable[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        name = row["name"] if "name" in row else row["layer"]
        key = (name, row["phase"] if phases else None, row["dtype"] if phases else None)
        groups.setdefault(key, []).append(row)
    for (name, phase, dtype), group in groups.items():
        yield _point(name, phase, dtype, group)


def _point(name: str | None, phase: str | None, dtype: str | None, group: Sequence[Row]) -> dict[str, Any]:
    sums = {column: _total(row[column] for row in group) for column in _SUMS}
    seconds = (sums["device_ns"] or 0) / 1e9
    with_flops = sum(row["device_ns"] or 0 for row in group if row["flops"] is not None) / 1e9
    achieved = _over(sums["flops"], with_flops)
    attainable = _attainable(group)
    longest = max(group, key=lambda row: row["device_ns"] or 0)
    return {
        "name": name or "no layer",
        "label": short(name),
        "phase": phase or "all" if phase is None and len(group) > 1 else phase or "not known",
        "dtype": dtype or longest["dtype"],
        "bound": _bound(group),
        "ms": seconds * 1e3,
        "calls": sums["calls"],
        "flops": sums["flops"],
        "bytes": sums["bytes"],
        "wire_bytes": sums["wire_bytes"],
        "intensity_memory": _over(sums["flops"], sums["bytes"]),
        "intensity_communication": _over(sums["flops"], sums["wire_bytes"]),
        "bytes_per_wire_byte": _over(sums["bytes"], sums["wire_bytes"]),
        "achieved_flops_per_s": achieved,
        "attainable_flops_per_s": attainable,
        "efficiency": _share(achieved, attainable),
        "coverage": _mean((row["coverage"], row["device_ns"]) for row in group),
    }


def _total(values: Iterable[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _over(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _share(achieved: float | None, attainable: float | None) -> float | None:
    """Achieved over attainable; None where it would pass one: the roofs are too low then."""
    share = _over(achieved, attainable)
    return share if share is not None and share <= 1 else None


def _attainable(group: Sequence[Row]) -> float | None:
    """FLOP over the time that the roofs allow them, which adds up where rates do not."""
    known = [row for row in group if row["flops"] and positive(row["attainable_flops_per_s"])]
    allowed = sum(row["flops"] / row["attainable_flops_per_s"] for row in known)
    return _over(sum(row["flops"] for row in known), allowed)


def _bound(group: Iterable[Row]) -> str:
    """The bound of most of the time."""
    times: dict[str, float] = {}
    for row in group:
        bound = row["bound"] or "not known"
        times[bound] = times.get(bound, 0) + (row["device_ns"] or 0)
    return max(times, key=lambda b: times[b])


def _mean(pairs: Iterable[tuple[float | None, float | None]]) -> float | None:
    """Mean weighted by time."""
    known = [(value, weight or 0) for value, weight in pairs if value is not None]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None
