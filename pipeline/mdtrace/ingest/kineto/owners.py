"""Which of several host processes in one file each device activity belongs to.

The file does not say: a device event's pid is the device. A correlation id tells, but is unique only
within a process. So first each device is given to the process whose launches explain most of its
activity (the same correlation, and a start not before the call; then the shortest delays), then:

1. an activity whose correlation the device's process has is that process's;
2. else it is that of the process which has the correlation, of several the one that called closest to it;
3. else, launched before the capture, it is the device's process's;
4. else it is nobody's, and stands under a process of its own without a pid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mdtrace.ingest.kineto.parts import DEVICE, DEVICES, OWNED, UNOWNED
from mdtrace.ingest.stage import Stage, StagedProcess

Ints = NDArray[np.int64]

_NOBODY = -1


def assign_device_rows(folder: Path, pids: Sequence[int]) -> dict[int, int]:
    """Move the staged device activities (and their comm_records) under the keys of their processes.

    Returns:
        Rows by stage key; `UNOWNED` is the key of those that belong to no process.
    """
    staged = StagedProcess(folder, (DEVICE,))
    activity = _Activity.read(staged)
    owners = _owners(activity, [_Calls.read(StagedProcess(folder, (pid,))) for pid in pids])
    keys = np.array([*pids, UNOWNED])[owners]
    _move(folder, keys)
    names, counts = np.unique(keys, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


@dataclass(frozen=True)
class _Activity:
    device: Ints
    correlation: Ints
    start: Ints

    @staticmethod
    def read(staged: StagedProcess) -> "_Activity":
        table = staged.table("device_ops", ["device_id", "correlation", "start_ns"])
        return _Activity(*(_numbers(table.column(i)) for i in range(3)))


@dataclass(frozen=True)
class _Calls:
    """Launches of a process: correlations ascending, each with its (last) start."""

    correlation: Ints
    start: Ints

    @staticmethod
    def read(staged: StagedProcess) -> "_Calls":
        table = staged.table("launches", ["correlation", "start_ns"])
        correlation, start = _numbers(table.column(0)), _numbers(table.column(1))
        order = np.argsort(correlation, kind="stable")
        return _Calls(correlation[order], start[order])

    def delays(self, activity: _Activity) -> tuple[NDArray[np.bool_], Ints]:
        """Which activities this process launched, if the correlations are its own; and how long before."""
        if not len(self.correlation):
            return np.zeros(len(activity.start), np.bool_), np.zeros(len(activity.start), np.int64)
        at = np.searchsorted(self.correlation, activity.correlation, side="right") - 1
        mine = (activity.correlation != _NOBODY) & (self.correlation[at] == activity.correlation)
        return mine, activity.start - self.start[at]


def _numbers(column: pa.ChunkedArray) -> Ints:
    values: Ints = pc.fill_null(column.cast(pa.int64()), _NOBODY).to_numpy()
    return values


def _owners(activity: _Activity, processes: Sequence[_Calls]) -> Ints:
    """Index of each activity's process; `_NOBODY` for none."""
    devices, device = np.unique(activity.device, return_inverse=True)
    home = _homes(activity, device, len(devices), processes)[device]
    owner = np.full(len(activity.start), _NOBODY)
    closest = np.full(len(activity.start), np.iinfo(np.int64).max)
    for number, calls in enumerate(processes):
        mine, delay = calls.delays(activity)
        distance = np.where(home == number, -1, np.abs(delay))
        better = mine & (distance < closest)
        owner[better], closest[better] = number, distance[better]
    return np.where(owner == _NOBODY, home, owner)


def _homes(activity: _Activity, device: Ints, count: int, processes: Sequence[_Calls]) -> Ints:
    """The process that each device's activity mostly belongs to."""
    home = np.full(count, _NOBODY)
    most, least = np.zeros(count), np.full(count, np.inf)
    for number, calls in enumerate(processes):
        mine, delay = calls.delays(activity)
        caused = mine & (delay >= 0)
        explained = np.bincount(device, caused, count)
        waited = np.bincount(device, np.where(caused, delay, 0).astype(np.float64), count)
        better = (explained > most) | ((explained == most) & (explained > 0) & (waited < least))
        home[better], most[better], least[better] = number, explained[better], waited[better]
    return home


def _move(folder: Path, keys: Ints) -> None:
    """Write the device rows again, range by range, under the given keys."""
    seen = 0
    for path in sorted(folder.glob(f"[0-9]*/{DEVICE}-device_ops.arrow")):
        stage = Stage(folder, int(path.parent.name) - DEVICES + OWNED)
        first = seen
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                _write(stage, "device_ops", batch, keys[seen : seen + batch.num_rows])
                seen += batch.num_rows
        _move_records(stage, path.with_name(f"{DEVICE}-comm_records.arrow"), keys[first:seen])
        stage.close()
        path.unlink()


def _move_records(stage: Stage, path: Path, keys: Ints) -> None:
    """Collective arguments follow their rows, which now count among those of their process."""
    if not path.exists():
        return
    places = np.zeros(len(keys), np.int64)
    for key in np.unique(keys):
        places[keys == key] = np.arange((keys == key).sum())
    with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            index = batch.schema.get_field_index("row")
            rows = batch.column(index).to_numpy()
            moved = batch.set_column(index, batch.schema.field(index), pa.array(places[rows]))
            _write(stage, "comm_records", moved, keys[rows])
    path.unlink()


def _write(stage: Stage, table: str, batch: pa.RecordBatch, keys: Ints) -> None:
    for key in np.unique(keys).tolist():
        some = batch.filter(pa.array(keys == key))
        stage.write(key, table, dict(zip(some.schema.names, some.columns, strict=True)))
