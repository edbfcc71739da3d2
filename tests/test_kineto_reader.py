"""Events of a Kineto trace, and the staged rows they become."""

import gzip
import json
from pathlib import Path

import pytest

from kineto_read import event, kernel, read_events, read_text
from mdtrace.errors import InputError

BASE = 1_754_600_400_000_000_000


def test_operator(tmp_path: Path) -> None:
    op = event("cpu_op", "aten::mm", 5.125, 2.5)
    text = json.dumps(op)[:-1] + (
        ', "args": {"External id": 3,"Record function id": 0, "Concrete Inputs": ["", "1"], '
        '"Input type": ["float", "float"], "Input Strides": [[16,1], [4, 1]], '
        '"Input Dims": [[8,16],  [16, 4]], '
        '"Ev Idx": 9, "Sequence number": 41, "Fwd thread id": 2}}'
    )
    trace = read_text(tmp_path, f'{{"baseTimeNanoseconds": {BASE}, "traceEvents": [{text}]}}')
    assert trace.rows("host_ops") == [
        {
            "thread_id": 100,
            "kind": "operator",
            "form": "nested",
            "name": "aten::mm",
            "domain": None,
            "start_ns": BASE + 5125,
            "dur_ns": 2500,
            "sequence": 41,
            "forward_thread_id": 2,
            "input_dims": "[[8, 16], [16, 4]]",  # the same however the file is laid out
            "input_types": '["float", "float"]',
            "input_strides": "[[16, 1], [4, 1]]",
            "concrete_inputs": '["", "1"]',
            "flops": None,
            "external_id": 3,
            "event_index": 9,
            "python_module_id": None,
            "duplicate": False,
        }
    ]
    assert trace.process.staged_as[0] == trace.process.pid == 100


def test_host_kinds_stay_in_file_order(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        event("python_function", "nn.Module: Linear_0", 1, 9, Python_id=5, Python_module_id=2),
        event("cpu_op", "aten::linear", 2, 3, External_id=1, Fwd_thread_id=0, Sequence_number=-1),
        event("user_annotation", "ProfilerStep#1", 0, 20),
        event("python_function", "f", 3, 1, Python_id=6, Ev_Idx=77),
        event("overhead", "Activity Buffer Request", 4, 2, pid=-1, tid=0),
    )
    columns = ("kind", "form", "name", "event_index", "python_module_id", "forward_thread_id", "sequence")
    assert trace.rows("host_ops", *columns) == [
        ("python", "nested", "nn.Module: Linear_0", 5, 2, None, None),
        ("operator", "nested", "aten::linear", None, None, None, None),
        ("annotation", "nested", "ProfilerStep#1", None, None, None, None),
        ("python", "nested", "f", 77, None, None, None),
        ("overhead", "async", "Activity Buffer Request", None, None, None, None),
    ]


def test_launches(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, External_id=4, cbid=211, correlation=11),
        event("cuda_driver", "cuLaunchKernel", 3, 1, correlation=12),
        event("cuda_runtime", "hipLaunchKernel", 5, 1, correlation=0, stream="0x0", kernel="k"),
        event("xpu_runtime", "urEnqueueKernelLaunch", 7, 1, correlation=13),
        event("privateuse1_driver", "launch", 8, 1),
        event("Runtime", "cudaMemcpyAsync", 9, 1, external_id=6),
    )
    assert trace.rows("launches", "api", "name", "correlation", "external_id", "start_ns") == [
        ("runtime", "cudaLaunchKernel", 11, 4, 1000),
        ("driver", "cuLaunchKernel", 12, None, 3000),
        ("runtime", "hipLaunchKernel", 0, None, 5000),
        ("runtime", "urEnqueueKernelLaunch", 13, None, 7000),
        ("driver", "launch", None, None, 8000),
        ("runtime", "cudaMemcpyAsync", None, 6, 9000),
    ]


def test_kernel(tmp_path: Path) -> None:
    args = {"est. achieved occupancy %": 75, "blocks per SM": "inf", "graph node id": 3000, "graph id": 3}
    trace = read_events(
        tmp_path,
        kernel(
            "gemm", 20, 8.5, stream=0, device=2, External_id=5, context=1, correlation=50, queued=0,
            registers_per_thread=40, shared_memory=400, grid=[512, 2, 1], block=[128, 1, 3], **args,
        ),
    )  # fmt: skip
    (row,) = trace.rows("device_ops")
    assert {k: v for k, v in row.items() if v is not None} == {
        "device_id": 2, "context_id": 1, "stream_id": 0, "kind": "kernel", "class": "compute", "name": "gemm",
        "start_ns": 20_000, "dur_ns": 8_500, "correlation": 50, "external_id": 5,
        "grid_x": 512, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 3,
        "registers_per_thread": 40, "shared_memory_bytes": 400, "occupancy_percent": 75.0,
        "graph_id": 3, "graph_node_id": 3000, "duplicate": False,
    }  # fmt: skip


