"""What-ifs of datasets: the worked numbers from traces, simulated jobs against their runs without a fault,
real runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mdtrace.build.job import build
from mdtrace.errors import InputError
from mdtrace.models.graph import dataset_job
from mdtrace.models.whatif import Edit, WhatIf
from mdtrace.models.whatif_tables import workers
from shared import ROOT, shared
from simulate import Config, Link, Straggler, job, write_horovod, write_kineto, write_nsys

EPOCH_NS = 1_760_000_000_000_000_000
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def _golden_rank(rank: int, golden: dict) -> dict:
    """A rank whose steps are the rounds: launched at once, then two kernels each, on one stream; µs."""
    work, transfer = golden["inputs"]["local_work"], golden["inputs"]["transfer"]
    clock = 1_000_000 + golden["inputs"]["clock_offsets"][rank] * 1000
    events, now = [], 0
    for step, round_work in enumerate(work):
        own, moved = round_work[rank] * 1000, (max(round_work) + transfer) * 1000
        about = {
            "Collective name": "allreduce",
            "In msg nelems": 1024,
            "Out msg nelems": 1024,
            "dtype": "Float",
        }
        about |= {
            "Group size": 4,
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1, 2, 3]",
            "Seq": step,
        }
        host = {"ph": "X", "pid": 9, "tid": 9, "ts": clock + step / 1000}
        events.append({**host, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "dur": 0.001})
        for i, (name, begin, length) in enumerate([("gemm", 0, own), (NCCL, own, moved - own)]):
            ids = {"correlation": 2 * step + i + 1}
            events.append({**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 0, "args": ids})
            args = {"device": 0, "context": 1, "stream": 7} | ids | (about if i else {})
            times = {"ts": clock + now + begin, "dur": length}
            events.append(
                {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, **times, "args": args}
            )
        now += moved
    info = {"backend": "nccl", "rank": rank, "world_size": 4}
    about_file = {"distributedInfo": info, "host_name": f"node{rank}", "baseTimeNanoseconds": EPOCH_NS}
    return about_file | {"traceEvents": events}


def test_worked_numbers_from_traces(tmp_path: Path):
    golden = json.loads(shared("spec", "golden.json").read_text())["straggler"]
    files = [tmp_path / f"rank{r}.json" for r in range(4)]
    for rank, file in enumerate(files):
        file.write_text(json.dumps(_golden_rank(rank, golden)))
    whatif = WhatIf(dataset_job(build(files, tmp_path / "d.mdtrace")))
    found = whatif.slowdown()
    assert found.error == 0
    # Of three steps; the launches, 1 ns apart from step to step, leave a fraction of a ns.
    assert 3 * found.replayed_ns == golden["T"] * 1e6
    assert 3 * found.ideal_ns == pytest.approx(golden["T_ideal"] * 1e6, abs=1)
    assert found.slowdown == pytest.approx(golden["S"], abs=5e-7)
    assert found.waste == pytest.approx(golden["waste"], abs=1e-6)
    rows = workers(whatif).sort_by("rank").to_pydict()
    assert rows["slowdown"] == pytest.approx(golden["S_rank"], abs=5e-7)
    assert [3 * t / 1e6 for t in rows["without_ns"]] == pytest.approx(
        golden["T_with_rank_made_ideal"], abs=1e-6
    )
    assert whatif.answer(Edit(ranks=(3,))).speed_up == pytest.approx(1.263158, abs=5e-7)


_SIZE = {"ranks": 8, "gpus_per_host": 4, "steps": 3, "layers": 4, "tokens": 4096}


def _simulated(config: Config, folder: Path, kind: str = "kineto") -> WhatIf:
    simulated = job(config)
    write = {
        "kineto": lambda: write_kineto(simulated, folder),
        "nsys": lambda: write_nsys(simulated, folder, per_rank=False),
        "horovod": lambda: [write_horovod(simulated, folder, cached=False)],
    }
    return WhatIf(dataset_job(build(write[kind](), folder / "d.mdtrace")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "cause", "rank", "kind"),
    [
        ({}, "host", 5, "kineto"),
        ({}, "compute", 2, "nsys"),
        ({"strategy": "fsdp"}, "clock", 3, "kineto"),
        ({"tensor": 2, "pipeline": 2}, "data", 5, "kineto"),
        ({"pipeline": 4}, "copy", 1, "kineto"),
        ({}, "compute", 1, "horovod"),
    ],
)
def test_a_straggler_made_like_the_others_gives_back_the_run_without_it(tmp_path, layout, cause, rank, kind):
    clean = Config(**_SIZE, **layout)
    late = replace(clean, stragglers=(Straggler(rank, 3_000_000, cause),))
    folders = [tmp_path / "clean", tmp_path / "late"]
    for folder in folders:
        folder.mkdir()
    without, whatif = _simulated(clean, folders[0], kind), _simulated(late, folders[1], kind)
    found = whatif.slowdown()
    assert found.error < 0.001
    assert found.worst == (rank,)
    assert found.measured_ns > 1.2 * without.measured
    recovered = whatif.answer(Edit(ranks=(rank,), reference="others")).after_ns
    assert recovered == pytest.approx(without.measured, rel=0.02)


def test_made_ideal_a_rank_keeps_its_share_of_its_own_delay(tmp_path: Path):
    """The mean over all 8 ranks holds an eighth of what the straggler lost."""
    folders = [tmp_path / "clean", tmp_path / "late"]
    for folder in folders:
        folder.mkdir()
    without = _simulated(Config(**_SIZE), folders[0]).measured
    late = _simulated(Config(**_SIZE, stragglers=(Straggler(5, 4_000_000, "data"),)), folders[1])
    assert late.answer(Edit(ranks=(5,))).after_ns == pytest.approx(without + 4e6 / 8, rel=0.01)


@pytest.mark.parametrize(
    ("parts", "worst", "gain"),
    [
        (("own", "torch_gloo", "resnet_w4_straggler2"), 2, 1.15),
        (("own", "torch_gloo", "vgg_w2_straggler1"), 1, 1.2),
        (("own", "horovod", "resnet_w4_straggler2_nocache"), 2, 1.3),
        (("own", "nsys_cpu", "ddp_w2_straggler1"), 1, 1.2),
    ],
)
def test_real_stragglers(tmp_path: Path, parts: tuple[str, ...], worst: int, gain: float):
    folder = shared("traces", *parts)
    files = [f for f in sorted(folder.iterdir()) if not f.name.startswith("truth")]
    whatif = WhatIf(dataset_job(build(files, tmp_path / "d.mdtrace")))
    found = whatif.slowdown()
    assert found.error < 0.001
    assert found.worst == (worst,)
    assert whatif.answer(Edit(ranks=(worst,))).speed_up > gain


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("dlrm_v100_8rank", 0.002),
        ("nccl_a100_rank0of2.json.gz", 0.001),
        ("resnet50_mi300x_rank0of8.json.gz", 0.005),
        ("resnet50_v100_2021_old_categories.pt.trace.json.gz", 0.002),
        ("eager_b200_rank0of8.json.gz", 0.002),
        ("bert_small_h100.json.gz", 0.002),
    ],
)
def test_real_steps_are_reproduced(tmp_path: Path, name: str, error: float):
    path = shared("traces", "kineto", name)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    whatif = WhatIf(dataset_job(build(files, tmp_path / "d.mdtrace")))
    assert whatif.error < error
    assert whatif.measured > 1e6


def test_a_timeline_without_ticks_is_refused_with_the_hint(tmp_path: Path):
    source = ROOT / "sample_traces" / "horovod_resnet_w4_cycles_straggler2" / "timeline.json"
    with pytest.raises(InputError, match="not recorded in any step but the first") as refused:
        dataset_job(build([source], tmp_path / "d.mdtrace"))
    assert "HOROVOD_CACHE_CAPACITY=0" in (refused.value.hint or "")


@pytest.mark.slow
@pytest.mark.parametrize("layout", [{"strategy": "fsdp"}, {"tensor": 2, "pipeline": 2}])
def test_a_faster_network_gives_the_run_on_one(tmp_path: Path, layout):
    clean = Config(**_SIZE, **layout, jitter=0.0)
    links = {k: Link(v.latency_ns // 2, 2 * v.bytes_per_s) for k, v in clean.links.items()}
    folders = [tmp_path / "slow", tmp_path / "fast"]
    for folder in folders:
        folder.mkdir()
    slow, fast = _simulated(clean, folders[0]), _simulated(replace(clean, links=links), folders[1])
    assert slow.measured > 1.1 * fast.measured
    assert slow.answer(Edit(network=2)).after_ns == pytest.approx(fast.measured, rel=0.02)
