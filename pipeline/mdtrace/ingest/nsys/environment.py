"""Rank, world size and visible devices from the environments that nsys keeps; nothing else leaves here.

Newer exports list the variables of each launched process in META_DATA_CAPTURE; older ones keep whole
environment blocks as texts of StringIds, or that of the machine's agent in TARGET_INFO_SYSTEM_ENV.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from mdtrace.ingest.nsys.source import Columns, TableSource, Tally

# Who sets them: torchrun and its kin, then Open MPI, PMI, MVAPICH, Slurm; the first that is set counts.
_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
_LOCAL = (
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
)
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_WANTED = frozenset((*_RANK, *_WORLD, *_LOCAL, _VISIBLE))

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ENTRY = re.compile(r"PROCESS_(\d+):(ENVIRONMENT_VARIABLE|PID)")
_NAME_VALUE: Columns = {"name": "text", "value": "text"}


@dataclass(frozen=True)
class Environment:
    """What one environment says about its process; `pid` where the file ties it to one."""

    pid: int | None
    rank: int | None
    world_size: int | None
    local_rank: int | None
    visible: list[int] | None


def read_environments(source: TableSource, tally: Tally) -> list[Environment]:
    """All environments in the file that say anything of use."""
    found = _captured(source, tally)
    if not found:
        rows = source.rows("TARGET_INFO_SYSTEM_ENV", _NAME_VALUE, tally)
        blocks = [r["value"] for r in rows if r["name"] == "DeviceEnvironment" and r["value"]]
        found = [_environment(None, _block(b)) for b in source.environment_texts() + blocks]
    return [e for e in found if (e.rank, e.world_size, e.local_rank, e.visible) != (None,) * 4]


def _captured(source: TableSource, tally: Tally) -> list[Environment]:
    variables: dict[str, dict[str, str]] = defaultdict(dict)
    pids: dict[str, int] = {}
    for row in source.rows("META_DATA_CAPTURE", _NAME_VALUE, tally):
        entry = _ENTRY.fullmatch(row["name"] or "")
        if entry and entry.group(2) == "PID":
            pids[entry.group(1)] = _integer(row["value"]) or 0
        elif entry:
            variables[entry.group(1)].update(_pick([row["value"] or ""]))
    return [_environment(pids.get(n) or None, some) for n, some in variables.items()]


def _block(text: str) -> dict[str, str]:
    """Wanted variables of an environment block: NAME=value, parted by NUL (or line ends)."""
    pieces = [p for p in text.split("\0" if "\0" in text else "\n") if p]
    named = sum(bool(_VARIABLE.match(p)) for p in pieces)
    return _pick(pieces) if named > 1 and 2 * named > len(pieces) else {}


def _pick(pieces: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for piece in pieces:
        match = _VARIABLE.fullmatch(piece.strip())
        if match and match.group(1) in _WANTED:
            found[match.group(1)] = match.group(2).strip().strip("\"'")
    return found


def _environment(pid: int | None, variables: dict[str, str]) -> Environment:
    rank, world, local = (_first(variables, names) for names in (_RANK, _WORLD, _LOCAL))
    return Environment(pid, rank, world or None, local, _devices(variables.get(_VISIBLE)))


def _first(variables: dict[str, str], names: tuple[str, ...]) -> int | None:
    numbers = (_integer(variables.get(n)) for n in names)
    return next((n for n in numbers if n is not None), None)


def _integer(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,9}", text.strip()) else None


def _devices(text: str | None) -> list[int] | None:
    """CUDA_VISIBLE_DEVICES as GPU ids; None where it is not set or names devices in other ways."""
    if text is None or not re.fullmatch(r"\s*\d{1,3}\s*(?:,\s*\d{1,3}\s*){0,63}", text):
        return None
    return [int(part) for part in text.split(",")]


def environment_of(pid: int | None, environments: list[Environment], alone: bool) -> Environment | None:
    """The environment of a process: its own by pid, else the file's only one if the process is alone.

    A launcher's environment says nothing about the rank of each process that it started.
    """
    own = [e for e in environments if e.pid is not None and e.pid == pid]
    if own:
        return own[0]
    if not alone or not environments:
        return None
    return Environment(
        pid,
        _agreed([e.rank for e in environments]),
        _agreed([e.world_size for e in environments]),
        _agreed([e.local_rank for e in environments]),
        next((e.visible for e in environments if e.visible is not None), None),
    )


def _agreed(values: list[int | None]) -> int | None:
    distinct = {v for v in values if v is not None}
    return distinct.pop() if len(distinct) == 1 else None