def test_device_kinds_and_classes(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 2, 1, 0, 7, device=0, stream=7, bytes=832),
        event("gpu_memset", "Memset (Device)", 3, 1, 0, 7, device=0, stream=7, bytes=0),
        event(
            "cuda_sync", "Stream Wait Event", 4, 1, 0, 7, stream=7, device=0,
            literally={
                "wait_on_stream": 9, "wait_on_cuda_event_record_corr_id": 31, "wait_on_cuda_event_id": 2,
            },
        ),
        event("cuda_sync", "Context Sync", 5, 1, 0, 1, device=0, stream=-1),
        event("cuda_sync", "Device Sync", 6, 1, 0, 1, device=0, stream=4294967295),
        event("Kernel", "old", 7, 1, 1, "stream 20"),
        event("mtia_kernel", "m", 8, 1, 0, 3),
        event("gpu_memcpy", "CopyDeviceToHost", 9, 1, 0, 7, inDevice=1, inContext=4, kind="whatever"),
        event("gpu_memcpy", "copy", 9, 1, 0, 7, kind="DtoD"),
    )  # fmt: skip
    columns = ("kind", "class", "device_id", "stream_id", "copy_kind", "bytes")
    assert trace.rows("device_ops", *columns) == [
        ("kernel", "communication", 0, 7, None, None),
        ("memcpy", "memcpy", 0, 7, "HtoD", 832),
        ("memset", "memset", 0, 7, None, 0),
        ("sync", "sync", 0, 7, None, None),
        ("sync", "sync", 0, None, None, None),
        ("sync", "sync", 0, None, None, None),
        ("kernel", "compute", 1, 20, None, None),
        ("kernel", "compute", 0, 3, None, None),
        ("memcpy", "memcpy", 1, 7, "DtoH", None),
        ("memcpy", "memcpy", 0, 7, "DtoD", None),
    ]
    waits = ("event_id", "wait_stream_id", "wait_correlation")
    assert trace.rows("device_ops", *waits)[3:5] == [(2, 9, 31), (None, None, None)]
    assert trace.rows("device_ops", "context_id")[8] == 4


def test_memory_marks(tmp_path: Path) -> None:
    mark = {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 5, "ts": 3.5}
    new = {
        "Total Reserved": 80,
        "Total Allocated": 70,
        "Bytes": -16,
        "Addr": 1 << 47,
        "Device Id": 3,
        "Device Type": 1,
    }
    old = {"Device Type": 0, "Device Id": -1, "Bytes": 4}
    trace = read_events(
        tmp_path,
        {**mark, "cat": "cpu_instant_event", "args": new},
        {**mark, "args": old},
        {**mark, "cat": "cpu_instant_event", "name": "[OutOfMemory]"},
    )
    assert [tuple(r.values()) for r in trace.rows("counters")] == [
        (3, 5, "memory", "[memory]", 3500, -16.0, "byte", 1 << 47, 70, 80),
        (None, 5, "memory", "[memory]", 3500, 4.0, "byte", None, None, None),
    ]
    assert trace.facts.events.stored == {"cpu_instant_event": 1, "[memory]": 1}
    assert trace.facts.events.skipped == {("cpu_instant_event", "mark without duration"): 1}


