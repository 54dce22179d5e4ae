"""Where idle time goes, on drawn timelines with every term worked out by hand (drawn.py says how to read them)."""
import unittest

from drawn import draw, name_of, sends, timeline  # noqa: I100; it sets the path
from timelines.attribute import attribute, between, schedule_bubble
from timelines.timeline import COMPUTE, COPY, IDLE_KEYS, Plan, Span, Step, Worker

GPIPE = """
    0: F0F1F2............B2B2B1B1B0B0
    1: ..F0F1F2......B2B2B1B1B0B0....
    2: ....F0F1F2B2B2B1B1B0B0........
"""

# Stage 1 takes twice as long as the others.
SLOW_MIDDLE = """
    0: F0F1F2......................B2B2....B1B1....B0B0
    1: ..F0F0F1F1F2F2......B2B2B2B2B1B1B1B1B0B0B0B0....
    2: ......F0..F1..F2B2B2B1B1B0B0....................
"""


class Drawn(unittest.TestCase):
    def check(self, drawn, worker, idle, **terms):
        share = attribute(drawn)[1][worker]
        self.assertAlmostEqual(share.idle, idle, 9, msg=str(share))
        for key in IDLE_KEYS:
            self.assertAlmostEqual(share.idle_by[key], terms.get(key, 0.0), 9, msg=f"{key} of {share}")
        return share


class Stages(Drawn):
    def test_gpipe_with_equal_stages_waits_for_stages_only(self):
        drawn = draw(GPIPE)  # 15 ms, of which each worker computes 9
        self.check(drawn, 0, 6, later_stage=6)  # 3 to 9: the other stages go on
        self.check(drawn, 1, 6, earlier_stage=1 + 2, later_stage=3)  # 0 to 1; 13 to 15, stage 0 ends; 4 to 7
        self.check(drawn, 2, 6, earlier_stage=2 + 4)  # 0 to 2; 11 to 15
        self.assertAlmostEqual(schedule_bubble(drawn)[1], 2 / 5)  # (p-1)/(m+p-1)

    def test_gpipe_with_a_slow_stage_in_the_middle(self):
        # 24 ms. With equal stages F takes (1+2+1)/3 = 4/3 ms and B 8/3 ms: each worker computes 12 ms of 5·4 = 20, and waits 8.
        drawn = draw(SLOW_MIDDLE)
        self.check(drawn, 0, 15, later_stage=8, imbalance=7)
        self.check(drawn, 1, 6, earlier_stage=1 + 2, later_stage=3)  # the slow stage itself waits less than with equal stages
        self.check(drawn, 2, 15, earlier_stage=8, imbalance=7)
        self.assertAlmostEqual(schedule_bubble(drawn)[1], 2 / 5)

    def test_computing_that_differs_between_micro_batches_is_no_imbalance(self):
        # Each stage was held up once for 1 ms: both compute 3 ms forward and 2 ms backward.
        drawn = draw("""
            0: F0F1F1....B1B0
            1: ..F0F0F1B1B0..
        """)
        self.check(drawn, 0, 2, later_stage=2)
        self.check(drawn, 1, 2, earlier_stage=2)


class Copies(Drawn):
    def test_a_copy_that_another_worker_makes_is_copying_to_the_one_after_it(self):
        # Worker 1 copies from 1 to 3. Worker 2 waits 1 ms for stage 0, 2 ms for that copy, 1 ms for stage 1.
        drawn = sends(draw("""
            0: F0..........
            1: ..C0C0F0....
            2: ........C0F0
        """))
        self.check(drawn, 2, 4, earlier_stage=1 + 1, copy=2)
        share = self.check(drawn, 1, 3, earlier_stage=1, later_stage=1, copy=1)  # the end: worker 2 copies, then computes
        self.assertEqual((share.busy, share.copy, share.copy_exposed), (1, 2, 2))

    def test_a_queued_copy(self):
        # A device with queues. The first value is ready at 1, but its copy is queued after F1 of its source, until 2.
        drawn = sends(draw("""
            0:   F0F1........
            1:   ........F0F1
            1/1: ....C0C0C1C1
        """))
        for span in drawn.spans:
            if span.op == "recv":
                span.issued = 1.0
        share = self.check(drawn, 1, 2, earlier_stage=1, copy=1)
        self.assertEqual((share.copy, share.copy_exposed), (4, 2))

    def test_a_copy_that_was_issued_and_did_not_begin_waits_for_other_copies(self):
        # The value is ready at 1, the copy was issued at 2, and began at 4.
        drawn = sends(draw("""
            0:   F0............
            1:   ..........F0F0
            1/1: ........C0....
        """))
        next(span for span in drawn.spans if span.op == "recv").issued = 2.0
        self.check(drawn, 1, 4, earlier_stage=1, launch=1, copy=2)


    def test_a_slot_without_a_plan(self):
        # F1 began as worker 1 had pulled F0: it probably needed that slot.
        self.check(sends(draw("""
            0: F0..........F1
            1: ..C0C0C0C0C0..
        """)), 0, 5, copy=5)


    def test_a_message_of_another_process_travels_after_it_was_sent(self):
        # F0 was sent at 1, and worker 1 copies nothing itself: its message arrives at 3.
        drawn = sends(draw("""
            0: F0......
            1: ......F0
        """))
        received = Span(1, COPY, "recv s1 m0 e0", 3.0, 3.0, 1, 0, "recv", 1, 0)
        sent = Span(0, COPY, "send s0 m0 e0", 1.0, 1.0, 1, 0, "send", 0, 0)
        drawn.spans = sorted(drawn.spans + [received, sent], key=lambda span: span.start)
        self.check(drawn, 1, 3, earlier_stage=1, launch=2)
        drawn.workers[1].process = 1
        self.check(drawn, 1, 3, earlier_stage=1, copy=2)


