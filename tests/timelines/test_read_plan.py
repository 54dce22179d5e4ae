"""Reading plans and simulations, joining traces with plans, and each kind of bad plan with its sentence."""
import copy
import json
import os
import subprocess
import unittest

from plans import PROGRAM, plan, run_of
from traces import ROOT, Case

from timelines.compare import compare
from timelines.figures import Causes, figures
from timelines.page import page
from timelines.read import Options, read
from timelines.timeline import IDLE_KEYS, BadInput

AGAIN = "print it again with gpipe-train --plan --json or gpipe-balance --simulate FILE --json"
THIS_PLAN = ("give the plan of this run: gpipe-train --plan --json prints it, and the run folder has it in plan.json")


def causes(timeline):
    from types import SimpleNamespace

    share = SimpleNamespace(idle_by=dict.fromkeys(IDLE_KEYS, 1.0))
    return Causes({step.number: [share] * len(timeline.workers) for step in timeline.steps})


class Content(Case):
    def test_a_plan_is_one_step(self):
        timeline = read(self.write(plan()))
        self.assertEqual((timeline.source, timeline.name), ("plan", "t.json"))
        self.assertEqual([(step.number, step.start, step.end) for step in timeline.steps], [(1, 0.0, 11.0)])
        self.assertEqual([(it.name, it.stages, it.lanes) for it in timeline.workers],
                         [("cuda:0", (0,), ("computes", "receives", "receives gradients")),
                          ("cuda:1", (1,), ("computes", "receives", "receives gradients"))])
        self.assertEqual([(it.worker, it.lane, it.kind, it.name, it.pc, it.start, it.end) for it in timeline.spans[:4]],
                         [(0, 0, "compute", "F s0 m0", 0, 0.0, 2.0), (0, 0, "copy", "send s0 m0 e0", 1, 2.0, 2.0),
                          (0, 0, "compute", "F s0 m1", 2, 2.0, 4.0), (1, 1, "copy", "recv s1 m0 e0", 0, 2.0, 3.0)])
        self.assertEqual(timeline.memory[1], [(2.0, 10.0), (3.0, 40.0), (5.0, 70.0), (8.0, 70.0)])

    def test_figures_of_a_plan(self):
        # The drawing in plans.py: busy 6 and 5 of 11 ms, idle 4 and 5, bubble 1 − 11 / 22.
        timeline = read(self.write(plan()))
        run = figures(timeline, causes(timeline))
        self.assertEqual((run["step_ms"], run["bubble"], run["between_ms"]), (11.0, 0.5, 0.0))
        self.assertEqual([(it["busy_ms"], it["copy_ms"], it["copy_exposed_ms"], it["idle_ms"]) for it in run["workers"]],
                         [(6.0, 1.0, 1.0, 4.0), (5.0, 1.0, 1.0, 5.0)])
        self.assertEqual(run["memory"], [{"peak_bytes": 300.0, "planned_bytes": 300.0, "arena_bytes": 400.0},
                                         {"peak_bytes": 70.0, "planned_bytes": 70.0, "arena_bytes": 80.0}])

    def test_the_largest_training_program_is_the_step(self):
        small, evaluation = copy.deepcopy(PROGRAM), copy.deepcopy(PROGRAM)
        small["samples"], evaluation["samples"], evaluation["pass"] = 3, 64, "evaluation"
        timeline = read(self.write(plan(programs=[evaluation, small, PROGRAM])))
        self.assertEqual({it.program for it in timeline.spans}, {2})

    def test_barriers_are_no_spans(self):
        program = copy.deepcopy(PROGRAM)
        program["workers"][0]["instructions"].insert(2, {"name": "barrier, clock 1", "op": "barrier", "start_ms": 2, "end_ms": 2})
        self.assertEqual(len(read(self.write(plan(programs=[program]))).spans), 9)

    def test_a_simulation(self):
        program = os.environ.get("GPIPE_BALANCE", "")
        file = self.write("{schedule: gpipe, stages: 2, micro_batches: 3, forward: 1, backward_input: 2, backward_weight: 0}", "s.yaml")
        text = subprocess.run([program, "--simulate", file, "--json"], capture_output=True, check=True).stdout if program else b"{}"
        if b"gpipe-plan" not in text:
            self.skipTest("gpipe-balance --simulate --json prints no instructions")
        timeline = read(self.write(text))
        # GPipe: 2 stages, 3 micro-batches of 1 + 2 ms: (3 + 2 − 1) × 3 = 12 ms, of which each stage computes 9.
        run = figures(timeline, causes(timeline))
        self.assertEqual((run["source"], run["step_ms"], run["bubble"]), ("simulation", 12.0, 0.25))
        self.assertEqual([it["busy_ms"] for it in run["workers"]], [9.0, 9.0])


