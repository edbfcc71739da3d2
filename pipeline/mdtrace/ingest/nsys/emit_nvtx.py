"""Texts that PyTorch's emit_nvtx makes: operator, sequence number, operator id and shapes in one string.

`aten::view, op_id = 314290, seq = 12, sizes = [[8, 3, 224, 224]]`: each part may be absent, ids stand in
either order, `input_op_ids` may follow.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PATTERN = (
    r"(?s)^(?P<name>.*?)"
    r"(?:, seq = (?P<seq>-?\d{1,18}))?"
    r"(?:, op_id = (?P<op>-?\d{1,18}))?"
    r"(?:, seq = (?P<seq_after>-?\d{1,18}))?"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?"
    r"(?:, input_op_ids = \[.*\])?$"
)


@dataclass(frozen=True)
class Parsed:
    """Columns of host_ops that the texts give; `operator` is true where a text is emit_nvtx's."""

    name: pa.Array
    operator: pa.Array
    sequence: pa.Array | None = None
    op_id: pa.Array | None = None
    input_dims: pa.Array | None = None


def parse(names: pa.Array) -> Parsed:
    """Take the names of ranges apart."""
    candidate = pc.match_substring(names, " = ")
    if not pc.any(candidate).as_py():
        return Parsed(names, pa.array(np.zeros(len(names), bool)))
    parts = pc.extract_regex(pc.if_else(candidate, names, pa.scalar(None, pa.string())), _PATTERN)
    fields = {f: _present(pc.struct_field(parts, f)) for f in ("seq", "op", "seq_after", "sizes")}
    sequence = pc.coalesce(fields["seq"], fields["seq_after"])
    operator = pc.or_(pc.or_(sequence.is_valid(), fields["op"].is_valid()), fields["sizes"].is_valid())
    return Parsed(
        pc.if_else(operator, pc.struct_field(parts, "name"), names),
        operator,
        sequence.cast(pa.int64()),
        fields["op"].cast(pa.int64()),
        fields["sizes"],
    )


def _present(texts: pa.Array) -> pa.Array:
    """A group that took no part in the match is an empty text: NULL instead."""
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
