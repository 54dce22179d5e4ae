"""The networks of beside/networks.py in PyTorch: lists of modules, which become one module, two stages, or torchgpipe's."""
import torch
from torch import nn

from beside.networks import UNET


class Stash(nn.Module):
    """Marks a value that PopCat takes further on. The pipelines below replace it."""

    def __init__(self, level):
        super().__init__()
        self.level = level


class PopCat(nn.Module):
    """Marks where the value of Stash(level) joins, along the channels. The pipelines below replace it."""

    def __init__(self, level):
        super().__init__()
        self.level = level


def small():
    return [nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 10)]


def tiny():
    return [nn.Conv2d(1, 1, 3, padding=1), nn.BatchNorm2d(1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 2)]


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def resnet50():
    """ResNet-50: the stem's four layers, 16 bottleneck blocks, the head's three."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for group, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if group > 0 and block == 0 else 1))
            inputs = 4 * width
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)]


def unet(depth, convs, channels):
    """torchgpipe's benchmarks/models/unet, flattened as there."""
    layers = []

    def stack(inputs, middle, out):
        for i in range(convs):
            width = out if i == convs - 1 else middle
            layers.extend([nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.Dropout2d(0.1), nn.InstanceNorm2d(width),
                           nn.LeakyReLU(0.01)])
            inputs = width

    inputs = 3
    for level in range(depth):
        stack(inputs, channels << level, channels << level)
        layers.extend([Stash(level), nn.MaxPool2d(2)])
        inputs = channels << level
    stack(inputs, channels << depth, channels << (depth - 1))
    for level in reversed(range(depth)):
        layers.extend([nn.Upsample(scale_factor=2), PopCat(level)])
        stack(channels << (level + 1), (channels << level) // 2, (channels << level) // 2)
    return [*layers, nn.Conv2d(channels // 2, 1, 1, bias=False)]


def modules(name):
    torch.manual_seed(1)
    return {"tiny": tiny, "small": small, "resnet50": resnet50, "resnet50-224": resnet50, "unet": lambda: unet(**UNET)}[name]()


class Part(nn.Module):
    """Some of the modules, in order. Takes the value before them, then skips that enter; returns its value, then skips that leave."""

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        stashed = {layer.level for layer in layers if isinstance(layer, Stash)}
        self.enter = sorted({layer.level for layer in layers if isinstance(layer, PopCat)} - stashed)

    def forward(self, x, *skips):
        kept = dict(zip(self.enter, skips))
        for layer in self.layers:
            if isinstance(layer, Stash):
                kept[layer.level] = x
            elif isinstance(layer, PopCat):
                x = torch.cat((x, kept.pop(layer.level)), 1)
            else:
                x = layer(x)
        return (x, *kept.values()) if kept else x


def torchgpipe_sequence(layers):
    """The modules as torchgpipe wants them: a sequence, its skips by torchgpipe.skip."""
    from torchgpipe.skip import pop, skippable, stash

    def stashing(level):
        @skippable(stash=[f"skip{level}"])
        class Stashing(nn.Module):
            def forward(self, x):
                yield stash(f"skip{level}", x)
                return x
        return Stashing()

    def popping(level):
        @skippable(pop=[f"skip{level}"])
        class Popping(nn.Module):
            def forward(self, x):
                skip = yield pop(f"skip{level}")
                return torch.cat((x, skip), 1)
        return Popping()

    kinds = {Stash: stashing, PopCat: popping}
    return nn.Sequential(*(kinds[type(layer)](layer.level) if type(layer) in kinds else layer for layer in layers))
