"""Damaged, locked and foreign files: what can be read is kept, what is wrong is said."""

import sqlite3
from pathlib import Path

import pytest

from mdtrace.errors import InputError
from nsys_export import Read, call, export, kernel, nvtx, session, strings

PAGE = 4096


def many(path: Path, count: int = 20_000) -> Path:
    """Kernels with correlation 0, 1, …; several hundred pages of them."""
    return export(
        path,
        StringIds=strings("gemm"),
        TARGET_INFO_SESSION_START_TIME=session(0x1000),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(i * 10, i * 10 + 5, correlationId=i) for i in range(count)],
    )


def leaf_pages(path: Path, table: str) -> list[int]:
    """Numbers of a table's leaf pages, in rowid order."""
    data = path.read_bytes()
    with sqlite3.connect(path) as db:
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    db.close()

    def walk(number: int) -> list[int]:
        page = data[(number - 1) * PAGE : number * PAGE]
        if page[0] == 13:
            return [number]
        cells = int.from_bytes(page[3:5], "big")
        pointers = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big") for i in range(cells)]
        children = [int.from_bytes(page[p : p + 4], "big") for p in pointers]
        return [leaf for c in [*children, int.from_bytes(page[8:12], "big")] for leaf in walk(c)]

    return walk(root)


def rows_on(path: Path, number: int) -> int:
    page = path.read_bytes()[(number - 1) * PAGE : number * PAGE]
    return int.from_bytes(page[3:5], "big")


