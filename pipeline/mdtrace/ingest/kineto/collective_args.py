"""Arguments of collectives, on kernels and on host records → comm_records.

A record says no more than its own event does. Group members that the producer cut off after thirty
are looked up in the document's process groups once the whole file is read (see `complete`).
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.classify import collective_kind, short_dtype
from mdtrace.ingest.json_events import decode_lenient
from mdtrace.ingest.kineto.columns import as_int, small, unsigned
from mdtrace.ingest.kineto.events import CommArgs
from mdtrace.ingest.kineto.metadata import Group, rank_list

# Host records of the distributed backends are named like gloo:all_reduce.
_BACKENDS = ("nccl:", "gloo:", "mpi:", "ucc:", "rccl:", "xccl:", "hccl:")
_PARAMS = "record_param_comms"
_LISTS = {"TensorList", "GenericList"}
_LARGEST = 1 << 17  # ranks that are listed where the file states only how many there are


def host_records(labels: pa.Array, collective: Sequence[Any]) -> list[int]:
    """Positions of the host events that record a collective: by their arguments or by their names."""
    mask = pc.equal(labels, _PARAMS)
    for backend in _BACKENDS:
        mask = pc.or_(mask, pc.starts_with(labels, backend))
    named = pc.indices_nonzero(mask.fill_null(False)).to_pylist()
    return sorted({*named, *with_args(collective)})


def with_args(collective: Sequence[Any]) -> list[int]:
    """Positions of the events that have a collective's name among their arguments."""
    if collective.count(None) == len(collective):
        return []
    return [i for i, name in enumerate(collective) if name is not None]


def comm_records(
    anchor: str, rows: Sequence[int], labels: Sequence[str | None], args: Sequence[CommArgs]
) -> dict[str, Any]:
    """Columns of comm_records for events at the given rows of their table.

    Args:
        labels: the events' names, for what their arguments do not say.
    """
    shapes = [_shape(bytes(a.input_dims), bytes(a.input_types)) for a in args]
    recorded = [a.collective if isinstance(a.collective, str) else None for a in args]
    kinds = [collective_kind(name or label or "") for name, label in zip(recorded, labels, strict=True)]
    dtypes = [short_dtype(a.dtype) if isinstance(a.dtype, str) else None for a in args]
    members = [_members(a) for a in args]
    given = [as_int(a.elements_in) for a in args]
    return {
        "anchor": [anchor] * len(rows),
        "row": pa.array(rows, pa.int64()),
        "name": pa.array(recorded, pa.string()),
        "group_name": pa.array([_label(a.group_name) for a in args], pa.string()),
        "group_desc": pa.array([_label(a.group_desc) for a in args], pa.string()),
        "group_ranks": pa.array(members, pa.list_(pa.int32())),
        "group_size": _group_sizes([a.group_size for a in args]),
        "communicator": pa.array([_communicator(a) for a in args], pa.string()),
        "seq": unsigned([a.seq for a in args]),
        "point_to_point": pa.array([kind in ("send", "recv", "send_recv") for kind in kinds]),
        "peer_rank": unsigned([_peer(kind, a) for kind, a in zip(kinds, args, strict=True)], small),
        "dtype": pa.array([d or s[0] for d, s in zip(dtypes, shapes, strict=True)], pa.string()),
        "elements_in": unsigned([s[1] if g is None else g for g, s in zip(given, shapes, strict=True)]),
        "elements_out": unsigned([a.elements_out for a in args]),
    }


def _group_sizes(values: Sequence[Any]) -> pa.Array:
    """A group has members: 0 is as unknown as a negative number."""
    sizes = unsigned(values, small)
    return pc.if_else(pc.equal(sizes, 0), pa.scalar(None, sizes.type), sizes)


def _label(value: Any) -> str | None:
    given = isinstance(value, str | int) and not isinstance(value, bool) and value != ""
    return str(value) if given else None