class Host(Drawn):
    def test_a_late_launch(self):
        # All that F0 of stage 1 waits for has ended at 3; it began at 6.
        drawn = sends(draw("""
            0: F0F0............
            1: ....C0......F0F0
        """))
        self.check(drawn, 1, 2 + 3, earlier_stage=2, launch=3)
        self.check(drawn, 0, 6, copy=1, launch=3, later_stage=2)  # the end, as worker 1 has it

    def test_gaps_between_the_kernels_of_an_instruction_are_launching(self):
        drawn = timeline(1, [Span(0, COMPUTE, "F s0 m0", a, b, op="F", stage=0, micro=0) for a, b in ((0, 1), (3, 4))])
        self.check(drawn, 0, 2, launch=2)

    def test_time_without_a_mini_batch_is_data(self):
        # The trainer had no mini-batch from 2 to 4; the host issued the rest a millisecond later.
        drawn = draw("0: F0F0......F1", waiting_for_data=[(2.0, 4.0)])
        self.check(drawn, 0, 3, data=2, launch=1)

    def test_a_worker_without_spans_waits_for_the_others(self):
        drawn = draw("""
            0: F0F0..
            1: ....F0
        """)
        drawn.workers.append(Worker("cpu:2", (2,)))
        self.check(drawn, 2, 3, earlier_stage=3)

    def test_gaps_between_steps(self):
        drawn = draw("0: F0F0")
        drawn.steps = [Step(1, 0, 2), Step(2, 5, 6), Step(4, 9, 10)]
        drawn.waiting_for_data = [(1.0, 4.0)]
        self.assertEqual(between(drawn), {1: {"ms": 3, "data": 2, "launch": 1}})  # step 3 is not there: no gap


class NoNames(Drawn):
    def spans(self, *rows):
        return [Span(w, kind, "kernel", start, end, issued=issued) for w, kind, start, end, issued in rows]

    def test_until_the_launch_it_is_launching_then_the_worker_that_ended_last(self):
        drawn = timeline(2, self.spans((0, COMPUTE, 0, 4, None), (1, COMPUTE, 6, 8, 1.0), (0, COMPUTE, 9, 10, 9.0)))
        # worker 1, 0 to 6: not launched until 1; worker 0 ran until 4; then no cause is known. 8 to 10: worker 0 ends
        self.check(drawn, 1, 8, launch=1 + 2, earlier_stage=3 + 2)
        self.check(drawn, 0, 5, launch=5)  # 4 to 9: launched at 9

    def test_of_several_workers_the_last_to_end_counts(self):
        # worker 1, 0 to 6: worker 0 ends at 3, worker 2 at 5
        drawn = timeline(3, self.spans((0, COMPUTE, 0, 3, None), (2, COMPUTE, 0, 5, None), (1, COMPUTE, 6, 7, None)))
        self.check(drawn, 1, 6, later_stage=5, launch=1)
        self.check(drawn, 2, 2, earlier_stage=2)


def recv(stage, micro, edge, waits):
    return {"name": name_of("recv", stage, micro, edge), "op": "recv", "stage": stage, "micro": micro, "edge": edge,
            "waits": waits}


def instruction(op, stage, micro=-1, waits=()):
    return {"name": name_of(op, stage, micro), "op": op, "stage": stage, "micro": micro, "waits": [list(w) for w in waits]}


def planned(programs, spans, **more):
    """A timeline with a plan: spans are (worker, pc, start, end)."""
    plan = Plan({"programs": [{"workers": [{"instructions": its} for its in programs]}]})
    made = []
    for w, pc, start, end in spans:
        it = programs[w][pc]
        kind = COPY if it["op"] in ("recv", "send", "load", "post", "collect") else COMPUTE
        made.append(Span(w, kind, it["name"], start, end, op=it["op"], stage=it["stage"], micro=it["micro"], program=0, pc=pc))
    return timeline(len(programs), made, plan=plan, **more)


