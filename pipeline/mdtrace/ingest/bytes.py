"""The text of a trace file: plain or gzip, block by block, with all that a damaged file still gives.

Compression is told by content. A gzip stream may have several members, zeros behind its end, a wrong
checksum or a cut anywhere: what can be decompressed is returned first, then `truncated` is set.
"""

import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

from mdtrace.errors import InputError

Compression = Literal["none", "gzip"]

_GZIP = b"\x1f\x8b"
_READ = 256 << 10  # compressed bytes per read
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # byte order marks of UTF-16 (and of UTF-32)


def _ignore(amount: int) -> None:
    pass


class TextFile(AbstractContextManager["TextFile"]):
    """Decompressed bytes of a file.

    Args:
        start, stop: part of an uncompressed file, in bytes.
        advance: told the bytes read from disk as they are read.

    Raises:
        InputError: the file cannot be opened, or a part of a compressed file is asked for.
    """

    def __init__(
        self,
        path: Path,
        *,
        start: int = 0,
        stop: int | None = None,
        advance: Callable[[int], None] = _ignore,
    ) -> None:
        self.name = path.name
        self.compression: Compression = "none"
        self.truncated = False  # the gzip stream ends too early or does not decompress to its end
        self.trailing = False  # something that is no gzip follows the last member
        self._advance = advance
        self._file = _open(path)
        head = self._file.read(2)
        self._left = None if stop is None else max(stop - start, 0)
        if head == _GZIP:
            self.compression = "gzip"
            if start or stop is not None:
                self._file.close()
                raise InputError(f"{path.name}: a compressed file has no byte ranges")
        self._file.seek(start)
        self._inflate = _Inflate()

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; fewer only at the end of the text."""
        if self.compression == "none":
            return self._raw(size)
        parts: list[bytes] = []
        while size > 0 and (part := self._decompressed(size)):
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _raw(self, size: int) -> bytes:
        if self._left is not None:
            size = min(size, self._left)
        try:
            data = self._file.read(size)
        except OSError as error:
            raise InputError(f"{self.name}: cannot be read: {error.strerror}") from error
        if self._left is not None:
            self._left -= len(data)
        if data:
            self._advance(len(data))
        return data

    def _decompressed(self, size: int) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        stream = self._inflate
        while not stream.done:
            if part := stream.take(size):
                return part
            if not stream.done and not stream.give(self._raw(_READ)):
                stream.done = True
                self.truncated |= not stream.between_members or bool(stream.pending)
        self.truncated |= stream.damaged
        self.trailing |= stream.trailing
        return b""

    def close(self) -> None:
        self._file.close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Inflate:
    """A gzip stream of any number of members, fed and emptied in pieces."""

    def __init__(self) -> None:
        self.pending = b""
        self.done = False
        self.damaged = False
        self.trailing = False
        self.between_members = True
        self._object = zlib.decompressobj(wbits=31)

    def give(self, data: bytes) -> bool:
        """Add compressed bytes; false where there are none."""
        self.pending += data
        return bool(data)

    def take(self, size: int) -> bytes:
        """Up to `size` decompressed bytes; none when more input is needed or the stream is done."""
        while not self.between_members or self._begin_member():
            before = self._object.copy()
            try:
                part = self._object.decompress(self.pending, size)
            except zlib.error:
                return self._take_before_damage(before)
            self.between_members = self._object.eof
            self.pending = self._object.unused_data if self._object.eof else self._object.unconsumed_tail
            if part or not self.between_members:
                return part
        return b""

    def _begin_member(self) -> bool:
        self.pending = self.pending.lstrip(b"\0")  # tapes and block devices pad with zeros
        if not self.pending or (len(self.pending) < 2 and self.pending == _GZIP[:1]):
            return False
        if not self.pending.startswith(_GZIP):
            self.done = self.trailing = True
            return False
        self._object = zlib.decompressobj(wbits=31)
        self.between_members = False
        return True

    def _take_before_damage(self, stream: "zlib._Decompress") -> bytes:
        """All that decompresses before the first bad byte: pieces ever smaller up to it.

        May be longer than asked for: what one read of compressed text expands to.
        """
        parts: list[bytes] = []
        at, step = 0, max(len(self.pending) // 2, 1)
        while step and at < len(self.pending):
            attempt = stream.copy()
            try:
                part = attempt.decompress(self.pending[at : at + step])
            except zlib.error:
                step //= 2
                continue
            parts.append(part)
            stream = attempt
            at += step
        self.done = self.damaged = True
        self.pending = b""
        return b"".join(parts)


def _open(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise InputError(f"{path.name}: is a folder, not a trace file")
        return path.open("rb", buffering=0)
    except OSError as error:
        raise InputError(f"{path.name}: cannot be opened: {error.strerror}") from error


def peek(path: Path, limit: int = 1 << 20) -> bytes:
    """The first decompressed bytes, for telling formats apart.

    Raises:
        InputError: the file is empty, unreadable, a gzip stream that gives nothing, or UTF-16.
    """
    with TextFile(path) as text:
        head = text.read(limit)
        if not head:
            what = "is empty" if not text.truncated else "is a gzip stream that cannot be decompressed"
            raise InputError(f"{path.name}: {what}", "the producer wrote nothing: capture again")
    check_encoding(path, head)
    return head


def check_encoding(path: Path, head: bytes) -> None:
    """Refuse text in 16 or 32 bits per character, which no producer of traces writes.

    Raises:
        InputError: naming the encoding and what to do.
    """
    wide = head.startswith(_WIDE_MARKS) or (head[1:2] == b"\0" and head[:1] in b'[{ \t\r\n"')
    if wide or (head[:1] == b"\0" and head[1:2] in (b"[", b"{")):
        raise InputError(
            f"{path.name}: the text is UTF-16, not UTF-8",
            "a tool re-encoded the file (often a shell's > redirect): convert it back with "
            "iconv -f UTF-16 -t UTF-8",
        )
