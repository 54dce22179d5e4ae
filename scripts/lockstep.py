#!/usr/bin/env python3
"""Makes the tables and pictures of docs/lockstep.md: gpipe-balance --simulate with and without lockstep.

    scripts/lockstep.py [--balance build/gpipe-balance] [--check | --tables]

Without an option it writes the tables into docs/lockstep.md and the pictures into docs/pictures/. --tables leaves out the
pictures. --check writes nothing, and exits with status 1 if a table in the page is not what the program prints.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs", "lockstep.md")

# A mini-batch of 256 samples; its forward pass takes 64 ms on each stage, its backward pass twice that.
SAMPLES, FORWARD = 256, 64.0
STAGES = (2, 4, 8)
SIZES = (64, 16, 4, 1)  # samples in a micro-batch
# About 50 kernels at 6 µs; a copy; a thread that wakes up.
LAUNCH, LAUNCH_COPY, WAKE = 0.3, 0.02, 0.05


class Failure(Exception):
    """A sentence for the user."""


class OutOfDate(Failure):
    """A table in the page is not what the program prints."""


class Simulator:
    """Runs gpipe-balance --simulate on files that it writes."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory()
        self.known = {}

    def file(self, question, name="question.yaml"):
        """Writes a file with a mapping as YAML; every JSON value is YAML."""
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(question, file)
        return path

    def text(self, question, name="question.yaml"):
        """What the program prints as JSON."""
        try:
            done = subprocess.run([self.program, "--simulate", self.file(question, name), "--json"], capture_output=True,
                                  text=True, timeout=300, check=False)
        except OSError as error:
            raise Failure(f"{self.program}: {error.strerror}; build it, or name another one with --balance") from error
        if done.returncode:
            raise Failure(f"{self.program} --simulate fails: {done.stderr.strip() or f'exit status {done.returncode}'}")
        return done.stdout

    def answer(self, question):
        """The same as a mapping."""
        key = json.dumps(question)
        if key not in self.known:
            self.known[key] = json.loads(self.text(question))
        return self.known[key]


def device(copies, hosts="per_device", launch=LAUNCH, launch_copy=LAUNCH_COPY, wake=WAKE):
    """The key `device` of a simulation."""
    times = {"launch": launch, "launch_copy": launch_copy}
    return {"copies": copies, "hosts": hosts, **times, **({} if hosts == "one" else {"wake": wake})}


def pipeline(stages, micro_batches, forward, copy, lockstep, its_device, **more):
    """A simulation in which all stages are equally long and a backward pass takes twice a forward pass."""
    return {"schedule": "gpipe", "stages": stages, "micro_batches": micro_batches, "forward": forward, "backward_input": forward,
            "backward_weight": forward, "copy": copy, "lockstep": lockstep, "device": its_device, **more}


# ---- the tables ------------------------------------------------------------------------------------------------------


def lines_of(head, rows):
    """A table in Markdown; all columns but the first are numbers."""
    return [f"| {' | '.join(head)} |", "|---|" + "--:|" * (len(head) - 1)] + [f"| {' | '.join(row)} |" for row in rows]


def step_of(simulator, stages, size, hosts, lockstep, **times):
    """The answer for micro-batches of `size` samples."""
    forward = FORWARD * size / SAMPLES
    return simulator.answer(pipeline(stages, SAMPLES // size, forward, round(0.01 + 0.1 * forward, 6), lockstep,
                                     device("queued", hosts, **times)))


def faster(before, after):
    return f"{100 * (before['step'] / after['step'] - 1):.1f} %"


