"""Runs that are slow on purpose: the comparison names the cause. And the idle time of real runs and simulations adds up.

A preloaded library (slow.c) sleeps in one layer, in one copy, or in the loader's reads; all else takes far less time. The tests
look at the largest term and at what the sentence names, never at times.
"""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

from said import unknown_numbers  # noqa: I100; it sets the path
from timelines.attribute import attribute
from timelines.depend import dependencies
from timelines.figures import figures
from timelines.read import read
from timelines.sentence import costs_most, sentence

TRAIN = os.environ.get("GPIPE_TRAIN", "build/gpipe-train")
BALANCE = os.environ.get("GPIPE_BALANCE", "build/gpipe-balance")
SLOW = os.environ.get("GP_SLOW_LIBRARY")

CONFIG = """
model:
  input: {{shape: [1, 28, 28]}}
  layers:
    - conv: {{name: first, out: {first}, kernel: 3, pad: 1}}
    - relu
    - conv: {{name: second, out: {second}, kernel: 3, pad: 1}}
    - relu
    - conv: {{name: third, out: 8, kernel: 3, pad: 1}}
    - relu
    - flatten
    - linear: {{name: last, out: 10}}
  loss: cross_entropy
data:
  train: {data}
  batch: 16
pipeline:
  devices: [{devices}]
  balance: {balance}
  micro_batches: 4
  schedule: {schedule}
  checkpoint: {checkpoint}
  lockstep: {lockstep}
optimizer: {{sgd: {{lr: 0.001}}}}
train: {{steps: {steps}, seed: 1}}
"""


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def record(self, slow=None, stages=2, balance="auto", data="{synthetic: {samples: 64}}", first=8, second=8, steps=3,
               schedule="gpipe", checkpoint="except_last", lockstep="auto"):
        """The timeline of a run of two or more steps. `slow`: environment for slow.c."""
        config = os.path.join(self.folder, "net.yaml")
        trace = os.path.join(self.folder, "trace.json")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(first=first, second=second, data=data, devices=", ".join(["cpu"] * stages), balance=balance,
                                     schedule=schedule, checkpoint=checkpoint, lockstep=lockstep, steps=steps))
        environment = dict(os.environ, **(slow or {}))
        if slow:
            environment["LD_PRELOAD"] = SLOW
        options = ["--trace-layers"] if slow and self.has_layers() else []
        command = [TRAIN, "-q", "--force", "-o", os.path.join(self.folder, "run"), "--trace", trace, *options, config]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return read(trace)

    @staticmethod
    def has_layers():
        return "--trace-layers" in subprocess.run([TRAIN, "--help"], capture_output=True, text=True, check=True).stdout


@unittest.skipUnless(SLOW, "GP_SLOW_LIBRARY names no library: sanitizers build none")
class Causes(Runs):
    def say(self, run):
        """The sentence; its numbers stand in the figures."""
        text = sentence([run])
        self.assertEqual(unknown_numbers(text, [run]), [], text)
        return text

    def test_a_slow_layer(self):
        # Stage 0 is the smaller one by far. Its convolution sleeps in each pass: stage 1 waits.
        timeline = self.record({"GP_SLOW_MS": "20", "GP_SLOW_CHANNELS": "23"}, balance="[2, 6]", first=23, second=24)
        run = figures(timeline)
        text = self.say(run)
        self.assertEqual(costs_most(run)[1:], (1, "imbalance"), text)
        self.assertIn("stage 0 computes", text)
        self.assertIn("times as long as predicted", text)
        self.assertNotIn("the plan has this balance too", text)
        if self.has_layers():
            self.assertIn("its layer first takes", text)

    def test_a_bad_balance(self):
        # Large enough that a worker which wakes late on a busy machine loses less than it idles.
        run = figures(self.record(balance="[7, 1]", first=64, second=128))
        text = self.say(run)
        self.assertEqual(costs_most(run)[1:], (1, "imbalance"), text)
        self.assertIn("stage 0 computes", text)
        self.assertIn("the plan has this balance too", text)

    def test_a_slow_copy(self):
        # The values between stage 0 and stage 1 have 4·23·28·28·4 bytes, in both directions; those after stage 1 are smaller.
        timeline = self.record({"GP_SLOW_MS": "20", "GP_SLOW_COPY": str(4 * 23 * 28 * 28 * 4)}, stages=3, balance="[2, 2, 4]",
                               first=23)
        run = figures(timeline)
        text = self.say(run)
        self.assertEqual(costs_most(run)[1:], (2, "copy"), text)  # worker 2 waits for stage 1, which copies
        for worker in run["workers"][:2]:
            self.assertGreater(worker["copy_exposed_ms"], worker["busy_ms"])
        self.assertRegex(text, r"receives of stage [01] take")

    def test_a_slow_loader(self):
        images, labels = (os.path.join(self.folder, name) for name in ("images", "labels"))
        with open(images, "wb") as file:
            file.write(struct.pack(">IIII", 0x803, 64, 28, 28) + bytes(i * 37 % 251 for i in range(64 * 784)))
        with open(labels, "wb") as file:
            file.write(struct.pack(">II", 0x801, 64) + bytes(i % 10 for i in range(64)))
        data = f"{{idx: {{images: {images}, labels: {labels}}}}}"
        timeline = self.record({"GP_SLOW_MS": "10", "GP_SLOW_READ": "784"}, data=data, steps=8)
        run = figures(timeline)
        text = self.say(run)
        self.assertIn("the loader is too slow", text)
        self.assertGreater(run["between_data_ms"], run["step_ms"])


