"""Secrets planted wherever an export keeps environments, command lines, users and paths: none gets out."""

import json
from pathlib import Path
from typing import Any

import pytest

from nsys_export import Read, Rows, call, export, global_pid, global_tid, kernel, nvtx, strings
from shared import shared

SECRET = "hunter2"
ENV = {"PATH": "/usr/bin", "API_TOKEN": SECRET, "HOME": f"/home/{SECRET}", "RANK": "3", "WORLD_SIZE": "8"}


def block(environment: dict[str, str], between: str = "\0") -> str:
    return between.join(f"{k}={v}" for k, v in environment.items())


def variables(environment: dict[str, str], process: int = 0) -> Rows:
    name = f"PROCESS_{process}:ENVIRONMENT_VARIABLE"
    return [{"name": name, "value": f'{k}="{v}"'} for k, v in environment.items()]


def outcome(read: Read) -> bytes:
    """All that leaves the reader: staged bytes, facts and messages."""
    messages = json.dumps([d.row(0, None) for d in read.facts.diagnostics])
    return read.staged_bytes() + repr(read.facts).encode() + messages.encode()


COMMON: dict[str, Any] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(0, 1)],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [call(0, 1, nameId=2)],
    "NVTX_EVENTS": [
        nvtx(0, 1, None, textId=3),
        nvtx(0, None, f"thread of {SECRET}", eventType=39),
        nvtx(0, None, f"category of {SECRET}", eventType=33),
    ],
    "PROCESSES": [{"globalPid": global_pid(11), "pid": 11, "name": f"/home/{SECRET}/bin/python"}],
    "ProcessStreams": [{"globalPid": global_pid(11), "filenameId": 5, "contentId": 6}],
    "ThreadNames": [{"nameId": 5, "globalTid": global_tid(11, 11)}],
    "DIAGNOSTIC_EVENT": [{"timestamp": 0, "severity": 2, "text": f"lost in /home/{SECRET}"}],
    "OSRT_API": [{"start": 0, "end": 1, "nameId": 5, "globalTid": global_tid(11, 11)}],
    f"X_{SECRET}": [{"start": 1}],
}


def test_newer_layout(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm", "cudaLaunchKernel_v7000", "step", "unused", f"path of {SECRET}", SECRET),
        META_DATA_CAPTURE=[
            *variables(ENV),
            {"name": "PROCESS_0:COMMAND", "value": f"/home/{SECRET}/train.py"},
            {"name": "PROCESS_0:ARGUMENT_0", "value": f"--token={SECRET}"},
            {"name": "PROCESS_0:WORKING_DIR", "value": f"/home/{SECRET}"},
            {"name": "PROCESS_0:USER_NAME", "value": SECRET},
            {"name": "PROCESS_0:PID", "value": "0"},
        ],
        META_DATA_EXPORT=[
            {"name": "EXPORT_USER", "value": SECRET},
            {"name": "EXPORT_PRODUCT_VERSION", "value": f"2024 {SECRET}"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": f"{SECRET}"},
            {"name": "EXPORT_PARAM_INPUT_PATH_ABS", "value": f"/home/{SECRET}/x.nsys-rep"},
        ],
        TARGET_INFO_SYSTEM_ENV=[
            {"globalVid": 1 << 48, "name": "Hostname", "value": "node1"},
            {"globalVid": 1 << 48, "name": "DeviceEnvironment", "value": block(ENV)},
            {"globalVid": 1 << 48, "name": "TargetInstallDir", "value": f"/home/{SECRET}"},
        ],
        **COMMON,
    )
    read = Read(path, tmp_path / "s")
    assert (read.count("device_ops"), read.count("launches"), read.count("host_ops")) == (1, 1, 1)
    assert [(p.rank, p.rank_origin, p.world_size) for p in read.processes] == [(3, "environment", 8)]
    assert SECRET.encode() not in outcome(read)
    assert b"unused" not in outcome(read)


@pytest.mark.parametrize("between", ["\0", "\n"])
def test_older_layout(tmp_path: Path, between: str) -> None:
    """The whole environment is one text among the names."""
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm", "cudaLaunchKernel_v7000", "step", block(ENV, between), f"of {SECRET}"),
        **COMMON,
    )
    read = Read(path, tmp_path / "s")
    assert [(p.rank, p.world_size) for p in read.processes] == [(3, 8)]
    assert SECRET.encode() not in outcome(read)


