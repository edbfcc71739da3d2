"""The answers of `topology_predict` as rows: placements asked for and runs; coefficients."""

import numpy as np
import pyarrow as pa

from mdtrace.models.topology import Column, Placement
from mdtrace.models.topology_fit import unidentified
from mdtrace.models.topology_predict import Asked, Measured, Prediction, Study


def table(study: Study) -> pa.Table:
    """Predicted against measured.

    Rows of placements asked for have no run. A run's `predicted_ns` is that of a fit without its placement,
    NULL (with `reason`) where the others do not identify it; `fitted_ns` is that of the fit on all.
    """
    return pa.Table.from_pylist([_asked(a) for a in study.asked] + [_run(m) for m in study.runs], _ROWS)


def _asked(asked: Asked) -> dict[str, object]:
    return {**_placement(asked.placement, asked.link, asked.prediction), **_prediction(asked.prediction)}


def _run(measured: Measured) -> dict[str, object]:
    run = measured.run
    return {
        **_placement(run.placement, measured.link, measured.held_out),
        **_prediction(measured.held_out),
        "run": run.name,
        "measured_ns": round(run.step_s * 1e9),
        "fitted_ns": _ns(measured.fitted.step_s),
        "error": measured.error,
        "accuracy": None if measured.error is None else 1 - abs(measured.error),
    }


def _placement(placement: Placement, link: str | None, prediction: Prediction) -> dict[str, object]:
    step, batch = prediction.step_s, placement.batch
    return {
        "gpus": placement.gpus,
        "nodes": placement.nodes,
        "batch": batch,
        "gradient_bytes": round(placement.gradient_bytes),
        "link": link,
        "samples_per_s": placement.gpus * batch / step if step and batch is not None else None,
    }


def _prediction(prediction: Prediction) -> dict[str, object]:
    return {
        "predicted_ns": _ns(prediction.step_s),
        "compute_ns": _ns(prediction.compute_s),
        "exchange_ns": _ns(prediction.exchange_s),
        "reason": prediction.reason,
    }


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1e9)


_ROWS = pa.schema(
    [
        ("run", pa.string()), ("gpus", pa.int64()), ("nodes", pa.int64()), ("batch", pa.float64()),
        ("link", pa.string()), ("gradient_bytes", pa.int64()), ("predicted_ns", pa.int64()),
        ("compute_ns", pa.int64()), ("exchange_ns", pa.int64()), ("samples_per_s", pa.float64()),
        ("measured_ns", pa.int64()), ("fitted_ns", pa.int64()), ("error", pa.float64()),
        ("accuracy", pa.float64()), ("reason", pa.string()),
    ]
)  # fmt: skip


def coefficients(study: Study) -> pa.Table:
    """Each coefficient with its meaning: θ, and for links the bytes/s they amount to.

    The value is NULL where the runs do not identify the coefficient by itself.
    """
    model = study.model
    rows = []
    for i, column in enumerate(model.columns):
        theta, seen = float(model.theta[i]), int(np.count_nonzero(model.rows[:, i]))
        alone = unidentified(np.eye(len(model.columns))[i], model.rows, model.columns) is None
        rows.append(
            {
                "coefficient": column.text,
                "value": theta if seen and alone else None,
                "unit": column.unit,
                "bytes_per_s": 1e9 / theta if alone and column.kind == "volume" and theta > 0 else None,
                "runs": seen,
                "meaning": meaning(column, theta, alone) if seen else "no run shows it",
            }
        )
    return pa.Table.from_pylist(rows, _COEFFICIENTS)


def meaning(column: Column, theta: float, alone: bool) -> str:
    """What a coefficient says."""
    if not alone:
        return "not told apart from others"
    if theta == 0:
        return "nothing to be seen"
    match column.kind:
        case "constant":
            return f"{_time(theta)} in every step"
        case "batch":
            return f"{_time(theta)} for each sample"
        case "volume":
            return f"exchange at {1 / theta:.3g} GB/s"
        case "rounds":
            return f"{_time(theta)} for each hop"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


_COEFFICIENTS = pa.schema(
    [
        ("coefficient", pa.string()), ("value", pa.float64()), ("unit", pa.string()),
        ("bytes_per_s", pa.float64()), ("runs", pa.int64()), ("meaning", pa.string()),
    ]
)  # fmt: skip
