"""The sentences on top: of runs with given figures. Each number stands in the figures, and the clauses make up the difference."""
import random
import unittest

from said import unknown_numbers  # noqa: I100; it sets the path
from timelines.sentence import COVERED, apart, ms, named, sentence, terms
from timelines.stages import stage_rows
from timelines.timeline import IDLE_KEYS


def run_of(*workers, spread=0.0, instructions=(), data=0.0, layers=(), **more):
    """Figures of a run: each worker is (busy, exposed, {term: ms}); the spread is the middle half of the steps."""
    made = []
    for i, (busy, exposed, idle) in enumerate(workers):
        idle = {key: float(idle.get(key, 0)) for key in IDLE_KEYS}
        made.append({"name": f"cpu:{i}", "busy_ms": busy, "copy_ms": exposed, "copy_exposed_ms": exposed,
                     "idle_ms": sum(idle.values()), "idle": idle})
    mean = {key: sum(it[key] for it in made) / len(made) for key in ("busy_ms", "copy_ms", "copy_exposed_ms", "idle_ms")}
    mean["idle"] = {key: sum(it["idle"][key] for it in made) / len(made) for key in IDLE_KEYS}
    step = mean["busy_ms"] + mean["copy_exposed_ms"] + mean["idle_ms"]
    return {"step_ms": step, "step_spread": {"lower_ms": step - spread / 2, "upper_ms": step + spread / 2}, "workers": made,
            "mean": mean, "instructions": list(instructions), "layers": list(layers), "between_data_ms": data, "bubble": 0.5,
            "schedule_bubble": 0.2, **more}


def row(op, stage, total, predicted=None, count=4):
    return {"op": op, "stage": stage, "count": count, "median_ms": total / count, "total_ms": total, "predicted_ms": predicted}


class Figures(unittest.TestCase):
    def check_numbers(self, text, runs):
        self.assertEqual(unknown_numbers(text, runs), [], text)


