"""Stragglers: rows in, who is to blame out."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matched_rows import matched
from mdtrace.metrics.engine import Filters, run
from mdtrace.metrics.stragglers import rho, verdict, without_cause
from mdtrace.tables.dataset import Dataset
from test_clocks import golden_rows

US, MS = 1000, 1_000_000


def reduce(process: int, seq: int | None, start: int, end: int, **more: Any) -> dict[str, Any]:
    base = {"kind": "all_reduce", "evidence": "kernel", "group_name": "0", "seq": seq, "process_id": process}
    return base | {"start_ns": start, "end_ns": end} | more


def view(dataset: Dataset, name: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = run(dataset, name).table.select(columns)
    return list(zip(*(rows.column(c).to_pylist() for c in columns), strict=True))


def steps(ranks: int, numbers: range, length: int) -> list[dict[str, Any]]:
    return [
        {"process_id": p, "step": s, "name": f"step {s}", "start_ns": s * length, "end_ns": (s + 1) * length}
        for p in range(ranks)
        for s in numbers
    ]


def test_golden_skew_and_blame(tmp_path: Path) -> None:
    rows, example = golden_rows()
    dataset = matched(tmp_path, collectives=rows)
    columns = ("instance_id", "rank", "delay_ns", "wait_ns", "transfer_ns", "lead_ns", "last_rank")
    skew = view(dataset, "arrival_skew", *columns)
    for number, expected in enumerate(example["collectives"]):
        own = [row for row in skew if row[0] == number]
        assert [row[2] for row in own] == [d * MS for d in expected["delay"]]
        assert [row[3] for row in own] == [w * MS for w in expected["wait"]]
        assert {row[4] for row in own} == {example["inputs"]["transfer"] * MS}
        assert {row[5] for row in own} == {expected["lead"] * MS}
        assert {row[6] for row in own} == {expected["last"]}
        assert sum(row[3] for row in own) == expected["wait_sum"] * MS
    ranks = view(dataset, "straggler_ranks", "blame", "last_count", "collectives", "steps")
    assert [row[0] for row in ranks] == pytest.approx(example["blame"], abs=1e-6)
    assert [row[1:] for row in ranks] == [(1, 3, 3), (0, 3, 3), (0, 3, 3), (2, 3, 3)]


def test_golden_rho() -> None:
    assert rho([10, 10, 10, 7.5]) == pytest.approx((0.25, 0.2))


def test_nobody_is_late_within_three_error_bars(tmp_path: Path) -> None:
    """Leads of 7 ms, but three collectives leave each clock uncertain by half its causal interval, 4.5 ms."""
    rows, _ = golden_rows()
    dataset = matched(tmp_path, collectives=rows)
    assert {row[0] for row in view(dataset, "arrival_skew", "significant")} == {False}
    found = verdict(dataset)
    assert found.text == "no straggler above the clock's error of 9000 µs"


def test_the_skew_of_clocks_is_no_delay(tmp_path: Path) -> None:
    """Rank 1's clock is 5 ms ahead; its true delays are 40, 0 and 60 µs."""
    rows = []
    for k, (first, second) in enumerate(((1000, 1040), (2020, 2000), (3000, 3060))):
        end = max(first, second) + 100
        rows.append(reduce(0, k, first * US, end * US))
        rows.append(reduce(1, k, (second + 5000) * US, (end + 5000) * US))
    skew = view(matched(tmp_path, collectives=rows), "arrival_skew", "rank", "delay_ns", "last_rank")
    assert [row[1] for row in skew if row[0] == 1] == [40 * US, 0, 60 * US]
    assert [row[1] for row in skew if row[0] == 0] == [0, 20 * US, 0]
    assert [row[2] for row in skew if row[0] == 0] == [1, 0, 1]


def test_a_dropped_record_gives_no_delay(tmp_path: Path) -> None:
    times = ((1, 100, 200), (2, 300, 400), (3, 510, 600), (4, 700, 760))
    rows = [reduce(0, n, a * US, b * US) for n, a, b in times]
    rows += [reduce(1, 1, 130 * US, 200 * US), reduce(1, 3, 500 * US, 600 * US)]
    dataset = matched(tmp_path, collectives=rows)
    assert view(dataset, "collective_instances", "seq", "spread_ns", "last_rank") == [
        (1, 30_000, 1),
        (3, 10_000, 0),
    ]


