"""One event at a time, where a batch does not decode: strict, else mended, else skipped and counted."""

import re
from typing import Generic, Literal, TypeVar

import msgspec

from mdtrace.ingest.json_cursor import Cursor, Notes
from mdtrace.ingest.json_document import LIMIT, TOO_LONG
from mdtrace.ingest.json_repair import Counts, clean_utf8, count, repairs
from mdtrace.ingest.json_scan import SEPARATORS, next_event, value_end

E = TypeVar("E")

Step = Literal["event", "skipped", "closed", "more"]

REFUSALS = (msgspec.DecodeError, RecursionError)
_RAW = msgspec.json.Decoder(msgspec.Raw)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRONG_FIELD = re.compile(r"at `\$\.([^.\[`]+)")
_MEND_LIMIT = 4 << 20  # longest text that is mended
_NEIGHBOURS = 2  # events that may seem to stand inside a damaged one


class Salvage(Generic[E]):
    """Steps through an array of events, item by item."""

    def __init__(self, cursor: Cursor, notes: Notes, event: type[E]) -> None:
        self.cursor = cursor
        self.notes = notes
        self._decode = msgspec.json.Decoder(event).decode

    def step(self, events: list[E]) -> Step:
        """Take the next item; an event is appended to `events`.

        `closed`: the array's bracket was met (the cursor is behind it). `more`: the buffer ends first.
        """
        cursor = self.cursor
        match = SEPARATORS.match(cursor.buf, cursor.pos)
        cursor.pos = match.end() if match else cursor.pos
        first = cursor.buf[cursor.pos : cursor.pos + 1]
        if first == b"]":
            cursor.pos += 1
            return "closed"
        if first == b"{":
            return self._object(events)
        return self._other(first) if first else "more"

    def _object(self, events: list[E]) -> Step:
        buf, at = self.cursor.buf, self.cursor.pos
        near = next_event(buf, at, skip=_NEIGHBOURS) or len(buf)
        end = value_end(buf, at, near)
        if end is None and not self._malformed(at):
            end = value_end(buf, at) if near < len(buf) else None
            if end is None and not self.cursor.eof and len(buf) - at < LIMIT:
                return "more"
        if end is not None and self._whole(events, buf[at:end], end):
            return "event"
        if self._mended(events, at, near):
            return "event"
        return self._lost(at, end)

    def _malformed(self, at: int) -> bool:
        """Whether the buffer from `at` is wrong, rather than only too short."""
        try:
            _RAW.decode(memoryview(self.cursor.buf)[at:])
        except msgspec.DecodeError as error:
            text = str(error)
            return "truncated" not in text and "trailing" not in text
        except RecursionError:
            return True
        return False

    def _whole(self, events: list[E], text: bytes, end: int) -> bool:
        """Take an event whose text needs no repair but in its encoding."""
        done: Counts = {}
        event = self._typed(clean_utf8(text, done), done)
        if event is None:
            return False
        self._take(events, event, text, end, done)
        return True

    def _mended(self, events: list[E], at: int, near: int) -> bool:
        encoding: Counts = {}
        text = self.cursor.buf[at : min(near, at + _MEND_LIMIT)]
        clean = clean_utf8(text, encoding)
        for mended, length, done in repairs(clean, 0, len(clean)):
            event = self._typed(mended, done)
            if event is None:
                continue
            length = _original_length(text, clean, length, done)
            self._take(events, event, text[:length], at + length, done)
            return True
        return False

    def _typed(self, text: bytes, done: Counts) -> E | None:
        """The event in strict JSON; fields of an unexpected type are left out, if the type allows."""
        for _ in range(4):
            try:
                return self._decode(text)
            except msgspec.ValidationError as error:
                shorter = _without_field(text, str(error))
            except REFUSALS:
                return None
            if shorter is None:
                return None
            text = shorter
            count(done, "unexpected type")
        return None

    def _take(self, events: list[E], event: E, text: bytes, end: int, done: Counts) -> None:
        self.notes.repair(self.cursor.offset, done)
        if text[1:-1].strip():
            events.append(event)
        else:
            self.notes.skip(self.cursor.offset, "empty object")
        self.cursor.pos = end

    def _lost(self, at: int, end: int | None) -> Step:
        """Nothing helps: go on behind the item, where the next event begins."""
        cursor = self.cursor
        following = next_event(cursor.buf, at)
        if end is not None and (following is None or end < following) and _is_object(cursor.buf[at:end]):
            following = end  # sound JSON that is no event
        if following is None and end is not None and cursor.buf[end : end + 1].strip() in (b",", b"]", b""):
            following = end
        if following is None and not cursor.eof and len(cursor.buf) - at < LIMIT:
            return "more"
        if following is None:
            whole = not cursor.eof
            self.notes.skip(cursor.offset, TOO_LONG if whole else "cut off")
            self.notes.truncated |= cursor.eof
            cursor.pos = len(cursor.buf)
            return "skipped"
        self.notes.skip(cursor.offset, _reason(cursor.buf[at : end or following]))
        cursor.pos = following
        return "skipped"

    def _other(self, first: bytes) -> Step:
        """An item that is no object: a sound value, or garbage up to what looks like the next event."""
        cursor = self.cursor
        buf, at = cursor.buf, cursor.pos
        end = value_end(buf, at)
        sound = end is not None and _is_value(buf[at:end])
        if end is None and not cursor.eof and len(buf) - at < LIMIT and not self._malformed(at):
            return "more"
        if sound and end is not None:
            self.notes.skip(cursor.offset, "not an object")
            cursor.pos = end
            return "skipped"
        return self._lost(at, None)


def _original_length(text: bytes, clean: bytes, length: int, done: Counts) -> int:
    """Length in `text` of what has `length` in its cleaned copy; its replaced bytes are counted."""
    if len(text) == len(clean) and text == clean:
        return length
    low, counts = len(clean[:length].decode()), 0
    at = 0
    for piece in text.decode(errors="surrogateescape"):
        if low == 0:
            break
        low -= 1
        if "\udc80" <= piece <= "\udcff":
            counts += 1
            at += 1
        else:
            at += len(piece.encode())
    count(done, "invalid UTF-8", counts)
    return at


def _without_field(text: bytes, error: str) -> bytes | None:
    match = _WRONG_FIELD.search(error)
    if match is None:
        return None
    try:
        fields = _FIELDS.decode(text)
    except REFUSALS:
        return None
    if fields.pop(match[1], None) is None:
        return None
    return msgspec.json.encode(fields)


def _is_value(text: bytes) -> bool:
    try:
        _RAW.decode(text)
    except REFUSALS:
        return False
    return True


def _is_object(text: bytes) -> bool:
    return text.startswith(b"{") and _is_value(text)


def _reason(text: bytes) -> str:
    return "empty object" if text.startswith(b"{") and not text[1:-1].strip() else "undecodable"
