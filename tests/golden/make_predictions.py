#!/usr/bin/env python3
"""Writes to tests/golden/predictions/ what PyTorch's modules make of random samples in evaluation mode: for pixels.yaml
(predictions [C,h,w]), rows.yaml ([t,C]) and classes.yaml ([C]) the weights, the inputs x without targets, and the outputs y.
Made with PyTorch 2.9.1:

    pip install torch==2.9.1
    python3 tests/golden/make_predictions.py
"""
import json
import pathlib
import struct

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).resolve().parent / "predictions"
SAMPLES = 11
NETS = {
    "pixels": (
        nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
                      nn.Upsample(scale_factor=2), nn.Conv2d(6, 5, 1)),
        (2, 6, 4),
    ),
    "rows": (nn.Sequential(nn.Linear(7, 9), nn.LayerNorm(9), nn.GELU(), nn.Dropout(), nn.Linear(9, 4)), (3, 7)),
    "classes": (
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Linear(32, 3)),
        (2, 6, 4),
    ),
}


def save(name, tensors):
    types = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[key] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / name).write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.manual_seed(20)
    for name, (net, shape) in NETS.items():
        for key, tensor in net.state_dict().items():
            if key.endswith("running_mean"):
                tensor.copy_(torch.randn_like(tensor))
            elif key.endswith("running_var"):
                tensor.copy_(0.5 + torch.rand_like(tensor))
        x = torch.randn(SAMPLES, *shape)
        with torch.no_grad():
            y = net.eval()(x)
        save(f"{name}.weights.safetensors", {k: v for k, v in net.state_dict().items() if "num_batches" not in k})
        save(f"{name}.x.safetensors", {"x": x})
        save(f"{name}.y.safetensors", {"y": y})


if __name__ == "__main__":
    main()
