#!/usr/bin/env python3
"""Trains a small network with PyTorch in f64, with batch norm over what a group of replicas has of each micro-batch, and writes what
came of it to tests/golden/replica_norms.safetensors: data, initial weights, the loss of each of 20 steps, the optimizer's state after
the first step (gradients, with the decay), and weights, running statistics and states at the end.

SyncBatchNorm needs GPUs. What it computes is batch norm over all samples of its group; so each group's samples go through the network
by themselves here. The case `whole` has one group and one micro-batch, and its running statistics are PyTorch's own. The other two
commit them once for each mini-batch, over all of its samples, which is computed here from the recorded inputs. PyTorch 2.9.1:

    pip install torch==2.9.1 numpy
    python3 tests/golden/make_replica_norms.py
"""
import json
import pathlib
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

FILE = pathlib.Path(__file__).resolve().parent / "replica_norms.safetensors"
STEPS = 20
# Samples of a mini-batch, its micro-batches, replicas, how many of them synchronise.
CASES = {"whole": (7, 1, 3, 3), "micro": (15, 2, 3, 3), "groups": (23, 3, 4, 2)}


def save(tensors):
    types = {torch.float64: "F64", torch.int64: "I64"}
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[key] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    FILE.write_bytes(struct.pack("<Q", len(text)) + text + data)


def network():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3, eps=1e-2, momentum=0.3),
        nn.ReLU(), nn.Flatten(), nn.Linear(18, 5), nn.BatchNorm1d(5), nn.Linear(5, 4)).double()


class Deferred:
    """Batch norm that keeps its running statistics as they are, and commits them over the whole mini-batch."""

    def __init__(self, norm):
        self.norm, self.momentum, self.inputs = norm, norm.momentum, []
        norm.momentum = 0.0
        norm.register_forward_hook(lambda _norm, inputs, _output: self.inputs.append(inputs[0].detach()))

    def commit(self):
        x = torch.cat(self.inputs).transpose(0, 1).flatten(1)
        self.inputs = []
        for running, new in ((self.norm.running_mean, x.mean(1)), (self.norm.running_var, x.var(1, unbiased=True))):
            running.copy_((1 - self.momentum) * running + self.momentum * new)


def parts(samples, micro_batches, replicas, group):
    """What each group of replicas has of each micro-batch: [first, end)."""
    piece = -(-samples // micro_batches)
    for first in range(0, samples, piece):
        count = min(piece, samples - first)
        share = -(-count // replicas)
        for replica in range(0, replicas, group):
            begin, end = min(share * replica, count), min(share * (replica + group), count)
            yield first + begin, first + end


def values_of(net, optimizer):
    found = {name: value for name, value in net.state_dict().items() if "num_batches" not in name}
    for name, parameter in net.named_parameters():
        found[name + ".momentum"] = optimizer.state[parameter]["momentum_buffer"]
    return {name: value.clone() for name, value in found.items()}


def train(initial, x, y, case):
    samples, micro_batches, replicas, group = case
    net = network()
    net.load_state_dict(initial)
    whole = micro_batches == 1 and group == replicas
    norms = [] if whole else [Deferred(m) for m in net if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    losses, first = [], None
    for step in range(STEPS):
        xs, ys = x[step, :samples], y[step, :samples]
        optimizer.zero_grad()
        total = 0.0
        for begin, end in parts(*case):
            loss = F.cross_entropy(net(xs[begin:end]), ys[begin:end], reduction="sum")
            (loss / samples).backward()
            total += loss.item()
        optimizer.step()
        for norm in norms:
            norm.commit()
        losses.append(total)
        first = first or values_of(net, optimizer)
    return torch.tensor(losses, dtype=torch.float64), first, values_of(net, optimizer)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    most = max(case[0] for case in CASES.values())
    net = network()
    for norm in (net[1], net[4], net[8]):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.uniform_(norm.bias, -0.5, 0.5)
    # Samples differ from one another in size and place, so that it matters which of them are normalised together.
    x = torch.randn(STEPS, most, 2, 5, 4, dtype=torch.float64) * torch.rand(STEPS, most, 1, 1, 1, dtype=torch.float64) * 2
    x += torch.randn(STEPS, most, 2, 1, 1, dtype=torch.float64)
    y = torch.randint(0, 4, (STEPS, most))
    tensors = {"x": x.permute(0, 1, 3, 4, 2), "y": y}
    tensors |= {f"initial.{name}": value for name, value in net.state_dict().items() if "num_batches" not in name}
    for name, case in CASES.items():
        losses, first, last = train(net.state_dict(), x, y, case)
        tensors[f"{name}.losses"] = losses
        tensors |= {f"{name}.first.{key}": value for key, value in first.items() if "momentum" in key or "running" in key}
        tensors |= {f"{name}.last.{key}": value for key, value in last.items()}
    save(tensors)


if __name__ == "__main__":
    main()
