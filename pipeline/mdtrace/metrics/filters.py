"""Which rows of an answer are wanted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

FilterName = Literal["rank", "step", "time", "layer"]
# rows: the filter picks rows of the answer by its column of that name, after all figures are made.
# inside: the SELECT reads the picked ranks or steps itself, because its rows span several of them.
# clips: intervals are cut at the ends of the time range.
# starts: what starts in the time range counts, whole.
FilterMode = Literal["rows", "inside", "clips", "starts"]


@dataclass(frozen=True)
class Filters:
    """Rows wanted: of these ranks, steps and layers, in this part of the capture.

    A filter never changes what a figure means. Rank, step and layer pick rows of the answer, or, where one
    row spans several ranks or steps, the ranks and steps it is made of; whatever is compared across ranks
    (who came last) was decided with all of them. A time range cuts intervals, so that accounts over it add
    up to it; things that are counted (kernels, operators, collectives, steps) belong to it when they start
    in it, and stay whole. Each metric's header says which of these applies; a filter that has no meaning
    for a metric is refused, never ignored.

    Attributes:
        ranks, steps: those wanted; None: all, and the rows that have none.
        time: from and to (exclusive); a float is seconds after the start of the capture (of all captures
            on the wall clock; of each file with a zero of its own), an int is ns as the tables hold it.
        layer: glob that the layer's path must match.
    """

    ranks: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None
    time: tuple[float | int | None, float | int | None] | None = None
    layer: str | None = None

    def given(self) -> dict[FilterName, object]:
        """The filters that are set, by name."""
        values: dict[FilterName, object] = {
            "rank": self.ranks, "step": self.steps, "time": self.time, "layer": self.layer,
        }  # fmt: skip
        return {name: value for name, value in values.items() if value is not None}


def spans(numbers: Iterable[int]) -> str:
    """1, 2, 3, 7 → "1-3, 7"."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)
