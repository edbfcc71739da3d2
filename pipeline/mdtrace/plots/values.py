"""Rows as charts take them: inline data with short numbers, and the quantities that log axes can show."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt

Row = Mapping[str, Any]
Width = int | Literal["container"]

_FEW = 3  # lines on an axis


@dataclass(frozen=True)
class Size:
    """Of a chart, in pixels. `container`: as wide as the page gives."""

    width: Width = 860
    height: int = 420

    @property
    def pixels(self) -> int:
        """The width, about 900 where the page decides."""
        return 900 if isinstance(self.width, str) else self.width


def data(rows: Iterable[Row]) -> alt.InlineData:
    """Rows inside the chart, numbers to 6 digits."""
    return alt.InlineData(values=[{k: _brief(v) for k, v in row.items() if v is not None} for row in rows])


def _brief(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def positive(value: Any) -> bool:
    """Whether a log axis has a place for it."""
    return value is not None and math.isfinite(value) and value > 0


def si(value: float, unit: str) -> str:
    """A quantity with a decimal prefix: 1.3e15, FLOP/s → 1.3 PFLOP/s."""
    for prefix, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def log_scale(values: Iterable[float], margin: float = 2.0, **more: Any) -> alt.Scale:
    """A log scale over positive values and a margin on both sides."""
    found = list(values) or [1.0]
    low, high = min(found) / margin, max(found) * margin
    high *= (high / low) ** 0.05  # room for the names of what is highest
    return alt.Scale(type="log", domain=[_brief(low), _brief(high)], nice=False, **more)


def log_axis(scale: alt.Scale) -> alt.Axis:
    """An axis with a line at each power of ten, and between them where there are few; within a small range,
    at round numbers."""
    low, high = scale.domain
    steps = (1,) if decades(scale) > 3 else (1, 3) if decades(scale) > 1.5 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high]
    if len(values) < _FEW:
        power = 10.0 ** math.floor(math.log10((high - low) / _FEW))
        step = power * next(s for s in (1, 2, 5, 10) if (high - low) / (s * power) <= 2 * _FEW)
        values = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return alt.Axis(labelExpr=_TICK, values=values[:: 1 + len(values) // 16])


# Decimal prefixes above one; below, decimals or powers: 100m is easily read as a hundred million.
_TICK = "format(datum.value, datum.value >= 1 ? '~s' : datum.value > 9e-5 ? '~r' : '~e')"


def decades(scale: alt.Scale) -> float:
    """How many powers of ten a log scale spans."""
    low, high = scale.domain
    return math.log10(high / low)


def place(value: float, scale: alt.Scale, length: float) -> float:
    """Where a value lies on a log axis of so many pixels, from its low end."""
    low, _ = scale.domain
    return length * math.log10(value / low) / decades(scale)
