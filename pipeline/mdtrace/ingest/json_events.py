"""Events of a Chrome trace (Kineto, Horovod), decoded fast, whatever state the file is in.

    events = JsonEvents(path, Event)
    for batch in events: ...          # list[Event], in file order
    events.document                   # the keys beside traceEvents
    events.skipped, events.repaired   # what was left out or mended, by reason

How it is fast: a chunk of text is cut behind what looks like the end of an event, and
`[` + piece + `]` goes through a typed decoder as one list. That decodes only if the cut is a true
boundary, so the decoder proves each cut. A piece that is refused is cut shorter, and in the end
stepped through event by event, with an exact scan and repairs.

`msgspec.Raw` fields hold strict JSON in UTF-8; only numbers may be beyond a double (1e999) or an int of
4300 digits, which `decode_lenient` handles. They keep their chunk in memory. The type of such a field
must be `msgspec.Raw` itself with the default `msgspec.Raw(b"")`: in a union it is ignored. Fields with
defaults keep events whole: one whose value is of another type than declared is left out
(`repaired["unexpected type"]`); where it has no default the event is lost (`skipped["undecodable"]`).
"""

import gc
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from mdtrace.errors import InputError
from mdtrace.ingest.bytes import Compression, TextFile, peek
from mdtrace.ingest.json_cursor import Cursor, Notes
from mdtrace.ingest.json_document import Outside
from mdtrace.ingest.json_ranges import WINDOW, Header, boundary, header, split_ranges
from mdtrace.ingest.json_repair import decode_lenient
from mdtrace.ingest.json_salvage import Salvage
from mdtrace.ingest.json_scan import last_boundary, looks_like_json, separators_end
from mdtrace.ingest.json_strings import REFUSALS, Counts, invalid_utf8

E = TypeVar("E")

CHUNK = 1 << 20  # larger chunks leave the processor's cache and are slower

_HEAD = 64 << 10
_SMALL = 4 << 10  # a refused piece shorter than this is stepped through
_CREDIT = 16  # refusals more than acceptances until a decoder is given up
_phase = attrgetter("ph")


def _ignore(amount: int) -> None:
    pass


