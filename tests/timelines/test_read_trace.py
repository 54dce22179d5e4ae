"""Reading --trace files: what becomes of each event, and each kind of bad file with its sentence."""
import gzip
import json
import os
import random
import subprocess
import unittest

from traces import NAMES, ROOT, TWO_GPUS, Case, counter, draw, span, track

from timelines.compare import compare
from timelines.read import Options, read
from timelines.read_trace import unique_names
from timelines.timeline import BadInput

AGAIN = "record it again"
MAKE = "record a timeline with gpipe-train --trace FILE"
KNOWN = ("an Nsight SQLite export, a --trace file, a file of PyTorch's profiler (export_chrome_trace), the JSON of gpipe-train --plan --json, "
         "and that of gpipe-balance --simulate --json")
CPU = {"worker 0 (cpu:0), stages 0, 2": "ab..", "worker 1 (cpu:0), stage 1": "..cs"}
CPU_NAMES = {"a": "load s0 m0", "b": "F s0 m0", "c": "F s1 m0", "s": "step s1"}


class Content(Case):
    def test_workers_lanes_and_spans(self):
        timeline = read(self.trace(draw(TWO_GPUS, NAMES)))
        self.assertEqual([(it.name, it.stages, it.lanes) for it in timeline.workers],
                         [("cuda:0", (0,), ("computes", "receives gradients")), ("cuda:1", (1,), ("computes", "receives"))])
        found = [(it.worker, it.lane, it.kind, it.name, it.op, it.stage, it.micro, it.pc, it.step, it.start, it.end)
                 for it in timeline.spans]
        self.assertEqual(found[:4], [(0, 0, "compute", "F s0 m0", "F", 0, 0, 0, 1, 0.0, 4.0),
                                     (0, 0, "compute", "F s0 m1", "F", 0, 1, 1, 1, 4.0, 8.0),
                                     (1, 0, "compute", "F s1 m0", "F", 1, 0, 0, 1, 4.0, 8.0),
                                     (0, 1, "copy", "recv s0 m0 e1", "recv", 0, 0, 3, 1, 6.0, 10.0)])
        self.assertEqual([(step.number, step.start, step.end) for step in timeline.steps], [(1, 0.0, 20.0)])
        self.assertEqual(timeline.source, "trace")

    def test_workers_that_share_a_device_have_different_names(self):
        timeline = read(self.trace(draw(CPU, CPU_NAMES)))
        self.assertEqual([(it.name, it.stages) for it in timeline.workers],
                         [("cpu:0", (0, 2)), ("cpu:1", (1,))])
        devices = ["cuda:0", "cpu:0", "cuda:1", "cpu:0", "cuda:0"]
        self.assertEqual(unique_names(devices, range(5)), ["cuda:0 (worker 0)", "cpu:0", "cuda:1", "cpu:1", "cuda:0 (worker 4)"])

    def test_tracks_of_several_processes(self):
        events = draw({"worker 0 (cpu:0), stages 0, 2, process 0": "ab..", "worker 1 (cpu:0), stage 1, process 1": "..cs"}, CPU_NAMES)
        self.assertEqual([(it.name, it.stages, it.process) for it in read(self.trace(events)).workers],
                         [("cpu:0", (0, 2), 0), ("cpu:1", (1,), 1)])

    def test_updates_are_instructions(self):
        events = draw({"worker 0 (cpu:0), stage 0": "ab"}, {"a": "F s0 m0", "b": "update s0"})
        self.assertEqual([(it.op, it.stage) for it in read(self.trace(events)).spans], [("F", 0), ("update", 0)])

    def test_gradients_of_replicas_have_a_lane(self):
        events = draw({"worker 0 (cuda:0), stage 0: computes": "a.", "worker 0 (cuda:0), stage 0: collects gradients": ".c"},
                      {"a": "B s0 m0", "c": "collect s0 c0"})
        timeline = read(self.trace(events))
        self.assertEqual([(it.lanes, it.process) for it in timeline.workers], [(("computes", "collects gradients"), 0)])
        self.assertEqual([(it.lane, it.op) for it in timeline.spans], [(0, "B"), (1, "collect")])

    def test_stages_of_a_long_list_come_from_the_instructions(self):
        events = draw({"worker 0 (cpu:0), stages 0 … 4": "ab"}, {"a": "F s0 m0", "b": "F s4 m0"})
        self.assertEqual(read(self.trace(events)).workers[0].stages, (0, 4))

    def test_waits_barriers_and_evaluations(self):
        # The worker reaches F s1 m0 at 1 ms and waits until 2 ms. A barrier is no span. An evaluation has no step.
        events = draw(CPU, CPU_NAMES)
        wait = {**span(2, "wait", 1, 2, pc=0), "cat": "wait"}
        barrier = {**span(2, "barrier, clock 3", 2, 3, pc=9), "cat": "wait"}
        evaluation = span(1, "F s0 m0", 8, 9, **{"pass": "evaluation"})
        timeline = read(self.trace(events + [wait, barrier, evaluation]))
        self.assertEqual([(it.name, it.step, it.issued) for it in timeline.spans],
                         [("load s0 m0", 1, 0.0), ("F s0 m0", 1, 1.0), ("F s1 m0", 1, 1.0), ("step s1", 1, 3.0), ("F s0 m0", -1, 8.0)])
        self.assertEqual([(step.start, step.end) for step in timeline.steps], [(0.0, 4.0)])

    def test_arguments_of_copies_data_memory_and_layers(self):
        events = draw(CPU, CPU_NAMES)
        events[2]["args"].update(bytes=64, carries="activation", issued=250.0)
        data = {**span(9, "wait for data", 0, 0.5), "cat": "wait"}
        other = {**span(9, "wait for data", 5, 6, **{"pass": "evaluation"}), "cat": "wait"}
        layer = {**span(1, "conv1", 1.25, 1.75, op="F", pc=1), "cat": "layer"}
        timeline = read(self.trace(events + [data, other, layer, counter(1, 2, 100), counter(1, 1, 50)]))
        self.assertEqual((timeline.spans[0].bytes, timeline.spans[0].detail, timeline.spans[0].issued), (64, "activation", 0.25))
        self.assertEqual(timeline.waiting_for_data, [(0.0, 0.5)])
        self.assertEqual(timeline.memory, {1: [(1.0, 50.0), (2.0, 100.0)]})
        it = timeline.layers[0]
        self.assertEqual((it.worker, it.layer, it.op, it.start, it.end, it.step, it.stage, it.micro),
                         (0, "conv1", "F", 1.25, 1.75, 1, 0, 0))

    def test_chosen_steps(self):
        one = {"worker 0 (cpu:0), stage 0": "aa"}
        events = sum((draw(one, NAMES, number, 5 * number, with_tracks=number == 3) for number in (3, 4, 5, 6)), [])
        path = self.trace(events + [span(1, "F s0 m0", 23, 24, **{"pass": "evaluation"})])
        timeline = read(path, Options(steps=(4, 5)))
        self.assertEqual([step.number for step in timeline.steps], [4, 5])
        self.assertEqual([it.step for it in timeline.spans], [4, -1, 5])
        self.refused("t.json: has no step in 7:9; it has steps 3 to 6, so choose --steps among these", read, path, Options(steps=(7, 9)))

    def test_a_list_of_events_and_a_compressed_file(self):
        events = draw(TWO_GPUS, NAMES)
        self.assertEqual(len(read(self.write(events)).spans), 7)
        self.assertEqual(len(read(self.write(gzip.compress(json.dumps({"traceEvents": events}).encode()), "t.gz")).spans), 7)

    def test_names_that_cannot_be_printed(self):
        events = draw({"worker 0 (c\ud800\x1b[31m), stage 0": "aa"}, NAMES)
        self.assertEqual(read(self.trace(events)).workers[0].name, "c? [31m")


