"""Exact copies of an event: found over the whole file by the hashes of its rows, flagged in the stage."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from mdtrace.ingest.nsys.sink import Hashes
from mdtrace.ingest.nsys.source import Ints

_AT_ONCE = 1 << 21  # hashes compared in memory together; more are taken in parts by their value


def flag_copies(folder: Path) -> int:
    """Set `duplicate` on every staged row that repeats an earlier one of its process and table.

    Returns:
        How many rows were flagged.
    """
    groups: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("[0-9]*/*.npy")):
        groups.setdefault(file.stem, []).append(file)
    return sum(_flag_group(files) for files in groups.values())


def _flag_group(files: list[Path]) -> int:
    """Copies among the rows of one process and table, staged in several segments."""
    sizes = [_length(f) for f in files]
    parts = -(-sum(sizes) // _AT_ONCE)
    copies = [_copies(files, part, parts) for part in range(parts)]
    rows = np.sort(np.concatenate(copies)) if copies else np.zeros(0, np.int64)
    first = 0
    for file, size in zip(files, sizes, strict=True):
        inside = rows[(rows >= first) & (rows < first + size)] - first
        if len(inside):
            _flag_rows(file.with_suffix(".arrow"), inside)
        first += size
        file.unlink()
    return len(rows)


def _length(file: Path) -> int:
    return int(np.load(file, mmap_mode="r").shape[0])


def _copies(files: list[Path], part: int, parts: int) -> Ints:
    """Row numbers (through all files) of later rows with the same hash, of the hashes of one part."""
    hashes: list[Hashes] = []
    rows: list[Ints] = []
    first = 0
    for file in files:
        some: Hashes = np.load(file)
        if parts > 1:
            chosen = np.flatnonzero(some % np.uint64(parts) == part)
            hashes.append(some[chosen])
            rows.append(chosen + first)
        else:
            hashes.append(some)
        first += len(some)
    together = np.concatenate(hashes)
    ordered = np.sort(together)
    if not (ordered[1:] == ordered[:-1]).any():  # the usual case, and far cheaper than to keep the order
        return np.zeros(0, np.int64)
    order = np.argsort(together, kind="stable")
    same = np.flatnonzero(together[order][1:] == together[order][:-1]) + 1
    return order[same] if parts == 1 else np.concatenate(rows)[order[same]]


def _flag_rows(path: Path, rows: Ints) -> None:
    """Write a staged file anew with the flag set on some of its rows."""
    target = path.with_suffix(".flagged")
    with pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_file(source)
        at = reader.schema.get_field_index("duplicate")
        with pa.ipc.new_file(str(target), reader.schema) as writer:
            first = 0
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                flags = np.zeros(batch.num_rows, bool)
                flags[rows[(rows >= first) & (rows < first + batch.num_rows)] - first] = True
                writer.write_batch(batch.set_column(at, reader.schema.field(at), pa.array(flags)))
                first += batch.num_rows
    target.replace(path)
