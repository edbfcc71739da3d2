"""Small reproduction inputs of reported conditions, at the level of staged rows."""

from pathlib import Path
from typing import Any

import pytest

from kineto_read import Trace, read_file
from shared import shared


def case(name: str, file: str, folder: Path) -> Trace:
    return read_file(shared("cases", name, file), folder)


def test_01_backslashes(tmp_path: Path) -> None:
    trace = case("01_unescaped_backslash_paths", "windows_paths.json", tmp_path)
    assert trace.rows("host_ops", "name", "input_dims") == [
        ("src\\nets\\unit.py(7): step", None),
        ("aten::mm", "[[8, 16], [16, 4]]"),
        ("d:\\work\\a b.py(9): run", None),
    ]
    assert [d.count for d in trace.facts.diagnostics if d.code == "repaired_text"] == [3]
    right = case("01_unescaped_backslash_paths", "wellformed.json", tmp_path)
    assert right.rows("host_ops", "name") == ["d:\\work\\new.py(3): f"]
    assert "repaired_text" not in right.codes


def test_02_control_and_bad_bytes(tmp_path: Path) -> None:
    trace = case("02_control_char_and_bad_utf8", "bad_bytes.json", tmp_path)
    assert trace.rows("host_ops", "name") == ["aten::add\tinner", "stage \ufffd\ufffd one"]
    assert trace.rows("device_ops", "name", "dur_ns") == [("k1", 4000)]
    (repaired,) = [d for d in trace.facts.diagnostics if d.code == "repaired_text"]
    assert "invalid UTF-8: 2" in str(repaired.detail)


def test_03_non_finite(tmp_path: Path) -> None:
    trace = case("03_inf_nan_NA_literals", "nonfinite.json", tmp_path)
    assert trace.stored == 4
    assert trace.rows("device_ops", "kind", "bytes", "start_ns", "dur_ns", "occupancy_percent") == [
        ("memcpy", 200, 104_000, 0, None),
        ("memcpy", 400, 110_000, 2000, None),
        ("kernel", None, 120_000, 4000, None),
    ]


def test_04_truncated(tmp_path: Path) -> None:
    trace = case("04_truncated_file", "cut.json", tmp_path)
    assert trace.rows("host_ops", "name") == ["aten::mm"]
    assert trace.rows("device_ops", "name", "dur_ns") == [("k1", 7000), ("k2", 5000)]
    assert trace.facts.truncated
    assert trace.codes == ["truncated", "no_shapes"]
    stream = case("04_truncated_file", "cut_stream.json.gz", tmp_path)
    assert stream.rows("device_ops", "correlation") == list(range(229))
    assert (stream.facts.truncated, stream.facts.compression) == (True, "gzip")


def test_09_bases_differ(tmp_path: Path) -> None:
    found = []
    for rank in (0, 1):
        trace = case("09_base_time_differs_between_ranks", f"rank{rank}.json", tmp_path)
        found.append((trace.process.rank, *trace.rows("device_ops", "start_ns", "dur_ns")[0]))
    assert found == [(0, 1767193000123456789, 5000), (1, 1767193000123459289, 2500)]


def test_11_below_a_microsecond(tmp_path: Path) -> None:
    trace = case("11_sub_microsecond_durations", "tiny.json", tmp_path)
    assert trace.rows("device_ops", "name", "start_ns", "dur_ns") == [
        ("tiny", 100_700, 200), ("tiny", 101_300, 200), ("tiny", 102_100, 200), ("big", 103_000, 2000),
    ]  # fmt: skip


def test_12_overlap_on_a_stream(tmp_path: Path) -> None:
    trace = case("12_same_stream_overlap", "rounding.json", tmp_path)
    intervals = sorted((s, s + d) for s, d in trace.rows("device_ops", "start_ns", "dur_ns"))
    assert intervals[-1][1] - intervals[0][0] == 19_999
    corrupt = case("12_same_stream_overlap", "corrupt.json", tmp_path)
    durations = corrupt.rows("device_ops", "dur_ns")
    assert (len(durations), max(durations), sum(durations) - max(durations)) == (101, 2 * 10**9, 10**6)


def test_14_old_categories(tmp_path: Path) -> None:
    trace = case("14_pid_tid_strings_old_categories", "old_style.json", tmp_path)
    (op,) = trace.rows("host_ops")
    assert (op["name"], op["kind"], op["external_id"], op["thread_id"]) == ("aten::mm", "operator", 3, 77)
    assert "".join(op["input_dims"].split()) == "[[4,4],[4,4]]"
    assert trace.rows("launches", "name", "correlation", "external_id") == [("cudaLaunchKernel", 11, 3)]
    columns = ("kind", "name", "device_id", "stream_id", "dur_ns", "bytes", "copy_kind", "correlation")
    assert trace.rows("device_ops", *columns) == [
        ("kernel", "gemm", 0, 7, 8000, None, None, 11),
        ("memcpy", "Memcpy DtoH", 0, 7, 1000, 64, "DtoH", 12),
    ]
    assert (trace.process.pid, trace.stored, trace.skipped) == (77, 4, 3)


