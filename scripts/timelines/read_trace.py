"""Timelines of trace files (Trace Event Format): those of gpipe-train --trace, and those of PyTorch's profiler (read_torch).

A worker's instructions are spans, sends and receives too. Waits and lockstep's barriers are none: a worker that waits has no span.
`Span.issued` is when the worker enqueued the instruction (GPU), or when it reached the instruction and began to wait (CPU).
"""
import os
import re

from .fit import fit, say_plan
from .read import LATEST, MAKE, MAKE_TORCH, is_of_torch, number, text, whole
from .read_plan import check_plan
from .timeline import COMPUTE, COPY, INSTRUCTION, BadInput, LayerSpan, Plan, Span, Step, Timeline, Worker
from .usable import LeftOut, Limits, intruders, misplaced

TRACK = re.compile(r"worker (\d{1,6}) \((.*?)\)(?:, stages? ([\d, …]+?))?(?:, process (\d{1,6}))?(?:: (.+))?$")
MEMORY = re.compile(r"memory of worker (\d{1,6})$")
KIND_OF = {"compute": COMPUTE, "copy": COPY}
HOUR = 3_600_000  # milliseconds
JITTER = 0.05  # milliseconds by which two spans of a lane may overlap: events of a GPU have the resolution of a float


def timeline_of_trace(path, data, options):
    """The Timeline of an object with the key traceEvents."""
    events = data["traceEvents"]
    if not isinstance(events, list):
        raise BadInput(f"{path}: traceEvents is no list, so the file is no timeline; {MAKE_TORCH if is_of_torch(data) else MAKE}")
    tracks = _tracks(events)
    if not tracks:
        from .read_torch import timeline_of_torch

        return timeline_of_torch(path, data, options)
    timeline = _Reader(path, events, tracks).timeline()
    other = data.get("otherData")
    _join_plan(path, timeline, other.get("plan") if isinstance(other, dict) else None, options)
    return timeline


class _Track:
    """A track of a worker: its index, and the lane."""

    def __init__(self, match):
        self.number, self.device = int(match[1]), text(match[2])
        self.lane, self.process = match[5] or "computes", int(match[4] or 0)
        listed = match[3] or ""
        self.stages = [] if "…" in listed else [int(part) for part in re.findall(r"\d{1,6}", listed)]


def _key(event, name):
    value = event.get(name)
    return value if isinstance(value, (int, str)) else None


def _tracks(events):
    """{(process, thread): _Track} of the workers' tracks."""
    tracks = {}
    for event in events:
        if isinstance(event, dict) and event.get("ph") == "M" and event.get("name") == "thread_name":
            args = event.get("args")
            name = args.get("name") if isinstance(args, dict) else None
            match = TRACK.match(name) if isinstance(name, str) else None
            if match:
                tracks[_key(event, "pid"), _key(event, "tid")] = _Track(match)
    return tracks


def say_event(index, event):
    """ "event 3 (F s0 m1)", counted from 1. """
    name = text(event.get("name"))[:40] if isinstance(event, dict) else ""
    return f"event {index + 1}" + (f" ({name})" if name else "")


def times(event):
    """Start and end of a complete event in milliseconds, and why they cannot be; "": they can."""
    start, duration = number(event.get("ts")), number(event.get("dur"))
    for key, value in (("ts", start), ("dur", duration)):
        if value is None or abs(value) > LATEST or (key == "dur" and value < 0):
            return 0, 0, f"{key} is {_say_value(event.get(key))}"
    return start / 1000, (start + duration) / 1000, ""


def _say_value(value):
    return "missing" if value is None else text(repr(value))[:40]


