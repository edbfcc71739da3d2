"""What the export says about itself and the machine: clock, host, versions, devices."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mdtrace.ingest.nsys.source import Columns, TableSource, Tally

_VERSION = re.compile(r"\d{1,6}(?:\.\d{1,6}){0,5}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_NAME_VALUE: Columns = {"name": "text", "value": "text"}


@dataclass(frozen=True)
class Export:
    """Facts about the file; only values of known shape are taken over."""

    schema_version: str | None
    producer: str | None
    base_ns: int | None  # what must be added to a recorded time for epoch time; None: no wall clock
    hosts: Mapping[int, str] = field(default_factory=dict)  # by machine: the high bits of global ids
    graph_mode: bool = False  # CUDA graphs were traced as wholes


def read_export(source: TableSource, tally: Tally) -> Export:
    """Read the tables about the export and the session."""
    meta: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for row in source.rows(table, _NAME_VALUE, tally):
            meta.setdefault(row["name"] or "", row["value"] or "")
    capture = source.rows("META_DATA_CAPTURE", _NAME_VALUE, tally)
    product = meta.get("EXPORT_PRODUCT_VERSION", "")
    schema = meta.get("EXPORT_SCHEMA_VERSION", "")
    return Export(
        schema if _VERSION.fullmatch(schema) else None,
        f"Nsight Systems {product}" if _VERSION.fullmatch(product) else None,
        _base(source, meta, tally),
        _hosts(source, tally),
        any(_is_graph_mode(r["name"] or "", r["value"]) for r in capture),
    )


def _is_graph_mode(name: str, value: str | None) -> bool:
    return name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE") and value == "Graph"


def _base(source: TableSource, meta: Mapping[str, str], tally: Tally) -> int | None:
    """Epoch time of the file's zero. `nsys export` can shift times, or write them as epoch times already."""
    shift = meta.get("EXPORT_PARAM_TIME_SHIFT", "0")
    shift_ns = int(shift) if re.fullmatch(r"-?\d{1,18}", shift) else 0
    if meta.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        return -shift_ns
    rows = source.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": "int"}, tally)
    starts = [r["utcEpochNs"] for r in rows if r["utcEpochNs"] and 0 < r["utcEpochNs"] < 1 << 62]
    return starts[0] - shift_ns if starts else None


def _hosts(source: TableSource, tally: Tally) -> dict[int, str]:
    asked: Columns = {"globalVid": "int", "name": "text", "value": "text"}
    rows = source.rows("TARGET_INFO_SYSTEM_ENV", asked, tally)
    return {
        (r["globalVid"] or 0) >> 48: r["value"]
        for r in rows
        if r["name"] == "Hostname" and r["value"] and _HOST.fullmatch(r["value"])
    }


def host_of(export: Export, key: int) -> str | None:
    """Host of a process by its stage key (global id without the thread bits)."""
    by_machine = export.hosts.get(key >> 24)
    return by_machine or (next(iter(export.hosts.values())) if len(export.hosts) == 1 else None)


@dataclass(frozen=True)
class Gpus:
    """GPUs of the machine by id, and which process called which of them what."""

    by_id: Mapping[int, Mapping[str, Any]]
    cuda: list[Mapping[str, Any]]  # rows of TARGET_INFO_CUDA_DEVICE

    def of_process(self, pid: int | None) -> dict[int, Mapping[str, Any]]:
        """By the process's own ordinal: the row that ties it to a GPU."""
        return {r["cudaId"]: r for r in self.cuda if r["pid"] == pid and r["cudaId"] is not None}


_GPU: Columns = {
    "id": "int", "name": "text", "totalMemory": "int", "memoryBandwidth": "int", "clockRate": "int",
    "smCount": "int", "l2CacheSize": "int", "uuid": "text", "computeMajor": "int", "computeMinor": "int",
}  # fmt: skip
_CUDA_DEVICE: Columns = {"gpuId": "int", "cudaId": "int", "pid": "int", "uuid": "text"}


def read_gpus(source: TableSource, tally: Tally) -> Gpus:
    """TARGET_INFO_GPU and TARGET_INFO_CUDA_DEVICE."""
    by_id = {r["id"]: r for r in source.rows("TARGET_INFO_GPU", _GPU, tally) if r["id"] is not None}
    return Gpus(by_id, list(source.rows("TARGET_INFO_CUDA_DEVICE", _CUDA_DEVICE, tally)))


def device_rows(
    gpus: Gpus, pid: int | None, used: Iterable[int], visible: list[int] | None
) -> list[dict[str, Any]]:
    """Rows of `devices` for one process.

    Args:
        used: ordinals that its events name.
        visible: CUDA_VISIBLE_DEVICES, where known: the GPU behind each ordinal.
    """
    tied = gpus.of_process(pid)
    return [
        _device(o, gpus.by_id.get(_gpu_id(o, tied, visible), {}), tied.get(o, {}))
        for o in sorted({*used, *tied})
        if -1 < o < 1 << 31
    ]


def _gpu_id(ordinal: int, tied: Mapping[int, Mapping[str, Any]], visible: list[int] | None) -> int:
    if ordinal in tied:
        gpu = tied[ordinal]["gpuId"]
        return -1 if gpu is None else int(gpu)
    if visible is not None:
        return visible[ordinal] if ordinal < len(visible) else -1
    return ordinal


def _device(ordinal: int, gpu: Mapping[str, Any], cuda: Mapping[str, Any]) -> dict[str, Any]:
    major, minor = gpu.get("computeMajor"), gpu.get("computeMinor")
    count = _positive(gpu, "smCount")
    return {
        "device_id": ordinal,
        "name": gpu.get("name") or None,
        "uuid": gpu.get("uuid") or cuda.get("uuid") or None,
        "memory_bytes": _positive(gpu, "totalMemory"),
        "memory_bandwidth_bytes_per_s": _positive(gpu, "memoryBandwidth"),
        "clock_rate_hz": _positive(gpu, "clockRate"),
        "sm_count": count if count is None or count < 1 << 31 else None,
        "compute_capability": None if not major or minor is None else f"{major}.{minor}",
        "l2_bytes": _positive(gpu, "l2CacheSize"),
    }


def _positive(gpu: Mapping[str, Any], name: str) -> int | None:
    value = gpu.get(name)
    return value if value and value > 0 else None
