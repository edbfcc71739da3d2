"""Byte ranges of a trace for parallel readers, and what stands before its events."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mdtrace.ingest.bytes import Compression, TextFile
from mdtrace.ingest.json_cursor import Cursor, Notes
from mdtrace.ingest.json_document import Outside
from mdtrace.ingest.json_scan import last_boundary, next_event

_CHUNK = 64 << 10
WINDOW = 1 << 20  # text in which a range boundary is looked for
_PROOF = 128 << 10  # text behind a boundary that must decode as a list of events
_TRIES = 16
_PIECE = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@dataclass(frozen=True)
class Header:
    """What stands before the first array of events.

    Attributes:
        document: keys before the array.
        array: offset in the decompressed text behind the array's bracket; None where there is no array.
        depth: brackets open around the array: 0 for a bare one.
    """

    document: dict[str, Any]
    array: int | None
    depth: int
    compression: Compression


def header(path: Path) -> Header:
    """Read up to the first array of events.

    Raises:
        InputError: the file cannot be read.
    """
    with TextFile(path) as text:
        cursor = Cursor(text, 0, _CHUNK)
        notes = Notes()
        outside = Outside(cursor, notes)
        cursor.fill()
        while (found := outside.walk()) == "more":
            cursor.fill()
        array = cursor.offset if found == "events" else None
        return Header(notes.document, array, outside.depth, text.compression)


def split_ranges(path: Path, n: int, *, least: int = WINDOW) -> list[tuple[int, int]]:
    """Up to `n` byte ranges of about equal length that each begin at an event, for `JsonEvents`.

    The first begins at 0 and takes the header with it, the last ends at the end of the file. One
    range where the file is compressed or has less than `least` bytes for each. A boundary is proven
    in the end by the reader of the range before it: see `JsonEvents.joined`.

    Raises:
        InputError: the file cannot be read.
    """
    size = path.stat().st_size
    head = header(path)
    if n < 2 or head.compression != "none" or head.array is None or size < n * least:
        return [(0, size)]
    cuts = [0]
    for i in range(1, n):
        cut = boundary(path, max(head.array, size * i // n), size)
        if cut is not None and cut > cuts[-1]:
            cuts.append(cut)
    return list(zip(cuts, [*cuts[1:], size], strict=True))


def boundary(path: Path, near: int, size: int) -> int | None:
    """The first offset behind `near` at which an event begins, as far as the text around it tells."""
    with TextFile(path, start=near, stop=min(near + WINDOW, size)) as text:
        window = text.read(WINDOW)
    at = next_event(window, 0)
    for _ in range(_TRIES):
        if at is None:
            return None
        if _decodes(window, at):
            return near + at
        at = next_event(window, at)
    return None


def _decodes(window: bytes, at: int) -> bool:
    cut = last_boundary(window, at, min(at + _PROOF, len(window)))
    if cut is None:
        return False
    try:
        _PIECE.decode(b"[" + window[at : cut[0]] + b"]")
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
