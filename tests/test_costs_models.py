"""Cost models of other operators on small shapes, and what is not known, each worked out by hand."""

from collections.abc import Sequence

import pytest

from cost_checks import call, check, t, work
from mdtrace.costs import Call, Cost, Tensor, evaluate, model_of
from mdtrace.costs.call import NO_SCALARS, NO_TYPE, NOT_UNDERSTOOD
from mdtrace.costs.registry import FAMILIES, MODELS, OUT_OF_RANGE

_C = t(4)
NORMALISATION = [
    # 8 an element; reads x and 4 vectors, writes y, running and saved statistics
    ("aten::native_batch_norm", [t(2, 4, 3), _C, _C, _C, _C, True, 0.1, 1e-5], 192, 4 * (24 * 2 + 16 + 16)),
    ("aten::native_batch_norm", [t(2, 4, 3), _C, _C, _C, _C, False, 0.1, 1e-5], 96, 4 * (24 * 2 + 16)),
    ("aten::native_batch_norm_backward", [t(2, 4, 3)] * 2 + [_C] * 5 + [True, 1e-5], 264, 4 * (72 + 3 * 4 +
    8)), # input first here
    ("aten::cudnn_batch_norm_backward", [t(2, 4, 3)] * 2 + [_C] * 5 + [1e-5], 264, 4 * (72 + 3 * 4 + 8)),
    # statistics of 6 rows in 32 bits
    (
        "aten::native_layer_norm",
        [t(2, 3, 4, dtype="bf16"), (4,), t(4, dtype="bf16"), t(4, dtype="bf16"), 1e-5],
        192,
        2 * (24 + 8 + 24) + 4 * 12,
    ),
    (
        "aten::native_layer_norm_backward",
        [t(2, 3, 4), t(2, 3, 4), (4,), t(6), t(6), _C, _C, (True, True, True)],
        264,
        4 * (48 + 12 + 4 + 24 + 8),
    ),
    ("aten::native_group_norm", [t(2, 4, 3), _C, _C, 2, 4, 3, 2, 1e-5], 192, 4 * (24 + 8 + 24 + 8)),
    ("aten::_fused_rms_norm", [t(2, 3, 4), (4,), _C, 1e-5], 96, 4 * (24 + 4 + 24 + 6)),
    ("_C::rms_norm", [t(6, 4), t(6, 4), _C, 1e-5], 96, 4 * (24 + 4 + 24)),
    ("_C::fused_add_rms_norm", [t(6, 4), t(6, 4), _C, 1e-5], 120, 4 * (48 + 4 + 48)),
]  # fmt: skip

ELEMENTWISE = [
    ("aten::add", [t(2, 3), t(2, 3), 1], 6, 72),
    ("aten::add_", [t(2, 3), t(3), 1], 6, 4 * (6 + 3 + 6)),
    ("aten::mul", [t(2, 1), t(1, 3)], 6, 4 * (2 + 3 + 6)),
    # expanded: 3 numbers shown twice are read once
    ("aten::mul", [t(2, 3, strides=(0, 1)), t(2, 3)], 6, 4 * (3 + 6 + 6)),
    ("aten::mul", [t(2, 3, dtype="bf16"), t(dtype="f64")], 6, 12 + 8 + 12),
    ("aten::add", [t(2, 3, dtype="f16"), t(2, 3), 1], 6, 12 + 24 + 24),
    ("aten::eq", [t(2, 3), 1], 6, 24 + 6),
    ("aten::relu", [t(5)], 5, 40),
    ("aten::threshold_backward", [t(5), t(5), 0], 5, 60),
    ("aten::sigmoid", [t(5)], 20, 40),
    ("aten::gelu_backward", [t(5), t(5)], 55, 60),
    ("aten::addcdiv_", [t(5), t(5), t(5)], 15, 80),
    ("aten::where", [t(5, dtype="bool"), t(5), t(5)], 5, 5 + 60),
    ("aten::masked_fill_", [t(2, 3), t(2, 1, dtype="bool"), 0], 0, 24 + 2 + 24),
    ("aten::native_dropout", [t(5), 0.1, True], 10, 20 + 20 + 5),
    ("aten::_softmax", [t(2, 3, dtype="bf16"), 1, True], 30, 12 + 24),
    ("aten::_log_softmax_backward_data", [t(2, 3), t(2, 3), 1, 6], 24, 72),
    ("aten::cumsum", [t(5, dtype="i32"), 0], 5, 20 + 40),
    ("_C::silu_and_mul", [t(6, 4), t(6, 8)], 6 * 24, 4 * 72),
    ("aten::sum", [t(2, 3), (0,), True, None], 6, 4 * (6 + 3)),
    ("aten::sum", [t(2, 3, 4), (-1, -2), False, None], 24, 4 * (24 + 2)),
    ("aten::sum", [t(2, 3), None], 6, 4 * 7),
    ("aten::mean", [t(2, 3), (), False, None], 6, 4 * 7),
    ("aten::argmax", [t(2, 3), 1, False], 6, 24 + 16),
    ("aten::max", [t(2, 3), 1, False], 6, 24 + 8 + 16),
    ("aten::max", [t(2, 3)], 6, 24 + 4),
    ("aten::max", [t(2, 3), t(2, 3)], 6, 72),
    ("aten::linalg_vector_norm", [t(2, 3), 2, (1,), False, None], 12, 4 * (6 + 2)),
    ("aten::all", [t(2, 3, dtype="bool")], 6, 7),
]  # fmt: skip

