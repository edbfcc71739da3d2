"""Which rank a capture is, and what is said about a job whose ranks do not add up."""

from typing import Any

import pytest

from mdtrace.ingest.facts import ProcessFacts, SourceFacts
from mdtrace.ingest.ranks import compact, job_diagnostics, rank_from_name, resolve_ranks
from mdtrace.tables.diagnostics import Diagnostic


@pytest.mark.parametrize(
    ("label", "rank"),
    [
        ("rank3.json", 3),
        ("rank_3.pt.trace.json.gz", 3),
        ("trace-rank-03.json", 3),
        ("host_12_rank3.1699999999.pt.trace.json", 3),
        ("RANK=7.sqlite", 7),
        ("eager_b200_rank0of8.json.gz", 0),
        ("gloo_cpu_rank34of300.pt.trace.json.gz", 34),
        ("rank_2_of_4.json", 2),
        ("rank3/trace.json", 3),
        ("rank3/rank3.json", 3),
        ("global_rank_12.json", 12),
        ("local_rank1_global_rank9.json", 9),
        ("worker_rank1.json", 1),
        ("worker3_step5.json", 3),
        ("worker_3.pt.trace.json", 3),
        ("rank0/worker1.json", 0),
        # said twice and differently, of a part of the job only, or not said
        ("rank0/rank1.json", None),
        ("rank0-rank7.json", None),
        ("worker1_worker2.json", None),
        ("tp_rank1.json", None),
        ("pp-rank-1_dp-rank-0.json", None),
        ("local_rank3.json", None),
        ("job-worker-3_77.1699999999.pt.trace.json", None),
        ("frank3.json", None),
        ("ranks8.json", None),
        ("rank8gpus.json", None),
        ("trace_r3.json", None),
        ("trace.3.json", None),
        ("torch2.4.json", None),
        ("timeline.json", None),
        ("rank99999999999999999999.json", None),
        ("rank٣.json", None),
    ],
)
def test_rank_from_name(label: str, rank: int | None) -> None:
    assert rank_from_name(label) == rank


def facts(*processes: ProcessFacts) -> SourceFacts:
    return SourceFacts("kineto", "epoch", processes=list(processes))


def said(found: list[Diagnostic]) -> list[tuple[str, int | None]]:
    for diagnostic in found:
        assert diagnostic.row(0, 0)["message"]  # every placeholder is filled
    return [(d.code, d.process) for d in found]


def test_option_then_file_then_name() -> None:
    process = ProcessFacts((0,), rank=2, rank_origin="distributedInfo")
    assert said(resolve_ranks("rank5.json", facts(process), [7])) == [("rank_overridden", 0)]
    assert (process.rank, process.rank_origin) == (7, "option")

    process = ProcessFacts((0,), rank=2, rank_origin="environment")
    assert said(resolve_ranks("trace.json", facts(process), [2])) == []
    assert (process.rank, process.rank_origin) == (2, "option")

    process = ProcessFacts((0,), rank=2, rank_origin="distributedInfo")
    assert said(resolve_ranks("rank5.json", facts(process), None)) == [("rank_name_differs", 0)]
    assert (process.rank, process.rank_origin) == (2, "distributedInfo")

    process = ProcessFacts((0,))
    assert said(resolve_ranks("rank5.json", facts(process), None)) == [("rank_from_file_name", 0)]
    assert (process.rank, process.rank_origin) == (5, "file name")


def test_unknown_stays_unknown() -> None:
    process = ProcessFacts((0,), pid=77)
    found = resolve_ranks("trace.json", facts(process), None)
    assert said(found) == [("no_rank", 0)]
    assert found[0].row(0, 0)["message"] == (
        "trace.json: nothing says which rank process 77 is; its rank is NULL"
    )
    assert (process.rank, process.rank_origin) == (None, None)


def test_name_and_option_speak_of_one_process_only() -> None:
    first, second = ProcessFacts((1,), pid=1), ProcessFacts((2,), pid=2, rank=4, rank_origin="environment")
    assert said(resolve_ranks("rank3.json", facts(first, second), None)) == [("no_rank", 0)]
    assert (first.rank, second.rank) == (None, 4)
    assert said(resolve_ranks("x.json", facts(first, second), [1])) == [
        ("rank_option_unused", None),
        ("no_rank", 0),
    ]


