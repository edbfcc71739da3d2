"""The part of a trace document that is not its events: keys before, between and behind the arrays.

Arrays of events are found as the value of `traceEvents` however deep, as the document itself, and in a
list of documents. The walk is lenient: a damaged key never hides an array.
"""

import re
from typing import Literal

from mdtrace.ingest.json_cursor import Cursor, Notes
from mdtrace.ingest.json_repair import Counts, decode_lenient
from mdtrace.ingest.json_scan import SEPARATORS, depth_at, value_end

LIMIT = 32 << 20  # longest event or document value that is kept

Found = Literal["events", "more", "end"]

_EVENTS = re.compile(rb'"traceEvents"\s*+:\s*+\[')
_KEY = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:\s*+', re.DOTALL)
_BEGIN = re.compile(rb'["\[\]{}]')
_PHASE = re.compile(rb'"ph"\s*+:')
TOO_LONG = f"longer than {LIMIT >> 20} MB"
_BOM = b"\xef\xbb\xbf"
_OVERLAP = 64  # bytes that `"traceEvents": [` may take, blanks with it
_LOOK = 1 << 20  # how far an object is looked into to tell an event from a document


class Outside:
    """Walks the cursor outside event arrays."""

    def __init__(self, cursor: Cursor, notes: Notes, depth: int = 0) -> None:
        self.cursor = cursor
        self.notes = notes
        self.depth = depth  # brackets open around the cursor
        self.started = depth > 0
        self.lost = False

    def walk(self) -> Found:
        """Go on to the next array of events (the cursor is then behind its bracket), or until text lacks."""
        cursor = self.cursor
        while not self.lost:
            if cursor.offset == 0 and cursor.buf.startswith(_BOM):
                cursor.pos = len(_BOM)
            cursor.pos = SEPARATORS.match(cursor.buf, cursor.pos).end()  # type: ignore[union-attr]
            if cursor.pos >= len(cursor.buf):
                return self._short()
            found = self._token(cursor.buf[cursor.pos : cursor.pos + 1])
            if found:
                return found
        return self._search()

    def _short(self) -> Found:
        """The buffer does not hold what comes next."""
        if not self.cursor.eof:
            return "more"
        self.notes.truncated |= self.depth > 0
        return "end"

    def _token(self, first: bytes) -> Found | None:
        if first == b'"':
            return self._member()
        if first == b"{":
            return self._object()
        if first == b"[":
            return self._array()
        if first in b"}]":
            self.depth = max(self.depth - 1, 0)
            self.cursor.pos += 1
            return None
        return self._garbage()

    def _garbage(self) -> Found | None:
        cursor = self.cursor
        self.notes.skip(cursor.offset, "outside the document")
        match = _BEGIN.search(cursor.buf, cursor.pos + 1)
        cursor.pos = match.start() if match else len(cursor.buf)
        return None

    def _object(self) -> Found | None:
        kind = self._kind(self.cursor.pos)
        if kind is None:
            return "more"
        self.started = True
        if kind == "event":
            return "events"  # events that no bracket announces: one a line, or behind a closed array
        self.depth += 1
        self.cursor.pos += 1
        return None

    def _array(self) -> Found | None:
        cursor = self.cursor
        match = SEPARATORS.match(cursor.buf, cursor.pos + 1)
        inside = match.end() if match else cursor.pos + 1
        first = cursor.buf[inside : inside + 1]
        if not first and not cursor.eof:
            return "more"
        kind = self._kind(inside) if first == b"{" else "document" if first == b"[" else "event"
        if kind is None:
            return "more"
        self.started = True
        cursor.pos += 1
        if kind == "document":
            self.depth += 1
            return None
        return "events"

    def _kind(self, at: int) -> Literal["event", "document"] | None:
        """What the object at `at` is, None where more text must tell.

        A document holds `traceEvents` itself; inside an array all else is an event; outside one, an
        event is told by its `ph`.
        """
        buf, in_array = self.cursor.buf, self.cursor.buf[self.cursor.pos] == ord("[")
        end = value_end(buf, at, min(at + _LOOK, len(buf)))
        if end is None and not self.cursor.eof and len(buf) - at < _LOOK and not _EVENTS.search(buf, at):
            return None
        high = end or min(at + _LOOK, len(buf))
        for match in _EVENTS.finditer(buf, at, high):
            if depth_at(buf, at, match.start()) == 1:
                return "document"
        if in_array or end is None:
            return "event" if in_array else "document"
        return (
            "event"
            if any(depth_at(buf, at, m.start()) == 1 for m in _PHASE.finditer(buf, at, high))
            else "document"
        )

    def _member(self) -> Found | None:
        cursor = self.cursor
        key = _KEY.match(cursor.buf, cursor.pos)
        if key is None or key.end() >= len(cursor.buf):
            return self._loose_string()
        at = key.end()
        nested = _EVENTS.search(cursor.buf, cursor.pos)
        if nested and nested.start() == cursor.pos:
            cursor.pos = nested.end()
            return "events"
        end = value_end(cursor.buf, at)
        if end is None and cursor.eof and cursor.buf[at : at + 1] not in (b"{", b"[", b'"'):
            end = len(cursor.buf) if self.depth == 0 else None
        if nested and (end is None or nested.start() < end):
            self.depth += depth_at(cursor.buf, at, nested.start())
            cursor.pos = nested.end()
            return "events"
        if end is None:
            return self._unfinished()
        self._store(key[1], at, end)
        cursor.pos = end
        return None

    def _store(self, key: bytes, at: int, end: int) -> None:
        done: Counts = {}
        name = decode_lenient(key, done)
        self.notes.document[str(name)] = decode_lenient(self.cursor.buf[at:end], done)
        self.notes.repair(self.cursor.base + at, done)

    def _unfinished(self) -> Found | None:
        """A value that the buffer does not hold whole: read on, or give it up at the limit."""
        cursor = self.cursor
        if cursor.eof:
            self.notes.truncated = True
            return "end"
        if len(cursor.buf) - cursor.pos < LIMIT:
            return "more"
        self.notes.skip(cursor.offset, TOO_LONG)
        self.lost = True
        return None

    def _search(self) -> Found:
        """Inside a value given up: only an array of events brings the walk back."""
        cursor = self.cursor
        if match := _EVENTS.search(cursor.buf, cursor.pos):
            cursor.pos = match.end()
            self.lost = False
            return "events"
        cursor.pos = max(len(cursor.buf) - _OVERLAP, cursor.pos)
        return self._short()

    def _loose_string(self) -> Found | None:
        """A string without a value, so far."""
        cursor = self.cursor
        end = value_end(cursor.buf, cursor.pos)
        following = cursor.buf[end : end + _OVERLAP].strip() if end else b""
        if not following or following.startswith(b":"):
            return self._unfinished()
        self.notes.skip(cursor.offset, "outside the document")
        cursor.pos = end or len(cursor.buf)
        return None
