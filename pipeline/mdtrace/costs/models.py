"""All declared models: importing the topics registers them."""

from functools import lru_cache

from mdtrace.costs import (
    attention,
    collective,
    convolution,
    elementwise,
    embedding,
    gemm,
    loss,
    movement,
    normalisation,
    optimizer,
    pooling,
    quantised,
    recurrent,
    reduction,
    resampling,
    serving,
    softmax,
    triton,
)
from mdtrace.costs.registry import FAMILIES, MODELS, Model

TOPICS = (
    gemm, convolution, attention, normalisation, softmax, elementwise, reduction, pooling, embedding, loss,
    optimizer, movement, quantised, serving, recurrent, resampling, triton,
    collective,
)  # fmt: skip


@lru_cache(maxsize=65536)
def model_of(name: str) -> Model | None:
    """The model for an operator's name, None where there is none."""
    if name in MODELS:
        return MODELS[name]
    return next((model for pattern, model in FAMILIES if pattern.fullmatch(name)), None)
