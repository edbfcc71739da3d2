"""Cost models in tests: tensors and calls in few words."""

from collections.abc import Sequence

from mdtrace.costs import Call, Cost, Tensor, evaluate, model_of
from network_layers import call

__all__ = ["call", "check", "t", "work"]


def t(*shape: int, dtype: str | None = "f32", strides: Sequence[int] | None = None) -> Tensor:
    return Tensor(shape, dtype, None if strides is None else tuple(strides))


def work(some: Call) -> Cost:
    model = model_of(some.name)
    assert model is not None
    return evaluate(model, some)


def check(name: str, arguments: Sequence[object], flops: int | None, moved: int | None) -> None:
    found = work(call(name, *arguments))
    assert (found.flops, found.bytes) == (flops, moved), found
