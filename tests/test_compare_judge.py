"""What a change is worth."""

from itertools import combinations

import numpy as np
import pytest

from mdtrace.metrics.comparison.judge import judge, rank_test, spread


def test_spread_is_the_corrected_median_absolute_deviation() -> None:
    # Median 10; deviations 2, 1, 0, 1, 90: their median 1; factor of 5 values 1.206.
    assert spread(np.array([8.0, 9, 10, 11, 100])) == pytest.approx(1.206)
    assert spread(np.arange(20.0)) == pytest.approx(20 / 19.2 * 5)


def test_a_change_within_the_steps_spread_is_noise() -> None:
    base, new = np.array([10.0, 12, 8, 11, 9] * 2), np.array([11.0, 13, 9, 12, 10] * 2)
    found = judge(base, new)
    assert (found.base, found.new, found.change) == (10, 11, 1)
    one = 10 / 9.2  # deviations 0, 2, 2, 1, 1, twice: their median 1
    assert (found.base_spread, found.new_spread) == pytest.approx((one, one))
    assert found.noise == pytest.approx(3 * 2**0.5 * one)
    assert found.verdict(0) == "noise"


def test_verdicts() -> None:
    steps = np.array([10.0, 10.1, 9.9, 10.05, 9.95, 10, 10, 10])
    assert judge(steps, steps).verdict(0) == "same"
    assert judge(steps, steps * 1.2).verdict(0.5) == "regression"
    assert judge(steps * 1.2, steps).verdict(0.5) == "improvement"
    assert judge(steps, steps * 1.04).verdict(0.5) == "small"


def test_two_steps_cannot_tell_noise() -> None:
    found = judge(np.array([10.0, 10]), np.array([20.0] * 9))
    assert (found.noise, found.base_spread, found.new_spread) == (None, None, None)
    assert found.verdict(0.5) == "cannot tell"
    assert found.verdict(10) == "small"


def test_a_small_spread_of_few_steps_may_be_chance() -> None:
    """Three of five steps happen to be close: where steps overlap so much, that is no proof."""
    assert judge(np.array([1.0, 10, 10.01, 10.02, 30]), np.array([2.0, 12, 12.01, 12.02, 30])).within_noise


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (4, 4), (3, 6)])
def test_rank_test_counts_orders(n: int, m: int) -> None:
    base = np.arange(n) * 2.0
    for shift in (-99.0, -2.5, 0.5, 3.5):
        new = np.arange(m) * 1.37 + shift  # no ties
        way = sum(b < c for b in base for c in new)
        fewer = min(way, n * m - way)
        orders = [
            sum(i < j for i in c for j in set(range(n + m)) - set(c)) for c in combinations(range(n + m), n)
        ]
        as_far = sum(min(o, n * m - o) <= fewer for o in orders) / len(orders)
        assert rank_test(base, new) == pytest.approx((1 - fewer / (n * m), as_far))


def test_rank_test_of_many_steps() -> None:
    values = np.arange(100.0)
    assert rank_test(values, values) == (0.5, pytest.approx(1, abs=0.01))
    # Normal approximation: U = 4500 of 10000, deviation sqrt(100 * 100 * 201 / 12) = 409.3.
    share, chance = rank_test(values, values + 5.5)
    assert share == pytest.approx(0.5535)
    assert chance == pytest.approx(0.191, abs=0.01)


def test_many_steps_apart_are_no_noise_however_they_spread() -> None:
    base, new = np.array([10.0, 30, 20, 40, 15, 35]), np.array([42.0, 60, 90, 75, 50, 85])
    found = judge(base, new)
    assert found.noise is not None
    assert found.change < found.noise
    assert not found.within_noise
    assert judge(base[:4], new[:4]).within_noise  # 2 / C(8, 4) = 3 %: chance


@pytest.mark.parametrize(("steps", "most"), [(3, 0.05), (5, 0.02), (8, 0.01), (20, 0.001)])
def test_noise_is_seldom_called_a_change(steps: int, most: float) -> None:
    random = np.random.default_rng(steps)
    wrong = sum(
        not judge(random.lognormal(0, 0.1, steps), random.lognormal(0, 0.1, steps)).within_noise
        for _ in range(2000)
    )
    assert wrong / 2000 < most
