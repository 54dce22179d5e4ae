"""Random pipelines: what they waited for, what playing them gives, and that idle time adds up whatever the timeline lacks."""
import random
import unittest

from drawn import name_of, timeline  # noqa: I100; it sets the path
from timelines import replay
from timelines.attribute import attribute, schedule_bubble
from timelines.depend import Graphs, NoOrder, dependencies, plan_graph
from timelines.timeline import COMPUTE, COPY, IDLE_KEYS, Plan, Span

SEED = 20261122


class Pipeline:
    """A GPipe program of `stages` and `micro` micro-batches.

    `queued`: copies have queues of their own. `barriers`: all workers meet before each forward pass.
    """

    def __init__(self, stages, micro, queued=False, barriers=False):
        self.stages, self.workers = stages, [[] for _ in range(stages)]
        self.sent = {}
        for s in range(stages):
            for m in range(micro):
                if barriers:
                    self.add(s, "barrier", m, waits=[("barrier", m)])
                if s > 0:
                    self.add(s, "recv", m, s - 1, 1 if queued else 0, [("send", s - 1, m)])
                self.add(s, "F", m, waits=[("here", m)] if queued and s > 0 else [])
                if s < stages - 1:
                    self.add(s, "send", m, s)
            for m in reversed(range(micro)):
                if s < stages - 1:
                    self.add(s, "recv", m, stages + s, 2 if queued else 0, [("send", stages + s, m)])
                self.add(s, "B", m, waits=[("back", m)] if queued and s < stages - 1 else [])
                if s > 0:
                    self.add(s, "send", m, stages + s - 1)
            self.add(s, "step", -1)
        self.resolve()

    def add(self, s, op, m, edge=-1, queue=0, waits=()):
        if op == "send":
            self.sent[edge, m] = [s, len(self.workers[s])]
        self.workers[s].append({"name": name_of(op, s, m, edge), "op": op, "stage": s, "micro": m, "edge": edge, "queue": queue,
                                "waits": list(waits)})

    def place(self, s, op, m, edge=None):
        return next([s, pc] for pc, it in enumerate(self.workers[s])
                    if (it["op"], it["micro"]) == (op, m) and edge in (None, it["edge"]))

    def resolve(self):
        for s, worker in enumerate(self.workers):
            for it in worker:
                found = []
                for wait in it["waits"]:
                    if wait[0] == "send":
                        found.append(self.sent[wait[1], wait[2]])
                    elif wait[0] == "barrier":
                        found += [self.place(other, "barrier", wait[1]) for other in range(self.stages) if other != s]
                    else:
                        found.append(self.place(s, "recv", wait[1], s - 1 if wait[0] == "here" else self.stages + s))
                it["waits"] = found

    def plan(self):
        return Plan({"programs": [{"workers": [{"instructions": worker} for worker in self.workers]}]})

    def timeline(self, durations, gaps=None, plan=True, names=True):
        """Played with durations(instruction); `gaps`(): the time from an instruction's inputs to its start."""
        graph, places = plan_graph(self.plan().program(0))
        its = [it for worker in self.workers for it in worker]
        starts, ends = [0.0] * len(its), [0.0] * len(its)
        for i in graph.order:
            op = its[i]["op"]
            starts[i] = max(0.0, replay.ready(graph, ends, i)) + (gaps() if gaps and op != "barrier" else 0)
            ends[i] = starts[i] + durations(its[i])
        spans = []
        for w, worker in enumerate(places):
            for pc, i in enumerate(worker):
                it = its[i]
                if it["op"] == "barrier":
                    continue
                span = Span(w, COPY if it["op"] in ("recv", "send") else COMPUTE, "kernel", starts[i], ends[i], lane=it["queue"])
                if names:
                    span.name, span.op, span.stage, span.micro = it["name"], it["op"], it["stage"], it["micro"]
                if plan:
                    span.program, span.pc = 0, pc
                spans.append(span)
        made = timeline(self.stages, spans, lanes=3)
        made.plan = self.plan() if plan else None
        return made


