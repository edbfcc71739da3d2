"""Dispatch rules, plans and their worked example."""

import json
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace.errors import UsageError
from mdtrace.models.fusion import Backward, Cost, Rule, Schedule, run, schedule
from mdtrace.models.fusion_plans import best_cap, greedy, optimum
from shared import shared

# The worked example: ms and MB.
SIZES = [16, 8, 8, 4, 2, 1, 0.5, 0.5]
READY = [26, 32, 38, 44, 50, 56, 62, 66]
EXAMPLE = Backward.of(SIZES, READY)
COST = Cost(2.0, 0.9)

RULES = {
    "each": Rule("each"),
    "one_buffer_or_threshold_64": Rule("one"),
    "threshold_8": Rule("threshold", 8),
    "threshold_12": Rule("threshold", 12),
    "threshold_64_timeout_10": Rule("timeout", 64, period=10),
    "cycle_5_cap_64": Rule("cycle", 64, period=5),
    "blocking_cycle_5_cap_64": Rule("blocking cycle", 64, period=5),
}
PLANS = {"mg_wfbp_greedy": greedy, "optimal": optimum, "best_constant_cap": lambda b, c: best_cap(b, c).plan}


def _check(plan: Schedule, name: str) -> None:
    golden = json.loads(shared("spec", "golden.json").read_text())["osf"]
    expected = golden["rules"][name]
    if "buckets" in expected:
        assert plan.buckets == expected["buckets"]
    if "ends" in expected:
        assert plan.end == pytest.approx(expected["ends"])
    if "dispatch" in expected:
        assert plan.dispatch == pytest.approx(expected["dispatch"])
    if "first_dispatch" in expected:
        assert plan.dispatch[0] == expected["first_dispatch"]
    assert plan.last == pytest.approx(expected.get("ends_last", plan.last))
    assert golden["t1"] / max(plan.last, EXAMPLE.end) == pytest.approx(expected["sf"], abs=5e-7)


@pytest.mark.parametrize("name", RULES)
def test_rules_of_the_worked_example(name: str) -> None:
    _check(schedule(RULES[name], EXAMPLE, COST), name)


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_worked_example(name: str) -> None:
    _check(PLANS[name](EXAMPLE, COST), name)


def test_a_threshold_above_all_gradients_sends_them_together() -> None:
    assert schedule(Rule("threshold", 64), EXAMPLE, COST).buckets == [list(range(8))]


def test_best_cap_of_the_worked_example_is_the_smallest_that_good() -> None:
    found = best_cap(EXAMPLE, COST)
    assert (found.cap, found.exhaustive) == (14.0, True)


def test_ddp_closes_a_bucket_once_it_is_full_and_the_first_one_sooner() -> None:
    backward = Backward.of([4, 4, 10, 10, 6, 3], range(6))
    plan = schedule(Rule("ddp", 15, 5), backward, COST)
    assert plan.buckets == [[0, 1], [2, 3], [4, 5]]  # 8 ≥ 5; 20 ≥ 15; 9 are what is left
    assert schedule(Rule("ddp", 15), backward, COST).buckets == [[0, 1, 2], [3, 4], [5]]


def test_timeout_counts_a_gradient_that_is_ready_just_in_time() -> None:
    plan = schedule(Rule("timeout", 100, period=10), Backward.of([1, 1, 1], [0, 10, 21]), Cost(0, 0))
    assert plan.buckets == [[0, 1], [2]]
    assert plan.dispatch.tolist() == [10, 21]


def test_a_full_bucket_does_not_wait_for_its_timeout() -> None:
    plan = schedule(Rule("timeout", 2, period=10), Backward.of([1, 1, 1], [0, 3, 4]), Cost(0, 0))
    assert plan.buckets == [[0, 1], [2]]
    assert plan.dispatch.tolist() == [3, 4]


def test_a_cycle_splits_what_is_ready_by_the_cap() -> None:
    plan = schedule(Rule("cycle", 2, period=10), Backward.of([1, 1, 1, 1], [1, 2, 3, 19]), Cost(4, 0))
    assert plan.buckets == [[0, 1], [2], [3]]
    assert plan.dispatch.tolist() == [10, 10, 20]
    assert plan.end.tolist() == [14, 18, 24]


def test_a_blocking_cycle_waits_for_all_that_it_sent() -> None:
    plan = schedule(Rule("blocking cycle", 2, period=5), Backward.of([1, 1, 1, 1], [1, 2, 3, 6]), Cost(4, 0))
    assert plan.dispatch.tolist() == [5, 5, 13]  # ends 9 and 13; the next tick is then, not at 10


