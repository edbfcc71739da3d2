"""What counts as one collective, and what is known about it."""

from pathlib import Path
from typing import Any

import pytest

from link_stage import Rows, codes, column, link, link_file
from mdtrace.link.process import Linked
from mdtrace.link.records import payload
from shared import shared

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GENERIC = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def _kernel(name: str, start: int, correlation: int | None = None, **more: Any) -> dict[str, Any]:
    row = {"name": name, "class": "communication", "start_ns": start, "dur_ns": 50}
    return {**row, "stream_id": 20, "correlation": correlation, **more}


def _call(start: int, correlation: int, thread: int = 1) -> dict[str, Any]:
    return {"start_ns": start, "dur_ns": 1, "correlation": correlation, "thread_id": thread}


def _host(name: str, start: int, end: int, kind: str = "operator", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "start_ns": start, "end_ns": end, **more}


def _rows(linked: Linked, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(column(linked, "collectives", name) for name in names), strict=True))


def test_a_kernel_with_its_own_arguments(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        device_ops=[
            _kernel(GENERIC, 100),
            {"start_ns": 0, "dur_ns": 10},
            _kernel(GENERIC, 100, duplicate=True),
        ],
        comm_records=[
            {
                "anchor": "device_ops",
                "row": 0,
                "name": "_allgather_base",
                "group_name": "3",
                "group_desc": "tp",
                "group_ranks": [0, 1, 2, 3],
                "group_size": 4,
                "communicator": "0xff",
                "seq": 17,
                "point_to_point": False,
                "dtype": "bf16",
                "elements_in": 1000,
                "elements_out": 4000,
            }
        ],
    )
    (row,) = linked.tables["collectives"].to_pylist()
    assert row == {
        "device_id": 0,
        "stream_id": 20,
        "kind": "all_gather",
        "name": GENERIC,
        "evidence": "kernel",
        "group_name": "3",
        "group_desc": "tp",
        "group_ranks": [0, 1, 2, 3],
        "group_size": 4,
        "communicator": "0xff",
        "seq": 17,
        "point_to_point": False,
        "peer_rank": None,
        "dtype": "bf16",
        "elements_in": 1000,
        "elements_out": 4000,
        "payload_bytes": 8000,
        "tensors": None,
        "members": 1,
        "start_ns": 100,
        "end_ns": 150,
        "device_op_id": 0,
        "host_op_id": None,
        "step": None,
        "instance_id": None,
    }


def test_arguments_lent_by_the_records_around_the_launch(tmp_path: Path) -> None:
    """The backend's record states shapes, that of the parameters around it the group: both are lent."""
    linked = link(
        tmp_path,
        host_ops=[
            _host("ProfilerStep#4", 0, 100, "annotation"),
            _host("c10d::alltoall_base_", 5, 60),
            _host("record_param_comms", 10, 50),
            _host("nccl:all_to_all", 20, 40, "annotation"),
            _host("record_param_comms", 70, 75),  # the wait: lends nothing, is nothing
        ],
        launches=[_call(30, 1), _call(72, 2)],
        device_ops=[_kernel(SENDRECV, 200, 1)],
        comm_records=[
            {"anchor": "host_ops", "row": 3, "dtype": "f32", "elements_in": 6144},
            {
                "anchor": "host_ops",
                "row": 2,
                "name": "all_to_all",
                "group_name": "0",
                "group_size": 8,
                "seq": 2,
            },
            {"anchor": "host_ops", "row": 4, "name": "wait", "group_name": "0", "group_size": 8, "seq": 2},
        ],
    )
    names = (
        "kind",
        "point_to_point",
        "group_size",
        "seq",
        "payload_bytes",
        "step",
        "host_op_id",
        "device_op_id",
    )
    assert _rows(linked, *names) == [("all_to_all", False, 8, 2, 24576, 4, 3, 0)]


def test_sizes_from_the_operator_around(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            _host(
                "symm_mem::multimem_all_reduce_",
                0,
                50,
                input_dims="[[2557440], [], []]",
                input_types='["c10::BFloat16", "", ""]',
            ),
            _host("vllm::all_reduce", 60, 90, input_dims="[[4", input_types='["float"]'),
        ],
        launches=[_call(10, 1), _call(70, 2)],
        device_ops=[
            _kernel("void multimem_all_reduce_kernel<c10::BFloat16>(int)", 200, 1),
            _kernel("void vllm::cross_device_reduce_1stage<float, 8>(int)", 300, 2),
        ],
    )
    found = _rows(linked, "kind", "dtype", "elements_in", "payload_bytes")
    assert found == [("all_reduce", "bf16", 2557440, 5114880), ("all_reduce", "f32", None, None)]
    assert codes(linked)["collective_size_unknown"] == 1


