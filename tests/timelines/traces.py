"""Small trace files from drawings, for tests. One character is one millisecond; a run of one letter is one instruction:

    draw("worker 0 (cpu:0), stage 0", "aab.", {"a": "F s0 m0", "b": "B s0 m0"})

is a track with F from 0 to 2 ms and B from 2 to 3 ms. A dot is idle.
"""
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from timelines.timeline import BadInput  # noqa: E402

PROGRAM = os.path.join(ROOT, "scripts", "compare-timelines.py")
COPIES = ("load", "send", "recv", "post", "collect")


def span(track, name, start, end, step=1, **more):
    """A complete event of a worker; times in milliseconds."""
    category = "copy" if name.split()[0] in COPIES else "compute"
    args = {"step": step, "pass": "training", **more}
    return {"ph": "X", "pid": 1, "tid": track, "name": name, "cat": category, "ts": start * 1000.0, "dur": (end - start) * 1000.0,
            "args": args}


def track(number, name):
    return {"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}}


def runs(drawing):
    """(letter, start, end) of each run of one letter."""
    found, at = [], 0
    while at < len(drawing):
        end = at
        while end < len(drawing) and drawing[end] == drawing[at]:
            end += 1
        if drawing[at] != ".":
            found.append((drawing[at], at, end))
        at = end
    return found


def draw(tracks, names, step=1, at=0.0, scale=1.0, with_tracks=True):
    """Events of one step. tracks: {name of the track: drawing}; names: {letter: instruction}. pc counts in each worker."""
    events = []
    if with_tracks:
        events += [track(number, name) for number, name in enumerate(tracks, 1)]
    counts = {}
    for number, (name, drawing) in enumerate(tracks.items(), 1):
        worker = name.split(",")[0]
        for letter, start, end in runs(drawing):
            pc = counts[worker] = counts.get(worker, -1) + 1
            events.append(span(number, names[letter], at + start * scale, at + end * scale, step, pc=pc))
    return events


def counter(worker, time, alive):
    return {"ph": "C", "pid": 1, "tid": 0, "name": f"memory of worker {worker}", "ts": time * 1000.0, "args": {"bytes alive": alive}}


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, content, name="t.json"):
        """Writes bytes, text, or an object as JSON. Returns the path."""
        path = self.path(name)
        if not isinstance(content, (bytes, str)):
            content = json.dumps(content)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def trace(self, events, name="t.json", plan=None):
        data = {"traceEvents": events}
        if plan is not None:
            data["otherData"] = {"plan": plan}
        return self.write(data, name)

    def refused(self, words, call, *args):
        """The call raises BadInput with exactly these words; the test's folder is left out of them."""
        with self.assertRaises(BadInput) as caught:
            call(*args)
        self.assertEqual(str(caught.exception).replace(self.folder.name + "/", ""), words)


# Two GPUs. Each letter is 1 ms:
#                         0         1
#                         01234567890123456789
TWO_GPUS = {
    "worker 0 (cuda:0), stage 0: computes": "aaaabbbb....cccc....",
    "worker 0 (cuda:0), stage 0: receives gradients": "......gggg..........",
    "worker 1 (cuda:1), stage 1: computes": "....dddd........eeee",
    "worker 1 (cuda:1), stage 1: receives": "........rr..........",
}
NAMES = {"a": "F s0 m0", "b": "F s0 m1", "c": "B s0 m0", "d": "F s1 m0", "e": "B s1 m0",
         "g": "recv s0 m0 e1", "r": "recv s1 m1 e0"}