class Joined(Case):
    """A trace beside its plan."""

    def test_predicted_beside_measured(self):
        # The run takes twice as long as planned.
        timeline = read(self.trace(run_of(scale=2.0), plan=plan()))
        self.assertEqual(timeline.remarks, [])
        run = figures(timeline, causes(timeline))
        self.assertEqual(run["planned"], {"identity": "00000000000000aa", "times": "counted", "step_ms": 11.0, "bubble": 0.5})
        rows = {(row["op"], row["stage"]): (row["predicted_ms"], row["median_ms"]) for row in run["instructions"]}
        self.assertEqual(rows, {("F", 0): (2.0, 4.0), ("send", 0): (0.0, 0.0), ("recv", 0): (1.0, 2.0), ("B", 0): (2.0, 4.0),
                                ("recv", 1): (1.0, 2.0), ("F", 1): (2.0, 4.0), ("B", 1): (3.0, 6.0), ("send", 1): (0.0, 0.0)})
        self.assertEqual([row["planned_bytes"] for row in run["memory"]], [300.0, 70.0])

    def test_a_plan_from_the_options(self):
        path, given = self.trace(run_of(None)), self.write(plan(), "plan.json")
        self.assertEqual(read(path).remarks, ["The file has no plan, so nothing predicted is beside what was measured."])
        timeline = read(path, Options(plan=given))
        self.assertEqual(({it.program for it in timeline.spans}, timeline.remarks, timeline.plan.identity), ({0}, [], "00000000000000aa"))

    def test_the_program_is_found_if_the_trace_does_not_name_it(self):
        other = copy.deepcopy(PROGRAM)
        other["workers"][0]["instructions"][0]["name"] = "F s0 m7"
        evaluation = {**copy.deepcopy(PROGRAM), "pass": "evaluation"}
        timeline = read(self.trace(run_of(None)), Options(plan=self.write(plan(programs=[evaluation, other, PROGRAM]), "plan.json")))
        self.assertEqual({it.program for it in timeline.spans}, {2})

    def test_names_of_workers_are_the_plan_s(self):
        workers = [{"name": "left"}, {"name": "right"}]
        self.assertEqual([it.name for it in read(self.trace(run_of(), plan=plan(workers=workers))).workers], ["left", "right"])
        workers = [{"name": "same"}, {"name": "same"}]
        self.assertEqual([it.name for it in read(self.trace(run_of(), plan=plan(workers=workers))).workers], ["cuda:0", "cuda:1"])

    def test_a_plan_of_another_run(self):
        path = self.trace(run_of(), plan=plan())
        given = self.write(plan(identity="00000000000000bb"), "plan.json")
        self.refused(f"t.json: its run had plan 00000000000000aa, and plan.json is plan 00000000000000bb; {THIS_PLAN}",
                     lambda: self.leave_out(read, path, Options(plan=given)))

    def test_a_trace_that_does_not_fit(self):
        path = self.trace(run_of(None))
        for change, words in ((lambda it: it[0].update(name="B s0 m0"), "is F s0 m0, and in plan.json it is B s0 m0"),
                              (lambda it: it.clear(), "is F s0 m0, and in plan.json there is none")):
            program = copy.deepcopy(PROGRAM)
            change(program["workers"][0]["instructions"])
            program["workers"][1]["instructions"] = [{**it, "waits": []} for it in program["workers"][1]["instructions"]]
            given = self.write(plan(programs=[program]), "plan.json")
            self.refused(f"t.json: instruction 0 of worker 0 in step 3 {words}; {THIS_PLAN}",
                         lambda: self.leave_out(read, path, Options(plan=given)))
        given = self.write(plan(programs=[{**PROGRAM, "pass": "evaluation"}]), "plan.json")
        self.refused(f"t.json: step 3 trains, and plan.json has no program that trains; {THIS_PLAN}",
                     lambda: self.leave_out(read, path, Options(plan=given)))
        workers = [{"name": "a"}]
        program = {**PROGRAM, "workers": [{"instructions": []}]}
        given = self.write(plan(workers=workers, programs=[program]), "plan.json")
        self.refused(f"t.json: has 2 workers, and plan.json has 1; {THIS_PLAN}",
                     lambda: self.leave_out(read, path, Options(plan=given)))

    def leave_out(self, call, *args):
        """Leaves the test's folder out of each path in the sentence."""
        try:
            call(*args)
        except BadInput as problem:
            raise BadInput(str(problem).replace(self.folder.name + "/", "")) from None

    def test_a_plan_without_instructions(self):
        program = {"pass": "training", "samples": 8, "step_ms": 11.0, "bubble": 0.5, "workers": [{}, {}]}
        timeline = read(self.trace(run_of(), plan=plan(programs=[program])))
        self.assertEqual(timeline.remarks, ["The plan has no instructions, so nothing predicted is beside each of them."])
        self.assertEqual(figures(timeline, causes(timeline))["planned"]["step_ms"], 11.0)