OTHERS = [
    # window 3, stride 2, padding 1: 8 → 4; 9 comparisons a result; positions in 64 bits
    (
        "aten::max_pool2d_with_indices",
        [t(1, 2, 8, 8), (3, 3), (2, 2), (1, 1), (1, 1), False],
        9 * 32,
        4 * (128 + 32) + 8 * 32,
    ),
    # 3, stride 2 over 6: floor 2, ceil 3
    ("aten::avg_pool2d", [t(1, 1, 6, 6), (3, 3), (2, 2), (0, 0), True, True, None], 81, 4 * (36 + 9)),
    (
        "aten::max_pool2d_with_indices_backward",
        [t(1, 2, 4, 4), t(1, 2, 8, 8), (3, 3), (2, 2), (1, 1), (1, 1), False, t(1, 2, 4, 4, dtype="i64")],
        32,
        4 * 32 + 8 * 32 + 4 * 128,
    ),
    ("aten::_adaptive_avg_pool2d", [t(1, 2, 8, 8), (1, 1)], 128, 4 * 130),
    ("aten::embedding", [t(100, 4), t(3, dtype="i64"), -1, False, False], 0, 24 + 48 + 48),
    ("aten::embedding_dense_backward", [t(3, 4), t(3, dtype="i64"), 100, -1, False], 12, 48 + 24 + 1600),
    (
        "aten::_embedding_bag",
        [t(100, 4), t(6, dtype="i64"), t(2, dtype="i64"), False, 0, False, None, False, -1],
        24,
        4 * 24 + 48 + 16 + 32,
    ),
    # 3 features of 2 bags, 5 values
    (
        "fbgemm::permute_2D_sparse_data",
        [t(3, dtype="i32"), t(3, 2, dtype="i32"), t(5, dtype="i64"), None, 5],
        0,
        12 + 2 * (24 + 40),
    ),
    ("fbgemm::asynchronous_complete_cumsum", [t(5, dtype="i32")], 5, 4 * 11),
    ("fbgemm::bounds_check_indices", [t(3, dtype="i64"), t(5, dtype="i64"), t(7, dtype="i64")], 10, 8 * 15),
    ("aten::dropout", [t(5), 0.1, False], 0, 0),
    ("aten::mse_loss", [t(2, 3), t(2, 3), 1], 18, 48 + 4),
    ("aten::mse_loss", [t(2, 3), t(2, 3), 0], 18, 72),
    ("aten::mse_loss_backward", [t(), t(2, 3), t(2, 3), 1], 24, 4 + 72),
    ("aten::nll_loss_forward", [t(2, 10), t(2, dtype="i64"), None, 1, -100], 4, 8 + 16 + 8),
    ("aten::nll_loss_backward", [t(), t(2, 10), t(2, dtype="i64"), None, 1, -100, t()], 2, 4 + 16 + 4 + 80),
    ("aten::copy_", [t(2, 3, dtype="bf16"), t(2, 3), False], 0, 12 + 24),
    ("aten::copy_", [t(2, 3), t(2, 3, strides=(0, 1)), False], 0, 24 + 12),
    ("aten::fill_", [t(2, 3), 0], 0, 24),
    ("aten::index_select", [t(100, 4), 0, t(3, dtype="i64")], 0, 24 + 48 + 48),
    ("aten::index_select", [t(100, 4), 1, t(3, dtype="i64")], 0, 24 + 1200 + 1200),
    # an index expanded over columns is read once a row
    ("aten::gather", [t(9, 4), 0, t(3, 4, dtype="i64", strides=(1, 0)), False], 0, 24 + 48 + 48),
    ("aten::scatter_add_", [t(9), 0, t(3, dtype="i64"), t(3)], 3, 24 + 12 + 12 + 12),
    ("aten::view", [t(2, 3), (6,)], 0, 0),
    ("aten::_local_scalar_dense", [t()], 0, 4),
    ("aten::normal_", [t(5), 0.0, 1.0, None], None, 20),
    ("aten::topk", [t(5), 2, -1, True, True], None, None),
    ("aten::upsample_bilinear2d", [t(1, 1, 2, 2), (4, 4), False, None, None], 2 * 4 * 16, 4 * 20),
    ("aten::_weight_int8pack_mm", [t(2, 3, dtype="bf16"), t(5, 3, dtype="i8"), t(5, dtype="bf16")], 60, 12 +
    15 + 10 + 20), # 2 tokens meet 2 experts each: 4 pairs read all 4 experts; 2·4·(6·5 + 5·3)
    (
        "vllm::outplace_fused_experts",
        [t(2, 5), t(4, 6, 5), t(4, 5, 3), t(2, 2), t(2, 2, dtype="i32")],
        2 * 4 * 45,
        4 * (10 + 4 * 45 + 10) + 16,
    ),
    ("vllm::moe_forward", [t(2, 5), t(2, 4), None], None, None),
    ("_C::static_scaled_fp8_quant", [t(5, dtype="f8e4m3"), t(5), t()], 10, 20 + 4 + 5),
    # 2 tokens, 3 heads of 4, all 4 turned, and one key head
    (
        "_C::rotary_embedding",
        [t(2, dtype="i64"), t(2, 12), t(2, 4), 4, t(100, 4), True],
        3 * 32,
        16 + 4 * 8 + 2 * 4 * 32,
    ),
    (
        "_C_cache_ops::reshape_and_cache_flash",
        [t(2, 1, 4), t(2, 1, 4), t(9, 16, 1, 4, dtype="u8"), t(9, 16, 1, 4, dtype="u8"), t(2, dtype="i64")],
        0,
        64 + 16 + 16,
    ),
    ("triton_poi_fused_add_relu_3", [t(5), t(5), t(5), 5], None, 60),
    ("triton_tem_fused_addmm_7", [t(5), t(2, 3), t(3, 5), t(2, 5)], 60, 4 * 31),
    ("c10d::allreduce_", [t(5)], None, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "flops", "moved"),
    [*NORMALISATION, *ELEMENTWISE, *OTHERS],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_work_and_traffic(
    name: str, arguments: Sequence[object], flops: int | None, moved: int | None
) -> None:
    check(name, arguments, flops, moved)


def lists(name: str, *groups: Sequence[Tensor], texts: Sequence[str] = ()) -> Call:
    return Call(name, tuple(tuple(g) for g in groups), ("",) * len(groups) + tuple(texts))


_SQUARE = ((1, 1), (1, 1), (1, 1), False, (0, 0))
PARAMETERS = (t(2, 3), t(4))


def test_foreach_costs_its_operator_on_every_tensor() -> None:
    found = work(lists("aten::_foreach_addcdiv_", PARAMETERS, PARAMETERS, PARAMETERS))
    assert (found.flops, found.bytes, found.dtype) == (3 * 10, 4 * 10 * 4, "f32")


def test_foreach_norm_gives_a_number_for_each_tensor() -> None:
    found = work(lists("aten::_foreach_norm", PARAMETERS))
    assert (found.flops, found.bytes) == (20, 4 * 12)


def test_lists_without_types_have_work_but_no_traffic() -> None:
    untyped = tuple(Tensor(p.shape, None) for p in PARAMETERS)
    found = work(lists("aten::_foreach_mul_", untyped))
    assert (found.flops, found.bytes) == (10, None)
    assert found.reason == "element types in tensor lists not recorded"


def test_fused_adam_reads_four_lists_and_writes_three() -> None:
    scalars = ["1e-3", "0.9", "0.999", "0", "1e-8", "False", "False"]
    plain = work(lists("aten::_fused_adam_", *[PARAMETERS] * 4, (), [t(), t()], texts=scalars))
    assert (plain.flops, plain.bytes) == (13 * 10, 4 * 10 * 7)
    scalars[3] = "0.01"
    decayed = work(lists("aten::_fused_adamw_", *[PARAMETERS] * 4, (), [t(), t()], texts=scalars))
    assert decayed.flops == 15 * 10


def test_fused_sgd_with_and_without_momentum() -> None:
    plain = work(lists("aten::_fused_sgd_", PARAMETERS, PARAMETERS, ()))
    assert (plain.flops, plain.bytes) == (2 * 10, 4 * 10 * 3)
    with_buffers = work(lists("aten::_fused_sgd_", PARAMETERS, PARAMETERS, PARAMETERS))
    assert (with_buffers.flops, with_buffers.bytes) == (4 * 10, 4 * 10 * 5)


def test_concatenation_reads_and_writes_each_tensor() -> None:
    found = work(lists("aten::cat", PARAMETERS))
    assert (found.flops, found.bytes) == (0, 80)


def test_recurrent_layers_meet_each_weight_at_each_step() -> None:
    weights = (t(16, 3), t(16, 4), t(16), t(16))
    found = work(Call("aten::_cudnn_rnn", (t(5, 2, 3), weights), ("", "")))
    assert found.flops == 2 * 5 * 2 * 16 * 7
    assert found.bytes is None


def test_scalars_that_were_not_recorded_are_the_reason() -> None:
    model = model_of("aten::convolution")
    assert model is not None
    found = evaluate(model, Call("aten::convolution", (t(2, 3, 8, 8), t(4, 3, 3, 3), *[None] * 7)))
    assert (found.flops, found.bytes, found.reason) == (None, None, NO_SCALARS)


def test_a_sum_without_scalars_has_work_but_no_traffic() -> None:
    found = work(Call("aten::sum", (t(2, 3), None, None, None)))
    assert (found.flops, found.bytes, found.reason) == (6, None, NO_SCALARS)


def test_types_that_were_not_recorded_leave_the_work() -> None:
    found = work(call("aten::mm", t(2, 3, dtype=None), t(3, 5, dtype=None)))
    assert (found.flops, found.bytes, found.reason) == (60, None, NO_TYPE)


@pytest.mark.parametrize(
    "some",
    [
        call("aten::mm", t(2, 3), t(4, 5)),
        call("aten::mm", t(2, 3)),
        call("aten::add", 1, 2),
        call("aten::add", t(2), t(3), 1),
        call("aten::convolution", t(2), t(4, 3, 3, 3), None, *_SQUARE, 1),
        call(
            "aten::convolution", t(2, 3, 8, 8), t(4, 3, 3, 3), None, (0, 0), (1, 1), (1, 1), False, (0, 0), 1
        ),
        call(
            "aten::convolution", t(2, 3, 2, 2), t(4, 3, 5, 5), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1
        ),
        call("aten::max_pool2d_with_indices", t(8), (3, 3), (2, 2), (1, 1), (1, 1), False),
    ],
    ids=lambda c: c.name,
)
def test_shapes_that_do_not_fit_are_not_understood(some: Call) -> None:
    assert work(some) == Cost(reason=NOT_UNDERSTOOD)


def test_work_beyond_64_bits_is_out_of_range() -> None:
    assert work(call("aten::mm", t(2**31, 2**31), t(2**31, 2**31))).reason == OUT_OF_RANGE


def test_every_declared_model_says_what_it_is() -> None:
    assert len(MODELS) > 900
    assert {m.extent for m in MODELS.values()} == {"whole", "wrapper", "nothing"}
    assert all(m.name for m in [*MODELS.values(), *(m for _, m in FAMILIES)])


def test_composites_give_way() -> None:
    for name in (
        "linear",
        "conv2d",
        "convolution",
        "matmul",
        "layer_norm",
        "batch_norm",
        "softmax",
        "embedding",
    ):
        model = model_of(f"aten::{name}")
        assert model is not None
        assert model.extent == "wrapper", name
    assert model_of("aten::cross_entropy_loss") is None
    assert model_of("aten::einsum") is None