class _Reader:
    """Reads the events of one file."""

    def __init__(self, path, events, tracks):
        self.path, self.events, self.tracks = path, events, tracks
        numbers = sorted({track.number for track in tracks.values()})
        self.index = {number: index for index, number in enumerate(numbers)}
        self.numbers = numbers
        self.spans, self.layers, self.reached, self.data, self.memory = [], [], {}, [], {}
        self.count, self.left_out = 0, LeftOut()
        self.names = {}  # name of an instruction -> op, stage, micro-batch

    def timeline(self):
        for index, event, start, end in self._near():
            if end is None:
                self._counter(index, event, start)
            else:
                self._span(event, start, end)
        for span in self.spans:
            if span.issued is None:
                span.issued = self.reached.get((span.worker, span.step, span.program, span.pc), span.start)
        return self._finish()

    def _leave_out(self, index, event, why):
        self.left_out.add(say_event(index, event), why)

    def _near(self):
        """(index, event, start, end) of the events whose times can be; the end of a counter is None."""
        found = []
        for index, event in enumerate(self.events):
            if not isinstance(event, dict):
                raise BadInput(f"{self.path}: event {index + 1} is no object; {MAKE}")
            if event.get("ph") == "X":
                start, end, why = times(event)
            elif event.get("ph") == "C":
                start, end = number(event.get("ts")), None
                why = "" if start is not None and abs(start) <= LATEST else f"ts is {_say_value(event.get('ts'))}"
                start = 0 if why else start / 1000
            else:
                continue
            self.count += 1
            if why:
                self._leave_out(index, event, why)
            else:
                found.append((index, event, start, end))
        self.limits = Limits([start for _, _, start, _ in found], HOUR)
        for index, event, start, end in found:
            if self.limits.has(start, start if end is None else end):
                yield index, event, start, end
            elif self.limits.has_start(start):
                self._leave_out(index, event, f"dur is {_say_value(event.get('dur'))}, so it ends more than an hour after the other events")
            else:
                self._leave_out(index, event, f"ts is {_say_value(event.get('ts'))}, more than an hour from the other events")

    def _span(self, event, start, end):
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        category, name = text(event.get("cat")), event.get("name")
        step = whole(args.get("step")) if args.get("pass", "training") == "training" else -1
        track = self.tracks.get((_key(event, "pid"), _key(event, "tid")))
        if track is None:
            if name == "wait for data" and args.get("pass", "training") == "training":
                self.data.append((start, end))
            return
        worker, pc, program = self.index[track.number], whole(args.get("pc")), whole(args.get("program"))
        if category in KIND_OF:
            op, stage, micro = self._instruction(name)
            issued = number(args.get("issued"))
            issued = issued if issued is not None and self.limits.has_start(issued / 1000) else None
            self.spans.append(Span(worker, KIND_OF[category], text(name), start, end, step, track.lane, op, stage, micro,
                                   program, pc, whole(args.get("bytes"), 0), None if issued is None else issued / 1000,
                                   text(args.get("carries"))))
        elif category == "layer":
            self.layers.append(LayerSpan(worker, text(name), text(args.get("op")), start, end, step,
                                         whole(args.get("stage")), whole(args.get("micro"))))
        elif category == "wait" and name == "wait":
            self.reached[worker, step, program, pc] = start

    def _instruction(self, name):
        known = self.names.get(name) if isinstance(name, str) else ("", -1, -1)
        if known is None:
            match = INSTRUCTION.match(name)
            known = (match[1], int(match[2]), int(match[3] or -1)) if match else ("", -1, -1)
            self.names[name] = known
        return known

    def _counter(self, index, event, time):
        name, args = event.get("name"), event.get("args")
        match = MEMORY.match(name) if isinstance(name, str) else None
        worker = self.index.get(int(match[1])) if match else None
        if worker is None or not isinstance(args, dict):
            return
        alive = number(args.get("bytes alive"))
        if alive is None:
            self._leave_out(index, event, f"bytes alive is {_say_value(args.get('bytes alive'))}")
        else:
            self.memory.setdefault(worker, []).append((time, alive))

    def _finish(self):
        if not self.spans:
            if self.left_out.count:
                raise BadInput(f"{self.path}: none of its instructions has a usable time: {self.left_out.first}; record it again")
            raise BadInput(f"{self.path}: has no instruction of a worker, so there is nothing to compare; "
                           "choose steps that the run has with gpipe-train --trace-steps")
        lanes = self._lanes()
        self.spans.sort(key=lambda span: span.start)
        self._one_after_another()
        check_lanes(self.path, self.spans, lanes)
        steps = steps_of(self.path, self.spans)
        self._give_layers_micro()
        for changes in self.memory.values():
            changes.sort()
        timeline = Timeline(os.path.basename(self.path), "trace", self._workers(lanes), self.spans, steps, sorted(self.data),
                            sorted(self.layers, key=lambda layer: layer.start), self.memory)
        if self.left_out.count:
            timeline.remarks.append(self.left_out.remark(self.count, "events"))
        return timeline

    def _one_after_another(self):
        """Leaves out instructions that overlap several others of their queue, or begin before the step before theirs. One of the first step
        may lie at 0 and have no length."""
        lanes, gone, first = {}, set(), min((span.step for span in self.spans if span.step >= 0), default=-1)
        for span in self.spans:
            if span.start == span.end == 0 and span.step > first:
                self.left_out.add(f"{span.name} of step {span.step}", "ts and dur are 0")
                gone.add(id(span))
            else:
                lanes.setdefault((span.worker, span.lane), []).append(span)
        for spans in lanes.values():
            for span in intruders(spans, jitter):
                self.left_out.add(f"{span.name} of step {span.step}", "it overlaps several others of its queue")
                gone.add(id(span))
        self.spans = [span for span in self.spans if id(span) not in gone]
        for span in misplaced(self.spans):
            self.left_out.add(f"{span.name} of step {span.step}", "it begins before the middle of the step before")
            gone.add(id(span))
        self.spans = [span for span in self.spans if id(span) not in gone]

    def _lanes(self):
        """Puts indexes in place of the lanes' names. Returns {worker: names}; the lane that computes is the first."""
        lanes = {}
        for track in sorted(self.tracks.values(), key=lambda it: it.lane != "computes"):
            names = lanes.setdefault(self.index[track.number], [])
            if track.lane not in names:
                names.append(track.lane)
        for span in self.spans:
            span.lane = lanes[span.worker].index(span.lane)
        return lanes

    def _workers(self, lanes):
        stages = {worker: set() for worker in lanes}
        devices, processes = {}, {}
        for track in self.tracks.values():
            processes[self.index[track.number]] = track.process
            stages[self.index[track.number]].update(track.stages)
            devices[self.index[track.number]] = track.device
        for span in self.spans:
            if span.stage >= 0:
                stages[span.worker].add(span.stage)
        names = unique_names([devices[worker] for worker in sorted(lanes)], self.numbers)
        return [Worker(name, tuple(sorted(stages[worker])), tuple(text(lane) for lane in lanes[worker]), processes[worker])
                for worker, name in enumerate(names)]

    def _give_layers_micro(self):
        """Stage and micro-batch of a layer's span are those of the instruction that holds it."""
        at = {}
        for span in self.spans:
            if span.kind == COMPUTE:
                at.setdefault(span.worker, []).append(span)
        for worker, spans in at.items():
            i = 0
            for layer in sorted((it for it in self.layers if it.worker == worker), key=lambda it: it.start):
                while i + 1 < len(spans) and spans[i + 1].start <= layer.start:
                    i += 1
                if spans[i].start <= layer.start and layer.stage == -1:
                    layer.stage, layer.micro, layer.op = spans[i].stage, spans[i].micro, layer.op or spans[i].op


