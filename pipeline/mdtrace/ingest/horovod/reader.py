"""The reader of Horovod timelines."""

from pathlib import Path

from mdtrace.ingest.facts import ProcessFacts, Source, SourceFacts
from mdtrace.ingest.horovod.events import Event
from mdtrace.ingest.horovod.rows import KEY, Rows
from mdtrace.ingest.horovod.timeline import Timeline
from mdtrace.ingest.json_events import JsonEvents
from mdtrace.ingest.pool import Pool
from mdtrace.ingest.stage import Stage
from mdtrace.tables.diagnostics import Diagnostic


def read_horovod(source: Source, folder: Path, pool: Pool) -> SourceFacts:
    """Stage a timeline's rows; see `Reader`.

    The coordinator, rank 0, writes the file and is its one process. Staged references are row numbers
    within the stage, since the process id is not known here: `arrivals.collective_id` counts rows of
    `collectives`, `collectives.host_op_id` rows of `host_ops`.

    Raises:
        InputError: the file cannot be read or is no JSON.
    """
    stage = Stage(folder)
    try:
        events = JsonEvents(source.path, Event, advance=pool.advance)
        timeline = Timeline(Rows(stage))
        for batch in events:
            for event in batch:
                timeline.take(event)
        timeline.stop()
        timeline.rows.finish(timeline.world.size, timeline.steps)
    finally:
        stage.close()
    return _facts(source, timeline, events)


def _facts(source: Source, timeline: Timeline, events: JsonEvents[Event]) -> SourceFacts:
    for reason, count in events.skipped.items():
        timeline.counts.skip("{}" if reason == "empty object" else "unreadable", reason, count)
    process = ProcessFacts(
        staged_as=(KEY,),
        rank=0,
        rank_origin="timeline",
        world_size=timeline.world.size,
        backend=max(sorted(timeline.backends), key=timeline.backends.__getitem__, default=None),
    )
    return SourceFacts(
        format="horovod",
        clock_base="file" if timeline.first_base_ns is None else "epoch",
        clock_base_ns=timeline.first_base_ns,
        producer="Horovod",
        compression=events.compression,
        truncated=events.truncated,
        events=timeline.counts,
        processes=[process],
        diagnostics=_diagnostics(source, timeline, events),
    )


def _diagnostics(source: Source, timeline: Timeline, events: JsonEvents[Event]) -> list[Diagnostic]:
    """Findings about the file; those that were not met leave no row."""
    rows = timeline.rows
    damaged = {r: n for r, n in events.skipped.items() if r not in ("empty object", "cut off")}
    found = [
        source.diagnostic("empty_source", int(not timeline.counts.stored)),
        source.diagnostic("truncated", int(events.truncated)),
        source.diagnostic("events_unreadable", sum(damaged.values()), reasons=", ".join(sorted(damaged))),
        source.diagnostic(
            "events_repaired", sum(events.repaired.values()), reasons=", ".join(sorted(events.repaired))
        ),
        source.diagnostic("activities_open", rows.spans_open),
        source.diagnostic("ends_without_begin", timeline.lone_ends),
        source.diagnostic("ends_before_start", timeline.reversed),
        source.diagnostic("payload_unknown", rows.unsized, collectives=rows.collectives),
    ]
    if timeline.world.size != 1:
        ticked, steps = len(rows.ticked_steps), len(rows.steps)
        found += [
            source.diagnostic("no_rank_ticks", 0 if ticked else steps),
            source.diagnostic(
                "rank_ticks_some_steps", steps - ticked if ticked else 0, ticked=ticked, steps=steps
            ),
        ]
    return [d for d in found if d.count]
