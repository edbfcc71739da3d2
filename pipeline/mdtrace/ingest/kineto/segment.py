"""One part of a trace → staged rows and an account of what was met."""

import gc
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mdtrace.ingest.json_events import JsonEvents
from mdtrace.ingest.kineto.events import Event
from mdtrace.ingest.kineto.parts import SERIES, Range, Segment
from mdtrace.ingest.kineto.rows import Rows
from mdtrace.ingest.kineto.times import InexactTimesError
from mdtrace.ingest.kineto.typed import TYPED
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.stage import segment_name


def read_range(part: Range) -> Segment:
    """Stage the events of a range; runs in a worker."""
    with _no_collector():
        try:
            return _read(part, TYPED)
        except InexactTimesError:  # absolute ones, which the first events tell
            for series in SERIES:
                shutil.rmtree(part.folder / segment_name(part.number + series), ignore_errors=True)
            return _read(replace(part, advance=False), None)


def _read(part: Range, typed: Any) -> Segment:
    events = JsonEvents(
        part.path,
        Event,
        start=part.start,
        stop=part.stop,
        typed=typed,
        advance=Pool.advance if part.advance else lambda _: None,
    )
    rows = Rows(part)
    for batch in events:
        rows.take(batch)
    segment = rows.finish()
    segment.document, segment.repaired = events.document, events.repaired
    segment.skipped, segment.truncated, segment.joined = events.skipped, events.truncated, events.joined
    return segment


@contextmanager
def _no_collector() -> Iterator[None]:
    """Events make no cycles; looking for some in lists of thousands takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