class Random(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)  # printed with each failure by subTest

    def each(self, count, check):
        """Calls check(pipeline) for random pipelines."""
        for i in range(count):
            stages, micro = self.random.randint(1, 4), self.random.randint(1, 6)
            queued, barriers = self.random.random() < 0.5, self.random.random() < 0.3
            with self.subTest(seed=SEED, number=i, stages=stages, micro=micro, queued=queued, barriers=barriers):
                check(Pipeline(stages, micro, queued, barriers))

    def any_duration(self, it):
        return 0.0 if it["op"] in ("send", "barrier") else self.random.choice((0.0, 0.25, 1.0, 3.0)) + self.random.random()

    def test_idle_time_adds_up(self):
        def check(pipeline):
            for plan, names in ((True, True), (False, True), (False, False)):
                gaps = self.random.choice((None, lambda: self.random.choice((0, 0, self.random.random()))))
                made = pipeline.timeline(self.any_duration, gaps, plan, names)
                for span in made.spans:
                    span.issued = self.random.choice((None, span.start, span.start - self.random.random()))
                made.waiting_for_data = [(at, at + 0.5) for at in range(-1, 30, 2)]
                whole = made.steps[0].end - made.steps[0].start
                for share in attribute(made)[1]:
                    self.assertEqual(tuple(share.idle_by), IDLE_KEYS)
                    self.assertAlmostEqual(sum(share.idle_by.values()), share.idle, delta=1e-9 * whole)
                    self.assertAlmostEqual(share.busy + share.copy_exposed + share.idle, whole, delta=1e-9 * whole)
                    self.assertGreaterEqual(min(share.idle_by.values()), -1e-12)

        self.each(60, check)

    def test_without_gaps_nothing_is_launching(self):
        def check(pipeline):
            for share in attribute(pipeline.timeline(self.any_duration))[1]:
                self.assertAlmostEqual(share.idle_by["launch"], 0, 9)

        self.each(40, check)

    def test_stages_of_equal_length_have_no_imbalance(self):
        lengths = {"F": 1.0, "B": 2.0, "recv": 0.25, "send": 0.0, "step": 0.125, "barrier": 0.0}
        def check(pipeline):
            made = pipeline.timeline(lambda it: lengths[it["op"]])
            for share in attribute(made)[1]:
                self.assertEqual(share.idle_by["imbalance"], 0)

        self.each(30, check)

    def test_playing_the_measured_durations_gives_the_measured_times(self):
        def check(pipeline):
            made = pipeline.timeline(self.any_duration)
            graph = Graphs(made).of(1)
            starts, ends = replay.times_of(graph, made.spans)
            played = replay.play(graph, replay.durations_of(graph, starts, ends))
            for i, node in enumerate(graph.nodes):
                if node.spans:
                    self.assertAlmostEqual(played[0][i], starts[i], 9)
                    self.assertAlmostEqual(played[1][i], ends[i], 9)

        self.each(30, check)

    def test_each_span_waited_for_what_had_ended(self):
        def check(pipeline):
            made = pipeline.timeline(self.any_duration)
            for plan in (made.plan, None):
                made.plan = plan
                for span, found in zip(made.spans, dependencies(made)):
                    for j in found:
                        self.assertLessEqual(made.spans[j].end, span.start + 1e-9)
                        self.assertIsNot(made.spans[j], span)
                    if span.op == "recv":
                        self.assertIn("send", [made.spans[j].op for j in found])

        self.each(30, check)


class Sizes(unittest.TestCase):
    def test_a_smaller_last_micro_batch_keeps_its_size(self):
        # 10 samples in 3 micro-batches: 4, 4 and 2. F takes 4, 6 and 2 ms on stage 0, and 8, 10 and 3 ms on stage 1.
        pipeline = Pipeline(2, 3)
        times = {(0, 0): 4.0, (0, 1): 6.0, (0, 2): 2.0, (1, 0): 8.0, (1, 1): 10.0, (1, 2): 3.0}
        plan = pipeline.plan()
        plan.data["programs"][0].update(samples=10, micro_batches=3)
        made = pipeline.timeline(lambda it: times[it["stage"], it["micro"]] if it["op"] == "F" else 0.0)
        made.plan = plan
        graph = Graphs(made).of(1)
        durations = replay.durations_of(graph, *replay.times_of(graph, made.spans))
        for played, wanted in ((replay.steady, [5, 5, 2, 9, 9, 3]), (replay.equal, [7, 7, 2.5, 7, 7, 2.5])):
            self.assertEqual([d for node, d in zip(graph.nodes, played(graph, durations)) if node.op == "F"], wanted)


class Schedules(unittest.TestCase):
    def test_bubble_of_gpipe(self):
        for stages, micro in ((2, 2), (3, 5), (4, 8)):
            lengths = {"F": 1.0, "B": 2.0, "recv": 0.5, "send": 0.0, "step": 0.0}
            made = Pipeline(stages, micro).timeline(lambda it: lengths[it["op"]] * (2 if it["stage"] == 1 else 1))
            self.assertAlmostEqual(schedule_bubble(made)[1], (stages - 1) / (micro + stages - 1), 9)

    def test_a_circle_has_no_order(self):
        waits = [[{"op": "F", "waits": [[1, 0]]}], [{"op": "F", "waits": [[0, 0]]}]]
        with self.assertRaises(NoOrder):
            plan_graph({"workers": [{"instructions": its} for its in waits]})


class Arrows(unittest.TestCase):
    LENGTHS = {"F": 1.0, "B": 2.0, "recv": 0.5, "send": 0.0, "step": 0.5, "barrier": 0.0}

    def arrows(self, made, name):
        i = next(i for i, span in enumerate(made.spans) if span.name == name)
        return sorted(made.spans[j].name for j in dependencies(made)[i])

    def test_from_the_plan_and_from_names(self):
        made = Pipeline(2, 2, queued=True).timeline(lambda it: self.LENGTHS[it["op"]])
        plan = made.plan
        for made.plan in (plan, None):
            self.assertEqual(self.arrows(made, "recv s1 m1 e0"), ["send s0 m1 e0"])
            self.assertEqual(self.arrows(made, "send s0 m1 e0"), ["F s0 m1"])
            self.assertEqual(self.arrows(made, "F s1 m1"), ["recv s1 m1 e0"])
            self.assertEqual(self.arrows(made, "B s1 m1"), ["F s1 m1"])
            self.assertEqual(self.arrows(made, "B s0 m1"), ["F s0 m1", "recv s0 m1 e2"])
            self.assertEqual(self.arrows(made, "step s0"), ["B s0 m0"])
            self.assertEqual(self.arrows(made, "F s0 m0"), [])

    def test_a_barrier_is_passed_on_to_what_comes_after_it(self):
        made = Pipeline(2, 2, barriers=True).timeline(lambda it: self.LENGTHS[it["op"]])
        self.assertIn("send s0 m0 e0", self.arrows(made, "recv s1 m1 e0"))  # worker 0 had reached its second barrier

    def test_nothing_is_known_without_names(self):
        made = Pipeline(2, 2).timeline(lambda it: self.LENGTHS[it["op"]], plan=False, names=False)
        self.assertEqual(dependencies(made), [[]] * len(made.spans))


if __name__ == "__main__":
    unittest.main()
