"""Names made alike, and what pairs with what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.metrics.comparison.match import Key, pairs
from mdtrace.metrics.comparison.names import bare, plain, unwrapped


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("train.py(123): step", "train.py(#): step"),
        ("<built-in method relu of object at 0x7f1A2b>", "<built-in method relu of object at 0x#>"),
        ("triton_poi_fused_add_relu_12", "triton_poi_fused_add_relu_#"),
        ("triton_red_fused__softmax_3_0d1d2de", "triton_red_fused__softmax_#_0d1d2de"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_#_tn"),
        ("cutlass_80_tensorop_s1688gemm_128x64_32x3_nn_align4", "cutlass_80_tensorop_s1688gemm_#_#_nn"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", "nvjet_tst_#_TNT"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x16_MI32x32x8_SN_1LDSB0", "Cijk_Ailk_Bljk_BBS_BH_MT#"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", "ncclDevKernel_AllReduce_Sum_f32(args)"),
        ("ncclKernel_AllReduce_TREE_LL128_Sum_float", "ncclKernel_AllReduce_Sum_float"),
        ("{lambda(float)#3}::operator()", "{lambda(float)#}::operator()"),
        ("conv2d_3x3_kernel", "conv2d_3x3_kernel"),  # no GEMM: the size is the work
        ("aten::mm", "aten::mm"),
        ("layer_12", "layer_12"),
    ],
)
def test_plain(name: str, alike: str) -> None:
    assert plain(name) == alike
    assert plain(alike) == alike


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, Add<float>, Array<char*, 3> >(int, Add<float>)",
         "at::native::vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::softmax<float>(float*) [clone .kd]", "softmax"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)"),
        ("train.py(9): step", "train.py(#): step"),
        ("<built-in function sleep>", "<built-in function sleep>"),
        ("a<" * 5000, "a<" * 5000),
    ],
)  # fmt: skip
def test_bare(name: str, alike: str) -> None:
    assert bare(name) == alike


def test_layers_without_wrappers() -> None:
    assert unwrapped("DistributedDataParallel_0/Net_0/Linear_1") == "Net_0/Linear_1"
    assert unwrapped("OptimizedModule/_orig_mod/FullyShardedDataParallel_3/Block_1") == "Block_1"
    assert unwrapped("Net/module_list/Linear") == "Net/module_list/Linear"


def _named(base: list[str], new: list[str]) -> list[tuple[str, list[str], list[str], str]]:
    first = lambda form: lambda key: (form(str(key[0])),)  # noqa: E731
    found = pairs([(b,) for b in base], [(n,) for n in new], first(plain), first(bare))
    return [(str(p.key[0]), [base[i] for i in p.base], [new[i] for i in p.new], p.how) for p in found]


def test_the_same_names_are_compared_one_by_one() -> None:
    names = ["gemm_128x64", "gemm_64x64"]
    assert _named(names, names[::-1]) == [(n, [n], [n], "name") for n in names]


def test_other_tiles_are_put_together() -> None:
    base, new = ["gemm_128x64"], ["gemm_128x64", "gemm_64x32"]
    assert _named(base, new) == [("gemm_#", base, new, "normalised name")]


def test_leftovers_pair_by_bare_name_and_the_rest_is_new_or_gone() -> None:
    base = ["k<Add>()", "k<SiluOld>()", "only_before"]
    new = ["k<Add>()", "k<SiluNew>()", "only_after"]
    assert sorted(_named(base, new)) == [
        ("k", ["k<SiluOld>()"], ["k<SiluNew>()"], "normalised name"),
        ("k<Add>()", ["k<Add>()"], ["k<Add>()"], "name"),
        ("only_after", [], ["only_after"], "new"),
        ("only_before", ["only_before"], [], "gone"),
    ]


_keys = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), unique=True, max_size=20)


@given(_keys, _keys)
def test_everything_is_in_exactly_one_pair(base: list[Key], new: list[Key]) -> None:
    found = pairs(base, new, lambda k: k[:2], lambda k: k[:1])
    assert sorted(i for p in found for i in p.base) == list(range(len(base)))
    assert sorted(i for p in found for i in p.new) == list(range(len(new)))
    for pair in found:
        assert len({(base[i][0]) for i in pair.base} | {new[i][0] for i in pair.new}) == 1
        assert pair.how == {(True, False): "gone", (False, True): "new"}.get(
            (bool(pair.base), bool(pair.new)), pair.how
        )
        if pair.how == "name":
            assert [base[i] for i in pair.base] == [new[i] for i in pair.new] == [pair.key]
