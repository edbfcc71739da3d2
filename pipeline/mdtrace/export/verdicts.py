"""Verdicts as tracks: steps and what they spent their time on, layers and what bounds them, waits."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from mdtrace.export.source import Capture, Source
from mdtrace.export.tracks import Tracks
from mdtrace.export.writer import Category, Writer
from mdtrace.metrics.catalog import metrics
from mdtrace.metrics.engine import run
from mdtrace.metrics.filters import Filters

_STEPS, _LAYERS, _WAITS = 1, 2, 3  # places of the tracks

_STEP = """
    SELECT step, name, {start} AS start_ns, {end} AS end_ns FROM steps WHERE {wanted}
    ORDER BY start_ns, end_ns DESC NULLS LAST, step
"""
_LAYERED = """
    SELECT device_id, {start} AS start_ns, {end} AS end_ns, path, phase
    FROM device_ops LEFT JOIN layers ON device_ops.layer_id = layers.layer_id
    WHERE class = 'compute' AND dur_ns IS NOT NULL AND {wanted}
    ORDER BY device_id NULLS LAST, start_ns, device_op_id
"""
_SHARES = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")


class Verdicts:
    """What the metrics say of each capture; they are asked once, for all captures."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._accounts = self._by_process("step_breakdown")
        self._steps = self._by_process("roofline_steps")
        self._layers = self._by_process("layer_roofline")
        self._waits = self._by_process("arrival_skew")

    def write(self, capture: Capture, writer: Writer, tracks: Tracks, pid: int) -> None:
        """The verdict tracks of one capture."""
        _Tracked(self._source, capture, writer, tracks, pid).steps(self._step_args(capture.process_id))
        bounds = {(r["layer"], r["phase"]): r for r in self._layers[capture.process_id]}
        _Tracked(self._source, capture, writer, tracks, pid).layers(bounds)
        _Tracked(self._source, capture, writer, tracks, pid).waits(self._waits[capture.process_id])

    def _by_process(self, name: str) -> Mapping[int, list[dict[str, Any]]]:
        can, asked = metrics()[name].filters, self._source.filters
        filters = Filters(
            ranks=asked.ranks if "rank" in can else None, steps=asked.steps if "step" in can else None
        )
        found: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in run(self._source.dataset, name, filters).arrow().to_pylist():
            found[row["process_id"]].append(row)
        return found

    def _step_args(self, process_id: int) -> Mapping[int, dict[str, Any]]:
        """By step: the accounts of the process's devices, summed, and what bounds it."""
        args: dict[int, dict[str, Any]] = defaultdict(dict)
        for row in self._accounts[process_id]:
            own = args[row["step"]]
            own["steady"] = row["steady"]
            for share in _SHARES:
                if row[share] is not None:
                    own[share] = own.get(share, 0) + row[share]
        for row in self._steps[process_id]:
            args[row["step"]] |= {"bound": row["bound"], "efficiency": row["efficiency"], "mfu": row["mfu"]}
        return args


class _Tracked:
    """Writes verdicts of one capture to its tracks."""

    def __init__(self, source: Source, capture: Capture, writer: Writer, tracks: Tracks, pid: int) -> None:
        self._source, self._capture, self._writer, self._tracks = source, capture, writer, tracks
        self._pid = pid

    def steps(self, args: Mapping[int, dict[str, Any]]) -> None:
        """The host's steps; in their arguments what the step's window on the devices holds."""
        query = _STEP.format(
            start=self._capture.aligned("start_ns"),
            end=self._capture.aligned("end_ns"),
            wanted=self._source.wanted(self._capture, "start_ns"),
        )
        for step, name, start, end in self._source.rows(self._capture, query, "steps"):
            known = args.get(step, {})
            bound = known.get("bound")
            title = f"step {step}" + (f": {bound}" if bound else "")
            self._put("step", "steps", _STEPS, title, start, end, {"marker": name, **known})

    def layers(self, bounds: Mapping[tuple[str | None, str | None], dict[str, Any]]) -> None:
        """Runs of kernels of one layer and phase, and what bounds the layer over the steps that count."""
        for device, start, end, path, phase in _runs(self._layered()):
            known = bounds.get((path, phase), {})
            bound = known.get("bound")
            title = path + (f" ({phase})" if phase else "") + (f": {bound}" if bound else "")
            args = {"layer": path, "phase": phase, "bound": bound, "efficiency": known.get("efficiency")}
            track = "layers" if device is None else f"layers, device {device}"
            self._put("layer", track, _LAYERS, title, start, end, args)

    def _layered(self) -> Iterator[tuple[Any, ...]]:
        query = _LAYERED.format(
            start=self._capture.aligned("device_ops.start_ns"),
            end=self._capture.aligned("ended(device_ops.start_ns, dur_ns)"),
            wanted=self._source.wanted(self._capture, "device_ops.start_ns"),
        )
        return self._source.rows(self._capture, query, "device_ops", "layers")

    def waits(self, rows: list[dict[str, Any]]) -> None:
        """From this rank's arrival at a collective to the last rank's, by the aligned clocks."""
        between = self._capture.between
        for row in sorted(rows, key=lambda r: (r["arrival_ns"], -r["wait_ns"])):
            start = row["arrival_ns"] - self._capture.zero
            low, high = (None, None) if between is None else map(self._capture.at, between)
            outside = low is not None and high is not None and not low <= start < high
            if row["wait_ns"] <= 0 or outside:
                continue
            sure = bool(row["significant"]) and row["last_rank"] is not None
            title = f"waits for rank {row['last_rank']}" if sure else "waits, for whom is within the error"
            args = {
                "collective": row["kind"], "group": row["group_name"], "tensor": row["tensor"],
                "step": row["step"], "lead_ns": row["lead_ns"], "error_ns": row["error_ns"],
                "instance": str(row["instance_id"]),
            }  # fmt: skip
            track = "waits" if row["rank"] == self._capture.rank else f"waits of rank {row['rank']}"
            self._put("wait", track, _WAITS, title, start, start + row["wait_ns"], args)

    def _put(
        self,
        category: Category,
        track: str,
        place: int,
        title: str,
        start: int,
        end: int | None,
        args: Mapping[str, Any],
    ) -> None:
        if end is None:
            tid = self._tracks.tid(track, track, place)
            self._writer.mark(category, self._pid, tid, title, start, {**args, "end": "never closed"})
            return
        end = max(start, end)
        lane = self._tracks.lane(track, start, end)
        tid = self._tracks.tid(track, track, place, lane or 0)
        if lane is None:
            number = self._writer.written[category]
            self._writer.crossing(category, self._pid, tid, title, start, end, args, number)
        else:
            self._writer.slice(category, self._pid, tid, title, start, end, args)


def _runs(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, int, int, str, str | None]]:
    """Kernels in order of start → stretches of one layer and phase, cut where the next begins."""
    held: tuple[Any, int, int, str | None, str | None] | None = None
    for device, start, end, path, phase in rows:
        if held is not None and (held[0], held[3], held[4]) == (device, path, phase):
            held = (device, held[1], max(held[2], end), path, phase)
            continue
        if held is not None and held[3] is not None:
            until = min(held[2], start) if held[0] == device else held[2]
            yield held[0], held[1], until, held[3], held[4]
        held = (device, start, end, path, phase)
    if held is not None and held[3] is not None:
        yield held[0], held[1], held[2], held[3], held[4]
