"""Which collectives a process took part in, and with what arguments."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mdtrace.ingest.classify import collective_kind
from mdtrace.ingest.stage import StagedProcess, conform, staged_schema
from mdtrace.link.columns import HostOps, closed, flags, ids, integers, names, nullable
from mdtrace.link.evidence import PAIRS, Found, of_backends, of_kernels, of_ranges
from mdtrace.link.launches import DeviceLinks
from mdtrace.link.nesting import Nest, Rows, Times
from mdtrace.link.records import Records, lent, payload, read_records, shapes
from mdtrace.link.steps import Steps


def find_collectives(
    staged: StagedProcess,
    host: HostOps,
    nest: Nest,
    links: DeviceLinks,
    times: tuple[Times, Times],
    steps: Steps,
    process_id: int,
) -> pa.Table:
    """Rows of `collectives`, in order of the kinds of evidence, then of the file.

    Where the process has communication kernels, each is one collective, and host records only lend it
    arguments: those of the kernel itself, else of the nearest host event with some around its launch. Beside
    them stand records of CPU backends (gloo, MPI), which never have a kernel. Without such kernels one record
    of a backend is one collective; without those, one NVTX range named like one, the innermost of its kind.
    Where the reader staged collectives (Horovod), it has told all of them: their host events are not more.

    Args:
        times: starts and ends of device_ops.
    """
    if staged.rows("collectives"):
        return staged_schema("collectives").empty_table()
    records = read_records(staged)
    communication = names(staged, "device_ops", "class").where(lambda c: c == "communication")
    kernels = np.flatnonzero(communication & ~flags(staged, "device_ops", "duplicate"))
    found = []
    if len(kernels):
        found.append(of_kernels(staged, host, nest, links, records, kernels))
    found.append(of_backends(host, nest, records, beside=bool(len(kernels))))
    if not len(kernels) and not len(found[-1].rows):
        found.append(of_ranges(host, nest, records))
    tables = [_table(staged, host, links, times, steps, records, f, process_id) for f in found]
    return pa.concat_tables(tables)


def _table(
    staged: StagedProcess,
    host: HostOps,
    links: DeviceLinks,
    times: tuple[Times, Times],
    steps: Steps,
    records: Records,
    found: Found,
    process_id: int,
) -> pa.Table:
    """Rows of the table for one kind of evidence."""
    arguments = lent(records, *found.record, group=found.group)
    kind = [_first_kind(names_) for names_ in zip(*found.hints, strict=True)]
    sizes = _sizes(host, found, arguments, kind)
    told = arguments["point_to_point"].to_pylist()
    pairs = np.array(
        [k in PAIRS or (k == "unknown" and t) for k, t in zip(kind, told, strict=True)], np.bool_
    )
    columns = {
        **arguments,
        **sizes,
        **(
            _on_device(staged, links, times, found.rows)
            if found.evidence == "kernel"
            else _on_host(host, steps, found.rows)
        ),
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
    """The kind that the first name tells; that something was coalesced says least, so it comes last."""
    told = [name for name in names_ if name and collective_kind(name) != "unknown"]
    told.sort(key=lambda name: collective_kind(name) == "send_recv" and "coalesced" in name)
    return collective_kind(told[0]) if told else "unknown"


def _on_device(
    staged: StagedProcess, links: DeviceLinks, times: tuple[Times, Times], rows: Rows
) -> dict[str, Any]:
    start, end = times
    return {
        "device_id": nullable(integers(staged, "device_ops", "device_id")[rows], pa.int32()),
        "stream_id": nullable(integers(staged, "device_ops", "stream_id")[rows], pa.int64()),
        "start_ns": start[rows],
        "end_ns": closed(end[rows]),
        "step": nullable(links.step[rows], pa.int64()),
    }


def _on_host(host: HostOps, steps: Steps, rows: Rows) -> dict[str, Any]:
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
        given.append(_possible(n))
        known = found.bytes[i] if found.bytes[i] is not None else stated[i]
        total.append(_possible(known if known is not None else payload(kind[i], d, n, out, size[i])))
    return {"dtype": dtype, "elements_in": given, "payload_bytes": total}


def _possible(size: int | None) -> int | None:
    """A size that an int64 holds; more than that no message has, so it is not known."""
    return size if size is not None and size < 1 << 63 else None
