"""Matching collectives across ranks: rows in, instances out."""

from pathlib import Path
from typing import Any

from mdtrace.link.instances import Matched, match_collectives
from rows import dataset


def reduce(start: int, end: int, **more: Any) -> dict[str, Any]:
    """An all-reduce of the whole job's group, 1000 f32, unless said otherwise."""
    base = {
        "kind": "all_reduce",
        "evidence": "kernel",
        "group_name": "0",
        "group_ranks": [0, 1],
        "dtype": "f32",
        "payload_bytes": 4000,
    }
    return base | {"start_ns": start, "end_ns": end} | more


def ids(matched: Matched) -> dict[int, list[int | None]]:
    return {p: column.to_pylist() for p, column in matched.instance_ids.items()}


def counts(matched: Matched) -> list[tuple[Any, ...]]:
    table = matched.tables["matches"].to_pylist()
    return [(r["process_id"], r["matched_by"], r["reason"], r["collectives"]) for r in table]


def test_sequence_numbers_match_and_a_dropped_record_shifts_nothing(tmp_path: Path) -> None:
    """Rank 1 lacks the second of three; rank 0 recorded one more at the end."""
    rows = [reduce(t, t + 100, seq=n, process_id=0) for n, t in ((1, 100), (2, 300), (3, 510), (4, 700))]
    rows += [reduce(130, 200, seq=1, process_id=1), reduce(500, 600, seq=3, process_id=1)]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, None, 1, None], 1: [0, 1]}
    assert counts(matched) == [
        (0, None, "no other rank has it", 2),
        (0, "group and seq", None, 2),
        (1, "group and seq", None, 2),
    ]
    instances = matched.tables["instances"].to_pylist()
    assert [(i["seq"], i["present"], i["group_size"], i["partial"], i["matched_by"]) for i in instances] == [
        (1, 2, 2, False, "group and seq"),
        (3, 2, 2, False, "group and seq"),
    ]


def test_without_numbers_unlike_sizes_are_never_paired(tmp_path: Path) -> None:
    """1000, 2000, 3000, 1000 against 1000, 3000: rank 1's 1000 comes before its 3000."""
    rows = [reduce(i, i + 1, payload_bytes=b, process_id=0) for i, b in enumerate((1000, 2000, 3000, 1000))]
    rows += [reduce(i, i + 1, payload_bytes=b, process_id=1) for i, b in enumerate((1000, 3000))]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, None, 1, None], 1: [0, 1]}
    assert counts(matched)[0] == (0, None, "no other rank has it", 2)
    assert {i["matched_by"] for i in matched.tables["instances"].to_pylist()} == {"order"}


def test_what_could_be_any_of_several_is_left_alone(tmp_path: Path) -> None:
    rows = [reduce(i, i + 1, process_id=0) for i in range(4)]
    rows += [reduce(i, i + 1, process_id=1) for i in range(3)]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [None] * 4, 1: [None] * 3}
    assert counts(matched) == [(0, None, "ambiguous order", 4), (1, None, "ambiguous order", 3)]
    assert [(d.code, d.count) for d in matched.diagnostics if d.code.startswith("coll")] == [
        ("collectives_ambiguous", 7)
    ]


def test_numbered_steps_confine_what_is_ambiguous(tmp_path: Path) -> None:
    """Two equal all-reduces a step; rank 1 lost one in step 6: steps 5 and 7 stay matched."""
    steps = [{"process_id": p, "step": s, "name": f"ProfilerStep#{s}"} for p in (0, 1) for s in (5, 6, 7)]
    rows = [
        reduce(10 * s + i, 10 * s + i + 1, process_id=p, step=s)
        for p in (0, 1)
        for s in (5, 6, 7)
        for i in range(1 if (p, s) == (1, 6) else 2)
    ]
    matched = match_collectives(dataset(tmp_path, collectives=rows, steps=steps))
    assert ids(matched) == {0: [0, 1, None, None, 2, 3], 1: [0, 1, None, 2, 3]}
    assert matched.tables["instances"].column("step").to_pylist() == [5, 5, 7, 7]


