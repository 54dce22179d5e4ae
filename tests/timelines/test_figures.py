"""Every figure of a run against a case small enough to compute by hand."""
import unittest
from types import SimpleNamespace

from traces import NAMES, TWO_GPUS, Case, counter, draw, span, track

from timelines.figures import Causes, between, figures, idle_terms, quantile
from timelines.read import read
from timelines.timeline import IDLE_KEYS, LayerSpan


def causes_of(timeline, **terms):
    """Causes, with the same terms for all workers and steps."""
    share = SimpleNamespace(idle_by={**dict.fromkeys(IDLE_KEYS, 0.0), **terms})
    return Causes({step.number: [share] * len(timeline.workers) for step in timeline.steps})


class Figures(Case):
    def figures(self, events, plan=None, **terms):
        timeline = read(self.trace(events, plan=plan))
        return figures(timeline, causes_of(timeline, **(terms or {"launch": 1.0})))

    def almost(self, found, expected):
        """Numbers to a nanosecond."""
        if isinstance(expected, dict):
            for key, value in expected.items():
                with self.subTest(key):
                    self.almost(found[key], value)
        elif isinstance(expected, float):
            self.assertAlmostEqual(found, expected, places=6)
        else:
            self.assertEqual(found, expected)

    def test_one_step_of_two_gpus(self):
        # TWO_GPUS: 20 ms.
        #   worker 0 computes 0–8 and 12–16: busy 12. Copies 6–10: 4, of which 8–10 is exposed: 2. Idle 10–12 and 16–20: 6.
        #   worker 1 computes 4–8 and 16–20: busy 8. Copies 8–10: 2, all exposed. Idle 0–4 and 10–16: 10.
        #   bubble: 1 − (12 + 8) / (2 × 20) = 0.5
        run = self.figures(draw(TWO_GPUS, NAMES), earlier_stage=3.0, copy=1.0)
        self.almost(run, {"name": "t.json", "source": "trace", "steps": 1, "first_step": 1, "last_step": 1, "step_ms": 20.0,
                          "between_ms": 0.0, "gaps": 0, "bubble": 0.5,
                          "step_spread": {"min_ms": 20.0, "lower_ms": 20.0, "upper_ms": 20.0, "max_ms": 20.0}})
        self.almost(run["workers"][0], {"name": "cuda:0", "stages": [0], "busy_ms": 12.0, "copy_ms": 4.0, "copy_exposed_ms": 2.0,
                                        "collective_ms": 0.0, "idle_ms": 6.0, "idle": {"earlier_stage": 4.5, "copy": 1.5}})
        self.almost(run["workers"][1], {"name": "cuda:1", "stages": [1], "busy_ms": 8.0, "copy_ms": 2.0, "copy_exposed_ms": 2.0,
                                        "collective_ms": 0.0, "idle_ms": 10.0, "idle": {"earlier_stage": 7.5, "copy": 2.5}})
        self.almost(run["mean"], {"busy_ms": 10.0, "copy_ms": 3.0, "copy_exposed_ms": 2.0, "idle_ms": 8.0,
                                  "idle": {"earlier_stage": 6.0, "copy": 2.0}})
        for worker in run["workers"]:
            self.assertEqual(tuple(worker["idle"]), IDLE_KEYS)
            self.assertAlmostEqual(sum(worker["idle"].values()), worker["idle_ms"], places=9)

    def three_steps(self):
        """The same step, once as it is, once 4 times and once 2 times as long: 20, 80, 40 ms; gaps of 5 and 7 ms."""
        return (draw(TWO_GPUS, NAMES, 1) + draw(TWO_GPUS, NAMES, 2, 25.0, 4.0, False) + draw(TWO_GPUS, NAMES, 3, 112.0, 2.0, False))

    def test_medians_over_steps(self):
        # lengths 20, 40, 80: median 40, quartiles 30 and 60. busy 12, 24, 48: median 24. gaps 5 and 7: median 6.
        run = self.figures(self.three_steps())
        self.almost(run, {"steps": 3, "first_step": 1, "last_step": 3, "step_ms": 40.0, "between_ms": 6.0, "gaps": 2, "bubble": 0.5,
                          "step_spread": {"min_ms": 20.0, "lower_ms": 30.0, "upper_ms": 60.0, "max_ms": 80.0}})
        self.almost(run["workers"][0], {"busy_ms": 24.0, "copy_ms": 8.0, "copy_exposed_ms": 4.0, "idle_ms": 12.0})
        self.almost(run["workers"][1], {"busy_ms": 16.0, "copy_ms": 4.0, "copy_exposed_ms": 4.0, "idle_ms": 20.0})

    def test_parts_of_gaps_and_the_bubble_of_the_schedule_are_medians(self):
        timeline = read(self.trace(self.three_steps()))
        causes = causes_of(timeline)
        causes.between = {1: {"ms": 5.0, "data": 1.0}, 2: {"ms": 7.0, "data": 4.0}, 3: {"ms": 1.0, "data": 9.0}}
        causes.bubbles = {1: 0.5, 2: 0.25, 3: 0.0}
        self.almost(figures(timeline, causes), {"between_data_ms": 2.5, "schedule_bubble": 0.25})

    def test_rows_of_instructions(self):
        # F s0 takes 4 + 4, then 16 + 16, then 8 + 8. Durations 4 4 8 8 16 16: median 8; sums 8 32 16: median 16.
        # All sums, medians: F s0 16, B s0 8, F s1 8, B s1 8, recv s0 8, recv s1 4: together 52.
        rows = {(row["op"], row["stage"]): row for row in self.figures(self.three_steps())["instructions"]}
        self.almost(rows["F", 0], {"count": 2, "median_ms": 8.0, "total_ms": 16.0, "share": 16 / 52, "predicted_ms": None})
        self.almost(rows["recv", 1], {"count": 1, "median_ms": 4.0, "total_ms": 4.0, "share": 4 / 52})
        self.assertEqual(len(rows), 6)
        self.assertEqual(self.figures(self.three_steps())["instructions"][0]["op"], "F")

    def test_an_instruction_of_several_kernels_is_one_duration(self):
        timeline = read(self.trace(draw(TWO_GPUS, NAMES)))
        first = timeline.spans[0]
        self.assertEqual(first.name, "F s0 m0")  # 0 to 4 ms: cut into kernels 0–1 and 3–4
        first.end = first.start + 1
        timeline.spans.append(type(first)(0, first.kind, first.name, first.start + 3, first.start + 4, 1, 0, "F", 0, 0, -1, first.pc))
        row = next(row for row in figures(timeline, causes_of(timeline))["instructions"] if (row["op"], row["stage"]) == ("F", 0))
        self.almost(row, {"count": 2, "median_ms": 3.0, "total_ms": 6.0})  # 2 and 4

    def test_a_step_without_an_instruction_counts_as_none_of_it(self):
        # norm only in step 2 of 3: counts 0 1 0, median 0; sums 0 1 0, median 0; its own median is 1.
        name = {"x": "norm s0", **NAMES}
        events = (draw(TWO_GPUS, NAMES, 1) + draw({**TWO_GPUS, "worker 0 (cuda:0), stage 0: computes": "aaaabbbbx...cccc...."},
                                                  name, 2, 30.0, with_tracks=False)
                  + draw(TWO_GPUS, NAMES, 3, 60.0, with_tracks=False))
        row = next(row for row in self.figures(events)["instructions"] if row["op"] == "norm")
        self.almost(row, {"count": 0, "median_ms": 1.0, "total_ms": 0.0})

    def test_rows_of_layers(self):
        # conv F: 0–1 and 2–3 of micro-batch 0 are one duration of 2 ms; micro-batch 1 takes 1 ms: median 1.5, together 3.
        # conv B: 3 ms. relu F: 2 ms. Together 8. An evaluation does not count.
        def layer(name, op, start, end, step, micro):
            return LayerSpan(0, name, op, float(start), float(end), step, 0, micro)
        timeline = read(self.trace(draw(TWO_GPUS, NAMES)))
        timeline.layers = [layer("conv", "F", 0, 1, 1, 0), layer("relu", "F", 1, 2, 1, 0), layer("conv", "F", 2, 3, 1, 0),
                           layer("relu", "F", 3, 4, 1, 0), layer("conv", "F", 4, 5, 1, 1), layer("conv", "B", 12, 15, 1, 0),
                           layer("conv", "F", 30, 40, -1, 0), layer("only evaluated", "F", 40, 50, -1, 0)]
        rows = figures(timeline, causes_of(timeline))["layers"]
        self.assertEqual([(row["layer"], row["op"], row["count"]) for row in rows], [("conv", "F", 2), ("conv", "B", 1), ("relu", "F", 1)])
        self.almost(rows[0], {"median_ms": 1.5, "total_ms": 3.0, "share": 3 / 8})

    def test_memory(self):
        # Alive before the steps counts if it is still alive when they begin; what follows the last step does not count.
        events = draw(TWO_GPUS, NAMES, at=10.0) + [counter(0, 1, 900), counter(0, 9, 800), counter(0, 15, 700), counter(0, 31, 1000)]
        run = self.figures(events)
        self.assertEqual(run["memory"], [{"peak_bytes": 800.0, "planned_bytes": None, "arena_bytes": None},
                                         {"peak_bytes": None, "planned_bytes": None, "arena_bytes": None}])

    def test_gaps_with_an_evaluation_or_missing_steps_are_left_out(self):
        one = {"worker 0 (cpu:0), stage 0": "aaaa"}
        steps = [draw(one, NAMES, number, at, with_tracks=number == 1) for number, at in ((1, 0), (2, 6), (3, 30), (5, 40))]
        evaluation = span(1, "F s0 m0", 15, 16, 2, **{"pass": "evaluation"})
        timeline = read(self.trace(sum(steps, []) + [evaluation]))
        # 1 → 2: 4 to 6; 2 → 3 has the evaluation; 3 → 5: step 4 is missing.
        self.assertEqual({number: round(gap, 6) for number, gap in between(timeline).items()}, {1: 2.0})
        self.assertEqual([step.number for step in timeline.steps], [1, 2, 3, 5])

    def test_steps_that_overlap_have_no_gap(self):
        events = [track(1, "worker 0 (cuda:0), stage 0: computes"), track(2, "worker 1 (cuda:1), stage 1: computes"),
                  span(1, "F s0 m0", 0, 2, 1), span(2, "F s1 m0", 2, 6, 1), span(1, "F s0 m0", 4, 5, 2), span(2, "F s1 m0", 7, 8, 2)]
        self.assertEqual(between(read(self.trace(events))), {1: 0.0})

    def test_collectives_are_neither_busy_nor_copies(self):
        timeline = read(self.trace(draw(TWO_GPUS, NAMES)))
        last = timeline.spans[-1]
        self.assertEqual(last.name, "B s1 m0")  # 16 to 20
        last.kind = "collective"
        worker = figures(timeline, causes_of(timeline, collective=1.0))["workers"][1]
        self.almost(worker, {"busy_ms": 4.0, "collective_ms": 4.0, "idle_ms": 14.0, "idle": {"collective": 14.0}})


