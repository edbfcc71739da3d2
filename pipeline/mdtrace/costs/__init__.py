"""FLOP and byte models by operator: from recorded shapes to work, one small declared model each.

Conventions. One multiply-accumulate is 2 FLOP; bias additions of GEMMs and convolutions are not counted (as
in torch's FLOP counter); elsewhere every addition, multiplication, division, comparison and elementary
function (exp, log, sqrt, erf…) of an operator's formula counts 1 for each element. Bytes: each input that
the operator reads once, each output once, by the operand's own element type; what an expanded input (stride
0) shows several times is read once. What is not known is None with a reason, never 0; 0 is what a model says.
"""

from mdtrace.costs.call import Call, Tensor, parse
from mdtrace.costs.models import model_of
from mdtrace.costs.registry import Cost, Model, evaluate, possible

__all__ = ["Call", "Cost", "Model", "Tensor", "evaluate", "model_of", "parse", "possible"]
