"""Timelines of Nsight Systems: reads an SQLite export of gpipe-train, torchgpipe, PyTorch, or any other CUDA program.

A kernel or copy belongs to the instruction (`F s1 m3`) and the step (`step 4`) in whose NVTX ranges its thread issued it. The
correlation id leads to the call of the runtime, and the call has thread and time. Programs without such ranges have steps by
another range or by gaps (nsys_steps), and one worker for each GPU. docs/nsight.md says more.
"""
import json
import os
import re
from bisect import bisect_right

from .nsys_steps import MOST_OUTSIDE, ByRanges, by_gaps, matcher
from .nsys_tables import COPY as COPIES
from .nsys_tables import DEVICE_TO_DEVICE, Export, host_number, process_number
from .read import text as printable
from .read_plan import check_plan
from .timeline import COMPUTE, COPY, INSTRUCTION, BadInput, Plan, Span, Step, Timeline, Worker, kind_of_nccl
from .usable import misplaced

STEP = re.compile(r"step \d{1,12}$")
LOADER = re.compile(r"enumerate\(DataLoader\)#")  # PyTorch's range around the next mini-batch
COPYING = ("load", "send", "recv", "post", "collect")
QUEUES = ("computes", "receives", "receives gradients", "collects gradients")


def read_nsys(path, options=None):
    """The Timeline of an SQLite export. Of `options`: steps_by, steps, plan (all may be missing). Raises BadInput."""
    path = os.fspath(path)
    export = Export(path)
    try:
        return _Reader(path, export, options).timeline()
    finally:
        export.close()


