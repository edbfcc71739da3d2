"""Two runs side by side: what changed per step, and how much of the change of the step time it explains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mdtrace.errors import DatasetError, UsageError
from mdtrace.metrics.comparison.columns import METRIC, PARTS, schema
from mdtrace.metrics.comparison.judge import ENOUGH_STEPS, Change, Values, Verdict, judge
from mdtrace.metrics.comparison.match import Key, Pair, pairs
from mdtrace.metrics.comparison.names import bare, plain, unwrapped
from mdtrace.metrics.comparison.side import Amounts, Side, side
from mdtrace.metrics.engine import Result
from mdtrace.metrics.filters import Filters
from mdtrace.tables.dataset import Dataset

_OF_STEP = ("step", "bucket", "idle")  # judged against the step's time, not their own
_SMALL = 0.001  # of the step: less does not matter, however large a change of its own it is


@dataclass(frozen=True)
class Comparison(Result):
    """The rows, and what they mean together.

    Attributes:
        base, new: the two runs.
        threshold: share that a change must pass to matter.
    """

    base: Side
    new: Side
    threshold: float

    def rows(self, part: str) -> list[dict[str, Any]]:
        """The rows of one part, those that contribute the most first."""
        return [row for row in self.table.to_pylist() if row["part"] == part]

    @property
    def regressions(self) -> list[str]:
        """The step time and the buckets of time that got worse by more than the threshold of the step.

        Where the step time got better by as much, no bucket counts: what one gains may show in another.
        """
        rows = [r for r in self.rows("step") if r["name"] == "step"] + self.rows("bucket")
        changed = [r for r in rows if r["verdict"] in ("regression", "improvement", "cannot tell")]
        if any(r["name"] == "step" and r["change_ns"] < 0 for r in changed):
            return []
        return [r["name"] for r in changed if r["change_ns"] > 0]

    @property
    def noise_is_known(self) -> bool:
        """Both runs have steps enough to tell a change from noise."""
        return min(len(self.base.steps), len(self.new.steps)) >= ENOUGH_STEPS


def compare(
    base: Dataset, new: Dataset, threshold: float = 0.05, filters: Filters | None = None
) -> Comparison:
    """What changed from one run to another, per step of the steady state and device.

    Amounts are sums over a step, their mean over devices, their median over steps, so that captures of
    different length and jobs of different size compare. Rows are ordered by part, then by what they
    contribute to the change of the step time. Steps picked by a filter stand for the steady state; a layer
    filter narrows kernels, operators, layers and the host's own time.

    Args:
        threshold: share by which something must change to matter: step, buckets and idle of the step time,
            the others of their own time (and 0.1 % of the step time).

    Raises:
        UsageError: the threshold is no positive share, or a time filter is given.
        DatasetError: one of the runs has nothing to compare.
    """
    if not 0 <= threshold < np.inf:
        raise UsageError(f"threshold {threshold}: no share", "give 0.05 for 5 %")
    wanted = filters or Filters()
    if wanted.time is not None:
        raise UsageError("amounts per step have no time to filter by", "pick steps instead")
    sides = side(base, wanted), side(new, wanted)
    step = _step_time(base, sides[0])
    _step_time(new, sides[1])
    rows = [row for part in PARTS for row in _rows(part, *sides, step, threshold)]
    return Comparison(METRIC, pa.Table.from_pylist(rows, schema()), *sides, threshold)


def _step_time(dataset: Dataset, found: Side) -> float:
    """Median step time, in ns."""
    amounts = found.parts["step"]
    if ("step",) not in amounts.keys or not np.median(amounts.own[list(amounts.keys).index(("step",))]) > 0:
        raise DatasetError(f"{dataset.path}: its steps take no time", "see mdtrace overlap --by step")
    return float(np.median(amounts.own[list(amounts.keys).index(("step",))]))


def _rows(part: str, base: Side, new: Side, step: float, threshold: float) -> list[dict[str, Any]]:
    ours, theirs = base.parts[part], new.parts[part]
    rows = [
        _row(part, pair, ours, theirs, step, threshold)
        for pair in pairs(ours.keys, theirs.keys, *_forms(part))
    ]
    if part in _OF_STEP:
        return rows
    return sorted(rows, key=lambda r: (-abs(r["contribution_ns"] or 0), -abs(r["change_ns"]), str(r["name"])))


def _forms(part: str) -> Any:
    """Plain and bare form of a part's keys."""
    if part == "layer":
        return _first(lambda path: path), _first(unwrapped)
    if part == "collective":
        return (lambda key: key), (lambda key: (key[0], key[1], None, key[3]))
    if part == "host":
        return _last(plain), _last(bare)
    return _first(plain), _first(bare)


def _first(form: Any) -> Any:
    return lambda key: (None if key[0] is None else form(key[0]), *key[1:])


def _last(form: Any) -> Any:
    return lambda key: (*key[:-1], None if key[-1] is None else form(key[-1]))


def _row(part: str, pair: Pair, base: Amounts, new: Amounts, step: float, threshold: float) -> dict[str, Any]:
    own = judge(_sum(base.own, pair.base), _sum(new.own, pair.new))
    shown = None
    if base.shown is not None and new.shown is not None:
        shown = judge(_sum(base.shown, pair.base), _sum(new.shown, pair.new))
    limit = threshold * step if part in _OF_STEP else max(threshold * own.base, _SMALL * step)
    name, phase = _name(part, pair.key)
    return {
        "part": part,
        "name": name,
        "phase": phase,
        "matched": pair.how,
        "base_count": _count(base.count, pair.base),
        "new_count": _count(new.count, pair.new),
        "base_ns": own.base,
        "new_ns": own.new,
        "base_spread_ns": own.base_spread,
        "new_spread_ns": own.new_spread,
        "change_ns": own.change,
        "change": own.change / own.base if own.base else None,
        "noise_ns": own.noise,
        "contribution_ns": None if shown is None else shown.change,
        "contribution": None if shown is None else shown.change / step,
        "verdict": _verdict(pair, own, shown, limit),
    }


def _verdict(pair: Pair, own: Change, shown: Change | None, limit: float) -> Verdict:
    """By its own time; where that has not changed, by the part of it that makes up the step."""
    if pair.how == "new" or pair.how == "gone":
        return pair.how
    found = own.verdict(limit)
    if found in ("same", "noise", "small") and shown is not None:
        also = shown.verdict(limit)
        if also in ("regression", "improvement", "cannot tell"):
            return also
    return found


def _sum(values: Values, places: Sequence[int]) -> Values:
    total: Values = values[list(places)].sum(axis=0)
    return total


def _count(values: Values | None, places: Sequence[int]) -> float | None:
    return None if values is None else float(np.median(_sum(values, places)))


def _name(part: str, key: Key) -> tuple[str | None, str | None]:
    if part == "layer":
        return _text(key[0]), _text(key[1])
    if part == "collective":
        return _collective(key), None
    return _text(key[-1]), None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _collective(key: Key) -> str:
    """`all_reduce default_pg of 8, 16.8 MB`: its group's size left out where the runs' differ."""
    kind, group, members, bucket = key
    words = [str(kind), *([str(group)] if group is not None else [])]
    words += [f"of {members}"] if members is not None else []
    return " ".join(words) + (f", {_megabytes(bucket)}" if isinstance(bucket, int) else ", size unknown")


def _megabytes(count: int) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count} B"
