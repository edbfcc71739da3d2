"""Metrics as functions: each returns a `Result`, whose value is Arrow (`.arrow()`), `.df()` or `.pl()`.

```
from pathlib import Path
from mdtrace import metrics
from mdtrace.tables.dataset import open_dataset

dataset = open_dataset(Path("job.mdtrace"))
metrics.overlap(dataset, by="rank").df()
metrics.kernels(dataset, metrics.Filters(ranks=(0,), time=(1.5, 2.0))).pl()
```
Columns, units and what NULL means stand in the SQL files' headers, in each field's Arrow metadata, and in
`mdtrace tables NAME`.
"""

from typing import Literal

from mdtrace.errors import UsageError
from mdtrace.metrics.engine import Result, run
from mdtrace.metrics.filters import Filters
from mdtrace.tables.dataset import Dataset

By = Literal["rank", "step", "layer"]
_OVERLAP: dict[str, str] = {"rank": "time_breakdown", "step": "step_breakdown", "layer": "layer_breakdown"}


def overlap(dataset: Dataset, by: By = "rank", filters: Filters | None = None) -> Result:
    """Compute, exposed communication, exposed memory, idle and overlap, in ns.

    By rank: each device over the whole capture (`time_breakdown`); with a step filter, over the windows of
    those steps (`steady_breakdown`). By step: each device and step. By layer: each device and layer.

    Raises:
        UsageError: `by` is none of these, or a filter has no meaning for it.
    """
    if by not in _OVERLAP:
        raise UsageError(f"by {by}: not known", f"one of {', '.join(_OVERLAP)}")
    name = _OVERLAP[by]
    if by == "rank" and filters is not None and filters.steps is not None:
        name = "steady_breakdown"
    return run(dataset, name, filters)


def steady(dataset: Dataset, filters: Filters | None = None) -> Result:
    """The same by rank, summed over the steady steps (`steady_breakdown`)."""
    return run(dataset, "steady_breakdown", filters)


def idle(dataset: Dataset, by: Literal["rank", "step"] = "rank", filters: Filters | None = None) -> Result:
    """Idle time of each device by cause, in ns; by step in the windows of the steps."""
    if by not in ("rank", "step"):
        raise UsageError(f"by {by}: not known", "one of rank, step")
    by_step = by == "step" or (filters is not None and filters.steps is not None)
    return run(dataset, "step_idle_breakdown" if by_step else "idle_breakdown", filters)


def kernels(dataset: Dataset, filters: Filters | None = None) -> Result:
    """Device activities by name, the most time first (`kernel_summary`)."""
    return run(dataset, "kernel_summary", filters)


def ops(dataset: Dataset, filters: Filters | None = None) -> Result:
    """Operators by name, the most time of their own first (`operator_summary`)."""
    return run(dataset, "operator_summary", filters)


def steps(dataset: Dataset, filters: Filters | None = None) -> Result:
    """Steps over all ranks, and which are steady (`step_summary`)."""
    return run(dataset, "step_summary", filters)


def collectives(dataset: Dataset, filters: Filters | None = None) -> Result:
    """Algorithm and bus bandwidth by operation, group and message size (`collective_bandwidth`)."""
    return run(dataset, "collective_bandwidth", filters)
