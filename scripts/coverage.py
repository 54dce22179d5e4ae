#!/usr/bin/env python3
"""Reports how much of src/ the tests of a build with gcc's --coverage run, room by room.

Usage: coverage.py BUILD [--least N] [--missing FILE…] [--reasons]

Reads gcov's output for each object under BUILD. A branch is one result of a condition, as gcc counts them: `if (a && b)`
has four. There are two figures for branches. The first counts all of them. The second leaves out the lines that begin with
`assert(` or with GP_RETURN_IF_FAILED(. One branch of an assert is never taken in a correct program; a failure that is
passed on was counted where it began.

--least N ends with the N files that have the most branches not taken. --missing FILE (as src/…) lists instead the lines of
these files that were not run, and those with a branch not taken. --reasons counts instead the reasons: each such line or
branch gets the first of REASONS whose pattern matches its statement.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

HANDED_ON = re.compile(r"\s*(?:assert|GP_RETURN_IF_FAILED)\(")
# What a statement says of why it was not run, or not left in every way. Those of "other" are to be looked at one by one.
REASONS = [
    ("assert", r"\bassert\("),
    ("handed on", r"GP_RETURN_IF_FAILED\(|status [!=]= GP_OK|status [!=]= dnnl_success"),
    ("internal", r"GP_INTERNAL"),
    ("too large", r"gp_size_|gp_int64_|gp_shape_elements|SIZE_MAX|INT64_MAX|UINT32_MAX|overflow|gp_layout_of"),
    ("memory", r"GP_MEMORY|no_memory|_new_array|GP_NEW|GP_GROW|ENOMEM|MEMORY_ERROR|out_of_memory|no memory|!block|!head\b"),
    ("system", r"errno|EINTR|strerror|GP_IO|\b(?:close|fclose|ferror|read|pread|write|stat|fstat|access|unlink|mkdir|open)\("),
    ("oneDNN", r"dnnl"),
    ("enum", r"\bswitch \(|\bdefault:|\bcase GP_|return (?:\"\?\"|NAN|0|-1|NULL|false|GP_OK);$"),
    ("NULL", r"if \(!?(?:err|it|\*?\w+)(?: \|\| !\*\w+)?\)|\berr \?|&& err\)"),
]
ROOT = pathlib.Path(__file__).resolve().parent.parent


def gcov(objects, folder):
    """What gcov says of these .gcno files: one JSON document a line."""
    done = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", *map(str, objects)], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


class Source:
    """One file: how often each line was run and each branch of it taken. The counts of an inline function of a header
    are those of all objects together; a function is known by its name, so that those which one macro makes on one line
    stay apart."""

    def __init__(self, path):
        self.text = path.read_text().splitlines()
        self.runs = collections.Counter()
        self.taken = collections.defaultdict(collections.Counter)

    def add(self, line):
        number = line["line_number"]
        self.runs[number] += line["count"]
        for i, branch in enumerate(line["branches"]):
            self.taken[number][line.get("function_name"), i] += branch["count"]

    def tally(self):
        """(lines, run), (branches, taken), and of those that are not handed on."""
        own = {n: ways for n, ways in self.taken.items() if not HANDED_ON.match(self.text[n - 1])}
        return [(len(self.runs), sum(count > 0 for count in self.runs.values())),
                *[(sum(map(len, table.values())), sum(c > 0 for ways in table.values() for c in ways.values()))
                  for table in (self.taken, own)]]

    def statement(self, number):
        """The text from where the line's statement begins to where it ends, or to the first of what it guards."""
        first = last = number - 1
        while first > 0 and not re.search(r"[;{}:]\s*(?:/\*.*\*/\s*)?$|^\s*(?:/?\*.*)?$|^#", self.text[first - 1]):
            first -= 1
        while last + 1 < len(self.text) and not re.search(r"[;}]\s*(?:/\*.*\*/\s*)?$", self.text[last]):
            last += 1
        return " ".join(line.strip() for line in self.text[first:last + 1])

    def reason(self, number):
        text = self.statement(number)
        return next((reason for reason, pattern in REASONS if re.search(pattern, text)), "other")

    def reasons(self):
        """{reason: [lines, branches]}"""
        counts = collections.defaultdict(lambda: [0, 0])
        for number, runs in self.runs.items():
            counts[self.reason(number)][0] += runs == 0
            counts[self.reason(number)][1] += sum(count == 0 for count in self.taken.get(number, {}).values())
        return counts

    def missing(self):
        for number in sorted(self.runs):
            ways = self.taken.get(number, {})
            untaken = sum(count == 0 for count in ways.values())
            if self.runs[number] == 0:
                yield number, "not run", self.reason(number), self.text[number - 1]
            elif untaken:
                yield number, f"{untaken} of {len(ways)}", self.reason(number), self.text[number - 1]


