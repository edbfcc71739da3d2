"""Classic networks against public figures, golden layers of the roofline, and the printed table."""

import json
import subprocess
import sys

import pytest

from mdtrace.costs import Tensor
from network_layers import Network, call, cost
from networks import NETWORKS, Roofs, build
from shared import ROOT, shared

# Parameters and GMAC of one 224 × 224 image as torchvision's documentation states them (weights' metadata).
PUBLIC = {
    "AlexNet": (61_100_840, 0.71),
    "VGG-11": (132_863_336, 7.61),
    "VGG-13": (133_047_848, 11.31),
    "VGG-16": (138_357_544, 15.47),
    "VGG-19": (143_667_240, 19.63),
    "ResNet-18": (11_689_512, 1.81),
    "ResNet-34": (21_797_672, 3.66),
    "ResNet-50": (25_557_032, 4.09),
    "ResNet-101": (44_549_160, 7.80),
    "ResNet-152": (60_192_808, 11.51),
    "MobileNetV2": (3_504_872, 0.30),
    "DenseNet-121": (7_978_856, 2.83),
}
EXACT = {"ResNet-50": 4_089_184_256, "VGG-16": 15_470_264_320}


def test_there_are_twelve_networks() -> None:
    assert set(NETWORKS) == set(PUBLIC)
    assert len(NETWORKS) == 12


@pytest.mark.parametrize("name", list(PUBLIC))
def test_parameters_and_multiply_accumulates_are_the_public_ones(name: str) -> None:
    parameters, gmac = PUBLIC[name]
    net = build(name)
    assert net.parameters == parameters
    assert round(net.multiplies / 1e9, 2) == gmac
    assert net.multiplies == EXACT.get(name, net.multiplies)


@pytest.mark.parametrize("name", list(PUBLIC))
def test_a_training_step_is_six_flop_a_mac_less_the_gradient_of_the_images(name: str) -> None:
    net = build(name, batch=2)
    products = [x for x in net.layers if x.multiplies]
    step = sum(
        (cost(c).flops or 0)
        for x in products
        for c in (x.forward, *x.backward)
        if c.name != "aten::sum"  # the bias gradient of a linear layer
    )
    first = cost(products[0].forward).flops or 0
    assert step == 6 * net.multiplies - first


def _golden() -> dict[str, dict[str, float]]:
    golden: dict[str, dict[str, float]] = json.loads(shared("spec", "golden.json").read_text())["roofline"][
        "layers"
    ]
    return golden


def test_golden_convolution_without_its_bias() -> None:
    net = Network("one", Tensor((32, 256, 56, 56), "f32"), [])
    net.relu()  # so that the convolution is not the first layer
    net.conv(256, 3, 1, 1)
    want = _golden()["vgg16.conv3_2"]
    assert (net.layers[1].flops(), net.layers[1].bytes()) == (want["flops"], want["bytes"])
    # The gradient has the bias in it.
    assert (net.layers[1].parameters + 256) * 4 == want["gradient_bytes"]


def test_golden_relu() -> None:
    net = Network("one", Tensor((32, 256, 56, 56), "f32"), [])
    net.relu()
    want = _golden()["vgg16.relu3_2"]
    assert (net.layers[0].flops(), net.layers[0].bytes()) == (want["flops"], want["bytes"])


def test_golden_linear_layer_as_three_products() -> None:
    x, weight, y = Tensor((32, 25088), "f32"), Tensor((25088, 4096), "f32"), Tensor((32, 4096), "f32")
    turned = Tensor((4096, 25088), "f32")
    products = [
        call("aten::mm", x, weight),
        call("aten::mm", y, turned),
        call("aten::mm", Tensor((25088, 32), "f32"), y),
    ]
    want = _golden()["vgg16.fc6"]
    assert sum(cost(c).flops or 0 for c in products) == want["flops"]
    assert sum(cost(c).bytes or 0 for c in products) == want["bytes"]
    assert (weight.elements + 4096) * 4 == want["gradient_bytes"]


def test_three_times_of_a_golden_layer() -> None:
    want = _golden()["vgg16.fc6"]
    times = Roofs(15.7e12, 900e9, 10e9, 4).times(want["flops"], want["bytes"], (25088 + 1) * 4096)
    assert [round(t * 1e3, 6) for t in times] == want["t_ms"]


def test_the_table_is_printed() -> None:
    script = ROOT / "sample_traces" / "networks.py"
    done = subprocess.run(
        [sys.executable, script, "--batch", "1"], capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 13
    vgg = next(line.split() for line in lines if line.startswith("VGG-16"))
    assert vgg[1:3] == ["138,357,544", "15,470.264"]
    assert vgg[-2] == "network"  # one image is little work for 553 MB of gradients
    assert max(map(len, lines)) <= 100
