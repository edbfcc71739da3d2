"""Arrow columns into shape: types as declared, nothing that a file holds can raise here."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.source import NO_PROCESS, Ints

_INT32 = (-(1 << 31), (1 << 31) - 1)
_UNSET = ((1 << 32) - 1, (1 << 64) - 1, -1)  # how CUPTI writes "no stream", "no event"
_TIME_LIMIT = 1 << 61  # 73 years in ns: base and time stay inside int64


def within(array: pa.Array | None, low: int, high: int) -> pa.Array | None:
    """Integers of a range; those outside become NULL."""
    if array is None or len(array) == array.null_count:
        return array
    bounds = pc.min_max(array).as_py()
    if low <= bounds["min"] and bounds["max"] <= high:
        return array
    fits = pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))
    return pc.if_else(fits, array, pa.scalar(None, array.type))


def int32(array: pa.Array | None) -> pa.Array | None:
    """Integers that fit 32 bits; others become NULL."""
    return within(array, *_INT32)


def number(array: pa.Array | None) -> pa.Array | None:
    """An id or ordinal: CUPTI's marks for "none" become NULL."""
    if array is None or len(array) == array.null_count:
        return array
    bounds = pc.min_max(array).as_py()
    if bounds["min"] >= 0 and bounds["max"] < _UNSET[0]:
        return array
    unset = pc.is_in(array, pa.array([u for u in _UNSET if u < 1 << 63], array.type))
    return pc.if_else(unset, pa.scalar(None, array.type), array)


def ints(array: pa.Array | None, length: int, missing: int) -> Ints:
    """As numpy, NULL and absent columns as `missing`."""
    if array is None:
        return np.full(length, missing, np.int64)
    filled = array.fill_null(missing) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def process_keys(global_id: pa.Array | None, length: int) -> Ints:
    """Stage key of each row: the global process id (host and pid), NO_PROCESS where NULL."""
    if global_id is None:
        return np.full(length, NO_PROCESS, np.int64)
    keys = ints(global_id, length, 0) >> 24
    if global_id.null_count:
        keys[np.asarray(global_id.is_null())] = NO_PROCESS
    return keys


def thread_ids(global_tid: pa.Array | None) -> pa.Array | None:
    """The operating system's thread ids within global ones."""
    return None if global_tid is None else pc.bit_wise_and(global_tid, 0xFFFFFF)


def usable_times(array: pa.Array | None, length: int) -> pa.Array:
    """Which rows have a start that is a time at all."""
    if array is None:
        return pa.array(np.zeros(length, bool))
    good = pc.and_(pc.greater(array, -_TIME_LIMIT), pc.less(array, _TIME_LIMIT))
    return good.fill_null(False)


def durations(start: pa.Array, end: pa.Array | None) -> tuple[pa.Array | None, int]:
    """end − start in ns, NULL where never closed or closed before it began; and how many of the latter."""
    if end is None:
        return None, 0
    dur = pc.subtract(end, start)
    if len(dur) == dur.null_count or pc.min(dur).as_py() >= 0:
        return dur, 0
    negative = pc.less(dur, 0)
    return pc.if_else(negative, pa.scalar(None, dur.type), dur), pc.sum(negative).as_py()


def by_value(array: pa.Array, text: Callable[[Any], str | None]) -> pa.Array:
    """A text for each distinct value (`text` is called once each), NULL for NULL."""
    encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    texts = pa.array([text(v) for v in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)


def constant(text: str, length: int) -> pa.Array:
    """A column of one text."""
    return pa.repeat(pa.scalar(text, pa.string()), length)