class AddsUp(Runs):
    def check(self, timeline):
        steps = {step.number: step.end - step.start for step in timeline.steps}
        shares = attribute(timeline)
        self.assertEqual(list(shares), list(steps))
        for number, workers in shares.items():
            self.assertEqual(len(workers), len(timeline.workers))
            for share in workers:
                self.assertAlmostEqual(sum(share.idle_by.values()), share.idle, delta=1e-9 * steps[number])
                self.assertAlmostEqual(share.busy + share.copy_exposed + share.idle, steps[number], delta=1e-9 * steps[number])
                self.assertGreaterEqual(min(share.idle_by.values()), 0)

    def test_schedules(self):
        for schedule in ("1f1b", "zb_h1", "zb_h2", "zb_v", "{interleaved: {chunks: 2}}"):
            with self.subTest(schedule):
                timeline = self.record(schedule=schedule, steps=2)
                self.assertIsNotNone(timeline.plan)
                self.check(timeline)
                timeline.plan = None  # by names
                self.check(timeline)

    def test_numbers_of_stages_lockstep_and_checkpoints(self):
        for stages, checkpoint, lockstep in ((1, "always", "auto"), (2, "never", "true"), (3, "except_last", "true"),
                                             (4, "always", "auto"), (4, "never", "false")):
            with self.subTest(stages=stages, checkpoint=checkpoint, lockstep=lockstep):
                timeline = self.record(stages=stages, checkpoint=checkpoint, lockstep=lockstep, steps=2)
                self.check(timeline)
                self.check_arrows(timeline)

    def check_arrows(self, timeline):
        """Each receive waited for its send; forward passes on later stages, and backward passes on earlier ones, for receives."""
        found = dependencies(timeline)
        for i, span in enumerate(timeline.spans):
            names = [timeline.spans[j].op for j in found[i]]
            if span.op == "recv":
                self.assertIn("send", names, span.name)
            if span.op == "collect":
                self.assertIn("post", names, span.name)
            if span.op == "F" and span.stage > 0 or span.op == "B" and span.stage < len(timeline.workers) - 1:
                self.assertIn("recv", names, span.name)

    def test_simulations(self):
        for schedule, more in (("gpipe", "copy: 0.5"), ("1f1b", "copy: 0.5"), ("zb_v", "copy: 0"),
                               ("interleaved", "copy: 0.25, chunks: 2"), ("gpipe", "copy: 2, lockstep: true"),
                               ("zb_h1", "copy: 1, processors: 2")):
            with self.subTest(schedule, more=more):
                path = os.path.join(self.folder, "s.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"{{schedule: {schedule}, stages: 4, micro_batches: 8, forward: [3, 1, 2, 1], backward_input: 2, "
                               f"backward_weight: 1, {more}}}\n")
                done = subprocess.run([BALANCE, "--simulate", path, "--json"], capture_output=True, text=True, check=True)
                result = os.path.join(self.folder, "s.json")
                with open(result, "w", encoding="utf-8") as file:
                    file.write(done.stdout)
                self.assertIn("programs", json.loads(done.stdout))
                self.check(read(result))


if __name__ == "__main__":
    unittest.main()
