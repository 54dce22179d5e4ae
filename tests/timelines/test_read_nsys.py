"""The reader of Nsight Systems' exports, on small databases with the tables of real ones (nsys_schemas). Numbers are by hand."""
import json
import os
import sqlite3
import sys
import tempfile
import unittest
from types import SimpleNamespace

here = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(here, "..", "..", "scripts"), here]
from nsys_made import Made, global_pid  # noqa: E402
from timelines.attribute import attribute  # noqa: E402
from timelines.compare import compare, text_of  # noqa: E402
from timelines.read_nsys import read_nsys  # noqa: E402
from timelines.timeline import COLLECTIVE, COMPUTE, COPY, BadInput, length, union, without  # noqa: E402


def two_stages(made, step=4, at=0, registered=False, whole=True):
    """A step of two stages on two GPUs and two micro-batches, as gpipe-train marks it. Microseconds from `at`:

    GPU 0  compute  F s0 m0 10-14, F s0 m1 14-18 (two kernels, 14-16 and 16-18), B s0 m0 30-36
    GPU 1  copy     recv s1 m0 14-15, recv s1 m1 18-19
           compute  F s1 m0 15-20, F s1 m1 20-25 (its copy within the GPU, 24-25, belongs to it), B s1 m0 25-30
    """
    def mark(name, start, end, thread):
        made.range(name, at + start, at + end, thread, registered=registered)

    made.range(f"step {step}", at, at + 20, 101, registered=registered)
    made.range(f"step {step}", at, at + 20 if whole else None, 102, registered=registered)
    mark("F s0 m0", 1, 2, 101)
    mark("send s0 m0 e0", 2, 2.5, 101)
    mark("F s0 m1", 3, 5, 101)
    mark("B s0 m0", 6, 8, 101)
    mark("recv s1 m0 e0", 1, 2, 102)
    mark("F s1 m0", 2, 4, 102)
    mark("recv s1 m1 e0", 4, 5, 102)
    mark("F s1 m1", 5, 7, 102)
    mark("B s1 m0", 8, 9, 102)
    made.kernel(at + 10, at + 14, at + 1.5, 101)
    made.kernel(at + 14, at + 16, at + 3.5, 101, name="relu")
    made.kernel(at + 16, at + 18, at + 4, 101)
    made.kernel(at + 30, at + 36, at + 7, 101)
    made.copy(at + 14, at + 15, at + 1.5, 102, kind=10, gpu=1)
    made.kernel(at + 15, at + 20, at + 3, 102, gpu=1)
    made.copy(at + 18, at + 19, at + 4.5, 102, kind=10, gpu=1)
    made.kernel(at + 20, at + 24, at + 6, 102, gpu=1)
    made.copy(at + 24, at + 25, at + 6.5, 102, kind=8, gpu=1, stream=7)
    made.kernel(at + 25, at + 30, at + 8.5, 102, gpu=1)


def micro(milliseconds):
    return round(milliseconds * 1000)


def covered(timeline, worker, kind):
    """Intervals in microseconds that spans of a kind cover."""
    return union((span.start * 1000, span.end * 1000) for span in timeline.spans if (span.worker, span.kind) == (worker, kind))


class ReaderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a b#1.sqlite")

    def read(self, **options):
        return read_nsys(self.path, SimpleNamespace(**options))

    def refuse(self, sentence, path=None, **options):
        with self.assertRaises(BadInput) as caught:
            read_nsys(path or self.path, SimpleNamespace(**options))
        self.assertEqual(str(caught.exception), f"{path or self.path}: {sentence}")


