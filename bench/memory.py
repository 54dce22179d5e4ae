#!/usr/bin/env python3
"""Memory of a run beside the sum of its parts and beside PyTorch's, for the networks of bench/peers.py.

    bench/memory.py [--program build/gpipe-train] [--venv build/peers-venv] [--model NAME…] [--no-measure]

For each network on one stage: what the plan takes, kind by kind; the sum of the parts, which is parameters, optimizer state,
gradients, stashes, saved values, and the most that transients and a workspace of one op take together; how much more or less than this
sum the arena and the run are planned to take (less, where transients lie in free bytes of saved values); the peak of resident memory
(VmHWM) of a run and of PyTorch, each less that of a network of almost no size. bench/README.md says how to read the table.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside import environment  # noqa: E402
from beside.networks import NETWORKS  # noqa: E402
from beside.process import RowFailed, measure, peak_after  # noqa: E402
from beside.rows import Programs  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ("parameters", "gradients", "optimizer state", "stashes", "saved values")
OURS, THEIRS = "ours_1x2", "eager_2"
SECONDS, LIMIT = 2, 300


def mebibytes(size):
    return "-" if size is None else f"{size / 2**20:.1f}"


def planned(programs, network):
    """The plan's worker, as JSON has it, and bytes of all of the run."""
    config = programs.config(network, OURS)
    plan = json.loads(programs.output("--plan", "--json", config))
    text = programs.output("--plan", config)
    all_of_run = int(re.search(r"all of the run.*\n\s+in bytes\s+(\d+)", text)[1])
    return plan["workers"][0], all_of_run


def peak(programs, network, row):
    try:
        commands, additions, path = programs.commands(network, row)
        return measure(commands, additions, path, SECONDS, LIMIT).peak
    except RowFailed as why:
        print(f"# {network}: {row} is left out: {why}", file=sys.stderr)
        return None


def rows_of(programs, network, empty):
    worker, run = planned(programs, network)
    memory, arena, transient = worker["memory"], worker["arena_bytes"], worker["largest_transient_bytes"]
    parts = sum(memory[kind] for kind in PARTS) + transient
    rows = [(kind, mebibytes(size)) for kind, size in memory.items()]
    rows += [("arena", mebibytes(arena)), ("largest transient", mebibytes(transient)), ("sum of the parts", mebibytes(parts)), ("all of the run", mebibytes(run)),
             ("arena / sum", f"{arena / parts:.3f}"), ("all of the run / sum", f"{run / parts:.3f}")]
    if empty:
        ours, theirs = peak(programs, network, OURS), peak(programs, network, THEIRS)
        ours, theirs = ours and ours - empty["ours"], theirs and theirs - empty["torch"]
        rows += [("peak of gpipe-train", mebibytes(ours)), ("peak of PyTorch, eager", mebibytes(theirs)),
                 ("gpipe-train / PyTorch", f"{ours / theirs:.2f}" if ours and theirs else "-")]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/gpipe-train"))
    parser.add_argument("--venv", default=str(ROOT / "build/peers-venv"), metavar="FOLDER", help="of bench/peers.py; made if it is not there")
    parser.add_argument("--model", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    parser.add_argument("--no-measure", action="store_true", help="the plan alone")
    options = parser.parse_args()
    if not os.access(options.program, os.X_OK):
        parser.error(f"{options.program} is no program: build it, or name one with --program")
    python = None if options.no_measure else environment.prepare(options.venv, lambda text: print(f"# {text}", file=sys.stderr))
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(options.program, python, folder)
        commands = {} if options.no_measure else {"ours": programs.commands("tiny", OURS), "torch": programs.commands("tiny", THEIRS)}
        empty = {name: peak_after(*command, 3, LIMIT) for name, command in commands.items()}
        columns = [rows_of(programs, network, empty) for network in options.model]
        print(f"{'MiB':<26}" + "".join(f"{NETWORKS[network].title:>22}" for network in options.model))
        for cells in zip(*columns):
            print(f"{cells[0][0]:<26}" + "".join(f"{cell:>22}" for _, cell in cells))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (environment.NoEnvironment, subprocess.CalledProcessError) as why:
        sys.exit(f"memory.py: {why}")
