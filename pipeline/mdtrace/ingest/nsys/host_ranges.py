"""Ranges of libraries (cuBLAS, cuDNN, MPI) and the profiler's own overhead → `host_ops`."""

from typing import Any

import numpy as np
import pyarrow as pa

from mdtrace.ingest.classify import collective_kind
from mdtrace.ingest.nsys.names import text_column
from mdtrace.ingest.nsys.sink import Placed
from mdtrace.ingest.nsys.source import Columns, column
from mdtrace.ingest.nsys.task import Task, keys_of, select
from mdtrace.ingest.nsys.values import constant, int32, ints, thread_ids, within

_COLUMNS: Columns = {
    "start": "int", "end": "int", "globalTid": "int", "nameId": "name", "textId": "name",
    "correlationId": "int", "size": "int", "recvSize": "int",
    "rootRank": "int", "remoteRank": "int", "tag": "int",
}  # fmt: skip
_OVERHEAD: Columns = {
    "start": "int", "end": "int", "globalTid": "int", "nameId": "name", "correlationId": "int",
    "overheadType": "int", "returnValue": "int",
}  # fmt: skip
_OTHER_PROCESS = "the profiler's overhead in a process without CUDA or NVTX events"


def library_ranges(task: Task) -> None:
    """CUBLAS_EVENTS, CUDNN_EVENTS, MPI_*_EVENTS."""
    for batch in task.batches(_COLUMNS):
        columns = _host_columns(task, batch, "annotation", "nested")
        placed = task.sink.write(keys_of(batch, "globalTid"), "host_ops", columns, batch)
        task.tally.events.store(task.table, batch.num_rows)
        if task.table.startswith("MPI_") and column(batch, "size") is not None:
            for place in placed:
                rows = pa.array(np.arange(batch.num_rows) if place.rows is None else place.rows)
                _mpi_records(task, batch.take(rows), columns["name"].take(rows), place)


def _host_columns(task: Task, batch: pa.RecordBatch, kind: str, form: str) -> dict[str, Any]:
    ids = column(batch, "nameId")
    names = task.names.of(column(batch, "textId") if ids is None else ids, batch.num_rows)
    return {
        **task.times(batch),
        "thread_id": thread_ids(column(batch, "globalTid")),
        "kind": constant(kind, batch.num_rows),
        "form": constant(form, batch.num_rows),
        "name": text_column(names),
    }


def _mpi_records(task: Task, batch: pa.RecordBatch, names: pa.Array, placed: Placed) -> None:
    """Sizes and peers that nsys records of MPI calls, for those that are collectives or transfers."""
    kinds = [collective_kind(n) if n else "unknown" for n in names.to_pylist()]
    mask = np.asarray([k != "unknown" for k in kinds], bool)
    if not mask.any():
        return
    rows = np.flatnonzero(mask)
    some, count = select(batch, mask), len(rows)
    point = "P2P" in task.table
    peers = int32(column(some, "remoteRank" if point else "rootRank"))
    sizes = ints(column(some, "size"), count, -1)
    received = ints(column(some, "recvSize"), count, -1)
    gathered = np.asarray([kinds[r] == "all_gather" for r in rows])
    payload = np.where(gathered, received, sizes)
    task.sink.write_one(
        placed.key,
        "comm_records",
        {
            "anchor": constant("host_ops", count),
            "row": pa.array(rows + placed.first),
            "point_to_point": pa.array(np.full(count, point)),
            "peer_rank": None if peers is None else within(peers, 0, (1 << 31) - 1),
            "payload_bytes": pa.array(payload, mask=payload < 0),
        },
    )


def overhead(task: Task) -> None:
    """PROFILER_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD: of the processes that have other events."""
    for batch in task.batches(_OVERHEAD):
        keys = keys_of(batch, "globalTid")
        if task.context.only_keys is not None:
            mine = np.isin(keys, sorted(task.context.only_keys))
            task.tally.events.skip(task.table, _OTHER_PROCESS, int((~mine).sum()))
            batch, keys = select(batch, mine), keys[mine]
        if batch.num_rows:
            task.store(keys, "host_ops", _host_columns(task, batch, "overhead", "async"), batch)
