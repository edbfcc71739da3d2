"""Questions: documented SQL views over the tables, one SELECT per file, and functions that run them.

`mdtrace.metrics.overlap(dataset, by="rank")` and its kin are in `api`; they are loaded, and DuckDB with them,
when first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mdtrace.metrics.filters import Filters

if TYPE_CHECKING:
    from mdtrace.metrics.api import collectives, idle, kernels, ops, overlap, steady, steps
    from mdtrace.metrics.comparison import compare
    from mdtrace.metrics.engine import Result, connect, run

__all__ = [
    "Filters", "Result", "collectives", "compare", "connect", "idle", "kernels", "ops", "overlap", "run",
    "steady", "steps",
]  # fmt: skip

_HOMES = {"Result": "engine", "connect": "engine", "run": "engine", "compare": "comparison"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'api')}"), name)
