#!/usr/bin/env python3
"""gpipe-balance --simulate from outside: published bubbles, what it prints, what it refuses.

    test_simulate.py BUILD/gpipe-balance
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import surroundings  # noqa: F401

PROGRAM = None

# Zero Bubble Pipeline Parallelism (2401.10241): times of table 9, bubble rates of table 5.
PUBLISHED = [
    ("18.522", "18.086", "9.337", "0.601", {"1f1b": 0.2431, "zb_h1": 0.1585, "zb_h2": 0.1083}),
    ("29.718", "29.444", "19.927", "0.527", {"1f1b": 0.2347, "zb_h1": 0.1323, "zb_h2": 0.0698}),
]


class Simulate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, text):
        path = os.path.join(self.folder.name, "a.yaml")
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)

    def simulate(self, text):
        done = self.run_program("--simulate", self.write(text), "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refuse(self, status, message, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual((done.returncode, done.stdout), (status, ""))
        self.assertEqual(done.stderr, "gpipe-balance: %s\n" % message)

    def test_published_rates(self):
        for forward, backward_input, backward_weight, copy, rates in PUBLISHED:
            for schedule, rate in rates.items():
                answer = self.simulate(
                    "{schedule: %s, stages: 8, micro_batches: 24, chunks: 1, forward: %s, backward_input: %s, "
                    "backward_weight: %s, copy: %s}" % (schedule, forward, backward_input, backward_weight, copy))
                self.assertEqual("%.4f" % answer["bubble"], "%.4f" % rate)
                self.assertEqual(len(answer["in_flight"]), 8)
                self.assertGreaterEqual(answer["step"], answer["cost"])
                self.assertAlmostEqual(answer["spans"][answer["longest"]], answer["cost"])
                for span, busy, waiting in zip(answer["spans"], answer["busy"], answer["waiting"]):
                    self.assertAlmostEqual(span, busy + waiting, places=6)

    def test_copies_of_a_list_are_of_links(self):
        """Two devices have one link, and it has one length, whichever way a schedule goes over it."""
        steps = {}
        for schedule in ("zb_v", "1f1b"):
            for copies in ("[0, 1]", "[1, 1]", "[1, 0]", "[0, 0]", "1"):
                steps[schedule, copies] = self.simulate(
                    "{schedule: %s, stages: 2, micro_batches: 8, forward: 1, backward_input: 1, backward_weight: 1, "
                    "copy: %s}" % (schedule, copies))["step"]
            self.assertEqual(steps[schedule, "[0, 1]"], steps[schedule, "[1, 1]"])
            self.assertEqual(steps[schedule, "[1, 1]"], steps[schedule, "1"])
            self.assertEqual(steps[schedule, "[1, 0]"], steps[schedule, "[0, 0]"])
            self.assertLess(steps[schedule, "[0, 0]"], steps[schedule, "1"])

    def test_table(self):
        path = self.write("schedule: 1f1b\nstages: 2\nmicro_batches: 3\nforward: 1\nbackward_input: 1\n"
                          "backward_weight: 1\n")
        done = self.run_program("--simulate", path)
        self.assertEqual(done.stdout,
                         "1f1b, 2 stages, 3 micro-batches\n"
                         "step    12.000 ms\n"
                         "bubble  25.00 % of the longest span, 12.000 ms of stage 0\n"
                         "\n"
                         "  stage         span         busy      waiting  in flight\n"
                         "      0       12.000        9.000        3.000          2\n"
                         "      1        9.000        9.000        0.000          1\n")

    def test_devices_share_processors(self):
        """One processor always has work, so a step takes the sum of all work. Enough processors change nothing."""
        text = "{schedule: %s, stages: 4, micro_batches: 8, forward: 1, backward_input: 2, backward_weight: 1%s}"
        for schedule in ("gpipe", "1f1b", "zb_h1", "zb_h2", "zb_v", "{interleaved: {chunks: 2}}"):
            alone = self.simulate(text % (schedule, ""))
            self.assertNotIn("processors", alone)
            for processors in (1, 2, 4, 9):
                shared = self.simulate(text % (schedule, f", processors: {processors}"))
                self.assertEqual(shared.pop("processors"), processors)
                self.assertGreaterEqual(shared["step"] + 1e-9, max(alone["step"], 4 * 8 * 4 / processors))
                if processors == 1:
                    self.assertAlmostEqual(shared["step"], 4 * 8 * 4)
                if processors >= 4:
                    self.assertEqual(shared, alone)
        done = self.run_program("--simulate", self.write(text.replace("%s", "1f1b", 1) % ", processors: 2"))
        self.assertTrue(done.stdout.startswith("1f1b, 4 stages, 8 micro-batches, 2 processors\n"))

    def test_devices_that_host_threads_issue_to(self):
        """The tables of tests/schedule/test_issue.c: of six copies two wait 4 ms for a computation, one 1 ms for a copy."""
        text = ("{schedule: gpipe, stages: 2, micro_batches: 3, forward: 4, backward_input: 2, backward_weight: 2, copy: 1, "
                "lockstep: %s, device: {copies: queued, hosts: one}}")
        answer = self.simulate(text % "false")
        self.assertEqual(answer["device"],
                         {"copies": "queued", "hosts": "one", "launch": 0, "launch_copy": 0, "wake": 0})
        self.assertEqual((answer["step"], answer["copies"]), (38, 6))
        self.assertAlmostEqual(answer["copy_delay"], (4 + 4 + 1) / 6)
        answer = self.simulate(text % "true")
        self.assertEqual((answer["step"], answer["copy_delay"]), (34, 0))
        done = self.run_program("--simulate", self.write(text % "true"))
        self.assertEqual(done.stdout,
                         "gpipe, 2 stages, 3 micro-batches, lockstep\n"
                         "issued  copies queued, one host thread; launch 0 ms, of a copy 0 ms, wake 0 ms\n"
                         "step    34.000 ms\n"
                         "bubble  29.41 % of the longest span, 34.000 ms of stage 0\n"
                         "copies  6, which start 0.000 ms late on average\n"
                         "\n"
                         "  stage         span         busy      waiting  in flight\n"
                         "      0       34.000       24.000       10.000          3\n"
                         "      1       24.000       24.000        0.000          3\n")
        done = self.run_program("--simulate", self.write(text.replace("hosts: one", "hosts: one, launch: 1500000") % "true"))
        self.assertIn("; launch 1500000 ms, of a copy ", done.stdout)

    def test_the_programs_of_a_simulation(self):
        """Two devices, one micro-batch, copies of 0.25 ms: F from 0 to 1, its value arrives at 1.25; F to 2.25, B to 4.25 (of two
        parts of 1 ms); its gradient arrives at 4.5; B to 6.5, and the update of 0.5 ms ends at 7."""
        answer = self.simulate("{schedule: gpipe, stages: 2, micro_batches: 1, forward: 1, backward_input: 1, backward_weight: 1, "
                               "copy: 0.25, update: 0.5}")
        self.assertEqual([answer[key] for key in ("format", "version", "kind", "name", "times", "schedule", "stages", "lockstep")],
                         ["gpipe-plan", 1, "simulation", "a.yaml", "given", "gpipe", 2, False])
        self.assertEqual([(worker["name"], worker["stages"]) for worker in answer["workers"]], [("device:0", [0]), ("device:1", [1])])
        self.assertEqual([(edge["from"], edge["to"], edge["carries"]) for edge in answer["edges"]][:2],
                         [(0, 1, "activation"), (1, 0, "gradient")])
        (program,) = answer["programs"]
        self.assertEqual((program["pass"], program["micro_batches"], program["step_ms"], answer["step"]), ("training", 1, 7, 7))
        self.assertEqual([worker["busy_ms"] for worker in program["workers"]], [3.5, 3.5])
        self.assertEqual(program["bubble"], 0.5)
        times = {i["name"]: (i["start_ms"], i["end_ms"]) for worker in program["workers"] for i in worker["instructions"] if i["op"] in "FB"}
        self.assertEqual(times, {"F s0 m0": (0, 1), "F s1 m0": (1.25, 2.25), "B s1 m0": (2.25, 4.25), "B s0 m0": (4.5, 6.5)})
        sends = {i["edge"]: i["arrives_ms"] for worker in program["workers"] for i in worker["instructions"] if i["op"] == "send"}
        self.assertEqual((sends[0], sends[1]), (1.25, 4.5))

    def test_times_follow_from_the_waits(self):
        """An instruction starts when the one before it has ended and the values of its waits have arrived, and not later."""
        for schedule in ("gpipe", "gpipe, lockstep: true", "1f1b", "zb_h2", "zb_v", "{interleaved: {chunks: 2}}"):
            for more in ("", ", copy: 0.25", ", copy: 0.25, processors: 2", ", latency: 0.1, bytes: 100000, bandwidth: 1"):
                answer = self.simulate("{schedule: %s, stages: 4, micro_batches: 8, forward: 1, backward_input: 1.5, backward_weight: 1%s}"
                                       % (schedule, more))
                program = answer["programs"][0]
                for worker in program["workers"]:
                    ready = 0
                    for i in worker["instructions"]:
                        its = [program["workers"][w]["instructions"][pc] for w, pc in i["waits"]]
                        ready = max([ready, *(it.get("arrives_ms", it["end_ms"]) for it in its)])
                        self.assertAlmostEqual(i["end_ms" if i["op"] == "barrier" else "start_ms"], ready, places=9)
                        ready = i["end_ms"]
                        if i["op"] == "recv":
                            self.assertEqual([(it["op"], it["edge"], it["micro"]) for it in its], [("send", i["edge"], i["micro"])])
                self.assertEqual(program["step_ms"], answer["step"])

    def test_instructions_that_host_threads_issue(self):
        """None starts before it is issued, before the one before it in its queue has ended, or before its waits have."""
        for device in ("copies: beside", "copies: queued, hosts: one, launch: 0.1", "copies: same_queue", "launch: 0.1, wake: 0.1"):
            for schedule in ("gpipe", "gpipe, lockstep: true", "1f1b", "{interleaved: {chunks: 2}}"):
                answer = self.simulate("{schedule: %s, stages: 4, micro_batches: 8, forward: 1, backward_input: 1.5, backward_weight: 1, "
                                       "copy: 0.25, device: {%s}}" % (schedule, device))
                program, queues = answer["programs"][0], set()
                for worker in program["workers"]:
                    before = {}
                    for i in worker["instructions"]:
                        queues.add(i["queue"])
                        ends = [program["workers"][w]["instructions"][pc]["end_ms"] for w, pc in i["waits"]]
                        ready = max([before.get(i["queue"], 0), i["issued_ms"], *ends])
                        self.assertGreaterEqual(i["end_ms" if i["op"] == "barrier" else "start_ms"], ready - 1e-9, i)
                        before[i["queue"]] = i["end_ms"]
                self.assertEqual(queues, {0, 1, 2})
                self.assertEqual(program["step_ms"], answer["step"])

    def test_a_long_simulation_lists_no_instructions(self):
        answer = self.simulate("{schedule: 1f1b, stages: 40, micro_batches: 2000, forward: 1, backward_input: 1, backward_weight: 1}")
        self.assertRegex(answer["left_out"], r"\A\d{6} instructions; simulate fewer micro-batches to see them\Z")
        workers = answer["programs"][0]["workers"]
        self.assertEqual([set(worker) for worker in workers], [{"busy_ms", "copy_ms"}] * 40)
        self.assertEqual([worker["busy_ms"] for worker in workers], answer["busy"])

    def test_identities(self):
        """Times do not count, programs do."""
        text = "{schedule: %s, stages: %d, micro_batches: %d, forward: %g, backward_input: 1, backward_weight: 1}"
        found = {how: self.simulate(text % how)["identity"] for how in
                 (("1f1b", 2, 4, 1), ("1f1b", 2, 4, 2), ("1f1b", 2, 5, 1), ("1f1b", 3, 4, 1), ("gpipe", 2, 4, 1))}
        self.assertEqual(found["1f1b", 2, 4, 1], found["1f1b", 2, 4, 2])
        self.assertEqual(len(set(found.values())), 4)

    def test_json_is_one_line(self):
        path = self.write("{schedule: 1f1b, stages: 2, micro_batches: 3, forward: 1, backward_input: 1, backward_weight: 1}")
        self.assertEqual(self.run_program("--simulate", path, "--json").stdout.count("\n"), 1)

    def test_what_is_refused(self):
        path = self.write("schedule: 1f1b\nstages: 2\nmicro_batches: many\n")
        self.refuse(2, path + ':3:16: micro_batches: "many" is not an integer', "--simulate", path)
        self.refuse(2, "--simulate takes all times from its file, so --write cannot be used with it", "--simulate", path,
                    "--write")
        self.refuse(2, "--simulate takes all times from its file, so b.yaml cannot be used with it", "--simulate", path,
                    "b.yaml")
        self.refuse(2, "option --simulate needs a value", "--simulate")
        self.refuse(2, "option --simulate needs the name of a file", "--simulate", "")
        gone = os.path.join(self.folder.name, "gone.yaml")
        self.assertEqual(self.run_program("--simulate", gone).returncode, 2)
        done = self.run_program("--simulate", self.write("schedule: [1f1b"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("a.yaml:", done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
