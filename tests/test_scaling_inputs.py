"""Gradients read from hand-written rows: which all-reduces carry them, when they are ready."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdtrace.errors import InputError
from mdtrace.metrics.engine import run
from mdtrace.models.gradients import Messages, gradients
from mdtrace.models.scaling_links import busy
from mdtrace.tables.dataset import Dataset
from rows import dataset

NODE = "torch::autograd::AccumulateGrad"


def _job(folder: Path, parts: int = 1, **collective: Any) -> Dataset:
    """Two ranks on the host's clock, three steps of 1000 ns; gradients of 10, 30 and 60 numbers are made at
    300, 400 and 500 (rank 1: 50 later), sent in buckets of 40 and 60 at 420 and 520, which take 100 each.

    Args:
        parts: of the batch, one after the other.
    """
    steps, nodes, sent = [], [], []
    for p in (0, 1):
        for s in range(3):
            at, late = 10_000 + 1000 * s, 50 * p
            steps.append({"process_id": p, "step": s, "start_ns": at, "end_ns": at + 1000})
            nodes += [
                {
                    "process_id": p, "kind": "operator", "name": NODE, "step": s, "thread_id": 2,
                    "input_dims": dims, "start_ns": at + late + made - 5, "dur_ns": 5,
                }
                for part in reversed(range(parts))
                for dims, ready in (("[[10]]", 300), ("[[5, 6]]", 400), ("[[3,4,5]]", 500))
                for made in [ready if part == 0 else ready // 10 + 90 * (parts - part)]
            ]  # fmt: skip
            sent += [
                {
                    "process_id": p, "step": s, "kind": "all_reduce", "evidence": "host record",
                    "start_ns": at + start, "end_ns": at + 620 + 100 * k, "group_name": "0",
                    "group_size": 2, "elements_in": count, "payload_bytes": 4 * count, **collective,
                }
                for k, (count, start) in enumerate([(40, 420 + late), (60, 520 + late), (1, 900)])
            ]  # fmt: skip
    processes = [{"process_id": p, "world_size": 2} for p in (0, 1)]
    return dataset(folder, steps=steps, host_ops=nodes, collectives=sent, processes=processes)


def test_gradients_of_hand_written_steps(tmp_path: Path) -> None:
    found = gradients(_job(tmp_path))
    assert found.names == ("0 [10]", "1 [5, 6]", "2 [3,4,5]")
    assert found.sizes.tolist() == [40, 120, 240]
    assert (found.world, found.members, found.origin) == (2, 2, "host")
    assert found.steps.tolist() == [1, 2]
    # The exchange of the step before ended at 720 of it: 280 before this step.
    assert found.ready[0].tolist() == [[580, 680, 780], [630, 730, 830]]
    assert found.period.tolist() == [[1000, 1000], [1000, 1000]]
    assert found.buckets is not None
    assert found.buckets.tolist() == [2, 3]


def test_parts_of_a_batch_are_sent_after_the_last(tmp_path: Path) -> None:
    found = gradients(_job(tmp_path, parts=3))
    assert found.sizes.tolist() == [40, 120, 240]
    assert found.ready[0][0].tolist() == [580, 680, 780]


def test_bytes_are_those_on_the_wire(tmp_path: Path) -> None:
    """Gradients compressed to two bytes: what travels counts."""
    job = _job(tmp_path / "a")
    rows = job.table("collectives").to_pylist()
    for row in rows:
        row["payload_bytes"] = 2 * row["elements_in"]
    keep = [{k: v for k, v in r.items() if k not in ("collective_id", "rank")} for r in rows]
    nodes = [
        {k: v for k, v in r.items() if k not in ("host_op_id", "rank")}
        for r in job.table("host_ops").to_pylist()
    ]
    steps = [{k: v for k, v in r.items() if k != "rank"} for r in job.table("steps").to_pylist()]
    found = gradients(dataset(tmp_path / "b", collectives=keep, host_ops=nodes, steps=steps))
    assert found.sizes.tolist() == [20, 60, 120]


@pytest.mark.parametrize(
    "collective",
    [
        {"payload_bytes": None},
        {"elements_in": 7},
        {"elements_in": None},
        {"end_ns": None},
        {"elements_in": 0},
    ],
)
def test_all_reduces_that_are_not_told_to_carry_gradients(collective: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="carry gradients"):
        gradients(_job(tmp_path, **collective))


def test_no_all_reduce_in_a_step(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no all-reduce lies in a training step"):
        gradients(_job(tmp_path, step=None))


def test_sharded_gradients_are_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sharded"):
        gradients(_job(tmp_path, kind="reduce_scatter"))


def _device_job(folder: Path, **node: Any) -> Dataset:
    """One rank with a device: at each of two steps two kernels, launched before their gradients' nodes."""
    made: dict[str, list[dict[str, Any]]] = {"steps": [], "launches": [], "device_ops": [], "host_ops": []}
    sent = []
    for s in range(2):
        at = 1000 * s
        made["steps"].append({"step": s, "start_ns": at, "end_ns": at + 1000})
        for k in range(2):
            launch, start = 3 * s + k, at + 10 * k
            made["launches"].append({"start_ns": start, "thread_id": 9})
            made["device_ops"].append(
                {"launch_id": launch, "start_ns": at + 300 + 200 * k, "dur_ns": 150, "step": s}
            )
            made["host_ops"].append(
                {"kind": "operator", "name": NODE, "step": s, "thread_id": 9, "start_ns": start + 2}
                | {"dur_ns": 1, "input_dims": "[[8]]", "phase": "backward"} | node
            )  # fmt: skip
        made["launches"].append({"start_ns": at + 15, "thread_id": 9})
        made["device_ops"].append(
            {"launch_id": 3 * s + 2, "start_ns": at + 660, "dur_ns": 90, "step": s, "class": "communication"}
            | {"phase": "backward"}
        )
        sent.append(
            {"kind": "all_reduce", "evidence": "kernel", "step": s, "start_ns": at + 660, "end_ns": at + 750}
            | {"elements_in": 16, "payload_bytes": 64, "group_size": 4, "device_op_id": 3 * s + 2}
        )
    return dataset(folder, collectives=sent, **made)


