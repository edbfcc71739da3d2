"""Reads around damaged pages of an SQLite table: slow, only where the fast reading stopped.

SQLite cannot step over a page that it cannot read. So the reading stops at the last good row, looks for
the next readable rowid in growing steps, comes back by halving, and goes on from there.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mdtrace.ingest.nsys.source import BATCH_ROWS, Columns, Span, Tally
from mdtrace.ingest.nsys.sqlite_arrow import from_rows, guarded

_MOST_GAPS = 10_000  # holes in one span before the rest is given up
_LONGEST_STEP = 4096  # rows: good stretches shorter than this may be stepped over


def read(
    db: sqlite3.Connection,
    table: str,
    columns: Columns,
    span: Span,
    tally: Tally,
    skip: int,
    where: str = "",
) -> Iterator[pa.RecordBatch]:
    """The readable rows of a span in rowid order, but for the first `skip` of them.

    Args:
        table: its name, quoted.
        where: a further condition in SQL.
    """
    body = "".join(f", {guarded(name, kind)}" for name, kind in columns.items())
    rest = f" AND {where}" if where else ""
    query = f"SELECT rowid{body} FROM {table} WHERE rowid BETWEEN ? AND ?{rest}"
    held: list[Any] = []
    for row in _rows(db, query, span, tally):
        if skip:
            skip -= 1
            continue
        held.append(row)
        if len(held) == BATCH_ROWS:
            yield from_rows(held, columns)
            held = []
    if held:
        yield from_rows(held, columns)


def _rows(db: sqlite3.Connection, query: str, span: Span, tally: Tally) -> Iterator[Any]:
    first = span.first
    for _ in range(_MOST_GAPS):
        try:
            torn = False
            for row in db.execute(query, (first, span.last)):
                if row[0] < first:  # of a page whose end is missing: its first rows read as zeros
                    torn = True
                    continue
                first = row[0] + 1
                if torn:  # the next row may reach into what is missing
                    torn = False
                    tally.add("damaged_pages")
                else:
                    yield row
            return
        except sqlite3.DatabaseError:
            tally.add("damaged_pages")
        # Python's cursor steps ahead: it fails before it hands over the last row that is good.
        last_good = _one(db, query, first, span.last)
        if last_good is not None and last_good[0] >= first:
            first = last_good[0] + 1
            yield last_good
        found = _next_readable(db, query, first, span.last)
        if found is None:
            return
        first = found


def _next_readable(db: sqlite3.Connection, query: str, bad: int, last: int) -> int | None:
    """The first rowid after the unreadable `bad` from which a row can be read; None at the end."""
    low, high, step = bad, bad + 1, 1  # low cannot be read from; high is tried
    while not _readable(db, query, high, last):
        if high > last:
            return None
        step = min(2 * step, _LONGEST_STEP)
        low, high = high, high + step
    while high - low > 1:
        middle = (low + high) // 2
        if _readable(db, query, middle, last):
            high = middle
        else:
            low = middle
    return high


def _readable(db: sqlite3.Connection, query: str, first: int, last: int) -> bool:
    try:
        db.execute(f"{query} LIMIT 1", (first, last)).fetchone()
    except sqlite3.DatabaseError:
        return False
    return True


def _one(db: sqlite3.Connection, query: str, first: int, last: int) -> Any:
    """The next row, None if it cannot be read."""
    try:
        return db.execute(f"{query} LIMIT 1", (first, last)).fetchone()
    except sqlite3.DatabaseError:
        return None
