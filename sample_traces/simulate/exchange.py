"""What one rank exchanges with others: gradient buckets, parameters, activations."""

from simulate.collectives import Collectives
from simulate.config import Config
from simulate.events import COMPUTE_STREAM, Group, Task
from simulate.fusion import Tensor, buckets
from simulate.host import Host
from simulate.model import Layer
from simulate.placement import Place


class Exchanges:
    """Joins the collectives of one rank's groups. A group of one member exchanges nothing."""

    def __init__(
        self, config: Config, place: Place, host: Host, collectives: Collectives, own: list[Layer]
    ) -> None:
        self.place = place
        self.host = host
        self.collectives = collectives
        self.sharded = config.strategy == "fsdp"
        self.rows = config.tokens // parts(config)
        self._own = own
        self._ready: dict[str, Task] = {}
        self._sent: list[Task] = []
        self._closing = {bucket[-1][0]: bucket for bucket in buckets(config, own)}

    def start_step(self) -> None:
        self._ready.clear()
        self._sent.clear()

    def parameters(self) -> Task | None:
        """Rank 0 of the group gives everybody its parameters."""
        tensors = [(name, size, layer.index) for layer in self._own for name, size in layer.parameters]
        return self._join("broadcast", self.place.data, sum(t[1] for t in tensors), tensors)

    def gradient(self, layer: Layer, name: str, task: Task, last: bool) -> None:
        """A gradient is made by `task`; where it completes its bucket, the bucket is sent.

        Args:
            last: no later part of the batch adds to it.
        """
        self._ready[name] = task
        if not last:
            return
        if self.sharded and name == layer.parameters[0][0]:
            tensors = [(name, size, layer.index) for name, size in layer.parameters]
            self._send("reduce_scatter", tensors)
        elif not self.sharded and name in self._closing:
            self._send("all_reduce", self._closing[name])

    def _send(self, kind: str, tensors: list[Tensor]) -> None:
        task = self._join(kind, self.place.data, sum(t[1] for t in tensors), tensors)
        if task is not None:
            self._sent.append(task)

    def finish_backward(self) -> None:
        """The optimizer waits for every gradient, and for what was sent to other stages."""
        for task in self._sent:
            self.host.wait_for(COMPUTE_STREAM, task)

    def gather(self, layer: Layer | None) -> Task | None:
        """FSDP: the parameters of a layer."""
        if layer is None or not self.sharded:
            return None
        return self._join("all_gather", self.place.data, layer.elements, [], (layer.index,))

    def share(self, kind: str, features: int) -> None:
        """Tensor parallel: the ranks that share a layer put its output together; compute waits for it."""
        task = self._join(kind, self.place.tensor, self.rows * features, [])
        self.host.wait_for(COMPUTE_STREAM, task)

    def pass_on(self, pair: Group | None, features: int, role: str) -> None:
        """Pipeline: activations forward, their gradients backward, between two stages."""
        if pair is None:
            return
        task = self._join("send_recv", pair, self.rows * features, [], role=role)
        if role == "recv":
            self.host.wait_for(COMPUTE_STREAM, task)
        elif task is not None:
            self._sent.append(task)

    def _join(
        self,
        kind: str,
        group: Group,
        elements: int,
        tensors: list[Tensor],
        carried: tuple[int, ...] = (),
        role: str | None = None,
    ) -> Task | None:
        if group.size == 1:
            return None
        return self.collectives.join(self.host, kind, group, elements, tensors, carried, self._ready, role)


def parts(config: Config) -> int:
    """Parts of the batch that go through the model one after the other."""
    return config.microbatches if config.pipeline > 1 else 1
