"""NVTX_EVENTS → `host_ops`; what NCCL put into its ranges → `comm_records`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.emit_nvtx import parse
from mdtrace.ingest.nsys.names import text_column
from mdtrace.ingest.nsys.nccl import comm_records
from mdtrace.ingest.nsys.source import Columns, Ints, TableSource, Tally, column
from mdtrace.ingest.nsys.task import Task, keys_of, select
from mdtrace.ingest.nsys.values import by_value, ints, thread_ids

_COLUMNS: Columns = {
    "start": "int", "end": "int", "eventType": "int", "rangeId": "int", "category": "int", "text": "text",
    "globalTid": "int", "textId": "name", "domainId": "int", "jsonText": "text", "jsonTextId": "name",
    "binaryData": "blob",
}  # fmt: skip

_DOMAIN_CREATED, _THREAD_NAMED = 75, 39
FORMS = {34: "mark", 59: "nested", 60: "async"}  # ENUM_NSYS_EVENT_TYPE
_METADATA = (33, 39, 75, 76)
_METADATA_REASON = "NVTX metadata: categories, thread names, domains"
_UNKNOWN_REASON = "NVTX event type that is no range and no mark"
_DEFAULT_DOMAIN = 0


def nvtx_events(task: Task) -> None:
    """Ranges and marks; metadata rows are counted as skipped."""
    for batch in task.batches(_COLUMNS):
        types = _types(batch)
        kept = np.isin(types, list(FORMS))
        metadata = np.isin(types, _METADATA)
        task.tally.events.skip(task.table, _METADATA_REASON, int(metadata.sum()))
        task.tally.events.skip(task.table, _UNKNOWN_REASON, int((~kept & ~metadata).sum()))
        if kept.any():
            _ranges(task, select(batch, kept), types[kept])


def _types(batch: pa.RecordBatch) -> Ints:
    """Event types; where none is recorded, a range if it has an end, else a mark."""
    types = ints(column(batch, "eventType"), batch.num_rows, -1)
    end = column(batch, "end")
    closed = np.zeros(len(types), bool) if end is None else np.asarray(end.is_valid())
    return np.where(types == -1, np.where(closed, 59, 34), types)


def _ranges(task: Task, batch: pa.RecordBatch, types: Ints) -> None:
    keys = keys_of(batch, "globalTid")
    parsed = parse(range_names(task, batch))
    columns: dict[str, Any] = {
        **task.times(batch),
        "thread_id": thread_ids(column(batch, "globalTid")),
        "kind": _choose(parsed.operator, "operator", "nvtx"),
        "form": by_value(pa.array(types), FORMS.get),
        "name": parsed.name,
        "domain": _domains(task, keys, batch),
        "sequence": parsed.sequence,
        "input_dims": parsed.input_dims,
        "event_index": _event_index(parsed.op_id, column(batch, "rangeId")),
    }
    columns["dur_ns"] = _mark_durations(columns["dur_ns"], types)
    placed = task.sink.write(keys, "host_ops", columns, batch)
    task.tally.events.store(task.table, len(keys))
    for place in placed:
        rows = place.rows
        mine = batch if rows is None else batch.take(pa.array(rows))
        names = parsed.name if rows is None else parsed.name.take(pa.array(rows))
        records = comm_records(task, mine, names, place)
        if records is not None:
            task.sink.write_one(place.key, "comm_records", records)


def range_names(task: Task, batch: pa.RecordBatch) -> pa.Array:
    """COALESCE(text, StringIds[textId])."""
    text, ids = column(batch, "text"), column(batch, "textId")
    if text is not None and not text.null_count:
        return text
    by_id = text_column(task.names.of(ids, batch.num_rows))
    return by_id if text is None else pc.coalesce(text, by_id)


def _choose(mask: pa.Array, yes: str, no: str) -> pa.Array:
    return pc.if_else(mask.fill_null(False), pa.scalar(yes), pa.scalar(no))


def _event_index(op_id: pa.Array | None, range_id: pa.Array | None) -> pa.Array | None:
    if op_id is None or range_id is None:
        return range_id if op_id is None else op_id
    return pc.coalesce(op_id, range_id)


def _mark_durations(dur: pa.Array | None, types: Ints) -> pa.Array:
    """A mark is a point in time: 0, not NULL."""
    marks = types == 34
    if dur is None:
        return pa.array(np.zeros(len(types), np.int64), mask=~marks)
    return pc.if_else(pa.array(marks), pa.scalar(0, pa.int64()), dur) if marks.any() else dur


def _domains(task: Task, keys: Ints, batch: pa.RecordBatch) -> pa.Array | None:
    """Names of the domains; NULL for the default one, and for those whose creation is not in the file."""
    ids = column(batch, "domainId")
    if ids is None or not task.context.domains:
        return None
    numbers = ints(ids, len(keys), _DEFAULT_DOMAIN)
    texts: list[str | None] = [None]
    index = np.zeros(len(keys), np.int64)
    present = set(np.unique(numbers).tolist())
    for (key, domain), name in task.context.domains.items():
        if domain not in present:
            continue
        hit = (keys == key) & (numbers == domain)
        if hit.any():
            index[hit] = len(texts)
            texts.append(name)
    return pa.array(texts, pa.string()).take(pa.array(index))


def metadata_rows(source: TableSource, tables: Sequence[str], tally: Tally) -> list[dict[str, Any]]:
    """Rows that create domains or name threads, with `key` (process) and `name` resolved."""
    asked: Columns = {
        "eventType": "int",
        "globalTid": "int",
        "domainId": "int",
        "text": "text",
        "textId": "name",
    }
    found = [
        row
        for table in tables
        for row in source.rows(table, asked, tally, ("eventType", (_DOMAIN_CREATED, _THREAD_NAMED)))
    ]
    ids = [r["textId"] for r in found if r["text"] is None and isinstance(r["textId"], int)]
    names = source.names(sorted(set(ids))) if ids else {}
    for row in found:
        row["name"] = row["text"] if row["text"] is not None else names.get(row["textId"], row["textId"])
        row["key"] = None if row["globalTid"] is None else row["globalTid"] >> 24
    return [r for r in found if isinstance(r["name"], str)]


def domain_names(rows: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    """Names of domains by process key and id."""
    return {
        (r["key"], r["domainId"]): r["name"]
        for r in rows
        if r["eventType"] == _DOMAIN_CREATED and r["key"] is not None and r["domainId"]
    }


def thread_names(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Process key and name of named threads."""
    return [(r["key"], r["name"]) for r in rows if r["eventType"] == _THREAD_NAMED and r["key"] is not None]
