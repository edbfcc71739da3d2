"""Calls to operators, device activities to calls."""

from pathlib import Path

import numpy as np

from link_stage import codes, column, link, link_file, rows
from shared import shared


def test_innermost_operator_around_the_call_on_its_thread(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "ProfilerStep#3", "kind": "annotation", "start_ns": 0, "end_ns": 100},
            {"name": "aten::linear", "start_ns": 10, "end_ns": 50},
            {"name": "aten::addmm", "start_ns": 20, "end_ns": 40},
            {"name": "frame", "kind": "python", "start_ns": 22, "end_ns": 38},
            {"name": "aten::mm", "thread_id": 2, "start_ns": 20, "end_ns": 40},
        ],
        launches=[
            {"start_ns": 25, "end_ns": 30},  # in the frame in addmm
            {"start_ns": 35, "end_ns": 45},  # runs past addmm
            {"start_ns": 60, "end_ns": 70},  # in the annotation alone
            {"start_ns": 150, "end_ns": 160},
            {"start_ns": 25, "end_ns": 30, "thread_id": 2},
            {"start_ns": 25, "end_ns": 30, "thread_id": 3},
            {"start_ns": 25, "end_ns": 30, "thread_id": None},
        ],
    )
    assert column(linked, "launches", "host_op_id") == [2, 1, 0, None, 4, None, None]
    assert column(linked, "launches", "step") == [3, 3, 3, None, 3, 3, 3]


def test_nvtx_range_around_the_call(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "layer1", "kind": "nvtx", "start_ns": 0, "end_ns": 100},
            {"name": "overhead", "kind": "overhead", "start_ns": 5, "end_ns": 50},
        ],
        launches=[{"start_ns": 10, "end_ns": 20}],
    )
    assert column(linked, "launches", "host_op_id") == [0]


def test_external_id_where_the_thread_shows_no_operator(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "aten::mm", "external_id": 3, "start_ns": 10, "end_ns": 50},
            {"name": "aten::add", "external_id": 4, "start_ns": 60, "end_ns": 70},
        ],
        launches=[
            {"thread_id": -9, "external_id": 3, "start_ns": 20, "end_ns": 25},
            {"thread_id": -9, "external_id": 4, "start_ns": 20, "end_ns": 25},  # does not run then
            {"thread_id": 1, "external_id": 4, "start_ns": 20, "end_ns": 25},  # times decide, and are told of
        ],
    )
    assert column(linked, "launches", "host_op_id") == [0, None, 0]
    assert codes(linked)["launch_operator_mismatch"] == 1


def test_correlation_within_the_process(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[{"name": "aten::mm", "start_ns": 0, "end_ns": 100}],
        launches=[
            {"start_ns": 10, "end_ns": 20, "correlation": 7},
            {"start_ns": 30, "end_ns": 40, "correlation": 8},
        ],
        device_ops=[
            {"start_ns": 50, "end_ns": 60, "correlation": 8},
            {"start_ns": 60, "end_ns": 70, "correlation": 9},
            {"start_ns": 70, "end_ns": 80},
            {"start_ns": 50, "end_ns": 60, "correlation": 8, "duplicate": True},
        ],
    )
    assert column(linked, "device_ops", "launch_id") == [1, None, None, 1]
    assert column(linked, "device_ops", "host_op_id") == [0, None, None, 0]
    assert column(linked, "launches", "device_op_count") == [0, 1]
    found = codes(linked)
    assert (found["device_op_without_launch"], found["launch_without_kernel"]) == (2, 1)


def test_the_call_that_works_of_several_with_one_correlation(tmp_path: Path) -> None:
    calls = [
        {"name": "cudaStreamIsCapturing", "start_ns": 0, "end_ns": 100},
        {"name": "cuLaunchKernel", "api": "driver", "start_ns": 20, "end_ns": 30},
        {"name": "cudaLaunchKernel", "start_ns": 10, "end_ns": 40, "duplicate": True},
        {"name": "cudaLaunchKernel", "start_ns": 10, "end_ns": 40},
    ]
    linked = link(
        tmp_path,
        launches=[{**call, "correlation": 5} for call in calls],
        device_ops=[{"correlation": 5, "start_ns": 50, "end_ns": 60}],
    )
    assert column(linked, "device_ops", "launch_id") == [3]


def test_a_graph_launch_starts_many_and_claims_no_layer(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "nn.Module: Net_0", "kind": "python", "start_ns": 0, "end_ns": 100},
            {"name": "replay", "start_ns": 5, "end_ns": 90},
        ],
        launches=[
            {"name": "cudaGraphLaunch", "start_ns": 10, "end_ns": 30, "correlation": 50},
            {"start_ns": 40, "end_ns": 50, "correlation": 51},
        ],
        device_ops=[
            *({"start_ns": 40 + i, "dur_ns": 1, "correlation": 50, "graph_node_id": i} for i in range(5)),
            {"start_ns": 60, "dur_ns": 1, "correlation": 900, "graph_node_id": 9},
            {"start_ns": 70, "dur_ns": 1, "correlation": 51},
        ],
    )
    assert column(linked, "launches", "device_op_count") == [5, 1]
    assert column(linked, "device_ops", "launch_id") == [0] * 5 + [None, 1]
    assert column(linked, "device_ops", "host_op_id") == [1] * 5 + [None, 1]
    assert column(linked, "device_ops", "layer_id") == [None] * 6 + [0]
    assert column(linked, "device_ops", "phase") == [None] * 6 + ["forward"]
    assert codes(linked)["graph_kernels"] == 6