class Plans(Drawn):
    def test_a_barrier_costs_what_it_adds(self):
        #  0: F0F1F1F1..    Stage 1 has its input at 1, but meets worker 0 in a barrier, which opens at 4.
        #  1: ..C0....F0    Its idle time from 0 to 1 is waiting for stage 0, from 2 to 4 the barrier's.
        programs = [[instruction("F", 0, 0), instruction("send", 0, 0), instruction("F", 0, 1),
                     instruction("barrier", 0, 0, [[1, 1]])],
                    [recv(1, 0, 0, [[0, 1]]), instruction("barrier", 1, 0, [[0, 3]]), instruction("F", 1, 0)]]
        drawn = planned(programs, [(0, 0, 0, 1), (0, 1, 1, 1), (0, 2, 1, 4), (1, 0, 1, 2), (1, 2, 4, 5)])
        # Of both, a part is imbalance: F takes 2 ms on average on stage 0 and 1 ms on stage 1. Played with these, worker 1
        # waits 2 ms for stage 0, copies, and waits 1 ms for the barrier at 4. With 1.5 ms on both stages, the barrier
        # opens at 3: it waits 1.5 ms, copies, and waits 0.5 ms.
        self.check(drawn, 1, 3, earlier_stage=1 - 0.5, collective=2 - 0.5, imbalance=0.5 + 0.5)

    def test_at_a_barrier_the_input_that_is_not_there_yet_counts_first(self):
        #  0: F0F0F1F1....    Worker 1 waits at its barrier from 0 on, and receives F0 after it. Until 2 there is
        #  1: ........C0F0    nothing to receive; from 2 to 4 only the barrier is closed. At the end worker 1 goes on.
        programs = [[instruction("F", 0, 0), instruction("send", 0, 0), instruction("F", 0, 1), instruction("barrier", 0, 0)],
                    [instruction("barrier", 1, 0, [[0, 3]]), recv(1, 0, 0, [[0, 1]]), instruction("F", 1, 0)]]
        drawn = planned(programs, [(0, 0, 0, 2), (0, 1, 2, 2), (0, 2, 2, 4), (1, 1, 4, 5), (1, 2, 5, 7)])
        self.check(drawn, 1, 4, earlier_stage=2, collective=2)
        self.check(drawn, 0, 3, copy=1, later_stage=2)

    def test_a_trace_that_does_not_fit_its_plan_is_read_by_names(self):
        #  0: F0....    By the plan, the second instruction would wait for F0; by its name it is the first of its queue.
        #  1: ....F1    F1 of stage 1 waits for no F0: the host launched it late.
        programs = [[instruction("F", 0, 0)], [instruction("B", 1, 0, [[0, 0]])]]
        drawn = planned(programs, [(0, 0, 0, 1), (1, 0, 2, 3)])
        self.check(drawn, 1, 2, earlier_stage=1, launch=1)
        drawn.spans[1].op, drawn.spans[1].micro = "F", 1
        self.check(drawn, 1, 2, launch=2)

    def test_a_slot_that_was_not_pulled(self):
        #  0: F0..........F1    F1 needs the slot of F0, which worker 1 pulls from 1 to 6.
        #  1: ..C0C0C0C0C0..
        programs = [[instruction("F", 0, 0), instruction("send", 0, 0), instruction("F", 0, 1, [(1, 0)])],
                    [recv(1, 0, 0, [[0, 1]])]]
        drawn = planned(programs, [(0, 0, 0, 1), (0, 1, 1, 1), (1, 0, 1, 6), (0, 2, 6, 7)])
        self.check(drawn, 0, 5, copy=5)

    def test_a_norm_of_another_stage_is_collective(self):
        #  0: B0....Z0    The step waits for the norm of stage 1.
        #  1: ..N0N0..
        programs = [[instruction("B", 0, 0), instruction("collect", 0, waits=[[1, 1]]), instruction("step", 0)],
                    [instruction("norm", 1), instruction("post", 1)]]
        drawn = planned(programs, [(0, 0, 0, 1), (1, 0, 1, 3), (1, 1, 3, 3), (0, 1, 3, 3), (0, 2, 3, 4)])
        self.check(drawn, 0, 2, collective=2)

    def test_what_is_posted_within_a_backward_comes_from_that(self):
        #  0: B0B0B0B0..    Stage 1 is a replica of stage 0 with other queues: it collects what was posted within B0 at 2,
        #  1: ....D0....    although the post stands after it, at 4.
        programs = [[instruction("B", 0, 0), instruction("post", 0)],
                    [instruction("collect", 1, waits=[[0, 1]]), instruction("reduce", 1)]]
        drawn = planned(programs, [(0, 0, 0, 4), (0, 1, 4, 4), (1, 0, 2, 2), (1, 1, 2, 3)])
        share = attribute(drawn)[1][1]
        self.assertAlmostEqual(share.idle_by["launch"], 0, 9, msg=str(share))
        self.assertAlmostEqual(share.idle, 3, 9, msg=str(share))

    def test_a_plan_that_waits_in_a_circle_is_read_by_names(self):
        programs = [[instruction("F", 0, 0, [(1, 0)])], [instruction("F", 1, 0, [(0, 0)])]]
        drawn = planned(programs, [(0, 0, 0, 1), (1, 0, 1, 2)])
        self.check(drawn, 1, 1, earlier_stage=1)


if __name__ == "__main__":
    unittest.main()
