"""Reading timelines of PyTorch's profiler, which have no names of ours."""
import json
import random
import unittest

from traces import Case

from timelines.figures import Causes, figures
from timelines.compare import compare
from timelines.read import Options, read
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


class Bad(Case):
    def test_times(self):
        self.refused("t.json: event 1 (gemm): dur is missing, but must be a number of microseconds; record it again", read,
                     self.trace([{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1}]))
        self.refused("t.json: event 1 is no object; record with torch.profiler, or choose another file", read, self.trace([3]))

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
