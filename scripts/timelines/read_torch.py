"""Timelines of PyTorch's profiler (export_chrome_trace), as far as they go: computing, copying and idle time per GPU and step.

A worker is a GPU of a process. Kernels compute, memory copies and sends of NCCL are copies, other NCCL kernels are collectives. A
capture without GPU is read too: a worker is a process, and its operators compute.

A step is a range of the profiler ("ProfilerStep#3"), or the range that --steps-by names. Its number is the one at the end of the name
if they count up, else steps count from 1. GPU work belongs to the step in which the host launched it. Without such a range the whole
capture is one step.

Several ranks in one file. Ids of launches and ranges of steps count in each process by itself. A GPU's events carry the GPU's number
in place of the process: the process is the one whose launches explain them (owners.py).

Times are exact integers, in picoseconds, until the file's first time is subtracted: microseconds since 1970 do not fit a double.
"""
import bisect
import os
import re
from collections import Counter

from .owners import owners_of
from .read import picoseconds, text, whole
from .read_trace import say_event, steps_of
from .timeline import COMPUTE, COPY, BadInput, Span, Timeline, Worker, kind_of_nccl
from .usable import LeftOut, Limits, misplaced, overlong

PROFILER_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
GPU_KINDS = {"kernel": COMPUTE, "gpu_memcpy": COPY, "gpu_memset": COMPUTE, "memcpy": COPY, "memset": COMPUTE}
RANGES = ("user_annotation", "operator", "cpu_op")
LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime")
RECORD = "record with torch.profiler, or choose another file"

PER_MILLISECOND = 10**9
HOUR = 3600 * 10**12
EARLY = 10**9  # 1 ms: clocks of a GPU and of the host differ by so much at most
EARLY_CLOCK = 10**12  # 1 s: if most events of GPUs begin before their launch, their clock is early


def timeline_of_torch(path, data, options):
    """The Timeline of an object with the key traceEvents that has no workers of gpipe-train."""
    events = _Events(path, data["traceEvents"])
    if not events.gpu and not events.operators:
        if events.left_out.count:
            raise BadInput(f"{path}: none of its kernels, copies and operators has a usable time: {events.left_out.first}; record it again")
        raise BadInput(f"{path}: has no instructions of gpipe-train, and no kernels, copies or operators of PyTorch's profiler; {RECORD}")
    windows = _windows(path, events.ranges, options.steps_by)
    spans, workers = _gpu_spans(events) if events.gpu else _operator_spans(events.operators, windows)
    timeline = _timeline(path, spans, workers, windows, options.steps_by, events)
    if events.undecided:
        timeline.remarks.append(_say_undecided(events.undecided))
    for process in _doubled(events.launches):
        timeline.remarks.append(f"Most ids of launches occur several times in process {text(str(process))[:20]}, as if processes of several hosts had this "
                                "number; record the processes in files of their own.")
    if events.left_out.count:
        timeline.remarks.insert(0, events.left_out.remark(events.count, "events"))
    return timeline


class _Event:
    """A kernel, a copy, an operator, a range or a launch with a usable time, in picoseconds."""

    __slots__ = ("index", "data", "kind", "start", "end", "process", "launch", "owner", "issued")

    def __init__(self, index, data, kind, start, end):
        self.index, self.data, self.kind, self.start, self.end = index, data, kind, start, end
        pid = data.get("pid")
        self.process = pid if isinstance(pid, (int, str)) else None
        args = data.get("args")
        self.launch = whole(args.get("correlation", args.get("External id"))) if isinstance(args, dict) else -1
        self.owner = self.issued = None  # of a GPU's event: the process that launched it, and when

    @property
    def name(self):
        return text(self.data.get("name"))

    @property
    def args(self):
        args = self.data.get("args")
        return args if isinstance(args, dict) else {}


