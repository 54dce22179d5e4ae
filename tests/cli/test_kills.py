"""Runs that are killed, or whose files cannot be written, at any moment and at any call of the system: resumed, they end
with what a run left alone ends with.

    test_kills.py PROGRAM [--faults LIBRARY] [--kills N] [--seed S] [TEST…]

N kills at random moments, and N runs for each kind of fault at a call; by default few. Without the library (faults.c),
which is loaded before the program's own, only the first. Prints its seed. Standard library only.
"""

import collections
import contextlib
import errno
import os
import re
import shutil
import signal
import time

from runs import OPTIONS, PATIENCE, Runs, main, snapshots
from test_cli import count_apart, results

# A model whose snapshots take as long to write as a few steps.
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
    - linear: {out: %d}
    - relu
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
  adam: {lr: 0.001}
  lr_schedule: {cosine: {min: 0.0001}}
  warmup: 10
train: {epochs: %d, save_every: 7, keep: 3}
"""
EPOCH_STEPS = 4


class RandomMoments(Runs):
    layers = 10

    @classmethod
    def setUpClass(cls):
        epochs = max(40, 2 * OPTIONS.kills)  # that one run is killed nearly all of these times
        cls.steps = EPOCH_STEPS * epochs
        cls.config = CONFIG % (4096, epochs)
        super().setUpClass()

    def temporary_files(self):
        for folder in (self.run_folder, os.path.join(self.run_folder, "snapshots")):
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    if ".tmp-" in name:
                        yield os.path.join(folder, name)

    def pause_to_a_moment(self, process):
        """While the program starts, so many steps later, or while it writes a file."""
        kind = self.rng.random()
        if kind < 0.2:
            time.sleep(self.rng.random() * 0.2)
            return
        self.await_lines(process, self.rng.randrange(30))
        if kind < 0.5:
            time.sleep(self.rng.random() * 0.004)
            return
        start = time.monotonic()
        while not any(self.temporary_files()) and process.poll() is None:
            self.assertLess(time.monotonic() - start, PATIENCE)
        time.sleep(self.rng.choice([0, 0.001, 0.003, 0.01]) * self.rng.random())

    def phase(self):
        """What the killed program was doing, by what it left."""
        metrics = os.path.join(self.run_folder, "metrics.jsonl")
        if not os.path.exists(metrics) or os.stat(metrics).st_mtime_ns <= self.mark:
            return "starting"
        for path in self.temporary_files():
            name = os.path.basename(path).split(".tmp-")[0]
            if name.startswith("step-"):
                whole = os.path.getsize(snapshots(self.alone)[0])
                return "syncing or renaming a snapshot" if abs(os.path.getsize(path) - whole) < 100 else "writing a snapshot"
            return "writing " + name
        count = len(snapshots(self.run_folder))
        if count == 0:
            return "before the first snapshot"
        return "removing old snapshots" if count > self.keep else "between snapshots"

    def kill(self, *arguments):
        """Starts and kills; False where the run ended before."""
        self.mark = time.time_ns()
        process = self.start(*arguments, environment=count_apart(OPTIONS.program))
        self.pause_to_a_moment(process)
        process.kill()
        out, errors = process.communicate(timeout=PATIENCE)
        if process.returncode == -signal.SIGKILL:
            return True
        self.assertEqual((process.returncode, errors), (0, ""))
        return False

    def test_killed_at_random_moments(self):
        kills = runs = cut = 0
        phases = collections.Counter()
        while kills < OPTIONS.kills:
            shutil.rmtree(self.run_folder, ignore_errors=True)
            arguments = []
            while kills < OPTIONS.kills:
                if not self.kill(*arguments):
                    break
                kills += 1
                phases[self.phase()] += 1
                arguments = self.resume_arguments()
                cut += len(arguments) > 1
            else:
                self.run_program(*arguments)
            runs += 1
            self.expect_as_alone()
        print("%d kills, %d resumed on another cut, %d runs of %d steps; killed while %s" % (
            kills, cut, runs, self.steps, ", ".join("%s: %d" % pair for pair in phases.most_common())), flush=True)


class Faults(Runs):
    """One system call of a run at a time, by its number."""

    config, layers, steps = CONFIG % (8, 6), 10, 6 * EPOCH_STEPS

    def setUp(self):
        if not OPTIONS.faults:
            self.skipTest("the library that lets calls fail is not given")
        super().setUp()
        self.log = os.path.join(self.folder, "log")

    def run_with(self, fault, *arguments):
        """Its exit status, what it said on standard error, and the calls that it made, as "write metrics.jsonl"."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.log)
        environment = {"LD_PRELOAD": OPTIONS.faults, "GP_FAULTS": fault, "GP_FAULTS_LOG": self.log,
                       "GP_FAULTS_FOLDER": self.run_folder}
        process = self.start("-q", *arguments, environment=environment)
        out, errors = process.communicate(timeout=PATIENCE)
        with open(self.log) as file:
            calls = [re.sub(r"\.tmp-\d+-\d+$", ".tmp", line.rstrip("\n")) for line in file]
        return process.returncode, errors, calls

    def pick(self, calls):
        """Numbers of calls: one of each kind before there are two of one."""
        kinds = collections.defaultdict(list)
        for number, call in enumerate(calls, 1):
            kinds[re.sub(r"\d", "", call)].append(number)
        chosen = []
        while len(chosen) < min(OPTIONS.kills, len(calls)):
            left = [numbers for numbers in kinds.values() if numbers]
            for numbers in self.rng.sample(left, min(OPTIONS.kills - len(chosen), len(left))):
                chosen.append(numbers.pop(self.rng.randrange(len(numbers))))
        return chosen

    def calls_of_a_run(self):
        status, errors, calls = self.run_with("")
        self.assertEqual((status, errors), (0, ""))
        self.expect_as_alone()
        return calls

    def resume(self):
        models = [name for name in ("model.safetensors", "best.safetensors") if os.path.exists(os.path.join(self.run_folder, name))]
        lost = models and not snapshots(self.run_folder)  # where none could be written, --resume refuses to lose the model
        self.run_program("-q", *(["--force"] if lost else self.resume_arguments()))
        self.expect_as_alone()

    def test_the_order_of_calls(self):
        """A snapshot is begun when the lines before it are on the disk, takes its name when it is, and removes others
        when that is too."""
        calls = self.calls_of_a_run()
        self.assertEqual(len([call for call in calls if call.startswith("rename snapshots/")]), 5)
        saver = [call for call in calls if "snapshots" in call or call in ("fsync metrics.jsonl", "fsync .")]
        text = "\n".join(saver)
        for step in (4, 7, 14, 21, 24):
            path = "snapshots/step-%08d.safetensors" % step
            self.assertRegex(text, r"fsync metrics.jsonl\n(fsync \.\n)*open %s.tmp\n(write %s.tmp\n|fsync \.\n)+"
                             r"fsync %s.tmp\n(fsync \.\n)*rename %s\n(fsync \.\n)*fsync snapshots(\n|$)" % ((path,) * 4))
        self.assertLess(text.index("mkdir snapshots\nfsync ."), text.index("fsync metrics.jsonl"))
        self.assertLess(text.index("rename snapshots/step-00000021"), text.index("unlink snapshots/step-00000004"))
        self.assertLess(calls.index("rename snapshots/step-00000004.safetensors"), calls.index("rename best.safetensors"))

    def test_killed_at_calls(self):
        """Before a call, after it, and when it has written half."""
        calls = self.calls_of_a_run()
        killed = collections.Counter()
        for number in self.pick(calls):
            how = self.rng.choice(["kill-before", "kill-within", "kill-after"])
            with self.subTest(how=how, number=number, call=calls[number - 1]):
                shutil.rmtree(self.run_folder)
                status, errors, made = self.run_with("%s %d" % (how, number))
                self.assertEqual((status, errors), (-signal.SIGKILL, ""))
                killed[re.sub(r"step-\d+", "step", made[-1])] += 1
                self.run_program("-q", *self.resume_arguments())
                self.expect_as_alone()
        print("%d kills: %s" % (sum(killed.values()), ", ".join("%s: %d" % pair for pair in sorted(killed.items()))),
              flush=True)

    def test_failing_calls(self):
        """A call, a few, or all from one on, as on a disk that is full for a while or for good."""
        calls = self.calls_of_a_run()
        ended = collections.Counter()
        for number in self.pick(calls):
            count = self.rng.choice([1, 1, 1, 5, 40, 100000])
            cause = self.rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT])
            with self.subTest(number=number, count=count, call=calls[number - 1], cause=errno.errorcode[cause]):
                shutil.rmtree(self.run_folder)
                status, errors, made = self.run_with("fail %d %d %d" % (number, count, cause))
                self.assertIn(status, (0, 1), errors)
                for line in errors.splitlines():
                    self.assertRegex(line, "^gpipe-train: .*" + os.strerror(cause))
                if status == 1:
                    self.assertNotEqual(errors, "")
                ended[status] += 1
                if status == 1:
                    self.resume()
                    continue
                # What was said to be missing may be, and nothing else.
                self.assertEqual(results(self.run_folder), results(self.alone))
                if snapshots(self.run_folder) and "best model" not in errors:
                    os.remove(os.path.join(self.run_folder, "model.safetensors"))
                    self.resume()
        print("%d runs ended well, %d failed" % (ended[0], ended[1]), flush=True)

    def test_short_writes(self):
        """Each write takes some of the bytes."""
        for _ in range(max(3, OPTIONS.kills // 10)):
            shutil.rmtree(self.run_folder, ignore_errors=True)
            status, errors, calls = self.run_with("short %d" % self.rng.randrange(1 << 31))
            self.assertEqual((status, errors), (0, ""))
            self.expect_as_alone()


if __name__ == "__main__":
    main(RandomMoments, Faults, kills={"type": int, "default": 20},
         faults={"type": os.path.abspath, "default": None})
