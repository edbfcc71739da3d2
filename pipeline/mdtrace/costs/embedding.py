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


def _permute(call: Call) -> Cost:
    """fbgemm's permute_2D_sparse_data (order of features, lengths F×B, values, weights): bags move."""
    order, lengths, values, weights = call.tensor(0), call.tensor(1, 2), call.tensor(2), call.optional(3)
    if order.elements != lengths.shape[0]:
        raise UnknownError("depends on the data")  # features repeated or left out
    return Cost(0, moved([order, lengths, values, weights], [lengths, values, weights]), values.dtype)


def _offsets(call: Call) -> Cost:
    """fbgemm's asynchronous_complete_cumsum (lengths): an addition each; one more sum than lengths."""
    lengths = call.tensor(0, 1)
    sums = Tensor((lengths.elements + 1,), lengths.dtype)
    return Cost(lengths.elements, moved([lengths], [sums]), lengths.dtype)


def _bounds_check(call: Call) -> Cost:
    """fbgemm's bounds_check_indices (rows of tables, indices, offsets, …): two comparisons each."""
    rows, indices, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    return Cost(2 * indices.elements, moved([rows, indices, offsets], []), indices.dtype)


declare(Model("index", _permute, scalars=False), "fbgemm::permute_2D_sparse_data")
declare(Model("scan", _offsets, scalars=False), "fbgemm::asynchronous_complete_cumsum")
declare(Model("index", _bounds_check, scalars=False), "fbgemm::bounds_check_indices")
declare(Model("embedding", _lookup, "wrapper", scalars=False), "aten::embedding")
declare(Model("embedding backward", _lookup_backward), "aten::embedding_dense_backward")
declare(Model("embedding bag", _bag), "aten::_embedding_bag", "aten::_embedding_bag_forward_only")
declare(Model("embedding bag backward", _bag_backward), "aten::_embedding_bag_dense_backward")
