#!/usr/bin/env python3
"""Every header under src/ says what it is, and compiles alone.

Usage: check-headers.py [--src FOLDER] [--cc COMPILER] | --self-test [--cc COMPILER]

A header begins with a block comment of two lines or more that says its role, who owns what, and which threads may call
(it names threads, or says that its functions are pure); and it compiles as the first and only include of a file, twice
in a row, with the warnings of the project. Prints file:line for each that does not, and exits with 1. Headers of
device/cuda/toolkit need the CUDA toolkit: without it they are not compiled, and a line says so.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wstrict-prototypes", "-Werror"]
THREADS = re.compile(r"\b(threads?|pure|workers?)\b", re.IGNORECASE)


def include_flags(src):
    onednn = ROOT / ".deps/onednn/include"
    packages = subprocess.run(["pkg-config", "--cflags", "yaml-0.1", "jansson", "libxxhash"], stdout=subprocess.PIPE, text=True,
                              check=True)
    return [f"-I{src}"] + ([f"-I{onednn}"] if onednn.is_dir() else []) + packages.stdout.split()


def check_comment(path):
    """Message about the comment that a header begins with, or None."""
    text = path.read_text(encoding="utf-8")
    end = text.find("*/")
    if not text.startswith("/*") or end < 0:
        return f"{path}:1: does not begin with a comment that says its role, owners and threads"
    comment = text[:end]
    if "\n" not in comment:
        return f"{path}:1: its first comment is one line: role, owners and threads take two or more"
    if not THREADS.search(comment):
        return f"{path}:1: its first comment does not say which threads may call (or that its functions are pure)"
    return None


def check_alone(path, src, compiler, flags):
    """What the compiler says of a file that includes this header twice and nothing else; None if nothing."""
    name = path.relative_to(src).as_posix()
    result = subprocess.run([compiler, *FLAGS, *flags, "-fsyntax-only", "-x", "c", "-"], text=True,
                            input=f'#include "{name}"\n#include "{name}"\n', stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, check=False)
    return f"{path}:1: does not compile alone:\n{result.stdout}" if result.returncode else None


def has_toolkit(compiler):
    """Whether the compiler finds the headers of CUDA's libraries."""
    return subprocess.run([compiler, "-fsyntax-only", "-x", "c", "-"], text=True, input="#include <cublasLt.h>\n",
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def check_tree(src, compiler, toolkit):
    """(number of headers, how many of them were not compiled because there is no CUDA toolkit, messages)."""
    headers = sorted(src.rglob("*.h"))
    flags = include_flags(src)
    skipped = [] if toolkit else [path for path in headers if src / "device/cuda/toolkit" in path.parents]
    found = [check_comment(path) for path in headers]
    found += [check_alone(path, src, compiler, flags) for path in headers if path not in skipped]
    return len(headers), len(skipped), [message for message in found if message]


def summary(count, skipped):
    """What is printed if nothing is wrong."""
    lines = [f"check-headers: {count} headers, each says what it is" + (" and compiles alone" if not skipped else "")]
    if skipped:
        lines[0] += f", and {count - skipped} compile alone"
        lines += [f"check-headers: {skipped} headers of device/cuda/toolkit were not compiled: there is no CUDA toolkit"]
    return "\n".join(lines)


COMMENT = "/* What it is.\n * Any thread.\n */\n"
GUARD = "#ifndef A_H\n#define A_H\n{}\n#endif\n"
# (text of the header, words of the message; None: it is right)
CASES = [
    (COMMENT + GUARD.format("#include <stddef.h>\nsize_t f(void);"), None),
    ("#include <stddef.h>\n", "does not begin with a comment"),
    ("/* Any thread. */\n", "is one line"),
    ("/* What it is,\n * and why.\n */\n", "does not say which threads"),
    (COMMENT + GUARD.format("size_t f(void);"), "does not compile alone"),
    (COMMENT + "typedef struct a { int b; } a;\n", "does not compile alone"),
    (COMMENT + GUARD.format("int f();"), "does not compile alone"),
]


def self_test(compiler):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "a.h"
        for text, words in CASES:
            path.write_text(text)
            messages = check_tree(path.parent, compiler, True)[2]
            if words is None:
                assert messages == [], messages
            else:
                assert len(messages) == 1 and words in messages[0], (text, messages)
        path.write_text(CASES[0][0])
        toolkit = path.parent / "device/cuda/toolkit"
        toolkit.mkdir(parents=True)
        (toolkit / "b.h").write_text(COMMENT + GUARD.format("#include <none.h>"))
        assert "does not compile alone" in check_tree(path.parent, compiler, True)[2][0]
        assert check_tree(path.parent, compiler, False) == (2, 1, [])
        assert "1 headers of device/cuda/toolkit were not compiled" in summary(2, 1) and "toolkit" not in summary(2, 0)
    print(f"check-headers: accepts and refuses the right ones of {len(CASES)} sample headers")


def main():
    parser = argparse.ArgumentParser(description="Checks that every header says what it is and compiles alone.")
    parser.add_argument("--src", type=pathlib.Path, default=ROOT / "src")
    parser.add_argument("--cc", default="cc", help="the compiler (default: cc)")
    parser.add_argument("--self-test", action="store_true", help="tests this script on sample headers")
    options = parser.parse_args()
    if options.self_test:
        self_test(options.cc)
        return 0
    count, skipped, messages = check_tree(options.src, options.cc, has_toolkit(options.cc))
    if count == 0:
        messages.append(f"{options.src}: no headers there")
    print("\n".join(messages) or summary(count, skipped))
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