def unique_names(devices, numbers):
    """Names of workers: the devices. CPU workers that share one are counted, as in plans: cpu:0, cpu:1; others have their number."""
    names, cpus = [], 0
    for device, number in zip(devices, numbers):
        if devices.count(device) == 1:
            names.append(device)
        elif device.startswith("cpu"):
            names.append(f"cpu:{cpus}")
            cpus += 1
        else:
            names.append(f"{device} (worker {number})")
    return names if len(set(names)) == len(names) else [f"{name} (worker {number})" for name, number in zip(devices, numbers)]


def jitter(time):
    """By how much two spans of a lane may overlap at a time, in milliseconds."""
    return JITTER + 1e-6 * abs(time)


def check_lanes(path, spans, lanes=None):
    """What runs in one lane of a worker runs one after another."""
    last = {}
    for span in spans:
        before = last.get((span.worker, span.lane))
        if before and span.start < before.end - jitter(before.end):
            raise BadInput(f"{path}: {span.name} of worker {span.worker} begins {before.end - span.start:.3f} ms before "
                           f"{before.name} ends, in the same queue; the clock jumped, so record it again")
        if not before or span.end >= before.end:
            last[span.worker, span.lane] = span


def steps_of(path, spans):
    """The steps of spans sorted by start: from the first to the last activity of each number, which must count up."""
    bounds = {}
    for span in spans:
        if span.step >= 0:
            old = bounds.get(span.step)
            bounds[span.step] = (min(old[0], span.start), max(old[1], span.end)) if old else (span.start, span.end)
    steps = [Step(number, start, end) for number, (start, end) in bounds.items()]
    for before, step in zip(steps, steps[1:]):
        if step.number < before.number:
            raise BadInput(f"{path}: step {step.number} begins after step {before.number}; "
                           "the clock jumped, so record it again")
    if not steps:
        raise BadInput(f"{path}: has no training step, only evaluations; "
                       "choose steps that the run trains with gpipe-train --trace-steps")
    return steps


def _join_plan(path, timeline, data, options):
    """The plan in the file, or the one of the options, which must be the plan of this run."""
    own = Plan(check_plan(path, data)) if data is not None else None
    given = None
    if options.plan:
        from .read_plan import read_plan

        given = read_plan(options.plan)
        if own and own.identity and given.identity and own.identity != given.identity:
            raise BadInput(f"{path}: its run had plan {own.identity}, and {options.plan} is plan {given.identity}; "
                           f"{say_plan()}")
    if not own and not given:
        timeline.remarks.append("The file has no plan, so nothing predicted is beside what was measured.")
        return
    timeline.plan = given or own
    fit(path, timeline, options.plan or "its own plan")
    names = [text(worker.get("name")) for worker in timeline.plan.data["workers"]]
    if all(names) and len(set(names)) == len(names):
        for worker, name in zip(timeline.workers, names):
            worker.name = name
