#!/usr/bin/env python3
"""Measures what --trace costs: compares steps with and without it in the same run.

Usage: bench/trace.py [--program build/gpipe-train] [--rounds 20] [--steps 200]

A run has twice --steps steps. Runs come in pairs: one traces its first half, the other its second half. The figure of a half is the
median seconds of its steps, without the first five. The ratio of a pair is the geometric mean of traced over not traced in both
runs. So a difference between first and second halves cancels out. Printed: least, quartiles, greatest and mean of the ratios, and
the standard error of the mean.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import time

import pairs

COLD = 5


def seconds_of(program, config, steps, first, folder):
    """Medians of the two halves of a run that traces `steps` steps from `first` on."""
    arguments = ["--set", "pipeline={devices: [cpu, cpu], micro_batches: 4}", "--set", "train.eval_every=1000000"]
    subprocess.run([program, "-q", "--force", "-o", folder / "run", "--trace", folder / "t.json", "--trace-steps",
                    f"{first}:{first + steps - 1}", *arguments, config], check=True)
    with open(folder / "run/metrics.jsonl") as file:
        seconds = [line["seconds"] for line in map(json.loads, file) if line["event"] == "step"]
    assert len(seconds) == 2 * steps
    return statistics.median(seconds[COLD:steps]), statistics.median(seconds[steps + COLD :])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/gpipe-train")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = folder / "c.yaml"
        config.write_text(pairs.MODEL % (2 * options.steps))
        ratios, step = [], []
        for _ in range(options.rounds):
            traced_first, plain_last = seconds_of(options.program, config, options.steps, 1, folder)
            plain_first, traced_last = seconds_of(options.program, config, options.steps, options.steps + 1, folder)
            ratios.append(math.sqrt(traced_first / plain_first * traced_last / plain_last))
            step.append(plain_first)
    quartiles = statistics.quantiles(ratios, n=4)
    print(time.strftime("%Y-%m-%d"), f"{options.rounds} pairs of runs of {2 * options.steps} steps, "
          f"{1e3 * statistics.median(step):.2f} ms a step")
    print("traced / not traced: %.4f %.4f %.4f %.4f %.4f, mean %.4f ± %.4f" % (
        min(ratios), *quartiles, max(ratios), statistics.mean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))))


if __name__ == "__main__":
    main()
