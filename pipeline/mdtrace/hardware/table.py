"""The hardware table and the user's file over it."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from mdtrace.errors import InputError, UsageError
from mdtrace.hardware.entry import Entry, Sources, read_entries

EMPIRICAL = "empirical"
_FILES = ("nvidia.toml", "amd.toml")
_GROUPS = {
    "peaks": ("matrix_tflops", "vector_tflops"),
    "memory": ("memory_gb_per_s",),
    "link": ("link_gb_per_s",),
    "internode": ("internode_gb_per_s",),
}


@dataclass(frozen=True)
class Chosen:
    """Which roofs to use.

    Attributes:
        entries: what device names are matched against, the user's first.
        own: ids of entries that the user's file gives or changes.
        all_devices: the entry that holds for every device, whatever its name.
        empirical: use the best achieved in the data only.
    """

    entries: tuple[Entry, ...]
    own: frozenset[str] = frozenset()
    all_devices: Entry | None = None
    empirical: bool = False


@cache
def table() -> dict[str, Entry]:
    """The packaged entries by id."""
    found: dict[str, Entry] = {}
    folder = files("mdtrace.hardware") / "data"
    for file in _FILES:
        found |= read_entries((folder / file).read_text("utf-8"), file)
    return found


def choose(hardware: str | None = None) -> Chosen:
    """The roofs that a user names: an entry's id, a TOML file, `empirical`, or nothing: by device names.

    A file with one entry holds for all devices; one with several is matched by name, before the table.

    Raises:
        UsageError: neither an entry nor a file.
        InputError: the file cannot be used.
    """
    if not hardware:
        return Chosen(tuple(table().values()))
    if hardware == EMPIRICAL:
        return Chosen((), empirical=True)
    if hardware.lower() in table():
        entry = table()[hardware.lower()]
        return Chosen((entry,), all_devices=entry)
    if not hardware.endswith(".toml"):
        raise no_such(hardware)
    own = read_file(Path(hardware))
    rest = (e for e in table().values() if e.id not in own)
    only = next(iter(own.values())) if len(own) == 1 else None
    return Chosen((*own.values(), *rest), frozenset(own), all_devices=only)


def no_such(name: str) -> UsageError:
    """The error for a name that the table does not know, with those closest to it."""
    closest = difflib.get_close_matches(name.lower(), [*table(), EMPIRICAL])
    near = f"closest: {', '.join(closest)}; " if closest else ""
    return UsageError(f"{name}: no such hardware", f"{near}all names: mdtrace hardware; or give a .toml file")


def read_file(path: Path) -> dict[str, Entry]:
    """The entries of a user's file, completed by the entry of the same id or that they name with `like`.

    Raises:
        InputError: it cannot be read, is not as declared, or names an entry that there is not.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"{path.name}: cannot be read: {why}") from error
    given = read_entries(text, path.name)
    if not given:
        raise InputError(f"{path.name}: holds no device", "see mdtrace hardware calibrate -o my.toml")
    return {id_: _completed(entry, path.name) for id_, entry in given.items()}


def _completed(entry: Entry, file: str) -> Entry:
    base = table().get(entry.like or entry.id)
    if entry.like is not None and base is None:
        raise InputError(f"{file}: [{entry.id}]: like = {entry.like}: no such hardware")
    given = msgspec.structs.asdict(entry)
    defaults = msgspec.structs.asdict(Entry())
    changed = {k: v for k, v in given.items() if v != defaults[k]}
    if base is not None:
        if changed["name"] == entry.id:
            del changed["name"]
        for key in ("matrix_tflops", "vector_tflops"):
            changed[key] = {**getattr(base, key), **given[key]}
    changed["sources"] = _sources(entry, base, file)
    return msgspec.structs.replace(base or Entry(), **changed)


def _sources(entry: Entry, base: Entry | None, file: str) -> Sources:
    """A source for each group of numbers: as given, else the file that gives the numbers, else the base's."""
    found: dict[str, str | None] = {}
    for group, keys in _GROUPS.items():
        stated = getattr(entry.sources, group)
        theirs = getattr(base.sources, group) if base else None
        found[group] = stated or (file if any(getattr(entry, k) for k in keys) else theirs)
    return Sources(**found)


def find(name: str, entries: Iterable[Entry] | None = None) -> list[Entry]:
    """Entries whose id, name or matches contain a text, whatever its case."""
    wanted = name.lower()
    exact = table().get(wanted)
    if exact is not None and entries is None:
        return [exact]
    pool = table().values() if entries is None else entries
    return [e for e in pool if any(wanted in text.lower() for text in (e.id, e.name, *e.matches))]
