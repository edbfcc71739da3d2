"""The index of a batch: jobs ranked by the time they lose, as HTML, CSV and Parquet."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from mdtrace.batch.figures import Figures
from mdtrace.batch.jobs import REPORT
from mdtrace.batch.page import page
from mdtrace.batch.run import Result

NAME = "index"


def table(results: Sequence[Result]) -> pa.Table:
    """A row for each job: those that lose most first, failed ones last."""
    rows = sorted((_row(result) for result in results), key=_order)
    places = [i + 1 if row["outcome"] == "done" else None for i, row in enumerate(rows)]
    return pa.Table.from_pylist(
        [{**row, "place": place} for row, place in zip(rows, places, strict=True)], _ROWS
    )


def _row(result: Result) -> dict[str, Any]:
    state = result.state
    figures = (state.figures if state is not None else None) or Figures()
    done = state is not None and state.outcome == "done"
    name = result.job.name.encode("utf-8", "backslashreplace").decode("utf-8")
    return {
        "job": name,
        "outcome": "not begun" if state is None else state.outcome,
        "reason": None if state is None else state.reason,
        "report": f"{quote(os.fsencode(result.job.name))}/{REPORT}" if done else None,
        "files": len(result.job.inputs),
        "unreadable_files": None if state is None else state.unreadable,
        **{key: getattr(figures, key) for key in Figures.__struct_fields__},
    }


def _order(row: dict[str, Any]) -> tuple[int, float, float, str]:
    by_step = row["basis"] == "steady steps" and row["lost_ns"] is not None
    group = 3 if row["outcome"] != "done" else 0 if by_step else 1 if row["lost_share"] is not None else 2
    return group, -(row["lost_ns"] or 0.0) if by_step else 0.0, -(row["lost_share"] or 0.0), row["job"]


_ROWS = pa.schema(
    [
        ("place", pa.int64()), ("job", pa.string()), ("outcome", pa.string()), ("reason", pa.string()),
        ("ranks", pa.int64()), ("captured", pa.int64()), ("basis", pa.string()), ("span_ns", pa.float64()),
        ("lost_ns", pa.float64()), ("lost_share", pa.float64()), ("exposed_comm_ns", pa.float64()),
        ("wait_ns", pa.float64()), ("idle_ns", pa.float64()), ("finding", pa.string()),
        ("gain", pa.float64()), ("report", pa.string()), ("files", pa.int64()),
        ("unreadable_files", pa.int64()),
    ]
)  # fmt: skip


def write_index(out: Path, results: Sequence[Result]) -> pa.Table:
    """Write index.html, index.csv and index.parquet, each whole; returns their rows."""
    rows = table(results)
    out.mkdir(parents=True, exist_ok=True)
    _write(out / f"{NAME}.csv", lambda path: pc.write_csv(rows, path))
    _write(out / f"{NAME}.parquet", lambda path: pq.write_table(rows, path, compression="zstd"))
    text = page(rows.to_pylist())
    _write(out / f"{NAME}.html", lambda path: path.write_text(text, "utf-8"))
    return rows


def _write(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
