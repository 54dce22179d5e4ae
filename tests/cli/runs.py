"""What the tests of resumed runs share: a small run, that run left alone, and how both are compared. Standard library only."""

import argparse
import array
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from test_cli import CONFIG as TRAINED
from test_cli import results, write_tensors

PATIENCE = 300
OPTIONS = argparse.Namespace()  # of the command line

# The same network and data, trained longer and with more to remember.
CONFIG = TRAINED[: TRAINED.index("  sgd:")] + """\
  adam: {lr: 0.001}
  lr_schedule: {cosine: {min: 0.0001}}
  warmup: 10
train: {epochs: 40, save_every: 7, keep: 3}
"""
STEPS = 160


def read(path):
    with open(path, "rb") as file:
        return file.read()


def snapshots(folder):
    """Paths, oldest first. Several processes write a folder, which its index makes whole."""
    within = os.path.join(folder, "snapshots")
    if not os.path.isdir(within):
        return []
    paths = [os.path.join(within, name) for name in sorted(os.listdir(within))]
    return [path for path in paths
            if path.endswith(".safetensors") or os.path.exists(os.path.join(path, "model.safetensors.index.json"))]


def any_cut(rng, layers=8):
    stages = rng.randint(1, 4)
    cuts = sorted(rng.sample(range(1, layers), stages - 1))
    balance = [b - a for a, b in zip([0] + cuts, cuts + [layers])]
    return ["--set", "pipeline.devices=[%s]" % ", ".join(["cpu"] * stages), "--set", "pipeline.balance=%s" % balance,
            "--set", "pipeline.checkpoint=" + rng.choice(["never", "except_last", "always"]),
            "--set", "pipeline.lockstep=" + rng.choice(["true", "false"]),
            "--set", "data.threads=%d" % rng.randint(1, 3)]


class Runs(unittest.TestCase):
    maxDiff = None
    config, layers, steps, keep = CONFIG, 8, STEPS, 3

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gp-test-resume-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        rng = random.Random(1)
        y = [rng.randrange(3) if n % 4 == 0 else n % 3 for n in range(64)]
        x = [rng.random() - 0.5 + (0.5 if i % 3 == y[n] else 0.0) for n in range(64) for i in range(32)]
        write_tensors(
            os.path.join(cls.folder, "d.safetensors"),
            x=("F32", [64, 2, 4, 4], array.array("f", x).tobytes()),
            y=("I64", [64], array.array("q", y).tobytes()),
        )
        with open(os.path.join(cls.folder, "c.yaml"), "w") as file:
            file.write(cls.config)
        cls.alone = os.path.join(cls.folder, "alone")
        subprocess.run([OPTIONS.program, "-q", "-o", cls.alone, "c.yaml"], cwd=cls.folder, check=True)

    def setUp(self):
        self.rng = random.Random("%d %s" % (OPTIONS.seed, self.id()))
        self.run_folder = os.path.join(self.folder, self.id().split(".")[-1])
        self.addCleanup(shutil.rmtree, self.run_folder, ignore_errors=True)

    def start(self, *arguments, prepare=None, environment=None):
        return subprocess.Popen([OPTIONS.program, "-o", self.run_folder, "c.yaml", *arguments], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=prepare,
                                env={**os.environ, **(environment or {})})

    def run_program(self, *arguments, status=0, err="", prepare=None, environment=None):
        process = self.start(*arguments, prepare=prepare, environment=environment)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, errors)
        if err is not None:
            self.assertEqual(errors.replace(self.folder + "/", ""), err)
        return out, errors

    def lines_written(self):
        try:
            with open(os.path.join(self.run_folder, "metrics.jsonl"), "rb") as file:
                return file.read().count(b"\n")
        except FileNotFoundError:
            return 0

    def await_lines(self, process, more):
        """Until the process has begun, and has written so many lines; False where it ended before."""
        start = time.monotonic()
        def begun():
            path = os.path.join(self.run_folder, "metrics.jsonl")
            try:
                return os.stat(path).st_mtime_ns > self.mark
            except FileNotFoundError:  # not yet; or --force has removed it just now
                return False
        while not begun() and process.poll() is None:
            self.assertLess(time.monotonic() - start, PATIENCE)
            time.sleep(0.001)
        before = self.lines_written()
        while self.lines_written() < before + more and process.poll() is None:
            self.assertLess(time.monotonic() - start, PATIENCE)
            time.sleep(0.0005)
        return process.poll() is None

    # Between its first step and its end such a run writes lines alone.
    LINES = ["--set", "train={epochs: 40, save_every: 1000000, eval_every: 1000000}"]

    def move_folder(self):
        """Another folder of that name is there then."""
        moved = self.run_folder + "-moved"
        self.addCleanup(shutil.rmtree, moved, ignore_errors=True)
        os.rename(self.run_folder, moved)
        os.mkdir(self.run_folder)
        return moved

    def expect_moved(self, moved, errors):
        """All that a run of LINES leaves is in the folder where it was moved to."""
        self.assertEqual(errors, ["gpipe-train: warning: the run folder was moved to %s, and the run goes on there" % os.path.realpath(moved)])
        self.assertEqual(os.listdir(self.run_folder), [])
        self.run_program("-q", *self.LINES)
        for name in ("model.safetensors", "best.safetensors"):
            self.assertEqual(read(os.path.join(moved, name)), read(os.path.join(self.run_folder, name)))
        self.assertEqual(results(moved), results(self.run_folder))
        self.assertEqual([os.path.basename(path).partition(".")[0] for path in snapshots(moved)], ["step-00000160"])

    def resume_arguments(self):
        """A run that was ended before its first snapshot begins again."""
        return ["--resume", *(any_cut(self.rng, self.layers) if self.rng.random() < 0.5 else [])]

    def expect_as_alone(self):
        for name in ("model.safetensors", "best.safetensors"):
            self.assertEqual(read(os.path.join(self.run_folder, name)), read(os.path.join(self.alone, name)), name)
        self.assertEqual(results(self.run_folder), results(self.alone))
        self.assertEqual(sorted(os.listdir(self.run_folder)), sorted(os.listdir(self.alone)))
        self.assertIn(os.path.basename(snapshots(self.run_folder)[-1]), ["step-%08d.safetensors" % self.steps, "step-%08d" % self.steps])
        self.assertLessEqual(len(os.listdir(os.path.join(self.run_folder, "snapshots"))), self.keep)


def select(cases, names, parser):
    """The tests of these names, `test` or `Class.test`; without names, all. A name that no class has is refused, so that a
    misspelt test does not pass."""
    loader = unittest.defaultTestLoader
    if not names:
        return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)
    suite = unittest.TestSuite()
    for name in names:
        of, _, test = name.rpartition(".")
        found = [case for case in cases if of in ("", case.__name__) and test in loader.getTestCaseNames(case)]
        if not found:
            parser.error('there is no test "%s"; the classes are %s; name a test as test_x or Class.test_x' % (name, ", ".join(case.__name__ for case in cases)))
        suite.addTests(case(test) for case in found)
    return suite


def main(*cases, **more):
    """Runs the tests of these classes; `more`: options beside --seed, as argparse takes them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    for name, about in more.items():
        parser.add_argument("--" + name, **about)
    parser.add_argument("tests", nargs="*")
    parser.parse_intermixed_args(namespace=OPTIONS)
    print("seed %d" % OPTIONS.seed, flush=True)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(select(cases, OPTIONS.tests, parser)).wasSuccessful())
