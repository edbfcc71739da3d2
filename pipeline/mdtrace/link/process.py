"""Links the staged rows of one process: what the writer needs beside them."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.autograd import forward_of
from mdtrace.link.checks import Checked, activities, check
from mdtrace.link.collectives import find_collectives
from mdtrace.link.columns import (
    HostOps,
    bounds,
    host_ops,
    ids,
    integers,
    later,
    names,
    nullable,
    threads,
)
from mdtrace.link.cost_calls import Arguments, Modelled, read_arguments
from mdtrace.link.costs import operator_costs, operator_models
from mdtrace.link.launches import DeviceLinks, externals, link_device_ops, link_launches
from mdtrace.link.layers import Layers, find_layers
from mdtrace.link.nesting import NONE, OPEN, Nest, Rows, Times, nearest_of, nest, take, with_copies
from mdtrace.link.phases import Phase, phase_column, phases, take_phase
from mdtrace.link.steps import Steps, find_steps, staged_steps
from mdtrace.tables.diagnostics import Diagnostic

Ready = Callable[[str, Mapping[str, pa.Array]], None]


@dataclass
class Linked:
    """What linking found.

    Attributes:
        columns: by staged table (host_ops, launches, device_ops) the `link` columns, a value per staged row;
            empty where somebody else was told them.
        tables: rows of whole tables made here (steps, layers, collectives), without the `write` columns;
            they follow rows of the same table that the reader staged.
        start_ns, end_ns: bounds of all events of the process; None without events.
    """

    columns: dict[str, Mapping[str, pa.Array]] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    start_ns: int | None = None
    end_ns: int | None = None


def link_process(
    staged: StagedProcess,
    process_id: int,
    file: str,
    ready: Ready | None = None,
    workers: int = 1,
) -> Linked:
    """Nest, join and attribute the rows of one process.

    Args:
        process_id: ids of rows are `tables.schema.row_id(process_id, row)`.
        file: what diagnostics call the source.
        ready: told the `link` columns of a staged table as soon as they are complete.
        workers: threads to read staged columns with, beside the linking.
    """
    linked = Linked()
    told = ready or linked.columns.__setitem__
    if workers == 1:
        _link(linked, _Task(staged, process_id, file, told, None))
    else:
        with ThreadPoolExecutor(workers) as beside:
            _link(linked, _Task(staged, process_id, file, told, beside))
    return linked


@dataclass(frozen=True)
class _Task:
    staged: StagedProcess
    process_id: int
    file: str
    ready: Ready
    beside: Executor | None


@dataclass(frozen=True)
class _Host:
    """The host's side of a process. What is called for may still be worked out beside."""

    ops: HostOps
    tree: Nest
    steps: Steps
    layered: Callable[[], tuple[Layers, Phase]]
    modelled: Modelled
    arguments: Callable[[], Arguments]


def _link(linked: Linked, task: _Task) -> None:
    staged, process_id = task.staged, task.process_id
    host_threads, launch_threads = threads(staged, "host_ops", "launches")
    ops = host_ops(staged, host_threads, task.beside)
    tree = _nest(staged, ops)
    given = staged.rows("steps")
    steps = staged_steps(staged) if given else find_steps(ops, tree)
    layered = later(task.beside, _layered, task, ops, tree, steps)
    modelled = operator_models(ops, tree)
    arguments = later(task.beside, read_arguments, staged, modelled)
    _link_work(linked, task, _Host(ops, tree, steps, layered, modelled, arguments), launch_threads)
    linked.tables["layers"] = layered()[0].table(process_id)
    if not given:
        linked.tables["steps"] = steps.table(process_id)
    linked.tables = {name: table for name, table in linked.tables.items() if len(table)}


def _layered(task: _Task, host: HostOps, tree: Nest, steps: Steps) -> tuple[Layers, Phase]:
    """Layers and phases, with which the columns of host_ops are complete."""
    forward = forward_of(task.staged, host)
    layers = find_layers(host, tree, forward)
    phase = phases(host, tree, layers.begins, forward)
    task.ready("host_ops", _host_columns(host, tree, steps, layers, phase, task.process_id))
    return layers, phase


