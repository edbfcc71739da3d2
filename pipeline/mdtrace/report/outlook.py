"""What would change the job: the answers of the models, or why one refuses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mdtrace.errors import MdtraceError
from mdtrace.tables.dataset import Dataset

_FEW = 2  # times by which the ranks are multiplied, over and over
_POINTS = 4


@dataclass(frozen=True)
class Outlook:
    """Rows by what was asked, and what was refused.

    Attributes:
        tables: `scaling` (as `scaling_study.table`), `fusion` and `buckets` (as `fusion_study.table` and
            `timeline`), `job`, `operations`, `heat` (as `whatif_tables` gives them); absent where refused.
        words: what the models say of themselves, by model.
        refused: by model (scaling, fusion, whatif), why and what would help.
    """

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A table's rows; none where it is absent."""
        return self.tables[name].to_pylist() if name in self.tables else []


def look(dataset: Dataset) -> Outlook:
    """Ask the models that need no further input."""
    tables: dict[str, pa.Table] = {}
    words: dict[str, tuple[str, ...]] = {}
    refused: dict[str, tuple[str, str | None]] = {}
    askers: dict[str, Callable[[Dataset], tuple[dict[str, pa.Table], tuple[str, ...]]]] = {
        "whatif": _replayed, "fusion": _fused, "scaling": _scaled,
    }  # fmt: skip
    for name, ask in askers.items():
        try:
            found, said = ask(dataset)
        except MdtraceError as error:
            refused[name] = (error.what, error.hint)
        else:
            tables |= found
            words[name] = tuple(text.rstrip(".") for text in said)
    return Outlook(tables, words, refused)


def _replayed(dataset: Dataset) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    from mdtrace.models import whatif_tables
    from mdtrace.models.graph import dataset_job
    from mdtrace.models.whatif import Edit, WhatIf

    whatif = WhatIf(dataset_job(dataset))
    found = {
        "job": whatif_tables.job(whatif, Edit()),
        "operations": whatif_tables.operations(whatif),
        "heat": whatif_tables.heat(whatif),
    }
    return found, ()


def _fused(dataset: Dataset) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    from mdtrace.models.fusion_study import advise, table, timeline

    advice = advise([dataset])
    return {"fusion": table(advice), "buckets": timeline(advice)}, (f"today: {advice.words}", *advice.notes)


def _scaled(dataset: Dataset) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    from mdtrace.models.scaling_model import Options
    from mdtrace.models.scaling_study import study, table

    processes = dataset.table("processes", ["world_size"]).column(0).to_pylist()
    ranks = max([size or 1 for size in processes] + [len(processes)])
    asked = tuple(ranks * _FEW**n for n in range(_POINTS)) if ranks > 1 else ()
    found = study([dataset], Options(asked))
    held = found.held_out_steps
    error = () if held is None else (f"error on steps left out of the fit: {100 * held:.2g} %",)
    return {"scaling": table(found)}, (f"buckets: {found.fusion}", *error, *found.notes)
