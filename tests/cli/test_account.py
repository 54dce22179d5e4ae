#!/usr/bin/env python3
"""What a run says of its steps at its end, from outside: it adds up, and agrees with --plan and with the timeline.

    test_account.py BUILD/gpipe-train
"""
import decimal
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import surroundings  # noqa: F401

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
TIME = r"([0-9.]+) ([mµ]?s)"
OFF = r"([+-][0-9.]+) ([mµ]?s)"
STEP = r"^  step +" + TIME + " +" + TIME + " +" + OFF + r"  the prediction is (within|\d+%) [a-z0-9% ]+ the measured time$"
TERM = r"^    (computing|copying|waiting) +(\d+)% +(\d+)% +" + OFF + "$"
REPORT = (r"^report: mean of \d+ recorded steps?; predicted from (?:counted costs|a profile)\n"
          r" {23}predicted    measured  difference\n"
          r"  step .*\n    computing .*\n    copying .*\n    waiting .*\n"
          r"    bubble +\d+% +\d+%\n"
          r"  waiting for data +- +[0-9.]+ ?(?:[mµ]?s)?  before each step, \d+% of training; mean of \d+ steps\n"
          r"  host memory +[0-9.]+ .iB +[0-9.]+ .iB  the program and its libraries take [0-9.]+ .iB\n"
          r"(?:  CPU steal +- +\d+%  time that the hypervisor gave to other machines\n)?$")


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

    def report(self, out):
        """The report's lines, once in what was printed."""
        reports = re.findall(r"^report: .*\n(?: .*\n)+", out, re.M)
        self.assertEqual(len(reports), 1, out)
        self.assertRegex(reports[0], REPORT)
        return reports[0]

    def check_printed_sums(self, report):
        """To the last digit that is printed: predicted and difference make measured, the terms make the difference."""
        predicted, unit, measured, unit2, off, unit3, _ = re.search(STEP, report, re.M).groups()
        terms = re.findall(TERM, report, re.M)
        self.assertEqual([term[0] for term in terms], ["computing", "copying", "waiting"])
        self.assertEqual({unit, unit2, unit3, *(term[4] for term in terms)}, {unit})
        exact = decimal.Decimal
        self.assertEqual(exact(predicted) + exact(off), exact(measured))
        self.assertEqual(sum(exact(term[3]) for term in terms), exact(off))
        for side in (1, 2):
            self.assertAlmostEqual(sum(int(term[side]) for term in terms), 100, delta=1)  # each is rounded

    def test_it_adds_up(self):
        for schedule in ("gpipe", "{interleaved: {chunks: 2}}", "zb_h1"):
            out = self.run_program("--set", "pipeline.schedule=" + schedule)
            account = self.end()
            self.check_printed_sums(self.report(out))
            self.assertEqual((account["source"], account["steps"], account["recorded"]), ("counted", 40, 8 + 2))
            expected = self.check_sums(account["expected"])
            self.assertAlmostEqual(expected, account["expected"]["step"], delta=1e-6 * expected)
            took = self.check_sums(account["measured"])
            self.assertAlmostEqual(took, account["measured"]["step"], delta=1e-6 * took)
            self.assertAlmostEqual(sum(account["off"].values()), took - expected, delta=1e-6 * took)
            self.assertGreater(abs(account["off"]["computing"]), 0)
            self.assertTrue(0 <= account["stolen"] <= 1)
            self.check_against_steps(account)
            self.assertEqual(account["planned_bytes"], account["program_bytes"] + sum(account["host"].values()))
            self.assertGreater(account["program_bytes"], 0)
            self.assertGreater(account["resident_bytes"], account["program_bytes"])

    def check_against_steps(self, account):
        """The figures of the report are those of its steps."""
        steps = [line for line in self.lines if line["event"] == "step"]
        seconds = [line["seconds"] for line in steps]
        recorded = [seconds[i - 1] for i in range(1, 41) if 2 <= i <= 9 or i % 16 == 0]
        mean = sum(recorded) / len(recorded)
        self.assertLess(account["measured"]["step"], mean * (1 + 1e-6))  # seconds have the little that comes before and after
        self.assertTrue(0 < account["measured"]["median"] <= max(seconds))
        waited = sum(line["data_seconds"] for line in steps)
        self.assertEqual(account["data"]["steps"], 40)
        self.assertAlmostEqual(account["data"]["seconds"], waited, delta=1e-6 * waited)
        self.assertAlmostEqual(account["data"]["share"], waited / (waited + sum(seconds)), places=6)

    def test_after_a_change(self):
        """The report is of the steps since then; the program takes as much memory as before the run."""
        out = self.run_program("--set", "changes={20: {data.batch: 16}}")
        account = self.end()
        self.check_printed_sums(self.report(out))
        self.assertEqual(account["planned_bytes"], account["program_bytes"] + sum(account["host"].values()))
        self.assertGreater(account["program_bytes"], 0)

    def test_waiting_for_data_is_in_the_timeline(self):
        """Each step's wait is a span, which ends after the threads have read the mini-batch."""
        self.run_program("--trace", self.path("t.json"), "--set", "train.steps=8", "--set", "data.threads=2",
                         "--set", "data.batch=32", "--set", "data.eval={synthetic: {samples: 48}}")
        self.end()
        with open(self.path("t.json")) as file:
            events = json.load(file)["traceEvents"]
        names = {event["args"]["name"]: event["tid"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(list(names)[2:], ["pipeline: steps", "pipeline: waits for data"] + ["loader (%s), thread %d" % (data, thread) for data in
                                                                         ("training", "evaluation") for thread in (0, 1)])
        waits = [event for event in events if event["name"] == "wait for data"]
        reads = [event for event in events if event["ph"] == "X" and event["cat"] == "data"]
        self.assertEqual({event["tid"] for event in waits}, {names["pipeline: waits for data"]})
        ended, samples = {}, {}
        for event in reads:
            about = event["args"]
            self.assertIn(event["tid"], [tid for name, tid in names.items() if name.startswith("loader (%s)" % about["pass"])])
            self.assertEqual(event["name"], "read mini-batch %d" % about["mini_batch"])
            key = about["pass"], about["epoch"], about["mini_batch"]
            ended[key] = max(ended.get(key, 0), event["ts"] + event["dur"])
            samples[key] = samples.get(key, 0) + about["samples"]
        for name, tid in names.items():  # a thread reads one after the other
            own = [event for event in reads if event["tid"] == tid]
            for before, after in zip(own, own[1:]):
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1e-3, name)
        for step in [line for line in self.lines if line["event"] == "step"]:
            key = "training", step["epoch"], (step["step"] - 1) % 2 + 1
            self.assertEqual(samples[key], 32)
            waited = [event for event in waits if event["args"] == {"step": step["step"], "pass": "training"}]
            self.assertLessEqual(len(waited), 1)
            if step["data_seconds"] > 1.001e-6:  # others are left out
                self.assertAlmostEqual(1e-6 * waited[0]["dur"], step["data_seconds"], delta=2e-9)
                self.assertGreaterEqual(waited[0]["ts"] + waited[0]["dur"] + 1e-3, ended[key])
        self.assertEqual([samples["evaluation", 1, index] for index in (1, 2)], [4 * 32, 4 * 16])  # four evaluations

    def test_each_line_has_its_time(self):
        """Which never decreases, and goes on after --resume from the last line that is kept."""
        self.run_program("--set", "train.save_every=4", "--set", "train.steps=8")
        self.end()
        times = [line["time"] for line in self.lines]
        self.assertEqual(times, sorted(times))
        self.assertGreaterEqual(times[0], 0)
        before = times[-2]  # "end" is cut off
        done = subprocess.run([PROGRAM, "--resume", "-q", "-o", self.path("run"), "--set", "train.steps=12", self.path("a.yaml")],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.end()
        self.assertEqual([line["time"] for line in self.lines[: len(times) - 1]], times[:-1])
        times = [line["time"] for line in self.lines]
        self.assertEqual(times, sorted(times))
        self.assertEqual((self.lines[-6]["event"], self.lines[-2]["step"]), ("resume", 12))
        self.assertGreaterEqual(self.lines[-6]["time"], before)

    def test_it_expects_what_the_plan_expects(self):
        """At the rates that the first run leaves."""
        self.run_program()
        step = self.end()["expected"]["step"]
        plan = self.run_program("--plan")
        said, unit = re.search(r"^predicted    a step of 16 samples: ([0-9.]+) (.?s) ", plan, re.M).groups()
        self.assertAlmostEqual(step / {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit], float(said), delta=0.06 * float(said))

    def test_it_agrees_with_the_timeline(self):
        self.run_program("--trace", self.path("t.json"), "--set", "train.steps=6")
        measured = self.end()
        self.assertEqual(measured["recorded"], 5)
        with open(self.path("t.json")) as file:
            events = json.load(file)
        events = events["traceEvents"] if isinstance(events, dict) else events
        busy, copying = [0, 0], [0, 0]
        for event in events:
            if event.get("ph") != "X" or event["cat"] not in ("compute", "copy") or event["args"]["step"] < 2 or event["name"].startswith(("send", "post")):
                continue
            if event["name"].startswith("barrier"):
                continue
            (busy if event["cat"] == "compute" else copying)[event["tid"] - 1] += 1e-6 * event["dur"] / 5
        for worker in range(2):
            self.assertAlmostEqual(measured["measured"]["busy"][worker], busy[worker], delta=1e-3 * busy[worker])
            self.assertAlmostEqual(measured["measured"]["copying"][worker], copying[worker], delta=0.02 * copying[worker])

    def test_where_there_is_none(self):
        self.assertNotIn("report", self.run_program("--set", "train.steps=1"))
        self.assertIsNone(self.end())

    def test_how_much_is_said(self):
        self.assertEqual(self.run_program("-q"), "")
        self.assertIsNotNone(self.end())
        out = self.run_program("-v")
        self.report(out)
        table = out[out.index("\nworkers in a step, mean of the recorded steps\n") :]
        self.assertEqual(len(re.findall(r"^ {7}[01](?: +[0-9.]+ .?s| +0){6}$", table, re.M)), 2, table)
        self.assertRegex(table, r"\n  median of all 40 steps of this size, without the first: [0-9.]+ [mµ]?s\n")
        self.assertRegex(out.splitlines()[-1], "^done: ")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
