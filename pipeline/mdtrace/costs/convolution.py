"""Convolutions: 2·(result positions)·(weights that meet each), forward and for each gradient.

A convolution of groups g has weights K × C/g × kernel, all of which meet each of N·Πout positions of the
result once: 2·N·Πout·(all weights). A transposed one has C × K/g × kernel and meets each position of the
input. The gradients by input and by weight are convolutions with the same products. Torch's FLOP counter
counts the same, except that for the weight gradient of grouped convolutions it does not divide by the groups.
"""

from dataclasses import dataclass
from math import prod

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved
from mdtrace.costs.shapes import spread, window


@dataclass(frozen=True)
class _At:
    """Positions of arguments, None where the operator has none of that kind."""

    stride: int
    padding: int
    dilation: int | None
    groups: int | None = None
    bias: int | None = 2
    transposed: int | None = None
    output_padding: int | None = None
    always_transposed: bool = False


def result(x: Tensor, weight: Tensor, geometry: "Geometry") -> Tensor:
    """The tensor that a convolution gives.

    Raises:
        UnknownError: shapes do not fit.
    """
    count = len(weight.shape) - 2
    if count < 1 or len(x.shape) not in (count + 1, count + 2):
        raise UnknownError(NOT_UNDERSTOOD)
    spatial = tuple(geometry.size(i, x.shape[i - count], weight.shape[i + 2]) for i in range(count))
    channels = weight.shape[1] * geometry.groups if geometry.transposed else weight.shape[0]
    return Tensor((*x.shape[: -count - 1], channels, *spatial), x.dtype)


@dataclass(frozen=True)
class Geometry:
    """Strides and the like, a number for each spatial dimension; `same` padding keeps the size."""

    stride: tuple[int, ...]
    padding: tuple[int, ...] | None  # None: "same"
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    def size(self, i: int, size: int, kernel: int) -> int:
        """Size of the result along spatial dimension i."""
        if self.padding is None:
            return size
        if self.transposed:
            extra = self.output_padding[i] if self.output_padding else 0
            return (
                (size - 1) * self.stride[i]
                - 2 * self.padding[i]
                + self.dilation[i] * (kernel - 1)
                + extra
                + 1
            )
        return window(size, kernel, self.stride[i], self.padding[i], self.dilation[i])


def _geometry(call: Call, at: _At, count: int) -> Geometry:
    transposed = at.always_transposed or (at.transposed is not None and call.flag(at.transposed))
    extra = () if at.output_padding is None else call.integers(at.output_padding)
    return Geometry(
        spread(call.integers(at.stride), count, 1),
        _padding(call, at.padding, count),
        (1,) * count if at.dilation is None else spread(call.integers(at.dilation), count, 1),
        1 if at.groups is None else call.integer(at.groups),
        transposed,
        spread(extra, count, 0) if transposed else (),
    )


def _padding(call: Call, at: int, count: int) -> tuple[int, ...] | None:
    text = call.text(at).strip("'\"")
    if text == "same":
        return None
    return (0,) * count if text == "valid" else spread(call.integers(at), count, 0)


def _forward(at: _At, call: Call) -> Cost:
    x, weight = call.tensor(0), call.tensor(1, 3, 4, 5)
    out = result(x, weight, _geometry(call, at, len(weight.shape) - 2))
    transposed = at.always_transposed or (at.transposed is not None and call.flag(at.transposed))
    bias = None if at.bias is None else call.optional(at.bias)
    flops = 2 * _positions(x if transposed else out, weight) * weight.elements
    return Cost(flops, moved([x, weight, bias], [out]), x.dtype)


def _positions(of: Tensor, weight: Tensor) -> int:
    """Batch × spatial positions."""
    count = len(weight.shape) - 2
    batch = of.shape[0] if len(of.shape) == count + 2 else 1
    return batch * prod(of.shape[-count:])


def _backward(call: Call) -> Cost:
    """convolution_backward (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
    output_padding, groups, output_mask): a product for each gradient that the mask asks for, each with its
    operands read and its result written. The bias gradient, a sum over grad_output, is counted in bytes only,
    as the addition of a bias is.
    """
    return _gradients(call.tensor(1), call.tensor(0), call.tensor(2, 3, 4, 5), call.flags(10), call.flag(7))


def _old_backward(call: Call) -> Cost:
    """cudnn_convolution_backward and its kin (input, grad_output, weight, …, output_mask)."""
    mask = call.flags(len(call.args) - 1)
    return _gradients(call.tensor(0), call.tensor(1), call.tensor(2, 3, 4, 5), mask, False)


