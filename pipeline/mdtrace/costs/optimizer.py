"""Operators on lists of tensors: foreach forms of elementwise operators, and fused optimizer steps.

A foreach form costs what the elementwise operator costs for each tensor of its lists. Where a device does not
run it as one kernel it calls the operator itself for each tensor: the model gives way to those.

Fused Adam, for each parameter: first moment 3 (difference, product, sum), second moment 4, denominator 3
(root, division by the bias correction, ε), step 3 (division, learning rate, difference); weight decay 2 more
where it is on. It reads parameter, gradient and both moments, and writes all but the gradient; the largest
second moment (amsgrad) is read, compared and written besides. Fused SGD: step 2, momentum 2 more; Adagrad: 6.
"""

from dataclasses import dataclass
from functools import partial

from mdtrace.costs.call import NO_LISTS, Call, Tensor, UnknownError
from mdtrace.costs.elementwise import POINTWISE, Pointwise
from mdtrace.costs.registry import Cost, Model, declare, moved

NO_LIST_TYPE = "element types in tensor lists not recorded"


def _lists(call: Call) -> list[tuple[Tensor, ...]]:
    """The lists of tensors that are as long as the first one."""
    first = call.listed(0)
    if not first:
        raise UnknownError(NO_LISTS)
    return [a for a in call.args if isinstance(a, tuple) and len(a) == len(first)]


def _total(tensors: tuple[Tensor, ...]) -> int:
    return sum(t.elements for t in tensors)


def _cost(flops: int, reads: list[tuple[Tensor, ...]], writes: list[tuple[Tensor, ...]], call: Call) -> Cost:
    traffic = moved([t for list_ in reads for t in list_], [t for list_ in writes for t in list_])
    kinds = {t.dtype for t in call.listed(0)}
    dtype = kinds.pop() if len(kinds) == 1 else None
    return Cost(flops, traffic, dtype, None if traffic is not None else NO_LIST_TYPE)


def _foreach(rule: Pointwise, call: Call) -> Cost:
    """_foreach_… (self, …): the result is like the first list."""
    lists = _lists(call)[: len(rule.operands)]
    return _cost(rule.flops * _total(lists[0]), lists, [lists[0]], call)


def _copy(call: Call) -> Cost:
    """_foreach_copy_ (self, src)."""
    lists = _lists(call)
    return _cost(0, lists[1:2], lists[:1], call)


def _zero(call: Call) -> Cost:
    """_foreach_zero_ (self)."""
    return _cost(0, [], _lists(call)[:1], call)


def _norm(call: Call) -> Cost:
    """_foreach_norm (self, ord): square and sum; one number for each tensor."""
    tensors = call.listed(0)
    numbers = tuple(Tensor((), t.dtype) for t in tensors)
    return _cost(2 * _total(tensors), [tensors], [numbers], call)


def _unscale(call: Call) -> Cost:
    """_amp_foreach_non_finite_check_and_unscale_ (self, found_inf, inv_scale): check and product, in
    place."""
    tensors = call.listed(0)
    return _cost(2 * _total(tensors), [tensors], [tensors], call)


@dataclass(frozen=True)
class _Step:
    """FLOP for each parameter; lists read and written, by position; position of weight decay and the FLOP it
    adds."""

    flops: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    decay: int | None = None


def _fused(rule: _Step, call: Call) -> Cost:
    each = rule.flops
    if (
        rule.decay is not None
        and call.texts is not None
        and call.text(rule.decay).strip("0. ") not in ("", "-")
    ):
        each += 2
    reads = [_state(call, i) for i in rule.reads]
    writes = [_state(call, i) for i in rule.writes]
    return _cost(each * _total(call.listed(0)), reads, writes, call)


def _state(call: Call, i: int) -> tuple[Tensor, ...]:
    """A list of the optimizer's state; an empty one (no amsgrad, no momentum) is recorded as no shapes."""
    found = call.args[i] if i < len(call.args) else None
    return found if isinstance(found, tuple) else ()


def _momentum(call: Call) -> Cost:
    """_fused_sgd_ (self, grads, momentum_buffers, …): the buffers' list is empty without momentum."""
    with_buffers = bool(_state(call, 2))
    used = (0, 1, 2) if with_buffers else (0, 1)
    return _fused(_Step(4 if with_buffers else 2, used, (0, 2) if with_buffers else (0,)), call)


for _name, _rule in POINTWISE.items():
    for _suffix in ("", "_"):
        declare(
            Model("foreach", partial(_foreach, _rule), "wrapper", scalars=False),
            f"aten::_foreach_{_name}{_suffix}",
        )
declare(Model("foreach", _copy, "wrapper", scalars=False), "aten::_foreach_copy_")
declare(Model("foreach", _zero, "wrapper", scalars=False), "aten::_foreach_zero_")
declare(Model("foreach", _norm, "wrapper", scalars=False), "aten::_foreach_norm")
declare(Model("foreach", _unscale, scalars=False), "aten::_amp_foreach_non_finite_check_and_unscale_")
# (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, …)
declare(
    Model("fused optimizer", partial(_fused, _Step(13, (0, 1, 2, 3, 4), (0, 2, 3, 4), decay=9))),
    "aten::_fused_adam_", "aten::_fused_adamw_",
)  # fmt: skip
declare(Model("fused optimizer", _momentum, scalars=False), "aten::_fused_sgd_")
# (self, grads, state_sums, state_steps, …)
declare(
    Model("fused optimizer", partial(_fused, _Step(6, (0, 1, 2), (0, 2))), scalars=False),
    "aten::_fused_adagrad_",
)
