"""The rows of a capture as trace events: host threads, launches, device streams, collectives, counters."""

from collections.abc import Mapping
from typing import Any

from mdtrace.export.source import Capture, Source
from mdtrace.export.tracks import Tracks
from mdtrace.export.writer import Category, Writer

# Places of tracks: verdicts first, then the host, collectives, devices.
COLLECTIVES, THREADS, STREAMS = 4, 5, 6

_HOST = """
    SELECT thread_id, {start} AS start_ns, {end} AS end_ns, 'host' AS category, form, name, host_op_id AS id,
           kind, domain, step, phase, layer_id, input_dims, input_types, depth
    FROM host_ops WHERE {wanted}
    UNION ALL BY NAME
    SELECT thread_id, {start} AS start_ns, {end} AS end_ns, 'launch' AS category, 'nested' AS form, name,
           launch_id AS id, api AS kind, step
    FROM launches WHERE {wanted}
    ORDER BY thread_id NULLS LAST, start_ns, end_ns DESC NULLS LAST, category, depth, id
"""
_DEVICE = """
    SELECT d.device_id, d.stream_id, d.kind = 'sync' AS sync, {start} AS start_ns, {end} AS end_ns,
           d.name, d.class, d.device_op_id, d.step, d.phase, d.layer_id, d.bytes, d.copy_kind,
           d.graph_node_id, d.launch_id, l.thread_id, {launched} AS launched_ns
    FROM device_ops AS d LEFT JOIN launches AS l ON d.launch_id = l.launch_id AND {launch_wanted}
    WHERE {wanted}
    ORDER BY d.device_id NULLS LAST, d.stream_id NULLS LAST, sync, start_ns, end_ns DESC NULLS LAST,
             d.device_op_id
"""
_COLLECTIVE = """
    SELECT {start} AS start_ns, {end} AS end_ns, kind, collective_id, name, evidence,
           coalesce(group_desc, group_name), group_size, seq, dtype, payload_bytes, peer_rank, instance_id,
           step
    FROM collectives WHERE {wanted}
    ORDER BY start_ns, end_ns DESC NULLS LAST, collective_id
"""
_COUNTER = """
    SELECT device_id, kind, name, {start} AS time_ns, value, unit, allocated_bytes, reserved_bytes
    FROM counters WHERE {wanted} AND {inside} ORDER BY time_ns, device_id, name
"""


