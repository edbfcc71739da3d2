"""One event at a time, where a batch does not decode: strict, else mended, else skipped and counted."""

import re
from typing import Generic, Literal, TypeVar

import msgspec

from mdtrace.ingest.json_cursor import Cursor, Notes
from mdtrace.ingest.json_document import LIMIT, TOO_LONG
from mdtrace.ingest.json_repair import Counts, clean_utf8, count, repairs
from mdtrace.ingest.json_scan import array_end, event_in_garbage, next_event, separators_end, value_end

E = TypeVar("E")

Step = Literal["event", "skipped", "closed", "more"]

REFUSALS = (msgspec.DecodeError, RecursionError)

_RAW = msgspec.json.Decoder(msgspec.Raw)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRONG_FIELD = re.compile(r"at `\$\.([^.\[`]+)")
_FEW_FIELDS = 16
_NEAR = 64 << 10  # an event is looked for in so much text first
_AHEAD = 256 << 10  # text wanted behind a damaged event, to see how its neighbours go on
_NEIGHBOURS = 2  # events that may seem to stand inside a damaged one


class Salvage(Generic[E]):
    """Steps through an array of events, item by item.

    Args:
        ends_at_event: where the text ends another event begins (a range of a file), so nothing is cut off.
    """

    def __init__(self, cursor: Cursor, notes: Notes, event: type[E], *, ends_at_event: bool = False) -> None:
        self.cursor = cursor
        self.notes = notes
        self._ends_at_event = ends_at_event
        self._decode = msgspec.json.Decoder(event).decode

    def step(self, events: list[E]) -> Step:
        """Take the next item; an event is appended to `events`.

        `closed`: the array's bracket was met (the cursor is behind it). `more`: the buffer ends first.
        """
        cursor = self.cursor
        cursor.pos = separators_end(cursor.buf, cursor.pos)
        first = cursor.buf[cursor.pos : cursor.pos + 1]
        if first == b"{":
            return self._object(events)
        if first == b"]":
            cursor.pos += 1
            return "closed"
        return self._other() if first else "more"

    def _object(self, events: list[E]) -> Step:
        buf, at = self.cursor.buf, self.cursor.pos
        end = value_end(buf, at, min(at + _NEAR, len(buf)))
        if end is None and not self._malformed(at):
            end = value_end(buf, at)
            if end is None and self._may_grow(LIMIT):
                return "more"
        if end is not None and self._whole(events, buf[at:end], end):
            return "event"
        near = next_event(buf, at, skip=_NEIGHBOURS)
        if near is None and self._may_grow(_AHEAD):
            return "more"
        if self._mended(events, at, end, max(near or len(buf), end or 0)):
            return "event"
        return self._lost(at, end)

    def _other(self) -> Step:
        """An item that is no object: a sound value, or garbage."""
        buf, at = self.cursor.buf, self.cursor.pos
        end = value_end(buf, at)
        if end is None and self._may_grow(LIMIT) and not self._malformed(at):
            return "more"
        if end is not None and _is_value(buf[at:end]):
            return self._skip("not an object", end)
        if self._may_grow(_AHEAD):
            return "more"
        following, behind = event_in_garbage(buf, at), next_event(buf, at)
        starts = [place for place in (following, behind) if place is not None]
        return self._skip("undecodable", min(starts)) if starts else self._lost(at, None)

    def _may_grow(self, limit: int) -> bool:
        """Whether there is more text to be had and the item is not yet longer than the limit."""
        return not self.cursor.eof and len(self.cursor.buf) - self.cursor.pos < limit

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
        """Take an event whose text needs no repair but in its encoding and the type of its fields."""
        done: Counts = {}
        event = self._typed(clean_utf8(text, done), done)
        if event is None:
            return False
        self._take(events, event, text, end, done)
        return True

    def _mended(self, events: list[E], at: int, end: int | None, high: int) -> bool:
        text = self.cursor.buf[at:high]
        clean = clean_utf8(text, {})
        same = end is not None and clean is text
        for mended, length, done in repairs(clean, 0, len(clean), end - at if same and end else None):
            event = self._typed(mended, done)
            if event is not None:
                length = length if clean is text else _original_length(text, clean[:length], done)
                self._take(events, event, text[:length], at + length, done)
                return True
        return False

    def _typed(self, text: bytes, done: Counts) -> E | None:
        """The event in strict JSON; fields of an unexpected type are left out, if the type allows."""
        for _ in range(_FEW_FIELDS):
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
        buf = self.cursor.buf
        following = next_event(buf, at)
        sound = end is not None and _is_value(buf[at:end])
        if sound or (following is None and end is not None and _goes_on(buf, end)):
            following = end
        if following is not None:
            return self._skip(
                "undecodable" if buf[at + 1 : end].strip() != b"}" else "empty object", following
            )
        return "more" if self._may_grow(LIMIT) else self._lost_to_the_end(at)

    def _lost_to_the_end(self, at: int) -> Step:
        """No event behind the item in all the text there is, or that is looked at."""
        buf, eof = self.cursor.buf, self.cursor.eof
        if not eof:
            return self._skip(TOO_LONG, len(buf))
        if self._malformed(at):
            closing = array_end(buf, at)
            if closing is not None or self._ends_at_event:
                return self._skip("undecodable", closing or len(buf))
        self.notes.truncated = True
        return self._skip("cut off", len(buf))

    def _skip(self, reason: str, end: int) -> Step:
        self.notes.skip(self.cursor.offset, reason)
        self.cursor.pos = end
        return "skipped"


def _original_length(text: bytes, clean: bytes, done: Counts) -> int:
    """Length in `text` of what became `clean`, its beginning; the bytes replaced in it are counted."""
    length = replaced = 0
    characters = text.decode(errors="surrogateescape")[: len(clean.decode())]
    for character in characters:
        alien = "\udc80" <= character <= "\udcff"
        replaced += alien
        length += 1 if alien else len(character.encode())
    count(done, "invalid UTF-8", replaced)
    return length


def _without_field(text: bytes, error: str) -> bytes | None:
    """The object without the field that the error names, or None."""
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


def _goes_on(buf: bytes, end: int) -> bool:
    """Whether what stands behind an item is what stands behind items."""
    return buf[end : end + 64].lstrip()[:1] in (b",", b"]", b"")
