"""Recurrent layers: each weight meets each step of each sequence once, 2 FLOP; gates are left out.

Sum over layers, directions and gates of 2·T·B·(weights): a derivation; the elementwise work of the gates is
of lower order in the hidden size.
"""

from mdtrace.costs.call import NO_LISTS, NOT_UNDERSTOOD, Call, Tensor, UnknownError
from mdtrace.costs.registry import Cost, Model, declare

TRAFFIC = "traffic of the steps not modelled"


def _products(call: Call, x: Tensor, passes: int) -> Cost:
    if len(x.shape) not in (2, 3):
        raise UnknownError(NOT_UNDERSTOOD)
    weights = [w for w in call.listed(1) if len(w.shape) == 2]
    if not weights:
        raise UnknownError(NO_LISTS)
    steps = x.elements // max(x.shape[-1], 1)
    return Cost(2 * passes * steps * sum(w.elements for w in weights), None, x.dtype, TRAFFIC)


def _forward(call: Call) -> Cost:
    """_cudnn_rnn, miopen_rnn (input T×B×I, weights, …)."""
    return _products(call, call.tensor(0), 1)


def _backward(call: Call) -> Cost:
    """_cudnn_rnn_backward, miopen_rnn_backward (input, weights, …): gradients of data and of weights."""
    return _products(call, call.tensor(0), 2)


declare(Model("recurrent", _forward, scalars=False), "aten::_cudnn_rnn", "aten::miopen_rnn")
declare(
    Model("recurrent backward", _backward, scalars=False),
    "aten::_cudnn_rnn_backward",
    "aten::miopen_rnn_backward",
)
