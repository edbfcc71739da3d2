"""Names → classes: what a kernel counts as, what a collective does, what an element type is.

The rules look at names alone, so they apply to NVIDIA and AMD, old and new, alike. All results
are cached: a trace has few distinct names.
"""

import re
from functools import lru_cache
from typing import Literal

DeviceKind = Literal["kernel", "memcpy", "memset", "sync", "graph"]
DeviceClass = Literal["compute", "communication", "memcpy", "memset", "sync"]

# Kernels of the communication libraries: NCCL and RCCL (old, new, templated, lower case), MSCCL,
# oneCCL, NVSHMEM and DeepEP, and the custom all-reduce kernels of serving engines.
_COMMUNICATION = re.compile(
    r"""(?ix)
      (?:^|[^a-z0-9])(?:nccl|rccl)(?:dev)?(?:kernel|generickernel|_)
    | (?:^|[^a-z0-9])(?:nccl|rccl)\w*(?:kernel|allreduce|allgather|reducescatter|sendrecv|broadcast)
    | msccl | oneccl | (?:^|[^a-z])ccl::
    | nvshmem | deep_?ep::
    | cross_device_reduce | custom_?all_?reduce | (?:one|two)_?shot_?(?:push_|pull_)?all_?reduce
    | (?:^|[^a-z])(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)_?\w*(?:kernel|fusion|_shot)
    | multimem_(?:all_?reduce|one_shot|all_gather) | quick_?(?:all_?)?reduce | userbuffers
    """
)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_reduce", r"all_?reduce|cross_device_reduce|quick_?reduce"),
        ("all_gather", r"all_?gather"),
        ("all_to_all", r"all_?to_?all(?!ocat)"),
        ("send_recv", r"send_?recv|batch_isend_irecv|coalesced"),
        ("broadcast", r"broadcast|(?<![a-z])bcast"),
        ("barrier", r"barrier"),
        ("gather", r"(?<![a-z])gather|mpi_gather|ncclgather"),
        ("scatter", r"(?<![a-z])scatter|mpi_scatter|ncclscatter"),
        ("reduce", r"(?<![a-z])_?reduce(?!d)|ncclreduce|mpi_reduce|kernel_reduce"),
        ("recv", r"(?<![a-z])i?recv|ncclrecv|mpi_i?recv"),
        ("send", r"(?<![a-z])i?send|ncclsend|mpi_i?send"),
    )
)

_DTYPES = {
    "float": "f32", "float32": "f32", "half": "f16", "float16": "f16", "double": "f64", "float64": "f64",
    "bfloat16": "bf16", "long": "i64", "long int": "i64", "int64": "i64", "int": "i32", "int32": "i32",
    "short": "i16", "short int": "i16", "int16": "i16", "char": "i8", "signed char": "i8", "int8": "i8",
    "unsigned char": "u8", "byte": "u8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "bool", "float8_e4m3fn": "f8e4m3", "float8_e4m3fnuz": "f8e4m3", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2", "complexfloat": "c64", "complexdouble": "c128", "complex64": "c64",
    "complex128": "c128", "complexhalf": "c32",
}  # fmt: skip

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
    "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1, "c32": 4, "c64": 8, "c128": 16,
}  # fmt: skip


@lru_cache(maxsize=65536)
def device_class(kind: str, name: str | None) -> DeviceClass:
    """What a device activity counts as in time accounting."""
    if kind == "kernel":
        return "communication" if name and _COMMUNICATION.search(name) else "compute"
    if kind == "memcpy":
        return "memcpy"
    if kind == "memset":
        return "memset"
    return "compute" if kind == "graph" else "sync"


@lru_cache(maxsize=65536)
def collective_kind(name: str) -> str:
    """The operation in a collective's recorded name, `unknown` where it names none."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "unknown")


@lru_cache(maxsize=4096)
def short_dtype(text: str | None) -> str | None:
    """The element type in its short form (`c10::BFloat16`, `BFloat16`, `bfloat16` → `bf16`)."""
    if not text:
        return None
    bare = text.strip().removeprefix("c10::").removeprefix("torch.").lower()
    return _DTYPES.get(bare, bare if bare in DTYPE_BYTES else None)
