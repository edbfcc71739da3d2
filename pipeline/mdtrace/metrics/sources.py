"""Where the rows of tables come from: the Parquet files of a dataset, as SQL."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from mdtrace.tables.dataset import Dataset
from mdtrace.tables.schema import tables

_SCALARS = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
}
_OF_PROCESS = re.compile(r"p(\d+)-\d+\.parquet")


@dataclass(frozen=True)
class Part:
    """What the metrics that run part by part see at a time: one device of one process."""

    process_id: int
    rank: int | None
    device_id: int | None

    def constants(self) -> str:
        """The part's columns as constants."""
        return ", ".join(
            f"{'NULL' if v is None else v}::INTEGER AS {k}"
            for k, v in (("process_id", self.process_id), ("rank", self.rank), ("device_id", self.device_id))
        )


def parts(connection: duckdb.DuckDBPyConnection, dataset: Dataset) -> list[Part]:
    """The parts of a dataset: each process and device with device activity."""
    if not dataset.files["device_ops"]:
        return []
    rows = connection.execute(
        "SELECT process_id, any_value(rank), device_id FROM device_ops GROUP BY 1, 3 ORDER BY 1, 3"
    ).fetchall()
    return [Part(*row) for row in rows]


def part_source(dataset: Dataset, part: Part) -> str:
    """The device activity of a part, from the files of its process."""
    files = dataset.files["device_ops"]
    owners = [_OF_PROCESS.fullmatch(f.name) for f in files]
    own = [f for f, m in zip(files, owners, strict=True) if m is None or int(m[1]) == part.process_id]
    device = "IS NULL" if part.device_id is None else f"= {part.device_id}"
    return f"{parquet_sql(own)} WHERE process_id = {part.process_id} AND device_id {device}"


def parquet_sql(files: Sequence[Path]) -> str:
    """All rows of some Parquet files."""
    quoted = ", ".join("'" + str(f).replace("'", "''") + "'" for f in files)
    return f"SELECT * FROM read_parquet([{quoted}])"


def empty_sql(table: str) -> str:
    """A table's columns without rows."""
    columns = ", ".join(f'NULL::{sql_type(f.type)} AS "{f.name}"' for f in tables()[table].arrow())
    return f"SELECT {columns} WHERE false"


def sql_type(arrow: pa.DataType) -> str:
    """An Arrow type of the declarations as DuckDB calls it."""
    if pa.types.is_list(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        fields = ", ".join(
            f"{arrow.field(i).name} {sql_type(arrow.field(i).type)}" for i in range(arrow.num_fields)
        )
        return f"STRUCT({fields})"
    return _SCALARS[arrow]