class Rows:
    """Writes the rows of one capture."""

    def __init__(self, source: Source, capture: Capture, writer: Writer, tracks: Tracks, pid: int) -> None:
        self._source, self._capture, self._writer, self._tracks = source, capture, writer, tracks
        self._pid = pid
        self._launch_lanes: dict[int, int] = {}  # of launches beside the first lane
        self._layers = dict(source.rows(capture, "SELECT layer_id, path FROM layers", "layers"))
        self.valueless = 0  # samples without a value

    def host(self) -> None:
        """Operators, annotations, ranges, frames and API calls, on their threads."""
        query = self._query(_HOST)
        for row in self._source.rows(self._capture, query, "host_ops", "launches"):
            thread, start, end, category, form, name, number, kind, domain = row[:9]
            step, phase, layer, dims, types = row[9:14]
            args = {
                "kind": kind, "domain": domain, "step": step, "phase": phase,
                "layer": self._layers.get(layer), "input_dims": dims, "input_types": types,
            }  # fmt: skip
            key = ("thread", thread)
            track = (key, "no thread" if thread is None else f"thread {thread}", THREADS)
            lane = self._lasting(category, track, name, start, end, args, number, crosses=form == "async")
            if category == "launch" and lane:
                self._launch_lanes[number] = lane

    def device(self) -> None:
        """Device activity on its streams, with arrows from the calls that launched it."""
        query = self._query(
            _DEVICE,
            prefix="d.",
            launched=self._capture.aligned("l.start_ns"),
            launch_wanted=self._source.wanted(self._capture, "l.start_ns", "l.step"),
        )
        for row in self._source.rows(self._capture, query, "device_ops", "launches"):
            device, stream, sync, start, end, name, of_class, number, step, phase, layer = row[:11]
            copied, direction, node, launch, thread, launched = row[11:]
            args = {
                "class": of_class, "step": step, "phase": phase, "layer": self._layers.get(layer),
                "bytes": copied, "copy": direction, "graph_node": None if node is None else str(node),
            }  # fmt: skip
            key = ("stream", device, stream, sync)
            where = f"device {_known(device)} stream {_known(stream)}{' sync' if sync else ''}"
            lane = self._lasting("device", (key, where, STREAMS), name, start, end, args, number)
            if launched is not None and lane is not None:
                caller = self._tracks.tid(
                    ("thread", thread),
                    "no thread" if thread is None else f"thread {thread}",
                    THREADS,
                    self._launch_lanes.get(launch, 0),
                )
                target = self._tracks.tid(key, where, STREAMS, lane)
                self._writer.flow(number, (self._pid, caller, launched), (self._pid, target, start))

    def collectives(self) -> None:
        """Collectives on a track of their own, whatever stands for them."""
        query = self._query(_COLLECTIVE, end="end_ns")
        for row in self._source.rows(self._capture, query, "collectives"):
            start, end, kind, number, name, evidence, group, size = row[:8]
            seq, dtype, payload, peer, instance, step = row[8:]
            args = {
                "name": name, "evidence": evidence, "group": group, "group_size": size, "dtype": dtype,
                "seq": None if seq is None else str(seq), "payload_bytes": payload, "peer_rank": peer,
                "instance": None if instance is None else str(instance), "step": step,
            }  # fmt: skip
            self._lasting(
                "collective", (("collectives",), "collectives", COLLECTIVES), kind, start, end, args, number
            )

    def counters(self) -> None:
        """Memory and sampled metrics."""
        query = self._query(_COUNTER, at="time_ns", step=None, inside=self._source.inside_steps("time_ns"))
        for row in self._source.rows(self._capture, query, "counters", "steps"):
            device, kind, name, at, value, unit, allocated, reserved = row
            where = "host" if device is None else f"device {device}"
            if kind == "memory":
                title, values = f"memory, {where} (byte)", {"allocated": allocated, "reserved": reserved}
            else:
                title, values = f"{name}, {where}{f' ({unit})' if unit else ''}", {"value": value}
            known = {k: v for k, v in values.items() if v is not None and abs(v) < float("inf")}
            if known:
                self._writer.counter(self._pid, title, at, known)
            else:
                self.valueless += 1

    def _query(
        self,
        text: str,
        *,
        prefix: str = "",
        at: str = "start_ns",
        end: str | None = None,
        step: str | None = "step",
        **more: str,
    ) -> str:
        """A query with times on the reference clock and the conditions of the filters."""
        end = end or f"ended({prefix}start_ns, {prefix}dur_ns)"
        return text.format(
            start=self._capture.aligned(prefix + at),
            end=self._capture.aligned(end),
            wanted=self._source.wanted(self._capture, prefix + at, step and prefix + step),
            **more,
        )

    def _lasting(
        self,
        category: Category,
        track: tuple[tuple[Any, ...], str, int],
        name: str | None,
        start: int,
        end: int | None,
        args: Mapping[str, Any],
        number: int,
        *,
        crosses: bool = False,
    ) -> int | None:
        """A slice in the first lane of its track where it nests; returns the lane, None: it is no slice."""
        shown = "(no name)" if name is None else name
        if end is None:
            tid = self._tracks.tid(*track)
            self._writer.mark(category, self._pid, tid, shown, start, {**args, "end": "never closed"})
            return None
        end = max(start, end)
        lane = None if crosses else self._tracks.lane(track[0], start, end)
        tid = self._tracks.tid(*track, lane or 0)
        if lane is None:
            self._writer.crossing(category, self._pid, tid, shown, start, end, args, number)
        else:
            self._writer.slice(category, self._pid, tid, shown, start, end, args)
        return lane


def _known(value: int | None) -> str:
    return "unknown" if value is None else str(value)
