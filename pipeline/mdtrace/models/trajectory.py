"""Roofline trajectories: how performance and intensity move as a knob is turned.

Points (I, Π) per device in the order of a knob (GPUs, batch, problem size, …), under the roofs of a device.
Between two of them, with L the log of the knob's ratio, P the performance of all devices, β = P/I:
`e_P = ln(P1/P0)/L`, `e_I = ln(I1/I0)/L`, `e_B = ln(β1/β0)/L`, so `e_P = e_I + e_B`. With one device in
every point P is that device's. Steps of one run are no knob that work follows: for them L is 1, and the
exponents are logs of ratios.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

_NEAR = 0.05  # an exponent this close to a value counts as it
_AT_ROOF = 0.95  # of a roof: saturated


@dataclass(frozen=True)
class Point:
    """One run, or one step. None: not known.

    Attributes:
        label: what the point is called.
        knob: value of the knob, positive.
        flops_per_s: performance of a device.
        intensity: FLOP per byte of device memory.
        intensity_communication: FLOP per byte on the wire; None also where nothing is on the wire.
        devices: devices that work like this together.
        peak_flops_per_s, memory_bytes_per_s, bus_bytes_per_s: roofs of a device.
    """

    label: str
    knob: float
    flops_per_s: float | None
    intensity: float | None
    intensity_communication: float | None = None
    devices: int = 1
    peak_flops_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    bus_bytes_per_s: float | None = None

    @property
    def bytes_per_s(self) -> float | None:
        """Memory traffic of a device, β = Π/I."""
        return self.flops_per_s / self.intensity if self.flops_per_s and self.intensity else None

    @property
    def wire_bytes_per_s(self) -> float | None:
        """Traffic of a device on the wire."""
        if not self.flops_per_s or not self.intensity_communication:
            return None
        return self.flops_per_s / self.intensity_communication


@dataclass(frozen=True)
class Segment:
    """What happens between two points.

    Attributes:
        start, end: indexes of the points.
        e_performance, e_intensity, e_bandwidth, e_communication: exponents of P, I, P/I and of the
            communication intensity; None: a value is not known, or the knob did not change.
        reading: the segment in words.
    """

    start: int
    end: int
    e_performance: float | None
    e_intensity: float | None
    e_bandwidth: float | None
    e_communication: float | None
    reading: str


@dataclass(frozen=True)
class Trajectory:
    """Points in the order of the knob, and the segments between them.

    Attributes:
        knob: what the knob is.
        of: what the trajectory is of: the job, or a layer and phase.
        last_point: the roof that the last point is at, in words.
        advice: from where on turning the knob gains less than half of what it could; None: nowhere, or steps.
    """

    knob: str
    of: str
    points: tuple[Point, ...]
    segments: tuple[Segment, ...]
    last_point: str
    advice: str | None


def trajectory(
    points: Sequence[Point], knob: str = "knob", of: str = "job", *, in_time: bool = False
) -> Trajectory:
    """Order points by the knob and read what happens between them.

    Args:
        in_time: the points are steps of one run, one after the other.

    Raises:
        ValueError: a knob is not positive.
    """
    if not in_time and any(p.knob <= 0 for p in points):
        raise ValueError("a knob's values are positive")
    ordered = tuple(sorted(points, key=lambda p: p.knob))
    segments = tuple(
        _segment(i, ordered[i], ordered[i + 1], in_time=in_time) for i in range(len(ordered) - 1)
    )
    last = _last_point(ordered[-1]) if ordered else "no points"
    return Trajectory(knob, of, ordered, segments, last, None if in_time else _advice(ordered, segments))


def _segment(index: int, first: Point, last: Point, *, in_time: bool) -> Segment:
    length = 1.0 if in_time else log(last.knob / first.knob)
    performance = _exponent(_group(first, first.flops_per_s), _group(last, last.flops_per_s), length)
    intensity = _exponent(first.intensity, last.intensity, length)
    words = reading_in_time if in_time else reading
    return Segment(
        index,
        index + 1,
        performance,
        intensity,
        _exponent(_group(first, first.bytes_per_s), _group(last, last.bytes_per_s), length),
        _exponent(first.intensity_communication, last.intensity_communication, length),
        words(performance, intensity, last),
    )


def _group(point: Point, rate: float | None) -> float | None:
    return None if rate is None else rate * point.devices


def _exponent(first: float | None, last: float | None, length: float) -> float | None:
    if not first or not last or not length:
        return None
    return log(last / first) / length


def reading(performance: float | None, intensity: float | None, last: Point) -> str:
    """A segment in words.

    Args:
        performance, intensity: its exponents e_P and e_I.
        last: the point it leads to: at a roof the words name it.
    """
    if performance is None:
        return "not known: FLOP or time is missing, or the knob did not change"
    at = saturated(last)
    if performance < -_NEAR:
        return "down: overhead or contention wins, stop scaling here"
    if intensity is None:
        return f"{_gain(performance)}; intensity not known"
    if at == "compute" and intensity > _NEAR:
        return "right along the top: compute-bound"
    if at == "bandwidth" and intensity > _NEAR and abs(performance - intensity) <= _NEAR:
        return "along the diagonal: bandwidth-bound, only intensity helps"
    return _direction(performance, intensity) + (f"; {at} saturated" if at else "")


def _direction(performance: float, intensity: float) -> str:
    if intensity < -_NEAR:
        return f"up-left, {_gain(performance)}: locality lost, more bytes per FLOP"
    if intensity > _NEAR:
        return f"up-right, {_gain(performance)}: locality gained"
    if performance >= 1 - _NEAR:
        return "straight up: ideal scaling, locality kept"
    return f"up, {_gain(performance)}: contention, imbalance or a serial part"


def _gain(performance: float) -> str:
    if performance >= 1 - _NEAR:
        return "full gain"
    return f"{100 * performance:.0f} % of the ideal gain" if performance > _NEAR else "no gain"


def reading_in_time(performance: float | None, intensity: float | None, last: Point) -> str:
    """What changed from one step to the next, in words."""
    if performance is None:
        return "not known: FLOP or time is missing"
    words = "steady" if abs(performance) <= _NEAR else "faster" if performance > 0 else "slower"
    if intensity is not None and abs(intensity) > _NEAR:
        words += ", locality gained" if intensity > 0 else ", locality lost: more bytes per FLOP"
    elif intensity is not None and words != "steady":
        words += " at the same intensity"
    at = saturated(last)
    return words + (f"; {at} saturated" if at else "")


def saturated(point: Point) -> str | None:
    """The roof that a point is at: compute, bandwidth or network; None: none of them, or none is known."""
    for roof, rate, limit in (
        ("compute", point.flops_per_s, point.peak_flops_per_s),
        ("bandwidth", point.bytes_per_s, point.memory_bytes_per_s),
        ("network", point.wire_bytes_per_s, point.bus_bytes_per_s),
    ):
        if rate and limit and rate >= _AT_ROOF * limit:
            return roof
    return None


def _advice(points: Sequence[Point], segments: Sequence[Segment]) -> str | None:
    poor = next((s for s in segments if s.e_performance is not None and s.e_performance < 0.5), None)
    return f"less than half of the ideal gain from {points[poor.start].knob:g} on" if poor else None


def _last_point(point: Point) -> str:
    at = saturated(point)
    if at == "bandwidth":
        return f"bandwidth saturated: {_giga(point.bytes_per_s)} GB/s of {_giga(point.memory_bytes_per_s)}"
    if at == "compute":
        return f"compute saturated: {_giga(point.flops_per_s)} GFLOP/s of {_giga(point.peak_flops_per_s)}"
    if at == "network":
        return f"network saturated: {_giga(point.wire_bytes_per_s)} GB/s of {_giga(point.bus_bytes_per_s)}"
    if point.flops_per_s is None:
        return "performance not known"
    return "no roof reached"


def _giga(value: float | None) -> str:
    return f"{(value or 0.0) / 1e9:.4g}"
