"""Arguments of collectives become comm_records, anchored to their rows."""

from pathlib import Path
from typing import Any

import pytest

from kineto_read import Trace, event, kernel, read_events

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def records(trace: Trace, *columns: str) -> list[Any]:
    return trace.rows("comm_records", *columns)


def test_kernel(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        kernel("gemm", 1),
        kernel(
            NCCL, 2, Collective_name="allreduce", In_msg_nelems=1000, Out_msg_nelems=2000, Group_size=2,
            dtype="BFloat16", Process_Group_Name="0", Process_Group_Description="default_pg",
            Process_Group_Ranks="[1, 0]", Seq=7, Comms_Id=17749303442098765432,
        ),
        kernel(NCCL, 3),  # coalesced: no arguments
    )  # fmt: skip
    assert records(trace) == [
        {
            "anchor": "device_ops", "row": 1, "name": "allreduce",
            "group_name": "0", "group_desc": "default_pg",
            "group_ranks": [0, 1], "group_size": 2, "communicator": "17749303442098765432", "seq": 7,
            "point_to_point": False, "peer_rank": None, "dtype": "bf16",
            "elements_in": 1000, "elements_out": 2000, "payload_bytes": None,
        }
    ]  # fmt: skip


def test_host_records(tmp_path: Path) -> None:
    trace = read_events(
        tmp_path,
        event("cpu_op", "aten::mm", 1),
        event("cpu_op", "record_param_comms", 2, Collective_name="wait", dtype="Byte"),
        event("user_annotation", "gloo:all_reduce", 3, Input_Dims=[[8, 16], [3]], Input_type=["float"] * 2),
        event("user_annotation", "nccl:all_reduce", 4),
        event("user_annotation", "my nccl:all_reduce", 5),
        event(
            "cpu_op", "record_param_comms", 6,
            Input_Dims=[[[10], [2, 3]], [], []], Input_type=["TensorList", "Int", ""],
        ),
        event("user_annotation", "gloo:all_gather", 7, Input_Dims=[[4], [4]], Input_type=["float", "int"]),
        event("user_annotation", "gloo:reduce", 8, Input_Dims=[[], [5]], Input_type=["double", "Scalar"]),
    )  # fmt: skip
    assert records(trace, "anchor", "row", "name", "dtype", "elements_in") == [
        ("host_ops", 1, "wait", "u8", None),
        ("host_ops", 2, None, "f32", 131),
        ("host_ops", 3, None, None, None),
        ("host_ops", 5, None, None, 16),
        ("host_ops", 6, None, None, None),
        ("host_ops", 7, None, "f64", 1),
    ]


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("send", {"Dst Rank": 3, "Src Rank": 1}, (True, 3)),
        ("recv", {"Dst Rank": 3, "Src Rank": 1}, (True, 1)),
        ("allreduce", {}, (False, None)),
        ("broadcast", {"Src Rank": 2, "Dst Rank": -1}, (False, 2)),
        ("all_to_all", {"Dst Rank": -1}, (False, None)),
        ("coalesced", {}, (True, None)),
    ],
)
def test_peers(tmp_path: Path, name: str, args: dict[str, int], expected: tuple[bool, int | None]) -> None:
    trace = read_events(
        tmp_path, kernel("ncclDevKernel_SendRecv(x)", 1, literally={"Collective name": name, **args})
    )
    assert records(trace, "point_to_point", "peer_rank") == [expected]


THIRTY = ", ".join(map(str, range(30)))
INFO = {
    "backend": "nccl",
    "rank": 0,
    "world_size": 64,
    "pg_config": [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 64, "ranks": list(range(64))},
        {"pg_name": "7", "pg_desc": "dp", "pg_size": 32, "ranks": list(range(0, 64, 2))},
    ],
}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"Process Group Name": "7", "Group size": 32}, list(range(0, 64, 2))),
        ({"Process Group Name": "9", "Group size": 64}, list(range(64))),  # as large as the job
        ({"Process Group Name": "9", "Group size": 32}, None),
        ({"Group size": 32, "Global rank start": 32, "Global rank stride": 1}, list(range(32, 64))),
        ({"Group size": 32, "Global rank start": 32, "Global rank stride": -1}, None),
        ({"Process Group Name": "7", "Group size": 31}, None),  # not the group of that name
    ],
)
def test_members_cut_off(tmp_path: Path, args: dict[str, Any], expected: list[int] | None) -> None:
    cut = {"Collective name": "allreduce", "Process Group Ranks": f"[{THIRTY}, ...]", **args}
    trace = read_events(tmp_path, kernel(NCCL, 1, literally=cut), distributedInfo=INFO)
    assert records(trace, "group_ranks") == [expected]


def test_the_only_group_of_the_job(tmp_path: Path) -> None:
    one = {**INFO, "pg_config": INFO["pg_config"][:1]}  # type: ignore[index]
    gloo = event("user_annotation", "gloo:all_reduce", 1, Input_Dims=[[3]], Input_type=["float"])
    trace = read_events(tmp_path, gloo, distributedInfo=one)
    assert records(trace, "group_name", "group_desc", "group_size") == [("0", "default_pg", 64)]
    assert records(trace, "group_ranks") == [list(range(64))]
    assert records(read_events(tmp_path, gloo, distributedInfo=INFO), "group_name") == [None]


@pytest.mark.parametrize("value", [None, "", 5, -1, 2**70, [], {}, [[["x"]]], "[1,", "[-1]", True, 1.5])
def test_nonsense(tmp_path: Path, value: Any) -> None:
    keys = (
        "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name", "Process Group Ranks",
        "Process Group Description", "Global rank start", "Global rank stride", "Src Rank", "Seq", "Comms Id",
        "Input type", "Input Dims",
    )  # fmt: skip
    odd = {"Collective name": value or "allreduce", **dict.fromkeys(keys, value)}
    info = {"rank": value, "world_size": value, "pg_config": [{"pg_name": value, "ranks": value}, value]}
    trace = read_events(
        tmp_path,
        kernel(NCCL, 1, literally=odd),
        event("cpu_op", "nccl:x", 1, literally=odd),
        distributedInfo=info,
    )
    assert len(records(trace, "row")) == 2
