"""Reductions: so many FLOP for each element read; the input once, the result once."""

from dataclasses import dataclass
from functools import partial
from math import prod

from mdtrace.costs.call import NO_SCALARS, Call, Tensor
from mdtrace.costs.elementwise import Pointwise, pointwise
from mdtrace.costs.registry import Cost, Extent, Model, declare, moved


@dataclass(frozen=True)
class _Reduction:
    """FLOP for each element read; the argument that says which dimensions; the result's type (None: as read).

    `outputs`: results of the reduced shape; `index`: and one of positions (i64).
    """

    flops: int
    dimensions: int = 1
    dtype: str | None = None
    outputs: int = 1
    index: bool = False


def reduced(x: Tensor, dims: tuple[int, ...]) -> int:
    """Elements of the result when these dimensions are reduced, all of them where none is named."""
    rank = len(x.shape)
    if not dims or not rank:
        return 1
    gone = {d % rank for d in dims}
    return prod(n for i, n in enumerate(x.shape) if i not in gone)


def _reduce(rule: _Reduction, call: Call) -> Cost:
    x = call.tensor(0)
    if rule.dimensions == 1 and call.optional(1) is not None:
        return pointwise(Pointwise(1, (0, 1)), False, call)  # max.other and the like
    flops = rule.flops * x.elements
    count = _results(rule, x, call)
    if count is None:
        return Cost(flops, None, x.dtype, NO_SCALARS)
    out = Tensor((count,), rule.dtype or x.dtype)
    # Over all elements, max and min give the value alone.
    index = Tensor((count,), "i64") if rule.index and len(call.args) > 1 else None
    return Cost(flops, moved([x], [*[out] * rule.outputs, index]), x.dtype)


def _results(rule: _Reduction, x: Tensor, call: Call) -> int | None:
    """Elements of the result; None where the trace does not record which dimensions are reduced.

    Forms with dimensions have at least two more arguments (dimensions, keepdim) than those without.
    """
    if len(call.args) < rule.dimensions + 2:
        return 1
    if (given := call.optional(len(call.args) - 1)) is not None:
        return given.elements  # the result to write to
    return None if call.texts is None else reduced(x, call.integers(rule.dimensions))


_RULES: dict[tuple[str, ...], _Reduction] = {
    ("sum", "nansum", "prod", "amax", "amin"): _Reduction(1),
    ("mean",): _Reduction(1),
    ("max", "min", "median", "mode", "cummax", "cummin"): _Reduction(1, index=True),
    ("argmax", "argmin"): _Reduction(1, dtype="i64"),
    ("any", "all"): _Reduction(1, dtype="bool"),
    ("count_nonzero",): _Reduction(1, dtype="i64"),
    ("aminmax", "_aminmax"): _Reduction(2, outputs=2),
    ("norm", "linalg_vector_norm"): _Reduction(2, dimensions=2),
    ("logsumexp",): _Reduction(4),
    ("var", "std"): _Reduction(4),
    ("var_mean", "std_mean"): _Reduction(4, outputs=2),
}
for _names, _rule in _RULES.items():
    _extent: Extent = "wrapper" if _names == ("logsumexp",) else "whole"
    declare(
        Model("reduction", partial(_reduce, _rule), _extent),
        *(f"aten::{n}" for n in _names),
    )
