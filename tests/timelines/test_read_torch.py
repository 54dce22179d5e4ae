"""Reading timelines of PyTorch's profiler, which have no names of ours."""
import json
import random
import unittest

from traces import Case

from timelines.figures import Causes, figures
from timelines.compare import compare
from timelines.read import Options, Written, picoseconds, read
from timelines.timeline import IDLE_KEYS, BadInput

EPOCH = 1712667379482786.0  # microseconds: the profiler counts from 1970


def event(category, name, start, end, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 8, "ts": EPOCH + 1000.0 * start, "dur": 1000.0 * (end - start),
            "args": args}


def launched(category, name, at, start, end, number, device, stream):
    """The call on the host at `at`, and what it started on the GPU."""
    return [event("cuda_runtime", "cudaLaunchKernel", at, at + 0.25, correlation=number),
            event(category, name, start, end, correlation=number, device=device, stream=stream)]


def capture():
    """Two steps on two GPUs; the host is ahead of the GPUs. Each letter is 1 ms:

                            0         1         2
                            01234567890123456789012
        host                [step 4   )[step 5    )
        cuda:0 stream 7     ..kkkk......mm........    k: launched at 1, m: at 11
               stream 20    .....ccc..............    c: launched at 2
        cuda:1 stream 7     ........nnnn...........   n: launched at 3
               stream 13    ............rr.......ss   r: NCCL all-reduce of step 4, launched at 4; s: NCCL send of step 5, at 12
    """
    events = [event("user_annotation", "ProfilerStep#4", 0, 10), event("user_annotation", "ProfilerStep#5", 10, 21)]
    events += launched("kernel", "gemm", 1, 2, 6, 1, 0, 7)
    events += launched("gpu_memcpy", "Memcpy DtoD", 2, 5, 8, 2, 0, 20)
    events += launched("kernel", "gemm", 3, 8, 12, 3, 1, 7)
    events += launched("kernel", "ncclDevKernel_AllReduce_Sum_f32", 4, 12, 14, 4, 1, 13)
    events += launched("kernel", "relu", 11, 12, 14, 5, 0, 7)
    events += launched("kernel", "ncclDevKernel_SendRecv", 12, 19, 21, 6, 1, 13)
    return events


