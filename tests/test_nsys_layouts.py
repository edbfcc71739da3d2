"""Exports as versions of nsys lay them out: columns come and go, tables too."""

import re
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.ingest.nsys.emit_nvtx import parse
from nsys_export import BASE, Read, call, export, global_pid, global_tid, kernel, nvtx, session, strings


def test_an_export_of_2019_without_any_metadata(tmp_path: Path) -> None:
    """No META_DATA, no session start, no textId, an empty EXPORT_META_DATA, names in one table."""
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("void gemm<float>(float*)", "gemm", "cudaLaunchKernel_v7000", "cuMemAlloc_v2"),
        EXPORT_META_DATA=[],
        CUPTI_ACTIVITY_KIND_KERNEL=[
            {
                "start": 100, "end": 350, "deviceId": 1, "contextId": 1, "streamId": 13, "correlationId": 9,
                "globalPid": global_pid(77), "demangledName": 1, "shortName": 2, "registersPerThread": 32,
                "gridX": 8, "gridY": 4, "gridZ": 2, "blockX": 128, "blockY": 2, "blockZ": 1,
                "staticSharedMemory": 1024, "dynamicSharedMemory": 48, "graphNodeId": None,
            }
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(50, 60, globalTid=global_tid(77, 78), correlationId=9, nameId=3),
            call(10, 20, globalTid=global_tid(77, 78), correlationId=3, nameId=4, eventClass=1),
            call(11, 12, globalTid=global_tid(77, 78), correlationId=4, nameId=4, eventClass=26),
        ],
        NVTX_EVENTS=[nvtx(0, 500, "step", globalTid=global_tid(77, 78))],
    )  # fmt: skip
    read = Read(path, tmp_path / "s")
    assert read.rows("device_ops") == [
        {
            "device_id": 1, "context_id": 1, "stream_id": 13, "kind": "kernel", "class": "compute",
            "name": "void gemm<float>(float*)", "start_ns": 100, "dur_ns": 250, "correlation": 9,
            "grid_x": 8, "grid_y": 4, "grid_z": 2, "block_x": 128, "block_y": 2, "block_z": 1,
            "registers_per_thread": 32, "shared_memory_bytes": 1072, "duplicate": False,
        }
    ]  # fmt: skip
    assert [(c["name"], c["api"], c["thread_id"]) for c in read.rows("launches")] == [
        ("cudaLaunchKernel", "runtime", 78),
        ("cuMemAlloc", "driver", 78),
        ("cuMemAlloc", "driver", 78),  # by its name, where the class says neither
    ]
    facts = read.facts
    assert (facts.clock_base, facts.clock_base_ns, facts.format_version) == ("file", None, None)
    assert facts.processes[0].devices[0]["device_id"] == 1
    assert read.codes() == {"no_wall_clock": 1}


