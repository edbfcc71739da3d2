"""Which collectives a process took part in, and with what arguments."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mdtrace.ingest.classify import collective_kind
from mdtrace.ingest.stage import StagedProcess, conform, staged_schema
from mdtrace.link.columns import HostOps, bounds, closed, flags, ids, integers, names, nullable
from mdtrace.link.groups import Groups, find_groups
from mdtrace.link.launches import DeviceLinks
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, nearest_of
from mdtrace.link.patterns import BACKEND, BESIDE_KERNELS, COLLECTIVE_RANGE, ENCLOSING
from mdtrace.link.records import Records, lent, payload, read_records, shapes
from mdtrace.link.steps import Steps

_PAIRS = ("send", "recv", "send_recv")


@dataclass(frozen=True)
class Found:
    """Collectives of one kind of evidence.

    Attributes:
        evidence: as the table says it.
        rows: the rows that stand for them, in device_ops for kernels, else in host_ops.
        name: their names.
        hints: names that tell what they do, by collective, the surest first.
        record: numbers of records whose arguments are theirs, the surest first.
        backend, enclosing: host rows with shapes: the backend's own record, the operator around it.
        host: the host row to point to.
        members: calls each one stands for.
        bytes: payload of grouped calls together, None where there is none.
        group: numbers of records that tell about group and type alone.
    """

    evidence: str
    rows: Rows
    name: list[str]
    hints: list[list[str | None]]
    record: list[Rows]
    backend: Rows
    enclosing: Rows
    host: Rows
    members: list[int]
    bytes: list[int | None]
    group: Rows


def find_collectives(
    staged: StagedProcess, host: HostOps, nest: Nest, links: DeviceLinks, steps: Steps, process_id: int
) -> pa.Table:
    """Rows of `collectives`, in order of the kinds of evidence, then of the file.

    Where the process has communication kernels, each is one collective, and host records only lend it
    arguments: those of the kernel itself, else of the nearest host event with some around its launch. Beside
    them stand records of CPU backends (gloo, MPI), which never have a kernel. Without such kernels one record
    of a backend is one collective; without those, one NVTX range named like one, the innermost of its kind.
    """
    records = read_records(staged)
    communication = names(staged, "device_ops", "class").where(lambda c: c == "communication")
    kernels = np.flatnonzero(communication & ~flags(staged, "device_ops", "duplicate"))
    found = []
    if len(kernels):
        found.append(_kernels(staged, host, nest, links, records, kernels))
    found.append(_backend_records(host, nest, records, beside=bool(len(kernels))))
    if not len(kernels) and not len(found[-1].rows):
        found.append(_ranges(host, nest, records))
    tables = [_table(staged, host, links, steps, records, f, process_id) for f in found]
    return pa.concat_tables(tables)


def _kernels(
    staged: StagedProcess, host: HostOps, nest: Nest, links: DeviceLinks, records: Records, kernels: Rows
) -> Found:
    inner = links.inner[kernels]
    lender = records.around(nest, inner)
    backend = nearest_of(nest.parent, host.names.match(BACKEND), inner)
    enclosing = nearest_of(nest.parent, host.names.match(ENCLOSING), inner)
    names_ = names(staged, "device_ops")
    groups = find_groups(host, nest, records, inner)
    label = [host.names.text(r) if r != NONE else None for r in backend.tolist()]
    around = [host.names.text(r) if r != NONE else None for r in enclosing.tolist()]
    own = [names_.text(r) for r in kernels.tolist()]
    numbers = [records.device[kernels], *records.numbers(nest, lender)]
    recorded = [_recorded_name(records, n) for n in numbers]
    pointed = np.where(lender != NONE, lender, np.where(backend != NONE, backend, links.host[kernels]))
    return Found(
        "kernel",
        kernels,
        [name or "" for name in own],
        [*recorded, label, groups.names, around, own],
        numbers,
        backend,
        enclosing,
        pointed,
        _members(groups, label),
        groups.bytes,
        np.array(groups.record, np.int64),
    )


def _members(groups: Groups, label: list[str | None]) -> list[int]:
    """Calls in the group of each kernel; a collective that the backend itself made of several is one."""
    return [
        1 if text and collective_kind(text) not in ("unknown", *_PAIRS) else count
        for text, count in zip(label, groups.members, strict=True)
    ]


def _recorded_name(records: Records, number: Rows) -> list[str | None]:
    names_: list[str | None] = lent(records, number)["name"].to_pylist()
    return names_


def _backend_records(host: HostOps, nest: Nest, records: Records, *, beside: bool) -> Found:
    """Records that backends leave of each operation; beside kernels only of backends that have none."""
    pattern = BESIDE_KERNELS if beside else BACKEND
    own = host.kind("operator", "annotation") & ~host.duplicate & ~host.form("mark")
    rows = _known(host, np.flatnonzero(own & host.names.match(pattern)))
    if not len(rows) and not beside:  # the parameters' record alone
        told = np.flatnonzero(own & (records.host != NONE))
        recorded = _recorded_name(records, records.host[told])
        rows = told[np.array([collective_kind(name or "") != "unknown" for name in recorded], np.bool_)]
    rows = _without_inner(nest, rows)
    lender = records.around(nest, rows)
    enclosing = nearest_of(nest.parent, host.names.match(ENCLOSING), rows)
    return _of_host("host record", host, records, rows, records.numbers(nest, lender), enclosing)


def _of_host(
    evidence: str, host: HostOps, records: Records, rows: Rows, numbers: list[Rows], enclosing: Rows
) -> Found:
    own = [host.names.text(r) for r in rows.tolist()]
    hints = [own, *(_recorded_name(records, number) for number in numbers)]
    names_ = [n or "" for n in own]
    ones: list[int] = [1] * len(rows)
    nothing: list[int | None] = [None] * len(rows)
    none = np.full(len(rows), NONE, np.int64)
    return Found(evidence, rows, names_, hints, numbers, rows, enclosing, rows, ones, nothing, none)


def _known(host: HostOps, rows: Rows) -> Rows:
    """Rows whose name tells a collective."""
    known: Rows = rows[host.names.where(lambda text: collective_kind(text) != "unknown")[rows]]
    return known


def _without_inner(nest: Nest, rows: Rows) -> Rows:
    """Rows that do not lie inside another of them."""
    chosen = np.zeros(len(nest.parent), np.bool_)
    chosen[rows] = True
    outermost: Rows = rows[nearest_of(nest.parent, chosen, nest.parent[rows]) == NONE]
    return outermost


def _ranges(host: HostOps, nest: Nest, records: Records) -> Found:
    """NVTX ranges named like collectives, the innermost of each kind; ranges that may cross threads only
    where none of the kind nests inside their time on the thread."""
    named = host.kind("nvtx") & ~host.duplicate & host.names.match(COLLECTIVE_RANGE)
    rows = _known(host, np.flatnonzero(named & ~host.form("mark")))
    nested = rows[nest.nested[rows]]
    free = rows[~nest.nested[rows]]
    inner = _innermost(host, nest, nested)
    kept = free[~_holding(host, free, inner)]
    rows = np.sort(np.concatenate((inner, kept)))
    none = np.full(len(rows), NONE, np.int64)
    lender = records.around(nest, rows)
    return _of_host("range", host, records, rows, records.numbers(nest, lender), none)


def _kind_of(host: HostOps) -> Rows:
    """A number for the kind of collective that each host event's name tells, by row."""
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(collective_kind(text), len(numbers)) for text in host.names.texts]
    kind: Rows = np.array([*codes, NONE], np.int32)[host.names.codes]
    return kind


