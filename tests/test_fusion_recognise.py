"""Which rule packed given buckets."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdtrace.models.fusion import Backward, Cost, Rule, schedule
from mdtrace.models.fusion_recognise import MEBIBYTE, below_caps, plain_cap, reaching_caps, recognise

FREE = Cost(0.0, 0.0)


def _stops(sizes: list[int], rule: Rule) -> np.ndarray:
    return schedule(rule, Backward.of(sizes, range(len(sizes))), FREE).stops


def _named(sizes: list[int], rule: Rule, timeline: bool = False) -> tuple[Rule | None, str]:
    found = recognise(np.array(sizes, float), _stops(sizes, rule), timeline=timeline)
    return found.rule, found.words


def test_rules_are_recognised_from_their_buckets() -> None:
    mib = [MEBIBYTE * n for n in (1, 3, 20, 4, 2, 30, 1, 1)]
    assert _named(mib, Rule("ddp", 25 * MEBIBYTE, MEBIBYTE))[1].startswith("DDP's default")
    # 1+3+20+4 = 28 closes at 25 and at 28; 2+30 closes at any up to 32; 1+1 is what is left
    assert _named(mib, Rule("ddp", 27 * MEBIBYTE)) == (Rule("ddp", 25 * MEBIBYTE), "DDP buckets of 25 MiB")
    assert _named(mib, Rule("each"))[1] == "each gradient alone"
    assert _named(mib, Rule("one"))[1] == "all gradients together"
    assert _named(mib, Rule("threshold", 6 * MEBIBYTE), timeline=True)[1] == "a threshold of 6 MiB"


def test_buckets_of_no_rule() -> None:
    sizes, stops = np.array([1.0, 1, 1, 1, 8, 8]), np.array([1, 4, 6])  # alone, then three, then 16
    assert recognise(sizes, stops, timeline=True).rule is None


def test_caps_that_make_the_same_buckets() -> None:
    sizes = np.array([4.0, 4, 10, 10, 6, 3])
    assert reaching_caps(sizes, np.array([3, 5, 6])) == (
        10.0,
        16.0,
    )  # 8, 10 and 0 were not full; 18 and 16 were
    assert below_caps(sizes, np.array([2, 3, 4, 6])) == (9.0, 16.0)  # 8 and 9 fit; 10 + 6 would not
    assert reaching_caps(sizes, np.array([6])) == (34.0, np.inf)


def test_the_plainest_cap() -> None:
    assert plain_cap(1.2 * MEBIBYTE, 5 * MEBIBYTE) == 2 * MEBIBYTE
    assert plain_cap(1.21 * MEBIBYTE, 1.38 * MEBIBYTE) / MEBIBYTE == 1.3
    assert plain_cap(2 * MEBIBYTE, 3 * MEBIBYTE) == 3 * MEBIBYTE  # low itself is not one of them
    assert plain_cap(2 * MEBIBYTE, 3 * MEBIBYTE, from_low=True) == 2 * MEBIBYTE


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=12),
    st.sampled_from(["threshold", "ddp"]),
    st.integers(1, 60),
)
@settings(deadline=None, max_examples=300)
def test_what_is_recognised_makes_the_same_buckets(sizes: list[int], name: str, cap: int) -> None:
    rule = Rule(name, cap)  # type: ignore[arg-type]
    stops = _stops(sizes, rule)
    found = recognise(np.array(sizes, float), stops, timeline=name == "threshold")
    assert found.rule is not None
    assert _stops(sizes, found.rule).tolist() == stops.tolist()
