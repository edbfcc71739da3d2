"""The dataset folder: Parquet files by table and process, and a manifest that makes it one.

`run.mdtrace/manifest.json` and `run.mdtrace/<table>/*.parquet`. Any Parquet reader can read a
table's folder; the manifest carries the version of the schemas and which files belong.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mdtrace.errors import DatasetError, check_path
from mdtrace.tables.schema import SCHEMA_VERSION, schemas_digest, tables

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Dataset:
    """An opened dataset: its folder and, by table, its Parquet files in process order."""

    path: Path
    files: dict[str, tuple[Path, ...]]

    def table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        """A whole table in memory, rows in process order."""
        schema = tables()[name].arrow()
        if columns is not None:
            schema = pa.schema([schema.field(c) for c in columns])
        try:
            parts = [pq.read_table(f, columns=columns, schema=None).cast(schema) for f in self.files[name]]
        except (pa.ArrowException, OSError) as error:
            raise DatasetError(
                f"{self.path}: table {name} cannot be read: {error}", "ingest again"
            ) from error
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def rows(self, name: str) -> int:
        """Number of rows of a table, from the files' footers alone."""
        return sum(pq.read_metadata(f).num_rows for f in self.files[name])


def open_dataset(path: Path) -> Dataset:
    """Open a dataset folder.

    Raises:
        DatasetError: no dataset is there, it is damaged, or of another schema version.
    """
    check_path(path)
    manifest = _manifest(path)
    made = manifest.get("schema_version"), manifest.get("schemas")
    if made != (SCHEMA_VERSION, schemas_digest()):
        raise DatasetError(
            f"{path}: made with table declarations {made[0]} ({made[1] or 'no digest'}), "
            f"this mdtrace reads {SCHEMA_VERSION} ({schemas_digest()})",
            "ingest the traces again, or use the mdtrace that wrote it",
        )
    files = {t: tuple(path / f for f in manifest["files"].get(t, ())) for t in tables()}
    missing = [f for fs in files.values() for f in fs if not f.is_file()]
    if missing:
        raise DatasetError(
            f"{path}: {len(missing)} of its files are gone, {missing[0].name} the first", "ingest again"
        )
    return Dataset(path, files)


def _manifest(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise DatasetError(
            f"{path}: does not exist", "make one with: mdtrace ingest TRACE... -o " + str(path)
        )
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
        files = {str(t): [str(f) for f in fs] for t, fs in manifest["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path}: is no mdtrace dataset (no readable {MANIFEST})",
            "give the folder that mdtrace ingest wrote, ending in .mdtrace by default",
        ) from error
    return {**manifest, "files": files}


def write_manifest(path: Path) -> None:
    """Make the Parquet files under a folder a dataset: the last thing written."""
    files = {t: sorted(f"{t}/{f.name}" for f in (path / t).glob("*.parquet")) for t in tables()}
    versions = {"schema_version": SCHEMA_VERSION, "schemas": schemas_digest()}
    manifest = {"mdtrace": "dataset", **versions, "files": files}
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
