"""Costs of calls: each distinct combination of operator and recorded arguments is evaluated once."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mdtrace.costs import Cost, Model, evaluate, model_of, parse
from mdtrace.costs.call import Recorded, UnknownError
from mdtrace.ingest.classify import short_dtype
from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, Names, encode
from mdtrace.link.nesting import NONE, Flags, Rows

_COLUMNS = ["input_dims", "input_types", "input_strides", "concrete_inputs"]
_SCALARS = 3  # the last column matters to models that look at scalars only

# Element types that the short forms of other tables leave out.
_FURTHER_TYPES = {
    "c10::qint8": "i8", "c10::quint8": "u8", "c10::qint32": "i32", "c10::complex<float>": "c64",
    "c10::complex<double>": "c128", "c10::complex<c10::Half>": "c32", "c10::Float8_e8m0fnu": "f8e8m0",
}  # fmt: skip


# What older traces call scalars; tensors have the same in small letters.
_SCALAR_KINDS = ("Int", "Bool", "Double")


def element_type(text: str) -> str | None:
    """A recorded type in its short form, None for what is no element type."""
    if text in _SCALAR_KINDS:
        return None
    return short_dtype(text) or _FURTHER_TYPES.get(text)


@dataclass(frozen=True)
class Modelled:
    """Models by row of host_ops: `models[of[row]]`, NONE without one."""

    of: Rows
    models: list[Model]

    def where(self, *extents: str) -> Flags:
        """Rows whose model has one of the extents."""
        return np.array([*(m.extent in extents for m in self.models), False]).take(self.of)


def find_models(host: HostOps, eligible: Flags) -> Modelled:
    """The declared model of each eligible row's name."""
    models: list[Model] = []
    numbers: dict[int, int] = {}
    codes = np.full(len(host.names.texts) + 1, NONE, np.int16)
    for code, text in enumerate(host.names.texts):
        if (model := model_of(text)) is not None:
            codes[code] = numbers.setdefault(id(model), len(models))
            if codes[code] == len(models):
                models.append(model)
    of = codes[host.names.codes]
    of[~eligible] = NONE
    return Modelled(of, models)


@dataclass(frozen=True)
class Costs:
    """Costs of some rows of host_ops, ascending: `costs[which[i]]` is that of rows[i]."""

    rows: Rows
    which: Rows
    costs: list[Cost]

    def known(self) -> Flags:
        """By position in rows: FLOP or bytes are known."""
        found = [c.flops is not None or c.bytes is not None for c in self.costs]
        return np.array([*found, False])[self.which]


@dataclass(frozen=True)
class ListTypes:
    """Element types of a row's tensor lists as its kernels' names tell them: `types[of[row]]`, NONE: not
    told."""

    of: Rows
    types: list[str]


@dataclass(frozen=True)
class Arguments:
    """What the traces recorded of the calls whose model looks at arguments: by column the distinct texts, and
    which of them each of the rows has (NONE: none)."""

    rows: Rows
    texts: list[dict[str, int]]
    codes: list[NDArray[np.int32]]


def read_arguments(staged: StagedProcess, modelled: Modelled) -> Arguments:
    """The recorded arguments as codes, read a batch at a time; scalars only where they matter."""
    rows = np.flatnonzero(modelled.where("whole", "wrapper"))
    scalars = np.array([*(m.scalars for m in modelled.models), False])[modelled.of[rows]]
    texts: list[dict[str, int]] = [{} for _ in _COLUMNS]
    parts: list[list[NDArray[np.int32]]] = [[np.empty(0, np.int32)] for _ in _COLUMNS]
    for batch, mine, wanted in _batches(staged, rows, scalars):
        for i in range(len(_COLUMNS)):
            own = encode(batch.column(i), texts[i]).take(mine)
            parts[i].append(np.where(wanted, own, np.int32(NONE)) if i == _SCALARS else own)
    return Arguments(rows, texts, [np.concatenate(p) for p in parts])


def find_costs(host: HostOps, modelled: Modelled, arguments: Arguments, lists: ListTypes) -> Costs:
    """Costs of all rows whose model looks at arguments."""
    rows = arguments.rows
    first, which = _distinct([host.names.codes[rows], *arguments.codes, lists.of[rows]])
    by_code = [[*known, None] for known in arguments.texts]  # code NONE finds None
    costs = []
    for at in first.tolist():
        given = [texts[int(codes[at])] for texts, codes in zip(by_code, arguments.codes, strict=True)]
        dims, types, strides, concrete = given
        hint = [*lists.types, None][int(lists.of[rows[at]])]
        recorded = Recorded(dims, types, strides, concrete, hint)
        name = host.names.texts[int(host.names.codes[rows[at]])]
        costs.append(_cost(name, modelled.models[int(modelled.of[rows[at]])], recorded))
    return Costs(rows, which, costs)


def _cost(name: str, model: Model, recorded: Recorded) -> Cost:
    try:
        call = parse(name, recorded, element_type)
    except UnknownError as unknown:
        return Cost(reason=str(unknown))
    return evaluate(model, call)


def _batches(
    staged: StagedProcess, rows: Rows, scalars: Flags
) -> Iterator[tuple[pa.RecordBatch, Rows, Flags]]:
    """Staged batches, which of their rows are wanted, and whose scalars matter."""
    start = 0
    for batch in staged.batches("host_ops", columns=_COLUMNS):
        low, high = np.searchsorted(rows, (start, start + batch.num_rows))
        if low < high:
            yield batch, rows[low:high] - start, scalars[low:high]
        start += batch.num_rows


def _distinct(columns: Sequence[Rows]) -> tuple[Rows, Rows]:
    """Where each distinct combination of codes (NONE among them) stands first, and which one each row has."""
    key = columns[0].astype(np.int64)
    span = int(key.max(initial=0)) + 1
    for column in columns[1:]:
        width = int(column.max(initial=NONE)) + 2
        if span * width >= 1 << 62:
            known, key = np.unique(key, return_inverse=True)
            span = len(known)
        key = key * width + column + 1
        span *= width
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return first, which


# The element type among the arguments of a kernel's functor, as list kernels and concatenations name it.
_KERNEL_TYPE = re.compile(
    r"(?:Functor|CatArrayBatched\w*|FusedSgd\w*)<\s*(?:at::native::\(anonymous namespace\)::)?"
    r"(c10::BFloat16|c10::Half|__nv_bfloat16|__half|float|double|long|int|bool|OpaqueType<\d+u?>)"
)
_KERNEL_TYPES = {"__nv_bfloat16": "bf16", "__half": "f16"}


def _kernel_type(text: str) -> str | None:
    """The short form; a concatenation's kernel may tell the size only, `b32` for 32 bits of any type."""
    if text.startswith("Opaque"):
        return f"b{8 * int(re.sub(r'[^0-9]', '', text))}"
    return _KERNEL_TYPES.get(text) or short_dtype(text)


def list_types(host: Rows, kernels: Names, count: int) -> ListTypes:
    """What kernels tell of the lists of the rows that launched them.

    Args:
        host: by device activity the operator around its launch, NONE without one.
        count: rows of host_ops.
    """
    found: dict[str, int] = {}
    codes = []
    for text in kernels.texts:
        match = _KERNEL_TYPE.search(text)
        kind = _kernel_type(match[1]) if match else None
        codes.append(found.setdefault(kind, len(found)) if kind else NONE)
    code = np.array([*codes, NONE], np.int8)[kernels.codes]
    of = np.full(count, NONE, np.int8)
    told = (host != NONE) & (code != NONE)
    of[host[told]] = code[told]
    return ListTypes(of, list(found))
