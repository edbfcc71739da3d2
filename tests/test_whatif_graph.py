"""The graph of a dataset: what waits for what, from rows solved by hand; datasets without an answer."""

from pathlib import Path

import polars as pl
import pytest

from matched_rows import matched
from mdtrace.errors import InputError
from mdtrace.models.graph import dataset_job, meetings
from mdtrace.models.graph_clocks import timeline_offsets
from mdtrace.models.whatif import Edit, ReplayError, WhatIf


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ({}, InputError, "no events to replay"),
        ({"processes": [{"process_id": 0, "start_ns": 0}]}, InputError, "no operation lies in a step"),
        (
            {
                "processes": [{"process_id": 0, "start_ns": 0}],
                "steps": [{"process_id": 0, "step": 1, "end_ns": 9}],
                "device_ops": [{"process_id": 0, "end_ns": 5, "class": "compute"}],
            },
            InputError,
            "no operation lies in a step",
        ),
        (
            {"processes": [{"process_id": 0, "start_ns": 0}], "device_ops": [{"process_id": 0, "dur_ns": 0}]},
            ReplayError,
            "take no time",
        ),
        (
            {"processes": [{"start_ns": 0, "process_id": p, "rank": None} for p in (0, 1)]},
            InputError,
            "the ranks of 2 captures are unknown",
        ),
    ],
)
def test_datasets_without_an_answer(tmp_path: Path, rows, error, words):
    with pytest.raises(error, match=words):
        WhatIf(dataset_job(matched(tmp_path / "d.mdtrace", **rows)))


def test_ranks_that_share_nothing_are_refused(tmp_path: Path):
    rows = {
        "processes": [{"process_id": p, "start_ns": 0, "host": f"node{p}"} for p in (0, 1)],
        "device_ops": [{"process_id": p, "dur_ns": 5} for p in (0, 1)],
    }
    with pytest.raises(InputError, match="share no matched collective"):
        dataset_job(matched(tmp_path / "d.mdtrace", **rows))


def test_streams_launches_and_waits_by_hand(tmp_path: Path):
    """Two kernels on stream 7, one on 20 that waits for the first alone; the host waits for that one."""
    at = {"process_id": 0, "step": 0}
    calls = [
        {
            **at,
            "name": "cudaLaunchKernel",
            "start_ns": 0,
            "dur_ns": 5,
            "device_op_count": 1,
            "correlation": 1,
        },
        {**at, "name": "cudaEventRecord", "start_ns": 6, "dur_ns": 1, "correlation": 2},
        {
            **at,
            "name": "cudaLaunchKernel",
            "start_ns": 10,
            "dur_ns": 5,
            "device_op_count": 1,
            "correlation": 3,
        },
        {**at, "name": "cudaStreamWaitEvent", "start_ns": 16, "dur_ns": 1, "correlation": 4},
        {
            **at,
            "name": "cudaLaunchKernel",
            "start_ns": 20,
            "dur_ns": 5,
            "device_op_count": 1,
            "correlation": 5,
        },
        {**at, "name": "cudaStreamSynchronize", "start_ns": 30, "dur_ns": 1_000_000, "correlation": 6},
    ]
    kernels = [
        {**at, "start_ns": 8, "dur_ns": 500_000, "launch_id": 0, "name": "a"},
        {**at, "start_ns": 500_008, "dur_ns": 900_000, "launch_id": 2, "name": "b"},
        {**at, "start_ns": 500_008, "dur_ns": 500_000, "launch_id": 4, "stream_id": 20, "name": "c"},
        {
            **at, "start_ns": 16, "dur_ns": 1, "launch_id": 3, "stream_id": 20, "kind": "sync",
            "class": "sync", "wait_stream_id": 7, "wait_correlation": 2,
        },
    ]  # fmt: skip
    for row in kernels[:3]:
        row["class"] = "compute"
    steps = [{"process_id": 0, "step": 0, "start_ns": 0, "end_ns": 2_000_000}]
    opened = matched(
        tmp_path / "d",
        launches=calls,
        device_ops=kernels,
        steps=steps,
        processes=[{"process_id": 0, "start_ns": 0}],
    )
    found = dataset_job(opened)
    # a 8 … 500 008; b until 1 400 008; c until 1 000 008, which the host sees at 1 000 030.
    assert found.measured_ns.tolist() == [1_400_008]
    assert found.step_times(found.recorded).tolist() == [1_400_008]
    faster = found.recorded.copy()
    faster[found.recorded == 900_000] = 0  # b: what is left is c, and the rest of the call behind it
    assert found.step_times(faster).tolist() == [1_000_030]
    faster[found.recorded == 500_000] = (
        0  # a and c as well: launches, 8 ns from call to kernel, the call's rest
    )
    assert found.step_times(faster).tolist() == [30 + 22]


def test_timelines_side_by_side_through_a_third():
    rows = [(0, 1, 10.0), (1, 1, 110.0), (1, 2, 200.0), (2, 2, 50.0), (2, 3, 60.0), (3, 9, 1.0)]
    ends = pl.DataFrame(rows, ["timeline", "instance_id", "end"], orient="row")
    assert timeline_offsets(ends) == {0: 0.0, 1: 100.0, 2: -50.0}