def story(simulator):
    """One host thread that issues copies first; a thread per device; the same in lockstep."""
    head = ["stages", "samples in a micro-batch", "forward, ms", "one thread, ms", "a thread per device, ms", "in lockstep, ms",
            "copy delay without lockstep, ms", "lockstep faster than one thread by", "than threads without it by"]
    rows = []
    for stages in STAGES:
        for size in SIZES:
            one, free, both = (step_of(simulator, stages, size, hosts, lockstep)
                               for hosts, lockstep in (("one", True), ("per_device", False), ("per_device", True)))
            rows.append([f"{stages}", f"{size}", f"{FORWARD * size / SAMPLES:g}",
                         *(f"{answer['step']:.1f}" for answer in (one, free, both)), f"{free['copy_delay']:.2f}",
                         faster(one, both), faster(free, both)])
    return lines_of(head, rows)


def waking(simulator):
    """Why lockstep is slower with one sample in a micro-batch: all threads wake up in each clock."""
    rows = []
    for wake in (0, 0.01, 0.02, WAKE, 2 * WAKE):
        free, both = (step_of(simulator, 4, 1, "per_device", lockstep, wake=wake) for lockstep in (False, True))
        rows.append([f"{wake:g}", f"{free['step']:.1f}", f"{both['step']:.1f}", faster(free, both)])
    return lines_of(["a waiting thread goes on after, ms", "step without lockstep, ms", "in lockstep, ms", "faster by"], rows)


def recomputing(simulator):
    """Lockstep where stages recompute: the recompute stands before the copies of the next clock."""
    rows = []
    for mode in ("never", "always"):
        steps = [simulator.answer(pipeline(4, 16, 4.0, 0.41, lockstep, device(copies), checkpoint=mode))["step"]
                 for copies, lockstep in (("queued", False), ("queued", True), ("beside", True))]
        rows.append([f"`{mode}`"] + [f"{step:.1f}" for step in steps])
    return lines_of(["`checkpoint`", "step without lockstep, ms", "in lockstep", "in lockstep, copies `beside`"], rows)


# U-Net (5,64) on four Tesla P40, mini-batch 128, 8 micro-batches: samples/s and utilization that torchgpipe publishes
# (2004.09910, section 4; benchmarks/unet-timeline).
UNET = {"bare": (30.662, 44), "order": (41.306, 59), "streams": (55.191, 71), "portals": (58.477, 75)}


def unet(simulator, forward, copy, copies):
    """Samples/s and utilization of a balanced pipeline with these times."""
    answer = simulator.answer(pipeline(4, 8, forward, copy, True, device(copies, launch=0, launch_copy=0, wake=0),
                                       checkpoint="except_last"))
    return 128e3 / answer["step"], 100 * sum(answer["busy"]) / 4 / answer["step"]


def fit_copy(simulator, forward, copies, rate):
    """Milliseconds of a copy with which the simulation has this rate; more copying makes it slower."""
    low, high = 0.0, 200.0
    for _ in range(24):
        middle = round((low + high) / 2, 5)
        low, high = (middle, high) if unet(simulator, forward, middle, copies)[0] > rate else (low, middle)
    return round(low, 2)


def published(simulator):
    """torchgpipe's four numbers beside the simulation's."""
    rate, busy = UNET["streams"]
    # 8 forward passes, 8 backward passes of twice that, 7 recomputes
    forward = round(busy / 100 * 128e3 / rate / (8 + 2 * 8 + 7), 2)
    copy = fit_copy(simulator, forward, "same_queue", UNET["order"][0])
    shorter = fit_copy(simulator, forward, "beside", UNET["portals"][0])

    def row(name, what, its_copy, copies, fitted):
        ours, utilization = unet(simulator, forward, its_copy, copies)
        return [what, f"{UNET[name][0]:.3f}", f"{UNET[name][1]} %", f"`{copies}`", f"{its_copy:g}",
                f"{ours:.1f}{' (fitted)' if fitted else ''}", f"{utilization:.0f} %"]

    rows = [["bare", "30.662", "44 %", "–", "–", "–", "–"],
            row("order", "+ order of the backward passes", copy, "same_queue", True),
            row("streams", "+ copy streams", copy, "queued", False),
            row("streams", "+ copy streams", copy, "beside", False),
            row("portals", "+ portals", shorter, "beside", True)]
    return [f"Forward pass of a micro-batch: {forward:g} ms.", ""] + lines_of(
        ["torchgpipe", "published, samples/s", "utilization", "simulated `copies`", "copy, ms", "simulated, samples/s", "busy"],
        rows)


