"""Operators of serving engines (vLLM, SGLang) beside attention, norms and products."""

from functools import partial

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved


def _gated(flops: int, call: Call) -> Cost:
    """silu_and_mul and the like (out …×d, input …×2d): activation of one half times the other."""
    out, x = call.tensor(0), call.tensor(1)
    if x.elements != 2 * out.elements:
        raise UnknownError(NOT_UNDERSTOOD)
    return Cost(flops * out.elements, moved([x], [out]), x.dtype)


def _rotary(call: Call) -> Cost:
    """rotary_embedding (positions, query, key, head size, cos and sin by position, …): turns pairs in place,
    6 FLOP a pair; for each token a row of the table is read."""
    positions, table = call.tensor(0), call.tensor(4, 2)
    head = call.integer(3)
    turned = [t for t in (call.optional(1), call.optional(2)) if t is not None]
    share = [t.elements * table.shape[1] // max(head, 1) for t in turned]
    rows = Tensor((positions.elements, table.shape[1]), table.dtype)
    parts: list[Tensor | None] = [Tensor((n,), t.dtype) for n, t in zip(share, turned, strict=True)]
    return Cost(3 * sum(share), moved([positions, rows, *parts], parts), turned[0].dtype)


def _cache(call: Call) -> Cost:
    """reshape_and_cache (key, value, key cache, value cache, slots, …): tokens into their places in the
    cache, in the cache's type."""
    key, value, slots = call.tensor(0), call.tensor(1), call.tensor(4)
    out: list[Tensor | None] = [key.as_type(call.tensor(2).dtype), value.as_type(call.tensor(3).dtype)]
    return Cost(0, moved([key, value, slots], out), key.dtype)


declare(
    Model("gated activation", partial(_gated, 6), scalars=False),
    "_C::silu_and_mul",
    "sgl_kernel::silu_and_mul",
)
declare(
    Model("gated activation", partial(_gated, 6), scalars=False),
    "_C::gelu_and_mul", "_C::gelu_tanh_and_mul", "sgl_kernel::gelu_and_mul", "sgl_kernel::gelu_tanh_and_mul",
)  # fmt: skip
declare(Model("rotary embedding", _rotary), "_C::rotary_embedding")
declare(
    Model("copy", _cache, scalars=False),
    "_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache",
)  # fmt: skip
