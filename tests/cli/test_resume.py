"""Runs that are interrupted or damaged, and resumed: what they end with is what a run left alone ends with.

    test_resume.py PROGRAM [--damages N] [--seed S] [TEST…]

N newest snapshots are damaged, by default few. Prints its seed. Standard library only.
"""

import array
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import time

from runs import OPTIONS, PATIENCE, Runs, any_cut, main, read, snapshots
from test_cli import OWN_FILES, limit_files, read_lines, results, skip_under_tsan, write_tensors

CONSTANT = ["-q", "--set", "optimizer={adam: 0.001}"]  # a rate that knows no end


def xxh3_128(data):
    """In hexadecimal digits; by the library that the program is linked with."""
    class Hash(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]
    function = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
    function.restype, function.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
    found = function(data, len(data))
    return "%016x%016x" % (found.high, found.low)


class Resume(Runs):
    def expect_as_forced(self, *arguments):
        """The folder's model is that of a run with these arguments from its beginning."""
        model = read(os.path.join(self.run_folder, "model.safetensors"))
        self.run_program(*arguments, "--force")
        self.assertEqual(read(os.path.join(self.run_folder, "model.safetensors")), model)

    def interrupt(self, number, more, *arguments):
        self.mark = time.time_ns()
        process = self.start(*arguments)
        self.await_lines(process, more)
        process.send_signal(number)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, errors), (0 if re.search(r"^done: ", out, re.M) else 130, ""))
        return out

    def interrupt_before_the_end(self, number, more, *arguments):
        """On a busy machine the run may be done before the signal is sent: then once more."""
        for _ in range(50):
            out = self.interrupt(number, more, *arguments)
            if not re.search(r"^done: ", out, re.M):
                return out
            shutil.rmtree(self.run_folder)
        self.fail("50 runs ended before they could be interrupted")

    def test_interrupted(self):
        """Ctrl-C and SIGTERM, with snapshots and without; the first resumed run is interrupted too."""
        for number in (signal.SIGINT, signal.SIGTERM):
            shutil.rmtree(self.run_folder, ignore_errors=True)
            changes = ["--set", "train.save_every=7"] if number == signal.SIGINT else ["--set", "train={epochs: 40, keep: 3}"]
            out = self.interrupt_before_the_end(number, 20, *changes)
            self.assertRegex(out, r"interrupted after \d+ of 160 steps; model and snapshot saved in \S+: --resume goes on\n$")
            self.interrupt(number, 5, "--resume", *changes, *any_cut(self.rng))
            self.run_program("--resume", *any_cut(self.rng))
            self.expect_as_alone()

    def damage(self, path):
        content = bytearray(read(path))
        how = self.rng.choice(["bit", "bit", "bit", "cut", "empty", "other"])
        if how == "bit":
            content[self.rng.randrange(len(content))] ^= 1 << self.rng.randrange(8)
        elif how == "cut":
            del content[self.rng.randrange(len(content)):]
        elif how == "empty":
            content = b""
        else:
            content = read(os.path.join(self.folder, "d.safetensors"))
        with open(path, "wb") as file:
            file.write(content)

    def test_a_damaged_newest_snapshot(self):
        """It is passed over, with its reason, and does not stay."""
        self.interrupt(signal.SIGTERM, 40)
        copy = self.run_folder + "-copy"
        os.rename(self.run_folder, copy)
        self.addCleanup(shutil.rmtree, copy)
        for _ in range(OPTIONS.damages):
            shutil.rmtree(self.run_folder, ignore_errors=True)
            shutil.copytree(copy, self.run_folder)
            *_, older, newest = snapshots(self.run_folder)
            self.damage(newest)
            out, err = self.run_program("--resume", *any_cut(self.rng), err=None)
            self.assertRegex(err, r"^gpipe-train: warning: not used: %s: .*\n$" % newest)
            self.assertIn("from %s\n" % older, out)
            self.expect_as_alone()

    def test_a_snapshot_under_another_steps_name(self):
        self.interrupt(signal.SIGTERM, 40)
        *_, older, newest = snapshots(self.run_folder)
        renamed = os.path.join(os.path.dirname(newest), "step-00000159.safetensors")
        os.rename(newest, renamed)
        step = int(os.path.basename(newest)[len("step-"):-len(".safetensors")])
        out, _ = self.run_program("--resume", err="gpipe-train: warning: not used: %s: it is of step %d\n" % (
            os.path.relpath(renamed, self.folder), step))
        self.assertIn("from %s\n" % older, out)
        self.expect_as_alone()

    def test_no_snapshot_is_whole(self):
        """Each is named with its reason, and nothing is changed."""
        self.interrupt(signal.SIGTERM, 40)
        for path in snapshots(self.run_folder):
            with open(path, "wb") as file:
                file.write(b"")
        before = {name: read(os.path.join(self.run_folder, name)) for name in ("metrics.jsonl", "config.yaml")}
        name = os.path.relpath(self.run_folder, self.folder)
        reasons = "; ".join("%s: offset 0: the file has 0 bytes, too few for a safetensors header" %
                            os.path.relpath(path, self.folder) for path in reversed(snapshots(self.run_folder)))
        out, _ = self.run_program("--resume", status=1,
                         err="gpipe-train: no snapshot of %s can be used: %s\n" % (name, reasons))
        self.assertEqual(out, "")
        for file, content in before.items():
            self.assertEqual(read(os.path.join(self.run_folder, file)), content)

    def test_what_may_not_change(self):
        self.run_program("-q", "--set", "train.steps=10")
        newest = os.path.relpath(snapshots(self.run_folder)[-1], self.folder)
        before = {path: read(path) for path in self.files()}
        samples = "an epoch goes through the samples that it began with"
        descending = "gpipe adds up gradients from the last micro-batch to the first, and %s from the first to the last"
        for change, sentence in {
            "optimizer={sgd: 0.5}": "optimizer.sgd is a mapping, but in the run of %s it is not said; it cannot change within a "
                                    "run: the kind of the optimizer stays, since its states are kept",
            "train.seed=2": "train.seed is 2, but in the run of %s it is 1; it cannot change within a run: the order of samples, "
                            "dropout and augmentation follow from it",
            "data.shuffle=false": "data.shuffle is false, but in the run of %s it is true; it cannot change within a run: the order "
                                  "of samples in an epoch follows from it",
            "data.train.take=[0, 40]": "data.train.take.1 is 40, but in the run of %s it is 50; it cannot change within a run: " + samples,
            "data.eval.take=[50, 60]": "data.eval.take.1 is 60, but in the run of %s it is 64; it cannot change within a run: "
                                       "evaluations before and after the change could not be compared",
            "train.init=d.safetensors": "train.init is d.safetensors, but in the run of %s it is not said; it cannot change within a "
                                        "run: it is read before the first step only",
            "model.loss={cross_entropy: {smoothing: 0.1}}": "model.loss is a mapping, but in the run of %s it is cross_entropy; it "
                                                            "cannot change within a run: losses before and after the change could "
                                                            "not be compared",
            "model.layers.7.linear.out=4": "the shapes of the model cannot change within a run: 7.weight [4, 128] was 7.weight [3, 128]",
            "model.layers.2={gelu: {name: a}}": "the layers of the model cannot change within a run: gelu \"a\" was relu \"a\"",
            "model.layers.4.add=[-3, -1]": "the layers of the model cannot change within a run: add \"4\" takes other inputs",
            "pipeline.schedule=1f1b": "pipeline.schedule cannot change from gpipe to 1f1b within a run: " + descending % "1f1b",
            "pipeline.schedule={file: ascending}": "pipeline.schedule cannot change from gpipe to file within a run: " + descending % "file",
            "changes={20: {optimizer.adam.lr: 1}}": "--set changes cannot be used with --resume; name the key that changes, as in "
                                                    "--set optimizer.sgd.lr=0.01",
        }.items():
            with self.subTest(change=change):
                if "ascending" in change:
                    with open(os.path.join(self.folder, "ascending"), "w") as file:
                        file.write("F0 F1 F2 F3 B0 B1 B2 B3\nF0 F1 F2 F3 B0 B1 B2 B3\n")
                self.run_program("--resume", "--set", change, status=2,
                                 err="gpipe-train: --resume: %s\n" % (sentence % newest if "%s" in sentence else sentence))
        self.assertEqual({path: read(path) for path in self.files()}, before)
        self.run_program("-q", "--resume", "--set", "train={epochs: 40, save_every: 1 minute, eval_every: 4, keep: 1}",
                         "--set", "model.layers.0.conv.checkpoint=false",
                         "--set", "pipeline.checkpoint={mode: always, keep: [\"3\"]}")

    def files(self):
        return [os.path.join(where, name) for where, _, names in os.walk(self.run_folder) for name in names]

    def test_a_key_changed_in_the_file(self):
        """--set does it, and the message says so; what is free may change in the file as well."""
        path = os.path.join(self.folder, "c.yaml")
        text = read(path)
        def restore():
            with open(path, "wb") as file:
                file.write(text)
        self.addCleanup(restore)
        self.run_program("-q", "--set", "train.steps=10")
        newest = os.path.relpath(snapshots(self.run_folder)[-1], self.folder)
        for old, new, key, before, now in ((b"lr: 0.001", b"lr: 0.5", "optimizer.adam.lr", "0.001", "0.5"),
                                           (b"batch: 16", b"batch: 8", "data.batch", "16", "8")):
            with open(path, "wb") as file:
                file.write(text.replace(old, new))
            self.run_program("--resume", "--set", "train.steps=12", status=2,
                             err="gpipe-train: --resume: %s is %s, but in the run of %s it is %s; to change it from step 11 on, give it "
                             "with --set, as in --set %s=%s\n" % (key, now, newest, before, key, now))
            self.run_program("-q", "--resume", "--set", "train.steps=12", "--set", "%s=%s" % (key, now))
            shutil.rmtree(self.run_folder)
            restore()
            self.run_program("-q", "--set", "train.steps=10")
        with open(path, "wb") as file:
            file.write(text.replace(b"micro_batches: 4", b"micro_batches: 2"))
        self.run_program("-q", "--resume", "--set", "train.steps=12")
        self.assertEqual(self.changes(), {11: {"pipeline.micro_batches": "2", "train.steps": "12"}})
        # And stays, wherever the file goes back to what it was when the run began.
        self.run_program("-q", "--resume", "--set", "train.steps=14")
        self.assertEqual(self.changes()[11]["pipeline.micro_batches"], "2")

    def changes(self):
        """`changes` of the run's config.yaml: scalars alone, as texts."""
        text = read(os.path.join(self.run_folder, "config.yaml")).decode()
        result = {}
        for line in text.partition("\nchanges:\n")[2].splitlines():
            key, _, value = line.strip().partition(":")
            if line.startswith("    "):
                result[step][key] = value.strip()
            else:
                step = int(key)
                result[step] = {}
        return result

    def expect_repeated(self):
        """config.yaml, run from the start in another folder, gives the same run; killed now and then as well."""
        whole = self.run_folder
        config = os.path.join(whole, "config.yaml")
        for kills in (0, 3):
            self.run_folder = whole + "-repeated"
            self.addCleanup(shutil.rmtree, self.run_folder, ignore_errors=True)
            shutil.rmtree(self.run_folder, ignore_errors=True)
            more = ["--force"]
            for _ in range(kills):
                self.mark = time.time_ns()
                process = subprocess.Popen([OPTIONS.program, "-q", "-o", self.run_folder, config, *more])
                self.await_lines(process, self.rng.randint(5, 25))
                process.kill()
                process.wait()
                more = ["--resume"]
            subprocess.run([OPTIONS.program, "-q", "-o", self.run_folder, config, *more], check=True)
            self.assertEqual(results(self.run_folder), results(whole))
            for name in ("model.safetensors", "best.safetensors", "config.yaml"):
                self.assertEqual(read(os.path.join(self.run_folder, name)), read(os.path.join(whole, name)), name)
            self.assertEqual([os.path.basename(path) for path in snapshots(self.run_folder)][-1],
                             os.path.basename(snapshots(whole)[-1]))
        self.run_folder = whole

    def test_changes_at_several_steps(self):
        """Learning rate, batch and length, in the middle of an epoch: in force until they change again, and repeated to the bit."""
        self.run_program("-q", "--set", "train.steps=10")
        self.run_program("-q", "--resume", "--set", "train.steps=18", "--set", "optimizer.adam.lr=0.01")
        self.run_program("-q", "--resume", "--set", "train.steps=30", "--set", "data.batch=7")
        self.run_program("-q", "--resume", "--set", "train.steps=50", "--set", "pipeline.micro_batches=2", *any_cut(self.rng))
        self.run_program("-q", "--resume", "--set", "optimizer.adam.lr=0.001", "--set", "train.steps=70")
        lines = read_lines(self.run_folder)
        steps = {line["step"]: line for line in lines if line["event"] == "step"}
        # Epochs of 50: 12 steps are three of them; 6 more are 98 samples of two more, and the sixth begins with step 17.
        self.assertEqual([steps[n]["epoch"] for n in (10, 12, 13, 16, 17, 18, 19)], [3, 3, 4, 4, 5, 5, 5])
        # After 32 samples of the fifth epoch: 7, 7, 4.
        self.assertEqual([(steps[n]["epoch"], steps[n]["samples"]) for n in range(18, 24)],
                         [(5, 16), (5, 7), (5, 7), (5, 4), (6, 7), (6, 7)])
        changes = self.changes()
        self.assertEqual(list(changes), [11, 19, 31, 51])
        self.assertEqual(changes[11], {"optimizer.adam.lr": "0.01", "train.steps": "18"})
        self.assertEqual(changes[19], {"data.batch": "7", "train.steps": "30"})
        self.assertEqual(changes[31], {"pipeline.micro_batches": "2", "train.steps": "50"})
        self.assertEqual(changes[51], {"optimizer.adam.lr": "0.001", "train.steps": "70"})
        said = [line["changes"] for line in lines if line["event"] == "resume"]
        self.assertEqual(said[:2], [{"optimizer.adam.lr": 0.01, "train.steps": 18}, {"data.batch": 7, "train.steps": 30}])
        self.expect_repeated()
        events = [line for line in read_lines(self.run_folder + "-repeated") if line["event"] == "change"]
        self.assertIn({"optimizer.adam.lr": 0.001, "train.steps": 70}, [line["changes"] for line in events])
        self.assertEqual((events[-1]["step"], events[-1]["steps"]), (51, 70))

    def test_changes_of_an_interrupted_run(self):
        """The learning rate alone is a change; a later resume goes on with it, and with what --set said at the start."""
        constant = ["--set", "optimizer.lr_schedule=constant", "--set", "optimizer.warmup=0", "--set", "train={steps: 400, save_every: 7, keep: 3}"]
        self.mark = time.time_ns()
        process = self.start("-q", *constant)
        self.await_lines(process, 20)
        process.kill()
        process.wait()
        process.communicate()
        step = int(os.path.basename(snapshots(self.run_folder)[-1])[5:13])
        self.mark = time.time_ns()
        process = self.start("-q", "--resume", "--set", "optimizer.adam.lr=0.01")
        self.await_lines(process, 15)
        process.kill()
        process.wait()
        process.communicate()
        self.run_program("-q", "--resume", "--set", "train.steps=400")
        self.assertEqual(self.changes(), {step + 1: {"optimizer.adam.lr": "0.01"}})
        rates = {line["lr"] for line in read_lines(self.run_folder) if line["event"] == "step" and line["step"] > step}
        self.assertEqual(rates, {0.01})
        self.assertEqual([line["lr"] for line in read_lines(self.run_folder) if line["event"] == "step"][10:step], [0.001] * (step - 10))
        self.expect_repeated()
        # From its end: the end is where it was set to be, and only the rate is a change.
        self.run_program("-q", "--resume", "--set", "train.steps=420", "--set", "optimizer.adam.lr=0.005")
        self.assertEqual(self.changes(), {step + 1: {"optimizer.adam.lr": "0.01"}, 401: {"optimizer.adam.lr": "0.005"}})
        self.expect_repeated()
        out, _ = self.run_program("--resume")
        self.assertIn("nothing is left to do: the run has done 420 of 420 steps", out)

    def expect_resumed_from_each(self):
        """config.yaml, run from the start with every snapshot kept: from each of them the run ends in the same way."""
        whole = self.run_folder
        config, repeated = os.path.join(whole, "config.yaml"), whole + "-repeated"
        self.addCleanup(shutil.rmtree, repeated, ignore_errors=True)
        keep = read(config).partition(b"  keep: ")[2].split()[0].decode()
        command = [OPTIONS.program, "-q", "-o", repeated, config]
        subprocess.run([*command, "--force", "--set", "train.keep=100"], check=True)
        kept = snapshots(repeated)
        self.assertGreater(len(kept), 4)
        for newest in reversed(kept):
            for path in snapshots(repeated):
                if path > newest:
                    os.unlink(path)
            subprocess.run([*command, "--resume", "--set", "train.keep=100"], check=True)
            self.assertEqual(results(repeated), results(whole))
            for name in ("model.safetensors", "config.yaml"):
                made = read(os.path.join(repeated, name)).replace(b"  keep: 100\n", b"  keep: %s\n" % keep.encode())
                self.assertEqual(made, read(os.path.join(whole, name)), newest)

    def test_a_change_before_the_next_snapshot(self):
        """--set stays in force if the resumed run is killed before a snapshot is due."""
        self.run_program("-q", "--set", "train.steps=10")
        self.mark = time.time_ns()
        process = self.start("-q", "--resume", "--set", "train={epochs: 40, save_every: 1000}", "--set", "optimizer.adam.lr=0.01")
        self.await_lines(process, 3)
        process.kill()
        process.wait()
        process.communicate()
        self.assertEqual(os.path.basename(snapshots(self.run_folder)[-1]), "step-00000010.safetensors")
        self.run_program("-q", "--resume", "--set", "train.steps=20")
        self.assertEqual(self.changes()[11]["optimizer.adam.lr"], "0.01")
        self.expect_repeated()

    def test_what_was_set_stays_in_force(self):
        """Also what changes no number, when the run began and on resuming; an edit of the file changes it."""
        def expect(*lines):
            text = read(os.path.join(self.run_folder, "config.yaml")).decode()
            for line in lines:
                self.assertIn("\n  %s\n" % line, text)
            self.assertEqual(text.count("checkpoint: false"), 1)
        kept = ["keep: 4", "threads: 2", "eval_every: 3"]
        self.run_program("-q", "--set", "train.steps=10", "--set", "train.save_every=2", "--set", "train.keep=4", "--set", "data.threads=2",
                         "--set", "train.eval_every=3", "--set", "model.layers.0.conv.checkpoint=false")
        self.run_program("-q", "--resume", "--set", "train.steps=14")
        expect("save_every: 2", *kept)
        self.assertEqual([int(os.path.basename(path)[5:13]) for path in snapshots(self.run_folder)], [8, 10, 12, 14])
        self.run_program("-q", "--resume", "--set", "train.steps=16", "--set", "train.save_every=5 minutes")
        self.run_program("-q", "--resume", "--set", "train.steps=18")
        expect("save_every: 5 minutes", *kept)
        path = os.path.join(self.folder, "c.yaml")
        text = read(path)
        def write(content):
            with open(path, "wb") as file:
                file.write(content)
        self.addCleanup(write, text)
        write(text.replace(b"keep: 3", b"keep: 1"))
        self.run_program("-q", "--resume", "--set", "train.steps=20")
        expect("save_every: 5 minutes", "keep: 1", *kept[1:])
        self.assertEqual(len(snapshots(self.run_folder)), 1)

    def test_auto_is_resolved_after_a_change(self):
        """If the change leaves the stages as they are, config.yaml names their layers."""
        self.run_program("-q", "--set", "train.steps=10")
        self.run_program("-q", "--resume", "--set", "train.steps=12", "--set", "pipeline.micro_batches=2",
                         "--set", "pipeline.devices=[cpu, cpu, cpu]", "--set", "pipeline.balance=auto")
        self.assertRegex(read(os.path.join(self.run_folder, "config.yaml")).decode(), r"\n  balance: \[\d, \d, \d\]\n")
        self.expect_repeated()

    def test_states_that_come_and_go(self):
        """Momentum from a step on begins with zeros; without it the state is gone. Drop_last, transforms, clipping, decay."""
        self.run_program("-q", "--set", "optimizer={sgd: 0.02}", "--set", "train.steps=9")
        for steps, *settings in ((14, "optimizer.sgd={lr: 0.02, momentum: 0.9}"), (19, "optimizer.sgd.momentum=0", "data.drop_last=true"),
                                 (24, "optimizer.clip_norm=0.5", "data.batch=50", "optimizer.lr_schedule={step: {every: 2 epochs, gamma: 0.5}}"),
                                 (30, "optimizer.sgd.weight_decay=0.1", "data.train.transform=[random_horizontal_flip]", "data.batch=9",
                                  "model.layers.5.dropout=0.5", "train.eval_every=2 epochs", "optimizer.warmup=28")):
            words = [word for setting in settings for word in ("--set", setting)]
            self.run_program("-q", "--resume", "--set", "train.steps=%d" % steps, "--set", "optimizer={sgd: {lr: 0.02}}", *words)
        self.expect_repeated()
        self.expect_resumed_from_each()

    def test_set_names_keys_of_the_run(self):
        """Not those of the file, where the run began with another optimizer, or the file says it in short."""
        self.run_program("-q", "--set", "optimizer={sgd: 0.02}", "--set", "train.steps=9")
        self.run_program("-q", "--resume", "--set", "optimizer.sgd.momentum=0.9", "--set", "train.steps=12")
        self.run_program("-q", "--resume", "--set", "optimizer.sgd.lr=0.01", "--set", "train.steps=15", *any_cut(self.rng))
        self.assertEqual(self.changes(), {10: {"optimizer.sgd.momentum": "0.9"}, 13: {"optimizer.sgd.lr": "0.01"}})
        self.expect_repeated()
        self.run_program("--resume", "--set", "optimizer.sgd.lrr=1", status=2,
                         err='gpipe-train: --set optimizer.sgd.lrr=1: optimizer.sgd: unknown key "lrr"; did you mean lr?\n')
        self.run_program("--resume", "--set", "data.batch=many", status=2,
                         err='gpipe-train: --set data.batch=many: data.batch: "many" is not an integer\n')

    def test_other_keys_of_the_pipeline_leave_the_cut(self):
        """Devices and schedule that --set named once stay when --set names another key of the pipeline."""
        cut = ["--set", "pipeline={devices: [[cpu, cpu], cpu], balance: [3, 5], schedule: 1f1b, micro_batches: 2}"]
        self.run_program("-q", "--set", "train={steps: 2, save_every: 2}", "--set", "data.drop_last=true", *cut)
        for step, key in enumerate(("timeout=30", "checkpoint=never", "shard_optimizer=true"), 3):
            out, _ = self.run_program("--resume", "--set", "train={steps: %d, save_every: 1}" % step, "--set", "pipeline." + key)
            self.assertNotIn("pipeline.devices is", out)
            with open(os.path.join(self.run_folder, "plan.json")) as file:
                plan = json.load(file)
            self.assertEqual((len(plan["workers"]), plan["schedule"]), (3, "1f1b"), key)

    def test_rules_of_names_with_dots(self):
        """No path of a change leads to "enc.a": the rules change as a whole. In the file they may not change."""
        layers = "model.layers.0={conv: {out: 8, kernel: 3, pad: 1, name: enc.a}}"
        named = ["-q", "--set", layers, "--set", "pipeline.balance=auto", "--set", "optimizer={sgd: 0.02}", "--set"]
        self.run_program(*named, "train.steps=9", "--set", "model.rules={enc.a: {freeze: false}}")
        self.run_program("--resume", *named, "train.steps=12", "--set", "model.rules={enc.a: {freeze: true}}")
        frozen = read(os.path.join(self.run_folder, "config.yaml")).decode().partition("\nchanges:\n")[2]
        self.assertIn("  10:\n    model.rules:\n      enc.a:\n        freeze: true\n", frozen)
        self.expect_repeated()
        self.run_program("--resume", *named, "train.steps=15", "--set", "model.rules={enc.a: {freeze: true}, '*.b': {}}", status=2, err=None)

    def test_a_change_of_the_file(self):
        """By hand, to the same bits as on resuming; a resumed run keeps what is still to come."""
        path = os.path.join(self.folder, "changing.yaml")
        with open(path, "w") as file:
            file.write(self.config + "changes:\n  25: {data.batch: 5}\n  12:\n    optimizer.adam.lr: 0.002\n    data.batch: 32\n")
        def run(folder, *more):
            process = subprocess.run([OPTIONS.program, "-q", "-o", folder, path, "--set", "train.epochs=10", *more], cwd=self.folder,
                                     capture_output=True, text=True)
            self.assertEqual((process.returncode, process.stderr), (0, ""))
        run(self.run_folder)
        samples = [line["samples"] for line in read_lines(self.run_folder) if line["event"] == "step"]
        self.assertEqual(sum(samples), 500)
        self.assertEqual(samples[:12], [16, 16, 16, 2] * 2 + [16, 16, 16, 2])
        self.assertEqual(samples[11:13], [2, 32])
        resumed = self.run_folder + "-resumed"
        self.addCleanup(shutil.rmtree, resumed, ignore_errors=True)
        shutil.copytree(self.run_folder, resumed)
        for kept in snapshots(resumed)[1:]:
            os.remove(kept)
        run(resumed, "--resume")
        self.assertEqual(results(resumed), results(self.run_folder))
        self.assertEqual(read(os.path.join(resumed, "model.safetensors")), read(os.path.join(self.run_folder, "model.safetensors")))
        self.assertEqual(read(os.path.join(resumed, "config.yaml")), read(os.path.join(self.run_folder, "config.yaml")))
        with open(path, "a") as file:
            file.write("  400: {data.batch: 5}\n")
        process = subprocess.run([OPTIONS.program, "-q", "-o", resumed, path, "--resume", "--set", "train.epochs=10"], cwd=self.folder,
                                 capture_output=True, text=True)
        self.assertEqual(process.returncode, 2)
        self.assertRegex(process.stderr, r"^gpipe-train: --resume: changes is not as in the run of \S+; write it as it was, or remove it "
                         r"from the file\n$")

    def test_changes_that_cannot_be(self):
        """All configurations are looked at before the run begins, and the folder stays away."""
        path = os.path.join(self.folder, "changing.yaml")
        line = self.config.count("\n") + 1
        for change, steps, sentence in (
            ("31: {optimizer.adam.lr: 1}", 30, "%d:11: changes: step 31 is after the end of the run, step 30"),
            ("31: {train.steps: 31}", 30, None),
            ("20: {pipeline.schedule: 1f1b}", 30, "%d:11: changes.20: pipeline.schedule cannot change from gpipe to 1f1b within "
             "a run: gpipe adds up gradients from the last micro-batch to the first, and 1f1b from the first to the last"),
            ("20: {model.layers.7.linear.out: 4}", 30,
             "%d:11: changes.20: the shapes of the model cannot change within a run: 7.weight [4, 128] was 7.weight [3, 128]"),
            ("20: {data.batch: 16}, 25: {pipeline.devices: [{cpu: {memory: 1KiB}}]}", 30, r"%d:33: changes\.25: changing.yaml:%d:58: the plan does "
             r"not fit: worker 0 needs "),
            ("20: {data.drop_last: true, data.batch: 51}", 30, "%d:11: changes\.20: .*drop_last leaves out what is not full: "
             "nothing is left to train on$"),
        ):
            with self.subTest(change=change):
                with open(path, "w") as file:
                    file.write(self.config + "changes: {%s}\n" % change)
                arguments = ["--set", "train.steps=%d" % steps, "--set", "data.batch=4"]
                process = subprocess.run([OPTIONS.program, "-q", "-o", self.run_folder, "changing.yaml", *arguments], cwd=self.folder,
                                         capture_output=True, text=True)
                self.assertEqual(process.returncode, 2 if sentence else 0, process.stderr)
                if not sentence:
                    shutil.rmtree(self.run_folder)
                    continue
                pattern = sentence.replace("%d", str(line)) if "\\" in sentence else re.escape(sentence % line) + r"\n$"
                self.assertRegex(process.stderr, r"^gpipe-train: changing\.yaml:" + pattern)
                self.assertFalse(os.path.exists(self.run_folder))

    def test_what_a_snapshot_says(self):
        self.run_program("-q", *CONSTANT, "--set", "train.steps=10")
        content = read(snapshots(self.run_folder)[-1])
        about = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        self.assertEqual((about["snapshot"], about["step"], about["epoch"], about["samples"], about["steps"], about["due"]),
                         ("2", "10", "3", "32", "10", "0"))
        self.assertIn("micro_batches: 4", about["file"])

    def write_data(self, name, count):
        x, y = [float(n % 7) for n in range(count * 32)], [n % 3 for n in range(count)]
        write_tensors(os.path.join(self.folder, name), x=("F32", [count, 2, 4, 4], array.array("f", x).tobytes()),
                      y=("I64", [count], array.array("q", y).tobytes()))

    def test_other_data(self):
        """A file that has another number of samples now is refused, unless --set names the data."""
        config = "\n".join("  %s: {tensors: %s}" % it for it in (("train", "t.safetensors"), ("eval", "e.safetensors")))
        with open(os.path.join(self.folder, "c.yaml")) as file:
            text = file.read()
        kept = re.sub(r"(?m)^  (train|eval): \{tensors.*\n", "", text).replace("data:\n", "data:\n" + config + "\n")
        self.assertEqual(kept.count("tensors:"), 2)
        with open(os.path.join(self.folder, "o.yaml"), "w") as file:
            file.write(kept)

        def run(*arguments, **options):
            process = subprocess.run([OPTIONS.program, "-q", "-o", self.run_folder, "o.yaml", *arguments], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            return process.returncode, process.stderr.replace(self.folder + "/", "")

        more = ["--set", "train.epochs=9", "--resume"]
        for source, name, count, other in (("train", "t.safetensors", 40, 13), ("eval", "e.safetensors", 9, 8)):
            self.write_data("t.safetensors", 40)
            self.write_data("e.safetensors", 9)
            self.assertEqual(run("--force", "--set", "train.epochs=3"), (0, ""))
            newest = os.path.basename(snapshots(self.run_folder)[-1])
            self.write_data(name, other)
            status, said = run(*more, "--set", "data.train.transform=[random_vertical_flip]")  # names no data
            self.assertEqual(status, 1)
            self.assertRegex(said, r"\Agpipe-train: o\.yaml: data\.%s has %d samples, but had %d when \S+/%s was written; to go on "
                             r"with these data all the same, name them again with --set data\.%s\.…\n\Z" % (source, other, count, re.escape(newest), source))
            self.assertEqual(run(*more, "--set", "data.%s.tensors=%s" % (source, name))[0], 0)

    def test_a_schedule_file_that_changed_in_place(self):
        """Another order of computations is taken; another order of sums is refused, since the bits would change."""
        path = os.path.join(self.folder, "order")
        more = ["-q", *CONSTANT, "--set", "pipeline.schedule={file: order}", "--set", "pipeline.balance=[3, 5]", "--set"]

        def write(order):
            with open(path, "w") as file:
                file.write(2 * (order + "\n"))
        write("F0 F1 F2 F3 B0 B1 B2 B3")
        self.run_program(*more, "train.steps=10")
        write("F0 F1 F2 F3 B3 B2 B1 B0")
        newest = os.path.relpath(snapshots(self.run_folder)[-1], self.folder)
        self.run_program(*more, "train.steps=20", "--resume", status=2, err=(
            "gpipe-train: c.yaml: pipeline.schedule: order adds up gradients from the last micro-batch to the first, but did so "
            "from the first micro-batch to the last when %s was written: the order of sums cannot change within a run\n" % newest))
        write("F0 F1 B0 F2 B1 F3 B2 B3")
        self.run_program(*more, "train.steps=20", "--resume")
        self.expect_as_forced(*more, "train.steps=20")

    def libraries(self):
        content = read(snapshots(self.run_folder)[-1])
        return json.loads(content[8:8 + int.from_bytes(content[:8], "little")])["__metadata__"]["libraries"]

    def test_another_instruction_set(self):
        """A snapshot says what computed it; a run that goes on with something else says so, and goes on."""
        steps = ["-q", *CONSTANT, "--set"]
        self.run_program(*steps, "train.steps=10", environment={"ONEDNN_MAX_CPU_ISA": "SSE41"})
        before = self.libraries()
        self.assertRegex(before, r"^oneDNN \d+\.\d+\.\d+ with SSE4\.1, convolutions \d+$")
        for number, isa in enumerate(["AVX", "AVX2", "DEFAULT"]):
            _, errors = self.run_program(*steps, "train.steps=%d" % (14 + 4 * number), "--resume", err=None,
                                         environment={"ONEDNN_MAX_CPU_ISA": isa})
            now = self.libraries()
            said = ("gpipe-train: warning: the snapshot was written with %s, and the run goes on with %s: sums may differ in "
                    "their last digits from those of a run that was not interrupted\n" % (before, now))
            self.assertEqual(errors, "" if before == now else said)
            if isa == "AVX":  # its rows in the table are those of SSE4.1
                self.assertIn(" with AVX, ", now)
            before = now
        self.run_program(*steps, "train.steps=26", "--resume")  # nothing is other then

    def test_a_snapshot_that_says_no_libraries(self):
        """Older programs wrote such ones, and computed convolutions in another way."""
        steps = ["-q", *CONSTANT, "--set"]
        self.run_program(*steps, "train.steps=10")
        path = snapshots(self.run_folder)[-1]
        content = read(path)
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        del header["__metadata__"]["libraries"]
        digits = header["__metadata__"]["xxh3-128"]
        header = json.dumps(header, separators=(",", ":")).encode()
        header += b" " * (-len(header) % 8)
        new = len(header).to_bytes(8, "little") + header + content[end:]
        with open(path, "wb") as file:
            file.write(new.replace(digits.encode(), xxh3_128(new.replace(digits.encode(), b"0" * 32)).encode(), 1))
        _, errors = self.run_program(*steps, "train.steps=14", "--resume", err=None)
        self.assertEqual(errors, "gpipe-train: warning: the snapshot is from an older version, which may have computed in another way: "
                                 "sums may differ in their last digits from those of a run that was not interrupted\n")

    def test_a_finished_run(self):
        """Has nothing left to do, and stays as it is; it goes on where the end moves."""
        shutil.copytree(self.alone, self.run_folder)
        name = os.path.relpath(self.run_folder, self.folder)
        def content():
            return {os.path.join(where, file): (read(os.path.join(where, file)), os.stat(os.path.join(where, file)).st_mtime_ns)
                    for where, _, files in os.walk(self.run_folder) for file in files}
        before = content()
        out, _ = self.run_program("--resume")
        self.assertTrue(out.endswith("%s: nothing is left to do: the run has done 160 of 160 steps; to train on, raise train.steps or train.epochs with --set\n" % name), out)
        self.run_program("--resume", "--set", "train.epochs=1", "-q")
        self.assertEqual(content(), before)
        # What was killed between its last snapshot and its model has that to do.
        os.remove(os.path.join(self.run_folder, "model.safetensors"))
        self.run_program("--resume")
        self.expect_as_alone()
        # And what was killed while it wrote the last line of its metrics.
        metrics = os.path.join(self.run_folder, "metrics.jsonl")
        os.truncate(metrics, os.path.getsize(metrics) - 100)
        self.run_program("--resume")
        self.expect_as_alone()
        self.assertEqual(json.loads(read(metrics).splitlines()[-1])["status"], "done")
        self.assertIn("nothing is left", self.run_program("--resume")[0])
        shutil.rmtree(self.run_folder)
        self.run_program(*CONSTANT, "--set", "train.epochs=2")
        self.run_program(*CONSTANT, "--set", "train.epochs=4", "--resume")
        self.expect_as_forced(*CONSTANT, "--set", "train.epochs=4")

    DEFAULT = ["-q", "--set", "optimizer={adam: 0.001}", "--set"]

    def test_snapshots_by_default(self):
        """One beside the first best model and one of the end, from which the run goes on; `never` leaves none."""
        self.run_program(*self.DEFAULT, "train={epochs: 2}")
        self.assertEqual([os.path.basename(path) for path in snapshots(self.run_folder)],
                         ["step-00000004.safetensors", "step-00000008.safetensors"])
        self.assertIn("\n  save_every: about 10 minutes\n  keep: 2\n", read(os.path.join(self.run_folder, "config.yaml")).decode())
        self.run_program(*self.DEFAULT, "train={epochs: 4}", "--resume")
        self.expect_as_forced(*self.DEFAULT, "train={epochs: 4}")
        shutil.rmtree(self.run_folder)
        self.run_program(*self.DEFAULT, "train={epochs: 2, save_every: never}")
        self.assertFalse(os.path.exists(os.path.join(self.run_folder, "snapshots")))
        name = os.path.relpath(self.run_folder, self.folder)
        for left in ("model.safetensors", "best.safetensors"):
            path = os.path.join(name, left)
            before = read(os.path.join(self.run_folder, left))
            self.run_program(*self.DEFAULT, "train={epochs: 2}", "--resume", status=2,
                             err="gpipe-train: %s has a model (%s) but no snapshot to go on from; to train on from the model, without the "
                             "optimizer's state: -o ANOTHER --set train.init=%s; to begin again: --force\n" % (name, left, path))
            self.assertEqual(read(os.path.join(self.run_folder, left)), before)
            os.remove(os.path.join(self.run_folder, left))

    def test_resumed_before_there_is_a_snapshot(self):
        """One command serves a job that is started again: without a folder, and after a kill before the first snapshot."""
        name = os.path.relpath(self.run_folder, self.folder)
        begins = "%s has no snapshot to go on from: the run begins at step 1\n" % self.run_folder
        def without_cause(out):
            return re.sub(r"the parent process ignores SIGINT.*\n", "", out)
        self.run_program("--resume", "--set", "optimizer.adam.lrr=1", status=2, err=None)
        self.run_program("--resume", "--set", "optimizer.sgd.momentum=0.9", status=2, err=None)  # the file has another optimizer
        self.assertFalse(os.path.exists(self.run_folder))
        never = ["--set", "train={epochs: 40, keep: 3, save_every: 1000000, eval_every: 1000000}"]
        for _ in range(2):
            self.mark = time.time_ns()
            process = self.start("--resume", *never)
            self.await_lines(process, 3)
            process.kill()
            out, _ = process.communicate()
            self.assertTrue(without_cause(out).startswith(begins), out)
        self.assertIn("config.yaml", os.listdir(self.run_folder))
        out, _ = self.run_program("--resume")
        self.assertTrue(without_cause(out).startswith(begins), out)
        self.expect_as_alone()
        self.assertIn("nothing is left to do", self.run_program("--resume")[0])

    def test_what_no_run_has_left(self):
        """It stays, with --resume too."""
        os.mkdir(self.run_folder)
        def put(name, content):
            path = os.path.join(self.run_folder, name)
            with open(path, "w") as file:
                file.write(content)
            return path
        of_a_run = "# gpipe-train 0.1.0: the configuration as it ran\n"
        for files in ({"config.yaml": "mine\n"}, {"metrics.jsonl": ""}, {"plan.json": "{}"}, {"config.yaml": of_a_run, "metrics.jsonl": "mine\n"}):
            paths = [put(name, content) for name, content in files.items()]
            _, err = self.run_program("--resume", status=2, err=None)
            self.assertRegex(err, r"^gpipe-train: \S+ has no snapshot to go on from, and what it holds \(%s\) was not left by a run: "
                             r"choose another folder with -o, or replace it with --force\n$" % "|".join(map(re.escape, files)))
            self.assertEqual({os.path.basename(path): read(path).decode() for path in paths}, files)
            for path in paths:
                os.remove(path)
        thesis = put("thesis.tex", "mine\n")
        put("config.yaml", of_a_run)
        put("metrics.jsonl", '{"eve')
        self.run_program("-q", "--resume")
        self.assertEqual(read(thesis), b"mine\n")
        os.remove(thesis)
        self.expect_as_alone()

    def test_killed_before_the_best_model_is_written(self):
        """The snapshot of that step has it."""
        self.run_program(*CONSTANT, "--set", "train.steps=4")
        path = os.path.join(self.run_folder, "best.safetensors")
        best = read(path)
        def damage():
            with open(path, "r+b") as file:
                file.truncate(len(best) - 1)
        for put in (lambda: os.remove(path), damage):
            put()
            os.remove(os.path.join(self.run_folder, "model.safetensors"))
            self.run_program(*CONSTANT, "--set", "train.steps=4", "--resume")
            self.assertEqual(read(path), best)
        shutil.copy(os.path.join(self.alone, "best.safetensors"), path)  # of a later step: better, and the run comes by there again
        later = read(path)
        os.remove(os.path.join(self.run_folder, "model.safetensors"))
        _, err = self.run_program(*CONSTANT, "--set", "train.steps=4", "--resume", err=None)
        self.assertIn("/best.safetensors is not the model of step 4, whose evaluation is the run's best\n", err)
        self.assertEqual(read(path), later)

    def test_a_model_of_another_step(self):
        """It is not the finished run's, whether an earlier end left it there or a later one: it is written again."""
        path = os.path.join(self.run_folder, "model.safetensors")
        models = []
        for steps in (14, 21):
            self.run_program(*CONSTANT, "--set", "train.steps=%d" % steps, "--resume" if models else "--force")
            models.append(read(path))
        first = snapshots(self.run_folder)[0]  # of step 14 too
        self.assertTrue(first.endswith("07.safetensors"), first)
        def put(content):
            with open(path, "wb") as file:
                file.write(content)
        put(models[0])
        out, _ = self.run_program(*CONSTANT[1:], "--resume", "--set", "train.steps=21")
        self.assertNotIn("nothing is left", out)
        self.assertEqual(read(path), models[1])
        os.remove(snapshots(self.run_folder)[-1])  # as where it could not be written
        out, _ = self.run_program(*CONSTANT[1:], "--resume", "--set", "train.steps=14", err=None)
        self.assertNotIn("nothing is left", out)
        self.assertEqual(read(path), models[0])
        for broken in (b"", models[0][:-1]):
            put(broken)
            self.run_program(*CONSTANT[1:], "--resume", "--set", "train.steps=14", err=None)
            self.assertEqual(read(path), models[0])
        out, _ = self.run_program(*CONSTANT[1:], "--resume", "--set", "train.steps=14")
        self.assertIn("nothing is left", out)

    def test_a_snapshot_that_cannot_be_opened(self):
        """Nothing is known of it: the program ends, and removes nothing."""
        self.run_program(*CONSTANT, "--set", "train.steps=21")
        newest = snapshots(self.run_folder)[-1]
        os.rename(newest, newest + ".kept")
        os.symlink(newest, newest)  # leads to itself
        before = snapshots(self.run_folder)
        for _ in range(2):
            self.run_program(*CONSTANT, "--resume", status=1, err="gpipe-train: %s: cannot be opened: Too many levels of symbolic links\n" %
                             os.path.relpath(newest, self.folder))
            self.assertEqual(snapshots(self.run_folder), before)
        os.rename(newest + ".kept", newest)
        self.run_program(*CONSTANT, "--resume", "--set", "train.steps=28")
        self.expect_as_forced(*CONSTANT, "--set", "train.steps=28")

    def test_a_run_that_failed_by_its_numbers(self):
        """Resumed it would fail again, and nobody is sent there."""
        out, err = self.run_program("--set", "optimizer={sgd: 1e30}", status=1, err=None)
        self.assertIn("the loss is not a number", err)
        self.assertTrue(out.endswith("stopped after 1 of 160 steps; model and snapshot saved in %s\n" % self.run_folder), out)

    def test_a_best_model_of_another_evaluation(self):
        """Its run was killed behind its snapshot: what is written again is well, and what is not is said."""
        steps = [*CONSTANT, "--set", "train.steps=14"]
        self.run_program(*steps)
        path = os.path.join(self.run_folder, "best.safetensors")
        best = read(path)
        first, _, last = snapshots(self.run_folder)
        os.remove(last)
        self.run_program(*steps, "--resume")
        self.assertEqual(read(path), best)
        name = os.path.relpath(self.run_folder, self.folder)
        for put in (lambda: shutil.copy(first, path), lambda: os.remove(path)):
            put()
            os.remove(os.path.join(self.run_folder, "model.safetensors"))  # which is left to write
            _, err = self.run_program(*steps, "--resume", err=None)
            self.assertRegex(err, r"^gpipe-train: warning: \S*%s/best.safetensors is not the model of step \d+, whose "
                             r"evaluation is the run's best\n$" % name)

    def test_an_init_that_is_gone(self):
        """A run that goes on needs it no more."""
        init = os.path.join(self.folder, "init.safetensors")
        shutil.copy(os.path.join(self.alone, "model.safetensors"), init)
        begun = [*CONSTANT, "--set", "train.init=" + init]
        self.run_program(*begun, "--set", "train.steps=14")
        os.rename(init, init + ".kept")
        self.run_program(*begun, "--resume", "--set", "train.steps=21")
        os.rename(init + ".kept", init)
        self.expect_as_forced(*begun, "--set", "train.steps=21")

    def test_metrics_that_are_gone(self):
        self.interrupt(signal.SIGTERM, 40, *CONSTANT)
        path = os.path.join(self.run_folder, "metrics.jsonl")
        whole = read(path)
        name = os.path.relpath(self.run_folder, self.folder)
        warning = "gpipe-train: warning: %s/metrics.jsonl lacks lines of steps before the snapshot\n" % name
        with open(path, "wb") as file:
            file.write(whole[:500])  # in the middle of a line
        kept = whole[:500].rindex(b"\n") + 1
        self.run_program("--resume", *CONSTANT, "--set", "train.steps=60", err=warning)
        self.assertTrue(read(path).startswith(whole[:kept] + b'{"event":"resume","step":'))
        os.remove(path)
        self.run_program("--resume", *CONSTANT, "--set", "train.steps=80", err=warning)
        self.assertTrue(read(path).startswith(b'{"event":"resume","step":60,'))
        self.expect_as_forced(*CONSTANT, "--set", "train.steps=80")

    def test_metrics_are_cut_back(self):
        """Lines of steps behind the snapshot go, also where the resumed run does not get so far."""
        self.run_program(*CONSTANT, "--set", "train.steps=40")
        for path in snapshots(self.run_folder)[1:]:
            os.remove(path)
        self.run_program(*CONSTANT, "--set", "train.steps=30", "--resume")
        resumed = results(self.run_folder)
        self.assertEqual([line["step"] for line in resumed if line["event"] == "step"], list(range(1, 31)))
        self.assertEqual([line["event"] for line in read_lines(self.run_folder)].count("end"), 1)
        self.expect_as_forced(*CONSTANT, "--set", "train.steps=30")
        self.assertEqual(results(self.run_folder), resumed)

    def test_the_old_snapshot_is_closed(self):
        """So that its disk space is free once it is removed."""
        self.run_program("-q", "--set", "train={steps: 4, save_every: 4}")
        before = self.lines_written()
        process = self.start("-q", "--resume", "--set", "train={steps: 1000000, save_every: 1000000}")
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        start = time.monotonic()
        while self.lines_written() < before + 9:
            self.assertLess(time.monotonic() - start, PATIENCE)
            self.assertIsNone(process.poll())
            time.sleep(0.001)
        files = "/proc/%d/fd" % process.pid
        opened = []
        for name in os.listdir(files):
            with contextlib.suppress(FileNotFoundError):  # closed just now
                opened.append(os.readlink(os.path.join(files, name)))
        self.assertIn(os.path.join(os.path.realpath(self.run_folder), "metrics.jsonl"), opened)
        self.assertEqual([name for name in opened if "/snapshots/" in name], [])

    def test_files_that_are_no_snapshots(self):
        within = os.path.join(self.run_folder, "snapshots")
        os.makedirs(within)
        for name in ("step-1.safetensors", "step-0000000001.safetensors", "step-00000001.safetensors.old",
                     "step-00000001.safetensors.tmp-1-0", "step-0000000x.safetensors", "a-step-00000001.safetensors",
                     "step-9999999999999999999.safetensors"):
            shutil.copy(snapshots(self.alone)[0], os.path.join(within, name))
        self.run_program("--resume", status=2, err="gpipe-train: %s has no snapshot to go on from, and what it holds (snapshots) was not "
                         "left by a run: choose another folder with -o, or replace it with --force\n"
                         % os.path.relpath(self.run_folder, self.folder))

    def test_snapshots_that_cannot_be_written(self):
        """They are larger than the model: a limit between the two lets it be written, and nothing else is lost."""
        skip_under_tsan(self, OPTIONS.program, OWN_FILES)
        model = os.path.getsize(os.path.join(self.alone, "best.safetensors"))
        self.assertLess(model + 2000, os.path.getsize(snapshots(self.alone)[0]))
        alone = ["--set", "pipeline={devices: [cpu]}"]  # plan.json is smaller than the model, too
        small = [*alone, "--set", "train={steps: 21, save_every: 7}"]
        _, err = self.run_program(*small, err=None, prepare=lambda: limit_files(OPTIONS.program, model + 1000))
        warnings = err.splitlines()
        for line in warnings:
            self.assertRegex(line, r"^gpipe-train: warning: no snapshot (of the end )?was written: "
                             r"\S+/step-\d{8}.safetensors.tmp-\d+-0: cannot be written: File too large")
        self.assertEqual(len(warnings), 4)  # of the first best model, steps 7 and 14, and the end
        self.assertEqual(os.listdir(os.path.join(self.run_folder, "snapshots")), [])
        # Nor does a change at a step need one.
        _, err = self.run_program("--force", *alone, "--set", "train={steps: 21, save_every: never}", "--set", "changes={9: {optimizer.adam.lr: 0.01}}",
                                  err=None, prepare=lambda: limit_files(OPTIONS.program, model + 1000))
        self.assertRegex(err, r"^gpipe-train: warning: no snapshot was written before the change at step 9: \S+: cannot be written: .*; "
                         r"the run goes on\n$")
        # An interrupted run is not saved without one.
        self.mark = time.time_ns()
        limit = os.path.getsize(snapshots(self.alone)[0]) - 1000
        process = self.start("--force", *alone, "--set", "train={steps: 4000000000, save_every: never}", prepare=lambda: limit_files(OPTIONS.program, limit))
        self.await_lines(process, 2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertRegex(err, r"^gpipe-train: interrupted after step \d+, and no snapshot was written: \S+: cannot be written: File too "
                         r"large; raise the limit on the size of files \(ulimit -f\)\n$")
        self.assertEqual(process.returncode, 1)
        # Later ones are written where there is room again.
        self.run_program(*small, "--force")
        self.assertEqual(len(snapshots(self.run_folder)), 2)

    def test_a_model_that_cannot_be_written(self):
        """The snapshot stands and is named; --resume has the model left to write."""
        self.run_program(*CONSTANT, "--set", "train.steps=21")
        def take_names():  # in the process that becomes the program
            for n in range(100):
                os.mkdir(os.path.join(self.run_folder, "model.safetensors.tmp-%d-%d" % (os.getpid(), n)))
        _, err = self.run_program(*CONSTANT, "--resume", "--set", "train.steps=30", status=1, err=None, prepare=take_names)
        self.assertRegex(err, r"model.safetensors: 100 temporary files of other runs exist \(\S+\): remove those of runs that have ended; "
                         r"the snapshot of step 30 "
                         r"stands, and --resume goes on from it\n$")
        for name in os.listdir(self.run_folder):
            if ".tmp-" in name:
                os.rmdir(os.path.join(self.run_folder, name))
        self.run_program(*CONSTANT, "--resume", "--set", "train.steps=30")
        self.expect_as_forced(*CONSTANT, "--set", "train.steps=30")

    def test_space_for_the_snapshots_of_changes(self):
        """Each change writes one: they are counted before the run begins. Where nobody asked for snapshots they refuse no run."""
        os.mkdir(self.run_folder)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=110k", "none", self.run_folder], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.run_folder])
        usual = ["-q", "--set", "train={steps: 12, keep: 3, save_every: 1000}"]
        self.run_program(*usual)
        model = read(os.path.join(self.run_folder, "model.safetensors"))
        changes = ", ".join("%d: {data.batch: %d}" % (step, step) for step in range(4, 10))
        _, err = self.run_program(*usual, "--force", "--set", "changes={%s}" % changes, status=1, err=None)
        self.assertRegex(err, r"^gpipe-train: \S+: the run needs up to .*, 4 snapshots of \S+ KiB \(train\.keep: 3\)\)")
        for more in ([], ["--set", "changes={%s}" % changes]):
            _, err = self.run_program("-q", "--set", "train={steps: 12, keep: 3}", "--force", *more, err=None)
            self.assertRegex(err, r"^gpipe-train: warning: \S+: the run needs up to .*, 4 snapshots of \S+ KiB \(train\.keep: 3\)\): free \S+ "
                             r"KiB, choose a folder on another file system with -o, or set train.keep to \d; the run takes no snapshots, "
                             r"unless it is interrupted\n$")
            self.assertFalse(snapshots(self.run_folder))
            self.assertEqual(read(os.path.join(self.run_folder, "model.safetensors")) == model, not more)

    def test_a_full_disk(self):
        """A small file system that is full for a while: what was due then is missing, and nothing else."""
        os.mkdir(self.run_folder)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "none", self.run_folder], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.run_folder])
        self.mark = time.time_ns()
        process = self.start("-q")
        self.await_lines(process, 8)
        process.send_signal(signal.SIGSTOP)
        filler = os.path.join(self.run_folder, "filler")
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        process.send_signal(signal.SIGCONT)
        self.assertRegex(process.stderr.readline(), "No space left on device")
        os.remove(filler)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, errors)
        self.expect_as_alone()

    def test_a_folder_in_use(self):
        """Another program of ours is refused, whatever it wants there; the first goes on undisturbed."""
        self.mark = time.time_ns()
        process = self.start("-q")
        self.await_lines(process, 30)
        process.send_signal(signal.SIGSTOP)
        name = os.path.relpath(self.run_folder, self.folder)
        for option in (["--resume"], ["--force"], []):
            self.run_program(*option, status=2, err="gpipe-train: %s is in use by another gpipe-train: wait until it ends, "
                             "or choose another folder with -o\n" % name)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.communicate(timeout=PATIENCE), ("", ""))
        self.assertEqual(process.returncode, 0)
        self.expect_as_alone()

    def stopped(self):
        """A run of LINES, stopped between its first step and its end."""
        self.mark = time.time_ns()
        process = self.start("-q", *self.LINES)
        self.assertTrue(self.await_lines(process, 5))
        process.send_signal(signal.SIGSTOP)
        return process

    def test_the_folder_moves(self):
        """The run goes on in it, and not in what stands there now."""
        process = self.stopped()
        moved = self.move_folder()
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        self.expect_moved(moved, errors.splitlines())

    def test_the_folder_is_removed(self):
        """Nothing can be saved: the run fails, and makes no other folder."""
        for put in (False, True):
            process = self.stopped()
            shutil.rmtree(self.run_folder)
            if put:
                os.mkdir(self.run_folder)
            process.send_signal(signal.SIGCONT)
            out, errors = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, errors), (1, "gpipe-train: %s: the run folder was removed while the run went on: "
                                                            "nothing more can be saved\n" % self.run_folder))
            self.assertEqual(os.path.exists(self.run_folder), put)
            self.assertFalse(put and os.listdir(self.run_folder))

    def test_the_metrics_are_removed(self):
        """That is said once, and the lines to come are kept."""
        process = self.stopped()
        path = os.path.join(self.run_folder, "metrics.jsonl")
        os.remove(path)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        found = re.fullmatch(r"gpipe-train: warning: \S+/metrics.jsonl was removed after step (\d+): its lines are lost, and the run goes on in "
                             r"a new one\n", errors)
        self.assertTrue(found, errors)
        left = results(self.run_folder)
        self.assertEqual(left[0]["step"], int(found.group(1)) + 1)
        self.assertIn("step-%08d.safetensors" % int(found.group(1)), map(os.path.basename, snapshots(self.run_folder)))
        self.run_program("-q", "--force", *self.LINES)
        self.assertEqual(results(self.run_folder)[-len(left):], left)

    def test_the_metrics_are_replaced(self):
        """What somebody puts there stays, and the run ends well."""
        process = self.stopped()
        path = os.path.join(self.run_folder, "metrics.jsonl")
        shutil.copy(path, path + ".new")
        os.rename(path + ".new", path)
        theirs = read(path)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, errors.replace(self.folder + "/", "")),
                         (0, "gpipe-train: warning: %s/metrics.jsonl was replaced while the run went on: what is there now stays as it is, "
                          "and the lines of the run are lost; the run goes on\n" % os.path.basename(self.run_folder)))
        self.assertEqual(read(path), theirs)
        model = read(os.path.join(self.run_folder, "model.safetensors"))
        self.run_program("-q", "--force", *self.LINES)
        self.assertEqual(read(os.path.join(self.run_folder, "model.safetensors")), model)

    def test_metrics_that_began_anew_behind_a_snapshot(self):
        """Each step stands once, in its order, after a resume from a snapshot that knows only the file before."""
        self.run_program(*CONSTANT, "--set", "train.steps=40")
        older, _, _ = snapshots(self.run_folder)
        path = os.path.join(self.run_folder, "metrics.jsonl")
        lines = read(path).splitlines(keepends=True)
        for newer in snapshots(self.run_folder)[1:]:
            os.remove(newer)
        step = int(re.search(r"step-(\d+)", older).group(1))
        behind = [n for n, line in enumerate(lines) if json.loads(line).get("step", 0) > step][2]
        with open(path, "wb") as file:
            file.write(b"".join(lines[behind:]))
        name = os.path.relpath(self.run_folder, self.folder)
        self.run_program(*CONSTANT, "--set", "train.steps=40", "--resume",
                         err="gpipe-train: warning: %s/metrics.jsonl lacks lines of steps before the snapshot\n" % name)
        self.assertEqual([line["step"] for line in results(self.run_folder) if line["event"] == "step"], list(range(step + 1, 41)))

    def test_minutes(self):
        """So few of them pass in any step."""
        self.run_program("-q", "--set", "train={steps: 10, save_every: 0.000000001 minutes, keep: 100}")
        self.assertEqual(len(snapshots(self.run_folder)), 10)
        self.run_program("-q", "--force", "--set", "train={steps: 10, save_every: 1000 minutes, keep: 100}")
        self.assertEqual(len(snapshots(self.run_folder)), 2)  # of the first best model, and of the end

    def test_force_leaves_nothing_of_the_run_before(self):
        shutil.copytree(self.alone, self.run_folder)
        stale = [os.path.join(self.run_folder, name) for name in ("model.safetensors.tmp-1-0", "snapshots/step-00000001.safetensors.tmp-22-3")]
        for path in stale:
            open(path, "w").close()
        self.run_program("-q", "--force", "--set", "train={steps: 3, save_every: 2}")
        self.assertEqual([os.path.basename(path) for path in snapshots(self.run_folder)],
                         ["step-00000002.safetensors", "step-00000003.safetensors"])
        for path in stale:
            self.assertFalse(os.path.exists(path))

    def test_a_snapshot_is_a_model_to_begin_with(self):
        self.run_program("-q", "--set", "train={steps: 0, init: %s}" % snapshots(self.alone)[-1])
        def weights(folder):
            content = read(os.path.join(folder, "model.safetensors"))
            return content[8 + int.from_bytes(content[:8], "little"):]  # behind the header, which names the step
        self.assertEqual(weights(self.run_folder), weights(self.alone))


if __name__ == "__main__":
    main(Resume, damages={"type": int, "default": 8})
