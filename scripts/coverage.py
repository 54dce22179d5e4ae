#!/usr/bin/env python3
"""How much of src/ the tests of a build with gcc's --coverage went through, room by room.

Usage: coverage.py BUILD [--least N] [--missing FILE…]

Reads what gcov says of each object under BUILD. A branch is a way out of a condition, as gcc counts them: `if (a && b)`
has four. Two figures of branches are given. The first is of all. The second is without the lines that begin with
`assert(` or with GP_RETURN_IF_FAILED(: one way out of an assert is never taken unless the program is wrong, and a
failure that is handed on was counted where it was decided. Nothing else is left out.
--least N ends with the N files in which most branches were not taken; --missing FILE (as src/…) lists, instead, the
lines of these that were not run or not left in every way.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

HANDED_ON = re.compile(r"\s*(?:assert|GP_RETURN_IF_FAILED)\(")
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

    def missing(self):
        for number in sorted(self.runs):
            ways = self.taken.get(number, {})
            untaken = sum(count == 0 for count in ways.values())
            if self.runs[number] == 0:
                yield number, "not run", self.text[number - 1]
            elif untaken:
                yield number, f"{untaken} of {len(ways)}", self.text[number - 1]


def read(build):
    sources = {}
    objects = sorted(path for path in build.rglob("*.gcno") if "/src/" in path.as_posix() and path.with_suffix(".gcda").exists())
    if not objects:
        sys.exit(f"coverage: nothing under {build} was run: build it with --coverage, and run its tests")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--least", type=int, default=15)
    parser.add_argument("--missing", nargs="+", default=[])
    options = parser.parse_args()
    sources = read(options.build.resolve())
    if options.missing:
        for name in options.missing:
            for number, what, text in sources[name].missing():
                print(f"{name}:{number}: {what:>8}: {text.strip()}")
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