class Content(Case):
    def test_steps_are_those_in_which_the_host_launched(self):
        timeline = read(self.trace(capture()))
        self.assertEqual(timeline.source, "torch")
        self.assertEqual([(it.name, it.lanes) for it in timeline.workers],
                         [("cuda:0", ("stream 7", "stream 20")), ("cuda:1", ("stream 7", "stream 13"))])
        zero = 2.0  # of the first kernel
        found = [(it.step, it.worker, it.lane, it.kind, it.name, round(it.start + zero, 3), round(it.issued + zero, 3))
                 for it in timeline.spans]
        self.assertEqual(found, [(4, 0, 0, "compute", "gemm", 2.0, 1.0), (4, 0, 1, "copy", "Memcpy DtoD", 5.0, 2.0),
                                 (4, 1, 0, "compute", "gemm", 8.0, 3.0),
                                 (4, 1, 1, "collective", "ncclDevKernel_AllReduce_Sum_f32", 12.0, 4.0),
                                 (5, 0, 0, "compute", "relu", 12.0, 11.0), (5, 1, 1, "copy", "ncclDevKernel_SendRecv", 19.0, 12.0)])

    def test_figures(self):
        # Step 4: 2 to 14, so 12 ms. cuda:0 computes 4, copies 3 (2 exposed), idle 6. cuda:1 computes 4, collective 2, idle 8.
        # Step 5: 12 to 21, so 9 ms. cuda:0 computes 2, idle 7. cuda:1 copies 2, all exposed, idle 7. Medians of two: means.
        timeline = read(self.trace(capture()))
        from types import SimpleNamespace

        share = SimpleNamespace(idle_by=dict.fromkeys(IDLE_KEYS, 1.0))
        run = figures(timeline, Causes({4: [share] * 2, 5: [share] * 2}))

        def rounded(worker):
            return [round(worker[key], 3) for key in ("busy_ms", "copy_ms", "copy_exposed_ms", "collective_ms", "idle_ms")]
        self.assertEqual(rounded(run["workers"][0]), [3.0, 1.5, 1.0, 0.0, 6.5])
        self.assertEqual(rounded(run["workers"][1]), [2.0, 1.0, 1.0, 1.0, 7.5])
        self.assertEqual((round(run["step_ms"], 3), run["between_ms"]), (10.5, 0.0))

    def test_a_named_range(self):
        events = capture() + [event("user_annotation", "iteration 3", 0, 2.5), event("user_annotation", "iteration 4", 2.5, 20)]
        timeline = read(self.trace(events), Options(steps_by="iteration"))
        self.assertEqual([it.step for it in timeline.spans], [3, 3, 4, 4, 4, 4])
        events[-1]["name"] = "iteration 3"
        timeline = read(self.trace(events), Options(steps_by="iteration"))
        self.assertEqual([it.step for it in timeline.spans], [1, 1, 2, 2, 2, 2])
        events[-1]["name"] = "iteration"
        self.assertEqual([it.step for it in read(self.trace(events), Options(steps_by="iteration")).spans], [1, 1, 2, 2, 2, 2])
        events[-1]["name"] = "iteration 4"
        self.refused("t.json: has no range epoch; its ranges are ProfilerStep#4, ProfilerStep#5, iteration 3, iteration 4",
                     read, self.trace(events), Options(steps_by="epoch"))
        events.append(event("user_annotation", "empty", 30, 31))
        self.refused("t.json: no kernel, copy or operator lies in the range empty; name another range with --steps-by",
                     read, self.trace(events), Options(steps_by="empty"))

    def test_without_steps_the_capture_is_one_step(self):
        timeline = read(self.trace(capture()[2:]))
        self.assertEqual([(step.number, step.end) for step in timeline.steps], [(1, 19.0)])
        self.assertEqual(timeline.remarks, ["No range of the capture names its steps, so all of it counts as one step; "
                                            "name such a range with --steps-by."])

    def test_without_gpu_the_outermost_operators_compute(self):
        events = [event("user_annotation", "ProfilerStep#1", 0, 10), event("cpu_op", "aten::linear", 1, 4),
                  event("cpu_op", "aten::addmm", 2, 3), event("cpu_op", "aten::relu", 5, 6)]
        timeline = read(self.trace(events))
        self.assertEqual([(it.worker, it.kind, it.name, it.start, it.end) for it in timeline.spans],
                         [(0, "compute", "aten::linear", 0.0, 3.0), (0, "compute", "aten::relu", 4.0, 5.0)])
        self.assertEqual(timeline.workers[0].name, "cpu")

    def test_names_of_older_versions(self):
        events = [event("Operator", "ProfilerStep#1", 0, 10), *launched("Kernel", "gemm", 1, 2, 3, 1, 0, 7)]
        events[1]["cat"] = "Runtime"
        self.assertEqual([(it.step, it.name) for it in read(self.trace(events)).spans], [(1, "gemm")])


def rank(process, gpu, at, kernels, pid=None, number=0, pace=0.05):
    """Two steps of 2 ms of one process. Kernels of (start in the step, length) in ms are launched `pace` ms after one another from the
    beginning. Ids of launches count from number + 1. The GPU's events have the GPU's number in place of the process."""
    events = []
    for step in (0, 1):
        events.append({**event("user_annotation", f"ProfilerStep#{step + 8}", at + 2 * step, at + 2 * step + 1.999), "pid": process})
        for i, (start, length) in enumerate(kernels):
            number += 1
            both = launched("kernel", "gemm", at + 2 * step + pace * (i + 1), at + 2 * step + start, at + 2 * step + start + length, number,
                            gpu, 7)
            both[0]["pid"], both[1]["pid"] = process, gpu if pid is None else pid
            events += both
    return events