def test_an_export_of_schema_3(tmp_path: Path) -> None:
    """Suffixed NVTX table, text by id and by value side by side, host and versions, devices by process."""
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm(int)", "gemm", "forward"),
        META_DATA_EXPORT=[
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1.210"},
        ],
        TARGET_INFO_SESSION_START_TIME=session(),
        TARGET_INFO_SYSTEM_ENV=[{"globalVid": 1 << 48, "name": "Hostname", "value": "node-7.cluster"}],
        TARGET_INFO_CUDA_DEVICE=[
            {"gpuId": 5, "cudaId": 0, "pid": 11, "uuid": "GPU-b"},
            {"gpuId": 4, "cudaId": 0, "pid": 12, "uuid": "GPU-a"},
        ],
        TARGET_INFO_GPU=[
            {"id": 4, "name": "A", "totalMemory": 1, "memoryBandwidth": 2, "smCount": 3, "clockRate": 0},
            {"id": 5, "name": "B", "totalMemory": 9, "memoryBandwidth": 8, "smCount": 7, "clockRate": 6},
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(1, 3, graphId=4, graphNodeId=5, greenContextId=None)],
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            {**kernel(4, 6), "bytes": 64, "copyKind": 1, "srcKind": 1, "dstKind": 2},
            {**kernel(7, 9), "bytes": 32, "copyKind": 10, "srcKind": None, "dstKind": None},
            {**kernel(9, 9), "bytes": 16, "copyKind": 11, "srcKind": None, "dstKind": None},
            {**kernel(9, 10), "bytes": 16, "copyKind": 77, "srcKind": None, "dstKind": None},
        ],
        CUPTI_ACTIVITY_KIND_MEMSET=[{**kernel(10, 11), "bytes": 128, "value": 0, "memKind": 2}],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            {**kernel(12, 13), "syncType": t, "eventId": e, "streamId": s}
            for t, e, s in ((1, 8, 4294967295), (2, 9, 7), (3, 4294967295, 7), (4, 4294967295, 4294967295))
        ],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[
            {
                "timestamp": 20,
                "deviceId": 0,
                "streamId": 7,
                "correlationId": 5,
                "globalPid": global_pid(11),
                "eventId": 9,
            }
        ],
        NVTX_EVENTS_V2=[
            nvtx(0, None, "run", eventType=75, domainId=3, textId=None),
            nvtx(1, 9, None, textId=3, domainId=3),
            nvtx(2, None, "open", textId=None),
            nvtx(3, None, "now", eventType=34, textId=None),
            nvtx(4, 8, "async", eventType=60, rangeId=7, textId=None),
            nvtx(5, 6, "odd", eventType=99, textId=None),
        ],
    )
    read = Read(path, tmp_path / "s")
    ops = read.rows("device_ops")
    assert [(o["kind"], o["name"], o["start_ns"] - BASE, o.get("bytes")) for o in ops] == [
        ("kernel", "gemm(int)", 1, None),
        ("memcpy", "Memcpy HtoD (Pinned -> Device)", 4, 64),
        ("memcpy", "Memcpy PtoP", 7, 32),
        ("memcpy", "Memcpy HtoD", 9, 16),
        ("memcpy", "Memcpy", 9, 16),
        ("memset", "Memset (Device)", 10, 128),
        ("sync", "Event Sync", 12, None),
        ("sync", "Stream Wait Event", 12, None),
        ("sync", "Stream Sync", 12, None),
        ("sync", "Context Sync", 12, None),
        ("sync", "Event Record", 20, None),
    ]
    assert [o.get("copy_kind") for o in ops[1:5]] == ["HtoD", "PtoP", "unified", None]
    assert [(o.get("stream_id"), o.get("event_id")) for o in ops[6:]] == [
        (None, 8),
        (7, 9),
        (7, None),
        (None, None),
        (7, 9),
    ]
    assert (ops[0]["graph_id"], ops[0]["graph_node_id"], ops[-1]["dur_ns"]) == (4, 5, 0)
    keys = ("name", "form", "domain", "dur_ns", "event_index")
    assert [tuple(h.get(k) for k in keys) for h in read.rows("host_ops")] == [
        ("forward", "nested", "run", 8, None),
        ("open", "nested", None, None, None),
        ("now", "mark", None, 0, None),
        ("async", "async", None, 4, 7),
    ]
    facts = read.facts
    assert (facts.format_version, facts.producer) == ("3.25.0", "Nsight Systems 2026.2.1.210")
    assert facts.processes[0].host == "node-7.cluster"
    (device,) = facts.processes[0].devices
    assert (device["name"], device["memory_bandwidth_bytes_per_s"], device["uuid"]) == ("B", 8, "GPU-b")
    skipped = {(r["kind"], r["reason"]): r["skipped"] for r in facts.events.rows() if r["skipped"]}
    assert list(skipped.values()) == [1, 1]


