"""Names of kernels, collectives and element types, as real producers write them."""

import pytest

from mdtrace.ingest.classify import DTYPE_BYTES, collective_kind, device_class, short_dtype

COMMUNICATION = """\
ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)
ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)
ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)
ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)
ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)
ncclAllReduceRingLLKernel_sum_f32(ncclColl)
ncclSendRecvKernel_copy_i8(ncclColl)
ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs4K)
rcclGenericKernel_1_2(ncclDevKernelArgsStorage<4096ul>)
void rcclGenericKernel<2, false>(ncclDevKernelArgsStorage<4096ul>)
mscclKernel_Sum_float_LL(ncclDevComm*, mscclAlgo*, mscclWork*)
void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, int)
void aiter::allreduce_fusion_kernel_1stage<__hip_bfloat16>(int)
void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<__half>(int)
void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)
void quickreduce::allreduce_prototype_twoshot<half>(int)
void deep_ep::intranode::dispatch<8, 768>(int4*)
void ccl::allreduce_medium<float>(float*)
nvshmemi_barrier_kernel(int)""".splitlines()

COMPUTE = """\
ampere_sgemm_128x64_tn
void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(int)
void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)
void at::native::vectorized_gather_kernel<16, long>(char*)
triton_red_fused_all_reduce_0
triton_poi_fused_all_gather_into_tensor_copy_3
void splitKreduce_kernel<32, 16>(int)
void cub::DeviceReduceKernel<float>(float*)
Cijk_Alik_Bljk_HHS_BH_MT64x64x32
acclKernel(int)""".splitlines()


@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication_kernels(name: str) -> None:
    assert device_class("kernel", name) == "communication"


@pytest.mark.parametrize("name", COMPUTE)
def test_compute_kernels(name: str) -> None:
    assert device_class("kernel", name) == "compute"


def test_classes_of_other_activities() -> None:
    kinds = ("memcpy", "memset", "sync", "graph", "kernel")
    found = [device_class(kind, None) for kind in kinds]
    assert found == ["memcpy", "memset", "sync", "compute", "compute"]


KINDS = {
    "all_reduce": "allreduce nccl:all_reduce gloo:all_reduce c10d::allreduce_ allreduce_coalesced "
    "MPI_Allreduce MPI_Iallreduce ncclAllReduce NCCL_ALLREDUCE cross_device_reduce_1stage all-reduce",
    "all_gather": "_allgather_base nccl:_all_gather_base all_gather_into_tensor_coalesced MPI_Allgatherv",
    "reduce_scatter": "_reduce_scatter_base ncclReduceScatter MPI_Reduce_scatter_block REDUCESCATTER",
    "all_to_all": "all_to_allv c10d::alltoall_base_ MPI_Alltoallw ALLTOALL deep_ep::intranode::dispatch",
    "broadcast": "nccl:broadcast _broadcast_oop ncclBcast MPI_Bcast MPI_Ibcast BROADCAST",
    "reduce": "nccl:reduce MPI_Reduce MPI_Ireduce ncclDevKernel_Reduce_Sum_f32_RING_LL(x)",
    "gather": "gloo:gather MPI_Gatherv MPI_Igather ncclGather",
    "scatter": "gloo:scatter MPI_Scatterv ncclScatter",
    "barrier": "gloo:barrier MPI_Barrier BARRIER",
    "send": "send ncclSend MPI_Isend MPI_Ssend MPI_Irsend isend",
    "recv": "recv ncclRecv MPI_Irecv recv_any_source",
    "send_recv": "ncclDevKernel_SendRecv(x) MPI_Sendrecv batch_isend_irecv nccl:coalesced",
    "unknown": "wait init ncclGroupEnd MPI_Init MPI_Wait record_param_comms ncclDevKernel_Generic(x) reduced",
}


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in KINDS.items() for n in names.split()])
def test_kinds_of_collectives(kind: str, name: str) -> None:
    assert collective_kind(name) == kind


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("float", "f32"),
        ("Float", "f32"),
        ("c10::BFloat16", "bf16"),
        ("torch.float16", "f16"),
        ("long int", "i64"),
        ("Byte", "u8"),
        ("Float8_e4m3fn", "f8e4m3"),
        ("c10::complex<float>", "c64"),
        ("bf16", "bf16"),
        ("Scalar", None),
        ("TensorList", None),
        ("", None),
        (None, None),
    ],
)
def test_element_types(text: str | None, short: str | None) -> None:
    assert short_dtype(text) == short
    assert short is None or DTYPE_BYTES[short] in (1, 2, 4, 8, 16)