def read(build):
    sources = {}
    objects = sorted(path for path in build.rglob("*.gcno") if "/src/" in path.as_posix() and path.with_suffix(".gcda").exists())
    if not objects:
        sys.exit(f"coverage: no program under {build} was run: build it with --coverage, and run its tests")
    for document in gcov(objects, build):
        for file in document["files"]:
            path = pathlib.Path(document["current_working_directory"], file["file"]).resolve()
            if ROOT / "src" not in path.parents:
                continue
            name = path.relative_to(ROOT).as_posix()
            source = sources.setdefault(name, Source(path))
            for line in file["lines"]:
                source.add(line)
    return sources


def percent(pair):
    return f"{100 * pair[1] / pair[0]:6.1f} %" if pair[0] else "     -  "


def row(name, tallies):
    total = [tuple(map(sum, zip(*pairs))) for pairs in zip(*tallies)]
    print(f"{name:<34} {percent(total[0])} of {total[0][0]:6} {percent(total[1])} of {total[1][0]:6} "
          f"{percent(total[2])} of {total[2][0]:6}")


def print_reasons(sources):
    """Lines not run, and branches not taken, by room and reason."""
    names = [reason for reason, _ in REASONS] + ["other"]
    rooms = collections.defaultdict(collections.Counter)
    for path, source in sources.items():
        for reason, (lines, branches) in source.reasons().items():
            for room in (pathlib.PurePath(path).parent.as_posix(), "src"):
                rooms[room][reason, 0] += lines
                rooms[room][reason, 1] += branches
    print(f"{'':<18}" + "".join(f"{name:>11}" for name in names) + f"{'all':>11}")
    for room in sorted(set(rooms) - {"src"}) + ["src"]:
        pairs = [(rooms[room][name, 0], rooms[room][name, 1]) for name in names]
        pairs.append(tuple(map(sum, zip(*pairs))))
        print(f"{room:<18}" + "".join(f"{'%d+%d' % pair:>11}" for pair in pairs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--least", type=int, default=15)
    parser.add_argument("--missing", nargs="+", default=[])
    parser.add_argument("--reasons", action="store_true")
    options = parser.parse_args()
    sources = read(options.build.resolve())
    if options.missing:
        for name in options.missing:
            for number, what, reason, text in sources[name].missing():
                print(f"{name}:{number}: {what:>8}: {reason:>9}: {text.strip()}")
        return
    if options.reasons:
        print_reasons(sources)
        return
    tallies = {name: source.tally() for name, source in sources.items()}
    rooms = collections.defaultdict(list)
    for name, tally in tallies.items():
        rooms[pathlib.PurePath(name).parent.as_posix()].append(tally)
    print(f"{'':<34} {'lines':>18} {'branches':>18} {'own branches':>18}")
    for room in sorted(rooms):
        row(room, rooms[room])
    row("src", tallies.values())
    print("\nOwn branches: without lines that begin with assert( or GP_RETURN_IF_FAILED(. Most of them not taken in:")
    for name in sorted(tallies, key=lambda name: tallies[name][2][1] - tallies[name][2][0])[:options.least]:
        row(name, [tallies[name]])


if __name__ == "__main__":
    main()
