"""Lays timelines that the solved clocks do not connect beside each other, by the ends of shared operations.

Clocks are solved from collectives that no rank leaves before all have entered; hosts that only send to and
receive from each other share none. For the replay it is enough that both sides of a transfer end together, to
within their error, so the median difference of the ends of whatever two timelines share lays them beside each
other.
"""

import polars as pl


def timeline_offsets(ends: pl.DataFrame) -> dict[int, float]:
    """How far each timeline is ahead of the first, ns.

    Args:
        ends: columns timeline, instance_id, end: of members of collectives matched across ranks, and of a
            timeline without any a row whose instance_id is NULL.

    Returns:
        by timeline; those that share nothing with the first, even through others, are absent.
    """
    once = ends.group_by("timeline", "instance_id").agg(pl.col("end").median())
    pairs = (
        once.drop_nulls()
        .join(once.drop_nulls(), on="instance_id", suffix="_of")
        .filter(pl.col("timeline") != pl.col("timeline_of"))
        .group_by("timeline", "timeline_of")
        .agg(ahead=(pl.col("end") - pl.col("end_of")).median())
        .sort("timeline", "timeline_of")
        .rows()
    )
    first = ends["timeline"].min()
    assert isinstance(first, int)
    found, reached = {first: 0.0}, True
    while reached:
        reached = False
        for timeline, known, ahead in pairs:
            if known in found and timeline not in found:
                found[timeline], reached = found[known] + ahead, True
    return found