def test_send_and_recv(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        device_ops=[_kernel(SENDRECV, 0), _kernel(SENDRECV, 100), _kernel(SENDRECV, 200)],
        comm_records=[
            {
                "anchor": "device_ops",
                "row": 0,
                "name": "send",
                "peer_rank": 1,
                "dtype": "f32",
                "elements_in": 10,
            },
            {
                "anchor": "device_ops",
                "row": 1,
                "name": "recv",
                "peer_rank": 2,
                "dtype": "f32",
                "elements_out": 20,
            },
        ],
    )
    found = _rows(linked, "kind", "point_to_point", "peer_rank", "payload_bytes")
    assert found == [("send", True, 1, 40), ("recv", True, 2, 80), ("send_recv", True, None, None)]


def test_what_was_coalesced_is_said_by_the_kernel(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[_host("nccl:coalesced", 0, 50, "annotation")],
        launches=[_call(10, 1), _call(20, 2)],
        device_ops=[_kernel("ncclDevKernel_AllGather_RING_LL(x)", 100, 1), _kernel(GENERIC, 200, 2)],
        comm_records=[{"anchor": "host_ops", "row": 0, "name": "coalesced", "point_to_point": True}],
    )
    assert _rows(linked, "kind", "point_to_point") == [("all_gather", False), ("send_recv", True)]


def _grouped(*names: str) -> list[dict[str, Any]]:
    """NCCL's own ranges one after the other, 10 ns each."""
    return [_host(name, 10 * i, 10 * i + 9, "nvtx", domain="NCCL") for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("names", "kind", "members", "size"),
    [
        (("ncclSend", "ncclRecv", "ncclSend", "ncclRecv"), "send_recv", 4, 2000),
        (("ncclAllReduce", "ncclAllReduce"), "all_reduce", 2, 2000),
        (("ncclAllReduce", "ncclBroadcast"), "unknown", 2, 2000),
    ],
)
def test_a_grouped_call_is_one(
    tmp_path: Path, names: tuple[str, ...], kind: str, members: int, size: int
) -> None:
    ranges = _grouped("ncclGroupStart", "ncclGroupStart", *names, "ncclGroupEnd", "ncclGroupEnd", "ncclSend")
    last = len(ranges) - 2
    linked = link(
        tmp_path,
        host_ops=ranges,
        launches=[_call(10 * last + 5, 1), _call(10 * last + 15, 2)],
        device_ops=[_kernel(GENERIC, 500, 1), _kernel(GENERIC, 600, 2)],
        comm_records=[
            {"anchor": "host_ops", "row": row, "payload_bytes": 1000, "communicator": "c", "group_size": 2}
            for row in range(2, len(ranges))
        ],
    )
    found = _rows(linked, "kind", "members", "payload_bytes", "communicator", "group_size")
    assert found == [(kind, members, size, "c", 2), ("send", 1, 1000, "c", 2)]


def test_a_group_of_several_kernels_tells_none_apart(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=_grouped("ncclGroupStart", "ncclSend", "ncclAllReduce", "ncclGroupEnd"),
        launches=[_call(31, 1), _call(33, 2)],
        device_ops=[_kernel(SENDRECV, 500, 1), _kernel(ALLREDUCE, 600, 2)],
    )
    assert _rows(linked, "kind", "members") == [("send_recv", 1), ("all_reduce", 1)]


def _gloo(name: str, start: int, end: int | None, dims: str, types: str) -> dict[str, Any]:
    row = {"name": f"gloo:{name}", "kind": "annotation", "thread_id": 2, "start_ns": start, "end_ns": end}
    return {**row, "input_dims": dims, "input_types": types}


GLOO: Rows = [
    _host("c10d::allreduce_", 0, 10, input_dims="[[[5]], []]", input_types='["TensorList", ""]'),
    _gloo("all_reduce", 5, 50, "[[4, 3], [8]]", '["float", "float"]'),
    _gloo("barrier", 60, 70, "[]", "[]"),
    _gloo("wait", 71, 72, "[]", "[]"),
    _gloo("all_reduce", 80, None, "[[]]", '["long int"]'),
]


def test_backend_records_without_kernels(tmp_path: Path) -> None:
    linked = link(
        tmp_path, host_ops=[_host("step 1", 0, 100, "annotation", thread_id=3), *GLOO[:-1], GLOO[-1]]
    )
    linked = (
        link(tmp_path / "again", host_ops=[*GLOO[:-1], {**GLOO[-1], "start_ns": 80}]) if False else linked
    )
    found = _rows(linked, "kind", "evidence", "dtype", "payload_bytes", "end_ns", "host_op_id", "step")
    assert found == [
        ("all_reduce", "host record", "f32", 80, 50, 2, 1),
        ("barrier", "host record", None, None, 70, 3, 1),
        ("all_reduce", "host record", "i64", 8, None, 5, 1),
    ]
    assert "collective_size_unknown" not in codes(linked)


def test_beside_kernels_only_backends_without_kernels(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[*GLOO, _host("nccl:all_reduce", 100, 150, "annotation")],
        launches=[_call(110, 1)],
        device_ops=[_kernel(ALLREDUCE, 200, 1)],
    )
    evidence = _rows(linked, "kind", "evidence")
    assert evidence == [
        ("all_reduce", "kernel"),
        ("all_reduce", "host record"),
        ("barrier", "host record"),
        ("all_reduce", "host record"),
    ]


