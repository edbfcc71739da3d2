"""Stragglers of real runs, from the files to the verdict."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mdtrace.build.job import build
from mdtrace.metrics.engine import connect
from mdtrace.metrics.stragglers import verdict
from mdtrace.tables.dataset import Dataset
from shared import shared


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real")


def ingested(folder: Path, *parts: str, pattern: str = "*") -> Dataset:
    files = sorted(f for f in shared(*parts).glob(pattern) if "truth" not in f.name and f.suffix != ".md")
    return build(files, folder / f"{parts[-1]}-{pattern.strip('*')}.mdtrace")


def query(dataset: Dataset, sql: str) -> list[tuple[Any, ...]]:
    return connect(dataset).execute(sql).fetchall()


def test_eight_collectives_of_dlrm(folder: Path) -> None:
    """Eight ranks of one host, in files that name none; microsecond timestamps; sizes that differ by rank."""
    dataset = ingested(folder, "traces", "kineto", "dlrm_v100_8rank")
    found = query(
        dataset,
        "SELECT kind, present, partial, last_rank, spread_ns // 1000, end_spread_ns // 1000 "
        "FROM collective_instances ORDER BY first_arrival_ns",
    )
    assert found == [
        ("all_to_all", 8, False, 7, 7624, 2),
        ("all_to_all", 8, False, 7, 1101, 2),
        ("all_to_all", 8, False, 7, 168, 1),
        ("all_to_all", 8, False, 7, 125, 2),
        ("all_reduce", 8, False, 7, 223, 5),
        ("all_to_all", 8, False, 5, 534, 3),
        ("all_reduce", 8, False, 5, 584, 5),
        ("all_reduce", 8, False, 4, 885, 7),
    ]
    assert set(query(dataset, "SELECT offset_ns, corrected FROM clock_offsets")) == {(0, False)}
    assert set(query(dataset, "SELECT persistent FROM straggler_ranks")) == {(None,)}
    assert verdict(dataset).text.startswith("arrival data for one step only: rank 7 causes 76 %")


def test_six_ranks_of_eight_are_judged_among_themselves(folder: Path) -> None:
    dataset = ingested(folder, "traces", "kineto", "dlrm_v100_8rank", pattern="rank[0-5]*")
    assert verdict(dataset).text.startswith(
        "2 of 8 ranks have no capture: 6, 7 (present: 0-5); among those present, arrival data for one step"
        " only: rank 2 causes 75 %"
    )


def test_a_rank_that_sleeps_in_forward(folder: Path) -> None:
    dataset = ingested(folder, "traces", "own", "torch_gloo", "resnet_w4_straggler2")
    assert set(query(dataset, "SELECT matched_by, reason FROM matches")) == {("order", None)}
    found = query(dataset, "SELECT rank, persistent, cause, blame > 0.9, steps FROM straggler_ranks")
    assert found == [
        (0, False, None, False, 5),
        (1, False, None, False, 5),
        (2, True, "host sleep in forward", True, 5),
        (3, False, None, False, 5),
    ]
    text = verdict(dataset).text
    assert text.startswith("rank 2 makes the others wait: ")
    assert "in 5 of 5 steps; cause: host sleep in forward (" in text
    assert "150.369 ms a step, 0.000 ms on the other ranks" in text


def last_ranks(dataset: Dataset, kind: str) -> Counter[int | None]:
    """How often each rank came last, by negotiated tensor; None: ties."""
    found = query(
        dataset,
        f"SELECT DISTINCT ON (instance_id, tensor) last_rank FROM arrival_skew WHERE kind = '{kind}'",
    )
    return Counter(row[0] for row in found)


def test_a_timeline_with_all_ticks(folder: Path) -> None:
    dataset = ingested(folder, "traces", "own", "horovod", "resnet_w4_straggler2_nocache", pattern="*.json")
    assert last_ranks(dataset, "all_reduce") == {2: 344, 3: 6, None: 2}
    assert last_ranks(dataset, "broadcast") == {0: 82, 2: 43, 3: 2}
    assert set(query(dataset, "SELECT start_up FROM arrival_skew WHERE kind = 'broadcast'")) == {(True,)}
    found = query(dataset, "SELECT rank, persistent, cause FROM straggler_ranks")
    assert found == [(0, False, None), (1, False, None), (2, True, None), (3, False, None)]
    reason = query(dataset, "SELECT reason FROM straggler_ranks WHERE rank = 2")
    assert reason == [("a timeline does not tell what a rank did",)]


def test_a_timeline_with_the_ticks_of_one_step(folder: Path) -> None:
    dataset = ingested(folder, "traces", "own", "horovod", "resnet_w4_cycles_straggler2", pattern="*.json")
    assert last_ranks(dataset, "all_reduce") == {2: 43, 3: 1}
    assert query(dataset, "SELECT persistent FROM straggler_ranks WHERE rank = 2") == [(None,)]
    found = verdict(dataset)
    assert found.text.startswith("arrival data for one step only: rank 2 causes")
    assert "HOROVOD_CACHE_CAPACITY=0" in str(found.hint)


def test_two_ranks_without_fusion(folder: Path) -> None:
    dataset = ingested(folder, "traces", "own", "horovod", "alexnet_w2_nofusion_nocache", pattern="*.json")
    assert last_ranks(dataset, "all_reduce") == {0: 36, 1: 32}


def test_ranges_that_stand_for_collectives(folder: Path) -> None:
    dataset = ingested(folder, "traces", "own", "nsys_cpu", "ddp_w2_straggler1")
    assert query(dataset, "SELECT rank, persistent, cause FROM straggler_ranks") == [
        (0, False, None),
        (1, True, "host sleep in forward"),
    ]
    assert set(query(dataset, "SELECT transfer_ns FROM arrival_skew")) == {(None,)}


@pytest.mark.parametrize("pattern", ["seq*", "noseq*"])
def test_case_partial_collective(folder: Path, pattern: str) -> None:
    dataset = ingested(folder, "cases", "25_partial_collective", pattern=pattern)
    found = query(dataset, "SELECT spread_ns, last_rank FROM collective_instances")
    assert found == [(30_000, 1), (10_000, 0)]
    assert query(dataset, "SELECT reason, collectives FROM matches WHERE matched_by IS NULL") == [
        ("no other rank has it", 2)
    ]


def test_case_rank_missing(folder: Path) -> None:
    dataset = ingested(folder, "cases", "21_rank_missing", pattern="worker*")
    assert query(dataset, "SELECT rank, delay_ns FROM arrival_skew") == [(0, 0), (1, 100_000)]
    assert query(dataset, "SELECT end_spread_ns FROM collective_instances") == [(0,)]


def test_case_base_time_differs(folder: Path) -> None:
    dataset = ingested(folder, "cases", "09_base_time_differs_between_ranks")
    assert query(dataset, "SELECT rank, delay_ns FROM arrival_skew") == [(0, 0), (1, 2500)]
    assert query(dataset, "SELECT end_spread_ns FROM collective_instances") == [(0,)]


def test_case_clock_skew(folder: Path) -> None:
    dataset = ingested(folder, "cases", "26_clock_skew_between_nodes")
    assert query(dataset, "SELECT offset_ns FROM clock_offsets WHERE rank = 1") == [(5_000_000,)]
    delays = query(dataset, "SELECT delay_ns, last_rank FROM arrival_skew WHERE rank = 1")
    assert delays == [(40_000, 1), (0, 0), (60_000, 1)]


def test_case_send_receive(folder: Path) -> None:
    dataset = ingested(folder, "cases", "27_sendrecv_and_broadcast")
    skew = query(dataset, "SELECT rank, delay_ns, last_rank FROM arrival_skew")
    assert skew == [(0, 0, 3), (1, 20_000, 3), (2, 5_000, 3), (3, 90_000, 3)]
    pairs = query(
        dataset,
        "SELECT sender, receiver, present, partial FROM collective_instances "
        "WHERE sender IS NOT NULL ORDER BY 1",
    )
    assert pairs == [(0, 1, 2, False), (2, 3, 2, False)]


def test_case_world_size(folder: Path) -> None:
    dataset = ingested(folder, "cases", "29_world_size_mismatch")
    found = query(
        dataset,
        "SELECT spread_ns, last_rank, present, group_size, partial FROM collective_instances",
    )
    assert found == [(60_000, 6, 3, 8, True)]


def test_case_report_per_process(folder: Path) -> None:
    dataset = ingested(folder, "cases", "34_nsys_one_report_per_process")
    assert query(dataset, "SELECT rank, delay_ns FROM arrival_skew") == [(0, 0), (1, 40_000)]
    assert query(dataset, "SELECT end_spread_ns FROM collective_instances") == [(0,)]


def test_case_cached_timeline(folder: Path) -> None:
    dataset = ingested(folder, "cases", "35_horovod_cached_no_rank_ticks", pattern="*.json")
    found = query(dataset, "SELECT spread_ns, last_rank FROM collective_instances ORDER BY instance_id")
    assert found == [(59_000, 1), (None, None), (None, None)]


def test_case_timeline_stopped_and_started(folder: Path) -> None:
    dataset = ingested(folder, "cases", "37_horovod_dynamic_start_stop", pattern="*.json")
    assert query(dataset, "SELECT DISTINCT spread_ns FROM collective_instances WHERE spread_ns > 0") == [
        (30_000,)
    ]
    assert query(dataset, "SELECT count(*) FROM arrival_skew") == [(4,)]