class OurNames(ReaderTest):
    def check_two_stages(self, timeline):
        self.assertEqual([(worker.name, worker.stages) for worker in timeline.workers], [("cuda:0", (0,)), ("cuda:1", (1,))])
        self.assertEqual([(step.number, micro(step.start), micro(step.end)) for step in timeline.steps], [(4, 0, 26)])
        # GPU 0 computes 4 + 4 + 6 of 26 us; GPU 1 computes 15-30 without a break, and copies 14-15 and 18-19, the latter hidden.
        self.assertAlmostEqual(length(covered(timeline, 0, COMPUTE)), 14)
        self.assertAlmostEqual(length(covered(timeline, 1, COMPUTE)), 15)
        copies = covered(timeline, 1, COPY)
        self.assertAlmostEqual(length(copies), 2)
        self.assertAlmostEqual(length(without(copies, covered(timeline, 1, COMPUTE))), 1)
        self.assertEqual(covered(timeline, 0, COPY), [])
        names = [(span.name, span.op, span.stage, span.micro, span.step) for span in timeline.spans if span.worker == 0]
        self.assertEqual(names, [("F s0 m0", "F", 0, 0, 4), ("F s0 m1", "F", 0, 1, 4), ("F s0 m1", "F", 0, 1, 4),
                                 ("B s0 m0", "B", 0, 0, 4)])
        self.assertEqual([span.detail for span in timeline.spans if span.worker == 0], ["gemm", "relu", "gemm", "gemm"])
        # Time 0 is the first activity, at 10 us: the host issued it at 1.5 us.
        self.assertAlmostEqual(timeline.spans[0].issued * 1000, -8.5)
        self.assertEqual({span.bytes for span in timeline.spans if span.kind == COPY}, {4096})

    def test_each_version_gives_the_same_timeline(self):
        for version in ("2022.2.1", "2024.5.1", "2024.6.2", "2026.2.1"):
            with self.subTest(version=version):
                with Made(self.path, version) as made:
                    two_stages(made)
                timeline = self.read()
                self.check_two_stages(timeline)
                self.assertEqual((timeline.source, timeline.name, timeline.remarks), ("nsys", "a b#1.sqlite", []))
                os.remove(self.path)

    def test_registered_names_are_in_string_ids(self):
        with Made(self.path) as made:
            two_stages(made, registered=True)
        self.check_two_stages(self.read())

    def test_tables_without_rows_do_not_matter(self):
        with Made(self.path, "2022.2.1") as made:
            made.table("CUPTI_ACTIVITY_KIND_MEMSET")
            two_stages(made)
        self.check_two_stages(self.read())

    def test_streams_are_lanes_and_the_one_that_computes_is_the_first(self):
        with Made(self.path) as made:
            two_stages(made)
        timeline = self.read()
        self.assertEqual(timeline.workers[1].lanes, ("computes", "stream 8"))
        self.assertEqual([span.lane for span in timeline.spans if span.worker == 1 and span.op == "recv"], [1, 1])

    def test_two_stages_on_one_gpu_are_two_workers(self):
        with Made(self.path) as made:
            for thread, stage, start in ((102, 1, 20), (101, 0, 10)):
                made.range("step 1", 0, 9, thread)
                made.range(f"F s{stage} m0", 1, 2, thread)
                made.kernel(start, start + 5, 1.5, thread, stream=thread)
        timeline = self.read()
        self.assertEqual([(worker.name, worker.stages) for worker in timeline.workers],
                         [("cuda:0 (worker 0)", (0,)), ("cuda:0 (worker 1)", (1,))])
        self.assertEqual([(span.worker, span.name) for span in timeline.spans], [(0, "F s0 m0"), (1, "F s1 m0")])

    def test_a_step_that_one_thread_has_in_part_is_left_out(self):
        with Made(self.path) as made:
            two_stages(made, step=4)
            two_stages(made, step=5, at=100, whole=False)
        timeline = self.read()
        self.assertEqual([step.number for step in timeline.steps], [4])
        self.assertEqual({span.step for span in timeline.spans if span.start > 0.05}, {-1})
        self.assertEqual(timeline.remarks, ["The capture has only a part of step 5, which is left out."])

    def test_an_evaluation_belongs_to_no_step(self):
        with Made(self.path) as made:
            two_stages(made)
            made.range("evaluation", 50, 60, 101)
            made.range("F s0 m0", 51, 52, 101)
            made.kernel(55, 58, 51.5, 101)
        timeline = self.read()
        self.assertEqual([(span.name, span.step) for span in timeline.spans][-1], ("F s0 m0", -1))
        self.assertEqual(len(timeline.steps), 1)

    def test_work_between_instructions_has_a_worker_and_a_step_but_no_instruction(self):
        with Made(self.path) as made:
            two_stages(made)
            made.copy(9, 10, 0.5, 101, kind=1)  # the scalars of the step
        first = self.read().spans[0]
        self.assertEqual((first.worker, first.step, first.op, first.name, first.kind), (0, 4, "", "HtoD", COPY))

    def test_work_after_an_instruction_is_not_its_work(self):
        with Made(self.path) as made:
            two_stages(made)
            made.copy(40, 41, 15, 102, kind=2, gpu=1)  # B s1 m0 has been issued by 9, and the step goes on to 20
        last = self.read().spans[-1]
        self.assertEqual((last.step, last.op, last.name), (4, "", "DtoH"))

    def test_a_step_that_one_thread_does_not_have_is_left_out(self):
        with Made(self.path) as made:
            two_stages(made, step=4)
            made.range("step 5", 100, 120, 101)
            made.kernel(110, 112, 105, 101)
        timeline = self.read()
        self.assertEqual([step.number for step in timeline.steps], [4])
        self.assertEqual(timeline.remarks, ["The capture has only a part of step 5, which is left out."])

    def test_a_call_within_a_call_of_the_same_id_does_not_hide_it(self):
        with Made(self.path) as made:
            two_stages(made)
            made.row("CUPTI_ACTIVITY_KIND_RUNTIME", start=5900, end=5950, globalTid=global_pid(100) + 101, correlationId=1)
        first = self.read().spans[0]
        self.assertEqual((first.name, micro(first.issued)), ("F s0 m0", -8))

    def test_asked_steps_that_are_not_there_are_refused(self):
        with Made(self.path) as made:
            two_stages(made, step=4)
            two_stages(made, step=5, at=100)
        self.assertEqual(len(self.read(steps=(5, 9)).steps), 2)  # read.choose_steps takes the others out
        self.refuse("has no step in 7:9; it has steps 4 to 5, so choose --steps among these", steps=(7, 9))