def test_steps_that_only_count_from_the_capture_do_not_confine(tmp_path: Path) -> None:
    """Equal sequences whose counted steps are shifted by one: the order holds."""
    steps = [{"process_id": p, "step": s, "name": "step"} for p in (0, 1) for s in (0, 1)]
    rows = [reduce(s, s + 1, process_id=p, step=s + p, payload_bytes=s) for p in (0, 1) for s in (0, 1)]
    matched = match_collectives(dataset(tmp_path, collectives=rows, steps=steps))
    assert ids(matched) == {0: [0, 1], 1: [0, 1]}


def test_two_that_changed_places_still_find_each_other(tmp_path: Path) -> None:
    rows = [reduce(i, i + 1, payload_bytes=b, process_id=0) for i, b in enumerate((1, 2, 3, 4))]
    rows += [reduce(i, i + 1, payload_bytes=b, process_id=1) for i, b in enumerate((1, 3, 2, 4))]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, 1, 2, 3], 1: [0, 2, 1, 3]}


def test_time_plays_no_part(tmp_path: Path) -> None:
    """A second apart, and in files whose clocks start at their own zero."""
    rows = [reduce(0, 10, seq=1, process_id=0), reduce(10**9, 10**9 + 10, seq=1, process_id=1)]
    sources = [{"source_id": s, "format": "nsys", "clock_base": "file"} for s in (0, 1)]
    processes = [{"process_id": p, "source_id": p} for p in (0, 1)]
    matched = match_collectives(dataset(tmp_path, collectives=rows, sources=sources, processes=processes))
    assert ids(matched) == {0: [0], 1: [0]}
    clocks = matched.tables["clocks"].to_pylist()
    assert [c["method"] for c in clocks] == ["own zero", "own zero"]
    assert clocks[0]["timeline"] != clocks[1]["timeline"]


def test_each_group_is_on_its_own(tmp_path: Path) -> None:
    """Tensor groups {0,1} and {2,3}, data groups {0,2} and {1,3}; all use the names tp and dp."""
    rows = []
    for p in range(4):
        tp, dp = [p // 2 * 2, p // 2 * 2 + 1], [p % 2, p % 2 + 2]
        rows.append(reduce(0, 1, seq=1, group_name="tp", group_ranks=tp, process_id=p))
        rows.append(reduce(2, 3, seq=1, group_name="dp", group_ranks=dp, process_id=p))
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, 1], 1: [0, 2], 2: [3, 1], 3: [3, 2]}


def test_a_group_named_without_members_is_found_by_its_name_and_rank(tmp_path: Path) -> None:
    rows = [
        reduce(0, 1, seq=1, group_name="tp", group_ranks=[0, 1], process_id=0),
        reduce(0, 1, seq=1, group_name="tp", group_ranks=None, process_id=1),
        reduce(0, 1, seq=1, group_name="tp", group_ranks=[2, 3], process_id=2),
    ]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0], 1: [0], 2: [None]}


def test_the_jobs_only_group_takes_what_names_none(tmp_path: Path) -> None:
    rows = [reduce(0, 1, group_name=None, group_ranks=None, process_id=p) for p in range(3)]
    processes = [{"process_id": p, "world_size": 4} for p in range(3)]
    matched = match_collectives(dataset(tmp_path, collectives=rows, processes=processes))
    assert ids(matched) == {0: [0], 1: [0], 2: [0]}
    only = matched.tables["instances"].to_pylist()[0]
    assert (only["present"], only["group_size"], only["partial"]) == (3, 4, True)


def test_of_several_groups_none_is_guessed(tmp_path: Path) -> None:
    rows = [reduce(0, 1, group_name=n, seq=1, process_id=p) for p in (0, 1) for n in ("tp", "dp")]
    rows += [reduce(5, 6, group_name=None, group_ranks=None, process_id=p) for p in (0, 1)]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, 1, None], 1: [0, 1, None]}
    assert (0, None, "group unknown", 1) in counts(matched)


