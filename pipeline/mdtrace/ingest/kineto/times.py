"""Decimal microseconds → int64 nanoseconds, exactly.

A double holds microseconds to the nanosecond up to 2^43 (100 days), which is enough for times that count
from the trace's base. It cannot hold epoch microseconds: there the digits themselves are read, a batch at
a time by removing the decimal points, whatever is written oddly one by one.
"""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Raw
from numpy.typing import NDArray

# Sums of a base, a time and a duration each within it stay inside int64; as an epoch it is the year 2065.
LIMIT_NS = 3 * 10**18
# Absolute times after 2001 (1e18 ns): no uptime gets there, so they count from the epoch.
EPOCH_NS = 10**18

_DOUBLE = 2.0**43  # microseconds: the spacing of doubles below it is less than a nanosecond

_NUMBER = re.compile(rb"([+-]?)(\d{1,300})(?:\.(\d{0,300})\d*+)?(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
_PLAIN = b"0123456789.-\n"


class InexactTimesError(Exception):
    """Doubles do not tell these times to the nanosecond."""


def exact_doubles(numbers: Sequence[float | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds as decoded doubles → whole nanoseconds, where that gives what `nanoseconds` does.

    The whole part of a double is exact; the fraction is off by at most half the spacing of doubles there,
    less than half a nanosecond. Further off, the text had digits below the nanosecond.

    Returns:
        The nanoseconds, and where they are known: not where the number is None (there the value is 0).

    Raises:
        InexactTimesError: a number is too large, or has digits below the nanosecond.
    """
    values = np.array(numbers, np.float64)
    known = ~np.isnan(values)
    if not known.all():
        values[~known] = 0.0
    whole = np.floor(values)
    nanos = (values - whole) * 1000
    fraction = np.rint(nanos)
    np.abs(values, out=values)
    if len(values) and values.max() >= _DOUBLE:
        raise InexactTimesError
    if (np.abs(nanos - fraction) > np.spacing(values) * 500 + 1e-9).any():
        raise InexactTimesError
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64), known


def nanoseconds(numbers: Sequence[Raw | bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds as JSON text (numbers, or strings of one) → whole nanoseconds.

    Digits below the nanosecond are rounded to the nearest, halves up.

    Returns:
        The nanoseconds, and where they are known: not where the text is empty, no finite number, or
        beyond `LIMIT_NS` (there the value is 0).
    """
    text = b"\n".join(numbers) + b"\n"
    codes = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(codes == 10)
    if len(ends) != len(numbers) or text.translate(None, _PLAIN):
        return _one_by_one(numbers)
    dots = np.flatnonzero(codes == 46)
    order = np.arange(len(ends))
    if len(dots) == len(ends) and (ends - dots == 4).all():  # as the profiler writes them
        digits = _integers(text, ends - 2 * order - 1)
        return _one_by_one(numbers) if digits is None else (digits, np.abs(digits) <= LIMIT_NS)
    decimals = _decimals(ends, dots)
    if decimals is None:
        return _one_by_one(numbers)
    odd = (decimals > 3) | (np.diff(ends, prepend=-1) == 1)
    if odd.any():
        return _some_by_one(numbers, odd)
    digits = _integers(text, ends - order - np.searchsorted(dots, ends))
    return _one_by_one(numbers) if digits is None else _scaled(digits, decimals)


def _decimals(ends: NDArray[np.int64], dots: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Digits after the point of each number; None if one has two points."""
    decimals = np.zeros(len(ends), np.int64)
    owners = np.searchsorted(ends, dots)
    if (np.diff(owners) == 0).any():
        return None
    decimals[owners] = ends[owners] - dots - 1
    return decimals


def _integers(text: bytes, ends: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The numbers in text without their points, given where each ends once points and separators are
    gone; None if one is no int64."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.translate(None, b".\n"))]
    try:
        array = pa.Array.from_buffers(pa.string(), len(ends), buffers).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    values: NDArray[np.int64] = array.to_numpy(zero_copy_only=False)
    return values


def _scaled(
    digits: NDArray[np.int64], decimals: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    scale = 10 ** (3 - decimals)
    known = np.abs(digits) <= LIMIT_NS // scale
    return np.where(known, digits * scale, 0), known


def _some_by_one(
    numbers: Sequence[Raw | bytes], odd: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    values, known = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
    for rows, convert in ((np.flatnonzero(odd), _one_by_one), (np.flatnonzero(~odd), nanoseconds)):
        if len(rows):
            values[rows], known[rows] = convert([numbers[i] for i in rows.tolist()])
    return values, known


def _one_by_one(numbers: Sequence[Raw | bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    exact = [exact_nanoseconds(bytes(n)) for n in numbers]
    known = np.array([e is not None for e in exact], np.bool_)
    return np.array([e or 0 for e in exact], np.int64), known


def exact_nanoseconds(text: bytes) -> int | None:
    """One number of microseconds, as JSON number or string → nanoseconds, or None; see `nanoseconds`."""
    match = _NUMBER.fullmatch(text.strip(b'" \t\r\n'))
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups()
    digits = int(whole + (fraction or b""))
    power = 3 - len(fraction or b"") + int(exponent or 0)
    value = -digits if sign == b"-" else digits
    nanos = value * 10**power if power >= 0 else (2 * value + 10**-power) // (2 * 10**-power)
    return nanos if abs(nanos) <= LIMIT_NS else None