class Kinds(ReaderTest):
    def test_copies_memsets_collectives_and_graphs(self):
        with Made(self.path) as made:
            made.copy(0, 1, 0, 1, kind=1, size=10)
            made.copy(1, 2, 0, 1, kind=2)
            made.copy(2, 3, 0, 1, kind=8)
            made.copy(3, 4, 0, 1, kind=10)
            made.copy(4, 5, 0, 1, kind=77)
            made.fill(5, 6, 0, 1)
            made.kernel(6, 7, 0, 1, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
            made.graph(7, 9, 0, 1)
        found = [(span.name, span.kind) for span in self.read().spans]
        self.assertEqual(found, [("HtoD", COPY), ("DtoH", COPY), ("DtoD", COPY), ("PtoP", COPY), ("copy", COPY),
                                 ("memset", COMPUTE), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", COLLECTIVE),
                                 ("CUDA graph 5", COMPUTE)])
        self.assertEqual([span.bytes for span in self.read().spans][:2], [10, 4096])


    def test_sends_and_receives_of_nccl_are_copies_as_in_captures_of_pytorch(self):
        with Made(self.path) as made:
            made.range("step 1", 0, 9, 1)
            for at, name in ((1, "F s0 m0"), (3, "recv s0 m0 e1"), (5, "norm s0")):
                made.range(name, at, at + 1, 1)
            made.kernel(10, 12, 1.1, 1, name="ncclDevKernel_SendRecv")
            made.kernel(30, 32, 3.1, 1, name="ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t")
            made.kernel(33, 34, 3.2, 1, name="ncclDevKernel_Broadcast_RING_LL")
            made.kernel(50, 52, 5.1, 1, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        self.assertEqual([span.kind for span in self.read().spans], [COPY, COPY, COPY, COLLECTIVE])

    def test_what_instructions_make_of_copies_and_kernels(self):
        with Made(self.path) as made:
            made.range("step 1", 0, 9, 1)
            for at, name in ((1, "F s0 m0"), (3, "recv s0 m0 e1"), (5, "load s0 m1")):
                made.range(name, at, at + 1, 1)
                made.copy(10 * at, 10 * at + 1, at + 0.1, 1, kind=8)
                made.copy(10 * at + 1, 10 * at + 2, at + 0.2, 1, kind=1)
                made.kernel(10 * at + 2, 10 * at + 3, at + 0.3, 1)
        found = [(span.op, span.detail, span.kind) for span in self.read().spans]
        self.assertEqual(found, [("F", "DtoD", COMPUTE), ("F", "HtoD", COPY), ("F", "gemm", COMPUTE),
                                 ("recv", "DtoD", COPY), ("recv", "HtoD", COPY), ("recv", "gemm", COPY),
                                 ("load", "DtoD", COPY), ("load", "HtoD", COPY), ("load", "gemm", COPY)])


class Processes(ReaderTest):
    def make(self, with_gpus):
        """Two processes of one GPU each. Both call it GPU 0, and both count correlation ids from 1."""
        with Made(self.path, "2026.2.1") as made:
            for pid, thread, stage, start in ((200, 1, 1, 40), (100, 1, 0, 10)):
                made.range("step 1", 0, 9, thread, pid=pid)
                made.range(f"F s{stage} m0", 1, 2, thread, pid=pid)
                made.kernel(start, start + 10, 1.5, thread, pid=pid)
                if with_gpus:
                    made.row("TARGET_INFO_CUDA_DEVICE", gpuId=pid // 100, cudaId=0, pid=pid)

    def test_ids_are_joined_in_each_process(self):
        self.make(with_gpus=True)
        timeline = self.read()
        self.assertEqual([(span.name, round(span.start * 1000)) for span in timeline.spans], [("F s0 m0", 0), ("F s1 m0", 30)])

    def test_the_table_of_devices_tells_the_gpus_apart(self):
        self.make(with_gpus=True)
        timeline = self.read()
        self.assertEqual([worker.name for worker in timeline.workers], ["cuda:1", "cuda:2"])
        self.assertEqual(timeline.remarks, [])

    def test_without_it_a_remark_says_so(self):
        self.make(with_gpus=False)
        timeline = self.read()
        self.assertEqual([worker.name for worker in timeline.workers], ["cuda:0 (worker 0)", "cuda:0 (worker 1)"])
        self.assertEqual(timeline.remarks, ["Several processes use a GPU of the same number, and the export does not say whether "
                                            "it is the same GPU: they are taken as one."])

    def test_gpus_of_two_hosts_are_two_workers(self):
        """Both hosts call the GPU 0, and both processes have the number 100."""
        with Made(self.path) as made:
            for start in (0, 20):
                made.kernel(start, start + 5, start - 1, 1)
            for table in ("KERNEL", "RUNTIME"):
                made.db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET {'globalPid = globalPid' if table == 'KERNEL' else 'globalTid = globalTid'} "
                                "+ (1 << 56) WHERE start > 10")
        timeline = self.read()
        self.assertEqual([worker.name for worker in timeline.workers], ["cuda:0 of host 0", "cuda:0 of host 1"])
        self.assertEqual([(span.worker, span.issued is None) for span in timeline.spans], [(0, False), (1, False)])

    def test_two_hosts_of_two_processes_with_a_gpu_each(self):
        """All processes call their GPU 0; the table of devices says which it is. A host of one process keeps the numbers of the process."""
        def make(hosts, known):
            with Made(self.path, "2026.2.1") as made:
                for host, pid, start in hosts:
                    made.kernel(start, start + 5, start - 1, 1, pid=pid)
                    for table, column in (("KERNEL", "globalPid"), ("RUNTIME", "globalTid")):
                        made.db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET {column} = {column} + ({host} << 56) WHERE start / 1000 BETWEEN ? AND ?",
                                        [start - 1, start])
                for gpu, pid in known:
                    made.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
            timeline = self.read()
            os.remove(self.path)
            return [timeline.workers[it.worker].name for it in timeline.spans], [it for it in timeline.remarks if "Several processes" in it]

        hosts = [(0, 100, 10), (0, 200, 20), (1, 300, 30), (1, 400, 40), (2, 500, 50)]
        self.assertEqual(make(hosts, [(3, 100), (1, 200), (0, 300), (1, 400), (7, 500)]),
                         (["cuda:3 of host 0", "cuda:1 of host 0", "cuda:0 of host 1", "cuda:1 of host 1", "cuda:0 of host 2"], []))
        again = [(0, 100, 10), (0, 200, 20), (1, 100, 30), (1, 200, 40)]
        self.assertEqual(make(again, [(0, 100), (1, 200), (0, 100), (1, 200)]),
                         (["cuda:0 of host 0", "cuda:1 of host 0", "cuda:0 of host 1", "cuda:1 of host 1"], []))
        remark = ["Several processes use a GPU of the same number, and the export does not say whether it is the same GPU: they are taken as one."]
        self.assertEqual(make(again, [(0, 100), (1, 200), (1, 100), (2, 200)]),
                         (["cuda:0 of host 0", "cuda:0 of host 0", "cuda:0 of host 1", "cuda:0 of host 1"], remark))
        self.assertEqual(make(again, [])[1], remark)

    def test_an_id_of_another_process_is_no_match(self):
        with Made(self.path) as made:
            made.kernel(0, 1, 0, 1, pid=100)
            made.kernel(2, 3, None, 1, pid=300)
            made.db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 1 WHERE globalPid = ?", [global_pid(300)])
        self.assertEqual([span.issued is None for span in self.read().spans], [False, True])


class Torch(ReaderTest):
    """Captures without our names: forward on the main thread (1), backward on PyTorch's own (2)."""

    def iterations(self, made, gaps, kernels=8, first=0, named=None, at=0):
        """Kernels of 10 us with 1 us between them; after each iteration a gap."""
        for i, gap in enumerate(gaps):
            count = first if first and i == 0 else kernels
            if named:
                made.range(named.format(i), at, at + 8, 1)
            for k in range(count):
                made.kernel(at + 10 + 11 * k, at + 20 + 11 * k, at + 2 + k / 2, 1 + k % 2, gpu=k % 2)
            at += 20 + 11 * (count - 1) + gap
        return at

    def test_one_worker_for_each_gpu(self):
        with Made(self.path) as made:
            self.iterations(made, [500] * 3)
        timeline = self.read()
        self.assertEqual([(worker.name, worker.stages, worker.lanes) for worker in timeline.workers],
                         [("cuda:0", (), ("stream 7",)), ("cuda:1", (), ("stream 7",))])

    def test_steps_by_gaps(self):
        with Made(self.path) as made:
            self.iterations(made, [480, 500, 520, 0])
        timeline = self.read()
        # An iteration takes 8 kernels of 10 us and 7 pauses of 1 us: 87 us; 10 us pass before its first kernel.
        found = [(step.number, round(step.start * 1000), round((step.end - step.start) * 1000)) for step in timeline.steps]
        self.assertEqual(found, [(1, 0, 87), (2, 577, 87), (3, 1174, 87), (4, 1791, 87)])
        self.assertEqual(timeline.remarks, [
            "No NVTX range names steps: steps are found by the gaps between iterations, counted from 1.",
            "The export has no NVTX ranges, so kernels have no instructions."])

    def test_a_longer_first_iteration_is_left_out(self):
        with Made(self.path) as made:
            self.iterations(made, [500] * 9, first=20)
        timeline = self.read()
        self.assertEqual(len(timeline.steps), 8)
        # 20 kernels of 84 belong to no step.
        self.assertEqual(timeline.said_first, "23.8 % of the time in which the GPUs are busy lies outside the steps found: "
                         "1 iteration at the ends of the capture differs, and is left out.")

    def test_the_share_outside_is_said_first(self):
        with Made(self.path) as made:
            self.iterations(made, [500] * 9, first=20)
        timeline = self.read()
        comparison = compare([timeline])
        sentence = "23.8 % of the time in which the GPUs are busy lies outside the steps found: "
        self.assertTrue(comparison["text"].startswith(sentence), comparison["text"])
        self.assertTrue(text_of(comparison).startswith(sentence), text_of(comparison))
        self.assertEqual(text_of(comparison).count("lies outside"), 1)
        self.assertTrue(comparison["runs"][0]["remarks"][0].startswith(sentence))
        self.assertTrue(compare([timeline, timeline])["text"].startswith("A: " + sentence))

    def test_a_quarter_of_the_time_outside_is_too_much(self):
        """Before 8 iterations of 8 kernels come 21 others; 22 are more than a quarter."""
        for first, steps in ((21, 8), (22, 1)):
            with Made(self.path) as made:
                self.iterations(made, [500] * 9, first=first)
            self.assertEqual(len(self.read().steps), steps)
            os.remove(self.path)

    def test_iterations_have_about_as_much_busy_time(self):
        """A kernel of 30 ms is in one of two halves of as many copies. NCCL's kernels may wait for long."""
        with Made(self.path) as made:
            for half in (0, 70000):
                for k in range(15):
                    made.copy(half + 12 * k, half + 12 * k + 1, None, 1, kind=1)
            made.kernel(900, 30900, None, 1, name="big")
        self.assertEqual(len(self.read().steps), 1)
        os.remove(self.path)
        with Made(self.path) as made:
            self.iterations(made, [500] * 4)
            for i, length in enumerate((5, 300, 20, 90)):
                made.kernel(107 + 587 * i, 107 + 587 * i + length, None, 1, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        self.assertEqual(len(self.read().steps), 4)

    def test_layers_between_the_copies_of_one_iteration_are_no_steps(self):
        for layers in (3, 5):
            for with_copies in (False, True):  # in each iteration
                with Made(self.path) as made:
                    made.copy(0, 3, None, 1, kind=1)
                    for layer in range(layers):
                        at = 40 * (layer + 1)
                        made.kernel(at, at + 7, None, 1, name="gemm")
                        made.kernel(at + 8, at + 12, None, 1, name="relu")
                        if with_copies:
                            made.copy(at + 13, at + 14, None, 1, kind=2)
                    made.copy(40 * layers + 100, 40 * layers + 102, None, 1, kind=2)
                self.assertEqual(len(self.read().steps), layers if with_copies else 1)
                os.remove(self.path)

    def test_one_iteration_is_one_step(self):
        """Its two halves have equally many activities, and a long gap between them."""
        with Made(self.path) as made:
            made.copy(0, 5, None, 1, kind=1)
            made.copy(9, 13, None, 1, kind=1)
            made.copy(17, 21, None, 1, kind=1)
            for start in (700, 709, 718):
                made.kernel(start, start + 5, None, 1)
        self.assertEqual([round(step.end * 1000) for step in self.read().steps], [723])

    def test_two_iterations_of_equal_kernels_are_two_steps(self):
        with Made(self.path) as made:
            self.iterations(made, [500, 0])
        self.assertEqual(len(self.read().steps), 2)

    def test_steps_that_would_leave_out_most_of_the_time_are_none(self):
        """A kernel of 40 ms comes before three bursts of short copies."""
        with Made(self.path) as made:
            made.kernel(0, 40000, None, 1)
            for burst in range(1, 4):
                for k in range(5):
                    made.copy(42000 + 2000 * burst + 10 * k, 42004 + 2000 * burst + 10 * k, None, 1, kind=1)
        timeline = self.read()
        self.assertEqual([(step.number, round(step.end * 1000)) for step in timeline.steps], [(1, 48044)])
        self.assertEqual(timeline.said_first, "No NVTX range names steps, and steps found by gaps would leave out 99.9 % of the time in which "
                         "the GPUs are busy: the whole capture is one step. Name the range of a step with --steps-by.")

    def test_gaps_of_micro_batches_are_no_steps_if_those_of_iterations_are_longer(self):
        with Made(self.path) as made:
            at = 0
            for _ in range(4):
                at = self.iterations(made, [30, 30, 30], kernels=4, at=at) + 900
        self.assertEqual(len(self.read().steps), 4)

    def test_irregular_gaps_are_no_steps(self):
        with Made(self.path) as made:
            at = 0
            for count, gap in ((3, 500), (9, 400), (2, 600), (14, 450), (5, 0)):
                at = self.iterations(made, [gap], kernels=count, at=at)
        timeline = self.read()
        self.assertEqual(len(timeline.steps), 1)
        self.assertEqual(timeline.remarks[0], "No NVTX range names steps, and no gaps repeat: the whole capture is one step. "
                         "Name the range of a step with --steps-by.")

    def test_a_pause_in_the_middle_does_not_make_two_steps(self):
        with Made(self.path) as made:
            self.iterations(made, [500, 500, 9000, 500, 500, 500])
        self.assertEqual(len(self.read().steps), 6)

    def test_somewhat_longer_gaps_after_every_third_iteration_do_not_make_it_a_step(self):
        with Made(self.path) as made:
            self.iterations(made, [500, 500, 1500] * 3)
        self.assertEqual(len(self.read().steps), 9)

    def test_a_range_within_a_range_of_that_name_is_no_step(self):
        with Made(self.path) as made:
            self.iterations(made, [0] * 3, named="train")
            made.range("train", 1, 2.2, 1)
        timeline = self.read(steps_by="train")
        self.assertEqual([sum(span.step == number for span in timeline.spans) for number in (1, 2, 3)], [8, 8, 8])

    def test_threads_without_ranges_take_those_of_their_process(self):
        with Made(self.path) as made:
            for pid, shift in ((100, 0), (200, 5)):
                for i in range(2):
                    at = 100 * i + shift
                    made.range(f"train {i + 1}", at, at + 10, 1, pid=pid)
                    made.kernel(at + 20, at + 30, at + 8, 2, pid=pid, gpu=pid // 200)
        # In process 200, thread 2 issues at 13, which is after the step of process 100, and in that of its own.
        found = [(span.worker, span.step) for span in self.read(steps_by="train").spans]
        self.assertEqual(found, [(0, 1), (1, 1), (0, 2), (1, 2)])

    def test_steps_by_a_named_range_with_work_of_another_thread(self):
        with Made(self.path) as made:
            self.iterations(made, [0] * 3, named="train, op_id = 7{}")
        timeline = self.read(steps_by="train")
        self.assertEqual([(step.number, micro(step.end - step.start)) for step in timeline.steps], [(1, 87), (2, 87), (3, 87)])
        self.assertEqual([sum(span.step == number for span in timeline.spans) for number in (1, 2, 3)], [8, 8, 8])

    def test_numbers_in_the_names_are_kept_if_they_rise(self):
        with Made(self.path) as made:
            self.iterations(made, [0] * 3, named="ProfilerStep#1{}")
        self.assertEqual([step.number for step in self.read(steps_by="ProfilerStep").steps], [10, 11, 12])

    def test_wildcards(self):
        with Made(self.path) as made:
            self.iterations(made, [0] * 3, named="epoch 1, batch {} of 9")
        self.assertEqual([step.number for step in self.read(steps_by="epoch*batch*").steps], [1, 2, 3])

    def test_the_loaders_range_is_waiting_for_data(self):
        with Made(self.path) as made:
            self.iterations(made, [500] * 3)
            made.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__, op_id = 3", 110, 130, 1)
        (waiting,) = self.read().waiting_for_data
        self.assertEqual([round(time * 1000) for time in waiting], [100, 120])

    def test_a_range_that_is_not_there_is_refused(self):
        with Made(self.path) as made:
            self.iterations(made, [0] * 2, named="train_{}")
            made.range("setup", 0, 1, 1)
        self.refuse('has no NVTX range named iteration; choose a range that is there once in a step; '
                    'the rarest are "setup", "train"', steps_by="iteration")

    def test_no_ranges_at_all_and_one_is_asked_for(self):
        with Made(self.path) as made:
            self.iterations(made, [0] * 2)
        self.refuse("has no NVTX range named iteration; the export has no NVTX ranges at all: record with --trace=cuda,nvtx, or "
                    "leave out --steps-by", steps_by="iteration")

    def test_kernels_without_a_call_join_the_step_in_whose_time_they_run(self):
        with Made(self.path) as made:
            self.iterations(made, [100] * 3, named="train_{}")
            made.kernel(50, 51, None, 1)  # in the first iteration, from 10 to 97
            made.kernel(150, 151, None, 1)  # after it, before the second
        timeline = self.read(steps_by="train")
        self.assertEqual([(micro(span.start), span.step) for span in timeline.spans if span.issued is None], [(40, 0), (140, -1)])
        self.assertIn("2 of 26 kernels and copies have no call of the CUDA runtime in the export, so their instruction and "
                      "launch are not known.", timeline.remarks)


class Causes(ReaderTest):
    def test_receives_wait_for_stages_though_sends_have_no_activity(self):
        """GPU 0: F 10-14, receives 30-31, B 31-40. GPU 1: receives 14-15, F 15-20, B 20-30. All was issued before 10."""
        with Made(self.path) as made:
            for thread, names in ((101, ("F s0 m0", "send s0 m0 e0", "recv s0 m0 e1", "B s0 m0")),
                                  (102, ("recv s1 m0 e0", "F s1 m0", "B s1 m0", "send s1 m0 e1"))):
                made.range("step 1", 0, 9, thread)
                for at, name in enumerate(names):
                    made.range(name, 2 * at, 2 * at + 1, thread)
            made.kernel(10, 14, 0.5, 101)
            made.copy(30, 31, 4.5, 101, kind=10)
            made.kernel(31, 40, 6.5, 101)
            made.copy(14, 15, 0.5, 102, kind=10, gpu=1)
            made.kernel(15, 20, 2.5, 102, gpu=1)
            made.kernel(20, 30, 4.5, 102, gpu=1)
        terms = [{key: round(value * 1000) for key, value in share.idle_by.items() if value}
                 for share in attribute(self.read())[1]]
        # From 14 to 30, of it 14-15 for the copy of worker 1. With equal stages its 15 µs of F and B were 14.
        self.assertEqual(terms[0], {"copy": 1, "later_stage": 14, "imbalance": 1})
        self.assertEqual(terms[1], {"earlier_stage": 13, "copy": 1})


def worker_of(*names):
    """One of a plan, with instructions of a millisecond each."""
    return {"instructions": [{"name": name, "op": name.split()[0], "start_ms": at, "end_ms": at + 1, "queue": int(name.startswith("recv"))}
                             for at, name in enumerate(names)]}


class Plans(ReaderTest):
    PLAN = {"format": "gpipe-plan", "version": 1, "workers": [{"stages": [0]}, {"stages": [1]}], "programs": [
        {"pass": "evaluation", "workers": [{}, {}]},
        {"pass": "training", "workers": [worker_of("load s0 m0", "F s0 m0", "send s0 m0 e0", "F s0 m1", "B s0 m0"),
                                         worker_of("recv s1 m0 e0", "F s1 m0", "recv s1 m1 e0", "F s1 m1", "B s1 m0")]}]}

    def make(self, plan):
        with Made(self.path) as made:
            two_stages(made)
        beside = self.path[:-len(".sqlite")] + ".plan.json"
        with open(beside, "w", encoding="utf-8") as file:
            file.write(plan if isinstance(plan, str) else json.dumps(plan))
        return beside

    def test_the_plan_beside_the_export_gives_program_and_pc(self):
        self.make(self.PLAN)
        timeline = self.read()
        self.assertEqual([(span.name, span.program, span.pc) for span in timeline.spans if span.worker == 0],
                         [("F s0 m0", 1, 1), ("F s0 m1", 1, 3), ("F s0 m1", 1, 3), ("B s0 m0", 1, 4)])
        self.assertEqual(timeline.workers[1].lanes, ("computes", "receives"))
        self.assertEqual(timeline.plan.data, self.PLAN)

    def test_a_smaller_last_mini_batch_has_a_program_of_its_own(self):
        small = {"pass": "training", "workers": [worker_of("F s0 m0", "B s0 m0"), worker_of("F s1 m0")]}
        plan = dict(self.PLAN, programs=[small, *self.PLAN["programs"]])
        self.make(plan)
        with Made.again(self.path) as made:
            made.range("step 5", 100, 109, 101)
            made.range("step 5", 100, 109, 102)
            for thread, stage in ((101, 0), (102, 1)):
                made.range(f"F s{stage} m0", 101, 102, thread)
                made.kernel(110, 115, 101, thread, gpu=stage)
        found = {(span.step, span.program) for span in self.read().spans}
        self.assertEqual(found, {(4, 2), (5, 0)})

    def test_a_plan_of_another_run_is_refused(self):
        other = json.loads(json.dumps(self.PLAN).replace("F s0 m1", "F s0 m7"))
        beside = self.make(other)
        self.refuse(f"has F s0 m1 on cuda:0, which {beside} has not; give the plan of this run: "
                    "gpipe-train --plan --json prints it")

    def test_a_plan_with_workers_that_nsight_does_not_record_is_not_joined(self):
        workers = [{"stages": [0], "device": "cuda", "name": "cuda:0"}, {"stages": [1], "device": "cpu", "name": "cpu:0"}]
        self.make(dict(self.PLAN, workers=workers))
        timeline = self.read()
        self.assertIsNone(timeline.plan)
        self.assertEqual({span.pc for span in timeline.spans}, {-1})
        self.assertEqual(timeline.remarks, ["The plan is not beside the capture: Nsight records GPUs, and not cpu:0."])

    def test_what_is_no_plan_is_refused(self):
        beside = self.make("{}")
        with self.assertRaises(BadInput) as caught:
            self.read()
        self.assertEqual(str(caught.exception), f"{beside}: cannot be used as a plan (is no plan of gpipe-train); "
                         "make it with gpipe-train --plan --json")


class BadFiles(ReaderTest):
    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def made(self):
        with Made(self.path) as made:
            for step in range(30):
                two_stages(made, step=step, at=100 * step)
        with open(self.path, "rb") as file:
            return file.read()

    def test_no_sqlite(self):
        self.write(b"{}" * 100)
        self.refuse("is no SQLite database; give the export that nsys export --type sqlite FILE.nsys-rep writes")

    def test_empty(self):
        self.write(b"")
        self.refuse("is empty; export the report again with nsys export --type sqlite")

    def test_missing(self):
        self.refuse("cannot be read: no such file or directory; check the name")

    def test_a_folder(self):
        os.mkdir(self.path)
        self.refuse("cannot be read: is a directory; check the name")

    def test_a_report_in_place_of_the_export(self):
        self.refuse("is a report of Nsight Systems; export it with: nsys export --type sqlite -o run.sqlite run.nsys-rep",
                    path="run.nsys-rep")

    def test_another_database(self):
        with sqlite3.connect(self.path) as db:
            db.execute("CREATE TABLE runs (id INTEGER)")
        db.close()
        self.refuse("is an SQLite database, but no export of Nsight Systems; make one with nsys export --type sqlite "
                    "FILE.nsys-rep")

    def test_no_kernels(self):
        with Made(self.path) as made:
            made.range("step 1", 0, 1, 1)
            made.table("CUPTI_ACTIVITY_KIND_KERNEL")
        self.refuse("has no kernels and no copies of a GPU; record with nsys profile --trace=cuda,nvtx "
                    "(scripts/nsys-profile.sh does)")

    def test_ranges_of_steps_without_kernels(self):
        with Made(self.path) as made:
            made.range("step 1", 0, 10, 1)
            made.kernel(60, 70, 50, 1)
        self.refuse("has NVTX ranges of steps, but no whole step with kernels; record more steps")

    def test_cut_off(self):
        data = self.made()
        self.write(data[:len(data) // 2])
        self.refuse(f"is cut off: it has {len(data) // 2} of {len(data)} bytes; copy it or export it again")

    def test_a_damaged_page(self):
        data = bytearray(self.made())
        with sqlite3.connect(self.path) as db:
            (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone()
        db.close()
        data[(root - 1) * 4096:root * 4096] = b"\xa5" * 4096
        self.write(data)
        self.refuse("the database is damaged (database disk image is malformed); "
                    "export the report again with nsys export --type sqlite")

    def test_a_damaged_name_of_a_table_is_one_printable_line(self):
        data = self.made()
        for damage in (b"\xe7", b"\n"):
            self.write(data.replace(b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL",
                                    b"CREATE TABLE CUPTI" + damage + b"ACTIVITY_KIND_KERNEL")
                       .replace(b"CUPTI_ACTIVITY_KIND_KERNELCUPTI", b"CUPTI" + damage + b"ACTIVITY_KIND_KERNELCUPTI"))
            with self.assertRaises(BadInput) as raised:
                self.read()
            self.assertIn("the database is damaged (", str(raised.exception))
            self.assertTrue(str(raised.exception).isprintable())

    def test_any_damage_is_a_sentence(self):
        data = self.made()
        for page in range(len(data) // 4096):
            for at in (0, 1, 3, 8, 40, 2000):
                broken = bytearray(data)
                broken[page * 4096 + at] ^= 0xFF
                self.write(broken)
                try:
                    self.read()
                except BadInput as error:
                    self.assertTrue(str(error).startswith(self.path + ": "), error)

    def test_times_that_run_backwards(self):
        with Made(self.path) as made:
            two_stages(made)
            made.kernel(90, 80, 1.5, 101)
        timeline = self.read()
        self.assertEqual((len(timeline.spans), timeline.remarks), (10, [
            "1 of 33 kernels, copies, calls and ranges has no usable time, and is left out; the first is gemm: it ends before it starts."]))
        with sqlite3.connect(self.path) as db:
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 5")
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = start - 5")
        db.close()
        self.refuse("none of its kernels and copies has a usable time: gemm: it ends before it starts; record it again")

    def test_lost_times_are_left_out(self):
        """A kernel that step 4 launched, a range, and a call with a time that cannot be."""
        step = {"eventType": 59, "globalTid": global_pid(100) + 101, "domainId": 0, "text": "F s0 m1"}
        base = 7_000_000  # microseconds
        cases = [("KERNEL", dict(start=0, end=0), "lost: its start and its end are 0"),
                 ("KERNEL", dict(start=0, end=base * 1000 + 20_000), "lost: it begins before it is launched"),
                 ("KERNEL", dict(start=base * 1000 + 19_000, end=9 * 10**17), "lost: it ends more than an hour after all others"),
                 ("KERNEL", dict(start=2**60, end=2**60 + 5), "lost: it begins more than an hour from all others"),
                 ("KERNEL", dict(start=base * 1000 + 15_000, end=base * 1000 + 10**10), "lost: it lasts longer than all else in its stream, which went on meanwhile"),
                 ("KERNEL", dict(start="soon", end=5), "lost: its start or its end is no number"),
                 ("RANGE", dict(start=base * 1000 + 2_500, end=8 * 10**17), "F s0 m1: it ends more than an hour after all others"),
                 ("RANGE", dict(start=0, end=0), "F s0 m1: its start and its end are 0"),
                 ("CALL", dict(start=3), "a call of the CUDA runtime: it begins more than an hour from all others")]
        with Made(self.path) as made:
            two_stages(made, at=base)
        whole = [(it.name, it.step, it.start, it.end) for it in self.read().spans]
        for table, times, why in cases:
            os.remove(self.path)
            at = base + 2 * 3600 * 10**6 if table == "CALL" else base
            with Made(self.path) as made:
                two_stages(made, at=at)
                if table == "KERNEL":
                    made.kernel(at + 100, at + 101, at + 3.7, 101, name="lost")
                    made.db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = ?, end = ? WHERE shortName = ?", [times["start"], times["end"], made.text("lost")])
                elif table == "RANGE":
                    made.row("NVTX_EVENTS", **step, **times)
                else:
                    made.row("CUPTI_ACTIVITY_KIND_RUNTIME", globalTid=global_pid(100) + 101, correlationId=1, nameId=1, returnValue=0, end=4, **times)
            with self.subTest(why=why, times=times):
                timeline = self.read()
                self.assertEqual([(it.name, it.step) for it in timeline.spans], [it[:2] for it in whole])
                for it, (_, _, start, end) in zip(timeline.spans, whole):
                    self.assertAlmostEqual(it.start, start)
                    self.assertAlmostEqual(it.end, end)
                rows = 33 if table == "KERNEL" else 32
                self.assertEqual(timeline.remarks, [f"1 of {rows} kernels, copies, calls and ranges has no usable time, and is left out; the first is {why}."])

    def test_one_activity_before_the_step_before_it(self):
        """It has no call, and its range is not known: only the order of the steps shows it."""
        with Made(self.path) as made:
            for step in range(4):
                made.range(f"step {step}", 100 * step, 100 * step + 50, 1)
                for k in range(5):
                    made.kernel(100 * step + 10 + 10 * k, 100 * step + 19 + 10 * k, 100 * step + k, 1)
        with sqlite3.connect(self.path) as db:  # of step 3, within the tolerance of the launch
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 2000, end = 3000 WHERE start = 350000")
        db.close()
        timeline = self.read()
        self.assertEqual([step.number for step in timeline.steps], [0, 1, 2, 3])
        self.assertIn("the first is gemm: it begins before the middle of the step before step 3.", timeline.remarks[-1])

    def test_steps_against_time(self):
        with Made(self.path) as made:
            for step, start in ((4, 500), (5, 300)):
                made.range(f"step {step}", 10 * step, 10 * step + 9, 1)
                made.kernel(start, start + 5, 10 * step + 1, 1)
        self.refuse("step 4 begins after step 5; the clock jumped, so record it again")

    def test_ids_that_do_not_join(self):
        with Made(self.path) as made:
            two_stages(made)
        with sqlite3.connect(self.path) as db:
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = correlationId + 1000")
        db.close()
        timeline = self.read()
        self.assertEqual([worker.name for worker in timeline.workers], ["cuda:0", "cuda:1"])
        self.assertIn("No kernel has its call of the CUDA runtime, so NVTX ranges say nothing about kernels.", timeline.remarks)
        self.assertIn("10 of 10 kernels and copies have no call of the CUDA runtime in the export, so their instruction and "
                      "launch are not known.", timeline.remarks)

    def test_odd_values_are_no_reason_to_fail(self):
        with Made(self.path) as made:
            two_stages(made)
        with sqlite3.connect(self.path) as db:
            db.execute("UPDATE StringIds SET value = CAST(x'ff00fe' AS TEXT) WHERE value = 'relu'")
            db.execute("UPDATE NVTX_EVENTS SET globalTid = NULL WHERE text = 'F s0 m0'")
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL")
            db.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET start = 'soon' WHERE copyKind = 8")
        db.close()
        self.assertEqual(len(self.read().spans), 9)


if __name__ == "__main__":
    unittest.main()
