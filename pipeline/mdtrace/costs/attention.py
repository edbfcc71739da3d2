"""Attention: softmax(Q·Kᵀ)·V in one kernel, forward and backward.

Forward 2·B·H·Nq·Nkv·(dqk + dv): the two products; the softmax between them is not counted, as in torch's FLOP
counter. Backward 2·B·H·Nq·Nkv·(3·dqk + 2·dv): Q·Kᵀ again, dO·Vᵀ, Pᵀ·dO, dS·K and dSᵀ·Q (these kernels keep no
scores; torch's counter counts the same five). A causal mask over as many keys as queries leaves half of the
scores: halved. Bytes: Q, K, V, O once with their own numbers of heads (grouped K/V heads are read once, not
once a query head), and 4 bytes a row for the log-sum-exp that the backward pass needs.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved

LENGTHS = "lengths of the sequences not recorded"


@dataclass(frozen=True)
class _At:
    """Positions of arguments. `lengths`: of cumulative sequence lengths, which pack sequences into one
    row."""

    causal: int | None
    heads_first: bool = False  # B×H×N×D, else B×N×H×D
    first: int = 0  # where Q is
    lengths: int | None = None
    log_sum: int | None = None  # a flag that asks for the log-sum-exp; None: always written
    mask_kinds: bool = False  # causal is a number: 0 none, 1 and 2 causal


@dataclass(frozen=True)
class _Sizes:
    batch: int
    heads: int
    queries: int
    keys: int
    qk: int
    v: int

    def flops(self, width: int, causal: bool) -> int:
        """Products over all scores whose inner or outer sizes add up to `width`."""
        every = 2 * self.batch * self.heads * self.queries * self.keys * width
        return every // 2 if causal and self.queries == self.keys else every

    def rows(self) -> Tensor:
        return Tensor((self.batch * self.heads * self.queries,), "f32")


def _sizes(call: Call, at: _At) -> _Sizes:
    q, k, v = (call.tensor(at.first + i, 3, 4) for i in range(3))
    if len(q.shape) == 3:
        return _packed(call, at, q, k, v)
    if len(k.shape) != 4 or len(v.shape) != 4:
        raise UnknownError(LENGTHS)
    head, row = (1, 2) if at.heads_first else (2, 1)
    return _Sizes(q.shape[0], q.shape[head], q.shape[row], k.shape[row], q.shape[3], v.shape[3])


def _packed(call: Call, at: _At, q: Tensor, k: Tensor, v: Tensor) -> _Sizes:
    """Sequences one after the other (T×H×D): how many scores there are depends on where they end, unless
    there is one only."""
    ends = None if at.lengths is None else call.optional(at.lengths)
    if ends is None or ends.elements != 2:
        raise UnknownError(LENGTHS)
    return _Sizes(1, q.shape[1], q.shape[0], k.shape[0], q.shape[2], v.shape[2])


def _causal(call: Call, at: _At) -> bool:
    if at.causal is None:
        return False
    if at.mask_kinds:
        return call.text(at.causal) in ("1", "2")
    return call.flag(at.causal)


def _forward(at: _At, call: Call) -> Cost:
    q, k, v = (call.tensor(at.first + i) for i in range(3))
    out = Tensor((*q.shape[:-1], v.shape[-1]), q.dtype)
    try:
        sizes = _sizes(call, at)
    except UnknownError as unknown:
        if str(unknown) != LENGTHS or len(k.shape) != len(q.shape):
            raise
        return Cost(None, moved([q, k, v], [out]), q.dtype, LENGTHS)
    kept = at.log_sum is None or call.flag(at.log_sum)
    flops = sizes.flops(sizes.qk + sizes.v, _causal(call, at))
    return Cost(flops, moved([q, k, v], [out, sizes.rows() if kept else None]), q.dtype)


def _backward(at: _At, call: Call) -> Cost:
    grad = call.tensor(0)
    q, k, v = (call.tensor(at.first + i) for i in range(3))
    sizes = _sizes(call, at)
    flops = sizes.flops(3 * sizes.qk + 2 * sizes.v, _causal(call, at))
    out = grad  # the forward pass's result has the shape of its gradient
    return Cost(flops, moved([grad, q, k, v, out, sizes.rows()], [q, k, v]), q.dtype)


def _unknown_lengths(call: Call) -> Cost:
    """Paged attention: keys and values lie in a cache whose used part the shapes do not tell."""
    if not call.tensors():
        raise UnknownError(NOT_UNDERSTOOD)
    raise UnknownError(LENGTHS)


def _fixed(formula: Callable[[_At, Call], Cost], at: _At) -> Callable[[Call], Cost]:
    return lambda call: formula(at, call)


_FORWARD = {
    "aten::_scaled_dot_product_flash_attention": _At(causal=4, heads_first=True),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _At(causal=4, heads_first=True),
    "aten::_scaled_dot_product_efficient_attention": _At(causal=6, heads_first=True, log_sum=4),
    "aten::_scaled_dot_product_cudnn_attention": _At(causal=6, heads_first=True, log_sum=4),
    "aten::_scaled_dot_product_fused_attention_overrideable": _At(causal=5, heads_first=True),
    "aten::_flash_attention_forward": _At(causal=8, lengths=3),
    "aten::_efficient_attention_forward": _At(causal=9, lengths=4, log_sum=10, mask_kinds=True),
    "flash_attn::_flash_attn_forward": _At(causal=5),
    "flash_attn::_flash_attn_varlen_forward": _At(causal=9, lengths=3),
}
_BACKWARD = {
    "aten::_scaled_dot_product_flash_attention_backward": _At(causal=11, heads_first=True, first=1),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _At(causal=7, heads_first=True, first=1),
    "aten::_scaled_dot_product_efficient_attention_backward": _At(causal=11, heads_first=True, first=1),
    "aten::_scaled_dot_product_cudnn_attention_backward": _At(causal=14, heads_first=True, first=1),
    "aten::_flash_attention_backward": _At(causal=11, first=1, lengths=6),
    "aten::_efficient_attention_backward": _At(causal=14, first=1, lengths=6, mask_kinds=True),
    "flash_attn::_flash_attn_backward": _At(causal=11, first=1),
    "flash_attn::_flash_attn_varlen_backward": _At(causal=15, first=1, lengths=9),
}
for _name, _at in _FORWARD.items():
    declare(Model("attention", _fixed(_forward, _at)), _name)
for _name, _at in _BACKWARD.items():
    declare(Model("attention backward", _fixed(_backward, _at)), _name)
declare(
    Model("paged attention", _unknown_lengths, scalars=False),
    "vllm::unified_attention", "vllm::unified_attention_with_output", "vllm::unified_mla_attention",
    "vllm::unified_mla_attention_with_output", "_C::paged_attention_v1", "_C::paged_attention_v2",
    "_rocm_C::paged_attention", "_vllm_fa2_C::varlen_fwd", "_vllm_fa3_C::fwd", "sgl_kernel::fwd",
    "sglang::unified_attention_with_output",
)  # fmt: skip
