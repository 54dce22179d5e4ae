#!/usr/bin/env python3
"""Writes to tests/golden/models/ what torchvision makes of the built-in models:

- names.txt: for each model the names and shapes of its parameters and running statistics, "resnet18 conv1.weight 64 3 7 7";
- outputs.json: losses of single samples in evaluation, and what four steps of training make of ResNet-50.

The weights are too large to keep. Both sides fill them by a formula (`fill` here, fill_weights.c there), the data likewise (`fill`
here, test_models.py there). Everything is computed in f64, so that what differs is the program's own rounding. Made with PyTorch
2.9.1 and torchvision 0.24.1:

    pip install torch==2.9.1 torchvision==0.24.1 numpy
    python3 tests/golden/make_models.py
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
import torchvision

FOLDER = pathlib.Path(__file__).resolve().parent / "models"
MODELS = [f"resnet{d}" for d in (18, 34, 50, 101, 152)] + [f"vgg{d}{n}" for d in (11, 13, 16, 19) for n in ("", "_bn")]
CLASSES = 10
STEPS, RATE, MOMENTUM, DECAY = 4, 0.001, 0.9, 1e-3


def uniform(name, count):
    """Numbers in [-1, 1), exact in f32, from the name and the number of the element."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    x = np.uint32(seed & 0xFFFFFFFF) ^ (np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1))
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    x = x ^ (x >> np.uint32(16))
    return ((x >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)).astype(np.float32)


def fill(name, shape):
    """Of conv and linear weights the spread keeps the size of what flows; statistics and scales lie around 1, but
    those that end a branch of ResNet-50 around 1/8: with 1, so deep a network makes of f32's rounding in the first step another
    second one (PyTorch's own f32 and f64 then differ in the second digit)."""
    values = uniform(name, int(np.prod(shape, dtype=np.int64)))
    if len(shape) > 1:
        values *= np.float32(np.sqrt(3 / np.prod(shape[1:], dtype=np.int64)))
    elif name.endswith(".running_var") or (name.endswith(".weight")):
        values = np.float32(1) + np.float32(0.25) * values
        if name.endswith(".bn3.weight"):
            values *= np.float32(0.125)
    else:
        values *= np.float32(0.125)
    return torch.from_numpy(values.reshape(shape))


def filled(name):
    net = getattr(torchvision.models, name)(weights=None, num_classes=CLASSES)
    state = {k: fill(k, tuple(v.shape)) for k, v in net.state_dict().items() if "num_batches" not in k}
    net.load_state_dict(state, strict=False)
    return net.double()


def data(samples, size):
    x = torch.from_numpy(uniform("x", samples * 3 * size * size).reshape(samples, 3, size, size)).double()
    y = torch.from_numpy(((uniform("y", samples) + 1) / 2 * CLASSES).astype(np.int64))
    return x, y


def evaluate(name, samples, size):
    net = filled(name).eval()
    x, y = data(samples, size)
    with torch.no_grad():
        return F.cross_entropy(net(x), y, reduction="none").tolist()


def summaries(net):
    """Of every tensor its sum, the sum of its squares, and its first and last elements."""
    result = {}
    for name, tensor in net.state_dict().items():
        if "num_batches" not in name:
            flat = tensor.flatten()
            result[name] = [float(f"{v:.9g}") for v in (flat.sum(), (flat * flat).sum(), flat[0], flat[-1])]
    return result


def train(name, samples, size):
    net = filled(name).train()
    x, y = data(samples, size)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        evaluation = F.cross_entropy(net(x), y).item()
    return {"losses": losses, "evaluation": evaluation, "tensors": summaries(net)}


def main():
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "names.txt", "w") as file:
        for name in MODELS:
            with torch.device("meta"):
                net = getattr(torchvision.models, name)(weights=None)
            for key, tensor in net.state_dict().items():
                if "num_batches" not in key:
                    print(name, key, *tensor.shape, file=file)
    outputs = {
        "evaluate": [
            {"model": name, "samples": samples, "size": size, "losses": evaluate(name, samples, size)}
            for name, samples, size in (("resnet18", 4, 64), ("resnet50", 4, 64), ("vgg11_bn", 2, 32))
        ],
        "train": [{"model": "resnet50", "samples": 8, "size": 64, **train("resnet50", 8, 64)}],
    }
    (FOLDER / "outputs.json").write_text(json.dumps(outputs, indent=0) + "\n")


if __name__ == "__main__":
    main()
