"""Which format an input is, by its content and never by its name; and what a wrong input is instead.

Only the first megabyte (decompressed) of a file is looked at, and of a database only the names of its
tables. Nothing is decoded here that the reader would have to decode again.
"""

import json
import re
import sqlite3
import stat
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

from mdtrace.errors import InputError
from mdtrace.ingest.bytes import peek
from mdtrace.ingest.facts import Reader

# The formats and who reads them: "module:function", imported when first asked for.
READERS = {
    "kineto": "mdtrace.ingest.kineto:read_kineto",
    "nsys": "mdtrace.ingest.nsys:read_nsys",
    "horovod": "mdtrace.ingest.horovod:read_horovod",
}

_FORMATS = "mdtrace reads PyTorch profiler (Kineto) traces, nsys SQLite exports and Horovod timelines"
_TORCH = "profile with torch.profiler and give its *.pt.trace.json"
_EXPORT = "run: nsys export --type sqlite FILE, and give the .sqlite file that it makes"


def reader(name: str) -> Reader:
    """The reader of a format that `detect` names."""
    module, function = READERS[name].split(":")
    return cast(Reader, getattr(import_module(module), function))


def detect(path: Path) -> str:
    """The format of an input: `kineto`, `nsys` or `horovod`.

    Args:
        path: a file, or the folder that `nsys export --type parquetdir` writes.

    Raises:
        InputError: it cannot be read or is something else; says what, and what to do instead.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder(path)
        if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
            raise InputError(f"{_name(path)}: is no regular file", "write the trace to a file and give that")
        with path.open("rb") as file:
            head = file.read(4096)
        return _file(path, head)
    except FileNotFoundError as error:
        raise InputError(
            f"{_name(path)}: does not exist", "check the spelling, or quote the pattern"
        ) from error
    except PermissionError as error:
        raise InputError(
            f"{_name(path)}: no permission to read it", "change its permissions, or copy it"
        ) from error
    except OSError as error:
        raise InputError(f"{_name(path)}: cannot be read ({error.strerror})", "check the disk") from error


def _name(path: Path) -> str:
    """What messages call it: a message may end up in a dataset, which holds no paths."""
    return path.name or path.absolute().name or "/"


def _file(path: Path, head: bytes) -> str:
    if not head:
        raise InputError(
            f"{_name(path)}: empty file", "killed before it wrote, or the disk was full: capture again"
        )
    if head.startswith(_SQLITE):
        return _database(path)
    if not head.startswith(_GZIP):
        for what, hint in _binary(head):
            raise InputError(f"{_name(path)}: {what}", hint)
    text = peek(path)
    if head.startswith(_GZIP):
        _check_unpacked(path, text)
    return _text(path, text)


def _check_unpacked(path: Path, text: bytes) -> None:
    """Refuse gzip around what can only be read from a file of its own."""
    if text.startswith((_SQLITE, _GZIP)):
        inner = "gzip again" if text.startswith(_GZIP) else "an SQLite database"
        raise InputError(f"{_name(path)}: gzip, and inside it {inner}", "unpack it first: gunzip FILE")
    for what, hint in _binary(text[:4096]):
        raise InputError(f"{_name(path)}: gzip, and inside it {what}", hint)


_SQLITE = b"SQLite format 3\0"
_GZIP = b"\x1f\x8b"
_TEXT = (
    b"{",
    b"[",
    b"\xff\xfe",
    b"\xfe\xff",
)  # JSON, whatever raw bytes its names hold; UTF-16, named by peek
# First bytes of files that are no trace, or not in a form that is read: (offset, bytes, what, hint).
_UNPACK = "unpack it first and give the files in it"
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive", _UNPACK),
    (0, b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it first: zstd -d FILE"),
    (0, b"\xfd7zXZ\x00", "compressed with xz", "unpack it first: unxz FILE"),
    (0, b"BZh", "compressed with bzip2", "unpack it first: bunzip2 FILE"),
    (0, b"\x04\x22\x4d\x18", "compressed with lz4", "unpack it first: lz4 -d FILE"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (0, b"Rar!", "a rar archive", _UNPACK),
    (
        0,
        b"PAR1",
        "a Parquet file",
        "of nsys parquetdir? then give the whole folder; else the original trace",
    ),
    (0, b"ARROW1", "an Arrow file", f"of nsys? then {_EXPORT}; else give the original trace"),
    (0, b"\x89HDF", "an HDF5 file", f"of nsys? then {_EXPORT}; else give the original trace"),
    (0, b"QDSTRM", "an nsys report, not an SQLite export", _EXPORT),
    (0, b"%PDF", "a PDF", _FORMATS),
    (0, b"\x89PNG", "a picture", _FORMATS),
    (0, b"\xff\xd8\xff", "a picture", _FORMATS),
    (0, b"\x7fELF", "a program", _FORMATS),
)


def _binary(head: bytes) -> Iterator[tuple[str, str]]:
    """What the first bytes say the file is, where that is nothing mdtrace reads, and a hint."""
    for offset, magic, what, hint in _MAGIC:
        if head.startswith(magic, offset):
            yield what, hint
            return
    if b"brain.Event:" in head[:64]:
        yield "a TensorBoard event file", f"{_TORCH}: tensorboard's folder holds it beside the event file"
    elif re.match(rb"\x80[\x02-\x05]", head):
        yield "a Python pickle (a memory snapshot?)", _TORCH
    elif head.startswith(b"\x0a") and b"\0" in head:
        profile = b"/host:" in head or b"/device:" in head
        what = "an XPlane profile (protobuf)" if profile else "a Perfetto or other protobuf trace"
        yield what, f"{_FORMATS}; {_TORCH}"
    elif b"\0" in head[:1024] and not head.lstrip().startswith(_TEXT):
        yield "a binary file of no known kind, and not an SQLite export", f"an nsys report? {_EXPORT}"


_NSYS_TABLE = re.compile(
    r"(?:CUPTI_ACTIVITY_KIND|TARGET_INFO|META_DATA|ENUM_NSYS|NVTX_EVENTS|NVTX_PAYLOAD|MPI|OSRT)\w*"
    r"|EXPORT_META_DATA|ANALYSIS_DETAILS|ANALYSIS_FILE|StringIds|ProcessStreams|ThreadNames|COMPOSITE_EVENTS"
)
# Tables of other profilers' databases: one is enough to know them.
_DATABASES: tuple[tuple[str, str, str], ...] = (
    (r"rocpd_", "a rocprofv3 (rocpd) database", "convert it: rocpd2pftrace shows it; for mdtrace " + _TORCH),
    (r"view_op_nodes|view_system_config|dlprof", "a DLProf database",
     "give the nsys report beside it: " + _EXPORT),
    (r"StringTable$|CUPTI_ACTIVITY_KIND_(?:CONCURRENT_KERNEL|MARKER|DRIVER)$", "an nvprof database",
     "nvprof is gone: profile with nsys, then " + _EXPORT),
    (r"STRING_IDS$|HCCL|CANN_API", "an Ascend (msprof) database", _TORCH),
    (r"KernelEvents|rocprof|COPYActivity|roctracer", "a rocprof database", _TORCH),
)  # fmt: skip


def _database(path: Path) -> str:
    """What an SQLite database is, by the names of its tables."""
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"  # beside a read-only file no journal can be made
    try:
        connection = sqlite3.connect(uri, uri=True)
        try:
            # Else SQLite refuses a file that was cut off; the reader takes what is there. Nothing is written.
            connection.execute("PRAGMA writable_schema = ON")
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            names = [str(name) for (name,) in rows]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise InputError(f"{_name(path)}: a damaged SQLite database ({error})", _EXPORT) from error
    for pattern, what, hint in _DATABASES:
        if any(re.match(pattern, name) for name in names):
            raise InputError(f"{_name(path)}: {what}", hint)
    if any(_NSYS_TABLE.fullmatch(name) for name in names):
        return "nsys"
    what = "an SQLite database that no nsys export made" if names else "an SQLite database without tables"
    raise InputError(f"{_name(path)}: {what}", _EXPORT)


def _folder(path: Path) -> str:
    """A folder of an nsys parquetdir export; any other is refused by what it is."""
    files = list(path.iterdir())
    names = {f.stem for f in files if f.suffix == ".parquet"}
    if any(_NSYS_TABLE.fullmatch(name) for name in names):
        return "nsys"
    if _is_dataset(path):
        hint = "query it: mdtrace sql FOLDER; add to it: mdtrace ingest TRACE --add FOLDER"
        raise InputError(f"{_name(path)}: is an mdtrace dataset already", hint)
    if names or any(f.suffix == ".arrow" for f in files):
        raise InputError(f"{_name(path)}: a folder of tables, not an nsys parquetdir export", _EXPORT)
    raise InputError(
        f"{_name(path)}: is a folder", "give the traces in it: mdtrace ingest FOLDER/*.json.gz (or *.sqlite)"
    )


def _is_dataset(path: Path) -> bool:
    try:
        manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and "mdtrace" in manifest


# What PyTorch's exporter writes before the events, and its categories, old and new.
_KINETO_HEAD = re.compile(rb'"(?:schemaVersion|deviceProperties|baseTimeNanoseconds|distributedInfo)"\s*:')
_KINETO_CATEGORY = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|gpu_(?:user_annotation|memcpy|memset)|kernel|cpu_instant_event'
    rb"|cuda_(?:runtime|driver|sync|event|profiler_range)|python_function|overhead|collective_comm|ac2g|fwdbwd"
    rb"|async_cpu_to_gpu|forward_backward|xpu_\w+|mtia_\w+|hpu_op|privateuse1_\w+|Operator|Runtime|Kernel|Memcpy"
    rb'|Memset|Trace)"'
)
_HOROVOD = re.compile(
    rb'"start_time_since_epoch_in_micros"|"name"\s*:\s*"(?:NEGOTIATE_[A-Z]+|CYCLE_START|WAIT_FOR_(?:OTHER_TENSOR_)?DATA'
    rb"|(?:NCCL|MPI|GLOO|CCL|DDL|MLSL)_[A-Z_]+|MEMCPY_(?:IN|OUT)_FUSION_BUFFER"
    rb'|ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER|BARRIER|JOIN|ADASUM)"'
)
_PHASE = re.compile(rb'"ph"\s*:\s*"(.)"')
_ROCPROF = re.compile(rb'"(?:rocprofiler-sdk-tool|BeginNs|buffer_records)"')
_CSV = re.compile(rb'(?i)"?(?:Kernel_?Name|Kind|Index|Domain|Name|Function)"?,')
_NSYS_JSON = re.compile(rb'"(?:CudaEvent|NvtxEvent|TraceProcessEvent|GlobalId|EtwEvent)"|\{"data":\[')


def _text(path: Path, head: bytes) -> str:
    """What the first megabyte of text is."""
    body = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if body.startswith(b"{") or (body.startswith(b"[") and re.match(rb"\[\s*(?:\{|\]|$)", body)):
        found = _trace(body)
        if found:
            return found
        what, hint = _other_json(body)
    else:
        what, hint = _other_text(body)
    raise InputError(f"{_name(path)}: {what}", hint)


def _trace(body: bytes) -> str | None:
    """`kineto` or `horovod` by the marks in the first events, None for any other JSON."""
    if _KINETO_HEAD.search(body) or _KINETO_CATEGORY.search(body):
        return "kineto"
    if _HOROVOD.search(body):
        return "horovod"
    if body.startswith(b"{"):  # no events, or none yet: what an old exporter leaves of an empty capture
        return "kineto" if re.search(rb'"traceEvents"\s*:\s*\[\s*(?:\]|$)', body) else None
    # A timeline of a run that reduced nothing: an open bracket, at most with the names of tensors behind it.
    return "horovod" if set(_PHASE.findall(body)) <= {b"M"} and b'"cat"' not in body else None


def _other_json(body: bytes) -> tuple[str, str]:
    if _ROCPROF.search(body):
        return "a rocprof trace", f"rocpd2pftrace and rocpd2csv read it; for mdtrace {_TORCH}"
    if re.search(rb'"nodes"\s*:\s*\[', body) and b'"traceEvents"' not in body:
        return "a PyTorch or Chakra execution trace: it has no times of kernels", f"beside it, {_TORCH}"
    if _NSYS_JSON.search(body):
        return "an nsys JSON export", _EXPORT
    if b'"traceEvents"' in body or _PHASE.search(body):
        return "a Chrome trace that neither the PyTorch profiler nor Horovod wrote", _FORMATS
    return "JSON, but no trace: it has no traceEvents", _FORMATS


def _other_text(body: bytes) -> tuple[str, str]:
    if not body:
        return "nothing but blanks", "the program was killed before it wrote: capture again"
    if re.match(rb"(?i)<(?:!doctype\s+html|html|head|body)", body):
        return "an HTML page", "a download page or a login, perhaps: download the file itself"
    if body.startswith(b"<"):
        return "XML", _FORMATS
    if body.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself", "fetch it: git lfs pull"
    first = body.split(b"\n", 1)[0]
    if _CSV.search(first) and re.search(rb"(?i)kernel|agent|queue|correlation|dispatch|timestamp", first):
        return "a table of rocprof or another profiler (CSV)", f"it has no timeline to join; {_TORCH}"
    return "plain text, no trace", _FORMATS
