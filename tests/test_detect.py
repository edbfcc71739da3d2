"""Formats are told by content; wrong inputs are named for what they are, with what to do instead."""

import gzip
import io
import json
import os
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest

from mdtrace.errors import InputError
from mdtrace.ingest.detect import READERS, detect
from shared import shared


def put(folder: Path, content: bytes | str, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path) -> tuple[str, str]:
    """Message and hint for an input that is refused."""
    with pytest.raises(InputError) as caught:
        detect(path)
    assert caught.value.hint
    assert str(path.parent) not in caught.value.what  # no paths: the message may be kept in a dataset
    return caught.value.what, caught.value.hint


def database(folder: Path, *names: str) -> Path:
    path = folder / "some.db"
    with sqlite3.connect(path) as connection:
        for name in names:
            connection.execute(f'CREATE TABLE "{name}" (a)')
    connection.close()
    return path


EVENT = '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
TICKS = '{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 1, "pid": 1},{"ph": "X", "name": "0", "ts": 1}'
EPOCH = '{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros":1}}'
FOREIGN = b'{"ph": "X", "cat": "blink", "name": "x", "pid": 1, "ts": 1, "dur": 1}'
TFEVENTS = b"\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09\0\0\x80\x95\x42\x81\xd9\x41\x1a\x0dbrain.Event:2"
ROCPROF = b'{ "traceEvents":[{}\n,{"ph":"X","name":"hipMemcpy","args":{"BeginNs":"1"}}]}'
CHAKRA = b'{"schema": "1.1.1-chakra.0.0.4", "pid": 9, "nodes": [{"id": 1}]}'
META = '{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad/w"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"schemaVersion": 1, "traceEvents": []}', "kineto"),
        ('{"traceEvents": [' + EVENT + "]}", "kineto"),
        ("[" + EVENT, "kineto"),
        ("[" + EVENT.replace("cpu_op", "Operator") + "]", "kineto"),
        ('\ufeff\n {"deviceProperties": [], "traceEvents": [', "kineto"),
        ('{"traceEvents": []}', "kineto"),
        ("[\n" + META + ",\n" + TICKS + ",\n", "horovod"),
        ("[\n" + META + ",\n", "horovod"),
        ("[" + EPOCH + "]", "horovod"),
        ('[\n{"ph": "B", "name": "ALLREDUCE", "ts": 5, "pid": 1},', "horovod"),
        ('[{"ph": "i", "name": "CYCLE_START", "ts": 5, "s": "g"}]', "horovod"),
        ('{"traceEvents": [' + TICKS + "]}", "horovod"),
        ("[", "horovod"),
        ("[\n", "horovod"),
        ("[]", "horovod"),
        ("[\n{}]", "horovod"),
    ],
)  # fmt: skip
def test_json_by_its_marks(tmp_path: Path, text: str, expected: str) -> None:
    assert detect(put(tmp_path, text)) == expected
    assert detect(put(tmp_path, gzip.compress(text.encode()), "t.json")) == expected
    members = b"".join(gzip.compress(part.encode()) for part in (text[:1], text[1:]))
    assert detect(put(tmp_path, members)) == expected


def test_database_of_nsys_under_any_name(tmp_path: Path) -> None:
    assert detect(database(tmp_path, "StringIds", "CUPTI_ACTIVITY_KIND_KERNEL")) == "nsys"


@pytest.mark.parametrize(
    "table", ["META_DATA_EXPORT", "EXPORT_META_DATA", "NVTX_EVENTS_V2", "TARGET_INFO_GPU"]
)
def test_one_table_is_enough(tmp_path: Path, table: str) -> None:
    assert detect(database(tmp_path, table)) == "nsys"


