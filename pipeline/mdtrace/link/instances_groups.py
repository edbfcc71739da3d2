"""Which group a collective belongs to: what its members call the same group is one group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mdtrace.link.instances_rows import NONE, Ints, RawGroup, Rows

NO_GROUP = -1


@dataclass(frozen=True)
class Group:
    """A group of the job; all fields but size may be unknown."""

    communicator: str | None
    name: str | None
    desc: str | None
    ranks: tuple[int, ...] | None
    size: int | None


def resolve_groups(rows: Rows, world_size: int | None) -> tuple[Ints, list[Group]]:
    """Number the groups of the job.

    A group is known by its members or communicator id, and its name. Rows that have the name only get
    the one group of that name that their rank is in; rows that have nothing get the job's only
    group, where it has one. The others have no group.

    Args:
        world_size: ranks in the job, NULL if unknown; the size of a group that is the whole job.

    Returns:
        per row the number of its group, NO_GROUP where it cannot be told; and the groups.
    """
    users = _users(rows)
    keys: dict[int, tuple[object, ...] | None] = {
        code: _named(group, users[code], rows.groups) for code, group in enumerate(rows.groups)
    }
    for code, key in _unnamed(rows, keys, users, world_size).items():
        keys[code] = key
    numbers: dict[tuple[object, ...], int] = {}
    described: list[Group] = []
    table = np.full(len(rows.groups), NO_GROUP, np.int64)
    best_known_first = sorted(keys, key=lambda c: (rows.groups[c].ranks is None, c))
    for code in best_known_first:
        key = keys[code]
        if key is None:
            continue
        if key not in numbers:
            numbers[key] = len(numbers)
            described.append(_describe(rows.groups[code], world_size))
        table[code] = numbers[key]
    return table[rows.group], described


def _key(group: RawGroup) -> tuple[object, ...]:
    return (group.ranks or group.communicator, group.name)


def _users(rows: Rows) -> list[set[int]]:
    """By group code the ranks whose rows name it."""
    pairs = np.unique(np.stack([rows.group, rows.rank], axis=1), axis=0)
    users: list[set[int]] = [set() for _ in rows.groups]
    for code, rank in pairs.tolist():
        if rank != NONE:
            users[code].add(rank)
    return users


def _named(group: RawGroup, users: set[int], groups: Iterable[RawGroup]) -> tuple[object, ...] | None:
    """Key of a group that rows name in some way; None where they name nothing."""
    if group.ranks or group.communicator:
        return _key(group)
    if group.name is None:
        return None
    fuller = (g for g in groups if (g.ranks or g.communicator) and g.name == group.name)
    like = {_key(g) for g in fuller if g.ranks is None or users <= set(g.ranks)}
    return like.pop() if len(like) == 1 else ("name", group.name)


def _unnamed(
    rows: Rows,
    keys: Mapping[int, tuple[object, ...] | None],
    users: Sequence[set[int]],
    world_size: int | None,
) -> dict[int, tuple[object, ...] | None]:
    """Keys of the groups of rows that name none: the job's only group, if it has one.

    Groups that only point-to-point transfers use do not count: they are no group of collectives.
    """
    unnamed = [code for code, key in keys.items() if key is None]
    pairs = np.isin(rows.kind, rows.codes(("send", "recv"))) | rows.point_to_point
    in_use = {int(c) for c in np.unique(rows.group[~pairs])}
    known = {code: key for code, key in keys.items() if key is not None and code in in_use}
    found: dict[int, tuple[object, ...] | None] = {}
    everyone = world_size if world_size is not None else len(set[int]().union(*users))
    for code in unnamed:
        size = rows.groups[code].size
        like = {key for c, key in known.items() if size is None or rows.groups[c].size in (None, size)}
        if known:
            found[code] = like.pop() if len(like) == 1 else None
        else:
            found[code] = ("the job",) if size is None or size >= everyone else None
    return found


def _describe(raw: RawGroup, world_size: int | None) -> Group:
    whole_job = raw.ranks is None and raw.communicator is None and raw.name is None
    size = raw.size if raw.size is not None else world_size if whole_job else None
    return Group(raw.communicator, raw.name, raw.desc, raw.ranks, size)
