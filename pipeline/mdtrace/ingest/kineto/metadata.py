"""The keys of the trace document → facts. Only the keys named here are read: no user name, log line,
path or key that the user added goes any further."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mdtrace.ingest.kineto.columns import as_int
from mdtrace.ingest.kineto.times import LIMIT_NS

_VERSIONS = {"cuda_runtime_version": "CUDA runtime", "hip_runtime_version": "HIP runtime"}
_INT32 = 2**31


@dataclass(frozen=True)
class Group:
    """A process group of the job, as `distributedInfo.pg_config` states it."""

    name: str
    desc: str | None
    ranks: list[int] | None
    size: int | None


@dataclass(frozen=True)
class Metadata:
    """What the document says about itself; None: it does not say."""

    base_ns: int | None = None
    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    host: str | None = None
    format_version: str | None = None
    producer: str | None = None
    devices: list[dict[str, Any]] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)


def metadata(document: Mapping[str, Any]) -> Metadata:
    """Facts of a trace document's keys; one of the wrong type says nothing."""
    job = document.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    base = as_int(document.get("baseTimeNanoseconds"))
    version = as_int(document.get("schemaVersion"))
    return Metadata(
        base_ns=base if base is not None and 0 < base <= LIMIT_NS else None,
        rank=_count(job.get("rank")),
        world_size=_count(job.get("world_size")) or None,
        backend=_text(job.get("backend")),
        host=_text(document.get("host_name")) or _text(job.get("host_name")) or _text(job.get("hostname")),
        format_version=None if version is None else str(version),
        producer=_producer(document),
        devices=_devices(document.get("deviceProperties")),
        groups=_groups(job.get("pg_config")),
    )


def _count(value: Any) -> int | None:
    number = as_int(value)
    return number if number is not None and 0 <= number < _INT32 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _producer(document: Mapping[str, Any]) -> str | None:
    if "schemaVersion" not in document and "deviceProperties" not in document:
        return None
    versions = {label: as_int(document.get(key)) for key, label in _VERSIONS.items()}
    stated = [f"{label} {version}" for label, version in versions.items() if version is not None]
    return ", ".join(["PyTorch profiler", *stated])


def _devices(properties: Any) -> list[dict[str, Any]]:
    """Rows of the devices table without process and rank; of two with one id the first."""
    rows: dict[int, dict[str, Any]] = {}
    for device in properties if isinstance(properties, list) else ():
        ordinal = _count(device.get("id")) if isinstance(device, dict) else None
        if ordinal is None or ordinal in rows:
            continue
        capability = [as_int(device.get(key)) for key in ("computeMajor", "computeMinor")]
        rows[ordinal] = {
            "device_id": ordinal,
            "name": _text(device.get("name")),
            "memory_bytes": as_int(device.get("totalGlobalMem")),
            "sm_count": _count(device.get("numSms")),
            "compute_capability": None if None in capability else "{}.{}".format(*capability),
        }
    return list(rows.values())


def _groups(config: Any) -> dict[str, Group]:
    groups: dict[str, Group] = {}
    for entry in config if isinstance(config, list) else ():
        name = entry.get("pg_name") if isinstance(entry, dict) else None
        if isinstance(name, str | int):
            ranks = rank_list(entry.get("ranks"))
            size = _count(entry.get("pg_size")) or (len(ranks) if ranks else None)
            groups[str(name)] = Group(str(name), _text(entry.get("pg_desc")), ranks, size)
    return groups


def rank_list(value: Any) -> list[int] | None:
    """Global ranks in ascending order, from a list or its text; None where it is empty, no list of
    ranks, or cut short (`[0, 1, …, 29, ...]`)."""
    if isinstance(value, str):
        if not re.fullmatch(r"\s*\[[\d,\s]*\]\s*", value, re.ASCII):
            return None
        value = re.findall(r"\d+", value, re.ASCII)
    if not isinstance(value, list) or not value:
        return None
    ranks = [_count(rank) for rank in value]
    return None if None in ranks else sorted(r for r in ranks if r is not None)