class Bad(Case):
    """Each file that cannot be used has one sentence."""

    def bad(self, content, words, options=None):
        self.refused(words, read, self.write(content), options)

    def test_no_file(self):
        self.refused("none.json: cannot be read: no such file or directory; check the name", read, self.path("none.json"))
        self.refused("a\\0b: cannot be read: embedded null byte; check the name", read, "a\0b")

    def test_folder_fifo_device_and_empty_file(self):
        name = os.path.basename(self.folder.name)
        self.refused(f"{os.path.dirname(self.folder.name)}/{name}: is a folder; name a file, or make the page of a run folder "
                     "with gpipe-report", read, self.folder.name)
        os.mkfifo(self.path("fifo"))
        self.refused("fifo: is not a regular file; write the timeline to a file first", read, self.path("fifo"))
        self.refused("/dev/zero: is not a regular file; write the timeline to a file first", read, "/dev/zero")
        self.bad("", f"t.json: is empty; {MAKE}")

    def test_no_json(self):
        self.bad("name: x\n", f"t.json: is neither SQLite nor JSON; known are {KNOWN}")
        self.refused("t.nsys-rep: is a report of Nsight Systems; export it with: nsys export --type sqlite "
                     + self.path("t.nsys-rep").replace(self.folder.name + "/", ""), read, self.write(b"\x01\x02", "t.nsys-rep"))
        self.bad(b'{"a": "\xff"}', f"t.json: byte 8 is not UTF-8, so the file is no JSON; {MAKE}")
        for words in ('"cat": "kernel"', '"cat":"gpu_memcpy"', '"cat": "Runtime"', '"cat": "Operator"', '"cat": "cpu_op"', '"schemaVersion": 1', '"deviceProperties": []'):
            for data in (b'{%s, "b": "\xff"}', b'{%s, "b" 2}', b'[' * 100000 + b"%s" + b']' * 100000):
                with self.assertRaises(BadInput) as caught:
                    read(self.write(data.replace(b"%s", words.encode())))
                self.assertTrue(str(caught.exception).endswith("; record it again with torch.profiler"), caught.exception)
        self.bad('{"a": 1,\n "b" 2}', f"t.json: line 2, column 6 (byte 15) is not JSON: expecting ':' delimiter; {MAKE}")
        self.bad("[" * 100000 + "]" * 100000, f"t.json: its JSON is nested too deeply for a timeline; {MAKE}")
        self.bad('{"a": ' + "1" * 5000 + "}", f"t.json: has a number with thousands of digits, which is no time; {MAKE}")
        self.bad(gzip.compress(b'{"traceEvents": []}')[:-9], "t.json: is compressed with gzip, and damaged or cut off; copy it again")

    def test_cut_off(self):
        whole = json.dumps({"traceEvents": draw(TWO_GPUS, NAMES)})
        self.bad(whole[:300], "t.json: is cut off after byte 300, in the middle of its JSON; record it again")
        self.bad(whole[:-1], f"t.json: is cut off after byte {len(whole) - 1}, in the middle of its JSON; record it again")
        self.bad('{"ä": [1, ', "t.json: is cut off after byte 11, in the middle of its JSON; record it again")

    def test_json_of_something_else(self):
        words = f"t.json: is JSON, but no timeline and no plan; known are {KNOWN}"
        for content in ("{}", "[]", "[1, 2]", '{"steps": 3}'):
            self.bad(content, words)
        for events in ("3", "null", "{}"):
            self.bad('{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": %s}' % events,
                     "t.json: traceEvents is no list, so the file is no timeline; record it again with torch.profiler")
        self.bad('{"traceEvents": 3}', f"t.json: traceEvents is no list, so the file is no timeline; {MAKE}")
        self.bad({"traceEvents": [track(1, "worker 0 (cpu:0), stage 0"), 7]}, f"t.json: event 2 is no object; {MAKE}")

    def test_no_spans_and_no_steps(self):
        self.bad({"traceEvents": [track(1, "worker 0 (cpu:0), stage 0")]},
                 "t.json: has no instruction of a worker, so there is nothing to compare; "
                 "choose steps that the run has with gpipe-train --trace-steps")
        self.bad({"traceEvents": []}, "t.json: has no instructions of gpipe-train, and no kernels, copies or operators of PyTorch's "
                 "profiler; record with torch.profiler, or choose another file")
        self.bad({"traceEvents": [track(1, "worker 0 (cpu:0), stage 0"), span(1, "F s0 m0", 0, 1, **{"pass": "evaluation"})]},
                 "t.json: has no training step, only evaluations; choose steps that the run trains with gpipe-train --trace-steps")

    def test_events_without_a_usable_time_are_left_out(self):
        events = draw(CPU, CPU_NAMES)
        for text, shown in (("NaN", "nan"), ("Infinity", "inf"), ("1e999", "inf"), ("1e30", "1e+30"), ('"5"', "'5'"), ("true", "True"),
                            ("[1]", "[1]"), ("1" * 400, "1" * 40)):
            for key in ("ts", "dur"):
                whole = json.dumps({"traceEvents": [*events[:2], {**events[2], key: "HERE"}, *events[3:]]})
                timeline = read(self.write(whole.replace('"HERE"', text)))
                self.assertEqual([it.name for it in timeline.spans], ["F s0 m0", "F s1 m0", "step s1"])
                self.assertEqual(timeline.remarks[0], f"1 of 4 events has no usable time, and is left out; the first is event 3 (load s0 m0): {key} is {shown}.")
        without = {**events[2]}
        del without["dur"]
        self.bad({"traceEvents": [*events[:2], without]},
                 "t.json: none of its instructions has a usable time: event 3 (load s0 m0): dur is missing; record it again")

    def test_counters_without_a_usable_time_are_left_out(self):
        events = draw(CPU, CPU_NAMES) + [counter(0, 1, 7)]
        for bad, why in ((counter(0, 1, "much"), "bytes alive is 'much'"), ({**counter(0, 1, 5), "ts": None}, "ts is missing"),
                         (counter(0, 9e7, 5), f"ts is {9e7 * 1000}, more than an hour from the other events")):
            timeline = read(self.trace(events + [bad]))
            self.assertEqual(timeline.memory, {0: [(1.0, 7.0)]})
            self.assertEqual(timeline.remarks[0], f"1 of 6 events has no usable time, and is left out; the first is event 8 (memory of worker 0): {why}.")

    def lost(self, index, changes):
        """Three steps of two workers, of which one instruction has other times. Returns the timeline."""
        events = sum((draw(CPU, CPU_NAMES, number, 5 * number, with_tracks=number == 1) for number in (1, 2, 3)), [])
        events[index].update(changes)
        return read(self.trace(events))

    def test_times_that_cannot_be(self):
        for changes, why in (({"ts": 0, "dur": 0}, "load s0 m0 of step 2: ts and dur are 0"),
                             ({"dur": -2.5}, "event 7 (load s0 m0): dur is -2.5"),
                             ({"dur": 9e15}, "event 7 (load s0 m0): dur is 9000000000000000.0, so it ends more than an hour after the other events"),
                             ({"dur": 9e11}, "event 7 (load s0 m0): dur is 900000000000.0, so it ends more than an hour after the other events"),
                             ({"ts": 8.64e10}, "event 7 (load s0 m0): ts is 86400000000.0, more than an hour from the other events"),
                             ({"dur": 6e7}, "load s0 m0 of step 2: it overlaps several others of its queue"),
                             ({"ts": -3e7}, "load s0 m0 of step 2: it begins before the middle of the step before")):
            timeline = self.lost(6, changes)
            self.assertEqual([(it.name, it.step) for it in timeline.spans if it.worker == 0],
                             [("load s0 m0", 1), ("F s0 m0", 1), ("F s0 m0", 2), ("load s0 m0", 3), ("F s0 m0", 3)], changes)
            self.assertEqual([(it.start, it.end) for it in timeline.steps], [(5, 9), (11, 14), (15, 19)])
            self.assertEqual(timeline.remarks[0], f"1 of 12 events has no usable time, and is left out; the first is {why}.")
            json.dumps(compare([timeline]), allow_nan=False)

    def test_clocks_that_jump(self):
        """Either of two events may be wrong, or all of a step."""
        events = draw(CPU, CPU_NAMES)
        self.bad({"traceEvents": [*events, span(1, "B s0 m0", 1.5, 1.75)]},
                 "t.json: B s0 m0 of worker 0 begins 0.500 ms before F s0 m0 ends, in the same queue; "
                 "the clock jumped, so record it again")
        self.bad({"traceEvents": [*events, span(1, "F s0 m0", -9, -8, 2)]},
                 "t.json: step 1 begins after step 2; the clock jumped, so record it again")

    def test_spans_may_overlap_by_the_resolution_of_a_gpu_event(self):
        events = [track(1, "worker 0 (cuda:0), stage 0: computes"), span(1, "F s0 m0", 0, 1), span(1, "B s0 m0", 0.97, 2)]
        self.assertEqual(len(read(self.trace(events)).spans), 2)


