"""Placements of simulated jobs, predicted from other placements: how far off."""

import numpy as np
import pytest

from mdtrace.models.topology import Level, Placement, Topology
from mdtrace.models.topology_predict import Run, predict
from scaling_truth import step_ns
from simulate import Config, job
from simulate.config import Link

SLOW = {"nvlink": Link(3_000, 50e9), "pcie": Link(6_000, 12e9), "net": Link(12_000, 5e9)}
CLUSTER = Topology((Level("in"), Level("net", between=True)))
# GPUs, GPUs of a node, samples
RAN = [
    (1, 1, 4096), (1, 1, 8192), (2, 2, 8192), (4, 4, 8192), (4, 4, 2048), (8, 8, 4096), (4, 2, 8192),
    (8, 4, 4096), (16, 8, 8192),
]  # fmt: skip
ASKED = [
    (2, 2, 4096), (8, 8, 8192), (8, 2, 8192), (4, 1, 4096), (16, 4, 4096), (24, 8, 6144), (16, 2, 16384),
]  # fmt: skip


def _run(gpus: int, per_node: int, tokens: int, **settings: object) -> Run:
    config = Config(ranks=gpus, gpus_per_host=per_node, tokens=tokens, steps=4, layers=4, **settings)
    simulated = job(config)
    sent = [c for c in simulated.truth["collectives"] if c["kind"] == "all_reduce" and c["step"] == 2]
    size = sum(c["payload_bytes"] for c in sent)
    placement = Placement(gpus, config.hosts, tokens, size, len(sent))
    return Run(f"{gpus}", placement, step_ns(simulated) * 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"width": 2048, "fusion": "none"}, {"links": SLOW}, {"links": SLOW, "intra": "pcie"}],
    ids=["fast links", "small layers", "slow links", "slow links inside too"],
)
def test_held_out_placements_of_simulated_jobs(settings: dict[str, object]):
    runs = [_run(*placement, **settings) for placement in RAN]
    new = [_run(*placement, **settings) for placement in ASKED]
    study = predict(runs, [run.placement for run in new], CLUSTER)
    accuracies = [
        1 - abs(asked.prediction.step_s / run.step_s - 1) for asked, run in zip(study.asked, new, strict=True)
    ]
    assert np.mean(accuracies) > 0.955, accuracies
    assert min(accuracies) > 0.88, accuracies
    # Its own account of its error holds as well.
    assert study.held_out[2] == len(runs)
    assert study.accuracy > 0.94
