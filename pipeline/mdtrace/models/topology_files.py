"""Topology and cluster files: TOML, checked before use."""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from mdtrace.errors import InputError
from mdtrace.models.topology import Level, Topology

T = TypeVar("T")

Positive = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=60)]


class LevelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[level]]`."""

    name: Name
    gpus: Positive | None = None
    nodes: Positive | None = None
    between_nodes: bool = False


class RunEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[runs.NAME]`: what is known of a dataset beside its traces."""

    gpus: Positive | None = None
    nodes: Positive | None = None
    batch: Amount | None = None


class TopologyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topology file."""

    level: list[LevelEntry]
    exchange: Literal["ring", "hierarchical"] = "ring"
    runs: dict[str, RunEntry] = {}


def read_toml(path: Path, kind: type[T], what: str, *, known: str) -> T:
    """A TOML file as the struct it should be.

    Args:
        what: such as "topology file". known: hint where it is not one.

    Raises:
        InputError: it cannot be read, is no TOML, or holds what it should not.
    """
    try:
        return msgspec.toml.decode(path.read_text("utf-8"), type=kind)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", known) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no {what}: not UTF-8 text", known) from error
    except RecursionError as error:
        raise InputError(f"{path}: no {what}: nested too deeply", known) from error
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: no {what}: {_plain(str(error))}", known) from error


def _plain(message: str) -> str:
    """The message without the decoder's notation."""
    return message.replace(" - at `$.", " at `").replace("`$.", "`").replace("`", "'").replace("[...]", "")


def read_topology(path: Path) -> tuple[Topology, dict[str, RunEntry]]:
    """The topology of a file, and what it says of runs by dataset name.

    Raises:
        InputError: the file cannot be used.
    """
    file = read_toml(path, TopologyFile, "topology file", known="its form: mdtrace predict --help")
    return Topology(tuple(levels(file.level, path)), file.exchange), file.runs


def levels(entries: list[LevelEntry], path: Path) -> list[Level]:
    """The levels, from the closest to the farthest.

    Raises:
        InputError: they are not in that order, or not told apart.
    """
    found = [_level(entry, path) for entry in entries]
    if len({level.name for level in found}) < len(found):
        raise InputError(f"{path}: two levels have the same name", "name each class of links once")
    if [level.between for level in found] != sorted(level.between for level in found):
        raise InputError(f"{path}: a level between nodes stands before one inside", "inside nodes first")
    for before, after in pairwise(found):
        if before.between == after.between and _size(before) >= _size(after):
            raise InputError(
                f"{path}: level {after.name} joins no more than {before.name} before it",
                "order them from the closest links to the farthest",
            )
    return found


def _size(level: Level) -> float:
    size = level.nodes if level.between else level.gpus
    return float("inf") if size is None else size


def _level(entry: LevelEntry, path: Path) -> Level:
    between = entry.between_nodes or entry.nodes is not None
    if between and entry.gpus is not None:
        raise InputError(
            f"{path}: level {entry.name} joins GPUs of a node and nodes", "gpus goes with links inside nodes"
        )
    return Level(entry.name, entry.gpus, entry.nodes, between)
