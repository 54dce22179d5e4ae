#!/usr/bin/env python3
"""Trains tests/golden/training/network.yaml with gpipe-train and compares with what PyTorch made of it.

    test_training.py <gpipe-train>
"""
import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent / "training"
# Both sides compute in f32 and round in other orders; what was seen differs by 2e-7.
TOLERANCE = 3e-6


def tensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: array.array("f", raw[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]]) for name, t in header.items()}


def difference(a, b):
    assert len(a) == len(b)
    return max((abs(x - y) for x, y in zip(a, b)), default=0.0)


def check(program, micro_batches, expected, folder):
    run = [program, "-q", "-o", folder, "--set", f"pipeline.micro_batches={micro_batches}", str(FOLDER / "network.yaml")]
    subprocess.run(run, check=True)
    events = [json.loads(line) for line in open(pathlib.Path(folder) / "metrics.jsonl")]
    losses = [e["loss"] for e in events if e["event"] == "step"]
    evaluations = [(e["loss"], e["accuracy"]) for e in events if e["event"] == "eval"]
    found = {"losses": difference(losses, expected["losses"])}
    for i, (got, want) in enumerate(zip(evaluations, expected["evaluations"], strict=True)):
        found[f"evaluation {i + 1}"] = difference(got, want)
    got = tensors(pathlib.Path(folder) / "model.safetensors")
    want = tensors(FOLDER / f"trained_{micro_batches}.safetensors")
    assert sorted(got) == sorted(want), (sorted(got), sorted(want))
    for name, values in want.items():
        found[name] = difference(got[name], values)
    wrong = {name: value for name, value in found.items() if not value <= TOLERANCE}
    print(f"{micro_batches} micro-batches: largest difference {max(found.values()):.2g}")
    return wrong


def check_accuracy(program, folder):
    """A step counts correct predictions as an evaluation does: of the same samples by the same weights, they are as many."""
    changes = ["model={input: {shape: [3, 11, 9]}, layers: [flatten, {linear: {out: 9}}, {linear: {out: 7}}], loss: cross_entropy}",
               "data.batch=1000", "optimizer={sgd: {lr: 1e-30}}", "train={steps: 1}", "pipeline.micro_batches=3"]
    sets = [word for change in changes for word in ("--set", change)]
    subprocess.run([program, "-q", "-o", folder, *sets, str(FOLDER / "network.yaml")], check=True)
    events = [json.loads(line) for line in open(pathlib.Path(folder) / "metrics.jsonl")]
    (step,), (evaluation,) = ([e for e in events if e["event"] == kind] for kind in ("step", "eval"))
    print(f"accuracy of a step {step['accuracy']:.4g}, of the evaluation {evaluation['accuracy']:.4g}")
    return step["accuracy"] == evaluation["accuracy"] > 0 and abs(step["loss"] - evaluation["loss"]) < TOLERANCE


def main():
    runs = json.loads((FOLDER / "runs.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        failed = not check_accuracy(sys.argv[1], folder)
    for micro_batches, expected in runs.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, value in check(sys.argv[1], int(micro_batches), expected, folder).items():
                print(f"{micro_batches} micro-batches: {name} differs by {value:.3g}")
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
