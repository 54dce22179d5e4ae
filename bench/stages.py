#!/usr/bin/env python3
"""Two stages on two cores beside one stage on one: where the rest of the schedule's speed-up goes, in milliseconds of a step.

Usage: bench/stages.py [--program build/gpipe-train] [--rounds 3] [--steps 12] [--set KEY=VALUE]... [NETWORK...]

Each round runs, in turn: one stage with whole mini-batches; one stage with 4 micro-batches; two such programs side by side; two
stages with 4 micro-batches, checkpoint never. Each figure is the median over the rounds. The loss is divided into terms that add up:

    bound        the step of one stage / 1.6: m p / (m + p - 1) for m = 4 micro-batches and p = 2 stages
    micro        because a micro-batch of a quarter takes more than a quarter of the time
    beside       because a core is slower while the other one works, as the sum of all instructions shows
    cut          because stages differ: the programs played with the measured times of their instructions
    handing      the rest of the step: from a signal to the start, and instructions that vary from step to step
    between      from the end of a step to the start of the next

"twins" is what the same work takes when two programs run it side by side, each with one stage: no program can beat it.
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

STAGES, MICRO_BATCHES = 2, 4
SPEED_UP = STAGES * MICRO_BATCHES / (STAGES + MICRO_BATCHES - 1)


def unet(depth=5, base=16):
    """torchgpipe's U-Net with two convolutions in a cell."""
    layers = []

    def cell(middle, out, name=""):
        for channels, label in ((middle, ""), (out, name)):
            layers.extend([f"conv: {{out: {channels}, kernel: 3, pad: 1, bias: false}}", "dropout: {p: 0.1, channels: true}",
                           "instance_norm", f"leaky_relu: {{slope: 0.01{label}}}"])

    for level in range(depth):
        cell(base << level, base << level, f", name: skip{level}")
        layers.append("max_pool: 2")
    cell(base << depth, base << (depth - 1))
    for level in reversed(range(depth)):
        layers.extend(["upsample: 2", f"concat: [-1, skip{level}]"])
        cell(base * 2**level // 2, base * 2**level // 2)
    return "layers: [" + ", ".join(layers) + ", conv: {out: 1, kernel: 1, bias: false}]"


SMALL = """layers: [
    conv: {out: 16, kernel: 5, pad: 2}, batch_norm, relu, max_pool: 2,
    conv: {out: 32, kernel: 5, pad: 2}, batch_norm, relu, max_pool: 2, flatten, linear: 10]"""
# name: shape, batch, model, loss
NETWORKS = {
    "small": ([1, 28, 28], 64, SMALL, "cross_entropy"),
    "resnet50": ([3, 32, 32], 64, "resnet: {depth: 50, classes: 10}", "cross_entropy"),
    "unet": ([3, 96, 96], 8, unet(), "bce_logits"),
    "pictures": ([3, 224, 224], 16, "resnet: {depth: 50, classes: 1000}", "cross_entropy"),
}
ONE = "{devices: [cpu]}"
MICRO = f"{{devices: [cpu], micro_batches: {MICRO_BATCHES}, checkpoint: never}}"
TWO = f"{{devices: [cpu, cpu], micro_batches: {MICRO_BATCHES}, checkpoint: never}}"


def start(options, name, pipeline, folder, steps):
    shape, batch, model, loss = NETWORKS[name]
    folder.mkdir()
    config = folder / "net.yaml"
    config.write_text(f"""
model:
  input: {{shape: {shape}}}
  {model}
  loss: {loss}
data: {{train: {{synthetic: {{samples: {batch * 8}}}}}, batch: {batch}}}
pipeline: {pipeline}
optimizer: {{sgd: {{lr: 0.001, momentum: 0.9}}}}
train: {{steps: {steps}}}
""", encoding="utf-8")
    arguments = [argument for setting in options.set if "devices: [cpu, cpu]" in pipeline for argument in ("--set", setting)]
    return subprocess.Popen([options.program, "-q", "-o", str(folder / "run"), "--trace", str(folder / "t.json"), "--trace-steps",
                             f"{steps // 4 + 1}:{steps}", *arguments, str(config)])


def read(folder):
    """The plan, the recorded steps {step: {worker: {pc: (start, end)}}} in milliseconds, and the median step."""
    with open(folder / "t.json", encoding="utf-8") as file:
        trace = json.load(file)
    plan, steps, workers = trace["otherData"]["plan"], {}, {}
    for event in trace["traceEvents"]:
        arguments = event.get("args", {})
        if event.get("name") == "thread_name" and arguments["name"].startswith("worker"):
            workers[event["tid"]] = int(arguments["name"].split()[1])
        elif event.get("ph") == "X" and event["tid"] in workers and "pc" in arguments and event["cat"] not in ("wait", "layer"):
            worker = steps.setdefault(arguments["step"], {}).setdefault(workers[event["tid"]], {})
            worker[arguments["pc"]] = 1e-3 * event["ts"], 1e-3 * (event["ts"] + event["dur"])
    with open(folder / "run/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    seconds = [line["seconds"] for line in lines if line["event"] == "step"]
    return plan, steps, 1e3 * statistics.median(seconds[-len(steps):])


def instructions(plan):
    return [worker["instructions"] for worker in next(p for p in plan["programs"] if p["pass"] == "training")["workers"]]


def medians(plan, steps):
    """The median time of each instruction: [worker][pc]."""
    return [[statistics.median((lambda span: span[1] - span[0])(its[w].get(pc, (0, 0))) for its in steps.values())
             for pc in range(len(program))] for w, program in enumerate(instructions(plan))]


def play(plan, times):
    """When the programs end if each instruction takes its time and starts as soon as its waits allow."""
    ends, programs = {}, instructions(plan)
    place = [0] * len(programs)
    while any(place[w] < len(program) for w, program in enumerate(programs)):
        for w, program in enumerate(programs):
            while place[w] < len(program) and all(tuple(wait) in ends for wait in program[place[w]]["waits"]):
                pc = place[w]
                start = max([ends.get((w, pc - 1), 0)] + [ends[tuple(wait)] for wait in program[pc]["waits"]])
                ends[w, pc] = start + times[w][pc]
                place[w] += 1
    return max(ends.values())


def busy(plan, times):
    return [sum(time for time, instr in zip(times[w], program)) for w, program in enumerate(instructions(plan))]


def shares(plan, times):
    """Mean forward and backward of a micro-batch, and the update, of each worker."""
    rows = []
    for w, program in enumerate(instructions(plan)):
        sums = {}
        for span, instr in zip(times[w], program):
            sums[instr["op"]] = sums.get(instr["op"], 0) + span
        rows.append(f"F {sums.get('F', 0) / MICRO_BATCHES:.2f} B {sums.get('B', 0) / MICRO_BATCHES:.2f} step {sums.get('step', 0):.2f} "
                    f"copies {sum(v for k, v in sums.items() if k in ('load', 'recv', 'send', 'post', 'collect')):.2f}")
    return "; ".join(rows)


def run(options, name, folder, pipelines, steps):
    """These programs at the same time."""
    folders = [folder / f"{time.monotonic_ns()}{i}" for i in range(len(pipelines))]
    running = [start(options, name, pipeline, its, steps) for pipeline, its in zip(pipelines, folders)]
    for program in running:
        if program.wait():
            sys.exit(f"{options.program} failed")
    return [read(its) for its in folders]


def measure(options, name, folder, steps):
    figures = {}
    for key, pipelines in (("one", [ONE]), ("micro", [MICRO]), ("twins", [MICRO, MICRO]), ("two", [TWO])):
        done = run(options, name, folder, pipelines, steps)
        plan, recorded, step = done[0]
        times = medians(plan, recorded)
        spans = [max(end for worker in its.values() for _, end in worker.values()) -
                 min(start for worker in its.values() for start, _ in worker.values()) for its in recorded.values()]
        figures[key] = {"step": statistics.mean(its[2] for its in done), "busy": sum(busy(plan, times)), "span": statistics.median(spans),
                        "played": play(plan, times), "shares": shares(plan, times), "cut": [its["layers"] for its in plan["stages"]],
                        "source": plan["source"]}
    return figures


def median_of(rounds, key, figure):
    return statistics.median(its[key][figure] for its in rounds)


def report(name, rounds):
    one, micro, twins, two = (median_of(rounds, key, "step") for key in ("one", "micro", "twins", "two"))
    work = median_of(rounds, "micro", "busy")
    beside, played, span = (median_of(rounds, "two", figure) for figure in ("busy", "played", "span"))
    ratios = sorted(its["one"]["step"] / its["two"]["step"] for its in rounds)
    print(f"{name}: one stage {one:.2f} ms, two stages {two:.2f} ms: ratio {ratios[0]:.2f} {statistics.median(ratios):.2f} {ratios[-1]:.2f}; "
          f"cut {rounds[0]['two']['cut']} ({rounds[0]['two']['source']})")
    print(f"    twins: {twins:.2f} ms, {twins / micro:.3f} of one alone with {MICRO_BATCHES} micro-batches ({micro:.2f} ms): "
          f"bound of the ratio {SPEED_UP * one / twins:.2f}")
    terms = {"bound": one / SPEED_UP, "micro": (micro - one) / SPEED_UP, "beside": (beside - work) / SPEED_UP,
             "cut": played - (micro + beside - work) / SPEED_UP, "handing": span - played, "between": two - span}
    print("    " + ", ".join(f"{term} {value:.2f}" for term, value in terms.items()) + f" = {two:.2f} ms")
    print(f"    two stages: {rounds[-1]['two']['shares']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--program", default=str(root / "build/gpipe-train"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="of a run; the first quarter is left out")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the two stages")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    options = parser.parse_args()
    print(f"# {time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} processors; {options.steps} steps, "
          f"{options.rounds} rounds in turn; ratios: least, median, greatest; {' '.join(options.set)}")
    for name in options.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            report(name, [measure(options, name, pathlib.Path(folder), options.steps) for _ in range(options.rounds)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
