"""Damaged text: what is mended, what is skipped, and that everything around it is kept."""

import contextlib
import json
import random
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from json_documents import Event, Row, expected, random_document, read
from mdtrace.errors import InputError
from mdtrace.ingest.json_events import JsonEvents, decode_lenient

BEFORE = b'{"ph": "X", "name": "before", "ts": 1}'
AFTER = b'{"ph": "X", "name": "after", "ts": 3, "args": {"stream": 7}}'


def around(tmp_path: Path, item: bytes, chunk: int = 1 << 20) -> tuple[list[Row], JsonEvents[Event]]:
    """What comes of an item between two sound events, without those; they must be there."""
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [\n' + BEFORE + b",\n" + item + b",\n" + AFTER + b'\n], "end": 1}\n')
    result = read(path, chunk=chunk)
    assert result.events[0] == expected(json.loads(BEFORE))
    assert result.events[-1] == expected(json.loads(AFTER))
    assert result.reader.document == {"end": 1}
    assert (result.reader.closed, result.reader.truncated) == (True, False)
    return result.events[1:-1], result.reader


MENDED: list[tuple[bytes, Any, dict[str, int]]] = [
    (b'"a\tb\nc\x00"', "a\tb\nc\x00", {"control character": 3}),
    (b'"a\xff\xfeb"', "a\ufffd\ufffdb", {"invalid UTF-8": 2}),
    (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd", {"invalid UTF-8": 3}),
    (b'"\xe2\x82"', "\ufffd\ufffd", {"invalid UTF-8": 2}),
    (b'"src\\nets\\unit.py"', "src\\nets\\unit.py", {"bad escape": 1}),
    (b'"C:\\new\\x \\"q\\""', 'C:\\new\\x \\"q\\"', {"bad escape": 1, "bare quote": 2}),
    (b'"d:\\work\\"', "d:\\work\\", {"bad escape": 1}),
    (b'"\\u12"', "\\u12", {"bad escape": 1}),
    (b'"a\\ud800b"', "a\ufffdb", {"lone surrogate": 1}),
    (b'"\\udc00\\ud83d\\ude00"', "\ufffd\U0001f600", {"lone surrogate": 1}),
    (b'"operator "add" of x"', 'operator "add" of x', {"bare quote": 2}),
    (b"NaN", None, {"non-finite number": 1}),
    (b"-Infinity", None, {"non-finite number": 1}),
    (b"inf", None, {"non-finite number": 1}),
    (b"-nan", None, {"non-finite number": 1}),
    (b"N/A", None, {"non-finite number": 1}),
    (b"-1.#IND", None, {"non-finite number": 1}),
    (b"", None, {"empty value": 1}),
    (b"[1, , 2]", [1, None, 2], {"empty value": 1}),
    (b"[1, 2, ]", [1, 2], {"extra comma": 1}),
    (b'{"a": 1, }', {"a": 1}, {"extra comma": 1}),
    (b"True", True, {"bad token": 1}),
    (b"None", None, {"bad token": 1}),
    (b"007", 7, {"bad token": 1}),
    (b"+1.5e3", 1500.0, {"bad token": 1}),
    (b".5", 0.5, {"bad token": 1}),
]


@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
@pytest.mark.parametrize(("text", "value", "repaired"), MENDED)
def test_a_damaged_value_in_arguments_is_mended_and_counted(
    tmp_path: Path, text: bytes, value: Any, repaired: dict[str, int], chunk: int
) -> None:
    item = b'{"ph": "X", "name": "m", "ts": 2.5, "args": {"good": "a\\\\b\\n", "v": ' + text + b', "w": [1]}}'
    events, reader = around(tmp_path, item, chunk)
    assert events == [("X", "m", None, 2.5, {"good": "a\\b\n", "v": value, "w": [1]})]
    assert (reader.repaired, reader.skipped) == (repaired, {})
    assert reader.first_bad == 18 + len(BEFORE) + 2


@pytest.mark.parametrize(("text", "value", "repaired"), [m for m in MENDED if isinstance(m[1], str)])
def test_a_damaged_name_is_mended_and_counted(
    tmp_path: Path, text: bytes, value: str, repaired: dict[str, int]
) -> None:
    events, reader = around(tmp_path, b'{"name": ' + text + b', "ph": "X", "ts": 2}')
    assert events == [("X", value, None, 2, None)]
    assert (reader.repaired, reader.skipped) == (repaired, {})


@pytest.mark.parametrize(("text", "value", "repaired"), MENDED)
def test_lenient_decoding_of_a_value(text: bytes, value: Any, repaired: dict[str, int]) -> None:
    counts: dict[str, int] = {}
    assert decode_lenient(b'{"v": ' + text + b', "w": 2}', counts) == {"v": value, "w": 2}
    assert counts == repaired


def test_lenient_decoding_of_sound_and_of_hopeless_values() -> None:
    counts: dict[str, int] = {}
    assert decode_lenient(b"") is None
    assert decode_lenient(b" 12 ", counts) == 12
    assert decode_lenient(msgspec.Raw(b'"a\\\\b"'), counts) == "a\\b"
    assert decode_lenient(b'{"a": 1%d}' % 10**40, counts) == {"a": int("1" + "1" + "0" * 40)}
    assert counts == {}
    assert decode_lenient(b'{"a": 1e999, "b": -1e999}', counts) == {"a": None, "b": None}
    assert decode_lenient(b"9" * 5000, counts) is None
    assert counts == {"non-finite number": 3}
    assert decode_lenient(b'{"a": [1, 2}', counts) is None
    assert decode_lenient(b"[" * 100_000 + b"]" * 100_000, counts) is None
    assert counts == {"non-finite number": 3, "undecodable value": 2}


@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (b"5", "not an object"),
        (b"null", "not an object"),
        (b'"},{\\"ph\\":1"', "not an object"),
        (b'[{"name": "inside"}]', "not an object"),
        (b"{}", "empty object"),
        (b"{ \n }", "empty object"),
        (b'{"ph": "X", "name": "missing quote, "ts": 2}', "undecodable"),
        (b'{"ph": "X", "name": [1, 2}, "ts": 2}', "undecodable"),
        (b'{"ph": "X" "name": "no comma"}', "undecodable"),
        (b'{"ph": "X", name: "no quotes"}', "undecodable"),
        (b"%%%", "undecodable"),
        (bytes(20), "undecodable"),
        (b'{"ph": "X", "args": ' + b"[" * 5000 + b"]" * 5000 + b"}", "undecodable"),
    ],
)
def test_what_is_no_event_is_skipped_and_counted(
    tmp_path: Path, item: bytes, reason: str, chunk: int
) -> None:
    events, reader = around(tmp_path, item, chunk)
    assert events == []
    assert (reader.skipped, reader.repaired) == ({reason: 1}, {})
    assert reader.first_bad == 18 + len(BEFORE) + 2


