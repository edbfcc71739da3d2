"""Matrix products: 2·M·N·K FLOP, by batch; operands and result once.

The count is a derivation (each of M·N results is a sum of K products) and what torch's FLOP counter counts:
the addition of a bias or of beta·C is left out.
"""

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved
from mdtrace.costs.shapes import broadcast, scalar_type


def product(
    a: Tensor, b: Tensor, others: list[Tensor | None], dtype: str | None = None, *, transposed: bool = False
) -> Cost:
    """The cost of a (…×M×K)·(…×K×N), b given as N×K where transposed.

    Args:
        others: what else is read: bias, scales.
        dtype: element type of the result, that of a by default.
    """
    k, n = b.shape[-2:] if not transposed else (b.shape[-1], b.shape[-2])
    if a.shape[-1] != k:
        raise UnknownError(NOT_UNDERSTOOD)
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    out = Tensor((*batch, a.shape[-2], n), dtype or a.dtype)
    return Cost(2 * out.elements * k, moved([a, b, *others], [out]), a.dtype)


def _two_operands(call: Call) -> Cost:
    """mm, bmm (self, mat2)."""
    return product(call.tensor(0, 2, 3), call.tensor(1, 2, 3), [])


def _with_addend(call: Call) -> Cost:
    """addmm, baddbmm (self, mat1, mat2, beta, alpha); self is read."""
    return product(call.tensor(1, 2, 3), call.tensor(2, 2, 3), [call.tensor(0)])


def _summed_batch(call: Call) -> Cost:
    """addbmm (self M×N, B×M×K, B×K×N): the products of the batch are summed into one result."""
    addend, a, b = call.tensor(0), call.tensor(1, 3), call.tensor(2, 3)
    flops = product(a, b, []).flops
    out = Tensor((a.shape[1], b.shape[2]), a.dtype)
    return Cost(flops, moved([addend, a, b], [out]), a.dtype)


def _vector(call: Call) -> Cost:
    """mv (M×K, K)."""
    return _by_vector(call.tensor(0, 2), call.tensor(1, 1), None)


def _vector_with_addend(call: Call) -> Cost:
    """addmv (self, M×K, K)."""
    return _by_vector(call.tensor(1, 2), call.tensor(2, 1), call.tensor(0))


def _by_vector(a: Tensor, b: Tensor, addend: Tensor | None) -> Cost:
    if a.shape[1] != b.shape[0]:
        raise UnknownError(NOT_UNDERSTOOD)
    out = Tensor((a.shape[0],), a.dtype)
    return Cost(2 * a.elements, moved([a, b, addend], [out]), a.dtype)


def _inner(call: Call) -> Cost:
    """dot, vdot (K, K)."""
    a, b = call.tensor(0, 1), call.tensor(1, 1)
    return Cost(2 * a.elements, moved([a, b], [Tensor((), a.dtype)]), a.dtype)


def _outer(call: Call) -> Cost:
    """addr, addr_ (self M×N, M, N): a rank-one update, one multiply-accumulate for each element."""
    addend, a, b = call.tensor(0), call.tensor(1, 1), call.tensor(2, 1)
    out = Tensor((a.shape[0], b.shape[0]), a.dtype)
    return Cost(2 * out.elements, moved([addend, a, b], [out]), a.dtype)


