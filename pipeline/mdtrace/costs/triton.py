"""Kernels that torch.compile generates, by the families of their names.

Arguments are the buffers that a kernel works on: each is counted once, whether read, written or both (their
names, which would tell, are not recorded). What is computed stands in the code, not in the trace: FLOP are
not known, but for templates of matrix products.
"""

from itertools import pairwise

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.gemm import product
from mdtrace.costs.registry import Cost, Model, declare_family, moved

GENERATED = "arithmetic of generated code not recorded"


def _generated(call: Call) -> Cost:
    tensors: list[Tensor | None] = [*call.tensors()]
    if not tensors:
        raise UnknownError(NOT_UNDERSTOOD)
    return Cost(None, moved(tensors, []), None, GENERATED)


def _template(call: Call) -> Cost:
    """A product of the first two matrices among the arguments that fit, with their result beside."""
    some = [t for t in call.tensors() if len(t.shape) in (2, 3)]
    for a, b in pairwise(some):
        if len(a.shape) == len(b.shape) and a.shape[-1] == b.shape[-2]:
            out = (*a.shape[:-1], b.shape[-1])
            if any(t.shape == out for t in some):
                return product(a, b, [])
    raise UnknownError(NOT_UNDERSTOOD)


declare_family(Model("triton gemm", _template, scalars=False), r"triton_tem_\w*mm\w*")
declare_family(Model("triton", _generated, scalars=False), r"triton_(?:poi|red|per|for|mix|spl|unk|tem)_\w+")
