"""Upsampling: nearest copies (0 FLOP); linear weighs 2 neighbours for each dimension, cubic 4; each product
and sum 1 FLOP. Input once, result once."""

from functools import partial

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved

_NEIGHBOURS = {
    "upsample_nearest1d": (1, 0), "upsample_nearest2d": (2, 0), "upsample_nearest3d": (3, 0),
    "upsample_linear1d": (1, 2), "upsample_bilinear2d": (2, 4), "upsample_trilinear3d": (3, 8),
    "upsample_bicubic2d": (2, 16),
}  # fmt: skip


def _result(dimensions: int, x: Tensor, call: Call) -> Tensor:
    """(input, output_size, …): one of output_size and scale factors is given."""
    sizes = call.integers(1)
    if len(sizes) != dimensions or len(x.shape) != dimensions + 2:
        raise UnknownError(NOT_UNDERSTOOD)
    return Tensor((*x.shape[:2], *sizes), x.dtype)


def _forward(dimensions: int, neighbours: int, call: Call) -> Cost:
    x = call.tensor(0)
    out = _result(dimensions, x, call)
    return Cost(2 * neighbours * out.elements, moved([x], [out]), x.dtype)


def _backward(dimensions: int, neighbours: int, call: Call) -> Cost:
    """(grad_output, output_size, input_size, …)."""
    grad = call.tensor(0, dimensions + 2)
    x = Tensor(call.integers(2), grad.dtype)
    return Cost(2 * max(neighbours, 1) * grad.elements, moved([grad], [x]), grad.dtype)


for _name, (_dimensions, _neighbours) in _NEIGHBOURS.items():
    declare(Model("resampling", partial(_forward, _dimensions, _neighbours)), f"aten::{_name}")
    declare(Model("resampling", partial(_backward, _dimensions, _neighbours)), f"aten::{_name}_backward")