def test_an_option_gives_each_process_of_a_file_its_rank() -> None:
    first, second = ProcessFacts((1,), pid=1), ProcessFacts((2,), pid=2, rank=4, rank_origin="environment")
    assert said(resolve_ranks("x.sqlite", facts(first, second), [0, 1])) == [("rank_overridden", 1)]
    assert [(p.rank, p.rank_origin) for p in (first, second)] == [(0, "option"), (1, "option")]


def test_rank_beyond_its_world() -> None:
    process = ProcessFacts((0,), rank=6, rank_origin="distributedInfo", world_size=4)
    found = resolve_ranks("x.json", facts(process), None)
    assert said(found) == [("rank_beyond_world", 0)]
    assert found[0].row(0, 0)["message"] == "x.json: rank 6 is not below the world size of 4"


def row(process_id: int, rank: int | None, size: int | None = None, **more: Any) -> dict[str, Any]:
    base = {"rank_origin": "distributedInfo", "host": "a", "source_id": process_id}
    return {"process_id": process_id, "rank": rank, "world_size": size, **base, **more}


def sources(*bases: str) -> list[dict[str, Any]]:
    return [
        {"source_id": i, "file": f"f{i}.json", "clock_base": base, "clock_base_ns": None}
        for i, base in enumerate(bases)
    ]


def messages(*args: Any) -> dict[str, str]:
    return {d.code: d.row(None, None)["message"] for d in job_diagnostics(*args)}


def test_world_that_does_not_agree() -> None:
    """Ranks 0 and 5 of 8, and a third file that claims rank 6 of 4 (its own reading says that)."""
    processes = [row(0, 0, 8), row(1, 5, 8), row(2, 6, 4)]
    assert messages(processes, sources("epoch", "epoch", "epoch")) == {
        "ranks_missing": "5 of 8 ranks have no capture: 1-4, 7 (present: 0, 5, 6)",
        "world_sizes_differ": "2 different world sizes are stated: 4 (rank 6), 8 (rank 0, 5)",
    }


def test_rank_twice_names_both_files() -> None:
    processes = [row(0, 1, 2), row(1, 1, 2), row(2, 0, 2)]
    assert messages(processes, sources("epoch", "epoch", "epoch")) == {
        "rank_twice": "1 rank(s) were captured more than once: rank 1 in f0.json, f1.json"
    }


def test_rank_beyond_what_others_say() -> None:
    found = messages([row(0, 0, 1), row(1, 3)], sources("epoch", "epoch"))
    assert found == {"rank_beyond_world": "dataset: rank 3 is not below the world size of 1"}


def test_timeline_is_no_second_capture_of_rank_0() -> None:
    timeline = row(2, 0, 2, rank_origin="timeline", host=None)
    assert messages([row(0, 0, 2), row(1, 1, 2), timeline], sources("epoch", "epoch", "epoch")) == {}
    assert messages([timeline], sources("epoch")) == {}  # it speaks of all ranks: none is missing


def test_clocks_and_hosts() -> None:
    found = messages([row(0, 0, 2), row(1, 1, 2, host=None)], sources("epoch", "file"))
    assert set(found) == {"clock_bases_differ", "no_host"}
    assert found["clock_bases_differ"].endswith("f1.json")
    assert found["no_host"].startswith("1 of 2")
    assert messages([row(0, 0, 1, host=None)], sources("file")) == {}  # nothing to compare with


def test_complete_job_has_nothing_to_say() -> None:
    assert messages([row(i, i, 4) for i in range(4)], sources(*["epoch"] * 4)) == {}
    assert messages([], []) == {}
    assert messages([row(0, None)], sources("epoch")) == {}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([1, 0], "0, 1"), ([0, 2, 3, 4, 5, 8], "0, 2-5, 8"), ([7, 1, 2, 3], "1-3, 7")],
)
def test_compact(numbers: list[int], text: str) -> None:
    assert compact(numbers) == text