def overwrite(path: Path, number: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        file.write(content)


def attempt(path: Path, folder: Path) -> tuple[Read | None, InputError]:
    """What comes of a file: rows, or the one kind of error that there may be."""
    try:
        return Read(path, folder), InputError("none")
    except InputError as error:
        return None, error


@pytest.mark.parametrize("content", [b"\0" * PAGE, b"\xaa" * PAGE], ids=["zeros", "noise"])
def test_a_page_in_the_middle_costs_its_own_rows_only(tmp_path: Path, content: bytes) -> None:
    path = many(tmp_path / "x.sqlite")
    leaves = leaf_pages(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    lost = rows_on(path, leaves[100])
    before = sum(rows_on(path, p) for p in leaves[:100])
    overwrite(path, leaves[100], content)
    read = Read(path, tmp_path / "s")
    found = [k["correlation"] for k in read.rows("device_ops")]
    assert found == [*range(before), *range(before + lost, 20_000)]
    assert read.facts.truncated
    assert read.codes()["damaged_pages"] > 0
    assert read.events() == (20_000 - lost, 0)


def test_several_damaged_pages(tmp_path: Path) -> None:
    path = many(tmp_path / "x.sqlite")
    leaves = leaf_pages(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    lost = 0
    for number in (leaves[0], leaves[50], leaves[51], leaves[-1]):
        lost += rows_on(path, number)
        overwrite(path, number, b"\0" * PAGE)
    read = Read(path, tmp_path / "s")
    assert read.events()[0] == 20_000 - lost


def test_a_file_cut_off(tmp_path: Path) -> None:
    path = many(tmp_path / "x.sqlite")
    leaves = leaf_pages(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 // PAGE * PAGE + 100])
    whole = {p for p in leaves if p <= len(data) // 2 // PAGE}
    read = Read(path, tmp_path / "s")
    codes = read.codes()
    assert codes["truncated"] == 1
    assert read.facts.truncated
    assert read.events()[0] <= sum(rows_on(path, p) for p in whole)
    # A table's root and upper pages may lie behind the cut; here the first half of the leaves is readable.
    assert read.events()[0] > 5_000


def test_a_page_cut_in_half_makes_no_rows_up(tmp_path: Path) -> None:
    """What is missing of the last page reads as zeros; no row may come of it."""
    whole = many(tmp_path / "whole.sqlite")
    data, leaves = whole.read_bytes(), leaf_pages(whole, "CUPTI_ACTIVITY_KIND_KERNEL")
    for i, part in enumerate((200, 1000, 2000, 3000, 3900)):
        path = tmp_path / f"{i}.sqlite"
        path.write_bytes(data[: (leaves[90] - 1) * PAGE + part])
        read = Read(path, tmp_path / f"s{i}")
        assert [p.pid for p in read.processes] == [11]
        rows = read.rows("device_ops")
        assert all(r["start_ns"] == 0x1000 + 10 * r["correlation"] and r["dur_ns"] == 5 for r in rows)
        assert len(rows) >= sum(rows_on(whole, p) for p in leaves if p < leaves[90])
        assert sum(read.events()) == len(rows)


def test_every_cut_ends_in_rows_or_a_clear_error(tmp_path: Path) -> None:
    data = many(tmp_path / "whole.sqlite", 500).read_bytes()
    for i, size in enumerate([*range(1, 200, 40), *range(500, len(data), 4001)]):
        path = tmp_path / "cut.sqlite"
        path.write_bytes(data[:size])
        read, error = attempt(path, tmp_path / f"s{i}")
        if read is not None:
            assert read.facts.truncated
        else:
            assert error.hint
            assert "cut.sqlite" in error.what


def test_any_single_damaged_byte_is_survived(tmp_path: Path) -> None:
    whole = export(
        tmp_path / "whole.sqlite",
        StringIds=strings("gemm", "cudaLaunchKernel_v7000"),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(i * 10, i * 10 + 5) for i in range(3)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(i * 10, i * 10 + 5, nameId=2) for i in range(3)],
        NVTX_EVENTS=[nvtx(1, 2, "step"), nvtx(3, None, "mark", eventType=34)],
    )
    data = whole.read_bytes()
    used = [i for i, b in enumerate(data) if b]
    for n, at in enumerate(used[:: max(1, len(used) // 60)]):
        path = tmp_path / "x.sqlite"
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        read, error = attempt(path, tmp_path / f"s{n}")
        assert error.hint if read is None else read.codes() is not None


def test_text_that_is_no_utf8_and_text_with_nul(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        NVTX_EVENTS=[nvtx(0, 1, "fine"), nvtx(2, 3, "a\0b"), nvtx(4, 5, "?"), nvtx(6, 7, "déjà")],
    )
    with sqlite3.connect(path) as db:
        db.execute("UPDATE NVTX_EVENTS SET text = CAST(x'41ff42' AS TEXT) WHERE text = '?'")
    db.close()
    read = Read(path, tmp_path / "s")
    assert [r["name"] for r in read.rows("host_ops")] == ["fine", "a\0b", "A�B", "déjà"]
    assert read.codes()["repaired_text"] == 1


def test_values_of_another_type_than_declared(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm"),
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(i * 10, i * 10 + 5, correlationId=i) for i in range(5)],
    )
    with sqlite3.connect(path) as db:
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = 'seven' WHERE correlationId = 0")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = x'00' WHERE correlationId = 2")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'never' WHERE correlationId = 3")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 1.5 WHERE correlationId = 4")
    db.close()
    read = Read(path, tmp_path / "s")
    rows = read.rows("device_ops")
    assert [(r["correlation"], r.get("stream_id"), r.get("device_id")) for r in rows] == [
        (0, None, 0),
        (1, 7, 0),
        (2, 7, None),
    ]
    assert read.codes()["wrong_types"] == 4
    assert read.codes()["events_without_time"] == 2
    assert read.events() == (3, 2)


def test_numbers_out_of_range(tmp_path: Path) -> None:
    big = (1 << 63) - 1
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm"),
        TARGET_INFO_SESSION_START_TIME=session(),
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(big, big, correlationId=0),
            kernel(-5, big, correlationId=1, deviceId=big, gridX=big, registersPerThread=-big),
            kernel(100, 40, correlationId=2, streamId=4294967295),
        ],
    )
    read = Read(path, tmp_path / "s")
    assert [r["correlation"] for r in read.rows("device_ops")] == [1, 2]
    assert not {"device_id", "grid_x", "registers_per_thread"} & set(read.rows("device_ops")[0])
    assert "dur_ns" not in read.rows("device_ops")[1]
    assert read.codes()["negative_durations"] >= 1


def test_nothing_is_written_beside_the_input(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = many(folder / "odd name ?#%20é.sqlite", 10)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
    db.close()
    before = path.read_bytes()
    folder.chmod(0o555)
    try:
        read = Read(path, tmp_path / "s")
    finally:
        folder.chmod(0o755)
    assert read.count("device_ops") == 10
    assert [f.name for f in folder.iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_a_locked_file_with_a_journal(tmp_path: Path) -> None:
    path = many(tmp_path / "x.sqlite", 10)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId < 5")
    writer.execute("BEGIN EXCLUSIVE")
    read = Read(path, tmp_path / "s")
    writer.execute("ROLLBACK")
    writer.close()
    assert read.count("device_ops") == 10
    assert read.codes()["unmerged_journal"] == 1


def test_views_and_virtual_tables_are_left_alone(tmp_path: Path) -> None:
    path = many(tmp_path / "x.sqlite", 3)
    with sqlite3.connect(path) as db:
        db.execute("CREATE VIEW NVTX_EVENTS AS SELECT start, 'x' AS text FROM CUPTI_ACTIVITY_KIND_KERNEL")
    db.close()
    read = Read(path, tmp_path / "s")
    assert read.events() == (3, 0)