def merge_of_two(generator):
    """Two hosts with GPU 0. A kernel begins when it is launched and the one before it is over. Its name is the process."""
    events = []
    for process, ids, start in ((31, 100, 0), (32, 100 + generator.choice([0, 1, 10, 1000]), generator.choice([0.001, 0.02, 0.3, 5]))):
        lengths = [generator.choice([0.002, 0.01, 0.05, 0.1]) * generator.uniform(0.8, 1.2) for _ in range(generator.randint(2, 9))]
        period, pace, free = generator.choice([0.5, 1, 3]), generator.choice([0.002, 0.005, 0.02]), 0
        for step in range(5):
            at = start + step * period
            for length in lengths:
                ids += 1
                at += pace * generator.uniform(0.6, 1.4)
                begin = max(free + 0.001, at + generator.uniform(0.004, 0.008))
                free = begin + length
                both = launched("kernel", str(process), at, begin, free, ids, 0, 7)
                both[0]["pid"], both[1]["pid"] = process, 0
                events += both
    return events


class Digits(Case):
    """Microseconds since 1970 have 16 digits before the point; a double keeps 0.25 µs of them."""

    def test_sums_agree_with_the_file_to_a_nanosecond(self):
        generator = random.Random(3)
        lines, length, at = [], 0, 1764000000123456_100  # in nanoseconds
        for _ in range(2000):
            lasts = generator.randint(900, 1100)
            lines.append('{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": %d.%03d, "dur": %d.%03d, "args": {"device": 0}}' %
                         (*divmod(at, 1000), *divmod(lasts, 1000)))
            length += lasts
            at += lasts + generator.randint(1, 50)
        timeline = read(self.write('{"traceEvents": [%s]}' % ", ".join(lines)))
        self.assertAlmostEqual(sum(it.end - it.start for it in timeline.spans) * 1e6, length, delta=1)
        self.assertTrue(all(0.9e-3 - 1e-9 <= it.end - it.start <= 1.1e-3 + 1e-9 for it in timeline.spans))

    def test_ways_of_writing_a_number(self):
        for written, expected in (("3", 3_000_000), ("3.5", 3_500_000), ("-3.25", -3_250_000), ("-0.5", -500_000), ("1764000000123456.789", 1764000000123456_789_000),
                                  ("1.764000000123456789e15", 1764000000123456_789_000), ("2E3", 2_000_000_000), ("0.0000001", 0),
                                  ("1e17", 10**23), ("1.1e17", None), ("1e999", None), ("NaN", None), ("true", None), ("1e-99999999999999999999", None), ('"3"', None)):
            self.assertEqual(picoseconds(json.loads(written, parse_float=Written)), expected, written)
        self.assertEqual(picoseconds(0.1), 100_000)


