"""A window on the text of a file that moves forward, and the notes taken on the way."""

from dataclasses import dataclass, field
from typing import Any

from mdtrace.ingest.bytes import TextFile
from mdtrace.ingest.json_strings import Counts, count

LIMIT = 32 << 20  # longest event or document value that is kept, in bytes


@dataclass
class Notes:
    """What was found beside the events; see `JsonEvents` for the meaning of each."""

    document: dict[str, Any] = field(default_factory=dict)
    repaired: Counts = field(default_factory=dict)
    skipped: Counts = field(default_factory=dict)
    first_bad: int | None = None
    truncated: bool = False
    closed: bool = False
    joined: bool = True
    arrays: int = 0

    def repair(self, offset: int, done: Counts) -> None:
        """Repairs made at a byte offset of the text."""
        for reason, number in done.items():
            count(self.repaired, reason, number)
        if done:
            self._bad(offset)

    def skip(self, offset: int, reason: str) -> None:
        """One thing left out, at a byte offset of the text."""
        count(self.skipped, reason)
        self._bad(offset)

    def _bad(self, offset: int) -> None:
        self.first_bad = offset if self.first_bad is None else min(self.first_bad, offset)


class Cursor:
    """`buf[pos:]` is what is read and not yet used; `base` is the offset of buf[0] in the text."""

    def __init__(self, text: TextFile, base: int, chunk: int) -> None:
        self._text = text
        self._chunk = chunk
        self.buf = b""
        self.pos = 0
        self.base = base
        self.eof = False

    @property
    def offset(self) -> int:
        """Byte offset of `pos` in the decompressed text."""
        return self.base + self.pos

    def fill(self) -> None:
        """Read on: a chunk, or as much as is held already, so that a giant value costs linear time."""
        held = self.buf[self.pos :]
        more = self._text.read(max(self._chunk, min(len(held), LIMIT - len(held))))
        self.eof = not more
        self.base += self.pos
        self.buf = held + more if held else more
        self.pos = 0
