"""Table declarations: `schemas/<table>.toml` → documented Arrow schemas.

A column comes from one of three places, its `origin`: `read` (the ingestor), `link` (joins made
once after reading) or `write` (ids, process and rank, known only when the rows are written).
"""

import tomllib
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Literal

import pyarrow as pa

from mdtrace.resources import schemas

SCHEMA_VERSION = 1
Origin = Literal["read", "link", "write"]

_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "list<int32>": pa.list_(pa.int32()),
    "list<string>": pa.list_(pa.string()),
    "list<struct<kind: string, stored: int64, skipped: int64, reason: string>>": pa.list_(
        pa.struct(
            [("kind", pa.string()), ("stored", pa.int64()), ("skipped", pa.int64()), ("reason", pa.string())]
        )
    ),
}


@dataclass(frozen=True)
class Column:
    """One declared column; `null` says what a NULL means, None that there is none."""

    name: str
    type: pa.DataType
    doc: str
    origin: Origin
    unit: str | None
    null: str | None
    values: tuple[str, ...]
    references: str | None

    def field(self) -> pa.Field:
        """The Arrow field, with documentation and unit as metadata."""
        meta = {"doc": self.doc, "unit": self.unit, "null": self.null, "references": self.references}
        return pa.field(
            self.name,
            self.type,
            nullable=self.null is not None,
            metadata={key: text for key, text in meta.items() if text},
        )


@dataclass(frozen=True)
class Table:
    """One declared table."""

    name: str
    doc: str
    grain: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def arrow(self, *origins: Origin) -> pa.Schema:
        """Schema of all columns, or of those from the named origins; in declared order."""
        return pa.schema([c.field() for c in self.columns if not origins or c.origin in origins])

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)


def _table(name: str, text: str) -> Table:
    raw = tomllib.loads(text)
    columns = tuple(
        Column(
            name=column,
            type=_TYPES[spec["type"]],
            doc=spec["doc"],
            origin=spec.get("from", "read"),
            unit=spec.get("unit"),
            null=spec.get("null"),
            values=tuple(spec.get("values", ())),
            references=spec.get("references"),
        )
        for column, spec in raw["columns"].items()
    )
    return Table(name, raw["doc"], raw["grain"], tuple(raw["key"]), columns)


@cache
def tables() -> dict[str, Table]:
    """All declared tables by name, in alphabetical order."""
    files = sorted((f for f in schemas().iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return {f.name[:-5]: _table(f.name[:-5], f.read_text("utf-8")) for f in files}


@cache
def schemas_digest() -> str:
    """A short digest of all tables' column names and types: two datasets of one digest read alike."""
    text = repr([(t.name, [(c.name, str(c.type)) for c in t.columns]) for t in tables().values()])
    return f"{zlib.crc32(text.encode()):08x}"


def row_id(process_id: int, row: int) -> int:
    """Id of a row of a process's table: unique in the dataset, known before anything is written."""
    return process_id << 40 | row


# The id column of each table that has one.
ID_COLUMNS = {
    "host_ops": "host_op_id",
    "launches": "launch_id",
    "device_ops": "device_op_id",
    "collectives": "collective_id",
    "layers": "layer_id",
}
