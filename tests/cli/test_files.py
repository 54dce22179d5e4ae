"""Files that a run may not touch, and files that are none: what the programs remove, follow, write over and wait for.

    test_files.py GPIPE_TRAIN GPIPE_BALANCE [--faults LIBRARY] [GROUP[.TEST]…]

Without the library (faults.c), the test that stops the program at a call is skipped. Standard library only.
"""

import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import unittest

import test_cli
from test_cli import CONFIG, PATIENCE, Group, read_lines

TRAIN = BALANCE = FAULTS = None
QUICK = ["-q"]
ONE_STEP = CONFIG.replace("train: {epochs: 2}", "train: {steps: 1}").replace(
    "  eval: {tensors: d.safetensors, take: [50, 64]}\n", "")
SAVING = ["--set", "train.save_every=1"]


def content(path):
    with open(path, "rb") as file:
        return file.read()


class Files(Group):
    def setUp(self):
        super().setUp()
        self.write("c.yaml", ONE_STEP)
        # Profiles are kept in the folder of the test.
        os.environ["XDG_CACHE_HOME"] = self.path("cache")

    def fill(self, name, text="mine\n"):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        self.write(name, text)
        return self.path(name)

    def balance(self, *arguments):
        return subprocess.run([BALANCE, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE)

    def refused(self, arguments, sentence, status=2):
        """It ends with the sentence, and changes nothing."""
        before = self.everything()
        self.expect(arguments, status, "gpipe-train: %s\n" % sentence)
        self.assertEqual(self.everything(), before)

    def everything(self):
        """{path: what is there}, links by where they lead."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for path in [os.path.join(folder, name) for name in names]:
                found[path] = os.readlink(path) if os.path.islink(path) else content(path) if os.path.isfile(path) else None
        return found


class Temporary(Files):
    """Temporary files: only those of this program, of files that it writes there, of processes that are gone, are removed."""

    def test_only_names_of_the_run_are_removed(self):
        kept = [self.fill("run/" + name) for name in (
            "thesis.tmp-2024-11", "model.safetensors.tmp-2024-11.bak", "my-model.safetensors.tmp-1-0", "y.tmp-1-0",
            "metrics.tmp-1-0", "config.yaml.tmp-1", "config.yaml.tmp-01-0", "config.yaml.tmp-1-00", "config.yaml.tmp-1-100",
            ".visible-notes", ".visible-0123456789abcde", ".visible-0123456789abcdef.txt", ".visible-0123456789ABCDEF",
            "snapshots/thesis.tmp-2024-11", "snapshots/model.safetensors.tmp-1-0", "snapshots/step-1.safetensors.tmp-1-0")]
        gone = [self.fill("run/" + name) for name in (
            "model.safetensors.tmp-1-0", "best.safetensors.tmp-22-3", "config.yaml.tmp-4194304-99", "metrics.jsonl.tmp-1-0",
            "plan.json.tmp-7-0", ".visible-0123456789abcdef", "snapshots/step-00000001.safetensors.tmp-1-0")]
        os.rename(self.path("run/snapshots"), self.path("snapshots"))
        self.expect([*QUICK, "-o", "run", *SAVING, "c.yaml"], 0)
        os.rename(self.path("snapshots/step-00000001.safetensors.tmp-1-0"), gone[-1])
        for name in ("thesis.tmp-2024-11", "model.safetensors.tmp-1-0", "step-1.safetensors.tmp-1-0"):
            os.rename(self.path("snapshots/" + name), self.path("run/snapshots/" + name))
        self.expect([*QUICK, "-o", "run", "--force", *SAVING, "c.yaml"], 0)
        self.assertEqual([path for path in kept if not os.path.exists(path)], [])
        self.assertEqual([path for path in gone if os.path.exists(path)], [])

    def test_what_a_living_process_writes_stays(self):
        """Whatever its number is: here it is that of a process that is gone, as in another container."""
        path = self.fill("run/model.safetensors.tmp-1-0")
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.expect([*QUICK, "-o", "run", "c.yaml"], 0)
            self.assertTrue(os.path.exists(path))
        self.expect([*QUICK, "-o", "run", "--force", "c.yaml"], 0)
        self.assertFalse(os.path.exists(path))

    def test_an_input_of_such_a_name_stays(self):
        """Someone who rescues what a killed run left gives it as data."""
        data, before = self.path("run/model.safetensors.tmp-12-3"), content(self.path("d.safetensors"))
        os.mkdir(self.path("run"))
        os.rename(self.path("d.safetensors"), data)
        self.expect([*QUICK, "-o", "run", "--set", "data={train: {tensors: %s}, batch: 16}" % data, "c.yaml"], 0)
        self.assertEqual(content(data), before)

    def test_links_and_folders_of_such_names_stay(self):
        os.mkdir(self.path("run"))
        os.symlink("../c.yaml", self.path("run/model.safetensors.tmp-1-0"))
        os.mkdir(self.path("run/model.safetensors.tmp-1-1"))
        os.mkfifo(self.path("run/model.safetensors.tmp-1-2"))
        self.expect([*QUICK, "-o", "run", "c.yaml"], 0)
        for n in range(3):
            self.assertTrue(os.path.lexists(self.path("run/model.safetensors.tmp-1-%d" % n)))

    def test_a_prediction_under_way_goes_on(self):
        """A run begins in the folder while a prediction is written there: also to a name that a run may write."""
        if not FAULTS:
            self.skipTest("the library that stops the program is not there")
        self.expect([*QUICK, "-o", "run", "c.yaml"], 0)
        folder = os.path.realpath(self.path("run"))
        for name in ("y", "best.safetensors"):
            # The first call makes the temporary file; the second one writes to it.
            process = self.start("-q", "--predict", os.path.join(folder, name), "-o", "run", "c.yaml", "--set",
                                 "data.eval={tensors: d.safetensors}",
                                 env={**os.environ, "LD_PRELOAD": FAULTS, "GP_FAULTS": "stop-before 2", "GP_FAULTS_FOLDER": folder})
            self.assertTrue(os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]))
            temporary = os.path.join(folder, "%s.tmp-%d-0" % (name, process.pid))
            self.assertEqual(content(temporary), b"")
            self.expect([*QUICK, "-o", "run", "--force", "c.yaml"], 0)
            self.assertTrue(os.path.exists(temporary))
            process.send_signal(signal.SIGCONT)
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, out, err), (0, "", ""))
            self.assertEqual(list(test_cli.read_tensors(os.path.join(folder, name))), ["y"])
            self.assertFalse(os.path.exists(temporary))


class Links(Files):
    """A run keeps its files in its folder, which may be a link itself."""

    def link(self, name, there):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        os.symlink(there, self.path(name))

    def test_files_of_the_folder_are_no_links(self):
        self.expect([*QUICK, "-o", "a", *SAVING, "c.yaml"], 0)
        self.fill("thesis")
        for name, there in (("snapshots", "../a/snapshots"), ("metrics.jsonl", "../thesis"), ("model.safetensors", "../thesis"),
                            ("best.safetensors", "../thesis"), ("config.yaml", "../thesis"), ("plan.json", "../thesis"), ("metrics.jsonl", "../none"),
                            ("snapshots", "../none")):
            self.link("b/" + name, there)
            for how in ([], ["--force"], ["--resume"]) if name == "snapshots" else (["--force"],):
                self.refused(["-o", "b", *how, *SAVING, "c.yaml"],
                             "b/%s: is a symbolic link to %s, and a run writes only into its own folder: remove the link, or "
                             "choose another folder with -o (the folder itself may be a link)" % (name, there))
            os.unlink(self.path("b/" + name))

    def test_the_folder_may_be_a_link(self):
        os.makedirs(self.path("scratch/b"))
        self.link("runs/b", "../scratch/b")
        self.expect([*QUICK, "-o", "runs/b", *SAVING, "c.yaml"], 0)
        self.expect([*QUICK, "-o", "runs/b", "--force", *SAVING, "c.yaml"], 0)
        self.assertEqual(os.listdir(self.path("scratch/b/snapshots")), ["step-00000001.safetensors"])

    def test_a_linked_snapshot_is_read_and_never_written(self):
        """A run that goes on from the snapshot of another, which stays as it is."""
        self.expect([*QUICK, "-o", "a", *SAVING, "c.yaml"], 0)
        before = content(self.path("a/snapshots/step-00000001.safetensors"))
        self.fill("thesis")
        self.link("b/snapshots/step-00000002.safetensors", "../../thesis")
        self.link("b/snapshots/step-00000001.safetensors", "../../a/snapshots/step-00000001.safetensors")
        process = self.run_program("-q", "-o", "b", "--resume", "--set", "train={steps: 3, save_every: 2, keep: 1}", "c.yaml")
        self.assertEqual(process.returncode, 0, process.err)
        self.assertEqual(content(self.path("thesis")), b"mine\n")
        self.link("c/snapshots/step-00000001.safetensors", "../../a/snapshots/step-00000001.safetensors")
        self.expect([*QUICK, "-o", "c", "--force", *SAVING, "c.yaml"], 0)
        self.assertFalse(os.path.islink(self.path("c/snapshots/step-00000001.safetensors")))
        self.assertEqual(content(self.path("a/snapshots/step-00000001.safetensors")), before)

    def test_a_snapshot_is_not_written_over_a_link(self):
        """One that was put there while the run was under way."""
        theirs = self.fill("theirs")
        process = self.start("-o", "run", "--set", "train={steps: 1000000, save_every: 1000000}", "c.yaml")
        while not os.path.exists(self.path("run/metrics.jsonl")) or len(read_lines(self.path("run"))) < 2:
            self.assertIsNone(process.poll())
        self.link("run/model.safetensors", theirs)
        self.link("run/snapshots", self.folder)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertIn("run/model.safetensors: is a symbolic link", err)
        self.assertIn("run/snapshots: is a symbolic link", err)
        self.assertEqual((process.returncode, content(theirs)), (1, b"mine\n"))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("step-")], [])

    def test_metrics_with_another_name_stay_as_they_are(self):
        """cp -al copies a folder by names for the same files."""
        self.expect([*QUICK, "-o", "a", *SAVING, "c.yaml"], 0)
        for how in ("--force", "--resume"):
            os.makedirs(self.path("b/snapshots"))
            for name in ("metrics.jsonl", "model.safetensors", "config.yaml", "plan.json", "snapshots/step-00000001.safetensors"):
                os.link(self.path("a/" + name), self.path("b/" + name))
            before = {path: text for path, text in self.everything().items() if path.startswith(self.path("a/"))}
            self.expect(["-q", "-o", "b", how, "--set", "train={steps: 3, save_every: 1}", "c.yaml"], 0)
            self.assertEqual(before, {path: text for path, text in self.everything().items() if path in before})
            steps = [line["step"] for line in read_lines(self.path("b")) if line["event"] == "step"]
            self.assertEqual(steps, [1, 2, 3])
            for folder, _, names in os.walk(self.path("b"), topdown=False):
                for name in names:
                    os.unlink(os.path.join(folder, name))
                os.rmdir(folder)


class Inputs(Files):
    """No output is an input, or another output."""

    PLACE = "(c.yaml:14:20)"
    DATA = "would write over the file of data.train.tensors %s: choose another name" % PLACE

    def names(self):
        """Of the data set: itself, from elsewhere, by links."""
        os.symlink("d.safetensors", self.path("link"))
        os.link(self.path("d.safetensors"), self.path("hard"))
        os.mkdir(self.path("sub"))
        return ("d.safetensors", "./sub/../d.safetensors", "link", "hard")

    def test_data(self):
        os.mkdir(self.path("run"))
        for name in self.names():
            for option, arguments in (("--svg", ["--plan"]), ("--trace", ["-o", "run"])):
                self.refused([*arguments, option, name, "c.yaml"], "%s %s: %s" % (option, name, self.DATA))
            before = self.everything()
            done = self.balance("-o", name, "c.yaml")
            self.assertEqual((done.returncode, done.stderr),
                             (2, "gpipe-balance: -o %s: %s\n" % (name, self.DATA)))
            self.assertEqual(self.everything(), before)

    def test_every_file_of_a_configuration(self):
        self.expect(["-q", "-o", "run", "c.yaml"], 0)
        os.rename(self.path("run/model.safetensors"), self.path("w"))
        for name in ("images", "labels", "eval", "order"):
            self.fill(name, "")
        self.write("all.yaml", ONE_STEP.replace(
            "  train: {tensors: d.safetensors, take: [0, 50]}\n",
            "  train:\n    idx:\n      images: images\n      labels: labels\n  eval:\n    tensors:\n      file: eval\n").replace(
            "  micro_batches: 4\n", "  micro_batches: 4\n  schedule:\n    file: order\n").replace(
            "train: {steps: 1}", "train:\n  steps: 1\n  init:\n    file: w\n"))
        for name, key, place in (("images", "data.train.idx.images", "16:15"), ("labels", "data.train.idx.labels", "17:15"),
                                 ("eval", "data.eval.tensors.file", "20:13"), ("order", "pipeline.schedule.file", "26:11"),
                                 ("w", "train.init.file", "32:11")):
            self.refused(["--plan", "--svg", name, "all.yaml"],
                         "--svg %s: would write over the file of %s (all.yaml:%s): choose another name" % (name, key, place))
        self.refused(["--plan", "--svg", "all.yaml", "all.yaml"],
                     "--svg all.yaml: would write over the configuration: choose another name")
        self.refused(["--plan", "--svg", "eval", "--set", "data.train.tensors=eval", "c.yaml"],
                     "--svg eval: would write over the file of data.train.tensors (--set data.train.tensors=eval): choose "
                     "another name")
        self.refused(["--predict", "w", "--weights", "w", "--set", "data.eval={tensors: d.safetensors}", "c.yaml"],
                     "--predict w: would write over the weights that it predicts with: choose another name")

    def test_data_in_the_run_folder(self):
        """What a run would remove, or write over when it ends."""
        os.makedirs(self.path("run/snapshots"))
        for name in ("best.safetensors", "model.safetensors", "metrics.jsonl", "config.yaml", "plan.json",
                     "snapshots/step-00000001.safetensors", "snapshots/step-00000999.safetensors"):
            os.rename(self.path("d.safetensors"), self.path("run/" + name))
            os.symlink("run/" + name, self.path("d.safetensors"))
            for how in ("--force", "--resume"):
                self.refused(["-o", "run", how, *SAVING, "c.yaml"],
                             "-o run: the run would remove or write over run/%s, which is the file of data.train.tensors %s: "
                             "choose another folder with -o" % (name, self.PLACE))
            os.unlink(self.path("d.safetensors"))
            os.rename(self.path("run/" + name), self.path("d.safetensors"))

    def test_a_timeline_is_no_other_output(self):
        os.mkdir(self.path("run"))
        os.symlink("run", self.path("same"))
        for name in ("model.safetensors", "metrics.jsonl", "best.safetensors", "config.yaml", "plan.json", "snapshots"):
            self.refused(["-o", "run", "--trace", "same/" + name, "c.yaml"],
                         "--trace same/%s: is run/%s, which the run writes: choose another name" % (name, name))
        self.assertEqual(os.listdir(self.path("run")), [])

    def test_a_timeline_is_no_snapshot(self):
        """A snapshot that is not there yet, by its path and by its name alone."""
        name = "step-00000005.safetensors"
        os.makedirs(self.path("run/snapshots"))
        self.refused(["-o", "run", "--trace", "run/snapshots/" + name, "c.yaml"],
                     "--trace run/snapshots/%s: is run/snapshots/%s, which the run writes: choose another name" % (name, name))
        done = subprocess.run([TRAIN, "-q", "--force", "-o", "..", "--trace", name, "../../c.yaml"], cwd=self.path("run/snapshots"),
                              capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (
            2, "gpipe-train: --trace %s: is ../snapshots/%s, which the run writes: choose another name\n" % (name, name)))
        self.assertEqual((os.listdir(self.path("run")), os.listdir(self.path("run/snapshots"))), (["snapshots"], []))
        # Of this name elsewhere it is no snapshot of the run.
        self.expect([*QUICK, "-o", "other", "--trace", name, "c.yaml"], 0)

    def test_standard_output_is_no_other_output(self):
        """A file into which standard output goes."""
        for option, arguments in (("--svg", ["--plan"]), ("--trace", ["-o", "run"])):
            with open(self.path("out"), "w") as out:
                self.expect([*arguments, option, "/dev/stdout", "c.yaml"], 2,
                            "gpipe-train: %s /dev/stdout: is the file that standard output goes to: choose another name\n" % option,
                            stdout=out)
            self.assertEqual(content(self.path("out")), b"")
            with open(self.path("out"), "w") as out:
                process = self.run_program(*arguments, option, "/dev/stderr", "c.yaml", stderr=out)
            self.assertEqual((process.returncode, content(self.path("out"))), (
                2, b"gpipe-train: %s /dev/stderr: is the file that standard error goes to: choose another name\n" % option.encode()))
            self.assertFalse(os.path.exists(self.path("run")))

    def test_what_a_run_begins_with_is_not_lost(self):
        """Its first snapshot would remove later ones, and its first evaluation would write over the best model."""
        evaluating = ["--set", "data.eval={tensors: d.safetensors, take: [50, 64]}", "--set", "train.steps=2"]
        self.expect([*QUICK, "-o", "run", *SAVING, *evaluating, "c.yaml"], 0)
        os.symlink("run", self.path("same"))
        os.symlink("run/best.safetensors", self.path("link"))
        for name, given in (("best.safetensors", "run/best.safetensors"), ("best.safetensors", "link"),
                            ("snapshots/step-00000002.safetensors", "same/snapshots/step-00000002.safetensors")):
            key = "train.init=" + given
            for how in ("--force", "--resume"):
                self.refused([*QUICK, "-o", "run", how, *SAVING, "--set", key, "c.yaml"],
                             "-o run: the run would remove or write over run/%s, which is the file of train.init (--set %s): "
                             "choose another folder with -o" % (name, key))
            self.expect([*QUICK, "-o", "other", "--force", *SAVING, "--set", key, "c.yaml"], 0)

    def test_what_a_run_began_with_is_gone(self):
        """There is nothing to lose, and a run that goes on does not read it."""
        key = ["--set", "train.init=run/best.safetensors"]
        self.expect([*QUICK, "-o", "w", "c.yaml"], 0)
        os.mkdir(self.path("run"))
        self.expect([*QUICK, "-o", "run", *key, "c.yaml"], 1,
                    "gpipe-train: --set train.init=run/best.safetensors: run/best.safetensors: cannot be opened: No such file or "
                    "directory\n")
        os.rename(self.path("w/model.safetensors"), self.path("w/best.safetensors"))
        os.symlink("w", self.path("at"))
        key = ["--set", "train.init=at/best.safetensors"]
        self.expect([*QUICK, "-o", "run", *SAVING, *key, "c.yaml"], 0)
        os.unlink(self.path("at"))
        os.symlink("run", self.path("at"))
        self.expect([*QUICK, "-o", "run", "--resume", *SAVING, *key, "--set", "train.steps=2", "c.yaml"], 0)

    def test_what_a_run_began_with_may_be_its_own_model(self):
        self.expect(["-q", "-o", "run", "c.yaml"], 0)
        self.expect(["-q", "-o", "run", "--force", "--set", "train.init=run/model.safetensors", "c.yaml"], 0)


class Disk(Files):
    """Free space is checked before the first step."""

    def setUp(self):
        super().setUp()
        if not FAULTS:
            self.skipTest("the library that changes calls is not built here")
        # Files of megabytes: what a file system rounds up does not count.
        self.write("c.yaml", CONFIG.replace("train: {epochs: 2}", "train: {steps: 60, save_every: 10, keep: 3}").replace(
            "- flatten\n", "- flatten\n    - linear: {out: 2000}\n"))

    def run_with(self, space, *arguments):
        environment = {**os.environ, "LD_PRELOAD": FAULTS, "GP_FAULTS_FREE": str(space)}
        return self.run_program("-q", "-o", "run", *arguments, "c.yaml", env=environment)

    def test_a_run_that_would_not_fit(self):
        """Refused with the sizes; what is there stays."""
        self.assertEqual(self.run_with("unknown", "--set", "train.steps=30").returncode, 0)
        size = lambda name: os.path.getsize(self.path("run/" + name))
        snapshot = size("snapshots/step-00000030.safetensors")
        models = size("model.safetensors") + size("best.safetensors")
        few, plan, before = 1 << 17, size("plan.json"), self.everything()
        self.assertGreater(plan, 10000)
        beside = models + 3 * snapshot + size("config.yaml")
        longer = ["--resume", "--set", "train.steps=60"]
        for arguments, space, fits in ((["--force"], snapshot // 2, False), (longer, snapshot // 2, False),
                                       (longer, snapshot + few, True), (["--force"], snapshot + few, True)):
            done = self.run_with(space, *arguments)
            if fits:
                self.assertEqual((done.returncode, done.err), (0, ""))
                continue
            self.assertRegex(done.err, r"\Agpipe-train: run: the run needs up to [\d.]+ MiB of disk space, but its file system has "
                             r"\S+ MiB free, and the run's old files there take [\d.]+ MiB \(model.safetensors 1\S+ MiB, "
                             r"best.safetensors 1\S+ MiB, 4 snapshots of 2\S+ MiB \(train.keep: 3\)\): free \S+ [KM]iB, choose a "
                             r"folder on another file system with -o, or set train.keep to 2\n\Z")
            self.assertEqual(done.returncode, 1)
            self.assertEqual(self.everything(), before)
        test_cli.shutil.rmtree(self.path("run"))
        self.assertEqual(self.run_with(beside).returncode, 1)
        self.assertEqual(os.listdir(self.path("run")), [])
        # plan.json counts: without the half of it nothing is written.
        self.assertEqual(self.run_with(beside + snapshot + plan // 2).returncode, 1)
        self.assertEqual(os.listdir(self.path("run")), [])
        done = self.run_with(beside + snapshot + plan + 1000)
        self.assertEqual((done.returncode, done.err), (0, ""))


class Special(Files):
    """What is no regular file is refused with a sentence, and not waited for."""

    def make(self, kind, name):
        path = self.path(name)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            os.mkdir(path)
        else:
            here = os.getcwd()
            os.chdir(os.path.dirname(path))
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.path.basename(path))
            os.chdir(here)

    def each(self, name):
        for kind in ("fifo", "folder", "socket"):
            self.make(kind, name)
            yield kind
            (os.rmdir if kind == "folder" else os.unlink)(self.path(name))

    def test_in_the_run_folder(self):
        os.mkdir(self.path("run"))
        for name in ("metrics.jsonl", "model.safetensors", "best.safetensors", "config.yaml", "plan.json"):
            for kind in self.each("run/" + name):
                what = "is a folder" if kind == "folder" else "is not a regular file"
                for how in (["--resume"], ["--force"]) if name == "metrics.jsonl" else ([],):
                    self.refused(["-o", "run", *how, "c.yaml"],
                                 "run/%s: %s, and a run writes a file there: remove it, or choose another folder with -o" % (name, what))
        for kind in self.each("run/snapshots"):
            if kind != "folder":
                self.refused(["-o", "run", "--force", "c.yaml"],
                             "run/snapshots: is not a folder, and a run keeps its snapshots there: remove it, or choose another "
                             "folder with -o")

    def test_as_input(self):
        for kind in self.each("x"):
            what = "is a directory, not a file" if kind == "folder" else "is not a regular file"
            opened = "cannot be opened: No such device or address"
            self.refused(["x"], "x: " + (opened if kind == "socket" else what))
            what = {"socket": opened, "folder": "is a folder without model.safetensors.index.json, which says which of its files "
                    "has which tensor"}.get(kind, "is not a regular file")
            for key in ("data.train.tensors", "train.init"):
                self.refused(["--set", key + "=x", "c.yaml"], "--set %s=x: x: %s" % (key, what), 1)
            for option in (["--profile", "x", "c.yaml"], ["--simulate", "x"]):
                done = self.balance(*option)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, r"\Agpipe-balance: x: .*\n\Z")

    def test_as_output(self):
        self.expect(["-q", "-o", "run", "c.yaml"], 0)
        for kind in self.each("x"):
            for arguments, sentence, status in (
                    (["--plan", "--svg", "x"], "x: cannot be written: it is not a regular file", 1),
                    (["-o", "new", "--trace", "x"], "x: cannot be written: it is not a regular file", 1),
                    (["--predict", "x", "-o", "run", "--set", "data.eval={tensors: d.safetensors}"],
                     "--predict x: the file exists, and is not a file of predictions: choose another name", 2)):
                self.expect([*arguments, "c.yaml"], status, "gpipe-train: %s\n" % sentence)
        self.expect(["--plan", "--svg", "/dev/null", "c.yaml"], 1,
                    "gpipe-train: /dev/null: is not a regular file, and cannot be replaced: choose another name\n")
        self.expect(["-q", "-o", "traced", "--trace", "/dev/null", "c.yaml"], 0)
        self.expect(["-o", "/dev/null", "c.yaml"], 1,
                    "gpipe-train: the run folder /dev/null cannot be made: /dev/null: Not a directory\n")
        self.expect(["-q", "-o", "piped", "--trace", "/dev/stdout", "c.yaml"], 1,
                    "gpipe-train: /dev/stdout: cannot be written: it is not a regular file\n")

    def test_a_model_is_no_picture_and_no_profile(self):
        """A file that is there is replaced only by one of its kind."""
        self.expect(["-q", "-o", "run", "c.yaml"], 0)
        model, before = "run/model.safetensors", self.everything()
        self.expect(["--plan", "--svg", model, "c.yaml"], 1,
                    "gpipe-train: %s: the file exists, and is not a picture of a plan: choose another name\n" % model)
        balanced = self.balance("-o", model, "c.yaml")
        self.assertEqual((balanced.returncode, balanced.stderr),
                         (1, "gpipe-balance: %s: the file exists, and is not a profile: choose another name\n" % model))
        self.assertEqual(self.everything(), before)
        for _ in range(2):
            self.expect(["--plan", "--svg", "plan.svg", "c.yaml"], 0)
            self.assertEqual(self.balance("-o", "profile.json", "c.yaml").returncode, 0)

    def test_a_configuration_from_a_pipe(self):
        read, write = os.pipe()
        process = self.start("/dev/fd/%d" % read, pass_fds=[read])
        os.close(read)
        process.out, process.err = process.communicate(timeout=PATIENCE)
        os.close(write)
        self.assertEqual((process.returncode, process.err), (2, "gpipe-train: /dev/fd/%d: is not a regular file\n" % read))


class Signals(Files):
    def test_a_limit_on_files_is_no_signal(self):
        test_cli.skip_under_tsan(self, TRAIN, test_cli.OWN_FILES)
        done = subprocess.run([BALANCE, "--seconds", "0.01", "-o", "p.json", "c.yaml"], cwd=self.folder, capture_output=True,
                              text=True, timeout=PATIENCE, preexec_fn=lambda: test_cli.limit_files(BALANCE, 100))
        self.assertRegex(done.stderr, r"\Agpipe-balance: \S*p\.json\S*: cannot be written: File too large; raise the limit on "
                         r"the size of files \(ulimit -f\)\n\Z")
        self.assertEqual((done.returncode, os.path.exists(self.path("p.json"))), (1, False))

    def test_what_the_parent_blocked_is_not_blocked(self):
        every = set(range(1, 65)) - {32, 33}
        process = self.start("-q", "-o", "run", "--set", "train.steps=1000000", "c.yaml",
                             prepare=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, every))
        while not os.path.exists(self.path("run/metrics.jsonl")) or len(read_lines(self.path("run"))) < 2:
            self.assertIsNone(process.poll())
        with open("/proc/%d/status" % process.pid) as file:
            self.assertEqual(int(re.search(r"^SigBlk:\s*(\w+)", file.read(), re.M).group(1), 16), 0)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, read_lines(self.path("run"))[-1]["status"]), (130, "interrupted"))

    def test_a_blocked_signal_ends_what_only_prints(self):
        """Pending while it was blocked, it comes when the program unblocks it."""
        def prepare():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual(self.run_program("--plan", "c.yaml", prepare=prepare).returncode, 130)

    def test_a_shell_goes_on_only_after_a_whole_run(self):
        """A run, a prediction and a balance that are interrupted: gpipe-train … && next."""
        self.expect([*QUICK, "-o", "run", "c.yaml"], 0)
        endless = "data.eval={synthetic: {samples: 50000000}}"
        for line, sign in (('"$0" -q -o new --set train.steps=4000000000 c.yaml', "new/metrics.jsonl"),
                           ('"$0" -q -o run --predict y --set "%s" c.yaml' % endless, "y.tmp"),
                           ('"$1" --seconds 86400 -o p.json c.yaml > /dev/null', None)):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(line=line, number=number):
                    test_cli.shutil.rmtree(self.path("new"), ignore_errors=True)
                    shell = subprocess.Popen(["bash", "-c", "trap : INT TERM; { %s; } && echo next; echo $?" % line, TRAIN, BALANCE],
                                             cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                             start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                    self.await_begin(shell, sign)
                    os.killpg(shell.pid, number)
                    self.assertEqual(shell.communicate(timeout=PATIENCE)[0], "130\n")
                    self.assertEqual(os.path.exists(self.path("new/model.safetensors")), line.startswith('"$0" -q -o new'))
        self.assertFalse(os.path.exists(self.path("p.json")) or os.path.exists(self.path("y")))

    @staticmethod
    def catches(process, number):
        """Whether it is the program, and has begun."""
        with open("/proc/%s/status" % process) as file:
            caught = int(re.search(r"^SigCgt:\s*(\w+)", file.read(), re.M).group(1), 16)
        return os.readlink("/proc/%s/exe" % process) == os.path.realpath(BALANCE) and caught >> number - 1 & 1

    def await_begin(self, shell, sign):
        """Until the program writes the file that begins with `sign`; None: until it has begun."""
        def begun():
            if sign:
                folder, name = os.path.split(self.path(sign))
                return os.path.isdir(folder) and any(entry.startswith(name) for entry in os.listdir(folder))
            with open("/proc/%d/task/%d/children" % (shell.pid, shell.pid)) as file:
                return any(self.catches(child, signal.SIGTERM) for child in file.read().split())
        while not begun():
            self.assertIsNone(shell.poll())
            test_cli.time.sleep(0.005)


# What a terminal acts on, or what moves the text around it; each is one '?' when it is printed.
ODD = ["\x1b", "\x07", "\r", "\n", "\x7f", "\x80", "\x85", "\x9b", "\x9f", "\u061c", "\u200e", "\u200f", "\u2028", "\u2029",
       "\u202a", "\u202e", "\u2066", "\u2069", "\u00a0", "\u200b", "\ufeff", "\U000e0041"]
RAW = [b"\x9b", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]  # no UTF-8: a '?' for each byte
FINE = "é ß 日本 ‑…€😀"


def named(name):
    """The configuration with a layer of that name."""
    text = '"%s"' % "".join("\\U%08x" % ord(c) for c in name)
    return ONE_STEP.replace("{name: a}", "{name: %s}" % text).replace("[a, -1]", "[%s, -1]" % text)


class Printed(Files):
    """No name or path speaks to the terminal."""

    def run_bytes(self, program, *arguments):
        done = subprocess.run([program, *arguments], cwd=self.folder.encode(), capture_output=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def expect_printable(self, text):
        decoded = text.decode("utf-8")  # fails where it is none
        self.assertEqual([c for c in decoded if c in ODD and c != "\n"], [], decoded)

    def test_paths(self):
        for name, shown in (("".join(ODD).encode(), "?" * len(ODD)), (b"".join(RAW), "?" * len(b"".join(RAW))),
                            (FINE.encode(), FINE)):
            status, out, err = self.run_bytes(TRAIN, "-o", name, "c.yaml")
            self.assertEqual((status, err), (0, b""))
            self.assertIn("\nrun folder: %s\n" % shown, out.decode())
            self.assertIn("model saved in %s\n" % shown, out.decode())
            self.expect_printable(out)
            status, out, err = self.run_bytes(TRAIN, "-o", name, "c.yaml")
            self.assertEqual(err.decode(), "gpipe-train: %s already holds a run (metrics.jsonl): choose another folder with "
                             "-o, continue that run with --resume, or replace it with --force\n" % shown)

    def test_every_report(self):
        """The names of layers, of the configuration, of the profile, of the run folder and of predictions."""
        layer = named("a" + "".join(c for c in ODD if ord(c) > 0x9f))
        name = b"c\x1b[31m\xc2\x9b1m\xe2\x80\xae\xff.yaml"
        with open(os.path.join(self.folder.encode(), name), "w") as file:
            file.write(layer)
        profile = b"p\x1b\x9b\xe2\x80\xae.json"
        outputs = [self.run_bytes(BALANCE, "--seconds", "0.01", "-o", profile, name),
                   self.run_bytes(BALANCE, "--profile", profile, name),
                   self.run_bytes(TRAIN, "--plan", name),
                   self.run_bytes(TRAIN, "--expand", name),
                   self.run_bytes(TRAIN, "-v", "-o", b"run\x1b", name),
                   self.run_bytes(TRAIN, "-o", b"run\x1b", "--predict", b"y\x9b\xe2\x80\xae", "--set", "data.eval={tensors: d.safetensors}", name),
                   self.run_bytes(TRAIN, "-o", b"saved\x1b", *SAVING, name),
                   self.run_bytes(TRAIN, "-o", b"saved\x1b", "--resume", "--set", "train.steps=2", name),
                   self.run_bytes(TRAIN, "-o", b"saved\x1b", "--resume", "--set", "train.steps=2", name),
                   self.run_bytes(BALANCE, "--profile", profile, "--write", name)]
        for status, out, err in outputs:
            self.assertEqual((status, err), (0, b""))
            self.assertNotEqual(out, b"")
            self.expect_printable(out)
        self.assertIn(b"run folder: run?\n", outputs[4][1])
        self.assertIn(b"written to y??\n", outputs[5][1])

    def test_json_has_exact_names(self):
        odd = "".join(c for c in ODD if ord(c) > 0x9f) + FINE
        self.write("c.yaml", named("a" + odd))
        status, out, err = self.run_bytes(BALANCE, "--seconds", "0.01", "-o", "p\u202e.json", "--json", "c.yaml")
        self.assertEqual((status, err), (0, b""))
        self.expect_printable(out)
        said = json.loads(out)
        self.assertIn("a" + odd, [layer["name"] for layer in said["layers"]])
        self.assertEqual(os.path.basename(said["profile"]), "p\u202e.json")

    def test_a_printed_command_repeats(self):
        """As a shell reads it, whatever the names are."""
        profile, name = b"p\x1b\xe2\x80\xae'.json", b"c\xff\n\xc2\x9b7.yaml"
        with open(os.path.join(self.folder.encode(), name), "w") as file:
            file.write(ONE_STEP)
        status, out, err = self.run_bytes(BALANCE, "--seconds", "0.01", "-o", profile, name)
        self.assertEqual((status, err), (0, b""))
        self.expect_printable(out)
        (command,) = re.findall(rb"^to write it  gpipe-balance(.*)$", out, re.M)
        done = subprocess.run([b"bash", b"-c", os.fsencode(BALANCE) + command], cwd=self.folder, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_control_characters_in_layers_names(self):
        for escape in ("\\e", "\\x7f", "\\x80", "\\x9b", "\\N"):
            self.write("c.yaml", ONE_STEP.replace("{name: a}", '{name: "a%s"}' % escape))
            self.expect(["c.yaml"], 2, "gpipe-train: c.yaml:6:20: the name holds a control character\n")


GROUPS = {"temporary": Temporary, "links": Links, "inputs": Inputs, "disk": Disk, "special": Special, "signals": Signals, "printed": Printed}

if __name__ == "__main__":
    if sys.argv[3:4] == ["--faults"]:
        FAULTS = os.path.abspath(sys.argv[4])
        del sys.argv[3:5]
    TRAIN, BALANCE = (os.path.abspath(path) for path in sys.argv[1:3])
    test_cli.PROGRAM = TRAIN
    loader = unittest.defaultTestLoader
    wanted = [(GROUPS[group], test) for group, _, test in (word.partition(".") for word in sys.argv[3:])] or [
        (case, "") for case in GROUPS.values()]
    suite = unittest.TestSuite(case(test) if test else loader.loadTestsFromTestCase(case) for case, test in wanted)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