def test_a_gradient_larger_than_the_cap_goes_alone() -> None:
    assert schedule(Rule("threshold", 1), EXAMPLE, COST).buckets == [[0], [1], [2], [3], [4], [5], [6, 7]]


@pytest.mark.parametrize(
    ("sizes", "ready"), [([], []), ([1], [1, 2]), ([-1], [0]), ([1, 1], [2, 1]), ([float("nan")], [0])]
)
def test_what_is_no_backward_pass(sizes: list[float], ready: list[float]) -> None:
    with pytest.raises(UsageError):
        Backward.of(sizes, ready)


def test_what_is_no_rule() -> None:
    for rule in (("cycle", 1.0, None, 0.0), ("threshold", -1.0), ("timeout", 1.0, None, float("inf"))):
        with pytest.raises(UsageError):
            Rule(*rule)  # type: ignore[arg-type]


# Properties, on numbers with few digits so that equal times are common.
_numbers = st.integers(0, 12)
_backwards = st.lists(st.tuples(_numbers, _numbers), min_size=1, max_size=8).map(
    lambda rows: Backward.of([s for s, _ in rows], sorted(r for _, r in rows))
)
_costs = st.builds(lambda a, b: Cost(float(a), b / 4), st.integers(0, 8), st.integers(0, 8))
_rules = st.one_of(
    st.sampled_from([Rule("each"), Rule("one")]),
    st.builds(lambda cap: Rule("threshold", cap), _numbers),
    st.builds(lambda cap, first: Rule("ddp", cap, first), _numbers, _numbers),
    st.builds(
        lambda name, cap, period: Rule(name, cap, period=period),
        st.sampled_from(["timeout", "cycle", "blocking cycle"]),
        _numbers,
        st.integers(1, 9),
    ),
)


def _all_plans(backward: Backward, cost: Cost) -> list[Schedule]:
    count = len(backward.sizes)
    cuts = [c for k in range(count) for c in combinations(range(1, count), k)]
    return [run(backward, cost, np.array([*c, count])) for c in cuts]


@given(_backwards, _costs)
@settings(deadline=None, max_examples=200)
def test_the_optimum_is_that_of_all_plans(backward: Backward, cost: Cost) -> None:
    plans = _all_plans(backward, cost)
    best = min(p.last for p in plans)
    found = optimum(backward, cost)
    assert found.last == pytest.approx(best, rel=1e-9)
    assert len(found.stops) == min(len(p.stops) for p in plans if p.last <= best + 1e-9)


@given(_backwards, _costs, _rules)
@settings(deadline=None, max_examples=300)
def test_no_rule_is_better_than_the_optimum(backward: Backward, cost: Cost, rule: Rule) -> None:
    best = optimum(backward, cost).last
    for plan in (schedule(rule, backward, cost), greedy(backward, cost)):
        assert plan.last >= best - 1e-9
        assert [i for bucket in plan.buckets for i in bucket] == list(range(len(backward.sizes)))


@given(_backwards, _costs, _rules)
@settings(deadline=None, max_examples=200)
def test_buckets_follow_the_recursion(backward: Backward, cost: Cost, rule: Rule) -> None:
    plan = schedule(rule, backward, cost)
    free = -np.inf
    for k, bucket in enumerate(plan.buckets):
        assert plan.dispatch[k] >= backward.ready[bucket[-1]]
        start = max(plan.dispatch[k], free)
        free = start + cost.alpha + cost.beta * sum(backward.sizes[i] for i in bucket)
        assert (plan.start[k], plan.end[k]) == (pytest.approx(start), pytest.approx(free))


@given(_backwards, _costs)
@settings(deadline=None, max_examples=100)
def test_the_best_cap_is_that_of_all_caps(backward: Backward, cost: Cost) -> None:
    for rule in ("threshold", "ddp"):
        caps = np.arange(0, backward.sizes.sum() + 2)
        best = min(schedule(Rule(rule, c), backward, cost).last for c in caps)  # type: ignore[arg-type]
        found = best_cap(backward, cost, Rule(rule))  # type: ignore[arg-type]
        assert found.exhaustive
        assert found.plan.last == pytest.approx(best)


def test_two_thousand_gradients_are_planned_in_less_than_a_second() -> None:
    random = np.random.default_rng(1)
    backward = Backward.of(random.lognormal(10, 2, 2000), np.sort(random.uniform(0, 1e8, 2000)))
    cost = Cost(3e4, 0.05)
    begun = time.process_time()
    best = optimum(backward, cost)
    assert time.process_time() - begun < 1
    capped = best_cap(backward, cost)
    assert not capped.exhaustive
    assert best.last <= capped.plan.last
