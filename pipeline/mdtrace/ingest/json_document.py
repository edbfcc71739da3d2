"""The part of a trace document that is not its events: keys before, between and behind the arrays.

Arrays of events are found as the value of `traceEvents` however deep, as the document itself, and in a
list of documents; events that follow each other without any bracket count as an array too. The walk is
lenient: a damaged key never hides an array.
"""

import re
from typing import Literal

from mdtrace.ingest.json_cursor import LIMIT, Cursor, Notes
from mdtrace.ingest.json_repair import decode_lenient
from mdtrace.ingest.json_scan import (
    PHASE,
    depth_at,
    event_in_garbage,
    has_member,
    own_text,
    separators_end,
    value_end,
)
from mdtrace.ingest.json_strings import Counts, is_value

TOO_LONG = f"longer than {LIMIT >> 20} MB"

Found = Literal["events", "more", "end"]
Kind = Literal["event", "document"]

_EVENTS = re.compile(rb'"traceEvents"\s*+:\s*+\[')
_NAME = b'"traceEvents"'
_KEY = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+:\s*+', re.DOTALL)
_MARK = re.compile(rb'["\[\]{}]')
_TO_OBJECT = re.compile(rb'[\s,:\[{"]{0,16}?(?=\{\s*+"\w++"\s*+:)')
_NO_COMMA = re.compile(rb'\]\s*+"')  # a key right behind an array: the bracket is damage
_BOM = b"\xef\xbb\xbf"
_OVERLAP = 64  # bytes that `"traceEvents": [` may take, blanks with it
_FEWER = 10  # objects after which only _LOOK >> _FEWER bytes are looked at: a document has few
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
        self._begun = depth > 0
        self._lost = False
        self._looked_to = -1
        self._looks = 0

    def walk(self) -> Found:
        """Go on to the next array of events (the cursor is then behind its bracket), or until text lacks."""
        cursor = self.cursor
        if cursor.offset == 0 and _BOM.startswith(cursor.buf[:3]):
            if len(cursor.buf) < len(_BOM) and not cursor.eof:
                return "more"
            cursor.pos = len(_BOM)
        if _NO_COMMA.match(cursor.buf, max(cursor.pos - 1, 0)) and (found := self._garbage(cursor.pos)):
            return found
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
        return self._garbage(self.cursor.pos + 1)

    def _garbage(self, behind: int) -> Found | None:
        """Damage: from here on what counts is where events begin."""
        cursor = self.cursor
        self.notes.skip(cursor.offset, "outside the document")
        if place := self._place_of_events():
            cursor.pos = place
            return "events"
        match = _MARK.search(cursor.buf, behind)
        cursor.pos = match.start() if match else len(cursor.buf)
        return None

    def _place_of_events(self) -> int | None:
        """Where an array of events, or else an event, begins in the buffer; looked for once per buffer."""
        cursor = self.cursor
        if (end := cursor.base + len(cursor.buf)) == self._looked_to:
            return None
        self._looked_to = end
        match = _EVENTS.search(cursor.buf, max(cursor.pos - 1, 0))  # the quote may have been used up
        event = event_in_garbage(cursor.buf, cursor.pos)
        places = [place for place in (match and match.end(), event) if place is not None]
        return min(places, default=None)

    def _object(self) -> Found | None:
        kind = self._kind(self.cursor.pos, "document")
        if kind is None:
            return "more"
        if kind == "event":
            return "events"  # one a line, or behind an array that was closed too early
        self._begun = True
        self.depth += 1
        self.cursor.pos += 1
        return None

    def _array(self) -> Found | None:
        cursor = self.cursor
        inside = separators_end(cursor.buf, cursor.pos + 1)
        first = cursor.buf[inside : inside + 1]
        if not first and not cursor.eof:
            return "more"
        otherwise: Kind = "document" if self._begun else "event"
        kind = self._kind(inside, otherwise) if first == b"{" else "document" if first == b"[" else otherwise
        if kind is None:
            return "more"
        cursor.pos += 1
        self._begun = True
        if kind == "event":
            return "events"
        self.depth += 1
        return None

    def _kind(self, at: int, otherwise: Kind) -> Kind | None:
        """What the object at `at` is, None where more text must tell.

        A document holds `traceEvents`, before any phase or among its own keys; an event is sound and has
        a phase.
        """
        high = min(at + (_LOOK >> min(self._looks, _FEWER)), len(self.cursor.buf))
        kind = self._look(at, high, otherwise)
        self._looks += kind is not None
        return kind

    def _look(self, at: int, high: int, otherwise: Kind) -> Kind | None:
        buf = self.cursor.buf
        events, phase = _EVENTS.search(buf, at, high), PHASE.search(buf, at, high)
        if events and (phase is None or events.start() < phase.start()):
            return "document"
        for low, end, last in own_text(buf, at, high):
            if _EVENTS.search(buf, low, end):
                return "document"
            if last:
                sound = has_member(buf, at, end, PHASE) and is_value(buf[at:end])
                return "event" if sound else otherwise
        return None if high == len(buf) and not self.cursor.eof else otherwise

    def _member(self) -> Found | None:
        """A key and its value."""
        cursor = self.cursor
        if events := _EVENTS.match(cursor.buf, cursor.pos):
            cursor.pos = events.end()
            return "events"
        key = _KEY.match(cursor.buf, cursor.pos)
        if key is None or key.end() >= len(cursor.buf):
            return self._loose_string()
        if _nearly(key[1]) and (found := self._damaged_array(key.end())):
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

    def _damaged_array(self, at: int) -> Found | None:
        """Events at `at` under a key, or behind a bracket, that damage has changed."""
        cursor = self.cursor
        match = _TO_OBJECT.match(cursor.buf, at)
        if match is None:
            return "more" if len(cursor.buf) - at < _OVERLAP and not cursor.eof else None
        kind = self._kind(match.end(), "document")
        if kind == "document":
            return None
        if kind is None:
            return self._unfinished()
        self.notes.repair(cursor.offset, {"damaged key": 1})
        cursor.pos = match.end()
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
        if place := self._place_of_events():
            cursor.pos = place
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
        return self._garbage(end or len(cursor.buf))


def _nearly(key: bytes) -> bool:
    """Whether the key is `"traceEvents"` but for a damaged place."""
    before = _shared(key, _NAME)
    behind = _shared(key[:before:-1], _NAME[:before:-1])
    return before + behind >= len(_NAME) - 3


def _shared(a: bytes, b: bytes) -> int:
    """Length of the beginning that both have."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
