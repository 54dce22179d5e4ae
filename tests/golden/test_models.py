#!/usr/bin/env python3
"""Loads torchvision's names and layouts into the built-in models, and compares with what torchvision made of the same weights.

    test_models.py <gpipe-train> <fill_weights> evaluate|train
"""
import array
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "models"
CLASSES = 10
# The program computes in f32, torchvision did in f64. Seen: EVALUATION_SEEN and TRAINING_SEEN.
EVALUATION, LOSS, TENSOR = 1e-5, 1e-4, 1e-3
CONFIG = """\
model:
  {model}
  input: {{shape: [3, {size}, {size}]}}
  loss: cross_entropy
data:
  train: {{tensors: data.safetensors}}
  eval: {{tensors: data.safetensors}}
  batch: {samples}
  shuffle: false
optimizer: {{sgd: {{lr: 0.001, momentum: 0.9, weight_decay: 1e-3}}}}
train: {{steps: 4, eval_every: 4, init: weights.safetensors}}
"""
MODELS = {
    "resnet18": "resnet: {depth: 18, classes: 10}",
    "resnet50": "resnet: {depth: 50, classes: 10}",
    "vgg11_bn": "vgg: {depth: 11, classes: 10, batch_norm: true}",
}


def uniform(name, count):
    """The formula of make_models.py."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    values = []
    for element in range(count):
        x = (seed ^ (element * 0x9E3779B1)) & 0xFFFFFFFF
        x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
        x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
        values.append(((x ^ (x >> 16)) >> 8) * 2.0**-23 - 1)
    return values


def write_data(path, samples, size):
    x = array.array("f", uniform("x", samples * 3 * size * size)).tobytes()
    y = array.array("q", [int((value + 1) / 2 * CLASSES) for value in uniform("y", samples)]).tobytes()
    header = {
        "x": {"dtype": "F32", "shape": [samples, 3, size, size], "data_offsets": [0, len(x)]},
        "y": {"dtype": "I64", "shape": [samples], "data_offsets": [len(x), len(x) + len(y)]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + x + y)


def tensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: array.array("f", raw[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]]) for name, t in header.items()}


class Case:
    """A model, its weights and its data in a folder."""

    def __init__(self, program, fill, expected, folder):
        self.program, self.expected, self.folder = program, expected, pathlib.Path(folder)
        samples, size = expected["samples"], expected["size"]
        write_data(self.folder / "data.safetensors", samples, size)
        text = CONFIG.format(model=MODELS[expected["model"]], size=size, samples=samples)
        (self.folder / "model.yaml").write_text(text)
        subprocess.run([fill, self.folder / "model.yaml", self.folder / "weights.safetensors"], check=True)

    def run(self, *changes):
        command = [self.program, "-q", "--force", "-o", self.folder / "run"]
        for change in changes:
            command += ["--set", change]
        subprocess.run([*command, self.folder / "model.yaml"], check=True)
        return [json.loads(line) for line in open(self.folder / "run" / "metrics.jsonl")]

    def model(self):
        return self.folder / "run" / "model.safetensors"


def relative(got, want, least=1e-12):
    return abs(got - want) / max(abs(want), least)


def evaluate(case):
    found = {}
    for i, want in enumerate(case.expected["losses"]):
        events = case.run("train.steps=0", f"data.eval.take=[{i}, {i + 1}]", "data.batch=1")
        (loss,) = [event["loss"] for event in events if event["event"] == "eval"]
        found[f"loss of sample {i}"] = (relative(loss, want), EVALUATION)
    return found


def root(value):
    return math.sqrt(max(value, 0))


def compare_tensors(got, want):
    """Against a tensor's root of the sum of squares: of single elements, per element."""
    found = {}
    assert sorted(got) == sorted(want), sorted(set(got) ^ set(want))
    for name, (total, squares, first, last) in want.items():
        values = got[name]
        size = root(squares)
        element = size / root(len(values))
        found[name] = (
            max(
                abs(math.fsum(values) - total) / (size * root(len(values))),
                abs(root(math.fsum(v * v for v in values)) - size) / size,
                abs(values[0] - first) / element,
                abs(values[-1] - last) / element,
            ),
            TENSOR,
        )
    return found


def train(case):
    found = {}
    events = case.run("pipeline.micro_batches=1")
    losses = [event["loss"] for event in events if event["event"] == "step"]
    for i, (got, want) in enumerate(zip(losses, case.expected["losses"], strict=True)):
        found[f"loss of step {i + 1}"] = (relative(got, want), LOSS)
    (evaluation,) = [event["loss"] for event in events if event["event"] == "eval"]
    found["evaluation"] = (relative(evaluation, case.expected["evaluation"]), LOSS)
    found.update(compare_tensors(tensors(case.model()), case.expected["tensors"]))
    whole = case.model().read_bytes()
    case.run("pipeline.micro_batches=1", "pipeline.devices=[cpu, cpu, cpu]", "pipeline.checkpoint=always")
    found["the same bits through 3 stages"] = (0 if case.model().read_bytes() == whole else math.inf, 0)
    return found


def main():
    program, fill, part = sys.argv[1:]
    failed = False
    for expected in json.loads((FOLDER / "outputs.json").read_text())[part]:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(program, fill, expected, folder)
            found = evaluate(case) if part == "evaluate" else train(case)
        print(f"{part} {expected['model']}: largest difference {max(f for f, _ in found.values()):.2g}")
        for name, (difference, allowed) in found.items():
            if not difference <= allowed:
                print(f"{part} {expected['model']}: {name} differs by {difference:.3g}; {allowed:g} is allowed")
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