def test_zero_in_a_device_table_is_unknown(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        TARGET_INFO_GPU=[{"id": 0, "name": "", "totalMemory": 0, "memoryBandwidth": 0, "clockRate": 0}],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(1, 2)],
    )
    (device,) = Read(path, tmp_path / "s").processes[0].devices
    assert {k: v for k, v in device.items() if v is not None} == {"device_id": 0}


def test_no_process_column_is_the_only_process(tmp_path: Path) -> None:
    anonymous = {k: v for k, v in kernel(1, 2).items() if k != "globalPid"}
    tables = {"StringIds": strings("gemm"), "CUPTI_ACTIVITY_KIND_KERNEL": [anonymous]}
    one = Read(
        export(tmp_path / "one.sqlite", **tables, CUPTI_ACTIVITY_KIND_RUNTIME=[call(0, 1)]), tmp_path / "s1"
    )
    assert [(p.pid, len(p.staged_as)) for p in one.processes] == [(11, 2)]
    assert (one.count("device_ops"), one.count("launches")) == (1, 1)
    alone = Read(
        export(tmp_path / "alone.sqlite", **tables, PROCESSES=[{"globalPid": global_pid(5), "pid": 5}]),
        tmp_path / "s2",
    )
    assert [p.pid for p in alone.processes] == [5]
    calls = [call(0, 1), call(0, 1, globalTid=global_tid(12, 12))]
    two = Read(export(tmp_path / "two.sqlite", **tables, CUPTI_ACTIVITY_KIND_RUNTIME=calls), tmp_path / "s3")
    assert [p.pid for p in two.processes] == [11, 12, None]
    assert [len(two.rows("device_ops", i)) for i in range(3)] == [0, 0, 1]


def test_one_pid_on_two_machines_is_two_processes(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        TARGET_INFO_SYSTEM_ENV=[
            {"globalVid": m << 48, "name": "Hostname", "value": f"node{m}"} for m in (1, 2)
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(i, i + 1, globalPid=global_pid(11, 1 + i % 2)) for i in range(6)],
        PROCESSES=[{"globalPid": global_pid(p), "pid": p, "name": "/opt/x"} for p in (11, 99)],
    )
    read = Read(path, tmp_path / "s")
    assert [(p.pid, p.host) for p in read.processes] == [(11, "node1"), (11, "node2")]
    assert [[r["start_ns"] for r in read.rows("device_ops", i)] for i in (0, 1)] == [[0, 2, 4], [1, 3, 5]]


def test_times_written_as_epoch_times_or_shifted(tmp_path: Path) -> None:
    for name, more, base in (
        ("utc", {"EXPORT_PARAM_TIME_NORMALIZE": "true"}, None),
        ("shift", {"EXPORT_PARAM_TIME_SHIFT": "-40"}, BASE + 40),
    ):
        path = export(
            tmp_path / f"{name}.sqlite",
            META_DATA_EXPORT=[{"name": k, "value": v} for k, v in more.items()],
            TARGET_INFO_SESSION_START_TIME=session(),
            CUPTI_ACTIVITY_KIND_KERNEL=[kernel(7, 9)],
        )
        read = Read(path, tmp_path / name)
        assert (read.facts.clock_base, read.facts.clock_base_ns) == ("epoch", base)
        assert read.rows("device_ops")[0]["start_ns"] == (base or 0) + 7


