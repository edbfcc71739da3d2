"""What collectives are told by: recorded arguments of kernels and host events, and shapes of operators."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.classify import DTYPE_BYTES, short_dtype
from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps
from mdtrace.link.nesting import NONE, Nest, Rows, nearest_of, take

ARGUMENTS = (
    "group_name",
    "group_desc",
    "group_ranks",
    "group_size",
    "communicator",
    "seq",
    "peer_rank",
    "dtype",
    "elements_in",
    "elements_out",
    "payload_bytes",
)

_GROUP = ("group_name", "group_desc", "group_ranks", "group_size", "communicator", "dtype")


@dataclass(frozen=True)
class Records:
    """Recorded arguments (`table`), and by row of device_ops and host_ops which of them is the row's own."""

    table: pa.Table
    device: Rows
    host: Rows

    def around(self, nest: Nest, rows: Rows) -> Rows:
        """The host event with arguments at or around each host event, NONE where there is none."""
        return nearest_of(nest.parent, self.host != NONE, rows)

    def numbers(self, nest: Nest, lender: Rows) -> list[Rows]:
        """Numbers of the lenders' records and of the next ones around them: inside the record of parameters
        lies the backend's own, which states shapes only."""
        outer = self.around(nest, take(nest.parent, lender))
        return [take(self.host, lender), take(self.host, outer)]


def read_records(staged: StagedProcess) -> Records:
    """The staged records; of several on one row the first, and none whose row is not there."""
    table = staged.table("comm_records")
    row = table.column("row").fill_null(NONE).to_numpy()
    anchor = table.column("anchor")
    found = []
    for name in ("device_ops", "host_ops"):
        own = np.full(staged.rows(name), NONE, np.int64)
        mine = pc.equal(anchor, name).fill_null(False).to_numpy(zero_copy_only=False)
        numbers = np.flatnonzero(mine & (row >= 0) & (row < len(own)))[::-1]
        own[row[numbers]] = numbers
        found.append(own)
    return Records(table, found[0], found[1])


def lent(records: Records, *numbers: Rows, group: Rows | None = None) -> dict[str, pa.Array]:
    """Arguments by collective: of the first record of each that states them.

    Args:
        numbers: numbers of records by collective, NONE for no record; those that win come first.
        group: the same, of records that tell about group and type alone.
    """
    columns = {}
    for name in (*ARGUMENTS, "name", "point_to_point"):
        column = records.table.column(name).combine_chunks()
        asked = (*numbers, group) if group is not None and name in _GROUP else numbers
        columns[name] = pc.coalesce(*(_at(column, n) for n in asked))
    return columns


def recorded_names(records: Records, numbers: Rows) -> list[str | None]:
    """The collective's name in each record, None for the number NONE."""
    found: list[str | None] = _at(records.table.column("name").combine_chunks(), numbers).to_pylist()
    return found


def _at(column: pa.Array, numbers: Rows) -> pa.Array:
    return column.take(pa.array(numbers, pa.int64(), mask=numbers == NONE))


@dataclass(frozen=True)
class Shapes:
    """Inputs of some host events: how many elements in all, and of which type; None where not known."""

    elements: list[int | None]
    dtype: list[str | None]


def shapes(host: HostOps, rows: Rows, *, first_only: bool) -> Shapes:
    """Elements and types of the inputs recorded at some rows of host_ops.

    Args:
        rows: rows, NONE for none.
        first_only: count the first argument alone (of an operator, the tensors it works on; behind them stand
            outputs and options). Else all of them: a backend's own record lists its input tensors.
    """
    texts = _texts(host, rows, "input_dims", "input_types")
    found = [_shape(dims, types, first_only) for dims, types in texts]
    return Shapes([e for e, _ in found], [d for _, d in found])


def _texts(host: HostOps, rows: Rows, *columns: str) -> list[tuple[Any, ...]]:
    """Values of text columns at some rows, None for the row NONE; reads a batch at a time."""
    wanted = np.unique(rows[rows != NONE])
    values: dict[int, tuple[Any, ...]] = {NONE: (None,) * len(columns)}
    first = 0
    for batch in host.staged.batches("host_ops", columns=list(columns)) if len(wanted) else ():
        mine = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, first + batch.num_rows)]
        taken = batch.take(pa.array(mine - first))
        values.update(
            zip(mine.tolist(), zip(*(taken.column(c).to_pylist() for c in columns), strict=True), strict=True)
        )
        first += batch.num_rows
    return [values[row] for row in rows.tolist()]


@lru_cache(maxsize=4096)
def _shape(dims: str | None, types: str | None, first_only: bool) -> tuple[int | None, str | None]:
    shape, kinds = _json_list(dims), _json_list(types)
    if first_only:
        shape, kinds = shape[:1], kinds[:1]
    known = [d for d in (short_dtype(k) for k in kinds if isinstance(k, str)) if d]
    dtype = known[0] if len(set(known)) == 1 else None
    counts = [c for c in (_count(s) for s in shape) if c is not None]
    if not counts and dtype and len(shape) == 1:
        return 1, dtype  # a tensor without dimensions
    return (sum(counts) if counts else None), dtype


def _json_list(text: str | None) -> list[Any]:
    try:
        value = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _count(dims: Any) -> int | None:
    """Elements of a tensor's dimensions, or of a list of tensors'; None where there are none."""
    if not isinstance(dims, list) or not dims:
        return None
    if all(isinstance(d, int) and d >= 0 for d in dims):
        product = int(np.prod(np.array(dims, object)))
        return product if product < 1 << 62 else None
    inner = [c for c in (_count(d) for d in dims if isinstance(d, list) and not _deep(d)) if c is not None]
    return sum(inner) if inner else None


def _deep(dims: list[Any]) -> bool:
    """Whether this is more than one tensor's dimensions: lists of lists of tensors are not counted."""
    return any(isinstance(d, list) for d in dims)


def payload(kind: str, dtype: str | None, given: int | None, out: int | None, size: int | None) -> int | None:
    """Bytes as nccl-tests counts them: all-gather its output, all others their input.

    What is missing follows from the group's size; a receive has its output alone.

    Args:
        given, out: elements in and out.
        size: members of the group.
    """
    elements = given
    if kind == "all_gather":
        elements = out if out is not None else _times(given, size)
    elif kind == "reduce_scatter" and given is None:
        elements = _times(out, size)
    elif given is None or (kind == "recv" and out):
        elements = out if kind in ("recv", "all_reduce", "all_to_all", "broadcast", "send_recv") else given
    return None if elements is None or dtype not in DTYPE_BYTES else elements * DTYPE_BYTES[dtype]


def _times(elements: int | None, size: int | None) -> int | None:
    return None if elements is None or size is None else elements * size
