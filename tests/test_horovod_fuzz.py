"""Invented schedules written as Horovod writes them, and read back: groups, steps and ticks as invented."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from test_horovod import Row, begin, end, name, read_text, tick

ACTIVITIES = ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")


@dataclass
class Writer:
    """Horovod's one thread: time passes 0 to 3 µs between two events."""

    random: random.Random
    now: int
    events: list[Row]

    def write(self, make: object, pid: int, *args: object, **more: str) -> int:
        self.now += self.random.randint(0, 3)
        self.events.append(make(pid, self.now, *args, **more))  # type: ignore[operator]
        return self.now

    def all(self, make: object, pids: list[int], *args: object) -> list[int]:
        return [self.write(make, pid, *args) for pid in pids]


def groups_of(pids: list[int], rng: random.Random) -> list[list[int]]:
    """The tensors in random order, cut into random groups."""
    order = rng.sample(pids, len(pids))
    groups: list[list[int]] = []
    while order:
        size = rng.randint(1, 4)
        groups.append(order[:size])
        order = order[size:]
    return groups


def carry_out(writer: Writer, group: list[int]) -> tuple[int, int]:
    """One all-reduce of a group: the last begin of its transfer and the first end."""
    writer.all(begin, group, "ALLREDUCE")
    span = (0, 0)
    for activity in ACTIVITIES if len(group) > 1 else ACTIVITIES[1:2]:
        starts = writer.all(begin, group, activity)
        writer.now += writer.random.randint(1, 500)
        ends = writer.all(end, group)
        span = (starts[-1], ends[0]) if activity == ACTIVITIES[1] else span
    for pid in group:
        writer.write(end, pid, dtype="float32", shape=f"[{pid}, 2]")
    return span


@pytest.mark.parametrize("seed", range(40))
def test_invented_schedules_come_back(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    pids = list(range(1, rng.randint(2, 8)))
    writer = Writer(rng, rng.randint(0, 10**9), [name(p, f"t{p}") for p in pids])
    expected: list[tuple[int, list[str], int, int, int]] = []
    ticks: list[tuple[str, int, int]] = []
    for step in range(rng.randint(1, 5)):
        for group in groups_of(pids, rng):
            for pid in group:
                writer.write(begin, pid, "NEGOTIATE_ALLREDUCE")
                for rank in rng.sample(range(3), 3):
                    ticks.append((f"t{pid}", rank, 1000 * writer.write(tick, pid, rank)))
                writer.write(end, pid)
            start, stop = carry_out(writer, group)
            names = [f"t{p}" for p in group]
            expected.append((step, names, sum(8 * p for p in group), 1000 * start, 1000 * stop))
    found = read_text(json.dumps(writer.events), tmp_path)
    assert [
        (c["step"], c["tensors"], c["payload_bytes"], c["start_ns"], c["end_ns"]) for c in found.collectives
    ] == expected
    got = [(a["tensor"], a["rank"], a["ready_ns"]) for a in found.arrivals]
    assert sorted(got) == sorted(ticks)
    for arrival in found.arrivals:
        assert arrival["tensor"] in found.collectives[arrival["collective_id"]]["tensors"]
    assert all(c["group_size"] == 3 for c in found.collectives)
    assert found.said() == {}


@pytest.mark.parametrize("batch", [7, 1 << 16])
def test_many_collectives_leave_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """More than are held back, in batches small and large: row numbers stay those of the rows."""
    monkeypatch.setattr("mdtrace.ingest.horovod.rows._BATCH", batch)
    events = [name(1, "a"), name(2, "b")]
    for i in range(1000):
        pid = 1 + i % 2
        events += [
            begin(pid, 100 * i, "NEGOTIATE_ALLREDUCE"),
            tick(pid, 100 * i + 1, 0),
            tick(pid, 100 * i + 2, 1),
        ]
        events += [end(pid, 100 * i + 3), begin(pid, 100 * i + 4, "ALLREDUCE"), end(pid, 100 * i + 50)]
    found = read_text(json.dumps(events), tmp_path)
    assert [c["start_ns"] for c in found.collectives] == [100_000 * i + 4000 for i in range(1000)]
    assert [c["step"] for c in found.collectives] == [i // 2 for i in range(1000)]
    assert sorted({a["collective_id"] for a in found.arrivals}) == list(range(1000))
    for arrival in found.arrivals:
        collective = found.collectives[arrival["collective_id"]]
        assert 0 < collective["start_ns"] - arrival["ready_ns"] <= 3000
        assert found.ops[collective["host_op_id"]]["start_ns"] == collective["start_ns"]
