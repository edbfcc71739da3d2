"""What the capture lacks or lost, as diagnostics."""

import re

from mdtrace.ingest.facts import Source
from mdtrace.ingest.nsys.source import Columns, TableSource, Tally
from mdtrace.ingest.nsys.tables import HOST_TABLES, WORK_TABLES, versions
from mdtrace.ingest.nsys.target import Export
from mdtrace.ingest.nsys.task import NO_TIME
from mdtrace.tables.diagnostics import Diagnostic

# Counts of a tally that are findings under the same name.
_COUNTED = (
    "damaged_arguments",
    "damaged_pages",
    "duplicate_events",
    "names_missing",
    "negative_durations",
    "wrong_types",
)
_LOST = re.compile(r"(?i)\b(?:lost|dropped|overflow\w*|discarded)\b|not all \w+.{0,40} collected")
_WARNING, _ERROR = 2, 3  # ENUM_DIAGNOSTIC_SEVERITY_LEVEL
_MESSAGE: Columns = {"severity": "int", "text": "text"}


def findings(
    source: Source, tables: TableSource, export: Export, tally: Tally, journal: bool
) -> list[Diagnostic]:
    """Diagnostics of the file as a whole."""
    found = [source.diagnostic(code, tally.counts[code]) for code in _COUNTED if tally.counts.get(code)]
    if tables.truncated:
        found.append(source.diagnostic("truncated"))
    if journal:
        found.append(source.diagnostic("unmerged_journal"))
    if export.base_ns is None:
        found.append(source.diagnostic("no_wall_clock"))
    found += _repaired(source, tally)
    found += _missing(source, tally)
    found += _graphs(source, export, tally)
    return found + _messages(source, tables, tally)


def _repaired(source: Source, tally: Tally) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    if texts := tally.counts.get("repaired_text"):
        found.append(source.diagnostic("repaired_text", texts, reasons="invalid UTF-8"))
    timeless = sum(n for (_, reason), n in tally.events.skipped.items() if reason == NO_TIME)
    if timeless:
        found.append(source.diagnostic("events_without_time", timeless))
    return found


def _missing(source: Source, tally: Tally) -> list[Diagnostic]:
    """Kinds of events that the file has none of."""
    stored = tally.events.stored
    if not stored:
        return [source.diagnostic("empty_source")]
    lacks = {
        "no_kernels": not any(versions(stored, name) for name in WORK_TABLES),
        "no_host_ops": not any(versions(stored, name) for name in HOST_TABLES),
    }
    return [source.diagnostic(code) for code, lacking in lacks.items() if lacking]


def _graphs(source: Source, export: Export, tally: Tally) -> list[Diagnostic]:
    """Graphs launched in graph mode and not even as wholes in the file; of those that are, linking tells.

    Graph mode is nsys's default: without graph launches it costs nothing.
    """
    launched = tally.counts.get("graph_launches", 0)
    if not export.graph_mode or not launched or tally.counts.get("graphs"):
        return []
    return [source.diagnostic("graphs_without_kernels", launched)]


def _messages(source: Source, tables: TableSource, tally: Tally) -> list[Diagnostic]:
    """The profiler's own warnings, counted: their texts hold paths and are not copied."""
    lost = warnings = 0
    for row in tables.rows("DIAGNOSTIC_EVENT", _MESSAGE, tally):
        if _tells_of_loss(row["text"] or ""):
            lost += 1
        elif row["severity"] in (_WARNING, _ERROR):
            warnings += 1
    counts = {"dropped_records": lost, "profiler_warnings": warnings}
    return [source.diagnostic(code, count) for code, count in counts.items() if count]


def _tells_of_loss(text: str) -> bool:
    numbers = re.findall(r"\d+", text)
    return bool(_LOST.search(text)) and not (numbers and all(int(n[:9]) == 0 for n in numbers))
