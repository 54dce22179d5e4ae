"""gpipe-train from outside: what users type, and what they get.

    test_cli.py PROGRAM GROUP

Each group runs in a folder of its own, with a small data set and a configuration in it. Exit status 77: the group's
data is not there. Standard library only.
"""

import array
import fcntl
import gzip
import json
import math
import os
import pty
import random
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import surroundings  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 300  # seconds until something that must end counts as hanging
PROGRAM = None

# 8 layers with a skip, batch norm and dropout; 50 samples in mini-batches of 16, the last of 2; 14 for evaluation.
CONFIG = """\
model:
  input: {shape: [2, 4, 4]}
  layers:
    - conv: {out: 8, kernel: 3, pad: 1}
    - batch_norm
    - relu: {name: a}
    - conv: {out: 8, kernel: 3, pad: 1}
    - add: [a, -1]
    - dropout: 0.2
    - flatten
    - linear: {out: 3}
  loss: cross_entropy
data:
  train: {tensors: d.safetensors, take: [0, 50]}
  eval: {tensors: d.safetensors, take: [50, 64]}
  batch: 16
pipeline:
  devices: [cpu, cpu]
  micro_batches: 4
optimizer:
  sgd: {lr: 0.02, momentum: 0.9}
train: {epochs: 2}
"""
STEPS = 8
HEADER = re.compile(
    r"8 layers, 1139 parameters; 2 stages \[\d, \d\], schedule gpipe, 4 micro-batches, checkpoint except_last; "
    r"at most [\d.]+ [KM]iB per stage\n"
    r"(warning: 2 threads compute on 1 processor, [^\n]+\n)?"
    r"(warning: batch norm sees 4 samples of a mini-batch of 16 at a time; [^\n]+\n)?"  # -v: the plan says it
)


def write_tensors(path, **tensors):
    """name=(dtype, shape, bytes)"""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_tensors(path):
    """{name: (dtype, shape, bytes)}; fails where the file is not whole."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    assert len(data) == max(entry["data_offsets"][1] for entry in header.values())
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }


def count_apart(program):
    """For the environment of a program whose files may be cut off. One that counts what is run (scripts/coverage.sh) has
    files too, in which others have counted; gcc's library keeps these elsewhere then, by the name it finds here."""
    return {"GCOV_PREFIX": os.path.join(os.path.dirname(program), "cut-off")}


