"""Twelve classic convolutional networks through the cost models and the three roofs of one device.

    python sample_traces/networks.py [--batch 32 --ranks 4 --peak 15.7e12 --memory 900e9 --bus 10e9]

Builds the operators that torch calls in one training step of each network (torchvision's definitions, 224 ×
224 images, 32-bit floats), forward and backward. Prints parameters and multiply-accumulates of one image; of
a step over a batch the FLOP, the bytes, the bytes on the wire (a ring all-reduce of the gradients), and the
three times of the MD-Roofline: at the peak, at the memory's bandwidth, at the network's. The longest is what
bounds the network as a whole; the last column counts the layers bound by each of the three.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from mdtrace.costs import Tensor
from network_layers import Network

_F32 = 4


def conv_norm(
    net: Network, channels: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> None:
    net.conv(channels, kernel, stride, kernel // 2, groups)
    net.norm()
    if relu:
        net.relu()


def classifier(net: Network, *features: int) -> None:
    for size in features[:-1]:
        net.linear(size)
        net.relu()
    net.linear(features[-1])


def alexnet(net: Network) -> None:
    for channels, kernel, stride, padding, pool in (
        (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):  # fmt: skip
        net.conv(channels, kernel, stride, padding, bias=True)
        net.relu()
        if pool:
            net.max_pool(3, 2)
    classifier(net, 4096, 4096, 1000)


def vgg(*blocks: int) -> Callable[[Network], None]:
    """Convolutions in each of five blocks, which end in a pooling layer."""

    def build(net: Network) -> None:
        for channels, count in zip((64, 128, 256, 512, 512), blocks, strict=True):
            for _ in range(count):
                net.conv(channels, 3, 1, 1, bias=True)
                net.relu()
            net.max_pool(2, 2)
        classifier(net, 4096, 4096, 1000)

    return build


def resnet(bottleneck: bool, *blocks: int) -> Callable[[Network], None]:
    """Version 1.5: the stride of a bottleneck stands in its 3 × 3 convolution."""

    def block(net: Network, width: int, stride: int) -> None:
        x, out = net.x, width * 4 if bottleneck else width
        for channels, kernel, step in (
            ((width, 1, 1), (width, 3, stride)) if bottleneck else ((width, 3, stride),)
        ):
            conv_norm(net, channels, kernel, step)
        conv_norm(net, out, 1 if bottleneck else 3, relu=False)
        if stride != 1 or x.shape[1] != out:
            main, net.x = net.x, x
            conv_norm(net, out, 1, stride, relu=False)
            net.x = main
        net.add()
        net.relu()

    def build(net: Network) -> None:
        conv_norm(net, 64, 7, 2)
        net.max_pool(3, 2, 1)
        for stage, count in enumerate(blocks):
            for i in range(count):
                block(net, 64 << stage, 2 if stage and not i else 1)
        net.mean_pool(7)
        net.linear(1000)

    return build


def mobilenet_v2(net: Network) -> None:
    """Inverted residuals: widen, convolve each channel, narrow."""
    conv_norm(net, 32, 3, 2)
    for widening, channels, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(count):
            before, hidden = net.x.shape[1], net.x.shape[1] * widening
            if widening != 1:
                conv_norm(net, hidden, 1)
            conv_norm(net, hidden, 3, 1 if i else stride, groups=hidden)
            conv_norm(net, channels, 1, relu=False)
            if i and before == channels:
                net.add()
    conv_norm(net, 1280, 1)
    net.mean_pool(7)
    net.linear(1000)


def densenet121(net: Network) -> None:
    """Each layer adds 32 channels to all before; the copies that join them are not counted."""
    conv_norm(net, 64, 7, 2)
    net.max_pool(3, 2, 1)
    for block, count in enumerate((6, 12, 24, 16)):
        for _ in range(count):
            joined = net.x
            net.norm()
            net.relu()
            conv_norm(net, 128, 1)
            net.conv(32, 3, 1, 1)
            net.x = Tensor((joined.shape[0], joined.shape[1] + 32, *joined.shape[2:]), "f32")
        net.norm()
        if block < 3:
            net.relu()
            net.conv(net.x.shape[1] // 2, 1)
            net.mean_pool(2)
    net.relu()
    net.mean_pool(7)
    net.linear(1000)


NETWORKS: dict[str, Callable[[Network], None]] = {
    "AlexNet": alexnet,
    "VGG-11": vgg(1, 1, 2, 2, 2),
    "VGG-13": vgg(2, 2, 2, 2, 2),
    "VGG-16": vgg(2, 2, 3, 3, 3),
    "VGG-19": vgg(2, 2, 4, 4, 4),
    "ResNet-18": resnet(False, 2, 2, 2, 2),
    "ResNet-34": resnet(False, 3, 4, 6, 3),
    "ResNet-50": resnet(True, 3, 4, 6, 3),
    "ResNet-101": resnet(True, 3, 4, 23, 3),
    "ResNet-152": resnet(True, 3, 8, 36, 3),
    "MobileNetV2": mobilenet_v2,
    "DenseNet-121": densenet121,
}


def build(name: str, batch: int = 1) -> Network:
    """A network over a batch of images of 3 × 224 × 224."""
    net = Network(name, Tensor((batch, 3, 224, 224), "f32"))
    NETWORKS[name](net)
    return net


@dataclass(frozen=True)
class Roofs:
    """Peak in FLOP/s, bandwidths of memory and network in byte/s, ranks that share the gradients."""

    peak: float
    memory: float
    bus: float
    ranks: int

    def times(self, flops: float, moved: float, parameters: int) -> tuple[float, float, float]:
        """Seconds at each roof; wire bytes are 2(n − 1)/n of the gradients."""
        return flops / self.peak, moved / self.memory, self.wire(parameters) / self.bus

    def wire(self, parameters: int) -> float:
        return 2 * (self.ranks - 1) / self.ranks * parameters * _F32

    def bound(self, times: tuple[float, float, float]) -> str:
        return ("compute", "memory", "network")[times.index(max(times))]


def row(name: str, batch: int, roofs: Roofs) -> str:
    """One line of the table."""
    net = build(name, batch)
    flops, moved = sum(x.flops() for x in net.layers), sum(x.bytes() for x in net.layers)
    times = roofs.times(flops, moved, net.parameters)
    bounds = [roofs.bound(roofs.times(x.flops(), x.bytes(), x.parameters)) for x in net.layers]
    counts = "/".join(str(bounds.count(b)) for b in ("compute", "memory", "network"))
    return (
        f"{name:13}{net.parameters:>11,}{net.multiplies / batch / 1e6:>11,.3f}{flops / 1e9:>8.1f}"
        f"{moved / 1e9:>7.2f}{roofs.wire(net.parameters) / 1e9:>7.3f}"
        f"{times[0] * 1e3:>7.1f}{times[1] * 1e3:>7.1f}{times[2] * 1e3:>7.1f}"
        f"  {roofs.bound(times):8}{counts:>10}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Twelve networks under three roofs.")
    parser.add_argument("--batch", type=int, default=32, help="images a rank and step")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--peak", type=float, default=15.7e12, help="FLOP/s")
    parser.add_argument("--memory", type=float, default=900e9, help="byte/s")
    parser.add_argument("--bus", type=float, default=10e9, help="byte/s")
    options = parser.parse_args()
    roofs = Roofs(options.peak, options.memory, options.bus, options.ranks)
    print(
        f"{'network':13}{'parameters':>11}{'MMAC/image':>11}{'GFLOP':>8}{'GB':>7}{'wire':>7}"
        f"{'t_c ms':>7}{'t_m ms':>7}{'t_x ms':>7}  {'bound':8}{'layers':>10}"
    )
    for name in NETWORKS:
        print(row(name, options.batch, roofs))


if __name__ == "__main__":
    main()
