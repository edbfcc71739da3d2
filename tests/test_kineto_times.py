"""Decimal microseconds become whole nanoseconds, to the last digit."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdtrace.ingest.kineto.times import (
    LIMIT_NS,
    InexactTimesError,
    exact_doubles,
    exact_nanoseconds,
    nanoseconds,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100.7", 100_700),
        ("0.2", 200),
        ("7892926123459.289", 7_892_926_123_459_289),
        ("1694128201435418", 1_694_128_201_435_418_000),  # a double is off by 64 ns here
        ("1694128201435418.123", 1_694_128_201_435_418_123),
        ("-0.5", -500),
        ("-12.25", -12_250),
        ("5", 5_000),
        ("5.", 5_000),
        ("1e3", 1_000_000),
        ("1.5E-2", 15),
        ("1e-9", 0),
        ("0.0004", 0),
        ("0.0005", 1),
        ("0.30000000000000004", 300),
        ("12.3456", 12_346),
        ('"42.5"', 42_500),
        ('" 7 "', 7_000),
        ("00012.5", 12_500),
        ("12.5" + "0" * 5000, 12_500),
    ],
)
def test_one_number(text: str, expected: int) -> None:
    assert exact_nanoseconds(text.encode()) == expected
    values, known = nanoseconds([text.encode()])
    assert (values[0], known[0]) == (expected, True)


@pytest.mark.parametrize(
    "text",
    ["", "null", "true", "{}", "[1]", '"abc"', "1.2.3", "1-2", "-", "1e999", "9e18", "NaN", "1\n2", "1_0"],
)
def test_what_is_no_time(text: str) -> None:
    assert exact_nanoseconds(text.encode()) is None
    values, known = nanoseconds([b"1.000", text.encode(), b"2.5"])
    assert known.tolist() == [True, False, True]
    assert values.tolist() == [1000, 0, 2500]


def test_no_numbers() -> None:
    values, known = nanoseconds([])
    assert (len(values), len(known)) == (0, 0)


_DECIMALS = st.builds(
    lambda sign, whole, fraction: f"{sign}{whole}{fraction}",
    st.sampled_from(["", "", "-"]),
    st.integers(0, LIMIT_NS // 1000 - 1),
    st.one_of(
        st.just(""),
        st.text("0123456789", min_size=3, max_size=3).map(lambda d: "." + d),
        st.text("0123456789", min_size=1, max_size=20).map(lambda d: "." + d),
    ),
)


@given(st.lists(_DECIMALS, max_size=30))
def test_a_batch_is_exact(texts: list[str]) -> None:
    values, known = nanoseconds([t.encode() for t in texts])
    assert known.all()
    assert values.tolist() == [floor(Fraction(t) * 1000 + Fraction(1, 2)) for t in texts]


@given(st.lists(st.binary(max_size=12), max_size=10))
def test_any_bytes_agree_with_one_by_one(texts: list[bytes]) -> None:
    values, known = nanoseconds(texts)
    single = [exact_nanoseconds(t) for t in texts]
    assert known.tolist() == [s is not None for s in single]
    assert values.tolist() == [s or 0 for s in single]


@given(st.lists(st.integers(-(2**43) * 1000 + 1, 2**43 * 1000 - 1)))
def test_doubles_tell_the_nanosecond_up_to_a_hundred_days(nanos: list[int]) -> None:
    texts = [f"{'-' if n < 0 else ''}{abs(n) // 1000}.{abs(n) % 1000:03}" for n in nanos]
    values, known = exact_doubles([float(text) for text in texts])
    assert (values.tolist(), known.all()) == (nanos, True)


@given(st.integers(0, 2**43 - 1), st.integers(0, 999))
def test_the_last_doubles_are_told_apart(whole: int, thousandths: int) -> None:
    """Where their spacing is just below a nanosecond."""
    near = whole | 1 << 42
    values, _ = exact_doubles([float(f"{near}.{thousandths:03}")])
    assert values[0] == near * 1000 + thousandths


def test_no_double_is_no_time() -> None:
    values, known = exact_doubles([1.5, None, 0.0])
    assert (values.tolist(), known.tolist()) == ([1500, 0, 0], [True, False, True])
    assert exact_doubles([])[0].tolist() == []


@pytest.mark.parametrize("number", [2.0**43, -(2.0**43), 1e300, 0.0004, 12.3456])
def test_what_doubles_do_not_tell(number: float) -> None:
    """Epoch microseconds, and digits below the nanosecond: their text is read instead."""
    with pytest.raises(InexactTimesError):
        exact_doubles([1.0, number])
