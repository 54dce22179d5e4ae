"""README.md: every command in order, as a newcomer types it, in a copy of the checkout that has only what git would have.

    test_readme.py BUILD [PAGE]

BUILD is the folder of the programs; it stands as build/ in the copy. Commands are the lines of a fence that begin with "$ ", and all
lines of an indented block. A fence of Python or YAML is a file, if the paragraph before it ends with its name in backquotes, or
with that name and some words. `export PATH=…` in the text counts from there on. A command must end with status 0; if its output is
shown, and begins with an error message, it must fail with that message, where "…" stands for anything. Output without digits must be equal.

Left out, and named at the end: set-up and test commands, what needs a Python package or a program that is not here, and blocks
after a comment <!-- not run: WHY -->. In place of scripts/quickstart.sh its training runs, on digits that are drawn if none were fetched.
Files that a script without its package would have written are made here. Standard library only.
"""

import array
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import surroundings  # noqa: F401
from test_cli import write_tensors

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PATIENCE = 240
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PARTS = re.compile(r"(?P<fence>^```\w*\n.*?^```$)|(?P<block>(?:^    [^\n]*\n)+)|(?P<export>`export (?P<name>\w+)=(?P<value>[^`]*)`)"
                   r"|<!-- not run: (?P<why>.*?) -->", re.M | re.S)
NAME = re.compile(r"`([\w.-]+\.(?:py|yaml))`[^`]*$")
SET_UP = re.compile(r"(sudo |apt-get |pip |cmake |ctest |git clone |scripts/(setup|quickstart|test)\.sh|\.ci/run)")
SYNOPSIS = re.compile(r"\[-|…")


def steps_of(page):
    """[("file", name, text), ("run", command, lines of output or None), ("set", name, value), ("left out", command, why)]"""
    steps, why = [], None
    for part in PARTS.finditer(page):
        if part["why"]:
            why = part["why"]
            continue
        if part["export"]:
            steps.append(("set", part["name"], part["value"]))
            continue
        found = []
        if part["block"]:
            found = [("run", line.strip(), None) for line in part["block"].replace("\\\n", " ").splitlines() if line.strip()]
        else:
            language, text = FENCE.match(part["fence"]).groups()
            if language in ("python", "yaml"):
                name = NAME.search(page[:part.start()].rstrip().rsplit("\n\n", 1)[-1])
                found = [("file", name[1], text)] if name else [("run", "python3 -c '%s'" % text, None)] if language == "python" else []
            else:
                for line in text.replace("\\\n", " ").splitlines():
                    if line.startswith("$ "):
                        found.append(("run", line[2:], []))
                    elif found:
                        found[-1][2].append(line)
        steps += [("left out", step[1], why) if why and step[0] == "run" else step for step in found]
        why = None
    return steps


def lacking_packages(text):
    """Names of packages that a Python program imports, and that are not here."""
    names = re.findall(r"^\s*(?:import|from) (\w+)", text, re.M)
    return [name for name in names if name in ("torch", "torchvision", "torchgpipe", "safetensors", "numpy")
            and subprocess.run([sys.executable, "-c", "import " + name], capture_output=True).returncode != 0]


def samples(path, shape, classes, count, seed=1):
    rng = random.Random(seed)
    pixels = count
    for size in shape:
        pixels *= size
    write_tensors(path, x=("F32", [count, *shape], array.array("f", [rng.random() for _ in range(pixels)]).tobytes()),
                  y=("I64", [count], array.array("q", [rng.randrange(classes) for _ in range(count)]).tobytes()))


