"""Which operators have a cost and whose device time it is: by hand, and against a plain search in random
trees."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from link_stage import link
from mdtrace.costs import Cost, Model
from mdtrace.link.cost_calls import Costs, Modelled
from mdtrace.link.costs import GRAPH, NO_MODEL, NO_OPERATOR, choose

MM = {"input_dims": "[[2,3],[3,5]]", "input_types": '["float","float"]'}
LINEAR = {"input_dims": "[[2,3],[5,3],[]]", "input_types": '["float","float",""]'}
COPY = {"input_dims": "[[2],[2],[]]", "input_types": '["float","float","Scalar"]'}
LISTS = {"input_dims": "[[[2],[3]],[]]", "input_types": '["TensorList","Scalar"]'}


def rows(folder: Path, **given: Any) -> dict[int, dict[str, Any]]:
    """Rows of op_costs by row of host_ops."""
    table = link(folder, **given).tables["op_costs"]
    return {r.pop("host_op_id"): r for r in table.to_pylist()}


def operator(name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "start_ns": start, "end_ns": end, **more}


def launched(at: int, number: int, length: int = 10, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call at a time and the kernel it starts."""
    return (
        {"start_ns": at, "end_ns": at + 1, "correlation": number},
        {"start_ns": 1000 + at, "end_ns": 1000 + at + length, "correlation": number, **more},
    )


def test_a_wrapper_gives_way_to_the_operator_inside(tmp_path: Path) -> None:
    call, kernel = launched(12, 1)
    found = rows(
        tmp_path,
        host_ops=[operator("aten::linear", 0, 100, **LINEAR), operator("aten::mm", 10, 20, **MM)],
        launches=[call],
        device_ops=[kernel],
    )
    assert found == {
        1: {
            "flops": 60, "bytes": 124, "model": "gemm", "dtype": "f32", "reason": None, "profiler_flops":
            None, "device_op_count": 1, "device_ns": 10, "compute_ns": 10,
        }
    }  # fmt: skip


def test_a_wrapper_alone_holds_and_so_does_one_that_launches_kernels_itself(tmp_path: Path) -> None:
    call, kernel = launched(60, 1)
    found = rows(
        tmp_path,
        host_ops=[
            operator("aten::linear", 0, 10, **LINEAR),
            operator("aten::linear", 50, 100, **LINEAR),
            operator("aten::copy_", 70, 80, **COPY),
        ],
        launches=[call],
        device_ops=[kernel],
    )
    assert {row: (f["flops"], f["device_ns"]) for row, f in found.items()} == {0: (60, None), 1: (60, 10)}


def test_the_outermost_whole_operator_owns_what_is_inside(tmp_path: Path) -> None:
    (call, kernel), (inner_call, inner_kernel) = launched(5, 1), launched(12, 2, 3)
    copy, inner_copy = launched(14, 3, 4, kind="memcpy", **{"class": "memcpy"})
    found = rows(
        tmp_path,
        host_ops=[operator("aten::mm", 0, 100, **MM), operator("aten::copy_", 10, 20, **COPY)],
        launches=[call, inner_call, copy],
        device_ops=[kernel, inner_kernel, inner_copy],
    )
    assert set(found) == {0}
    assert [found[0][k] for k in ("device_op_count", "device_ns", "compute_ns")] == [3, 17, 13]


def test_kernels_without_a_cost_have_a_row_with_the_reason(tmp_path: Path) -> None:
    pairs = [launched(5, 1), launched(15, 2), launched(25, 3), launched(35, 4), launched(45, 5)]
    pairs[3][1]["graph_node_id"] = 7
    found = rows(
        tmp_path,
        host_ops=[
            operator("my::op", 0, 10),
            operator("step", 10, 20, kind="annotation"),
            operator("aten::mm", 20, 30),
            operator("my::replay", 30, 40),
            operator("aten::view", 40, 50, **MM),
        ],
        launches=[p[0] for p in pairs],
        device_ops=[p[1] for p in pairs],
    )
    assert {row: (f["reason"], f["model"]) for row, f in found.items()} == {
        0: (NO_MODEL, None),
        1: (NO_OPERATOR, None),
        2: ("shapes not recorded", "gemm"),
        3: (GRAPH, None),
        4: (NO_MODEL, None),
    }
    assert all(f["flops"] is None and f["bytes"] is None and f["device_ns"] == 10 for f in found.values())


def test_without_devices_every_innermost_operator_has_a_row(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        host_ops=[
            operator("aten::linear", 0, 100, **LINEAR),
            operator("aten::t", 1, 5),
            operator("aten::mm", 10, 60, **MM),
            operator("aten::copy_", 20, 30, **COPY),
            operator("my::op", 70, 80),
            operator("aten::view", 71, 72),
        ],
    )
    assert {row: (f["flops"], f["reason"]) for row, f in found.items()} == {
        1: (0, None),
        2: (60, None),
        5: (0, None),
    }


