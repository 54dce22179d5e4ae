#!/usr/bin/env python3
"""Checks that a test fails without each barrier of the CUDA device's kernels.

Removes one __syncthreads() or __syncwarp() at a time, compiles that source for the host (tests/cuda/fibers.h), links the
test with it, and runs it: it must fail.

Usage: check-barriers.py [--build FOLDER] [--only WORD] | --self-test [--build FOLDER]

test_cuda_ops (test_cuda_fibers for --self-test) must be built in the build folder. Prints file:line of each barrier that no
test needs, and exits with 1.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BARRIER = re.compile(r"__sync(?:threads|warp)\([^()]*\);")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
LIMIT = 120  # seconds for a test that may hang without a barrier


class Suite:
    """Sources that are compiled for fibers, and the test that is to notice."""

    def __init__(self, build, sources, test, arguments):
        self.build, self.sources, self.test, self.arguments = build, sources, test, arguments
        self.compile = {}
        for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
            if "cuda/fibers.h" in entry["command"]:
                self.compile[pathlib.Path(entry["file"])] = shlex.split(entry["command"])
        commands = subprocess.run(["ninja", "-C", str(build), "-t", "commands", f"tests/{test}"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
        links = [line for line in commands.splitlines() if f" -o tests/{test} " in line]
        self.link = shlex.split(links[-1].removeprefix(": && ").removesuffix(" && :"))

    def included(self, unit):
        """The file itself, and what it includes of the suite's sources."""
        found, left = set(), [unit]
        while left:
            path = left.pop()
            if path in self.sources and path not in found:
                found.add(path)
                left += [self.sources[path] / name for name in INCLUDE.findall(path.read_text(encoding="utf-8"))]
        return found

    def compile_command(self, unit, source, folder):
        """Compiles `source`, which stands for `unit`, with the headers of `folder` before all others."""
        words = self.compile[unit]
        command = [words[0], f"-I{folder}"]
        skip = False
        for word in words[1:]:
            if word in ("-o", "-c"):
                skip = True
            elif skip:
                skip = False
            else:
                command.append(word)
        return command + ["-c", str(source), "-o", str(folder / (unit.name + ".o"))], folder / (unit.name + ".o")

    def fails(self, path, text):
        """Whether the test fails where the file at `path` has `text` instead. The new objects are linked before the
        library, which then has nothing to add."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            changed = folder / path.relative_to(self.sources[path])
            changed.parent.mkdir(parents=True)
            changed.write_text(text, encoding="utf-8")
            units = [unit for unit in self.compile if path in self.included(unit)]
            objects = []
            for unit in units:
                command, made = self.compile_command(unit, changed if unit == path else unit, folder)
                subprocess.run(command, cwd=self.build, check=True)
                objects.append(str(made))
            program = folder / self.test
            at = self.link.index("-o")
            link = self.link[:at] + ["-o", str(program), *objects] + self.link[at + 2:]
            subprocess.run(link, cwd=self.build, check=True)
            try:
                result = subprocess.run([str(program), *self.arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        timeout=LIMIT, check=False)
            except subprocess.TimeoutExpired:
                return True
            return result.returncode != 0


def barriers(path):
    """(line, text without that barrier) of each."""
    text = path.read_text(encoding="utf-8")
    for match in BARRIER.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, text[:match.start()] + "{}" + text[match.end():]


def survivors(suite, only=""):
    """(number of barriers, messages for those that nothing misses)."""
    mutants = [(path, line, text) for path in sorted(suite.sources) for line, text in barriers(path) if only in str(path)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        failed = list(pool.map(lambda mutant: suite.fails(mutant[0], mutant[2]), mutants))
    return len(mutants), [f"{path}:{line}: no test fails without this barrier"
                          for (path, line, _), noticed in zip(mutants, failed) if not noticed]


def kernels_suite(build):
    folder = ROOT / "src/device/cuda/kernels"
    paths = [path for suffix in ("*.cu", "*.cuh") for path in folder.glob(suffix)]
    return Suite(build, {path: ROOT / "src" for path in paths}, "test_cuda_ops", ["test_against_ref"])


def self_test(build):
    """Every barrier of the made-up kernels that are right is missed; one more, of no use, is not."""
    path = ROOT / "tests/cuda/fiber_kernels.cu"
    suite = Suite(build, {path: ROOT / "tests"}, "test_cuda_fibers", [])
    text = path.read_text(encoding="utf-8")
    right = text.count("\n", 0, text.index("/* ---- wrong"))
    needed = [(line, mutant) for line, mutant in barriers(path) if line < right]
    count = len(needed)
    assert count >= 5
    for line, mutant in needed:
        assert suite.fails(path, mutant), f"{path}:{line}"
    useless = text.replace("KERNEL(fiber_places) {\n", "KERNEL(fiber_places) {\n    __syncthreads();\n")
    assert useless != text and not suite.fails(path, useless)
    print(f"check-barriers: finds the {count} needed barriers of sample kernels, and the one that is not needed")


def main():
    parser = argparse.ArgumentParser(description="Checks that a test fails without each barrier of a kernel.")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="folder of a build (default: build)")
    parser.add_argument("--only", default="", help="only files whose path has this word")
    parser.add_argument("--self-test", action="store_true", help="tests this script on sample kernels")
    options = parser.parse_args()
    build = options.build.resolve()
    if options.self_test:
        self_test(build)
        return 0
    count, messages = survivors(kernels_suite(build), options.only)
    print("\n".join(messages) or f"check-barriers: {count} barriers; a test fails without each of them")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
