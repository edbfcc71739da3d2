"""Events of the host → columns of host_ops, launches and counters."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.kineto.columns import (
    first_given,
    floats,
    integers,
    json_text,
    names,
    number_lists,
    small,
    thread_ids,
    unsigned,
)
from mdtrace.ingest.kineto.events import HostArgs, LaunchArgs, MemoryArgs

Columns = dict[str, Any]

_CPU = 0  # c10::DeviceType, as memory marks write it


def host_ops(events: Sequence[Any], kinds: pa.DictionaryArray, args: Sequence[HostArgs]) -> Columns:
    """Columns of host_ops but for the times.

    The profiler's own overhead (buffer requests, flushes) may cross operators: its form is async.
    """
    return {
        "thread_id": thread_ids([e.tid for e in events]),
        "kind": kinds,
        "form": _forms(kinds),
        "name": names([e.name for e in events]),
        "sequence": unsigned([a.sequence for a in args]),
        "forward_thread_id": _forward_threads(args),
        "input_dims": _dims(args),
        "input_types": json_text([a.input_types for a in args]),
        "input_strides": number_lists([a.input_strides for a in args]),
        "concrete_inputs": json_text([a.concrete_inputs for a in args]),
        "external_id": _external_ids(args),
        "event_index": integers(
            first_given([a.event_index for a in args], [a.python_id for a in args]),
        ),
        "python_module_id": integers([a.python_module for a in args]),
    }


def _forms(kinds: pa.DictionaryArray) -> pa.Array:
    forms = ["async" if kind == "overhead" else "nested" for kind in kinds.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(kinds.indices, pa.array(forms))


def _dims(args: Sequence[HostArgs]) -> pa.Array:
    dims = number_lists([a.input_dims for a in args])
    if dims.null_count == 0:
        return dims
    old = number_lists([a.old_input_dims for a in args])
    return dims if old.null_count == len(old) else pc.coalesce(dims, old)


def _external_ids(args: Sequence[HostArgs] | Sequence[LaunchArgs]) -> pa.Array:
    return integers(first_given([a.external_id for a in args], [a.old_external_id for a in args]))


def _forward_threads(args: Sequence[HostArgs]) -> pa.Array:
    """Autograd numbers threads from 1; 0 stands on forward operators and means none."""
    return integers([a.forward_thread or None for a in args])


def launches(events: Sequence[Any], apis: pa.Array, args: Sequence[LaunchArgs]) -> Columns:
    """Columns of launches but for the times."""
    return {
        "thread_id": thread_ids([e.tid for e in events]),
        "api": apis,
        "name": names([e.name for e in events]),
        "correlation": integers([a.correlation for a in args]),
        "external_id": _external_ids(args),
    }


def memory_marks(events: Sequence[Any], args: Sequence[MemoryArgs]) -> Columns:
    """Columns of counters but for the time: bytes allocated (freed: negative) and the totals after it."""
    devices = [None if a.device_type == _CPU else a.device for a in args]
    return {
        "device_id": unsigned(devices, small),
        "thread_id": thread_ids([e.tid for e in events]),
        "kind": pa.repeat("memory", len(events)),
        "name": names([e.name for e in events]),
        "value": floats([a.bytes for a in args]),
        "unit": pa.repeat("byte", len(events)),
        "address": integers([a.address for a in args]),
        "allocated_bytes": integers([a.allocated for a in args]),
        "reserved_bytes": integers([a.reserved for a in args]),
    }
