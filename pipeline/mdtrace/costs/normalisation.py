"""Batch, layer, group and RMS normalisation: FLOP for each element, by formula; each operand once.

Forward with statistics from the data 8: sum 1; deviation, square, sum 3; then (x − mean)·rstd 2, scale and
shift 2. With given statistics 4: (x − mean)·rstd, scale, shift. RMS 4: square, sum, two products.
Backward 11: x̂ = (x − mean)·rstd 2, its product with dy and two sums 3 (these are the gradients of scale and
shift), and dx = rstd·(w·dy − mean(w·dy) − x̂·mean(w·dy·x̂)) 6. RMS 8: x̂ 1, product and sum 2, dx 5.
"""

from functools import partial

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved

_TRAINING, _GIVEN, _RMS = 8, 4, 4
_BACKWARD, _RMS_BACKWARD = 11, 8


def _channels(x: Tensor) -> int:
    if len(x.shape) < 2:
        raise UnknownError(NOT_UNDERSTOOD)
    return x.shape[1]


def _batch_norm(training: int | bool, call: Call) -> Cost:
    """(input, weight, bias, running_mean, running_var, training, …): in training the running statistics are
    read and written, and mean and 1/σ of the batch are kept for the backward pass.

    Args:
        training: position of the flag, or its value where the name says it.
    """
    x = call.tensor(0)
    trains = training if isinstance(training, bool) else call.texts is None or call.flag(training)
    weight, bias, mean, var = (call.optional(i) for i in range(1, 5))
    if not trains:
        return Cost(_GIVEN * x.elements, moved([x, weight, bias, mean, var], [x]), x.dtype)
    saved = Tensor((_channels(x),), _statistics(x))
    return Cost(
        _TRAINING * x.elements, moved([x, weight, bias, mean, var], [x, mean, var, saved, saved]), x.dtype
    )


def _statistics(x: Tensor) -> str | None:
    """Statistics of narrow types are kept in 32 bits."""
    return "f32" if x.dtype in ("f16", "bf16") else x.dtype


def _batch_norm_backward(grad: int, x: int, call: Call) -> Cost:
    """Reads grad_output, input, weight and two statistics; writes the gradients of input, weight and bias."""
    dy, inputs, weight = call.tensor(grad), call.tensor(x), call.optional(2)
    kept = Tensor((_channels(inputs),), _statistics(inputs))
    gradients = [inputs, weight, weight]
    return Cost(
        _BACKWARD * inputs.elements, moved([dy, inputs, weight, kept, kept], [*gradients]), inputs.dtype
    )


def _layer_norm(call: Call) -> Cost:
    """native_layer_norm (input, normalized_shape, weight, bias, eps); keeps mean and 1/σ of each row."""
    x, weight, bias = call.tensor(0), call.optional(2), call.optional(3)
    kept = _rows(x, weight, call)
    each = _TRAINING if weight is not None else _TRAINING - 2
    return Cost(each * x.elements, moved([x, weight, bias], [x, kept, kept]), x.dtype)


