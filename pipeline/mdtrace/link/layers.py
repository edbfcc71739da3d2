"""Layers: paths of nn.Module frames or of NVTX ranges, and the layer each host event belongs to."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mdtrace.link.autograd import accumulators
from mdtrace.link.columns import HostOps, Names, ids
from mdtrace.link.fsdp import find_units
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, Times, nearest, nearest_of, take
from mdtrace.link.patterns import (
    BACKWARD,
    COLLECTIVE_RANGE,
    FORWARD,
    LAYER_PREFIX,
    LIBRARY_CALL,
    LIBRARY_DOMAIN,
    MODULE,
    OPTIMIZER,
    STEP,
    UNNUMBERED_STEP,
)

DEEPEST = 64  # layers below this many others belong to the one there: paths of a runaway recursion end


@dataclass
class Layers:
    """Layers of a process in order of depth, then of first appearance; `of` is the layer of each row of
    host_ops, NONE where it has none; `accumulate` the rows that accumulate gradients, `begins` the rows that
    run a module's forward pass."""

    of: Rows
    accumulate: Flags
    begins: Flags
    origin: str = "module"
    paths: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)

    def table(self, process_id: int) -> pa.Table:
        """The rows of `layers`."""
        return pa.table(
            {
                "path": pa.array(self.paths, pa.string()),
                "name": pa.array(self.names, pa.string()),
                "parent_layer_id": ids(np.array(self.parents, np.int64), process_id),
                "depth": pa.array(self.depths, pa.int32()),
                "origin": pa.array([self.origin] * len(self.paths), pa.string()),
            }
        )


def find_layers(host: HostOps, nest: Nest, forward: Rows) -> Layers:
    """The layers of a process and what belongs to them.

    Where Python frames of modules are recorded, a layer is the chain of module frames around an event. A
    frame without a module around it, though the same module is elsewhere always seen inside the same one
    (what checkpointing computes again on autograd's thread; a capture that began inside a module), gets
    the path of that place. Else a layer is the chain of nested NVTX ranges that are no operator, step, part
    of a step or collective, and not of a library's own domain. A prefix "layer:" or "module:" is taken off.

    An event belongs to the innermost layer around it. An autograd node and what it runs belong to the layer
    of the forward operator it came from, the accumulation of a gradient to that of the node which made it.

    Args:
        forward: by row, the forward operator of an autograd node.
    """
    accumulate, maker = accumulators(host, nest)
    layers = Layers(np.full(len(host), NONE, np.int32), accumulate, np.zeros(len(host), np.bool_))
    frames = host.names.match(MODULE, nest.nested & host.kind("python") & ~host.duplicate)
    if frames.any():
        layers.begins = frames
        _number(layers, nest, frames, _parts(host.names), host.start)
    elif (units := find_units(host, nest)).names:
        layers.of, layers.begins = units.of, units.of != NONE
        _add(layers, units.names, [NONE] * len(units.names), 0)
    elif (ranges := _ranges(host, nest)).any():
        layers.origin = "nvtx"
        _number(layers, nest, ranges, _parts(host.names), host.start)
    if layers.paths:
        _inherit(layers, nest, forward, maker)
    return layers


def _ranges(host: HostOps, nest: Nest) -> Flags:
    """The NVTX ranges that are layers themselves."""
    ranges = nest.nested & host.kind("nvtx") & ~host.duplicate & (host.names.codes != NONE)
    if ranges.any():
        other = (STEP, UNNUMBERED_STEP, FORWARD, BACKWARD, OPTIMIZER, COLLECTIVE_RANGE, LIBRARY_CALL)
        ranges &= ~host.names.where(lambda text: any(p.search(text) for p in other), ranges)
        ranges &= ~host.domains.match(LIBRARY_DOMAIN)
    chosen: Flags = ranges
    return chosen


