"""Three small networks, and what their layers cost by hand."""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.down = None
        if stride != 1 or inputs != outputs:
            self.down = nn.Conv2d(inputs, outputs, 1, stride, 0, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + (x if self.down is None else self.down(x)))


class MiniResNet(nn.Module):
    """A stem and three stages of two blocks, 3×32×32 images, 10 classes."""

    shape = (3, 32, 32)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1), Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1))
        self.fc = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.bn(self.stem(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class MiniAlexNet(nn.Module):
    """Five convolutions and three large linear layers: many gradient bytes for few FLOPs."""

    shape = (3, 64, 64)

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 5), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(256 * 9, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 100)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).flatten(1))


class MiniVGG(nn.Module):
    """Three pairs of 3×3 convolutions and two linear layers, 3×32×32 images."""

    shape = (3, 32, 32)

    def __init__(self) -> None:
        super().__init__()
        stack: list[nn.Module] = []
        channels = 3
        for width in (32, 64, 128):
            for _ in range(2):
                stack += [nn.Conv2d(channels, width, 3, 1, 1), nn.ReLU()]
                channels = width
            stack.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*stack)
        self.classifier = nn.Sequential(nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).flatten(1))


MODELS = {"resnet": MiniResNet, "alexnet": MiniAlexNet, "vgg": MiniVGG}


def layer_costs(model: nn.Module, batch: int) -> list[dict[str, object]]:
    """Forward FLOPs and parameters of each convolution and linear layer, 2 FLOPs a multiply-add, no bias."""
    rows: list[dict[str, object]] = []

    def hook(name: str):  # type: ignore[no-untyped-def]
        def record(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            weight: torch.Tensor = module.weight
            per_output = weight[0].numel()
            rows.append(
                {
                    "layer": name,
                    "kind": type(module).__name__,
                    "input": list(inputs[0].shape),
                    "output": list(output.shape),
                    "weight": list(weight.shape),
                    "bias": module.bias is not None,
                    "flops_fwd": 2 * output.numel() * per_output,
                    "params": sum(parameter.numel() for parameter in module.parameters()),
                }
            )

        return record

    costed = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    handles = [module.register_forward_hook(hook(name)) for name, module in costed]
    with torch.no_grad():
        model(torch.zeros(batch, *model.shape))
    for handle in handles:
        handle.remove()
    return rows