class Against(Figures):
    def test_exposed_copies_that_vanish(self):
        a = run_of((10, 31, {"imbalance": 2}), (10, 31, {"imbalance": 2}))
        b = run_of((10, 4, {"imbalance": 2}), (10, 4, {"imbalance": 2}))
        text = sentence([a, b])
        self.assertEqual(text, "B is 2.69× faster than A (43.0 → 16.0 ms a step): copies exposed 31.0 → 4.0 ms.")
        self.check_numbers(text, [a, b])

    def test_what_matters_and_did_not_change_is_said(self):
        a, b = run_of((10, 31, {"imbalance": 5}), spread=0.5), run_of((10, 4, {"imbalance": 5.25}), spread=0.5)
        text = sentence([a, b])
        self.assertEqual(text, "B is 2.39× faster than A (46.0 → 19.2 ms a step): copies exposed 31.0 → 4.0 ms, "
                               "imbalance unchanged (5.0 and 5.2 ms).")
        self.check_numbers(text, [a, b])

    def test_slower_and_three_runs(self):
        a, b, c = run_of((10, 0, {})), run_of((10, 0, {"launch": 10})), run_of((5, 0, {}))
        text = sentence([a, b, c])
        self.assertEqual(text, "B is 2.00× slower than A (10.0 → 20.0 ms a step): the host's launching 0.00 → 10.0 ms. "
                               "C is 2.00× faster than A (10.0 → 5.0 ms a step): computing 10.0 → 5.0 ms.")
        self.check_numbers(text, [a, b, c])

    def test_a_difference_within_the_spread_is_none(self):
        a, b = run_of((10, 2, {}), spread=3), run_of((12, 2, {}), spread=1)
        text = sentence([a, b])
        self.assertEqual(text, "B may be slower than A (12.0 → 14.0 ms a step), but their steps vary too much to tell; "
                               "record more steps.")
        self.check_numbers(text, [a, b])
        a, b = run_of((12.2, 2, {}), spread=3), run_of((12, 2, {}), spread=1)
        text = sentence([a, b])
        self.assertEqual(text, "B is as fast as A: 14.2 and 14.0 ms a step, which is within the spread of the steps.")
        self.check_numbers(text, [a, b])

    def test_middle_halves_that_are_apart_are_a_difference_although_one_is_wide(self):
        # 20 steps each, on a busy machine: B's middle half is as long as its distance to A, but all of it lies above A's.
        a, b = run_of((8.6, 0, {}), steps=20), run_of((8.6, 0, {"imbalance": 6}), steps=20)
        a["step_spread"], b["step_spread"] = {"lower_ms": 8.5, "upper_ms": 8.7}, {"lower_ms": 9.2, "upper_ms": 21.3}
        self.assertEqual(sentence([a, b]), "B is 1.70× slower than A (8.6 → 14.6 ms a step): imbalance 0.00 → 6.0 ms.")
        self.assertTrue(sentence([b, a]).startswith("B is 1.70× faster than A (14.6 → 8.6 ms a step)"))
        b["steps"] = 4  # the median of four such steps says little
        self.assertTrue(sentence([a, b]).startswith("B may be slower than A (8.6 → 14.6 ms a step), but"))

    def test_never_1_00_times_faster(self):
        for after in (99.7, 100.4):  # plans have one step, without a spread
            text = sentence([run_of((100, 0, {})), run_of((after, 0, {}))])
            self.assertEqual(text, f"B is as fast as A: 100.0 and {after} ms a step.")

    def test_terms_that_cancel_are_both_named(self):
        a, b = run_of((10, 20, {"copy": 0})), run_of((10, 0, {"copy": 18}))
        text = sentence([a, b])
        self.assertEqual(text, "B is 1.07× faster than A (30.0 → 28.0 ms a step): copies exposed 20.0 → 0.00 ms, "
                               "waiting for a copy 0.00 → 18.0 ms.")

    def test_the_wait_for_data_between_steps_is_apart(self):
        a, b = run_of((10, 0, {})), run_of((10, 0, {}), data=20.0)
        self.assertEqual(sentence([a, b]), "B is as fast as A: 10.0 and 10.0 ms a step; "
                                           "between steps the wait for data goes 0.00 → 20.0 ms.")

    def test_random_runs_name_most_of_the_difference(self):
        chance = random.Random(15)
        for i in range(300):
            a, b = (run_of(*((chance.uniform(0, 20), chance.uniform(0, 5),
                              {key: chance.choice((0, chance.uniform(0, 9))) for key in IDLE_KEYS}) for _ in range(3)),
                           spread=chance.uniform(0, 2)) for _ in range(2))
            with self.subTest(i):
                text = sentence([a, b])
                self.check_numbers(text, [a, b])
                whole = b["step_ms"] - a["step_ms"]
                if "as fast as" in text or "too much to tell" in text:
                    self.assertTrue(not apart(a, b) or 0.995 <= a["step_ms"] / b["step_ms"] <= 1.006, text)
                    continue
                before, after = terms(a), terms(b)
                part = sum(after[key] - before[key] for key in named(a, b))
                self.assertLessEqual(abs(whole - part), (1 - COVERED) * abs(whole) + 1e-9)
                for key in named(a, b):
                    self.assertIn(f"{ms(before[key])} → {ms(after[key])} ms", text)


