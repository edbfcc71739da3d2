"""Which entry of the hardware table a device of a trace is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from mdtrace.hardware.entry import Entry

# Files state memory in bytes; labels say GB and mean GiB, less what firmware keeps.
_MEMORY = (0.93, 1.09)
_BANDWIDTH = (0.85, 1.15)


@dataclass(frozen=True)
class Device:
    """What a file says of a device; None: it does not say."""

    name: str | None
    memory_bytes: int | None = None
    compute_units: int | None = None
    memory_bytes_per_s: int | None = None


@dataclass(frozen=True)
class Match:
    """The entry of a device, and what is doubtful about it.

    Attributes:
        entry: None where no entry's name matches.
        doubt: what the name and the device's properties leave open; None: nothing.
    """

    entry: Entry | None
    doubt: str | None = None


def match(device: Device, entries: Sequence[Entry]) -> Match:
    """Match a device by name; where names are the same, by compute units, memory and its bandwidth.

    Of all texts that the name contains as whole words the longest wins. Properties that the file states rule
    out entries that differ; where more than one is left, the first is taken and the others are named.
    """
    if device.name is None:
        return Match(None, "the file names no device")
    lengths = [_longest(entry.matches, device.name) for entry in entries]
    best = max(lengths, default=0)
    named = [e for e, n in zip(entries, lengths, strict=True) if n == best and n]
    if not named:
        return Match(None, f"{device.name} is not in the hardware table")
    fitting = [e for e in named if _fits(device, e)]
    if not fitting:
        return Match(named[0], f"{device.name} has other memory or units than the table's {named[0].name}")
    if len(fitting) == 1:
        return Match(fitting[0])
    others = ", ".join(e.id for e in fitting[1:])
    return Match(fitting[0], f"{device.name} may also be {others}")


def _longest(texts: tuple[str, ...], name: str) -> int:
    return max((len(t) for t in texts if _word(t).search(name)), default=0)


@lru_cache(maxsize=4096)
def _word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])", re.IGNORECASE)


def _fits(device: Device, entry: Entry) -> bool:
    if device.compute_units and entry.compute_units and device.compute_units != entry.compute_units:
        return False
    return _near(device.memory_bytes, entry.memory_gb, _MEMORY) and _near(
        device.memory_bytes_per_s, entry.memory_gb_per_s, _BANDWIDTH
    )


def _near(stated: int | None, giga: float | None, bounds: tuple[float, float]) -> bool:
    return not stated or not giga or bounds[0] <= stated / (giga * 1e9) <= bounds[1]