def test_delays_of_a_partial_collective_are_among_those_present(tmp_path: Path) -> None:
    processes = [{"process_id": i, "rank": r, "world_size": 8} for i, r in enumerate((0, 5, 6))]
    rows = [reduce(i, 1, s * US, 300 * US, group_ranks=list(range(8))) for i, s in enumerate((100, 150, 160))]
    dataset = matched(tmp_path, collectives=rows, processes=processes)
    skew = view(dataset, "arrival_skew", "rank", "delay_ns", "partial", "present", "last_rank")
    assert skew == [(0, 0, True, 3, 6), (5, 50_000, True, 3, 6), (6, 60_000, True, 3, 6)]


def test_transfers_and_broadcasts_have_no_stragglers(tmp_path: Path) -> None:
    """Root 0 leaves the broadcast early; only the all-reduce says who was last: rank 3, 90 µs."""
    rows = []
    for p, start in enumerate((500, 520, 505, 590)):
        pair = [p // 2 * 2, p // 2 * 2 + 1]
        other = {"group_name": f"pp{p // 2}", "group_ranks": pair, "peer_rank": sum(pair) - p}
        rows.append(reduce(p, None, 100 * US, 150 * US, **other | {"kind": "recv" if p % 2 else "send"}))
        everyone = {"group_ranks": [0, 1, 2, 3]}
        rows.append(reduce(p, 1, 300 * US, (330 if p == 0 else 400) * US, kind="broadcast", **everyone))
        rows.append(reduce(p, 2, start * US, 700 * US, **everyone))
    dataset = matched(tmp_path, collectives=rows)
    assert {row[0] for row in view(dataset, "arrival_skew", "kind")} == {"all_reduce"}
    columns = ("kind", "spread_ns", "last_rank", "partial", "sender", "receiver")
    assert view(dataset, "collective_instances", *columns) == [
        ("send", 0, None, False, 0, 1),
        ("broadcast", 0, None, False, None, None),
        ("all_reduce", 90_000, 3, False, None, None),
        ("send", 0, None, False, 2, 3),
    ]  # fmt: skip
    assert [c["collectives"] for c in dataset.table("clocks").to_pylist()] == [0, 1, 1, 1]


def test_ties_name_no_last_rank(tmp_path: Path) -> None:
    rows = [reduce(p, k, 1000 * k + 100 * (p > 0), 1000 * k + 500) for p in range(3) for k in range(6)]
    dataset = matched(tmp_path, collectives=rows)
    assert {row[0] for row in view(dataset, "arrival_skew", "last_rank")} == {None}
    ranks = view(dataset, "straggler_ranks", "blame", "last_count", "lost_ns")
    assert ranks == [(0.0, 0, 600), (0.0, 0, 0), (0.0, 0, 0)]


def test_overlapping_waits_count_once_and_go_to_the_one_that_ends_last(tmp_path: Path) -> None:
    """Rank 0 waits 0…100 for rank 1 and, overlapping, 50…150 for rank 2: 50 by rank 1, 100 by rank 2."""
    rows = [
        reduce(0, 1, 0, 200, group_name="a", group_ranks=[0, 1]),
        reduce(1, 1, 100, 200, group_name="a", group_ranks=[0, 1]),
        reduce(0, 1, 50, 200, group_name="b", group_ranks=[0, 2]),
        reduce(2, 1, 150, 200, group_name="b", group_ranks=[0, 2]),
    ]
    processes = [{"process_id": p, "host": "one"} for p in range(3)]
    dataset = matched(tmp_path, collectives=rows, processes=processes)
    ranks = view(dataset, "straggler_ranks", "rank", "lost_ns", "caused_ns", "blame")
    assert ranks == [(0, 150, 0, 0.0), (1, 0, 50, 50 / 150), (2, 0, 100, 100 / 150)]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.integers(0, 20), min_size=3, max_size=3)),
        min_size=1,
        max_size=7,
    )
)
@settings(max_examples=10, deadline=None)
def test_lost_time_against_counting_every_moment(
    tmp_path_factory: pytest.TempPathFactory, work: list[tuple[int, list[int]]]
) -> None:
    rows, waits = [], []
    for k, (base, late) in enumerate(work):
        arrivals = [base + more for more in late]
        last = max(arrivals)
        latest = [r for r in range(3) if arrivals[r] == last]
        waits += [(r, a, last, k, latest[0] if len(latest) == 1 else None) for r, a in enumerate(arrivals)]
        rows += [reduce(r, k, a, 1000) for r, a in enumerate(arrivals)]
    caused = dict.fromkeys(range(3), 0)
    lost = dict.fromkeys(range(3), 0)
    for moment in range(60):
        for rank in range(3):
            here = [w for w in waits if w[0] == rank and w[1] <= moment < w[2]]
            lost[rank] += bool(here)
            ends = max((w[2] for w in here), default=None)
            to = {w[4] for w in here if w[2] == ends}
            if len(to) == 1 and None not in to:
                caused[to.pop()] += 1
    processes = [{"process_id": p, "host": "one"} for p in range(3)]
    dataset = matched(tmp_path_factory.mktemp("d"), collectives=rows, processes=processes)
    ranks = view(dataset, "straggler_ranks", "rank", "lost_ns", "caused_ns")
    assert {r: n for r, n, _ in ranks} == lost
    ambiguous = any(
        a[0] == b[0] and a[2] == b[2] and a[4] != b[4] for a in waits for b in waits
    )  # two collectives whose last ranks come at the same moment
    if not ambiguous:
        assert {r: n for r, _, n in ranks} == caused


