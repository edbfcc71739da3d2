"""Which rows of two runs are the same thing.

First by plain name: where both runs have the same names under one plain name, each is compared by itself;
where they differ (a tuner took another tile size), all of that plain name are put together, so that work
that moved from one to the other is no change. What is left then pairs by bare name, the leftovers of both
sides put together. The rest is new or gone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Key = tuple[str | int | None, ...]
Form = Callable[[Key], Key]
How = Literal["name", "normalised name", "new", "gone"]


@dataclass(frozen=True)
class Pair:
    """What is compared as one: rows of the base and of the new run, by place in their lists."""

    key: Key
    base: tuple[int, ...]
    new: tuple[int, ...]
    how: How


def pairs(base: Sequence[Key], new: Sequence[Key], plain: Form, bare: Form) -> list[Pair]:
    """Pair the keys of two runs; each place of both occurs in exactly one pair.

    Args:
        base, new: keys, each once.
        plain: key → the same without what says nothing about the work.
        bare: key → a coarser form, tried for what is left.
    """
    found: list[Pair] = []
    left: tuple[list[int], list[int]] = ([], [])
    for key, (ours, theirs) in _grouped(base, new, range(len(base)), range(len(new)), plain).items():
        if not ours or not theirs:
            left[0].extend(ours)
            left[1].extend(theirs)
        elif {base[i] for i in ours} == {new[i] for i in theirs}:
            places = {new[i]: i for i in theirs}
            found += [Pair(base[i], (i,), (places[base[i]],), "name") for i in ours]
        else:
            found.append(Pair(key, tuple(ours), tuple(theirs), "normalised name"))
    for key, (ours, theirs) in _grouped(base, new, *left, bare).items():
        if ours and theirs:
            found.append(Pair(key, tuple(ours), tuple(theirs), "normalised name"))
        else:
            found += [Pair(base[i], (i,), (), "gone") for i in ours]
            found += [Pair(new[i], (), (i,), "new") for i in theirs]
    return found


def _grouped(
    base: Sequence[Key], new: Sequence[Key], ours: Iterable[int], theirs: Iterable[int], form: Form
) -> dict[Key, tuple[list[int], list[int]]]:
    groups: dict[Key, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i in ours:
        groups[form(base[i])][0].append(i)
    for i in theirs:
        groups[form(new[i])][1].append(i)
    return groups
