"""What a collective takes once every member has arrived: latency and bandwidth of its ring."""

from simulate.config import Config, Link
from simulate.events import Group


def link_class(config: Config, group: Group) -> str:
    """The worst class of link on the ring of a group."""
    hosts = {rank // config.gpus_per_host for rank in group.ranks}
    return config.inter if len(hosts) > 1 else config.intra


def transfer_ns(config: Config, group: Group, kind: str, payload: int) -> float:
    """Time of one collective, α + β·payload: n members, latency a and bandwidth B of the worst link.

    all-reduce: 2(n−1)·a + 2(n−1)/n·S/B; all-gather, reduce-scatter: half of it; broadcast: (n−1)·a + S/B;
    send/recv: a + S/B.

    Args:
        payload: bytes S, as nccl-tests counts them.
    """
    alpha, beta = alpha_beta(config.links[link_class(config, group)], group.size, kind)
    return alpha + beta * payload


def alpha_beta(link: Link, size: int, kind: str) -> tuple[float, float]:
    """α in ns and β in ns per byte of a collective of `size` members."""
    per_byte = 1e9 / link.bytes_per_s
    hops = size - 1
    if kind == "all_reduce":
        return 2 * hops * link.latency_ns, 2 * hops / size * per_byte
    if kind in ("all_gather", "reduce_scatter"):
        return hops * link.latency_ns, hops / size * per_byte
    if kind == "broadcast":
        return hops * link.latency_ns, per_byte
    if kind == "send_recv":
        return float(link.latency_ns), per_byte
    raise ValueError(f"no cost is known for {kind}")


def root_leaves_early_ns(config: Config, group: Group) -> int:
    """How long before the others the root of a broadcast is done: the last bytes still travel on."""
    return (group.size - 2) * config.links[link_class(config, group)].latency_ns
