"""Products (matrices, convolutions, attention) on small shapes, each worked out by hand beside its case."""

from collections.abc import Sequence

import pytest

from cost_checks import check, t

GEMM = [
    # 2·M·N·K; operands and result once, 4 bytes each
    ("aten::mm", [t(2, 3), t(3, 5)], 60, 4 * (6 + 15 + 10)),
    ("aten::addmm", [t(5), t(2, 3), t(3, 5), 1, 1], 60, 4 * (5 + 6 + 15 + 10)),
    # a bias expanded to the result's shape (stride 0) is read once
    ("aten::addmm", [t(2, 5, strides=(0, 1)), t(2, 3), t(3, 5), 1, 1], 60, 4 * (5 + 6 + 15 + 10)),
    ("aten::bmm", [t(7, 2, 3), t(7, 3, 5)], 7 * 60, 7 * 4 * 31),
    ("aten::baddbmm", [t(7, 2, 5), t(7, 2, 3), t(7, 3, 5), 1, 1], 7 * 60, 7 * 4 * 41),
    ("aten::addbmm", [t(2, 5), t(7, 2, 3), t(7, 3, 5), 1, 1], 7 * 60, 4 * (10 + 7 * 21 + 10)),
    ("aten::mv", [t(2, 3), t(3)], 12, 4 * (6 + 3 + 2)),
    ("aten::addmv", [t(2), t(2, 3), t(3), 1, 1], 12, 4 * (2 + 6 + 3 + 2)),
    ("aten::dot", [t(3), t(3)], 6, 4 * 7),
    ("aten::linear", [t(2, 4, 3), t(5, 3), t(5)], 2 * 8 * 15, 4 * (24 + 15 + 5 + 40)),
    ("aten::matmul", [t(2, 4, 3), t(3, 5)], 2 * 8 * 15, 4 * (24 + 15 + 40)),
    ("aten::matmul", [t(3), t(3, 5)], 30, 4 * (3 + 15 + 5)),
    # two of three gradients: by the input 2·8·15, by the weight as much
    (
        "aten::linear_backward",
        [t(2, 4, 3), t(2, 4, 5), t(5, 3), (True, True, False)],
        4 * 8 * 15,
        4 * (24 + 40 + 15 + 24 + 15),
    ),
    # 8-bit operands and two scales into bf16 (ScalarType 15)
    (
        "aten::_scaled_mm",
        [t(2, 16, dtype="f8e4m3"), t(16, 8, dtype="f8e4m3"), t(), t(), None, None, 15, False],
        512,
        32 + 128 + 8 + 32,
    ),
    ("aten::_int_mm", [t(2, 16, dtype="i8"), t(16, 8, dtype="i8")], 512, 32 + 128 + 64),
    # 6 rows split among 2 experts
    (
        "aten::_grouped_mm",
        [t(6, 4, dtype="bf16"), t(2, 4, 3, dtype="bf16"), t(2, dtype="i32"), None, None],
        2 * 6 * 4 * 3,
        2 * (24 + 24 + 18) + 8,
    ),
    # the inner dimension split: 2 results
    (
        "aten::_grouped_mm",
        [t(6, 4, dtype="bf16"), t(4, 3, dtype="bf16"), t(2, dtype="i32"), None, None],
        2 * 6 * 4 * 3,
        2 * (24 + 12 + 36) + 8,
    ),
]  # fmt: skip

