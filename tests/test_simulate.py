"""The simulated job obeys its physics, is the same for the same seed, and its truth is true."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate import CAUSES, Config, Job, Link, Straggler, job
from simulate.engine import GAP_NS
from simulate.events import HostOp, Task
from simulate.network import root_leaves_early_ns

SMALL = Config(layers=4, steps=3)


@pytest.fixture(scope="module")
def default() -> Job:
    return job(Config(stragglers=(Straggler(5),)))


@st.composite
def configs(draw: st.DrawFn) -> Config:
    ranks = draw(st.sampled_from([1, 2, 4, 8]))
    strategy = draw(st.sampled_from(["ddp", "fsdp"]))
    sharing = [1, 2] if strategy == "ddp" and ranks >= 4 else [1]
    late = Straggler(draw(st.integers(0, ranks - 1)), 2_000_000, draw(st.sampled_from(CAUSES)))
    return Config(
        ranks=ranks,
        gpus_per_host=draw(st.sampled_from([2, 3, 8])),
        steps=2,
        layers=draw(st.integers(2, 5)),
        strategy=strategy,
        tensor=draw(st.sampled_from(sharing)),
        pipeline=draw(st.sampled_from(sharing)),
        fusion=draw(st.sampled_from(["ddp", "threshold", "none", "one"])),
        startup=draw(st.booleans()),
        stragglers=(late,),
        seed=draw(st.integers(0, 99)),
    )


@settings(max_examples=25, deadline=None)
@given(configs())
def test_every_job_obeys_its_physics(config: Config) -> None:
    made = job(config)
    for trace in made.ranks:
        check_streams(trace.tasks)
        check_nesting(trace.host_ops)
        check_steps(made, trace.rank)
    check_collectives(made)


def check_streams(tasks: list[Task]) -> None:
    """An activity starts when it is launched, its stream is free and what it waits for is over: not later."""
    before: dict[int, Task] = {}
    for task in tasks:
        bounds = [task.ready] + [waited.end + GAP_NS for waited in task.waits]
        if task.stream in before:
            bounds.append(before[task.stream].end + GAP_NS)
        assert task.start == max(bounds)
        assert task.launch.start < task.ready
        assert task.end > task.start
        before[task.stream] = task


def check_nesting(ops: list[HostOp]) -> None:
    """Spans of a thread lie inside their parent, and siblings do not overlap."""
    ends: dict[int | None, int] = {}
    for op in ops:
        assert op.start < op.end
        if op.parent is not None:
            assert op.parent.start < op.start
            assert op.end < op.parent.end
            assert op.parent.thread == op.thread
        key = id(op.parent) if op.parent is not None else hash(op.thread)
        assert op.start >= ends.get(key, 0)
        ends[key] = op.end


def check_steps(made: Job, rank: int) -> None:
    """Work of a step is over before the next step begins on the host."""
    trace = made.ranks[rank]
    for step, following in pairwise(trace.steps):
        assert step.end <= following.start
        assert max(t.end for t in trace.tasks if t.step == step.step) <= following.start


def check_collectives(made: Job) -> None:
    for collective in made.collectives:
        assert sorted(collective.members) == list(collective.group.ranks)
        tasks = {rank: member.task for rank, member in collective.members.items()}
        starts = [task.start for task in tasks.values() if task is not None]
        over = max(starts) + collective.transfer
        for rank, task in tasks.items():
            assert task is not None
            early = (
                root_leaves_early_ns(made.config, collective.group)
                if collective.kind == "broadcast" and rank == collective.source
                else 0
            )
            assert 0 <= task.end + early - over <= made.config.end_jitter_ns
            for source in collective.members[rank].ready.values():
                assert source.end + GAP_NS <= task.start


def test_a_stage_or_host_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="straggler 8 is no rank"):
        Config(stragglers=(Straggler(8),))
    with pytest.raises(ValueError, match="one value for each of the 2 hosts"):
        Config(offsets_ms=(1.0,))
    with pytest.raises(ValueError, match="multiple of tensor × pipeline"):
        Config(ranks=6, tensor=4)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        Config(steps=0)


def test_same_seed_same_job_other_seed_another() -> None:
    assert job(SMALL).truth == job(SMALL).truth
    assert job(SMALL).truth["accounting"] != job(replace(SMALL, seed=1)).truth["accounting"]


def test_clocks_read_true_time_with_offset_and_drift() -> None:
    made = job(replace(SMALL, offsets_ms=(0.0, 2.5), drifts_ppm=(0.0, 40.0)))
    assert made.read(3, 10**9) == made.config.epoch_ns + 10**9
    assert made.read(4, 10**9) == made.config.epoch_ns + 10**9 + 2_500_000 + 40_000
    assert [host["offset_ns"] for host in made.truth["hosts"]] == [0, 2_500_000]


def test_drawn_clocks_differ_and_host_0_is_exact() -> None:
    first, second = job(SMALL).clocks
    assert (first.offset_ns, first.drift_ppm) == (0, 0.0)
    assert abs(second.offset_ns) > 1_000


@pytest.mark.parametrize("cause", CAUSES)
def test_the_straggler_is_last_and_blamed_for_its_delay(cause: Any) -> None:
    made = job(replace(SMALL, stragglers=(Straggler(5, 3_000_000, cause),)))
    for step in range(3):
        first = next(c for c in made.truth["collectives"] if c["step"] == step)
        assert first["last"] == 5
        assert first["lead_ns"] > 200_000
        lost = [row["lost_ns"] for row in made.truth["lost"] if row["step"] == step and row["rank"] != 5]
        assert all(2_000_000 < ns < 5_000_000 for ns in lost)
    assert made.truth["blame"]["5"] > 0.99


def test_without_a_straggler_nobody_loses_much() -> None:
    assert max(row["lost_ns"] for row in job(SMALL).truth["lost"]) < 300_000


def test_a_straggler_may_be_late_in_some_steps_only() -> None:
    made = job(replace(SMALL, stragglers=(Straggler(2, 3_000_000, "host", steps=(1,)),)))
    worst = [max(r["lost_ns"] for r in made.truth["lost"] if r["step"] == step) for step in range(3)]
    assert worst[1] > 2_000_000
    assert max(worst[0], worst[2]) < 300_000


def test_a_slower_clock_keeps_shapes_and_a_larger_batch_does_not() -> None:
    clock = job(replace(SMALL, stragglers=(Straggler(5, cause="clock"),)))
    compute = job(replace(SMALL, stragglers=(Straggler(5, cause="compute"),)))
    gemms = [[t for t in made.ranks[5].tasks if "gemm" in t.name] for made in (job(SMALL), clock, compute)]
    plain, slower, larger = gemms
    assert [t.grid for t in slower] == [t.grid for t in plain]
    assert all(b.duration > 1.3 * a.duration for a, b in zip(plain, slower, strict=True))
    assert sum(b.grid != a.grid for a, b in zip(plain, larger, strict=True)) > len(plain) / 2


def test_transfers_follow_the_ring() -> None:
    """2·7 hops of 12 µs and 2·7/8 of the bytes at 40 GB/s between hosts; 2·3 of 3 µs and 200 GB/s inside."""
    exact = replace(SMALL, jitter=0.0, fusion="one")
    across = next(c for c in job(exact).collectives if c.kind == "all_reduce")
    inside = next(c for c in job(replace(exact, ranks=4)).collectives if c.kind == "all_reduce")
    assert across.transfer == round(14 * 12_000 + 14 / 8 * across.payload / 40)
    assert inside.transfer == round(6 * 3_000 + 6 / 4 * inside.payload / 200)


def test_fusion_packs_gradients_as_its_rule_says() -> None:
    """Gradients in the order they are ready, in elements: 4 M, 2 M, 8 M, 4 M weights with their biases."""
    config = replace(SMALL, startup=False, steps=1)
    sizes = {
        fusion: [c.payload for c in job(replace(config, fusion=fusion)).collectives]
        for fusion in ("none", "one", "threshold", "ddp")
    }
    gradients = sizes["none"]
    assert sizes["one"] == [sum(gradients)]
    assert len(gradients) == 8
    assert max(sizes["threshold"]) <= 25 << 20
    assert sizes["ddp"][0] == sum(gradients[:2])  # the first bucket closes at 1 MiB
    assert all(sum(s) == sum(gradients) for s in sizes.values())


def test_the_optimizer_waits_for_every_gradient(default: Job) -> None:
    for trace in default.ranks:
        for step in range(6):
            reduced = max(t.end for t in trace.tasks if t.step == step and t.collective is not None)
            updates = [t.start for t in trace.tasks if t.step == step and t.phase == "optimizer"]
            assert min(updates) >= reduced


def test_accounting_is_what_counting_every_ns_gives(default: Job) -> None:
    rows = [r for r in default.truth["accounting"] if r["rank"] == 5 and r["step"] != "all"]
    for row in rows[:3]:
        start, span = row["start_ns"], row["span_ns"]
        busy = {name: np.zeros(span, dtype=bool) for name in ("compute", "comm", "memory")}
        for task in default.ranks[5].tasks:
            name = "memory" if task.kind != "kernel" else "comm" if task.collective else "compute"
            first, last = (default.read(5, at) - start for at in (task.start, task.end))
            busy[name][max(0, first) : max(0, last)] = True
        compute, comm, memory = busy.values()
        assert row["compute_ns"] == compute.sum()
        assert row["overlap_ns"] == (compute & comm).sum()
        assert row["exposed_comm_ns"] == (comm & ~compute).sum()
        assert row["exposed_memory_ns"] == (memory & ~comm & ~compute).sum()
        assert row["idle_ns"] == span - (compute | comm | memory).sum()


def test_steps_tile_the_capture(default: Job) -> None:
    for rank in range(8):
        whole, *windows = [r for r in default.truth["accounting"] if r["rank"] == rank]
        assert [w["step"] for w in windows] == [None, 0, 1, 2, 3, 4, 5]
        assert all(a["end_ns"] == b["start_ns"] for a, b in pairwise(windows))
        for column in ("compute_ns", "comm_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "span_ns"):
            assert sum(w[column] for w in windows) == whole[column]


def test_layers_carry_flops_and_gradients() -> None:
    first, second, *_ = job(SMALL).truth["layers"]
    assert first["path"] == "DistributedDataParallel_0/Net_0/Linear_0"
    assert (first["inputs"], first["outputs"]) == (1024, 4096)
    assert first["gradient_bytes"] == 2 * (1024 * 4096 + 4096)
    assert first["flops_forward"] == first["flops_backward"] == 2 * 8192 * 1024 * 4096
    assert second["flops_backward"] == 2 * second["flops_forward"]


def test_groups_of_a_job_with_three_kinds_of_parallelism() -> None:
    made = job(replace(SMALL, tensor=2, pipeline=2, steps=1))
    groups = {g["name"]: g["ranks"] for g in made.truth["groups"]}
    assert groups["tp_0_1"] == [0, 1]
    assert groups["dp_0_2"] == [0, 2]
    assert groups["pp_0_4"] == [0, 4]
    sends = [c for c in made.truth["collectives"] if c["kind"] == "send_recv" and c["group"] == "pp_0_4"]
    assert [(c["source"], c["target"]) for c in sends] == [(0, 4)] * 4 + [(4, 0)] * 4


def test_more_ranks_over_slow_links_take_longer_steps() -> None:
    """As a scaling study reads it: one rank, one host, several hosts."""
    spans = []
    for ranks in (1, 4, 16):
        rows = job(Config(ranks=ranks, steps=3, jitter=0.0)).truth["steps"]
        spans.append(max(r["true_end_ns"] - r["true_start_ns"] for r in rows if r["step"] == 2))
    assert spans[0] < spans[1] < spans[2]


def test_step_time_follows_the_overlap_recursion() -> None:
    """Buckets go one after the other, each once ready: s = max(r, e of the one before), e = s + transfer."""
    links = {"nvlink": Link(0, 1e12), "net": Link(10_000, 5e9)}
    made = job(Config(steps=2, jitter=0.0, links=links))
    own = [c for c in made.collectives if c.step == 1]
    assert len(own) > 2
    end = 0
    for collective in own:
        ready = max(t.end for m in collective.members.values() for t in m.ready.values())
        end = max(ready, end) + collective.transfer
        ends = [m.task.end for m in collective.members.values() if m.task is not None]
        assert max(ends) == pytest.approx(end, abs=60_000)
