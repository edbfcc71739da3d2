"""The part of a trace document that is not its events: keys before, between and behind the arrays.

Arrays of events are found as the value of `traceEvents` however deep, as the document itself, and in a
list of documents; events that follow each other without any bracket count as an array too. The walk is
lenient: a damaged key never hides an array.
"""

import re
from typing import Literal

from mdtrace.ingest.json_cursor import Cursor, Notes
from mdtrace.ingest.json_repair import Counts, decode_lenient
from mdtrace.ingest.json_scan import PHASE, depth_at, has_member, separators_end, value_end

LIMIT = 32 << 20  # longest event or document value that is kept
TOO_LONG = f"longer than {LIMIT >> 20} MB"

Found = Literal["events", "more", "end"]

_EVENTS = re.compile(rb'"traceEvents"\s*+:\s*+\[')
_KEY = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:\s*+', re.DOTALL)
_MARK = re.compile(rb'["\[\]{}]')
_BOM = b"\xef\xbb\xbf"
_OVERLAP = 64  # bytes that `"traceEvents": [` may take, blanks with it
_LOOK = 1 << 20  # how far an object is looked into to tell an event from a document


class Outside:
    """Walks the cursor outside event arrays.

    Args:
        depth: brackets open around the cursor.
    """

    def __init__(self, cursor: Cursor, notes: Notes, depth: int = 0) -> None:
        self.cursor = cursor
        self.notes = notes
        self.depth = depth
        self._lost = False

    def walk(self) -> Found:
        """Go on to the next array of events (the cursor is then behind its bracket), or until text lacks."""
        cursor = self.cursor
        if cursor.offset == 0 and _BOM.startswith(cursor.buf[:3]):
            if len(cursor.buf) < len(_BOM) and not cursor.eof:
                return "more"
            cursor.pos = len(_BOM)
        while not self._lost:
            cursor.pos = separators_end(cursor.buf, cursor.pos)
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
        self._garbage(self.cursor.pos + 1)
        return None

    def _garbage(self, behind: int) -> None:
        cursor = self.cursor
        self.notes.skip(cursor.offset, "outside the document")
        match = _MARK.search(cursor.buf, behind)
        cursor.pos = match.start() if match else len(cursor.buf)

    def _object(self) -> Found | None:
        kind = self._kind(self.cursor.pos, "document")
        if kind is None:
            return "more"
        if kind == "event":
            return "events"  # one a line, or behind an array that was closed too early
        self.depth += 1
        self.cursor.pos += 1
        return None

    def _array(self) -> Found | None:
        cursor = self.cursor
        inside = separators_end(cursor.buf, cursor.pos + 1)
        first = cursor.buf[inside : inside + 1]
        if not first and not cursor.eof:
            return "more"
        kind = self._kind(inside, "event") if first == b"{" else "document" if first == b"[" else "event"
        if kind is None:
            return "more"
        cursor.pos += 1
        if kind == "event":
            return "events"
        self.depth += 1
        return None

    def _kind(self, at: int, otherwise: Literal["event", "document"]) -> Literal["event", "document"] | None:
        """What the object at `at` is, None where more text must tell.

        A document holds `traceEvents` itself, an event has a phase.
        """
        buf = self.cursor.buf
        high = min(at + _LOOK, len(buf))
        if has_member(buf, at, high, _EVENTS):
            return "document"
        end = value_end(buf, at, high)
        if end is None and high == len(buf) and not self.cursor.eof:
            return None
        return "event" if has_member(buf, at, end or high, PHASE) else otherwise

    def _member(self) -> Found | None:
        """A key and its value."""
        cursor = self.cursor
        if events := _EVENTS.match(cursor.buf, cursor.pos):
            cursor.pos = events.end()
            return "events"
        key = _KEY.match(cursor.buf, cursor.pos)
        if key is None or key.end() >= len(cursor.buf):
            return self._loose_string()
        if cursor.buf[key.end()] == ord("[") and (found := self._other_array(key.end())):
            return found
        end = value_end(cursor.buf, key.end())
        if nested := _EVENTS.search(cursor.buf, key.end(), len(cursor.buf) if end is None else end):
            self.depth += depth_at(cursor.buf, key.end(), nested.start())
            cursor.pos = nested.end()
            return "events"
        if end is None:
            return self._unfinished()
        if cursor.buf[key.end() : key.end() + 1] not in b",}]":
            self._store(key[1], key.end(), end)
            cursor.pos = end
        else:
            self._store(key[1], end, end)  # an empty value
            cursor.pos = key.end()
        return None

    def _other_array(self, at: int) -> Found | None:
        """An array of events under another key, as damage may leave it."""
        cursor = self.cursor
        inside = separators_end(cursor.buf, at + 1)
        if not cursor.buf[inside:] and not cursor.eof:
            return "more"
        if cursor.buf[inside : inside + 1] != b"{":
            return None
        kind = self._kind(inside, "document")
        if kind == "document":
            return None
        if kind is None:
            return self._unfinished()
        self.notes.repair(cursor.offset, {"events under another key": 1})
        cursor.pos = at + 1
        return "events"

    def _store(self, key: bytes, at: int, end: int) -> None:
        done: Counts = {} if end > at else {"empty value": 1}
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
        self._lost = True
        return None

    def _search(self) -> Found:
        """Inside a value given up: only an array of events brings the walk back."""
        cursor = self.cursor
        if match := _EVENTS.search(cursor.buf, cursor.pos):
            cursor.pos = match.end()
            self._lost = False
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
        self._garbage(end or len(cursor.buf))
        return None