def linear(call: Call) -> Cost:
    """linear and its kin (input …×K, weight N×K, bias)."""
    x, weight = call.tensor(0), call.tensor(1, 2)
    return _linear(x, weight, call.optional(2), None)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, dtype: str | None) -> Cost:
    if not x.shape:
        raise UnknownError(NOT_UNDERSTOOD)
    rows = Tensor((x.elements // max(x.shape[-1], 1), x.shape[-1]), x.dtype)
    cost = product(rows, weight, [bias], dtype, transposed=True)
    return Cost(cost.flops, cost.bytes, x.dtype)


def _matmul(call: Call) -> Cost:
    """matmul (self, other) of any dimensions; a vector is a row on the left and a column on the right."""
    a, b = call.tensor(0), call.tensor(1)
    if not a.shape or not b.shape:
        raise UnknownError(NOT_UNDERSTOOD)
    left = a if len(a.shape) > 1 else Tensor((1, *a.shape), a.dtype)
    right = b if len(b.shape) > 1 else Tensor((*b.shape, 1), b.dtype)
    return product(left, right, [])


def _linear_backward(call: Call) -> Cost:
    """linear_backward (input, grad_output, weight, output_mask): a product for each gradient asked for."""
    x, grad, weight = call.tensor(0), call.tensor(1), call.tensor(2, 2)
    mask = call.flags(3)
    products = sum(mask[:2])
    out = [x if mask[0] else None, weight if mask[1] else None]
    return Cost(2 * x.elements * weight.shape[0] * products, moved([x, grad, weight], out), x.dtype)


def _scaled(call: Call) -> Cost:
    """_scaled_mm (self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, fast): 8-bit operands."""
    others = [call.optional(i) for i in (2, 3, 4)]
    default = call.tensor(0).dtype
    dtype = scalar_type(call.text(6), default)
    return product(call.tensor(0, 2), call.tensor(1, 2), others, dtype)


def _int_product(call: Call) -> Cost:
    """_int_mm (self, mat2): 8-bit integers into 32-bit sums."""
    return product(call.tensor(0, 2), call.tensor(1, 2), [], "i32")


def _grouped(call: Call) -> Cost:
    """_grouped_mm (a, b, offsets, bias, out_dtype): rows, columns or the inner dimension split into groups.

    2-D by 3-D (G×K×N): each row of a meets its group's matrix; 3-D by 2-D mirrored; 2-D by 2-D: the inner
    dimension is split, G results of M×N. All multiply each element of the split operand once: 2·M·N·K.
    """
    return _by_groups(call, call.optional(2), call.text(4))


def _scaled_grouped(call: Call) -> Cost:
    """_scaled_grouped_mm (a, b, scale_a, scale_b, offsets, bias, scale_result, out_dtype, fast)."""
    return _by_groups(call, call.optional(4), call.text(7))


def _by_groups(call: Call, offsets: Tensor | None, out_dtype: str) -> Cost:
    a, b = call.tensor(0, 2, 3), call.tensor(1, 2, 3)
    dtype = scalar_type(out_dtype, a.dtype)
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if b.shape[-2] != k:
        raise UnknownError(NOT_UNDERSTOOD)
    groups = offsets.elements if offsets is not None else 1
    both = len(a.shape) == len(b.shape) == 3
    batch = a.shape[0] if both else 1
    results = groups if len(a.shape) == len(b.shape) == 2 else batch
    out = Tensor((results, m, n), dtype)
    return Cost(2 * batch * m * n * k, moved([a, b, offsets], [out]), a.dtype)


_GEMM = "gemm"
declare(Model(_GEMM, _two_operands, scalars=False), "aten::mm", "aten::bmm")
declare(
    Model(_GEMM, _with_addend, scalars=False),
    "aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_", "aten::_addmm_activation",
)  # fmt: skip
declare(Model(_GEMM, _summed_batch, scalars=False), "aten::addbmm", "aten::addbmm_")
declare(Model("matrix-vector", _vector, scalars=False), "aten::mv")
declare(Model("matrix-vector", _vector_with_addend, scalars=False), "aten::addmv", "aten::addmv_")
declare(Model("dot", _inner, scalars=False), "aten::dot", "aten::vdot")
declare(Model("outer product", _outer, scalars=False), "aten::addr", "aten::addr_")
declare(
    Model(_GEMM, linear, "wrapper", scalars=False),
    "aten::linear", "vllm::rocm_unquantized_gemm", "vllm::rocm_unquantized_gemm_impl",
)  # fmt: skip
declare(
    Model(_GEMM, linear, scalars=False),
    "aten::mkldnn_linear", "aten::_sparse_semi_structured_linear", "mkldnn::_linear_pointwise",
    "mkl::_mkl_linear",
)  # fmt: skip
declare(Model(_GEMM, _matmul, "wrapper", scalars=False), "aten::matmul")
declare(Model(_GEMM, _linear_backward), "aten::linear_backward", "aten::mkldnn_linear_backward")
declare(Model("scaled gemm", _scaled), "aten::_scaled_mm")
declare(Model("integer gemm", _int_product, scalars=False), "aten::_int_mm")
declare(Model("grouped gemm", _grouped, "wrapper"), "aten::_grouped_mm")
declare(Model("grouped gemm", _scaled_grouped, "wrapper"), "aten::_scaled_grouped_mm")