_SQUARE = ((1, 1), (1, 1), (1, 1), False, (0, 0))
CONVOLUTION = [
    # 2·(2·8·8 positions)·(4·3·3·3 weights)
    ("aten::convolution", [t(2, 3, 8, 8), t(4, 3, 3, 3), None, *_SQUARE, 1], 27648, 4 * (384 + 108 + 512)),
    # stride 2 leaves 4 × 4
    (
        "aten::convolution",
        [t(2, 3, 8, 8), t(4, 3, 3, 3), t(4), (2, 2), (1, 1), (1, 1), False, (0, 0), 1],
        27648 // 4,
        4 * (384 + 108 + 4 + 128),
    ),
    # each channel alone: 4 weights of 3 × 3
    ("aten::convolution", [t(2, 4, 8, 8), t(4, 1, 3, 3), None, *_SQUARE, 4], 9216, 4 * (512 + 36 + 512)),
    # dilation 2 needs padding 2 to keep the size
    (
        "aten::convolution",
        [t(1, 1, 8), t(1, 1, 3), None, (1,), (2,), (2,), False, (0,), 1],
        2 * 8 * 3,
        4 * (8 + 3 + 8),
    ),
    # transposed, stride 2: (8 − 1)·2 + 2 = 16; each of the 8 positions of the input meets all weights
    (
        "aten::convolution",
        [t(1, 3, 8), t(3, 5, 2), None, (2,), (0,), (1,), True, (0,), 1],
        2 * 8 * 30,
        4 * (24 + 30 + 80),
    ),
    ("aten::conv3d", [t(1, 2, 4, 4, 4), t(3, 2, 1, 1, 1), None, 1, 0, 1, 1], 2 * 64 * 6, 4 * (128 + 6 + 192)),
    ("aten::conv2d", [t(1, 1, 5, 5), t(1, 1, 3, 3), None, 1, "same", 1, 1], 2 * 25 * 9, 4 * (25 + 9 + 25)),
    # padding before stride here
    (
        "aten::miopen_convolution",
        [t(2, 3, 8, 8), t(4, 3, 3, 3), None, (1, 1), (2, 2), (1, 1), 1, False, False],
        6912,
        4 * (384 + 108 + 128),
    ),
    (
        "aten::cudnn_convolution",
        [t(2, 3, 8, 8), t(4, 3, 3, 3), (1, 1), (2, 2), (1, 1), 1, False, False, True],
        6912,
        4 * (384 + 108 + 128),
    ),
    ("aten::mkldnn_convolution", [t(2, 3, 8, 8), t(4, 3, 3, 3), t(4), 1, 1, 1, 1], 27648, 4 * (384 + 108 + 4
    + 512)), ("aten::_slow_conv2d_forward", [t(1, 1, 4, 4), t(1, 1, 3, 3), 3, None, 1, 0], 72, 4 * (16 + 9 +
    4)), # both gradients: each reads two operands and writes one
    (
        "aten::convolution_backward",
        [t(2, 4, 8, 8), t(2, 3, 8, 8), t(4, 3, 3, 3), None, *_SQUARE, 1, (True, True, False)],
        2 * 27648,
        2 * 4 * (384 + 108 + 512),
    ),
    # the first layer asks for the weight's alone; the bias' is written beside
    (
        "aten::convolution_backward",
        [t(2, 4, 8, 8), t(2, 3, 8, 8), t(4, 3, 3, 3), None, *_SQUARE, 1, (False, True, True)],
        27648,
        4 * (384 + 108 + 512) + 16,
    ),
    (
        "aten::cudnn_convolution_backward_input",
        [(2, 3, 8, 8), t(2, 4, 8, 8), t(4, 3, 3, 3), 1, 1, 1, 1, False, False],
        27648,
        4 * (512 + 108 + 384),
    ),
    (
        "aten::cudnn_convolution_backward_weight",
        [(4, 3, 3, 3), t(2, 4, 8, 8), t(2, 3, 8, 8), 1, 1, 1, 1, False, False],
        27648,
        4 * (512 + 108 + 384),
    ),
]  # fmt: skip

_Q, _KV = t(2, 8, 16, 4, dtype="bf16"), t(2, 2, 16, 4, dtype="bf16")  # 8 query heads share 2 of keys
ATTENTION = [
    # 2·2·8·16·16·(4 + 4), halved; Q and O 1024 elements, K and V 256, 256 rows of log-sum-exp
    (
        "aten::_scaled_dot_product_flash_attention",
        [_Q, _KV, _KV, 0.0, True, False],
        32768,
        2 * (2048 + 512) + 4 * 256,
    ),
    ("aten::_scaled_dot_product_flash_attention", [_Q, _Q, _Q, 0.0, False, False], 65536, 2 * 4096 + 1024),
    # causal over more keys than queries: not halved
    (
        "aten::_scaled_dot_product_efficient_attention",
        [t(1, 1, 4, 2), t(1, 1, 8, 2), t(1, 1, 8, 6), None, False, 0.0, True],
        2 * 4 * 8 * 8,
        4 * (8 + 16 + 48 + 24),
    ),
    ("aten::_scaled_dot_product_cudnn_attention", [_Q, _Q, _Q, None, True, 0.0, True], 32768, 2 * 4096 +
    1024), # five products, halved: 2·2·8·16·16·(3·4 + 2·4)/2; reads dO, Q, K, V, O, rows, writes dQ, dK, dV
    (
        "aten::_scaled_dot_product_flash_attention_backward",
        [_Q, _Q, _KV, _KV, _Q, t(2, 8, 16), None, None, 16, 16, 0.0, True],
        81920,
        2 * (3 * 1024 + 2 * 256) + 1024 + 2 * (1024 + 512),
    ),
    (
        "aten::_flash_attention_forward",
        [t(1, 16, 8, 4), t(1, 16, 8, 4), t(1, 16, 8, 4), None, None, 16, 16, 0.0, False, False],
        2 * 8 * 256 * 8,
        4 * (4 * 512) + 4 * 128,
    ),
    # packed, but one sequence only
    (
        "aten::_flash_attention_forward",
        [t(16, 8, 4), t(16, 8, 4), t(16, 8, 4), t(2, dtype="i32"), t(2, dtype="i32"), 16, 16, 0.0, False],
        2 * 8 * 256 * 8,
        4 * (4 * 512) + 4 * 128,
    ),
    # three packed sequences: the scores are not known, the traffic is
    (
        "flash_attn::_flash_attn_varlen_forward",
        [t(16, 8, 4), t(16, 8, 4), t(16, 8, 4), t(4, dtype="i32"), t(4, dtype="i32"), 9, 9, 0.0, 1.0, True],
        None,
        4 * 4 * 512,
    ),
    ("flash_attn::_flash_attn_forward", [t(1, 16, 8, 4)] * 3 + [0.0, 1.0, True], 2 * 8 * 128 * 8, 4 * 2048 +
    512), ("vllm::unified_attention_with_output", [t(16, 8, 4), t(16, 2, 4), t(16, 2, 4), t(16, 8, 4)], None,
None), ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "flops", "moved"),
    [*GEMM, *CONVOLUTION, *ATTENTION],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_work_and_traffic(
    name: str, arguments: Sequence[object], flops: int | None, moved: int | None
) -> None:
    check(name, arguments, flops, moved)