def test_copies_of_an_event_have_no_row_and_no_time(tmp_path: Path) -> None:
    call, kernel = launched(5, 1)
    found = rows(
        tmp_path,
        host_ops=[operator("aten::mm", 0, 10, **MM), operator("aten::mm", 0, 10, **MM, duplicate=True)],
        launches=[call],
        device_ops=[kernel, {**kernel, "duplicate": True}],
    )
    assert {row: f["device_ns"] for row, f in found.items()} == {0: 10}


def test_a_kernel_name_tells_the_type_of_lists(tmp_path: Path) -> None:
    name = "multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor<c10::BFloat16, 1>, float>"
    call, kernel = launched(5, 1, name=name)
    found = rows(
        tmp_path,
        host_ops=[operator("aten::_foreach_mul_", 0, 10, **LISTS)],
        launches=[call],
        device_ops=[kernel],
    )
    assert (found[0]["flops"], found[0]["bytes"], found[0]["dtype"]) == (5, 20, "bf16")


def test_foreach_on_a_processor_gives_way_to_its_operators(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        host_ops=[
            operator("aten::_foreach_mul_", 0, 100, **LISTS),
            operator("aten::mul_", 10, 20, input_dims="[[2],[]]", input_types='["float","Scalar"]'),
            operator("aten::mul_", 30, 40, input_dims="[[3],[]]", input_types='["float","Scalar"]'),
        ],
    )
    assert {row: (f["flops"], f["bytes"]) for row, f in found.items()} == {1: (2, 16), 2: (3, 24)}


def test_the_profilers_figure_of_a_wrapper_goes_to_its_first_operator(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        host_ops=[
            operator("aten::linear", 0, 100, **LINEAR, flops=61),
            operator("aten::mm", 10, 20, **MM),
            operator("aten::mm", 30, 40, **MM),
            operator("aten::mm", 110, 120, **MM, flops=62),
        ],
    )
    assert {row: f["profiler_flops"] for row, f in found.items()} == {1: 61, 2: None, 3: 62}


def test_ranges_of_nsys_named_like_operators_have_costs(tmp_path: Path) -> None:
    found = rows(tmp_path, host_ops=[operator("aten::mm", 0, 10, kind="nvtx", input_dims="[[2,3],[3,5]]")])
    assert {row: (f["flops"], f["bytes"]) for row, f in found.items()} == {0: (60, None)}


def test_a_collective_reduces_on_its_own_device(tmp_path: Path) -> None:
    call, kernel = launched(15, 1, name="ncclDevKernel_AllReduce", **{"class": "communication"})
    found = rows(
        tmp_path,
        host_ops=[operator("c10d::allreduce_", 0, 100), operator("record_param_comms", 10, 20)],
        launches=[call],
        device_ops=[kernel],
        comm_records=[
            {
                "anchor": "device_ops", "row": 0, "name": "allreduce", "dtype": "bf16", "elements_in": 8,
                "elements_out": 8, "group_size": 4,
            }
        ],
    )  # fmt: skip
    assert {row: (f["flops"], f["bytes"], f["model"]) for row, f in found.items()} == {
        1: (6, 32, "collective")
    }
    assert (found[1]["device_ns"], found[1]["compute_ns"]) == (10, 0)


# Random trees: 0 no model, 1 whole, 2 wrapper, 3 wrapper that launches kernels, 4 whole without a cost.
_nodes = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 40)), max_size=40)


def _tree(nodes: list[tuple[int, int]]) -> tuple[np.ndarray[Any, Any], list[int]]:
    parent = [min(p, i - 1) for i, (_, p) in enumerate(nodes)]
    return np.array(parent, np.int32), [k for k, _ in nodes]


def _chosen(parent: np.ndarray[Any, Any], kinds: list[int]) -> set[int]:
    def above(i: int) -> list[int]:
        found = []
        while parent[i] != -1:
            i = int(parent[i])
            found.append(i)
        return found

    every = range(len(kinds))
    whole = {i for i in every if kinds[i] in (1, 3)}
    outermost = {i for i in whole if not whole & set(above(i))}
    candidates = {i for i in every if kinds[i] == 2 and not whole & set(above(i))}
    around = {a for i in outermost | candidates for a in above(i)}
    return outermost | (candidates - around)


@given(_nodes)
def test_each_piece_of_work_is_counted_once(nodes: list[tuple[int, int]]) -> None:
    parent, kinds = _tree(nodes)
    models = [
        Model("whole", lambda call: Cost(1, 1)),
        Model("wrapper", lambda call: Cost(1, 1), "wrapper"),
    ]
    of = np.array([{0: -1, 1: 0, 2: 1, 3: 1, 4: 0}[k] for k in kinds], np.int16)
    modelled = np.flatnonzero(of != -1)
    which = np.array([int(kinds[i] == 4) for i in modelled], np.int64)
    costs = Costs(modelled, which, [Cost(1, 1), Cost(reason="unknown")])
    chosen = choose(parent, Modelled(of, models), costs, np.array([k == 3 for k in kinds], np.bool_))
    found = set(np.flatnonzero(chosen).tolist())
    assert found == _chosen(parent, kinds)
    for i in found:  # none lies inside another one
        at = int(parent[i])
        while at != -1:
            assert at not in found
            at = int(parent[at])
