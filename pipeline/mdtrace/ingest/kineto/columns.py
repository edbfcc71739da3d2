"""Lists of decoded values → Arrow arrays: fast where values are as declared, lenient where they are not."""

import re
import zlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

_INT64 = range(-(2**63), 2**63)
_INT32 = range(-(2**31), 2**31)
_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError)
# Thread ids made from text start here, above every id of an operating system.
TEXT_THREADS = 1 << 40


def as_int(value: Any) -> int | None:
    """A whole number written as number or text (decimal, or hexadecimal with 0x); None for anything else."""
    if isinstance(value, str):
        value = _parse(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _INT64 else None


def _parse(text: str) -> int | None:
    text = text.strip()
    if re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII):
        return int(text)
    return int(text, 16) if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text) else None


def integers(values: Sequence[Any]) -> pa.Array:
    """int64 array; what is no whole number becomes NULL."""
    try:
        return pa.array(values, pa.int64())
    except _REFUSED:
        return pa.array([as_int(v) for v in values], pa.int64())


def small(values: Sequence[Any]) -> pa.Array:
    """int32 array; what is no whole number of that size becomes NULL."""
    try:
        return pa.array(values, pa.int32())
    except _REFUSED:
        whole = (as_int(v) for v in values)
        return pa.array([v if v is not None and v in _INT32 else None for v in whole], pa.int32())


def unsigned(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array] = integers) -> pa.Array:
    """As `make`, with negative numbers as NULL: ids that the producer writes as -1 for "none"."""
    array = make(values)
    if (pc.min(array).as_py() or 0) >= 0:
        return array
    return pc.if_else(pc.less(array, 0), pa.scalar(None, array.type), array)


def floats(values: Sequence[Any]) -> pa.Array:
    """float64 array; what is no finite number becomes NULL."""
    try:
        array = pa.array(values, pa.float64())
    except _REFUSED:
        plain = [v if isinstance(v, int | float) and not isinstance(v, bool) else None for v in values]
        array = pa.array([None if v is None or abs(v) > 1e300 else float(v) for v in plain], pa.float64())
    return pc.if_else(pc.is_finite(array), array, pa.scalar(None, pa.float64()))


def first_given(values: Sequence[Any], otherwise: Sequence[Any]) -> Sequence[Any]:
    """Values, with those of another spelling of the key where there are none."""
    if otherwise.count(None) == len(otherwise):
        return values
    return [b if a is None else a for a, b in zip(values, otherwise, strict=True)]


def names(values: Sequence[Any]) -> pa.Array:
    """Text array; numbers as text, missing or of another type NULL."""
    try:
        return pa.array(values, pa.string())
    except (*_REFUSED, UnicodeEncodeError):
        return pa.array([_text(v) for v in values], pa.string())


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # lone surrogates
    return str(value) if isinstance(value, int | float) else None


def json_text(raws: Sequence[Raw]) -> pa.Array:
    """JSON values as text arrays, whitespace as in the file; missing and null are NULL."""
    return _texts(raws, bytes)


def number_lists(raws: Sequence[Raw]) -> pa.Array:
    """Lists of numbers as text arrays, a blank after each comma however the file is laid out."""
    return _texts(raws, _spaced)


def _spaced(numbers: bytes | Raw) -> bytes:
    text = bytes(numbers)
    codes = np.frombuffer(text, np.uint8)
    comma, space = codes == ord(","), codes == ord(" ")
    if (comma[:-1] == space[1:]).all() and not any(w in text for w in (b"\t", b"\r", b"\n")):
        return text.lstrip(b" ")  # a blank after each comma and nowhere else, as the profiler writes
    return text.translate(None, b" \t\r\n").replace(b",", b", ")


def _texts(raws: Sequence[Raw], clean: Callable[[bytes | Raw], bytes]) -> pa.Array:
    """Text array of the values, all cleaned at once; one by one where they hold a NUL byte or a null."""
    text = clean(b"\0".join(raws) + b"\0")
    if len(text) == len(raws):
        return pa.nulls(len(raws), pa.string())
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 0)
    if len(ends) != len(raws) or (b"n" in text and b"null" in text):
        return pa.array([_json(clean(r)) for r in raws], pa.string())
    offsets = np.zeros(len(raws) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    given = np.packbits(np.diff(offsets) > 0, bitorder="little")
    buffers = [pa.py_buffer(given), pa.py_buffer(offsets), pa.py_buffer(text.translate(None, b"\0"))]
    array = pa.Array.from_buffers(pa.binary(), len(raws), buffers)
    try:
        return array.cast(pa.string())  # checks that it is UTF-8
    except pa.ArrowInvalid:
        return pa.array([_json(clean(r)) for r in raws], pa.string())


def _json(raw: bytes) -> str | None:
    return None if raw in (b"", b"null") else raw.decode("utf-8", "replace")


def thread_ids(values: Sequence[Any]) -> pa.Array:
    """int64 array of thread ids; see `thread_id` for text."""
    try:
        return pa.array(values, pa.int64())
    except _REFUSED:
        return pa.array([thread_id(v) for v in values], pa.int64())


def thread_id(value: Any) -> int | None:
    """A thread's number: the first number in a text, else 2^40 + the CRC-32 of the text, which stays the
    same in every file. None for what is neither number nor text."""
    if isinstance(value, str) and value:
        digits = re.search(r"\d{1,18}", value, re.ASCII)
        return int(digits[0]) if digits else TEXT_THREADS + zlib.crc32(value.encode("utf-8", "replace"))
    return as_int(value)


def stream_id(value: Any) -> int | None:
    """A stream's number where its row's label is a number or holds one (`stream 7`)."""
    if isinstance(value, str):
        digits = re.findall(r"\d{1,18}", value, re.ASCII)
        return int(digits[-1]) if digits else None
    return as_int(value)


def triples(values: Sequence[Any]) -> list[pa.Array | None]:
    """Lists of three numbers (grid, block) → an int32 array for each of the three; None: all NULL."""
    given = [v for v in values if v.__class__ is list and len(v) == 3]
    if not given:
        return [None, None, None]
    flat = small(list(chain.from_iterable(given)))
    if len(given) == len(values):
        return [flat.take(pa.array(np.arange(i, len(flat), 3))) for i in range(3)]
    known = np.array([v.__class__ is list and len(v) == 3 for v in values])
    where = np.where(known, np.cumsum(known) * 3 - 3, 0)
    return [flat.take(pa.array(where + i, mask=~known)) for i in range(3)]
