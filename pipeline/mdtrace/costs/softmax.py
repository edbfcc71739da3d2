"""Softmax and its logarithm: 5 FLOP for each element forward, 4 backward; inputs once, result once.

Forward: running maximum, subtraction, exp, sum, division (log_softmax: subtraction of the sum's logarithm).
Backward: product, sum, difference, product (log_softmax: sum, exp, product, difference).
"""

from mdtrace.costs.call import Call
from mdtrace.costs.registry import Cost, Model, declare, moved


def _forward(call: Call) -> Cost:
    """_softmax (self, dim, half_to_float)."""
    x = call.tensor(0)
    wide = call.texts is not None and call.flag(2)
    return Cost(5 * x.elements, moved([x], [x.as_type("f32" if wide else x.dtype)]), x.dtype)


def _backward(call: Call) -> Cost:
    """_softmax_backward_data (grad_output, output, dim, input_dtype)."""
    grad, out = call.tensor(0), call.tensor(1)
    return Cost(4 * grad.elements, moved([grad, out], [grad]), grad.dtype)


declare(Model("softmax", _forward), "aten::_softmax", "aten::_log_softmax")
declare(
    Model("softmax", _forward, "wrapper", scalars=False),
    "aten::softmax", "aten::log_softmax", "aten::special_softmax", "aten::special_log_softmax",
)  # fmt: skip
declare(
    Model("softmax backward", _backward, scalars=False),
    "aten::_softmax_backward_data", "aten::_log_softmax_backward_data",
)  # fmt: skip