class Damaged(Case):
    """A file that is cut off or changed anywhere is read, or refused with a sentence."""

    def survives(self, data):
        path = self.write(data)
        try:
            timeline = read(path)
            json.dumps(compare([timeline, timeline]), allow_nan=False)
        except BadInput as problem:
            self.assertTrue(str(problem).startswith(path + ": "), problem)
            self.assertNotIn("\n", str(problem))
            return str(problem)
        return ""

    def small(self):
        events = draw(CPU, CPU_NAMES) + [counter(0, 1, 5), {**span(2, "wait", 1, 2, pc=0), "cat": "wait"}]
        return json.dumps({"traceEvents": events}).encode()

    def test_cut_at_every_byte(self):
        whole = self.small()
        self.assertEqual(self.survives(whole), "")
        for at in range(1, len(whole)):
            self.assertIn("cut off", self.survives(whole[:at]), at)

    def test_each_byte_changed(self):
        whole = self.small()
        generator = random.Random(1)
        for at in range(len(whole)):
            for byte in (generator.randrange(256), generator.choice(b'0-9"{}[],:.eE \\')):
                self.survives(whole[:at] + bytes([byte]) + whole[at + 1:])

    def test_each_value_replaced(self):
        values = [None, True, -1, 0, 1 << 70, -1e300, 1e-320, float("nan"), "", "x", "\ud800", [], [1], {}, {"a": 1}]

        def places(value, path=()):
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, item in items:
                yield path + (key,)
                yield from places(item, path + (key,))

        text = self.small()
        for where in places(json.loads(text)):
            for value in values:
                data = json.loads(text)
                holder = data
                for key in where[:-1]:
                    holder = holder[key]
                holder[where[-1]] = value
                self.survives(json.dumps(data).encode())


