#!/usr/bin/env python3
"""Times one way of running gpipe-train against another, in turn, and prints ratios: noise changes ratios less than times.

Usage: bench/pairs.py [--program build/gpipe-train] [--against PROGRAM] [--rounds 7] [--steps 60] [CASE...]

Every case is a pair A, B. Each round runs A, then B; the next round runs B, then A. The figure of a run is the median seconds of
its steps in metrics.jsonl, without the first five. Printed: the medians over the rounds, and the ratio B/A as least, median and
greatest over the rounds. Data are synthetic. Results that are quoted elsewhere are in bench/results/, with date and machine.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

MODEL = """
model:
  input: {shape: [3, 32, 32]}
  layers:
    - conv: {out: 32, kernel: 3, pad: 1, bias: false}
    - batch_norm
    - relu
    - conv: {out: 32, kernel: 3, pad: 1, bias: false}
    - batch_norm
    - relu: {name: a}
    - max_pool: 2
    - conv: {out: 64, kernel: 3, pad: 1, bias: false}
    - batch_norm
    - relu: {name: b}
    - conv: {out: 64, kernel: 3, pad: 1, bias: false}
    - batch_norm
    - add: [b, -1]
    - relu
    - max_pool: 2
    - flatten
    - linear: 10
  loss: cross_entropy
data: {train: {synthetic: {samples: 640, seed: 1}}, batch: 64}
optimizer: {sgd: {lr: 0.01, momentum: 0.9}}
train: {steps: %d}
"""

RESNET = ["--set", "model={input: {shape: [3, 32, 32]}, resnet: {depth: 18, classes: 10}, loss: cross_entropy}",
          "--set", "data.batch=32"]
PICTURES = ["--set", "model={input: {shape: [3, 112, 112]}, resnet: {depth: 18, classes: 10}, loss: cross_entropy}",
            "--set", "data.batch=8"]
TWO = ["--set", "pipeline={devices: [cpu, cpu], micro_batches: 4}"]
# name: what is compared, arguments of A, arguments of B; {folder} is the run's own.
CASES = {
    "trace": ("two stages, 4 micro-batches: without / with --trace of all steps", TWO,
              [*TWO, "--trace", "{folder}/t.json", "--trace-steps", "1:100000"]),
    "stages": ("one stage of one thread, whole mini-batches / two stages, 4 micro-batches", [], TWO),
    "micro": ("one stage: whole mini-batches / 4 micro-batches", [],
              ["--set", "pipeline={devices: [cpu], micro_batches: 4}"]),
    "resnet": ("ResNet-18, one stage: whole mini-batches of 32 / 4 micro-batches", RESNET,
               [*RESNET, "--set", "pipeline={devices: [cpu], micro_batches: 4}"]),
    "resnet_two": ("ResNet-18, mini-batches of 32: two stages, 4 micro-batches / one stage", [*RESNET, *TWO], RESNET),
    "pictures": ("ResNet-18 at 112x112, one stage: whole mini-batches of 8 / 4 micro-batches", PICTURES,
                 [*PICTURES, "--set", "pipeline={devices: [cpu], micro_batches: 4}"]),
    "recompute": ("two stages, 4 micro-batches: checkpoint never / always",
                  ["--set", "pipeline={devices: [cpu, cpu], micro_batches: 4, checkpoint: never}"],
                  ["--set", "pipeline={devices: [cpu, cpu], micro_batches: 4, checkpoint: always}"]),
    "snapshots": ("two stages: no snapshots / one every 5 steps", TWO, [*TWO, "--set", "train.save_every=5"]),
    "loader": ("one stage: one loader thread / two", [], ["--set", "data.threads=2"]),
    "clip": ("two stages: no clipping / clip_norm", TWO, [*TWO, "--set", "optimizer.clip_norm=1"]),
}


def run(program, config, arguments):
    with tempfile.TemporaryDirectory() as folder:
        filled = [argument.replace("{folder}", folder) for argument in arguments]
        subprocess.run([program, "-q", "-o", f"{folder}/run", *filled, config], check=True)
        lines = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl", encoding="utf-8")]
    steps = [line["seconds"] for line in lines if line["event"] == "step"]
    return statistics.median(steps[5:])


def compare(name, programs, config, rounds):
    what, a, b = CASES[name]
    if programs[0] != programs[1]:
        what, b = what.split(" / ")[0], a
    pairs = []
    for i in range(rounds):
        order = ((programs[0], a), (programs[1], b)) if i % 2 == 0 else ((programs[1], b), (programs[0], a))
        first, second = (run(program, config, arguments) for program, arguments in order)
        pairs.append((first, second) if i % 2 == 0 else (second, first))
    ratios = sorted(y / x for x, y in pairs)
    print(f"{name:10} A {1e3 * statistics.median(x for x, _ in pairs):8.2f} ms  "
          f"B {1e3 * statistics.median(y for _, y in pairs):8.2f} ms  "
          f"B/A {ratios[0]:.3f} {statistics.median(ratios):.3f} {ratios[-1]:.3f}  {what}", flush=True)


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--program", default=str(root / "build/gpipe-train"))
    parser.add_argument("--against", metavar="PROGRAM", help="run PROGRAM as B, with the same arguments as A")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    options = parser.parse_args()
    unknown = set(options.cases) - set(CASES)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}; known cases are {', '.join(CASES)}")
    print(f"# {time.strftime('%Y-%m-%d')}, {processor()}; medians of {options.steps} steps, {options.rounds} rounds in turn; "
          "B/A: least, median, greatest")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(MODEL % options.steps)
        config.flush()
        for name in options.cases or CASES:
            compare(name, (options.program, options.against or options.program), config.name, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