def _communicator(args: CommArgs) -> str | None:
    """The id as text: it may exceed int64."""
    text = bytes(args.communicator).decode("utf-8", "replace").strip('"')
    return None if text in ("", "null") else text


def _members(args: CommArgs) -> list[int] | None:
    """Listed, or evenly spaced from the first: older backends state just that of their group."""
    listed = rank_list(args.group_ranks)
    if listed or not args.group_ranks or args.group_ranks == "[]":
        return listed
    start, stride, size = as_int(args.rank_start), as_int(args.rank_stride), as_int(args.group_size)
    if start is None or stride is None or size is None or start < 0 or stride < 1 or not 0 < size <= _LARGEST:
        return None
    last = start + stride * (size - 1)
    return list(range(start, last + 1, stride)) if last < 2**31 else None


def _peer(kind: str, args: CommArgs) -> Any:
    if kind == "recv":
        return args.source_rank
    return args.source_rank if kind != "send" and as_int(args.target_rank) in (None, -1) else args.target_rank


@lru_cache(maxsize=4096)
def _shape(input_dims: bytes, input_types: bytes) -> tuple[str | None, int | None]:
    """Element type and number of elements, summed over the tensors that an event lists as inputs."""
    dims, types = decode_lenient(input_dims), decode_lenient(input_types)
    if not isinstance(dims, list) or not isinstance(types, list):
        return None, None
    texts = [t if isinstance(t, str) else "" for t in types]
    # Types of tensors are named as in C++ (float, c10::Half), those of scalars Int, Double, Scalar.
    tensors = [
        (t, d)
        for t, d in zip(texts, dims, strict=False)
        if t in _LISTS or (t[:1].islower() and short_dtype(t))
    ]
    counts = [_elements(d) for _, d in tensors]
    dtypes = {short_dtype(t) for t, _ in tensors if t not in _LISTS}
    if not tensors or None in counts or len(dtypes) > 1:
        return None, None
    return next(iter(dtypes), None), sum(c for c in counts if c is not None)


def _elements(dims: Any) -> int | None:
    """Elements of a tensor of these dimensions, or of a list of tensors."""
    if not isinstance(dims, list):
        return None
    if dims and all(isinstance(d, list) for d in dims):
        parts = [_elements(d) for d in dims]
        return None if None in parts else sum(p for p in parts if p is not None)
    sizes = [as_int(d) for d in dims]
    return None if any(s is None or s < 0 for s in sizes) else math.prod(s for s in sizes if s is not None)


def complete(records: pa.RecordBatch, groups: Mapping[str, Group], world_size: int | None) -> pa.RecordBatch:
    """Records with the members of their groups, as far as the document knows them.

    A record that names no group is given the job's only one; a group as large as the job has all ranks.
    """
    only = next(iter(groups.values())) if len(groups) == 1 else None
    everyone = list(range(world_size)) if world_size and 1 < world_size <= _LARGEST else None

    @lru_cache(maxsize=4096)  # a file has few groups
    def found(name: str | None, size: int | None, listed: bool) -> dict[str, Any]:
        nameless = name is None and size is None and only
        group = only if nameless else groups.get(name or "")
        members = group.size if nameless and group else size
        ranks = everyone if everyone and members == len(everyone) else None
        if group and group.ranks and members == len(group.ranks):
            ranks = group.ranks
        given: dict[str, Any] = {}
        if nameless and group:
            given = {"group_name": group.name, "group_desc": group.desc, "group_size": group.size}
        return given if listed or not ranks else given | {"group_ranks": ranks}

    asked = (records.column(c).to_pylist() for c in ("group_name", "group_size"))
    more = [found(*a) for a in zip(*asked, records.column("group_ranks").is_valid().to_pylist(), strict=True)]
    for name in ("group_name", "group_desc", "group_size", "group_ranks"):
        if any(name in m for m in more):
            place, own = records.schema.get_field_index(name), records.schema.field(name)
            given = pc.coalesce(pa.array([m.get(name) for m in more], own.type), records.column(name))
            records = records.set_column(place, own, given)
    return records
