"""Elementwise operators: so many FLOP for each element of the result; tensor operands once, the result once.

The FLOP are those of the operator's formula, each arithmetic operation, comparison or elementary function 1:
relu 1 (a comparison), sigmoid 1/(1 + exp(−x)) 4, silu 5, gelu x/2·(1 + erf(x/√2)) 5. Operands smaller than
the result (broadcast) are read once, not once for each use.
"""

from dataclasses import dataclass
from functools import partial

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Extent, Model, declare, moved
from mdtrace.costs.shapes import broadcast, promote


@dataclass(frozen=True)
class Pointwise:
    """FLOP for each element; positions of tensor operands; whether the result is boolean."""

    flops: int
    operands: tuple[int, ...] = (0,)
    boolean: bool = False


_FIRST = (0,)
_TWO = (0, 1)
_THREE = (0, 1, 2)

# By name without the trailing `_` of the form that works in place.
POINTWISE: dict[str, Pointwise] = {
    **dict.fromkeys(("add", "sub", "rsub"), Pointwise(1, _TWO)),
    **dict.fromkeys(("mul", "multiply", "div", "divide", "true_divide", "floor_divide"), Pointwise(1, _TWO)),
    **dict.fromkeys(("pow", "fmod", "remainder", "atan2", "hypot", "copysign", "xlogy"), Pointwise(1, _TWO)),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin", "gcd", "logaddexp"), Pointwise(1, _TWO)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), Pointwise(1, _TWO)),
    **dict.fromkeys(("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"), Pointwise(1, _TWO)),
    **dict.fromkeys(("__iand__", "__ior__", "bitwise_left_shift", "bitwise_right_shift"), Pointwise(1, _TWO)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), Pointwise(1, _TWO, True)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "isclose"), Pointwise(1, _TWO, True)),
    **dict.fromkeys(("logical_not", "isnan", "isinf", "isfinite", "signbit"), Pointwise(1, _FIRST, True)),
    **dict.fromkeys(("neg", "abs", "sign", "sgn", "reciprocal", "square", "bitwise_not"), Pointwise(1)),
    **dict.fromkeys(("sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"), Pointwise(1)),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"), Pointwise(1)),
    **dict.fromkeys(("erf", "erfc", "erfinv", "lgamma", "digamma", "ceil", "floor", "round"), Pointwise(1)),
    **dict.fromkeys(("trunc", "frac", "relu", "threshold", "clamp_min", "clamp_max"), Pointwise(1)),
    **dict.fromkeys(("conj_physical", "nan_to_num", "angle"), Pointwise(1)),
    **dict.fromkeys(("clamp", "clip", "hardtanh", "relu6", "leaky_relu"), Pointwise(2)),
    **dict.fromkeys(("elu", "celu", "selu"), Pointwise(3)),
    **dict.fromkeys(("sigmoid", "hardsigmoid", "softplus", "log_sigmoid_forward"), Pointwise(4)),
    **dict.fromkeys(("silu", "gelu", "hardswish", "logit"), Pointwise(5)),
    "mish": Pointwise(6),
    **dict.fromkeys(("addcmul", "addcdiv", "lerp"), Pointwise(3, _THREE)),
    "where": Pointwise(1, _THREE),
    "_prelu_kernel": Pointwise(2, _TWO),
    # Gradients: (grad_output, saved tensor).
    **dict.fromkeys(("threshold_backward", "hardtanh_backward", "leaky_relu_backward"), Pointwise(1, _TWO)),
    **dict.fromkeys(("sigmoid_backward", "tanh_backward", "hardsigmoid_backward"), Pointwise(3, _TWO)),
    **dict.fromkeys(("elu_backward", "softplus_backward", "logit_backward"), Pointwise(4, _TWO)),
    **dict.fromkeys(("silu_backward", "hardswish_backward", "mish_backward"), Pointwise(8, _TWO)),
    "gelu_backward": Pointwise(11, _TWO),
    "_prelu_kernel_backward": Pointwise(3, _THREE),
    "log_sigmoid_backward": Pointwise(4, _THREE),
}  # fmt: skip


