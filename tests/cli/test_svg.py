#!/usr/bin/env python3
"""gpipe-train --plan --svg from outside: the picture is XML, has a mark for every computation, and stays small.

    test_svg.py BUILD/gpipe-train
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import surroundings  # noqa: F401

PROGRAM = None
SVG = "{http://www.w3.org/2000/svg}"
LEFT, RIGHT, WIDTH = 116, 1184, 1200

CONFIG = """
model:
  input: {{shape: [8]}}
  layers: [{layers}]
  loss: mse
data: {{batch: {batch}, train: {{synthetic: {{samples: {batch}}}}}}}
pipeline: {{devices: [{{cpu: {{count: {workers}}}}}], micro_batches: {micro_batches}, schedule: {schedule}, checkpoint: {checkpoint}, balance: size}}
optimizer: {{sgd: {{lr: 0.1}}}}
train: {{steps: 1}}
"""


class Picture(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_program(self, *arguments):
        environment = dict(os.environ, XDG_CACHE_HOME=self.folder.name)
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, env=environment)

    def config(self, workers=2, micro_batches=4, schedule="gpipe", checkpoint="never", layers=8):
        with open(self.path("a.yaml"), "w") as file:
            file.write(CONFIG.format(layers=", ".join(["{linear: {out: 8}}"] * layers), batch=2 * micro_batches, workers=workers,
                                     micro_batches=micro_batches, schedule=schedule, checkpoint=checkpoint))
        return self.path("a.yaml")

    def draw(self, **how):
        config = self.config(**how)
        done = self.run_program("--plan", "--svg", self.path("a.svg"), config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.path("a.svg")) as file:
            self.text = file.read()
        return xml.etree.ElementTree.fromstring(self.text)

    def marks(self, root, kind):
        return [rect for rect in root.iter(SVG + "rect") if rect.get("class") == kind and rect.find(SVG + "title") is not None]

    def test_every_computation_is_drawn(self):
        for schedule, stages, kinds in [("gpipe", 3, "fb"), ("zb_h1", 3, "fiw"), ("{interleaved: {chunks: 2}}", 6, "fb"),
                                        ("zb_v", 6, "fiw")]:
            root = self.draw(workers=3, micro_batches=5, schedule=schedule, layers=12)
            for kind in "fbiw":
                self.assertEqual(len(self.marks(root, kind)), stages * 5 if kind in kinds else 0, (schedule, kind))
            self.assertEqual(len(self.marks(root, "u")), stages)
            self.assertEqual(len(self.marks(root, "r")), 0)
            titles = [mark.find(SVG + "title").text for mark in self.marks(root, "f")]
            self.assertEqual(len(set(title.split(":")[0] for title in titles)), stages * 5)
        root = self.draw(workers=2, micro_batches=3, checkpoint="always")
        self.assertEqual(len(self.marks(root, "r")), 6)

    def test_marks_of_a_lane_follow_one_another(self):
        root = self.draw(workers=3, micro_batches=5, schedule="zb_h2")
        lanes = {}
        for kind in "fbiwu":
            for mark in self.marks(root, kind):
                x, width = float(mark.get("x")), float(mark.get("width"))
                lanes.setdefault(mark.get("y"), []).append((x, x + width))
        self.assertEqual(len(lanes), 3)
        for lane in lanes.values():
            lane.sort()
            self.assertTrue(lane[0][0] >= LEFT and lane[-1][1] <= RIGHT + 0.02)
            for before, after in zip(lane, lane[1:]):
                self.assertLessEqual(before[1], after[0] + 0.02)

    def test_memory_stays_below_the_arena(self):
        root = self.draw(workers=3, micro_batches=5, schedule="1f1b")
        paths = {kind: [path.get("d") for path in root.iter(SVG + "path") if path.get("class") == kind] for kind in ("mem", "arena")}
        self.assertEqual((len(paths["mem"]), len(paths["arena"])), (3, 3))
        for alive, arena in zip(paths["mem"], paths["arena"]):
            line = float(arena.split()[1].split("H")[0])
            tops = [float(y) for y in re.findall("V([0-9.]+)", alive)]
            self.assertGreaterEqual(min(tops), line - 0.06)
            self.assertLess(min(tops), max(tops))

    def test_no_label_is_cut_off(self):
        """Letters of 10 pixels are at most 6 wide; the last label of the axis ends before its line, not after it."""
        for micro_batches in range(1, 9):
            root = self.draw(workers=2, micro_batches=micro_batches)
            labels = [text for text in root.iter(SVG + "text") if text.get("y") == "76"]
            self.assertGreaterEqual(len(labels), 2)
            for label in labels:
                x, width = float(label.get("x")), 6 * len(label.text)
                first, last = (x - width, x) if label.get("text-anchor") == "end" else (x, x + width)
                self.assertTrue(0 <= first and last <= WIDTH, (micro_batches, label.text, x))

    def test_the_legend_has_the_paler_shade(self):
        for schedule, paler in [("gpipe", False), ("{interleaved: {chunks: 2}}", True), ("zb_v", True)]:
            root = self.draw(workers=2, micro_batches=4, schedule=schedule)
            legend = [text.text for text in root.iter(SVG + "text") if text.get("y") == "54"]
            self.assertEqual("paler: a worker's later stage" in legend, paler, schedule)
            shades = [rect for rect in root.iter(SVG + "rect") if rect.get("y") == "44" and rect.get("fill-opacity")]
            self.assertEqual(len(shades), paler, schedule)
            marks = {mark.get("fill-opacity") for mark in self.marks(root, "f")}
            self.assertEqual(marks, {None, "0.60"} if paler else {None})

    def test_both_colour_schemes(self):
        self.draw()
        self.assertIn("@media (prefers-color-scheme:dark)", self.text)

    def test_large_plans_are_drawn_as_shares(self):
        root = self.draw(workers=200, micro_batches=100, schedule="zb_h1", layers=200)
        lanes = [rect for rect in root.iter(SVG + "rect") if rect.get("class") == "lane"]
        self.assertTrue(32 <= len(lanes) <= 64)
        self.assertIn("; shares of the time; every 4th worker", self.text)
        self.assertLess(len(self.text), 4 << 20)
        for kind in "fiw":
            self.assertGreaterEqual(sum(path.get("class") == kind for path in root.iter(SVG + "path")), 50)

    def test_what_is_refused(self):
        config = self.config()
        done = self.run_program("--svg", self.path("a.svg"), config)
        self.assertEqual((done.returncode, done.stderr), (2, "gpipe-train: option --svg needs --plan\n"))
        done = self.run_program("--plan", "--svg", "", config)
        self.assertEqual((done.returncode, done.stderr), (2, "gpipe-train: option --svg needs the name of a file\n"))
        done = self.run_program("--plan", "--svg", config, config)
        self.assertEqual((done.returncode, done.stderr), (2, "gpipe-train: --svg %s: would write over the configuration: "
                                                          "choose another name\n" % config))
        done = self.run_program("--plan", "--svg", self.path("none/a.svg"), config)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none/a.svg", done.stderr)
        self.assertFalse(os.path.exists(self.path("a.svg")))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