class _Events:
    """The events of a file by what they are. Those without a usable time are left out, and counted (usable.py)."""

    def __init__(self, path, events):
        self.path = path
        self.gpu, self.operators, self.ranges, self.launches = [], [], [], {}
        self.count, self.left_out, self.undecided = 0, LeftOut(), []
        self._sort(self._near(self._timed(events)))
        self._after_launch()
        if self.gpu:
            self.undecided = owners_of(self.gpu, self.launches, _device, _stream)
            self._one_after_another()

    def leave_out(self, index, data, why):
        self.left_out.add(say_event(index, data), why)

    def _timed(self, events):
        """_Event of each event that counts, with its category."""
        found = []
        for index, data in enumerate(events):
            if not isinstance(data, dict):
                raise BadInput(f"{self.path}: event {index + 1} is no object; {RECORD}")
            if data.get("ph") != "X" or not isinstance(data.get("cat"), str):
                continue
            category = data["cat"].lower()
            if category not in GPU_KINDS and category not in RANGES and category not in LAUNCHES:
                continue
            self.count += 1
            start, duration = picoseconds(data.get("ts")), picoseconds(data.get("dur"))
            if start is None:
                self.leave_out(index, data, f"ts is {_say(data, 'ts')}")
            elif duration is None or duration < 0:
                self.leave_out(index, data, f"dur is {_say(data, 'dur')}")
            elif start == 0 and duration == 0:  # as CUPTI marks an event whose times were lost
                self.leave_out(index, data, "ts and dur are 0")
            else:
                found.append((category, _Event(index, data, GPU_KINDS.get(category, COMPUTE), start, start + duration)))
        return found

    def _near(self, found):
        """Without events that lie far from the capture."""
        limits = Limits((it.start for _, it in found), HOUR)
        near = []
        for category, it in found:
            if limits.has(it.start, it.end):
                near.append((category, it))
            elif limits.has_start(it.start):
                self.leave_out(it.index, it.data, f"dur is {_say(it.data, 'dur')}, so it ends more than an hour after the other events")
            else:
                self.leave_out(it.index, it.data, f"ts is {_say(it.data, 'ts')}, more than an hour from the other events")
        return near

    def _sort(self, found):
        for category, it in found:
            if category in LAUNCHES:
                self.launches.setdefault(it.launch, []).append(it)
            elif category in GPU_KINDS:
                self.gpu.append(it)
            else:
                self.ranges.append(it)
                if category != "user_annotation":
                    self.operators.append(it)

    def _after_launch(self):
        """Leaves out the GPUs' events that begin before their launch."""
        first = {launch: min(it.start for it in its) for launch, its in self.launches.items() if launch >= 0}
        launched = [it for it in self.gpu if it.launch in first]
        early = [it for it in launched if it.start < first[it.launch] - EARLY]
        if 2 * len(early) > len(launched):
            early = [it for it in early if it.start < first[it.launch] - EARLY_CLOCK]
        for it in early:
            self.leave_out(it.index, it.data, "begins before it is launched")
        self._keep(early)

    def _one_after_another(self):
        """Leaves out events that last longer than the rest of their stream can wait."""
        streams = {}
        for it in self.gpu:
            streams.setdefault((it.process, _device(it), _stream(it), it.owner), []).append(it)
        lost = []
        for its in streams.values():
            its.sort(key=lambda it: it.start)
            lost += [its[at] for at in overlong([(it.start, it.end, it.launch if it.launch >= 0 else None) for it in its])]
        for it in lost:
            self.leave_out(it.index, it.data, f"dur is {_say(it.data, 'dur')}, longer than all else in its stream, which went on meanwhile")
        self._keep(lost)

    def _keep(self, without):
        gone = {it.index for it in without}
        self.gpu = [it for it in self.gpu if it.index not in gone] if gone else self.gpu


def _say(data, key):
    return text(str(data[key]))[:40] if key in data else "missing"


# ---- steps -----------------------------------------------------------------------------------------------------------------


class _Windows:
    """The ranges of one process that are steps, sorted by start."""

    def __init__(self, ranges, numbers):
        self.ranges, self.numbers = ranges, numbers
        self.starts = [start for start, _ in ranges]

    def step_at(self, time):
        """The number of the step that contains a time; -1: none."""
        at = bisect.bisect_right(self.starts, time) - 1
        return self.numbers[at] if at >= 0 and time < self.ranges[at][1] else -1


class _Steps:
    """The windows of each process. A process without any takes those of the first one that has some."""

    def __init__(self, windows, names):
        self.windows, self.names = windows, names
        self.first = min(windows.values(), key=lambda it: it.starts[0], default=None)

    def step_at(self, process, time):
        windows = self.windows.get(process, self.first)
        return windows.step_at(time) if windows else -1


def _windows(path, ranges, steps_by):
    pattern = re.compile(re.escape(steps_by) + r"[\s_#:=-]*\d{0,9}") if steps_by else PROFILER_STEP
    processes = {}
    for it in ranges:
        if pattern.fullmatch(it.name):
            processes.setdefault(it.process, []).append(it)
    if steps_by and not processes:
        names = sorted({it.name for it in ranges})[:5]
        raise BadInput(f"{path}: has no range {steps_by}; its ranges are {', '.join(names) if names else 'none'}")
    names = {it.name for found in processes.values() for it in found}
    return _Steps({process: _count(found) if steps_by else _profiler_steps(found) for process, found in processes.items()}, names)


def _count(found):
    """Windows of a range that the user names: with the numbers in the names if they count up, else counted from 1."""
    found.sort(key=lambda it: it.start)
    ends = [re.search(r"\d+$", it.name) for it in found]
    numbers = [int(match[0]) for match in ends if match]
    if len(numbers) < len(found) or any(a >= b for a, b in zip(numbers, numbers[1:])):
        numbers = list(range(1, len(found) + 1))
    return _Windows([(it.start, it.end) for it in found], numbers)