class SeveralRanks(Case):
    def busy(self, events):
        timeline = read(self.trace(events))
        busy = {}
        for span in timeline.spans:
            key = timeline.workers[span.worker].name, span.step
            busy[key] = round(busy.get(key, 0) + span.end - span.start, 6)
        return busy

    def test_each_has_ids_and_steps_of_its_own(self):
        for late in (0, 0.02, 0.7, 2, 30):
            events = rank(31, 0, 5, [(0.2, 0.3), (0.6, 0.4)]) + rank(32, 1, 5 + late, [(0.15, 0.1), (1.4, 0.2)])
            self.assertEqual(self.busy(events), {("cuda:0", 8): 0.7, ("cuda:0", 9): 0.7, ("cuda:1", 8): 0.3, ("cuda:1", 9): 0.3}, late)

    def test_gpus_of_two_hosts_have_one_number(self):
        """By the process numbers of their GPUs' events, or if these are equal too, by the launches."""
        for late, pids in ((0.3, (90, 91)), (2, (90, 91)), (0.5, (0, 0)), (30, (0, 0))):
            events = rank(31, 0, 5, [(0.2, 0.1), (0.4, 0.05)], pids[0]) + rank(32, 0, 5 + late, [(0.15, 0.02), (0.45, 0.01)], pids[1])
            self.assertEqual(self.busy(events), {("cuda:0 (process 31)", 8): 0.15, ("cuda:0 (process 31)", 9): 0.15,
                                                 ("cuda:0 (process 32)", 8): 0.03, ("cuda:0 (process 32)", 9): 0.03}, (late, pids))

    def test_hosts_with_other_ids_steps_and_kernels(self):
        """The launches decide, whatever overlaps. In each step one host has six kernels, the other one four."""
        mine = [(0.04, 0.03), (0.071, 0.04), (0.112, 0.05), (0.163, 0.06), (0.224, 0.07), (0.295, 0.02)]
        other = [(0.041, 0.013), (0.055, 0.012), (0.068, 0.011), (0.08, 0.014)]
        for late in (0, 0.004, 0.26, 0.8, 2, 9):
            for ids in (0, 1, 4, 9, 500):
                events = rank(31, 0, 5, mine, 0, 0, 0.006) + rank(32, 0, 5 + late, other, 0, ids, 0.006)
                for order in (lambda it: 0, lambda it: it["ts"]):
                    self.assertEqual(self.busy(sorted(events, key=order)), {
                        ("cuda:0 (process 31)", 8): 0.27, ("cuda:0 (process 31)", 9): 0.27,
                        ("cuda:0 (process 32)", 8): 0.05, ("cuda:0 (process 32)", 9): 0.05}, (late, ids))

    def test_two_hosts_of_two_gpus(self):
        """Four processes, two numbers of GPUs, equal ids."""
        events = sum((rank(process, gpu, 5 + late, [(0.12, length), (0.125 + length, length)]) for process, gpu, late, length in
                      ((31, 0, 0, 0.4), (32, 1, 0.01, 0.3), (41, 0, 0.03, 0.2), (42, 1, 0.05, 0.1))), [])
        self.assertEqual({name: busy for (name, step), busy in self.busy(events).items() if step == 8}, {
            "cuda:0 (process 31)": 0.8, "cuda:1 (process 32)": 0.6, "cuda:0 (process 41)": 0.4, "cuda:1 (process 42)": 0.2})

    def test_random_hosts(self):
        """Two hosts with queues of their own; times of launches and kernels are random, so some few kernels may go astray."""
        wrong = count = 0
        for seed in range(40):
            events = merge_of_two(random.Random(seed))
            timeline = read(self.trace(events))
            names = {process: f"cuda:0 (process {process})" for process in (31, 32)}
            wrong += sum(timeline.workers[it.worker].name != names[int(it.name)] for it in timeline.spans)
            count += len(timeline.spans)
        self.assertLess(wrong, count / 1000, count)

    def test_a_graph_has_many_kernels_of_one_launch(self):
        events = rank(31, 0, 5, [(0.2, 0.1), (0.4, 0.05)]) + rank(32, 1, 5.3, [(0.15, 0.02), (0.45, 0.01)])
        graph = next(it for it in events if it["pid"] == 0)
        events += [{**graph, "ts": graph["ts"] + 110 + 10 * i, "dur": 5} for i in range(4)]
        self.assertEqual(self.busy(events), {("cuda:0", 8): 0.17, ("cuda:0", 9): 0.15, ("cuda:1", 8): 0.03, ("cuda:1", 9): 0.03})

    def test_a_remark_if_nothing_decides(self):
        events = rank(31, 0, 5, [(0.2, 0.1)], 0) + rank(32, 0, 5, [(0.2, 0.1)], 0)
        timeline = read(self.trace(events))
        self.assertEqual(len(timeline.workers), 2)
        self.assertIn("Several processes call their GPU cuda:0, and their launches do not decide which process some of its kernels and copies belong "
                      "to; record the processes in files of their own.", timeline.remarks)
        decided = rank(31, 0, 5, [(0.2, 0.1)], 0) + rank(32, 0, 5, [(0.2, 0.1)], 0, 50)
        self.assertFalse(any("decide" in it for it in read(self.trace(decided)).remarks))

    def test_a_remark_if_two_hosts_have_one_process_number(self):
        timeline = read(self.trace(rank(31, 0, 5, [(0.2, 0.1)], 0) + rank(31, 0, 5.02, [(0.25, 0.1)], 0)))
        self.assertIn("Most ids of launches occur several times in process 31, as if processes of several hosts had this number; record the "
                      "processes in files of their own.", timeline.remarks)

    def test_without_gpu_a_process_is_a_worker(self):
        events = [{**event("cpu_op", "aten::mm", 1, 3), "pid": 41}, {**event("cpu_op", "aten::mm", 2, 5), "pid": 40},
                  {**event("cpu_op", "ProfilerStep#1", 0, 4), "pid": 41}, {**event("cpu_op", "ProfilerStep#1", 1, 6), "pid": 40}]
        self.assertEqual(self.busy(events), {("cpu (process 40)", 1): 3.0, ("cpu (process 41)", 1): 2.0})


