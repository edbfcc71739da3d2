"""Every shared case, from the files to answers of SQL: what its expected.md asks for."""

from pathlib import Path

import pytest

from mdtrace.build.job import build
from mdtrace.errors import InputError
from mdtrace.metrics.engine import connect
from shared import shared

BUSY = "SELECT compute_ns + exposed_comm_ns + exposed_memory_ns FROM time_breakdown"
KERNELS = "SELECT count(*), sum(dur_ns) FROM device_ops WHERE kind = 'kernel'"
CODES = "SELECT code, severity FROM diagnostics ORDER BY ALL"
SKEW = "SELECT rank, delay_ns FROM arrival_skew ORDER BY instance_id, rank"
INSTANCES = "SELECT rank, seq, payload_bytes, instance_id FROM collectives ORDER BY rank, start_ns"

# case, files (none: all of the folder), query, rows.
ANSWERS: list[tuple[str, str, str, list[tuple[object, ...]]]] = [
    ("01_unescaped_backslash_paths", "windows_paths.json", "SELECT name, input_dims FROM host_ops ORDER BY 1",
     [("aten::mm", "[[8, 16], [16, 4]]"), (r"d:\work\a b.py(9): run", None), (r"src\nets\unit.py(7): step", None)]),
    ("01_unescaped_backslash_paths", "windows_paths.json", "SELECT count FROM diagnostics WHERE code = 'repaired_text'",
     [(3,)]),
    ("01_unescaped_backslash_paths", "wellformed.json", "SELECT name FROM host_ops", [(r"d:\work\new.py(3): f",)]),
    ("01_unescaped_backslash_paths", "wellformed.json", "SELECT count(*) FROM diagnostics WHERE code = 'repaired_text'",
     [(0,)]),
    ("02_control_char_and_bad_utf8", "", "SELECT name FROM host_ops ORDER BY 1",
     [("aten::add\tinner",), ("stage \ufffd\ufffd one",)]),
    ("02_control_char_and_bad_utf8", "", KERNELS, [(1, 4000)]),
    ("03_inf_nan_NA_literals", "", "SELECT count(*), sum(bytes), min(dur_ns) FROM device_ops WHERE kind = 'memcpy'",
     [(2, 600, 0)]),
    ("03_inf_nan_NA_literals", "", "SELECT sum(events_stored) FROM sources", [(4,)]),
    ("03_inf_nan_NA_literals", "", BUSY, [(6000,)]),
    ("04_truncated_file", "cut.json", BUSY, [(12_000,)]),
    ("04_truncated_file", "cut.json", "SELECT truncated, events_stored FROM sources", [(True, 3)]),
    ("04_truncated_file", "cut_stream.json.gz", "SELECT truncated, max(correlation), count(*) FROM sources, device_ops GROUP BY 1",
     [(True, 228, 229)]),
    ("06_horovod_only_open_bracket", "timeline.json", "SELECT format, events_read FROM sources", [("horovod", 0)]),
    ("06_horovod_only_open_bracket", "timeline.json", "SELECT count(*) FROM collectives", [(0,)]),
    ("07_horovod_no_close_partial_line", "",
     "SELECT rank, ready_ns, collective_id IS NOT NULL FROM arrivals ORDER BY ready_ns",
     [(0, 1_001_000, True), (2, 1_100_000, True), (1, 1_400_000, True), (0, 3_001_000, False)]),
    ("07_horovod_no_close_partial_line", "", "SELECT name, dur_ns FROM host_ops ORDER BY start_ns",
     [("NEGOTIATE_ALLREDUCE", 410_000), ("ALLREDUCE", 515_000), ("NCCL_ALLREDUCE", 500_000), ("NEGOTIATE_ALLREDUCE", None)]),
    ("07_horovod_no_close_partial_line", "", "SELECT max(delay_ns), any_value(rank) FILTER (wait_ns = 0) FROM arrival_skew",
     [(399_000, 1)]),
    ("09_base_time_differs_between_ranks", "", "SELECT rank, start_ns, dur_ns FROM device_ops ORDER BY 1",
     [(0, 1767193000123456789, 5000), (1, 1767193000123459289, 2500)]),
    ("11_sub_microsecond_durations", "", "SELECT count(*), sum(dur_ns), min(dur_ns) FROM device_ops WHERE name = 'tiny'",
     [(3, 600, 200)]),
    ("11_sub_microsecond_durations", "", BUSY, [(2600,)]),
    ("12_same_stream_overlap", "rounding.json", BUSY, [(19_999,)]),
    ("12_same_stream_overlap", "rounding.json", "SELECT count(*) FROM diagnostics WHERE code LIKE '%outlasts%'", [(0,)]),
    ("12_same_stream_overlap", "corrupt.json", BUSY, [(2_000_000_000,)]),
    ("12_same_stream_overlap", "corrupt.json",
     "SELECT severity, contains(message, 'bad_kernel') FROM diagnostics WHERE code = 'activity_outlasts_successors'",
     [("warning", True)]),
    ("12_same_stream_overlap", "corrupt.json", "SELECT count(*), sum(dur_ns) FROM device_ops WHERE name <> 'bad_kernel'",
     [(100, 1_000_000)]),
    ("14_pid_tid_strings_old_categories", "",
     """SELECT d.kind, d.device_id, d.stream_id, d.dur_ns, d.bytes, l.correlation, o.input_dims FROM device_ops d
        LEFT JOIN launches l USING (launch_id) LEFT JOIN host_ops o ON o.host_op_id = d.host_op_id ORDER BY 1""",
     [("kernel", 0, 7, 8000, None, 11, "[[4, 4], [4, 4]]"), ("memcpy", 0, 7, 1000, 64, None, None)]),
    ("14_pid_tid_strings_old_categories", "", "SELECT count(*), min(kind) FROM host_ops", [(1, "operator")]),
    ("15_overlap_sync_and_new_nccl_names", "",
     "SELECT comm_ns, compute_ns, overlap_ns, overlap_ratio, exposed_comm_ns FROM time_breakdown",
     [(100_000, 60_000, 40_000, 0.4, 60_000)]),
    ("15_overlap_sync_and_new_nccl_names", "", BUSY, [(120_000,)]),
    ("16_same_correlation_id_in_two_processes", "",
     """SELECT pid, d.correlation, d.start_ns - l.start_ns - l.dur_ns FROM device_ops d JOIN launches l USING (launch_id)
        JOIN processes p ON p.process_id = d.process_id ORDER BY 1, 2""",
     [(11, 1, 500), (11, 2, 700), (12, 1, 90), (12, 2, 100)]),
    *[("18_cuda_graph_kernels", file, query, rows)
      for file in ("graph.json", "graph.sqlite")
      for query, rows in (
          ("SELECT count(*), count(launch_id), count(layer_id) FROM device_ops", [(7, 5, 0)]),
          ("SELECT correlation, dur_ns, device_op_count FROM launches", [(50, 20_000, 5)]),
          (BUSY, [(56_000,)]),
      )],
    ("18_cuda_graph_kernels", "graph_level.sqlite",
     "SELECT d.kind, d.dur_ns, l.correlation, l.dur_ns FROM device_ops d JOIN launches l USING (launch_id)",
     [("graph", 1000, 50, 200)]),
    ("18_cuda_graph_kernels", "graph_level.sqlite", BUSY, [(1000,)]),
    ("18_cuda_graph_kernels", "graph_level.sqlite",
     "SELECT severity FROM diagnostics WHERE code = 'graphs_without_kernels'", [("warning",)]),
    ("20_gpu_only_and_cpu_only", "gpu_only.json", BUSY, [(30_000,)]),
    ("20_gpu_only_and_cpu_only", "gpu_only.json", "SELECT count(layer_id), count(launch_id) FROM device_ops", [(0, 0)]),
    ("20_gpu_only_and_cpu_only", "cpu_only.json", "SELECT overlap_ratio, overlap_ns FROM time_breakdown", [(None, None)]),
    ("20_gpu_only_and_cpu_only", "cpu_only.json", "SELECT count(*) FROM host_ops WHERE kind = 'operator'", [(2,)]),
    ("21_rank_missing", "worker_rank0.json worker_rank1.json",
     "SELECT c.rank, rank_origin, count(*) FROM collectives c JOIN processes USING (process_id) GROUP BY ALL ORDER BY 1",
     [(0, "file name", 1), (1, "file name", 1)]),
    ("21_rank_missing", "worker_rank0.json worker_rank1.json", SKEW, [(0, 0), (1, 100_000)]),
    ("21_rank_missing", "no_rank_key.json", "SELECT rank, rank_origin FROM processes", [(None, None)]),
    ("21_rank_missing", "no_rank_key.json", "SELECT severity FROM diagnostics WHERE code = 'no_rank'", [("warning",)]),
    ("23_no_profilerstep", "", "SELECT step, compute_ns FROM step_breakdown", [(None, 30_000)]),
    ("23_no_profilerstep", "", "SELECT count(*), count(step) FROM device_ops", [(2, 0)]),
    ("25_partial_collective", "seq_rank0.json seq_rank1.json", INSTANCES,
     [(0, 1, 4000, 0), (0, 2, 8000, None), (0, 3, 12_000, 1), (0, 4, 4000, None), (1, 1, 4000, 0), (1, 3, 12_000, 1)]),
    ("25_partial_collective", "seq_rank0.json seq_rank1.json", SKEW, [(0, 0), (1, 30_000), (0, 10_000), (1, 0)]),
    ("25_partial_collective", "noseq_rank0.json noseq_rank1.json", INSTANCES,
     [(0, None, 4000, 0), (0, None, 8000, None), (0, None, 12_000, 1), (0, None, 4000, None),
      (1, None, 4000, 0), (1, None, 12_000, 1)]),
    ("26_clock_skew_between_nodes", "", "SELECT rank, offset_ns FROM clock_offsets ORDER BY 1", [(0, 0), (1, 5_000_000)]),
    ("26_clock_skew_between_nodes", "", SKEW, [(0, 0), (1, 40_000), (0, 20_000), (1, 0), (0, 0), (1, 60_000)]),
    ("27_sendrecv_and_broadcast", "", SKEW, [(0, 0), (1, 20_000), (2, 5000), (3, 90_000)]),
    ("27_sendrecv_and_broadcast", "",
     """SELECT list(rank ORDER BY rank) FROM collectives WHERE point_to_point GROUP BY instance_id ORDER BY 1""",
     [([0, 1],), ([2, 3],)]),
    ("27_sendrecv_and_broadcast", "", "SELECT max(collectives) FROM clock_offsets", [(1,)]),
    ("29_world_size_mismatch", "", "SELECT code FROM diagnostics WHERE source_id IS NULL AND code LIKE '%rank%' OR code LIKE '%world%' ORDER BY 1",
     [("rank_beyond_world",), ("ranks_missing",), ("world_sizes_differ",)]),
    ("29_world_size_mismatch", "", SKEW, [(0, 0), (5, 50_000), (6, 60_000)]),
    ("30_nsys_missing_tables", "no_nvtx.sqlite",
     "SELECT d.dur_ns, l.dur_ns, d.layer_id FROM device_ops d JOIN launches l USING (launch_id)", [(1000, 100, None)]),
    ("30_nsys_missing_tables", "no_cupti.sqlite", "SELECT kind, dur_ns FROM host_ops", [("nvtx", 5000)]),
    ("30_nsys_missing_tables", "no_cupti.sqlite", "SELECT overlap_ratio FROM time_breakdown", [(None,)]),
    ("30_nsys_missing_tables", "nothing.sqlite", CODES, [("empty_source", "warning")]),
    ("32_nsys_missing_stringids", "missing_id.sqlite",
     """SELECT count(*), sum(d.dur_ns), count(d.name), count(launch_id), count(l.name) FROM device_ops d
        LEFT JOIN launches l USING (launch_id)""",
     [(2, 2000, 1, 1, 0)]),
    ("32_nsys_missing_stringids", "no_stringids.sqlite", "SELECT name, dur_ns FROM device_ops", [(None, 1000)]),
    ("34_nsys_one_report_per_process", "", "SELECT rank, start_ns, end_ns FROM collectives ORDER BY 1",
     [(0, 1700000010000000500, 1700000010000100500), (1, 1700000010000040500, 1700000010000100500)]),
    ("34_nsys_one_report_per_process", "", "SELECT DISTINCT rank_origin FROM processes", [("file name",)]),
    ("34_nsys_one_report_per_process", "", SKEW, [(0, 0), (1, 40_000)]),
    ("35_horovod_cached_no_rank_ticks", "",
     "SELECT end_ns - start_ns, payload_bytes FROM collectives ORDER BY start_ns", [(100_000, 40), (100_000, 40), (100_000, None)]),
    ("35_horovod_cached_no_rank_ticks", "", "SELECT count(*), sum(dur_ns) FROM host_ops WHERE name = 'ALLREDUCE'",
     [(3, 330_000)]),
    ("35_horovod_cached_no_rank_ticks", "", SKEW, [(0, 0), (1, 59_000)]),
    ("37_horovod_dynamic_start_stop", "",
     "SELECT start_ns, end_ns - start_ns FROM collectives ORDER BY 1",
     [(1700000000001055000, 100_000), (1700000000001300000, None), (1700000060000555000, 100_000)]),
    ("37_horovod_dynamic_start_stop", "", "SELECT DISTINCT tensor FROM arrivals", [("g/a",)]),
    ("37_horovod_dynamic_start_stop", "", SKEW, [(0, 0), (1, 30_000), (0, 0), (1, 30_000)]),
    ("37_horovod_dynamic_start_stop", "", "SELECT count FROM diagnostics WHERE code = 'ends_without_begin'", [(1,)]),
    ("39_horovod_many_events_per_line", "", "SELECT count(*), max(rank), arg_max(rank, ready_ns), max(ready_ns) - min(ready_ns) FROM arrivals",
     [(12, 11, 10, 980_000)]),
    ("39_horovod_many_events_per_line", "", "SELECT end_ns - start_ns FROM collectives", [(50_000,)]),
    ("41_duplicate_keys_and_events", "", BUSY, [(10_000,)]),
    ("41_duplicate_keys_and_events", "", "SELECT count(*), count(*) FILTER (duplicate), min(stream_id) FROM device_ops",
     [(2, 1, 9)]),
    ("41_duplicate_keys_and_events", "", "SELECT count FROM diagnostics WHERE code = 'duplicate_events'", [(1,)]),
]  # fmt: skip


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory):
    """Rows of a query over a case's files; each set of files is ingested once."""
    connections = {}

    def ask(case: str, files: str, query: str) -> list[tuple[object, ...]]:
        if (case, files) not in connections:
            folder = shared("cases", case)
            inputs = [folder / f for f in files.split()] or [f for f in folder.iterdir() if f.suffix != ".md"]
            connections[case, files] = connect(build(inputs, tmp_path_factory.mktemp("case") / "d.mdtrace"))
        return connections[case, files].sql(query).fetchall()

    return ask


