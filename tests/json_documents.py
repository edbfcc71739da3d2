"""Random trace documents, and what a plain JSON parser makes of them."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mdtrace.ingest.json_events import JsonEvents


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str | None = None
    pid: int | str | None = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")


Row = tuple[Any, ...]

NASTY = [
    "",
    "aten::mm",
    '},{"ph":"X","name":"no event"},',
    '}\n  },\n  {\n    "ph": "X", "ts": 1',
    "]}",
    "]",
    '"traceEvents": [',
    "C:\\new\\table\\",
    'say "hi"',
    '\\"},{\\"ph\\":1',
    "\t\n\x00\x1f\x7f",
    "é\u2028漢\U0001f600",
    "{[",
    ",",
]
NAMES = ["ph", "a", "traceName", "}{", "x y"]


def plain(event: Event) -> Row:
    """An event's fields as Python values."""
    ts, args = (json.loads(bytes(r)) if bytes(r) else None for r in (event.ts, event.args))
    return event.ph, event.name, event.pid, ts, args


def expected(event: dict[str, Any]) -> Row:
    """The same of an event that `json.loads` read."""
    return event.get("ph", ""), event.get("name"), event.get("pid"), event.get("ts"), event.get("args")


@dataclass
class Read:
    """All that reading gave."""

    events: list[Row]
    reader: JsonEvents[Event]
    batches: int = 0


def read(path: Path, reader: type[JsonEvents[Any]] = JsonEvents, **options: Any) -> Read:
    events = reader(path, Event, **options)
    result = Read([], events)
    for batch in events:
        result.batches += 1
        result.events += [plain(e) for e in batch]
    return result


@dataclass
class Document:
    """A random document: its text, and what must come out."""

    text: bytes
    events: list[Row]
    keys: dict[str, Any] = field(default_factory=dict)
    closed: bool = True


def value(r: random.Random, depth: int = 0) -> Any:
    kind = r.randrange(9 if depth < 3 else 6)
    if kind < 2:
        return r.choice(NASTY)
    if kind < 6:
        return (r.randrange(-(10**6), 10**19), r.random() * 1e6, None, r.random() < 0.5)[kind - 2]
    if kind == 6:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    if kind == 7:  # objects in a list look most like events
        return [{"ph": "X", "name": r.choice(NASTY)} for _ in range(r.randrange(4))]
    return {
        r.choice(["ph", "a", "traceName", "}{", "x y"]): value(r, depth + 1) for _ in range(r.randrange(4))
    }


def event(r: random.Random) -> dict[str, Any]:
    fields = {
        "ph": r.choice("XBEiMsf"),
        "name": r.choice(NASTY),
        "pid": r.choice([0, 7, 2**63 + 5, "Spans", 10**30]),
        "ts": r.choice([1, 12.345, "7.5", -3]),
        "args": value(r),
        "cat": r.choice(NASTY),
    }
    names = [n for n in fields if n == "ph" or r.random() < 0.8]
    r.shuffle(names)
    return {n: fields[n] for n in names}


def random_document(seed: int) -> Document:
    """Objects, bare arrays and lists of documents; pretty, minified and in between; keys anywhere."""
    r = random.Random(seed)
    events = [event(r) for _ in range(r.choice([0, 1, 2, 5, 20]))]
    dump = _dumper(r)
    shape = r.choice(["object", "object", "object", "bare", "unclosed", "list"])
    rows = [expected(e) for e in events]
    if shape == "bare":
        return Document(dump(events), rows)
    if shape == "unclosed":
        ending = r.choice([b"", b",", b",\n", b"\n"]) if events else r.choice([b"", b"\n"])
        return Document(dump(events).rstrip().removesuffix(b"]").rstrip() + ending, rows, closed=False)
    keys = {f"key{i}": value(r, 1) for i in range(r.randrange(5))}
    if shape == "object":
        return Document(dump(_with_events(r, keys, events)), rows, keys)
    half = len(events) // 2
    documents = [_with_events(r, keys, events[:half]), _with_events(r, {}, events[half:])]
    return Document(dump(documents), rows, keys)


def _with_events(r: random.Random, keys: dict[str, Any], events: list[Any]) -> dict[str, Any]:
    members = [*keys.items()]
    members.insert(r.randrange(len(members) + 1), ("traceEvents", events))
    return dict(members)


def _dumper(r: random.Random) -> Callable[[Any], bytes]:
    indent = r.choice([None, None, 0, 1, 4])
    separators = r.choice([None, (",", ":"), (", ", ": "), (" ,\n\t", " : ")])
    ascii_only = r.random() < 0.5
    mark = b"\xef\xbb\xbf" if r.random() < 0.1 else b""
    ending = r.choice([b"", b"\n", b" \r\n"])
    return lambda d: (
        mark + json.dumps(d, indent=indent, separators=separators, ensure_ascii=ascii_only).encode() + ending
    )
