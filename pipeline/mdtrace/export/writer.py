"""Trace events of the Chrome format, written one after the other: memory does not grow with the trace.

Times are µs with three decimals, written from whole nanoseconds; ids that may pass 2^53 are text.
"""

import gzip
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

_CHUNK = 1 << 18  # bytes held back before they are compressed

Category = Literal["host", "launch", "device", "collective", "counter", "flow", "step", "layer", "wait"]


class Writer:
    """Writes one trace: `with writing(path) as writer: …`.

    Attributes:
        written: events by category; pairs (asynchronous events, flows) count once.
        plain_bytes: size of the JSON text so far.
    """

    def __init__(self, file: BinaryIO | gzip.GzipFile, about: Mapping[str, str]) -> None:
        self._file = file
        self._held = io.BytesIO()
        self._first = True
        self.written: Counter[Category] = Counter()
        self.plain_bytes = 0
        head = msgspec.json.encode({"displayTimeUnit": "ns", "otherData": about})
        self._put(head[:-1] + b',"traceEvents":[')

    def done(self) -> int:
        """Events written so far."""
        return self.written.total()

    def slice(
        self, category: Category, pid: int, tid: int, name: str, start: int, end: int, args: Mapping[str, Any]
    ) -> None:
        """Something that lasts; start and end in ns, end not before start."""
        self._event(
            b'{"ph":"X","pid":%d,"tid":%d,"ts":%b,"dur":%b,"cat":"%b","name":%b,"args":%b}'
            % (pid, tid, us(start), us(end - start), category.encode(), text(name), _args(args))
        )
        self.written[category] += 1

    def crossing(
        self,
        category: Category,
        pid: int,
        tid: int,
        name: str,
        start: int,
        end: int,
        args: Mapping[str, Any],
        number: int,
    ) -> None:
        """Something that lasts and may cross others, however they lie; `number` is its own."""
        common = b'"pid":%d,"tid":%d,"cat":"%b","id":"0x%x","name":%b' % (
            pid, tid, category.encode(), number, text(name),
        )  # fmt: skip
        self._event(b'{"ph":"b",%b,"ts":%b,"args":%b}' % (common, us(start), _args(args)))
        self._event(b'{"ph":"e",%b,"ts":%b}' % (common, us(end)))
        self.written[category] += 1

    def mark(
        self, category: Category, pid: int, tid: int, name: str, at: int, args: Mapping[str, Any]
    ) -> None:
        """A moment on a track."""
        self._event(
            b'{"ph":"i","s":"t","pid":%d,"tid":%d,"ts":%b,"cat":"%b","name":%b,"args":%b}'
            % (pid, tid, us(at), category.encode(), text(name), _args(args))
        )
        self.written[category] += 1

    def counter(self, pid: int, name: str, at: int, values: Mapping[str, float]) -> None:
        """Values of a counter from a moment on."""
        self._event(
            b'{"ph":"C","pid":%d,"ts":%b,"name":%b,"args":%b}' % (pid, us(at), text(name), _args(values))
        )
        self.written["counter"] += 1

    def flow(self, number: int, origin: tuple[int, int, int], target: tuple[int, int, int]) -> None:
        """An arrow; both ends are pid, tid and time in ns, inside a slice of that track."""
        for phase, (pid, tid, at) in ((b's"', origin), (b'f","bp":"e"', target)):
            self._event(
                b'{"ph":"%b,"id":"0x%x","pid":%d,"tid":%d,"ts":%b,"cat":"flow","name":"launch"}'
                % (phase, number, pid, tid, us(at))
            )
        self.written["flow"] += 1

    def describe(self, what: str, pid: int, tid: int | None, value: str | int) -> None:
        """Name a process or a track, or place it (`process_name`, `thread_sort_index` and so on)."""
        key = "name" if isinstance(value, str) else "sort_index"
        where = b"" if tid is None else b'"tid":%d,' % tid
        self._event(
            b'{"ph":"M","pid":%d,%b"name":"%b","args":%b}' % (pid, where, what.encode(), _args({key: value}))
        )

    def close(self) -> None:
        """Write what is held back and end the JSON."""
        self._put(b"\n]}\n")
        self._flush()

    def _event(self, event: bytes) -> None:
        self._put(b"\n" if self._first else b",\n")
        self._first = False
        self._put(event)

    def _put(self, some: bytes) -> None:
        self._held.write(some)
        if self._held.tell() > _CHUNK:
            self._flush()

    def _flush(self) -> None:
        self.plain_bytes += self._held.tell()
        self._file.write(self._held.getvalue())
        self._held = io.BytesIO()


def us(ns: int) -> bytes:
    """Nanoseconds as µs with three decimals, exactly."""
    whole, rest = divmod(abs(ns), 1000)
    return b"%b%d.%03d" % (b"-" if ns < 0 else b"", whole, rest)


@lru_cache(maxsize=65536)
def text(name: str) -> bytes:
    """A name as JSON."""
    return msgspec.json.encode(name)


def _args(args: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({k: v for k, v in args.items() if v is not None})


@contextmanager
def writing(path: Path, about: Mapping[str, str]) -> Iterator[Writer]:
    """A writer to a file of this name, compressed where it ends in .gz; complete or not there."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as raw, _packed(raw, path) as file:
            writer = Writer(file, about)
            yield writer
            writer.close()
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _packed(raw: BinaryIO, path: Path) -> AbstractContextManager[BinaryIO | gzip.GzipFile]:
    """The file, compressed if its name asks for it; without name and time, so that the same rows give the
    same bytes."""
    if path.suffix.lower() == ".gz":
        return gzip.GzipFile("", "wb", compresslevel=4, fileobj=raw, mtime=0)
    return nullcontext(raw)
