"""Look-ups in tables: what is looked up is read, not the table; bags add their rows."""

from mdtrace.costs.call import NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare, moved


def _rows(indices: Tensor, table: Tensor) -> Tensor:
    """One row of the table for each index."""
    if len(table.shape) != 2:
        raise UnknownError(NOT_UNDERSTOOD)
    return Tensor((indices.elements, table.shape[1]), table.dtype)


def _lookup(call: Call) -> Cost:
    """embedding (weight, indices, …): copies rows, 0 FLOP."""
    indices = call.tensor(1)
    rows = _rows(indices, call.tensor(0))
    return Cost(0, moved([indices, rows], [rows]), rows.dtype)


def _lookup_backward(call: Call) -> Cost:
    """embedding_dense_backward (grad_output, indices, num_weights, padding_idx, scale): adds each row of the
    gradient to a row of the table's gradient, which is written whole."""
    grad, indices = call.tensor(0), call.tensor(1)
    table = Tensor((call.integer(2), grad.shape[-1]), grad.dtype)
    return Cost(grad.elements, moved([grad, indices], [table]), grad.dtype)


def _bag(call: Call) -> Cost:
    """_embedding_bag (weight, indices, offsets, scale, mode, sparse, per_sample_weights,
    include_last_offset): an addition for each element looked up (with weights: and a product)."""
    table, indices, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    rows = _rows(indices, table)
    weights = call.optional(6)
    bags = offsets.elements - (1 if call.texts is not None and call.flag(7) else 0)
    out = Tensor((bags, table.shape[1]), table.dtype)
    flops = rows.elements * (1 if weights is None else 2)
    return Cost(flops, moved([rows, indices, offsets, weights], [out]), table.dtype)


def _bag_backward(call: Call) -> Cost:
    """_embedding_bag_dense_backward (grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
    …)."""
    grad, indices, bag_of = call.tensor(0), call.tensor(1), call.tensor(2)
    table = Tensor((call.integer(5), grad.shape[-1]), grad.dtype)
    flops = indices.elements * grad.shape[-1]
    return Cost(flops, moved([grad, indices, bag_of], [table]), grad.dtype)


declare(Model("embedding", _lookup, "wrapper", scalars=False), "aten::embedding")
declare(Model("embedding backward", _lookup_backward), "aten::embedding_dense_backward")
declare(Model("embedding bag", _bag), "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
declare(Model("embedding bag backward", _bag_backward), "aten::_embedding_bag_dense_backward")
