#!/usr/bin/env python3
"""Time that a plan of many workers takes: a chain of linear layers, two for each stage.

Usage: large_plan.py [--program PROGRAM] [STAGES REPLICAS MICRO_BATCHES]     (128 8 256 unless given)

Each schedule is planned three times, with and without links between hosts; the shortest time counts."""

import argparse
import os
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINKS = ("pipeline.links={processes: %d, processes_per_host: %d, host: {latency: 20 us, bandwidth: 10 GB/s}, "
         "network: {latency: 100 us, bandwidth: 1 GB/s}}")


def configuration(stages, replicas, micro_batches):
    batch = micro_batches * replicas
    layers = "".join("    - linear: 16\n" for _ in range(2 * stages))
    return ("model:\n  input: {shape: [16]}\n  layers:\n%s    - linear: 5\n  loss: cross_entropy\n"
            "data: {train: {synthetic: {samples: %d, seed: 1}}, batch: %d}\n"
            "pipeline: {devices: [{cpu: {count: %d}}], replicas: %d, micro_batches: %d}\n"
            "optimizer: {sgd: {lr: 0.02}}\ntrain: {steps: 4}\n" % (layers, 4 * batch, batch, stages, replicas, micro_batches))


def seconds(command):
    best = None
    for _ in range(3):
        began = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        took = time.monotonic() - began
        best = took if best is None else min(best, took)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "gpipe-train"))
    parser.add_argument("sizes", type=int, nargs="*", default=[128, 8, 256])
    options = parser.parse_args()
    stages, replicas, micro_batches = options.sizes
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.yaml")
        with open(path, "w") as file:
            file.write(configuration(stages, replicas, micro_batches))
        print("%d stages x %d replicas, %d micro-batches" % (stages, replicas, micro_batches))
        for schedule in ("gpipe", "1f1b", "zb_h1"):
            command = [options.program, "--plan", "--set", "pipeline.schedule=" + schedule, path]
            linked = [*command, "--set", LINKS % (stages * replicas, replicas)]
            print("  %-8s%6.2f s%8.2f s with links" % (schedule, seconds(command), seconds(linked)), flush=True)


if __name__ == "__main__":
    main()
