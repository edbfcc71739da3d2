"""Collectives as pieces of work: their cost goes to the operator that started their kernel, else to their
record."""

from collections.abc import Iterator

import pyarrow as pa

from mdtrace.costs import Cost, possible
from mdtrace.costs.collective import MODEL, collective
from mdtrace.link.launches import DeviceLinks
from mdtrace.link.nesting import NONE

__all__ = ["MODEL", "collective_costs"]

_ROW = (1 << 40) - 1  # ids end in the row's number
_COLUMNS = ["kind", "dtype", "elements_in", "elements_out", "group_size", "host_op_id", "device_op_id"]


def collective_costs(found: pa.Table, links: DeviceLinks) -> dict[int, Cost]:
    """Cost by row of host_ops; of several collectives of one row (a group call) the sum."""
    costs: dict[int, Cost] = {}
    for row, cost in _each(found, links):
        costs[row] = _plus(costs[row], cost) if row in costs else cost
    return {row: possible(cost) for row, cost in costs.items()}


def _each(found: pa.Table, links: DeviceLinks) -> Iterator[tuple[int, Cost]]:
    columns = (found.column(c).to_pylist() for c in _COLUMNS)
    for kind, dtype, elements_in, elements_out, ranks, host, device in zip(*columns, strict=True):
        row = NONE if host is None else host & _ROW
        if device is not None:
            row = int(links.host[device & _ROW])
        if row != NONE:
            yield row, collective(kind, dtype, elements_in, elements_out, ranks)


def _plus(a: Cost, b: Cost) -> Cost:
    def both(x: int | None, y: int | None) -> int | None:
        return None if x is None or y is None else x + y

    dtype = a.dtype if a.dtype == b.dtype else None
    return Cost(both(a.flops, b.flops), both(a.bytes, b.bytes), dtype, a.reason or b.reason)
