#!/usr/bin/env python3
"""Timelines from outside: they are valid, spans nest, layers lie in their instructions, and waits have reasons.

    test_trace.py BUILD/gpipe-train
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest

import surroundings  # noqa: F401

PROGRAM = None

# A name that JSON must escape, and a group that CPUs compute as one operation: batch norm, addition, relu.
CONFIG = """
model:
  input: {shape: [2, 6, 6]}
  layers:
    - conv: {out: 4, kernel: 3, pad: 1, bias: false, name: 'a"\\é'}
    - batch_norm: {name: n}
    - relu: {name: r}
    - conv: {out: 4, kernel: 3, pad: 1, name: c}
    - batch_norm: {name: o}
    - add: {from: [-1, r], name: s}
    - relu: {name: t}
    - flatten: {name: f}
    - linear: {out: 6, name: l}
    - gelu: {name: g}
    - linear: {out: 3, name: m}
  loss: cross_entropy
data: {batch: 16, train: {synthetic: {samples: 64}}, eval: {synthetic: {samples: 24}}}
pipeline: {devices: [cpu, cpu], micro_batches: 4, balance: size}
optimizer: {sgd: {lr: 0.01, momentum: 0.9}}
train: {steps: 6, eval_every: 3}
"""
LAYERS = {'a"\\é', "n", "r", "c", "o", "s", "t", "f", "l", "g", "m", "loss"}
ROUNDING = 2e-3  # microseconds, of numbers with three digits
COMPUTES = {"F", "R", "B", "I", "W", "norm", "clip", "total", "reduce", "update", "step"}


def unique(pairs):
    """An object of the JSON, without duplicate keys."""
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), keys
    return dict(pairs)


def end_of(event):
    return event["ts"] + event["dur"]


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(self.path("a.yaml"), "w") as file:
            file.write(CONFIG)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_program(self, *arguments):
        done = subprocess.run([PROGRAM, "-o", self.path("run"), "--force", *arguments, self.path("a.yaml")],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def trace(self, *arguments):
        self.run_program("-q", "--trace", self.path("t.json"), *arguments)
        with open(self.path("t.json"), encoding="utf-8") as file:
            events = json.load(file, object_pairs_hook=unique)["traceEvents"]
        self.names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        return events

    def tracks(self, events):
        """The spans of each track in the order of the file."""
        tracks = {}
        for event in events:
            if event["ph"] == "X":
                tracks.setdefault(event["tid"], []).append(event)
        self.assertEqual(set(tracks) - set(self.names), set())
        return tracks

    def check_nesting(self, spans):
        """Spans begin one after another. Each lies in the one that is open, or begins after its end. The parent of each."""
        parents, open_spans, before = [], [], 0
        for span in spans:
            self.assertGreaterEqual(span["ts"], before, span)
            before = span["ts"]
            while open_spans and span["ts"] >= end_of(open_spans[-1]) - ROUNDING and end_of(span) > end_of(open_spans[-1]) + ROUNDING:
                open_spans.pop()
            if span["cat"] != "layer":
                open_spans = [outer for outer in open_spans if end_of(outer) > span["ts"] + ROUNDING]
            if open_spans:
                self.assertLessEqual(end_of(span), end_of(open_spans[-1]) + ROUNDING, (span, open_spans[-1]))
            parents.append(open_spans[-1] if open_spans else None)
            if span["cat"] != "layer":
                open_spans.append(span)
        return parents

    def check_worker(self, spans):
        """Instructions one after another, with layers in those that compute. The names of all layers in forward passes."""
        found, before, counts, names = None, 0, {}, set()
        for span, parent in zip(spans, self.check_nesting(spans)):
            if span["cat"] != "layer":
                self.assertIsNone(parent, span)
                found, before = span, span["ts"]
                counts[id(span)] = [span, 0]
                continue
            self.assertIs(parent, found)
            self.assertGreaterEqual(span["ts"], before - ROUNDING, span)
            before = end_of(span)
            for key in ("step", "pass", "pc"):
                self.assertEqual(span["args"][key], found["args"][key])
            self.assertEqual(span["args"]["op"], found["name"].split()[0])
            self.assertIn("kind", span["args"])
            counts[id(found)][1] += 1
            if span["args"]["op"] == "F":
                names.update(span["name"].split(" + "))
        for span, count in counts.values():
            op = span["name"].split()[0]
            self.assertTrue(count > 0 or op != "F", span)  # others may have nothing to do: a stage without parameters
            self.assertTrue(count == 0 or op in COMPUTES, span)
        return names

    def check_waits(self, tracks):
        """What a wait was for: an instruction that the worker has at this index, or nothing."""
        programs = {}
        for tid, spans in tracks.items():
            for span in spans:
                if span["cat"] in ("compute", "copy") or span["name"].startswith("barrier"):
                    programs[tid - 1, span["args"]["pass"], span["args"]["step"], span["args"]["pc"]] = span["name"]
        for span in itertools.chain(*tracks.values()):
            if span["cat"] != "wait" or span["name"] == "wait for data":
                continue
            about = span["args"]
            if about["for"].startswith("nothing: "):
                self.assertNotIn("for_worker", about)
                continue
            name = programs[about["for_worker"], about["pass"], about["step"], about["for_pc"]]
            self.assertIn("%s on worker %d" % (name, about["for_worker"]), about["for"])
            if span["name"] == "wait":
                self.assertRegex(about["for"], r"^((send|slot: recv) s\d+ m\d+ e\d+ on worker \d+ \((activation|skip|gradient)\)|post s\d+ c\d+ on worker \d+ \((scalars|squares)\))$")

    def check(self, *arguments):
        """Of steps 2 to 4, with the evaluation after step 3."""
        events = self.trace("--trace-layers", "--trace-steps", "2:4", *arguments)
        tracks = self.tracks(events)
        workers = [tid for tid, name in self.names.items() if name.startswith("worker ")]
        names = set().union(*(self.check_worker(tracks[tid]) for tid in workers))
        self.assertEqual(names, LAYERS)
        for tid in set(tracks) - set(workers):
            self.check_nesting(tracks[tid])
        self.check_waits({tid: tracks[tid] for tid in workers})
        [steps] = [tid for tid, name in self.names.items() if name == "pipeline: steps"]
        self.assertEqual([span["name"] for span in tracks[steps]], ["step 2", "step 3", "evaluation after step 3", "step 4"])
        return tracks

    def test_gpipe(self):
        """Recomputes of all micro-batches but the last, of all, and of none; the third clips gradients."""
        self.check()
        self.check("--set", "pipeline.checkpoint=always")
        self.check("--set", "pipeline.checkpoint=never", "--set", "optimizer.clip_norm=1")

    def test_other_schedules(self):
        self.check("--set", "pipeline.schedule=1f1b")
        self.check("--set", "pipeline.schedule={interleaved: {chunks: 2}}")
        tracks = self.check("--set", "pipeline.schedule=zb_h1")
        self.assertTrue(any(span["cat"] == "layer" and span["args"]["op"] == "W" for span in itertools.chain(*tracks.values())))

    def test_lockstep(self):
        """Its barriers take time on CPUs too; each says what for."""
        tracks = self.check("--set", "pipeline.lockstep=true")
        barriers = [span for span in itertools.chain(*tracks.values()) if span["name"].startswith("barrier")]
        self.assertGreater(len(barriers), 0)
        for span in barriers:
            self.assertRegex(span["args"]["for"], r"^(nothing: the other workers had come|barrier: recv s\d m\d e\d on worker \d \(\w+\))$")

    def test_threads_and_more_workers(self):
        self.check("--set", "pipeline.devices=[cpu: 2, cpu, cpu]")
        self.check("--set", "pipeline.devices=[cpu: 2]")

    def test_a_change_of_the_plan(self):
        """A timeline is of one plan: the one before the change, or the one after it."""
        change = ("--set", "changes={5: {pipeline.micro_batches: 2}}")
        self.check(*change)
        tracks = self.tracks(self.trace("--trace-layers", "--trace-steps", "5", *change))
        micro = {span["name"].split()[2] for span in tracks[1] if span["cat"] == "compute" and span["name"].startswith("F")}
        self.assertEqual(micro, {"m0", "m1"})
        self.check_worker(tracks[1])

    def test_without_layers(self):
        """The default: instructions alone, of the same programs."""
        with_layers = self.tracks(self.trace("--trace-layers"))
        without = self.tracks(self.trace())
        for tid in (1, 2):
            names = [[span["name"] for span in tracks[tid] if span["cat"] in ("compute", "copy")] for tracks in (with_layers, without)]
            self.assertEqual(*names)
            self.assertFalse(any(span["cat"] == "layer" for span in without[tid]))

    def test_the_run_stays_the_same(self):
        """The model to the byte, and every loss."""
        outcomes = []
        for options in ((), ("--trace", self.path("t.json")), ("--trace", self.path("t.json"), "--trace-layers")):
            self.run_program("-q", *options)
            with open(self.path("run/metrics.jsonl")) as file:
                losses = [line.get("loss") for line in map(json.loads, file)]
            with open(self.path("run/model.safetensors"), "rb") as file:
                outcomes.append((file.read(), losses))
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(outcomes[0], outcomes[2])


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