def _gradients(x: Tensor, grad: Tensor, weight: Tensor, mask: tuple[bool, ...], transposed: bool) -> Cost:
    if len(mask) not in (2, 3):
        raise UnknownError(NOT_UNDERSTOOD)
    each = 2 * _positions(x if transposed else grad, weight) * weight.elements
    channels = Tensor((grad.shape[1 - len(weight.shape)],), weight.dtype)
    flops, pieces = 0, []
    if mask[0]:
        flops += each
        pieces.append(moved([grad, weight], [x]))
    if mask[1]:
        flops += each
        pieces.append(moved([grad, x], [weight]))
    if len(mask) == 3 and mask[2]:
        pieces.append(moved([], [channels]) if mask[1] else moved([grad], [channels]))
    known = [p for p in pieces if p is not None]
    return Cost(flops, sum(known) if len(known) == len(pieces) else None, x.dtype)


def _data_gradient(call: Call) -> Cost:
    """cudnn_convolution_backward_input (input_size, grad_output, weight, …)."""
    grad, weight = call.tensor(1), call.tensor(2, 3, 4, 5)
    flops = 2 * _positions(grad, weight) * weight.elements
    if call.texts is None or not call.text(0):
        return Cost(flops, None, grad.dtype, "size of the input not recorded")
    return Cost(flops, moved([grad, weight], [Tensor(call.integers(0), grad.dtype)]), grad.dtype)


def _weight_gradient(call: Call) -> Cost:
    """cudnn_convolution_backward_weight (weight_size, grad_output, input, …)."""
    grad, x = call.tensor(1), call.tensor(2)
    if call.texts is None or not call.text(0):
        raise UnknownError("size of the weight not recorded")
    weight = Tensor(call.integers(0), grad.dtype)
    return Cost(2 * _positions(grad, weight) * weight.elements, moved([grad, x], [weight]), grad.dtype)


def _declare(at: _At, *names: str, wrapper: bool = False) -> None:
    declare(Model("convolution", lambda call: _forward(at, call), "wrapper" if wrapper else "whole"), *names)


_declare(
    _At(stride=3, padding=4, dilation=5, groups=8, transposed=6, output_padding=7),
    "aten::convolution", "aten::_convolution", "aten::convolution_overrideable", wrapper=True,
)  # fmt: skip
_declare(
    _At(stride=3, padding=4, dilation=5, groups=6),
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    wrapper=True,
)
_declare(
    _At(stride=3, padding=4, dilation=7, groups=6, output_padding=5, always_transposed=True),
    "aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d", wrapper=True,
)  # fmt: skip
_declare(_At(padding=2, stride=3, dilation=4, groups=5, bias=None), "aten::cudnn_convolution")
_declare(
    _At(padding=2, output_padding=3, stride=4, dilation=5, groups=6, bias=None, always_transposed=True),
    "aten::cudnn_convolution_transpose",
)
_declare(_At(stride=3, padding=4, dilation=5, groups=6), "aten::cudnn_convolution_relu")
_declare(_At(bias=4, stride=5, padding=6, dilation=7, groups=8), "aten::cudnn_convolution_add_relu")
_declare(
    _At(padding=3, stride=4, dilation=5, groups=6),
    "aten::miopen_convolution", "aten::miopen_depthwise_convolution", "aten::mkldnn_convolution",
    "mkldnn::_convolution_pointwise",
)  # fmt: skip
_declare(_At(stride=3, padding=4, dilation=5, groups=6), "aten::miopen_convolution_relu")
_declare(
    _At(padding=3, output_padding=4, stride=5, dilation=6, groups=7, always_transposed=True),
    "aten::miopen_convolution_transpose",
)
_declare(_At(bias=3, stride=4, padding=5, dilation=6), "aten::conv_depthwise3d")
# A depthwise weight is C × 1 × kernel: all of it meets each position, as any other.
_declare(_At(bias=3, stride=4, padding=5, dilation=6), "aten::_conv_depthwise2d")
_declare(
    _At(bias=3, stride=4, padding=5, dilation=None),
    "aten::thnn_conv2d", "aten::_slow_conv2d_forward", "aten::slow_conv3d", "aten::slow_conv3d_forward",
)  # fmt: skip
_declare(
    _At(bias=3, stride=4, padding=5, dilation=6), "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d"
)
_declare(
    _At(bias=3, stride=4, padding=5, output_padding=6, dilation=7, always_transposed=True),
    "aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
)  # fmt: skip
declare(
    Model("convolution backward", _backward),
    "aten::convolution_backward", "aten::convolution_backward_overrideable",
)  # fmt: skip
declare(
    Model("convolution backward", _old_backward, "wrapper"),
    "aten::cudnn_convolution_backward", "aten::miopen_convolution_backward",
    "aten::mkldnn_convolution_backward",
)  # fmt: skip
declare(Model("convolution data gradient", _data_gradient), "aten::cudnn_convolution_backward_input",
        "aten::miopen_convolution_backward_input")  # fmt: skip
declare(Model("convolution weight gradient", _weight_gradient), "aten::cudnn_convolution_backward_weight",
        "aten::miopen_convolution_backward_weight")  # fmt: skip
