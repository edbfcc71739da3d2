"""One part of a trace → staged rows and an account of what was met."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from mdtrace.ingest.json_events import JsonEvents
from mdtrace.ingest.kineto.events import Event
from mdtrace.ingest.kineto.parts import Range, Segment
from mdtrace.ingest.kineto.rows import Rows
from mdtrace.ingest.pool import Pool


def read_range(part: Range) -> Segment:
    """Stage the events of a range; runs in a worker."""
    events = JsonEvents(
        part.path,
        Event,
        start=part.start,
        stop=part.stop,
        advance=Pool.advance if part.advance else lambda _: None,
    )
    with _no_collector():
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
