"""Which part of the training step a host event belongs to."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mdtrace.link.columns import HostOps
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, nearest
from mdtrace.link.patterns import AUTOGRAD, BACKWARD, FORWARD, OPTIMIZER

PHASES = ("forward", "backward", "optimizer")
_FORWARD, _BACKWARD, _OPTIMIZER = range(3)

Phase = NDArray[np.int8]  # number in PHASES, NONE where not known


def phases(host: HostOps, nest: Nest, module: Flags, forward: Rows) -> Phase:
    """The phase of each host event, by row.

    Backward below an autograd node or a range named backward, optimizer below `Optimizer.step` or a range
    named optimizer: of these the nearest. Else forward below a module's frame, a range named forward, or an
    operator that made an autograd node. So what activation checkpointing computes again inside a backward
    node is backward.

    Args:
        module: rows that are frames of modules.
        forward: by row, the forward operator of an autograd node.
    """
    named = host.kind("operator", "annotation", "nvtx")
    backward = host.names.match(BACKWARD, named) | autograd_nodes(host)
    optimizer = host.names.match(OPTIMIZER, named)
    strong = nearest(nest.parent, backward | optimizer)
    begins = module | host.names.match(FORWARD, named)
    begins[forward[forward != NONE]] = True
    weak = nearest(nest.parent, begins)
    of_marker = np.where(np.append(backward, False), _BACKWARD, _OPTIMIZER)
    phase = np.where(strong != NONE, of_marker[strong], np.where(weak != NONE, _FORWARD, NONE))
    return phase.astype(np.int8)


def autograd_nodes(host: HostOps) -> Flags:
    """Operators that are nodes of the autograd graph, as the engine runs them."""
    return host.names.match(AUTOGRAD, host.kind("operator", "nvtx"))


def take_phase(phase: Phase, rows: Rows) -> Phase:
    """phase[row], NONE for the row NONE."""
    return np.append(phase, np.int8(NONE))[rows]


def phase_column(phase: Phase) -> pa.Array:
    """As the tables hold it."""
    codes = pa.array(phase, pa.int8(), mask=phase == NONE)
    return pa.DictionaryArray.from_arrays(codes, pa.array(PHASES)).cast(pa.string())
