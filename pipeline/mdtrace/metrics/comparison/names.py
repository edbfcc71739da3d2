"""Names made alike across runs: what a compiler, tuner or loader chose goes, what the work is stays.

Two forms of a name as recorded:

* `plain`: without what says nothing about the work: addresses, hashes, lines of source files, numbers of
  lambdas, tile sizes and stages of GEMM kernels, algorithm and protocol of NCCL kernels, counters at the end
  of generated names (`triton_poi_fused_add_12`).
* `bare`: also without template arguments, parameter lists and return type.

Layers have paths: `unwrapped` leaves out modules that only wrap others, such as DistributedDataParallel.
"""

import re
from functools import cache

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_LINE = re.compile(r"(\.(?:pyx?|cuh?|cc|cpp|hpp|hip|h))(?:\(\d+\)|:\d+(?::\d+)?)")
_HEX_HASH = re.compile(r"(?<![A-Za-z0-9])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}(?![A-Za-z0-9])")
_LONG_HASH = re.compile(r"(?<![A-Za-z0-9])(?=[a-z]*[0-9])[a-z0-9]{40,}(?![A-Za-z0-9])")
_NUMBERED = re.compile(r"#\d+")  # the compiler's numbers of lambdas

_NCCL = re.compile(r"(?i:nccl|rccl)")
_NCCL_CHOICE = re.compile(
    r"_(?:RING|TREE|NVLS_TREE|NVLS|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|PAT|LL128|LL|SIMPLE)(?=_|\(|$)"
)

_GEMM = re.compile(r"(?i:gemm|cutlass|nvjet|tensorop|xmma|splitk)|^Cijk_")
_GEMM_CHOICE = (
    (re.compile(r"_MT\d+x.*$"), "_MT#"),  # Tensile: everything after the macro tile is tuning
    (re.compile(r"^(nvjet_[a-z]+)_\d+x\d+\w*?_([NT]{3,4})$"), r"\1_#_\2"),
    (re.compile(r"\d+x\d+(?:x\d+)*"), "#"),
    (re.compile(r"_(?:align|stages|ldg|sliced)_?\d+(?=_|$)"), ""),
)

_GENERATED = re.compile(r"^(?:triton_|cpp_fused|Compiled|.*_fused_)")
_COUNTER = re.compile(r"_\d+(?=$|_\d+d)")  # before the end, or before an old Triton signature (_0d1d2de)

_TEMPLATE = re.compile(r"(?<=\w)<[^<>]*>")
_PARAMETERS = re.compile(r"(?<=[\w>#])\([^()]*\)(?: \[clone [^\]]*\])?$")
_DEEPEST = 32  # templates nested deeper keep what is left

_WRAPPER = re.compile(
    r"(?:DistributedDataParallel|DataParallel|FullyShardedDataParallel|FSDP\w*|OptimizedModule"
    r"|CheckpointWrapper)(?:_\d+)?/|(?<![^/])(?:_orig_mod|module|_fsdp_wrapped_module)/"
)


@cache
def plain(name: str) -> str:
    """A name without addresses, hashes, source lines, tile sizes and counters."""
    name = _LINE.sub(r"\1(#)", _ADDRESS.sub("0x#", name))
    name = _NUMBERED.sub("#", _LONG_HASH.sub("#", _HEX_HASH.sub("#", name)))
    if _NCCL.match(name):
        name = _NCCL_CHOICE.sub("", name)
    if _GEMM.search(name):
        for pattern, to in _GEMM_CHOICE:
            name = pattern.sub(to, name)
    if _GENERATED.match(name):
        name = _COUNTER.sub("_#", name)
    return name


@cache
def bare(name: str) -> str:
    """A name without template arguments, parameters and return type, besides what `plain` leaves out."""
    name = plain(name).replace("(anonymous namespace)::", "")
    for _ in range(_DEEPEST):
        shorter = _TEMPLATE.sub("", name)
        if shorter == name:
            break
        name = shorter
    return _PARAMETERS.sub("", name).removeprefix("void ")


@cache
def unwrapped(path: str) -> str:
    """The path of a layer without modules that only wrap others."""
    return _WRAPPER.sub("", _ADDRESS.sub("0x#", path))
