"""Costs of all-reduces, predicted steps, and the fit of latency and bandwidth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace.models.fit import fit, theil_sen
from mdtrace.models.fusion import Backward, Cost, Rule, schedule
from mdtrace.models.scaling import Link, all_reduce, hierarchical, medians, step_time

EXAMPLE = Backward.of([16, 8, 8, 4, 2, 1, 0.5, 0.5], [26, 32, 38, 44, 50, 56, 62, 66])


def test_ring() -> None:
    assert all_reduce(Link(10.0, 2.0), 8) == Cost(140.0, 3.5)  # 2·7·10; 2·7/8·2
    assert all_reduce(Link(10.0, 2.0), 1) == Cost(0.0, 0.0)


def test_tree() -> None:
    assert all_reduce(Link(10.0, 2.0), 8, "tree") == Cost(60.0, 12.0)  # 2·log2 8 of both


def test_rings_inside_hosts_and_between_them() -> None:
    cost = hierarchical(Link(1.0, 1.0), Link(10.0, 4.0), per_host=4, hosts=2)
    assert cost == Cost(
        6.0 + 20.0, 1.5 + 4.0 / 4
    )  # inside: 2·3·1, 2·3/4·1; between: 2·1·10, 2·1/2·4 of a quarter


def _step(cost: Cost, typical: Backward = EXAMPLE):
    return step_time(EXAMPLE, typical, 4.0, cost, lambda b, c: schedule(Rule("each"), b, c))


def test_a_step_and_what_each_factor_costs() -> None:
    step = _step(Cost(2.0, 0.9))
    assert step.total == pytest.approx(82.0)  # the example's 78, and 4 after it
    assert (step.compute, step.factor) == (70.0, pytest.approx(70 / 82))
    assert step.saved == pytest.approx(
        {
            "latency": 78 - 66.45,  # α = 0: the last one, ready at 66, takes 0.45
            "bandwidth": 78 - 68.0,  # β = 0: 66 + 2
            "buckets": 78 - 70.0,  # the optimum of the worked example
            "overlap": 78 - 66.0,  # transfers take 52 in all and hide behind the backward pass
            "imbalance": 0.0,
        }
    )
    assert step.costs_most == "overlap"


def test_a_slow_rank_costs_what_the_median_one_would_save() -> None:
    typical = Backward.of(EXAMPLE.sizes, EXAMPLE.ready - 20)
    step = _step(Cost(0.1, 0.01), typical)
    assert step.compute == 50.0
    assert step.saved["imbalance"] == pytest.approx(20.0)
    assert step.costs_most == "imbalance"


def test_nothing_travels_where_one_rank_is_alone() -> None:
    step = _step(Cost(0.0, 0.0))
    assert (step.total, step.factor, step.plan, step.costs_most) == (70.0, 1.0, None, None)


def test_the_slowest_and_the_median_rank_of_typical_steps() -> None:
    ready = np.array([[[1.0, 5], [3, 9], [2, 7]], [[1, 5], [1, 6], [4, 5]], [[2, 8], [2, 8], [2, 8]]])
    slowest, typical = medians(ready)
    assert slowest.tolist() == [3.0, 8.0]  # of (3, 9), (4, 6) and (2, 8)
    assert typical.tolist() == [2.0, 7.0]  # of (2, 7), (1, 5) and (2, 8)


@given(st.floats(0, 1e6), st.floats(1e-3, 10), st.lists(st.integers(1, 1 << 26), min_size=3, max_size=30))
@settings(deadline=None, max_examples=200)
def test_exact_messages_are_fitted_exactly(a: float, b: float, sizes: list[int]) -> None:
    y = np.array([*sizes, 1 << 10, 1 << 24], float)
    x = np.full(len(y), 14.0)
    found = fit(x, y, a * x + b * y)
    assert found is not None
    assert found.told_apart
    assert (found.a, found.b) == (pytest.approx(a, rel=1e-4, abs=1e-2), pytest.approx(b, rel=1e-6))


def test_a_third_of_wild_messages_does_not_move_the_fit() -> None:
    random = np.random.default_rng(0)
    y = random.uniform(1e4, 1e8, 300)
    times = (2e5 + 0.05 * y) * random.normal(1, 0.01, 300)
    times[::3] *= random.uniform(2, 30, 100)  # waits
    found = fit(np.full(300, 1.0), y, times)
    assert found is not None
    assert found.a == pytest.approx(2e5, rel=0.1)
    assert found.b == pytest.approx(0.05, rel=0.02)


def test_latency_and_bandwidth_are_never_negative() -> None:
    y = np.array([1e6, 2e6, 4e6, 8e6])
    found = fit(np.ones(4), y, 0.1 * y - 5e4)
    assert found is not None
    assert found.a == 0
    assert found.b > 0


def test_messages_of_one_size_do_not_tell_latency_from_bandwidth() -> None:
    found = fit(np.ones(5), np.array([1e6, 1e6, 1.2e6, 1e6, 1e6]), np.full(5, 1e5))
    assert found is not None
    assert not found.told_apart
    given_a = fit(np.ones(5), np.full(5, 1e6), np.full(5, 1e5), a=2e4)
    assert given_a is not None
    assert (given_a.told_apart, given_a.a, given_a.b) == (True, 2e4, pytest.approx(0.08))
    given_b = fit(np.ones(5), np.full(5, 1e6), np.full(5, 1e5), b=0.06)
    assert given_b is not None
    assert given_b.a == pytest.approx(4e4)


def test_no_message_no_fit() -> None:
    assert fit(np.ones(2), np.ones(2), np.zeros(2)) is None


def test_theil_and_sen() -> None:
    intercept, slope = theil_sen(np.array([0.0, 1, 2, 3, 4]), np.array([1.0, 3, 5, 7, 900]))
    assert (intercept, slope) == (1.0, 2.0)