def test_events_in_an_array_in_the_array_are_taken(tmp_path: Path) -> None:
    for chunk in (20, 1 << 20):
        events, reader = around(tmp_path, b'[{"ph": "X", "name": "a"}, {"ph": "X", "name": "b"}]', chunk)
        assert [e[1] for e in events] == ["a", "b"]
        assert (reader.repaired, reader.skipped) == ({"array in array": 1}, {})


def test_a_field_of_another_type_is_left_out_and_counted(tmp_path: Path) -> None:
    events, reader = around(tmp_path, b'{"ph": "X", "name": 5, "pid": {"a": 1}, "ts": 2}')
    assert events == [("X", None, None, 2, None)]
    assert reader.repaired == {"unexpected type": 2}


def test_a_field_of_another_type_without_default_loses_the_event(tmp_path: Path) -> None:
    class Strict(msgspec.Struct, gc=False):
        name: str

    path = tmp_path / "t.json"
    path.write_bytes(b'[{"name": "a"}, {"name": 5}, {}, {"name": "b"}]')
    events = JsonEvents(path, Strict)
    assert [e.name for batch in events for e in batch] == ["a", "b"]
    assert events.skipped == {"undecodable": 1, "empty object": 1}


def test_integers_of_any_size_are_kept(tmp_path: Path) -> None:
    events, reader = around(
        tmp_path, b'{"ph": "X", "pid": 1%d, "args": {"c": 18446744073709551616}}' % 10**30
    )
    assert events == [("X", None, 11 * 10**30, None, {"c": 2**64})]
    assert reader.repaired == {}


def test_last_of_two_equal_keys_wins(tmp_path: Path) -> None:
    events, _ = around(tmp_path, b'{"ph": "X", "args": {"stream": 1, "stream": 9}, "name": "a", "name": "b"}')
    assert events == [("X", "b", None, None, {"stream": 9})]


def rows(names: list[str]) -> list[bytes]:
    return [b'{"name": "%s", "ph": "X", "args": {"l": [{"a": 1}, {"b": "]}"}]}}' % n.encode() for n in names]


BAD = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\xff", b"\0"]
NAMES = [f"event{i}" for i in range(8)]
HEAD = b'{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [\n'
TAIL = b'\n], "traceName": "]}"}'


