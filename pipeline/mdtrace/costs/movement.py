"""Operators that move data and compute nothing: 0 FLOP; what is read and what is written, once each.

And those that do not even move any: views, allocations, bookkeeping ("no work"). Those that may copy after
all (reshape, contiguous, to) call another operator for it, which has the cost.
"""

from functools import partial

from mdtrace.costs.call import NO_SCALARS, NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.optimizer import NO_LIST_TYPE
from mdtrace.costs.registry import Cost, Model, declare, declare_family, moved

NO_INDEX = "index tensors not recorded"
BY_DATA = "depends on the data"
GENERATOR = "work of the random generator not counted"


def _copy(call: Call) -> Cost:
    """copy_ (self, src, …): casts too."""
    out, source = call.tensor(0), call.tensor(1)
    return Cost(0, moved([source], [out]), out.dtype)


def _like(call: Call) -> Cost:
    """clone and the like (self, …): a result of the same shape and type."""
    x = call.tensor(0)
    return Cost(0, moved([x], [x]), x.dtype)


def _fill(call: Call) -> Cost:
    """fill_ (self, value): written only."""
    x = call.tensor(0)
    return Cost(0, moved([], [x]), x.dtype)


def _random(call: Call) -> Cost:
    """normal_ and the like: written only; the generator's own arithmetic is not counted."""
    x = call.tensor(0)
    return Cost(None, moved([], [x]), x.dtype, GENERATOR)


def _concatenate(call: Call) -> Cost:
    """cat (tensors, dim)."""
    tensors = list(call.listed(0))
    total = sum(t.elements for t in tensors)
    traffic = moved([*tensors], [*tensors])
    dtype = tensors[0].dtype if tensors and total else None
    return Cost(0, traffic, dtype, None if traffic is not None else NO_LIST_TYPE)


def _select(call: Call) -> Cost:
    """index_select (self, dim, index): reads the index and what it selects."""
    x, index = call.tensor(0), call.tensor(2)
    given = call.optional(3)
    if given is not None and given.elements:
        picked = given.elements
    elif len(x.shape) == 1:
        picked = index.elements
    else:
        picked = index.elements * x.elements // max(x.shape[call.integer(1)], 1)
    out = Tensor((picked,), x.dtype)
    return Cost(0, moved([index, out], [out]), x.dtype)


def _gather(call: Call) -> Cost:
    """gather (self, dim, index, …): one element for each index."""
    x, index = call.tensor(0), call.tensor(2)
    out = index.as_type(x.dtype)
    return Cost(0, moved([index, out], [out]), x.dtype)


def _scatter(flops: int, call: Call) -> Cost:
    """scatter, scatter_add (self, dim, index, src): in place as far as counted; adding reads what it adds
    to."""
    x, index, source = call.tensor(0), call.tensor(2), call.optional(3)
    touched = index.as_type(x.dtype)
    read = source if source is None else Tensor((min(source.elements, index.elements),), source.dtype)
    return Cost(flops * index.elements, moved([index, read, touched if flops else None], [touched]), x.dtype)


def _index_add(call: Call) -> Cost:
    """index_add_ (self, dim, index, source): an addition for each element of the source."""
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    touched = source.as_type(x.dtype)
    return Cost(source.elements, moved([index, source, touched], [touched]), x.dtype)


