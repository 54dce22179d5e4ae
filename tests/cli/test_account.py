#!/usr/bin/env python3
"""What a run says of its steps at its end, from outside: it adds up, and agrees with --plan and with the timeline.

    test_account.py BUILD/gpipe-train
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = None

CONFIG = """
model:
  input: {shape: [32]}
  layers: [{linear: {out: 64}}, relu, {linear: {out: 64}}, relu, {linear: {out: 64}}, relu, {linear: {out: 32}}, relu]
  loss: mse
data: {batch: 16, train: {synthetic: {samples: 64}}}
pipeline: {devices: [cpu, cpu], micro_batches: 4, balance: size}
optimizer: {sgd: {lr: 0.01}}
train: {steps: 40}
"""
SIDE = r"[0-9.]+ .?s, bubble \d+% \(copying \d+%, waiting \d+%\)"
OFF = r"computing [+-][0-9.]+ .?s, copying [+-][0-9.]+ .?s, waiting [+-][0-9.]+ .?s(?:; \d+% of the processors' time went to other machines)?"
LINE = (r"^account: a step took " + SIDE + r"; expected \(counted\) " + SIDE + ", off by " + OFF + "; "
        r"memory planned [0-9.]+ .iB \(program and libraries [0-9.]+ .iB\), resident [0-9.]+ .iB$")


class Account(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(self.path("a.yaml"), "w") as file:
            file.write(CONFIG)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_program(self, *arguments):
        environment = dict(os.environ, XDG_CACHE_HOME=self.folder.name)
        done = subprocess.run([PROGRAM, "-o", self.path("run"), "--force", *arguments, self.path("a.yaml")],
                              capture_output=True, text=True, timeout=300, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def end(self):
        with open(self.path("run/metrics.jsonl")) as file:
            self.lines = [json.loads(line) for line in file]
        self.assertEqual(self.lines[-1]["event"], "end")
        return self.lines[-1].get("account")

    def check_sums(self, side):
        """All workers' times add up to one length, and their bubble to what they do not compute in it."""
        lengths = [sum(parts) for parts in zip(side["busy"], side["copying"], side["waiting"])]
        self.assertAlmostEqual(min(lengths), max(lengths), delta=1e-6 * max(lengths))
        self.assertAlmostEqual(side["bubble"], 1 - sum(side["busy"]) / sum(lengths), places=6)
        self.assertGreater(min(side["busy"]), 0)
        return lengths[0]

    def test_it_adds_up(self):
        for schedule in ("gpipe", "{interleaved: {chunks: 2}}", "zb_h1"):
            out = self.run_program("--set", "pipeline.schedule=" + schedule)
            account = self.end()
            self.assertEqual(len(re.findall(LINE, out, re.M)), 1)
            for bubble, *parts in re.findall(r"bubble (\d+)% \(copying (\d+)%, waiting (\d+)%\)", out):
                self.assertAlmostEqual(int(bubble), sum(map(int, parts)), delta=1)  # each is rounded
            self.assertEqual((account["source"], account["steps"], account["recorded"]), ("counted", 40, 8 + 2))
            expected = self.check_sums(account["expected"])
            self.assertAlmostEqual(expected, account["expected"]["step"], delta=1e-6 * expected)
            took = self.check_sums(account["measured"])
            self.assertAlmostEqual(sum(account["off"].values()), took - expected, delta=1e-6 * took)
            self.assertGreater(abs(account["off"]["computing"]), 0)
            self.assertTrue(0 <= account["stolen"] <= 1)
            seconds = [line["seconds"] for line in self.lines if line["event"] == "step"]
            self.assertTrue(0 < account["measured"]["step"] <= max(seconds))
            self.assertEqual(account["planned_bytes"], account["program_bytes"] + sum(account["host"].values()))
            self.assertGreater(account["program_bytes"], 0)
            self.assertGreater(account["resident_bytes"], account["program_bytes"])

    def test_it_expects_what_the_plan_expects(self):
        plan = self.run_program("--plan")
        self.run_program()
        step = self.end()["expected"]["step"]
        said, unit = re.search(r"^expected     a step of 16 samples: ([0-9.]+) (.?s) ", plan, re.M).groups()
        self.assertAlmostEqual(step / {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit], float(said), delta=0.006 * float(said))

    def test_it_agrees_with_the_timeline(self):
        self.run_program("--trace", self.path("t.json"), "--set", "train.steps=6")
        measured = self.end()
        self.assertEqual(measured["recorded"], 5)
        with open(self.path("t.json")) as file:
            events = json.load(file)
        events = events["traceEvents"] if isinstance(events, dict) else events
        busy, copying = [0, 0], [0, 0]
        for event in events:
            if event.get("ph") != "X" or event["cat"] == "wait" or event["args"]["step"] < 2 or event["name"].startswith("send"):
                continue
            if event["name"].startswith("barrier"):
                continue
            (busy if event["cat"] == "compute" else copying)[event["tid"] - 1] += 1e-6 * event["dur"] / 5
        for worker in range(2):
            self.assertAlmostEqual(measured["measured"]["busy"][worker], busy[worker], delta=1e-3 * busy[worker])
            self.assertAlmostEqual(measured["measured"]["copying"][worker], copying[worker], delta=0.02 * copying[worker])

    def test_where_there_is_none(self):
        self.assertNotIn("account", self.run_program("--set", "train.steps=1"))
        self.assertIsNone(self.end())

    def test_how_much_is_said(self):
        self.assertEqual(self.run_program("-q"), "")
        self.assertIsNotNone(self.end())
        out = self.run_program("-v")
        table = out[out.index("\naccount of 40 steps, 10 instruction by instruction; expected (counted) and measured\n") :]
        self.assertEqual(len(re.findall(r"^ {7}[01](?: +[0-9.]+ .?s| +0){6}$", table, re.M)), 2, table)
        self.assertRegex(table, r"\n  longer than expected, of the steps recorded: " + OFF + "\n")
        self.assertRegex(out.splitlines()[-1], "^done: ")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