class Real(Case):
    def test_a_trace_of_the_program(self):
        program = os.environ.get("GPIPE_TRAIN", os.path.join(ROOT, "build", "gpipe-train"))
        if not os.path.exists(program):
            self.skipTest(f"{program} is not built")
        config = self.write("""
model: {input: {shape: [8]}, layers: [{linear: {out: 8}}, relu, {linear: {out: 4}}], loss: cross_entropy}
data: {train: {synthetic: {samples: 32}}, eval: {synthetic: {samples: 8, seed: 2}}, batch: 8}
pipeline: {devices: [cpu, cpu], balance: [2, 1], micro_batches: 2}
optimizer: {sgd: {lr: 0.1}}
train: {steps: 4, eval_every: 2}
""", "c.yaml")
        path = self.path("t.json")
        subprocess.run([program, "--trace", path, "--trace-steps", "2:3", "-q", "-o", self.path("run"), config], check=True,
                       capture_output=True)
        timeline = read(path)
        self.assertEqual([step.number for step in timeline.steps], [2, 3])
        self.assertEqual([worker.stages for worker in timeline.workers], [(0,), (1,)])
        counts = {}
        for it in timeline.spans:
            if it.step == 2:
                counts[it.op, it.stage] = counts.get((it.op, it.stage), 0) + 1
        # 2 micro-batches; checkpoint except_last recomputes the first of them.
        for op, count in (("F", 2), ("R", 1), ("B", 2), ("step", 1)):
            self.assertEqual([counts.get((op, stage)) for stage in (0, 1)], [count, count], op)
        self.assertTrue(any(it.step == -1 for it in timeline.spans), "the evaluation after step 2 is in the timeline")
        self.assertEqual(sorted(timeline.memory), [0, 1])
        with open(path) as file:  # a wait that is very short is not in the file
            waits = [it for it in json.load(file)["traceEvents"]
                     if it.get("name") == "wait for data" and it["args"]["pass"] == "training"]
        self.assertEqual(len(timeline.waiting_for_data), len(waits))


if __name__ == "__main__":
    unittest.main()
