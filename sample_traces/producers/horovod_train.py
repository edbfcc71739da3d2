"""Train a small network with Horovod over gloo; Horovod itself writes the timeline.

    HOROVOD_TIMELINE=timeline.json HOROVOD_TIMELINE_MARK_CYCLES=1 HOROVOD_CACHE_CAPACITY=0 \\
        horovodrun --gloo -np 4 -H localhost:4 \\
        python horovod_train.py --model resnet --straggler 2 --sleep 0.15 --truth truth.jsonl

Needs Horovod 0.28 built for torch. HOROVOD_CACHE_CAPACITY=0 keeps the readiness ticks of every step;
HOROVOD_FUSION_THRESHOLD=0 sends every tensor alone. Each rank appends a line to the truth: who slept, and
wall time of each step.
"""

import argparse
import json
import time
from pathlib import Path

import horovod.torch as hvd
import torch
from models import MODELS
from torch.nn.functional import cross_entropy


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--straggler", type=int, default=-1)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds")
    return parser.parse_args()


def train(chosen: argparse.Namespace, net: torch.nn.Module, seconds: float) -> list[float]:
    """Run the steps; wall time of each in ms."""
    plain = torch.optim.SGD(net.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=net.named_parameters())
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    wall = []
    for step in range(chosen.steps):
        started = time.time_ns()
        x, y = torch.randn(chosen.batch, *net.shape), torch.randint(0, 10, (chosen.batch,))
        time.sleep(seconds)
        optimizer.zero_grad()
        loss = cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        hvd.allreduce(loss.detach(), name="avg_loss")
        hvd.allgather(torch.tensor([float(step + hvd.rank())]), name="gather_step")
        hvd.alltoall(torch.arange(hvd.size(), dtype=torch.float32), name="a2a_test")
        wall.append((time.time_ns() - started) / 1e6)
    return wall


def main() -> None:
    chosen = options()
    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = MODELS[chosen.model]()
    wall = train(chosen, net, chosen.sleep if hvd.rank() == chosen.straggler else 0.0)
    line = {
        "rank": hvd.rank(),
        "world": hvd.size(),
        "straggler": chosen.straggler,
        "sleep": chosen.sleep,
        "wall_ms": wall,
        "params": {name: 4 * parameter.numel() for name, parameter in net.named_parameters()},
    }
    with chosen.truth.open("a") as out:
        out.write(json.dumps(line) + "\n")
    hvd.shutdown()


if __name__ == "__main__":
    main()
