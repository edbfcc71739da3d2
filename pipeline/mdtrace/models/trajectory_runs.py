"""Trajectories of ingested runs: points from their rooflines, knobs from what the traces say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from mdtrace.errors import InputError, UsageError
from mdtrace.metrics.engine import Filters, connect, run
from mdtrace.models.trajectory import Point, Trajectory, trajectory
from mdtrace.tables.dataset import Dataset

_BATCH = """
    WITH inputs AS (
        SELECT
            process_id,
            step,
            start_ns,
            try_cast(regexp_extract(input_dims, '^\\[\\[([0-9]+)[,\\]]', 1) AS BIGINT) AS batch
        FROM host_ops
        WHERE
            name IN ('aten::conv1d', 'aten::conv2d', 'aten::conv3d', 'aten::linear', 'aten::embedding')
            OR (name = 'aten::convolution' AND parent_id IS NULL)
    ),
    firsts AS (
        SELECT process_id, step, arg_min(batch, start_ns) AS batch FROM inputs WHERE batch > 0 GROUP BY ALL
    )
    SELECT mode(batch) FROM firsts
"""


@dataclass(frozen=True)
class Run:
    """A dataset and what it is called."""

    name: str
    dataset: Dataset


def of_runs(
    runs: Sequence[Run],
    knob: str = "gpus",
    values: Sequence[float] | None = None,
    hardware: str | None = None,
    layer: str | None = None,
) -> list[Trajectory]:
    """The trajectory of jobs along a knob; with a layer glob, of each layer and phase instead.

    Args:
        knob: `gpus` (ranks of the job) or `batch` (first dimension of the first layer's input) are read from
            the traces; any other knob needs values.
        values: the knob's value of each run.

    Raises:
        UsageError: values are missing, or not one for each run.
        InputError: a knob cannot be read from a run.
    """
    knobs = _knobs(runs, knob, values)
    if layer is None:
        points = [_job_point(r, k, hardware) for r, k in zip(runs, knobs, strict=True)]
        return [trajectory([p for p in points if p is not None], knob)]
    found: dict[str, list[Point]] = {}
    for one, value in zip(runs, knobs, strict=True):
        for of, point in _layer_points(one, value, hardware, layer).items():
            found.setdefault(of, []).append(point)
    return [trajectory(points, knob, of) for of, points in found.items()]


def of_steps(
    one: Run,
    ranks: tuple[int, ...] | None = None,
    steps: tuple[int, ...] | None = None,
    hardware: str | None = None,
    layer: str | None = None,
) -> list[Trajectory]:
    """The trajectory of a run's steps; with a layer glob, of each layer and phase instead.

    The knob is the number of the step. Work outside every step is no point, unless no steps are known.
    """
    if layer is None:
        rows = run(
            one.dataset, "trajectory", Filters(ranks=ranks, steps=steps), hardware=hardware
        ).table.to_pylist()
        points = [_point(*_moment(r["step"]), r, r["ranks"]) for r in _in_steps(rows)]
        return [trajectory(points, "step", in_time=True)]
    rows = run(
        one.dataset,
        "roofline_layer_steps",
        Filters(ranks=ranks, steps=steps, layer=layer),
        hardware=hardware,
    ).table.to_pylist()
    grouped = _grouped(_in_steps(rows), lambda r: (_of(r), r["step"]))
    found: dict[str, list[Point]] = {}
    for (of, step), some in sorted(grouped.items()):
        found.setdefault(of, []).append(_summed(*_moment(step), some))
    return [trajectory(points, "step", of, in_time=True) for of, points in found.items()]


def _in_steps(found: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    return [row for row in found if row["step"] is not None] or found


def _moment(step: int | None) -> tuple[str, float]:
    return ("no steps", 0.0) if step is None else (f"step {step}", float(step))


def rows(found: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """One row for each point, with the segment that leads to it."""
    return [row for each in found for row in _rows(each)]


def _rows(one: Trajectory) -> list[dict[str, Any]]:
    leading = {s.end: s for s in one.segments}
    table = []
    for i, point in enumerate(one.points):
        segment = leading.get(i)
        table.append({
            "of": one.of,
            "point": point.label,
            "knob": one.knob,
            "value": point.knob,
            "devices": point.devices,
            "flops_per_s": point.flops_per_s,
            "intensity_memory": point.intensity,
            "intensity_communication": point.intensity_communication,
            "bytes_per_s": point.bytes_per_s,
            "peak_flops_per_s": point.peak_flops_per_s,
            "memory_bytes_per_s": point.memory_bytes_per_s,
            "bus_bytes_per_s": point.bus_bytes_per_s,
            "e_performance": segment.e_performance if segment else None,
            "e_intensity": segment.e_intensity if segment else None,
            "e_bandwidth": segment.e_bandwidth if segment else None,
            "e_communication": segment.e_communication if segment else None,
            "reading": segment.reading if segment else None,
        })  # fmt: skip
    return table


def _knobs(runs: Sequence[Run], knob: str, values: Sequence[float] | None) -> list[float]:
    if values is not None:
        if len(values) != len(runs):
            raise UsageError(f"{len(values)} values for {len(runs)} datasets", "give one for each, in order")
        if any(v <= 0 for v in values):
            raise UsageError("a knob's values are positive numbers")
        return list(values)
    readers: dict[str, Callable[[Dataset], float | None]] = {"gpus": _gpus, "batch": _batch}
    if knob not in readers:
        raise UsageError(
            f"{knob}: traces do not tell this knob", f"give its values: --knob {knob} --values 1,2,4"
        )
    found = [readers[knob](r.dataset) for r in runs]
    for one, value in zip(runs, found, strict=True):
        if not value:
            raise InputError(f"{one.name}: does not tell its {knob}", "give the values with --values")
    return [float(v) for v in found if v]


def _gpus(dataset: Dataset) -> float | None:
    row = connect(dataset).execute(
        "SELECT greatest(max(world_size), count(DISTINCT coalesce(rank, process_id))) FROM processes"
    )
    return _first(row)


def _batch(dataset: Dataset) -> float | None:
    return _first(connect(dataset).execute(_BATCH))


def _first(answer: duckdb.DuckDBPyConnection) -> float | None:
    row = answer.fetchone()
    return None if row is None or row[0] is None else float(row[0])


def _job_point(one: Run, knob: float, hardware: str | None) -> Point | None:
    found = run(one.dataset, "job_roofline", hardware=hardware).table.to_pylist()
    if not found:
        return None
    row = found[0]
    return _point(
        one.name, knob, {**row, "flops_per_s": row["achieved_flops_per_s"]}, int(_gpus(one.dataset) or 1)
    )


def _point(label: str, knob: float, row: Mapping[str, Any], devices: int) -> Point:
    return Point(
        label,
        knob,
        row["flops_per_s"],
        row["intensity_memory"],
        row["intensity_communication"],
        devices,
        row["peak_flops_per_s"],
        row["memory_bytes_per_s"],
        row["bus_bytes_per_s"],
    )


def _layer_points(one: Run, knob: float, hardware: str | None, layer: str) -> dict[str, Point]:
    found = run(one.dataset, "layer_roofline", Filters(layer=layer), hardware=hardware).table.to_pylist()
    return {of: _summed(one.name, knob, some) for of, some in _grouped(found, _of).items()}


def _of(row: Mapping[str, Any]) -> str:
    return f"{row['layer'] or '(no layer)'} {row['phase'] or ''}".strip()


def _grouped(found: Sequence[dict[str, Any]], key: Callable[[dict[str, Any]], Any]) -> dict[Any, Any]:
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(key(row), []).append(row)
    return groups


def _summed(label: str, knob: float, some: Sequence[Mapping[str, Any]]) -> Point:
    """A layer's point over all ranks: per device."""
    flops, memory, wire, time_ns = (
        sum(r[k] for r in some if r[k] is not None) for k in ("flops", "bytes", "wire_bytes", "device_ns")
    )
    return Point(
        label,
        knob,
        flops / time_ns * 1e9 if flops and time_ns else None,
        flops / memory if flops and memory else None,
        flops / wire if flops and wire else None,
        len({r["process_id"] for r in some}),
    )
