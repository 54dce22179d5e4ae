#!/usr/bin/env python3
"""Measures what --trace costs, without and with --trace-layers: compares steps with and without it in the same run.

Usage: bench/trace.py [--program build/gpipe-train] [--rounds 20] [--steps 200] [--set key.path=value]…

A run has twice --steps steps. Runs come in pairs: one traces its first half, the other its second half. The figure of a half is the
median seconds of its steps, without the first five. The ratio of a pair is the geometric mean of traced over not traced in both
runs. So a difference between first and second halves cancels out. Pairs without and with --trace-layers take turns. Printed for
each: least, quartiles, greatest and mean of the ratios, the standard error of the mean, and how many bytes of the file a step takes.
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
MODES = {"instructions": [], "layers": ["--trace-layers"]}


def seconds_of(options, mode, config, first, folder):
    """Medians of the two halves of a run that traces --steps steps from `first` on."""
    arguments = ["--set", "pipeline={devices: [cpu, cpu], micro_batches: 4}", "--set", "train.eval_every=1000000"]
    for change in options.set:
        arguments += ["--set", change]
    subprocess.run([options.program, "-q", "--force", "-o", folder / "run", "--trace", folder / "t.json", "--trace-steps",
                    f"{first}:{first + options.steps - 1}", *MODES[mode], *arguments, config], check=True)
    with open(folder / "run/metrics.jsonl") as file:
        seconds = [line["seconds"] for line in map(json.loads, file) if line["event"] == "step"]
    assert len(seconds) == 2 * options.steps
    return statistics.median(seconds[COLD : options.steps]), statistics.median(seconds[options.steps + COLD :])


def measure_pair(options, mode, config, folder):
    """The ratio of a pair, the seconds of a step that is not traced, and the bytes of the file for a step."""
    traced_first, plain_last = seconds_of(options, mode, config, 1, folder)
    bytes_of_step = (folder / "t.json").stat().st_size / options.steps
    plain_first, traced_last = seconds_of(options, mode, config, options.steps + 1, folder)
    return math.sqrt(traced_first / plain_first * traced_last / plain_last), plain_first, bytes_of_step


def report(mode, results):
    """One line for a mode."""
    ratios = [ratio for ratio, _, _ in results]
    quartiles = statistics.quantiles(ratios, n=4)
    print("%-12s traced / not traced: %.4f %.4f %.4f %.4f %.4f, mean %.4f ± %.4f; %.1f kB of the file a step" % (
        mode, min(ratios), *quartiles, max(ratios), statistics.mean(ratios),
        statistics.stdev(ratios) / math.sqrt(len(ratios)), 1e-3 * statistics.median(size for _, _, size in results)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/gpipe-train")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--set", action="append", default=[], metavar="key.path=value",
                        help="change the configuration, as gpipe-train does")
    options = parser.parse_args()
    results = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = folder / "c.yaml"
        config.write_text(pairs.MODEL % (2 * options.steps))
        for _ in range(options.rounds):
            for mode in MODES:
                results[mode].append(measure_pair(options, mode, config, folder))
    step = statistics.median(seconds for of_mode in results.values() for _, seconds, _ in of_mode)
    print(time.strftime("%Y-%m-%d"), f"{options.rounds} pairs of runs of {2 * options.steps} steps in each mode, "
          f"{1e3 * step:.2f} ms a step")
    for mode in MODES:
        report(mode, results[mode])


if __name__ == "__main__":
    main()
