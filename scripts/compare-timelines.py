#!/usr/bin/env python3
"""Compares timelines: prints where the time of a step goes, and draws a page (docs/compare.md)."""
import argparse
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from timelines.compare import LETTERS, compare  # noqa: E402
from timelines.read import Options, read  # noqa: E402
from timelines.timeline import BadInput  # noqa: E402

NAME = "gpipe-compare"
DESCRIPTION = """\
Compares timelines of training steps. FILE is an Nsight Systems SQLite export, a timeline of gpipe-train --trace, of PyTorch's
profiler, or a plan or simulation as JSON (gpipe-train --plan --json, gpipe-balance --simulate --json). The first file is the
one that the others are compared with. One file alone is described."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(f"{message}; {NAME} --help lists the options")


def steps(text):
    match = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", text)
    if not match or int(match[1]) > int(match[2] or match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps; write FIRST:LAST, for example 3:6")
    return int(match[1]), int(match[2] or match[1])


def parser():
    it = Parser(prog=NAME, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    it.add_argument("files", nargs="+", metavar="FILE")
    it.add_argument("--json", action="store_true", help="print JSON")
    it.add_argument("--steps", type=steps, metavar="FIRST:LAST", help="use these steps only (default: all in the files)")
    it.add_argument("--steps-by", default="", metavar="RANGE", help="the name of the range (NVTX, record_function) that is one step")
    it.add_argument("--plan", default="", metavar="FILE", help="the plan as JSON of runs whose files have none")
    it.add_argument("--names", metavar="A,B", help="what the tables call the files, in their order")
    it.add_argument("--totals", action="store_true", help="allow different numbers of workers")
    return it


def load(args):
    if len(args.files) > len(LETTERS):
        raise BadInput(f"{len(args.files)} files are given; at most {len(LETTERS)} can be compared at a time")
    options = Options(steps=args.steps, steps_by=args.steps_by, plan=args.plan)
    return [read(path, options) for path in args.files]


def run(arguments):
    args = parser().parse_args(arguments)
    timelines = load(args)
    comparison = compare(timelines, args.totals)
    if args.json:
        json.dump({"runs": comparison["runs"], "text": comparison["text"]}, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(([comparison["text"] + "\n"] if comparison["text"] else []) + comparison["tables"]), end="")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    sys.stderr.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        run(sys.argv[1:])
    except BadInput as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
