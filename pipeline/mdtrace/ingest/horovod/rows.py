"""Rows of a timeline, gathered into batches and staged."""

from collections.abc import Mapping

import pyarrow as pa

from mdtrace.ingest.horovod.collectives import Collective, Steps
from mdtrace.ingest.stage import Stage

KEY = 0  # the one process of a timeline: the coordinator
_BATCH = 1 << 16


class Rows:
    """Stages host_ops, arrivals, collectives and steps.

    host_ops are staged in the order in which activities end, so that nothing waits for one that never does.
    Collectives wait for the group size to be known, as Arrow batches: some 150 bytes each.

    Attributes:
        spans_open: activities that never ended.
        collectives: how many there are.
        unsized: those without a known payload, of the kinds that have one.
        steps: steps with an all-reduce that ended.
        ticked_steps: those with one for which two ranks or more were seen ready.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ops = _Columns("thread_id", "name", "domain", "form", "start_ns", "dur_ns", "input_dims")
        self._arrivals = _Columns("collective_id", "rank", "tensor", "ready_ns")
        self._collectives = _Columns(*_COLLECTIVE)
        self._batches: list[dict[str, pa.Array]] = []
        self._written = 0  # rows of host_ops and collectives that left the columns
        self._collected = 0
        self.spans_open = 0
        self.unsized = 0
        self.collectives = 0
        self.steps: set[int] = set()
        self.ticked_steps: set[int] = set()

    def span(
        self,
        thread_id: int,
        tensor: str | None,
        name: str | None,
        start_ns: int,
        end_ns: int | None,
        shape: str | None = None,
    ) -> int:
        """A row of host_ops; one that ends before it starts has no known duration. Returns its number.

        Args:
            shape: of the tensor, as an operation's end states it.
        """
        dur_ns = None if end_ns is None or end_ns < start_ns else end_ns - start_ns
        self.spans_open += end_ns is None
        dims = None if shape is None else f"[{shape}]"
        return self._op(thread_id, name, tensor, "nested", start_ns, dur_ns, dims)

    def mark(self, name: str | None, time_ns: int) -> None:
        """A point in time that belongs to no tensor."""
        self._op(None, name, None, "mark", time_ns, 0, None)

    def _op(self, *row: object) -> int:
        number = self._written + len(self._ops)
        self._ops.add(*row)
        if len(self._ops) >= _BATCH:
            self._flush_ops()
        return number

    def arrivals(self, tensor: str | None, ticks: Mapping[int, int], collective: int | None) -> None:
        """When each rank was ready; `collective` is the row of a collective, None where it is cut off."""
        for rank, ready_ns in ticks.items():
            self._arrivals.add(collective, rank, tensor, ready_ns)
        if len(self._arrivals) >= _BATCH:
            self._flush_arrivals()

    def collective(self, done: Collective) -> None:
        """A collective, and the arrivals for its tensors."""
        number = self._collected + len(self._collectives)
        first = done.members[0]
        start_ns, end_ns = done.span()
        elements, payload = done.elements(), done.payload_bytes()
        kind = first.kind
        self._collectives.add(
            kind,
            done.activity,
            first.group_size,
            done.dtype(),
            elements if kind in ("all_reduce", "broadcast") else None,
            elements,
            payload,
            [m.tensor for m in done.members],
            len(done.members),
            start_ns,
            end_ns,
            first.row,
            first.step,
        )
        self.collectives += 1
        self.unsized += payload is None and kind not in ("barrier", "unknown")
        for member in done.members:
            self.arrivals(member.tensor, member.ticks, number)
        if kind == "all_reduce" and first.step is not None and end_ns is not None:
            self.steps.add(first.step)
            if any(len(m.ticks) > 1 for m in done.members):
                self.ticked_steps.add(first.step)
        if len(self._collectives) >= _BATCH:
            self._keep_collectives()

    def _flush_ops(self) -> None:
        self._written += len(self._ops)
        columns = self._ops.take()
        count = len(columns["form"])
        self._stage.write(KEY, "host_ops", {**columns, "kind": pa.repeat("annotation", count)})

    def _flush_arrivals(self) -> None:
        columns = self._arrivals.take()
        origin = pa.repeat("horovod tick", len(columns["rank"]))
        self._stage.write(KEY, "arrivals", {**columns, "origin": origin})

    def _keep_collectives(self) -> None:
        self._collected += len(self._collectives)
        self._batches.append(self._collectives.take())

    def finish(self, world_size: int | None, steps: Steps) -> None:
        """Stage what is left; collectives whose negotiation was not recorded have the whole job as group."""
        self._flush_ops()
        self._flush_arrivals()
        self._keep_collectives()
        for batch in self._batches:
            size = batch["group_size"]
            batch["group_size"] = size if world_size is None else size.fill_null(world_size)
            evidence = pa.repeat("timeline", len(size))
            self._stage.write(KEY, "collectives", {**batch, "evidence": evidence})
        numbers, starts, ends = zip(*steps.rows(), strict=True) if steps.count else ((), (), ())
        self._stage.write(
            KEY,
            "steps",
            {
                "step": pa.array(numbers, pa.int64()),
                "name": pa.array([f"step {n}" for n in numbers], pa.string()),
                "start_ns": pa.array(starts, pa.int64()),
                "end_ns": pa.array(ends, pa.int64()),
                "origin": pa.array(["horovod"] * len(numbers), pa.string()),
            },
        )


_COLLECTIVE = (
    "kind", "name", "group_size", "dtype", "elements_in", "elements_out", "payload_bytes", "tensors",
    "members", "start_ns", "end_ns", "host_op_id", "step",
)  # fmt: skip

_TYPES = {
    "thread_id": pa.int64(), "name": pa.string(), "domain": pa.string(), "form": pa.string(),
    "start_ns": pa.int64(), "dur_ns": pa.int64(), "collective_id": pa.int64(), "rank": pa.int32(),
    "tensor": pa.string(), "ready_ns": pa.int64(), "kind": pa.string(), "group_size": pa.int32(),
    "dtype": pa.string(), "elements_in": pa.int64(), "elements_out": pa.int64(), "payload_bytes": pa.int64(),
    "tensors": pa.list_(pa.string()), "members": pa.int32(), "end_ns": pa.int64(), "host_op_id": pa.int64(),
    "step": pa.int64(), "input_dims": pa.string(),
}  # fmt: skip


class _Columns:
    """Rows of a table, column by column."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._rows: list[tuple[object, ...]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *row: object) -> None:
        self._rows.append(row)

    def take(self) -> dict[str, pa.Array]:
        """The columns so far; then there are none."""
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._names)
        taken = {n: pa.array(c, _TYPES[n]) for n, c in zip(self._names, columns, strict=True)}
        self._rows = []
        return taken
