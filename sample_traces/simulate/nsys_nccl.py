"""NCCL's NVTX ranges as Nsight Systems exports them with blobs: layouts of payloads, and payloads.

A payload is a 32-byte little-endian header (domain, schema, size of the payload, size of all, 8 bytes
each), then the fields at the offsets that NVTX_PAYLOAD_SCHEMA_ENTRIES states.
"""

import struct

from simulate.collectives import WORDINGS, role
from simulate.events import Group, Member
from simulate.model import ELEMENT

DOMAIN = 1
_FIRST = 1 << 24  # numbers of schemas that a program defines itself
INIT, BROADCAST, GATHER, REDUCE, SCATTER, SEND, RECV = range(_FIRST + 2, _FIRST + 9)
_REDUCTION = _FIRST + 16
_INT, _UINT64, _SIZE = 5, 18, 22  # types of fields
_SUM = 0

Field = tuple[str, int, int]
"""Name, type, offset."""

_COMMUNICATOR: Field = ("NCCL communicator ID", _UINT64, 0)
_BYTES: Field = ("Message size [bytes]", _SIZE, 8)
SCHEMAS: dict[int, tuple[int, list[Field]]] = {
    INIT: (24, [_COMMUNICATOR, ("No. of ranks", _INT, 8), ("Rank", _INT, 12), ("CUDA device", _INT, 16)]),
    BROADCAST: (24, [_COMMUNICATOR, _BYTES, ("Root", _INT, 16)]),
    GATHER: (16, [_COMMUNICATOR, _BYTES]),
    REDUCE: (24, [_COMMUNICATOR, _BYTES, ("Reduction operation", _REDUCTION, 16)]),
    SCATTER: (24, [_COMMUNICATOR, _BYTES, ("Reduction operation", _REDUCTION, 16)]),
    SEND: (24, [_COMMUNICATOR, _BYTES, ("Peer rank", _INT, 16)]),
    RECV: (24, [_COMMUNICATOR, _BYTES, ("Peer rank", _INT, 16)]),
}
_BY_ROLE = {
    "broadcast": BROADCAST,
    "all_gather": GATHER,
    "all_reduce": REDUCE,
    "reduce_scatter": SCATTER,
    "send": SEND,
    "recv": RECV,
}


def schema_rows() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Rows of NVTX_PAYLOAD_SCHEMAS and of NVTX_PAYLOAD_SCHEMA_ENTRIES."""
    schemas: list[tuple[object, ...]] = []
    entries: list[tuple[object, ...]] = []
    for schema, (size, fields) in SCHEMAS.items():
        schemas.append((DOMAIN, schema, None, 1, None, len(fields), size, None))
        for index, (name, kind, offset) in enumerate(fields):
            entries.append((DOMAIN, schema, index, None, kind, name, None, None, offset or None))
    return schemas, entries


def call_name(member: Member) -> str:
    return WORDINGS[role(member)].function


def init_payload(group: Group, rank: int) -> bytes:
    """Of ncclCommInitRank."""
    return _payload(
        INIT, struct.pack("<Qiiii", group.communicator, group.size, group.ranks.index(rank), 0, 0)
    )


def call_payload(member: Member) -> bytes:
    """Of a collective: the message of one rank in bytes, as NCCL counts it."""
    collective, group = member.collective, member.collective.group
    did = role(member)
    size = collective.elements * ELEMENT
    if did in ("all_gather", "reduce_scatter"):
        size = collective.elements // group.size * ELEMENT
    body = struct.pack("<QQ", group.communicator, size)
    if did != "all_gather":
        body += struct.pack("<ii", _last_field(member, did), 0)
    return _payload(_BY_ROLE[did], body)


def _last_field(member: Member, did: str) -> int:
    """Root, peer (both as ranks of the communicator) or reduction."""
    collective, ranks = member.collective, member.collective.group.ranks
    if did == "broadcast":
        return ranks.index(ranks[0] if collective.source is None else collective.source)
    if did in ("send", "recv"):
        return next(k for k, rank in enumerate(ranks) if rank != member.rank)
    return _SUM


def _payload(schema: int, body: bytes) -> bytes:
    return struct.pack("<QQQQ", DOMAIN, schema, len(body), 32 + len(body)) + body