def test_what_is_not_stored_is_counted(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        event("cpu_op", "aten::mm", 1),
        event("gpu_user_annotation", "step", 1, 1, 0, 7),
        event("Trace", "PyTorch Profiler (0)", 1, 9, "Spans", "PyTorch Profiler"),
        {"ph": "s", "cat": "ac2g", "id": 1, "name": "ac2g", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "cat": "ac2g", "id": 1, "name": "ac2g", "pid": 0, "tid": 7, "ts": 1, "bp": "e"},
        {"ph": "M", "name": "process_name", "pid": 4, "tid": 0, "ts": 1, "args": {"name": "python3"}},
        {"ph": "i", "name": "Record Window End", "s": "g", "pid": "", "tid": "", "ts": 9},
        {"ph": "B", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": 9},
        event("cpu_op", "no time", None),
        event("cpu_op", "no time either", "N/A"),
    )
    assert trace.facts.events.stored == {"cpu_op": 1}
    assert trace.facts.events.skipped == {
        (
            "gpu_user_annotation",
            "span of a host annotation over its kernels; the annotation itself is stored",
        ): 1,
        ("Trace", "span of the profiler itself"): 1,
        ("ac2g", "flow arrow; the correlation of both ends is stored"): 2,
        ("ph M", "name or order of a row in the viewer"): 1,
        ("ph i", "mark without duration"): 1,
        ("cpu_op", "phase that the profiler does not write"): 1,
        ("cpu_op", "no usable time stamp"): 2,
    }
    assert len(trace.facts.processes) == 1  # pid 4 has nothing but a name
    assert "events_without_time" in trace.codes


def test_unknown_categories(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        event("plugin_span", "mine", 2, 3, External_id=1),
        event("plugin_span", "not mine", 2, 3, pid=555),
        event("plugin_span", "of nobody", 2, 3, pid="Plugins"),
        event(None, "bare", 3, 1),
        event("cpu_op", "aten::mm", 9),
    )
    assert trace.rows("host_ops", "kind", "name") == [
        ("operator", "aten::mm"),
        ("annotation", "mine"),
        ("annotation", "bare"),
    ]
    reason = "category that is not known, of no host process"
    assert trace.facts.events.stored == {"cpu_op": 1, "plugin_span": 1, "ph X": 1}
    assert trace.facts.events.skipped == {("plugin_span", reason): 2}


@pytest.mark.parametrize(
    ("tid", "expected"),
    [
        (7, 7),
        ("77", 77),
        ("thread 1234 (python3)", 1234),
        ("main", (1 << 40) + 0xBF28CD64),
        (None, None),
        ([1], None),
    ],
)
def test_thread_ids(tmp_path: Path, tid: object, expected: int | None) -> None:
    trace = read_events(tmp_path, event("cpu_op", "a", 1, tid=tid), event("cpu_op", "b", 1, tid=8))
    found = trace.rows("host_ops", "thread_id")
    assert found == [expected, 8]


def test_odd_arguments_cost_a_value_never_the_event(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        kernel("a", 1, correlation="17", External_id=3.0, grid=[1, 2], context=True, graph_id=2**70),
        kernel("b", 2, correlation={"x": 1}, registers_per_thread=2**40, grid="all", block=[1, "2", None]),
        {**kernel("c", 3), "args": [1, 2]},
        {**kernel("d", 4), "args": None},
        {**kernel("e", 5, correlation=9), "name": 12},
        {**kernel("f", 6, correlation=10), "name": {"x": 1}, "dur": "2.5"},
        {**kernel("g", 7, correlation=11), "dur": -3},
    )
    columns = ("name", "correlation", "external_id", "stream_id", "block_y", "dur_ns")
    assert trace.rows("device_ops", *columns) == [
        ("a", 17, 3, 7, None, 1000),
        ("b", None, None, 7, 2, 1000),
        ("c", None, None, 7, None, 1000),
        ("d", None, None, 7, None, 1000),
        ("12", 9, None, 7, None, 1000),
        (None, 10, None, 7, None, 2500),
        ("g", 11, None, 7, None, None),
    ]
    assert "negative_durations" in trace.codes


def test_base_behind_the_events(tmp_path: Path) -> None:
    events = json.dumps([event("cpu_op", "a", 5), kernel("k", 6.125)])
    trace = read_text(tmp_path, f'{{"traceEvents": {events}, "baseTimeNanoseconds": {BASE}}}')
    assert trace.rows("host_ops", "start_ns") == [BASE + 5000]
    assert trace.rows("device_ops", "start_ns") == [BASE + 6125]
    assert (trace.facts.clock_base, trace.facts.clock_base_ns) == ("epoch", BASE)


@pytest.mark.parametrize(
    ("ts", "document", "clock", "start"),
    [
        (1623142623460111, {}, "epoch", 1_623_142_623_460_111_000),
        (1623142623460111, {"baseTimeNanoseconds": BASE}, "epoch", 1_623_142_623_460_111_000),
        (100.5, {}, "file", 100_500),
        (100.5, {"baseTimeNanoseconds": 0}, "file", 100_500),
        (100.5, {"baseTimeNanoseconds": 2**80}, "file", 100_500),
    ],
)
def test_clock_base(tmp_path: Path, ts: float, document: dict[str, int], clock: str, start: int) -> None:
    trace = read_events(tmp_path, event("cpu_op", "a", ts), **document)
    assert (trace.facts.clock_base, trace.facts.clock_base_ns) == (clock, None)
    assert trace.rows("host_ops", "start_ns") == [start]


def test_bare_array_and_gzip(tmp_path: Path) -> None:
    text = json.dumps([event("cpu_op", "a", 5)]).encode()
    half = len(text) // 2
    members = gzip.compress(text[:half]) + gzip.compress(text[half:])
    trace = read_text(tmp_path, members, "trace.json")  # gzip under a .json name, in two members
    assert (trace.stored, trace.facts.compression, trace.facts.producer) == (1, "gzip", None)


def test_facts_and_what_must_not_leak(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        event("cpu_op", "a", 5),
        schemaVersion=1,
        username="secret-user",
        INFO=["secret-log"],
        traceName="/home/secret/x.json",
        my_key="secret-key",
        cuda_runtime_version=12040,
        host_name="node7",
        deviceProperties=[
            {
                "id": 0,
                "name": "H100",
                "totalGlobalMem": 85,
                "computeMajor": 9,
                "computeMinor": 0,
                "numSms": 132,
            },
            {"id": 1, "name": "", "path": "/secret"},
            {"id": "x"},
            7,
        ],
        distributedInfo={"backend": "nccl", "rank": 0, "world_size": 8},
    )
    facts = trace.facts
    assert (facts.format, facts.format_version, facts.producer) == (
        "kineto", "1", "PyTorch profiler, CUDA runtime 12040",
    )  # fmt: skip
    process = trace.process
    assert (process.rank, process.rank_origin, process.world_size) == (0, "distributedInfo", 8)
    assert (process.backend, process.host) == ("nccl", "node7")
    assert process.devices == [
        {"device_id": 0, "name": "H100", "memory_bytes": 85, "sm_count": 132, "compute_capability": "9.0"},
        {"device_id": 1, "name": None, "memory_bytes": None, "sm_count": None, "compute_capability": None},
    ]
    staged = b"".join(p.read_bytes() for p in trace.folder.rglob("*") if p.is_file())
    assert b"secret" not in staged
    assert "secret" not in repr(facts)


def test_on_demand_trace(tmp_path: Path) -> None:
    """distributedInfo behind the events, ranks as a string, rank stated as text."""
    members = ", ".join(str(r) for r in range(30)) + ", ..."
    record = kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 1, Collective_name="allreduce", In_msg_nelems=10,
        Out_msg_nelems=10, Group_size=4, dtype="Float", Process_Group_Name="tp",
        Process_Group_Ranks=f"[{members}]",
    )  # fmt: skip
    info = {
        "backend": "nccl", "rank": "3", "world_size": 64,
        "pg_config": [{"pg_name": "tp", "pg_desc": "tensor", "pg_size": 4, "ranks": "[3, 1, 2, 0]"}],
    }  # fmt: skip
    events = json.dumps([record])
    text = f'{{"traceEvents": {events}, "distributedInfo": {json.dumps(info)}, "traceName": "a]b"}}'
    trace = read_text(tmp_path, text)
    assert (trace.process.rank, trace.process.world_size) == (3, 64)
    assert trace.rows("comm_records", "group_name", "group_ranks") == [("tp", [0, 1, 2, 3])]


