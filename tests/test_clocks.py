"""Clocks of a dataset's captures: rows in, `clocks` out."""

import json
from pathlib import Path
from typing import Any

from matched_rows import matched
from shared import shared

MS = 1_000_000


def clocks(folder: Path, **given: Any) -> list[dict[str, Any]]:
    return matched(folder, **given).table("clocks").to_pylist()


def reduce(process: int, seq: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    base = {"kind": "all_reduce", "evidence": "kernel", "group_name": "0", "seq": seq, "process_id": process}
    return base | {"start_ns": start, "end_ns": end} | more


def golden_rows() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The worked example: four ranks, three collectives, each rank's clock shifted."""
    example = json.loads(shared("spec", "golden.json").read_text())["straggler"]
    inputs, rows, now = example["inputs"], [], 0
    for seq, work in enumerate(inputs["local_work"]):
        end = now + max(work) + inputs["transfer"]
        for rank, own in enumerate(work):
            shift = inputs["clock_offsets"][rank]
            rows.append(reduce(rank, seq, (now + own + shift) * MS, (end + shift) * MS, step=seq))
        now = end
    return rows, example


def test_golden_offsets(tmp_path: Path) -> None:
    rows, example = golden_rows()
    found = clocks(tmp_path, collectives=rows)
    assert [c["offset_ns"] for c in found] == [o * MS for o in example["offsets"]]
    assert [found[3]["lower_ns"], found[3]["upper_ns"]] == [b * MS for b in example["causal_interval_rank3"]]
    assert [c["method"] for c in found] == ["reference", "ends", "ends", "ends"]
    assert [c["corrected"] for c in found] == [False, True, True, True]


def test_files_that_name_no_host_are_hosts_of_their_own(tmp_path: Path) -> None:
    """Rank 1's clock is 5 ms ahead; its true delays are 40, 0 and 60 µs."""
    rows = []
    for k, (first, second) in enumerate(((1000, 1040), (2020, 2000), (3000, 3060))):
        end = max(first, second) + 100
        rows.append(reduce(0, k, first * 1000, end * 1000))
        rows.append(reduce(1, k, (second + 5000) * 1000, (end + 5000) * 1000))
    found = clocks(tmp_path, collectives=rows)
    assert found[1]["offset_ns"] == 5_000_000
    assert found[1]["lower_ns"] <= 5_000_000 <= found[1]["upper_ns"]
    assert found[1]["corrected"]


def test_small_offsets_of_unnamed_hosts_are_one_host(tmp_path: Path) -> None:
    rows = [reduce(p, k, 1001 * k + 10 * p, 1001 * k + 500 + p * (k % 3)) for p in (0, 1) for k in range(9)]
    found = clocks(tmp_path, collectives=rows)
    assert [c["method"] for c in found] == ["reference", "one host"]
    assert [c["offset_ns"] for c in found] == [0, 0]
    assert found[1]["measured_ns"] == 1
    assert [c["error_ns"] for c in found] == [1, 1]  # the median spread of the ends
    assert len({c["clock"] for c in found}) == 1


def test_ranks_of_a_named_host_share_its_clock(tmp_path: Path) -> None:
    """Two hosts of two ranks; b is 1000 ahead. Inside a host nothing is corrected."""
    processes = [{"process_id": p, "host": "ab"[p // 2]} for p in range(4)]
    rows = [
        reduce(p, k, 10_001 * k + 100 * p + 1000 * (p // 2), 10_001 * k + 5000 + 1000 * (p // 2) + p)
        for p in range(4)
        for k in range(6)
    ]
    found = clocks(tmp_path, collectives=rows, processes=processes)
    assert [c["method"] for c in found] == ["reference", "same host", "ends", "ends"]
    assert [c["offset_ns"] for c in found] == [0, 0, 1002, 1002]
    assert [c["spread_ns"] for c in found] == [1, 1, 1, 1]
    assert [c["clock"] for c in found] == [0, 0, 1, 1]
    assert {c["timeline"] for c in found} == {0}


def test_broadcasts_mark_no_time(tmp_path: Path) -> None:
    rows = [
        reduce(p, k, 1000 * k, 1000 * k + 100 + 50 * p, kind="broadcast") for p in (0, 1) for k in range(6)
    ]
    found = clocks(tmp_path, collectives=rows)
    assert [c["method"] for c in found] == ["none", "none"]
    assert [c["offset_ns"] for c in found] == [None, None]
    assert found[0]["timeline"] != found[1]["timeline"]


def test_ranges_that_do_not_wait_solve_nothing(tmp_path: Path) -> None:
    """Calls that return at once: 20 long, apart by more."""
    rows = [
        reduce(
            p, k, 10_000 * k + p * (-1) ** k * 500, 10_000 * k + p * (-1) ** k * 500 + 20, evidence="range"
        )
        for p in (0, 1)
        for k in range(6)
    ]
    assert [c["method"] for c in clocks(tmp_path, collectives=rows)] == ["none", "none"]


def test_a_mismatch_is_a_diagnostic(tmp_path: Path) -> None:
    rows = [reduce(p, k, 10_000 * k, 10_000 * k + 100) for p in (0, 1) for k in range(6)]
    rows += [reduce(0, 9, 100_000, 100_100), reduce(1, 9, 200_000, 200_100)]
    dataset = matched(tmp_path, collectives=rows)
    found = dataset.table("clocks").to_pylist()
    assert found[1]["lower_ns"] > found[1]["upper_ns"]
    assert "no offset fits" in found[1]["reason"]


def test_a_long_capture_gets_a_line(tmp_path: Path) -> None:
    """20 ppm over 60 s: 1.2 ms."""
    rows = []
    for k in range(60):
        at = 10**18 + k * 10**9
        rows.append(reduce(0, k, at, at + 10_000))
        ahead = 3000 + k * 20_000
        rows.append(reduce(1, k, at + ahead, at + ahead + 10_000))
    found = clocks(tmp_path, collectives=rows)
    assert found[1]["method"] == "ends with drift"
    assert round(found[1]["drift_ppb"]) == 20_000
    middle = round((found[1]["drift_origin_ns"] - 10**18) / 10**9)
    assert abs(found[1]["offset_ns"] - (3000 + middle * 20_000)) <= 20_000 * 0.51


def test_one_rank_has_nothing_to_solve(tmp_path: Path) -> None:
    found = clocks(tmp_path, collectives=[reduce(0, 1, 0, 10)])
    assert [(c["method"], c["offset_ns"], c["error_ns"]) for c in found] == [("reference", 0, None)]


def test_a_timelines_error_is_one_cycle(tmp_path: Path) -> None:
    """Ticks come in bursts 2 ms apart."""
    arrivals = [
        {"collective_id": None, "rank": r, "tensor": str(k), "ready_ns": k * 2_000_000 + r}
        for k in range(10)
        for r in (0, 1)
    ]
    found = clocks(
        tmp_path,
        arrivals=arrivals,
        processes=[{"process_id": 0}],
        sources=[{"source_id": 0, "format": "horovod"}],
    )
    assert found[0]["method"] == "timeline"
    assert 1_999_000 <= found[0]["error_ns"] <= 2_000_000
