"""GPU_METRICS (sampled hardware counters) → `counters`, for the process that uses the device."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdtrace.ingest.nsys.source import NO_PROCESS, Columns, Ints, TableSource, Tally, column
from mdtrace.ingest.nsys.task import Task
from mdtrace.ingest.nsys.values import ints

_COLUMNS: Columns = {"timestamp": "int", "typeId": "int", "metricId": "int", "value": "real"}
_NO_PROCESS_REASON = "samples of a GPU that no process of the file is known to use"
_GPU = 0xFF  # the low byte of a metric's typeId is the GPU
_UNIT = re.compile(r"\[([^\]]*)\]\s*$")
_FREQUENCY = re.compile(r"(?i)clock|frequency")


def metric_names(source: TableSource, tally: Tally) -> dict[tuple[int, int], str]:
    """Names of metrics by type and metric id."""
    asked: Columns = {"typeId": "int", "metricId": "int", "metricName": "text"}
    rows = source.rows("TARGET_INFO_GPU_METRICS", asked, tally)
    return {(r["typeId"], r["metricId"]): r["metricName"] for r in rows if r["metricName"] is not None}


def unit_of(name: str) -> str | None:
    """The unit that a metric's name states; throughput metrics that state none are percentages."""
    bracket = _UNIT.search(name)
    if bracket:
        return "%" if "%" in bracket.group(1) else bracket.group(1) or None
    return None if _FREQUENCY.search(name) else "%"


def gpu_metrics(task: Task) -> None:
    """One row a sample and metric."""
    for batch in task.batches(_COLUMNS, "timestamp"):
        length = batch.num_rows
        types, metrics = (ints(column(batch, c), length, -1) for c in ("typeId", "metricId"))
        keys, ordinals = _owners(task, types)
        known = keys != NO_PROCESS if task.context.only_keys else np.ones(length, bool)
        task.tally.events.skip(task.table, _NO_PROCESS_REASON, int((~known).sum()))
        if not known.any():
            continue
        names = _names(task, types[known], metrics[known])
        units = pa.array([unit_of(n) for n in names.dictionary.to_pylist()], pa.string())
        kept = batch.filter(pa.array(known))
        columns = {
            "device_id": pa.array(ordinals[known].astype(np.int32), mask=ordinals[known] < 0),
            "kind": pa.repeat(pa.scalar("gpu_metric"), len(names)),
            "name": names.dictionary.take(names.indices),
            "time_ns": pc.add(column(kept, "timestamp"), task.context.base_ns),
            "value": column(kept, "value"),
            "unit": units.take(names.indices),
        }
        task.store(keys[known], "counters", columns, None)


def _owners(task: Task, types: Ints) -> tuple[Ints, Ints]:
    """Process and its device ordinal for each sample."""
    gpus = types & _GPU
    keys, ordinals = np.full(len(types), NO_PROCESS, np.int64), gpus.copy()
    for gpu, (key, ordinal) in task.context.gpus.items():
        keys[gpus == gpu], ordinals[gpus == gpu] = key, ordinal
    return keys, ordinals


def _names(task: Task, types: Ints, metrics: Ints) -> pa.DictionaryArray:
    """Names as the file's table of metrics has them, else the number."""
    pairs, indices = np.unique(np.stack([types, metrics]), axis=1, return_inverse=True)
    texts = [task.context.metrics.get((t, m), f"metric {m}") for t, m in pairs.T.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(indices.reshape(-1)), pa.array(texts, pa.string()))
