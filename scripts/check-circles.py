#!/usr/bin/env python3
"""No two files under src/ call each other, directly or through others, so that a file can be read without its callers.

Usage: check-circles.py [BUILD] | --self-test

BUILD is the folder of a build that is up to date (default: build). The calls are the symbols that its objects define and
need. Prints each circle of files with the functions that close it, and exits with 1. RECURSIONS names the circles that are
recursions by nature: there a structure contains itself, and one function per kind of node calls back.
"""
import argparse
import json
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECURSIONS = [
    # A configuration contains its changes, and each change is a configuration.
    {"settings/changes.c", "settings/config.c", "settings/resolve.c"},
]


def read_symbols(text):
    """(symbols that an object defines, symbols that it needs), of what `nm -g` prints."""
    defined, needed = set(), set()
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "U":
            needed.add(words[1])
        elif len(words) == 3 and words[1] in "TDRBCV":
            defined.add(words[2])
    return defined, needed


def read_objects(build):
    """{file relative to src/: (defined, needed)} of a build."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    objects = {}
    for command in commands:
        path = pathlib.Path(command["file"])
        words = shlex.split(command["command"])
        output = words[words.index("-o") + 1]
        if not path.is_relative_to(ROOT / "src") or not output.startswith("CMakeFiles/gp_"):
            continue  # a test's build of the file
        result = subprocess.run(["nm", "-g", build / output], stdout=subprocess.PIPE, text=True, check=True)
        objects[path.relative_to(ROOT / "src").as_posix()] = read_symbols(result.stdout)
    return objects


def find_calls(objects):
    """{file: {file that it calls: its symbols}}."""
    home = {symbol: name for name, (defined, _) in objects.items() for symbol in defined}
    calls = {name: {} for name in objects}
    for name, (_, needed) in objects.items():
        for symbol in needed:
            if home.get(symbol, name) != name:
                calls[name].setdefault(home[symbol], set()).add(symbol)
    return calls


def reach(calls, start):
    """All files that calls from `start` lead to."""
    seen, todo = set(), [start]
    while todo:
        for name in calls[todo.pop()]:
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def find_circles(calls):
    """Sets of files that call one another."""
    reached = {name: reach(calls, name) for name in calls}
    circles = []
    for name in sorted(calls):
        circle = {other for other in reached[name] if name in reached[other]}
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def describe(circle, calls):
    lines = [f"check-circles: these files call one another: {', '.join(sorted(circle))}"]
    for name in sorted(circle):
        lines += [f"  {name} calls {other}: {', '.join(sorted(calls[name][other]))}" for other in sorted(circle & calls[name].keys())]
    return "\n".join(lines)


def check(objects):
    calls = find_calls(objects)
    return [describe(circle, calls) for circle in find_circles(calls) if circle not in RECURSIONS]


def self_test():
    line = {"a.c": ({"a"}, {"b"}), "b.c": ({"b"}, {"c", "malloc"}), "c.c": ({"c"}, set())}
    assert check(line) == [], check(line)
    found = check({**line, "c.c": ({"c"}, {"a"})})
    assert len(found) == 1 and "a.c, b.c, c.c" in found[0] and "c.c calls a.c: a" in found[0], found
    assert read_symbols("0000 T f\n         U g\n0000 t local\n") == ({"f"}, {"g"})
    print("check-circles: finds the circle, and nothing in a line")


def main():
    parser = argparse.ArgumentParser(description="Checks that no files under src/ call one another in a circle.")
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build", help="folder of an up-to-date build")
    parser.add_argument("--self-test", action="store_true", help="tests this script on small examples")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    objects = read_objects(options.build)
    messages = check(objects)
    if not objects:
        messages.append(f"{options.build}: no objects of src/ there")
    print("\n".join(messages) or f"check-circles: {len(objects)} files, no circle")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
