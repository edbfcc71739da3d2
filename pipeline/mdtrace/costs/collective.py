"""Collectives: the local reductions, and what they read and write in the memory of their own device.

A reduction over n ranks takes n − 1 additions for each element of the result, shared evenly among the ranks:
(n − 1)/n·elements of the input for each rank (all-reduce, reduce-scatter, reduce); that is the least, a
one-shot kernel adds all of them on each rank. Bytes: input once, output once, not what goes over the wire or
through buffers."""

from mdtrace.costs.call import Call, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, declare_family, size

COMMUNICATION = "communication without sizes"
NO_GROUP = "size of the group not recorded"

_REDUCING = ("all_reduce", "reduce_scatter", "reduce")
_SAME_SIZE = ("all_reduce", "reduce", "broadcast", "all_to_all")


def collective(
    kind: str, dtype: str | None, elements_in: int | None, elements_out: int | None, ranks: int | None
) -> Cost:
    """The cost of one rank's part.

    Args:
        elements_in, elements_out: of this rank's input and output, None: not recorded.
        ranks: members of the group.
    """
    if elements_in is None:
        return Cost(reason=COMMUNICATION)
    if elements_out is None and kind in _SAME_SIZE:
        elements_out = elements_in
    width = size(dtype)
    known = width is not None and elements_out is not None
    traffic = (elements_in + (elements_out or 0)) * (width or 0) if known else None
    if kind not in _REDUCING:
        return Cost(0, traffic, dtype, None if known else COMMUNICATION)
    if not ranks:
        return Cost(None, traffic, dtype, NO_GROUP)
    flops = elements_in * (ranks - 1) // ranks
    return Cost(flops, traffic, dtype, None if known else COMMUNICATION)


def _told_elsewhere(call: Call) -> Cost:
    """Operators that start communication; what is known of it stands in the collectives."""
    raise UnknownError(COMMUNICATION)


MODEL = Model("collective", _told_elsewhere, "wrapper", scalars=False)
declare(MODEL, "record_param_comms", "symm_mem::multimem_all_reduce_", "vllm::all_reduce", "vllm::all_gather")
declare_family(MODEL, r"(?:c10d|_c10d_functional|nccl|gloo|mpi|ucc|symm_mem)::?\w+|_C_custom_ar::\w+")
