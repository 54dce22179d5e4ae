#!/usr/bin/env python3
"""Trains tests/golden/optimizers/network.yaml with each optimizer and schedule of runs.json and compares rates, losses and
weights with what PyTorch made of it; then again from the configuration that the run left, to the bit.

    test_optimizers.py <gpipe-train>
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

from test_training import difference, tensors

FOLDER = pathlib.Path(__file__).resolve().parent / "optimizers"
# Both sides compute in f32 and round in other orders; what was seen differs by 3e-7.
TOLERANCE = 2e-6
RATE_TOLERANCE = 2e-9  # of a rate, which is written with nine digits


def train(program, folder, config, *changes):
    sets = [argument for change in changes for argument in ("--set", change)]
    subprocess.run([program, "-q", "-o", str(folder), *sets, str(config)], check=True)
    return [json.loads(line) for line in open(folder / "metrics.jsonl")]


def compare(folder, events, expected):
    steps = [event for event in events if event["event"] == "step"]
    rates = [abs(e["lr"] - rate) / (rate or 1) for e, rate in zip(steps, expected["rates"], strict=True)]
    found = {"losses": difference([e["loss"] for e in steps], expected["losses"])}
    weights = tensors(folder / "model.safetensors")
    assert sorted(weights) == sorted(expected["weights"])
    for name, (norm, *first) in expected["weights"].items():
        found[name] = difference(weights[name][: len(first)], first)
        found[f"norm of {name}"] = abs(math.sqrt(math.fsum(v * v for v in weights[name])) - norm)
    wrong = [f"{name} differs by {value:.3g}" for name, value in found.items() if not value <= TOLERANCE]
    if not max(rates) <= RATE_TOLERANCE:
        wrong.append(f"the rate of step {rates.index(max(rates)) + 1} differs by {max(rates):.3g} of it")
    return wrong, max(found.values())


def check(program, changes, micro_batches, expected, folder):
    run, again = folder / "run", folder / "again"
    events = train(program, run, FOLDER / "network.yaml", *changes, f"pipeline.micro_batches={micro_batches}")
    wrong, largest = compare(run, events, expected)
    train(program, again, run / "config.yaml")
    if (run / "model.safetensors").read_bytes() != (again / "model.safetensors").read_bytes():
        wrong.append("the run's own config.yaml does not repeat it to the bit")
    return wrong, largest


def main():
    failed = False
    for name, run in json.loads((FOLDER / "runs.json").read_text()).items():
        for micro_batches in ("1", "4"):
            with tempfile.TemporaryDirectory() as folder:
                wrong, largest = check(sys.argv[1], run["changes"], micro_batches, run[micro_batches], pathlib.Path(folder))
            print(f"{name}, {micro_batches} micro-batches: largest difference {largest:.2g}")
            for what in wrong:
                print(f"{name}, {micro_batches} micro-batches: {what}")
            failed = failed or bool(wrong)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
