#!/usr/bin/env python3
"""Times gpipe-train beside PyTorch, torchgpipe and torch.distributed.pipelining on CPUs, in turn, and prints ratios.

    bench/peers.py [--program build/gpipe-train] [--model NAME…] [--rounds 3] [--seconds 5] [--json FILE]

The first run makes a virtual environment (--venv) with PyTorch and torchgpipe: some minutes, and 7 GB with PyPI's PyTorch.

Every program trains the same network on random data with SGD and momentum: forward, backward, update; the same mini-batch, and for
pipelines the same 4 micro-batches and two stages. PyTorch's networks and pictures are channels_last. A round runs each row once, in a
process of its own; every second round runs them in reverse. A row's figure is the median of its steps after the warm-up. Ratios are of
the same round. Ctrl-C ends all processes and prints the rounds so far. bench/README.md says how to read the tables.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside import environment, tables  # noqa: E402
from beside.networks import MICRO_BATCHES, NETWORKS  # noqa: E402
from beside.process import Measured, RowFailed, measure, peak_after  # noqa: E402
from beside.rows import KEEP_MEMORY, ROWS, Programs, compiler  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def measured(programs, network, row, options):
    """One row once; None if it cannot run here."""
    try:
        commands, additions, path = programs.commands(network, row)
        one = measure(commands, additions, path, options.seconds, options.limit)
    except RowFailed as why:
        say(f"{network}: {ROWS[row].title} is left out: {why}")
        return None
    say(f"{network}: {ROWS[row].title}: {NETWORKS[network].batch / one.step:.1f} samples/s, {one.steps} steps; "
        f"others {100 * one.others:.0f} %, CPU steal {100 * one.steal:.0f} %")
    return one


def run(programs, options, records):
    """All rounds. `records` has {network: {row: [Measured or None, of each round]}} when this returns or is interrupted."""
    for network in options.model:
        rows = records[network] = {row: [] for row in options.rows}
        for turn in range(options.rounds):
            say(f"{network}: round {turn + 1} of {options.rounds}")
            for row in options.rows if turn % 2 == 0 else reversed(options.rows):
                gone = turn > 0 and not any(rows[row])
                one = None if gone else measured(programs, network, row, options)
                rows[row] += [None] * (turn - len(rows[row])) + [one]


def planned_of(programs, options):
    """{network: {row: (bytes of the arenas, of all of the run)}} of our rows."""
    rows = [row for row in options.rows if ROWS[row].pipeline]
    return {network: {row: programs.planned(network, row) for row in rows} for network in options.model}


def empty_peaks(programs, options):
    """Peak resident bytes of both programs with a network of almost no size."""
    commands = {name: programs.commands("tiny", row) for name, row in (("ours", "ours_1x2"), ("torch", "eager_2"))}
    return {name: peak_after(*command, 3, options.limit) for name, command in commands.items()}


def check_parameters(programs):
    ours, theirs = programs.parameters()
    if ours != theirs:
        raise SystemExit(f"peers.py: gpipe-train's networks have {ours} parameters, PyTorch's {theirs}: they must be the same networks")


def about(options):
    versions = " ".join(f"{name} {version}" for name, version in environment.versions_in(options.venv).items())
    ours = subprocess.run([options.program, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip().splitlines()
    return [f"# {time.strftime('%Y-%m-%d')}, {processor()}, {len(os.sched_getaffinity(0))} processors",
            f"# {'; '.join(ours)}; Python {platform.python_version()}, {versions}, {' '.join(platform.libc_ver())}",
            f"# {' '.join(sys.argv)}",
            f"# {options.rounds} rounds in turn, steps for {options.seconds:g} s a row after the warm-up; "
            f"pipelines of {MICRO_BATCHES} micro-batches",
            f"# tuned: SGD(fused=True), {' '.join(f'{name}={value}' for name, value in KEEP_MEMORY.items())}"]


def report(about_run, records, empty, planned, path):
    rates = tables.values(records, lambda network, one: NETWORKS[network].batch / one.step)
    peaks = tables.values(records, lambda _, one: one.peak)
    lines = [*about_run, *tables.disturbance(records), *tables.ratio_table(rates), *tables.rate_table(rates),
             *tables.memory_table(peaks, empty, planned), *tables.use_table(records), *tables.mark_table(rates, peaks, empty)]
    print("\n".join(lines), flush=True)
    if path:
        raw = tables.values(records, lambda _, one: dataclasses.asdict(one))
        everything = {"about": about_run, "rounds": raw, "empty_bytes": empty, "planned_bytes": planned}
        pathlib.Path(path).write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


def merge(options):
    """The tables of several files of --json: their rounds after each other."""
    records, planned, files = {}, {}, []
    for path in options.merge:
        try:
            files.append(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            sys.exit(f"peers: {path} could not be read: {error}")
    for file in files:
        for network, rows in file["planned_bytes"].items():
            planned.setdefault(network, {}).update(rows)
        for network, rows in file["rounds"].items():
            before = max((len(some) for some in records.setdefault(network, {}).values()), default=0)
            for row, some in rows.items():
                there = records[network].setdefault(row, [])
                there += [None] * (before - len(there)) + [one and Measured(**one) for one in some]
    report([text for file in files for text in file["about"]], records, files[0]["empty_bytes"], planned, options.json)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/gpipe-train"))
    parser.add_argument("--venv", default=str(ROOT / "build/peers-venv"), metavar="FOLDER",
                        help="made if it is not there (default: build/peers-venv)")
    parser.add_argument("--model", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), metavar="ROW", help=f"only these rows: {', '.join(ROWS)}")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which needs a C++ compiler and some minutes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5,
                        help="steps of a row take so long, after the warm-up; 3 steps at least (default: 5)")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which a row is left out (default: 300)")
    parser.add_argument("--json", metavar="FILE", help="write the figures of each round")
    parser.add_argument("--merge", nargs="+", metavar="FILE",
                        help="measure nothing: print the tables of the rounds of these files of --json")
    options = parser.parse_args()
    if not options.merge and not os.access(options.program, os.X_OK):
        parser.error(f"{options.program} is no program: build it, or name one with --program")
    if options.compile and not compiler():
        say("torch.compile is left out: no C++ compiler was found")
        options.compile = False
    options.rows = [row for row in ROWS if (row in options.rows if options.rows else options.compile or row != "compile_2")]
    return options


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    options = arguments()
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, interrupted)
    if options.merge:
        merge(options)
        return 0
    records, status = {}, 0
    try:
        python = environment.prepare(options.venv, say)
        with tempfile.TemporaryDirectory() as folder:
            programs = Programs(options.program, python, folder)
            check_parameters(programs)
            empty = empty_peaks(programs, options)
            try:
                run(programs, options, records)
            except KeyboardInterrupt:
                say("interrupted: these are the rounds so far")
                status = 130
            if records:
                report(about(options), records, empty, planned_of(programs, options), options.json)
    except KeyboardInterrupt:
        status = 130
    except environment.NoEnvironment as why:
        print(f"peers.py: {why}", file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
