"""The simulated job in three formats: each readable, faithful to its producer, and the same job in all."""

import gzip
import json
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import simulate
from simulate import Config, Job, Straggler, job, write_horovod, write_kineto, write_nsys, write_truth
from simulate.__main__ import duration_ns, main
from simulate.nsys_meta import PLANTED

Event = dict[str, Any]
Span = tuple[str, int, int]


@pytest.fixture(scope="module")
def made() -> Job:
    return job(Config(layers=4, steps=3, stragglers=(Straggler(5),)))


@pytest.fixture(scope="module")
def traces(made: Job, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Kineto traces by rank; numbers with a point stay exact."""
    paths = write_kineto(made, tmp_path_factory.mktemp("kineto"))
    return [json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal) for path in paths]


@pytest.fixture(scope="module")
def reports(made: Job, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_nsys(made, tmp_path_factory.mktemp("nsys"))


@pytest.fixture(scope="module")
def timeline(made: Job, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    path = write_horovod(made, tmp_path_factory.mktemp("horovod"))
    return list(json.loads(path.read_text()))


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


def events(trace: dict[str, Any], category: str) -> list[Event]:
    return [e for e in trace["traceEvents"] if e.get("cat") == category and e["ph"] == "X"]


def spans(trace: dict[str, Any], category: str) -> list[Span]:
    """Name, start and end in ns since 1970, exactly."""
    base = trace["baseTimeNanoseconds"]
    found = []
    for event in events(trace, category):
        start = base + int(event["ts"] * 1000)
        found.append((event["name"], start, start + int(event["dur"] * 1000)))
    return found


def expected(made: Job, rank: int, kind: str) -> list[Span]:
    tasks = [t for t in made.ranks[rank].tasks if t.kind == kind]
    return [(t.name, made.read(rank, t.start), made.read(rank, t.end)) for t in tasks]


def test_kineto_times_are_the_rank_s_clock_to_the_ns(made: Job, traces: list[dict[str, Any]]) -> None:
    for rank, trace in enumerate(traces):
        assert spans(trace, "kernel") == expected(made, rank, "kernel")
        assert spans(trace, "gpu_memcpy") == expected(made, rank, "memcpy")
        assert spans(trace, "gpu_memset") == expected(made, rank, "memset")


def test_kineto_holds_what_truth_counts(made: Job, traces: list[dict[str, Any]]) -> None:
    for counts, trace in zip(made.truth["counts"], traces, strict=True):
        categories = Counter(e["cat"] for e in trace["traceEvents"] if e["ph"] == "X")
        assert categories["kernel"] == counts["kernels"]
        assert categories["cuda_runtime"] == counts["launches"]
        assert categories["cpu_op"] == counts["operators"]
        assert categories["user_annotation"] == counts["annotations"]
        assert categories["python_function"] == counts["modules"] + counts["python_frames"]
        assert categories["cuda_sync"] == counts["sync"]


def test_kineto_says_who_it_is(traces: list[dict[str, Any]]) -> None:
    for rank, trace in enumerate(traces):
        assert trace["distributedInfo"]["rank"] == rank
        assert trace["distributedInfo"]["world_size"] == 8
        assert trace["distributedInfo"]["pg_config"][0]["ranks"] == list(range(8))
        assert trace["host_name"] == ("node0" if rank < 4 else "node1")
        assert [e["name"] for e in events(trace, "user_annotation") if "Profiler" in e["name"]] == [
            "ProfilerStep#0",
            "ProfilerStep#1",
            "ProfilerStep#2",
        ]


def test_kineto_kernels_are_launched_inside_their_operators(traces: list[dict[str, Any]]) -> None:
    launches = {e["args"]["correlation"]: e for e in events(traces[5], "cuda_runtime")}
    operators = {
        e["args"]["External id"]: e
        for e in events(traces[5], "cpu_op") + events(traces[5], "user_annotation")
    }
    for kernel in events(traces[5], "kernel"):
        launch = launches[kernel["args"]["correlation"]]
        operator = operators[kernel["args"]["External id"]]
        assert launch["ts"] < kernel["ts"]
        assert operator["ts"] < launch["ts"]
        assert launch["ts"] + launch["dur"] < operator["ts"] + operator["dur"]
        assert launch["tid"] == operator["tid"]


def test_kineto_collectives_carry_their_arguments(made: Job, traces: list[dict[str, Any]]) -> None:
    own = [c for c in made.truth["collectives"] if 5 in c["group_ranks"]]
    kernels = [e for e in events(traces[5], "kernel") if e["name"].startswith("nccl")]
    assert [e["args"]["Seq"] for e in kernels] == [c["seq"] for c in own]
    assert [2 * e["args"]["In msg nelems"] for e in kernels] == [c["payload_bytes"] for c in own]
    assert {e["args"]["Process Group Ranks"] for e in kernels} == {"[0, 1, 2, 3, 4, 5, 6, 7]"}
    records = [e for e in events(traces[5], "cpu_op") if e["name"] == "record_param_comms"]
    assert [e["args"]["Seq"] for e in records] == [c["seq"] for c in own]


def test_kineto_backward_points_to_its_forward(traces: list[dict[str, Any]]) -> None:
    ops = events(traces[0], "cpu_op")
    forward = {e["args"]["Sequence number"] for e in ops if e["args"].get("Fwd thread id") == 0}
    backward = [e for e in ops if e["name"] == "AddmmBackward0"]
    assert len(backward) == 4 * 3
    assert all(e["args"]["Fwd thread id"] == 1 and e["args"]["Sequence number"] in forward for e in backward)


def test_long_lists_of_ranks_are_cut(tmp_path: Path) -> None:
    many = job(Config(ranks=32, gpus_per_host=8, layers=1, steps=1))
    trace = json.loads(gzip.decompress(write_kineto(many, tmp_path)[0].read_bytes()))
    kernel = next(e for e in events(trace, "kernel") if e["name"].startswith("nccl"))
    assert kernel["args"]["Process Group Ranks"].endswith("28, 29, ...]")
    assert len(trace["distributedInfo"]["pg_config"][0]["ranks"]) == 32


KERNELS = """
SELECT s.value, k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName
WHERE k.globalPid >> 24 & 16777215 = {pid} ORDER BY k.rowid"""


def test_nsys_has_the_same_kernels_as_kineto(
    made: Job, traces: list[dict[str, Any]], reports: list[Path]
) -> None:
    for place in made.places:
        report = reports[place.host]
        ((session,),) = query(report, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME")
        rows = query(report, KERNELS.format(pid=place.pid))
        found = [(name, session + start, session + end) for name, start, end in rows]
        assert found == spans(traces[place.rank], "kernel")


def test_nsys_correlations_are_unique_in_a_process_only(made: Job, reports: list[Path]) -> None:
    kernels = sum(c["kernels"] for c in made.truth["counts"][:4])
    join = """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = k.correlationId"""
    assert query(reports[0], join)[0][0] > kernels
    assert query(reports[0], f"{join} AND r.globalTid >> 24 = k.globalPid >> 24") == [(kernels,)]


def test_nsys_names_ranks_devices_and_host(reports: list[Path]) -> None:
    environment = query(
        reports[1],
        "SELECT value FROM META_DATA_CAPTURE "
        "WHERE name LIKE '%:ENVIRONMENT_VARIABLE' AND value LIKE 'RANK=%'",
    )
    assert [value for (value,) in environment] == [f'RANK="{rank}"' for rank in (4, 5, 6, 7)]
    assert query(reports[1], "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname'") == [
        ("node1",)
    ]
    assert query(reports[1], "SELECT DISTINCT deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(0,)]
    devices = query(reports[1], "SELECT gpuId, cudaId, pid FROM TARGET_INFO_CUDA_DEVICE")
    assert devices == [(0, 0, 4100), (1, 0, 4107), (2, 0, 4114), (3, 0, 4121)]
    gpus = query(reports[1], "SELECT count(DISTINCT uuid), max(memoryBandwidth) FROM TARGET_INFO_GPU")
    assert gpus == [(4, 3_352_320_000_000)]


def test_nsys_ranges_are_steps_layers_operators_and_nccl(made: Job, reports: list[Path]) -> None:
    text = "COALESCE(n.text, s.value)"
    rows = query(
        reports[0],
        f"SELECT {text}, domainId FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId "
        f"WHERE eventType = 59 AND globalTid >> 24 & 16777215 = 4100",
    )
    names = Counter(name for name, domain in rows if domain == 0)
    assert [names[f"step {step}"] for step in range(3)] == [1, 1, 1]
    assert names["Linear_3"] == 3
    first = next(name for name in names if name.startswith("aten::addmm"))
    assert first == "aten::addmm, seq = 1, op_id = 14, sizes = [[4096], [8192, 1024], [1024, 4096], [], []]"
    nccl = Counter(name for name, domain in rows if domain == 1)
    own = Counter(c["kind"] for c in made.truth["collectives"])
    assert nccl == {
        "ncclCommInitRank": 1,
        "ncclBroadcast": own["broadcast"],
        "ncclAllReduce": own["all_reduce"],
    }


def nccl_payloads(path: Path, process: int) -> list[bytes]:
    sql = f"""SELECT binaryData FROM NVTX_EVENTS WHERE binaryData IS NOT NULL
    AND globalTid >> 24 & 16777215 = {process} ORDER BY rowid"""
    return [payload for (payload,) in query(path, sql)]


def test_nsys_payloads_say_communicator_and_bytes(made: Job, reports: list[Path]) -> None:
    """32 bytes of header, then communicator and bytes; of the first: communicator, size and rank."""
    first, *calls = nccl_payloads(reports[1], 4107)
    communicator = made.collectives[0].group.communicator
    assert struct.unpack_from("<Qii", first, 32) == (communicator, 8, 5)
    found = [struct.unpack_from("<QQ", payload, 32) for payload in calls]
    assert found == [(communicator, c["payload_bytes"]) for c in made.truth["collectives"]]
    headers = {struct.unpack_from("<QQQQ", payload) for payload in calls}
    assert {(domain, size, whole) for domain, _, size, whole in headers} == {(1, 24, 56)}


def test_nsys_payloads_of_one_rank_s_share(tmp_path: Path) -> None:
    """NCCL counts what one rank sends (all-gather) or gets (reduce-scatter)."""
    sharded = job(Config(layers=2, steps=1, strategy="fsdp", startup=False))
    path = write_nsys(sharded, tmp_path)[0]
    sizes = [struct.unpack_from("<Q", payload, 40)[0] for payload in nccl_payloads(path, 4100)[1:]]
    assert sizes == [c["elements"] // 8 * 2 for c in sharded.truth["collectives"]]


def test_nsys_without_payloads_has_no_tables_for_them(made: Job, tmp_path: Path) -> None:
    path = write_nsys(made, tmp_path, payloads=False)[0]
    tables = [name for (name,) in query(path, "SELECT name FROM sqlite_master")]
    assert not [name for name in tables if "PAYLOAD" in name]
    assert nccl_payloads(path, 4100) == []


def test_nsys_one_report_per_rank(made: Job, tmp_path: Path) -> None:
    paths = write_nsys(made, tmp_path, per_rank=True)
    assert [p.name for p in paths] == [f"rank{rank}.sqlite" for rank in range(8)]
    assert query(paths[5], "SELECT pid FROM PROCESSES") == [(4107,)]
    ((kernels,),) = query(paths[5], "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert kernels == made.truth["counts"][5]["kernels"]


def test_nsys_secrets_are_there_only_when_planted(made: Job, reports: list[Path], tmp_path: Path) -> None:
    planted = write_nsys(made, tmp_path, secrets=True)
    assert all(PLANTED.encode() in path.read_bytes() for path in planted)
    assert all(PLANTED.encode() not in path.read_bytes() for path in reports)


def test_horovod_pairs_close_and_ticks_name_every_rank(timeline: list[Event]) -> None:
    depth: Counter[int] = Counter()
    ticks: dict[int, list[str]] = {}
    for event in timeline:
        if event["ph"] == "B":
            depth[event["pid"]] += 1
        elif event["ph"] == "E":
            depth[event["pid"]] -= 1
            assert depth[event["pid"]] >= 0
        elif event["ph"] == "X":
            ticks.setdefault(event["pid"], []).append(event["name"])
    assert set(depth.values()) == {0}
    for heard in ticks.values():
        rounds = [sorted(heard[k : k + 8]) for k in range(0, len(heard), 8)]
        assert all(names == list("01234567") for names in rounds)


def _negotiations(timeline: list[Event], tensor: str) -> list[list[tuple[int, int]]]:
    """Ticks (rank, µs) of each negotiation of a tensor, in order."""
    (number,) = [e["pid"] for e in timeline if e["ph"] == "M" and e["args"].get("name") == tensor]
    found: list[list[tuple[int, int]]] = []
    for event in timeline:
        if (
            event.get("pid") == number
            and event["name" if event["ph"] == "B" else "ph"] == "NEGOTIATE_ALLREDUCE"
        ):
            found.append([])
        elif event.get("pid") == number and event["ph"] == "X":
            found[-1].append((int(event["name"]), event["ts"]))
    return found


def test_horovod_last_tick_is_the_last_gradient(made: Job, timeline: list[Event]) -> None:
    """Rank 5 is last in all of them; its tick is when its gradient was made, by rank 0's clock."""
    ready = {
        (g["rank"], g["step"]): g["true_ready_ns"]
        for g in made.truth["gradients"]
        if g["tensor"] == "layers.2.weight"
    }
    start = timeline[0]["args"]["start_time_since_epoch_in_micros"]
    rounds = _negotiations(timeline, "allreduce.layers.2.weight")
    assert len(rounds) == 3
    for step, ticks in enumerate(rounds):
        rank, ts = max(ticks, key=lambda tick: tick[1])
        assert rank == 5
        assert ts == pytest.approx(ready[5, step] // 1000 - start, abs=5)


def test_horovod_transfers_are_rank_0_s_kernels(made: Job, timeline: list[Event]) -> None:
    """From the last rank's arrival to the end of rank 0's kernel; fused tensors say the same."""
    opened: dict[int, list[Event]] = {}
    transfers = set()
    for event in timeline:
        if event["ph"] == "B":
            opened.setdefault(event["pid"], []).append(event)
        elif event["ph"] == "E":
            begin = opened[event["pid"]].pop()
            if begin["name"] == "NCCL_ALLREDUCE":
                transfers.add((begin["ts"], event["ts"]))
    start = timeline[0]["args"]["start_time_since_epoch_in_micros"] * 1000
    own = [c for c in made.truth["collectives"] if c["kind"] == "all_reduce"]
    assert len(transfers) == len(own)
    for (begin, end), collective in zip(sorted(transfers), own, strict=True):
        assert begin == pytest.approx((max(collective["true_arrival_ns"].values()) - start) / 1000, abs=6)
        assert end == (collective["true_end_ns"]["0"] - start) // 1000


def test_horovod_with_the_cache_has_ticks_in_the_first_step_only(made: Job, tmp_path: Path) -> None:
    timeline = json.loads(write_horovod(made, tmp_path, cached=True).read_text())
    assert len(_negotiations(timeline, "allreduce.layers.2.weight")) == 1
    assert sum(e.get("name") == "ALLREDUCE" for e in timeline) == 3 * 8


def test_horovod_is_refused_where_it_could_not_have_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="data-parallel"):
        write_horovod(job(Config(layers=2, steps=1, strategy="fsdp")), tmp_path)


def test_every_format_is_written_twice_the_same(made: Job, tmp_path: Path) -> None:
    again = job(made.config)
    for folder, simulated in ((tmp_path / "a", made), (tmp_path / "b", again)):
        write_kineto(simulated, folder)
        write_nsys(simulated, folder)
        write_horovod(simulated, folder)
        write_truth(simulated, folder)
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_command_writes_all_formats_and_refuses_a_full_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    small = ["--layers", "2", "--steps", "1", "--straggler", "5", "--delay", "2ms"]
    assert main([str(out), *small]) == 0
    assert capsys.readouterr().out.startswith("8 ranks, 1 steps: kineto, nsys, horovod")
    assert sorted(p.name for p in out.iterdir()) == ["horovod", "kineto", "nsys", "truth.json"]
    assert json.loads((out / "truth.json").read_text())["stragglers"][0]["delay_ns"] == 2_000_000
    with pytest.raises(SystemExit) as refused:
        main([str(out), *small])
    assert refused.value.code == 2
    assert "not an empty folder" in capsys.readouterr().err


def test_the_folder_runs_as_a_program() -> None:
    folder = Path(simulate.__file__).parent
    done = subprocess.run([sys.executable, str(folder), "--help"], capture_output=True, text=True, check=True)
    assert "--straggler RANK" in done.stdout


def test_command_says_what_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "x"), "--straggler", "9"])
    assert "straggler 9 is no rank" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("text", "ns"),
    [("3ms", 3_000_000), ("250us", 250_000), ("7ns", 7), ("0.01s", 10_000_000), ("2", 2_000_000)],
)
def test_durations(text: str, ns: int) -> None:
    assert duration_ns(text) == ns
