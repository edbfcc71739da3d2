"""The process captures of a file: who they are, their rank and devices."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from mdtrace.ingest.facts import ProcessFacts
from mdtrace.ingest.nsys.environment import Environment, environment_of
from mdtrace.ingest.nsys.nccl import Membership
from mdtrace.ingest.nsys.source import NO_PROCESS, TableSource, Tally
from mdtrace.ingest.nsys.target import Export, Gpus, device_rows, host_of

_MPI_RANK = re.compile(r"MPI Rank (\d{1,9})")


@dataclass(frozen=True)
class Known:
    """All that tells processes apart and ranks them."""

    export: Export
    gpus: Gpus
    environments: list[Environment]
    mpi_ranks: Mapping[int, int]  # by process key
    members: Membership
    file_pids: list[int]  # pids of the PROCESSES table


def pid_of(key: int) -> int | None:
    """The operating system's pid in a stage key."""
    return None if key == NO_PROCESS else key & 0xFFFFFF


def merge_unknown(keys: list[int]) -> list[tuple[int, ...]]:
    """Stage keys of each capture: rows of unknown process belong to the only process there is."""
    known = sorted(k for k in set(keys) if k != NO_PROCESS)
    if NO_PROCESS not in keys:
        return [(k,) for k in known]
    return [(known[0], NO_PROCESS)] if len(known) == 1 else [(k,) for k in [*known, NO_PROCESS]]


def processes(keys: list[int], known: Known, tally: Tally) -> list[ProcessFacts]:
    """One capture for each process that has events, in the order of their ids."""
    groups = merge_unknown(keys)
    alone = len(groups) == 1
    communicator = _communicator_ranks(known.members)
    return [_process(group, alone, known, communicator, tally) for group in groups]


def _process(
    group: tuple[int, ...],
    alone: bool,
    known: Known,
    communicator: Mapping[int, tuple[int, int]],
    tally: Tally,
) -> ProcessFacts:
    key = group[0]
    pid = pid_of(key)
    if pid is None and alone and len(known.file_pids) == 1:
        pid = known.file_pids[0]
    own = environment_of(pid, known.environments, alone)
    used = {o for k in group for o in tally.devices.get(k, ())}
    facts = ProcessFacts(
        group,
        pid=pid,
        host=host_of(known.export, key),
        devices=device_rows(known.gpus, pid, used, own.visible if own else None),
    )
    _rank(facts, own, known.mpi_ranks.get(key), communicator.get(key))
    return facts


def _rank(
    facts: ProcessFacts, own: Environment | None, mpi: int | None, member: tuple[int, int] | None
) -> None:
    if own is not None:
        facts.world_size, facts.local_rank = own.world_size, own.local_rank
    if own is not None and own.rank is not None:
        facts.rank, facts.rank_origin = own.rank, "environment"
    elif mpi is not None:
        facts.rank, facts.rank_origin = mpi, "communicator"
    elif member is not None and facts.world_size in (None, member[0]):
        (facts.world_size, facts.rank), facts.rank_origin = member, "communicator"


def _communicator_ranks(members: Membership) -> dict[int, tuple[int, int]]:
    """World size and rank by process, where its largest communicators agree and no two claim one rank."""
    ranks: dict[int, tuple[int, int]] = {}
    for key in {k for k, _ in members}:
        mine = [(size, rank) for (k, _), (size, rank) in members.items() if k == key]
        largest = max(size for size, _ in mine)
        claims = {rank for size, rank in mine if size == largest}
        if largest > 1 and len(claims) == 1 and (rank := claims.pop()) is not None:
            ranks[key] = (largest, rank)
    taken = Counter(ranks.values())
    return {key: claim for key, claim in ranks.items() if taken[claim] == 1}


def mpi_ranks(source: TableSource, named_threads: list[tuple[int, str]], tally: Tally) -> dict[int, int]:
    """Ranks in MPI_COMM_WORLD: of the MPI_RANKS table, in older exports of the threads' names."""
    found = {key: int(m.group(1)) for key, name in named_threads if (m := _MPI_RANK.fullmatch(name))}
    for row in source.rows("MPI_RANKS", {"globalTid": "int", "rank": "int"}, tally):
        if row["globalTid"] is not None and row["rank"] is not None and 0 <= row["rank"] < 1 << 31:
            found[row["globalTid"] >> 24] = row["rank"]
    return found


def file_pids(source: TableSource, tally: Tally) -> list[int]:
    """Pids of PROCESSES; its names, which are paths, are not read."""
    rows = source.rows("PROCESSES", {"globalPid": "int", "pid": "int"}, tally)
    return sorted({r["pid"] for r in rows if r["pid"] is not None})
