"""Events on their way into the stage. The hot path: they are sorted by category once, and each table's
columns are made from thousands of events at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mdtrace.ingest.kineto import device, host
from mdtrace.ingest.kineto.collective_args import comm_records, host_records, with_args
from mdtrace.ingest.kineto.columns import as_int
from mdtrace.ingest.kineto.events import CommArgs, Event, Routes, skip_reason
from mdtrace.ingest.kineto.forms import MEMORY, Events, Form, Typed, Written
from mdtrace.ingest.kineto.parts import DEVICE, DEVICES, MAIN, NO_PID, PIDLESS, UNSURE, Range, Segment
from mdtrace.ingest.kineto.times import EPOCH_NS
from mdtrace.ingest.stage import Stage

BATCH = 1 << 14  # events held before they are staged: few, so that they stay in the cache
_MOST_KINDS = 500  # categories that are told apart where a damaged file has any number of them
_MOST_PIDS = 100


def process_key(pid: Any) -> int:
    """Stage key of a host event: its pid, `NO_PID` if it names none (text, zero, negative)."""
    number = as_int(pid)
    return number if number is not None and number > 0 else NO_PID


def by_process(events: Events, known: set[int]) -> list[tuple[int, Events]]:
    """Events by stage key, in order of appearance; nearly always there is one.

    Args:
        known: keys met so far. Beyond `_MOST_PIDS`, which only damage brings about, pids count as none:
            each takes open files.
    """
    if not events:
        return []
    pids = [e.pid for e in events]
    same = pids.count(pids[0]) == len(pids)
    groups: dict[int, list[Any]] = {}
    for event in events[:1] if same else events:
        key = process_key(event.pid)
        if key not in known:
            key = key if len(known) < _MOST_PIDS else NO_PID
            known.add(key)
        groups.setdefault(key, []).append(event)
    return [(key, events) for key in groups] if same else list(groups.items())


class Rows:
    """Takes the events of one part, in order; `finish` returns the account of them."""

    def __init__(self, part: Range) -> None:
        self.part = part
        self.segment = Segment()
        self._stages: dict[int, Stage] = {}
        self._kinds: set[str] = set()
        self._keys: set[int] = set()
        self._routes = Routes()
        self._written, self._typed = Written(), Typed()
        self._form: Form = self._written

    def take(self, events: Events) -> None:
        """Sort events, all of one form, by category; stage them once there are many.

        Raises:
            InexactTimesError: typed events do not tell these times to the nanosecond.
        """
        form: Form = self._written if events[0].__class__ is Event else self._typed
        if form is not self._form:
            self._flush()
            self._form = form
        for (category, phase), count in form.sort(events):
            self._skip(*skip_reason(category, phase), count)
        if len(form.held) >= BATCH:
            self._flush()

    def _skip(self, kind: str, reason: str, count: int) -> None:
        self.segment.counts.skip(self._kind(kind), reason, count)

    def _kind(self, kind: str) -> str:
        if len(self._kinds) < _MOST_KINDS:
            self._kinds.add(kind)
        return kind if kind in self._kinds else "other categories"

    def finish(self) -> Segment:
        self._flush()
        for stage in self._stages.values():
            stage.close()
        self.segment.tally["args_lost"] += self._written.args_lost
        return self.segment

    def _stage(self, series: int) -> Stage:
        if series not in self._stages:
            self._stages[series] = Stage(self.part.folder, self.part.number + series)
        return self._stages[series]

    def _flush(self) -> None:
        held = self._form.held
        for events, write in (
            (held.host_ops, self._write_host),
            (held.launches, self._write_launches),
            (held.memory, self._write_memory),
        ):
            for key, some in by_process(events, self._keys):
                write(key, MAIN if key else PIDLESS, some)
        for key, some in by_process(held.unsure, self._keys):
            self._write_unsure(key, some)
        self._write_device(held.device_ops)
        for waiting in (held.host_ops, held.launches, held.memory, held.unsure, held.device_ops):
            waiting.clear()

    def _timed(self, events: Events) -> "_Timed":
        """The events that have a time, with their starts and durations; the others are counted."""
        starts, known = self._form.starts(events)
        if not known.all():
            self._skip_timeless([e for e, k in zip(events, known, strict=True) if not k])
            self.segment.tally["timeless"] += int((~known).sum())
            events = [events[i] for i in np.flatnonzero(known).tolist()]
            starts = starts[known]
        self.segment.tally["epoch_times"] += int((starts >= EPOCH_NS).sum())
        self.segment.tally["times"] += len(starts)
        return _Timed(events, starts + self.part.base_ns)

    def _skip_timeless(self, events: Events) -> None:
        codes, categories = self._form.categories(events)
        named = [categories[code] or f"ph {e.ph}" for code, e in zip(codes.tolist(), events, strict=True)]
        for kind, count in Counter(named).items():
            self._skip(kind, "no usable time stamp", count)

    def _durations(self, events: Events) -> pa.Array:
        values, known = self._form.durations(events)
        negative = values < 0
        self.segment.tally["negative_durations"] += int(negative.sum())
        return pa.array(values, mask=~known | negative)

    def _write_host(self, key: int, series: int, events: Events) -> None:
        timed = self._timed(events)
        if not timed.events:
            return
        kinds = self._store(timed.events)
        self.segment.pids.setdefault(key, 0)
        self.segment.tally["host_ops"] += len(kinds)
        self._host_rows(key, series, timed, kinds)

    def _host_rows(self, key: int, series: int, timed: "_Timed", kinds: pa.DictionaryArray) -> None:
        events, stage = timed.events, self._stage(series)
        args = self._form.args("host_ops", events)
        columns = host.host_ops(events, kinds, args)
        columns |= {"start_ns": timed.starts, "dur_ns": self._durations(events)}
        tally = self.segment.tally
        tally["operators"] += _count(kinds, "operator")
        tally["shapes"] += len(events) - columns["input_dims"].null_count
        comms = host_records(columns["name"], [a.collective for a in args])
        self._write_comms(stage, key, "host_ops", comms, columns["name"], args)
        stage.write(key, "host_ops", columns)

    def _write_unsure(self, key: int, events: Events) -> None:
        """Events with a duration of a category that is not known here."""
        if key == NO_PID:
            for category, count in Counter(e.cat for e in events).items():
                self._skip(category or "ph X", "category that is not known, of no host process", count)
            return
        timed = self._timed(events)
        if timed.events:
            for category, count in Counter(e.cat for e in timed.events).items():
                place = key, self._kind(category or "ph X")
                self.segment.unsure[place] = self.segment.unsure.get(place, 0) + count
            self._host_rows(
                key, UNSURE, timed, pa.repeat("annotation", len(timed.events)).dictionary_encode()
            )

    def _write_launches(self, key: int, series: int, events: Events) -> None:
        timed = self._timed(events)
        if not timed.events:
            return
        apis = self._store(timed.events)
        self.segment.pids[key] = self.segment.pids.get(key, 0) + len(timed.events)
        self.segment.tally["launches"] += len(timed.events)
        args = self._form.args("launches", timed.events)
        columns = host.launches(timed.events, apis, args)
        columns |= {"start_ns": timed.starts, "dur_ns": self._durations(timed.events)}
        self._stage(series).write(key, "launches", columns)

    def _write_memory(self, key: int, series: int, events: Events) -> None:
        timed = self._timed(events)
        if not timed.events:
            return
        self._store(timed.events)
        self.segment.pids.setdefault(key, 0)
        args = self._form.args("memory", timed.events)
        columns = host.memory_marks(timed.events, args) | {"time_ns": timed.starts}
        self._stage(series).write(key, "counters", columns)

    def _write_device(self, events: Events) -> None:
        timed = self._timed(events)
        if not timed.events:
            return
        kinds = self._store(timed.events)
        self.segment.tally["device_ops"] += len(kinds)
        self.segment.tally["kernels"] += _count(kinds, "kernel")
        args = self._form.args("device_ops", timed.events)
        columns = device.device_ops(timed.events, kinds, args)
        columns |= {"start_ns": timed.starts, "dur_ns": self._durations(timed.events)}
        comms = with_args([a.collective for a in args])
        self._write_comms(self._stage(DEVICES), DEVICE, "device_ops", comms, columns["name"], args)
        self._stage(DEVICES).write(DEVICE, "device_ops", columns)

    def _write_comms(
        self,
        stage: Stage,
        key: int,
        table: str,
        at: Sequence[int],
        labels: pa.Array,
        args: Sequence[CommArgs],
    ) -> None:
        """Stage the arguments of the collectives at some positions of rows not yet staged."""
        if at:
            first = stage.rows(key, table)
            names = labels.take(pa.array(at)).to_pylist()
            records = comm_records(table, [first + i for i in at], names, [args[i] for i in at])
            self.segment.tally["comm_records"] += len(at)
            stage.write(key, "comm_records", records)

    def _store(self, events: Events) -> pa.DictionaryArray:
        """Count events as stored; returns the kind of each in its table, encoded."""
        codes, categories = self._form.categories(events)
        kinds: list[str] = []
        for category, count in zip(categories, np.bincount(codes, minlength=len(categories)), strict=True):
            route = self._routes[category]
            kinds.append(route.kind if route else "memory")
            if count:
                self.segment.counts.store(self._kind(category or MEMORY), int(count))
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(kinds))


def _count(kinds: pa.DictionaryArray, kind: str) -> int:
    return pc.sum(pc.equal(kinds, kind)).as_py() or 0


@dataclass(frozen=True)
class _Timed:
    events: Events
    starts: NDArray[np.int64]
