"""Which operators have which cost, each piece of work counted once; and the device time of each.

Of operators that lie inside one another one only is given a cost, so that sums over a process hold all work
once, however the framework nests its calls:

1. A model of extent `whole` counts all that happens inside its operator; of several such operators around one
   another the outermost has the cost (addmm, not the copy of its bias; mse_loss, not the mean inside).
2. A model of extent `wrapper` (linear, convolution, foreach forms on a CPU) gives way to operators inside
   that have a cost, and holds where there are none. A wrapper that launches kernels itself does the work
   itself: it counts as whole.
3. An operator whose model cannot tell FLOP or bytes counts as having none.

Device activities belong to the operator with a cost around their launch, else to the innermost operator,
which then has a row that says why there is no cost.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mdtrace.costs import Cost
from mdtrace.ingest.stage import StagedProcess
from mdtrace.link.columns import HostOps, flags, ids, integers, names, nullable
from mdtrace.link.cost_calls import Arguments, Costs, Modelled, find_costs, find_models, list_types
from mdtrace.link.cost_collectives import MODEL, collective_costs
from mdtrace.link.launches import DeviceLinks
from mdtrace.link.nesting import NONE, Flags, Nest, Rows, Times, nearest, nearest_of, take

NO_MODEL = "no model for the operator"
NO_OPERATOR = "no operator around the launch"
GRAPH = "replayed from a graph"

_LONGEST = 1 << 42  # ns, over an hour: of what is longer, that much counts, so that sums fit


def operator_models(host: HostOps, tree: Nest) -> Modelled:
    """The cost model of each operator that nests."""
    return find_models(host, host.kind("operator", "nvtx") & tree.nested & ~host.duplicate)


def operator_costs(
    staged: StagedProcess,
    host: HostOps,
    tree: Nest,
    links: DeviceLinks,
    collectives: pa.Table,
    process_id: int,
    modelled: Modelled,
    arguments: Arguments,
) -> pa.Table:
    """Rows of `op_costs` without the written columns, ascending.

    In a process with device activity only rows with work or device activity are made; in others all operators
    without operators inside have one, views and allocations too, since the host's time is what there is.

    Args:
        collectives: rows of `collectives`, whose local work is theirs.
    """
    work = _device_work(staged, links)
    kernels = list_types(links.host, names(staged, "device_ops"), len(host))
    costs = find_costs(host, modelled, arguments, kernels)
    chosen = choose(tree.parent, modelled, costs, work.launchers(len(host)))
    beside = _beside(tree.parent, chosen, collective_costs(collectives, links))
    chosen[list(beside)] = True
    return _Found(host, tree, modelled, costs, work, chosen, beside).table(process_id)


def choose(parent: Rows, modelled: Modelled, costs: Costs, launches: Flags) -> Flags:
    """The rows of host_ops that are given their cost: none lies inside another one.

    Args:
        parent: innermost event around each row.
        launches: rows that launch device work themselves.
    """
    known = np.zeros(len(parent), np.bool_)
    known[costs.rows] = costs.known()
    wrapper = known & modelled.where("wrapper") & ~launches
    whole = known & ~wrapper
    outside = take(nearest(parent, whole), parent) == NONE
    outermost, candidates = whole & outside, wrapper & outside
    chosen: Flags = outermost | (candidates & ~_around(parent, outermost | candidates))
    return chosen


def _beside(parent: Rows, chosen: Flags, costs: dict[int, Cost]) -> dict[int, Cost]:
    """Those costs of further rows that lie neither inside nor around rows with a cost, or around each
    other."""
    wanted = chosen.copy()
    wanted[list(costs)] = True
    free = wanted & ~chosen & (take(nearest(parent, chosen), parent) == NONE) & ~_around(parent, wanted)
    return {row: cost for row, cost in costs.items() if free[row]}


def _around(parent: Rows, rows: Flags) -> Flags:
    """All events around the flagged rows; each is met once."""
    found = np.zeros(len(parent), np.bool_)
    last = np.empty(len(parent), np.int32)
    todo = parent[rows]
    while len(todo):
        todo = todo[todo != NONE]
        todo = todo[~found[todo]]
        last[todo] = np.arange(len(todo), dtype=np.int32)
        todo = todo[last[todo] == np.arange(len(todo))]  # of several with one parent, one goes on
        found[todo] = True
        todo = parent[todo]
    return found


@dataclass(frozen=True)
class _Work:
    """Device activities that have an operator (or annotation) around their launch: its row, duration in ns,
    whether they are compute kernels, whether a graph replayed them."""

    host: Rows
    duration: Times
    compute: Flags
    graph: Flags

    def launchers(self, count: int) -> Flags:
        """Which of `count` rows of host_ops launch work themselves."""
        found = np.zeros(count, np.bool_)
        found[self.host[~self.graph]] = True
        return found


def _device_work(staged: StagedProcess, links: DeviceLinks) -> _Work:
    classes = names(staged, "device_ops", "class")
    rows = np.flatnonzero(
        classes.where(lambda c: c != "sync")
        & ~flags(staged, "device_ops", "duplicate")
        & (links.host != NONE)
    )
    duration = np.clip(integers(staged, "device_ops", "dur_ns", 0)[rows], 0, _LONGEST)
    return _Work(links.host[rows], duration, classes.where(lambda c: c == "compute")[rows], links.graph[rows])


@dataclass(frozen=True)
class _Found:
    """Costs of a process, and what their rows are made of."""

    host: HostOps
    tree: Nest
    modelled: Modelled
    costs: Costs
    work: _Work
    chosen: Flags
    collectives: dict[int, Cost]

    @cached_property
    def owner(self) -> Rows:
        """By device activity the row of host_ops it counts for."""
        costed = nearest_of(self.tree.parent, self.chosen, self.work.host)
        owner: Rows = np.where(costed == NONE, self.work.host, costed)
        return owner

    def table(self, process_id: int) -> pa.Table:
        wanted = self.chosen.copy()
        wanted[self.owner] = True
        if not self.host.staged.rows("device_ops"):
            wanted |= self._idle_leaves()
        rows = np.flatnonzero(wanted)
        numbers, costs = self._costs(rows)
        times = self._times(rows)
        return pa.table(
            {
                "host_op_id": ids(rows, process_id),
                **self._columns(rows, numbers, costs),
                "profiler_flops": self._profiler_flops(rows),
                **times,
            }
        )

    def _idle_leaves(self) -> Flags:
        """Operators with neither operators inside nor a cost around."""
        operators = self.host.kind("operator") & self.tree.nested & ~self.host.duplicate
        around = self.tree.parent[operators]
        leaves: Flags = operators & (nearest(self.tree.parent, self.chosen) == NONE)
        leaves[around[around != NONE]] = False
        return leaves

    def _costs(self, rows: Rows) -> tuple[Rows, list[Cost]]:
        """For each row the number of its cost, or of its reason, in a list."""
        costs = [*self.costs.costs, Cost(0, 0), *(Cost(reason=r) for r in (NO_MODEL, NO_OPERATOR, GRAPH))]
        nothing, no_model, no_operator, graph = range(len(costs) - 4, len(costs))
        numbers = np.full(len(rows), no_model)
        place = np.minimum(np.searchsorted(self.costs.rows, rows), max(len(self.costs.rows) - 1, 0))
        if len(self.costs.rows):
            here = self.costs.rows[place] == rows
            numbers[here] = self.costs.which[place[here]]
        if not len(self.work.host):
            numbers[self.modelled.where("nothing")[rows]] = nothing
        other = ~self.chosen[rows]
        numbers[other & ~self.host.kind("operator", "nvtx")[rows]] = no_operator
        numbers[other & np.isin(rows, self.work.host[self.work.graph])] = graph
        mine = np.array(list(self.collectives), np.int64)
        numbers[np.searchsorted(rows, mine)] = np.arange(len(costs), len(costs) + len(mine))
        return numbers, [*costs, *self.collectives.values()]

    def _columns(self, rows: Rows, numbers: Rows, costs: list[Cost]) -> dict[str, pa.Array]:
        def column(values: list[int | None] | list[str | None], kind: pa.DataType) -> pa.Array:
            return pa.array(values, kind).take(pa.array(numbers))

        return {
            "flops": column([c.flops for c in costs], pa.int64()),
            "bytes": column([c.bytes for c in costs], pa.int64()),
            "model": self._models(rows),
            "dtype": column([c.dtype if c.flops else None for c in costs], pa.string()),
            "reason": column([c.reason for c in costs], pa.string()),
        }

    def _models(self, rows: Rows) -> pa.Array:
        models = pa.array([*(m.name for m in self.modelled.models), MODEL.name], pa.string())
        code = self.modelled.of[rows].astype(np.int32)
        if len(self.work.host):
            code[self.modelled.where("nothing")[rows]] = NONE  # it launched work that its model knows not of
        code[np.searchsorted(rows, list(self.collectives))] = len(models) - 1
        return models.take(pa.array(code, mask=code == NONE))

    def _profiler_flops(self, rows: Rows) -> pa.Array:
        """The profiler's own figure: of the operator, else of a wrapper around it, for its first operator."""
        stated = integers(self.host.staged, "host_ops", "flops")
        flops = stated[rows]
        lacking = np.flatnonzero((flops == NONE) & self.chosen[rows])
        if (stated != NONE).any():
            around = nearest_of(self.tree.parent, stated != NONE, rows[lacking])
            usable = (around != NONE) & self.modelled.where("wrapper")[around]
            wrappers, first = np.unique(around[usable], return_index=True)
            flops[lacking[usable][first]] = stated[wrappers]
        return nullable(flops, pa.int64())

    def _times(self, rows: Rows) -> dict[str, pa.Array]:
        """Count of device activities, and sums of their durations."""
        place = np.searchsorted(rows, self.owner)
        count = np.bincount(place, minlength=len(rows))
        none = pa.array(count == 0)
        return {
            "device_op_count": pa.array(count.astype(np.int32)),
            "device_ns": _unless(none, _sums(place, self.work.duration, len(rows))),
            "compute_ns": _unless(none, _sums(place, self.work.duration * self.work.compute, len(rows))),
        }


def _sums(place: Rows, values: Times, count: int) -> Times:
    total = np.zeros(count, np.int64)
    np.add.at(total, place, values)
    return total


def _unless(null: pa.Array, values: Times) -> pa.Array:
    return pa.array(values, mask=null.to_numpy(zero_copy_only=False))
