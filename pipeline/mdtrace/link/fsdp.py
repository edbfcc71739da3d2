"""Units of fully sharded data parallel: layers that its own records mark where modules are not recorded."""

import re
from dataclasses import dataclass

import numpy as np

from mdtrace.link.columns import HostOps
from mdtrace.link.nesting import NONE, Nest, Rows, Spans, inside, nest

_MARK = re.compile(r"^FSDP::(pre_forward|post_forward)(?: \((.*)\))?$")
_WRAPPERS = re.compile(r"\._(?:checkpoint_wrapped_module|fsdp_wrapped_module|orig_mod)\b|^_orig_mod\.")
ROOT = "(root)"


@dataclass(frozen=True)
class Units:
    """Units by name, and by row of host_ops the number of the unit in whose forward pass the event lies."""

    names: list[str]
    of: Rows


def find_units(host: HostOps, tree: Nest) -> Units:
    """Forward passes of units: from the start of a unit's pre_forward to the end of its next post_forward on
    the thread. The parts that wrappers add to a module's name are taken off; a root without one is (root).
    """
    marks = {text: m for text in host.names.texts if text.startswith("FSDP::") and (m := _MARK.match(text))}
    of = np.full(len(host), NONE, np.int32)
    if not marks:
        return Units([], of)
    numbers: dict[str, int] = {}
    passes = _passes(host, tree, marks, numbers)
    if passes:
        unit, thread, start, end = np.array(passes, np.int64).T
        spans = nest(thread, start, end, np.full(len(unit), NONE), np.ones(len(unit), np.bool_))
        found = inside(spans, thread, start, end, Spans(host.thread, host.start, host.end))
        of = np.where(tree.nested & (found != NONE), unit[found], NONE).astype(np.int32)
    return Units(list(numbers), of)


def _passes(
    host: HostOps, tree: Nest, marks: dict[str, re.Match[str]], numbers: dict[str, int]
) -> list[tuple[int, int, int, int]]:
    """Unit, thread, start and end of each pass; a pre_forward without its post_forward is none."""
    open_: dict[tuple[int, int], int] = {}
    passes = []
    for row in tree.order[host.names.where(marks.__contains__)[tree.order]].tolist():
        match = marks[host.names.text(row) or ""]
        name = _WRAPPERS.sub("", match.group(2) or "") or ROOT
        key = (numbers.setdefault(name, len(numbers)), int(host.thread[row]))
        if match.group(1) == "pre_forward":
            open_[key] = int(host.start[row])
        elif key in open_:
            passes.append((*key, open_.pop(key), int(host.end[row])))
    return passes