class One(Figures):
    def test_a_slow_stage(self):
        # Stage 0 computes 30 ms of 40 and 8 were predicted, of 20: 1.5 times the mean, 0.8 were planned.
        run = run_of((30, 0, {}), (10, 0, {"imbalance": 15, "earlier_stage": 5}),
                     instructions=[row("F", 0, 30, 2.0), row("F", 1, 10, 3.0), row("recv", 1, 1, 1.0)],
                     layers=[{"layer": "conv2", "op": "F", "count": 4, "median_ms": 6, "total_ms": 24, "share": 0.6}])
        text = sentence([run])
        self.assertEqual(text, "Of 30.0 ms a step, worker 1 (cpu:1) idles 20.0 ms, most of it imbalance 15.0 ms: stage 0 "
                               "computes 1.50 times as long as the mean of the stages. It takes 3.75 times as long as predicted, "
                               "stage 1 0.83 times; its layer conv2 takes 24.0 ms in F.")
        self.check_numbers(text, [run])
        self.assertEqual(run["stages"], [
            {"stage": 0, "computes_ms": 30.0, "predicted_ms": 8.0, "of_mean": 1.5, "of_predicted": 3.75, "planned_of_mean": 0.8},
            {"stage": 1, "computes_ms": 10.0, "predicted_ms": 12.0, "of_mean": 0.5, "of_predicted": 10 / 12,
             "planned_of_mean": 1.2}])

    def test_a_bad_balance(self):
        run = run_of((30, 0, {}), (10, 0, {"imbalance": 20}), instructions=[row("F", 0, 30, 6.0), row("F", 1, 10, 2.0)])
        text = sentence([run])
        self.assertTrue(text.endswith("stage 0 computes 1.50 times as long as the mean of the stages, and the plan has this "
                                      "balance too (1.50 times the mean)."), text)
        self.check_numbers(text, [run])

    def test_a_balance_that_was_planned_even(self):
        # 1.2 times the mean, and the plan had 1.0: it did not have this balance.
        run = run_of((24, 0, {}), (16, 0, {"imbalance": 8}), instructions=[row("F", 0, 24, 5.0), row("F", 1, 16, 5.0)])
        text = sentence([run])
        self.assertTrue(text.endswith("1.20 times as long as the mean of the stages. It takes 1.20 times as long as predicted, "
                                      "stage 1 0.80 times."), text)
        self.check_numbers(text, [run])

    def test_without_a_prediction(self):
        run = run_of((30, 0, {}), (10, 0, {"imbalance": 20}), instructions=[row("F", 0, 30), row("F", 1, 10)])
        self.assertTrue(sentence([run]).endswith("1.50 times as long as the mean of the stages."))
        self.assertIsNone(stage_rows(run)[0]["predicted_ms"])

    def test_slow_copies(self):
        run = run_of((10, 20, {}), (10, 0, {"copy": 20}), instructions=[row("F", 0, 10, 2.0), row("recv", 1, 80, 0.5)])
        text = sentence([run])
        self.assertEqual(text, "Of 30.0 ms a step, worker 0 (cpu:0) copies 20.0 ms and computes nothing meanwhile: receives "
                               "of stage 1 take 80.0 ms, the median 20.0 ms, predicted 0.50 ms.")
        self.check_numbers(text, [run])

    def test_sends_that_wait_for_a_processor(self):
        # Nine sends of a CPU worker: most are short, and two lost the processor. The median alone does not explain 2.4 ms.
        rows = [row("F", 0, 4), {**row("send", 1, 2.3, 0.0, 9), "median_ms": 0.023}]
        run = run_of((4, 0.8, {}), (2, 2.4, {"launch": 0.4}), instructions=rows, source="trace")
        text = sentence([run])
        self.assertTrue(text.endswith("and computes nothing meanwhile: sends of stage 1 take 2.3 ms, the median 0.02 ms. A send "
                                      "copies nothing, so its thread had no processor."), text)
        self.check_numbers(text, [run])

    def test_a_slow_loader(self):
        run = run_of((10, 0, {"launch": 1}), data=50.0)
        text = sentence([run])
        self.assertEqual(text, "Before each step of 11.0 ms the trainer waits 50.0 ms for data: the loader is too slow.")
        self.check_numbers(text, [run])

    def test_a_bubble(self):
        run = run_of((10, 0, {"later_stage": 8, "launch": 3}))
        text = sentence([run])
        self.assertEqual(text, "Of 21.0 ms a step, worker 0 (cpu:0) idles 11.0 ms, most of it waiting for a later stage 8.0 ms: "
                               "the bubble is 50 %, and 20 % is the schedule's own.")
        self.check_numbers(text, [run])

    def test_waits_of_the_schedule_hide_no_other_cause(self):
        # A bubble of 20 %: with 10 ms of computing the schedule makes the worker wait 10·0.2/0.8 = 2.5 of the 6 ms.
        run = run_of((10, 0, {"later_stage": 6, "launch": 5}))
        text = sentence([run])
        self.assertEqual(text, "Of 21.0 ms a step, worker 0 (cpu:0) idles 11.0 ms, apart from the schedule's own waits mostly the "
                               "host's launching 5.0 ms.")
        self.check_numbers(text, [run])
        # Two workers: the second waits 4 ms for copies, the first 2.5 ms for the schedule and 3.5 ms besides.
        text = sentence([run_of((10, 0, {"earlier_stage": 6}), (10, 0, {"earlier_stage": 2.5, "copy": 4}))])
        self.assertIn("worker 1 (cpu:1) idles 6.5 ms, most of it waiting for a copy 4.0 ms", text)
        # If all that is left is small, the schedule's own waits are named.
        text = sentence([run_of((10, 0, {"later_stage": 2.6, "launch": 0.3}))])
        self.assertIn("most of it waiting for a later stage 2.6 ms", text)

    def test_nothing_idles(self):
        self.assertEqual(sentence([run_of((10, 0, {}))]),
                         "Of 10.0 ms a step, worker 0 (cpu:0) computes 10.0 ms, and no worker is idle.")

    def test_an_idle_time_that_is_nothing_has_no_cause(self):
        run = run_of((99.9, 0.01, {"launch": 0.09}))
        self.assertEqual(sentence([run]), "Of 100.0 ms a step, worker 0 (cpu:0) computes 99.9 ms, and workers are hardly ever idle.")
        self.check_numbers(sentence([run]), [run])


if __name__ == "__main__":
    unittest.main()