def _rows(x: Tensor, weight: Tensor | None, call: Call) -> Tensor:
    """A number for each normalised row: the weight has the shape of a row, else the argument names it."""
    if weight is not None:
        return Tensor((x.elements // max(weight.elements, 1),), _statistics(x))
    size = 1
    for n in call.integers(1):
        size *= n
    return Tensor((x.elements // max(size, 1),), _statistics(x))


def _layer_norm_backward(call: Call) -> Cost:
    """native_layer_norm_backward (grad, input, normalized_shape, mean, rstd, weight, bias, output_mask)."""
    dy, x, mean, rstd, weight, bias = (call.optional(i) for i in (0, 1, 3, 4, 5, 6))
    if dy is None or x is None:
        raise UnknownError(NOT_UNDERSTOOD)
    return Cost(_BACKWARD * x.elements, moved([dy, x, mean, rstd, weight], [x, weight, bias]), x.dtype)


def _group_norm(call: Call) -> Cost:
    """native_group_norm (input, weight, bias, N, C, HxW, group, eps)."""
    x, weight, bias = call.tensor(0), call.optional(1), call.optional(2)
    kept = Tensor((call.integer(3) * call.integer(6),), _statistics(x))
    return Cost(_TRAINING * x.elements, moved([x, weight, bias], [x, kept, kept]), x.dtype)


def _group_norm_backward(call: Call) -> Cost:
    """native_group_norm_backward (grad, input, mean, rstd, weight, N, C, HxW, group, output_mask)."""
    dy, x = call.tensor(0), call.tensor(1)
    mean, rstd, weight = (call.optional(i) for i in (2, 3, 4))
    return Cost(_BACKWARD * x.elements, moved([dy, x, mean, rstd, weight], [x, weight, weight]), x.dtype)


def _rms_norm(call: Call) -> Cost:
    """_fused_rms_norm (input, normalized_shape, weight, eps)."""
    x, weight = call.tensor(0), call.optional(2)
    return Cost(_RMS * x.elements, moved([x, weight], [x, _rows(x, weight, call)]), x.dtype)


def _rms_norm_backward(call: Call) -> Cost:
    """_fused_rms_norm_backward (grad, input, normalized_shape, rstd, weight, output_mask)."""
    dy, x, rstd, weight = call.tensor(0), call.tensor(1), call.optional(3), call.optional(4)
    return Cost(_RMS_BACKWARD * x.elements, moved([dy, x, rstd, weight], [x, weight]), x.dtype)


def _rms_norm_out(call: Call) -> Cost:
    """rms_norm of serving engines (out, input, weight, eps)."""
    out, x, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    return Cost(_RMS * x.elements, moved([x, weight], [out]), x.dtype)


def _add_rms_norm(call: Call) -> Cost:
    """fused_add_rms_norm (input, residual, weight, eps): residual += input, input = its norm; both in
    place."""
    x, residual, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    return Cost((_RMS + 1) * x.elements, moved([x, residual, weight], [x, residual]), x.dtype)


def _statistics_only(call: Call) -> Cost:
    """batch_norm_stats (input, eps): mean and 1/σ by channel, 4 FLOP."""
    x = call.tensor(0)
    kept = Tensor((_channels(x),), _statistics(x))
    return Cost(4 * x.elements, moved([x], [kept, kept]), x.dtype)


def _apply(call: Call) -> Cost:
    """batch_norm_elemt (input, weight, bias, mean, invstd, eps)."""
    x = call.tensor(0)
    return Cost(_GIVEN * x.elements, moved([x, *(call.optional(i) for i in range(1, 5))], [x]), x.dtype)


def _backward_sums(call: Call) -> Cost:
    """batch_norm_backward_reduce (grad, input, mean, invstd, weight, …): x̂, product, two sums: 5 FLOP."""
    dy, x = call.tensor(0), call.tensor(1)
    kept = Tensor((_channels(x),), _statistics(x))
    reads = [dy, x, call.optional(2), call.optional(3)]
    return Cost(5 * x.elements, moved(reads, [kept] * 4), x.dtype)


def _backward_apply(call: Call) -> Cost:
    """batch_norm_backward_elemt (grad, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count): 6 FLOP."""
    dy, x = call.tensor(0), call.tensor(1)
    return Cost(6 * x.elements, moved([dy, x, *(call.optional(i) for i in range(2, 8))], [x]), x.dtype)


_BN = "batch norm"
declare(
    Model(_BN, partial(_batch_norm, 5)),
    "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
    "aten::_native_batch_norm_legit",
)  # fmt: skip
declare(Model(_BN, partial(_batch_norm, 5), "wrapper"), "aten::batch_norm", "aten::_batch_norm_impl_index")
declare(
    Model(_BN, partial(_batch_norm, True), scalars=False),
    "aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional",
)  # fmt: skip
declare(Model(_BN, partial(_batch_norm, False), scalars=False), "aten::_batch_norm_no_update")
declare(
    Model("batch norm backward", partial(_batch_norm_backward, 0, 1), scalars=False),
    "aten::native_batch_norm_backward", "aten::batch_norm_backward",
)  # fmt: skip
declare(
    Model("batch norm backward", partial(_batch_norm_backward, 1, 0), scalars=False),
    "aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward",
)  # fmt: skip
declare(Model(_BN, _statistics_only, scalars=False), "aten::batch_norm_stats")
declare(Model(_BN, _apply, scalars=False), "aten::batch_norm_elemt")
declare(Model("batch norm backward", _backward_sums, scalars=False), "aten::batch_norm_backward_reduce")
declare(Model("batch norm backward", _backward_apply, scalars=False), "aten::batch_norm_backward_elemt")
declare(Model("layer norm", _layer_norm), "aten::native_layer_norm")
declare(Model("layer norm", _layer_norm, "wrapper"), "aten::layer_norm")
declare(Model("layer norm backward", _layer_norm_backward, scalars=False), "aten::native_layer_norm_backward")
declare(Model("group norm", _group_norm), "aten::native_group_norm")
declare(Model("group norm backward", _group_norm_backward, scalars=False), "aten::native_group_norm_backward")
declare(Model("rms norm", _rms_norm), "aten::_fused_rms_norm")
declare(Model("rms norm backward", _rms_norm_backward, scalars=False), "aten::_fused_rms_norm_backward")
declare(Model("rms norm", _rms_norm_out, scalars=False), "_C::rms_norm", "sgl_kernel::rmsnorm")
declare(
    Model("rms norm", _add_rms_norm, scalars=False), "_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm"
)