class Terms(unittest.TestCase):
    def test_terms_are_medians_scaled_to_the_idle_time(self):
        zero = dict.fromkeys(IDLE_KEYS, 0.0)
        terms = [{**zero, "copy": 1.0, "launch": 5.0}, {**zero, "copy": 2.0, "launch": 1.0}, {**zero, "copy": 9.0, "launch": 2.0}]
        # medians 2 and 2; idle is 6: 3 and 3
        self.assertEqual(idle_terms(6.0, terms), {**zero, "copy": 3.0, "launch": 3.0})

    def test_terms_whose_medians_are_all_zero_are_means(self):
        zero = dict.fromkeys(IDLE_KEYS, 0.0)
        terms = [{**zero, "copy": 3.0}, {**zero, "launch": 3.0}, {**zero, "data": 6.0}]
        self.assertEqual(idle_terms(4.0, terms), {**zero, "copy": 1.0, "launch": 1.0, "data": 2.0})

    def test_no_idle_time(self):
        zero = dict.fromkeys(IDLE_KEYS, 0.0)
        self.assertEqual(idle_terms(0.0, [zero, zero]), zero)

    def test_quantiles_are_linear_between_values(self):
        self.assertEqual([quantile([4, 1, 3, 2], q) for q in (0, 0.25, 0.5, 1)], [1, 1.75, 2.5, 4])
        self.assertEqual(quantile([7], 0.25), 7)


if __name__ == "__main__":
    unittest.main()