def test_who_meets_whom():
    rows = [
        # instance, worker, start, end, synchronising, point to point
        (1, 0, 0.0, 10.0, True, False), (1, 1, 4.0, 10.0, True, False),
        (2, 0, 20.0, 22.0, False, False), (2, 1, 25.0, 26.0, False, False),  # a root that left early
        (3, 0, 30.0, 40.0, False, False), (3, 1, 32.0, 40.0, False, False),
        (4, 0, 50.0, 52.0, False, True), (4, 1, 53.0, 54.0, False, True),
        (5, 0, 60.0, 61.0, True, False), (None, 1, 70.0, 71.0, None, None),
    ]  # fmt: skip
    names = ["instance_id", "worker", "start", "end", "synchronising", "point_to_point"]
    frame = pl.DataFrame(rows, names, orient="row").with_columns(group_size=pl.lit(2))
    found, notes = meetings(frame)
    assert found["met"].to_list() == [4, 4, None, None, 32, 32, 53, 53, None, None]
    assert found["meeting"].to_list() == [1, 1, None, None, 3, 3, 4, 4, None, None]
    assert notes == ["4 of 10 collectives not joined across ranks: waiting counts as transfer"]


MS = 1_000_000


def test_a_rank_on_the_cpu_waits_where_nothing_runs(tmp_path: Path):
    """Forward until 10 and 25 ms; reduced 25…30 on another thread; 1 ms later the optimizer, 1 and 2 ms."""
    host_ops, records = [], []
    for rank, forward, optimizer in ((0, 10, 1), (1, 25, 2)):
        at = {"process_id": rank, "step": 0}
        spans = [
            (0, forward, "aten::conv2d"),
            (31, 31 + optimizer, "aten::add_"),
            (forward, 30, "gloo:all_reduce"),
        ]
        for thread, (begin, end, name) in zip((1, 1, 2), spans, strict=True):
            row = {**at, "start_ns": begin * MS, "end_ns": end * MS, "name": name, "thread_id": thread}
            host_ops.append({**row, "form": "nested", "kind": "operator" if thread == 1 else "annotation"})
        records.append(
            {
                **at,
                "start_ns": forward * MS,
                "end_ns": 30 * MS,
                "kind": "all_reduce",
                "group_name": "0",
                "seq": 1,
            }
            | {
                "group_ranks": [0, 1],
                "group_size": 2,
                "evidence": "host record",
                "host_op_id": (rank << 40) + 2,
            }
        )
    steps = [{"process_id": r, "step": 0, "start_ns": 0, "end_ns": 33 * MS} for r in (0, 1)]
    processes = [{"process_id": r, "start_ns": 0, "host": "a"} for r in (0, 1)]
    rows = {"host_ops": host_ops, "collectives": records, "steps": steps, "processes": processes}
    found = dataset_job(matched(tmp_path / "d", **rows))
    assert found.step_times(found.recorded).tolist() == found.measured_ns.tolist() == [33 * MS]
    names = [t.name for t in found.types]
    assert names == ["compute", "host", "all_reduce"]
    whatif = WhatIf(found)
    assert whatif.answer(Edit(ranks=(1,), reference="others")).after_ns == (10 + 5 + 1 + 1) * MS
    assert whatif.answer(Edit(network=5)).after_ns == (25 + 1 + 1 + 2) * MS


def test_ticks_of_a_timeline(tmp_path: Path):
    """Step 1, from 100 ms: gradients ready at 110 and 120, then 115 and 150; then a check of the result."""
    done = [  # step, start, end, tensor, ready on rank 0, on rank 1
        (0, 90, 100, "a", 10, 20), (0, 90, 100, "b", 10, 20), (0, 95, 100, "check", 95, 95),
        (1, 120, 124, "a", 110, 120), (1, 150, 156, "b", 115, 150), (1, 160, 162, "check", 158, 160),
    ]  # fmt: skip
    collectives = [
        {
            "process_id": 0,
            "step": s,
            "start_ns": a * MS,
            "end_ns": e * MS,
            "tensors": [t],
            "evidence": "timeline",
        }
        | {"kind": "all_reduce"}
        for s, a, e, t, *_ in done
    ]
    arrivals = [
        {"process_id": 0, "collective_id": i, "tensor": row[3], "rank": r, "ready_ns": row[4 + r] * MS}
        for i, row in enumerate(done)
        for r in (0, 1)
    ]
    sources = [{"source_id": 0, "format": "horovod"}]
    given = {"collectives": collectives, "arrivals": arrivals, "sources": sources}
    found = dataset_job(matched(tmp_path / "d", processes=[{"process_id": 0, "source_id": 0}], **given))
    assert found.steps == (1,)
    assert found.step_times(found.recorded).tolist() == found.measured_ns.tolist() == [62 * MS]
    whatif = WhatIf(found)
    # Rank 1 like rank 0: a at 10 and until 14, b at 15 and until 21, the check at 21 + 2, until 25.
    assert whatif.answer(Edit(ranks=(1,), reference="others")).after_ns == 25 * MS