@pytest.mark.parametrize(
    ("case", "files", "query", "rows"), ANSWERS, ids=[f"{a[0][:2]}-{i}" for i, a in enumerate(ANSWERS)]
)
def test_case(answer, case: str, files: str, query: str, rows: list[tuple[object, ...]]) -> None:
    assert answer(case, files, query) == rows


@pytest.mark.parametrize(
    ("case", "file", "says"),
    [
        ("06_horovod_only_open_bracket", "zero_bytes.json", "empty file"),
        ("30_nsys_missing_tables", "not_sqlite.sqlite", "not an SQLite export"),
    ],
)
def test_what_is_no_trace_is_refused_by_name(case: str, file: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        build([shared("cases", case, file)], tmp_path / "d.mdtrace")
    assert list(tmp_path.iterdir()) == []


def test_every_case_accounts_for_every_event(tmp_path: Path) -> None:
    for number, folder in enumerate(sorted(shared("cases").iterdir())):
        inputs = [f for f in folder.iterdir() if f.suffix != ".md"] if folder.is_dir() else []
        if not inputs:
            continue
        dataset = build(inputs, tmp_path / f"{number}.mdtrace")
        for source in dataset.table("sources").to_pylist():
            assert source["events_read"] == source["events_stored"] + source["events_skipped"], folder.name
            assert source["events_skipped"] == sum(e["skipped"] for e in source["events"]), folder.name
            assert all(e["reason"] for e in source["events"] if e["skipped"]), folder.name