def persistent_rows(late: int = 2, steps: int = 5, delay: int = 400 * US) -> list[dict[str, Any]]:
    """Four ranks, two all-reduces a step; one rank arrives late at the first of each step."""
    rows = []
    for s in range(steps):
        begin = s * 2 * MS
        for p in range(4):
            first = begin + 500 * US + (delay if p == late else p * US)
            rows.append(reduce(p, 2 * s, first, begin + 1200 * US + p * 100, step=s))
            rows.append(reduce(p, 2 * s + 1, begin + 1500 * US + p * US, begin + 1600 * US + p * 100, step=s))
    return rows


def test_the_same_rank_step_after_step_is_persistent(tmp_path: Path) -> None:
    dataset = matched(tmp_path, collectives=persistent_rows(), steps=steps(4, range(5), 2 * MS))
    ranks = view(dataset, "straggler_ranks", "rank", "persistent", "worst_steps", "late_count", "steps")
    assert ranks == [(0, False, 0, 0, 5), (1, False, 0, 0, 5), (2, True, 5, 5, 5), (3, False, 0, 0, 5)]
    found = verdict(dataset)
    assert found.text.startswith(
        "rank 2 makes the others wait: 0.399 ms per step (20 % of it) in 5 of 5 steps"
    )
    assert found.rho is not None
    assert 0.15 < found.rho < 0.25


def test_two_steps_are_not_enough(tmp_path: Path) -> None:
    dataset = matched(tmp_path, collectives=persistent_rows(steps=2), steps=steps(4, range(2), 2 * MS))
    ranks = view(dataset, "straggler_ranks", "persistent", "reason")
    few = "arrivals are known for 2 steps only"
    no_cause = "nothing in its own time explains half of the wait"
    assert ranks == [(None, few), (None, few), (None, f"{no_cause}, and {few}"), (None, few)]
    found = verdict(dataset)
    assert found.text.startswith("arrival data for 2 steps only: rank 2 causes")
    assert found.hint == "capture at least 3 steps"


def test_ranks_without_a_capture_are_named_in_the_verdict(tmp_path: Path) -> None:
    missing = {"code": "ranks_missing", "message": "2 of 6 ranks have no capture: 4, 5 (present: 0-3)"}
    rows, marks = persistent_rows(steps=2), steps(4, range(2), 2 * MS)
    found = verdict(matched(tmp_path, collectives=rows, steps=marks, diagnostics=[missing]))
    assert found.text.startswith(
        "2 of 6 ranks have no capture: 4, 5 (present: 0-3); among those present, arrival data for 2 steps"
    )
    assert found.hint is not None
    assert found.hint.startswith("add the traces of the other ranks")
    assert found.hint.endswith("; capture at least 3 steps")


