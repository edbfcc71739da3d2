"""Models by operator name, and the evaluation of one call."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from mdtrace.costs.call import NO_TYPE, NOT_UNDERSTOOD, Call, Tensor, UnknownError

OUT_OF_RANGE = "out of range"
_LARGEST = 2**63 - 1

Extent = Literal["whole", "wrapper", "nothing"]


@dataclass(frozen=True)
class Cost:
    """The work of one call.

    Attributes:
        flops: FLOP, None: not known.
        bytes: bytes read and written, None: not known.
        dtype: element type that the arithmetic is done in, as far as the operands tell: picks the peak.
        reason: why flops or bytes is None.
    """

    flops: int | None = None
    bytes: int | None = None
    dtype: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Model:
    """A declared model.

    Attributes:
        name: what the model is called in results.
        cost: the work of a call; raises UnknownError.
        extent: whole: counts all that happens inside the operator; wrapper: the operator usually calls others
            for its work, the model holds where it does not; nothing: it moves and computes nothing itself.
        scalars: the cost depends on scalar arguments.
    """

    name: str
    cost: Callable[[Call], Cost]
    extent: Extent = "whole"
    scalars: bool = True


MODELS: dict[str, Model] = {}
FAMILIES: list[tuple[re.Pattern[str], Model]] = []


def declare(model: Model, *names: str) -> None:
    """Register a model for operators of these names; a name has one model only."""
    for name in names:
        if name in MODELS:
            raise ValueError(f"{name} has two models")
        MODELS[name] = model


def declare_family(model: Model, pattern: str) -> None:
    """Register a model for all operators whose whole name the pattern matches."""
    FAMILIES.append((re.compile(pattern), model))


def evaluate(model: Model, call: Call) -> Cost:
    """The cost of a call, with a reason for what is not known; never raises on odd arguments."""
    try:
        cost = model.cost(call)
    except UnknownError as unknown:
        return Cost(reason=str(unknown))
    except (ArithmeticError, LookupError, ValueError):  # shapes that no real call has
        return Cost(reason=NOT_UNDERSTOOD)
    cost = possible(cost)
    if cost.reason is None and (cost.flops is None or cost.bytes is None):
        return Cost(cost.flops, cost.bytes, cost.dtype, NO_TYPE)
    return cost


def possible(cost: Cost) -> Cost:
    """The cost, or none where its figures are not of this world: below 0, or more than an int64 holds."""
    beyond = any(v is not None and not 0 <= v <= _LARGEST for v in (cost.flops, cost.bytes))
    return Cost(reason=OUT_OF_RANGE) if beyond else cost


@cache
def size(dtype: str | None) -> int | None:
    """Bytes of an element: the first number in the short form is its bits; None where not known."""
    if dtype is None:
        return None
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1  # bool


def moved(reads: Sequence[Tensor | None], writes: Sequence[Tensor | None]) -> int | None:
    """Bytes of tensors read once and written once; absent ones are None. None where a type is not known."""
    total = 0
    for elements, dtype in [
        *((t.stored, t.dtype) for t in reads if t is not None),
        *((t.elements, t.dtype) for t in writes if t is not None),
    ]:
        width = size(dtype)
        if width is None and elements:
            return None
        total += elements * (width or 0)
    return total
