"""Rows as the views of rooflines give them; what a test does not state gets a default."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_POINT: dict[str, Any] = {
    "process_id": 0, "rank": 0, "name": "Net/Linear_0", "phase": "forward", "dtype": "bf16", "calls": 1,
    "flops": 1_000_000_000, "bytes": 10_000_000, "wire_bytes": None, "device_ns": 1_000_000,
    "attainable_flops_per_s": 5e12, "bound": "compute", "coverage": 1.0,
}  # fmt: skip
_ROOF: dict[str, Any] = {
    "process_id": 0, "rank": 0, "device": "GPU", "hardware": "gpu", "unit": None, "dtype": None,
    "origin": "hardware table", "source": "data sheet", "doubt": None,
}  # fmt: skip


def points(*rows: dict[str, Any]) -> pa.Table:
    """As `roofline_points`."""
    return pa.Table.from_pylist([{**_POINT, **row} for row in rows])


def roofs(peak: float = 100e12, memory: float = 1e12, bus: float | None = 100e9) -> pa.Table:
    """As `hardware_roofs`: a bf16 matrix peak, device memory, and links."""
    found: list[dict[str, Any]] = [
        {"roof": "compute", "dtype": "bf16", "unit": "matrix", "per_s": peak},
        {"roof": "memory", "per_s": memory},
    ]
    if bus is not None:
        found.append({"roof": "bus", "per_s": bus})
    return pa.Table.from_pylist([{**_ROOF, **row} for row in found])


def layers_of(spec: dict[str, Any], data: Any = None) -> list[dict[str, Any]]:
    """All marks of a chart, each with its data, whatever it is layered or concatenated of."""
    data = spec.get("data", data)
    inner = [p for key in ("layer", "vconcat", "hconcat") for p in spec.get(key, [])]
    own = [{**spec, "data": data}] if "mark" in spec else []
    return own + [mark for part in inner for mark in layers_of(part, data)]


def values(spec: dict[str, Any], mark: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that a mark draws."""
    data = mark["data"]
    found: list[dict[str, Any]] = data["values"] if "values" in data else spec["datasets"][data["name"]]
    return found


def drawn(spec: dict[str, Any], kind: str, style: str | None = None) -> list[list[dict[str, Any]]]:
    """The rows of each mark of a kind (and style), in drawing order."""
    marks = [m for m in layers_of(spec) if m["mark"]["type"] == kind]
    return [values(spec, m) for m in marks if style is None or m["mark"].get("style") == style]


def names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Their names."""
    return [row["name"] for row in rows]