@pytest.mark.parametrize(
    ("tables", "what"),
    [
        (("rocpd_kernel_dispatch_0001",), "rocprofv3"),
        (("view_op_nodes", "view_system_config"), "DLProf"),
        (("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "StringTable"), "nvprof"),
        (("users",), "no nsys export"),
        ((), "without tables"),
    ],
)
def test_other_databases(tmp_path: Path, tables: tuple[str, ...], what: str) -> None:
    path = database(tmp_path, *tables)
    if not tables:
        put(tmp_path, b"SQLite format 3\0" + b"\0" * 84, "some.db")
        what = "SQLite database"
    assert what in refused(path)[0]


def test_damaged_database(tmp_path: Path) -> None:
    path = database(tmp_path, "StringIds")
    put(tmp_path, path.read_bytes()[:100] + b"\xff" * 5000, "some.db")
    assert "damaged SQLite database" in refused(path)[0]


def _tar() -> bytes:
    with tarfile.open(fileobj=(buffer := io.BytesIO()), mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.json"))
    return buffer.getvalue()


def _zip() -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as archive:
        archive.writestr("trace.json", "[")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "what", "hint"),
    [
        (b"", "empty file", "capture again"),
        (b" \n\n", "blanks", "capture again"),
        (b"QDSTRM\0\0\0", "nsys report, not an SQLite export", "nsys export --type sqlite"),
        (b"\x01\x02\0\0\0\x9f" * 9, "not an SQLite export", "nsys export --type sqlite"),
        (b"PAR1\x15\x04", "Parquet", "parquetdir"),
        (_zip(), "zip archive", "unpack"),
        (_tar(), "tar archive", "unpack"),
        (gzip.compress(_tar()), "tar archive", "unpack"),
        (gzip.compress(gzip.compress(b"[]")), "gzip again", "gunzip"),
        (gzip.compress(b"SQLite format 3\0"), "SQLite", "gunzip"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd", "zstd -d"),
        (b"\xfd7zXZ\x00\x00", "xz", "unxz"),
        (b"BZh91AY&SY", "bzip2", "bunzip2"),
        (b"<!DOCTYPE html><html>", "HTML", "download"),
        (TFEVENTS, "TensorBoard", "torch.profiler"),
        (b"\x0a\x2e\x50\x01\x82\x02\0\x12Perfetto", "Perfetto", "Kineto"),
        (b"\x80\x04\x95\x10\0\0\0", "pickle", "torch.profiler"),
        (b'{"rocprofiler-sdk-tool": [{"buffer_records": {}}]}', "rocprof", "torch.profiler"),
        (ROCPROF, "rocprof", "rocpd2"),
        (b'"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name"\n', "rocprof", "torch.profiler"),
        (CHAKRA, "execution trace", "torch.profiler"),
        (b'{"traceEvents": [' + FOREIGN + b"]}", "Chrome trace", "Kineto"),
        (b"[" + FOREIGN + b"]", "Chrome trace", "Kineto"),
        (b'{"answer": 42}', "no trace", "Kineto"),
        (b"[1, 2, 3]", "no trace", "Kineto"),
        (b"step 1 loss 0.3\nstep 2 loss 0.2\n", "plain text", "Kineto"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS", "git lfs pull"),
        ('{"traceEvents": []}'.encode("utf-16"), "UTF-16", "iconv"),
    ],
)  # fmt: skip
def test_wrong_inputs_are_named(tmp_path: Path, content: bytes, what: str, hint: str) -> None:
    message = refused(put(tmp_path, content, "trace.pt.trace.json"))
    assert what in message[0]
    assert hint in message[1]


def test_missing_and_not_regular(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.json")[0]
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in refused(tmp_path / "pipe")[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_no_permission(tmp_path: Path) -> None:
    path = put(tmp_path, "[]")
    path.chmod(0)
    assert "no permission" in refused(path)[0]


def test_folders(tmp_path: Path) -> None:
    assert "folder" in refused(tmp_path)[0]
    assert "/*" in refused(tmp_path)[1]
    put(tmp_path, b"PAR1", "things.parquet")
    assert "not an nsys parquetdir export" in refused(tmp_path)[0]
    put(tmp_path, b"PAR1", "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    assert detect(tmp_path) == "nsys"
    (tmp_path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet").unlink()
    put(tmp_path, json.dumps({"mdtrace": "dataset"}), "manifest.json")
    message, hint = refused(tmp_path)
    assert "mdtrace dataset already" in message
    assert "--add" in hint


def test_readers_are_named_once() -> None:
    assert {name: target.split(":")[1] for name, target in READERS.items()} == {
        "kineto": "read_kineto",
        "nsys": "read_nsys",
        "horovod": "read_horovod",
    }


def test_real_traces() -> None:
    traces = shared("traces")
    found: dict[str, int] = {}
    for path in sorted(traces.rglob("*")):
        if path.name.endswith((".json.gz", "timeline.json", ".sqlite")):
            kind = (
                "nsys"
                if path.suffix == ".sqlite"
                else "horovod"
                if path.name == "timeline.json"
                else "kineto"
            )
            assert detect(path) == kind, path.name
            found[kind] = found.get(kind, 0) + 1
    assert found == {"kineto": 24, "nsys": 8, "horovod": 6}


def test_cases() -> None:
    """Every case file is what its folder says, whatever is broken in it."""
    wrong = {"zero_bytes.json": "empty", "not_sqlite.sqlite": "not an SQLite export"}
    count = 0
    for path in sorted(shared("cases").glob("*/*")):
        if path.name in wrong:
            assert wrong[path.name] in refused(path)[0]
        elif path.suffix != ".md":
            horovod = "horovod" in path.parent.name
            expected = "nsys" if path.suffix == ".sqlite" else "horovod" if horovod else "kineto"
            assert detect(path) == expected, path
            count += 1
    assert count > 40