class Bad(Case):
    def bad(self, data, words):
        self.refused(f"t.json: {words}", read, self.write(data))

    def changed(self, **changes):
        """The plan with a change of the instruction F s0 m1."""
        data = plan()
        data["programs"][0]["workers"][0]["instructions"][2].update(changes)
        return data

    def test_plans_that_say_too_little(self):
        self.bad({"step": 1, "cost": 1, "bubble": 0}, f"has the figures of a simulation and no instructions, as older versions printed it; {AGAIN}")
        self.bad(plan(version=2), "is a plan of version 2, and this program reads version 1; use programs of one version")
        self.bad(plan(workers=3), f"workers is no list of objects; {AGAIN}")
        self.bad(plan(programs=[3]), f"programs is no list of objects; {AGAIN}")
        for value in (None, "4", -1, 0.5):
            self.bad(plan(workers=[{}, {"arena_bytes": value}]), f"workers[1].arena_bytes is no whole number from 0; {AGAIN}")
        self.bad(plan(workers=[{}]), f"programs[0].workers has 2 entries for 1 workers; {AGAIN}")
        self.bad(plan(programs=[{**PROGRAM, "pass": "x"}]), f"programs[0].pass is neither training nor evaluation; {AGAIN}")
        for key in ("samples", "micro_batches"):
            self.bad(plan(programs=[{**PROGRAM, key: "8"}]), f"programs[0].{key} is no whole number from 0; {AGAIN}")
        self.bad(plan(programs=[]), "the plan trains no step, so it has no step time; plan a run with train.epochs or train.steps")
        self.bad(plan(programs=[{**PROGRAM, "workers": [{}, {}]}]), f"the plan has no instructions; {AGAIN}")

    def test_a_simulation_with_instructions_left_out(self):
        program = {**PROGRAM, "workers": [{}, {}]}
        words = "the instructions are left out (4000000 instructions); simulate fewer micro-batches or stages"
        self.bad(plan(kind="simulation", left_out="4000000 instructions", programs=[program]), words)
        self.bad(plan(kind="simulation", programs=[{**program, "left_out": "4000000 instructions"}]), words)

    def test_instructions(self):
        at = "programs[0].workers[0].instructions[2]"
        self.bad(self.changed(op="X"), f"{at} has no known op and name; {AGAIN}")
        self.bad(self.changed(name=None), f"{at} has no known op and name; {AGAIN}")
        for changes in ({"end_ms": 1.0}, {"start_ms": -1}, {"start_ms": "0"}, {"end_ms": float("inf")}, {"end_ms": float("nan")}):
            self.bad(self.changed(**changes), f"{at} (F s0 m1): start_ms and end_ms are no times in order; {AGAIN}")
        self.bad(self.changed(end_ms=1e13), f"{at} (F s0 m1): ends after 1e+13 ms, which is no time of a step; {AGAIN}")
        for key in ("stage", "micro", "clock", "edge", "bytes", "bytes_alive"):
            for value in (-1, 0.5, "0", None, True):
                self.bad(self.changed(**{key: value}), f"{at} (F s0 m1): {key} is no whole number from 0; {AGAIN}")
        self.bad(self.changed(queue=4), f"{at} (F s0 m1): queue is not 0, 1, 2 or 3; {AGAIN}")
        self.bad(self.changed(start_ms=1.5), f"{at} (F s0 m1) begins before the instruction before it in its queue ends; {AGAIN}")
        for waits in (3, None, [3], [[0]], [[0, 99]], [[2, 0]], [[0, -1]], [[0, "1"]]):
            self.bad(self.changed(waits=waits), f"{at} (F s0 m1): waits names no instruction; {AGAIN}")

    def test_instructions_in_a_circle(self):
        # F s1 m0 waits for its own backward pass, which comes after it in the queue.
        data = plan()
        data["programs"][0]["workers"][1]["instructions"][1]["waits"] = [[1, 2]]
        self.bad(data, f"programs[0].workers: instructions wait for one another in a circle; {AGAIN}")

    def test_the_plan_of_a_trace(self):
        self.refused(f"t.json: the plan is no object; {AGAIN}", read, self.trace(run_of(), plan=[1]))
        self.refused(f"plan.json: is no plan; {AGAIN}", read, self.trace(run_of()), Options(plan=self.write({"a": 1}, "plan.json")))