def test_parameters_alone_where_the_backend_left_no_record(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[_host("record_param_comms", 0, 10), _host("record_param_comms", 20, 30)],
        comm_records=[
            {"anchor": "host_ops", "row": 0, "name": "broadcast", "dtype": "f32", "elements_in": 3, "seq": 1},
            {"anchor": "host_ops", "row": 1, "name": "wait", "seq": 1},
        ],
    )
    assert _rows(linked, "kind", "evidence", "seq", "payload_bytes") == [("broadcast", "host record", 1, 12)]


def test_ranges_named_like_collectives(tmp_path: Path) -> None:
    names = ("allreduce", "ncclAllReduce", "MPI_Send", "send", "gather_inputs", "reduce_loss", "MPI_Init")
    ranges = [_host(name, 100 * i, 100 * i + 50, "nvtx") for i, name in enumerate(names)]
    linked = link(
        tmp_path,
        host_ops=[
            *ranges,
            _host("allreduce", 1000, 1100, "nvtx"),
            _host("MPI_Allreduce", 1010, 1090, "nvtx"),  # the innermost of a kind
            _host("allreduce_async", 2000, 2100, "nvtx", form="async"),
            _host("ncclAllReduce", 2010, 2020, "nvtx"),  # stands for the asynchronous range around it
            _host("all_gather", 3000, 3100, "nvtx", form="async"),
            _host("allreduce", 4000, 4000, "nvtx", form="mark"),
        ],
    )
    found = _rows(linked, "name", "kind", "start_ns", "evidence")
    assert found == [
        ("allreduce", "all_reduce", 0, "range"),
        ("ncclAllReduce", "all_reduce", 100, "range"),
        ("MPI_Send", "send", 200, "range"),
        ("send", "send", 300, "range"),
        ("MPI_Allreduce", "all_reduce", 1010, "range"),
        ("ncclAllReduce", "all_reduce", 2010, "range"),
        ("all_gather", "all_gather", 3000, "range"),
    ]


@pytest.mark.parametrize(
    ("kind", "given", "out", "size", "expected"),
    [
        ("all_gather", 10, 80, 8, 320),
        ("all_gather", 10, None, 8, 320),
        ("all_gather", 10, None, None, None),
        ("reduce_scatter", 80, 10, 8, 320),
        ("reduce_scatter", None, 10, 8, 320),
        ("all_reduce", 10, 10, None, 40),
        ("all_reduce", None, 10, None, 40),
        ("recv", 0, 10, None, 40),
        ("gather", None, 10, None, None),
        ("barrier", None, None, 8, None),
    ],
)
def test_payload(
    kind: str, given: int | None, out: int | None, size: int | None, expected: int | None
) -> None:
    assert payload(kind, "f32", given, out, size) == expected


def test_dlrm_eight_collectives(tmp_path: Path) -> None:
    path = shared("traces", "kineto", "dlrm_v100_8rank", "rank0.pt.trace.json.gz")
    ((_, linked),) = link_file(path, tmp_path)
    found = sorted(_rows(linked, "start_ns", "kind", "payload_bytes", "point_to_point"))
    kinds = ["all_to_all"] * 4 + ["all_reduce", "all_to_all", "all_reduce", "all_reduce"]
    assert [f[1] for f in found] == kinds
    assert [f[2] for f in found] == [24576, 192, 1536, 13568, 1576964, 24576, 448, 907840]
    assert not any(f[3] for f in found)


def test_collectives_of_other_real_files(tmp_path: Path) -> None:
    expected = {
        ("kineto", "nccl_a100_rank0of2.json.gz"): {("kernel", "all_reduce"): 15, ("kernel", "broadcast"): 6},
        ("kineto", "gloo_cpu_rank34of300.pt.trace.json.gz"): {("host record", "all_reduce"): 10},
        ("nsys", "mpi_saxpy_a100_2021.sqlite"): {("range", "send"): 10, ("range", "recv"): 5},
        ("own", "nsys_cpu", "ddp_w2_straggler1", "rank0.sqlite"): {("range", "all_reduce"): 5},
        ("own", "nsys_cpu", "nvtx_2022.4.sqlite"): {("range", "all_reduce"): 3},
    }
    for parts, counts in expected.items():
        ((_, linked),) = link_file(shared("traces", *parts), tmp_path / parts[-1])
        found = _rows(linked, "evidence", "kind")
        assert {pair: found.count(pair) for pair in found} == counts


def test_ulysses_all_to_alls_of_two_ranks(tmp_path: Path) -> None:
    """One SendRecv kernel of each rank was launched before the capture: nothing tells what it does."""
    for _, linked in link_file(shared("traces", "nsys", "ddp_2gpu_2process.sqlite"), tmp_path):
        kinds = column(linked, "collectives", "kind")
        assert (kinds.count("all_to_all"), kinds.count("send_recv"), len(kinds)) == (32, 1, 33)
        assert column(linked, "collectives", "members") == [1] * 33