class JsonEvents(Generic[E]):
    """The events of a file; iterate once.

    Args:
        event: a `msgspec.Struct` type (gc=False) that an event decodes into.
        start, stop: a range of `split_ranges`, in bytes of an uncompressed file.
        typed: a type that lists of events are first tried to decode into; a list that it refuses is decoded
            into `event`. It must refuse an object without keys. Batches are of the one or the other.
        chunk: bytes decoded at a time.
        advance: told the bytes read from disk.

    Attributes, complete once iteration has ended:
        document: keys of the document beside `traceEvents`, before and behind it; {} for a bare array.
            Of a range, those within it.
        repaired: reason → count.
        skipped: reason → count of items in the array that gave no event.
        first_bad: offset in the decompressed text of the first item skipped or repaired.
        truncated: the file ends inside an event, a document or a gzip stream.
        closed: the last array of events was closed. Alone, False says little: some writers never do.
        joined: False when a range did not end between two events: then the results of all ranges
            are void and the file must be read in one piece.
        arrays: arrays of events met (of a range: begun).
        compression: "none" or "gzip".

    Raises:
        InputError: the file cannot be read, is empty, is UTF-16, or is no JSON at all.
    """

    def __init__(
        self,
        path: Path,
        event: type[E],
        *,
        start: int = 0,
        stop: int | None = None,
        typed: Any = None,
        chunk: int = CHUNK,
        advance: Callable[[int], None] = _ignore,
    ) -> None:
        if not looks_like_json(peek(path, _HEAD)):
            raise InputError(f"{path.name}: is not JSON", "give a trace file of a known format")
        self._path = path
        self._start = start
        self._stop = None if stop is None or stop >= path.stat().st_size else stop
        self._chunk = max(chunk, 1)
        self._advance = advance
        self._event = event
        self._decode_list: Callable[[bytes], list[E]] = msgspec.json.Decoder(_list_of(event)).decode
        self._blank_phase = _blank_phase(event)
        self._typed = None if typed is None else _Typed(msgspec.json.Decoder(_list_of(typed)).decode)
        self._notes = Notes()
        with TextFile(path) as text:
            self.compression: Compression = text.compression

    @property
    def document(self) -> dict[str, Any]:
        return self._notes.document

    @property
    def repaired(self) -> Counts:
        return self._notes.repaired

    @property
    def skipped(self) -> Counts:
        return self._notes.skipped

    @property
    def first_bad(self) -> int | None:
        return self._notes.first_bad

    @property
    def truncated(self) -> bool:
        return self._notes.truncated

    @property
    def closed(self) -> bool:
        return self._notes.closed

    @property
    def joined(self) -> bool:
        return self._notes.joined

    @property
    def arrays(self) -> int:
        return self._notes.arrays

    def __iter__(self) -> Iterator[list[E]]:
        depth = header(self._path).depth if self._start else 0
        with TextFile(self._path, start=self._start, stop=self._stop, advance=self._advance) as text:
            cursor = Cursor(text, self._start, self._chunk)
            yield from self._walk(cursor, Outside(cursor, self._notes, depth))
            self._notes.truncated |= text.truncated
            if text.trailing:
                self._notes.repair(cursor.offset, {"bytes behind the gzip stream": 1})

    def _walk(self, cursor: Cursor, outside: Outside) -> Iterator[list[E]]:
        """Outside and inside of arrays by turns, reading on when neither gets further."""
        salvage = Salvage(cursor, self._notes, self._event, ends_at_event=self._stop is not None)
        inside = self._start > 0
        cursor.fill()
        while True:
            if not inside and (found := outside.walk()) != "more":
                if found == "end":
                    break
                self._open()
                inside = True
            if inside:
                yield from self._array(cursor, salvage)
                inside = not self._notes.closed
                if not inside:
                    continue
                if cursor.eof and cursor.pos >= len(cursor.buf):
                    break
            cursor.fill()
        self._end(inside, outside)

    def _open(self) -> None:
        self._notes.arrays += 1
        self._notes.closed = False

    def _end(self, inside: bool, outside: Outside) -> None:
        if self._stop is not None:
            self._notes.joined = inside and "cut off" not in self._notes.skipped
        elif inside:
            self._notes.truncated |= outside.depth > 0

    def _array(self, cursor: Cursor, salvage: Salvage[E]) -> Iterator[list[E]]:
        """All events of the buffer up to where text lacks or the array closes.

        The piece decoded at once shrinks where decoding fails and grows again where it succeeds.
        """
        salvaged: list[E] = []
        size = len(cursor.buf)
        window = size - cursor.pos
        while cursor.pos < len(cursor.buf):
            cut = self._cut(cursor.buf, cursor.pos, min(cursor.pos + window, size))
            if cut is not None and (batch := self._strict(cursor, cut[0])) is not None:
                if salvaged:
                    yield salvaged
                    salvaged = []
                if batch:
                    yield batch
                cursor.pos = cut[1]
                window *= 2
            elif window > _SMALL and cut is not None:
                window //= 4
            elif cut is None and window < min(_SMALL, size - cursor.pos):
                window = min(2 * window, _SMALL)  # beyond it, a refused piece would shrink to this one again
            else:
                step = salvage.step(salvaged)
                if step == "more":
                    break
                if step == "closed":
                    self._notes.closed = True
                    break
                cursor.pos = separators_end(cursor.buf, cursor.pos)
                window = _SMALL
        if salvaged:
            yield salvaged

    def _cut(self, buf: bytes, low: int, high: int) -> tuple[int, int] | None:
        """Where to cut buf[low:high]: (end of the piece, begin of the next event). Only a guess."""
        return last_boundary(buf, low, high)

    def _strict(self, cursor: Cursor, end: int) -> list[E] | None:
        """The events of buf[pos:end], or None where that is not exactly a list of events."""
        piece = b"".join((b"[", memoryview(cursor.buf)[cursor.pos : end], b"]"))
        if invalid_utf8(piece) is not None:
            return None
        collecting = gc.isenabled()
        gc.disable()
        try:
            if self._typed and (typed := self._typed.decode(piece)) is not None:
                return typed
            batch = self._decode_list(piece)
        except REFUSALS:
            return None
        finally:
            if collecting:
                gc.enable()
        blank = self._blank_phase
        return None if blank and blank[0] in map(_phase, batch) else batch


class _Typed:
    """A decoder that may refuse, and is asked no more once it mostly does."""

    def __init__(self, decode: Callable[[bytes], list[Any]]) -> None:
        self._decode = decode
        self._credit = _CREDIT

    def decode(self, piece: bytes) -> list[Any] | None:
        if self._credit == 0:
            return None
        try:
            batch = self._decode(piece)
        except REFUSALS:
            self._credit -= 1
            return None
        self._credit = min(self._credit + 1, _CREDIT)
        return batch


def _list_of(event: type[E]) -> type[list[E]]:
    return list[event]  # type: ignore[valid-type]


def _blank_phase(event: type[Any]) -> tuple[Any] | None:
    """The phase of an object without keys, where such a one decodes at all: it is no event."""
    try:
        blank = msgspec.json.decode(b"{}", type=event)
    except msgspec.DecodeError:
        return None
    return (blank.ph,) if hasattr(blank, "ph") else None


def document_keys(path: Path) -> dict[str, Any] | None:
    """All keys of the document beside its events, of an uncompressed file; None where that takes a full read.

    Reads the header and, from the last boundary between events that is sure, the end.

    Raises:
        InputError: the file cannot be read.
    """
    head = header(path)
    if head.array is None:
        return head.document
    if head.compression != "none":
        return None
    size, back = path.stat().st_size, WINDOW
    while True:
        near = size - back
        start = boundary(path, near, size) if near > head.array else 0
        if start is not None:
            tail: JsonEvents[dict[str, msgspec.Raw]] = JsonEvents(path, dict[str, msgspec.Raw], start=start)
            for _ in tail:
                pass
            return head.document | tail.document
        back *= 4


__all__ = [
    "CHUNK",
    "Header",
    "JsonEvents",
    "decode_lenient",
    "document_keys",
    "header",
    "peek",
    "split_ranges",
]
