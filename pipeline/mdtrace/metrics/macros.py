"""What SELECTs of metrics call: DuckDB macros for the filters they must know of, and for safe numbers."""

import duckdb

from mdtrace.metrics.filters import Filters
from mdtrace.metrics.time_range import time_ranges

_TIME_BOUND = 2**62 - 1  # year 2116; differences of times within it fit an int64


def literal(value: object) -> str:
    """A value as SQL text."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(v) for v in value)}]"
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'"


def create_macros(connection: duckdb.DuckDBPyConnection, filters: Filters) -> None:
    """What SELECTs call to honour filters that they must know of, and to bound numbers.

    bounded(t): t moved to where differences cannot overflow. capped(total): a sum as int64, at most its
    largest. clip_time(process_id, t): t moved into the time range. clipped_ns(process_id, t, length): how
    much of [t, t + length) lies in it. wanted_start(process_id, t): t does. wanted_rank(r), wanted_step(s),
    wanted_layer(path): picked by the filters.
    """
    ranges = time_ranges(connection, filters.time, _TIME_BOUND)
    low = _by_process({p: r[0] for p, r in ranges.items()})
    high = _by_process({p: r[1] for p, r in ranges.items()})
    bound = f"least(greatest(t, {-_TIME_BOUND}::BIGINT), {_TIME_BOUND}::BIGINT)"
    macros = {
        "bounded(t)": f"CASE WHEN t IS NOT NULL THEN {bound} END",
        "clip_time(p, t)": f"least(greatest(t, {low}), greatest({low}, {high}))" if ranges else "t",
        "clipped_ns(p, t, length)": "clip_time(p, t + length) - clip_time(p, t)" if ranges else "length",
        "capped(total)": f"CASE WHEN total IS NOT NULL THEN least(total, {2**63 - 1})::BIGINT END",
        "wanted_start(p, t)": f"(t >= {low} AND t < {high})" if ranges else "true",
        "time_is_filtered()": "true" if ranges else "false",
        "step_is_filtered()": "false" if filters.steps is None else "true",
        "wanted_rank(r)": _member("r", filters.ranks),
        "wanted_step(s)": _member("s", filters.steps),
        "wanted_layer(path)": "true"
        if filters.layer is None
        else f"coalesce(path GLOB {literal(filters.layer)}, false)",
    }
    for head, body in macros.items():
        connection.execute(f"CREATE MACRO {head} AS {body}")


def _member(value: str, picked: tuple[int, ...] | None) -> str:
    if picked is None:
        return "true"
    return f"coalesce(list_contains({literal(picked)}::BIGINT[], {value}), false)"


def _by_process(values: dict[int, int]) -> str:
    """A value by process, as an expression of p."""
    if not values:
        return "NULL"
    if len(set(values.values())) == 1:
        return f"{next(iter(values.values()))}::BIGINT"
    cases = " ".join(f"WHEN {p} THEN {v}::BIGINT" for p, v in values.items())
    return f"(CASE p {cases} END)"
