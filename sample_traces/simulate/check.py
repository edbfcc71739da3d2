"""Refuses what cannot be simulated."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulate.config import Config

POSITIVE = (
    "ranks", "gpus_per_host", "steps", "layers", "width", "tokens", "tensor", "pipeline", "microbatches",
)  # fmt: skip


def check(config: "Config") -> None:
    """Look at one configuration.

    Raises:
        ValueError: saying which setting is wrong.
    """
    for name in POSITIVE:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1")
    if config.ranks % (config.tensor * config.pipeline):
        raise ValueError("ranks must be a multiple of tensor × pipeline")
    if config.layers < config.pipeline:
        raise ValueError("every pipeline stage needs a layer")
    if config.strategy == "fsdp" and config.tensor * config.pipeline > 1:
        raise ValueError("fsdp is simulated without tensor and pipeline parallel groups")
    _check_stragglers(config)
    for name in ("offsets_ms", "drifts_ppm"):
        given = getattr(config, name)
        if given is not None and len(given) != config.hosts:
            raise ValueError(f"{name} needs one value for each of the {config.hosts} hosts")


def _check_stragglers(config: "Config") -> None:
    for straggler in config.stragglers:
        if not 0 <= straggler.rank < config.ranks:
            raise ValueError(f"straggler {straggler.rank} is no rank of 0 … {config.ranks - 1}")
        if straggler.delay_ns < 0:
            raise ValueError("a delay cannot be negative")