def test_external_ids_alone_pair_calls_and_kernels_in_order(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "ProfilerStep#0", "kind": "annotation", "start_ns": 0, "end_ns": 55},
            {"name": "aten::mm", "external_id": 3, "start_ns": 10, "end_ns": 50},
            {"name": "aten::add", "external_id": 4, "start_ns": 50, "end_ns": 90},
        ],
        launches=[
            {"name": "hipLaunchKernel", "external_id": 3, "start_ns": 30, "end_ns": 32},
            {"name": "hipLaunchKernel", "external_id": 3, "start_ns": 20, "end_ns": 22},
            {"name": "hipGetDevice", "external_id": 3, "start_ns": 15, "end_ns": 16},
            {"name": "hipLaunchKernel", "external_id": 4, "start_ns": 60, "end_ns": 62},
        ],
        device_ops=[
            {"external_id": 3, "start_ns": 100, "end_ns": 110},
            {"external_id": 3, "start_ns": 200, "end_ns": 210},
            {"external_id": 4, "start_ns": 300, "end_ns": 310},
            {"external_id": 4, "start_ns": 400, "end_ns": 410},  # two kernels, one call: not told apart
            {"external_id": 5, "start_ns": 500, "end_ns": 510},
        ],
    )
    assert column(linked, "device_ops", "launch_id") == [1, 0, None, None, None]
    assert column(linked, "device_ops", "host_op_id") == [1, 1, 2, 2, None]
    assert column(linked, "device_ops", "step") == [0, 0, 0, 0, None]


def test_real_files_link_as_their_own_ids_say(tmp_path: Path) -> None:
    """Operators found by times are those that the producer's external ids name, in every case."""
    for name in ("bert_small_h100", "resnet50_mi300x_rank0of8", "nccl_a100_rank0of2", "minitoy_mi250_rocm62"):
        path = shared("traces", "kineto", f"{name}.json.gz")
        ((staged, linked),) = link_file(path, tmp_path / name)
        assert "launch_operator_mismatch" not in codes(linked)
        host, calls = staged.table("host_ops", ["external_id"]), rows(staged, linked, "launches")
        own = calls.column("external_id").to_numpy(zero_copy_only=False)
        found = host.column(0).take(calls.column("host_op_id")).to_numpy(zero_copy_only=False)
        named = np.isin(own, host.column(0).to_numpy(zero_copy_only=False))
        assert named.sum() > 0.9 * len(own)
        assert (own[named] == found[named]).all()


def test_two_processes_of_one_report_keep_their_correlations(tmp_path: Path) -> None:
    processes = link_file(shared("traces", "nsys", "ddp_2gpu_2process.sqlite"), tmp_path)
    tables = [rows(staged, linked, "device_ops") for staged, linked in processes]
    kernels = [
        t.filter(np.array(t.column("kind").to_pylist()) == "kernel").column("launch_id") for t in tables
    ]
    assert [(len(k), len(k) - k.null_count) for k in kernels] == [(1993, 1981), (2017, 2005)]


def test_case_14_old_categories(tmp_path: Path) -> None:
    path = shared("cases", "14_pid_tid_strings_old_categories", "old_style.json")
    ((staged, linked),) = link_file(path, tmp_path)
    device = rows(staged, linked, "device_ops").select(["kind", "launch_id", "host_op_id"]).to_pylist()
    assert sorted((d["kind"], d["launch_id"], d["host_op_id"]) for d in device) == [
        ("kernel", 0, 0),
        ("memcpy", None, None),
    ]


def test_case_16_correlations_restart_in_each_process(tmp_path: Path) -> None:
    path = shared("cases", "16_same_correlation_id_in_two_processes", "two_procs.sqlite")
    delays = []
    for staged, linked in link_file(path, tmp_path):
        calls = rows(staged, linked, "launches").to_pylist()
        for kernel in rows(staged, linked, "device_ops").to_pylist():
            call = calls[kernel["launch_id"] & ((1 << 40) - 1)]
            delays.append(kernel["start_ns"] - call["start_ns"] - call["dur_ns"])
    assert delays == [500, 700, 90, 100]


def test_case_32_launch_without_a_name(tmp_path: Path) -> None:
    path = shared("cases", "32_nsys_missing_stringids", "missing_id.sqlite")
    ((staged, linked),) = link_file(path, tmp_path)
    kernels = rows(staged, linked, "device_ops").to_pylist()
    linked_to = [k["launch_id"] for k in kernels if k["launch_id"] is not None]
    assert len(kernels) == 2
    assert [staged.table("launches").column("name").to_pylist()[row] for row in linked_to] == [None]
