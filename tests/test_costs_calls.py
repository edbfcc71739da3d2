"""Recorded texts as calls: old and new spellings, expanded tensors, hostile input."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.costs import Tensor, evaluate, model_of, parse
from mdtrace.costs.call import NO_SHAPES, NOT_UNDERSTOOD, Recorded, UnknownError
from mdtrace.costs.registry import MODELS, size
from mdtrace.link.cost_calls import element_type


def read(**texts: Any) -> tuple[Any, ...]:
    encoded = {k: v if isinstance(v, str) else json.dumps(v) for k, v in texts.items()}
    return parse("aten::x", Recorded(**encoded), element_type).args


def test_tensors_scalars_and_absent_ones_are_told_apart_by_type() -> None:
    args = read(
        dims=[[2, 3], [], [], []],
        types=["c10::BFloat16", "float", "Scalar", ""],
        strides=[[3, 1], [], [], []],
    )
    assert args == (Tensor((2, 3), "bf16", (3, 1)), Tensor((), "f32", ()), None, None)


def test_lists_of_tensors_have_shapes_in_newer_traces_only() -> None:
    assert read(dims=[[[2], [3, 4]], []], types=["TensorList", "Scalar"]) == (
        (Tensor((2,), None), Tensor((3, 4), None)),
        None,
    )
    assert read(dims=[[], []], types=["GenericList", "Int"]) == (None, None)


def test_kernels_may_tell_the_type_of_a_list() -> None:
    (some, _) = read(dims=[[[2], [3]], []], types=["TensorList", "Scalar"], list_type="f16")
    assert [x.dtype for x in some] == ["f16", "f16"]


def test_without_types_whatever_has_a_shape_is_a_tensor() -> None:
    assert read(dims=[[2, 3], []]) == (Tensor((2, 3), None), None)


def test_types_that_are_not_known_leave_the_shape() -> None:
    assert read(dims=[[2, 3]], types=["c10::Strange"]) == (Tensor((2, 3), None),)


def test_scalars_are_texts() -> None:
    call = parse(
        "aten::x",
        Recorded('[[],[],[]]', '["ScalarList","Scalar","Scalar"]', None, '["[1, -2]","True","3"]'),
        element_type,
    )  # fmt: skip
    assert call.integers(0) == (1, -2)
    assert call.flag(1)
    assert call.integer(2) == 3


@pytest.mark.parametrize(
    ("shape", "strides", "stored"),
    [
        ((4, 3), (3, 1), 12),
        ((4, 3), (0, 1), 3),
        ((4, 3, 5), (0, 100, 1), 15),
        ((4, 3), (100, 1), 12),
        ((5, 3), (1, 1), 7),  # windows that overlap
        ((), (), 1),
        ((0, 3), (3, 1), 0),
        ((4, 3), (1,), 12),  # strides of another rank say nothing
    ],
)
def test_elements_that_lie_in_memory(shape: tuple[int, ...], strides: tuple[int, ...], stored: int) -> None:
    assert Tensor(shape, "f32", strides).stored == stored


def test_bytes_of_element_types() -> None:
    sizes = {"f64": 8, "f32": 4, "bf16": 2, "f8e4m3": 1, "i64": 8, "u8": 1, "bool": 1, "c128": 16, "b32": 4}
    assert {name: size(name) for name in sizes} == sizes
    assert size(None) is None


@pytest.mark.parametrize(
    ("dims", "reason"),
    [
        (None, NO_SHAPES),
        ("", NOT_UNDERSTOOD),
        ("[[2", NOT_UNDERSTOOD),
        ("3", NOT_UNDERSTOOD),
        ('{"a":1}', NOT_UNDERSTOOD),
        ("[[-1]]", NOT_UNDERSTOOD),
        ('[["2"]]', NOT_UNDERSTOOD),
        ("[[1.5]]", NOT_UNDERSTOOD),
        ("[" * 100_000, NOT_UNDERSTOOD),
    ],
)
def test_what_cannot_be_read_says_so(dims: str | None, reason: str) -> None:
    with pytest.raises(UnknownError, match=reason):
        parse("aten::mm", Recorded(dims, '["float"]'), element_type)


_shape = st.lists(st.sampled_from([0, 1, 2, 3, 7, 2**20, 2**62]), max_size=5)
_odd: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.text(max_size=3),
    lambda x: st.lists(x, max_size=3),
)
_types = st.sampled_from(["float", "c10::Half", "long int", "Scalar", "ScalarList", "TensorList", "", "x"])
_scalars = st.sampled_from(
    ["", "0", "1", "-3", "[1, 1]", "[0, 0]", "[]", "True", "x", "[True, False]", "9" * 18]
)


@given(
    name=st.sampled_from(sorted(MODELS)),
    dims=st.lists(_shape | st.lists(_shape, max_size=3) | _odd, max_size=13),
    types=st.lists(_types, max_size=13) | _odd,
    strides=st.none() | st.lists(_shape, max_size=13) | _odd,
    concrete=st.none() | st.lists(_scalars, max_size=13),
)
def test_no_arguments_make_a_model_fail(
    name: str, dims: Any, types: Any, strides: Any, concrete: Any
) -> None:
    recorded = Recorded(
        json.dumps(dims),
        json.dumps(types),
        None if strides is None else json.dumps(strides),
        None if concrete is None else json.dumps(concrete),
    )
    model = model_of(name)
    assert model is not None
    try:
        call = parse(name, recorded, element_type)
    except UnknownError:
        return
    found = evaluate(model, call)
    for value in (found.flops, found.bytes):
        assert value is None or 0 <= value < 2**63
    assert (found.reason is None) == (found.flops is not None and found.bytes is not None)
