"""Forms of trace documents, the shared cases and real files, sizes, ranges."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from json_documents import Event, read
from mdtrace.errors import InputError
from mdtrace.ingest.json_cursor import Cursor
from mdtrace.ingest.json_events import JsonEvents, document_keys, header, split_ranges
from shared import shared


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.json"


def names(path: Path, **options: Any) -> list[str | None]:
    return [e[1] for e in read(path, **options).events]


A, B, C = (b'{"ph": "X", "name": "%s", "args": {"x": [{"y": 1}, {"z": 2}]}}' % n for n in (b"a", b"b", b"c"))


@pytest.mark.parametrize("chunk", [1, 9, 1 << 20])
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (b'{"traceEvents": [%s, %s, %s]}', {}),
        (b'{"a": 1, "traceEvents": [%s,\n%s,\n%s], "b": {"c": [2]}}', {"a": 1, "b": {"c": [2]}}),
        (b'{"traceEvents": [%s,%s,%s,], "traceName": "x]}y"}\n\n', {"traceName": "x]}y"}),
        (b"[%s, %s, %s]", {}),
        (b"[%s\n, %s\n, %s\n]\n", {}),
        (b"[%s, %s, %s,,]", {}),
        (b"[\n%s, %s,\n%s", {}),
        (b"[%s]\n[%s]\n[%s]", {}),
        (b"%s\n%s\n%s\n", {}),
        (b'[{"traceEvents": [%s, %s], "a": 1}, {"b": 2, "traceEvents": [%s]}]', {"a": 1, "b": 2}),
        (b'{"traceEvents": [%s]}\n{"traceEvents": [%s, %s], "a": 1}', {"a": 1}),
        (b'{"wrapped": {"x": [1, {"traceEvents": [%s, %s, %s], "n": 1}]}, "a": 1}', {"n": 1, "a": 1}),
        (b'{"a": {"traceEvents": [%s]}, "b": 2, "c": [{"traceEvents": [%s, %s]}], "d": 3}', {"b": 2, "d": 3}),
        (b'\xef\xbb\xbf {"traceEvents" :\n[%s, %s, %s]}', {}),
        (
            b'{"traceEvents": [%s, %s], "displayTimeUnit": "ms", "traceEvents": [%s]}',
            {"displayTimeUnit": "ms"},
        ),
        (b'{"t": "\\"traceEvents\\": [", "traceEvents": [%s, %s, %s]}', {"t": '"traceEvents": ['}),
    ],
)
def test_forms_of_a_document(path: Path, text: bytes, keys: dict[str, Any], chunk: int) -> None:
    path.write_bytes(text % (A, B, C))
    result = read(path, chunk=chunk)
    assert [e[1] for e in result.events] == ["a", "b", "c"]
    assert all(e[4] == {"x": [{"y": 1}, {"z": 2}]} for e in result.events)
    assert result.reader.document == keys
    assert (result.reader.skipped, result.reader.repaired) == ({}, {})


@pytest.mark.parametrize(
    "text", [b"[", b"[\n", b"[]", b'{"traceEvents": []}', b'{"traceEvents": [ ] }', b"{}"]
)
def test_documents_without_events(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    result = read(path, chunk=1)
    assert result.events == []
    assert (result.reader.skipped, result.reader.repaired, result.reader.truncated) == ({}, {}, False)
    assert result.reader.closed == (b"]" in text)
    assert result.reader.arrays == (0 if text == b"{}" else 1)


def test_an_object_that_is_not_closed_is_truncated(path: Path) -> None:
    path.write_bytes(b'{"traceEvents": [' + A + b",")
    assert read(path).reader.truncated
    path.write_bytes(b'{"traceEvents": [' + A + b"]")
    assert read(path).reader.truncated
    assert read(path).reader.closed


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (gzip.compress(b""), "is empty"),
        (b"hello world, no trace here", "is not JSON"),
        (b"\x7fELF\x02\x01\x01" + bytes(100), "is not JSON"),
        (b"   \n ", "is not JSON"),
        ("[]".encode("utf-16"), "UTF-16"),
        ('{"traceEvents": []}'.encode("utf-16-le"), "UTF-16"),
        ('{"traceEvents": []}'.encode("utf-16-be"), "UTF-16"),
        (b"\x1f\x8b\x08\x00", "cannot be decompressed"),
        (b"\x1f\x8b" + b"junk" * 10, "cannot be decompressed"),
    ],
)
def test_what_is_no_trace_is_named(path: Path, content: bytes, what: str) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match=what):
        read(path)


def test_folders_and_missing_files_are_input_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(InputError) as caught:
            read(path)
        assert str(tmp_path.parent) not in str(caught.value)


def test_keys_around_the_events(path: Path) -> None:
    path.write_bytes(b'{"a": NaN, "b": "x\ty", "traceEvents": [' + A + b'], "c": }')
    result = read(path)
    assert result.reader.document == {"a": None, "b": "x\ty", "c": None}
    assert result.reader.repaired == {"non-finite number": 1, "control character": 1, "empty value": 1}
    head = header(path)
    assert (head.document, head.array, head.depth) == ({"a": None, "b": "x\ty"}, 39, 1)
    assert document_keys(path) == result.reader.document


CASES = [
    ("01_unescaped_backslash_paths/windows_paths.json", 3, {"bad escape": 3}, {}),
    ("01_unescaped_backslash_paths/wellformed.json", 1, {}, {}),
    ("02_control_char_and_bad_utf8/bad_bytes.json", 3, {"control character": 1, "invalid UTF-8": 2}, {}),
    ("03_inf_nan_NA_literals/nonfinite.json", 4, {"non-finite number": 4}, {}),
    ("04_truncated_file/cut.json", 3, {}, {"cut off": 1}),
    ("04_truncated_file/cut_stream.json.gz", 229, {}, {"cut off": 1}),
    ("06_horovod_only_open_bracket/timeline.json", 0, {}, {}),
    ("07_horovod_no_close_partial_line/timeline.json", 13, {}, {"cut off": 1}),
    ("39_horovod_many_events_per_line/timeline.json", 22, {}, {}),
    ("41_duplicate_keys_and_events/dups.json", 2, {}, {}),
]


@pytest.mark.parametrize("chunk", [13, 1 << 20])
@pytest.mark.parametrize(("file", "events", "repaired", "skipped"), CASES)
def test_shared_cases(
    file: str, events: int, repaired: dict[str, int], skipped: dict[str, int], chunk: int
) -> None:
    result = read(shared("cases", file), chunk=chunk)
    assert len(result.events) == events
    assert (result.reader.repaired, result.reader.skipped) == (repaired, skipped)
    assert result.reader.truncated == bool(skipped)


def test_windows_paths_come_back_as_they_were() -> None:
    result = read(shared("cases", "01_unescaped_backslash_paths", "windows_paths.json"))
    assert [e[1] for e in result.events] == [
        "src\\nets\\unit.py(7): step",
        "aten::mm",
        "d:\\work\\a b.py(9): run",
    ]
    assert result.events[1][4]["Input Dims"] == [[8, 16], [16, 4]]
    assert result.reader.document["traceName"] == "d:\\work\\out.pt.trace.json"
    sound = read(shared("cases", "01_unescaped_backslash_paths", "wellformed.json"))
    assert sound.events[0][1] == "d:\\work\\new.py(3): f"
    assert sound.reader.document["traceName"] == "d:\\work\\x.json"


def real_files() -> Iterator[Path]:
    for folder in ("traces/kineto", "traces/own/torch_gloo", "traces/own/horovod"):
        yield from sorted(p for p in shared(folder).rglob("*.json*") if "truth" not in p.name)


@pytest.mark.slow
def test_real_files_hold_the_events_that_a_plain_parser_finds() -> None:
    checked = 0
    for file in real_files():
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        document = json.loads(raw)
        listed = document["traceEvents"] if isinstance(document, dict) else document
        keys = document if isinstance(document, dict) else {}
        events: JsonEvents[dict[str, Any]] = JsonEvents(file, dict[str, Any], chunk=100_000)
        at = 0
        for batch in events:
            assert batch == listed[at : at + len(batch)]
            at += len(batch)
        assert at == len(listed)
        assert events.document == {k: v for k, v in keys.items() if k != "traceEvents"}
        assert (events.skipped, events.repaired, events.truncated, events.closed) == ({}, {}, False, True)
        checked += 1
    assert checked > 20


def test_a_giant_event_is_read_and_a_longer_one_skipped(path: Path) -> None:
    for megabytes, kept in ((20, ["a", "giant", "b"]), (40, ["a", "b"])):
        giant = b'{"ph": "X", "name": "giant", "args": {"s": "' + b"x\\n]" * (megabytes << 18) + b'"}}'
        path.write_bytes(b'{"traceEvents": [' + A + b"," + giant + b"," + B + b'], "end": 1}')
        events = JsonEvents(path, Event)
        assert [e.name for batch in events for e in batch] == kept
        assert events.skipped == ({} if "giant" in kept else {"longer than 32 MB": 1})
        assert (events.document, events.truncated) == ({"end": 1}, False)


def test_a_giant_key_is_skipped_and_the_events_behind_it_are_read(path: Path) -> None:
    path.write_bytes(b'{"a": 1, "big": "' + b"y" * (40 << 20) + b'", "traceEvents": [' + A + b"]}")
    result = read(path)
    assert [e[1] for e in result.events] == ["a"]
    assert result.reader.skipped == {"longer than 32 MB": 1}


def test_no_more_text_is_held_than_two_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    fill = Cursor.fill

    def watched(cursor: Cursor) -> None:
        fill(cursor)
        held.append(len(cursor.buf))

    monkeypatch.setattr(Cursor, "fill", watched)
    path.write_bytes(b"[" + b",\n".join([A, b'{"ph": "X", "name": "b\xff"}', B] * 30_000) + b"]")
    assert sum(map(len, JsonEvents(path, Event, chunk=1 << 16))) == 90_000
    assert max(held) < 2 << 16
    assert len(held) > 50


def test_the_bytes_read_are_told(path: Path) -> None:
    path.write_bytes(gzip.compress(b"[" + b",\n".join([A] * 5000) + b"]"))
    told: list[int] = []
    assert len(names(path, advance=told.append)) == 5000
    assert sum(told) == path.stat().st_size


def test_ranges_of_a_compressed_file_are_refused(path: Path) -> None:
    path.write_bytes(gzip.compress(b"[" + A + b"]"))
    assert split_ranges(path, 4, least=1) == [(0, path.stat().st_size)]
    assert names(path, start=0, stop=path.stat().st_size) == ["a"]
    with pytest.raises(InputError, match="no byte ranges"):
        read(path, start=5)
    assert document_keys(path) is None


def test_ranges_of_a_damaged_file_join(path: Path) -> None:
    bad = b'{"ph": "X", "name": "un"quoted, "ts": 1}'
    items = [bad if i % 7 == 3 else b'{"ph": "X", "name": "%d"}' % i for i in range(2000)]
    path.write_bytes(b'{"a": 1, "traceEvents": [\n' + b",\n".join(items) + b'\n], "b": 2}')
    whole = read(path)
    assert len(whole.events) == 2000 - 286
    assert whole.reader.skipped == {"undecodable": 286}
    for n in (2, 3, 5, 8):
        ranges = split_ranges(path, n, least=1)
        parts = [read(path, start=a, stop=b) for a, b in ranges]
        if len(ranges) > 1 and all(p.reader.joined for p in parts):
            assert [e for p in parts for e in p.events] == whole.events
            assert sum(p.reader.skipped.get("undecodable", 0) for p in parts) == 286


def test_a_range_that_ends_behind_the_array_is_not_joined(path: Path) -> None:
    other = b'{"ph": "X", "name": "not an event"}'
    path.write_bytes(b'{"traceEvents": [' + A + b'], "other": [' + b",\n".join([other] * 20) + b"]}")
    cut = path.read_bytes().index(other, len(path.read_bytes()) // 2)
    assert not read(path, start=0, stop=cut).reader.joined
    assert names(path) == ["a"]


def test_any_type_that_an_object_decodes_into_will_do(path: Path) -> None:
    path.write_bytes(b"[" + A + b", {}, " + B + b"]")
    plain = [e for batch in JsonEvents(path, dict[str, msgspec.Raw]) for e in batch]
    assert [bytes(e["name"]) for e in plain if e] == [b'"a"', b'"b"']
