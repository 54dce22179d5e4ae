#!/usr/bin/env python3
"""gpipe-report: a table and one page for runs of gpipe-train (docs/reports.md)."""
import argparse
import json
import os
import stat
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__))))
from timelines import run_figures, run_page, run_picture  # noqa: E402
from timelines.run_folder import read_run  # noqa: E402
from timelines.timeline import BadInput  # noqa: E402
from timelines.version import version  # noqa: E402

DESCRIPTION = ("Prints a table of runs of gpipe-train and what differs between their configurations, and writes one page with "
               "their curves, plans and reports. docs/reports.md describes both.")
PAGE = "report.html"
RUN_FILES = ("metrics.jsonl", "config.yaml", "model.safetensors", "best.safetensors", "plan.json", "snapshots")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, "gpipe-report: %s: see gpipe-report --help\n" % message)


def parse(arguments):
    parser = Parser(prog="gpipe-report", allow_abbrev=False, description=DESCRIPTION,
                    formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
                    epilog="Exit status: 0 done; 1 an output cannot be written; 2 the command line or a run folder is wrong.")
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run folder, as gpipe-train -o writes it")
    parser.add_argument("-o", metavar="FILE", dest="output",
                        help="the page (default %s; with --text, --json, --svg or --png there is no page without -o)" % PAGE)
    parser.add_argument("--text", action="store_true", help="print the table only; write no page")
    parser.add_argument("--json", action="store_true",
                        help="print the numbers of the table and more as JSON instead of the table")
    parser.add_argument("--svg", metavar="FILE", help="write the curves as a picture")
    parser.add_argument("--png", metavar="FILE", help="the same as PNG, if a converter is installed")
    parser.add_argument("--names", metavar="A,B", help="names of the runs, in their order (default: the names of the folders)")
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: the names)")
    parser.add_argument("--version", action="version", version="gpipe-report " + version())
    return parser.parse_args(arguments)


def name_runs(paths, given):
    """A name for each run: the given ones, or as much of the ends of their paths as tells them apart."""
    if given is not None:
        names = given.split(",")
        if len(names) != len(paths):
            raise BadInput("--names has %d name%s for %d run%s: give one name for each run" %
                           (len(names), "s" * (len(names) > 1), len(paths), "s" * (len(paths) > 1)))
    else:
        whole = [os.path.realpath(path).strip(os.sep).split(os.sep) for path in paths]
        most = max(len(parts) for parts in whole)
        names = next(names for count in range(1, most + 1)
                     for names in [["/".join(parts[-count:]) or "/" for parts in whole]]
                     if len(set(names)) == len(names) or count == most)
    for i, name in enumerate(names):
        if not name.strip() or name in names[:i]:
            raise BadInput('--names: "%s" is %s: give each run a name of its own' %
                           (name, "given twice" if name.strip() else "empty"))
    return names


def refuse_repeats(paths):
    seen = {}
    for path in paths:
        try:
            about = os.stat(path)
        except (OSError, ValueError):
            continue  # reading it says what is wrong
        key = (about.st_dev, about.st_ino)
        if key in seen:
            raise BadInput("%s: is the same run as %s: name each run once" % (path, seen[key]))
        seen[key] = path


def check_output(path, option, marker, runs):
    """Refuses to write over what is no report, or over a file of a run."""
    if not path:
        raise BadInput("option %s needs the name of a file" % option)
    folder, name = os.path.split(os.path.abspath(path))
    for run in runs:
        if name in RUN_FILES and os.path.isdir(folder) and os.path.isdir(run) and os.path.samefile(folder, run):
            raise BadInput("%s: is a file of the run %s: choose another name with %s" % (path, run, option))
    try:
        about = os.stat(path)
    except OSError:
        return
    if stat.S_ISDIR(about.st_mode):
        raise BadInput("%s: is a folder: choose the name of a file with %s" % (path, option))
    if not stat.S_ISREG(about.st_mode) or about.st_size == 0:
        return
    try:
        with open(path, "rb") as file:
            file.seek(max(0, about.st_size - 200))
            ours = marker.encode() in file.read()
    except OSError:
        ours = False
    if not ours:
        raise BadInput("%s: exists and is no report: choose another name with %s, or remove it" % (path, option))


def write(path, data):
    """All of it or nothing: a file takes its name when it is whole. Returns its size."""
    data = data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
    try:
        special = os.path.exists(path) and not os.path.isfile(path)  # /dev/stdout and pipes cannot be replaced
        target = os.path.realpath(path)
        temporary = target if special else "%s.tmp-%d" % (target, os.getpid())
        try:
            with open(temporary, "wb") as file:
                file.write(data)
            if not special:
                os.replace(temporary, target)
        except BaseException:
            if not special and os.path.lexists(temporary):
                os.unlink(temporary)
            raise
    except OSError as problem:
        raise CannotWrite("%s: cannot be written: %s" % (path, problem.strerror)) from None
    return len(data)


class CannotWrite(Exception):
    """An output that cannot be written."""


def outputs(options):
    """[(words, path, option, marker)] of the files to write."""
    others = options.text or options.json or options.svg is not None or options.png is not None
    page = options.output if options.output is not None or others else PAGE
    if options.text and page is not None:
        raise BadInput("--text writes no page: leave out -o")
    files = [("page", page, "-o", run_page.MARKER), ("picture", options.svg, "--svg", run_picture.MARKER),
             ("picture", options.png, "--png", run_picture.PNG_MARKER)]
    files = [file for file in files if file[1] is not None]
    for index, (_, path, option, marker) in enumerate(files):
        check_output(path, option, marker, options.runs)
        for _, other, its, _ in files[:index]:
            if os.path.realpath(path) == os.path.realpath(other):
                raise BadInput("%s: is named with %s and with %s: choose two names" % (path, its, option))
    return files


def work(options):
    refuse_repeats(options.runs)
    names = name_runs(options.runs, options.names)
    files = outputs(options)
    runs = [read_run(path, name) for path, name in zip(options.runs, names)]
    data = run_figures.of_runs(runs)
    data["text"] = run_figures.text(data)
    title = options.title or ", ".join(names)
    makers = {"-o": lambda: run_page.page(runs, data, title), "--svg": lambda: run_picture.svg(runs, title),
              "--png": lambda: run_picture.png(runs, title)}
    written = [(words, path, write(path, makers[option]())) for words, path, option, _ in files]
    if options.json:
        print(json.dumps(data, indent=1, allow_nan=False))
        return
    print(data["text"], end="")
    for words, path, count in written:
        print("%s: %s (%s)" % (words, run_figures.printable(path), run_figures.size(count)))


def main(arguments=None):
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
    try:
        work(parse(arguments))
        sys.stdout.flush()
    except BadInput as problem:
        print("gpipe-report: %s" % run_figures.printable(problem), file=sys.stderr)
        return 2
    except CannotWrite as problem:
        print("gpipe-report: %s" % run_figures.printable(problem), file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as problem:  # of standard output: all files are read and written above
        print("gpipe-report: cannot print: %s" % (problem.strerror or str(problem)).lower(), file=sys.stderr)
        sys.stdout = None  # it cannot be flushed at exit either
        return 1
    except MemoryError:
        print("gpipe-report: the runs do not fit into memory; name fewer of them", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
