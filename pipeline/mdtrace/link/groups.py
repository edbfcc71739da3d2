"""Grouped NCCL calls: what was called between ncclGroupStart and the ncclGroupEnd that launched a kernel."""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mdtrace.ingest.classify import collective_kind
from mdtrace.link.columns import HostOps
from mdtrace.link.nesting import NONE, Nest, Rows, nearest_of
from mdtrace.link.records import Records

_CALL = re.compile(r"^p?[nr]ccl(?:Group(?:Start|End)|[A-Z]\w*)")
_START = re.compile(r"^p?[nr]cclGroupStart")
_END = re.compile(r"^p?[nr]cclGroupEnd")


@dataclass(frozen=True)
class Groups:
    """The group that launched each kernel, by kernel.

    Attributes:
        names: what the group does, None where no group, or one of several things, launched the kernel.
        members: calls in the group, 1 without one.
        bytes: their payload together, None where not all of them state it.
        record: number of a record that tells their communicator, NONE where they do not share one.
    """

    names: list[str | None]
    members: list[int]
    bytes: list[int | None]
    record: list[int]


def find_groups(host: HostOps, nest: Nest, records: Records, inner: Rows) -> Groups:
    """Groups from NVTX ranges of NCCL calls.

    A kernel launched inside an ncclGroupEnd stands for the calls since the thread's outermost ncclGroupStart.
    Where a group launched several kernels, nothing tells which calls are whose.

    Args:
        inner: the innermost host event around the launch of each kernel.
    """
    ends = nearest_of(nest.parent, host.names.match(_END, host.kind("nvtx")), inner)
    if not (ends != NONE).any():
        return Groups([None] * len(ends), [1] * len(ends), [None] * len(ends), [NONE] * len(ends))
    members = _members(host, nest)
    shared = Counter(ends.tolist())
    groups = Groups([], [], [], [])
    for end in ends.tolist():
        calls = members.get(end, []) if end != NONE and shared[end] == 1 else []
        kinds = [collective_kind(host.names.text(c) or "") for c in calls]
        groups.names.append(_together(kinds))
        groups.members.append(max(1, len(calls)))
        groups.bytes.append(_bytes(records, calls, kinds))
        groups.record.append(_shared(records, calls))
    return groups


def _members(host: HostOps, nest: Nest) -> dict[int, list[int]]:
    """The calls that each outermost ncclGroupEnd ends."""
    calls = host.names.match(_CALL, host.kind("nvtx"))
    starts, ends = host.names.match(_START, calls), host.names.match(_END, calls)
    found: dict[int, list[int]] = {}
    level, thread = 0, NONE
    held: list[int] = []
    for row in nest.order[calls[nest.order]].tolist():
        if int(host.thread[row]) != thread:
            level, thread, held = 0, int(host.thread[row]), []
        if starts[row]:
            level += 1
        elif ends[row]:
            level -= 1
            if level <= 0:
                found[row] = held
                level, held = 0, []
        elif level and collective_kind(host.names.text(row) or "") != "unknown":
            held.append(row)
    return found


def _together(kinds: list[str]) -> str | None:
    if not kinds:
        return None
    return kinds[0] if len(set(kinds)) == 1 else ("send_recv" if set(kinds) == {"send", "recv"} else None)


def _shared(records: Records, calls: list[int]) -> int:
    """A record of the calls, if all have one and name the same communicator."""
    numbers = [int(records.host[c]) for c in calls]
    if not numbers or NONE in numbers:
        return NONE
    told = records.table.column("communicator").combine_chunks().take(pa.array(numbers)).to_pylist()
    return numbers[0] if len(set(told)) == 1 else NONE


def _bytes(records: Records, calls: list[int], kinds: list[str]) -> int | None:
    """What the calls carry: of exchanges what is sent, else received."""
    if {"send", "recv"} == set(kinds):
        calls = [c for c, k in zip(calls, kinds, strict=True) if k == "send"]
    numbers = records.host[np.array(calls, np.int64)] if calls else np.empty(0, np.int64)
    if not len(numbers) or NONE in numbers:
        return None
    stated = records.table.column("payload_bytes").combine_chunks().take(pa.array(numbers)).to_pylist()
    return None if None in stated else sum(stated)
