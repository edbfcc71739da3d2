"""Pooling: each result looks at a window, 1 FLOP for each element of it; input, result and positions once."""

from dataclasses import dataclass
from functools import partial
from math import prod

from mdtrace.costs.call import NO_SCALARS, NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved
from mdtrace.costs.shapes import spread, window


@dataclass(frozen=True)
class _Pool:
    """Spatial dimensions; positions of dilation and ceil_mode; whether positions of maxima are returned.

    All take (self, kernel_size, stride, padding, …).
    """

    dimensions: int
    dilation: int | None = None
    ceil: int = 4
    indices: bool = False


def _result(rule: _Pool, x: Tensor, call: Call) -> tuple[Tensor, int]:
    """The pooled tensor, and elements of a window."""
    d = rule.dimensions
    if len(x.shape) < d + 1:
        raise UnknownError(NOT_UNDERSTOOD)
    kernel = spread(call.integers(1), d, 1)
    stride = spread(call.integers(2) or kernel, d, 1)
    padding = spread(call.integers(3), d, 0)
    dilation = (1,) * d if rule.dilation is None else spread(call.integers(rule.dilation), d, 1)
    ceil = call.flag(rule.ceil)
    sizes = zip(x.shape[-d:], kernel, stride, padding, dilation, strict=True)
    return Tensor((*x.shape[:-d], *(window(*s, ceil) for s in sizes)), x.dtype), prod(kernel)


def _forward(rule: _Pool, call: Call) -> Cost:
    x = call.tensor(0)
    out, kernel = _result(rule, x, call)
    index = out.as_type("i64") if rule.indices else None
    return Cost(kernel * out.elements, moved([x], [out, index]), x.dtype)


def _max_backward(call: Call) -> Cost:
    """(grad_output, self, …, indices): one addition for each gradient; writes the whole gradient of the
    input."""
    grad, x = call.tensor(0), call.tensor(1)
    indices = call.optional(len(call.args) - 1)
    return Cost(grad.elements, moved([grad, indices], [x]), grad.dtype)


def _mean_backward(call: Call) -> Cost:
    """(grad_output, self, kernel_size, …): each gradient is divided and added to its window."""
    grad, x = call.tensor(0), call.tensor(1)
    traffic = moved([grad], [x])
    if call.texts is None:
        return Cost(None, traffic, grad.dtype, NO_SCALARS)
    kernel = call.integers(2)
    return Cost(prod(kernel) * grad.elements, traffic, grad.dtype)


def _adaptive(indices: bool, call: Call) -> Cost:
    """(self, output_size): each element of the input falls into one window, or into two at its border; once
    counted."""
    x = call.tensor(0)
    sizes = call.integers(1)
    out = Tensor((*x.shape[: -len(sizes)], *sizes), x.dtype)
    return Cost(x.elements, moved([x], [out, out.as_type("i64") if indices else None]), x.dtype)


def _adaptive_backward(call: Call) -> Cost:
    """(grad_output, self)."""
    grad, x = call.tensor(0), call.tensor(1)
    return Cost(x.elements, moved([grad], [x]), grad.dtype)


for _d in (2, 3):
    declare(
        Model("max pooling", partial(_forward, _Pool(_d, dilation=4, ceil=5, indices=True))),
        f"aten::max_pool{_d}d_with_indices",
    )
    declare(Model("average pooling", partial(_forward, _Pool(_d))), f"aten::avg_pool{_d}d")
    declare(
        Model("pooling backward", _max_backward, scalars=False), f"aten::max_pool{_d}d_with_indices_backward"
    )
    declare(Model("pooling backward", _mean_backward), f"aten::avg_pool{_d}d_backward")
    declare(Model("average pooling", partial(_adaptive, False)), f"aten::_adaptive_avg_pool{_d}d")
    declare(Model("max pooling", partial(_adaptive, True)), f"aten::adaptive_max_pool{_d}d")
    declare(
        Model("pooling backward", _adaptive_backward, scalars=False),
        f"aten::_adaptive_avg_pool{_d}d_backward",
    )
    declare(Model("pooling backward", _max_backward, scalars=False), f"aten::adaptive_max_pool{_d}d_backward")
declare(
    Model("max pooling", partial(_forward, _Pool(2, dilation=4, ceil=5))),
    "aten::mkldnn_max_pool2d", "aten::quantized_max_pool2d",
)  # fmt: skip
declare(Model("max pooling", partial(_forward, _Pool(2, dilation=4, ceil=5)), "wrapper"), "aten::max_pool2d")
