"""Comparison: rows in, rows out."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace import metrics
from mdtrace.errors import DatasetError, UsageError
from mdtrace.metrics.comparison import Comparison
from mdtrace.metrics.engine import run
from mdtrace.metrics.filters import Filters
from mdtrace.tables.dataset import Dataset
from rows import dataset

Row = dict[str, Any]
_ORDER = ("compute", "communication", "memcpy")


def _job(folder: Path, steps: int = 6, *, gemm: int = 400, hidden: int = 100, **more: Any) -> Dataset:
    """Steps of 1000 ns on two ranks: gemm, an all-reduce of 300 of which `hidden` beside it, a copy."""
    ops: list[Row] = []
    for p in (0, 1):
        for s in range(steps):
            at = 1000 * s + 7 * p
            ops += [
                {"start_ns": at, "end_ns": at + gemm, "name": more.get("name", "gemm_128x64"), "layer_id": 0},
                {
                    "start_ns": at + gemm - hidden, "end_ns": at + gemm - hidden + 300,
                    "class": "communication", "name": "ncclDevKernel_AllReduce",
                },
                {"start_ns": at + 850, "end_ns": at + 900, "class": "memcpy", "name": "Memcpy HtoD"},
            ]  # fmt: skip
            for op in ops[-3:]:
                op |= {"process_id": p, "step": s, "phase": "forward" if op.get("layer_id") == 0 else None}
                op["layer_id"] = p << 40 if "layer_id" in op else None
    places = Counter[int]()
    collectives = []
    for op in ops:
        if op.get("class") == "communication":
            collectives.append(
                {
                    "process_id": op["process_id"], "start_ns": op["start_ns"], "end_ns": op["end_ns"],
                    "kind": "all_reduce", "group_desc": "dp", "group_size": 2, "payload_bytes": 5000,
                    "device_op_id": (op["process_id"] << 40) + places[op["process_id"]], "step": op["step"],
                }
            )  # fmt: skip
        places[op["process_id"]] += 1
    return dataset(
        folder,
        processes=[{"process_id": p, "world_size": 2} for p in (0, 1)],
        device_ops=ops,
        layers=[{"process_id": p, "path": "net/linear"} for p in (0, 1)],
        steps=[
            {"process_id": p, "step": s, "start_ns": 1000 * s, "end_ns": 1000 * s + 1000}
            for p in (0, 1)
            for s in range(steps)
        ],
        collectives=collectives,
        host_ops=[
            {"process_id": p, "start_ns": 1000 * s, "end_ns": 1000 * s + 50, "name": "aten::mm", "step": s}
            for p in (0, 1)
            for s in range(steps)
        ],
    )


def _rows(found: Comparison, part: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(r[n] for n in names) for r in found.rows(part)]


def test_a_run_against_itself_is_the_same(tmp_path: Path) -> None:
    job = _job(tmp_path)
    found = metrics.compare(job, job)
    assert set(found.df()["verdict"]) == {"same"}
    assert found.regressions == []
    assert found.base.steps == (1, 2, 3, 4, 5)
    assert found.base.left_out == {0: "first step captured"}


def test_what_changed_and_what_it_adds_to_the_step(tmp_path: Path) -> None:
    """A gemm 20 % slower: the all-reduce moves with it, the gap before the copy shrinks, the step stays."""
    found = metrics.compare(_job(tmp_path / "a", 8), _job(tmp_path / "b", 12, gemm=480))
    changed = ("name", "base_ns", "new_ns", "change_ns", "contribution", "verdict")
    assert _rows(found, "step", *changed)[0] == ("step", 1000, 1000, 0, 0, "same")
    assert _rows(found, "bucket", *changed) == [
        ("compute", 400, 480, 80, 0.08, "regression"),
        ("exposed communication", 200, 200, 0, 0, "same"),
        ("exposed copies", 50, 50, 0, 0, "same"),
        ("idle", 350, 270, -80, -0.08, "improvement"),
    ]
    assert _rows(found, "kernel", *changed)[0] == ("gemm_128x64", 400, 480, 80, 0.08, "regression")
    assert {r["verdict"] for r in found.rows("kernel")[1:]} == {"same"}
    assert _rows(found, "layer", "name", "phase", "change_ns")[0] == ("net/linear", "forward", 80)
    assert _rows(found, "collective", "name", "base_count", "base_ns", "verdict") == [
        ("all_reduce dp of 2, 4.1 kB", 1, 300, "same")
    ]
    assert _rows(found, "host", "name", "base_ns", "contribution_ns") == [("aten::mm", 50, None)]
    assert found.regressions == ["compute"]


def test_parts_add_up_to_the_step(tmp_path: Path) -> None:
    found = metrics.compare(_job(tmp_path / "a"), _job(tmp_path / "b", gemm=430, hidden=20))
    step = found.rows("step")[0]["change_ns"]
    idle = next(r["change_ns"] for r in found.rows("bucket") if r["name"] == "idle")
    assert sum(r["change_ns"] for r in found.rows("bucket")) == step
    for part in ("kernel", "operator", "layer"):
        assert sum(r["contribution_ns"] for r in found.rows(part)) + idle == step


def test_a_collective_that_only_shows_more_is_worse(tmp_path: Path) -> None:
    found = metrics.compare(_job(tmp_path / "a"), _job(tmp_path / "b", hidden=0))
    row = next(r for r in found.rows("kernel") if r["name"] == "ncclDevKernel_AllReduce")
    assert (row["change_ns"], row["contribution_ns"], row["verdict"]) == (0, 100, "regression")
    assert found.regressions == ["exposed communication"]


def test_names_that_a_tuner_changed_are_matched(tmp_path: Path) -> None:
    found = metrics.compare(_job(tmp_path / "a"), _job(tmp_path / "b", name="gemm_256x64"))
    row = next(r for r in found.rows("kernel") if "gemm" in r["name"])
    assert (row["name"], row["matched"], row["verdict"]) == ("gemm_#", "normalised name", "same")


def test_new_and_gone(tmp_path: Path) -> None:
    found = metrics.compare(_job(tmp_path / "a"), _job(tmp_path / "b", name="fused_attention"))
    rows = {r["name"]: (r["base_ns"], r["new_ns"], r["verdict"]) for r in found.rows("kernel")}
    assert rows["gemm_128x64"] == (400, 0, "gone")
    assert rows["fused_attention"] == (0, 400, "new")


def test_filters_pick_ranks_steps_and_layers(tmp_path: Path) -> None:
    a, b = _job(tmp_path / "a"), _job(tmp_path / "b", gemm=480)
    found = metrics.compare(a, b, filters=Filters(ranks=(1,), steps=(0, 2)))
    assert (found.base.ranks, found.base.steps, found.noise_is_known) == ((1,), (0, 2), False)
    assert next(r["verdict"] for r in found.rows("bucket") if r["name"] == "compute") == "cannot tell"
    assert found.regressions == ["compute"]  # the threshold alone decides
    of_layer = metrics.compare(a, b, filters=Filters(layer="*/linear"))
    assert [r["name"] for r in of_layer.rows("kernel")] == ["gemm_128x64"]
    with pytest.raises(UsageError, match="time"):
        metrics.compare(a, b, filters=Filters(time=(0.0, 1.0)))


def test_without_steps_whole_captures_are_compared(tmp_path: Path) -> None:
    a = dataset(tmp_path / "a", device_ops=[{"start_ns": 0, "end_ns": 100, "name": "k"}])
    b = dataset(tmp_path / "b", device_ops=[{"start_ns": 0, "end_ns": 150, "name": "k"}])
    found = metrics.compare(a, b)
    assert (found.base.steps, found.noise_is_known) == ((), False)
    assert _rows(found, "step", "base_ns", "new_ns", "noise_ns", "verdict")[0] == (
        100,
        150,
        None,
        "cannot tell",
    )
    assert found.regressions == ["step", "compute"]


def test_host_records_stand_in_where_no_device_was_captured(tmp_path: Path) -> None:
    def cpu(folder: Path, long: int) -> Dataset:
        ops = [
            {"start_ns": 1000 * s + at, "end_ns": 1000 * s + end, "name": name, "step": s, "depth": depth}
            for s in range(6)
            for at, end, name, depth in ((0, 100 + long, "aten::linear", 0), (20, 60, "aten::addmm", 1))
        ]
        for i in range(1, len(ops), 2):
            ops[i]["parent_id"] = i - 1
        steps = [{"step": s, "start_ns": 1000 * s, "end_ns": 1000 * s + 1000} for s in range(6)]
        return dataset(folder, host_ops=ops, steps=steps)

    found = metrics.compare(cpu(tmp_path / "a", 0), cpu(tmp_path / "b", 300))
    assert found.base.bases == ("host records",)
    assert _rows(found, "host", "name", "base_ns", "new_ns", "contribution_ns", "verdict") == [
        ("aten::linear", 60, 360, 300, "regression"),
        ("aten::addmm", 40, 40, 0, "same"),
    ]
    assert found.regressions == ["compute"]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    job, nothing = _job(tmp_path / "a"), dataset(tmp_path / "b")
    with pytest.raises(DatasetError, match="nothing in it"):
        metrics.compare(job, nothing)
    with pytest.raises(DatasetError, match="nothing in it"):
        metrics.compare(job, job, filters=Filters(ranks=(9,)))
    with pytest.raises(UsageError, match="share"):
        metrics.compare(job, job, threshold=-1)


_ops = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20), st.sampled_from(_ORDER), st.sampled_from([None, 1, 2])),
    min_size=1,
    max_size=14,
)


@given(st.lists(_ops, min_size=1, max_size=8))
@settings(max_examples=8, deadline=None)
def test_every_ns_belongs_to_one_activity(cases: list[list[tuple[int, int, str, int | None]]]) -> None:
    ops: list[Row] = [
        {"process_id": p, "start_ns": s, "end_ns": s + d, "class": c, "step": step, "name": f"{p}/{i}"}
        for p, found in enumerate(cases)
        for i, (s, d, c, step) in enumerate(found)
    ]
    with tempfile.TemporaryDirectory() as folder:
        job = dataset(Path(folder), device_ops=ops)
        rows = run(job, "compare_device").arrow().to_pylist()
        busy = run(job, "step_breakdown").arrow().to_pylist()
    shown: Counter[tuple[str, int | None]] = Counter()
    for p in range(len(cases)):
        own = [o for o in ops if o["process_id"] == p]
        starts = {
            s: min(o["start_ns"] for o in own if o["step"] == s) for s in {o["step"] for o in own} - {None}
        }
        for t in range(80):
            step = max((s for s in starts if starts[s] <= t), key=lambda s: (starts[s], s), default=None)
            running = [o for o in own if o["start_ns"] <= t < o["end_ns"]]
            if running:
                first = min(_ORDER.index(o["class"]) for o in running)
                best = [o for o in running if _ORDER.index(o["class"]) == first]
                shown[_last_to_end(best), step] += 1
    assert {(r["name"], r["step"]): r["shown_ns"] for r in rows if r["shown_ns"]} == shown
    totals: Counter[int | None] = Counter()
    for row in busy:
        totals[row["step"]] += row["span_ns"] - row["idle_ns"]
    assert {s: n for s, n in totals.items() if n} == _by_step(shown)
    assert sum(r["count"] for r in rows) == len(ops)
    assert sum(r["own_ns"] for r in rows) == sum(o["end_ns"] - o["start_ns"] for o in ops)


def _last_to_end(running: list[Row]) -> str:
    latest = max(o["end_ns"] for o in running)
    return str(min((o["start_ns"], i, o["name"]) for i, o in enumerate(running) if o["end_ns"] == latest)[2])


def _by_step(shown: Counter[tuple[str, int | None]]) -> dict[int | None, int]:
    totals: Counter[int | None] = Counter()
    for (_, step), ns in shown.items():
        totals[step] += ns
    return dict(totals)
