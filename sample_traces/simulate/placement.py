"""Which rank sits where, and which groups it belongs to."""

from dataclasses import dataclass

from simulate.config import Config
from simulate.events import Group

DATA_STREAM, TENSOR_STREAM, BEFORE_STREAM, AFTER_STREAM = 20, 24, 28, 32


@dataclass(frozen=True)
class Place:
    """One rank's place.

    Attributes:
        stage: of the pipeline; data, tensor: its groups; before, after: its pairs with neighbour stages.
    """

    rank: int
    host: int
    local_rank: int
    pid: int
    stage: int
    data: Group
    tensor: Group
    before: Group | None
    after: Group | None

    @property
    def groups(self) -> list[Group]:
        found = [self.data, self.tensor, self.before, self.after]
        return [group for group in found if group is not None and group.size > 1]


def places(config: Config) -> list[Place]:
    """All ranks in order. Neighbours in rank share a layer, then come copies of the model, then stages."""
    return [_place(config, rank) for rank in range(config.ranks)]


def _place(config: Config, rank: int) -> Place:
    tensor, data = config.tensor, config.data
    width = tensor * data
    stage, copy, part = rank // width, rank // tensor % data, rank % tensor
    copies = tuple(stage * width + c * tensor + part for c in range(data))
    shares = tuple(stage * width + copy * tensor + p for p in range(tensor))
    whole = data == config.ranks
    return Place(
        rank=rank,
        host=rank // config.gpus_per_host,
        local_rank=rank % config.gpus_per_host,
        # Containers number their processes alike: the same pids on every host.
        pid=4_100 + 7 * (rank % config.gpus_per_host),
        stage=stage,
        data=_group("0" if whole else "dp", "default_pg" if whole else "dp", copies, DATA_STREAM),
        tensor=_group("tp", "tp", shares, TENSOR_STREAM),
        before=_group("pp", "pp", (rank - width, rank), BEFORE_STREAM) if stage else None,
        after=_group("pp", "pp", (rank, rank + width), AFTER_STREAM) if stage < config.pipeline - 1 else None,
    )


def _group(name: str, desc: str, ranks: tuple[int, ...], stream: int) -> Group:
    """A group, named after its members where there are several of its sort."""
    full = (
        name
        if name == "0"
        else f"{name}_{'_'.join(map(str, ranks))}"
        if len(ranks) <= 8
        else f"{name}_{ranks[0]}_{ranks[-1]}"
    )
    mixed = 0x9E37_79B9_7F4A_7C15
    for rank in ranks:
        mixed = (mixed ^ (rank + 1) * 0x1_0000_01B3) * 0xBF58_476D_1CE4_E5B9 % 2**64
    return Group(full, desc, ranks, stream, mixed)
