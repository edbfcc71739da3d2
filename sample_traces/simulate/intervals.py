"""Sets of half-open intervals, by brute force: slow, short and easy to check."""

Interval = tuple[int, int]


def union(intervals: list[Interval]) -> list[Interval]:
    """Disjoint intervals in order that cover the same time."""
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: list[Interval]) -> int:
    """Time covered, shared time once."""
    return sum(end - start for start, end in union(intervals))


def clip(intervals: list[Interval], start: int, end: int) -> list[Interval]:
    """What lies inside [start, end)."""
    cut = [(max(a, start), min(b, end)) for a, b in intervals]
    return [(a, b) for a, b in cut if b > a]
