"""Binary NVTX payloads: their layouts (NVTX_PAYLOAD_SCHEMAS, _SCHEMA_ENTRIES) and how to read them.

A value of binaryData is a 32-byte little-endian header (u64 domain, u64 schema, u64 payload size, u64
size of all), then the payload, its entries at the offsets that the schema's rows state.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtrace.ingest.nsys.source import Ints, TableSource, Tally

HEADER = 32

# nvtxPayloadEntryType → numpy type, those that NCCL uses or could.
_TYPES = {
    3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<i8", 8: "<u8", 9: "<i8", 10: "<u8", 11: "i1", 12: "u1",
    13: "<i2", 14: "<u2", 15: "<i4", 16: "<u4", 17: "<i8", 18: "<u8", 22: "<u8",
}  # fmt: skip
_ENUM = 1 << 24  # types from here on are the file's own enumerations, stored as int

# What an entry is, by its name in lower case without blanks and signs. JSON payloads use the same.
FIELDS = {
    "ncclcommunicatorid": "communicator", "communicatorid": "communicator", "communicator": "communicator",
    "commid": "communicator", "commhash": "communicator", "comm": "communicator",
    "messagesizebytes": "bytes", "messagesize": "bytes", "sizebytes": "bytes", "bytes": "bytes",
    "noofranks": "ranks", "numberofranks": "ranks", "nranks": "ranks", "ranks": "ranks", "commsize": "ranks",
    "rank": "rank", "peerrank": "peer", "peer": "peer", "root": "peer", "rootrank": "peer",
    "seqnumber": "seq", "sequencenumber": "seq", "seq": "seq", "opcount": "seq",
    "count": "count", "datatype": "datatype",
}  # fmt: skip


def field_of(name: str) -> str | None:
    """What a payload entry of this name is, None for what is not used."""
    return FIELDS.get("".join(c for c in name.lower() if c.isalnum()))


@dataclass(frozen=True)
class Layout:
    """One schema: size of the payload and, by field, type and offset."""

    size: int
    fields: Mapping[str, tuple[str, int]]


Layouts = Mapping[int, Layout]  # by schema id


def read_layouts(source: TableSource, tally: Tally) -> Layouts:
    """The layouts of all schemas that have a known field."""
    entries = source.rows(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES",
        {"schemaId": "int", "type": "int", "name": "text", "offset": "int"},
        tally,
    )
    sizes: dict[int, int] = {}
    for row in source.rows("NVTX_PAYLOAD_SCHEMAS", {"schemaId": "int", "payloadSize": "int"}, tally):
        sizes[row["schemaId"]] = row["payloadSize"] or 0
    fields: dict[int, dict[str, tuple[str, int]]] = defaultdict(dict)
    for row in entries:
        kind = _TYPES.get(row["type"] or 0, "<i4" if (row["type"] or 0) >= _ENUM else "")
        field, offset = field_of(row["name"] or ""), row["offset"] or 0
        if field and kind and row["schemaId"] is not None and 0 <= offset < 1 << 20:
            fields[row["schemaId"]].setdefault(field, (kind, offset))
    return {schema: Layout(sizes.get(schema, 0), some) for schema, some in fields.items()}


@dataclass(frozen=True)
class Decoded:
    """Payloads of one schema: which rows, and their fields (uint64 or int64 values)."""

    rows: Ints
    fields: Mapping[str, npt.NDArray[Any]]


def decode(blobs: list[bytes | None], layouts: Layouts) -> tuple[list[Decoded], int]:
    """Decode the payloads of many rows at once, those of equal schema and length together.

    Returns:
        What was decoded, and how many values are no payload of a known layout.
    """
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    bad = 0
    for row, blob in enumerate(blobs):
        if not blob:
            continue
        schema = int.from_bytes(blob[8:12], "little") if len(blob) >= HEADER else -1
        if schema in layouts and len(blob) - HEADER >= layouts[schema].size:
            groups[schema, len(blob)].append(row)
        else:
            bad += 1
    return [_decode(blobs, rows, layouts[schema]) for (schema, _), rows in groups.items()], bad


def _decode(blobs: list[bytes | None], rows: list[int], layout: Layout) -> Decoded:
    raw = np.frombuffer(b"".join(blobs[r] or b"" for r in rows), np.uint8).reshape(len(rows), -1)
    fields: dict[str, npt.NDArray[Any]] = {}
    for field, (kind, offset) in layout.fields.items():
        first, width = HEADER + offset, np.dtype(kind).itemsize
        if first + width <= raw.shape[1]:
            values = np.ascontiguousarray(raw[:, first : first + width]).view(kind)[:, 0]
            fields[field] = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
    return Decoded(np.asarray(rows, np.int64), fields)
