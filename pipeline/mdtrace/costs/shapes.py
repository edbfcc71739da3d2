"""Shapes and types of results: broadcasting, promotion, windows."""

from collections.abc import Sequence
from itertools import zip_longest

from mdtrace.costs.call import NOT_UNDERSTOOD, Tensor, UnknownError

# torch's ScalarType numbers, as scalar arguments show them.
_SCALAR_TYPES = {
    0: "u8", 1: "i8", 2: "i16", 3: "i32", 4: "i64", 5: "f16", 6: "f32", 7: "f64", 8: "c32", 9: "c64",
    10: "c128",
    11: "bool", 15: "bf16", 23: "f8e5m2", 24: "f8e4m3", 25: "f8e5m2", 26: "f8e4m3",
}  # fmt: skip
_ORDER = (
    "bool",
    "u8",
    "i8",
    "i16",
    "i32",
    "i64",
    "f8e5m2",
    "f8e4m3",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
)


def scalar_type(text: str, default: str | None) -> str | None:
    """The element type that a dtype argument names, the default where it is absent or not known."""
    return _SCALAR_TYPES.get(int(text), default) if text.isdecimal() else default


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape (numpy's rule).

    Raises:
        UnknownError: they have none.
    """
    out = []
    for sizes in zip_longest(*(reversed(s) for s in shapes), fillvalue=1):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise UnknownError(NOT_UNDERSTOOD)
        out.append(wide.pop() if wide else 1)
    return tuple(reversed(out))


def promote(tensors: Sequence[Tensor]) -> str | None:
    """The type of a result: the widest among tensors with dimensions, else among all (torch's rule, in
    short)."""
    some = [t for t in tensors if t.shape] or list(tensors)
    known = [t.dtype for t in some]
    if not known or any(d not in _ORDER for d in known):
        return known[0] if known else None
    if {"f16", "bf16"} <= set(known):
        return "f32"
    return max((d for d in known if d), key=_ORDER.index)


def spread(values: tuple[int, ...], count: int, default: int) -> tuple[int, ...]:
    """A stride, padding or dilation for each of `count` dimensions: one number stands for all."""
    if not values:
        return (default,) * count
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise UnknownError(NOT_UNDERSTOOD)
    return values


def window(size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> int:
    """Positions of a window along one dimension: floor or ceil of (size + 2p − d(k − 1) − 1)/s, plus 1.

    In ceil mode a window that would start in the right padding is left out (torch's rule).
    """
    if stride < 1 or kernel < 1 or dilation < 1 or padding < 0:
        raise UnknownError(NOT_UNDERSTOOD)
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise UnknownError(NOT_UNDERSTOOD)
    count = (room + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count
