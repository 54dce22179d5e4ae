#!/usr/bin/env python3
"""Trains a small network with PyTorch and writes what came of it to tests/golden/training/: the data, the initial weights, and,
for 1 and for 4 micro-batches, the loss of every step, the evaluations and the weights at the end.

The network has a skip over two layers, a grouped rectangular convolution, dilation, overlapping pooling and two batch norms; the data
has an ignored target and a smaller last mini-batch; the optimizer is SGD with Nesterov momentum, decay and a warm-up.
With 4 micro-batches batch norm normalises each by itself and commits its running statistics once, over all of them,
which is computed here from the recorded inputs. Made with PyTorch 2.9.1:

    pip install torch==2.9.1 numpy
    python3 tests/golden/make_training.py
"""
import json
import pathlib
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).resolve().parent / "training"
SAMPLES, BATCH, EPOCHS, WARMUP, RATE = 44, 12, 3, 5, 0.05


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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1)
        self.b1 = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 8, (3, 1), padding=(1, 0), groups=2, bias=False)
        self.b2 = nn.BatchNorm2d(8, momentum=0.3, eps=1e-3)
        self.c3 = nn.Conv2d(16, 12, 3, stride=2, dilation=2, padding=2)
        self.fc = nn.Linear(12, 7)

    def forward(self, x):
        a = torch.relu(self.b1(self.c1(x)))
        d = torch.relu(a + self.b2(self.c2(a)))
        f = torch.relu(self.c3(torch.cat([d, a], 1)))
        return self.fc(F.max_pool2d(f, 3, 2, 1).mean((2, 3)))


def weights_of(net):
    return {name: value.clone() for name, value in net.state_dict().items() if "num_batches" not in name}


class Deferred:
    """Batch norm that keeps its running statistics as they are, and commits them over the whole mini-batch."""

    def __init__(self, norm):
        self.norm, self.momentum, self.inputs = norm, norm.momentum, []
        norm.momentum = 0.0
        norm.register_forward_hook(self.record)

    def record(self, norm, inputs, _output):
        if norm.training:
            self.inputs.append(inputs[0].detach())

    def commit(self):
        x = torch.cat(self.inputs).transpose(0, 1).flatten(1).double()
        self.inputs = []
        for running, new in ((self.norm.running_mean, x.mean(1)), (self.norm.running_var, x.var(1, unbiased=True))):
            running.copy_((1 - self.momentum) * running.double() + self.momentum * new)


def train(initial, x, y, micro_batches):
    net = Net()
    net.load_state_dict(initial, strict=False)
    norms = [Deferred(net.b1), Deferred(net.b2)]
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=1e-3)
    losses, evaluations, step = [], [], 0
    for _ in range(EPOCHS):
        net.train()
        for first in range(0, SAMPLES, BATCH):
            step += 1
            for group in optimizer.param_groups:
                group["lr"] = RATE * (0.1 + 0.9 * step / WARMUP) if step <= WARMUP else RATE
            xs, ys = x[first : first + BATCH], y[first : first + BATCH]
            count = int((ys != -100).sum())
            optimizer.zero_grad()
            total = 0.0
            for xp, yp in zip(xs.chunk(micro_batches), ys.chunk(micro_batches)):
                loss = F.cross_entropy(net(xp), yp, reduction="sum") / count
                loss.backward()
                total += loss.item()
            optimizer.step()
            for norm in norms:
                norm.commit()
            losses.append(total)
        net.eval()
        with torch.no_grad():
            output = net(x)
            evaluations.append([F.cross_entropy(output, y).item(), (output.argmax(1) == y).sum().item() / int((y != -100).sum())])
    return losses, evaluations, weights_of(net)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    initial = weights_of(Net())
    x, y = torch.randn(SAMPLES, 3, 11, 9), torch.randint(0, 7, (SAMPLES,))
    y[5] = -100
    save("data.safetensors", {"x": x, "y": y})
    save("initial.safetensors", initial)
    runs = {}
    for micro_batches in (1, 4):
        losses, evaluations, weights = train(initial, x, y, micro_batches)
        save(f"trained_{micro_batches}.safetensors", weights)
        runs[micro_batches] = {"losses": losses, "evaluations": evaluations}
    (FOLDER / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
