"""What every rank does, step by step: the training loop as its host runs it."""

from simulate.collectives import Collectives
from simulate.config import Config
from simulate.engine import Engine, Program
from simulate.events import Step
from simulate.exchange import Exchanges, parts
from simulate.host import Host
from simulate.model import ELEMENT, INPUT_FEATURES, TORCH_TYPE, compute_ns, layers, update
from simulate.passes import Passes
from simulate.placement import Place

CHUNK = 4  # layers that one kernel of the optimizer updates


class RankProgram:
    """The training loop of one rank."""

    def __init__(self, config: Config, engine: Engine, place: Place, collectives: Collectives) -> None:
        self.config = config
        self.place = place
        self.host = Host(config, engine, place.rank)
        self.layers = [layer for layer in layers(config) if layer.stage == place.stage]
        self.exchanges = Exchanges(config, place, self.host, collectives, self.layers)
        self.passes = Passes(config, place, self.host, self.exchanges, self.layers)
        self.parts = parts(config)

    def run(self) -> Program:
        """All steps, and before them the start-up."""
        self.host.sleep(self.host.random.randint(0, 4_000_000))
        task = self.exchanges.parameters() if self.config.startup else None
        if task is not None:
            yield from self.host.synchronize("cudaStreamSynchronize", task)
        for step in range(self.config.first_step, self.config.first_step + self.config.steps):
            yield from self._step(step)

    def _step(self, step: int) -> Program:
        host = self.host
        host.step = step
        self._set_speed(step)
        with host.span("step", f"ProfilerStep#{step}") as marker:
            self._load_data(step)
            self._zero_grad()
            self.exchanges.start_step()
            late = self.config.straggler(self.place.rank, step, "host")
            for part in range(self.parts):
                self.passes.forward(part, 0 if part else late)
            for part in range(self.parts):
                self.passes.backward(part, part == self.parts - 1)
            self.exchanges.finish_backward()
            self._optimizer()
            yield from self._finish()
        host.trace.steps.append(Step(step, marker.start, marker.end))
        host.spend(8_000)

    def _set_speed(self, step: int) -> None:
        """Rows and kernel speed of this step: where a compute or clock straggler loses its time."""
        config, rank = self.config, self.place.rank
        full = compute_ns(config, self.place.stage, config.tokens)
        self.passes.factor = 1.0 + config.straggler(rank, step, "clock") / full
        more = config.straggler(rank, step, "compute") / full
        self.passes.rows = self.exchanges.rows + 8 * round(self.exchanges.rows * more / 8)

    def _load_data(self, step: int) -> None:
        host, config, rank = self.host, self.config, self.place.rank
        with host.span("annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            host.spend(config.data_ns)
            host.sleep(config.straggler(rank, step, "data"))
        if self.place.stage:
            return
        shape = [self.passes.rows * self.parts, INPUT_FEATURES]
        size = shape[0] * shape[1] * ELEMENT
        duration = round(1e9 * size / config.host_bytes_per_s) + config.straggler(rank, step, "copy")
        with (
            host.span("operator", "aten::to", [shape], [TORCH_TYPE]),
            host.span("operator", "aten::_to_copy", [shape], [TORCH_TYPE]),
            host.span("operator", "aten::copy_", [shape, shape], [TORCH_TYPE] * 2),
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

    def _optimizer(self) -> None:
        host, types = self.host, ["TensorList", "TensorList", "Scalar"]
        shards = self.config.data if self.config.strategy == "fsdp" else 1
        with host.span("annotation", "Optimizer.step#SGD.step"):
            for first in range(0, len(self.layers), CHUNK):
                chunk = self.layers[first : first + CHUNK]
                shapes = [[layer.outputs, layer.inputs] for layer in chunk]
                with host.span("operator", "aten::_foreach_add_", [shapes, shapes, []], types):
                    size = sum(layer.elements for layer in chunk) // shards
                    self.passes.kernel(update(self.config.gpu, size), None, "optimizer")

    def _finish(self) -> Program:
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
