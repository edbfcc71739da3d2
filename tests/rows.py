"""Builds a dataset folder from hand-written rows: what a test does not state gets a default.

`dataset(tmp_path, device_ops=[{"start_ns": 0, "end_ns": 10}])` makes one process of rank 0 with one
compute kernel. Ids are numbered per process and table in the order given, as the writer numbers them;
processes and sources that no row states are made up: rank = process_id, one source of format kineto.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mdtrace.tables.dataset import Dataset, open_dataset, write_manifest
from mdtrace.tables.schema import ID_COLUMNS, Column, row_id, tables
from mdtrace.tables.writer import write_table

Rows = Sequence[Mapping[str, Any]]

# Where a test says nothing: nullable columns that real rows nearly always fill.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "device_ops": {"device_id": 0, "stream_id": 7, "dur_ns": 1},
    "host_ops": {"thread_id": 1, "dur_ns": 1, "depth": 0},
    "launches": {"thread_id": 1, "dur_ns": 1, "name": "cudaLaunchKernel"},
    "collectives": {"members": 1},
    "sources": {"file": "trace.json", "clock_base": "epoch"},
}
_ZERO = {"bool": False, "int32": 0, "int64": 0, "double": 0.0, "string": ""}


def dataset(folder: Path, **given: Rows) -> Dataset:
    """Write the rows of the named tables under `folder` and open them as a dataset.

    `end_ns` stands for `dur_ns` in tables that have a duration. A column of another name is an error.
    """
    rows: dict[str, list[dict[str, Any]]] = {t: [dict(r) for r in rs] for t, rs in given.items()}
    ids = sorted({r.get("process_id", 0) for rs in rows.values() for r in rs if "source_id" not in r} or {0})
    rows.setdefault("processes", [{"process_id": p} for p in ids])
    for process in rows["processes"]:
        process.setdefault("process_id", 0)
        process.setdefault("rank", process["process_id"])
    sources = sorted({r.get("source_id", 0) for r in rows["processes"]})
    rows.setdefault("sources", [{"source_id": s} for s in sources])
    ranks = {r["process_id"]: r["rank"] for r in rows["processes"]}
    for name, some in rows.items():
        _write(folder, name, some, ranks)
    folder.mkdir(parents=True, exist_ok=True)  # where no table has a row
    write_manifest(folder)
    return open_dataset(folder)


def _write(folder: Path, name: str, rows: Rows, ranks: Mapping[int, int | None]) -> None:
    complete = _complete(name, rows, ranks)
    schema = tables()[name].arrow()
    by_process: dict[int, list[dict[str, Any]]] = {}
    for row in complete:
        by_process.setdefault(row.get("process_id") or 0 if name not in _WHOLE else 0, []).append(row)
    for process_id, some in by_process.items():
        write_table(folder, name, pa.Table.from_pylist(some, schema), f"p{process_id:05d}-0000")


_WHOLE = {"sources", "processes", "devices", "diagnostics"}  # tables written as one file


def _complete(name: str, rows: Rows, ranks: Mapping[int, int | None]) -> list[dict[str, Any]]:
    """The rows with every declared column, and ids."""
    table = tables()[name]
    seen: Counter[int] = Counter()
    complete = []
    for given in rows:
        row = dict(given)
        if "end_ns" in row and any(c.name == "dur_ns" for c in table.columns):
            end = row.pop("end_ns")
            row["dur_ns"] = None if end is None else end - row.get("start_ns", 0)
        unknown = set(row) - {c.name for c in table.columns}
        assert not unknown, f"{name} has no columns {unknown}"
        process_id = row.get("process_id", 0)
        implied = {"rank": ranks.get(process_id)} if name != "arrivals" else {}
        if name in ID_COLUMNS:
            implied[ID_COLUMNS[name]] = row_id(process_id, seen[process_id])
            seen[process_id] += 1
        complete.append(
            {c.name: _value(c, {**_DEFAULTS.get(name, {}), **implied, **row}) for c in table.columns}
        )
    return complete


def _value(column: Column, row: Mapping[str, Any]) -> Any:
    if column.name in row:
        return row[column.name]
    if column.null is not None:
        return None
    if column.values:
        return column.values[0]
    return [] if pa.types.is_list(column.type) else _ZERO[str(column.type)]