def _profiler_steps(found):
    """Windows of ProfilerStep#N: threads of a process may each have the range."""
    bounds = {}
    for it in found:
        number = int(PROFILER_STEP.match(it.name)[1])
        start, end = bounds.get(number, (it.start, it.end))
        bounds[number] = (min(start, it.start), max(end, it.end))
    order = sorted(bounds, key=bounds.get)
    return _Windows([bounds[number] for number in order], order)


# ---- workers and spans -----------------------------------------------------------------------------------------------------


def _gpu_spans(events):
    """Pairs of a span of a GPU and its process, and the Workers."""
    keys = sorted({(_device(it), it.owner) for it in events.gpu}, key=lambda key: (key[0], str(key[1])))
    order = {key: index for index, key in enumerate(keys)}
    spans, lanes = [], [{} for _ in keys]
    for it in events.gpu:
        worker, stream = order[_device(it), it.owner], _stream(it)
        lane = lanes[worker].setdefault(stream, len(lanes[worker]))
        name = it.name
        spans.append((Span(worker, kind_of_nccl(name) or it.kind, name, it.start, it.end, -1, lane, bytes=whole(it.args.get("bytes"), 0),
                           issued=it.issued, detail=name), it.owner))
    several = [device for device, _ in keys]
    workers = [Worker(f"cuda:{device}" + (f" (process {text(str(owner))[:20]})" if several.count(device) > 1 else ""), (),
                      tuple(f"stream {stream}" for stream in lanes[index])) for index, (device, owner) in enumerate(keys)]
    return spans, workers


def _device(event):
    device = whole(event.args.get("device"))
    return device if device >= 0 else whole(event.process, 0)


def _stream(event):
    stream = event.args.get("stream")
    return text(str(stream if stream is not None else event.data.get("tid")))[:20]


def _operator_spans(operators, windows):
    """Outermost operators of each thread. Ranges that are steps are none. A process is a worker."""
    events = sorted((it for it in operators if it.name not in windows.names), key=lambda it: (it.start, -it.end))
    order = {process: index for index, process in enumerate(sorted({it.process for it in events}, key=str))}
    spans, lanes, last = [], [{} for _ in order], {}
    for it in events:
        worker = order[it.process]
        lane = lanes[worker].setdefault(text(str(it.data.get("tid")))[:20], len(lanes[worker]))
        if it.end <= last.get((worker, lane), it.end - 1):
            continue
        last[worker, lane] = it.end
        spans.append((Span(worker, it.kind, it.name, it.start, it.end, -1, lane, detail=it.name), it.process))
    return spans, [Worker("cpu" + (f" (process {text(str(process))[:20]})" if len(order) > 1 else ""), (),
                          tuple(f"thread {thread}" for thread in lanes[index])) for process, index in order.items()]


def _doubled(launches):
    """Processes in which most ids of launches occur several times."""
    counts = {}
    for launch, its in launches.items():
        if launch >= 0:
            for process, count in Counter(it.process for it in its).items():
                counts.setdefault(process, []).append(count > 1)
    return sorted((process for process, several in counts.items() if 2 * sum(several) > len(several)), key=str)


def _say_undecided(devices):
    listed = ", ".join(f"cuda:{device}" for device in sorted(devices)[:5])
    return (f"Several processes call their GPU {listed}, and their launches do not decide which process some of its kernels and copies belong "
            "to; record the processes in files of their own.")


def _timeline(path, owned, workers, windows, steps_by, events):
    remarks = []
    for span, process in owned:
        span.step = windows.step_at(process, span.start if span.issued is None else span.issued)
    spans = [span for span, _ in owned]
    if not spans:
        raise BadInput(f"{path}: has no kernels, copies or operators beside the ranges of its steps; {RECORD}")
    if not any(span.step >= 0 for span in spans):
        if steps_by:
            raise BadInput(f"{path}: no kernel, copy or operator lies in the range {steps_by}; name another range with --steps-by")
        remarks.append("The ranges that name its steps contain no kernel, copy or operator, so all of it counts as one step; "
                       "name another range with --steps-by." if windows.windows else
                       "No range of the capture names its steps, so all of it counts as one step; name such a range with --steps-by.")
        for span in spans:
            span.step = 1
    zero = min(span.start for span in spans)
    for span in spans:
        span.start, span.end = (span.start - zero) / PER_MILLISECOND, (span.end - zero) / PER_MILLISECOND
        span.issued = None if span.issued is None else (span.issued - zero) / PER_MILLISECOND
    spans.sort(key=lambda span: span.start)
    lost = {id(span): span for span in misplaced(spans)}
    for span in lost.values():
        events.left_out.add(span.name, f"begins before the middle of the step before step {span.step}")
    spans = [span for span in spans if id(span) not in lost]
    steps = steps_of(path, spans)
    if any(a.end > b.start for a, b in zip(steps, steps[1:])) and len({process for _, process in owned}) > 1:
        remarks.append("Steps of the processes overlap, so a step has less idle time than its row says.")
    return Timeline(os.path.basename(path), "torch", workers, spans, steps, remarks=remarks)