def test_copies_far_apart(tmp_path: Path) -> None:
    """Copies are flagged wherever they stand; events that differ in anything are not copies."""
    many = [event("cpu_op", f"op {i}", i, External_id=i) for i in range(20_000)]
    twice = event("cpu_op", "op 5", 5, External_id=5)
    trace = read_events(
        tmp_path,
        *many,
        twice,
        {**twice, "name": "another"},
        event("cpu_op", "op 5", 5, External_id=6),
        event("cpu_op", "op 5", 5, tid=101, External_id=5),
        twice,
    )
    flags = trace.rows("host_ops", "duplicate")
    assert [i for i, flag in enumerate(flags) if flag] == [20_000, 20_004]
    assert [d.count for d in trace.facts.diagnostics if d.code == "duplicate_events"] == [2]


def test_gaps_are_named(tmp_path: Path) -> None:
    assert read_events(tmp_path).codes == ["empty_source"]
    assert read_events(tmp_path, event("cpu_op", "a", 1)).codes == ["no_kernels", "no_shapes"]
    assert read_events(tmp_path, kernel("k", 1)).codes == ["no_host_ops"]
    assert read_events(tmp_path, kernel("k", 1), event("cpu_op", "a", 1, Input_Dims=[[1]])).codes == []


@pytest.mark.parametrize("text", [b"", b"\x1f\x8b\x08", b"hello", b"SQLite format 3\x00"])
def test_no_trace_at_all(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InputError, match=r"trace\.json"):
        read_text(tmp_path, text)
