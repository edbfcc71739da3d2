"""Which labels a chart has room for: the most important first, none over another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_LETTER = 6.2  # pixels of a character, about
_LINE = 13.0


@dataclass
class Room:
    """The part of a chart that labels have taken, in pixels from its lower left corner."""

    width: float
    height: float

    def __post_init__(self) -> None:
        self._taken: list[tuple[float, float, float, float]] = []

    def take(self, x: float, y: float, text: str, *, right: bool = False) -> bool:
        """Take the room of a text that starts (`right`: ends) at x, its middle at y, if it is free."""
        length = _LETTER * len(text)
        left = x - length if right else x
        box = (left, y - _LINE / 2, left + length, y + _LINE / 2)
        inside = box[0] >= 0 and box[2] <= self.width and box[1] >= 0 and box[3] <= self.height
        if not inside or any(_meet(box, other) for other in self._taken):
            return False
        self._taken.append(box)
        return True

    def line(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Keep labels off a line."""
        steps = max(1, math.ceil(math.dist(start, end) / _LINE))
        for n in range(steps + 1):
            at = [a + (b - a) * n / steps for a, b in zip(start, end, strict=True)]
            self.block(at[0], at[1], 2)

    def block(self, x: float, y: float, reach: float) -> None:
        """Keep labels off a point."""
        self._taken.append((x - reach, y - reach, x + reach, y + reach))


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@dataclass(frozen=True)
class Spot:
    """A point in pixels, its radius, and its label."""

    x: float
    y: float
    radius: float
    label: str

    @property
    def reach(self) -> float:
        """From its middle to its label."""
        return self.radius + 4


def block(spots: Sequence[Spot], room: Room, most: int = 60) -> None:
    """Keep labels off the most important points."""
    for spot in spots[:most]:
        room.block(spot.x, spot.y, 0.7 * spot.radius)


def beside(spots: Sequence[Spot], room: Room, most: int, candidates: int = 60) -> dict[int, str]:
    """Labels beside points, in order of importance, while there is room; each text once.

    Args:
        spots: the most important first; those after `candidates` get no label.

    Returns:
        By the point's number `left` or `right`: the side on which its label stands.
    """
    sides: dict[int, str] = {}
    said: set[str] = set()
    for number, spot in enumerate(spots[:candidates]):
        if len(sides) == most:
            break
        if spot.label in said:
            continue
        if room.take(spot.x + spot.reach, spot.y, spot.label):
            sides[number] = "right"
        elif room.take(spot.x - spot.reach, spot.y, spot.label, right=True):
            sides[number] = "left"
        else:
            continue
        said.add(spot.label)
    return sides
