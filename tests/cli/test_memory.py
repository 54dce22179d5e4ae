#!/usr/bin/env python3
"""What a run takes of the host's memory, from outside: it is what was planned, and all of it is there at the start.

    test_memory.py BUILD/gpipe-train [--unbounded]

--unbounded: a sanitizer takes memory that no plan knows.
"""
import gzip
import json
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

import surroundings  # noqa: F401

PROGRAM = None
UNBOUNDED = False
MIB = 1 << 20

MODEL = """model:
  input: {{shape: [{shape}]}}
  layers: [{layers}{{linear: {{out: {out}}}}}, relu, {{linear: {{out: 10}}}}]
  loss: cross_entropy
"""
REST = """data: {data}
pipeline: {pipeline}
optimizer: {optimizer}
train: {train}
"""
ONE = "{devices: [cpu], micro_batches: 4}"
NEEDS = re.compile(r"^gpipe-train: the run needs [0-9.]+ .iB more memory \(.*\), but the address space \(RLIMIT_AS, "
                   r"ulimit -v\), [0-9.]+ .iB in all, has [0-9.]+ .?i?B left; [^;]+\n$")
NUMBERS = re.compile(r"needs ([0-9.]+) (.?i?B) more memory .* has ([0-9.]+) (.?i?B) left;")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
STACK = 8 * MIB  # that each thread takes of the address space