def test_late_ranks_without_a_cause_are_told_why() -> None:
    row = {"rank": 1, "late_count": 2, "cause": None, "reason": "nothing explains it"}
    others = [row | {"rank": 2}, row | {"late_count": 0}, row | {"cause": "host sleep", "reason": None}]
    assert without_cause([row, *others]) == ["No cause for rank 1, 2: nothing explains it."]


def test_without_steps_nothing_recurs(tmp_path: Path) -> None:
    rows = [row | {"step": None} for row in persistent_rows()]
    dataset = matched(tmp_path, collectives=rows)
    assert {r[0] for r in view(dataset, "straggler_ranks", "persistent")} == {None}
    assert verdict(dataset).text.startswith("no steps are marked: rank 2 causes")


def test_less_than_a_hundredth_of_the_step_is_no_straggler(tmp_path: Path) -> None:
    """Late by 10 µs with clocks sure to 0.3 µs, but a step takes 2 ms."""
    dataset = matched(tmp_path, collectives=persistent_rows(delay=10 * US), steps=steps(4, range(5), 2 * MS))
    ranks = view(dataset, "straggler_ranks", "rank", "persistent", "late_count")
    assert ranks[2] == (2, False, 5)


def test_start_up_is_apart(tmp_path: Path) -> None:
    """Rank 3 is very late before the first step; that says nothing about training."""
    rows = [reduce(p, 900, -10 * MS + (9 * MS if p == 3 else 0), -MS) for p in range(4)]
    rows += persistent_rows()
    dataset = matched(tmp_path, collectives=rows, steps=steps(4, range(5), 2 * MS))
    assert view(dataset, "straggler_ranks", "blame")[2][0] > 0.9
    skew = view(dataset, "arrival_skew", "start_up", "last_rank")
    assert {last for start_up, last in skew if start_up} == {3}


def shifted(rows: list[dict[str, Any]], shifts: dict[int, int]) -> list[dict[str, Any]]:
    return [
        row | {k: row[k] + shifts.get(row["process_id"], 0) for k in ("start_ns", "end_ns")} for row in rows
    ]