def test_three_of_eight_ranks_is_partial(tmp_path: Path) -> None:
    """Ranks 0, 5 and 6 of a group of eight; one file claims a world of four."""
    processes = [
        {"process_id": 0, "rank": 0, "world_size": 8},
        {"process_id": 1, "rank": 5, "world_size": 8},
        {"process_id": 2, "rank": 6, "world_size": 4},
    ]
    rows = [
        reduce(s, 300, seq=1, group_ranks=list(range(8)), process_id=p) for p, s in enumerate((100, 150, 160))
    ]
    matched = match_collectives(dataset(tmp_path, collectives=rows, processes=processes))
    only = matched.tables["instances"].to_pylist()[0]
    assert (only["present"], only["group_size"], only["partial"]) == (3, 8, True)
    assert only["group_ranks"] == list(range(8))


def test_transfers_are_pairs_and_miss_no_rank(tmp_path: Path) -> None:
    """0 → 1 and 2 → 3, each pair a group of its own, then a broadcast of all four."""
    rows = []
    for p in range(4):
        pair, sends = [p // 2 * 2, p // 2 * 2 + 1], p % 2 == 0
        rows.append(
            reduce(100, 150, kind="send" if sends else "recv", group_name=f"pp{p // 2}", group_ranks=pair,
                   peer_rank=p + 1 if sends else p - 1, process_id=p)
        )  # fmt: skip
        rows.append(reduce(300, 400, kind="broadcast", group_ranks=[0, 1, 2, 3], seq=1, process_id=p))
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, 1], 1: [0, 1], 2: [2, 1], 3: [2, 1]}
    instances = matched.tables["instances"].to_pylist()
    assert [(i["kind"], i["sender"], i["receiver"], i["partial"]) for i in instances] == [
        ("send", 0, 1, False),
        ("broadcast", None, None, False),
        ("send", 2, 3, False),
    ]
    assert [i["synchronising"] for i in instances] == [False, False, False]


def test_transfers_in_one_group_go_by_pair_not_by_number(tmp_path: Path) -> None:
    """A pipeline in a group of three: the numbers count each rank's own transfers."""
    group = {"group_ranks": [0, 1, 2], "point_to_point": True}
    rows = [
        reduce(0, 1, kind="send", peer_rank=1, seq=1, process_id=0, **group),
        reduce(0, 1, kind="recv", peer_rank=0, seq=1, process_id=1, **group),
        reduce(2, 3, kind="send", peer_rank=2, seq=2, process_id=1, **group),
        reduce(2, 3, kind="recv", peer_rank=1, seq=1, process_id=2, **group),
    ]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0], 1: [0, 1], 2: [1]}
    assert {i["matched_by"] for i in matched.tables["instances"].to_pylist()} == {"pair order"}


def test_a_transfer_whose_peer_is_not_recorded_is_left_alone(tmp_path: Path) -> None:
    rows = [reduce(0, 1, kind="send", group_ranks=[0, 1, 2], process_id=0)]
    rows += [reduce(0, 1, kind="recv", group_ranks=[0, 1, 2], process_id=1)]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [None], 1: [None]}
    assert counts(matched)[0] == (0, None, "peer unknown", 1)


def test_another_operation_under_the_same_number_is_refused(tmp_path: Path) -> None:
    rows = [reduce(0, 1, seq=1, group_ranks=[0, 1, 2], process_id=p) for p in (0, 1)]
    rows += [reduce(0, 1, seq=1, kind="broadcast", group_ranks=[0, 1, 2], process_id=2)]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0], 1: [0], 2: [None]}
    assert counts(matched)[-1] == (2, None, "unlike the others", 1)