def _link_work(linked: Linked, task: _Task, host: _Host, thread: Rows) -> None:
    """Launches and device_ops, their collectives and costs, and what they show to be wrong."""
    staged, process_id = task.staged, task.process_id
    times = bounds(staged, "device_ops")
    work = later(task.beside, activities, staged, times)
    operators = externals(staged, host.ops)
    launches = link_launches(staged, host.ops, host.tree, thread, operators, host.steps)
    spans = [(host.ops.start, host.ops.end), (launches.start, launches.end), times]
    linked.start_ns, linked.end_ns = _bounds(staged, spans)
    links = link_device_ops(staged, host.ops, launches, operators, host.steps)
    launched = {
        "host_op_id": ids(launches.host, process_id),
        "step": nullable(launches.step, pa.int64()),
        "device_op_count": pa.array(links.launched),
    }
    task.ready("launches", launched)
    found = find_collectives(staged, host.ops, host.tree, links, times, host.steps, process_id)
    linked.tables["collectives"] = found
    task.ready("device_ops", _device_columns(task, host, links))
    linked.tables["op_costs"] = operator_costs(
        staged, host.ops, host.tree, links, found, process_id, host.modelled, host.arguments()
    )
    checked = Checked(
        staged, work(), host.ops, host.tree, launches, links, host.steps, operators, found, task.file
    )
    linked.diagnostics = check(checked)


def _nest(staged: StagedProcess, host: HostOps) -> Nest:
    """The tree of all events that open and close on one thread, whatever their kind."""
    nested = host.form("nested") & (host.thread != NONE)
    index = integers(staged, "host_ops", "event_index")
    tree = nest(host.thread, host.start, host.end, index, nested & ~host.duplicate)
    keys = (host.thread, host.start, host.end, host.names.codes)
    return with_copies(tree, nested & host.duplicate, *keys)


def _host_columns(
    host: HostOps, tree: Nest, steps: Steps, layers: Layers, phase: Phase, process_id: int
) -> dict[str, pa.Array]:
    return {
        "parent_id": ids(tree.parent, process_id),
        "depth": nullable(tree.depth(), pa.int32()),
        "step": nullable(steps.at(host.start), pa.int64()),
        "layer_id": ids(layers.of, process_id),
        "phase": phase_column(phase),
    }


def _device_columns(task: _Task, host: _Host, links: DeviceLinks) -> dict[str, pa.Array]:
    """Links of device_ops; layer and phase are those of the innermost host event around the call.

    Kernels of a graph have neither: the call replays what was recorded elsewhere. Nor has the collective that
    a gradient's accumulation starts a layer: its bucket holds gradients of many.
    """
    inner = np.where(links.graph, NONE, links.inner)
    layers, phase = host.layered()
    layer = _device_layers(task.staged, host.tree, layers, inner)
    return {
        "launch_id": ids(links.launch, task.process_id),
        "host_op_id": ids(links.host, task.process_id),
        "step": nullable(links.step, pa.int64()),
        "layer_id": ids(layer, task.process_id),
        "phase": phase_column(take_phase(phase, inner)),
    }


def _device_layers(staged: StagedProcess, tree: Nest, layers: Layers, inner: Rows) -> Rows:
    if not layers.paths:
        return np.full(len(inner), NONE, np.int64)
    communication = names(staged, "device_ops", "class").where(lambda c: c == "communication")
    kernels = np.flatnonzero(communication)
    layer = take(layers.of, inner)
    accumulating = nearest_of(tree.parent, layers.accumulate, inner[kernels])
    layer[kernels[accumulating != NONE]] = NONE
    return layer


def _bounds(staged: StagedProcess, spans: list[tuple[Times, Times]]) -> tuple[int | None, int | None]:
    """First start and last end of all events; of what was never closed the start counts."""
    if staged.rows("collectives"):
        spans.append(
            (integers(staged, "collectives", "start_ns", 0), integers(staged, "collectives", "end_ns", OPEN))
        )
    starts = [int(start.min()) for start, _ in spans if len(start)]
    lowest = np.iinfo(np.int64).min
    ends = [int(end.max(where=end != OPEN, initial=lowest)) for _, end in spans]
    latest = [int(start.max()) for start, _ in spans if len(start)]
    return min(starts, default=None), max([*(e for e in ends if e != lowest), *latest], default=None)