def _innermost(host: HostOps, nest: Nest, rows: Rows) -> Rows:
    """Rows that have no other of their kind inside."""
    chosen = np.zeros(len(nest.parent), np.bool_)
    chosen[rows] = True
    around = nearest_of(nest.parent, chosen, nest.parent[rows])
    kind = _kind_of(host)
    outer = around[(around != NONE) & (kind[around] == kind[rows])]
    return rows[~np.isin(rows, outer)]


def _holding(host: HostOps, free: Rows, inner: Rows) -> Flags:
    """Which ranges have a nested one of their kind and thread inside: the first to start in them."""
    kind = _kind_of(host)
    order = np.lexsort((host.start[inner], kind[inner], host.thread[inner]))
    key = list(zip(*(a[inner[order]].tolist() for a in (host.thread, kind, host.start)), strict=True))
    ends = host.end[inner[order]].tolist()
    holding = np.zeros(len(free), np.bool_)
    for i, row in enumerate(free.tolist()):
        mine = (int(host.thread[row]), int(kind[row]), int(host.start[row]))
        place = bisect_left(key, mine)
        if place < len(key) and key[place][:2] == mine[:2]:
            holding[i] = ends[place] <= host.end[row]
    return holding


def _table(
    staged: StagedProcess,
    host: HostOps,
    links: DeviceLinks,
    steps: Steps,
    records: Records,
    found: Found,
    process_id: int,
) -> pa.Table:
    """Rows of the table for one kind of evidence."""
    arguments = lent(records, *found.record, group=found.group)
    kind = [_first_kind(names_) for names_ in zip(*found.hints, strict=True)]
    sizes = _sizes(host, found, arguments, kind)
    told = arguments["point_to_point"].fill_null(False).to_numpy(zero_copy_only=False)
    pairs = told | np.array([k in _PAIRS for k in kind], np.bool_)
    columns = {
        **arguments,
        **sizes,
        **(_on_device if found.evidence == "kernel" else _on_host)(staged, host, links, steps, found.rows),
        "kind": kind,
        "name": found.name,
        "evidence": [found.evidence] * len(found.rows),
        "point_to_point": pairs,
        "members": found.members,
        "host_op_id": ids(found.host, process_id),
    }
    if found.evidence == "kernel":
        columns["device_op_id"] = ids(found.rows, process_id)
    batch = conform(columns, staged_schema("collectives"))
    return pa.Table.from_batches([batch])


