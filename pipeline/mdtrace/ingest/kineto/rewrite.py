"""Changes to rows already staged, for what only the end of a file tells: rare, so it may cost a copy."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

TIMES = {"host_ops": "start_ns", "launches": "start_ns", "device_ops": "start_ns", "counters": "time_ns"}


def rewrite(
    folder: Path, table: str, change: Callable[[pa.RecordBatch], pa.RecordBatch], key: int | str = "*"
) -> None:
    """Replace every staged batch of a table by what `change` makes of it: as many rows, the same schema.

    Args:
        key: only rows under this stage key.
    """
    for path in staged_files(folder, table, key):
        fresh = path.with_suffix(".new")
        with (
            pa.OSFile(str(path)) as source,
            pa.ipc.open_file(source) as reader,
            pa.ipc.new_file(str(fresh), reader.schema) as writer,
        ):
            for i in range(reader.num_record_batches):
                writer.write_batch(change(reader.get_batch(i)))
        fresh.replace(path)


def staged_files(folder: Path, table: str, key: int | str = "*") -> list[Path]:
    """The staged files of a table, in the order in which their rows count."""
    return sorted(folder.glob(f"[0-9]*/{key}-{table}.arrow"))


def shift_times(folder: Path, by_ns: int) -> None:
    """Add to all staged times."""
    for table, column in TIMES.items():
        rewrite(folder, table, lambda batch, c=column: _shifted(batch, c, by_ns))  # type: ignore[misc]


def _shifted(batch: pa.RecordBatch, column: str, by_ns: int) -> pa.RecordBatch:
    index = batch.schema.get_field_index(column)
    return batch.set_column(index, batch.schema.field(index), pc.add(batch.column(index), by_ns))
