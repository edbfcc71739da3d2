"""The answers of `topology_predict` as rows: one for each placement asked for, and one for each run."""

import pyarrow as pa

from mdtrace.models.topology import Placement
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
