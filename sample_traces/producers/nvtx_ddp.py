"""Train MiniResNet on two processes over gloo, with NVTX ranges for steps, layers and communication.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29571 \\
        nsys profile -t nvtx --sample=none --cpuctxsw=none --export=sqlite -o rank0 \\
        python nvtx_ddp.py --straggler 1 --sleep 0.08
    (and the same with RANK=1 and -o rank1 beside it)

Needs torch, nvtx 0.2.11 and Nsight Systems 2023.4. One report for each rank. Then clean_nsys.py.
"""

import argparse
import time

import nvtx
import torch
from models import MiniResNet
from torch import distributed, nn
from torch.nn.functional import cross_entropy


def mark_layers(net: nn.Module) -> None:
    """A range around the forward of every convolution and linear layer."""
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_pre_hook(lambda *_, name=name: nvtx.push_range(f"layer:{name}") and None)
            module.register_forward_hook(lambda *_: nvtx.pop_range() and None)


def one_step(net: nn.Module, optimizer: torch.optim.Optimizer, seconds: float) -> None:
    x, y = torch.randn(8, *net.shape), torch.randint(0, 10, (8,))
    with nvtx.annotate("forward"):
        if seconds:
            with nvtx.annotate("straggler_sleep"):
                time.sleep(seconds)
        loss = cross_entropy(net(x), y)
    with nvtx.annotate("backward"):
        loss.backward()
    size = sum(4 * parameter.numel() for parameter in net.parameters())
    with nvtx.annotate("allreduce", payload=size, category="comm"):
        for parameter in net.parameters():
            distributed.all_reduce(parameter.grad)
            parameter.grad /= distributed.get_world_size()
    with nvtx.annotate("optimizer"):
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--straggler", type=int, default=-1)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group("gloo")
    net = MiniResNet()
    mark_layers(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(chosen.steps):
        with nvtx.annotate(f"step {step}", domain="train"):
            one_step(net, optimizer, chosen.sleep if distributed.get_rank() == chosen.straggler else 0.0)
    distributed.barrier()  # or the first to leave takes the connection from the other
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