@pytest.mark.parametrize("chunk", [30, 1 << 20])
def test_a_file_cut_at_any_byte_gives_the_events_before_the_cut(tmp_path: Path, chunk: int) -> None:
    events = rows(NAMES)
    text = HEAD + b",\n".join(events) + TAIL
    begins = [len(HEAD) + sum(len(e) + 2 for e in events[:i]) for i in range(len(events))]
    path = tmp_path / "t.json"
    for length in range(1, len(text)):
        path.write_bytes(text[:length])
        result = read(path, chunk=chunk)
        whole = sum(begin + len(e) <= length for begin, e in zip(begins, events, strict=True))
        partial = sum(begin < length < begin + len(e) for begin, e in zip(begins, events, strict=True))
        assert [e[1] for e in result.events] == NAMES[:whole]
        assert result.reader.skipped == ({"cut off": partial} if partial else {})
        assert result.reader.repaired == {}
        assert result.reader.truncated
        assert result.reader.closed == (length > len(text) - len(TAIL) + 1)


def test_an_array_that_was_never_closed_is_not_truncated_by_that(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for ending in (b"", b",", b",\n"):
        path.write_bytes(b"[\n" + b",\n".join(rows(NAMES)) + ending)
        result = read(path)
        assert [e[1] for e in result.events] == NAMES
        assert (result.reader.truncated, result.reader.closed) == (False, False)


@pytest.mark.parametrize("new", [b"", b'"', b"\\", b"{", b"}", b"]", b",", b"\xff", b"\n", b'"}],'])
def test_one_bad_byte_costs_its_event_and_at_most_the_next(tmp_path: Path, new: bytes) -> None:
    events = rows(NAMES)
    text = HEAD + b",\n".join(events) + TAIL
    begins = [len(HEAD) + sum(len(e) + 2 for e in events[:i]) for i in range(len(events))]
    path = tmp_path / "t.json"
    for at in range(len(HEAD), len(text) - len(TAIL)):
        path.write_bytes(text[:at] + new + text[at + 1 :])
        result = read(path)
        hit = max(i for i, begin in enumerate(begins) if begin <= at)
        kept = [e[1] for e in result.events]
        sure = [n for i, n in enumerate(NAMES) if i not in (hit, hit + 1)]
        assert [n for n in kept if n in sure] == sure, (at, text[at : at + 1])
        lost = len(NAMES) - len(result.events)
        assert lost <= 2
        assert lost <= 0 or result.reader.skipped


@pytest.mark.parametrize("new", [b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\xff", b"\n"])
def test_a_bad_byte_in_the_header_costs_no_event(tmp_path: Path, new: bytes) -> None:
    path = tmp_path / "t.json"
    for at in range(len(HEAD)):
        path.write_bytes(HEAD[:at] + new + HEAD[at + 1 :] + b",\n".join(rows(NAMES)) + TAIL)
        result = read(path)
        names = [e[1] for e in result.events]
        assert names[-7:] == NAMES[1:], at
        assert names == NAMES or (at > HEAD.index(b'"traceEvents') and result.reader.skipped)


def test_random_damage_raises_nothing_but_input_errors(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    refused = 0
    for seed in range(600):
        r = random.Random(seed)
        text = bytearray(random_document(seed % 50).text or b"[]")
        for _ in range(r.choice([1, 2, 5, 30])):
            at = r.randrange(len(text) + 1)
            text[at : at + r.choice([0, 0, 1, 1, 20])] = r.choice(
                [
                    b"",
                    b'"',
                    b"\\",
                    b"{",
                    b"}",
                    b"[",
                    b"]",
                    b",",
                    b":",
                    b"\xff",
                    b"\0",
                    bytes([r.randrange(256)]),
                ]
            )
        path.write_bytes(text)
        try:
            result = read(path, chunk=r.choice([1, 5, 64, 1 << 20]))
        except InputError:
            refused += 1
        else:
            assert all(type(e[0]) is str for e in result.events)
    assert refused < 100


def test_noise_raises_nothing_but_input_errors(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for seed in range(300):
        r = random.Random(seed)
        path.write_bytes(b"[" + bytes(r.choice(b'{}[]",:\\ phX1') for _ in range(r.randrange(400))))
        read(path, chunk=r.choice([1, 7, 1 << 20]))


@pytest.mark.parametrize(
    "unit",
    [
        b'{"ph":',
        b'{"a',
        b'},{"ph":',
        b'"ph":{',
        b"{",
        b"}",
        b'"\\',
        b'{"ph":"X"},{"a":"b',
        b"[",
        b'[{"ph":"X"},',
    ],
)
def test_hostile_text_takes_linear_time(tmp_path: Path, unit: bytes) -> None:
    seconds = []
    for size in (4_000, 16_000):
        before = time.process_time()
        for text in (b'{"traceEvents":[' + unit * (size // len(unit)), unit * (size // len(unit)) + b"]}"):
            path = tmp_path / "t.json"
            path.write_bytes(text)
            with contextlib.suppress(InputError):
                read(path)
        seconds.append(time.process_time() - before)
    assert seconds[1] < max(8 * seconds[0], 0.5)
