#!/usr/bin/env python3
"""What running an instruction costs beside its computation: two builds of gpipe-train, in turn.

Usage: bench/instructions.py --against OLD/gpipe-train [--program build/gpipe-train] [--rounds 5] [CASE...]

The networks compute almost nothing, so processor time is the cost of instructions, ops, signals and waits. Each round runs the old
program and the new one, in turn, each with few steps and with many. From the processor time of both follows the time of a step, and
that of the start. Other programs on the machine change processor time less than elapsed time. Printed: medians over the rounds,
and the ratio old/new as least, median and greatest over the rounds. Results that are quoted elsewhere are in bench/results/.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

LINEAR = ["{linear: 16}", "relu"] * 3
PICTURES = ["{conv: {out: 8, kernel: 3, pad: 1, bias: false}}", "batch_norm", "relu"] * 2 + ["{max_pool: 2}", "flatten", "{linear: 16}", "relu"]
# name: layers, shape of the input, stages, micro-batches of one sample, further options, steps of the short and the long run
CASES = {
    "linear1": (LINEAR, "[16]", 1, 64, {}, 20, 420),
    "linear2": (LINEAR, "[16]", 2, 64, {}, 20, 420),
    "recompute2": (LINEAR, "[16]", 2, 64, {"checkpoint": "always"}, 20, 420),
    "pictures1": (PICTURES, "[3, 8, 8]", 1, 64, {}, 10, 110),
    "pictures2": (PICTURES, "[3, 8, 8]", 2, 64, {}, 10, 110),
    "many64": (["{linear: 16}"] * 63, "[16]", 64, 1024, {"schedule": "1f1b"}, 1, 4),
}


def configuration(case, steps):
    layers, shape, stages, micro_batches, options, _, _ = case
    more = "".join(f", {key}: {value}" for key, value in options.items())
    return f"""
model:
  input: {{shape: {shape}}}
  layers: [{", ".join(layers + ["{linear: 10}"])}]
  loss: cross_entropy
data: {{train: {{synthetic: {{samples: {10 * micro_batches}, seed: 1}}}}, batch: {micro_batches}}}
pipeline: {{devices: [{", ".join(["cpu"] * stages)}], micro_batches: {micro_batches}{more}}}
optimizer: {{sgd: {{lr: 0.01, momentum: 0.9}}}}
train: {{steps: {steps}, seed: 1}}
"""


def run(program, config, folder):
    """Processor seconds, elapsed seconds and peak of resident memory [bytes] of one run."""
    start = time.monotonic()
    process = subprocess.Popen([program, "-q", "--force", "-o", folder / "run", config], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench/instructions.py: {program} {config}: exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss * 1024


def count_instructions(program, config):
    plan = json.loads(subprocess.run([program, "--plan", "--json", config], capture_output=True, check=True).stdout)
    return sum(len(worker["instructions"]) for worker in plan["programs"][0]["workers"])


def measure(program, case, folder):
    """Seconds of processor time of the start and of a step; elapsed seconds of the short run; peak of memory."""
    few, many = case[5], case[6]
    times = []
    for steps in few, many:
        config = folder / f"{steps}.yaml"
        config.write_text(configuration(case, steps))
        times.append(run(program, config, folder))
    step = (times[1][0] - times[0][0]) / (many - few)
    return max(times[0][0] - few * step, 0), step, times[0][1], times[1][2]


def spread(olds, news):
    ratios = sorted(old / new for old, new in zip(olds, news) if new > 0)
    return f"{ratios[0]:.2f} {statistics.median(ratios):.2f} {ratios[-1]:.2f}" if ratios else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/gpipe-train")
    parser.add_argument("--against", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; old: {options.against}, new: {options.program}")
    print("case        instructions  µs per instruction      old/new        start [s CPU]    first run [s]      peak [MiB]")
    for name in options.cases or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            (folder / "c.yaml").write_text(configuration(case, 1))
            count = count_instructions(options.program, folder / "c.yaml")
            old, new = [], []
            for i in range(options.rounds):
                for program, results in ((options.against, old), (options.program, new))[:: 1 if i % 2 == 0 else -1]:
                    results.append(measure(program, case, folder))
        a, b = ([statistics.median(column) for column in zip(*results)] for results in (old, new))
        ratio = spread([r[1] for r in old], [r[1] for r in new])
        print(f"{name:11} {count:12} {a[1] / count * 1e6:9.2f} → {b[1] / count * 1e6:6.2f}  {ratio:>16}  {a[0]:6.2f} → {b[0]:5.2f}"
              f"  {a[2]:6.2f} → {b[2]:5.2f}  {a[3] / 2**20:6.0f} → {b[3] / 2**20:4.0f}", flush=True)


if __name__ == "__main__":
    main()
