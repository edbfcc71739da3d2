"""One call of an operator as its recorded arguments: tensors, lists of tensors, scalars as text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import msgspec

NO_SHAPES = "shapes not recorded"
NOT_UNDERSTOOD = "shapes not understood"
NO_SCALARS = "scalar arguments not recorded"
NO_LISTS = "shapes in tensor lists not recorded"
NO_TYPE = "element type not recorded"

_LISTS = ("TensorList", "GenericList")


class UnknownError(Exception):
    """A model cannot tell; the text is the reason."""


@dataclass(frozen=True)
class Tensor:
    """Shape, element type in short form (`f32`, `bf16`, `i64`, …; None: not recorded) and strides in
    elements."""

    shape: tuple[int, ...]
    dtype: str | None
    strides: tuple[int, ...] | None = None

    @cached_property
    def elements(self) -> int:
        return prod(self.shape)

    @cached_property
    def stored(self) -> int:
        """Elements that lie in memory: those an expansion (stride 0) or overlap repeats count once."""
        if self.strides is None or len(self.strides) != len(self.shape) or not self.elements:
            return self.elements
        real = [(n, abs(s)) for n, s in zip(self.shape, self.strides, strict=True) if s]
        return min(prod(n for n, _ in real), 1 + sum((n - 1) * s for n, s in real))

    def as_type(self, dtype: str | None) -> "Tensor":
        """The same shape, dense, of another type."""
        return Tensor(self.shape, dtype)


Argument = Tensor | tuple[Tensor, ...] | None


@dataclass(frozen=True)
class Call:
    """An operator's name and recorded arguments.

    Attributes:
        args: by position a tensor, a list of tensors, or None for anything else.
        texts: by position scalars and lists of them as recorded, "" for tensors and what is absent; None: the
            trace records no scalars.
    """

    name: str
    args: tuple[Argument, ...]
    texts: tuple[str, ...] | None = None

    def optional(self, i: int) -> Tensor | None:
        """The tensor at a position, None where there is none."""
        arg = self.args[i] if i < len(self.args) else None
        return arg if isinstance(arg, Tensor) else None

    def tensor(self, i: int, *dimensions: int) -> Tensor:
        """The tensor at a position, with one of the numbers of dimensions if any are given.

        Raises:
            UnknownError: there is none.
        """
        found = self.optional(i)
        if found is None or (dimensions and len(found.shape) not in dimensions):
            raise UnknownError(NOT_UNDERSTOOD)
        return found

    def tensors(self) -> list[Tensor]:
        """All plain tensor arguments in order."""
        return [a for a in self.args if isinstance(a, Tensor)]

    def listed(self, i: int) -> tuple[Tensor, ...]:
        """The list of tensors at a position; empty where it is empty.

        Raises:
            UnknownError: there is no list, or the trace does not say what is in it.
        """
        found = self.args[i] if i < len(self.args) else None
        if not isinstance(found, tuple):
            raise UnknownError(NO_LISTS)
        return found

    def text(self, i: int) -> str:
        """A scalar argument as recorded.

        Raises:
            UnknownError: scalars are not recorded.
        """
        if self.texts is None:
            raise UnknownError(NO_SCALARS)
        return self.texts[i] if i < len(self.texts) else ""

    def integer(self, i: int) -> int:
        text = self.text(i)
        if not re.fullmatch(r"-?\d{1,18}", text):
            raise UnknownError(NOT_UNDERSTOOD)
        return int(text)

    def integers(self, i: int) -> tuple[int, ...]:
        """A list of integers, or one integer as a list of one."""
        text = self.text(i)
        if not re.fullmatch(r"\[?\s*(-?\d{1,18}(,\s*)?)*\]?", text):
            raise UnknownError(NOT_UNDERSTOOD)
        return tuple(int(t) for t in re.findall(r"-?\d+", text))

    def flag(self, i: int) -> bool:
        return self.text(i) in ("True", "true", "1")

    def flags(self, i: int) -> tuple[bool, ...]:
        """A list of booleans (an output mask)."""
        return tuple(t in ("True", "true", "1") for t in re.findall(r"\w+", self.text(i)))


@dataclass(frozen=True)
class Recorded:
    """The texts that a trace records of a call, JSON; None where it does not."""

    dims: str | None
    types: str | None = None
    strides: str | None = None
    concrete: str | None = None
    list_type: str | None = None  # element type of lists (short form), where something else tells it


def parse(name: str, recorded: Recorded, element_type: Callable[[str], str | None]) -> Call:
    """Read a call.

    Args:
        element_type: a recorded type's short form, None for what is no element type.

    Raises:
        UnknownError: there are no shapes, or they cannot be read.
    """
    if recorded.dims is None:
        raise UnknownError(NO_SHAPES)
    dims = _list(recorded.dims)
    types = _list(recorded.types) if recorded.types is not None else [None] * len(dims)
    strides = _list(recorded.strides) if recorded.strides is not None else []
    texts = _list(recorded.concrete) if recorded.concrete is not None else None
    types += [None] * (len(dims) - len(types))
    strides += [None] * (len(dims) - len(strides))
    reader = _Reader(element_type, recorded.types is not None, recorded.list_type)
    args = tuple(
        reader.argument(*a) for a in zip(dims, types[: len(dims)], strides[: len(dims)], strict=True)
    )
    return Call(name, args, None if texts is None else tuple(str(t) for t in texts))


def _list(text: str) -> list[Any]:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnknownError(NOT_UNDERSTOOD) from error
    if not isinstance(value, list):
        raise UnknownError(NOT_UNDERSTOOD)
    return value


@dataclass(frozen=True)
class _Reader:
    element_type: Callable[[str], str | None]
    typed: bool
    list_type: str | None

    def argument(self, dims: Any, kind: Any, strides: Any) -> Argument:
        if not isinstance(dims, list):
            return None
        if dims and all(isinstance(d, list) for d in dims):
            return self._tensors(dims, strides)
        if kind in _LISTS:
            return None
        dtype = self.element_type(kind) if isinstance(kind, str) else None
        if dtype is None and (self.typed or not dims):
            return self._untyped(dims, kind)
        return _tensor(dims, dtype, strides)

    def _untyped(self, dims: list[Any], kind: Any) -> Tensor | None:
        """Something with a shape whose type is not known is still a tensor; without a shape it is none."""
        return _tensor(dims, None, None) if dims and kind else None

    def _tensors(self, dims: list[Any], strides: Any) -> tuple[Tensor, ...]:
        each = strides if isinstance(strides, list) and len(strides) == len(dims) else [None] * len(dims)
        return tuple(_tensor(d, self.list_type, s) for d, s in zip(dims, each, strict=True))


def _tensor(dims: Any, dtype: str | None, strides: Any) -> Tensor:
    if not _whole(dims) or min(dims, default=0) < 0:
        raise UnknownError(NOT_UNDERSTOOD)
    steps = tuple(strides) if _whole(strides) and len(strides) == len(dims) else None
    return Tensor(tuple(dims), dtype, steps)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int for v in values)
