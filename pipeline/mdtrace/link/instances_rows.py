"""The collectives of all captures as narrow columns, and the groups they name."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mdtrace.tables.dataset import Dataset

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Inside these arrays a number that is not recorded is NONE; nothing of it is ever written.
NONE = np.iinfo(np.int64).min

# Uneven by design on its members: their sizes say nothing about what belongs together.
UNEVEN_KINDS = ("all_to_all", "gather", "scatter")

_INTEGERS = ("group_size", "seq", "peer_rank", "payload_bytes", "start_ns", "end_ns", "step")
_TEXTS = ("kind", "dtype", "evidence", "group_name", "group_desc", "communicator")
_COLUMNS = ["process_id", "rank", "point_to_point", "group_ranks", *_TEXTS, *_INTEGERS]


@dataclass(frozen=True)
class RawGroup:
    """A group as a row names it."""

    communicator: str | None
    name: str | None
    desc: str | None
    ranks: tuple[int, ...] | None
    size: int | None


@dataclass(frozen=True)
class Rows:
    """The collectives of the dataset in process and table order; all arrays have one length.

    Texts are codes into `texts`; absent numbers and texts are NONE. `group` is a code into `groups`.
    """

    process: Ints
    rank: Ints
    point_to_point: Flags
    kind: Ints
    dtype: Ints
    evidence: Ints
    seq: Ints
    peer: Ints
    bytes: Ints
    start: Ints
    end: Ints
    step: Ints
    group: Ints
    groups: tuple[RawGroup, ...]
    texts: tuple[str, ...]

    def code(self, text: str) -> int:
        """Code of a text; NONE where no row has it."""
        return self.texts.index(text) if text in self.texts else NONE

    def codes(self, texts: tuple[str, ...]) -> list[int]:
        return [self.texts.index(t) for t in texts if t in self.texts]

    def __len__(self) -> int:
        return len(self.process)


class _Texts:
    """Numbers the distinct texts."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def codes(self, column: pa.ChunkedArray) -> Ints:
        encoded = pc.dictionary_encode(column.combine_chunks())
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        own = [self.numbers.setdefault(t, len(self.numbers)) for t in encoded.dictionary.to_pylist()]
        table = np.array([*own, NONE], np.int64)
        codes: Ints = table[pc.fill_null(encoded.indices, len(own)).to_numpy(zero_copy_only=False)]
        return codes


def read_rows(dataset: Dataset) -> Rows:
    """The collectives of a dataset; reads file by file, so that the member lists never stand side by side."""
    texts, groups = _Texts(), dict[RawGroup, int]()
    parts = [_part(pq.read_table(f, columns=_COLUMNS), texts, groups) for f in dataset.files["collectives"]]
    names = [f.name for f in fields(Rows) if f.name not in ("groups", "texts")]
    dtypes = {n: np.bool_ if n == "point_to_point" else np.int64 for n in names}
    arrays = {n: np.concatenate([np.empty(0, dtypes[n]), *(p[n] for p in parts)]) for n in names}
    return Rows(**arrays, groups=tuple(groups), texts=tuple(texts.numbers))


def _part(table: pa.Table, texts: _Texts, groups: dict[RawGroup, int]) -> dict[str, Any]:
    """One file's rows as arrays."""
    ints = {name: integers(table.column(name)) for name in (*_INTEGERS, "process_id", "rank")}
    codes = {name: texts.codes(table.column(name)) for name in _TEXTS}
    return {
        "process": ints["process_id"],
        "rank": ints["rank"],
        "point_to_point": table.column("point_to_point").to_numpy(),
        "seq": ints["seq"],
        "peer": ints["peer_rank"],
        "bytes": ints["payload_bytes"],
        "start": ints["start_ns"],
        "end": ints["end_ns"],
        "step": ints["step"],
        **{name: codes[name] for name in ("kind", "dtype", "evidence")},
        "group": _groups(table, codes, ints["group_size"], groups, list(texts.numbers)),
    }


def integers(column: pa.ChunkedArray) -> Ints:
    """An integer column as int64, NONE where it is NULL."""
    values: Ints = pc.fill_null(column.cast(pa.int64()), NONE).to_numpy()
    return values


def _groups(
    table: pa.Table, codes: dict[str, Ints], sizes: Ints, groups: dict[RawGroup, int], texts: list[str]
) -> Ints:
    """Code of each row's group; new groups are added to `groups`."""
    lists = table.column("group_ranks").combine_chunks()
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    named = [codes[n] for n in ("communicator", "group_name", "group_desc")]
    keys = np.stack([*named, sizes, _fingerprints(lists)], axis=1)
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    own = []
    for row in first.tolist():
        text = [None if c[row] == NONE else texts[c[row]] for c in named]
        ranks = lists[row].as_py()
        size = None if sizes[row] == NONE else int(sizes[row])
        members = tuple(sorted(set(ranks))) if ranks else None
        size = len(members) if size is None and members is not None else size
        own.append(groups.setdefault(RawGroup(text[0], text[1], text[2], members, size), len(groups)))
    return np.array(own, np.int64)[inverse.reshape(-1)]


def _fingerprints(lists: pa.ListArray) -> Ints:
    """A number per list, equal for equal lists (64 random bits: chance equality does not happen)."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(offsets)
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0]).to_numpy(zero_copy_only=False)
    values = values.astype(np.uint64)
    place = np.arange(len(values), dtype=np.uint64) - np.repeat(offsets[:-1] - offsets[0], lengths).astype(
        np.uint64
    )
    mixed = _mix(values * np.uint64(0x9E3779B97F4A7C15) + _mix(place + np.uint64(1)))
    sums = np.concatenate([[np.uint64(0)], np.cumsum(mixed, dtype=np.uint64)])
    starts = offsets - offsets[0]
    total = sums[starts[1:]] - sums[starts[:-1]]
    fingerprints: Ints = (total ^ lengths.astype(np.uint64)).astype(np.int64)
    return fingerprints


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spreads the bits (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def runs(*keys: Ints) -> Iterator[tuple[int, int]]:
    """Bounds of the runs of equal keys in sorted arrays."""
    bounds = [0, *boundaries(*keys).tolist(), len(keys[0])]
    return pairwise(bounds) if len(keys[0]) else iter(())


def boundaries(*keys: Ints | Flags) -> Ints:
    """Positions at which any of the keys differs from its predecessor."""
    changed = np.zeros(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        changed |= key[1:] != key[:-1]
    return np.flatnonzero(changed) + 1
