"""An SQLite export as tables. Opened read-only and immutable: no lock, no journal, nothing is written."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from mdtrace.errors import InputError
from mdtrace.ingest.nsys import sqlite_arrow, sqlite_salvage
from mdtrace.ingest.nsys.source import SPAN_ROWS, Columns, Span, Tally

_HINT = "run: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep, and give the .sqlite file"
_MAGIC = b"SQLite format 3\0"
_LEAST_ROW = 6  # bytes that the smallest row takes: pointer, length, rowid, record
_MOST_SPANS = 4096
_LOOKUP = 20_000  # ids in one query


class SqliteSource:
    """One database file; each thread has its own connection."""

    unreadable = 0  # tables that cannot be opened at all

    def __init__(self, path: Path, label: str) -> None:
        """Open an export.

        Raises:
            InputError: it is no SQLite database, or so damaged that its tables cannot be told.
        """
        self._path = path
        self.uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
        self.size_bytes = path.stat().st_size
        self.truncated = _pages(path, label) > self.size_bytes
        self._local = threading.local()
        try:
            self.tables = self._tables()
            self._encoding = self._db().execute("PRAGMA encoding").fetchone()[0].decode()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{label}: a damaged SQLite database", _HINT) from error

    def _db(self) -> sqlite3.Connection:
        """The calling thread's connection; all text comes as bytes."""
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = sqlite3.connect(self.uri, uri=True)
            db.text_factory = bytes
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA cell_size_check = ON")
            if self.truncated:
                db.execute(sqlite_arrow.READ_SHORTER)
            self._local.db = db
        return db

    def close(self) -> None:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is not None:
            db.close()
            self._local.db = None

    def _tables(self) -> dict[str, tuple[str, ...]]:
        """Plain tables (no views, no virtual tables) and their stored columns."""
        rows = self._db().execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        names = [n.decode("utf-8", "replace") for n, sql in rows if not _is_virtual(sql)]
        return {n: self._columns(n) for n in sorted(names) if not n.startswith("sqlite_")}

    def _columns(self, table: str) -> tuple[str, ...]:
        rows = self._db().execute(f"PRAGMA table_info({_quoted(table)})").fetchall()
        return tuple(r[1].decode("utf-8", "replace") for r in rows)

    def spans(self, table: str) -> list[Span]:
        whole = self._whole(table)
        if whole is None:
            return []
        step = max(SPAN_ROWS, -(-(whole.last - whole.first + 1) // _MOST_SPANS))
        spans: list[Span] = []
        first: int | None = whole.first
        while first is not None and first <= whole.last:
            spans.append(Span(first, min(first + step - 1, whole.last)))
            first = self._bound(table, f"WHERE rowid >= {first + step} ORDER BY rowid", first + step)
        return spans

    def _whole(self, table: str) -> Span | None:
        """From the first to the last rowid. A bound that cannot be read is put where no row lies beyond."""
        low = self._bound(table, "ORDER BY rowid", 1)
        high = self._bound(table, "ORDER BY rowid DESC", (low or 1) + self.size_bytes // _LEAST_ROW)
        return None if low is None or high is None else Span(low, high)

    def _bound(self, table: str, order: str, unreadable: int) -> int | None:
        """The first rowid in an order; None if there is none."""
        try:
            row = self._db().execute(f"SELECT rowid FROM {_quoted(table)} {order} LIMIT 1").fetchone()
        except sqlite3.DatabaseError:
            return unreadable
        return None if row is None else int(row[0])

    def _present(self, table: str, columns: Columns) -> Columns:
        have = self.tables.get(table, ())
        return {c: kind for c, kind in columns.items() if c in have}

    def batches(self, table: str, columns: Columns, span: Span, tally: Tally) -> Iterator[pa.RecordBatch]:
        present = self._present(table, columns)
        done = 0
        try:
            fast = sqlite_arrow.read(self.uri, _quoted(table), present, span, shorter=self.truncated)
            for batch in fast:
                done += batch.num_rows
                yield sqlite_arrow.cleaned(batch, present, tally, self._encoding)
            return
        except sqlite_arrow.ReadErrors:
            pass  # the slow way counts the damage
        rest = sqlite_salvage.read(self._db(), _quoted(table), present, span, tally, done)
        for batch in rest:
            yield sqlite_arrow.cleaned(batch, present, tally, self._encoding)

    def rows(
        self,
        table: str,
        columns: Columns,
        tally: Tally,
        where: tuple[str, Sequence[int]] | None = None,
    ) -> list[dict[str, Any]]:
        if table not in self.tables or (where and where[0] not in self.tables[table]):
            return []
        whole = self._whole(table)
        if whole is None:
            return []
        present = self._present(table, columns)
        filters = "" if where is None else f"{_quoted(where[0])} IN ({', '.join(map(str, where[1]))})"
        batches = sqlite_salvage.read(self._db(), _quoted(table), present, whole, tally, 0, filters)
        found: list[dict[str, Any]] = []
        for batch in batches:
            found += sqlite_arrow.cleaned(batch, present, tally, self._encoding).to_pylist()
        return [{c: row.get(c) for c in columns} for row in found]

    def count(self, table: str, tally: Tally) -> int:
        try:
            return int(self._db().execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0])
        except sqlite3.DatabaseError:
            whole = self._whole(table) or Span(0, 0)
            batches = sqlite_salvage.read(self._db(), _quoted(table), {}, whole, tally, 0)
            return sum(b.num_rows for b in batches)

    def names(self, ids: Sequence[int]) -> dict[int, str]:
        if not {"id", "value"} <= set(self.tables.get("StringIds", ())):
            return {}
        found: dict[int, str] = {}
        wanted = sorted(ids)
        for first in range(0, len(wanted), _LOOKUP):
            found.update(self._names(wanted[first : first + _LOOKUP]))
        return found

    def _names(self, ids: list[int]) -> dict[int, str]:
        query = (
            "SELECT id, CAST(value AS BLOB) FROM StringIds WHERE value IS NOT NULL"
            f" AND id IN ({', '.join(map(str, ids))})"
        )
        try:
            return {int(i): self._text(value) for i, value in self._db().execute(query)}
        except sqlite3.DatabaseError:
            if len(ids) == 1:
                return {}
            half = len(ids) // 2
            return {**self._names(ids[:half]), **self._names(ids[half:])}

    def _text(self, value: bytes) -> str:
        return value.decode(self._encoding, "replace")

    def environment_texts(self) -> list[str]:
        if "value" not in self.tables.get("StringIds", ()):
            return []
        marks = " OR ".join(f"instr(v, x'{m.encode().hex()}')" for m in ("RANK=", "SLURM_PROCID="))
        query = f"SELECT v FROM (SELECT CAST(value AS BLOB) AS v FROM StringIds) WHERE {marks}"
        found: list[str] = []
        try:
            for (value,) in self._db().execute(query):
                found.append(self._text(value))
        except sqlite3.DatabaseError:
            pass  # what was found before the damage is as good
        return found

    def has_journal(self) -> bool:
        """Whether changes that were never merged into the file lie beside it."""
        beside = (self._path.with_name(self._path.name + end) for end in ("-wal", "-journal"))
        return any(p.is_file() and p.stat().st_size > 0 for p in beside)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_virtual(sql: bytes | None) -> bool:
    return sql is None or sql.lstrip()[:14].upper().startswith(b"CREATE VIRTUAL")


def _pages(path: Path, label: str) -> int:
    """Bytes that the header says the database has; 0 where it does not say.

    Raises:
        InputError: the header is none of SQLite's.
    """
    with path.open("rb") as file:
        head = file.read(100)
    if not head.startswith(_MAGIC):
        raise InputError(f"{label}: not an SQLite export; a report (.nsys-rep) must be exported first", _HINT)
    if len(head) < 100:
        raise InputError(f"{label}: an SQLite file cut off in its header", _HINT)
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    counts_valid = head[24:28] == head[92:96]  # else an old SQLite wrote it and the count is stale
    return size * int.from_bytes(head[28:32], "big") if counts_valid else 0
