"""Events as a plain parser gives them, however the text is chunked; and proof that these tests can fail."""

import gzip
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from json_documents import NASTY, Document, Event, Row, random_document, read
from mdtrace.ingest import json_document
from mdtrace.ingest.json_cursor import Cursor
from mdtrace.ingest.json_events import JsonEvents, document_keys, split_ranges

CHUNKS = [1, 2, 3, 7, 16, 61, 300, 1 << 20]


def check(path: Path, document: Document, reader: type[JsonEvents[Any]] = JsonEvents, **options: Any) -> None:
    result = read(path, reader, **options)
    events = result.reader
    assert result.events == document.events
    assert events.document == document.keys
    assert (events.skipped, events.repaired, events.first_bad) == ({}, {}, None)
    assert (events.truncated, events.closed) == (False, document.closed)


@pytest.mark.parametrize("block", range(10))
def test_random_documents_in_chunks_of_any_size(tmp_path: Path, block: int) -> None:
    path = tmp_path / "t.json"
    for seed in range(block * 40, block * 40 + 40):
        document = random_document(seed)
        path.write_bytes(document.text)
        for chunk in (CHUNKS[seed % len(CHUNKS)], 1 << 20):
            check(path, document, chunk=chunk)


def test_random_documents_compressed(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for seed in range(60):
        document = random_document(1000 + seed)
        half = len(document.text) // 2
        path.write_bytes(
            gzip.compress(document.text[:half]) + gzip.compress(document.text[half:]) + bytes(seed)
        )
        check(path, document, chunk=CHUNKS[seed % len(CHUNKS)])


def joined(path: Path, ranges: list[tuple[int, int]], chunk: int) -> tuple[list[Row], dict[str, Any], bool]:
    events: list[Row] = []
    keys: dict[str, Any] = {}
    whole = True
    for start, stop in ranges:
        result = read(path, start=start, stop=stop, chunk=chunk)
        events += result.events
        keys |= result.reader.document
        whole &= result.reader.joined
    return events, keys, whole


def test_joined_ranges_are_the_whole_or_say_that_they_are_not(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    split, void = 0, 0
    for seed in range(200):
        document = random_document(2000 + seed)
        path.write_bytes(document.text)
        ranges = split_ranges(path, 4, least=8)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == len(document.text)
        assert all(a[1] == b[0] for a, b in pairwise(ranges))
        events, keys, whole = joined(path, ranges, CHUNKS[seed % len(CHUNKS)])
        if whole:
            assert (events, keys) == (document.events, document.keys)
        split += len(ranges) > 1
        void += not whole
    assert split > 40
    assert void < split / 2  # lists of objects with a phase inside arguments pass for events


def test_any_pair_of_ranges_is_the_whole_or_says_that_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for seed in range(3000, 3030):
        document = random_document(seed)
        path.write_bytes(document.text)
        r = random.Random(seed)
        for cut in sorted(r.sample(range(1, len(document.text)), min(20, len(document.text) - 1))):
            events, _, whole = joined(path, [(0, cut), (cut, len(document.text))], 1 << 20)
            if whole:
                assert events == document.events


def test_document_keys_without_reading_the_events(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for seed in range(4000, 4060):
        document = random_document(seed)
        path.write_bytes(document.text)
        assert document_keys(path) == document.keys


class SkipsAnEvent(JsonEvents[Event]):
    """Cuts behind the last event but one, and goes on behind the last."""

    def _cut(self, buf: bytes, low: int, high: int) -> tuple[int, int] | None:
        last = super()._cut(buf, low, high)
        before = super()._cut(buf, low, last[0]) if last else None
        return (before[0], last[1]) if before and last else last


class TrustsTheCut(JsonEvents[Event]):
    """Takes a piece that does not decode for one without events."""

    def _strict(self, cursor: Cursor, end: int) -> list[Event] | None:
        return super()._strict(cursor, end) or []


def loses_what_is_held_at_a_brace(cursor: Cursor) -> None:
    """Forgets the rest of a buffer that ends between an event and the comma behind it."""
    if cursor.buf.endswith(b"}"):
        cursor.base += len(cursor.buf) - cursor.pos
        cursor.buf = cursor.buf[: cursor.pos]
    honest_fill(cursor)


def ends_at_the_next_quote(buf: bytes, at: int, high: int | None = None) -> int | None:
    """Does not know escapes."""
    if buf[at : at + 1] != b'"':
        return honest_value_end(buf, at, high)
    end = buf.find(b'"', at + 1)
    return end + 1 if end >= 0 else None


honest_fill: Callable[[Cursor], None] = Cursor.fill
honest_value_end = json_document.value_end


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[tuple[Path, Document]]:
    def each() -> Iterator[tuple[Path, Document]]:
        for seed in range(60):
            document = random_document(seed)
            path = tmp_path / f"{seed}.json"
            path.write_bytes(document.text)
            yield path, document

    return each()


def caught(
    documents: Iterator[tuple[Path, Document]], reader: type[JsonEvents[Any]] = JsonEvents, chunk: int = 300
) -> int:
    """In how many documents the comparison sees the fault."""
    number = 0
    for path, document in documents:
        try:
            check(path, document, reader, chunk=chunk)
        except AssertionError:
            number += 1
    return number


def test_the_comparison_passes_a_sound_reader(documents: Iterator[tuple[Path, Document]]) -> None:
    assert caught(documents) == 0


@pytest.mark.parametrize("reader", [SkipsAnEvent, TrustsTheCut])
def test_the_comparison_catches_a_broken_cut(
    documents: Iterator[tuple[Path, Document]], reader: type[JsonEvents[Any]]
) -> None:
    assert caught(documents, reader) > 5


def test_the_comparison_catches_text_lost_between_chunks(
    documents: Iterator[tuple[Path, Document]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cursor, "fill", loses_what_is_held_at_a_brace)
    assert caught(documents, chunk=3) > 5


def test_the_comparison_catches_a_scan_that_does_not_know_escapes(
    documents: Iterator[tuple[Path, Document]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_document, "value_end", ends_at_the_next_quote)
    assert caught(documents) > 3


def test_nasty_texts_are_what_the_fuzz_writes() -> None:
    assert any('},{"ph"' in text for text in NASTY)
