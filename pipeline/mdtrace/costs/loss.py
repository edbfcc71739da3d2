"""Losses: FLOP for each element of the formula; inputs once, result once (a scalar unless not reduced)."""

from dataclasses import dataclass
from functools import partial

from mdtrace.costs.call import NO_SCALARS, Call, Tensor
from mdtrace.costs.registry import Cost, Model, declare, moved

_NOT_REDUCED = "0"  # at::Reduction::None


@dataclass(frozen=True)
class _Loss:
    """FLOP for each element forward (with the sum) and backward; position of `reduction` forward."""

    forward: int
    backward: int
    reduction: int = 2


def _forward(rule: _Loss, call: Call) -> Cost:
    """(self, target, [weight,] reduction)."""
    x, target = call.tensor(0), call.tensor(1)
    flops = rule.forward * x.elements
    if call.texts is None:
        return Cost(flops, None, x.dtype, NO_SCALARS)
    out = x if call.text(rule.reduction) == _NOT_REDUCED else Tensor((), x.dtype)
    return Cost(flops, moved([x, target], [out]), x.dtype)


def _backward(rule: _Loss, call: Call) -> Cost:
    """(grad_output, self, target, …)."""
    grad, x, target = call.tensor(0), call.tensor(1), call.tensor(2)
    return Cost(rule.backward * x.elements, moved([grad, x, target], [x]), x.dtype)


def _likelihood(call: Call) -> Cost:
    """nll_loss_forward (self N×C×…, target N×…, weight, reduction, ignore_index): picks one element for each
    target; a negation and a sum; result and total weight."""
    x, target = call.tensor(0), call.tensor(1)
    picked = target.as_type(x.dtype)
    if call.texts is None:
        return Cost(2 * target.elements, None, x.dtype, NO_SCALARS)
    out = picked if call.text(3) == _NOT_REDUCED else Tensor((), x.dtype)
    return Cost(2 * target.elements, moved([picked, target], [out, Tensor((), x.dtype)]), x.dtype)


def _likelihood_backward(call: Call) -> Cost:
    """nll_loss_backward (grad_output, self, target, weight, reduction, ignore_index, total_weight): writes
    the whole gradient, of which one element for each target is not 0."""
    grad, x, target, total = call.tensor(0), call.tensor(1), call.tensor(2), call.optional(6)
    return Cost(target.elements, moved([grad, target, total], [x]), x.dtype)


_RULES = {
    "mse_loss": _Loss(3, 4),  # difference, square, sum; difference, two factors, grad
    "smooth_l1_loss": _Loss(5, 5),
    "huber_loss": _Loss(5, 5),
    "soft_margin_loss": _Loss(5, 6),
    "binary_cross_entropy": _Loss(8, 6, reduction=3),
}
for _name, _rule in _RULES.items():
    declare(Model("loss", partial(_forward, _rule)), f"aten::{_name}")
    declare(Model("loss backward", partial(_backward, _rule), scalars=False), f"aten::{_name}_backward")
declare(Model("loss", _likelihood), "aten::nll_loss_forward", "aten::nll_loss2d_forward")
declare(
    Model("loss backward", _likelihood_backward, scalars=False),
    "aten::nll_loss_backward", "aten::nll_loss2d_backward",
)  # fmt: skip
