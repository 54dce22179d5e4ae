#!/usr/bin/env python3
"""Trains the network of make_replica_norms.py where some replicas have no sample of a micro-batch, and writes what came of it to
tests/golden/replica_norms_empty.safetensors. It needs no PyTorch: gradients are autograd's, in f64. Data and initial weights come from
replica_norms.safetensors. First it trains PyTorch's own cases, and ends with an error if their results differ by more than rounding.

    pip install numpy autograd
    python3 tests/golden/make_replica_norms_empty.py
"""
import json
import pathlib
import struct

import autograd
import autograd.numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
# Samples of a mini-batch, its micro-batches, replicas, how many of them synchronise.
KNOWN = {"whole": (7, 1, 3, 3), "micro": (15, 2, 3, 3), "groups": (23, 3, 4, 2)}
# Shares 2, 2, 2, 0 three times and 2, 2, 1, 0; 3, 3, 3, 0, so that the second group has an empty share, and 2, 2, 2, 2; 3, 3, 3, 0.
# With these sizes data and weights that are rounded to f32 change the results by less than 10⁻⁶ of them.
EMPTY = {"empty": (23, 4, 4, 4), "empty_groups": (17, 2, 4, 2), "empty_once": (9, 1, 4, 4)}
NORMS = {1: (1e-5, 0.1), 4: (1e-2, 0.3), 8: (1e-5, 0.1)}  # layer: epsilon, momentum
RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-4


def load(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    found = {}
    for key, entry in json.loads(raw[8 : 8 + length]).items():
        begin, end = entry["data_offsets"]
        kind = {"F64": "<f8", "I64": "<i8"}[entry["dtype"]]
        found[key] = np.frombuffer(raw[8 + length + begin : 8 + length + end], kind).reshape(entry["shape"])
    return found


def save(path, tensors):
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor, "<f8").tobytes()
        header[key] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def convolve(x, weight, bias, pad):
    """x [samples, in, height, width], weight [out, in, rows, columns]."""
    rows, columns = weight.shape[2:]
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), "constant")
    height, width = x.shape[2] - rows + 1, x.shape[3] - columns + 1
    y = bias[None, :, None, None]
    for r in range(rows):
        for c in range(columns):
            y = y + np.einsum("nihw,oi->nohw", x[:, :, r : r + height, c : c + width], weight[:, :, r, c])
    return y


def normalise(values, layer, x, inputs):
    """With the statistics of all samples that there are."""
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    mean = np.mean(x, axes, keepdims=True)
    variance = np.mean((x - mean) ** 2, axes, keepdims=True)
    inputs.setdefault(layer, []).append(autograd.tracer.getval(x))
    scaled = (x - mean) / np.sqrt(variance + NORMS[layer][0])
    return scaled * values["%d.weight" % layer].reshape(shape) + values["%d.bias" % layer].reshape(shape)


def loss_of(values, x, y, inputs):
    """The sum over the samples."""
    x = np.maximum(normalise(values, 1, convolve(x, values["0.weight"], values["0.bias"], 1), inputs), 0)
    x = np.maximum(normalise(values, 4, convolve(x, values["3.weight"], values["3.bias"], 0), inputs), 0)
    x = x.reshape(x.shape[0], -1) @ values["7.weight"].T + values["7.bias"]
    x = normalise(values, 8, x, inputs) @ values["9.weight"].T + values["9.bias"]
    largest = np.max(x, axis=1, keepdims=True)
    logs = np.log(np.sum(np.exp(x - largest), axis=1)) + largest[:, 0]
    return np.sum(logs - x[np.arange(len(y)), y])


def parts(samples, micro_batches, replicas, group):
    """What each group of replicas has of each micro-batch: [first, end)."""
    piece = -(-samples // micro_batches)
    for first in range(0, samples, piece):
        count = min(piece, samples - first)
        share = -(-count // replicas)
        for replica in range(0, replicas, group):
            begin, end = min(share * replica, count), min(share * (replica + group), count)
            if begin < end:
                yield first + begin, first + end


def commit(running, inputs):
    """Once for each mini-batch, over all of its samples."""
    for layer, (_, momentum) in NORMS.items():
        x = np.moveaxis(np.concatenate(inputs[layer]), 1, 0)
        x = x.reshape(x.shape[0], -1)
        for name, new in (("running_mean", x.mean(1)), ("running_var", x.var(1, ddof=1))):
            key = "%d.%s" % (layer, name)
            running[key] = (1 - momentum) * running[key] + momentum * new


def train(initial, x, y, case):
    values = {key: value for key, value in initial.items() if "running" not in key}
    running = {key: value for key, value in initial.items() if "running" in key}
    states, losses, first = {key: 0.0 for key in values}, [], None
    for step in range(x.shape[0]):
        total, inputs, sums = 0.0, {}, {key: 0.0 for key in values}
        for begin, end in parts(*case):
            loss, gradients = autograd.value_and_grad(loss_of)(values, x[step, begin:end], y[step, begin:end], inputs)
            total += loss
            sums = {key: sums[key] + gradients[key] / case[0] for key in values}
        for key, value in values.items():
            gradient = sums[key] + DECAY * value
            states[key] = MOMENTUM * states[key] + gradient
            values[key] = value - RATE * (gradient + MOMENTUM * states[key])
        commit(running, inputs)
        losses.append(total)
        found = {**values, **running, **{key + ".momentum": state for key, state in states.items()}}
        first = first or dict(found)
    return np.array(losses), first, found


def tensors_of(name, case, initial, x, y):
    losses, first, last = train(initial, x, y, case)
    found = {name + ".losses": losses}
    found.update({"%s.first.%s" % (name, key): value for key, value in first.items() if "momentum" in key or "running" in key})
    found.update({"%s.last.%s" % (name, key): value for key, value in last.items()})
    return found


def main():
    known = load(FOLDER / "replica_norms.safetensors")
    initial = {key[len("initial.") :]: value for key, value in known.items() if key.startswith("initial.")}
    x, y = known["x"].transpose(0, 1, 4, 2, 3), known["y"]
    for name, case in KNOWN.items():
        found, worst = tensors_of(name, case, initial, x, y), 0.0
        assert found.keys() == {key for key in known if key.startswith(name + ".")}
        for key, value in found.items():
            worst = max(worst, np.max(np.abs(value - known[key])) / max(1e-3, np.max(np.abs(known[key]))))
        print("%s: differs from PyTorch by %.1e" % (name, worst))
        assert worst < 1e-11
    tensors = {}
    for name, case in EMPTY.items():
        tensors.update(tensors_of(name, case, initial, x, y))
    save(FOLDER / "replica_norms_empty.safetensors", tensors)


if __name__ == "__main__":
    main()
