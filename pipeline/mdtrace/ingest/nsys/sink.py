"""Staging by process: rows of one table arrive mixed, every process gets its own, in order."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from mdtrace.ingest.nsys.source import Ints
from mdtrace.ingest.stage import Stage

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Placed:
    """Where rows of one process went: `rows` within what was written (None: all), from staged row `first`."""

    key: int
    first: int
    rows: Ints | None


class Sink:
    """The stage of one task, and a hash of every staged row that copies may exist of."""

    def __init__(self, folder: Path, segment: int) -> None:
        self._stage = Stage(folder, segment)
        self._folder = folder / f"{segment:04d}"
        self._hashes: dict[tuple[int, str], list[Hashes]] = {}
        self.keys: list[int] = []  # processes met, in order

    def write(
        self, keys: Ints, table: str, columns: Mapping[str, Any], identity: pa.RecordBatch | None = None
    ) -> list[Placed]:
        """Append rows to their processes.

        Args:
            keys: stage key of each row.
            identity: columns of the file in which two rows are equal if one is a copy of the other.
        """
        if not len(keys):
            return []
        hashes = None if identity is None else _hash(identity)
        placed: list[Placed] = []
        for key, rows in by_process(keys):
            placed.append(Placed(key, self._stage.rows(key, table), rows))
            self._stage.write(key, table, columns if rows is None else _take(columns, rows))
            if hashes is not None:
                self._hashes.setdefault((key, table), []).append(hashes if rows is None else hashes[rows])
            if key not in self.keys:
                self.keys.append(key)
        return placed

    def write_one(self, key: int, table: str, columns: Mapping[str, Any]) -> None:
        """Append rows of one process."""
        self._stage.write(key, table, columns)

    def close(self) -> None:
        """Finish the staged files; hashes go beside them."""
        self._stage.close()
        for (key, table), hashes in self._hashes.items():
            np.save(self._folder / f"{key}-{table}.npy", np.concatenate(hashes))


def by_process(keys: Ints) -> list[tuple[int, Ints | None]]:
    """Each process with its row numbers; None stands for all rows, the usual case."""
    first = int(keys[0])
    if (keys == first).all():
        return [(first, None)]
    return [(int(k), np.flatnonzero(keys == k)) for k in np.unique(keys)]


def _take(columns: Mapping[str, Any], rows: Ints) -> dict[str, Any]:
    indices = pa.array(rows)
    return {name: None if c is None else c.take(indices) for name, c in columns.items()}


def _hash(identity: pa.RecordBatch) -> Hashes:
    frame = pl.from_arrow(identity)
    assert isinstance(frame, pl.DataFrame)
    return frame.hash_rows(seed=0).to_numpy()
