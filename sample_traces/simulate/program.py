"""What every rank does, step by step: the training loop as its host runs it."""

from collections.abc import Generator

from simulate.collectives import Collectives
from simulate.config import Config
from simulate.engine import Engine
from simulate.events import COMPUTE_STREAM, Group, HostOp, Step, Task
from simulate.fusion import Tensor, buckets
from simulate.host import Host
from simulate.model import (
    ELEMENT,
    INPUT_FEATURES,
    TORCH_TYPE,
    Kernel,
    Layer,
    backward,
    compute_ns,
    elementwise,
    forward,
    layers,
    update,
)
from simulate.placement import Place

Wait = Generator[Task, None, None]
WRAPPERS = {"ddp": "DistributedDataParallel_0", "fsdp": "FullyShardedDataParallel_0"}
CHUNK = 4  # layers that one kernel of the optimizer updates


class RankProgram:
    """The training loop of one rank."""

    def __init__(self, config: Config, engine: Engine, place: Place, collectives: Collectives) -> None:
        self.config = config
        self.place = place
        self.collectives = collectives
        self.host = Host(config, engine, place.rank)
        self.layers = [layer for layer in layers(config) if layer.stage == place.stage]
        self.buckets = buckets(config, self.layers)
        self.parts = config.microbatches if config.pipeline > 1 else 1
        self._sequence = 0
        self._sequences: dict[tuple[int, int], int] = {}
        self._ready: dict[str, Task] = {}
        self._sent: list[Task] = []
        self._agreed_rows = config.tokens // self.parts  # what ranks exchange, whoever has a larger batch
        self._rows = self._agreed_rows
        self._factor = 1.0

    def run(self) -> Wait:
        """All steps, and before them the start-up."""
        self.host.sleep(self.host.random.randint(0, 4_000_000))
        if self.config.startup:
            yield from self._start_up()
        for step in range(self.config.first_step, self.config.first_step + self.config.steps):
            yield from self._step(step)

    def _start_up(self) -> Wait:
        tensors = [(name, size, layer.index) for layer in self.layers for name, size in layer.parameters]
        task = self._collective("broadcast", self.place.data, sum(t[1] for t in tensors), tensors)
        if task is not None:
            yield from self.host.synchronize("cudaStreamSynchronize", task)

    def _step(self, step: int) -> Wait:
        host = self.host
        host.step = step
        self._set_speed(step)
        with host.span("step", f"ProfilerStep#{step}") as marker:
            self._load_data(step)
            self._zero_grad()
            self._ready.clear()
            self._sent.clear()
            for part in range(self.parts):
                self._forward(step, part)
            for part in range(self.parts):
                self._backward(part)
            for task in self._sent:
                host.wait_for(COMPUTE_STREAM, task)
            self._optimizer()
            yield from self._finish()
        host.trace.steps.append(Step(step, marker.start, marker.end))
        host.spend(8_000)

    def _set_speed(self, step: int) -> None:
        """Rows and kernel speed of this step: where a compute or clock straggler loses its time."""
        config, rank = self.config, self.place.rank
        full = compute_ns(config, self.place.stage, config.tokens)
        slow = config.straggler(rank, step, "clock")
        self._factor = 1.0 + slow / full
        more = config.straggler(rank, step, "compute")
        self._rows = self._agreed_rows + 8 * round(self._agreed_rows * more / full / 8)

    def _load_data(self, step: int) -> None:
        host, config = self.host, self.config
        with host.span("annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            host.spend(config.data_ns)
            host.sleep(config.straggler(self.place.rank, step, "data"))
        if self.place.stage:
            return
        rows = self._rows * self.parts
        size = rows * INPUT_FEATURES * ELEMENT
        duration = round(1e9 * size / config.host_bytes_per_s) + config.straggler(
            self.place.rank, step, "copy"
        )
        dims: list[object] = [[rows, INPUT_FEATURES]]
        with (
            host.span("operator", "aten::to", dims, [TORCH_TYPE]),
            host.span("operator", "aten::_to_copy", dims, [TORCH_TYPE]),
            host.span("operator", "aten::copy_", dims * 2, [TORCH_TYPE] * 2),
        ):
            host.copy("HtoD", "Memcpy HtoD (Pinned -> Device)", size, duration)

    def _zero_grad(self) -> None:
        host = self.host
        with host.span("annotation", "Optimizer.zero_grad#SGD.zero_grad"):
            host.spend(12_000)
        with (
            host.span("operator", "aten::zeros", [[]], ["ScalarList"]),
            host.span("operator", "aten::zero_", [[1024]], ["float"]),
        ):
            host.set_memory(4_096)

    def _forward(self, step: int, part: int) -> None:
        host = self.host
        with (
            host.span("module", f"nn.Module: {WRAPPERS[self.config.strategy]}"),
            host.span("module", "nn.Module: Net_0"),
        ):
            late = self.config.straggler(self.place.rank, step, "host")
            if late and part == 0:
                with host.span("python", "<built-in function sleep>"):
                    host.sleep(late)
            if self.place.before is not None:
                self._exchange(self.place.before, self.layers[0].inputs, "recv", part)
            gathered = self._gather(self.layers[0]) if self.config.strategy == "fsdp" else None
            for local, layer in enumerate(self.layers):
                if self.config.strategy == "fsdp":
                    following = self._gather(self.layers[local + 1]) if local + 1 < len(self.layers) else None
                    host.wait_for(COMPUTE_STREAM, gathered)
                    gathered = following
                self._layer_forward(local, layer, part)
            if self.place.after is not None:
                self._exchange(self.place.after, self.layers[-1].outputs, "send", part)
        if self.place.after is None:
            self._loss(part)

    def _layer_forward(self, local: int, layer: Layer, part: int) -> None:
        host, rows = self.host, self._rows
        product, relu = forward(self.config.gpu, layer, rows)
        weight, bias = [layer.outputs, layer.inputs], [layer.outputs]
        x, y = [rows, layer.inputs], [rows, layer.outputs]
        transpose = self._next_sequence(layer.index, part)
        with host.span("module", f"nn.Module: Linear_{local}") as frame:
            frame.module_id = local
            with host.span("operator", "aten::linear", [x, weight, bias], [TORCH_TYPE] * 3, transpose):
                with host.span("operator", "aten::t", [weight], [TORCH_TYPE], transpose):
                    host.spend(600)
                dims: list[object] = [bias, x, weight[::-1], [], []]
                with host.span(
                    "operator", "aten::addmm", dims, [TORCH_TYPE] * 3 + ["Scalar"] * 2, transpose + 1
                ):
                    self._kernel(product, layer, "forward")
            self._share("all_reduce", self._agreed_rows * layer.outputs)
        with host.span("module", f"nn.Module: ReLU_{local}") as frame:
            frame.module_id = local
            with (
                host.span("operator", "aten::relu", [y], [TORCH_TYPE], transpose + 2),
                host.span("operator", "aten::clamp_min", [y, []], [TORCH_TYPE, "Scalar"]),
            ):
                self._kernel(relu, layer, "forward")

    def _next_sequence(self, index: int, part: int) -> int:
        """Autograd's numbers for t, addmm and relu of a layer."""
        self._sequences[index, part] = self._sequence
        self._sequence += 3
        return self._sequences[index, part]

    def _kernel(self, kernel: Kernel, layer: Layer | None, phase: str) -> Task:
        task = self.host.launch(kernel, self._factor)
        task.layer, task.phase = (None if layer is None else layer.index), phase
        return task

    def _loss(self, part: int) -> None:
        host = self.host
        dims: list[object] = [[self._rows, self.layers[-1].outputs]] * 2
        self._sequences[-1, part] = self._sequence
        with host.span(
            "operator", "aten::mse_loss", dims + [[]], [TORCH_TYPE] * 2 + ["Scalar"], self._sequence
        ):
            size = self._rows * self.layers[-1].outputs
            self._kernel(elementwise(self.config.gpu, "mse_loss", size, 3), None, "forward")
        self._sequence += 1

    def _backward(self, part: int) -> None:
        host = self.host
        with host.span("python", "torch/_tensor.py(570): backward"):
            host.spend(9_000)
            host.switch("autograd")
            if self.place.after is None:
                self._loss_backward(part)
            else:
                self._exchange(self.place.after, self.layers[-1].outputs, "recv", part)
            gathered = self._gather(self.layers[-1]) if self.config.strategy == "fsdp" else None
            for layer in reversed(self.layers):
                if self.config.strategy == "fsdp":
                    before = layer.index - 1
                    following = self._gather(self.layers[before]) if before >= 0 else None
                    host.wait_for(COMPUTE_STREAM, gathered)
                    gathered = following
                self._layer_backward(layer, part)
            if self.place.before is not None:
                self._exchange(self.place.before, self.layers[0].inputs, "send", part)
            host.switch("main")

    def _loss_backward(self, part: int) -> None:
        size = self._rows * self.layers[-1].outputs
        with (
            self._node("MseLossBackward0", self._sequences[-1, part]),
            self.host.span(
                "operator",
                "aten::mse_loss_backward",
                [[self._rows, self.layers[-1].outputs]] * 3,
                [TORCH_TYPE] * 3,
            ),
        ):
            self._kernel(elementwise(self.config.gpu, "mse_loss_backward", size, 4), None, "backward")

    def _node(self, name: str, sequence: int | None) -> "_Node":
        return _Node(self.host, name, sequence)

    def _layer_backward(self, layer: Layer, part: int) -> None:
        host, rows = self.host, self._rows
        kernels = backward(self.config.gpu, layer, rows)
        sequence = self._sequences[layer.index, part]
        x, y, w = [rows, layer.inputs], [rows, layer.outputs], [layer.outputs, layer.inputs]
        last = part == self.parts - 1
        with (
            self._node("ReluBackward0", sequence + 2),
            host.span("operator", "aten::threshold_backward", [y, y, []], [TORCH_TYPE] * 2 + ["Scalar"]),
        ):
            self._kernel(kernels.pop(0), layer, "backward")
        with self._node("AddmmBackward0", sequence + 1):
            if not layer.first:
                with host.span("operator", "aten::mm", [y, w], [TORCH_TYPE] * 2):
                    self._kernel(kernels.pop(0), layer, "backward")
            with host.span("operator", "aten::mm", [y[::-1], x], [TORCH_TYPE] * 2):
                weight = self._kernel(kernels.pop(0), layer, "backward")
            with host.span(
                "operator", "aten::sum", [y, [], [], []], [TORCH_TYPE, "ScalarList", "Scalar", ""]
            ):
                bias = self._kernel(kernels.pop(0), layer, "backward")
        if not layer.first:
            self._share("all_gather", self._agreed_rows * layer.inputs * self.config.tensor)
        (weight_name, _), (bias_name, _) = layer.parameters
        self._accumulate(layer, bias_name, [layer.outputs], bias, last)
        with self._node("TBackward0", sequence), host.span("operator", "aten::t", [w[::-1]], [TORCH_TYPE]):
            host.spend(600)
        self._accumulate(layer, weight_name, w, weight, last)

    def _accumulate(self, layer: Layer, name: str, shape: list[int], task: Task, last: bool) -> None:
        """A gradient is ready; where it fills its bucket, the bucket is sent."""
        with self._node("torch::autograd::AccumulateGrad", None) as node:
            node.dims, node.types = [shape], [TORCH_TYPE]
            self._ready[name] = task
            if not last:
                return
            if self.config.strategy == "fsdp":
                if name.endswith("weight"):
                    self._scatter(layer)
                return
            bucket = next(b for b in self.buckets if any(t[0] == name for t in b))
            if all(t[0] in self._ready for t in bucket) and bucket[-1][0] == name:
                size = sum(t[1] for t in bucket)
                self._send(self._collective("all_reduce", self.place.data, size, bucket))

    def _send(self, task: Task | None) -> None:
        if task is not None:
            self._sent.append(task)

    def _gather(self, layer: Layer) -> Task | None:
        """FSDP: the parameters of a layer."""
        return self._collective("all_gather", self.place.data, layer.elements, [], (layer.index,))

    def _scatter(self, layer: Layer) -> None:
        """FSDP: the gradients of a layer."""
        tensors = [(name, size, layer.index) for name, size in layer.parameters]
        self._send(self._collective("reduce_scatter", self.place.data, layer.elements, tensors))

    def _share(self, kind: str, elements: int) -> None:
        """Tensor parallel: the ranks that share a layer put its output together; compute waits for it."""
        task = self._collective(kind, self.place.tensor, elements, [])
        self.host.wait_for(COMPUTE_STREAM, task)

    def _exchange(self, pair: Group, features: int, role: str, part: int) -> None:
        """Pipeline: activations forward, their gradients backward, between two stages."""
        task = self._collective("send_recv", pair, self._agreed_rows * features, [], role=role)
        if role == "recv":
            self.host.wait_for(COMPUTE_STREAM, task)

    def _collective(
        self,
        kind: str,
        group: Group,
        elements: int,
        tensors: list[Tensor],
        carried: tuple[int, ...] = (),
        role: str | None = None,
    ) -> Task | None:
        """Join a collective; None where the group has one member. Its stream waits for all launched so far."""
        if group.size == 1:
            return None
        return self.collectives.join(self.host, kind, group, elements, tensors, carried, self._ready, role)

    def _optimizer(self) -> None:
        host = self.host
        with host.span("annotation", "Optimizer.step#SGD.step"):
            for first in range(0, len(self.layers), CHUNK):
                chunk = self.layers[first : first + CHUNK]
                shapes: list[object] = [[layer.outputs, layer.inputs] for layer in chunk]
                with host.span(
                    "operator", "aten::_foreach_add_", [shapes, shapes, []], ["TensorList"] * 2 + ["Scalar"]
                ):
                    size = sum(layer.elements for layer in chunk) // self._shards()
                    self._kernel(update(self.config.gpu, size), None, "optimizer")

    def _shards(self) -> int:
        return self.config.data if self.config.strategy == "fsdp" else 1

    def _finish(self) -> Wait:
        """The loss is printed: the host waits for the device. Other stages just wait."""
        host = self.host
        tail = host.tail()
        if self.place.after is not None and tail is not None:
            yield from host.synchronize("cudaDeviceSynchronize", tail)
            return
        with (
            host.span("operator", "aten::item", [[]], ["float"]),
            host.span("operator", "aten::_local_scalar_dense", [[]], ["float"]),
        ):
            task = host.copy("DtoH", "Memcpy DtoH (Device -> Pageable)", 4, 1_500)
            yield from host.synchronize("cudaStreamSynchronize", task)


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
