"""One event at a time, where a batch does not decode: strict, else mended, else skipped and counted."""

import re
from typing import Generic, Literal, TypeVar

import msgspec

from mdtrace.ingest.json_cursor import LIMIT, Cursor, Notes
from mdtrace.ingest.json_document import TOO_LONG
from mdtrace.ingest.json_repair import repairs
from mdtrace.ingest.json_scan import array_end, event_in_garbage, next_event, separators_end, value_end
from mdtrace.ingest.json_strings import RAW, REFUSALS, Counts, clean_utf8, count, is_value

E = TypeVar("E")

Step = Literal["event", "skipped", "closed", "more"]

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_WRONG_FIELD = re.compile(r"at `\$\.([^.\[`]+)")
_NESTED_EVENT = re.compile(rb'\[[\s,]*+\{(?:(?!"ph"\s*:)(?:[^{}"]|"[^"]*+"))*+"ph"\s*+:')
# Items of an array that are no events, with what must follow: a key in their place is followed by a colon.
_PLAIN = rb'[^\[\]{}"]|"[^"\\]*+"'
_FLAT = rb"\[(?:" + _PLAIN + rb")*+\]|\{(?:" + _PLAIN + rb")*+\}"
_ARRAY = rb"\[(?:" + _PLAIN + rb"|" + _FLAT + rb")*+\]"
_ITEM = rb'(?:null|true|false|-?\d[\d.eE+-]*+|"[^"\\]*+"|' + _ARRAY + rb")"
_ITEMS = rb"(?:" + _ITEM + rb"\s*+(?:,\s*+|(?=\])|\Z))*+"
# What stands behind an event.
_GOES_ON = re.compile(rb"\s*+(?:\]|\Z|,?\s*+" + _ITEMS + rb'(?:\Z|\]|\{\s*+(?:["}]|\Z)))')
_FOLLOWING = 64  # bytes that this may take
_FEW_FIELDS = 16
_NEAR = 4 << 10  # an event is looked for in so much text first
_KEPT = 64 << 10  # text kept while the end of an item that is too long is looked for
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
        self._seeking = False  # inside an item given up for its length
        self._decode = msgspec.json.Decoder(event).decode

    def step(self, events: list[E]) -> Step:
        """Take the next item; an event is appended to `events`.

        `closed`: the array's bracket was met (the cursor is behind it). `more`: the buffer ends first.
        """
        cursor = self.cursor
        if self._seeking and not self._found():
            return "more"
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
        if end is None and (state := self._state()) != "malformed":
            end = value_end(buf, at)
            if end is None and state == "short":  # sound as far as it goes: never mended into something whole
                return "more" if self._may_grow(LIMIT) else self._lost_to_the_end()
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
        if _NESTED_EVENT.match(buf, at):
            return self._nested()
        high = min(at + _AHEAD, len(buf)) if buf[at] == ord("[") else len(buf)
        end = value_end(buf, at, high)
        if end is not None and is_value(buf[at:end]):
            return self._skip("not an object", end)
        if self._may_grow(_AHEAD):
            return "more"
        inside, behind = event_in_garbage(buf, at), next_event(buf, at)
        starts = [place for place in (inside, behind) if place is not None]
        if starts:
            return self._skip("undecodable", min(starts))
        return "more" if self._may_grow(LIMIT) and self._state() == "short" else self._lost(at, None)

    def _nested(self) -> Step:
        """An array around events: they are taken, and its end will pass for that of all."""
        self.notes.repair(self.cursor.offset, {"array in array": 1})
        self.cursor.pos += 1
        return "skipped"

    def _may_grow(self, limit: int) -> bool:
        """Whether there is more text to be had and the item is not yet longer than the limit."""
        return not self.cursor.eof and len(self.cursor.buf) - self.cursor.pos < limit

    def _state(self) -> Literal["whole", "short", "malformed"]:
        """What strict JSON makes of the value at the cursor: `short` is sound up to the end of the buffer."""
        try:
            RAW.decode(memoryview(self.cursor.buf)[self.cursor.pos :])
        except msgspec.DecodeError as error:
            text = str(error)
            return "short" if "truncated" in text else "whole" if "trailing" in text else "malformed"
        except RecursionError:
            return "malformed"
        return "whole"

    def _whole(self, events: list[E], text: bytes, end: int) -> bool:
        """Take an event whose text needs no repair but in its encoding and the type of its fields."""
        done: Counts = {}
        event = self._typed(clean_utf8(text, done), done)
        if event is None:
            return False
        self._take(events, event, text, end, done)
        return True

    def _mended(self, events: list[E], at: int, end: int | None, high: int) -> bool:
        text = self.cursor.buf[at : high + _FOLLOWING]
        clean = clean_utf8(text, {})
        following = next_event(text, 0)
        alone = end is not None and clean is text and (following is None or end - at < following)
        for mended, length, done in repairs(clean, 0, len(clean), end - at if alone and end else None):
            if not _GOES_ON.match(clean, length):
                continue
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
        sound = end is not None and is_value(buf[at:end])
        near = end is not None and (following is None or end < following)
        if sound or (near and end is not None and _GOES_ON.match(buf, end)):
            following = end
        if following is not None:
            return self._skip(
                "undecodable" if buf[at + 1 : end].strip() != b"}" else "empty object", following
            )
        return "more" if self._may_grow(LIMIT) else self._lost_to_the_end()

    def _lost_to_the_end(self) -> Step:
        """No event behind the item in all the text there is, or that is looked at."""
        buf, at = self.cursor.buf, self.cursor.pos
        if not self.cursor.eof:
            self._seeking = True
            return self._skip(TOO_LONG, len(buf))
        if self._state() != "short":
            closing = array_end(buf, at)
            if closing is not None or self._ends_at_event:
                return self._skip("undecodable", closing or len(buf))
        self.notes.truncated = True
        return self._skip("cut off", len(buf))

    def _found(self) -> bool:
        """Look for the end of an item that is too long; of its text only the last bytes are kept."""
        cursor = self.cursor
        place = next_event(cursor.buf, cursor.pos)
        if place is None and cursor.eof:
            place = array_end(cursor.buf, cursor.pos)
            cursor.pos = len(cursor.buf)
        if place is None:
            cursor.pos = max(cursor.pos, len(cursor.buf) - _KEPT)
            return False
        self._seeking = False
        cursor.pos = place
        return True

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