def test_two_captures_of_a_rank_are_not_paired_with_each_other(tmp_path: Path) -> None:
    processes = [{"process_id": 0, "rank": 0}, {"process_id": 1, "rank": 0}, {"process_id": 2, "rank": 1}]
    rows = [reduce(0, 1, seq=1, process_id=p) for p in range(3)]
    matched = match_collectives(dataset(tmp_path, collectives=rows, processes=processes))
    assert ids(matched) == {0: [0], 1: [None], 2: [0]}
    assert (1, None, "second capture of the rank", 1) in counts(matched)


def test_two_windows_of_every_rank_pair_window_by_window(tmp_path: Path) -> None:
    processes = [{"process_id": p, "rank": p % 2} for p in range(4)]
    rows = [reduce(100 * (p // 2), 1000, process_id=p) for p in range(4)]
    matched = match_collectives(dataset(tmp_path, collectives=rows, processes=processes))
    assert ids(matched) == {0: [0], 1: [0], 2: [1], 3: [1]}


def test_an_unknown_rank_is_not_matched(tmp_path: Path) -> None:
    processes = [{"process_id": 0, "rank": None}, {"process_id": 1, "rank": 1}]
    rows = [reduce(0, 1, seq=1, process_id=p) for p in (0, 1)]
    matched = match_collectives(dataset(tmp_path, collectives=rows, processes=processes))
    assert ids(matched) == {0: [None], 1: [None]}
    assert counts(matched)[0] == (0, None, "rank unknown", 1)


def test_uneven_all_to_alls_match_by_order(tmp_path: Path) -> None:
    """Each rank sends another number of bytes: that is what an uneven all-to-all is."""
    rows = [
        reduce(
            i,
            i + 1,
            kind="all_to_all",
            payload_bytes=100 * p + i,
            group_name=None,
            group_ranks=None,
            process_id=p,
        )
        for p in (0, 1)
        for i in range(3)
    ]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, 1, 2], 1: [0, 1, 2]}


def test_a_format_that_records_no_sizes_matches_one_that_does(tmp_path: Path) -> None:
    rows = [reduce(i, i + 1, seq=i, kind=k, process_id=0) for i, k in enumerate(("all_reduce", "all_gather"))]
    rows += [
        reduce(
            i, i + 1, kind=k, dtype=None, payload_bytes=None, group_name=None, group_ranks=None, process_id=1
        )
        for i, k in enumerate(("all_reduce", "all_gather"))
    ]
    matched = match_collectives(dataset(tmp_path, collectives=rows))
    assert ids(matched) == {0: [0, 1], 1: [0, 1]}


def test_a_timeline_stands_for_all_ranks(tmp_path: Path) -> None:
    """Ticks of two ranks, then none (cached); broadcasts before the first step are start-up."""
    rows = [
        reduce(0, 5, kind="broadcast", evidence="timeline", group_name=None, group_ranks=None),
        reduce(20, 30, evidence="timeline", group_name=None, group_ranks=None, step=0),
        reduce(40, 50, evidence="timeline", group_name=None, group_ranks=None, step=1),
    ]
    arrivals = [{"collective_id": c, "rank": r, "tensor": "a", "ready_ns": r} for c in (0, 1) for r in (0, 1)]
    matched = match_collectives(
        dataset(
            tmp_path,
            collectives=rows,
            arrivals=arrivals,
            sources=[{"source_id": 0, "format": "horovod"}],
            processes=[{"process_id": 0, "world_size": 2}],
            steps=[{"step": 0, "start_ns": 10, "end_ns": 35}, {"step": 1, "start_ns": 35, "end_ns": 60}],
        )
    )
    assert ids(matched) == {0: [0, 1, 2]}
    instances = matched.tables["instances"].to_pylist()
    assert [(i["start_up"], i["present"], i["partial"]) for i in instances] == [
        (True, 2, False),
        (False, 2, False),
        (False, 0, None),
    ]


def test_nothing_to_match(tmp_path: Path) -> None:
    matched = match_collectives(dataset(tmp_path, processes=[{"process_id": 0}]))
    assert matched.instance_ids == {}
    assert matched.tables["instances"].num_rows == 0
    assert matched.tables["clocks"].num_rows == 1
