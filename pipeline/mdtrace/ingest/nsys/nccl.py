"""NCCL's ranges: arguments of collectives from their payloads, and who is which rank of a communicator."""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.classify import DTYPE_BYTES, collective_kind
from mdtrace.ingest.nsys.names import text_column
from mdtrace.ingest.nsys.nccl_payload import Layouts, decode, field_of
from mdtrace.ingest.nsys.sink import Placed
from mdtrace.ingest.nsys.source import Columns, TableSource, Tally, column
from mdtrace.ingest.nsys.values import process_keys

if TYPE_CHECKING:
    from mdtrace.ingest.nsys.task import Task

# ncclDataType_t
_DTYPES = ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2")
# NCCL states the size of one rank's message; the payload (nccl-tests) of these is that of all ranks.
_PER_RANK = {"all_gather", "reduce_scatter", "all_to_all", "scatter"}
_INT32 = 1 << 31
_INT64 = 1 << 63


def comm_records(
    task: "Task", batch: pa.RecordBatch, names: pa.Array, placed: Placed
) -> dict[str, list[Any]] | None:
    """Comm records of the NCCL ranges of one process that carry a payload; None without any."""
    fields = payload_fields(task, batch)
    if not fields:
        return None
    records: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(fields):
        name = names[row].as_py()
        if not name or not name.startswith("nccl") or collective_kind(name) == "unknown":
            continue
        for field, value in _record(name, fields[row], placed, task.context.group_sizes).items():
            records[field].append(value)
        records["row"].append(placed.first + row)
    return records or None


def payload_fields(task: "Task", batch: pa.RecordBatch) -> dict[int, dict[str, Any]]:
    """Known payload fields by row of the batch; malformed payloads are counted."""
    found: dict[int, dict[str, Any]] = {}
    blobs = column(batch, "binaryData")
    if blobs is not None and blobs.null_count < len(blobs) and task.context.payloads:
        decoded, bad = decode(blobs.to_pylist(), task.context.payloads)
        task.tally.add("damaged_arguments", bad)
        for group in decoded:
            columns = {f: v.tolist() for f, v in group.fields.items()}
            for i, row in enumerate(group.rows.tolist()):
                found[row] = {f: values[i] for f, values in columns.items()}
    for row, text in _json_texts(task, batch):
        fields = json_fields(text)
        if fields is None:
            task.tally.add("damaged_arguments")
        elif fields:
            found.setdefault(row, {}).update(fields)
    return found


def _json_texts(task: "Task", batch: pa.RecordBatch) -> list[tuple[int, str]]:
    text, ids = column(batch, "jsonText"), column(batch, "jsonTextId")
    if ids is not None and ids.null_count < len(ids):
        by_id = text_column(task.names.of(ids, batch.num_rows))
        text = by_id if text is None else pc.coalesce(text, by_id)
    if text is None or text.null_count == len(text):
        return []
    rows = pc.indices_nonzero(text.is_valid()).to_pylist()
    return [(row, text[row].as_py()) for row in rows]


def json_fields(text: str) -> dict[str, Any] | None:
    """Known integer fields of a JSON payload, at most three levels down; None if it is no JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fields: dict[str, Any] = {}
    _collect(value, fields, 3)
    return fields


def _collect(value: Any, fields: dict[str, Any], levels: int) -> None:
    if not isinstance(value, dict) or not levels:
        return
    for name, inner in value.items():
        field = field_of(name)
        number = _integer(inner)
        if field and number is not None:
            fields.setdefault(field, number)
        _collect(inner, fields, levels - 1)


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value[:32], 0)
        except ValueError:
            return None
    return None


def _record(
    name: str, fields: Mapping[str, Any], placed: Placed, sizes: Mapping[tuple[int, int], int]
) -> dict[str, Any]:
    """One comm record, all but the row."""
    kind = collective_kind(name)
    communicator = fields.get("communicator")
    size = sizes.get((placed.key, communicator)) if communicator is not None else None
    size = size or _bounded(fields.get("ranks"), _INT32)
    number = fields.get("datatype", -1)
    dtype = _DTYPES[number] if 0 <= number < len(_DTYPES) else None
    count = _bounded(fields.get("count"), _INT64)
    message = _bounded(fields.get("bytes"), _INT64)
    if message is None and count is not None and dtype:
        message = count * DTYPE_BYTES[dtype]
    return {
        "anchor": "host_ops",
        "group_size": size,
        "communicator": None if communicator is None else f"0x{communicator & (1 << 64) - 1:016x}",
        "seq": _bounded(fields.get("seq"), _INT64),
        "point_to_point": kind in ("send", "recv", "send_recv"),
        "peer_rank": _bounded(fields.get("peer"), _INT32),
        "dtype": dtype,
        "payload_bytes": _payload(kind, message, size),
    }


def _payload(kind: str, message: int | None, size: int | None) -> int | None:
    """Bytes as nccl-tests counts them, from those of one rank's message."""
    if kind not in _PER_RANK or message is None:
        return _bounded(message, _INT64)
    return None if size is None else _bounded(message * size, _INT64)


def _bounded(value: Any, limit: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value < limit else None


Membership = dict[tuple[int, int], tuple[int, int | None]]  # (process key, communicator) → size, own rank


def memberships(source: TableSource, tables: list[str], layouts: Layouts, tally: Tally) -> Membership:
    """Communicators that processes entered within the capture: their size, and the rank in them."""
    entering = {s: layout for s, layout in layouts.items() if {"communicator", "ranks"} <= set(layout.fields)}
    found: Membership = {}
    if not entering:
        return found
    asked: Columns = {"globalTid": "int", "binaryData": "blob"}
    for table in tables:
        if "binaryData" not in source.tables[table]:
            continue
        for span in source.spans(table):
            for batch in source.batches(table, asked, span, tally):
                _enter(found, batch, entering)
    return found


def _enter(found: Membership, batch: pa.RecordBatch, layouts: Layouts) -> None:
    batch = batch.filter(batch.column("binaryData").is_valid())
    decoded, _ = decode(batch.column("binaryData").to_pylist(), layouts)
    keys = process_keys(column(batch, "globalTid"), batch.num_rows)
    for group in decoded:
        for i, row in enumerate(group.rows):
            fields = {f: int(v[i]) for f, v in group.fields.items()}
            size, rank = _bounded(fields["ranks"], _INT32), _bounded(fields.get("rank"), _INT32)
            if size and (rank is None or rank < size):
                found.setdefault((int(keys[row]), fields["communicator"]), (size, rank))
