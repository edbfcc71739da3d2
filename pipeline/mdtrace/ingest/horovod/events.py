"""One event of a Horovod timeline, and what its fields mean (horovod/common/timeline.cc)."""

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

import msgspec

# Activities of a communication library inside an operation. MPI_ALLTOALL is written by gloo runs too.
_BACKEND = re.compile(r"(NCCL|MPI|GLOO|ONECCL|CCL|MLSL|DDL)_[A-Z_]+")
NEGOTIATE = "NEGOTIATE_"
FUSION = "MEMCPY_IN_FUSION_BUFFER"  # tensors that share a buffer, and only those, are copied into it
# Response types that are communication; ERROR is none.
OPERATIONS = frozenset(
    ("ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER", "BARRIER", "JOIN", "ADASUM")
)
_SHAPE = re.compile(r"\[\s*(\d{1,18}(?:\s*,\s*\d{1,18})*)?\s*,?\s*\]")
_LIMIT_ELEMENTS = 1 << 56  # no tensor has as many
_LIMIT_NS = 1 << 62


class Event(msgspec.Struct, gc=False):
    """Fields of any event. `pid` is the tensor; times are µs, whole ones in what Horovod writes itself."""

    ph: str | None = None
    name: str | int | float | None = None
    ts: int | float | str | None = None
    dur: int | float | str | None = None
    pid: int | float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class Args(msgspec.Struct, gc=False):
    """Arguments that mean something: of metadata, and of an operation's end."""

    name: str | int | float | None = None
    start_time_since_epoch_in_micros: int | None = None
    dtype: str | None = None
    shape: str | None = None


_ARGS = msgspec.json.Decoder(Args)
_NONE = Args()


def arguments(event: Event) -> Args:
    """The arguments of an event; all None where they cannot be decoded."""
    try:
        return _ARGS.decode(event.args) if event.args else _NONE
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _NONE


def nanoseconds(micros: int | float | str | None) -> int | None:
    """µs as exact int64 ns; None where there is no usable time."""
    if isinstance(micros, int):
        value = micros * 1000
    else:
        try:
            number = Decimal(str(micros))
        except InvalidOperation:
            return None
        if not number.is_finite() or number.adjusted() > 18:  # before any giant integer is made of it
            return None
        value = int((number * 1000).to_integral_value())
    return value if usable(value) else None


def usable(time_ns: int) -> bool:
    """Whether the difference of two such times is an int64 as well: up to the year 2116."""
    return -_LIMIT_NS < time_ns < _LIMIT_NS


def tensor_number(pid: int | float | str | None) -> int | None:
    """The number of a tensor's row: below 2^31, whatever type it was written as."""
    return pid if isinstance(pid, int) and 0 <= pid < 1 << 31 else _whole(str(pid).removesuffix(".0"))


def rank_number(name: str | int | float | None) -> int | None:
    """The rank that a tick's name is, None where it is none."""
    return _whole(str(name))


@lru_cache(maxsize=65536)
def _whole(text: str) -> int | None:
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII):
        return None
    number = int(text)
    return number if number < 1 << 31 else None


@lru_cache(maxsize=4096)
def backend_of(activity: str) -> str | None:
    """The communication library of an activity (nccl, mpi, gloo, ccl …), None for any other activity."""
    found = _BACKEND.fullmatch(activity)
    return found[1].lower() if found else None


@lru_cache(maxsize=65536)
def elements_of(shape: str | None) -> int | None:
    """Elements of a shape as Horovod prints it: `[64, 3, 3, 3]`, `[]` is a scalar; None if unknown."""
    found = _SHAPE.fullmatch(shape) if shape else None
    if not found:
        return None
    elements = 1
    for size in (found[1] or "").split(","):
        elements *= int(size) if size.strip() else 1
    return elements if elements < _LIMIT_ELEMENTS else None
