#!/usr/bin/env python3
"""Compares predicted with measured steps, for the balance from a profile and for the even cut.

Usage: bench/balance.py [--build build] [--rounds 3] [--seconds 5] [--schedules gpipe,1f1b,zb_h1,interleaved] [NETWORK...]

Two CPU stages of one thread each. In each round, gpipe-balance measures a new profile. Then gpipe-train runs that balance and the
even cut (equal numbers of layers), in turn. The figure of a run is the median seconds of its steps in metrics.jsonl, without the
first five.

Printed for each network and schedule, as least, median and greatest over the rounds:
- the predicted and the measured step, and their ratio;
- how many times as long the even cut takes, predicted and measured.
Printed as medians, from the report at the end of the runs with the balance found:
- the deviations of computing, copying and waiting, in per cent of the step;
- CPU steal.

Data are synthetic. Other programs may run at the same time: note them with the results.
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

REST = """
data: {train: {synthetic: {samples: %d, seed: 1}}, batch: %d}
pipeline: {devices: [cpu, cpu], micro_batches: 4}
optimizer: {sgd: {lr: 0.001, momentum: 0.9}}
train: {steps: %d}
"""

MNIST = """
model:
  input: {shape: [1, 28, 28]}
  layers:
    - conv: {out: 16, kernel: 5, pad: 2}
    - batch_norm
    - relu
    - max_pool: 2
    - conv: {out: 32, kernel: 3, pad: 1}
    - batch_norm
    - relu
    - max_pool: 2
    - conv: {out: 64, kernel: 3, pad: 1}
    - batch_norm
    - relu
    - max_pool: 2
    - flatten
    - dropout: 0.3
    - linear: {out: 10}
  loss: cross_entropy
""" + REST % (6400, 64, 40)

RESNET = """
model: {resnet: {depth: 18, classes: 10}, input: {shape: [3, 64, 64]}, loss: cross_entropy}
""" + REST % (256, 16, 14)

# Most of the work lies in the first three of seventeen layers.
UNEVEN = """
model:
  input: {shape: [1024]}
  layers:
    - linear: {out: 1024}
    - relu
    - linear: {out: 1024}
    - relu
    - linear: {out: 192}
%s    - linear: {out: 10}
  loss: cross_entropy
""" % ("    - relu\n    - linear: {out: 192}\n" * 6) + REST % (2560, 256, 40)

NETWORKS = {"mnist": MNIST, "resnet": RESNET, "uneven": UNEVEN}
SCHEDULES = {"gpipe": "gpipe", "1f1b": "1f1b", "zb_h1": "zb_h1", "interleaved": "{interleaved: {chunks: 2}}"}


def call(arguments, folder):
    environment = {**os.environ, "XDG_CACHE_HOME": folder}
    return subprocess.run(arguments, check=True, env=environment, capture_output=True, text=True).stdout


def predict(build, config, schedule, seconds, folder):
    return json.loads(call([f"{build}/gpipe-balance", "--json", "--again", "--seconds", str(seconds), "--set",
                            f"pipeline.schedule={schedule}", config], folder))


def run(build, config, schedule, balance, folder):
    """Median milliseconds of a step, and the account."""
    call([f"{build}/gpipe-train", "-q", "--force", "-o", f"{folder}/run", "--set", f"pipeline.schedule={schedule}", "--set",
          f"pipeline.balance={balance}", config], folder)
    lines = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl", encoding="utf-8")]
    return 1e3 * statistics.median([line["seconds"] for line in lines if line["event"] == "step"][5:]), lines[-1]["account"]


def spread(values, form="%.2f"):
    return " ".join(form % value for value in (min(values), statistics.median(values), max(values)))


def compare(arguments, network, schedule, folder):
    config = f"{folder}/{network}.yaml"
    pathlib.Path(config).write_text(NETWORKS[network], encoding="utf-8")
    rounds = []
    for i in range(arguments.rounds):
        report = predict(arguments.build, config, SCHEDULES[schedule], arguments.seconds, folder)
        cuts = [report["balance"], report["even"]["balance"]]
        order = cuts if i % 2 == 0 else cuts[::-1]
        measured = {str(cut): run(arguments.build, config, SCHEDULES[schedule], cut, folder) for cut in order}
        found, account = measured[str(cuts[0])]
        rounds.append((report["step"], found, report["even"]["step"], measured[str(cuts[1])][0], cuts[0], account))
    predicted, found, accounts = [r[0] for r in rounds], [r[1] for r in rounds], [r[5] for r in rounds]
    off = [statistics.median(100 * a["off"][term] / a["expected"]["step"] for a in accounts) for term in ("computing", "copying", "waiting")]
    stolen = 100 * statistics.median(a["stolen"] for a in accounts)
    print("%-7s %-12s %8.1f %8.1f   %-20s %-20s %-20s %+4.0f %+4.0f %+4.0f %6.0f   %s" %
          (network, schedule, statistics.median(predicted), statistics.median(found),
           spread([r[0] / r[1] for r in rounds]), spread([r[2] / r[0] for r in rounds]),
           spread([r[3] / r[1] for r in rounds]), *off, stolen, rounds[-1][4]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    arguments = parser.parse_args()
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "")
    print(time.strftime("%Y-%m-%d"), platform.machine(), cpu, os.cpu_count(), "CPUs, load", "%.1f" % os.getloadavg()[0])
    print("$", " ".join(["bench/balance.py", *sys.argv[1:]]))
    print("%-7s %-12s %8s %8s   %-20s %-20s %-20s %4s %4s %4s %6s   %s" %
          ("network", "schedule", "predicted", "measured", "predicted/measured", "even/found, predicted", "even/found, measured",
           "comp", "copy", "wait", "stolen", "found"))
    for network in arguments.networks or NETWORKS:
        for schedule in arguments.schedules.split(","):
            with tempfile.TemporaryDirectory() as folder:
                compare(arguments, network, schedule, folder)


main()
