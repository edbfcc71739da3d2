"""What stands for a collective in a process: kernels, records of backends, ranges named like one."""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from mdtrace.ingest.classify import collective_kind
from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, names
from mdtrace.link.groups import Groups, find_groups
from mdtrace.link.launches import DeviceLinks
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, nearest_of
from mdtrace.link.patterns import BACKEND, BESIDE_KERNELS, COLLECTIVE_RANGE, ENCLOSING, LIBRARY_CALL
from mdtrace.link.records import Records, recorded_names

PAIRS = ("send", "recv", "send_recv")  # transfers between two rather than collectives of a group


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


def of_kernels(
    staged: StagedProcess, host: HostOps, nest: Nest, links: DeviceLinks, records: Records, kernels: Rows
) -> Found:
    """Communication kernels. What they do is told by their own arguments, else by the records around their
    launch, the library's call, the group of calls, the operator; else by their own name; else by any range
    named like a collective.

    Args:
        kernels: their rows in device_ops.
    """
    inner = links.inner[kernels]
    lender = records.around(nest, inner)
    nvtx, own_records = host.kind("nvtx"), host.kind("operator", "annotation")
    backend = _around(nest, host.names.match(BACKEND, own_records), inner)
    enclosing = _around(nest, host.names.match(ENCLOSING, own_records), inner)
    call = _around(nest, host.names.match(LIBRARY_CALL, nvtx), inner)
    named = _around(nest, host.names.match(COLLECTIVE_RANGE, nvtx), inner)
    groups = find_groups(host, nest, records, inner)
    label, own = host.names.at(backend), names(staged, "device_ops").at(kernels)
    numbers = [records.device[kernels], *records.numbers(nest, lender)]
    hints = [*(recorded_names(records, n) for n in numbers), label, host.names.at(call), groups.names]
    hints += [host.names.at(enclosing), own, host.names.at(named)]
    pointed = np.where(lender != NONE, lender, np.where(backend != NONE, backend, links.host[kernels]))
    return Found(
        "kernel",
        kernels,
        [name or "" for name in own],
        hints,
        numbers,
        backend,
        enclosing,
        pointed,
        _members(groups, label),
        groups.bytes,
        np.array(groups.record, np.int64),
    )


def _around(nest: Nest, wanted: Flags, rows: Rows) -> Rows:
    return nearest_of(nest.parent, wanted, rows)


def _members(groups: Groups, label: list[str | None]) -> list[int]:
    """Calls in the group of each kernel; a collective that the backend itself made of several is one."""
    return [
        1 if text and collective_kind(text) not in ("unknown", *PAIRS) else count
        for text, count in zip(label, groups.members, strict=True)
    ]


def of_backends(host: HostOps, nest: Nest, records: Records, *, beside: bool) -> Found:
    """Records that backends leave of each operation; beside kernels only of backends that have none."""
    pattern = BESIDE_KERNELS if beside else BACKEND
    own = host.kind("operator", "annotation") & ~host.duplicate & ~host.form("mark")
    rows = _known(host, host.names.match(pattern, own))
    if not len(rows) and not beside:  # the parameters' record alone
        told = np.flatnonzero(own & (records.host != NONE))
        recorded = recorded_names(records, records.host[told])
        rows = told[np.array([collective_kind(name or "") != "unknown" for name in recorded], np.bool_)]
    rows = _without_inner(nest, rows)
    lender = records.around(nest, rows)
    enclosing = _around(nest, host.names.match(ENCLOSING, host.kind("operator")), rows)
    return _of_host("host record", host, records, rows, records.numbers(nest, lender), enclosing)


def _of_host(
    evidence: str, host: HostOps, records: Records, rows: Rows, numbers: list[Rows], enclosing: Rows
) -> Found:
    own = host.names.at(rows)
    hints = [own, *(recorded_names(records, number) for number in numbers)]
    names_ = [n or "" for n in own]
    ones: list[int] = [1] * len(rows)
    nothing: list[int | None] = [None] * len(rows)
    none = np.full(len(rows), NONE, np.int64)
    return Found(evidence, rows, names_, hints, numbers, rows, enclosing, rows, ones, nothing, none)


def _known(host: HostOps, among: Flags) -> Rows:
    """Of some rows those whose name tells a collective."""
    return np.flatnonzero(host.names.where(lambda text: collective_kind(text) != "unknown", among))


def _without_inner(nest: Nest, rows: Rows) -> Rows:
    """Rows that do not lie inside another of them."""
    chosen = np.zeros(len(nest.parent), np.bool_)
    chosen[rows] = True
    outermost: Rows = rows[nearest_of(nest.parent, chosen, nest.parent[rows]) == NONE]
    return outermost


def of_ranges(host: HostOps, nest: Nest, records: Records) -> Found:
    """NVTX ranges named like collectives, the innermost of each kind; ranges that may cross threads only
    where none of the kind nests inside their time on the thread."""
    named = host.kind("nvtx") & ~host.duplicate & ~host.form("mark")
    rows = _known(host, host.names.match(COLLECTIVE_RANGE, named))
    nested = rows[nest.nested[rows]]
    free = rows[~nest.nested[rows]]
    inner = _innermost(host, nest, nested)
    kept = free[~_holding(host, free, inner)]
    rows = np.sort(np.concatenate((inner, kept)))
    none = np.full(len(rows), NONE, np.int64)
    lender = records.around(nest, rows)
    return _of_host("range", host, records, rows, records.numbers(nest, lender), none)


def _kinds(host: HostOps, rows: Rows) -> Rows:
    """A number for the kind of collective that the name of each row tells."""
    numbers: dict[str, int] = {}
    told = [collective_kind(text or "") for text in host.names.at(rows)]
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in told], np.int64)


def _innermost(host: HostOps, nest: Nest, rows: Rows) -> Rows:
    """Rows, ascending, that have no other of their kind inside."""
    chosen = np.zeros(len(nest.parent), np.bool_)
    chosen[rows] = True
    around = _around(nest, chosen, nest.parent[rows])
    inside = np.flatnonzero(around != NONE)
    kind = _kinds(host, rows)
    place = np.searchsorted(rows, around[inside])
    outer = place[kind[place] == kind[inside]]
    return np.delete(rows, outer)


def _holding(host: HostOps, free: Rows, inner: Rows) -> Flags:
    """Which ranges have a nested one of their kind and thread inside: the first to start in them."""
    kind = _kinds(host, np.concatenate((inner, free)))
    order = np.lexsort((host.start[inner], kind[: len(inner)], host.thread[inner]))
    columns = (host.thread[inner], kind[: len(inner)], host.start[inner])
    key = list(zip(*(column[order].tolist() for column in columns), strict=True))
    ends = host.end[inner[order]].tolist()
    holding = np.zeros(len(free), np.bool_)
    for i, (row, number) in enumerate(zip(free.tolist(), kind[len(inner) :].tolist(), strict=True)):
        mine = (int(host.thread[row]), number, int(host.start[row]))
        place = bisect_left(key, mine)
        if place < len(key) and key[place][:2] == mine[:2]:
            holding[i] = ends[place] <= host.end[row]
    return holding
