"""The columns of a comparison."""

import pyarrow as pa

from mdtrace.metrics.catalog import Metric, MetricColumn

PARTS = ("step", "bucket", "idle", "kernel", "operator", "layer", "collective", "host")

_FEW = "fewer than 3 steps on a side"
_COLUMNS = (
    MetricColumn("part", "VARCHAR", None, f"Kind of thing: {', '.join(PARTS)}.", None),
    MetricColumn("name", "VARCHAR", None, "What it is; normalised where names differ.", "not recorded"),
    MetricColumn("phase", "VARCHAR", None, "Phase of a layer.", "not a layer, or not known"),
    MetricColumn("matched", "VARCHAR", None, "How: name, normalised name, new, gone.", None),
    MetricColumn("base_count", "DOUBLE", None, "How often per step in the base, median.", "not counted"),
    MetricColumn("new_count", "DOUBLE", None, "How often per step in the new run.", "not counted"),
    MetricColumn("base_ns", "DOUBLE", "ns", "Per step in the base, median over steps.", None),
    MetricColumn("new_ns", "DOUBLE", "ns", "Per step in the new run, median over steps.", None),
    MetricColumn("base_spread_ns", "DOUBLE", "ns", "Median absolute deviation over steps, corrected.", _FEW),
    MetricColumn("new_spread_ns", "DOUBLE", "ns", "The same of the new run.", _FEW),
    MetricColumn("change_ns", "DOUBLE", "ns", "new_ns - base_ns.", None),
    MetricColumn("change", "DOUBLE", "share", "Of base_ns.", "nothing in the base"),
    MetricColumn("noise_ns", "DOUBLE", "ns", "3 combined deviations: less may be chance.", _FEW),
    MetricColumn("contribution_ns", "DOUBLE", "ns", "Part in the step time's change.", "cannot be said"),
    MetricColumn("contribution", "DOUBLE", "share", "The same, of the base's step time.", "cannot be said"),
    MetricColumn(
        "verdict", "VARCHAR", None,
        "same, noise, small, cannot tell (noise), regression, improvement, new or gone.", None,
    ),
)  # fmt: skip
METRIC = Metric(
    "compare",
    purpose="What changed between two runs, per step and device.",
    grain="one row per part and name",
    reads=(
        "step_breakdown", "step_idle_breakdown", "step_times",
        "compare_device", "compare_host", "compare_collectives",
    ),
    by_part=False,
    filters={"rank": "inside", "step": "inside", "layer": "inside"},
    parameters=(),
    columns=_COLUMNS,
    sql="",
)  # fmt: skip


def schema() -> pa.Schema:
    """As Arrow; each field's metadata has its documentation and unit."""
    types = {"VARCHAR": pa.string(), "DOUBLE": pa.float64()}
    fields = []
    for column in _COLUMNS:
        about = {"doc": column.doc, "unit": column.unit, "null": column.null}
        known = {k: v for k, v in about.items() if v is not None}
        fields.append(pa.field(column.name, types[column.type], metadata=known))
    return pa.schema(fields)
