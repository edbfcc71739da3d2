"""Offsets between two clocks: pure numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.link.clocks_fit import Fit, Shared, fit, granularity
from mdtrace.link.clocks_graph import Marks, collect, solve_paths


def shared(q: np.ndarray, r: np.ndarray) -> Shared:
    """Operations as (arrival, end) of each clock, one row an operation."""
    return Shared(end=r[:, 1], difference=r[:, 1] - q[:, 1], lower=r[:, 0] - q[:, 1], upper=r[:, 1] - q[:, 0])


def job(seed: int, count: int, jitter: int, span: int = 10**9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(arrival, end) of two ranks on true time: ends differ by up to `jitter`."""
    rng = np.random.default_rng(seed)
    begin = np.sort(rng.integers(0, span, count)) + 10**18
    arrive = begin[:, None] + rng.integers(0, 50_000, (count, 2))
    end = arrive.max(axis=1)[:, None] + 20_000 + rng.integers(0, jitter + 1, (count, 2))
    return begin, np.stack([arrive[:, 0], end[:, 0]], axis=1), np.stack([arrive[:, 1], end[:, 1]], axis=1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("offset", [0, 5_000_000, -(10**12)])
def test_an_offset_is_recovered_within_its_error_bar(seed: int, offset: int) -> None:
    _, q, r = job(seed, 40, jitter=3000)
    found = fit(shared(q, r + offset), resolution=1)
    assert abs(found.offset - offset) <= found.error <= 3000
    assert found.lower <= offset <= found.upper
    assert found.drift is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ppm", [-40, 15, 200])
def test_a_drift_is_recovered(seed: int, ppm: int) -> None:
    """Over 10 s, 15 ppm are 150 µs: without the line no constant offset fits."""
    begin, q, r = job(seed, 60, jitter=2000, span=10**10)
    drifted = r + 7000 + ((r - begin[0]) * ppm) // 10**6
    found = fit(shared(q, drifted), resolution=1)
    assert found.drift == pytest.approx(ppm * 1e-6, abs=3e-7)
    true = drifted[:, 1] - r[:, 1]
    predicted = found.offset + found.drift * (drifted[:, 1] - found.origin)
    assert np.abs(predicted - true).max() <= found.error * 3
    assert np.median(np.abs(predicted - true)) <= found.error


def test_noise_is_no_drift() -> None:
    for seed in range(30):
        _, q, r = job(seed, 30, jitter=20_000)
        assert fit(shared(q, r), resolution=1).drift is None


def test_few_operations_take_the_error_from_causality() -> None:
    """Arrivals 10 and 18, end 22 on both: the offset lies in 18 − 22 … 22 − 10, half of it is 8."""
    found = fit(shared(np.array([[10, 22]]), np.array([[18, 22]])), resolution=1)
    assert (found.offset, found.lower, found.upper, found.error) == (0, -4, 12, 8)


def test_the_median_is_clipped_to_causality() -> None:
    """Ends on r come 50 late in most operations, but one shows that it cannot be ahead by more than 10."""
    q = np.array([[0, 100], [200, 300], [400, 500], [600, 700], [890, 900]])
    r = np.array([[0, 150], [200, 350], [400, 550], [600, 750], [890, 900]])
    found = fit(shared(q, r), resolution=1)
    assert (found.lower, found.upper, found.offset) == (-10, 10, 10)


def test_an_empty_interval_is_told() -> None:
    q = np.array([[0, 10], [100, 110]])
    r = np.array([[500, 510], [100, 110]])
    assert not fit(shared(q, r), resolution=1).consistent


def test_never_finer_than_the_timestamps() -> None:
    q = np.array([[i * 1000, i * 1000 + 500] for i in range(6)])
    assert fit(shared(q, q), resolution=1000).error == 1000


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=20, unique=True), st.integers(0, 2**62))
def test_granularity_is_a_step_that_reaches_all_times(ticks: list[int], base: int) -> None:
    whole = granularity(np.array([base + 1000 * t for t in ticks]))
    assert whole == 1000
    assert granularity(np.array([base, base + 1, base + 1001])) == 1


def test_a_host_is_solved_through_another() -> None:
    """Clocks 0 and 1 share operations, 1 and 2 share others; 3 shares none."""
    rows = []
    for k in range(12):
        t, (first, second) = 1000 * k, ((0, 1) if k < 6 else (1, 2))
        for clock in (first, second):
            rows.append((k, clock, t + 100 * clock, t + 500 + 100 * clock))
    instance, clock, start, end = np.array(rows).T
    marks = Marks(instance, clock, start, end, np.ones(len(rows), np.bool_))
    paths = solve_paths(collect(marks, 4), [1, 1, 1, 1])
    offsets = [None if p.fit is None else p.fit.offset for p in paths]
    assert offsets == [None, 100, 200, None]
    assert [p.reference for p in paths] == [0, 0, 0, None]
    assert [p.through for p in paths] == [False, False, True, False]
    assert [p.component for p in paths] == [0, 0, 0, 1]
    assert isinstance(paths[2].fit, Fit)
    assert paths[2].fit.error == 2