class _Reader:
    def __init__(self, path, export, options):
        self.path, self.export = path, export
        self.steps_by = getattr(options, "steps_by", "") or ""
        self.asked = getattr(options, "steps", None)
        self.plan_path = getattr(options, "plan", "") or ""
        self.remarks, self.said_first = [], ""
        self.instructions = {}  # name -> op, stage, micro-batch

    def timeline(self):
        activities = self.export.activities()
        steps_range = matcher(self.steps_by) if self.steps_by else STEP.match
        ranges = self.export.ranges(lambda name: bool(INSTRUCTION.match(name) or LOADER.match(name) or steps_range(name)))
        own = _by_thread(it for it in ranges if it.nested and INSTRUCTION.match(it.name))
        labels = self._label(activities, own)
        numbers = self._number(activities, [it for it in ranges if steps_range(it.name)], own)
        workers, of_worker = self._workers(activities, labels, own)
        zero = activities[0].start
        spans = self._spans(activities, labels, numbers, of_worker, workers, zero)
        lost = {id(span): span for span in misplaced(spans)}
        for span in lost.values():
            self.export.left_out.add(span.name, f"it begins before the middle of the step before step {span.step}")
        spans = [span for span in spans if id(span) not in lost]
        steps = self._steps(spans)
        data = [((it.start - zero) / 1e6, (it.end - zero) / 1e6) for it in ranges if LOADER.match(it.name) and it.end]
        timeline = Timeline(os.path.basename(self.path), "nsys", workers, spans, steps, data)
        self._join_plan(timeline)
        self._say_odd(activities)
        timeline.remarks, timeline.said_first = self.remarks, self.said_first
        return timeline

    # ---- instructions and steps -------------------------------------------------------------------------------------------

    def _label(self, activities, own):
        """The instruction's name of each activity; "": none."""
        labels = []
        for it in activities:
            mine = own.get(it.tid)
            name = ""
            if mine:
                i = bisect_right(mine[0], it.issued) - 1
                if i >= 0 and (mine[1][i].end is None or it.issued <= mine[1][i].end):
                    name = mine[1][i].name
            labels.append(name)
        return labels

    def _number(self, activities, ranges, own):
        """The step's number of each activity; -1: none."""
        if self.steps_by and not ranges:
            raise BadInput(f"{self.path}: has no NVTX range named {self.steps_by}; {self._known_ranges()}")
        if ranges and not any(it.tid is not None for it in activities):
            self.remarks.append("No kernel has its call of the CUDA runtime, so NVTX ranges say nothing about kernels.")
            ranges = []
        if not ranges:
            return self._number_by_gaps(activities)
        rule = ByRanges(ranges)
        rule.require([tid for tid in own if any(it.tid == tid for it in ranges)] if not self.steps_by else [])
        numbers = [rule.step(it.tid, it.issued) if it.tid is not None else None for it in activities]
        if rule.incomplete:
            listed = ", ".join(str(number) for number in sorted(rule.incomplete)[:5])
            self.remarks.append(f"The capture has only a part of step {listed}, which is left out.")
        return _fill(activities, numbers)

    def _known_ranges(self):
        if not self.export.has_ranges():
            return "the export has no NVTX ranges at all: record with --trace=cuda,nvtx, or leave out --steps-by"
        counts = {}
        for it in self.export.ranges(lambda name: True):
            name = re.sub(r"[\s_#:=-]*\d+$", "", it.name)
            counts[name] = counts.get(name, 0) + 1
        if not counts:
            return "the export has no NVTX ranges at all: record with --trace=cuda,nvtx, or leave out --steps-by"
        few = sorted(counts, key=lambda name: (counts[name], name))[:5]
        return "choose a range that is there once in a step; the rarest are " + ", ".join(f'"{name}"' for name in few)

    def _number_by_gaps(self, activities):
        steps, ragged, outside = by_gaps(activities)
        if outside >= MOST_OUTSIDE:
            self.said_first = (f"No NVTX range names steps, and steps found by gaps would leave out {100 * outside:.1f} % of the time in "
                               "which the GPUs are busy: the whole capture is one step. Name the range of a step with --steps-by.")
        elif len(steps) == 1:
            self.remarks.append("No NVTX range names steps, and no gaps repeat: the whole capture is one step. "
                                "Name the range of a step with --steps-by.")
        else:
            self.remarks.append("No NVTX range names steps: steps are found by the gaps between iterations, counted from 1.")
        if ragged:
            self.said_first = (f"{100 * outside:.1f} % of the time in which the GPUs are busy lies outside the steps found: "
                               f"{ragged} iteration{'s' if ragged > 1 else ''} at the ends of the capture differ{'' if ragged > 1 else 's'}, "
                               f"and {'are' if ragged > 1 else 'is'} left out.")
        starts = [start for start, _ in steps]
        numbers = []
        for it in activities:
            i = bisect_right(starts, it.start) - 1
            numbers.append(i + 1 if i >= 0 and it.start < max(steps[i][1], steps[i][0] + 1) else -1)
        return numbers

    def _steps(self, spans):
        bounds = {}
        for span in spans:
            if span.step >= 0:
                start, end = bounds.get(span.step, (span.start, span.end))
                bounds[span.step] = min(start, span.start), max(end, span.end)
        steps = sorted((Step(number, *bound) for number, bound in bounds.items()), key=lambda it: (it.start, it.number))
        if not steps:
            raise BadInput(f"{self.path}: has NVTX ranges of steps, but no whole step with kernels; record more steps")
        for before, step in zip(steps, steps[1:]):
            if step.number < before.number:
                raise BadInput(f"{self.path}: step {step.number} begins after step {before.number}; "
                               "the clock jumped, so record it again")
        if self.asked and not any(self.asked[0] <= step.number <= self.asked[1] for step in steps):
            raise BadInput(f"{self.path}: has no step in {self.asked[0]}:{self.asked[1]}; it has {_say_steps(steps)}, "
                           "so choose --steps among these")
        if any(a.end > b.start for a, b in zip(steps, steps[1:])):
            self.remarks.append("Steps overlap on the GPUs, so a step has less idle time than its row says.")
        return steps

    # ---- workers and spans ------------------------------------------------------------------------------------------------

    def _workers(self, activities, labels, own):
        """Workers, and a function from an activity's index to the index of its worker."""
        gpu_of = self._gpus(activities)
        held = {}  # of a thread: its GPU, the stages
        for it, label in zip(activities, labels):
            if label:
                gpus, stages = held.setdefault(it.tid, ({}, set()))
                gpu = gpu_of(it)
                gpus[gpu] = gpus.get(gpu, 0) + 1
                stages.add(self._instruction(label)[1])
        keys = sorted(held, key=lambda tid: (min(held[tid][1]), tid))
        gpus = [max(held[tid][0], key=held[tid][0].get) for tid in keys]
        workers = [Worker(_gpu_name(gpu), tuple(sorted(held[tid][1]))) for tid, gpu in zip(keys, gpus)]
        of_thread = {tid: i for i, tid in enumerate(keys)}
        of_gpu = {}
        for i, gpu in enumerate(gpus):
            of_gpu.setdefault(gpu, i)
        for gpu in sorted({gpu_of(it) for it in activities} - set(of_gpu)) if not keys else ():
            of_gpu[gpu] = len(workers)
            workers.append(Worker(_gpu_name(gpu)))
        names = [worker.name for worker in workers]
        for i, worker in enumerate(workers):
            if names.count(worker.name) > 1:
                worker.name = f"{worker.name} (worker {i})"
        return workers, lambda it: of_thread.get(it.tid, of_gpu.get(gpu_of(it), -1))

    def _gpus(self, activities):
        """A function from an activity to its GPU's number, or to (number, host) if there are several hosts. The only process of a host keeps
        the numbers that it uses itself; of several, the export says which GPU of the host a number is."""
        hosts = {host: index for index, host in enumerate(sorted({host_number(it.pid) for it in activities if it.pid}))}
        pairs, known, as_one = {}, None, False
        for it in activities:
            pairs.setdefault(hosts.get(host_number(it.pid), 0), set()).add((process_number(it.pid), it.device))
        gpus = {}  # {(host, process, its number): GPU}
        for host, its in pairs.items():
            if len({pid for pid, _ in its}) < 2:
                continue
            known = self.export.gpus() if known is None else known
            if all(pair in known for pair in its):
                gpus.update({(host, *pair): known[pair] for pair in its})
            else:
                as_one = as_one or len({device for _, device in its}) < len(its)
        if as_one:
            self.remarks.append("Several processes use a GPU of the same number, and the export does not say "
                                "whether it is the same GPU: they are taken as one.")

        def number(it, host):
            return gpus.get((host, process_number(it.pid), it.device), it.device)
        if len(hosts) < 2:
            return lambda it: number(it, 0)
        return lambda it: (number(it, hosts.get(host_number(it.pid), 0)), hosts.get(host_number(it.pid), 0))

    def _instruction(self, label):
        known = self.instructions.get(label)
        if known is None:
            match = INSTRUCTION.match(label)
            known = (match[1], int(match[2]), int(match[3]) if match[3] else -1)
            self.instructions[label] = known
        return known

    def _spans(self, activities, labels, numbers, of_worker, workers, zero):
        spans, lanes = [], [{} for _ in workers]
        for it, label, number in zip(activities, labels, numbers):
            worker = of_worker(it)
            if worker < 0:
                continue
            op, stage, micro = self._instruction(label) if label else ("", -1, -1)
            lane = lanes[worker].setdefault((it.pid, it.stream), len(lanes[worker]))
            spans.append(Span(worker, _kind(it, op), label or it.name, (it.start - zero) / 1e6, (it.end - zero) / 1e6, number,
                              lane, op, stage, micro, bytes=it.bytes if it.what == COPIES else 0,
                              issued=None if it.issued is None else (it.issued - zero) / 1e6, detail=it.name))
        computed = [[0.0] * len(streams) for streams in lanes]
        for span in spans:
            if span.kind != COPY:
                computed[span.worker][span.lane] += span.end - span.start
        places = [_name_lanes(worker, list(streams), its) for worker, streams, its in zip(workers, lanes, computed)]
        for span in spans:
            span.lane = places[span.worker][span.lane]
        return spans

    # ---- the plan, remarks ------------------------------------------------------------------------------------------------

    def _join_plan(self, timeline):
        """The plan that nsys-profile.sh has put beside the export, or the one of the options."""
        beside = os.path.splitext(self.path)[0] + ".plan.json"
        path = self.plan_path or (beside if os.path.exists(beside) else "")
        if not path or not any(span.op for span in timeline.spans):
            return
        if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise BadInput(f"{path}: is not a regular file; write the timeline to a file first")
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            if not isinstance(data, dict) or data.get("format") != "gpipe-plan":
                raise ValueError("is no plan of gpipe-train")
            programs = _places(data)
            check_plan(path, data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            why = getattr(error, "strerror", None) or printable(str(error))
            raise BadInput(f"{path}: cannot be used as a plan ({why}); make it with gpipe-train --plan --json") from None
        others = [worker for worker in data["workers"] if "cuda" not in str(worker.get("device", "cuda"))]
        if others:
            names = ", ".join(str(worker.get("name")) for worker in others)
            self.remarks.append(f"The plan is not beside the capture: Nsight records GPUs, and not {names}.")
            return
        by_step = {}
        for span in timeline.spans:
            if span.op and span.step >= 0:
                by_step.setdefault(span.step, []).append(span)
        for spans in by_step.values():
            self._give_places(timeline, path, programs, spans)
        timeline.plan = Plan(data)
        _name_queues(timeline, programs)

    def _give_places(self, timeline, path, programs, spans):
        """Program and pc of the spans of a step: of the first program that trains and has all of their instructions."""
        keys = [(timeline.workers[span.worker].stages, span.name) for span in spans]
        for index, places in programs.items():
            if all(key in places for key in keys):
                for span, key in zip(spans, keys):
                    span.program, span.pc = index, places[key][0]
                return
        first = next(iter(programs.values()))
        odd = next(span for span, key in zip(spans, keys) if key not in first)
        raise BadInput(f"{self.path}: has {odd.name} on {timeline.workers[odd.worker].name}, which {path} has not; "
                       "give the plan of this run: gpipe-train --plan --json prints it")

    def _say_odd(self, activities):
        if not self.export.has_ranges():
            self.remarks.append("The export has no NVTX ranges, so kernels have no instructions.")
        if self.export.unmatched:
            self.remarks.append(f"{self.export.unmatched} of {len(activities)} kernels and copies have no call of the CUDA "
                                "runtime in the export, so their instruction and launch are not known.")
        if self.export.left_out.count:
            self.remarks.append(self.export.left_out.remark(self.export.rows, "kernels, copies, calls and ranges"))


def _gpu_name(gpu):
    return f"cuda:{gpu[0]} of host {gpu[1]}" if isinstance(gpu, tuple) else f"cuda:{gpu}"


def _name_lanes(worker, streams, computed):
    """Orders streams by the time that they compute, and names them. Returns the new index of each."""
    order = sorted(range(len(streams)), key=lambda lane: (-computed[lane], lane))
    several = len({pid for pid, _ in streams}) > 1
    names = [f"stream {streams[lane][1]}" + (f" of process {process_number(streams[lane][0])}" if several else "")
             for lane in order]
    if worker.stages and names:
        names[0] = "computes"
    worker.lanes = tuple(names)
    return {lane: i for i, lane in enumerate(order)}


def _kind(it, op):
    if it.what == COPIES:
        # Inside a forward or backward pass, a copy within the GPU is a part of computing.
        is_inner = it.copy_kind == DEVICE_TO_DEVICE and op and op not in COPYING
        return COMPUTE if is_inner else COPY
    if op in COPYING:
        return COPY
    return kind_of_nccl(it.name) or COMPUTE


def _by_thread(ranges):
    """{thread: (starts, ranges)}. The instructions of a thread do not nest."""
    threads = {}
    for it in ranges:
        starts, mine = threads.setdefault(it.tid, ([], []))
        starts.append(it.start)
        mine.append(it)
    return threads


def _fill(activities, numbers):
    """Gives activities without a call (None) the step in whose time they run."""
    bounds = {}
    for it, number in zip(activities, numbers):
        if number is not None and number >= 0:
            start, end = bounds.get(number, (it.start, it.end))
            bounds[number] = min(start, it.start), max(end, it.end)
    order = sorted((start, end, number) for number, (start, end) in bounds.items())
    starts = [start for start, _, _ in order]
    for i, number in enumerate(numbers):
        if number is None:
            at = bisect_right(starts, activities[i].start) - 1
            numbers[i] = order[at][2] if at >= 0 and activities[i].start <= order[at][1] else -1
    return numbers


def _places(data):
    """{index of a program that trains: {(stages, name): (pc, queue)}}. Without instructions in the plan: none."""
    programs = {}
    for index, program in enumerate(data["programs"]):
        if program["pass"] != "training":
            continue
        programs[index] = places = {}
        for worker, its in zip(data["workers"], program["workers"]):
            stages = tuple(sorted(worker["stages"]))
            for pc, instruction in enumerate(its.get("instructions", [])):
                places.setdefault((stages, instruction["name"]), (pc, int(instruction.get("queue", 0))))
    if not programs:
        raise ValueError("has no program that trains")
    return programs


def _name_queues(timeline, programs):
    """Streams get the names that queues have in a --trace file."""
    names = [list(worker.lanes) for worker in timeline.workers]
    for span in timeline.spans:
        if span.program >= 0:
            _, queue = programs[span.program][timeline.workers[span.worker].stages, span.name]
            if queue < len(QUEUES) and QUEUES[queue] not in names[span.worker]:
                names[span.worker][span.lane] = QUEUES[queue]
    for worker, its in zip(timeline.workers, names):
        worker.lanes = tuple(its)


def _say_steps(steps):
    numbers = [step.number for step in steps]
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    return f"steps {numbers[0]} to {numbers[-1]}" if numbers[-1] - numbers[0] == len(numbers) - 1 else f"{len(numbers)} steps"
