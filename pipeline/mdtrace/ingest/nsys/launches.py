"""CUPTI_ACTIVITY_KIND_RUNTIME (runtime and driver calls alike) → `launches`."""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.source import Columns, Ints, Kind, TableSource, Tally, column
from mdtrace.ingest.nsys.task import Task, keys_of
from mdtrace.ingest.nsys.values import by_value, constant, ints, number, process_keys, thread_ids

_COLUMNS: Columns = {
    "start": "int", "end": "int", "eventClass": "int", "globalTid": "int", "correlationId": "int",
    "nameId": "name",
}  # fmt: skip
_VERSION = re.compile(r"(?:_ptsz|_ptds)?_v\d+(?:_ptsz|_ptds)?$")
_DRIVER = re.compile(r"cu[A-Z]")
_CLASSES = {0: "runtime", 1: "driver"}  # ENUM_NSYS_EVENT_CLASS


def api_calls(task: Task) -> None:
    """One batch after the other."""
    for batch in task.batches(_COLUMNS):
        names = task.names.of(column(batch, "nameId"), batch.num_rows)
        columns = {
            **task.times(batch),
            "thread_id": thread_ids(column(batch, "globalTid")),
            "api": _apis(batch, names),
            "name": by_value(names, lambda n: None if n is None else _VERSION.sub("", n)),
            "correlation": number(column(batch, "correlationId")),
        }
        task.tally.add("graph_launches", _graph_launches(columns["name"]))
        task.store(keys_of(batch, "globalTid"), "launches", columns, batch)


def _apis(batch: pa.RecordBatch, names: pa.DictionaryArray) -> pa.Array:
    """By the event class; where that says neither, by the name."""
    classes = column(batch, "eventClass")
    if classes is None:
        return _by_name(names)
    known = by_value(classes, _CLASSES.get)
    return pc.coalesce(known, _by_name(names)) if known.null_count else known


def _by_name(names: pa.DictionaryArray) -> pa.Array:
    by_name = by_value(names, lambda n: "driver" if n and _DRIVER.match(n) else "runtime")
    return pc.coalesce(by_name, constant("runtime", len(names)))


def _graph_launches(names: pa.Array) -> int:
    encoded = names.dictionary_encode()
    hits = pa.array([bool(n and n.startswith("cudaGraphLaunch")) for n in encoded.dictionary.to_pylist()])
    return int(pc.sum(hits.take(encoded.indices)).as_py() or 0) if len(hits) else 0


@dataclass(frozen=True)
class CallStarts:
    """Starts of some API calls, by process and correlation; sorted by both."""

    keys: Ints
    correlations: Ints
    times: Ints

    def starts(self, keys: Ints, correlations: Ints) -> pa.Array:
        """Start of each call asked for, in the file's own time; NULL where the file has no such call."""
        out = np.zeros(len(keys), np.int64)
        known = np.zeros(len(keys), bool)
        for key in np.unique(keys):
            here, asked = self.keys == key, np.flatnonzero(keys == key)
            have, times = self.correlations[here], self.times[here]
            if not len(have):
                continue
            at = np.minimum(np.searchsorted(have, correlations[asked]), len(have) - 1)
            hit = have[at] == correlations[asked]
            out[asked[hit]] = times[at[hit]]
            known[asked[hit]] = True
        return pa.array(out, mask=~known)


_TIMES: dict[str, Kind] = {"start": "int", "globalTid": "int", "correlationId": "int"}


def call_starts(source: TableSource, tables: list[str], wanted: Ints) -> CallStarts:
    """Starts of the calls of some correlation ids: one more pass over the calls."""
    found: list[Ints] = [np.zeros((3, 0), np.int64)]
    for table in tables:
        for span in source.spans(table):
            for batch in source.batches(table, _TIMES, span, Tally()):
                correlations = ints(column(batch, "correlationId"), batch.num_rows, -1)
                hit = np.isin(correlations, wanted)
                keys = process_keys(column(batch, "globalTid"), batch.num_rows)
                starts = ints(column(batch, "start"), batch.num_rows, 0)
                found.append(np.stack([keys[hit], correlations[hit], starts[hit]]))
    together = np.concatenate(found, axis=1)
    keys, correlations, times = together[:, np.lexsort((together[1], together[0]))]
    return CallStarts(keys, correlations, times)
