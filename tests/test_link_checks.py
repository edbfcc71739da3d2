"""What linking finds missing or wrong."""

from pathlib import Path
from typing import Any

import pytest

from link_stage import codes, link, link_file
from mdtrace.link.process import link_process
from mdtrace.tables.diagnostics import codes as declared
from shared import shared


def _kernels(*spans: tuple[int, int], **more: Any) -> list[dict[str, Any]]:
    return [{"start_ns": start, "end_ns": end, **more} for start, end in spans]


def test_case_12_a_corrupt_duration_is_named(tmp_path: Path) -> None:
    ((_, linked),) = link_file(shared("cases", "12_same_stream_overlap", "corrupt.json"), tmp_path)
    (finding,) = (d for d in linked.diagnostics if d.code == "activity_outlasts_successors")
    assert (finding.detail["name"], finding.count) == ("bad_kernel", 100)
    assert "bad_kernel outlasts 100 whole successors" in finding.row(0, 0)["message"]


def test_case_12_rounding_is_tolerated(tmp_path: Path) -> None:
    ((_, linked),) = link_file(shared("cases", "12_same_stream_overlap", "rounding.json"), tmp_path)
    assert {"activity_outlasts_successors", "stream_overlap"}.isdisjoint(codes(linked))


@pytest.mark.parametrize(
    ("spans", "doubted"),
    [
        ([(0, 1000), (100, 110), (200, 210), (300, 310)], True),
        ([(0, 1000), (100, 110), (200, 210)], False),  # two successors
        ([(0, 1000), (100, 250), (300, 310), (400, 410)], False),  # one not much shorter
        ([(0, 305), (100, 110), (200, 210), (300, 310)], False),  # the third ends later
    ],
)
def test_what_makes_a_duration_doubtful(tmp_path: Path, spans: list[tuple[int, int]], doubted: bool) -> None:
    linked = link(tmp_path / "one", device_ops=_kernels(*spans))
    assert ("activity_outlasts_successors" in codes(linked)) == doubted
    apart = [{**kernel, "stream_id": i} for i, kernel in enumerate(_kernels(*spans))]
    assert "activity_outlasts_successors" not in codes(link(tmp_path / "apart", device_ops=apart))
    graph = _kernels(*spans, graph_node_id=1)
    assert "activity_outlasts_successors" not in codes(link(tmp_path / "graph", device_ops=graph))


def test_overlap_on_a_stream(tmp_path: Path) -> None:
    spans = [(0, 50_000), (10_000, 20_000), (30_000, 60_000), (59_000, 70_000), (68_000, 80_000)]
    linked = link(
        tmp_path,
        device_ops=[
            *_kernels(*spans),  # the second and third start inside the first, the last 2 µs early
            {**_kernels((68_000, 80_000))[0], "duplicate": True},
            {"start_ns": 0, "end_ns": 80_000, "kind": "sync", "class": "sync"},
            *_kernels((0, 80_000), stream_id=8),
        ],
    )
    assert codes(linked)["stream_overlap"] == 3


def test_device_before_its_launch_is_a_matter_of_clocks(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        launches=[{"start_ns": 100 * i, "end_ns": 100 * i + 50, "correlation": i} for i in range(3)],
        device_ops=[
            {"start_ns": start, "dur_ns": 1, "correlation": i} for i, start in enumerate((0, 90, 193))
        ],
    )
    (finding,) = (d for d in linked.diagnostics if d.code == "device_before_launch")
    assert (finding.count, finding.detail["most"]) == (2, 10)


def test_share_of_time_without_a_launch(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        launches=[
            {"start_ns": 0, "dur_ns": 1, "correlation": 1},
            {"start_ns": 5, "dur_ns": 1, "correlation": 2},
        ],
        device_ops=[
            {"start_ns": 10, "dur_ns": 30, "correlation": 1},
            {"start_ns": 50, "dur_ns": 10, "correlation": 9},
            {"start_ns": 90, "dur_ns": None, "correlation": 8},
            {"start_ns": 0, "dur_ns": 500, "correlation": 7, "kind": "sync", "class": "sync"},
        ],
    )
    (finding,) = (d for d in linked.diagnostics if d.code == "device_op_without_launch")
    assert (finding.count, finding.detail["share"]) == (2, "25.0 %")
    assert codes(linked)["launch_without_kernel"] == 1