def _parts(names: Names) -> Names:
    """Names without their prefix; texts equal without it share a code."""
    known: dict[str, int] = {}
    codes = [known.setdefault(LAYER_PREFIX.sub("", text), len(known)) for text in names.texts]
    return Names(np.array([*codes, NONE], np.int32)[names.codes], list(known))


def _number(layers: Layers, nest: Nest, marker: Flags, parts: Names, start: Times) -> None:
    """Number the layers, one level of depth after the other, and set those of the markers."""
    rows = nest.order[marker[nest.order]]
    code = parts.codes[rows]
    around = nearest_of(nest.parent, marker, nest.parent[rows])
    place = np.full(len(nest.parent), NONE, np.int32)
    place[rows] = np.arange(len(rows))
    up = take(place, around)  # the marker around each, as a place in rows
    if layers.origin == "module":
        up = _adopted(up, code)
    layers.of[rows] = _levels(layers, up, code, parts, start[rows])


def _adopted(up: Rows, code: Rows) -> Rows:
    """The marker around each, with outermost modules put where the same module is otherwise seen.

    A donor's own outermost module is one never seen inside another, so that nothing goes in circles.
    """
    inner = np.flatnonzero(up != NONE)
    if not len(inner):
        return up
    known = np.unique(code[inner])
    root = nearest(up, up == NONE)
    donors = inner[~np.isin(code[root[inner]], known)]
    width = int(code.max()) + 1
    pairs, first = np.unique(code[donors].astype(np.int64) * width + code[up[donors]], return_index=True)
    only, at, places = np.unique(pairs // width, return_index=True, return_counts=True)
    donor = np.full(width, NONE, np.int32)
    donor[only[places == 1]] = up[donors[first[at[places == 1]]]]
    return np.where(up == NONE, donor[code], up)


def _levels(layers: Layers, up: Rows, code: Rows, parts: Names, start: Times) -> Rows:
    """The layer of each marker. Markers are one layer where both name and layer around are the same."""
    layer = np.full(len(up), NONE, np.int32)
    level = np.flatnonzero(up == NONE)
    children = np.argsort(up, kind="stable")
    begins = np.searchsorted(up[children], np.arange(len(up) + 1))
    for depth in range(DEEPEST):
        if not len(level):
            return layer
        level = level[np.argsort(start[level], kind="stable")]
        above = take(layer, up[level])
        key = above.astype(np.int64) * len(parts.texts) + code[level]
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))
        layer[level] = len(layers.paths) + rank[inverse]
        first.sort()
        named = [parts.texts[c] for c in code[level[first]].tolist()]
        _add(layers, named, above[first].tolist(), depth)
        level = _children(children, begins, level)
    deep = nearest(up, layer != NONE)
    return take(layer, deep)


def _children(children: Rows, begins: Rows, level: Rows) -> Rows:
    """The markers right inside those of a level."""
    counts = begins[level + 1] - begins[level]
    shift = np.repeat(begins[level] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    right_inside: Rows = children[shift + np.arange(len(shift))]
    return right_inside


def _add(layers: Layers, names: list[str], parents: list[int], depth: int) -> None:
    paths = layers.paths
    paths += [
        name if parent == NONE else f"{paths[parent]}/{name}"
        for name, parent in zip(names, parents, strict=True)
    ]
    layers.names += names
    layers.parents += parents
    layers.depths += [depth] * len(names)


def _inherit(layers: Layers, nest: Nest, forward: Rows, maker: Rows) -> None:
    """Layers of all events from those of the markers."""
    own, known = layers.of, layers.of != NONE
    inside = take(own, nearest(nest.parent, known))
    for source in (forward, maker):  # an accumulation's maker is a node, so nodes come first
        rows = np.flatnonzero(source != NONE)
        found = inside[source[rows]]
        own[rows[found != NONE]] = found[found != NONE]
        known = own != NONE
        inside = take(own, nearest(nest.parent, known))
    layers.of = inside
