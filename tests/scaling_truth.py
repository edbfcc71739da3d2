"""Gradients of a simulated job as its truth has them, without traces."""

from collections import defaultdict

import numpy as np

from mdtrace.models.gradients import GradientTrace, Messages
from simulate import Config, Job, job
from simulate.model import ELEMENT

WARM_UP = 2  # steps at the start that are left out


def step_ns(simulated: Job) -> float:
    """The median step of rank 0, from start to start, after warm-up."""
    starts = sorted(s["true_start_ns"] for s in simulated.truth["steps"] if s["rank"] == 0)
    return float(np.median(np.diff(starts)[WARM_UP - 1 :]))


def run(config: Config) -> tuple[GradientTrace, float]:
    """A simulated job's gradients and its step."""
    simulated = job(config)
    return gradients(simulated), step_ns(simulated)


def gradients(simulated: Job) -> GradientTrace:
    """What `mdtrace.models.gradients` should read from the job's traces."""
    config, truth = simulated.config, simulated.truth
    ready: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for row in truth["gradients"]:
        ready[row["step"], row["rank"]][row["tensor"]] = row["true_ready_ns"]
    sent = [c for c in truth["collectives"] if c["kind"] == "all_reduce" and c["step"] is not None]
    over = {key: max(times.values()) for key, times in ready.items()}
    for c in sent:
        for rank, end in c["true_end_ns"].items():
            over[c["step"], int(rank)] = max(over[c["step"], int(rank)], end)
    steps, ranks = sorted({step for step, _ in ready})[WARM_UP:], range(config.ranks)
    last = ready[steps[-1], 0]
    names = sorted(last, key=lambda name: last[name])
    sizes = {name: ELEMENT * size for layer in truth["layers"] for name, size in layer["parameters"].items()}
    return GradientTrace(
        world=config.ranks,
        members=config.ranks,
        hosts=config.hosts,
        names=tuple(names),
        sizes=np.array([sizes[name] for name in names], float),
        steps=np.array(steps),
        left_out=WARM_UP,
        ready=np.array(
            [[[ready[s, r][n] - over[s - 1, r] for n in names] for r in ranks] for s in steps], float
        ),
        period=np.array([[over[s, r] - over[s - 1, r] for r in ranks] for s in steps], float),
        stops=tuple(np.cumsum([len(c["tensors"]) for c in sent if c["step"] == s]) for s in steps),
        messages=Messages(
            np.array([c["payload_bytes"] for c in sent], float),
            np.array([max(c["true_arrival_ns"].values()) for c in sent]),
            np.array([max(c["true_end_ns"].values()) for c in sent]),
            np.array([c["step"] for c in sent]),
            transfer=True,
        ),
        origin="device",
        cycle_ns=None,
    )