def test_case_18_graphs(tmp_path: Path) -> None:
    folder = "18_cuda_graph_kernels"
    for name in ("graph.json", "graph.sqlite"):
        ((_, linked),) = link_file(shared("cases", folder, name), tmp_path / name)
        device = linked.columns["device_ops"]
        assert device["launch_id"].to_pylist() == [0] * 5 + [None] * 2
        assert device["layer_id"].null_count == 7
        assert linked.columns["launches"]["device_op_count"].to_pylist() == [5]
        assert codes(linked)["graph_kernels"] == 7
    ((_, linked),) = link_file(shared("cases", folder, "graph_level.sqlite"), tmp_path / "level")
    assert linked.columns["device_ops"]["launch_id"].to_pylist() == [0]
    assert codes(linked)["graphs_without_kernels"] == 1


def test_case_20_one_side_alone(tmp_path: Path) -> None:
    folder = "20_gpu_only_and_cpu_only"
    ((_, linked),) = link_file(shared("cases", folder, "gpu_only.json"), tmp_path / "gpu")
    assert codes(linked) == {"no_launches": 2, "no_steps": 1}
    assert linked.columns["device_ops"]["launch_id"].null_count == 2
    ((staged, linked),) = link_file(shared("cases", folder, "cpu_only.json"), tmp_path / "cpu")
    assert codes(linked) == {"no_steps": 1}
    assert staged.rows("host_ops") == 2


def test_sound_real_files_raise_no_doubts(tmp_path: Path) -> None:
    for parts in (
        ("kineto", "eager_b200_rank0of8.json.gz"),
        ("kineto", "resnet50_mi300x_rank0of8.json.gz"),
        ("kineto", "nccl_a100_rank0of2.json.gz"),
        ("nsys", "ddp_2gpu_2process.sqlite"),
    ):
        for _, linked in link_file(shared("traces", *parts), tmp_path / parts[-1]):
            severe = {d.code for d in linked.diagnostics if declared()[d.code].severity != "info"}
            assert severe == set()


def test_nothing_staged(tmp_path: Path) -> None:
    linked = link(tmp_path)
    assert (linked.start_ns, linked.end_ns, linked.diagnostics) == (None, None, [])
    assert {len(table) for table in linked.tables.values()} <= {0}
    assert {len(c) for columns in linked.columns.values() for c in columns.values()} == {0}


def test_bounds_of_all_events(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            {"name": "a", "start_ns": 50, "end_ns": 90},
            {"name": "open", "start_ns": 300, "end_ns": None},
        ],
        launches=[{"start_ns": 20, "end_ns": 30}],
        device_ops=[{"start_ns": 100, "end_ns": 200}],
        collectives=[{"start_ns": 5, "end_ns": 250}],
    )
    assert (linked.start_ns, linked.end_ns) == (5, 300)


def test_ids_carry_the_process(tmp_path: Path) -> None:
    path = shared("traces", "own", "nsys_cpu", "ddp_w2_straggler1", "rank0.sqlite")
    ((staged, _),) = link_file(path, tmp_path)
    linked = link_process(staged, 3, "x")
    ids = [i for i in linked.columns["host_ops"]["parent_id"].to_pylist() if i is not None]
    assert ids
    assert {i >> 40 for i in ids} == {3}
    assert {i >> 40 for i in linked.tables["steps"].column("host_op_id").to_pylist()} == {3}


def test_hostile_names_and_numbers(tmp_path: Path) -> None:
    """Names that look like everything at once, negative and huge ids, no names: linked, never raised."""
    texts = ["", None, "step " + "9" * 30, "ProfilerStep#" + "1" * 40, "nn.Module: ", "autograd::engine::"]
    odd = {"sequence": -5, "external_id": -1, "event_index": -7}
    host = [
        {"name": text, "kind": kind, "start_ns": i, "end_ns": i, **odd}
        for i, text in enumerate(texts)
        for kind in ("operator", "annotation", "python", "nvtx")
    ]
    low = -(2**63)
    linked = link(
        tmp_path,
        host_ops=host,
        launches=[{"start_ns": -10, "dur_ns": -5, "correlation": low, "external_id": 2**62, "name": None}],
        device_ops=[{"start_ns": 0, "dur_ns": -1, "correlation": low, "stream_id": None, "name": None}],
        comm_records=[{"anchor": "host_ops", "row": 10**9}, {"anchor": None, "row": None, "name": "send"}],
    )
    assert linked.columns["device_ops"]["launch_id"].to_pylist() == [0]
    assert len(linked.columns["host_ops"]["parent_id"]) == len(host)
