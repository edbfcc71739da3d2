"""How gradients are packed into buckets."""

from simulate.config import Config
from simulate.model import ELEMENT, Layer

Tensor = tuple[str, int, int]
"""Name, elements, layer."""


def gradients(own: list[Layer]) -> list[Tensor]:
    """Gradients in the order backward makes them ready: last layer first, last parameter first."""
    return [(name, size, layer.index) for layer in reversed(own) for name, size in reversed(layer.parameters)]


def buckets(config: Config, own: list[Layer]) -> list[list[Tensor]]:
    """Gradients packed by the rule of the job; a bucket is sent when its last gradient is ready."""
    tensors = gradients(own)
    if config.fusion == "none":
        return [[tensor] for tensor in tensors]
    if config.fusion == "one":
        return [tensors]
    if config.fusion == "threshold":
        return _below(tensors, config.bucket_bytes)
    return _reaching(tensors, config.first_bucket_bytes, config.bucket_bytes)


def _below(tensors: list[Tensor], cap: int) -> list[list[Tensor]]:
    """A bucket closes before the tensor that would pass the cap."""
    packed: list[list[Tensor]] = []
    size = 0
    for tensor in tensors:
        added = tensor[1] * ELEMENT
        if not packed or size + added > cap:
            packed.append([])
            size = 0
        packed[-1].append(tensor)
        size += added
    return packed


def _reaching(tensors: list[Tensor], first: int, cap: int) -> list[list[Tensor]]:
    """A bucket closes once it reaches its size."""
    packed: list[list[Tensor]] = [[]]
    size = 0
    for tensor in tensors:
        packed[-1].append(tensor)
        size += tensor[1] * ELEMENT
        if size >= (first if len(packed) == 1 else cap):
            packed.append([])
            size = 0
    return [bucket for bucket in packed if bucket]
