"""Train a small network with DistributedDataParallel over gloo, under PyTorch's profiler.

    torchrun --standalone --nproc-per-node 2 torch_ddp.py --out DIR --model vgg --straggler 1 --sleep 0.1

Needs torch 2.13. Writes DIR/rank<r>.pt.trace.json.gz for each rank and DIR/truth.json: layers with their
FLOPs, by hand and by torch's counter, gradient bytes, who slept, and wall time of each step.
"""

import argparse
import gzip
import json
import shutil
import time
from pathlib import Path

import torch
from models import MODELS, layer_costs
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.flop_counter import FlopCounterMode

WAIT, WARMUP = 1, 1  # steps before the profiled ones


class SleepingWrapper(nn.Module):
    """Sleeps at the start of forward: a rank whose host is late."""

    def __init__(self, net: nn.Module, seconds: float) -> None:
        super().__init__()
        self.net = net
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.seconds:
            with record_function("mdtrace_straggler_sleep"):
                time.sleep(self.seconds)
        return self.net(x)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="resnet")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--straggler", type=int, default=-1)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds")
    parser.add_argument("--bucket-mb", type=float, default=25.0)
    return parser.parse_args()


def counted_flops(net: nn.Module, batch: int) -> dict[str, dict[str, int]]:
    """What torch counts for forward and backward, by module and operator."""
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(batch, *net.shape)).sum().backward()
    net.zero_grad(set_to_none=True)
    return {name: {str(op): n for op, n in ops.items()} for name, ops in counter.get_flop_counts().items()}


def train(model: nn.Module, shape: tuple[int, ...], chosen: argparse.Namespace, trace: Path) -> list[float]:
    """Run the steps; the trace appears at `trace`. Returns wall time of each step in ms."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    wall = []

    def export(profiler: profile) -> None:
        plain = trace.with_suffix("")
        profiler.export_chrome_trace(str(plain))
        with plain.open("rb") as source, gzip.open(trace, "wb", 6) as packed:
            shutil.copyfileobj(source, packed)
        plain.unlink()

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=chosen.steps, repeat=1),
        on_trace_ready=export,
        record_shapes=True,
        with_flops=True,
        with_stack=True,
        with_modules=True,
        profile_memory=True,
    ) as profiler:
        for _ in range(WAIT + WARMUP + chosen.steps):
            started = time.time_ns()
            one_step(model, optimizer, shape, chosen.batch)
            wall.append((time.time_ns() - started) / 1e6)
            profiler.step()
    return wall


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, shape: tuple[int, ...], batch: int) -> None:
    with record_function("data"):
        x, y = torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
    with record_function("forward"):
        loss = cross_entropy(model(x), y)
    with record_function("backward"):
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    distributed.all_reduce(mean)  # a blocking collective beside the gradient buckets


def main() -> None:
    chosen = options()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    chosen.out.mkdir(parents=True, exist_ok=True)
    net = MODELS[chosen.model]()
    costs, counted = layer_costs(net, chosen.batch), counted_flops(net, chosen.batch)
    wrapped = SleepingWrapper(net, chosen.sleep if rank == chosen.straggler else 0.0)
    model = DistributedDataParallel(wrapped, bucket_cap_mb=chosen.bucket_mb)
    wall = train(model, net.shape, chosen, chosen.out / f"rank{rank}.pt.trace.json.gz")
    walls: list[dict[str, object] | None] = [None] * world
    distributed.all_gather_object(walls, {"rank": rank, "wall_ms": wall})
    if rank == 0:
        parameters = sum(parameter.numel() for parameter in net.parameters())
        truth = {
            "model": chosen.model,
            "world": world,
            "batch": chosen.batch,
            "backend": "gloo",
            "torch": torch.__version__,
            "profiled_steps": chosen.steps,
            "wait": WAIT,
            "warmup": WARMUP,
            "straggler_rank": chosen.straggler,
            "sleep_s": chosen.sleep,
            "bucket_cap_mb": chosen.bucket_mb,
            "with_stack": True,
            "grad_bytes": 4 * parameters,
            "params": parameters,
            "hand_fwd_flops": costs,
            "hand_fwd_total": sum(int(str(row["flops_fwd"])) for row in costs),
            "flop_counter": counted,
            "per_rank_wall_ms": walls,
        }
        (chosen.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
