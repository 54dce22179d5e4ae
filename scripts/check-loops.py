#!/usr/bin/env python3
"""Reads the machine code of the CPU device's own loops, in all versions, whether this processor can run them or not.

Usage: check-loops.py BUILD-FOLDER | --self-test COMPILER

  - No version has a fused multiply-add: it rounds once where the other versions round twice.
  - A version has only the registers of its instruction set, and does use the widest of them.
  - What plans (books workspace, prepares) is compiled for any processor.
On processors other than x86-64 there is one version, and nothing to check. Exits with 1 and the names of functions.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

FUSED = re.compile(r"^vfn?m(add|sub)")
REGISTERS = {"plain": r"%[yz]mm", "avx2": r"%zmm|%k[1-7]", "avx512": r"(?!)"}
WIDEST = {"plain": "%xmm", "avx2": "%ymm", "avx512": "%zmm"}


def instructions(path):
    """(function, mnemonic, operands) of an object file."""
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], stdout=subprocess.PIPE, text=True, check=True)
    function = "?"
    for line in done.stdout.splitlines():
        words = line.split(None, 2)
        if line.endswith(">:"):
            function = words[1].strip("<>:")
        elif len(words) > 1 and words[0].endswith(":"):
            yield function, words[1], words[2] if len(words) > 2 else ""


def check_version(name, files):
    wrong, widest = set(), False
    forbidden = re.compile(REGISTERS[name])
    for path in files:
        for function, mnemonic, operands in instructions(path):
            widest = widest or WIDEST[name] in operands
            if FUSED.match(mnemonic):
                wrong.add(f"{name}: {path.name}: {function} has {mnemonic}, a fused multiply-add")
            if forbidden.search(operands):
                wrong.add(f"{name}: {path.name}: {function} has registers that the version's processors lack: {operands}")
    if not widest:
        wrong.add(f"{name}: no loop uses {WIDEST[name]}: is it compiled with the options of cmake/Loops.cmake?")
    return wrong


def check(build):
    """What is wrong, and how many files were read; None for a build with one version."""
    folder = build / "CMakeFiles"
    if not (folder / "gp_cpu_avx2.dir").exists():
        return None, 0
    wrong, count = set(), 0
    for name in REGISTERS:
        files = sorted((folder / f"gp_cpu_{name}.dir").rglob("*.o"))
        count += len(files)
        wrong |= check_version(name, files) if files else {f"{name}: no object files in {folder}"}
    for path in sorted((folder / "gp_cpu.dir").rglob("*.o")):
        wrong |= {f"{path.name}: {function} is compiled for more than SSE2: {operands}"
                  for function, _, operands in instructions(path) if re.search(REGISTERS["plain"], operands)}
    return wrong, count


LOOP = "void f(float *x) { for (int i = 0; i < 1024; i++) x[i] = x[i] * 3 + 1; }\n"
OPTIONS = {"plain": [], "avx2": ["-mavx2", "-mno-fma"], "avx512": ["-mavx512f", "-mprefer-vector-width=512"], "": []}


def self_test(compiler):
    """Each version compiled as another one must be found."""

    def found(changes):
        with tempfile.TemporaryDirectory() as build:
            for name, options in (OPTIONS | changes).items():
                folder = pathlib.Path(build, "CMakeFiles", f"gp_cpu_{name}.dir" if name else "gp_cpu.dir")
                folder.mkdir(parents=True)
                subprocess.run([compiler, "-O3", "-ffp-contract=off", *options, "-x", "c", "-c", "-", "-o", folder / "f.c.o"], input=LOOP,
                               text=True, check=True)
            return " ".join(check(pathlib.Path(build))[0])

    assert not found({}), found({})
    assert "fused" in found({"avx2": ["-mavx2", "-mfma", "-ffp-contract=fast"]})
    assert "fused" in found({"avx512": ["-mavx512f", "-mprefer-vector-width=512", "-ffp-contract=fast"]})
    assert "registers that the version's processors lack" in found({"plain": ["-mavx2"]})
    assert "registers that the version's processors lack" in found({"avx2": OPTIONS["avx512"]})
    assert "no loop uses %ymm" in found({"avx2": []})
    assert "more than SSE2" in found({"": ["-mavx2"]})
    print("check-loops: finds fused multiply-adds and registers of other versions")


def main():
    if sys.argv[1] == "--self-test":
        self_test(sys.argv[2])
        return 0
    wrong, count = check(pathlib.Path(sys.argv[1]))
    if wrong is None:
        print("check-loops: one version, nothing to check")
        return 0
    for line in sorted(wrong)[:20]:
        print(f"check-loops: {line}")
    if not wrong:
        print(f"check-loops: {count} object files, no fused multiply-add, each version within its registers")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
