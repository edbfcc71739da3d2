"""Tables of device activity → `device_ops`: kernels, copies, sets, synchronisation, graphs, event records."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.classify import device_class
from mdtrace.ingest.nsys.names import text_column
from mdtrace.ingest.nsys.sink import by_process
from mdtrace.ingest.nsys.source import Columns, Ints, Kind, column
from mdtrace.ingest.nsys.task import NO_TIME, Task, keys_of, select
from mdtrace.ingest.nsys.values import by_value, constant, int32, ints, number

_COMMON: dict[str, Kind] = {
    "start": "int", "end": "int", "globalPid": "int", "deviceId": "int", "contextId": "int",
    "streamId": "int", "correlationId": "int", "graphNodeId": "int", "graphId": "int",
}  # fmt: skip
_KERNEL: Columns = {
    **_COMMON, "demangledName": "name", "shortName": "name", "registersPerThread": "int",
    "gridX": "int", "gridY": "int", "gridZ": "int", "blockX": "int", "blockY": "int", "blockZ": "int",
    "staticSharedMemory": "int", "dynamicSharedMemory": "int", "gridId": "int",
}  # fmt: skip
_MEMCPY: Columns = {**_COMMON, "bytes": "int", "copyKind": "int", "srcKind": "int", "dstKind": "int"}
_MEMSET: Columns = {**_COMMON, "bytes": "int", "memKind": "int", "value": "int"}
_SYNC: Columns = {**_COMMON, "syncType": "int", "eventId": "int"}
_GRAPH: Columns = {**_COMMON, "graphExecId": "int"}
_EVENT: Columns = {**_COMMON, "timestamp": "int", "eventId": "int"}

# CUPTI's numbers, as the export's own ENUM_ tables list them in every version.
COPY_KINDS = (
    None, "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "unified", "unified", "unified",
)  # fmt: skip
_UNIFIED = {11: "HtoD", 12: "DtoH", 13: "DtoD"}
_MEMORY = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_SYNC_TYPES = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


def _columns(task: Task, batch: pa.RecordBatch, kind: str, time: str = "start") -> dict[str, Any]:
    """What all device activities have."""
    ordinals = int32(number(column(batch, "deviceId")))
    return {
        **task.times(batch, time),
        "kind": constant(kind, batch.num_rows),
        "device_id": ordinals,
        "context_id": number(column(batch, "contextId")),
        "stream_id": number(column(batch, "streamId")),
        "correlation": number(column(batch, "correlationId")),
        "graph_id": column(batch, "graphId"),
        "graph_node_id": column(batch, "graphNodeId"),
    }


def _store(task: Task, batch: pa.RecordBatch, columns: dict[str, Any]) -> None:
    keys = keys_of(batch, "globalPid")
    _note_devices(task, keys, columns["device_id"])
    task.store(keys, "device_ops", columns, batch)


def _note_devices(task: Task, keys: Ints, ordinals: pa.Array | None) -> None:
    if ordinals is None:
        return
    for key, rows in by_process(keys):
        mine = ordinals if rows is None else ordinals.take(pa.array(rows))
        seen = {o for o in pc.unique(mine).to_pylist() if o is not None and o >= 0}
        task.tally.devices.setdefault(key, set()).update(seen)


def kernels(task: Task) -> None:
    """CUPTI_ACTIVITY_KIND_KERNEL."""
    for batch in task.batches(_KERNEL):
        names = _kernel_names(task, batch)
        columns = {
            **_columns(task, batch, "kernel"),
            "name": text_column(names),
            "class": _kernel_classes(names),
            "registers_per_thread": int32(column(batch, "registersPerThread")),
            "shared_memory_bytes": _shared_memory(batch),
        }
        for axis in "XYZ":
            columns[f"grid_{axis.lower()}"] = int32(column(batch, f"grid{axis}"))
            columns[f"block_{axis.lower()}"] = int32(column(batch, f"block{axis}"))
        _store(task, batch, columns)


def _kernel_names(task: Task, batch: pa.RecordBatch) -> pa.DictionaryArray:
    """Demangled names; the short one where a demangled name is not in the file."""
    length = batch.num_rows
    names = task.names.of(column(batch, "demangledName"), length, count=False)
    if not names.null_count and not names.dictionary.null_count:
        return names
    short = task.names.of(column(batch, "shortName"), length, count=False)
    texts = pc.coalesce(text_column(names), text_column(short))
    task.tally.add("names_missing", texts.null_count)
    return texts.dictionary_encode()


def _kernel_classes(names: pa.DictionaryArray) -> pa.Array:
    return by_value(names, lambda n: device_class("kernel", n)).fill_null("compute")


def _shared_memory(batch: pa.RecordBatch) -> pa.Array | None:
    static, dynamic = column(batch, "staticSharedMemory"), column(batch, "dynamicSharedMemory")
    if static is None or dynamic is None:
        return static if dynamic is None else dynamic
    return pc.add(static, dynamic)


def copies(task: Task) -> None:
    """CUPTI_ACTIVITY_KIND_MEMCPY."""
    for batch in task.batches(_MEMCPY):
        length = batch.num_rows
        code = [ints(column(batch, c), length, 99) for c in ("copyKind", "srcKind", "dstKind")]
        packed = np.zeros(length, np.int64)
        for values in code:
            packed = packed * 100 + np.where((values >= 0) & (values < 99), values, 99)
        columns = {
            **_columns(task, batch, "memcpy"),
            "class": constant("memcpy", length),
            "bytes": column(batch, "bytes"),
            "name": by_value(pa.array(packed), _copy_name),
            "copy_kind": by_value(pa.array(packed), lambda p: _at(COPY_KINDS, p // 10_000)),
        }
        _store(task, batch, columns)


def _copy_name(packed: int) -> str:
    """In words as the PyTorch profiler puts it: `Memcpy HtoD (Pinned -> Device)`."""
    kind, source, target = packed // 10_000, packed // 100 % 100, packed % 100
    words = _UNIFIED.get(kind) or _at(COPY_KINDS, kind)
    name = "Memcpy" if words is None else f"Memcpy {words}"
    ends = (_at(_MEMORY, source), _at(_MEMORY, target))
    return f"{name} ({ends[0]} -> {ends[1]})" if all(ends) else name


def _at(words: tuple[str | None, ...], index: int) -> str | None:
    return words[index] if 0 <= index < len(words) else None


def sets(task: Task) -> None:
    """CUPTI_ACTIVITY_KIND_MEMSET."""
    for batch in task.batches(_MEMSET):
        kinds = pa.array(ints(column(batch, "memKind"), batch.num_rows, 99))
        columns = {
            **_columns(task, batch, "memset"),
            "class": constant("memset", batch.num_rows),
            "bytes": column(batch, "bytes"),
            "name": by_value(kinds, lambda k: f"Memset ({_MEMORY[k]})" if 0 <= k < 7 else "Memset"),
        }
        _store(task, batch, columns)


def synchronisations(task: Task) -> None:
    """CUPTI_ACTIVITY_KIND_SYNCHRONIZATION."""
    for batch in task.batches(_SYNC):
        events = number(column(batch, "eventId"))
        kinds = ints(column(batch, "syncType"), batch.num_rows, 0)
        if events is not None:
            # A stream wait waits for an event. Exports of 2025 write this number for stream synchronisation.
            kinds = np.where((kinds == 2) & np.asarray(events.is_null()), 3, kinds)
        columns = {
            **_columns(task, batch, "sync"),
            "class": constant("sync", batch.num_rows),
            "name": by_value(pa.array(kinds), lambda k: _SYNC_TYPES.get(k, "Sync")),
            "event_id": events,
        }
        _store(task, batch, columns)


def graphs(task: Task) -> None:
    """CUPTI_ACTIVITY_KIND_GRAPH_TRACE: whole graph launches, their kernels are not in the file."""
    for batch in task.batches(_GRAPH):
        columns = {
            **_columns(task, batch, "graph"),
            "class": constant(device_class("graph", None), batch.num_rows),
            "name": constant("CUDA Graph", batch.num_rows),
        }
        task.tally.add("graphs", batch.num_rows)
        _store(task, batch, columns)


def event_records(task: Task) -> None:
    """CUPTI_ACTIVITY_KIND_CUDA_EVENT. Most exports give no time: then that of the call that recorded it."""
    source = task.source.batches(task.table, _EVENT, task.span, task.tally)
    for batch in source:
        times = _record_times(task, batch)
        known = np.asarray(times.is_valid())
        task.tally.events.skip(task.table, NO_TIME, int((~known).sum()))
        batch, times = select(batch, known), times.drop_null()
        if not batch.num_rows:
            continue
        timed = batch.append_column("time", times)
        columns = {
            **_columns(task, timed, "sync", "time"),
            "dur_ns": pa.array(np.zeros(batch.num_rows, np.int64)),
            "class": constant("sync", batch.num_rows),
            "name": constant("Event Record", batch.num_rows),
            "event_id": number(column(batch, "eventId")),
        }
        _store(task, timed, columns)


def _record_times(task: Task, batch: pa.RecordBatch) -> pa.Array:
    stamps = ints(column(batch, "timestamp"), batch.num_rows, 0)
    calls = task.context.call_starts
    if calls is None:
        return pa.array(stamps, mask=stamps <= 0)
    correlations = ints(column(batch, "correlationId"), batch.num_rows, -1)
    found = calls.starts(keys_of(batch, "globalPid"), correlations)
    return pc.coalesce(pa.array(stamps, mask=stamps <= 0), found)
