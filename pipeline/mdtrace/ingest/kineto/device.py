"""Events of the devices → columns of device_ops."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.classify import device_class
from mdtrace.ingest.kineto.columns import (
    first_given,
    floats,
    integers,
    names,
    small,
    stream_id,
    triples,
    unsigned,
)
from mdtrace.ingest.kineto.events import DeviceArgs

# How producers name the direction of a copy, in the name or in args.kind.
_COPY = re.compile(
    r"\b(HtoD|DtoH|DtoD|HtoH|PtoP|HtoA|AtoH|AtoA|AtoD|DtoA)\b"
    r"|\b([HDMS])2([HDMS])\b"
    r"|Copy(Host|Device)To(Host|Device)"
    r"|\b(Peer|Unified)\b"
)
_PLACE = {"H": "H", "S": "H", "D": "D", "M": "D", "Host": "H", "Device": "D"}


def device_ops(events: Sequence[Any], kinds: pa.Array, args: Sequence[DeviceArgs]) -> dict[str, Any]:
    """Columns of device_ops but for the times."""
    labels = names([e.name for e in events])
    grid = triples([a.grid for a in args])
    block = triples([a.block for a in args])
    return {
        "device_id": _devices(events, args),
        "context_id": unsigned(first_given([a.context for a in args], [a.in_context for a in args])),
        "stream_id": _streams(events, args),
        "kind": kinds,
        "class": _classes(kinds, labels),
        "name": labels,
        "correlation": integers([a.correlation for a in args]),
        "external_id": integers(
            first_given([a.external_id for a in args], [a.old_external_id for a in args])
        ),
        "bytes": unsigned([a.bytes for a in args]),
        "copy_kind": _copies(kinds, events, args),
        **{f"grid_{axis}": values for axis, values in zip("xyz", grid, strict=True)},
        **{f"block_{axis}": values for axis, values in zip("xyz", block, strict=True)},
        "registers_per_thread": small([a.registers for a in args]),
        "shared_memory_bytes": unsigned([a.shared_memory for a in args]),
        "occupancy_percent": floats([a.occupancy for a in args]),
        "graph_id": integers([a.graph_id or None for a in args]),
        "graph_node_id": integers([a.graph_node_id or None for a in args]),
        "event_id": unsigned(first_given([a.event_id for a in args], [a.wait_event for a in args])),
        "wait_stream_id": unsigned([a.wait_stream for a in args]),
        "wait_correlation": unsigned([a.wait_correlation for a in args]),
    }


def _devices(events: Sequence[Any], args: Sequence[DeviceArgs]) -> pa.Array:
    """From args; a copy between devices by the one that makes it; else the event's pid, which is the
    device's ordinal for activities of devices."""
    given = first_given([a.device for a in args], [a.in_device for a in args])
    if None in given:
        given = first_given(given, [stream_id(e.pid) for e in events])
    return unsigned(given, small)


def _streams(events: Sequence[Any], args: Sequence[DeviceArgs]) -> pa.Array:
    """From args, else from the row's label. Waits for a whole context or device have none: the producer
    writes -1, older ones as an unsigned number."""
    given = [a.stream for a in args]
    if None in given:
        given = [
            stream_id(e.tid) if stream is None else stream for stream, e in zip(given, events, strict=True)
        ]
    streams = unsigned(given)
    none = pc.equal(streams, 2**32 - 1)
    return pc.if_else(none, pa.scalar(None, pa.int64()), streams) if pc.any(none).as_py() else streams


def _classes(kinds: pa.DictionaryArray, labels: pa.Array) -> pa.Array:
    """Of each distinct name of a kernel, and of each other kind, worked out once."""
    named = labels.dictionary_encode()
    found = [device_class("kernel", name) for name in (*named.dictionary.to_pylist(), None)]
    kernels = named.indices.fill_null(len(found) - 1).to_numpy().astype(np.int64)
    codes = kinds.indices.to_numpy()
    for code in np.unique(codes).tolist():
        kind = kinds.dictionary[code].as_py()
        if kind != "kernel":
            kernels[codes == code] = len(found)
            found.append(device_class(kind, None))
    return pa.DictionaryArray.from_arrays(pa.array(kernels), pa.array(found, pa.string()))


def _copies(kinds: pa.Array, events: Sequence[Any], args: Sequence[DeviceArgs]) -> pa.Array:
    found: list[str | None] = [None] * len(events)
    for i in pc.indices_nonzero(pc.equal(kinds, "memcpy")).to_pylist():
        found[i] = copy_kind(events[i].name, args[i].kind)
    return pa.array(found, pa.string())


def copy_kind(name: Any, kind: Any) -> str | None:
    """Direction of a copy, as the `copy_kind` column spells it, from its name or its `kind` argument."""
    for text in (name, kind):
        if isinstance(text, str) and (found := _direction(text)):
            return found
    return None


@lru_cache(maxsize=4096)
def _direction(text: str) -> str | None:
    match = _COPY.search(text)
    if match is None:
        return None
    cuda, source, target, rocm_source, rocm_target, word = match.groups()
    if cuda or word:
        return cuda or ("PtoP" if word == "Peer" else "unified")
    return f"{_PLACE[source or rocm_source]}to{_PLACE[target or rocm_target]}"