def test_sampled_metrics_go_to_the_process_of_the_gpu(tmp_path: Path) -> None:
    names = {1: "SMs Active [Throughput %]", 2: "GPC Clock Frequency [MHz]", 3: "DRAM Read Bandwidth"}
    types = {0: 0x2A00, 1: 0x2A01, 2: 0x2A02}
    path = export(
        tmp_path / "x.sqlite",
        TARGET_INFO_SESSION_START_TIME=session(),
        TARGET_INFO_CUDA_DEVICE=[
            {"gpuId": 1, "cudaId": 0, "pid": 11, "uuid": "u"},
            {"gpuId": 0, "cudaId": 0, "pid": 12, "uuid": "v"},
        ],
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(0, 1), kernel(0, 1, globalPid=global_pid(12))],
        TARGET_INFO_GPU_METRICS=[
            {"typeId": t, "metricId": m, "metricName": n} for t in types.values() for m, n in names.items()
        ],
        GPU_METRICS=[
            {"timestamp": 5, "typeId": types[1], "metricId": 1, "value": 40},
            {"timestamp": 5, "typeId": types[1], "metricId": 2, "value": 1755},
            {"timestamp": 6, "typeId": types[0], "metricId": 3, "value": 12},
            {"timestamp": 6, "typeId": types[2], "metricId": 1, "value": 1},
        ],
    )
    read = Read(path, tmp_path / "s")
    columns = ("device_id", "kind", "name", "time_ns", "value", "unit")
    assert [tuple(r[c] for c in columns) for r in read.rows("counters", 0)] == [
        (0, "gpu_metric", names[1], BASE + 5, 40.0, "%"),
        (0, "gpu_metric", names[2], BASE + 5, 1755.0, "MHz"),
    ]
    assert [tuple(r[c] for c in columns) for r in read.rows("counters", 1)] == [
        (0, "gpu_metric", names[3], BASE + 6, 12.0, "%")
    ]
    assert read.events() == (5, 1)


def test_metrics_without_any_process(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        GPU_METRICS=[{"timestamp": 5, "typeId": 3, "metricId": 1, "value": 40}],
    )
    read = Read(path, tmp_path / "s")
    assert [p.pid for p in read.processes] == [None]
    assert [(r["name"], r["device_id"]) for r in read.rows("counters")] == [("metric 1", 3)]


def test_library_ranges_and_overhead(tmp_path: Path) -> None:
    tid = global_tid(11, 12)
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("cublasGemmEx", "MPI_Allreduce", "MPI_Send", "Buffer flush", "gemm"),
        CUBLAS_EVENTS=[{"start": 1, "end": 4, "globalTid": tid, "nameId": 1}],
        MPI_COLLECTIVES_EVENTS=[
            {
                "start": 5,
                "end": 9,
                "globalTid": tid,
                "textId": 2,
                "size": 4096,
                "recvSize": 1,
                "rootRank": None,
            }
        ],
        MPI_P2P_EVENTS=[{"start": 10, "end": 11, "globalTid": tid, "textId": 3, "size": 8, "remoteRank": 3}],
        MPI_RANKS=[{"globalTid": tid, "rank": 6}],
        PROFILER_OVERHEAD=[
            {"start": 2, "end": 3, "globalTid": tid, "nameId": 4},
            {"start": 2, "end": 3, "globalTid": global_tid(900, 900), "nameId": 4},
        ],
        OSRT_API=[{"start": 1, "end": 2, "globalTid": tid, "nameId": 4}] * 3,
        SCHED_EVENTS=[{"start": 1, "cpu": 0, "globalTid": tid}] * 2,
        **{"secret table": [{"start": 1}]},
    )
    read = Read(path, tmp_path / "s")
    rows = read.rows("host_ops")
    assert [(r["kind"], r["form"], r["name"]) for r in rows] == [
        ("annotation", "nested", "cublasGemmEx"),
        ("annotation", "nested", "MPI_Allreduce"),
        ("annotation", "nested", "MPI_Send"),
        ("overhead", "async", "Buffer flush"),
    ]
    assert read.rows("comm_records") == [
        {"anchor": "host_ops", "row": 1, "point_to_point": False, "payload_bytes": 4096},
        {"anchor": "host_ops", "row": 2, "point_to_point": True, "payload_bytes": 8, "peer_rank": 3},
    ]
    assert [(p.pid, p.rank, p.rank_origin) for p in read.processes] == [(11, 6, "communicator")]
    assert read.events() == (4, 1 + 3 + 2 + 1)
    assert {r["kind"] for r in read.facts.events.rows()} >= {"OSRT_API", "SCHED_EVENTS", "another table"}


