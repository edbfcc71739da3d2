"""The two forms in which events come out of the decoder, behind one face: see `events` and `typed`."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mdtrace.ingest.kineto.arguments import ArgsDecoder
from mdtrace.ingest.kineto.events import (
    KNOWN,
    SKIPPED,
    DeviceArgs,
    Event,
    HostArgs,
    LaunchArgs,
    MemoryArgs,
    Phase,
    Routes,
    Table,
)
from mdtrace.ingest.kineto.times import exact_doubles, nanoseconds
from mdtrace.ingest.kineto.typed import PASSED, STORED, MemoryMark

MEMORY = "[memory]"
_SIGNS = ("i", "I")

Events = Sequence[Any]  # all of one form
Times = tuple[NDArray[np.int64], NDArray[np.bool_]]
Passed = Iterable[tuple[tuple[str | None, Phase | None], int]]
ArgsOf = Table | Literal["memory"]


@dataclass
class Held:
    """Events of one form waiting to be staged, each list in file order."""

    host_ops: list[Any] = field(default_factory=list)
    launches: list[Any] = field(default_factory=list)
    device_ops: list[Any] = field(default_factory=list)
    memory: list[Any] = field(default_factory=list)
    unsure: list[Any] = field(default_factory=list)  # of categories that are not known
    aside: list[Any] = field(default_factory=list)  # not stored

    def __len__(self) -> int:
        stored = (self.host_ops, self.launches, self.device_ops, self.memory, self.unsure)
        return sum(map(len, stored))


class Form(Protocol):
    """How to read events of one form."""

    held: Held

    def sort(self, events: Events) -> Passed:
        """Put events where they belong; returns those that are only counted, by category and phase."""

    def categories(self, events: Events) -> tuple[NDArray[np.int64], list[str | None]]:
        """A code for each event, and the category of each code."""

    def starts(self, events: Events) -> Times:
        """In ns, and where they are known."""

    def durations(self, events: Events) -> Times:
        """In ns, and where they are known."""

    def args(self, of: ArgsOf, events: Events) -> Sequence[Any]:
        """The arguments of each event, in the type that goes with where it is held."""

    @property
    def args_lost(self) -> int:
        """Arguments that held something that no reading made sense of."""


class Written:
    """`Event`: sorted by the text of its category, times and arguments still as they are written."""

    def __init__(self) -> None:
        self.held = Held()
        self._routes = Routes()
        self._sinks = _Sinks(self._sink)
        self._decoders: dict[ArgsOf, ArgsDecoder[Any]] = {
            "host_ops": ArgsDecoder(HostArgs),
            "launches": ArgsDecoder(LaunchArgs),
            "device_ops": ArgsDecoder(DeviceArgs),
            "memory": ArgsDecoder(MemoryArgs),
        }

    def _sink(self, category: str | None) -> Callable[[Event], None]:
        route = self._routes[category]
        if route is None:
            return self.held.aside.append
        lists = {"host_ops": self.held.host_ops, "launches": self.held.launches}
        return (lists.get(route.table, self.held.device_ops) if route.known else self.held.unsure).append

    def sort(self, events: Sequence[Event]) -> Passed:
        sinks, held = self._sinks, self.held
        for event in events:
            if event.ph == "X":
                sinks[event.cat](event)
            else:
                held.aside.append(event)
        marks = [e for e in held.aside if e.ph in _SIGNS and e.name == MEMORY and e.cat not in SKIPPED]
        held.memory += marks
        others = Counter((e.cat, e.ph) for e in held.aside)
        others.subtract((e.cat, e.ph) for e in marks)
        held.aside.clear()
        return others.items()

    def categories(self, events: Sequence[Event]) -> tuple[NDArray[np.int64], list[str | None]]:
        known: dict[str | None, int] = {}
        codes = [known.setdefault(e.cat, len(known)) for e in events]
        return np.array(codes, np.int64), list(known)

    def starts(self, events: Sequence[Event]) -> Times:
        return nanoseconds([e.ts for e in events])

    def durations(self, events: Sequence[Event]) -> Times:
        return nanoseconds([e.dur for e in events])

    def args(self, of: ArgsOf, events: Sequence[Event]) -> Sequence[Any]:
        return self._decoders[of].decode([e.args for e in events])

    @property
    def args_lost(self) -> int:
        return sum(d.lost for d in self._decoders.values())


class Typed:
    """Events of the `typed` kinds, sorted by their type."""

    def __init__(self) -> None:
        self.held = Held()
        self._sinks: dict[type[Any], Callable[[Any], None]] = {MemoryMark: self.held.memory.append}
        for kind, category in STORED.items():
            if kind is not MemoryMark:
                self._sinks[kind] = getattr(self.held, KNOWN[category].table).append
        self._sinks |= dict.fromkeys(PASSED, self.held.aside.append)
        self._codes = {kind: code for code, kind in enumerate(STORED)}

    def sort(self, events: Events) -> Passed:
        sinks = self._sinks
        for event in events:
            sinks[event.__class__](event)
        aside = self.held.aside
        counted = Counter(zip(map(type, aside), map(attrgetter("ph"), aside), strict=True))
        aside.clear()
        return [((PASSED[kind], phase), count) for (kind, phase), count in counted.items()]

    def categories(self, events: Events) -> tuple[NDArray[np.int64], list[str | None]]:
        codes = np.fromiter(map(self._codes.__getitem__, map(type, events)), np.int64, len(events))
        return codes, list(STORED.values())

    def starts(self, events: Events) -> Times:
        return exact_doubles([e.ts for e in events])

    def durations(self, events: Events) -> Times:
        return exact_doubles([e.dur for e in events])

    def args(self, of: ArgsOf, events: Events) -> Sequence[Any]:
        return [e.args for e in events]

    args_lost = 0


class _Sinks(dict[str | None, Callable[[Event], None]]):
    """Category → where its events are held; asked once for each category."""

    def __init__(self, make: Callable[[str | None], Callable[[Event], None]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, category: str | None) -> Callable[[Event], None]:
        sink = self._make(category)
        self[category] = sink
        return sink
