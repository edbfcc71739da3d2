"""Layers of convolutional networks as the operators that torch calls for them in a training step."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from mdtrace.costs import Call, Cost, Tensor, evaluate, model_of


def call(name: str, *arguments: object) -> Call:
    """A call as a trace would record it: tensors as they are, scalars and lists of them as text."""
    args = tuple(a if isinstance(a, Tensor) else None for a in arguments)
    return Call(name, args, tuple("" if a is None or isinstance(a, Tensor) else _text(a) for a in arguments))


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def cost(some: Call) -> Cost:
    """The work of a call.

    Raises:
        ValueError: there is no model, or it cannot tell.
    """
    model = model_of(some.name)
    found = None if model is None else evaluate(model, some)
    if found is None or found.flops is None or found.bytes is None:
        raise ValueError(f"{some.name}: {found.reason if found else 'no model'}")
    return found


@dataclass(frozen=True)
class Layer:
    """One layer: what it calls forward and backward in a training step, and its parameters."""

    name: str
    forward: Call
    backward: tuple[Call, ...]
    parameters: int = 0
    multiplies: bool = False  # a convolution or a linear layer: counts as multiply-accumulates

    def flops(self) -> int:
        return sum(cost(c).flops or 0 for c in (self.forward, *self.backward))

    def bytes(self) -> int:
        return sum(cost(c).bytes or 0 for c in (self.forward, *self.backward))


@dataclass
class Network:
    """Layers in order; `x` is the tensor that the next one takes."""

    name: str
    x: Tensor
    layers: list[Layer] = field(default_factory=list)

    def _add(self, kind: str, out: Tensor, forward: Call, backward: Iterable[Call], *rest: int) -> None:
        parameters = rest[0] if rest else 0
        multiplies = kind in ("conv", "fc")
        name = f"{kind}{len(self.layers)}"
        self.layers.append(Layer(name, forward, tuple(backward), parameters, multiplies))
        self.x = out

    def conv(
        self,
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        x, first = self.x, not self.layers
        weight = Tensor((channels, x.shape[1] // groups, kernel, kernel), "f32")
        offsets = Tensor((channels,), "f32") if bias else None
        settings = ((stride,) * 2, (padding,) * 2, (1, 1), False, (0, 0), groups)
        size = tuple((n + 2 * padding - kernel) // stride + 1 for n in x.shape[2:])
        out = Tensor((x.shape[0], channels, *size), "f32")
        mask = (not first, True, bias)  # nobody asks for the gradient of the images
        self._add(
            "conv",
            out,
            call("aten::convolution", x, weight, offsets, *settings),
            [call("aten::convolution_backward", out, x, weight, (channels,), *settings, mask)],
            weight.elements + (channels if bias else 0),
        )

    def norm(self) -> None:
        x, kept = self.x, Tensor((self.x.shape[1],), "f32")
        self._add(
            "norm",
            x,
            call("aten::native_batch_norm", x, kept, kept, kept, kept, True, 0.1, 1e-5),
            [call("aten::native_batch_norm_backward", x, x, kept, kept, kept, kept, kept, True, 1e-5)],
            2 * kept.elements,
        )

    def relu(self) -> None:
        x = self.x
        self._add("relu", x, call("aten::relu", x), [call("aten::threshold_backward", x, x, 0)])

    def max_pool(self, kernel: int, stride: int, padding: int = 0) -> None:
        x = self.x
        size = tuple((n + 2 * padding - kernel) // stride + 1 for n in x.shape[2:])
        out = Tensor((*x.shape[:2], *size), "f32")
        settings = ((kernel,) * 2, (stride,) * 2, (padding,) * 2, (1, 1), False)
        self._add(
            "pool",
            out,
            call("aten::max_pool2d_with_indices", x, *settings),
            [call("aten::max_pool2d_with_indices_backward", out, x, *settings, out.as_type("i64"))],
        )

    def mean_pool(self, kernel: int) -> None:
        """Average pooling with the stride of its window."""
        x = self.x
        out = Tensor((*x.shape[:2], *(n // kernel for n in x.shape[2:])), "f32")
        settings = ((kernel,) * 2, (kernel,) * 2, (0, 0), False, True, None)
        self._add(
            "pool",
            out,
            call("aten::avg_pool2d", x, *settings),
            [call("aten::avg_pool2d_backward", out, x, *settings)],
        )

    def linear(self, features: int) -> None:
        rows = self.x.shape[0]
        x = Tensor((rows, prod(self.x.shape[1:])), "f32")
        weight, bias = Tensor((features, x.shape[1]), "f32"), Tensor((features,), "f32")
        out = Tensor((rows, features), "f32")
        turned = Tensor((x.shape[1], features), "f32")
        backward = [
            call("aten::mm", out, weight),
            call("aten::mm", Tensor((features, rows), "f32"), x),
            call("aten::sum", out, (0,), True, None),
        ]
        self._add("fc", out, call("aten::addmm", bias, x, turned, 1, 1), backward, weight.elements + features)

    def add(self) -> None:
        """A shortcut's addition; its gradient goes both ways as it is."""
        self._add("add", self.x, call("aten::add", self.x, self.x, 1), [])

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiplies(self) -> int:
        """Multiply-accumulates of the forward pass, bias additions left out."""
        return sum((cost(layer.forward).flops or 0) // 2 for layer in self.layers if layer.multiplies)