def config(data, shape="784", layers="", out=16, pipeline=ONE, optimizer="{sgd: {lr: 0.01}}", train="{steps: 3}"):
    return MODEL.format(shape=shape, layers=layers, out=out) + REST.format(data=data, pipeline=pipeline,
                                                                           optimizer=optimizer, train=train)


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_idx(self, count, gzipped):
        rows = bytes(range(256)) * 3 + bytes(16)
        for name, head, body in (("images", struct.pack(">4I", 0x803, count, 28, 28), rows * count),
                                 ("labels", struct.pack(">2I", 0x801, count), b"\3" * count)):
            data = head + body
            with open(self.path(name), "wb") as file:
                file.write(gzip.compress(data, 1) if gzipped else data)
        return "{idx: {images: images, labels: labels}}"

    def write_tensors(self, samples, shape):
        """Zeros, in a file with holes."""
        elements = samples
        for size in shape:
            elements *= size
        tensors = {"x": {"dtype": "F32", "shape": [samples, *shape], "data_offsets": [0, 4 * elements]},
                   "y": {"dtype": "I64", "shape": [samples], "data_offsets": [4 * elements, 4 * elements + 8 * samples]}}
        header = json.dumps(tensors).encode()
        with open(self.path("t.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + 4 * elements + 8 * samples)
        return "{tensors: t.safetensors}"

    def run_program(self, text, *options, limit=None):
        def prepare():
            if limit:
                resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with open(self.path("c.yaml"), "w") as file:
            file.write(text)
        command = [PROGRAM, "-o", self.path("run"), "--force", *options, self.path("c.yaml")]
        return subprocess.run(command, capture_output=True, text=True, timeout=300,
                              preexec_fn=prepare if limit else None)

    def account(self):
        with open(self.path("run/metrics.jsonl")) as file:
            return json.loads(file.readlines()[-1])["account"]

    def check(self, name, text, *options):
        with self.subTest(name):
            done = self.run_program(text, *options)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            account = self.account()
            planned, resident = account["planned_bytes"], account["resident_bytes"]
            print("%-44s planned %6.1f MiB, %5.1f of it the program; resident %6.1f MiB"
                  % (name, planned / MIB, account["program_bytes"] / MIB, resident / MIB))
            if not UNBOUNDED:
                self.assertLess(abs(planned - resident), 0.1 * resident + 32 * MIB)

    def test_what_is_planned_is_resident(self):
        """Each of these takes more than the bound allows by what its name says."""
        self.check("next to nothing", config("{batch: 16, train: {synthetic: {samples: 64}}}"))
        wide = self.write_tensors(4096, [4096])
        self.check("three mini-batches ahead", config("{batch: 1024, train: %s}" % wide, shape="4096", train="{steps: 2}"))
        self.check("evaluation larger than training",
                   config("{batch: 1024, train: {tensors: t.safetensors, take: [0, 64]}, eval: %s}" % wide, shape="4096",
                          train="{steps: 2, eval_every: 5}"))
        tensors = self.write_tensors(512, [3, 96, 96])
        self.check("large samples, both loaders",
                   config("{batch: 128, train: %s, eval: %s}" % (tensors, tensors), shape="3, 96, 96",
                          layers="flatten, ", train="{steps: 4}"))
        self.check("four reading threads, transforms",
                   config("{batch: 128, threads: 4, train: {tensors: t.safetensors, transform: "
                          "[{random_crop: {size: 64, pad: 4}}, random_horizontal_flip]}}", shape="3, 64, 64",
                          layers="flatten, "))
        idx = self.write_idx(60000, True)
        self.check("inflated files, twice", config("{batch: 64, train: %s, eval: %s}" % (idx, idx[:-1] + ", take: [0, 64]}")))
        idx = self.write_idx(90000, True)
        self.check("a file too large to be inflated in memory", config("{batch: 64, train: %s}" % idx))
        few = "{batch: 8, train: {synthetic: {samples: 64}}}"
        self.check("snapshots", config(few, out=4096, train="{steps: 4, save_every: 2}"))
        self.check("adam, two stages", config(few, out=4096, pipeline="{devices: [cpu, cpu], micro_batches: 2}",
                                              optimizer="{adam: {lr: 0.001}}"))
        self.check("sixteen stages, two threads each, a timeline",
                   config("{batch: 64, train: {synthetic: {samples: 640}}, eval: {synthetic: {samples: 64}}}",
                          layers="".join("{linear: {out: 16}}, relu, " for _ in range(16)), train="{steps: 6}",
                          pipeline="{devices: [{cpu: {count: 16, threads: 2}}], micro_batches: 16}"),
                   "--trace", self.path("t.json"))

    @unittest.skipIf("--unbounded" in sys.argv, "sanitizers take memory that no plan knows")
    def test_a_change_takes_no_more(self):
        """The state that is carried over takes the room of the saver's copy."""
        text = config("{batch: 8, train: {synthetic: {samples: 64}}}", out=16384, optimizer="{sgd: {lr: 0.01, momentum: 0.9}}",
                      train="{steps: 5}")
        done = self.run_program(text + "changes: {3: {optimizer.sgd.lr: 0.02}}\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        account = self.account()
        self.assertLess(account["resident_bytes"], account["planned_bytes"] + 16 * MIB)

    @unittest.skipIf("--unbounded" in sys.argv, "sanitizers take memory that no plan knows")
    def test_changed_keys_take_no_more(self):
        """The snapshot that the run goes on from is written again, with the changed keys, through the planned buffer."""
        saving = config("{batch: 8, train: {synthetic: {samples: 64}}}", out=16384, train="{steps: 2, save_every: 2}")
        done = self.run_program(saving)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.path("c.yaml"), "w") as file:
            file.write(saving.replace("steps: 2, save_every: 2", "steps: 4"))
        command = [PROGRAM, "-o", self.path("run"), "--resume", "--set", "optimizer.sgd.lr=0.02", self.path("c.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("from step 3 on: optimizer.sgd.lr is 0.02", done.stdout)
        account = self.account()
        self.assertLess(account["resident_bytes"], account["planned_bytes"] + 16 * MIB)

    def refused(self, text, limit):
        """What a run needs and what the limit leaves, by the sentence that refuses it."""
        done = self.run_program(text, limit=limit)
        self.assertRegex(done.stderr, NEEDS)
        self.assertEqual(done.returncode, 1)
        needs, unit, left, of = NUMBERS.search(done.stderr).groups()
        return int(float(needs) * UNITS[unit]), int(float(left) * UNITS[of])

    @unittest.skipIf("--unbounded" in sys.argv, "sanitizers take address space without end")
    def test_a_run_ends_before_its_first_step_or_not_at_all(self):
        """Under any limit of the address space: refused with the numbers, or run to its end with both evaluations."""
        large = config("{batch: 200000, train: {synthetic: {samples: 200000}}}")
        text = config("{batch: 1000, train: {synthetic: {samples: 2000}}, eval: {synthetic: {samples: 4000}}}",
                      train="{epochs: 2}")
        start = (1 << 30) - self.refused(large, 1 << 30)[1] + 8 * MIB  # the program, and a little
        needs, left = self.refused(text, start)
        ends = []
        for more in (-24, -8, -1, 1, 4, 16, 64):
            done = self.run_program(text, limit=start - left + needs + more * MIB)
            ends.append(done.returncode)
            if done.returncode == 0:
                self.assertEqual(len(re.findall("^step .* eval loss", done.stdout, re.M)), 2)
                continue
            self.assertRegex(done.stderr, NEEDS)
            self.assertNotIn("step", done.stdout)
        self.assertEqual((ends[0], ends[-1]), (1, 0), ends)

    def test_a_large_parent_is_not_resident(self):
        block = bytearray(400 * MIB)
        block[::4096] = bytes([1]) * len(block[::4096])
        done = self.run_program(config("{batch: 16, train: {synthetic: {samples: 64}}}"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 400 << 10)
        if not UNBOUNDED:
            self.assertLess(self.account()["resident_bytes"], 150 * MIB)
        del block

    def test_the_plan_says_it(self):
        done = self.run_program(config("{batch: 100, train: {synthetic: {samples: 400}}, eval: {synthetic: {samples: 400}}}"),
                                "--plan")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        table = done.stdout[done.stdout.index("\nhost memory of the run (without the program and its libraries)\n"):]
        for kind in ("training", "evaluation"):
            self.assertRegex(table, r"\n  data, %s: 3 mini-batches ahead, 1 in use +1\.20 MiB\n" % kind)
        self.assertRegex(table, r"\n  all of the run +[0-9.]+ .iB\n    in bytes +\d+\n")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    UNBOUNDED = "--unbounded" in sys.argv
    unittest.main(argv=sys.argv[:1])
