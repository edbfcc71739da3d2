"""What is known of one kind of device, and how a TOML file says it."""

import tomllib
from typing import Annotated, Any, Literal, get_args

import msgspec

from mdtrace.errors import InputError

Dtype = Literal["f64", "f32", "tf32", "bf16", "f16", "f8", "f6", "f4", "i8", "i4"]
Unit = Literal["matrix", "vector"]
Rate = Annotated[float, msgspec.Meta(gt=0)]

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

# What arithmetic runs on where a device has no units for its type: the next wider type that can hold it.
_WIDER: dict[Dtype, Dtype] = {
    "f4": "f6", "f6": "f8", "f8": "f16", "f16": "f32", "bf16": "f32", "tf32": "f32",
    "i4": "i8", "i8": "f32",
}  # fmt: skip


class Sources(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where each group of numbers comes from."""

    peaks: str | None = None
    memory: str | None = None
    link: str | None = None
    internode: str | None = None


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One kind of device.

    Attributes:
        id: its name in the file.
        matches: parts of device names that mean it; the longest match of all entries wins.
        kind: a cpu's roofs are those of the whole machine, shared by the ranks that run on it.
        compute_units: streaming multiprocessors or compute units.
        memory_gb: size of the memory, as on the label.
        link_gb_per_s: from a device to the others of its node, one way.
        internode_gb_per_s: network per device, one way.
        link_latency_us: time of a collective that moves next to nothing.
        matrix_tflops, vector_tflops: dense peaks, 1e12 FLOP/s, by element type.
        like: entry that gives what this one leaves out.
    """

    id: str = ""
    name: str = ""
    like: str | None = None
    matches: tuple[str, ...] = ()
    kind: Literal["gpu", "cpu"] = "gpu"
    compute_units: Annotated[int, msgspec.Meta(gt=0)] | None = None
    memory_gb: Rate | None = None
    memory_gb_per_s: Rate | None = None
    link: str | None = None
    link_gb_per_s: Rate | None = None
    internode_gb_per_s: Rate | None = None
    link_latency_us: Rate | None = None
    note: str | None = None
    matrix_tflops: dict[Dtype, Rate] = {}
    vector_tflops: dict[Dtype, Rate] = {}
    sources: Sources = Sources()

    def peak(self, dtype: str, unit: Unit) -> tuple[float, Dtype] | None:
        """Peak in FLOP/s for an element type, and the type whose units it is of.

        Matrix work runs on vector units where there are no matrix units for the type, and arithmetic in a
        type that has no units of its own on those of the next wider one. None: no peak is known.
        """
        wanted = known_dtype(dtype)
        while wanted is not None:
            rate = self.matrix_tflops.get(wanted) if unit == "matrix" else None
            rate = rate or self.vector_tflops.get(wanted)
            if rate is not None:
                return rate * 1e12, wanted
            wanted = _WIDER.get(wanted)
        return None

    def ridge(self, dtype: str, unit: Unit = "matrix") -> float | None:
        """Memory ridge point P/β_m in FLOP/byte; None where either is not known."""
        found = self.peak(dtype, unit)
        return found[0] / (self.memory_gb_per_s * 1e9) if found and self.memory_gb_per_s else None


def known_dtype(dtype: str) -> Dtype | None:
    """The key of peaks for an element type: f8e4m3 is f8. Other integer types compute like f32, c64 too."""
    for key in DTYPES:
        if dtype.startswith(key):
            return key
    others: dict[str, Dtype] = {"u8": "i8", "u4": "i4", "c128": "f64"}
    return others.get(dtype, "f32")


def read_entries(text: str, file: str) -> dict[str, Entry]:
    """The entries of a TOML file by id, in its order.

    Raises:
        InputError: it is no TOML, or an entry has a key or value that means nothing.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: not TOML: {error}") from error
    return {id_: _entry(id_, table, file) for id_, table in tables.items()}


def _entry(id_: str, table: Any, file: str) -> Entry:
    if not isinstance(table, dict):
        raise InputError(f"{file}: {id_} stands outside a device", f"begin with a device: [{id_}-device]")
    if "id" in table:
        raise InputError(f"{file}: [{id_}] has a key id", "the id is what stands in the brackets")
    try:
        return msgspec.convert({"name": id_, **table, "id": id_}, Entry)
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: [{id_}]: {_plain(str(error))}", f"keys: {', '.join(KEYS)}") from error


def _plain(message: str) -> str:
    """The validator's message with the key as it stands in the file."""
    return message.replace("Object contains", "it contains").replace("`$.", "`")


KEYS = tuple(f for f in Entry.__struct_fields__ if f != "id")
