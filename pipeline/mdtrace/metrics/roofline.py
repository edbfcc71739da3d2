"""Three-roof roofline (MD-Roofline) as plain functions, and a dataset's figures as rows.

Per layer, rank or job: F FLOP, B bytes of device memory, C bytes on the wire (k times the payload, so that
the roof of the links is a bus bandwidth; payload with algorithm bandwidth is the other consistent choice, the
two are never mixed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mdtrace.metrics.engine import Filters, run
from mdtrace.tables.dataset import Dataset

Bound = Literal["compute", "memory", "communication", "balanced", "latency", "straggler"]
PointsBy = Literal["layer", "operator", "kernel"]

_BALANCED = 0.95
_LATENCY = 0.5


@dataclass(frozen=True)
class RooflinePoint:
    """Figures of one piece of work under three roofs; None: not known.

    Attributes:
        intensity_memory, intensity_communication: F/B and F/C, FLOP/byte; None for 0 bytes too.
        compute_s, memory_s, communication_s: times at the roofs.
        overlap, serial, attainable: FLOP/s with all communication hidden, with none, with a share phi of it.
        bound: what takes longest; None: no time is known.
    """

    intensity_memory: float | None
    intensity_communication: float | None
    compute_s: float | None
    memory_s: float | None
    communication_s: float | None
    overlap: float | None
    serial: float | None
    attainable: float | None
    bound: Bound | None


def md_roofline(
    flops: float | None,
    memory_bytes: float | None,
    wire_bytes: float | None,
    peak: float | None,
    memory: float | None,
    bus: float | None,
    phi: float | None = None,
) -> RooflinePoint:
    """Place work under three roofs.

    `overlap = F/max(F/P, B/β_m, C/β_c)`, `serial = F/(max(F/P, B/β_m) + C/β_c)`,
    `attainable = F/(max(F/P, B/β_m) + (1 − φ)·C/β_c)`.

    Args:
        flops, memory_bytes, wire_bytes: F, B and C; None: not known, and left out of the maximum.
        peak: FLOP/s.
        memory, bus: byte/s.
        phi: share of the communication that compute hides; None counts as 0.
    """
    times = (_over(flops, peak), _over(memory_bytes, memory), _over(wire_bytes, bus))
    device = max((t for t in times[:2] if t is not None), default=None)
    wire = times[2] or 0.0
    longest = max((t for t in times if t is not None), default=None)
    return RooflinePoint(
        _over(flops, memory_bytes),
        _over(flops, wire_bytes),
        *times,
        overlap=_over(flops, longest),
        serial=_over(flops, None if device is None else device + wire),
        attainable=_over(flops, None if device is None else device + (1 - (phi or 0.0)) * wire),
        bound=bound(*times),
    )


def _over(amount: float | None, rate: float | None) -> float | None:
    return None if amount is None or not rate else amount / rate


def bound(
    compute_s: float | None,
    memory_s: float | None,
    communication_s: float | None,
    measured_s: float | None = None,
    wait_s: float | None = None,
    transfer_s: float | None = None,
) -> Bound | None:
    """What bounds work with these times at the roofs.

    The longest time; `balanced` where the two longest are within 5 %. With a measured time: `latency` where
    no time at a roof is half of it, and `straggler` where waiting for other ranks took longer than the
    transfers and communication is the longest, or no roof explains the time.
    """
    times: dict[Bound, float] = {
        "compute": compute_s or 0.0, "memory": memory_s or 0.0, "communication": communication_s or 0.0,
    }  # fmt: skip
    second, longest = sorted(times.values())[1:]
    if longest <= 0:
        return None
    unexplained = measured_s is not None and longest < _LATENCY * measured_s
    waits = wait_s is not None and transfer_s is not None and wait_s > transfer_s
    if waits and (unexplained or longest == times["communication"]):
        return "straggler"
    if unexplained:
        return "latency"
    if second >= _BALANCED * longest:
        return "balanced"
    return max(times, key=lambda name: times[name])


def ridge_points(
    peak: float | None, memory: float | None, bus: float | None
) -> tuple[float | None, float | None]:
    """Memory and communication ridge points, FLOP/byte: above them the work is compute-bound."""
    return _over(peak, memory), _over(peak, bus)


def bus_roof(payload_bytes: float, k: float, alpha_s: float, beta_bytes_per_s: float) -> float:
    """Bus bandwidth that collectives of a size can reach, byte/s: `k·S / (α + k·S/β_∞)`.

    Args:
        k: bytes on the wire over payload: 2(n−1)/n of an all-reduce.
        alpha_s: time of an empty message.
        beta_bytes_per_s: bus bandwidth of an endless one.
    """
    return k * payload_bytes / (alpha_s + k * payload_bytes / beta_bytes_per_s)


@dataclass(frozen=True)
class Roofline:
    """What a roofline plot shows.

    Attributes:
        points: rows of `roofline_points`: intensities, achieved and attainable FLOP/s, time, bound.
        roofs: rows of `hardware_roofs`.
        job: the row of `job_roofline`; None where nothing was accounted.
    """

    points: Sequence[dict[str, Any]]
    roofs: Sequence[dict[str, Any]]
    job: dict[str, Any] | None


def roofline(
    dataset: Dataset,
    by: PointsBy = "layer",
    hardware: str | None = None,
    ranks: tuple[int, ...] | None = None,
    steps: tuple[int, ...] | None = None,
) -> Roofline:
    """A dataset's points and the roofs over them.

    Args:
        hardware: an entry of the hardware table, a TOML file, `empirical`; None: by the names of the devices.

    Raises:
        UsageError, InputError: no such hardware.
    """
    both = Filters(ranks=ranks, steps=steps)
    of_ranks = Filters(ranks=ranks)
    job = rows(dataset, "job_roofline", both, hardware)
    return Roofline(
        run(dataset, "roofline_points", both, points_by=by, hardware=hardware).table.to_pylist(),
        rows(dataset, "hardware_roofs", of_ranks, hardware),
        job[0] if job else None,
    )


def rows(
    dataset: Dataset, metric: str, wanted: Filters, hardware: str | None, **parameters: object
) -> list[dict[str, Any]]:
    """Rows of a metric under the roofs of some hardware."""
    found: list[dict[str, Any]] = run(
        dataset, metric, wanted, hardware=hardware, **parameters
    ).table.to_pylist()
    return found


def roofs_in_words(roofs: Sequence[dict[str, Any]], dtype: str | None) -> str:
    """One line on the roofs that figures stand under: device, peak of an element type, memory, links."""
    first = {(r["roof"], r["unit"], r["dtype"]): r for r in reversed(roofs)}
    parts = [
        _roof(f"{dtype} peak", first.get(("compute", "matrix", dtype)), 1e12, "TFLOP/s"),
        _roof("memory", first.get(("memory", None, None)), 1e9, "GB/s"),
        _roof("links", first.get(("bus", None, None)), 1e9, "GB/s"),
    ]
    device = next((r["device"] or r["hardware"] for r in roofs if r["device"] or r["hardware"]), None)
    doubts = "; ".join(sorted({r["doubt"] for r in roofs if r["doubt"]}))
    text = ", ".join(p for p in parts if p) or "none known"
    return f"roofs{f' of {device}' if device else ''}: {text}" + (f". {doubts}" if doubts else "")


def _roof(what: str, row: dict[str, Any] | None, scale: float, unit: str) -> str | None:
    return None if row is None else f"{what} {row['per_s'] / scale:.4g} {unit} ({row['origin']})"