def _index(call: Call) -> Cost:
    """index (self, indices): the result's size lies in the index tensors, where they are recorded."""
    x, indices = call.tensor(0), call.args[1] if len(call.args) > 1 else None
    if not isinstance(indices, tuple) or len(indices) != 1 or not x.shape:
        raise UnknownError(NO_INDEX)
    rows = indices[0].elements
    out = Tensor((rows * x.elements // max(x.shape[0], 1),), x.dtype)
    return Cost(0, moved([Tensor(indices[0].shape, "i64"), out], [out]), x.dtype)


def _index_put(call: Call) -> Cost:
    """_index_put_impl_ (self, indices, values, accumulate): the index tensors are not recorded."""
    values = call.tensor(2)
    if call.texts is None:
        raise UnknownError(NO_SCALARS)
    return Cost(values.elements if call.flag(3) else 0, None, values.dtype, NO_INDEX)


def _range(call: Call) -> Cost:
    """arange (…, out): written only."""
    out = call.optional(len(call.args) - 1)
    if out is None:
        raise UnknownError(NOT_UNDERSTOOD)
    return Cost(0, moved([], [out]), out.dtype)


def _one_element(call: Call) -> Cost:
    """_local_scalar_dense (self): one element, to the host."""
    x = call.tensor(0)
    return Cost(0, moved([Tensor((1,), x.dtype)], []), x.dtype)


def _by_data(call: Call) -> Cost:
    """Sorting and selection: how much is done depends on the values."""
    if not call.tensors():
        raise UnknownError(NOT_UNDERSTOOD)
    raise UnknownError(BY_DATA)


def _nothing(call: Call) -> Cost:
    return Cost(0, 0)


_ATEN_NOTHING = (
    "dropout", "dropout_", "feature_dropout", "alpha_dropout",  # out of training they return what they get
    "view", "view_as", "reshape", "_reshape_alias", "_unsafe_view", "as_strided", "as_strided_", "t",
    "t_", "transpose", "transpose_", "permute", "numpy_T", "mT", "movedim", "swapaxes", "expand",
    "expand_as", "broadcast_to", "broadcast_tensors", "slice", "select", "narrow", "unsqueeze",
    "unsqueeze_", "squeeze", "squeeze_", "flatten", "unflatten", "ravel", "detach", "detach_", "alias",
    "unbind", "split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "vsplit", "diagonal",
    "unfold", "real", "imag", "view_as_real", "view_as_complex", "empty", "empty_like", "empty_strided",
    "new_empty", "new_empty_strided", "resize_", "resize_as_", "set_", "size", "stride", "dim", "numel",
    "is_floating_point", "is_complex", "is_nonzero", "is_pinned", "result_type", "can_cast", "item",
    "lift", "lift_fresh", "resolve_conj", "resolve_neg", "conj", "_conj", "record_stream",
    "requires_grad_", "_version", "contiguous", "to", "type_as", "float", "half", "double", "bfloat16",
    "long", "int", "_to_copy", "zeros", "zeros_like", "ones", "ones_like", "new_zeros", "new_ones",
    "full", "full_like", "new_full", "zero_", "pin_memory", "_pin_memory", "flatten_dense_tensors",
    "unflatten_dense_tensors", "_has_compatible_shallow_copy_type", "_nested_tensor_size",
    "_nested_view_from_buffer", "sym_size", "is_same_size", "data", "output_nr",
    "_sparse_coo_tensor_unsafe",
)  # fmt: skip
declare(
    Model("no work", _nothing, "nothing", scalars=False),
    *(f"aten::{n}" for n in _ATEN_NOTHING), "detach", "detach_", "torch::autograd::AccumulateGrad",
    "torch::autograd::GraphRoot", "torch.distributed.ddp.reducer::copy_bucket_to_grad", "_NoopSaveInputs",
)  # fmt: skip
# Nodes of the backward graph call operators for what they do.
declare_family(
    Model("no work", _nothing, "nothing", scalars=False),
    r"autograd::engine::evaluate_function: .*|\w+Backward\d*",
)
declare(Model("copy", _copy, scalars=False), "aten::copy_")
declare(Model("copy", _like, "wrapper", scalars=False), "aten::clone")
declare(
    Model("copy", _like, scalars=False),
    "aten::flip",
    "aten::roll",
    "aten::tril",
    "aten::triu",
    "aten::tril_",
    "aten::triu_",
)
declare(Model("fill", _fill, scalars=False), "aten::fill_")
declare(
    Model("random", _random, scalars=False),
    "aten::normal_", "aten::uniform_", "aten::random_", "aten::bernoulli_", "aten::exponential_",
)  # fmt: skip
declare(Model("concatenation", _concatenate, scalars=False), "aten::cat", "aten::_cat")
declare(Model("concatenation", _concatenate, "wrapper", scalars=False), "aten::stack", "aten::concat")
declare(Model("index", _select), "aten::index_select")
declare(Model("index", _gather, scalars=False), "aten::gather", "aten::take")
declare(Model("index", partial(_scatter, 0), scalars=False), "aten::scatter", "aten::scatter_")
declare(Model("index", partial(_scatter, 1), scalars=False), "aten::scatter_add", "aten::scatter_add_")
declare(Model("index", _index_add, scalars=False), "aten::index_add", "aten::index_add_")
declare(Model("index", _index, scalars=False), "aten::index")
declare(Model("index", _index_put), "aten::_index_put_impl_")
declare(Model("fill", _range, scalars=False), "aten::arange")
declare(Model("copy", _one_element, scalars=False), "aten::_local_scalar_dense")
declare(
    Model("selection", _by_data, scalars=False),
    "aten::sort", "aten::topk", "aten::nonzero", "aten::masked_select", "aten::unique", "aten::_unique2",
    "aten::kthvalue", "aten::bincount", "aten::searchsorted", "aten::multinomial",
)  # fmt: skip
