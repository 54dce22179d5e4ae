#!/usr/bin/env python3
"""Trains tests/golden/training/network.yaml with clipped gradients, on one to three stages, and compares losses, norms
and weights with what PyTorch made of it (make_clipping.py).

    test_clipping.py <gpipe-train>
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from test_training import FOLDER, difference, tensors

CLIPPING = FOLDER.parent / "clipping"
# Both sides compute in f32 and round in other orders.
TOLERANCE = {"sgd": 3e-6, "adam": 1e-5, "adamw": 1e-5}
OPTIMIZERS = {
    "sgd": "{sgd: {lr: 0.05, momentum: 0.9, weight_decay: 1e-3}, clip_norm: 1}",
    "adam": "{adam: {lr: 0.011, eps: 1e-3, weight_decay: 1e-3}, clip_norm: 1}",
    "adamw": "{adamw: {lr: 0.01, eps: 1e-3}, clip_norm: 1}",
}
BALANCES = ["[14]", "[6, 8]", "[3, 6, 5]"]


def check(program, run, expected, balance, folder):
    name, micro_batches = run.split("_")
    stages = balance.count(",") + 1
    settings = {
        "optimizer": OPTIMIZERS[name],
        "pipeline": f"{{devices: [{', '.join(['cpu'] * stages)}], balance: {balance}, micro_batches: {micro_batches}}}",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    subprocess.run([program, "-q", "--force", "-o", folder, *words, str(FOLDER / "network.yaml")], check=True)
    steps = [json.loads(line) for line in open(pathlib.Path(folder) / "metrics.jsonl")]
    steps = [event for event in steps if event["event"] == "step"]
    found = {
        "losses": difference([e["loss"] for e in steps], expected["losses"]),
        "norms": difference([e["grad_norm"] for e in steps], expected["grad_norms"]),
    }
    got, want = tensors(pathlib.Path(folder) / "model.safetensors"), tensors(CLIPPING / f"{run}.safetensors")
    assert sorted(got) == sorted(want), (sorted(got), sorted(want))
    found.update({key: difference(got[key], values) for key, values in want.items()})
    print(f"{run}, balance {balance}: largest difference {max(found.values()):.2g}")
    return {key: value for key, value in found.items() if not value <= TOLERANCE[name]}


def main():
    runs = json.loads((CLIPPING / "runs.json").read_text())
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for run, expected in runs.items():
            models = set()
            for balance in BALANCES:
                for name, value in check(sys.argv[1], run, expected, balance, folder).items():
                    print(f"{run}, balance {balance}: {name} differs by {value:.3g}")
                    failed = True
                models.add((pathlib.Path(folder) / "model.safetensors").read_bytes())
            if len(models) != 1:
                print(f"{run}: the balance changes the weights")
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