def pointwise(rule: Pointwise, in_place: bool, call: Call) -> Cost:
    """The cost of an elementwise operator whose operands stand at the rule's positions."""
    tensors = [t for i in rule.operands if (t := call.optional(i)) is not None]
    if not tensors:
        raise UnknownError(NOT_UNDERSTOOD)
    shape = call.tensor(0).shape if in_place else broadcast(*(t.shape for t in tensors))
    computed = promote(tensors)
    dtype = call.tensor(0).dtype if in_place else "bool" if rule.boolean else computed
    out = Tensor(shape, dtype)
    return Cost(rule.flops * out.elements, moved(list(tensors), [out]), computed)


def _glu(call: Call) -> Cost:
    """glu (self, dim): a·sigmoid(b) of two halves, 5 FLOP for each element of the result."""
    x = call.tensor(0)
    out = x.elements // 2
    return Cost(5 * out, moved([x], [Tensor((out,), x.dtype)]), x.dtype)


def _glu_backward(call: Call) -> Cost:
    """glu_backward (grad_output, self, dim): 9 FLOP for each element of grad_output."""
    grad, x = call.tensor(0), call.tensor(1)
    return Cost(9 * grad.elements, moved([grad, x], [x]), x.dtype)


def _masked_fill(call: Call) -> Cost:
    """masked_fill (self, mask, value): chooses, 0 FLOP; reads both, writes the result."""
    x, mask = call.tensor(0), call.tensor(1)
    out = Tensor(broadcast(x.shape, mask.shape), x.dtype)
    return Cost(0, moved([x, mask], [out]), x.dtype)


def _native_dropout(call: Call) -> Cost:
    """native_dropout (input, p, train): mask and scale, 2 FLOP; writes the result and a boolean mask."""
    x = call.tensor(0)
    return Cost(2 * x.elements, moved([x], [x, x.as_type("bool")]), x.dtype)


def _dropout_backward(call: Call) -> Cost:
    """native_dropout_backward (grad_output, mask, scale): 2 FLOP."""
    grad, mask = call.tensor(0), call.tensor(1)
    return Cost(2 * grad.elements, moved([grad, mask], [grad]), grad.dtype)


def _cumulative(call: Call) -> Cost:
    """cumsum, cumprod (self, dim): one operation for each element."""
    x = call.tensor(0)
    out = x.as_type("i64" if x.dtype in ("bool", "i32", "i16", "i8", "u8") else x.dtype)
    return Cost(x.elements, moved([x], [out]), x.dtype)


_WRAPPERS = ("relu", "relu6", "where", "divide", "multiply", "true_divide")
for _name, _rule in POINTWISE.items():
    _extent: Extent = "wrapper" if _name in _WRAPPERS else "whole"
    for _suffix in ("", "_"):
        if not _name.startswith("__"):
            declare(
                Model("elementwise", partial(pointwise, _rule, bool(_suffix)), _extent, scalars=False),
                f"aten::{_name}{_suffix}",
            )
        elif not _suffix:
            declare(Model("elementwise", partial(pointwise, _rule, False), scalars=False), f"aten::{_name}")
declare(Model("elementwise", _glu, scalars=False), "aten::glu")
declare(Model("elementwise", _glu_backward, scalars=False), "aten::glu_backward")
declare(Model("masked fill", _masked_fill, scalars=False), "aten::masked_fill", "aten::masked_fill_")
declare(
    Model("dropout", _native_dropout, scalars=False),
    "aten::native_dropout", "aten::_fused_dropout",
)  # fmt: skip
declare(
    Model("dropout", _dropout_backward, scalars=False),
    "aten::native_dropout_backward", "aten::_masked_scale",
)  # fmt: skip
declare(
    Model("scan", _cumulative, scalars=False),
    "aten::cumsum", "aten::cumsum_", "aten::cumprod", "aten::cumprod_", "aten::_cumsum",
)  # fmt: skip
