"""What NCCL puts into its NVTX ranges: binary payloads with their layouts, and JSON."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from nsys_export import Read, export, global_tid, nvtx, strings

INIT, REDUCE, GATHER, SEND, ROOTED = range(101, 106)
COMMUNICATOR = 0xFEDC_BA98_7654_3210

NAMES = (
    "NCCL",
    "ncclCommInitRank",
    "ncclAllReduce",
    "ncclAllGather",
    "ncclSend",
    "ncclBroadcast",
    "ncclGroupStart",
)


def entry(schema: int, number: int, kind: int, name: str, offset: int | None) -> dict[str, Any]:
    return {"domainId": 1, "schemaId": schema, "idx": number, "type": kind, "name": name, "offset": offset}


ID, SIZE = (18, "NCCL communicator ID", None), (22, "Message size [bytes]", 8)
SCHEMAS: dict[int, tuple[int, list[tuple[int, str, int | None]]]] = {
    INIT: (24, [ID, (5, "No. of ranks", 8), (5, "Rank", 12), (5, "CUDA device", 16)]),
    REDUCE: (24, [ID, SIZE, (1 << 24, "Reduction operation", 16)]),
    GATHER: (16, [ID, SIZE]),
    SEND: (24, [ID, SIZE, (5, "Peer rank", 16)]),
    ROOTED: (24, [ID, SIZE, (5, "Root", 16)]),
}

LAYOUT = {
    "StringIds": strings(*NAMES),
    "NVTX_PAYLOAD_SCHEMAS": [{"domainId": 1, "schemaId": s, "payloadSize": v[0]} for s, v in SCHEMAS.items()],
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
        entry(schema, i, *field) for schema, (_, fields) in SCHEMAS.items() for i, field in enumerate(fields)
    ],
}


def blob(schema: int, *values: tuple[int, int]) -> bytes:
    """A payload of (value, bytes) fields behind its header."""
    payload = b"".join(v.to_bytes(width, "little") for v, width in values)
    payload += b"\0" * (-len(payload) % 8)
    head = (1, schema, len(payload), 32 + len(payload))
    return b"".join(v.to_bytes(8, "little") for v in head) + payload


def range_(start: int, name: str, data: bytes | str | None, pid: int = 11) -> dict[str, Any]:
    text_id = NAMES.index(name) + 1
    more = {"textId": text_id, "domainId": 1, "globalTid": global_tid(pid, 12), "binaryData": data}
    return nvtx(start, start + 9, None, **more)


def domain(pid: int = 11) -> dict[str, Any]:
    more = {"textId": 1, "domainId": 1, "globalTid": global_tid(pid, 12), "binaryData": None}
    return nvtx(0, None, None, eventType=75, **more)


def entered(rank: int, ranks: int, communicator: int = COMMUNICATOR) -> bytes:
    return blob(INIT, (communicator, 8), (ranks, 4), (rank, 4), (0, 4))


def test_binary_payloads(tmp_path: Path) -> None:
    c = (COMMUNICATOR, 8)
    path = export(
        tmp_path / "x.sqlite",
        **LAYOUT,
        NVTX_EVENTS=[
            domain(),
            range_(10, "ncclGroupStart", None),
            range_(20, "ncclAllReduce", blob(REDUCE, c, (4096, 8), (0, 4))),
            range_(30, "ncclAllGather", blob(GATHER, c, (100, 8))),
            range_(40, "ncclSend", blob(SEND, c, (7, 8), (5, 4))),
            range_(50, "ncclBroadcast", blob(ROOTED, (9, 8), (8, 8), (2, 4))),
            range_(60, "ncclCommInitRank", entered(3, 8)),
        ],
    )
    read = Read(path, tmp_path / "s")
    hosts = read.rows("host_ops")
    assert {h["domain"] for h in hosts} == {"NCCL"}
    records = read.rows("comm_records")
    assert [hosts[r["row"]]["name"] for r in records] == [
        "ncclAllReduce",
        "ncclAllGather",
        "ncclSend",
        "ncclBroadcast",
    ]
    columns = ("communicator", "group_size", "payload_bytes", "point_to_point", "peer_rank")
    # NCCL states one rank's message: an all-gather among 8 puts out 8 of them.
    assert [tuple(r.get(k) for k in columns) for r in records] == [
        ("0xfedcba9876543210", 8, 4096, False, None),
        ("0xfedcba9876543210", 8, 800, False, None),
        ("0xfedcba9876543210", 8, 7, True, 5),
        ("0x0000000000000009", None, 8, False, 2),
    ]
    (facts,) = read.processes
    assert (facts.rank, facts.rank_origin, facts.world_size) == (3, "communicator", 8)


def test_a_gather_of_a_group_of_unknown_size_has_unknown_bytes(tmp_path: Path) -> None:
    data = blob(GATHER, (COMMUNICATOR, 8), (100, 8))
    path = export(tmp_path / "x.sqlite", **LAYOUT, NVTX_EVENTS=[range_(1, "ncclAllGather", data)])
    (record,) = Read(path, tmp_path / "s").rows("comm_records")
    assert "payload_bytes" not in record


def test_malformed_payloads_are_counted_and_their_ranges_kept(tmp_path: Path) -> None:
    good = blob(REDUCE, (1, 8), (64, 8), (0, 4))
    bad = [b"", b"\1", good[:40], blob(999, (1, 8)), "text where bytes should be", good[:31]]
    path = export(
        tmp_path / "x.sqlite",
        **LAYOUT,
        NVTX_EVENTS=[range_(i, "ncclAllReduce", d) for i, d in enumerate([good, *bad, good + b"\0" * 8])],
    )
    with sqlite3.connect(path) as db:
        kinds = [k for (k,) in db.execute("SELECT typeof(binaryData) FROM NVTX_EVENTS")]
    db.close()
    assert set(kinds) == {"blob", "text"}
    read = Read(path, tmp_path / "s")
    assert read.count("host_ops") == 8
    assert [(r["row"], r["payload_bytes"]) for r in read.rows("comm_records")] == [(0, 64), (7, 64)]
    assert read.codes()["damaged_arguments"] == 5  # an empty value is no payload


def test_layouts_that_lie_are_survived(tmp_path: Path) -> None:
    lies = dict(LAYOUT)
    lies["NVTX_PAYLOAD_SCHEMA_ENTRIES"] = [
        entry(REDUCE, 0, 18, "NCCL communicator ID", 1 << 40),
        entry(REDUCE, 1, 22, "Message size [bytes]", 1000),
        entry(REDUCE, 2, 9999, "Root", 0),
        entry(REDUCE, 3, 22, "seq number", -8),
    ]
    data = blob(REDUCE, (1, 8), ((1 << 64) - 1, 8), (0, 4))
    path = export(tmp_path / "x.sqlite", **lies, NVTX_EVENTS=[range_(0, "ncclAllReduce", data)])
    read = Read(path, tmp_path / "s")
    assert read.count("host_ops") == 1
    assert not any({"communicator", "payload_bytes", "seq"} & set(r) for r in read.rows("comm_records"))


def test_json_payloads(tmp_path: Path) -> None:
    texts = [
        json.dumps({"seqNumber": 12, "bytes": 256, "nRanks": 4, "commHash": "0x1f"}),
        json.dumps({"NCCL": {"Sequence number": "7", "count": 10, "datatype": 7, "root": 1}}),
        json.dumps({"seqNumber": 1 << 80, "bytes": True}),
        json.dumps(["seqNumber"]),
        "{no json",
    ]
    rows = [{**range_(i, "ncclAllReduce", None), "jsonText": t} for i, t in enumerate(texts)]
    rows.append({**range_(9, "ncclAllReduce", None), "jsonTextId": len(NAMES) + 1})
    tables = {**LAYOUT, "StringIds": strings(*NAMES, '{"seqNumber": 13}')}
    path = export(tmp_path / "x.sqlite", **tables, NVTX_EVENTS=rows)
    read = Read(path, tmp_path / "s")
    columns = ("row", "seq", "payload_bytes", "group_size", "communicator", "dtype", "peer_rank")
    assert [tuple(r.get(k) for k in columns) for r in read.rows("comm_records")] == [
        (0, 12, 256, 4, "0x000000000000001f", None, None),
        (1, 7, 40, None, None, "f32", 1),
        (2, None, None, None, None, None, None),
        (5, 13, None, None, None, None, None),
    ]
    assert read.codes()["damaged_arguments"] == 1


def test_ranks_by_communicator_only_where_they_are_clear(tmp_path: Path) -> None:
    def ranks(name: str, *rows: dict[str, Any]) -> list[int | None]:
        path = export(tmp_path / f"{name}.sqlite", **LAYOUT, NVTX_EVENTS=list(rows))
        return [p.rank for p in Read(path, tmp_path / name).processes]

    def enters(pid: int, rank: int, size: int, communicator: int) -> dict[str, Any]:
        return range_(0, "ncclCommInitRank", entered(rank, size, communicator), pid)

    world = [enters(11, 1, 4, 50), enters(12, 0, 4, 50)]
    assert ranks("world", *world, enters(11, 0, 2, 60), enters(12, 0, 2, 61)) == [1, 0]
    assert ranks("pairs", enters(11, 0, 2, 60), enters(12, 0, 2, 61)) == [
        None,
        None,
    ]  # both claim rank 0 of 2
    assert ranks("differ", enters(11, 0, 4, 60), enters(11, 1, 4, 61)) == [None]
    assert ranks("alone", enters(11, 0, 1, 60)) == [None]
    assert ranks("beyond", enters(11, 7, 4, 60)) == [None]


def test_records_of_two_processes_point_at_their_own_ranges(tmp_path: Path) -> None:
    rows = []
    for i in range(6):
        pid = 11 + i % 2
        rows.append(range_(10 * i, "ncclGroupStart", None, pid))
        rows.append(range_(10 * i + 5, "ncclAllReduce", blob(REDUCE, (1, 8), (i, 8), (0, 4)), pid))
    read = Read(export(tmp_path / "x.sqlite", **LAYOUT, NVTX_EVENTS=rows), tmp_path / "s")
    for process in (0, 1):
        hosts, records = read.rows("host_ops", process), read.rows("comm_records", process)
        assert [hosts[r["row"]]["start_ns"] for r in records] == [
            10 * i + 5 for i in range(6) if i % 2 == process
        ]
        assert [r["payload_bytes"] for r in records] == [i for i in range(6) if i % 2 == process]