TABLES = {
    "three ways to issue": story,
    "waking": waking,
    "recomputing": recomputing,
    "torchgpipe": published,
}


def replace_table(page, name, lines):
    """The page with other lines between the comments that name the table."""
    begin, end = f"<!-- table: {name} -->\n", f"<!-- end: {name} -->\n"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise Failure(f"docs/lockstep.md: needs the lines '{begin.strip()}' and '{end.strip()}' once each, in this order")
    return page[:page.index(begin) + len(begin)] + "\n".join(lines) + "\n" + page[page.index(end):]


def update_page(page, simulator):
    """The page with all tables as the program prints them."""
    for name, make in TABLES.items():
        page = replace_table(page, name, make(simulator))
    return page


def check_page(page, simulator):
    """Fails with the first table that differs."""
    for name, make in TABLES.items():
        if replace_table(page, name, make(simulator)) != page:
            raise OutOfDate(f"docs/lockstep.md: the table '{name}' is not what gpipe-balance --simulate prints; "
                            "run scripts/lockstep.py")


# ---- the pictures ----------------------------------------------------------------------------------------------------

# Name, words on top, and the two timelines: label, question.
SLOW = {"launch": 0.5, "launch_copy": 0.1, "wake": 0.4}
PICTURES = (
    ("lockstep-one-host", "One host thread: no copy is late, but it issues for all devices",
     (("one host thread, copies first, forward passes of 2 ms", pipeline(4, 4, 2, 0.5, True, device("queued", "one", 0.2, 0.05))),
      ("the same, forward passes of 0.5 ms", pipeline(4, 4, 0.5, 0.1, True, device("queued", "one", 0.2, 0.05))))),
    ("lockstep-per-device", "Host threads that run ahead: copies queue after kernels that were issued meanwhile",
     (("a host thread per device, without lockstep", pipeline(4, 6, 2, 0.5, False, device("queued", "per_device", **SLOW))),
      ("a host thread per device, lockstep", pipeline(4, 6, 2, 0.5, True, device("queued", "per_device", **SLOW))))),
    ("lockstep-same-queue", "Copies in the computing queues, and beside them",
     (("copies in the same queue, lockstep", pipeline(4, 4, 2, 1, True, device("same_queue", "one", 0, 0))),
      ("copies beside computations, lockstep", pipeline(4, 4, 2, 1, True, device("queued", "one", 0, 0))))),
)


def draw(simulator, folder):
    """Writes the pictures with scripts/timelines."""
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    from timelines import picture
    from timelines.read import read

    for name, title, sides in PICTURES:
        timelines = []
        for label, question in sides:
            path = os.path.join(simulator.folder.name, "answer.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(simulator.text(question))
            timelines.append(read(path))
            timelines[-1].name = label
        with open(os.path.join(folder, name + ".svg"), "w", encoding="utf-8") as file:
            file.write(picture.svg(timelines, title=title))


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--balance", default=os.path.join(ROOT, "build", "gpipe-balance"), metavar="FILE", help="the program")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; fail if a table in the page is out of date")
    what.add_argument("--tables", action="store_true", help="write the tables only")
    options = parser.parse_args()
    simulator = Simulator(options.balance)
    try:
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        if options.check:
            check_page(page, simulator)
            return 0
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(update_page(page, simulator))
        if not options.tables:
            draw(simulator, os.path.join(ROOT, "docs", "pictures"))
    except (Failure, OSError) as error:
        print(f"lockstep: {error}", file=sys.stderr)
        return 1 if isinstance(error, OutOfDate) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
