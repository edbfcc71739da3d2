"""Forward and backward pass of one rank: operators, frames, kernels."""

from simulate.config import Config
from simulate.events import COMPUTE_STREAM, HostOp, Task
from simulate.exchange import Exchanges
from simulate.host import Host
from simulate.model import TORCH_TYPE, Kernel, Layer, backward, elementwise, forward
from simulate.placement import Place

WRAPPERS = {"ddp": "DistributedDataParallel_0", "fsdp": "FullyShardedDataParallel_0"}
T, SCALAR = TORCH_TYPE, "Scalar"


class Passes:
    """Runs the layers of one stage.

    Attributes:
        rows: of the batch; more than the other ranks' where this one has more to compute.
        factor: stretches every kernel.
    """

    def __init__(
        self, config: Config, place: Place, host: Host, exchanges: Exchanges, own: list[Layer]
    ) -> None:
        self.config = config
        self.place = place
        self.host = host
        self.exchanges = exchanges
        self.own = own
        self.rows = exchanges.rows
        self.factor = 1.0
        self._sequence = 0
        self._sequences: dict[tuple[int, int], int] = {}

    def kernel(self, kernel: Kernel, layer: Layer | None, phase: str) -> Task:
        task = self.host.launch(kernel, self.factor)
        task.layer, task.phase = (None if layer is None else layer.index), phase
        return task

    def forward(self, part: int, late: int) -> None:
        """One part of the batch; the host sleeps for `late` ns first."""
        host, own, exchanges = self.host, self.own, self.exchanges
        wrapper = f"nn.Module: {WRAPPERS[self.config.strategy]}"
        with host.span("module", wrapper), host.span("module", "nn.Module: Net_0"):
            if late:
                with host.span("python", "<built-in function sleep>"):
                    host.sleep(late)
            exchanges.pass_on(self.place.before, own[0].inputs, "recv")
            gathered = exchanges.gather(own[0])
            for local, (layer, following) in enumerate(zip(own, [*own[1:], None], strict=True)):
                ahead = exchanges.gather(following)
                host.wait_for(COMPUTE_STREAM, gathered)
                gathered = ahead
                self._layer_forward(local, layer, part)
            exchanges.pass_on(self.place.after, own[-1].outputs, "send")
        if self.place.after is None:
            self._loss(part)

    def _layer_forward(self, local: int, layer: Layer, part: int) -> None:
        host = self.host
        product, relu = forward(self.config.gpu, layer, self.rows)
        weight, bias = [layer.outputs, layer.inputs], [layer.outputs]
        x, y = [self.rows, layer.inputs], [self.rows, layer.outputs]
        sequence = self._sequences[layer.index, part] = self._sequence
        self._sequence += 3  # t, addmm and relu
        with host.span("module", f"nn.Module: Linear_{local}") as frame:
            frame.module_id = local
            with host.span("operator", "aten::linear", [x, weight, bias], [T] * 3, sequence):
                with host.span("operator", "aten::t", [weight], [T], sequence):
                    host.spend(600)
                dims: list[object] = [bias, x, weight[::-1], [], []]
                with host.span("operator", "aten::addmm", dims, [T] * 3 + [SCALAR] * 2, sequence + 1):
                    self.kernel(product, layer, "forward")
            self.exchanges.share("all_reduce", layer.outputs)
        with host.span("module", f"nn.Module: ReLU_{local}") as frame:
            frame.module_id = local
            with (
                host.span("operator", "aten::relu", [y], [T], sequence + 2),
                host.span("operator", "aten::clamp_min", [y, []], [T, SCALAR]),
            ):
                self.kernel(relu, layer, "forward")

    def _loss(self, part: int) -> None:
        shape = [self.rows, self.own[-1].outputs]
        self._sequences[-1, part] = self._sequence
        with self.host.span("operator", "aten::mse_loss", [shape, shape, []], [T, T, SCALAR], self._sequence):
            self.kernel(elementwise(self.config.gpu, "mse_loss", shape[0] * shape[1], 3), None, "forward")
        self._sequence += 1

    def backward(self, part: int, last: bool) -> None:
        """One part of the batch, on autograd's thread, while the main thread waits."""
        host, own, exchanges = self.host, self.own, self.exchanges
        with host.span("python", "torch/_tensor.py(570): backward"):
            host.spend(9_000)
            host.switch("autograd")
            if self.place.after is None:
                self._loss_backward(part)
            exchanges.pass_on(self.place.after, own[-1].outputs, "recv")
            gathered = exchanges.gather(own[-1])
            for layer, following in zip(own[::-1], [*own[-2::-1], None], strict=True):
                ahead = exchanges.gather(following)
                host.wait_for(COMPUTE_STREAM, gathered)
                gathered = ahead
                self._layer_backward(layer, part, last)
            exchanges.pass_on(self.place.before, own[0].inputs, "send")
            host.switch("main")

    def _loss_backward(self, part: int) -> None:
        shape = [self.rows, self.own[-1].outputs]
        kernel = elementwise(self.config.gpu, "mse_loss_backward", shape[0] * shape[1], 4)
        with (
            _Node(self.host, "MseLossBackward0", self._sequences[-1, part]),
            self.host.span("operator", "aten::mse_loss_backward", [shape] * 3, [T] * 3),
        ):
            self.kernel(kernel, None, "backward")

    def _layer_backward(self, layer: Layer, part: int, last: bool) -> None:
        host = self.host
        relu, *products = backward(self.config.gpu, layer, self.rows)
        sequence = self._sequences[layer.index, part]
        y, weight = [self.rows, layer.outputs], [layer.outputs, layer.inputs]
        with (
            _Node(host, "ReluBackward0", sequence + 2),
            host.span("operator", "aten::threshold_backward", [y, y, []], [T, T, SCALAR]),
        ):
            self.kernel(relu, layer, "backward")
        with _Node(host, "AddmmBackward0", sequence + 1):
            for_weight, for_bias = self._products(layer, products)
        if not layer.first:
            self.exchanges.share("all_gather", layer.inputs * self.config.tensor)
        (weight_name, _), (bias_name, _) = layer.parameters
        self._accumulate(layer, bias_name, [layer.outputs], for_bias, last)
        with _Node(host, "TBackward0", sequence), host.span("operator", "aten::t", [weight[::-1]], [T]):
            host.spend(600)
        self._accumulate(layer, weight_name, weight, for_weight, last)

    def _products(self, layer: Layer, kernels: list[Kernel]) -> tuple[Task, Task]:
        """Gradients of the input, where somebody needs it, of the weight and of the bias."""
        host, left = self.host, list(kernels)
        x, y = [self.rows, layer.inputs], [self.rows, layer.outputs]
        if not layer.first:
            with host.span("operator", "aten::mm", [y, [layer.outputs, layer.inputs]], [T] * 2):
                self.kernel(left.pop(0), layer, "backward")
        with host.span("operator", "aten::mm", [y[::-1], x], [T] * 2):
            for_weight = self.kernel(left.pop(0), layer, "backward")
        with host.span("operator", "aten::sum", [y, [], [], []], [T, "ScalarList", SCALAR, ""]):
            for_bias = self.kernel(left.pop(0), layer, "backward")
        return for_weight, for_bias

    def _accumulate(self, layer: Layer, name: str, shape: list[int], task: Task, last: bool) -> None:
        with _Node(self.host, "torch::autograd::AccumulateGrad", None) as node:
            node.dims, node.types = [shape], [T]
            self.exchanges.gradient(layer, name, task, last)


class _Node:
    """A node of autograd's graph: the engine's span and the function's own inside it."""

    def __init__(self, host: Host, name: str, sequence: int | None) -> None:
        thread = None if sequence is None else 1
        outer = f"autograd::engine::evaluate_function: {name}"
        self._spans = [
            host.span("operator", outer, None, None, sequence, thread),
            host.span("operator", name, None, None, sequence, thread),
        ]

    def __enter__(self) -> HostOp:
        return [span.__enter__() for span in self._spans][-1]

    def __exit__(self, *failure: object) -> None:
        for span in reversed(self._spans):
            span.__exit__(None, None, None)
