#!/usr/bin/env python3
"""Compares timelines: prints where the time of a step goes, and draws a page (docs/compare.md)."""
import argparse
import gc
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from timelines import output  # noqa: E402
from timelines.compare import LETTERS, compare, text_of  # noqa: E402
from timelines.read import Options, read  # noqa: E402
from timelines.timeline import BadInput  # noqa: E402
from timelines.version import version  # noqa: E402

NAME = "gpipe-compare"
DESCRIPTION = """\
Compares timelines of training steps: prints how long a step takes, where its time goes, and what differs.
The first file, A, is the one that the others are compared with. One file alone is described.

FILE is one of these, also compressed with gzip:
  a timeline of gpipe-train --trace FILE
  a plan of gpipe-train --plan --json config.yaml, or the plan.json of a run folder
  a simulation of gpipe-balance --simulate FILE --json
  an SQLite export of Nsight Systems (not compressed)
  a timeline of PyTorch's profiler (export_chrome_trace)"""
EPILOG = """\
docs/compare.md defines each number.
Exit status: 0 done; 1 an output file cannot be written; 2 the command line or an input file is wrong."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise BadInput(f"{message}; {NAME} --help lists the options")


def steps(text):
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    if not match or int(match[1]) > int(match[2] or match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps: write FIRST:LAST, for example 3:6")
    return int(match[1]), int(match[2] or match[1])


def parser():
    it = Parser(prog=NAME, usage=f"{NAME} [options] FILE [FILE ...]", description=DESCRIPTION, epilog=EPILOG,
                formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    it.add_argument("files", nargs="+", metavar="FILE", help=argparse.SUPPRESS)
    it.add_argument("-o", dest="page", metavar="FILE", help="write a page with the timelines and tables: one HTML file")
    it.add_argument("--json", action="store_true", help="print JSON")
    it.add_argument("--svg", metavar="FILE", help="draw the timelines of one step as an SVG picture")
    it.add_argument("--png", metavar="FILE", help="the same as PNG, if a converter is installed")
    it.add_argument("--steps", type=steps, metavar="FIRST:LAST", help="use only these steps (default: all in the file)")
    it.add_argument("--steps-by", default="", metavar="RANGE",
                    help="other programs' captures: the name of the range (NVTX, record_function) that is one step")
    it.add_argument("--plan", metavar="FILE", help="put this plan (JSON) beside what was measured; all runs must have had it")
    it.add_argument("--names", metavar="A,B", help="what to call the files, in their order")
    it.add_argument("--totals", action="store_true",
                    help="compare runs with different numbers of workers: means over the workers only")
    it.add_argument("--version", action="version", version=f"{NAME} {version()}")
    return it


def check_outputs(args):
    """Refuses what cannot be written before the work begins."""
    targets = [(option, path) for option, path in (("-o", args.page), ("--svg", args.svg), ("--png", args.png)) if path is not None]
    for index, (option, path) in enumerate(targets):
        output.check(path, option, [*args.files, *([args.plan] if args.plan else [])])
        for other, its in targets[:index]:
            if os.path.realpath(path) == os.path.realpath(its):
                raise BadInput(f"{path}: is named with {other} and with {option}; choose two names")


def load(args):
    """The timelines, with names that differ."""
    if len(args.files) > len(LETTERS):
        raise BadInput(f"{len(args.files)} files are given, and at most {len(LETTERS)} can be compared; compare fewer files at a time")
    if args.plan == "":
        raise BadInput("--plan has an empty name; name the JSON of gpipe-train --plan --json")
    options = Options(steps=args.steps, steps_by=args.steps_by, plan=args.plan or "")
    names = args.names.split(",") if args.names is not None else None
    if names and len(names) != len(args.files):
        raise BadInput(f"--names has {len(names)} name{'s' * (len(names) > 1)} for {len(args.files)} "
                       f"file{'s' * (len(args.files) > 1)}; give each file one name, separated by commas")
    for i, name in enumerate(names or []):
        if not name.strip() or name in names[:i]:
            raise BadInput(f'--names: "{name}" is {"given twice" if name.strip() else "empty"}; give each file a name of its own')
    timelines = [read(path, options) for path in args.files]
    bases = [timeline.name for timeline in timelines]
    for index, timeline in enumerate(timelines):
        if names:
            timeline.name = names[index]
        elif bases.count(timeline.name) > 1:
            timeline.name = args.files[index]
    return timelines


def write_files(args, timelines, comparison):
    if args.page is not None:
        from timelines.page import write_page

        output.replace(args.page, lambda path: write_page(path, timelines, comparison))
    if args.svg is not None or args.png is not None:
        from timelines import picture

        if args.svg is not None:
            output.replace(args.svg, lambda path: output.write_text(path, picture.svg(timelines, comparison)))
        if args.png is not None:
            output.replace(args.png, lambda path: picture.png(path, timelines, comparison))


def run(arguments):
    args = parser().parse_args(arguments)
    check_outputs(args)
    timelines = load(args)
    comparison = compare(timelines, args.totals)
    write_files(args, timelines, comparison)
    if args.json:
        print(json.dumps({"runs": comparison["runs"], "text": comparison["text"]}, indent=1, allow_nan=False))
    else:
        print(text_of(comparison), end="")
    sys.stdout.flush()


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    sys.stderr.reconfigure(encoding="utf-8", errors="surrogateescape")
    gc.disable()  # hundreds of thousands of objects live until the end: looking for garbage among them takes a fifth of the time
    try:
        run(sys.argv[1:])
    except BadInput as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    except output.WriteError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except MemoryError:
        print(f"{NAME}: the files do not fit into memory; compare fewer files or steps", file=sys.stderr)
        return 1
    except OSError as error:  # of standard output: all files are read and written above
        print(f"{NAME}: cannot print: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        sys.stdout = None  # it cannot be flushed at exit either
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