class Damaged(Case):
    """A plan with any value replaced is read, or refused with a sentence."""

    def places(self, value, path=()):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield path + (key,)
            yield from self.places(item, path + (key,))

    def survives(self, data):
        path = self.write(json.dumps(data))
        try:
            timeline = read(path)
            comparison = compare([timeline])
            json.dumps(comparison, allow_nan=False)
            page([timeline], comparison)
        except BadInput as problem:
            self.assertTrue(str(problem).startswith(path + ": "), problem)
            self.assertNotIn("\n", str(problem))
            return False
        return True

    def test_each_value_replaced(self):
        text, survived = json.dumps(plan()), 0
        for where in self.places(plan()):
            for value in (None, -1, 1 << 70, float("nan"), "\ud800", [], {}):
                data = json.loads(text)
                holder = data
                for key in where[:-1]:
                    holder = holder[key]
                holder[where[-1]] = value
                survived += self.survives(data)
        self.assertGreater(survived, 50)

    def test_each_value_of_the_plan_of_a_trace_replaced(self):
        for where in self.places(plan()):
            for value in (None, -1, "x", [], {}):
                data = {"traceEvents": run_of(), "otherData": {"plan": plan()}}
                holder = data["otherData"]["plan"]
                for key in where[:-1]:
                    holder = holder[key]
                holder[where[-1]] = value
                self.survives(data)


if __name__ == "__main__":
    unittest.main()