def test_on_a_device_a_gradient_is_ready_when_what_was_launched_before_has_run(tmp_path: Path) -> None:
    job = _device_job(tmp_path)
    rows = run(job, "gradient_ready").table.to_pylist()
    assert [(r["step"], r["elements"], r["ready_ns"], r["origin"]) for r in rows] == [
        (0, 8, 450, "device"), (0, 8, 650, "device"), (1, 8, 1450, "device"), (1, 8, 1650, "device"),
    ]  # fmt: skip
    found = gradients(job)
    assert found.ready.tolist() == [[[700, 900]]]  # after 750
    assert (found.members, found.sizes.tolist()) == (4, [32, 32])


def test_without_shapes_buckets_are_all_that_is_known(tmp_path: Path) -> None:
    found = gradients(_device_job(tmp_path, input_dims=None))
    assert (found.origin, found.names, found.sizes.tolist()) == ("buckets", ("bucket 0",), [64])
    assert found.ready.tolist() == [[[900]]]  # the compute before it had run by 650 of its step


def test_messages_that_share_the_link_count_once() -> None:
    messages = Messages(
        np.array([10.0, 20, 5]), np.array([100, 0, 300]), np.array([250, 120, 310]), np.array([1, 1, 2]), True
    )
    counts, sizes, times = busy(messages)
    assert (counts.tolist(), sizes.tolist(), times.tolist()) == ([2, 1], [30, 5], [250, 10])
    assert busy(messages, np.array([2]))[1].tolist() == [5]
    assert busy(messages, np.array([7]))[1].tolist() == []
