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

# Words that other names hold too (gather, reduce …) count where a word begins, or behind a library's name.
_BEGINS = r"(?:(?<![a-z])|(?<=nccl)|(?<=rccl)|(?<=mpi_i))"

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("reduce_scatter", r"reduce_?scatter"),
        ("all_reduce", r"all[_-]?reduce|cross_device_reduce|quick_?reduce"),
        ("all_gather", r"all[_-]?gather"),
        ("all_to_all", r"all[_-]?to[_-]?all(?!ocat)|deep_?ep::.*(?:dispatch|combine)"),
        ("send_recv", r"send_?recv|batch_isend_irecv|coalesced"),
        ("broadcast", rf"broadcast|{_BEGINS}bcast"),
        ("barrier", r"barrier"),
        ("gather", rf"{_BEGINS}gather"),
        ("scatter", rf"{_BEGINS}scatter"),
        ("reduce", rf"{_BEGINS}reduce(?!d)"),
        ("recv", rf"{_BEGINS}i?recv"),
        ("send", rf"{_BEGINS}i?send|mpi_i?[bsr]send"),
    )
)

_DTYPES = {
    "float": "f32", "float32": "f32", "half": "f16", "float16": "f16", "double": "f64", "float64": "f64",
    "bfloat16": "bf16", "long": "i64", "long int": "i64", "int64": "i64", "int": "i32", "int32": "i32",
    "short": "i16", "short int": "i16", "int16": "i16", "char": "i8", "signed char": "i8", "int8": "i8",
    "unsigned char": "u8", "byte": "u8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "bool", "float8_e4m3fn": "f8e4m3", "float8_e4m3fnuz": "f8e4m3", "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2", "complexfloat": "c64", "complexdouble": "c128", "complex64": "c64",
    "complex128": "c128", "complexhalf": "c32", "complex<float>": "c64", "complex<double>": "c128",
    "complex<half>": "c32", "unsigned short": "u16", "unsigned int": "u32", "unsigned long": "u64",
    "long long": "i64", "unsigned long long": "u64", "qint8": "i8", "quint8": "u8", "qint32": "i32",
    "float8_e8m0fnu": "f8e8m0", "float4_e2m1fn_x2": "f4e2m1x2",
}  # fmt: skip

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
    "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1, "c32": 4, "c64": 8, "c128": 16,
    "f8e8m0": 1, "f4e2m1x2": 1,
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
