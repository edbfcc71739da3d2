"""Products with packed or quantised weights, and quantisation itself, of torch and of serving engines."""

from functools import partial

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.gemm import product
from mdtrace.costs.registry import Cost, Model, declare, moved
from mdtrace.costs.shapes import scalar_type

PACKED = "shape of packed weights not recorded"


def _int8_weight(call: Call) -> Cost:
    """_weight_int8pack_mm (x M×K, weight N×K in 8 bits, scales N)."""
    x, weight, scales = call.tensor(0, 2), call.tensor(1, 2), call.tensor(2)
    return product(x, weight, [scales], transposed=True)


def _int4_weight(call: Call) -> Cost:
    """_weight_int4pack_mm (x M×K, packed weight, group size, scales and zeros K/g×N×2): N stands in the
    scales; a weight takes half a byte."""
    x, packed, scales = call.tensor(0, 2), call.tensor(1), call.tensor(3, 3)
    m, k = x.shape
    n = scales.shape[1]
    return Cost(2 * m * n * k, moved([x, packed, scales], [Tensor((m, n), x.dtype)]), x.dtype)


def _scaled_out(call: Call) -> Cost:
    """cutlass_scaled_mm (out M×N, a M×K, b K×N, scales of a, scales of b, bias)."""
    out, a, b = call.tensor(0, 2), call.tensor(1, 2), call.tensor(2, 2)
    return product(a, b, [call.optional(i) for i in (3, 4, 5)], out.dtype)


def _scaled_first(call: Call) -> Cost:
    """fp8_scaled_mm, int8_scaled_mm (a M×K, b K×N, scales of a, scales of b, out_dtype, bias)."""
    a, b = call.tensor(0, 2), call.tensor(1, 2)
    dtype = scalar_type(call.text(4), None)
    return product(a, b, [call.optional(i) for i in (2, 3, 5)], dtype or "bf16")


def _marlin(call: Call) -> Cost:
    """gptq_gemm, awq_gemm, … (a M×K, packed weight, …): N stands nowhere that all versions agree on, but
    is the last dimension of the scales."""
    a, packed = call.tensor(0, 2), call.tensor(1)
    scales = next((t for t in call.tensors()[2:] if len(t.shape) == 2 and t.dtype == a.dtype), None)
    if scales is None:
        raise UnknownError(PACKED)
    m, k, n = a.shape[0], a.shape[1], scales.shape[1]
    return Cost(2 * m * n * k, moved([a, packed, scales], [Tensor((m, n), a.dtype)]), a.dtype)


def _rows_by_columns(weight: int, x: int, call: Call) -> Cost:
    """Products of a tall weight (N×K) with few rows (M×K): wvSplitK, LLMM1, bitsandbytes' int8."""
    return product(call.tensor(x, 2), call.tensor(weight, 2), [], transposed=True)


def _int8_product(call: Call) -> Cost:
    """int8_linear_matmul (a M×K, b N×K): 32-bit sums."""
    return product(call.tensor(0, 2), call.tensor(1, 2), [], "i32", transposed=True)


def _experts(call: Call) -> Cost:
    """fused_experts (x T×H, w1 E×2I×H, w2 E×H×I, weights T×k, ids T×k, …): each token meets k experts.

    FLOP 2·T·k·(2I·H + H·I). Bytes: the weights of all experts once (at most; with fewer than E pairs of token
    and expert, of as many as there are pairs), tokens in and out.
    """
    x, w1, w2, ids = call.tensor(0, 2), call.tensor(1, 3), call.tensor(2, 3), call.tensor(4, 2)
    if w1.shape[2] != x.shape[1] or w2.shape[1] != x.shape[1] or w1.shape[0] != w2.shape[0]:
        raise UnknownError(PACKED)
    pairs = ids.elements
    each = w1.shape[1] * w1.shape[2] + w2.shape[1] * w2.shape[2]
    share = min(pairs, w1.shape[0])
    read = [Tensor((share, *w1.shape[1:]), w1.dtype), Tensor((share, *w2.shape[1:]), w2.dtype)]
    return Cost(2 * pairs * each, moved([x, *read, ids], [x]), x.dtype)


def _hidden_experts(call: Call) -> Cost:
    """moe_forward (x, router logits, name of the layer): the weights are not among the arguments."""
    raise UnknownError("shapes of the experts not recorded")


def _packed(call: Call) -> Cost:
    raise UnknownError(PACKED)


def _quantise(call: Call) -> Cost:
    """…_quant (out, input, scale, …): product with the scale and clamp, 2 FLOP each (3 where the scale is
    found first: the maximum of magnitudes)."""
    out, x = call.tensor(0), call.tensor(1)
    dynamic = "dynamic" in call.name
    scales = [t for t in (call.optional(2), call.optional(3)) if t is not None]
    reads, writes = ([], scales[:1]) if dynamic else (scales[:1], [])
    flops = (4 if dynamic else 2) * x.elements
    return Cost(flops, moved([x, *reads], [out, *writes]), x.dtype)


def _quantise_tensor(call: Call) -> Cost:
    """quantize_per_tensor (self, scale, zero_point, dtype): scale, shift, round, clamp."""
    x = call.tensor(0)
    if call.texts is None:
        raise UnknownError(NOT_UNDERSTOOD)
    kind = {"12": "i8", "13": "u8", "14": "i32"}.get(call.text(3))
    return Cost(4 * x.elements, moved([x], [x.as_type(kind)]), x.dtype)


declare(Model("quantised gemm", _int8_weight, scalars=False), "aten::_weight_int8pack_mm")
declare(Model("quantised gemm", _int4_weight, scalars=False), "aten::_weight_int4pack_mm",
        "aten::_weight_int4pack_mm_for_cpu")  # fmt: skip
declare(
    Model("scaled gemm", _scaled_out, scalars=False), "_C::cutlass_scaled_mm", "_C::cutlass_scaled_mm_azp"
)
declare(Model("scaled gemm", _scaled_first), "sgl_kernel::fp8_scaled_mm", "sgl_kernel::int8_scaled_mm")
declare(
    Model("quantised gemm", _marlin, scalars=False),
    "_C::gptq_gemm", "_C::awq_gemm", "_C::gptq_marlin_gemm", "_C::awq_marlin_gemm", "_C::marlin_gemm",
)  # fmt: skip
declare(Model("gemm", partial(_rows_by_columns, 0, 1), scalars=False), "_rocm_C::wvSplitK", "_rocm_C::LLMM1")
declare(Model("integer gemm", _int8_product, scalars=False), "bitsandbytes::int8_linear_matmul")
declare(
    Model("experts", _experts, scalars=False),
    "vllm::inplace_fused_experts", "vllm::outplace_fused_experts", "sglang::inplace_fused_experts",
    "sglang::outplace_fused_experts",
)  # fmt: skip
declare(Model("experts", _hidden_experts, scalars=False), "vllm::moe_forward", "vllm::moe_forward_shared")
declare(
    Model("quantised gemm", _packed, scalars=False),
    "quantized::linear", "quantized::linear_dynamic", "quantized::linear_relu", "quantized::conv2d",
    "quantized::conv2d_relu", "onednn::qlinear_pointwise", "onednn::qconv2d_pointwise",
)  # fmt: skip
declare(
    Model("quantisation", _quantise, scalars=False),
    "_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant", "_C::dynamic_per_token_scaled_fp8_quant",
    "_C::static_scaled_int8_quant", "_C::dynamic_scaled_int8_quant",
)  # fmt: skip
declare(Model("quantisation", _quantise_tensor), "aten::quantize_per_tensor")