def test_warnings_of_the_profiler_are_counted_not_copied(tmp_path: Path) -> None:
    texts = [
        (2, "Not all CUDA events might have been collected."),
        (1, "Number of lost events: 0"),
        (3, "CUDA trace data was lost, see /home/me/log"),
        (2, "Installed CUDA driver is not supported"),
        (1, "Profiling has started."),
    ]
    path = export(
        tmp_path / "x.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(0, 1)],
        DIAGNOSTIC_EVENT=[{"timestamp": 1, "severity": s, "text": t} for s, t in texts],
    )
    read = Read(path, tmp_path / "s")
    codes = read.codes()
    assert (codes["dropped_records"], codes["profiler_warnings"]) == (2, 1)
    assert not any("/home" in d.row(0, None)["message"] for d in read.facts.diagnostics)


def test_graph_mode_matters_only_where_graphs_were_launched(tmp_path: Path) -> None:
    for name, count in (("cudaGraphLaunch_v10000", 1), ("cudaLaunchKernel_v7000", None)):
        path = export(
            tmp_path / f"{name}.sqlite",
            StringIds=strings(name),
            META_DATA_CAPTURE=[{"name": "CUDA_GRAPH_TRACE_OPTIONS:MODE", "value": "Graph"}],
            CUPTI_ACTIVITY_KIND_RUNTIME=[call(0, 1)],
        )
        assert Read(path, tmp_path / name).codes().get("graphs_without_kernels") == count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::view, op_id = 314, seq = 12, sizes = [[8, 3], []]", ("aten::view", 12, 314, "[[8, 3], []]")),
        ("aten::add, seq = 7, op_id = 4, sizes = [[1]]", ("aten::add", 7, 4, "[[1]]")),
        ("aten::mul, seq = 7", ("aten::mul", 7, None, None)),
        ("aten::t, sizes = [[2, 2]], input_op_ids = [(1,0), (2,0)]", ("aten::t", None, None, "[[2, 2]]")),
        (
            "autograd::engine::evaluate_function: AddmmBackward0, seq = 9, op_id = 2",
            ("autograd::engine::evaluate_function: AddmmBackward0", 9, 2, None),
        ),
        ("my range, x = 3", None),
        ("seq = 4", None),
        ("step 3", None),
        ("a, seq = 99999999999999999999", None),
    ],
)  # fmt: skip
def test_emit_nvtx_texts(text: str, expected: tuple[str, int | None, int | None, str | None] | None) -> None:
    parsed = parse(pa.array([text, "x, seq = 1", None]))
    assert parsed.operator.to_pylist()[0] is (expected is not None)
    assert parsed.name.to_pylist()[1:] == ["x", None]
    if expected is None:
        assert parsed.name[0].as_py() == text
        return
    columns = (parsed.name, parsed.sequence, parsed.op_id, parsed.input_dims)
    assert tuple(c[0].as_py() for c in columns if c is not None) == expected


@given(
    st.text(alphabet="ab:, =_\n", max_size=12),
    st.one_of(st.none(), st.integers(0, 10**6)),
    st.one_of(st.none(), st.integers(0, 10**6)),
)
def test_emit_nvtx_against_a_plain_reading(name: str, seq: int | None, op: int | None) -> None:
    text = name + ("" if seq is None else f", seq = {seq}") + ("" if op is None else f", op_id = {op}")
    parsed = parse(pa.array([text]))
    bare = re.sub(r"(?:, (?:seq|op_id) = \d+)+\Z", "", text)
    assert parsed.name[0].as_py() == bare
    assert parsed.operator.to_pylist() == [bare != text]


def test_names_are_looked_up_without_a_primary_key(tmp_path: Path) -> None:
    path = export(tmp_path / "x.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[kernel(0, 1, demangledName=7)])
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE StringIds (id, value)")
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", [(7, "gemm"), (8, "other")])
    db.close()
    assert Read(path, tmp_path / "s").rows("device_ops")[0]["name"] == "gemm"
