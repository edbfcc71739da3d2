"""Events that need mending among items that are no events: each is counted, none takes others along."""

import random
from pathlib import Path

import pytest

from kineto_read import read_text

GOOD = '{"ph":"X","cat":"cpu_op","name":"op %d","pid":10,"tid":10,"ts":%d.5,"dur":1}'
MENDED = (
    GOOD.replace("op %d", r"op %d \ud800"),
    GOOD.replace("op %d", "op %d\n"),
    GOOD.replace("op %d", r"op %d C:\x"),
    GOOD.replace('"dur":1', '"dur":NaN'),
)
ITEMS = (
    "null", "42", '"text"', "[]", "{}", "true", "-1.5e3", "[1, 2]", '""', "[[1],[2]]", '["a"]', '{"a":1}',
    '[{"b":2}]',
)  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_items_of_all_kinds(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed)
    kinds = [chosen.choice((GOOD, GOOD, *MENDED, *ITEMS)) for _ in range(chosen.randint(1, 12))]
    items = [kind % (i, i) if kind in (GOOD, *MENDED) else kind for i, kind in enumerate(kinds)]
    text = chosen.choice((",", ",\n", " , ")).join(items)
    trace = read_text(tmp_path, f'{{"traceEvents":[{text}]}}')
    starts = [i * 1000 + 500 for i, kind in enumerate(kinds) if kind in (GOOD, *MENDED)]
    assert trace.stored == len(starts)
    assert trace.stored + trace.skipped == len(items)
    if starts:
        assert trace.rows("host_ops", "start_ns") == starts


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("mended", MENDED)
def test_an_item_right_behind_a_mended_event(mended: str, item: str, tmp_path: Path) -> None:
    for number, items in enumerate(([item] * 5, [item, mended % (3, 3), item])):
        events = [GOOD % (1, 1), mended % (2, 2), *items, GOOD % (4, 4), GOOD % (5, 5)]
        trace = read_text(tmp_path, f'{{"traceEvents":[{",".join(events)}]}}', f"{number}.json")
        assert (trace.stored, trace.skipped) == ((4, 5), (5, 2))[number]
    trace = read_text(tmp_path, f'{{"traceEvents":[{GOOD % (1, 1)},{mended % (2, 2)},{item}]}}')
    assert (trace.stored, trace.skipped) == (2, 1)