@pytest.mark.parametrize("seed", range(3))
def test_shifting_a_hosts_clock_changes_no_answer(tmp_path: Path, seed: int) -> None:
    """Two hosts; the second one's clock is moved by up to a second: delays and blame stay as they are."""
    rng = random.Random(seed)
    rows = [row | {"end_ns": row["end_ns"] + rng.randrange(0, 300)} for row in persistent_rows(late=seed % 4)]
    processes = [{"process_id": p, "host": "ab"[p // 2]} for p in range(4)]
    marks = steps(4, range(5), 2 * MS)
    columns = ("rank", "blame", "last_count", "late_count", "persistent", "lost_ns")
    timings = ("instance_id", "rank", "delay_ns", "wait_ns", "transfer_ns", "lead_ns", "significant")
    answers = []
    for name, by in (("as it is", 0), ("moved", rng.randrange(-(10**9), 10**9))):
        folder = tmp_path / name
        moved = shifted(rows, {2: by, 3: by})
        moved_marks = shifted(marks, {2: by, 3: by})
        dataset = matched(folder, collectives=moved, processes=processes, steps=moved_marks)
        skew = view(dataset, "arrival_skew", *timings)
        answers.append((skew, view(dataset, "straggler_ranks", *columns)))
    assert answers[0] == answers[1]


def test_a_timeline_compares_tensor_by_tensor(tmp_path: Path) -> None:
    """Three all-reduces; only the first has the ticks of both ranks: rank 1 last, 59 µs."""
    timeline = {"evidence": "timeline", "group_name": None}
    rows = [reduce(0, None, t * US, (t + 100) * US, **timeline) for t in (170, 405, 730)]
    arrivals = [
        {"collective_id": 0, "rank": 0, "tensor": "g/a", "ready_ns": 101 * US},
        {"collective_id": 0, "rank": 1, "tensor": "g/a", "ready_ns": 160 * US},
    ]
    dataset = matched(
        tmp_path,
        collectives=rows,
        arrivals=arrivals,
        processes=[{"process_id": 0}],
        sources=[{"source_id": 0, "format": "horovod", "clock_base": "file"}],
    )
    assert view(dataset, "collective_instances", "spread_ns", "last_rank", "transfer_ns") == [
        (59_000, 1, 100_000),
        (None, None, None),
        (None, None, None),
    ]
    assert view(dataset, "arrival_skew", "tensor", "rank", "delay_ns", "is_last") == [
        ("g/a", 0, 0, False),
        ("g/a", 1, 59_000, True),
    ]


def test_ranges_arrive_but_transfer_nothing(tmp_path: Path) -> None:
    rows = [
        reduce(p, None, 1000 * k + 300 * p, 1000 * k + 900, evidence="range", payload_bytes=8)
        for p in (0, 1)
        for k in range(6)
    ]
    processes = [{"process_id": p, "host": "one"} for p in (0, 1)]
    dataset = matched(tmp_path, collectives=rows, processes=processes)
    skew = view(dataset, "arrival_skew", "rank", "delay_ns", "transfer_ns", "apparent_gb_s", "transfer_gb_s")
    assert set(skew) == {(0, 0, None, None, None), (1, 300, None, None, None)}


def test_a_waiting_rank_makes_the_network_look_slow(tmp_path: Path) -> None:
    """1 MB in 100 µs of transfer is 10 GB/s; rank 0 arrived 300 µs before."""
    rows = [reduce(p, 0, 300 * US * p, 400 * US, payload_bytes=MS) for p in (0, 1)]
    skew = view(matched(tmp_path, collectives=rows), "arrival_skew", "apparent_gb_s", "transfer_gb_s")
    assert skew == [(2.5, 10.0), (10.0, 10.0)]


def test_one_rank_cannot_be_judged(tmp_path: Path) -> None:
    dataset = matched(tmp_path, collectives=[reduce(0, 1, 0, 10)])
    found = verdict(dataset)
    assert found.text == "cannot be said: one rank (rank 0) is in the dataset"
    assert "--add" in str(found.hint)


def test_files_without_a_wall_clock_cannot_be_compared(tmp_path: Path) -> None:
    sources = [{"source_id": s, "format": "nsys", "clock_base": "file"} for s in (0, 1)]
    processes = [{"process_id": p, "source_id": p} for p in (0, 1)]
    rows = [reduce(p, k, 1000 * k, 1000 * k + 10) for p in (0, 1) for k in range(3)]
    dataset = matched(tmp_path, collectives=rows, sources=sources, processes=processes)
    assert view(dataset, "arrival_skew", "rank") == []
    assert "no wall clock" in verdict(dataset).text


def test_processes_of_one_file_share_its_own_zero(tmp_path: Path) -> None:
    processes = [{"process_id": p, "source_id": 0} for p in (0, 1)]
    rows = [reduce(p, k, 1000 * k + 40 * p, 1000 * k + 90) for p in (0, 1) for k in range(6)]
    dataset = matched(
        tmp_path,
        collectives=rows,
        processes=processes,
        sources=[{"source_id": 0, "format": "nsys", "clock_base": "file"}],
    )
    assert set(view(dataset, "arrival_skew", "rank", "delay_ns")) == {(0, 0), (1, 40)}


def test_no_communication_and_nothing_matched(tmp_path: Path) -> None:
    empty = matched(tmp_path / "a", processes=[{"process_id": 0}])
    assert verdict(empty).text == "cannot be said: no communication was captured"
    rows = [reduce(0, 1, 0, 10), reduce(1, 2, 0, 10)]
    unmatched = matched(tmp_path / "b", collectives=rows)
    assert "no collective could be matched" in verdict(unmatched).text


def test_filters_pick_steps_and_ranks(tmp_path: Path) -> None:
    dataset = matched(tmp_path, collectives=persistent_rows(), steps=steps(4, range(5), 2 * MS))
    one = run(dataset, "straggler_ranks", Filters(steps=(1, 2), ranks=(2,))).table.to_pylist()
    assert [(r["rank"], r["steps"], r["persistent"]) for r in one] == [(2, 2, None)]


def host(process: int, step: int, name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    base = {"process_id": process, "step": step, "name": name, "kind": "operator", "form": "nested"}
    return base | {"start_ns": start, "end_ns": end} | more


@pytest.mark.parametrize(
    ("work", "cause", "words"),
    [
        ({"name": "time.sleep", "kind": "python"}, "host sleep", "python time.sleep"),
        ({"name": "enumerate(DataLoader)#_Iter.__next__"}, "data loading", "DataLoader"),
        ({"name": "aten::copy_"}, "memory copies", "aten::copy_"),
        ({"name": "aten::addmm", "phase": "forward"}, "more compute in forward", "1.0 times against 0.0"),
        ({"name": "checkpoint", "kind": "annotation"}, "host work", "annotation checkpoint"),
    ],
)
def test_the_cause_is_what_the_late_rank_does_more(
    tmp_path: Path, work: dict[str, Any], cause: str, words: str
) -> None:
    ops = [host(2, s, start=0, end=400 * US, **work) for s in range(5)]
    ops += [host(p, s, "aten::mm", 0, 100 * US) for p in range(4) for s in range(5)]
    dataset = matched(tmp_path, collectives=persistent_rows(), steps=steps(4, range(5), 2 * MS), host_ops=ops)
    found = view(dataset, "straggler_ranks", "cause", "evidence")[2]
    assert found[0] == cause
    assert words in found[1]
    assert "0.400 ms a step, 0.000 ms on the other ranks" in found[1]


def kernel(process: int, step: int, number: int, dur: int, **more: Any) -> dict[str, Any]:
    base = {"process_id": process, "step": step, "name": f"k{number}", "kind": "kernel", "class": "compute"}
    return base | {"start_ns": step * 2 * MS + number, "dur_ns": dur, "grid_x": 8} | more


def test_the_same_kernels_slower_by_a_factor_is_a_slower_device(tmp_path: Path) -> None:
    ops = [
        kernel(p, s, n, (n + 1) * 20 * US * (3 if p == 2 else 1))
        for p in range(4)
        for s in range(5)
        for n in range(4)
    ]
    dataset = matched(
        tmp_path, collectives=persistent_rows(), steps=steps(4, range(5), 2 * MS), device_ops=ops
    )
    found = view(dataset, "straggler_ranks", "cause", "evidence")[2]
    assert found[0] == "slower device"
    assert "takes 3.00 times as long" in found[1]


def test_larger_kernels_are_more_compute(tmp_path: Path) -> None:
    ops = [
        kernel(p, s, n, (n + 1) * 20 * US * (3 if p == 2 else 1), grid_x=24 if p == 2 else 8)
        for p in range(4)
        for s in range(5)
        for n in range(4)
    ]
    dataset = matched(
        tmp_path, collectives=persistent_rows(), steps=steps(4, range(5), 2 * MS), device_ops=ops
    )
    assert view(dataset, "straggler_ranks", "cause")[2][0] == "more compute"


def test_time_inside_calls_that_wait_is_no_cause(tmp_path: Path) -> None:
    """aten::item takes longer because the device is busy: the call inside it waits."""
    ops = [host(p, s, "aten::item", 0, 500 * US if p == 2 else 10 * US) for p in range(4) for s in range(5)]
    call = {"process_id": 2, "name": "cudaStreamSynchronize", "dur_ns": 495 * US}
    calls = [call | {"host_op_id": (2 << 40) + s, "step": s} for s in range(5)]
    marks = steps(4, range(5), 2 * MS)
    dataset = matched(tmp_path, collectives=persistent_rows(), steps=marks, host_ops=ops, launches=calls)
    assert view(dataset, "straggler_ranks", "cause", "reason")[2] == (
        None,
        "nothing in its own time explains half of the wait",
    )