def _first_kind(names_: tuple[str | None, ...]) -> str:
    kinds = (collective_kind(name) for name in names_ if name)
    return next((k for k in kinds if k != "unknown"), "unknown")


def _on_device(
    staged: StagedProcess, host: HostOps, links: DeviceLinks, steps: Steps, rows: Rows
) -> dict[str, Any]:
    start, end = bounds(staged, "device_ops")
    return {
        "device_id": nullable(integers(staged, "device_ops", "device_id")[rows], pa.int32()),
        "stream_id": nullable(integers(staged, "device_ops", "stream_id")[rows], pa.int64()),
        "start_ns": start[rows],
        "end_ns": closed(end[rows]),
        "step": nullable(links.step[rows], pa.int64()),
    }


def _on_host(
    staged: StagedProcess, host: HostOps, links: DeviceLinks, steps: Steps, rows: Rows
) -> dict[str, Any]:
    return {
        "start_ns": host.start[rows],
        "end_ns": closed(host.end[rows]),
        "step": nullable(steps.at(host.start[rows]), pa.int64()),
    }


def _sizes(host: HostOps, found: Found, arguments: Mapping[str, pa.Array], kind: list[str]) -> dict[str, Any]:
    """Type, elements and bytes: as recorded, else from the shapes of the backend's record or its operator."""
    own = shapes(host, found.backend, first_only=False)
    around = shapes(host, found.enclosing, first_only=True)
    recorded = zip(*(arguments[n].to_pylist() for n in ("dtype", "elements_in", "elements_out")), strict=True)
    size, stated = (arguments[n].to_pylist() for n in ("group_size", "payload_bytes"))
    dtype: list[str | None] = []
    given: list[int | None] = []
    total: list[int | None] = []
    for i, (d, n, out) in enumerate(recorded):
        d = d or own.dtype[i] or around.dtype[i]
        if n is None and out is None:
            n = own.elements[i] if own.elements[i] is not None else around.elements[i]
        dtype.append(d)
        given.append(n)
        known = found.bytes[i] if found.bytes[i] is not None else stated[i]
        total.append(known if known is not None else payload(kind[i], d, n, out, size[i]))
    return {"dtype": dtype, "elements_in": given, "payload_bytes": total}
