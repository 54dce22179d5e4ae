"""Bad configurations and bad data files, one program each: none ends by a signal, none takes more than a second of
processor time or 256 MiB, and of each is said what stands beside it.

    test_bad_input.py PROGRAM [--unbounded]

--unbounded: for a build with sanitizers, which take time and memory of their own; every tenth configuration. Standard
library only.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import bad_files
import surroundings  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "../settings/corpus")
SECONDS, MEBIBYTES = 1, 256
LEAST = 400  # cases of both kinds
OPTIONS = None


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


class BadInput(unittest.TestCase):
    maxDiff = None
    most = (0, 0)  # seconds and MiB of one program so far

    @classmethod
    def tearDownClass(cls):
        print("at most %.2f s and %d MiB" % cls.most)

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gp-test-bad-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_program(self, arguments, folder):
        """(exit status, what it says); fails where it took too much."""
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen([OPTIONS.program, *arguments], cwd=folder, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=said)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read().decode().replace(folder + "/", "")
        self.assertGreaterEqual(process.returncode, 0, "it ends by a signal: %s" % text)
        seconds, mebibytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10
        BadInput.most = max(BadInput.most[0], seconds), max(BadInput.most[1], mebibytes)
        if not OPTIONS.unbounded:
            self.assertLessEqual(seconds, SECONDS, text)
            self.assertLessEqual(mebibytes, MEBIBYTES, text)
        return process.returncode, text

    def write_files(self, files):
        for name, content in {**bad_files.GOOD, **files}.items():
            path = os.path.join(self.folder, name)
            if content is not None:
                write(path, content)
            elif os.path.exists(path):
                os.remove(path)

    def test_there_are_many(self):
        count = len(glob.glob(os.path.join(CORPUS, "*.yaml"))), len(bad_files.CASES) + len(bad_files.SNAPSHOTS)
        print("%d configurations, %d data files" % count)
        self.assertGreaterEqual(sum(count), LEAST)

    def test_configurations(self):
        # tests/config/test_bad_config.c reads all of them under a sanitizer, in one process.
        for path in sorted(glob.glob(os.path.join(CORPUS, "*.yaml")))[:: 10 if OPTIONS.unbounded else 1]:
            name = os.path.basename(path)
            changes = path[: -len("yaml")] + "set"
            lines = read(changes).splitlines() if os.path.exists(changes) else []
            arguments = [word for line in lines for word in ("--set", line)]
            sentence = read(path[: -len("yaml")] + "txt")
            with self.subTest(name):
                lines = "".join("gpipe-train: %s\n" % line for line in sentence.splitlines())
                self.assertEqual(self.run_program([*arguments, name], CORPUS), (2, lines))

    def test_good_files_are_accepted(self):
        self.write_files({})
        for kind in ("idx", "tensors", "init"):
            write(os.path.join(self.folder, "c.yaml"), bad_files.CONFIGS[kind][1].encode())
            self.assertEqual(self.run_program(["-q", "--force", "c.yaml"], self.folder), (0, ""), kind)

    def test_data_files(self):
        for kind, name, files, status, sentence in bad_files.CASES:
            place, config = bad_files.CONFIGS[kind]
            self.write_files(files)
            write(os.path.join(self.folder, "c.yaml"), config.encode())
            with self.subTest(kind + ": " + name):
                self.assertEqual(self.run_program(["c.yaml"], self.folder),
                                 (status, "gpipe-train: %s%s\n" % (place, sentence)))

    def test_snapshots(self):
        self.write_files({})
        write(os.path.join(self.folder, "c.yaml"), bad_files.SAVING.encode())
        self.assertEqual(self.run_program(["-q", "-o", "run", "c.yaml"], self.folder), (0, ""))
        (path,) = glob.glob(os.path.join(self.folder, "run/snapshots/*"))
        good = read(path, "rb")
        for name, damage, sentence in bad_files.SNAPSHOTS:
            write(path, damage(good))
            with self.subTest(name):
                status, text = self.run_program(["-o", "run", "--resume", "c.yaml"], self.folder)
                text = re.sub(r"says [0-9a-f]*.[0-9a-f]*, the bytes give [0-9a-f]*|\d+",
                              lambda found: "says #, the bytes give #" if found[0][0] == "s" else "#", text)
                self.assertEqual((status, text), (1, "gpipe-train: no snapshot of run can be used: run/snapshots/"
                                                  "step-#.safetensors: %s\n" % sentence))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--unbounded", action="store_true")
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.program = os.path.abspath(OPTIONS.program)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
