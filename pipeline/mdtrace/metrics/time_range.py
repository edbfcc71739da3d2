"""The time filter: what it comes to on each capture's clock."""

import duckdb

Moment = float | int | None


def time_ranges(
    connection: duckdb.DuckDBPyConnection, wanted: tuple[Moment, Moment] | None, bound: int
) -> dict[int, tuple[int, int]]:
    """From and to in ns by process; empty without a filter.

    Seconds count from the start of the earliest capture on the wall clock; captures of a file with a zero of
    its own count from the earliest of that file. A capture without any event has nothing to cut: it gets
    the range as if it had started at 0.
    """
    if wanted is None:
        return {}
    rows = connection.execute(
        """
        SELECT process_id,
               coalesce(min(start_ns) OVER (PARTITION BY CASE clock_base WHEN 'file' THEN source_id END), 0)
        FROM processes LEFT JOIN sources USING (source_id) ORDER BY 1
        """
    ).fetchall()
    return {process: (_ns(wanted[0], zero, -bound), _ns(wanted[1], zero, bound)) for process, zero in rows}


def _ns(moment: Moment, zero: int, otherwise: int) -> int:
    if moment is None:
        return otherwise
    return zero + round(moment * 1e9) if isinstance(moment, float) else moment