class Readme(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="gp-test-readme-")
        self.addCleanup(shutil.rmtree, folder)
        self.folder = os.path.join(folder, "gpipe")
        with open(os.path.join(CHECKOUT, ".gitignore")) as file:
            ignored = [line.strip().strip("/") for line in file]
        shutil.copytree(CHECKOUT, self.folder, ignore=shutil.ignore_patterns(".git", "build-*", *ignored))
        os.symlink(BUILD, os.path.join(self.folder, "build"))
        self.env = dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, "cache"))
        self.left_out, self.ran = [], 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def find_digits(self):
        """Those that the quickstart fetched, or others like them."""
        here = os.path.join(CHECKOUT, "data/digits")
        os.makedirs(self.path("data"), exist_ok=True)
        if os.path.exists(os.path.join(here, "eval.safetensors")):
            os.symlink(here, self.path("data/digits"))
            return
        os.mkdir(self.path("data/digits"))
        samples(self.path("data/digits/train.safetensors"), [1, 8, 8], 10, 1437)
        samples(self.path("data/digits/eval.safetensors"), [1, 8, 8], 10, 360, 2)

    def quickstart(self):
        with open(self.path("scripts/quickstart.sh")) as file:
            training = re.search(r"^build/gpipe-train .*", file.read(), re.M)[0]
        self.find_digits()
        self.run_command(training, None)

    def make_wanted(self):
        """Files that a script without its package would have written: data of the configuration, and weights to start from."""
        name, config = self.config
        wanted, self.wanted = self.wanted, []
        shape = [int(size) for size in re.search(r"\bshape: \[([\d, ]+)\]", config)[1].split(",")]
        classes = int(re.findall(r"\blinear: (\d+)", config)[-1])
        data = [file for file in wanted if re.search(r"tensors: %s\b" % re.escape(file), config)]
        for seed, file in enumerate(data):
            samples(self.path(file), shape, classes, 3584 if seed == 0 else 512, seed)
        for file in set(wanted) - set(data):
            self.run_command("build/gpipe-train -q -o runs/first --set 'train={steps: 0}' %s && mv runs/first/model.safetensors %s && "
                             "rm -r runs/first" % (name, file), None)

    def run_command(self, command, lines):
        if self.wanted and self.config:
            self.make_wanted()
        print("$ " + command, flush=True)
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, encoding="utf-8", errors="replace", timeout=PATIENCE)
        said = "%s\n%s%s" % (command, done.stdout, done.stderr)
        error = lines and re.match(r"[\w-]+: ", lines[0])
        self.assertEqual(done.returncode != 0, bool(error), said)
        if error:
            pattern = ".*".join(re.escape(part) for part in "\n".join(lines).rstrip().split("…"))
            self.assertRegex(done.stderr.rstrip(), pattern)
        elif lines and not re.search(r"[\d…]", "".join(lines)):
            self.assertEqual(done.stdout.split(), "\n".join(lines).split(), said)
        self.ran += 1

    def leave_out(self, command, why):
        self.left_out.append("left out: %s: %s" % (command.split("#")[0].strip().splitlines()[0], why))

    def step(self, kind, name, content):
        files = [file for file in re.findall(r"\b[\w.-]+\.py\b", name) if kind == "run" and os.path.exists(self.path(file))]
        code = name if kind == "run" else ""
        for file in files:
            with open(self.path(file)) as opened:
                code += "\n" + opened.read()
        lacks = lacking_packages(code)
        if kind == "set":
            value = subprocess.run(["bash", "-c", 'printf %%s "%s"' % content], cwd=self.folder, env=self.env, capture_output=True, text=True)
            self.env[name] = value.stdout
        elif kind == "file":
            with open(self.path(name), "w") as file:
                file.write(content)
            if name.endswith(".yaml"):
                self.config = name, content
        elif kind == "left out":
            self.leave_out(name, content)
        elif SYNOPSIS.search(name):
            self.leave_out(name, "a synopsis")
        elif SET_UP.match(name):
            self.leave_out(name, "set-up or tests")
            if name.startswith("scripts/quickstart.sh"):
                self.quickstart()
        elif lacks:
            self.leave_out(name, "there is no Python package " + ", ".join(sorted(set(lacks))))
            self.wanted += re.findall(r'save_file\(.*"([\w.-]+)"\)', code)
        elif name.startswith("mpirun ") and not shutil.which("mpirun"):
            self.leave_out(name, "there is no mpirun")
        else:
            self.run_command(name, content)

    def test_commands(self):
        self.wanted, self.config = [], None
        with open(os.path.join(CHECKOUT, PAGE), encoding="utf-8") as file:
            steps = steps_of(file.read())
        for step in steps:
            self.step(*step)
        print("%d commands ran" % self.ran, *self.left_out, sep="\n")
        self.assertGreater(self.ran, 3)

    def test_steps(self):
        page = ("Text, `export A=$B/c`.\n\n    scripts/test.sh    # all\n    one a\n\n`net.py`, short:\n\n```python\nx\n```\n\nThen:\n\n"
                "<!-- not run: long -->\n```\n$ two\nout\n$ three \\\n  b\n```\n\nMore:\n\n```python\nimport torch\n```\n\n```\nonly output\n```\n")
        self.assertEqual(steps_of(page), [("set", "A", "$B/c"), ("run", "scripts/test.sh    # all", None), ("run", "one a", None),
                                          ("file", "net.py", "x\n"), ("left out", "two", "long"), ("left out", "three    b", "long"),
                                          ("run", "python3 -c 'import torch\n'", None)])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    PAGE = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1].endswith(".md") else "README.md"
    unittest.main(verbosity=2)