class Bad(Case):
    def test_times(self):
        self.refused("t.json: none of its kernels, copies and operators has a usable time: event 1 (gemm): dur is missing; record it again",
                     read, self.trace([{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1}]))
        self.refused("t.json: event 1 is no object; record with torch.profiler, or choose another file", read, self.trace([3]))

    def test_events_without_a_usable_time_are_left_out(self):
        whole = read(self.trace(capture()))
        lost = launched("kernel", "lost", 2, 0, 0, 9, 0, 7)
        host = event("cpu_op", "aten::mm", 3, 4)
        for changes, why in (({"ts": 0, "dur": 0}, "ts and dur are 0"), ({"ts": 0, "dur": 3}, "ts is 0, more than an hour from the other events"),
                             ({"ts": None}, "ts is None"), ({"ts": EPOCH - 5e6, "dur": 3}, "begins before it is launched"),
                             ({"ts": EPOCH - 5e3, "dur": 30e3}, "begins before it is launched"),
                             ({"ts": EPOCH + 8.64e10}, f"ts is {EPOCH + 8.64e10}, more than an hour from the other events"),
                             ({"ts": EPOCH + 3000, "dur": 4e9}, "dur is 4000000000.0, so it ends more than an hour after the other events"), ({"dur": -1}, "dur is -1"), ({"dur": "1"}, "dur is 1"),
                             ({"ts": 1e300}, "ts is 1e+300")):
            timeline = read(self.trace(capture() + [lost[0], {**lost[1], **changes}]))
            self.assertEqual([(it.name, it.step, it.start, it.end) for it in timeline.spans],
                             [(it.name, it.step, it.start, it.end) for it in whole.spans], changes)
            self.assertEqual(timeline.remarks, [f"1 of 16 events has no usable time, and is left out; the first is event 16 (lost): {why}."])
            if "launched" not in why:  # of the host
                timeline = read(self.trace([{**host, **changes}, {**host, **changes}] + capture()))
                self.assertEqual([(it.name, it.step, it.start) for it in timeline.spans], [(it.name, it.step, it.start) for it in whole.spans])
                self.assertEqual(timeline.remarks, [f"2 of 16 events have no usable time, and are left out; the first is event 1 (aten::mm): {why}."])

    def test_lost_events_that_are_more_than_the_good_ones(self):
        """Lost times are often equal, so they count once."""
        for changes in ({"ts": 0, "dur": 0}, {"ts": 0, "dur": 2}, {"ts": 5}):
            lost = [{**event("cpu_op" if i % 2 else "kernel", "lost", 0, 1), **changes} for i in range(45)]
            timeline = read(self.trace(capture() + lost))
            self.assertEqual([(it.number, round(it.end - it.start, 3)) for it in timeline.steps], [(4, 12.0), (5, 9.0)])
            self.assertIn("45 of 59 events have no usable time, and are left out; the first is event 15 (lost)", timeline.remarks[0])

    def test_a_range_that_never_ends_takes_no_kernels(self):
        """A second range of step 5 begins with step 4."""
        lost = {**event("user_annotation", "ProfilerStep#5", 0, 1), "dur": 7.7e10}
        self.assertEqual([it.step for it in read(self.trace(capture() + [lost])).spans], [4, 4, 4, 4, 5, 5])

    def test_a_pause_within_a_capture(self):
        """Preparation lasts for half an hour within one operator, or for two hours between two parts of the capture."""
        early = [event("cpu_op", "aten::mm", at, at + 1) for at in (-1.8e6, -1.8e6 + 2)]
        self.assertEqual(read(self.trace(capture() + early + [event("cpu_op", "compile", -1.8e6, 0)])).remarks, [])
        part = [{**it, "ts": it["ts"] + 7.2e9, "name": it["name"].replace("#4", "#6").replace("#5", "#7"), "args": {**it["args"]}} for it in capture()]
        for it in part:
            if "correlation" in it["args"]:
                it["args"]["correlation"] += 50
        timeline = read(self.trace(capture() + part))
        self.assertEqual([step.number for step in timeline.steps], [4, 5, 6, 7])
        self.assertEqual(timeline.remarks, [])

    def test_a_kernel_longer_than_its_stream_can_wait(self):
        """Within the hour, the other kernels of the stream show it."""
        events = capture() + launched("kernel", "relu", 12, 15, 15.5, 7, 0, 7)
        events[3]["dur"] = 9e6  # gemm on cuda:0 from 2 ms
        timeline = read(self.trace(events))
        self.assertEqual([it.name for it in timeline.spans if it.worker == 0], ["Memcpy DtoD", "relu", "relu"])
        self.assertEqual(timeline.remarks, ["1 of 16 events has no usable time, and is left out; the first is event 4 (gemm): dur is 9000000.0, "
                                            "longer than all else in its stream, which went on meanwhile."])

    def test_a_clock_of_the_gpu_that_is_early(self):
        """All GPU work is 30 ms early: no event is lost."""
        events = capture()
        for it in events:
            it["ts"] -= 30e3 if "device" in it["args"] else 0
        timeline = read(self.trace(events))
        self.assertEqual(len(timeline.spans), 6)
        self.assertNotIn("left out", "".join(timeline.remarks))

    def test_ranges_beyond_the_operators(self):
        """The profiler was stopped late: its step begins after all operators."""
        events = [event("cpu_op", "aten::mm", 1, 2), event("user_annotation", "ProfilerStep#3", 4, 5)]
        timeline = read(self.trace(events))
        self.assertEqual([step.number for step in timeline.steps], [1])
        self.assertEqual(timeline.remarks, ["The ranges that name its steps contain no kernel, copy or operator, so all of it counts as one "
                                            "step; name another range with --steps-by."])

    def test_damaged_files_are_recorded_again_with_the_profiler(self):
        text = json.dumps({"schemaVersion": 1, "traceEvents": capture()})
        at = text.index('"X"') + 3
        self.refused(f"t.json: line 1, column {at + 1} (byte {at + 1}) is not JSON: expecting ',' delimiter; record it again with torch.profiler",
                     read, self.write(text[:at] + "x" + text[at:]))

    def test_any_value_replaced(self):
        generator = random.Random(1)
        values = [None, True, -1, 0, 1 << 70, float("nan"), "", "x", [], {}]
        for index in range(len(capture())):
            for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args"):
                for value in values:
                    events = capture()
                    events[index][key] = value
                    self.survives(events)
            for key in ("correlation", "device", "stream", "bytes"):
                events = capture()
                events[index]["args"][key] = generator.choice(values)
                self.survives(events)

    def survives(self, events):
        try:
            json.dumps(compare([read(self.trace(events))] * 2), allow_nan=False)
        except BadInput as problem:
            self.assertNotIn("\n", str(problem))


if __name__ == "__main__":
    unittest.main()
