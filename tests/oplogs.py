"""A small operation log, solved by hand."""

from typing import Any

import polars as pl


def _worker(stage: int, times: dict[str, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    return [
        {
            "dp_rank": 0,
            "stage": stage,
            "step": 3,
            "optype": optype,
            "start_ts": a,
            "duration": b - a,
            "seq_id": i,
        }
        for optype, spans in times.items()
        for i, (a, b) in enumerate(spans)
    ]


def two_stages() -> pl.DataFrame:
    """Two microbatches: forward 1 s, backward 2 s, transfers 0.5 s; on the second stage twice that."""
    first = _worker(0, {
        "forward-compute": [(0, 1), (1, 2)],
        "forward-send": [(1, 1.5), (2, 4)],  # the second waits for its receive, posted at 3.5
        "backward-recv": [(1, 8), (10, 14)],
        "backward-compute": [(8, 10), (14, 16)],
        "optimizer": [(16.5, 17)],  # launched 0.5 s late
    })  # fmt: skip
    second = _worker(1, {
        "forward-recv": [(0, 1.5), (3.5, 4)],
        "forward-compute": [(1.5, 3.5), (7.5, 9.5)],
        "backward-compute": [(3.5, 7.5), (9.5, 13.5)],
        "backward-send": [(7.5, 8), (13.5, 14)],
        "optimizer": [(13.5, 14)],
    })  # fmt: skip
    return pl.DataFrame(first + second)