def limit_files(program, size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    os.environ.update(count_apart(program))


def skip_under_tsan(test, program, why):
    """What ThreadSanitizer's runtime does otherwise than the system: `why` says how."""
    asked = dict(os.environ, TSAN_OPTIONS="help=1")
    if b"ThreadSanitizer" in subprocess.run([program, "--version"], env=asked, capture_output=True).stderr:
        test.skipTest("ThreadSanitizer " + why)


OWN_FILES = "keeps its memory in files, which a limit on files bounds too"


def read_lines(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


def read_model(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        return file.read()


def results(folder):
    """What of the metrics must be the same in a run that is repeated: all but times."""
    return [
        {key: value for key, value in line.items() if key not in ("seconds", "data_seconds", "time")}
        for line in read_lines(folder)
        if line["event"] in ("step", "eval")
    ]


def sets(changes):
    return [word for change in changes for word in ("--set", change)]


def write_pixels(path, samples=64, classes=3, seed=1, change=lambda rows, fill: rows):
    """Pictures [2, 4, 4] and a class for each pixel that only its own place in the picture tells. `change` takes and gives
    the rows of a plane; what it adds is `fill`."""
    rng = random.Random(seed)
    x, y = array.array("f"), array.array("q")
    for _ in range(samples):
        planes = [[[rng.randrange(classes) for _ in range(4)] for _ in range(4)]]
        planes += [[[rng.gauss(c - 1, 0.1) if channel else rng.random() for c in row] for row in planes[0]] for channel in range(2)]
        classes_, *pictures = [change(plane, fill) for plane, fill in zip(planes, (-100, 0, 0))]
        size = [len(classes_), len(classes_[0])]
        for picture in pictures:
            x.extend(value for row in picture for value in row)
        y.extend(value for row in classes_ for value in row)
    write_tensors(path, x=("F32", [samples, 2, *size], x.tobytes()), y=("I64", [samples, *size], y.tobytes()))


# A network of 8 layers on them.
PIXELS = ["--set", "data.train={tensors: pixels.safetensors, take: [0, 50]}",
          "--set", "data.eval={tensors: pixels.safetensors, take: [50, 64]}",
          "--set", "model.layers=[{conv: {out: 8, kernel: 3, pad: 1}}, batch_norm, {relu: {name: a}}, {conv: {out: 8, kernel: 3, "
                   "pad: 1}}, {add: [a, -1]}, {dropout: 0.2}, relu, {conv: {out: 3, kernel: 1}}]"]
MOVED = ["--set", "data.train.transform=[{random_crop: {size: 4, pad: 1}}, random_horizontal_flip, random_vertical_flip]"]


class Group(unittest.TestCase):
    maxDiff = None
    patience = PATIENCE

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gp-test-cli-")
        self.addCleanup(shutil.rmtree, self.folder)
        rng = random.Random(1)
        y = [n % 3 for n in range(64)]
        x = [rng.random() - 0.5 + (1.0 if i % 3 == y[n] else 0.0) for n in range(64) for i in range(32)]
        write_tensors(
            self.path("d.safetensors"),
            x=("F32", [64, 2, 4, 4], array.array("f", x).tobytes()),
            y=("I64", [64], array.array("q", y).tobytes()),
        )
        self.write("c.yaml", CONFIG)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def start(self, *arguments, prepare=None, program=None, **options):
        """A started process in the folder; `prepare` runs in it before the program does. `program`: another one."""

        def before():
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test that runs in the background ignores it
            if prepare:
                prepare()

        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
        process = subprocess.Popen(
            [program or PROGRAM, *arguments], cwd=self.folder, preexec_fn=before, text=True, **options
        )
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def run_program(self, *arguments, **options):
        process = self.start(*arguments, **options)
        process.out, process.err = process.communicate(timeout=self.patience)
        return process

    def expect(self, arguments, status, err="", out=None, **options):
        process = self.run_program(*arguments, **options)
        self.assertEqual((process.err.replace(self.folder + "/", ""), process.returncode), (err, status), arguments)
        if out is not None:
            self.assertEqual(process.out, out, arguments)
        return process

    def train(self, *arguments, **options):
        """A run that must succeed, in the new folder that is returned."""
        folder = tempfile.mkdtemp(prefix="run", dir=self.folder)
        self.expect(["-o", folder, "c.yaml", *arguments], 0, **options)
        return folder

    def expect_whole(self, folder, status, steps):
        lines = read_lines(folder)
        self.assertEqual(lines[0]["event"], "start")
        self.assertEqual((lines[-1]["event"], lines[-1]["status"], lines[-1]["steps"]), ("end", status, steps))
        read_tensors(os.path.join(folder, "model.safetensors"))
        files = {"config.yaml", "metrics.jsonl", "model.safetensors", "plan.json"}
        if any(line["event"] == "eval" for line in lines):
            files.add("best.safetensors")
        if status == "interrupted" or steps > 0:
            files.add("snapshots")
        self.assertEqual(set(os.listdir(folder)), files)


class Usage(Group):
    """The command line."""

    def test_the_cache_is_not_the_users(self):
        """Of tests that are run by hand: each file of tests sets its own."""
        given = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
        for name in sorted(os.listdir(HERE)):
            if not re.fullmatch(r"test_(?!install)\w+\.py", name):
                continue
            process = subprocess.run([sys.executable, "-c", f"import {name[:-3]}, os; print(os.environ.get('XDG_CACHE_HOME'))"],
                                     cwd=HERE, env=given, capture_output=True, text=True, timeout=PATIENCE)
            self.assertIn("gp-test-cache-", process.stdout, name)

    def test_wrong_command_lines(self):
        see = ": see gpipe-train --help\n"
        for arguments, sentence in {
            (): "no configuration is given; usage: gpipe-train [options] config.yaml\n",
            ("-q",): "no configuration is given; usage: gpipe-train [options] config.yaml\n",
            ("--",): "no configuration is given; usage: gpipe-train [options] config.yaml\n",
            ("c.yaml", "d.yaml"): "only one configuration may be given; d.yaml is the second\n",
            ("--pln", "c.yaml"): "unknown option --pln: did you mean --plan?\n",
            ("--pla", "c.yaml"): "unknown option --pla: did you mean --plan?\n",
            ("--frobnicate", "c.yaml"): "unknown option --frobnicate" + see,
            ("c.yaml", "--frobnicate=3"): "unknown option --frobnicate" + see,
            ("-x", "c.yaml"): "unknown option -x" + see,
            ("c.yaml", "-qx"): "unknown option -x" + see,
            ("-output", "x", "c.yaml"): "unknown option -output: the run folder is -o DIR\n",
            ("-force", "c.yaml"): "unknown option -force: did you mean --force?\n",
            ("--set", "train.epochs", "3", "c.yaml"): "option --set takes one word, key.path=value: write --set train.epochs=3\n",
            ("c.yaml", "--set", "train.epochs"): "--set train.epochs: needs the form key.path=value\n",
            ("c.yaml", "train.epochs=3"): "train.epochs=3 needs --set before it: --set train.epochs=3\n",
            ("--lr", "0.1", "c.yaml"): "unknown option --lr: write --set optimizer.sgd.lr=0.1, with adam or adamw in place "
                                       "of sgd if the configuration has it\n",
            ("-lr", "0.1", "c.yaml"): "unknown option -lr: write --set optimizer.sgd.lr=0.1, with adam or adamw in place "
                                      "of sgd if the configuration has it\n",
            ("--momentum=0.9", "c.yaml"): "unknown option --momentum: write --set optimizer.sgd.momentum=0.9\n",
            ("--epochs=3", "c.yaml"): "unknown option --epochs: write --set train.epochs=3\n",
            ("--max_epochs", "3", "c.yaml"): "unknown option --max_epochs: write --set train.epochs=3\n",
            ("--epochs", "c.yaml"): "unknown option --epochs: write --set train.epochs=…\n",
            ("--batch-size", "--plan", "c.yaml"): "unknown option --batch-size: write --set data.batch=…\n",
            ("--seed", "-1", "c.yaml"): "unknown option --seed: write --set train.seed=-1\n",
            ("--gpus", "2", "c.yaml"): "unknown option --gpus: write --set 'pipeline.devices=[cuda:0, cuda:1]', with the "
                                       "devices, one for each stage\n",
            ("--output", "x", "c.yaml"): "unknown option --output: the run folder is -o DIR\n",
            ("--output_dir=x", "c.yaml"): "unknown option --output_dir: the run folder is -o DIR\n",
            ("--config", "c.yaml"): "unknown option --config: the configuration is a word without an option: "
                                    "gpipe-train net.yaml\n",
            ("-c", "c.yaml"): "unknown option -c: the configuration is a word without an option: gpipe-train net.yaml\n",
            ("--checkpoint", "x", "c.yaml"): "unknown option --checkpoint: --resume goes on from the newest snapshot of the "
                                             "run folder, which -o names\n",
            ("--resume=x", "c.yaml"): "option --resume takes no value; the run folder is -o DIR\n",
            ("--resume", "x", "c.yaml"): "option --resume takes no value; the run folder is -o DIR\n",
            ("--fp16", "c.yaml"): "unknown option --fp16; mixed precision is not available yet; train.precision is f32 or "
                                  "tf32\n",
            ("--nproc_per_node=2", "c.yaml"): "unknown option --nproc_per_node; name the devices in pipeline.devices; "
                                              "mpirun -np 4 gpipe-train starts several processes\n",
            ("--" + 300 * "x", "c.yaml"): "unknown option --" + 61 * "x" + see,
            ("--lr\n\x1b[31m=1", "c.yaml"): "unknown option --lr??[31m" + see,
            ("c.yaml", "-o"): "option -o needs a value\n",
            ("c.yaml", "-qo"): "option -o needs a value\n",
            ("-o", "", "c.yaml"): "option -o needs the name of a folder\n",
            ("c.yaml", "--set"): "option --set needs a value\n",
            ("--plan=all", "c.yaml"): "option --plan takes no value\n",
            ("--resume", "--force", "c.yaml"): "--resume continues a run, and --force replaces it: use one of them\n",
            ("--predict", "p", "--resume", "c.yaml"): "--predict trains nothing: --resume cannot be used with it\n",
            ("--predict", "p", "--force", "c.yaml"): "--predict trains nothing: --force cannot be used with it\n",
            ("--plan", "--predict", "p", "c.yaml"): "--predict trains nothing: --plan cannot be used with it\n",
            ("--expand", "--predict", "p", "c.yaml"): "--predict trains nothing: --expand cannot be used with it\n",
            ("--expand", "--plan", "c.yaml"): "--plan and --expand cannot be used together\n",
            ("--trace", "t", "--predict", "p", "c.yaml"): "--predict trains nothing: --trace cannot be used with it\n",
            ("--predict", "", "c.yaml"): "option --predict needs the name of a file\n",
            ("--predict=", "c.yaml"): "option --predict needs the name of a file\n",
            ("--predict", "p", "--weights=", "c.yaml"): "option --weights needs the name of a file\n",
            ("c.yaml", "--predict"): "option --predict needs a value\n",
            ("--weights", "w", "c.yaml"): "option --weights needs --predict; a training run takes its initial weights from train.init\n",
            ("--predict", "p", "--predct", "c.yaml"): "unknown option --predct: did you mean --predict?\n",
            ("c.yaml", "--trace"): "option --trace needs a value\n",
            ("c.yaml", "--trace="): "option --trace needs the name of a file\n",
            ("c.yaml", "--trace-steps", "1:2"): "option --trace-steps needs --trace FILE\n",
            ("c.yaml", "--trace-layers"): "option --trace-layers needs --trace FILE\n",
            ("c.yaml", "--plan", "--capture-steps", "1:2"): "option --capture-steps needs a run: it cannot be used with --plan\n",
            ("c.yaml", "--trace-steps"): "option --trace-steps needs a value\n",
            **{("--trace-steps=" + bad, "c.yaml"): "option --trace-steps takes the first and the last step, as in 1:100, "
               f'not "{bad}"\n' for bad in ("0:2", "5:4", "1:", ":3", "-1:3", "1:2:3", "x", " 1:2", "1e2", "9999999999")},
            ("c.yaml", "--capture-steps"): "option --capture-steps needs a value\n",
            ("--capture-steps=2:1", "c.yaml"): 'option --capture-steps takes the first and the last step, as in 1:100, not "2:1"\n',
            ("--predict", "p", "--capture-steps=1", "c.yaml"): "--predict trains nothing: --capture-steps cannot be used with it\n",
            ("--capture-steps=1", "c.yaml"): "--capture-steps 1:1: no device of the run has a profiler: name a GPU in "
                                             "pipeline.devices, or record a timeline with --trace\n",
            ("c.yaml", "--processors=2"): "option --processors needs --plan: a run uses the processors that it may use\n",
            **{("--plan", "--processors", bad, "c.yaml"): "option --processors takes a whole number from 1 to 4096, not "
               f'"{bad}"\n' for bad in ("0", "-1", "4097", "2x", "", "1e2")},
            ("none.yaml",): "none.yaml: cannot be opened: No such file or directory\n",
            ("-q", "--", "-q"): "-q: cannot be opened: No such file or directory\n",
        }.items():
            self.expect(arguments, 2, "gpipe-train: " + sentence, out="")
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.yaml", "d.safetensors"])

    def test_help_readme_and_parser_have_the_same_options(self):
        """Of both programs: what --help lists, what README's synopsis shows, and what the program accepts."""
        with open(os.path.join(HERE, "../../README.md"), encoding="utf-8") as file:
            readme = file.read()
        option = re.compile(r"(?<![\w-])(-\w(?![\w-])|--[a-z][a-z-]*)")
        for program, source in (("gpipe-train", "options.c"), ("gpipe-balance", "balance_options.c")):
            path = os.path.join(os.path.dirname(PROGRAM), program)
            asked = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
            self.assertIn("; 130 interrupted", asked)
            listed = set()
            for line in asked.splitlines():
                if line.startswith("  -"):
                    listed.update(option.findall(line[:24]))
            with open(os.path.join(HERE, "../../src/cli", source), encoding="utf-8") as file:
                code = file.read()
            accepted = set(re.findall(r'\{"(-[a-z-]+)", GP_OPTION_', code))
            self.assertEqual(listed | {"-h"}, accepted, program)
            synopsis = set()
            for line in readme.splitlines():
                if line.startswith("    %s " % program):
                    synopsis.update(option.findall(line))
            self.assertEqual(synopsis, accepted - {"-h", "--help", "--version"}, program)
            for name in accepted:
                done = subprocess.run([path, name], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
                self.assertNotIn("unknown option", done.stderr)
            done = subprocess.run([path, "--svgg"], capture_output=True, text=True)
            self.assertEqual("did you mean --svg?" in done.stderr, "--svg" in accepted)

    def test_help_and_version(self):
        for arguments in (["--help"], ["-h"], ["--help", "none.yaml"], ["-qh"]):
            process = self.expect(arguments, 0)
            self.assertTrue(process.out.startswith("usage: gpipe-train [options] config.yaml\n"))
            for word in ("-o DIR", "--set", "--plan", "--force", "-q", "-v", "Exit status: 0 done; 130 ", "Ctrl-C"):
                self.assertIn(word, process.out)
        process = self.expect(["--version"], 0)
        self.assertRegex(process.out, r"\Agpipe-train \d+\.\d+\.\d+\nMPI: (none|[A-Z][^\n]* v?\d[^\n]*)\n\Z")

    def test_threads_that_wait_sleep(self):
        """OpenMP's, unless somebody says otherwise."""
        for given, wanted in (({}, b"passive"), ({"OMP_WAIT_POLICY": "active"}, b"active")):
            environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
            self.write("c.yaml", CONFIG.replace("epochs: 2", "steps: 4000000000"))
            process = self.start("-q", "-o", "run" + given.get("OMP_WAIT_POLICY", ""), "c.yaml", env={**environment, **given})
            start = time.monotonic()
            found = None
            while found != wanted and time.monotonic() - start < PATIENCE and process.poll() is None:
                with open("/proc/%d/environ" % process.pid, "rb") as file:
                    found = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair).get(b"OMP_WAIT_POLICY")
            self.assertEqual(found, wanted)
            process.kill()
            process.wait()

    def test_no_variable_takes_threads_away(self):
        """oneDNN computes with as many as it was asked to; with fewer, a part of the result would be missing."""
        self.write("c.yaml", """\
model: {input: {shape: [512]}, layers: [{linear: 512}, relu, {linear: 3}], loss: cross_entropy}
data: {train: {synthetic: {samples: 64}}, batch: 32}
pipeline: {devices: [{cpu: {threads: 2}}]}
optimizer: {sgd: {lr: 0.0001}}
train: {steps: 2}
""")
        for run, more in (("a", {}), ("b", {"OMP_THREAD_LIMIT": "1"}), ("c", {"OMP_MAX_ACTIVE_LEVELS": "0"}),
                          ("d", {"OMP_DYNAMIC": "true", "OMP_WAIT_POLICY": "passive"})):
            self.expect(["-q", "-o", run, "c.yaml"], 0, env={**os.environ, **more})
            with open(self.path("a/model.safetensors"), "rb") as wanted, open(self.path(run + "/model.safetensors"), "rb") as found:
                self.assertEqual(found.read(), wanted.read(), more)

    def test_options_stand_anywhere(self):
        for arguments in (
            ["c.yaml", "-q", "-o", "run", "--set", "train.steps=1"],
            ["-qorun", "--force", "--set=train.steps=1", "c.yaml"],
            ["--force", "--set", "train.epochs=1", "--set", "train.steps=1", "-q", "-o=run", "--", "c.yaml"],
        ):
            self.expect(arguments, 0, out="")
            self.assertEqual(read_lines(self.path("run"))[-1]["steps"], 1)

    def test_what_is_printed(self):
        process = self.expect(["-o", "run", "c.yaml"], 0)
        header = HEADER.match(process.out)
        self.assertTrue(header, process.out)
        self.assertRegex(
            process.out[header.end() :],
            r"\Arun folder: run\n"
            r"step 4/8  epoch 1  eval loss [\d.e-]+  accuracy [01]\.\d{4}\n"
            r"step 8/8  epoch 2  eval loss [\d.e-]+  accuracy [01]\.\d{4}\n"
            r"report: mean of \d recorded steps; predicted from [a-z ]+\n(?: .*\n)+"
            r"done: 8 steps in \d+\.\d s, loss [\d.e-]+, accuracy [01]\.\d{4}; model saved in run\n\Z",
        )
        self.expect(["-o", "quiet", "-q", "c.yaml"], 0, out="")
        process = self.expect(["-o", "verbose", "-v", "c.yaml"], 0)
        self.assertLess(process.out.index("\nmemory "), HEADER.search(process.out).start())
        process = self.expect(["-o", "evaluated", "--set", "train.steps=0", "c.yaml"], 0)
        self.assertRegex(
            process.out,
            r"run folder: evaluated\neval loss [\d.e-]+  accuracy [01]\.\d{4}\n"
            r"done: evaluated in \d+\.\d s; model saved in evaluated\n\Z",
        )


class Config(Group):
    """Configurations that are refused, with their exit statuses, and changes by --set."""

    def refuse(self, old, new, status, sentence):
        assert old in CONFIG, old
        self.write("bad.yaml", CONFIG.replace(old, new, 1))
        for plan in ([], ["--plan"]):
            self.expect(["bad.yaml", *plan], status, "gpipe-train: " + sentence + "\n", out="")
        self.assertEqual(sorted(os.listdir(self.folder)), ["bad.yaml", "c.yaml", "d.safetensors"])

    def test_wrong_configurations(self):
        self.refuse("kernel: 3,", "kernel_size: 3,", 2,
                    "bad.yaml:4:22: conv: unknown key \"kernel_size\"; did you mean kernel?")
        self.refuse("lr: 0.02", "lr: fast", 2, "bad.yaml:21:13: optimizer.sgd.lr: \"fast\" is not a number")
        self.refuse("out: 3}", "out: 0}", 2, "bad.yaml:11:21: linear: out: 0 is too small; it must be at least 1")
        self.refuse("[a, -1]", "[b, -1]", 2, "bad.yaml:8:13: from: there is no layer \"b\" before this one")

    def test_a_gpu_that_is_not_there(self):
        """Without CUDA, without a driver, without that device: a sentence, and nothing is saved."""
        self.write("gpu.yaml", CONFIG.replace("[cpu, cpu]", "[cpu, cuda:77]"))
        process = self.run_program("-o", "gpu", "gpu.yaml")
        self.assertEqual(process.returncode, 1)
        self.assertRegex(
            process.err,
            r"^gpipe-train: (gpu\.yaml:18:18: device cuda:77: this program was built without CUDA; build it on a machine where "
            r"CMake finds the CUDA toolkit|worker 1: cuda:77: (the machine has no driver, or one that is too old for CUDA \d+\.\d+"
            r"|there is no such device: the machine has \d+))\n$")

    def test_what_the_parts_do_not_fit(self):
        self.refuse("kernel: 3, pad: 1}\n    - add", "kernel: 7}\n    - add", 2,
                    "bad.yaml:7:7: conv \"3\": kernel 7 is larger than its padded input 4x4")
        self.refuse("micro_batches: 4", "balance: [4, 5]", 2,
                    "bad.yaml:19:12: pipeline.balance: the entries add up to 9, but the model has 8 layers")
        self.refuse("[cpu, cpu]", "[{cpu: {count: 9}}]", 2,
                    "bad.yaml:18:14: pipeline.devices: 9 stages are more than the model's 8 layers")
        self.refuse("batch: 16", "batch: 51\n  drop_last: true", 2,
                    "bad.yaml:16:10: data.batch: 51 is more than the 50 training samples, and drop_last leaves out "
                    "what is not full: nothing is left to train on")
        self.refuse("- flatten", "- flatten\n    - batch_norm", 2,
                    "bad.yaml:11:7: batch_norm \"7\": a micro-batch of 1 sample has one value per channel, whose "
                    "variance is 0: take a larger batch or fewer micro_batches, so that every micro-batch has 2 "
                    "samples or more (data.drop_last leaves out a last mini-batch that is too small)")

    def test_data_that_does_not_fit(self):
        self.refuse("take: [50, 64]", "take: [50, 65]", 2, "bad.yaml:15:40: take: [50, 65] is not a range of the 64 "
                    "samples of d.safetensors; 0 ≤ from < to ≤ 64 is the rule")
        self.refuse("out: 3}", "out: 2}", 1,
                    "bad.yaml:14:11: d.safetensors: sample 2: class 2 is out of range; the model has 2 outputs, for the classes 0 … 1")
        self.refuse("[2, 4, 4]", "[2, 4, 5]", 2,
                    "bad.yaml:14:11: the samples of d.safetensors are [2, 4, 4], but the model's input is [2, 4, 5]")

    def test_a_plan_over_a_devices_memory(self):
        """Worker 1 has too little memory for the cut that is asked for, and enough for a cut that gives it one layer."""
        def arenas(balance):
            out = self.expect(["--plan", "--set", "pipeline.checkpoint=never", "--set", f"pipeline.balance={balance}",
                               "c.yaml"], 0).out
            return [int(number) for number in re.search(r"\n +in bytes +([\d ]+)\n", out)[1].split()]
        least, needed = arenas([7, 1])[1], arenas([4, 4])[1]
        self.assertLess(least + 2048, needed)
        self.write("bad.yaml", CONFIG.replace("[cpu, cpu]", "[cpu, {cpu: {memory: %d}}]\n  checkpoint: never\n  "
                                               "balance: [4, 4]" % ((least + needed) // 2)))
        process = self.run_program("bad.yaml")
        self.assertEqual((process.returncode, process.out), (2, ""))
        self.assertRegex(process.err, r"\Agpipe-train: bad\.yaml:18:19: the plan does not fit: worker 1 needs "
                         r"[\d.]+ [KM]iB \(%d bytes\), but its memory is [\d.]+ [KM]iB \(parameters [^()]*, stashes "
                         r"[^()]*\); it fits with balance: auto\n\Z" % needed)
        self.expect(["-q", "-o", "run", "--set", "pipeline.balance=auto", "bad.yaml"], 0)

    def test_a_layer_over_a_devices_memory(self):
        """More stages are no advice, though batch norm refuses the smallest micro-batches."""
        devices = "pipeline.devices=[{cpu: {memory: 20MiB}}, {cpu: {memory: 20MiB}}]"
        path = os.path.join(HERE, "../../configs/resnet-synthetic.yaml")
        process = self.run_program("--plan", "--set", devices, path)
        self.assertEqual(process.returncode, 2)
        self.assertIn("; neither more stages nor a smaller batch help; its device needs more memory\n", process.err)

    def test_a_plan_of_too_many_instructions(self):
        """Refused before any is made."""
        self.write("many.yaml", "model: {input: {shape: [4]}, layers: [%slinear: {out: 3}], loss: cross_entropy}\n"
                   "data: {train: {synthetic: {samples: 4096, seed: 1}}, batch: 4096}\ntrain: {steps: 1}\noptimizer: {sgd: 1}\n"
                   "pipeline:\n  devices: [{cpu: {count: 4096}}]\n  micro_batches: 4096\n" % ("relu, " * 4095))
        self.expect(["--plan", "many.yaml"], 2, "gpipe-train: many.yaml:7:18: pipeline.micro_batches: 4096 micro-batches "
                    "times 4096 stages are more than 8388608\n")
        slow = ["--plan", *sets(["pipeline.micro_batches=2048", "data.train={tensors: none}"]), "many.yaml"]
        missing = "gpipe-train: --set data.train={tensors: none}: none: cannot be opened: No such file or directory\n"
        self.expect(slow, 1, missing, out="planning 2048 micro-batches on 4096 stages: 8388608 forward and as many backward "
                    "passes; this can take minutes and gigabytes\n")
        self.expect(["-q", *slow], 1, missing, out="")

    def test_expanded_it_trains_to_the_same_bits(self):
        """As a list of layers, which expands to itself; what was changed by --set is in it."""
        layers = CONFIG[CONFIG.index("  layers"):CONFIG.index("  loss")]
        rules = ("  rules: {batch_norm: {init: {weight: 0.5}}, layer1: {freeze: true}, layer1.1.conv2: {freeze: false},\n"
                 "          '*.bias': {init: 0.25}, 'kind:relu': {checkpoint: false}}\n")
        resnet = "  resnet: {depth: 18, classes: 3}\n"
        for model, count in ((layers, 8), (resnet, 71), (resnet + rules, 71)):
            with self.subTest(model=model):
                self.write("short.yaml", CONFIG.replace(layers, model))
                expanded = self.expect(["--expand", "--set", "train.steps=3", "short.yaml"], 0).out
                self.write("long.yaml", expanded)
                self.expect(["--expand", "long.yaml"], 0, out=expanded)
                self.assertNotIn("resnet", expanded)
                self.assertNotIn("rules", expanded)
                self.assertEqual(self.expect(["--plan", "long.yaml"], 0).out,
                                 self.expect(["--plan", "--set", "train.steps=3", "short.yaml"], 0).out)
                ruled = "rules" if "rules" in model else ""
                runs = [self.path("%s%d%s" % (name, count, ruled)) for name in ("short", "long")]
                for run, config in zip(runs, (["--set", "train.steps=3", "short.yaml"], ["long.yaml"])):
                    self.expect(["-q", "-o", run, *config], 0)
                    self.assertEqual(read_lines(run)[0]["layers"], count)
                self.assertEqual(*map(results, runs))
                self.assertEqual(*map(read_model, runs))
                if ruled:
                    again = self.path("again")
                    self.expect(["-q", "-o", again, os.path.join(runs[0], "config.yaml")], 0)
                    self.assertEqual(read_model(runs[0]), read_model(again))

    def test_the_micro_batches_that_run_are_printed(self):
        """A mini-batch has no more of them than samples."""
        out = self.expect(["-o", self.path("many"), "--set", "pipeline.micro_batches=100", "--set", "data.batch=8",
                           "--set", "train.steps=1", "c.yaml"], 0).out
        self.assertIn(", 8 micro-batches, ", out)

    def test_the_place_is_that_of_the_override(self):
        """Of a value that --set replaced, messages name the --set, not the file that had another value there."""
        for assignment, status, sentence in (
            ("data.train.tensors=missing", 1, "missing: cannot be opened: No such file or directory"),
            ("model.layers.0.conv=2", 2, "conv: kernel is missing: conv: {out: 16, kernel: 3}"),
        ):
            self.expect(["--plan", "--set", assignment, "c.yaml"], status, f"gpipe-train: --set {assignment}: {sentence}\n")

    def test_set_changes_the_configuration(self):
        folder = self.train("--set", "train.steps=3", "--set", "optimizer.sgd.lr=0.125", "--set", "data.batch=8",
                            "--set", "train.steps=2", "--set", "pipeline={devices: [cpu, cpu, cpu]}")
        lines = read_lines(folder)
        steps = [line for line in lines if line["event"] == "step"]
        self.assertEqual([(line["lr"], line["samples"]) for line in steps], [(0.125, 8)] * 2)
        self.assertEqual((len(lines[0]["balance"]), lines[0]["micro_batches"]), (3, 1))
        for assignment, sentence in {
            "train.step=3": "--set train.step=3: train: unknown key \"step\"; did you mean steps?",
            "nonsense": "--set nonsense: needs the form key.path=value",
        }.items():
            self.expect(["--set", assignment, "c.yaml"], 2, "gpipe-train: " + sentence + "\n", out="")


class Folder(Group):
    """The run folder."""

    def test_contents(self):
        self.expect(["-q", "c.yaml"], 0)
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["c"])
        self.expect_whole(self.path("runs/c"), "done", STEPS)
        model = read_tensors(self.path("runs/c/model.safetensors"))
        shapes = {name: (dtype, shape) for name, (dtype, shape, _) in model.items()}
        self.assertEqual(shapes, {
            "0.weight": ("F32", [8, 2, 3, 3]), "0.bias": ("F32", [8]),
            "1.weight": ("F32", [8]), "1.bias": ("F32", [8]),
            "1.running_mean": ("F32", [8]), "1.running_var": ("F32", [8]),
            "3.weight": ("F32", [8, 8, 3, 3]), "3.bias": ("F32", [8]),
            "7.weight": ("F32", [3, 128]), "7.bias": ("F32", [3]),
        })

    def test_a_configuration_is_not_written_over(self):
        os.mkdir(self.path("own"))
        self.write("own/config.yaml", CONFIG.replace("d.safetensors", "../d.safetensors"))
        with open(self.path("own/config.yaml")) as file:
            before = file.read()
        for force in ([], ["--force"]):
            self.expect(["-q", "-o", "own", *force, "own/config.yaml"], 2,
                        "gpipe-train: own: the run would write its config.yaml over the configuration own/config.yaml: choose "
                        "another folder with -o\n", out="")
        with open(self.path("own/config.yaml")) as file:
            self.assertEqual(file.read(), before)
        self.expect(["-q", "-o", "run", "own/config.yaml"], 0)
        self.expect(["-q", "-o", "run", "--force", "run/config.yaml"], 0)

    def test_a_used_folder_needs_force(self):
        self.expect(["-q", "-o", "run", "--set", "train.steps=1", "c.yaml"], 0)
        before = read_model(self.path("run"))
        refusal = ("gpipe-train: run already holds a run (metrics.jsonl): choose another folder with -o, continue that run with "
                   "--resume, or replace it with --force\n")
        self.expect(["-o", "run", "c.yaml"], 2, refusal, out="")
        self.assertEqual(read_model(self.path("run")), before)
        self.assertEqual(read_lines(self.path("run"))[-1]["steps"], 1)
        self.expect(["-q", "-o", "run", "--force", "c.yaml"], 0)
        self.expect_whole(self.path("run"), "done", STEPS)
        self.expect(["-q", "-o", "new/in/new", "c.yaml"], 0)
        self.expect(["-q", "-o", "d.safetensors", "c.yaml"], 1,
                    "gpipe-train: the run folder d.safetensors cannot be made: d.safetensors: Not a directory\n")

    def test_the_written_configuration_repeats_the_run(self):
        one = self.train("--set", "train.seed=5", "--set", "optimizer.warmup=3")
        moved = self.path("elsewhere")
        os.mkdir(moved)
        shutil.copy(os.path.join(one, "config.yaml"), moved)
        self.expect(["-q", "-o", "again", "elsewhere/config.yaml"], 0)
        again = self.path("again")
        self.assertEqual(read_model(again), read_model(one))
        self.assertEqual(results(again), results(one))
        with open(os.path.join(one, "config.yaml")) as a, open(os.path.join(again, "config.yaml")) as b:
            text = a.read()
            self.assertEqual(text, b.read())
        for resolved in ("seed: 5", "balance: [", "lockstep: false", "threads: 1", self.path("d.safetensors")):
            self.assertIn(resolved, text)
        self.assertNotIn("auto", text)
        other = self.train("--set", "train.seed=6", "--set", "optimizer.warmup=3")
        self.assertNotEqual(read_model(other), read_model(one))

    def test_init_goes_on_from_a_model(self):
        one = self.train("--set", "train.steps=4")
        init = "train.init=" + os.path.join(one, "model.safetensors")
        evaluated = self.train("--set", "train.steps=0", "--set", init)
        def weights(model):
            return model[8 + int.from_bytes(model[:8], "little"):]  # behind the header, which names the step
        self.assertEqual(weights(read_model(evaluated)), weights(read_model(one)))
        self.assertEqual([line["loss"] for line in results(evaluated)], [results(one)[-1]["loss"]])
        self.expect(["--set", "train.init=none.safetensors", "c.yaml"], 1,
                    "gpipe-train: --set train.init=none.safetensors: none.safetensors: cannot be opened: No such file "
                    "or directory\n", out="")
        self.expect(["--set", "train.init=d.safetensors", "c.yaml"], 1,
                    "gpipe-train: --set train.init=d.safetensors: d.safetensors: tensor \"0.weight\" is missing\n", out="")
        self.assertFalse(os.path.exists(self.path("runs")))


class Cuts(Group):
    """The cut does not change the result."""

    def test_models_are_equal_to_the_bit(self):
        one = self.train("--set", "pipeline.devices=[cpu]", "--set", "pipeline.checkpoint=never")
        for stages in (1, 2, 3):
            for checkpoint in ("never", "except_last", "always"):
                for lockstep in ("true", "false"):
                    with self.subTest(stages=stages, checkpoint=checkpoint, lockstep=lockstep):
                        folder = self.train("--set", "pipeline.devices=[{cpu: {count: %d}}]" % stages,
                                            "--set", "pipeline.checkpoint=" + checkpoint,
                                            "--set", "pipeline.lockstep=" + lockstep)
                        self.assertEqual(len(read_lines(folder)[0]["balance"]), stages)
                        self.assertEqual(read_model(folder), read_model(one))
                        self.assertEqual(results(folder), results(one))


class Targets(Group):
    """Targets with the picture's height and width move with it."""

    def setUp(self):
        super().setUp()
        write_pixels(self.path("pixels.safetensors"))

    def train_on_pixels(self, *changes):
        return self.train(*PIXELS, *[word for change in changes for word in ("--set", change)])

    def expect_same(self, one, other):
        self.assertEqual(read_model(one), read_model(other))
        self.assertEqual(results(one), results(other))

    def test_it_learns_with_any_transform_what_it_learns_without(self):
        write_pixels(self.path("pixels.safetensors"), samples=192)
        for transform in ("[]", "[random_horizontal_flip]", "[random_vertical_flip]", "[{random_crop: {size: 4, pad: 2}}]",
                          "[{pad: 1}, {random_crop: 4}, random_horizontal_flip, {random_erasing: {p: 0.2}}]"):
            with self.subTest(transform=transform):
                folder = self.train_on_pixels(
                    "data.train.take=[0, 128]", "data.eval.take=[128, 192]", "data.train.transform=" + transform,
                    "optimizer={adam: 0.02}", "train.epochs=8",
                    "model.layers=[{conv: {out: 8, kernel: 3, pad: 1}}, relu, {conv: {out: 3, kernel: 1}}]")
                last = [line for line in read_lines(folder) if line["event"] == "eval"][-1]
                self.assertGreater(last["accuracy"], 0.97)
                self.assertLess(last["loss"], 0.15)

    def test_it_is_what_moved_files_give(self):
        """Transforms without chance, and files that have pictures and targets as they leave them; padded classes do not count."""
        flip, turn = lambda rows, fill: [row[::-1] for row in rows], lambda rows, fill: rows[::-1]
        pad = lambda rows, fill: [[fill] * 6] + [[fill, *row, fill] for row in rows] + [[fill] * 6]
        cut = lambda rows, fill: [row[1:3] for row in rows[1:3]]
        for transform, change, size in (("random_horizontal_flip: 1", flip, 4), ("random_vertical_flip: 1", turn, 4),
                                        ("pad: 1", pad, 6), ("center_crop: 6", pad, 6), ("center_crop: 2", cut, 2)):
            with self.subTest(transform=transform):
                write_pixels(self.path("moved.safetensors"), change=change)
                shape = "model.input.shape=[2, %d, %d]" % (size, size)
                lists = ["data.%s.transform=[{%s}]" % (of, transform) for of in ("train", "eval")]
                self.expect_same(self.train_on_pixels(shape, *lists),
                                 self.train_on_pixels(shape, *["data.%s.tensors=moved.safetensors" % of for of in ("train", "eval")]))

    def test_no_cut_changes_a_bit(self):
        one = self.train(*PIXELS, *MOVED, "--set", "pipeline.devices=[cpu]")
        for changes in (["pipeline.devices=[cpu, cpu, cpu]", "pipeline.checkpoint=always"], ["data.threads=3"]):
            self.expect_same(self.train(*PIXELS, *MOVED, *sets(changes)), one)
        shared = ["pipeline.micro_batches=2", "data.drop_last=true"]
        self.expect_same(self.train(*PIXELS, *MOVED, *sets(["pipeline.devices=[[cpu, cpu]]", *shared])),
                         self.train(*PIXELS, *MOVED, *sets(["pipeline.devices=[cpu, cpu]", "pipeline.replicas=2", *shared])))

    def test_changes_and_resuming(self):
        """The transforms of step 5 on come from a file, from --resume, and from the configuration as it ran."""
        lists = "[{random_crop: {size: 4, pad: 1}}]", "[random_vertical_flip]"
        self.write("c.yaml", CONFIG + "changes: {5: {data.train.transform: %s}}\n" % lists[1])
        whole = self.train_on_pixels("data.train.transform=" + lists[0])
        again = self.path("again")
        self.expect(["-q", "-o", again, os.path.join(whole, "config.yaml")], 0)
        self.expect_same(whole, again)
        self.write("c.yaml", CONFIG)
        part = self.train_on_pixels("data.train.transform=" + lists[0], "train.steps=4", "train.save_every=4")
        self.expect(["-o", part, "c.yaml", "--resume", *PIXELS, "--set", "data.train.transform=" + lists[1],
                     "--set", "train.steps=8"], 0)
        self.assertEqual(read_model(part), read_model(whole))

    def test_what_cannot_move_is_refused_before_the_first_step(self):
        self.write("c.yaml", CONFIG + "changes: {5: {data.train.transform: [random_horizontal_flip, {pad: 1}, {random_crop: 4}]}}\n")
        write_tensors(self.path("pixels.safetensors"), x=("F32", [64, 2, 4, 4], bytes(64 * 128)),
                      y=("F32", [64, 3, 4, 4], bytes(64 * 192)))
        said = "gpipe-train: c.yaml:23:11: changes.5: c.yaml:23:63: pad: it pads the pictures of pixels.safetensors, and the " \
               "targets [3, 4, 4], which are numbers, move with them: no number says that a padded pixel does not count; take " \
               "a transform that does not pad\n"
        self.expect(["-o", "out", "c.yaml", *PIXELS, "--set", "model.loss=mse"], 2, err=said)
        self.assertFalse(os.path.exists(self.path("out")))


class Replicas(Group):
    """Several devices for a stage."""

    TWICE = ["--set", "pipeline.micro_batches=2", "--set", "data.drop_last=true"]

    def train_on(self, devices, *changes):
        return self.train("--set", "pipeline.devices=%s" % devices, *self.TWICE, *changes)

    def test_models_are_equal_to_the_bit(self):
        one = self.train_on("[[cpu, cpu]]")
        ways = [("[cpu]", "--set", "pipeline.replicas=2"),
                ("[cpu, cpu]", "--set", "pipeline.replicas=2", "--set", "pipeline.checkpoint=never"),
                ("[[cpu, cpu], [cpu, cpu]]", "--set", "pipeline.lockstep=true"),
                ("[{cpu: {count: 3}}]", "--set", "pipeline.replicas=2", "--set", "pipeline.balance=[2, 3, 3]")]
        for devices, *changes in ways:
            with self.subTest(devices=devices, changes=changes):
                folder = self.train_on(devices, *changes)
                self.assertEqual(read_model(folder), read_model(one))
                self.assertEqual(results(folder), results(one))

    def test_the_configuration_as_it_ran_runs_again(self):
        one = self.train_on("[cpu, cpu]", "--set", "pipeline.replicas=2")
        again = self.path("again")
        self.expect(["-q", "-o", again, os.path.join(one, "config.yaml")], 0)
        self.assertEqual(read_model(again), read_model(one))

    def test_stages_may_have_different_numbers(self):
        folder = self.train_on("[[cpu, cpu], cpu]", "--set", "pipeline.balance=[5, 3]")
        start = read_lines(folder)[0]
        self.assertEqual((start["balance"], start["devices"]), ([5, 3], ["cpu", "cpu", "cpu"]))
        out = self.expect(["--plan", "c.yaml", *self.TWICE, "--set", "pipeline.devices=[[cpu, cpu], cpu]",
                           "--set", "pipeline.balance=[5, 3]"], 0).out
        self.assertIn("replicas     of each stage: 2, 1; below, each replica is a stage of its own\n", out)
        self.assertRegex(out, r"  scatter     gradients of replicas +0 … 1 ")

    def test_policies_of_megdet(self):
        """configs/megdet.yaml has what docs/replicas.md says. It plans on CPUs, and a small model trains with the rates of both
        policies."""
        config, page = (os.path.join(HERE, "../..", path) for path in ("configs/megdet.yaml", "docs/replicas.md"))
        with open(config) as file:
            text = file.read()
        with open(page) as file:
            normal, long = re.search(r"its \*normal\* policy is:\n\n```yaml\n(.*?)```.*?"
                                     r"```yaml\n +lr_schedule: (.*?)\n```", file.read(), re.S).groups()
        self.assertEqual(normal[normal.index("optimizer:"):], text[text.index("optimizer:"):])
        for key in ("rules", "batch", "pipeline"):
            value = re.search(r"\b%s: ({[^\n]*?}|\d+)[} ]*(#.*)?$" % key, normal, re.M)[1]
            self.assertIn("%s: %s" % (key, value), text)
        out = self.expect(["--plan", "--processors", "64", "--set", "pipeline.devices=[cpu]", config], 0).out
        self.assertIn("replicas     of each stage: 64; ", out)
        self.assertIn("mini-batches training   256 samples: 1 micro-batch of 256\n", out)
        self.assertRegex(out, r"batch norm of replicas, in passes ")
        small = ["--set", "model={input: {shape: [1, 4, 4]}, layers: [conv: {out: 2, kernel: 3}, batch_norm, flatten, linear: 3], "
                          "loss: cross_entropy, rules: {batch_norm: {sync: 2}}}", "--set", "pipeline={devices: [cpu], replicas: 4}",
                 "--set", "data={train: {synthetic: {samples: 32, seed: 1}}, batch: 8}"]  # 4 steps in an epoch
        for epochs, drops, more in ((11, {8: 0.1, 10: 0.1}, []),
                                    (18, {11: 0.1, 14: 0.1, 17: 0.5}, ["--set", "optimizer.lr_schedule=" + long,
                                                                       "--set", "train={epochs: 18}"])):
            folder = self.path("policy-%d" % epochs)
            self.expect(["-q", "-o", folder, *small, *more, config], 0)
            rates = [0.32 * (0.0625 + 0.9375 * step / 4) for step in (1, 2, 3, 4)]
            for epoch in range(1, epochs):
                rates += [rates[-1] * drops.get(epoch, 1)] * 4
            found = [line["lr"] for line in read_lines(folder) if line["event"] == "step"]
            self.assertEqual([float("%.6g" % rate) for rate in found], [float("%.6g" % rate) for rate in rates])

    def test_without_mpi(self):
        """A program that was built without MPI plans what several processes run, and trains in one process with transport: mpi.
        It refuses to be one of several processes."""
        without = os.environ.get("GP_WITHOUT_MPI")
        if not without:
            self.skipTest("GP_WITHOUT_MPI names no program that was built without MPI")
        out = subprocess.run([without, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertIn("\nMPI: none\n", out)
        config = os.path.join(HERE, "../../configs/megdet.yaml")
        over_mpi = ["c.yaml", *self.TWICE, "--set", "pipeline.transport=mpi", "--set", "pipeline.devices=[[cpu, cpu]]"]
        apart = ["--set", "pipeline.links={processes: 2, host: {latency: 20 us, bandwidth: 10 GB/s}}"]
        for plan in (["--set", "pipeline.devices=[cpu]", config], [*over_mpi, *apart]):
            shown = self.expect(["--plan", "--json", "--processors", "64", *plan], 0).out
            again = self.expect(["--plan", "--json", "--processors", "64", *plan], 0, program=without).out
            self.assertEqual(json.loads(again), json.loads(shown))
        self.assertEqual(json.loads(again)["processes"], 2)
        one = self.train_on("[[cpu, cpu]]")
        self.expect(["-q", "-o", "alone", *over_mpi], 0, program=without)
        self.assertEqual(read_model(self.path("alone")), read_model(one))
        for rank in ("0", "1"):  # process 1 says it two seconds later, if the launcher has not ended it: process 0 may have MPI
            launched = dict(os.environ, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK=rank)
            self.expect(["-q", "-o", "launched", *over_mpi], 1,
                        "gpipe-train: this program was built without MPI, and cannot run as several processes: install an MPI "
                        "(scripts/setup.sh --mpi), and build again\n", program=without, env=launched)
            self.assertFalse(os.path.exists(self.path("launched")))

    def test_links(self):
        """Bytes on each link of a plan; a run has the same bits with them."""
        links = ("{processes: 4, processes_per_host: 2, host: {latency: 20 us, bandwidth: 10 GB/s}, "
                 "network: {latency: 100 us, bandwidth: 1 MB/s}}")
        more = ["--set", "pipeline.devices=[[cpu, cpu], [cpu, cpu]]", *self.TWICE]
        plain = json.loads(self.expect(["--plan", "--json", "c.yaml", *more], 0).out)
        plan = json.loads(self.expect(["--plan", "--json", "c.yaml", *more, "--set", "pipeline.links=" + links], 0).out)
        self.assertNotIn("links", plain)
        self.assertEqual((plan["processes"], plan["hosts"]), (4, 2))
        # Each replica has two processes: one for each stage.
        self.assertEqual([(worker["stages"], worker["process"]) for worker in plan["workers"]], [([0], 0), ([1], 2), ([2], 1), ([3], 3)])
        self.assertNotIn("process", plain["workers"][0])
        process, host, network = plan["links"]
        self.assertEqual([link["link"] for link in plan["links"]], ["process", "host", "network"])
        self.assertEqual((process["copies"], process["bytes"]), (0, 0))
        # Each replica has a host of its own: edges stay on it, and what replicas exchange crosses the network.
        edges = {}
        for program in plan["programs"][:1]:
            for worker in program["workers"]:
                for i in worker["instructions"]:
                    if i["op"] == "recv":
                        edges[i["edge"]] = edges.get(i["edge"], 0) + i["bytes"]
        self.assertGreater(len(edges), 0)
        self.assertTrue(sum(edges.values()) <= host["bytes"] <= sum(edges.values()) + 200, (edges, host))
        self.assertEqual((network["bytes_per_s"], network["latency_us"], network["shared"], network["from"]), (1e6, 100, True, "by hand"))
        # The network is so slow that the step takes as long as its busiest direction, at least.
        self.assertGreater(plan["programs"][0]["step_ms"], network["busiest_bytes"] / 1e3)
        self.assertLess(plain["programs"][0]["step_ms"], plan["programs"][0]["step_ms"])
        out = self.expect(["--plan", "c.yaml", *more, "--set", "pipeline.links=" + links], 0).out
        self.assertIn("\nlinks, of a mini-batch: 4 workers in 4 processes on 2 hosts\n", out)
        self.assertRegex(out, r"\nprocesses\n  process  workers +arenas\n        0  0 +\S+ KiB\n        1  2 +\S+ KiB\n        2  1 +\S+ KiB\n        3  3 +\S+ KiB\n")
        fast = self.expect(["--plan", "c.yaml", *more, "--set", "pipeline.links=" + links.replace("10 GB/s", "20000 GB/s")], 0).out
        self.assertIn(" 20 µs, 20000 GB/s ", fast)
        self.assertRegex(out, r"\n  between hosts +100 µs, 1 MB/s, shared +by hand +\d+ +[\d.]+ KiB  (into|out of) host [01]: [\d.]+ KiB, [\d.]+ ms\n")
        # What synchronised batch norms exchange within passes goes over the links, too: both replicas of a stage copy it.
        more += ["--set", "model.rules={batch_norm: {sync: true}}", "--set", "pipeline.links=" + links]
        together = json.loads(self.expect(["--plan", "--json", "c.yaml", *more], 0).out)
        exchanged = re.findall(r"batch norm of replicas, in passes +\d+ … \d+ +([\d,]+) ", self.expect(["--plan", "c.yaml", *more], 0).out)
        bytes_of = [sum(link["bytes"] for link in its["links"]) for its in (plan, together)]
        self.assertEqual(bytes_of[1] - bytes_of[0], 2 * sum(int(number.replace(",", "")) for number in exchanged))
        self.assertGreater(bytes_of[1], bytes_of[0])
        more = more[:-4]
        one = self.train_on("[[cpu, cpu], [cpu, cpu]]")
        self.assertEqual(read_model(self.train_on("[[cpu, cpu], [cpu, cpu]]", "--set", "pipeline.links=" + links)), read_model(one))
        process = self.run_program("--plan", "c.yaml", *more, "--set", "pipeline.links.processes=5")
        self.assertEqual(process.returncode, 2)
        self.assertIn("pipeline.links.processes: 5 are more than the 4 workers", process.err)

    def test_auto_finds_a_balance_for_different_numbers(self):
        """The parameters are those of the same balance, given."""
        folder = self.train_on("[[cpu, cpu], cpu]")
        balance = read_lines(folder)[0]["balance"]
        given = self.train_on("[[cpu, cpu], cpu]", "--set", "pipeline.balance=%s" % balance)
        self.assertEqual(read_model(folder), read_model(given))

    def test_a_run_goes_on_with_another_cut(self):
        whole = self.train_on("[[cpu, cpu]]")
        part = self.train_on("[[cpu, cpu], [cpu, cpu]]", "--set", "train={epochs: 2, save_every: 2}", "--set", "train.steps=4")
        self.expect(["-q", "--resume", "-o", part, "c.yaml", *self.TWICE, "--set", "pipeline.devices=[cpu]",
                     "--set", "pipeline.replicas=2", "--set", "train={epochs: 2}"], 0)
        self.assertEqual(read_model(part), read_model(whole))

    SHARDS = ["--set", "pipeline.replicas=2", "--set", "pipeline.shard_optimizer=true"]

    def test_sharing_out_the_optimizer_changes_no_bit(self):
        one = self.train_on("[cpu]", "--set", "pipeline.replicas=2")
        for devices in ("[cpu]", "[cpu, cpu]"):
            folder = self.train_on(devices, *self.SHARDS)
            with self.subTest(devices=devices):
                self.assertEqual(read_model(folder), read_model(one))
                self.assertEqual(results(folder), results(one))
        again = self.path("again")
        ran = os.path.join(folder, "config.yaml")
        with open(ran, encoding="utf-8") as file:
            self.assertIn("  shard_optimizer: true\n", file.read())
        self.expect(["-q", "-o", again, ran], 0)
        self.assertEqual(read_model(again), read_model(one))

    def test_a_run_goes_on_with_and_without_sharing_out(self):
        whole = self.train_on("[[cpu, cpu]]")
        halves = (["--set", "pipeline.replicas=2"], self.SHARDS)
        for first, second in (halves, halves[::-1]):
            with self.subTest(first=first):
                part = self.train_on("[cpu]", *first, "--set", "train={epochs: 2, save_every: 2}", "--set", "train.steps=4")
                self.expect(["-q", "--resume", "-o", part, "c.yaml", *self.TWICE, "--set", "pipeline.devices=[cpu, cpu]",
                             *second, "--set", "train={epochs: 2}"], 0)
                self.assertEqual(read_model(part), read_model(whole))

    def test_a_run_that_shares_out_goes_on_with_other_replicas(self):
        part = self.train_on("[cpu]", *self.SHARDS, "--set", "train={epochs: 2, save_every: 2}", "--set", "train.steps=4")
        for devices, replicas in (("[cpu]", 4), ("[cpu, cpu]", 1)):
            with self.subTest(replicas=replicas):
                folder = self.path("resumed%d" % replicas)
                shutil.copytree(part, folder)
                self.expect(["-q", "--resume", "-o", folder, "c.yaml", *self.TWICE, "--set", "pipeline.devices=" + devices,
                             *self.SHARDS, "--set", "pipeline.replicas=%d" % replicas, "--set", "train={epochs: 2}"], 0)
                self.assertEqual(max(line.get("step", 0) for line in read_lines(folder)), 6)

    def test_the_plan_shows_the_shared_out_state(self):
        def states(*changes):
            plan = json.loads(self.expect(["--plan", "--json", "c.yaml", *self.TWICE, "--set", "pipeline.devices=[[cpu, cpu]]",
                                           *changes], 0).out)
            return [worker["memory"]["optimizer state"] for worker in plan["workers"]]
        whole, shared = states(), states("--set", "pipeline.shard_optimizer=true")
        self.assertEqual(2 * sum(shared), sum(whole))
        for one, all_of_it in zip(shared, whole):
            self.assertLess(one, all_of_it)

    IDLE = ("stage %d is idle: replica 4 of 5 has no sample of a mini-batch of 16; take fewer replicas, fewer micro_batches, "
            "or mini-batches of another size\n")

    def test_shares_may_be_empty(self):
        """5 replicas share 8 samples as 2, 2, 2, 2 and none, and the last mini-batch of 2 has two micro-batches of 1."""
        one = self.train("--set", "pipeline={devices: [cpu], replicas: 5, micro_batches: 2}")
        two = self.train("--set", "pipeline={devices: [cpu, cpu], replicas: 5, micro_batches: 2, checkpoint: never}")
        self.assertEqual(read_model(two), read_model(one))
        self.assertEqual(results(two), results(one))
        self.assertEqual(len([line for line in read_lines(one) if line["event"] == "step"]), STEPS)

    def test_idle_replicas_are_named(self):
        plan = ["--plan", "c.yaml", "--set", "pipeline={devices: [cpu], replicas: 5, micro_batches: 2}"]
        self.assertIn("\nwarning      " + self.IDLE % 4, self.expect(plan, 0).out)
        plan[-1] = "pipeline={devices: [[cpu, cpu], [cpu, cpu, cpu, cpu, cpu]], balance: [5, 3], micro_batches: 2}"
        self.assertIn("\nwarning      " + self.IDLE % 6, self.expect(plan, 0).out)
        plan[-1] = "pipeline={devices: [cpu, cpu], replicas: 5, micro_batches: 2}"
        self.assertIn("\nwarning      " + (self.IDLE % 4).replace("4 is", "4 and 1 other are"), self.expect(plan, 0).out)
        plan[-1] = "pipeline={devices: [cpu], replicas: 4, micro_batches: 2}"
        self.assertNotIn(" idle", self.expect(plan, 0).out)
        out = self.expect(["-o", "idle", "c.yaml", "--set", "train.steps=1", "--set",
                           "pipeline={devices: [cpu], replicas: 5, micro_batches: 2}"], 0).out
        self.assertIn("\nwarning: " + self.IDLE % 4, out)

    def test_batch_norm_of_few_samples_is_warned_of(self):
        """Replicas see shares of micro-batches, or all of it with sync; a frozen batch norm takes no statistics."""
        sync, fewer = "model.rules: {batch_norm: {sync: true}} shows it 4\n", "take fewer micro_batches, or group_norm in its place\n"
        for changes, samples, way in (([], 4, fewer), (["pipeline={devices: [cpu], micro_batches: 1}"], 16, None),
                                      (["pipeline={devices: [cpu], micro_batches: 1}", "data.batch=8"], 8,
                                       "take a larger data.batch, or group_norm in its place\n"),
                                      (["pipeline.replicas=2"], 2, sync),
                                      (["pipeline.replicas=2", "model.rules={batch_norm: {sync: true}}"], 4, fewer),
                                      (["model.rules={batch_norm: {freeze: true}}"], None, None)):
            plan = ["--plan", "c.yaml", *(word for change in changes for word in ("--set", change))]
            out = self.expect(plan, 0).out
            self.assertEqual(json.loads(self.expect([*plan, "--json"], 0).out).get("batch_norm_samples"), samples)
            self.assertEqual(f"\nbatch norm   sees {samples} samples at a time\n" in out, samples is not None)
            self.assertEqual("\nwarning      batch norm sees " in out, way is not None)
            if way:
                self.assertIn("at a time;\n             below 16 its statistics are rough: " + way, out)
        out = self.expect(["-o", "run", "c.yaml", "--set", "train.steps=1"], 0).out
        self.assertEqual(out.count("warning: batch norm sees 4 samples of a mini-batch of 16 at a time; below 16 "), 1)

    def test_shares_of_one_value_are_refused(self):
        """16 samples in 4 micro-batches: of 4 samples, 3 replicas have 2, 2 and none; of 1 sample, 1 and none."""
        changes = ["--set", "model.layers=[flatten, linear: 4, batch_norm, linear: 3]", "--set", "pipeline.devices=[cpu]"]
        self.expect(["--plan", "c.yaml", "--set", "data.drop_last=true", "--set", "pipeline.replicas=3", *changes], 0)
        process = self.run_program("--plan", "c.yaml", "--set", "pipeline.replicas=4", *changes)
        self.assertEqual(process.returncode, 2)
        self.assertIn("batch_norm \"2\": a replica's share of 1 sample has one value per channel, whose variance is 0: take a "
                      "larger batch or fewer replicas or micro_batches, so that every share has 2 samples or more, or none "
                      "(data.drop_last leaves out a last mini-batch that is too small)\n", process.err)

    def test_batch_norm_over_the_replicas(self):
        """Replicas that synchronise find what one device finds, within rounding; the bits depend on the shares alone."""
        model = ["--set", "model.layers=[{conv: {out: 4, kernel: 3}}, batch_norm, relu, flatten, {linear: 6}, batch_norm, relu, "
                 "{linear: 3}]"]
        model += ["--set", "data.batch=18", "--set", "train={epochs: 2}"]
        sync = [*model, "--set", "model.rules={batch_norm: {sync: true}}"]

        def losses(folder):
            return [line["loss"] for line in read_lines(folder) if line["event"] == "step"]
        whole, apart = (losses(self.train_on(devices, *model)) for devices in ("[cpu]", "[[cpu, cpu]]"))
        one = self.train_on("[[cpu, cpu]]", *sync)
        self.assertLess(max(abs(a - b) for a, b in zip(losses(one), whole, strict=True)), 1e-5)
        self.assertGreater(max(abs(a - b) for a, b in zip(apart, whole, strict=True)), 1e-3)
        for devices, *changes in [("[[cpu, cpu], [cpu, cpu]]",), ("[cpu, cpu]", "--set", "pipeline.replicas=2"),
                                  ("[[cpu, cpu]]", "--set", "pipeline.checkpoint=always")]:
            with self.subTest(devices=devices, changes=changes):
                folder = self.train_on(devices, *sync, *changes)
                self.assertEqual(read_model(folder), read_model(one))
                self.assertEqual(results(folder), results(one))
        with open(os.path.join(one, "config.yaml")) as file:
            self.assertIn("\n  rules:\n    batch_norm:\n      sync: true\n", file.read())
        again = self.path("again")
        self.expect(["-q", "-o", again, os.path.join(one, "config.yaml")], 0)
        self.assertEqual(read_model(again), read_model(one))
        out = self.expect(["--plan", "c.yaml", *self.TWICE, *sync, "--set", "pipeline.devices=[[cpu, cpu]]"], 0).out
        # 9 samples: forward 3 and backward 2 numbers for 4 + 6 channels, of two micro-batches, from one other replica.
        self.assertRegex(out, r"  exchange    batch norm of replicas, in passes +0 … 1 +400 ")
        self.write("four.yaml", CONFIG.replace("    - flatten", "    - batch_norm: {sync: 4}\n    - flatten"))
        self.expect(["--plan", "four.yaml", *self.TWICE, "--set", "pipeline.devices=[[cpu, cpu]]"], 2,
                    "gpipe-train: four.yaml:10:7: batch_norm \"6\": sync: 4 does not divide the 2 replicas of stage 0\n")
        if not os.environ.get("GP_TEST_MPI") or not shutil.which("mpirun"):
            self.skipTest("there is no MPI, or no mpirun")
        apart = self.path("apart")
        subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", PROGRAM, "-q", "-o", apart, "c.yaml",
                        *self.TWICE, *sync, "--set", "pipeline.devices=[[cpu, cpu]]"], cwd=self.folder, check=True,
                       timeout=self.patience)
        self.assertEqual(read_model(apart), read_model(one))


class Signals(Group):
    """Ctrl-C and SIGTERM."""

    ENDLESS = ["--set", "train={steps: 4000000000, eval_every: 500}"]

    def await_steps(self, process, folder, steps):
        """Until so many steps are in the metrics."""
        end = time.monotonic() + PATIENCE
        path = os.path.join(folder, "metrics.jsonl")
        while time.monotonic() < end and process.poll() is None:
            if os.path.exists(path):
                with open(path) as file:
                    if file.read().count('"event":"step"') >= steps:
                        return
            time.sleep(0.005)
        self.fail("the run has no %d steps: %s" % (steps, process.poll()))

    def test_the_first_ends_after_the_step(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for lockstep in ("true", "false"):
                with self.subTest(signal=number, lockstep=lockstep):
                    folder = self.path("run-%d-%s" % (number, lockstep))
                    changes = ["--set", "pipeline.lockstep=" + lockstep, *self.ENDLESS]
                    process = self.start("-o", folder, "c.yaml", *changes)
                    self.await_steps(process, folder, 20)
                    process.send_signal(number)
                    out, err = process.communicate(timeout=PATIENCE)
                    self.assertEqual((process.returncode, err), (130, ""))
                    steps = sum(line["event"] == "step" for line in read_lines(folder))
                    self.expect_whole(folder, "interrupted", steps)
                    sentence = "interrupted after %d of 4000000000 steps; model and snapshot saved in %s: --resume goes on\n" % (
                        steps, folder)
                    self.assertTrue(out.endswith(sentence), out)
                    # What was saved is what so many steps give.
                    self.assertEqual(read_model(folder), read_model(self.train("--set", "train={steps: %d}" % steps)))

    def caught(self, process, number):
        with open("/proc/%d/status" % process.pid) as file:
            mask = int(re.search(r"^SigCgt:\s*(\w+)", file.read(), re.M).group(1), 16)
        return mask >> (number - 1) & 1

    def start_long_steps(self, folder):
        """A run that is in its second step."""
        samples = 48
        x = random.Random(2).randbytes(samples * 8 * 48 * 48)
        write_tensors(self.path("big.safetensors"), x=("U8", [samples, 8, 48, 48], x),
                      y=("I32", [samples], bytes(4 * samples)))
        self.write("big.yaml", """\
model:
  input: {shape: [8, 48, 48]}
  layers:
    - conv: {out: 96, kernel: 5, pad: 2}
    - conv: {out: 96, kernel: 5, pad: 2}
    - global_avg_pool
    - flatten
    - linear: {out: 3}
  loss: cross_entropy
data: {train: {tensors: big.safetensors}, batch: %d}
pipeline: {devices: [cpu, cpu], balance: [2, 3], micro_batches: 2, lockstep: true}
optimizer: {sgd: {lr: 0.001}}
train: {epochs: 1000}
""" % samples)
        process = self.start("-o", folder, "big.yaml")
        self.await_steps(process, folder, 1)
        return process

    def test_a_second_one_ends_at_once(self):
        """It comes a second after the first. The process is stopped meanwhile, so that its step does not end."""
        for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(first=first, second=second):
                folder = self.path("run-%d-%d" % (first, second))
                process = self.start_long_steps(folder)
                self.assertTrue(self.caught(process, first) and self.caught(process, second))
                process.send_signal(first)
                time.sleep(0.05)
                process.send_signal(signal.SIGSTOP)
                time.sleep(1)
                process.send_signal(second)
                process.send_signal(signal.SIGCONT)
                process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, -second)
                self.assertNotEqual(read_lines(folder)[-1]["event"], "end")
                self.assertFalse(os.path.exists(os.path.join(folder, "model.safetensors")))

    def test_several_within_milliseconds_are_one(self):
        """As Slurm sends them when the time of a job is over."""
        folder = self.path("run")
        process = self.start_long_steps(folder)
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            time.sleep(0.005)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, err), (130, ""))
        self.expect_whole(folder, "interrupted", sum(line["event"] == "step" for line in read_lines(folder)))

    def test_an_ignored_signal_stays_ignored(self):
        """As a script's background jobs and nohup want it."""
        folder = self.path("run")
        process = self.start("-o", folder, "c.yaml", *self.ENDLESS,
                             prepare=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        note = "the parent process ignores SIGINT (Ctrl-C): stop the run with SIGTERM (kill %d)\n" % process.pid
        self.await_steps(process, folder, 1)
        self.assertFalse(self.caught(process, signal.SIGINT))
        process.send_signal(signal.SIGINT)
        steps = len(read_lines(folder))
        self.await_steps(process, folder, steps + 20)
        process.send_signal(signal.SIGTERM)
        out = process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 130)
        self.assertIn(note, out)

    def start_on_terminal(self):
        """A run on a terminal of its own, and what it printed up to the first line of progress."""
        try:
            terminal, theirs = pty.openpty()
        except OSError as error:
            self.skipTest(f"no pseudo-terminal can be opened here: {error}")
        self.addCleanup(os.close, terminal)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        process = self.start("-o", "run", "c.yaml", "--set", "train={steps: 4000000000, eval_every: 4000000000}",
                             prepare=take_terminal, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = ""
        line = re.compile(r"\rstep \d+/4000000000  epoch \d+  loss [\d.e-]+  accuracy [01]\.\d{4}  \d+ samples/s  \d+h\d\dm left\x1b\[K")
        while not line.search(seen):
            seen += os.read(terminal, 4096).decode()
        return process, terminal, seen

    @staticmethod
    def read_terminal(terminal):
        """What comes until the program has ended."""
        seen = ""
        while True:
            try:
                got = os.read(terminal, 4096).decode()
            except OSError:  # EIO: no process has the terminal open
                return seen
            if not got:
                return seen
            seen += got

    def test_ctrl_c_on_a_terminal(self):
        """The line that is rewritten, and the key itself."""
        process, terminal, seen = self.start_on_terminal()
        os.write(terminal, b"\x03")
        seen += self.read_terminal(terminal)
        self.assertEqual(process.wait(timeout=PATIENCE), 130)
        self.assertRegex(seen, r"\x1b\[K(\^C)?\r\n(report: [^\r]*\r\n( [^\r]*\r\n)+)?interrupted after \d+ of 4000000000 steps; "
                         r"model and snapshot saved in run: --resume goes on\r\n\Z")

    def test_an_error_begins_a_line_of_the_terminal(self):
        """While the line of progress is shown."""
        process, terminal, seen = self.start_on_terminal()
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        shutil.rmtree(self.path("run"))
        process.send_signal(signal.SIGCONT)
        seen += self.read_terminal(terminal)
        self.assertEqual(process.wait(timeout=PATIENCE), 1)
        self.assertRegex(seen, r" left\x1b\[K\r\n(report: [^\r]*\r\n( [^\r]*\r\n)+)?stopped after \d+ of 4000000000 steps; "
                         r"[^\r]*\r\ngpipe-train: run: the run folder was removed while the run went on: nothing more can be saved\r\n\Z")


class Timelines(Group):
    """A timeline that stays empty is refused, or said to be."""

    def test_steps_that_the_run_does_not_have(self):
        self.expect(["-o", "run", "--trace", "t.json", "--trace-steps", "100:200", "c.yaml"], 2,
                    "gpipe-train: --trace-steps 100:200: the run has steps 1 to 8, so the timeline would be empty: choose some of "
                    "these\n", out="")
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.yaml", "d.safetensors"])
        self.expect(["-q", "-o", "run", "c.yaml", *sets(["train.save_every=4", "train.steps=4"])], 0)
        longer = sets(["train.steps=8"])
        self.expect(["-o", "run", "--resume", "--trace", "t.json", "--trace-steps", "3", "c.yaml", *longer], 2,
                    "gpipe-train: --trace-steps 3:3: the run has steps 5 to 8, so the timeline would be empty: choose some of "
                    "these\n")
        self.assertNotIn("t.json", os.listdir(self.folder))
        self.expect(["-q", "-o", "run", "--resume", "--trace", "t.json", "--trace-steps", "3:5", "c.yaml", *longer], 0)
        self.assertIn("t.json", os.listdir(self.folder))

    def test_a_run_that_ends_before(self):
        process = self.run_program("-o", "run", "--trace", "t.json", "--trace-steps", "5:6", "c.yaml",
                                   *sets(["optimizer={sgd: {lr: 0.02}, lr_schedule: {step: {every: 1, gamma: 1e20}}}"]))
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.err, r"\Agpipe-train: warning: t\.json: the timeline is empty: the run ended after step [0-4], "
                         r"and no step of --trace-steps 5:6 ran\n")


class Streams(Group):
    """Standard streams that are closed, full or gone do no harm to the run."""

    UNWRITTEN = "gpipe-train: standard output cannot be written\n"

    def test_a_reader_that_went_away(self):
        reading, writing = os.pipe()
        os.close(reading)
        for more in ([], ["-v"]):
            self.expect(["--force", "-o", "run", *more, "c.yaml"], 1, self.UNWRITTEN, stdout=writing)
            self.expect_whole(self.path("run"), "done", STEPS)
        os.close(writing)

    def test_a_full_device(self):
        with open("/dev/full", "w") as full:
            for arguments in (["--help"], ["--version"], ["-o", "run", "c.yaml"], ["--force", "-v", "-o", "run", "c.yaml"]):
                self.expect(arguments, 1, self.UNWRITTEN, stdout=full)
            self.expect(["--plan", "c.yaml"], 1, "gpipe-train: the report of the plan could not be written\n",
                        stdout=full)
        self.expect_whole(self.path("run"), "done", STEPS)

    def test_closed_streams_are_not_files_of_the_run(self):
        model = read_model(self.train())
        self.expect(["-o", "run1", "c.yaml"], 1, self.UNWRITTEN, prepare=lambda: os.close(1))
        self.expect(["-o", "run2", "-q", "c.yaml"], 0, prepare=lambda: os.close(1))
        process = self.run_program("-o", "run3", "c.yaml", prepare=lambda: os.closerange(0, 3))
        self.assertEqual(process.returncode, 1)
        for name in ("run1", "run2", "run3"):
            self.expect_whole(self.path(name), "done", STEPS)
            self.assertEqual(read_model(self.path(name)), model)
        # The samples would become descriptor 0, and the metrics 1, where the evaluation's line goes.
        self.expect(["-o", "run4", "c.yaml", "--set", "train.steps=0"], 1, self.UNWRITTEN,
                    prepare=lambda: os.closerange(0, 2))
        self.expect_whole(self.path("run4"), "done", 0)


class Failures(Group):
    """Runs that fail: exit status 1, a sentence, and what was reached is saved."""

    def test_a_loss_that_is_not_finite(self):
        process = self.expect(["-o", "run", "--set", "optimizer.sgd.lr=1e30", "c.yaml"], 1,
                    "gpipe-train: step 2: the loss is not a number: the update was not applied, and the run stops; a "
                    "lower learning rate or a warm-up may help; first not finite: micro-batch 1 of 4, batch_norm \"1\": "
                    "statistics: 8 of 24 elements, the first is inf\n")
        self.assertTrue(process.out.endswith("stopped after 1 of 8 steps; model and snapshot saved in run\n"), process.out)
        self.expect_whole(self.path("run"), "failed", 1)
        self.assertIsNone(read_lines(self.path("run"))[2]["loss"])
        with open(self.path("d.safetensors"), "rb") as file:
            data = file.read()
        with open(self.path("d.safetensors"), "wb") as file:  # the last sample has a value that is not a number
            length = 8 + int.from_bytes(data[:8], "little")
            begin, end = json.loads(data[8:length])["x"]["data_offsets"]
            file.write(data[: length + end - 4] + b"\0\0\xc0\x7f" + data[length + end :])
        process = self.run_program("-o", "evaluated", "--set", "train.steps=0", "c.yaml")
        self.assertEqual(process.returncode, 1)
        self.assertTrue(process.out.endswith("\nstopped before the evaluation ended; model saved in evaluated\n"), process.out)
        with open(self.path("d.safetensors"), "wb") as file:
            file.write(data)
        one = self.train("--set", "optimizer.sgd.lr=1e30", "--set", "train.steps=1",
                         err="gpipe-train: warning: the evaluation after step 1 is not finite: its loss is nan, and it is never "
                         "the best; first not finite: micro-batch 1 of 4, batch_norm \"1\": output: 512 of 512 elements, the "
                         "first is -inf\n")
        self.assertEqual(read_model(self.path("run")), read_model(one))
        self.assertNotIn("best.safetensors", os.listdir(one))

    def test_a_loss_that_is_infinite(self):
        """One weight, and so no sum of infinities of both signs."""
        self.write("c.yaml", "model: {input: {shape: [1]}, layers: [linear: {out: 1, bias: false}], loss: mse}\n"
                   "data: {train: {synthetic: {samples: 8}}, batch: 8}\n"
                   "optimizer: {sgd: 1e25}\ntrain: {steps: 3}\n")
        self.expect(["-q", "-o", "run", "c.yaml"], 1, "gpipe-train: warning: after step 2: linear \"0\": weight is not "
                    "finite: 1 of 1 element, the first is inf; such values are not saved, and the run stops; a lower "
                    "learning rate or a warm-up may help\n"
                    "gpipe-train: step 3: the loss is infinite: the update was not "
                    "applied, and the run stops; a lower learning rate or a warm-up may help; first not finite: "
                    "linear \"0\": weight, before the step: 1 of 1 element, the first is inf\n")
        self.assertNotIn("model.safetensors", os.listdir(self.path("run")))

    def test_parameters_that_overflow_in_the_last_step(self):
        """With one stage and two. The snapshot and the best model are still those of step 1; there is no model."""
        self.write("c.yaml", "model: {input: {shape: [1]}, layers: [linear: {name: a, out: 1, bias: false, init: {weight: 1}}, "
                   "identity], loss: mse}\n"
                   "data: {train: {synthetic: {samples: 64}}, eval: {synthetic: {samples: 8, seed: 2}}, batch: 64}\n"
                   "optimizer: {sgd: 10, lr_schedule: {multistep: {milestones: [1], gamma: 3e37}}}\n"
                   "train: {steps: 2, eval_every: 1, save_every: 1}\n")
        first = "1 of 1 element, the first is inf"
        for devices in ("[cpu]", "[cpu, cpu]"):
            process = self.expect(
                ["-o", "run", "--force", "--set", "pipeline.devices=" + devices, "c.yaml"], 1,
                "gpipe-train: warning: the evaluation after step 2 is not finite: its loss is inf, and it is never the best; "
                "first not finite: linear \"a\": weight, before the evaluation: %s\n"
                "gpipe-train: after step 2: linear \"a\": weight is not finite: %s; such values are not saved, and the run "
                "stops; a lower learning rate or a warm-up may help\n" % (first, first))
            self.assertTrue(process.out.endswith("stopped after 2 of 2 steps; no model saved\n"), process.out)
            self.assertRegex(process.out, r"step 2/2  epoch 2  eval loss inf\n")
            self.assertEqual(sorted(os.listdir(self.path("run"))),
                             ["best.safetensors", "config.yaml", "metrics.jsonl", "plan.json", "snapshots"])
            self.assertEqual(os.listdir(self.path("run/snapshots")), ["step-00000001.safetensors"])
            self.assertEqual(read_lines(self.path("run"))[-1]["status"], "failed")

    def test_missing_and_truncated_data(self):
        with open(self.path("d.safetensors"), "rb") as file:
            whole = file.read()
        for size, sentence in {
            None: "d.safetensors: cannot be opened: No such file or directory",
            0: "d.safetensors: offset 0: the file has 0 bytes, too few for a safetensors header",
            4: "d.safetensors: offset 0: the file has 4 bytes, too few for a safetensors header",
            40: "d.safetensors: offset 0: header length 142 exceeds the 32 bytes that follow",
            len(whole) - 1: "d.safetensors: offset 8: tensor \"y\": data_offsets [8192, 8704] exceed the 8703 bytes of "
            "data in the file: the file is cut short",
        }.items():
            with self.subTest(size=size):
                os.remove(self.path("d.safetensors"))
                if size is not None:
                    with open(self.path("d.safetensors"), "wb") as file:
                        file.write(whole[:size])
                for plan in ([], ["--plan"]):
                    self.expect(["c.yaml", *plan], 1, "gpipe-train: c.yaml:14:11: " + sentence + "\n", out="")
                self.assertFalse(os.path.exists(self.path("runs")))
                if size is None:
                    self.write("d.safetensors", "")

    def test_a_full_disk(self):
        """Every size that files may have, from none at all to enough: a sentence, whole lines, no part of a model."""
        skip_under_tsan(self, PROGRAM, OWN_FILES)
        refused, arguments = set(), ["--set", "pipeline={devices: [cpu]}", "--set", "train.epochs=20"]
        whole = self.train(*arguments)
        sizes = {name: os.path.getsize(os.path.join(whole, name)) for name in os.listdir(whole)
                 if os.path.isfile(os.path.join(whole, name))}
        config, plan = sizes["config.yaml"], sizes["plan.json"]  # the shortest files of all
        self.assertEqual(sorted(sizes.values())[:2], [config, plan])
        for limit in (0, 100, config - 1, config, plan - 1, plan, (plan + sizes["model.safetensors"]) // 2, 1 << 20):
            with self.subTest(limit=limit):
                folder = self.path("run%d" % limit)
                process = self.run_program("-q", "-o", folder, "c.yaml", *arguments, prepare=lambda: limit_files(PROGRAM, limit))
                self.assertEqual(process.out, "")
                if limit == 1 << 20:
                    self.assertEqual((process.returncode, process.err), (0, ""))
                    self.expect_whole(folder, "done", 80)
                    continue
                *warnings, failure = process.err.splitlines()
                for warning in warnings:
                    match = re.fullmatch(r"gpipe-train: warning: .*/([\w-]+\.\w+)\S*: cannot be written: File too large; .*goes on", warning)
                    self.assertTrue(match, warning)
                    refused.add(re.sub(r"\d", "", match.group(1)))
                match = re.fullmatch(r"gpipe-train: \S*/(\w+\.\w+)\S*: cannot be written: File too large; raise the limit on the size of files "
                                     r"\(ulimit -f\)", failure)
                self.assertTrue(match, process.err)
                self.assertEqual(process.returncode, 1)
                refused.add(match.group(1))
                self.assertFalse(set(os.listdir(folder)) - {"config.yaml", "metrics.jsonl", "plan.json", "snapshots"})
                within = os.path.join(folder, "snapshots")
                self.assertFalse(os.path.exists(within) and os.listdir(within))
                if os.path.exists(os.path.join(folder, "metrics.jsonl")):
                    read_lines(folder)
        self.assertEqual(refused, {"config.yaml", "plan.json", "metrics.jsonl", "model.safetensors", "best.safetensors",
                                   "step-.safetensors"})

    def write_digits(self, megabytes):
        """Gzipped IDX files whose pictures are so large; the same member of 1 MiB of zeros again and again."""
        width, samples = 1024, 1024 * megabytes
        header = struct.pack(">4B3I", 0, 0, 8, 3, samples, 1, width)
        with open(self.path("x.gz"), "wb") as file:
            file.write(gzip.compress(header, 1) + gzip.compress(bytes(1 << 20), 1) * megabytes)
        with open(self.path("y.gz"), "wb") as file:
            file.write(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, samples) + bytes(samples), 1))
        self.write("gzipped.yaml", "model: {input: {shape: [1, 1, 1024]}, layers: [flatten, linear: {out: 3}], loss: cross_entropy}\n"
                   "data: {train: {idx: {images: x.gz, labels: y.gz}}, batch: 16}\n"
                   "optimizer: {sgd: 0.01}\ntrain: {steps: 1}\n")

    def test_a_limit_on_files_is_no_signal(self):
        """Data that inflate into a temporary file, and a timeline: each write that is refused is an error with its file."""
        skip_under_tsan(self, PROGRAM, OWN_FILES)
        self.write_digits(80)
        limited = {"prepare": lambda: limit_files(PROGRAM, 1 << 20), "env": {**os.environ, "TMPDIR": self.folder}}
        remedy = "File too large; raise the limit on the size of files (ulimit -f)\n"
        self.expect(["-q", "-o", "run", "gzipped.yaml"], 1, "gpipe-train: gzipped.yaml:2:16: x.gz: cannot be decompressed into a "
                    "temporary file in %s: %s" % (self.folder, remedy), **limited)
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.yaml", "d.safetensors", "gzipped.yaml", "x.gz", "y.gz"])
        plan = os.path.getsize(os.path.join(self.train(), "plan.json"))  # the largest file of the run folder
        limited["prepare"] = lambda: limit_files(PROGRAM, plan)
        self.expect(["-q", "-o", "run", "--trace", "t.json", "c.yaml"], 1, "gpipe-train: t.json: cannot be written: " + remedy,
                    **limited)
        self.expect_whole(self.path("run"), "failed", STEPS)

    def test_a_full_disk_in_mid_training(self):
        """Lines of metrics wait for room, more than 64 KiB of them here; the model is smaller, and is that of the whole run."""
        skip_under_tsan(self, PROGRAM, OWN_FILES)
        folder, steps = self.path("run"), "train={steps: 1000}"
        process = self.run_program("-q", "-o", folder, "c.yaml", "--set", steps, prepare=lambda: limit_files(PROGRAM, 40000))
        sentence = ("gpipe-train: %s%s/metrics.jsonl: cannot be written: File too large; raise the limit on the size of files "
                    "(ulimit -f)%s\n")
        sentence = sentence % ("warning: ", folder, "; its lines wait, and the run goes on") + sentence % ("", folder, "")
        self.assertEqual((process.returncode, process.err), (1, sentence))
        lines = read_lines(folder)
        self.assertGreater(sum(line["event"] == "step" for line in lines), 100)
        self.assertGreater(1000 * os.path.getsize(os.path.join(folder, "metrics.jsonl")) / len(lines), 65536 + 40000)
        self.assertEqual(read_model(folder), read_model(self.train("-q", "--set", steps)))


class Plan(Group):
    """--plan trains nothing and leaves nothing."""

    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = self.path("no times of other tests")

    def test_frozen_parameters_are_counted(self):
        """2·3·3·8 + 8 of the first convolution; in the plan and at the start of a run."""
        frozen = ["--set", "model.layers.0.conv.freeze=true"]
        for options, words in ((["--plan"], "1,139 parameters in F32\n"),
                               (["--plan", *frozen], "1,139 parameters, 152 of them frozen, in F32\n"),
                               (frozen, "8 layers, 1139 parameters, 152 of them frozen; 2 stages [")):
            process = subprocess.run([PROGRAM, *options, "-o", self.path("frozen"), "c.yaml"], cwd=self.folder,
                                     capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            self.assertIn(words, process.stdout)

    def test_more_micro_batches_than_samples(self):
        words = "pipeline.micro_batches: 32 is more than the 16 samples of a mini-batch, which has 16 micro-batches of 1 sample\n"
        for options, before in ((["--plan"], "\nwarning      "), (["-v"], "\nwarning      "), ([], "\nwarning: ")):
            for number in (32, 16):
                process = subprocess.run([PROGRAM, *options, "--force", "-o", self.path("many"), "--set",
                                          f"pipeline.micro_batches={number}", "--set", "model.layers.1=relu", "c.yaml"],
                                         cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((process.returncode, process.stderr), (0, ""))
                self.assertEqual(process.stdout.count(before + words), number == 32, process.stdout)

    def test_a_warmup_that_does_not_end(self):
        """The run has 3 steps; with a warm-up of 3 the last one has the whole rate."""
        words = "optimizer.warmup: 12 steps are more than the 3 steps of the run, so the learning rate ends at 0.005, not at 0.02\n"
        for options, before in ((["--plan"], "\nwarning      "), (["-v"], "\nwarning      "), ([], "\nwarning: ")):
            for warmup in (12, 3):
                process = subprocess.run([PROGRAM, *options, "--force", "-o", self.path("warm"), "--set", "optimizer.sgd.lr=0.02",
                                          "--set", f"optimizer.warmup={warmup}", "--set", "train.steps=3", "c.yaml"],
                                         cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((process.returncode, process.stderr), (0, ""))
                self.assertEqual(process.stdout.count(before + words), warmup == 12, process.stdout)
                self.assertEqual(process.stdout.count("optimizer.warmup"), warmup == 12, process.stdout)

    def test_falls_of_the_rate_beyond_the_run(self):
        """The run has 5 steps, so the rate of step 6 is none of its own."""
        every = "optimizer.lr_schedule.step.every: the learning rate would first fall after step %d, and the run has 5 steps\n"
        some = "optimizer.lr_schedule.multistep: %s at or after the end of the run, step 5\n"
        for schedule, words in (("{step: {every: 5, gamma: 0.1}}", every % 5), ("{step: {every: 4, gamma: 0.1}}", None),
                                ("{multistep: {milestones: [2, 5, 9], gamma: 0.1}}", some % "2 of 3 milestones lie"),
                                ("{multistep: {milestones: [2, 7], gamma: 0.1}}", some % "1 of 2 milestones lies"),
                                ("{multistep: {milestones: [2, 4], gamma: 0.1}}", None)):
            for options, before in ((["--plan"], "\nwarning      "), ([], "\nwarning: ")):
                process = subprocess.run([PROGRAM, *options, "--force", "-o", self.path("falls"), "--set", "optimizer.lr_schedule=" + schedule,
                                          "--set", "train.steps=5", "c.yaml"], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((process.returncode, process.stderr), (0, ""))
                self.assertEqual(process.stdout.count("optimizer.lr_schedule"), words is not None, process.stdout)
                self.assertIn(before + words if words else "", process.stdout)

    def test_it_leaves_no_folder(self):
        process = self.expect(["--plan", "c.yaml"], 0)
        for word in ("stages\n", "copies", "memory", "schedule", "predicted"):
            self.assertIn(word, process.out)
        self.expect(["--plan", "-o", "run", "c.yaml"], 0, out=process.out)
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.yaml", "d.safetensors"])

    def test_readmes_examples(self):
        """What README says of the digits' plan, on every processor; "…" stands for what it leaves out."""
        with open(os.path.join(HERE, "../../README.md"), encoding="utf-8") as file:
            blocks = [block for block in file.read().split("```")[1::2] if "stages\n" in block or "does not fit" in block]
        self.write_digits(1437, 360)
        plan, refusal = blocks
        command, message = refusal.strip().splitlines()
        arguments = shlex.split(command)[2:]
        self.assertEqual(command.split()[:2], ["$", "build/gpipe-train"])
        for options, wanted, got in (["--plan", "--processors", "64", "configs/digits.yaml"], plan, "out"), (arguments, message, "err"):
            text = getattr(self.run_program(*options), got)
            pattern = ".*".join(re.escape(part) for part in wanted.strip("\n").split("…"))
            self.assertTrue(re.search(pattern, text, re.DOTALL), (wanted, text))

    def test_readmes_report(self):
        """README's comparison of two runs, with one epoch of other data: the same commands, columns and differences."""
        with open(os.path.join(HERE, "../../README.md"), encoding="utf-8") as file:
            [block] = [block for block in file.read().split("```")[1::2] if "scripts/report.py" in block]
        shown = block.strip().splitlines()
        commands = [shlex.split(line[2:]) for line in shown if line.startswith("$ ")]
        self.write_digits(256, 16)
        for train in ["-q", "-o", "runs/digits", "configs/digits.yaml"], commands[0][1:]:
            self.expect([*train, *sets(["train.epochs=1"])], 0)
        self.assertEqual((commands[0][0], commands[1][0]), ("build/gpipe-train", "scripts/report.py"))
        done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "../../scripts/report.py"), *commands[1][1:]], cwd=self.folder,
                              capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        printed, wanted = done.stdout.splitlines(), shown[len(commands):]
        self.assertEqual(len(printed), len(wanted))
        for got, line in zip(printed, wanted):
            if line.startswith("optimizer."):
                self.assertEqual(got, line)
            number = r"[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?"
            pattern = re.sub(r"(?<![\w.])%s" % number, "#", " ".join(line.split()))
            self.assertEqual(re.sub(r"(?<![\w.])%s" % number, "#", " ".join(got.split())), pattern)
        self.assertTrue(os.path.getsize(self.path("report.html")) > 50000)

    def write_digits(self, train, evaluation):
        """configs/digits.yaml, with generated samples in place of its data."""
        os.mkdir(self.path("configs"))
        shutil.copy(os.path.join(HERE, "../../configs/digits.yaml"), self.path("configs"))
        os.makedirs(self.path("data/digits"))
        for name, count in (("train", train), ("eval", evaluation)):
            write_tensors(self.path(f"data/digits/{name}.safetensors"), x=("F32", [count, 1, 8, 8], bytes(count * 256)),
                          y=("I64", [count], bytes(count * 8)))

    def test_mean_and_std_of_other_values(self):
        """Bytes are scaled to 0 … 1 before them; what was measured in 0 … 255 makes all pictures alike."""
        write_tensors(self.path("bytes.safetensors"), x=("U8", [64, 2, 4, 4], bytes(range(256)) * 8), y=("I64", [64], bytes(512)))
        bytes_ = "data.train={tensors: bytes.safetensors, transform: [%s]}"
        scaled, of_bytes = "normalize: {mean: [0.49, 0.45], std: 0.25}", "normalize: {mean: [123.7, 116.3], std: [58.4, 1]}"
        warning = "warning%s data.train.transform: normalize has mean 123.7 and std 58.4, as if values were 0 … 255; bytes are scaled " \
                  "to 0 … 1 before: divide mean and std by 255\n"
        for change, warns in ((bytes_ % scaled, False), (bytes_ % of_bytes, True), (bytes_ % (scaled + ", " + of_bytes), False),
                              ("data.train.transform=[%s]" % of_bytes, False)):
            plan = self.expect(["--plan", "c.yaml", *sets([change])], 0).out
            run = self.expect(["-o", "run", "--force", "c.yaml", *sets([change, "train.epochs=1"])], 0).out
            self.assertEqual((warning % "     " in plan, warning % ":" in run), (warns, warns), change)
            self.assertEqual((plan + run).count("0 … 255"), 2 * warns)

    def test_configurations_of_the_pages(self):
        """README's own network trains from weights and on data like those of its script; that of the page for torchgpipe is planned."""
        for page, samples, classes in (("README.md", 128, 4), ("docs/coming-from-torchgpipe.md", 128, 10)):
            with open(os.path.join(HERE, "../..", page), encoding="utf-8") as file:
                [configuration] = [block[5:] for block in file.read().split("```")[1::2] if block.startswith("yaml\nmodel:")]
            self.write("net.yaml", configuration)
            for name in ("train", "eval"):
                write_tensors(self.path(name + ".safetensors"), x=("F32", [samples, 1, 8, 8], b"\0\0\x80?" * samples * 64),
                              y=("I64", [samples], b"".join(struct.pack("<q", i % classes) for i in range(samples))))
            cpus = sets(["pipeline.devices=[cpu, cpu]"])
            if "init:" in configuration:
                self.expect(["-q", "-o", "first", "net.yaml", *sets(["train={steps: 0}"])], 0)
                shutil.copy(self.path("first/model.safetensors"), self.path("init.safetensors"))
                self.expect(["-q", "-o", "run", "net.yaml"], 0)
                self.expect(["-q", "-o", "run", "--predict", "y.safetensors", "net.yaml"], 0)
            else:
                self.expect(["--plan", "net.yaml", *cpus], 0)

    def test_more_threads_than_processors(self):
        """A plan and a run say it once; a step takes longer than with a processor for each thread."""
        steps = {}
        for processors in (1, 2, 64):
            out = self.expect(["--plan", "--processors", str(processors), "c.yaml"], 0).out
            warning = ("warning      2 threads compute on 1 processor, so they take turns; the prediction includes this\n"
                       "             list fewer devices in pipeline.devices, or give them fewer threads: at most 1 in all\n")
            self.assertEqual(out.count(warning), processors == 1)
            self.assertEqual(out.count("threads compute on"), processors == 1)
            value, unit = re.search(r"\n\w+ +a step of [^:]*: ([\d.]+) (\S+)", out).groups()
            steps[processors] = float(value) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
        self.assertEqual(steps[2], steps[64])
        self.assertGreater(steps[1], 1.2 * steps[2])
        out = self.expect(["--plan", "--processors", "3", "c.yaml", *sets(["pipeline.devices=[{cpu: {threads: 3}}, cpu]"])], 0).out
        self.assertEqual(out.count("warning      4 threads compute on 3 processors, so they take turns;"), 1)
        if "GP_MACHINE_PROCESSORS" in os.environ:
            return
        def on_one_processor():
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for options, count in (["-q"], 0), ([], 1), (["-v"], 1):
            out = self.expect(["--force", "-o", "run", *options, "c.yaml"], 0, prepare=on_one_processor).out
            self.assertEqual(out.count("2 threads compute on 1 processor, so they take turns; "), count)
        too_few = ("gpipe-train: warning: pipeline.pin: this process may not use a processor for each of its 2 threads (affinity mask, "
                   "or CPU quota of its control group), so they are not pinned\n")
        for pin, err in ("true", too_few), ("false", ""):
            self.expect(["--force", "-o", "run", *sets([f"pipeline.pin={pin}"]), "c.yaml"], 0, err, prepare=on_one_processor)

    def test_it_is_the_plan_of_the_run(self):
        """-v prints the plan before it trains; its norms are in the plan where there is clip_norm, and else its own."""
        self.expect(["-q", "-o", "run", "c.yaml"], 0)  # leaves rates
        for cut in ([], sets(["pipeline.devices=[cpu]"]), sets(["train={steps: 0}"])):
            self.assertNotIn("\nnorm s", self.expect(["--plan", "-v", "c.yaml", *cut], 0).out)
            cut = [*cut, *sets(["optimizer.clip_norm=1"])]
            report, *programs = self.expect(["--plan", "-v", "c.yaml", *cut], 0).out.split("\n# ")
            run = self.expect(["-v", "--force", "-o", "run", "c.yaml", *cut], 0)
            self.assertEqual(run.out[: len(report)], report)
            self.assertEqual("norm" in programs[0], "steps: 0" not in "".join(cut))

    def test_it_says_what_tf32_would_change(self):
        """On GPUs only, and only where the configuration does not choose."""
        advice = "precision    f32: TF32 would make convolutions and products on GPUs about 2x faster,\n"
        for devices, precision, said in (("[cuda:0, cpu]", [], 1), ("[cpu, cpu]", [], 0),
                                         ("[cuda:0, cpu]", ["--set", "train.precision=f32"], 0)):
            process = self.run_program("--plan", "--set", "pipeline.devices=" + devices, *precision, "c.yaml")
            if "built without CUDA" in process.err:
                self.skipTest("this program was built without CUDA")
            self.assertEqual((process.returncode, process.err), (0, ""))
            self.assertEqual(process.out.count(advice), said)

    def test_programs_of_a_file_say_themselves_what_they_keep(self):
        """And where barriers are: of the configuration's there is only what counts for other mini-batches."""
        made = self.expect(["--plan", "-v", "c.yaml", *sets(["pipeline.checkpoint=always", "pipeline.lockstep=true"])], 0).out.split("\n# ")[1]
        lines = made[made.index("programs"):].splitlines(keepends=True)
        self.write("p.txt", "".join(lines))
        self.write("q.txt", "".join(line for line in lines if not line.startswith("barrier")))
        for name, lockstep in (("p.txt", "on"), ("q.txt", "off")):
            of_file = sets(["pipeline.schedule={file: %s}" % name, "data.train.take=[0, 48]"])
            self.assertIn("schedule file, lockstep %s, checkpoint as the file says\n" % lockstep,
                          self.expect(["--plan", "c.yaml", *of_file], 0).out)
            out = self.expect(["--force", "-o", "run", "c.yaml", *of_file], 0).out
            self.assertIn(", checkpoint as the file says; at most ", out)
            with open(self.path("run/metrics.jsonl")) as file:
                start = json.loads(file.readline())
            self.assertEqual((start["checkpoint"], start["lockstep"]), ("file", lockstep == "on"))
        self.assertIn("lockstep on, checkpoint as the file says, for other mini-batches never\n",
                      self.expect(["--plan", "c.yaml", *sets(["pipeline.schedule={file: p.txt}", "pipeline.checkpoint=never"])], 0).out)
        self.assertIn("lockstep off, checkpoint never\n",
                      self.expect(["--plan", "c.yaml", *sets(["pipeline.schedule={file: p.txt}", "pipeline.checkpoint=never",
                                                              "pipeline.micro_batches=2"])], 0).out)

    def test_a_thousand_stages_of_five_thousand_layers(self):
        layers = []
        for i in range(1250):
            layers += ["linear: {out: 8, name: l%d}" % i, "batch_norm", "relu", "add: [-1, l%d]" % i]
        layers[-1] = "linear: {out: 3}"
        samples = 600
        write_tensors(self.path("deep.safetensors"), x=("F32", [samples, 8], bytes(samples * 32)),
                      y=("I32", [samples], bytes(samples * 4)))
        self.write("deep.yaml", "model:\n  input: {shape: [8]}\n  layers:\n"
                   + "".join("    - %s\n" % layer for layer in layers) +
                   "  loss: cross_entropy\n"
                   "data: {train: {tensors: deep.safetensors}, batch: 256}\n"
                   "pipeline: {devices: [{cpu: {count: 1024}}], micro_batches: 64}\n"
                   "optimizer: {sgd: {lr: 0.02, momentum: 0.9}}\n"
                   "train: {epochs: 2}\n")
        began = time.monotonic()
        process = self.expect(["--plan", "deep.yaml"], 0)
        print("planned in %.1f s" % (time.monotonic() - began))
        self.assertIn("1024 stages", process.out.replace(",", ""))
        self.assertLess(len(process.out.splitlines()), 200)


class Norms(Group):
    """-v: norms of each layer's gradient and parameters, after the first step and whenever an evaluation is due."""

    TITLE = re.compile(r"norms after step (\d+) +gradient  parameters\Z")
    LINE = re.compile(r"  (\S+(?: \S+)?) +(\S+) +(\S+)\Z")

    def norms(self, *changes, config="c.yaml"):
        """{step: {layer: [gradient, parameters]}} of a run in self.run_folder, as printed."""
        self.run_folder = tempfile.mkdtemp(prefix="run", dir=self.folder)
        process = self.expect(["-v", "-o", self.run_folder, config, *sets(changes)], 0)
        found, at = {}, None
        for line in process.out.splitlines():
            title, entry = self.TITLE.match(line), self.LINE.match(line)
            if title:
                at = found[int(title[1])] = {}
            elif at is not None and entry:
                at[entry[1]] = [entry[2], entry[3]]
            else:
                at = None
        return found

    def values(self, folder):
        """{layer: its parameters}, running statistics left out."""
        layers = {}
        for name, (_, _, content) in read_tensors(os.path.join(folder, "model.safetensors")).items():
            layer, suffix = name.rsplit(".", 1)
            if suffix in ("weight", "bias"):
                layers.setdefault(layer, {})[suffix] = array.array("f", content)
        return {layer: [v for suffix in sorted(its) for v in its[suffix]] for layer, its in layers.items()}

    def test_they_are_those_of_gradients_and_parameters(self):
        plain = ["optimizer={sgd: {lr: 0.5}}", "data.eval.take=[0, 14]"]
        before = self.values(self.train("-q", *sets(["train.steps=0"])))
        norms = self.norms(*plain, "train.steps=1")
        after = self.values(self.run_folder)
        self.assertEqual(list(norms), [1])
        layers = {"conv 0": "0", "batch_norm 1": "1", "conv 3": "3", "linear 7": "7"}
        self.assertEqual(list(norms[1]), [*layers, "all"])
        layers["all"] = None
        for line, layer in layers.items():
            of = [layer] if layer else list(before)
            grad = math.sqrt(sum(((a - b) / 0.5) ** 2 for k in of for a, b in zip(after[k], before[k], strict=True)))
            size = math.sqrt(sum(a * a for k in of for a in after[k]))
            self.assertLess(abs(float(norms[1][line][0]) / grad - 1), 1e-3, line)
            self.assertLess(abs(float(norms[1][line][1]) / size - 1), 1e-3, line)

    def test_they_come_with_evaluations_and_change_nothing(self):
        norms = self.norms()
        self.assertEqual(list(norms), [1, 4, 8])
        folder = self.run_folder
        quiet = self.train("-q")
        self.assertEqual(read_model(quiet), read_model(folder))
        verbose = results(folder)
        printed = [line.pop("grad_norm") for line in verbose if line["event"] == "step"]
        self.assertEqual(results(quiet), verbose)
        for step, its in norms.items():
            self.assertEqual("%.4g" % printed[step - 1], its["all"][0])
        self.assertEqual(list(self.norms("train.steps=5", "train.eval_every=3")), [1, 3, 5])
        for cut in (["pipeline.devices=[cpu]"], ["pipeline.devices=[cpu, cpu, cpu, cpu]", "pipeline.checkpoint=never"]):
            self.assertEqual(self.norms(*cut), norms, cut)

    def test_clipping_comes_after_them(self):
        norms, clipped = self.norms(), self.norms("optimizer.clip_norm=0.001")
        for line, (gradient, _) in clipped[1].items():
            self.assertEqual(gradient, norms[1][line][0], line)
        (first, *_) = [line for line in read_lines(self.run_folder) if line["event"] == "step"]
        self.assertEqual("%.4g" % first["grad_norm"], clipped[1]["all"][0])

    def test_what_is_frozen_has_no_gradient(self):
        self.write("frozen.yaml", CONFIG.replace("- batch_norm", "- batch_norm: {freeze: true}")
                   .replace("kernel: 3, pad: 1}", "kernel: 3, pad: 1, freeze: true}", 1))
        norms = self.norms(config="frozen.yaml")[1]
        self.assertEqual([line for line, (gradient, _) in norms.items() if gradient == "-"], ["conv 0", "batch_norm 1"])
        together = math.sqrt(sum(float(norms[line][0]) ** 2 for line in ("conv 3", "linear 7")))
        self.assertLess(abs(float(norms["all"][0]) / together - 1), 1e-3)


class Predictions(Group):
    """--predict: what a trained model makes of data.eval."""

    def predict(self, *arguments, **options):
        """The rows of the tensor y."""
        process = self.expect(["--predict", "y.safetensors", *arguments], 0, **options)
        ((name, (dtype, shape, content)),) = read_tensors(self.path("y.safetensors")).items()
        self.assertEqual((name, dtype), ("y", "F32"))
        values = array.array("f", content)
        self.assertEqual(len(shape), 2)
        self.assertEqual(len(values), shape[0] * shape[1])
        self.process = process
        return [list(values[i * shape[1] : (i + 1) * shape[1]]) for i in range(shape[0])]

    def contents(self):
        """{path: bytes} of all files below the folder."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for path in (os.path.join(folder, name) for name in names):
                with open(path, "rb") as file:
                    found[path] = file.read()
        return found

    def test_predictions_are_what_the_evaluation_saw(self):
        folder = self.train()
        before = {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in os.listdir(folder)}
        rows = self.predict("-o", folder, "c.yaml")
        (last,) = [line for line in read_lines(folder) if line["event"] == "eval" and line["step"] == STEPS]
        loss = ("%.4f" if last["loss"] >= 0.1 else "%.4g") % last["loss"]
        self.assertRegex(self.process.out, r"\Apredicted 14 samples in [\d.]+ s, loss %s, accuracy %.4f; written to "
                         r"y\.safetensors\n\Z" % (re.escape(loss), last["accuracy"]))
        self.assertEqual(len(rows), 14)
        right = sum(max(range(3), key=row.__getitem__) == (50 + n) % 3 for n, row in enumerate(rows))
        self.assertAlmostEqual(right / 14, last["accuracy"], places=6)
        loss = sum(math.log(sum(map(math.exp, row))) - row[(50 + n) % 3] for n, row in enumerate(rows)) / 14
        self.assertAlmostEqual(loss, last["loss"], places=5)
        self.assertEqual(before, {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in os.listdir(folder)})

    def test_no_cut_changes_a_bit(self):
        model = os.path.join(self.train(), "model.safetensors")
        rows = self.predict("--weights", model, "c.yaml")
        for changes in (["pipeline.devices=[cpu]"], ["pipeline.devices=[cpu, cpu, cpu, cpu]"], ["data.threads=3"],
                        ["pipeline.checkpoint=always", "train.seed=8", "train.init=none.safetensors", "data.shuffle=true"]):
            self.assertEqual(self.predict("-q", "--weights", model, "c.yaml", *sets(changes), out=""), rows, changes)

    def test_data_without_targets(self):
        folder = self.train()
        rows = self.predict("-o", folder, "c.yaml")
        write_tensors(self.path("x.safetensors"), x=read_tensors(self.path("d.safetensors"))["x"])
        self.write("eval.yaml", CONFIG.replace("  train: {tensors: d.safetensors, take: [0, 50]}\n", "")
                   .replace("{tensors: d.", "{tensors: x."))
        self.assertEqual(self.predict("-o", folder, "eval.yaml"), rows)
        self.assertRegex(self.process.out, r"\Apredicted 14 samples in [\d.]+ s; written to y\.safetensors\n\Z")
        self.expect(["-o", "run", "--set", "train.steps=0", "eval.yaml"], 1, "gpipe-train: eval.yaml:14:10: x.safetensors: "
                    "has no tensor \"y\"; a data set has x (inputs) and y (targets)\n")

    def test_the_folder_and_its_snapshots_have_weights(self):
        self.expect(["-q", "c.yaml", "--set", "train.save_every=8"], 0)
        rows = self.predict("c.yaml")
        self.assertEqual(self.predict("--weights", "runs/c/snapshots/step-00000008.safetensors", "c.yaml"), rows)
        self.assertNotEqual(self.predict("--weights", "runs/c/best.safetensors", "c.yaml", "--set", "data.eval.take=[0, 14]"), rows)

    def test_weights_with_a_wrong_bit(self):
        """Of a snapshot, and of a model, wherever it is. Other programs' files have no checksum, and are taken."""
        self.expect(["-q", "c.yaml", "--set", "train.save_every=4"], 0)
        rng = random.Random(7)
        for name in ("snapshots/step-00000008.safetensors", "model.safetensors", "best.safetensors"):
            with open(self.path("runs/c/" + name), "rb") as file:
                whole = file.read()
            header = 8 + int.from_bytes(whole[:8], "little")
            for at in (rng.randrange(8, header), rng.randrange(8, header), rng.randrange(header, len(whole)), len(whole) - 1):
                with open(self.path("w"), "wb") as file:
                    file.write(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:])
                for arguments in (["--predict", "y.safetensors", "--weights", "w"], ["-o", "started", "--set", "train.init=w"]):
                    process = self.run_program("-q", *arguments, "c.yaml")
                    self.assertEqual((process.returncode, process.out), (1, ""), (name, at))
                    self.assertRegex(process.err, r"\Agpipe-train: (--set train.init=w: )?(/\S+/)?w: .*\n\Z")
                    if at >= header:
                        self.assertRegex(process.err, "the checksum is wrong: it says .*; the weights are damaged, or are of several "
                                         "files: take another copy")
                    self.assertFalse(os.path.exists(self.path("y.safetensors")) or os.path.exists(self.path("started")))
        write_tensors(self.path("plain"), **read_tensors(self.path("runs/c/model.safetensors")))
        self.assertEqual(self.predict("-q", "--weights", "plain", "c.yaml", out=""), self.predict("-q", "c.yaml", out=""))
        tensors = read_tensors(self.path("plain"))
        tensors["1.running_var"] = ("F32", [8], struct.pack("<8f", *(7 * [1]), -1))
        write_tensors(self.path("w"), **tensors)
        self.expect(["--predict", "y2", "--weights", "w", "c.yaml"], 1, 'gpipe-train: w: tensor "1.running_var" has -1 as element 7: a '
                    "variance is not negative; the file is damaged, or is not of a batch norm\n", out="")

    def test_broken_weights(self):
        model = os.path.join(self.train(), "model.safetensors")
        tensors = read_tensors(model)
        with open(model, "rb") as file:
            whole = file.read()
        wrong = dict(tensors, **{"0.weight": ("F32", [8, 2, 3, 1], tensors["0.weight"][2][: 8 * 2 * 3 * 4])})
        less = {name: tensor for name, tensor in tensors.items() if name != "1.running_var"}
        more = dict(tensors, extra=("F32", [1], bytes(4)))
        for content, sentence in {
            None: "w: cannot be opened: No such file or directory",
            whole[:-1]: "w: .*",
            b"": "w: offset 0: the file has 0 bytes, too few for a safetensors header",
            "wrong": 'w: tensor "0.weight" has shape \\[8, 2, 3, 1\\], but the model\'s is \\[8, 2, 3, 3\\]',
            "less": 'w: tensor "1.running_var" is missing',
            "more": 'w: tensor "extra" belongs to no layer of the model',
        }.items():
            if isinstance(content, str):
                write_tensors(self.path("w"), **{"wrong": wrong, "less": less, "more": more}[content])
            elif content is not None:
                with open(self.path("w"), "wb") as file:
                    file.write(content)
            process = self.run_program("--predict", "y.safetensors", "--weights", "w", "c.yaml", "--set",
                                       "train.init={file: d.safetensors, skip: ['0', '1']}")
            self.assertRegex(process.err, r"\Agpipe-train: %s\n\Z" % sentence)
            self.assertEqual((process.returncode, process.out), (1, ""))
            self.assertFalse(os.path.exists(self.path("y.safetensors")))
        self.expect(["--predict", "y", "c.yaml"], 1, "gpipe-train: runs/c/model.safetensors: cannot be opened: No such "
                    "file or directory; the run has no trained model yet: train first, or name a model with --weights\n", out="")

    def test_what_cannot_be_predicted_or_written(self):
        skip_under_tsan(self, PROGRAM, OWN_FILES)
        self.expect(["-q", "-o", "run", "c.yaml"], 0)
        os.mkdir(self.path("folder"))
        os.symlink("c.yaml", self.path("link"))
        self.write("text", "somebody's\n")
        write_tensors(self.path("x.safetensors"), x=("F32", [1], bytes(4)))
        write_tensors(self.path("classes.safetensors"), y=("I64", [1], bytes(8)))
        write_tensors(self.path("train.safetensors"), y=("F32", [1], bytes(4)))
        changes = sets(["data.train={tensors: train.safetensors}"])
        there, before = sorted(os.listdir(self.folder)), self.contents()
        for out, status, sentence in (
            ("run/model.safetensors", 2, "--predict run/model.safetensors: would write over the weights that it predicts "
             "with: choose another name"),
            ("d.safetensors", 2, "--predict d.safetensors: would write over the file of data.eval.tensors (c.yaml:15:19): "
             "choose another name"),
            ("train.safetensors", 2, "--predict train.safetensors: would write over the file of data.train.tensors (--set "
             "data.train={tensors: train.safetensors}): choose another name"),
            ("c.yaml", 2, "--predict c.yaml: would write over the configuration: choose another name"),
            ("link", 2, "--predict link: would write over the configuration: choose another name"),
            ("text", 2, "THERE"),
            ("folder", 2, "THERE"),
            ("x.safetensors", 2, "THERE"),
            ("classes.safetensors", 2, "THERE"),
            ("run/metrics.jsonl", 2, "THERE"),
            ("run/best.safetensors", 2, "THERE"),
            ("none/y", 1, "none/y.tmp-PID-0: cannot be created: No such file or directory"),
        ):
            process = self.run_program("--predict", out, "-o", "run", "c.yaml", *changes)
            sentence = sentence.replace("THERE", "--predict %s: the file exists, and is not a file of predictions: choose another name" % out)
            sentence = sentence.replace("PID", str(process.pid))
            self.assertEqual((process.err.replace(self.folder + "/", ""), process.returncode),
                             ("gpipe-train: %s\n" % sentence, status))
        self.assertEqual(self.contents(), before)
        process = self.run_program("--predict", "y", "-o", "run", "c.yaml", prepare=lambda: limit_files(PROGRAM, 100))
        self.assertEqual((process.err, process.returncode),
                         ("gpipe-train: y.tmp-%d-0: cannot be written: File too large; raise the limit on the size of files "
                          "(ulimit -f)\n" % process.pid, 1))
        self.write("train.yaml", CONFIG.replace("  eval: {tensors: d.safetensors, take: [50, 64]}\n", ""))
        self.expect(["--predict", "y", "-o", "run", "train.yaml"], 2, "gpipe-train: train.yaml:14:3: data: eval is missing; "
                    "without training (train.steps: 0, --predict) only data.eval is read\n", out="")
        os.remove(self.path("train.yaml"))
        self.assertEqual(sorted(os.listdir(self.folder)), there)
        self.assertEqual(self.contents(), before)

    def test_a_signal_leaves_no_file(self):
        self.expect(["-q", "-o", "run", "c.yaml"], 0)
        there = sorted(os.listdir(self.folder))
        process = self.start("--predict", "y", "-o", "run", "c.yaml", "--set", "data.eval={synthetic: {samples: 50000000}}")
        while len(os.listdir(self.folder)) == len(there):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, out, err), (130, "", "gpipe-train: interrupted: y is not written\n"))
        self.assertEqual(sorted(os.listdir(self.folder)), there)


class Resnet(Group):
    """A built-in ResNet-18 on synthetic pictures of 3x32x32, in one stage and in as many as it has layers."""

    def test_same_bits_in_a_pipeline_of_any_length(self):
        models, losses = [], []
        for stages in (1, 4, 71):
            folder = "run%d" % stages
            self.expect(["-q", "-o", folder, "--set", "pipeline.devices=[%s]" % ", ".join(["cpu"] * stages),
                         "--set", "data.train.synthetic.samples=32", "--set", "train={epochs: 6, eval_every: 6 epochs}",
                         os.path.join(HERE, "../../configs/resnet-synthetic.yaml")], 0)
            start = read_lines(self.path(folder))[0]
            self.assertEqual((start["layers"], start["parameters"], len(start["balance"])), (71, 11181642, stages))
            models.append(read_model(self.path(folder)))
            losses.append(results(self.path(folder)))
        self.assertTrue(models[0] == models[1] == models[2])
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        steps = [line["loss"] for line in losses[0] if line["event"] == "step"]
        self.assertEqual(len(steps), 6)
        self.assertLess(steps[-1], 0.5 * steps[0])  # the same 32 pictures every time: it learns them by heart


class Mnist(Group):
    """Real digits, through two stages, with recomputation. GPIPE_TEST_SIZE=large trains as many epochs as the files say."""

    patience = 5 * PATIENCE
    large = os.environ.get("GPIPE_TEST_SIZE") == "large"

    def train_on_digits(self, config, epochs):
        """The metrics of the run."""
        data = os.path.join(os.environ.get("GPIPE_TEST_DATA") or os.path.join(HERE, "../../../shared/data"), "mnist")
        changes = ["--set", "train.epochs=%d" % epochs]
        for name, file in {"images": "t10k-images-idx3-ubyte.gz", "labels": "t10k-labels-idx1-ubyte.gz"}.items():
            path = os.path.abspath(os.path.join(data, file))
            if not os.path.exists(path):
                self.skipTest("%s is not there; GPIPE_TEST_DATA names the folder above mnist/" % path)
            changes += ["--set", "data.train.idx.%s=%s" % (name, path), "--set", "data.eval.idx.%s=%s" % (name, path)]
        self.expect(["-q", "-o", "run", *changes, os.path.join(HERE, config)], 0)
        lines = read_lines(self.path("run"))
        start, evals = lines[0], [line for line in lines if line["event"] == "eval"]
        print("accuracy after each epoch: %s" % ", ".join("%.4f" % line["accuracy"] for line in evals))
        self.assertEqual((start["train_samples"], start["eval_samples"]), (9000, 1000))
        self.assertEqual((len(start["balance"]), start["micro_batches"]), (2, 4))
        return start, evals

    def test_98_percent_within_5_epochs(self):
        epochs = 5 if self.large else 4
        start, evals = self.train_on_digits("mnist-t10k.yaml", epochs)
        self.assertEqual((len(evals), start["checkpoint"]), (epochs, "always"))
        self.assertGreaterEqual(max(line["accuracy"] for line in evals), 0.98)

    def test_988_of_1000_with_augmentation(self):
        """In a third of the epochs, with the whole of the schedule of rates, it misses a few more."""
        _, evals = self.train_on_digits("../../configs/mnist-augmented.yaml", 12 if self.large else 4)
        self.assertGreaterEqual(evals[-1]["accuracy"], 0.988 if self.large else 0.98)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    group = {name.lower(): value for name, value in globals().items() if isinstance(value, type)}[sys.argv[2]]
    done = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(group))
    if done.wasSuccessful() and len(done.skipped) == done.testsRun:
        print("skipped: " + done.skipped[0][1])
        sys.exit(77)
    sys.exit(not done.wasSuccessful())
