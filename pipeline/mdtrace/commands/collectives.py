"""mdtrace collectives."""

from typing import Any

from mdtrace.commands.options import (
    DatasetArgument,
    FormatOption,
    OutOption,
    RankOption,
    StepOption,
    TimeOption,
    filters,
)


def run(
    dataset: DatasetArgument,
    rank: RankOption = None,
    step: StepOption = None,
    time: TimeOption = None,
    format: FormatOption = None,  # noqa: A002
    out: OutOption = None,
) -> None:
    """How fast collectives are: algorithm and bus bandwidth by operation, group and message size.

    As nccl-tests defines them; GB = 1e9 bytes. With --format, the rows of the view collective_bandwidth;
    one by one: collective_transfers.

    [bold]Examples[/bold]

      mdtrace collectives job.mdtrace

      mdtrace collectives job.mdtrace --step 5-9 --format csv
    """
    from mdtrace.commands.answer import print_rows, raw
    from mdtrace.commands.output import Shown, count, size
    from mdtrace.metrics import api
    from mdtrace.tables.dataset import open_dataset

    opened = open_dataset(dataset)
    result = api.collectives(opened, filters(opened, rank=rank, step=step, time=time))
    if raw(result, format, out):
        return
    rows: list[dict[str, Any]] = result.arrow().to_pylist()
    for row in rows:
        row["group"] = row["group_desc"] or row["group_name"]
    columns = {
        "kind": Shown("kind", right=False),
        "group": Shown("group", right=False, wide=True),
        "group_size": Shown("n"),
        "bucket_bytes": Shown("size", size),
        "count": Shown("count", count),
        "time_median_ns": Shown("time", _time),
        "algbw_median_gb_s": Shown("algbw", _speed),
        "busbw_min_gb_s": Shown("busbw", _speed),
        "busbw_median_gb_s": Shown("median", _speed),
        "busbw_max_gb_s": Shown("max", _speed),
        "of_best": Shown("best", lambda share: f"{100 * share:.0f}%"),
    }
    print_rows(
        rows,
        columns,
        "Collectives of n ranks; size: up to twice this (GB/s; busbw: min, median, max)",
    )
    _notes(rows)


def _time(ns: float) -> str:
    for unit, one in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= one:
            return f"{ns / one:.3g} {unit}"
    return f"{ns:.0f} ns"


def _speed(gb_s: float) -> str:
    if gb_s >= 1000:
        return f"{gb_s:.0f}"
    if gb_s >= 0.1:
        return f"{gb_s:.3g}"
    return f"{gb_s:.2g}" if gb_s >= 0.001 else "<0.001"


def _notes(rows: list[dict[str, Any]]) -> None:
    from mdtrace.commands.output import count, line

    if not rows:
        return
    total, unknown, untimed, transfer = (
        sum(r[key] for r in rows) for key in ("count", "unknown_size", "untimed", "from_transfer")
    )
    line(
        f"{count(total)} records of collectives, every rank's counted; {count(transfer)} timed from the last"
        f" rank's arrival, {count(total - transfer - untimed)} by their own duration, in which waiting for"
        f" late ranks may be. Warm-up is in, unless --step leaves it out."
    )
    if unknown:
        line(f"Of {count(unknown)} the size is unknown: in the rows without a size.")
    if untimed:
        line(f"{count(untimed)} have no transfer time: never closed, or ranges that stand for a collective.")
    line("Best: median bus bandwidth over the best in this dataset, the limit its link has shown here.")
