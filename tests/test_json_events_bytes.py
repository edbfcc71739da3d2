"""Compressed and cut files: all that can be decompressed is read."""

import gzip
import random
import zlib
from pathlib import Path

import pytest

from json_documents import read
from mdtrace.errors import InputError
from mdtrace.ingest.bytes import TextFile, peek

NAMES = [f"e{i}" for i in range(60)]
TEXT = (
    b'{"traceEvents": [\n' + b",\n".join(b'{"ph": "X", "name": "%s"}' % n.encode() for n in NAMES) + b"\n]}\n"
)


def members(text: bytes, n: int) -> bytes:
    step = len(text) // n + 1
    return b"".join(gzip.compress(text[i : i + step]) for i in range(0, len(text), step))


def decompressed(path: Path, size: int = 1000) -> tuple[bytes, TextFile]:
    parts = []
    with TextFile(path) as file:
        while part := file.read(size):
            parts.append(part)
    return b"".join(parts), file


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "content",
    [gzip.compress(TEXT), members(TEXT, 5), gzip.compress(TEXT) + bytes(2000), members(TEXT, 2) + bytes(1)],
)
def test_gzip_in_all_its_forms(tmp_path: Path, content: bytes, size: int) -> None:
    path = tmp_path / "named.json"
    path.write_bytes(content)
    text, file = decompressed(path, size)
    assert text == TEXT
    assert (file.compression, file.truncated, file.trailing) == ("gzip", False, False)
    assert [e[1] for e in read(path).events] == NAMES


def test_zeros_between_members(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    half = len(TEXT) // 2
    path.write_bytes(
        gzip.compress(TEXT[:half]) + bytes(600_000) + gzip.compress(TEXT[half:]) + bytes(600_000)
    )
    assert decompressed(path)[0] == TEXT


def test_something_else_behind_the_last_member(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(TEXT) + b"something else")
    text, file = decompressed(path)
    assert (text, file.truncated, file.trailing) == (TEXT, False, True)
    assert read(path).reader.repaired == {"bytes behind the gzip stream": 1}


@pytest.mark.parametrize("n", [1, 3])
def test_a_stream_cut_at_any_byte_gives_all_that_zlib_can(tmp_path: Path, n: int) -> None:
    path = tmp_path / "t.gz"
    content = members(TEXT, n)
    for length in range(2, len(content)):
        path.write_bytes(content[:length])
        text, file = decompressed(path)
        assert text == everything(content[:length])
        assert file.truncated == (not file_ends_with_a_member(content, length, n))
        if text:
            result = read(path)
            assert [e[1] for e in result.events] == NAMES[: text.count(b"}") - text.count(b"]}")]
            assert result.reader.truncated


def everything(content: bytes) -> bytes:
    text = b""
    while content:
        stream = zlib.decompressobj(wbits=31)
        for i in range(len(content)):
            text += stream.decompress(content[i : i + 1])
            if stream.eof:
                content = content[i + 1 :]
                break
        else:
            break
    return text


def file_ends_with_a_member(content: bytes, length: int, n: int) -> bool:
    ends, at = [], 0
    step = len(TEXT) // n + 1
    for i in range(0, len(TEXT), step):
        at += len(gzip.compress(TEXT[i : i + step]))
        ends.append(at)
    assert ends[-1] == len(content)
    return length in ends


def test_damage_inside_a_stream_keeps_what_stands_before(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    r = random.Random(0)
    text = b"[" + b",\n".join(b'{"ph": "X", "name": "%d"}' % r.randrange(10**9) for _ in range(20_000))
    content = bytearray(gzip.compress(text))
    at = len(content) // 2
    content[at : at + 40] = bytes(r.randrange(256) for _ in range(40))
    path.write_bytes(content)
    got, file = decompressed(path, 1 << 16)
    sound = len(everything_until(bytes(content[:at])))
    assert sound > 200_000
    assert got[:sound] == text[:sound]
    assert file.truncated


def everything_until(content: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(content)


def test_a_wrong_checksum_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    content = bytearray(gzip.compress(TEXT))
    content[-6] ^= 1
    path.write_bytes(content)
    text, file = decompressed(path)
    assert (text, file.truncated) == (TEXT, True)
    assert [e[1] for e in read(path).events] == NAMES


def test_a_bomb_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 50_000_000))
    with TextFile(path) as file:
        assert len(file.read(100_000)) == 100_000
    assert len(peek(path, 5000)) == 5000


def test_random_damage_to_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    refused = 0
    for seed in range(200):
        r = random.Random(seed)
        content = bytearray(members(TEXT, r.choice([1, 2, 4])))
        for _ in range(r.choice([1, 3])):
            content[r.randrange(len(content))] = r.randrange(256)
        path.write_bytes(content)
        try:
            read(path)
        except InputError:
            refused += 1
    assert refused < 50


def test_peek_shows_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(TEXT)
    assert peek(path, 10) == TEXT[:10]
    path.write_bytes(members(TEXT, 4))
    assert peek(path) == TEXT