def test_15_classes(tmp_path: Path) -> None:
    trace = case("15_overlap_sync_and_new_nccl_names", "sync.json", tmp_path)
    assert trace.rows("device_ops", "class", "start_ns", "dur_ns") == [
        ("compute", 180_000, 60_000), ("communication", 200_000, 100_000), ("sync", 150_000, 500_000),
    ]  # fmt: skip


def test_18_graph_kernels(tmp_path: Path) -> None:
    trace = case("18_cuda_graph_kernels", "graph.json", tmp_path)
    assert trace.rows("launches", "correlation", "dur_ns") == [(50, 20_000)]
    assert trace.rows("device_ops", "correlation") == [50] * 5 + [900, 901]
    assert trace.rows("device_ops", "graph_id", "graph_node_id")[4:6] == [(3, 3004), (4, 4000)]


def test_20_one_side_only(tmp_path: Path) -> None:
    gpu = case("20_gpu_only_and_cpu_only", "gpu_only.json", tmp_path)
    assert gpu.rows("device_ops", "start_ns", "dur_ns") == [(0, 10_000), (20_000, 20_000)]
    assert (gpu.process.pid, gpu.codes) == (None, ["no_host_ops"])
    cpu = case("20_gpu_only_and_cpu_only", "cpu_only.json", tmp_path)
    assert len(cpu.rows("host_ops")) == 2
    assert (cpu.process.pid, cpu.codes) == (100, ["no_kernels", "no_shapes"])


@pytest.mark.parametrize("file", ["no_rank_key.json", "worker_rank0.json", "worker_rank1.json"])
def test_21_no_rank(tmp_path: Path, file: str) -> None:
    trace = case("21_rank_missing", file, tmp_path)
    assert (trace.process.rank, trace.process.rank_origin) == (None, None)
    assert len(trace.rows("comm_records")) == 1


def test_23_no_steps(tmp_path: Path) -> None:
    trace = case("23_no_profilerstep", "nostep.json", tmp_path)
    assert trace.rows("device_ops", "start_ns", "dur_ns") == [(5000, 10_000), (20_000, 20_000)]


def test_25_sequence_numbers(tmp_path: Path) -> None:
    def seqs(file: str) -> list[Any]:
        return case("25_partial_collective", file, tmp_path).rows("comm_records", "seq", "elements_in")

    assert seqs("seq_rank1.json") == [(1, 1000), (3, 3000)]
    assert [s for s, _ in seqs("seq_rank0.json")] == [1, 2, 3, 4]
    assert seqs("noseq_rank0.json") == [(None, 1000), (None, 2000), (None, 3000), (None, 1000)]


def test_26_clock_skew(tmp_path: Path) -> None:
    for rank in (0, 1):
        trace = case("26_clock_skew_between_nodes", f"rank{rank}.json", tmp_path)
        assert (trace.process.rank, trace.process.host) == (rank, None)
        assert trace.rows("comm_records", "group_ranks") == [[0, 1]] * 3


def test_27_point_to_point(tmp_path: Path) -> None:
    peers = []
    for rank in range(4):
        trace = case("27_sendrecv_and_broadcast", f"rank{rank}.json", tmp_path)
        columns = ("name", "point_to_point", "peer_rank", "group_ranks")
        peers.append(trace.rows("comm_records", *columns)[0])
        assert [r[1] for r in trace.rows("comm_records", *columns)[1:]] == [False, False]
    assert peers == [
        ("send", True, 1, [0, 1]), ("recv", True, 0, [0, 1]),
        ("send", True, 3, [2, 3]), ("recv", True, 2, [2, 3]),
    ]  # fmt: skip


def test_29_world_sizes(tmp_path: Path) -> None:
    stated = []
    for rank in (0, 5, 6):
        trace = case("29_world_size_mismatch", f"rank{rank}.json", tmp_path)
        stated.append((trace.process.rank, trace.process.world_size))
        assert trace.rows("comm_records", "group_size", "group_ranks", "seq") == [(8, list(range(8)), 1)]
    assert stated == [(0, 8), (5, 8), (6, 4)]


def test_41_duplicates(tmp_path: Path) -> None:
    trace = case("41_duplicate_keys_and_events", "dups.json", tmp_path)
    assert trace.rows("device_ops", "kind", "stream_id", "duplicate") == [
        ("kernel", 9, False),
        ("kernel", 9, True),
    ]
    assert "duplicate_events" in trace.codes
