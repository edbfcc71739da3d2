"""Which markers are steps, and what started in which."""

from pathlib import Path
from typing import Any

import pytest

from link_stage import Rows, codes, column, link, link_file
from shared import shared


def _marks(*names: str, kind: str = "nvtx", length: int = 100, **more: Any) -> list[dict[str, Any]]:
    """Ranges one after the other, 100 ns each."""
    return [
        {"name": name, "kind": kind, "start_ns": i * length, "end_ns": (i + 1) * length, **more}
        for i, name in enumerate(names)
    ]


def _steps(tmp_path: Path, host_ops: Rows) -> list[tuple[int, str, str]]:
    linked = link(tmp_path, host_ops=host_ops)
    columns = (column(linked, "steps", name) for name in ("step", "name", "origin"))
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("step 3", "step 4"),
        ("step3", "step4"),
        ("iteration_3", "iteration_4"),
        ("train_step#3", "train_step#4"),
        ("iter: 3", "iter: 4"),
        ("Training step 3/100", "Training step 4/100"),
        ("[Iteration=3]", "[Iteration=4]"),
        ("batch 3", "batch 4"),
    ],
)
def test_texts_that_number_steps(tmp_path: Path, first: str, second: str) -> None:
    assert _steps(tmp_path, _marks(first, second)) == [(3, first, "NVTX"), (4, second, "NVTX")]


@pytest.mark.parametrize(
    "name", ["microstep", "substep", "micro_batch", "layer", "Optimizer.step#SGD.v", "run"]
)
def test_texts_that_do_not(tmp_path: Path, name: str) -> None:
    linked = link(tmp_path, host_ops=_marks(f"{name} 3", f"{name} 4"))
    assert "steps" not in linked.tables
    assert codes(linked)["no_steps"] == 1


def test_profiler_steps_win_and_bound_what_starts_in_them(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=[
            *_marks("ProfilerStep#7", "ProfilerStep#8", kind="annotation"),
            *_marks("iteration 1", "iteration 2", "iteration 3", kind="annotation", length=60),
            {"name": "a", "thread_id": 2, "start_ns": 99, "end_ns": 150},
            {"name": "b", "thread_id": 2, "start_ns": 100, "end_ns": 150},
            {"name": "c", "thread_id": 2, "start_ns": 200, "end_ns": 250},
        ],
    )
    assert column(linked, "steps", "step") == [7, 8]
    assert column(linked, "steps", "origin") == ["ProfilerStep"] * 2
    assert column(linked, "steps", "host_op_id") == [0, 1]
    assert column(linked, "steps", "start_ns") == [0, 100]
    assert column(linked, "steps", "end_ns") == [100, 200]
    assert column(linked, "host_ops", "step") == [7, 8, 7, 7, 8, 7, 8, None]


def test_the_outer_family_is_the_step(tmp_path: Path) -> None:
    outer = _marks("iteration 0", "iteration 1", kind="annotation")
    inner = _marks(*(f"step {i}" for i in range(8)), kind="annotation", length=25)
    assert [s[0] for s in _steps(tmp_path, [*inner, *outer])] == [0, 1]


def test_of_families_side_by_side_the_larger(tmp_path: Path) -> None:
    data = _marks("step 0", "step 1", "step 2", thread_id=1)
    other = _marks("step 10", "step 11", thread_id=2, length=140)
    assert [s[0] for s in _steps(tmp_path, [*other, *data])] == [0, 1, 2]


def test_overlapping_markers_are_no_steps(tmp_path: Path) -> None:
    marks = _marks("step 0", "step 1", "step 2", form="async")
    marks[1]["end_ns"] = 250
    assert _steps(tmp_path, marks) == []


def test_numbers_that_repeat_or_miss_are_counted_anew(tmp_path: Path) -> None:
    epochs = _marks("epoch 0 step 0", "epoch 0 step 1", "epoch 1 step 0")
    assert [s[0] for s in _steps(tmp_path / "epochs", epochs)] == [0, 1, 2]
    assert [s[0] for s in _steps(tmp_path / "plain", _marks("train_step", "train_step"))] == [0, 1]
    assert _steps(tmp_path / "once", _marks("train_step")) == []
    assert [s[0] for s in _steps(tmp_path / "one", _marks("step 12"))] == [12]


def test_the_last_step_may_be_open_and_copies_are_none(tmp_path: Path) -> None:
    marks = _marks("step 0", "step 1")
    marks[1]["end_ns"] = None
    linked = link(tmp_path, host_ops=[*marks, {**marks[0], "duplicate": True}])
    assert column(linked, "steps", "step") == [0, 1]
    assert column(linked, "steps", "end_ns") == [100, None]
    assert column(linked, "host_ops", "step") == [0, 1, 0]


def test_steps_that_the_reader_staged_are_used(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        steps=[{"step": 4, "start_ns": 50, "end_ns": 90}, {"step": 3, "start_ns": 10, "end_ns": 50}],
        host_ops=[{"name": "x", "start_ns": t, "end_ns": t} for t in (9, 10, 50, 90)],
    )
    assert "steps" not in linked.tables
    assert column(linked, "host_ops", "step") == [None, 3, 4, None]


def test_device_work_belongs_to_the_step_of_its_launch(tmp_path: Path) -> None:
    linked = link(
        tmp_path,
        host_ops=_marks("ProfilerStep#0", "ProfilerStep#1", kind="annotation"),
        launches=[{"start_ns": 90, "end_ns": 95, "correlation": 1}],
        device_ops=[{"start_ns": 150, "end_ns": 160, "correlation": 1}, {"start_ns": 150, "end_ns": 160}],
    )
    assert column(linked, "device_ops", "step") == [0, None]


@pytest.mark.parametrize(
    ("parts", "numbers", "origin"),
    [
        (("own", "torch_gloo", "alexnet_w2", "rank0.pt.trace.json.gz"), [2, 3, 4, 5, 6], "ProfilerStep"),
        (("kineto", "resnet50_mi300x_rank0of8.json.gz"), [15, 16, 17], "ProfilerStep"),
        (("own", "nsys_cpu", "ddp_w2_straggler1", "rank1.sqlite"), [0, 1, 2, 3, 4], "NVTX"),
        (("own", "nsys_cpu", "nvtx_2022.4.sqlite"), [0, 1, 2], "NVTX"),
    ],
)
def test_steps_of_real_files(tmp_path: Path, parts: tuple[str, ...], numbers: list[int], origin: str) -> None:
    ((_, linked),) = link_file(shared("traces", *parts), tmp_path)
    assert column(linked, "steps", "step") == numbers
    assert set(column(linked, "steps", "origin")) == {origin}


def test_case_23_no_step_is_marked(tmp_path: Path) -> None:
    ((_, linked),) = link_file(shared("cases", "23_no_profilerstep", "nostep.json"), tmp_path)
    assert column(linked, "device_ops", "step") == [None, None]
    assert codes(linked)["no_steps"] == 1