def test_the_agents_environment(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm", "cudaLaunchKernel_v7000", "step"),
        TARGET_INFO_SYSTEM_ENV=[{"globalVid": 0, "name": "DeviceEnvironment", "value": block(ENV)}],
        **COMMON,
    )
    read = Read(path, tmp_path / "s")
    assert [(p.rank, p.world_size) for p in read.processes] == [(3, 8)]
    assert SECRET.encode() not in outcome(read)


def test_real_environments_stay_in_the_file(tmp_path: Path) -> None:
    for name in ("nvtx_2022.4.sqlite", "nvtx_2023.4.sqlite", "ddp_w2_straggler1/rank1.sqlite"):
        read = Read(shared("traces", "own", "nsys_cpu", name), tmp_path / name.replace("/", "-"))
        for text in (b"OPENBLAS", b"LD_PRELOAD", b"Haswell", b"/opt/", b"python3", b"MASTER_ADDR", b"nsight"):
            assert text not in outcome(read)


def test_a_variable_named_in_passing_is_no_environment(tmp_path: Path) -> None:
    """A kernel or range may hold `RANK=`: only blocks of variables count."""
    path = export(
        tmp_path / "x.sqlite",
        StringIds=strings("gemm", "cudaLaunchKernel_v7000", "step", "note: RANK=5", "RANK=6"),
        **COMMON,
    )
    assert [p.rank for p in Read(path, tmp_path / "s").processes] == [None]


def processes(*pids: int) -> dict[str, Any]:
    return {"CUPTI_ACTIVITY_KIND_KERNEL": [kernel(0, 1, globalPid=global_pid(p)) for p in pids]}


def test_a_launchers_rank_is_nobodys(tmp_path: Path) -> None:
    """One environment, two processes: which of them would be rank 3?"""
    path = export(tmp_path / "x.sqlite", META_DATA_CAPTURE=variables(ENV), **processes(11, 12))
    read = Read(path, tmp_path / "s")
    assert [(p.rank, p.rank_origin, p.world_size) for p in read.processes] == [(None, None, None)] * 2


def test_environments_tied_by_pid(tmp_path: Path) -> None:
    capture: list[Any] = []
    for number, (pid, rank) in enumerate(((12, 1), (11, 0))):
        capture += variables({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}, number)
        capture.append({"name": f"PROCESS_{number}:PID", "value": str(pid)})
    path = export(tmp_path / "x.sqlite", META_DATA_CAPTURE=capture, **processes(11, 12))
    read = Read(path, tmp_path / "s")
    assert [(p.pid, p.rank, p.local_rank, p.world_size) for p in read.processes] == [
        (11, 0, 0, 2),
        (12, 1, 1, 2),
    ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (5, None, 1)),
        ({"PMI_RANK": "4", "PMI_SIZE": "9"}, (4, 9, None)),
        ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}, (2, 4, 0)),
        ({"RANK": "1", "SLURM_PROCID": "0"}, (1, None, None)),
        ({"RANK": "-1", "WORLD_SIZE": "many"}, (None, None, None)),
        ({"RANK": "99999999999999999999"}, (None, None, None)),
    ],
)  # fmt: skip
def test_who_sets_ranks(
    tmp_path: Path, environment: dict[str, str], expected: tuple[int | None, ...]
) -> None:
    path = export(tmp_path / "x.sqlite", META_DATA_CAPTURE=variables(environment), **processes(11))
    (facts,) = Read(path, tmp_path / "s").processes
    assert (facts.rank, facts.world_size, facts.local_rank) == expected


def test_visible_devices_name_the_gpu(tmp_path: Path) -> None:
    path = export(
        tmp_path / "x.sqlite",
        META_DATA_CAPTURE=variables({"CUDA_VISIBLE_DEVICES": "2,0"}),
        TARGET_INFO_GPU=[{"id": i, "name": f"GPU {i}"} for i in range(3)],
        **processes(11),
    )
    (facts,) = Read(path, tmp_path / "s").processes
    assert [(d["device_id"], d["name"]) for d in facts.devices] == [(0, "GPU 2")]
