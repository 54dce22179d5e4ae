"""Timelines of PyTorch's profiler (export_chrome_trace), as far as they go: computing, copying and idle time per GPU and step.

A worker is a GPU of a process. Kernels compute, memory copies and sends of NCCL are copies, other NCCL kernels are collectives. A
capture without GPU is read too: a worker is a process, and its operators compute.

A step is a range of the profiler ("ProfilerStep#3"), or the range that --steps-by names. Its number is the one at the end of the name
if they count up, else steps count from 1. GPU work belongs to the step in which the host launched it. Without such a range the whole
capture is one step.

Several ranks in one file. Ids of launches and ranges of steps count in each process by itself. A GPU's events carry the GPU's number
in place of the process: the process is the one whose launches explain them (_owners).

Times are exact integers, in picoseconds, until the file's first time is subtracted: microseconds since 1970 do not fit a double.
"""
import bisect
import os
import re

from .read import picoseconds, text, whole
from .read_trace import say_event, steps_of
from .timeline import COMPUTE, COPY, BadInput, Span, Timeline, Worker, kind_of_nccl

PROFILER_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
GPU_KINDS = {"kernel": COMPUTE, "gpu_memcpy": COPY, "gpu_memset": COMPUTE, "memcpy": COPY, "memset": COMPUTE}
RANGES = ("user_annotation", "operator", "cpu_op")
LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime")
RECORD = "record with torch.profiler, or choose another file"

PER_MILLISECOND = 10**9
LONGEST = 10**18  # 11 days: no event lasts longer, or lies further from the others
SKEW = 10**7  # 10 µs: clocks of a GPU and of the host differ by so much at most
LOST = 10**12  # 1 s: a GPU's event that ends so long before its launch has another time than its own


def timeline_of_torch(path, data, options):
    """The Timeline of an object with the key traceEvents that has no workers of gpipe-train."""
    events = _Events(path, data["traceEvents"])
    if not events.gpu and not events.operators:
        if events.left_out:
            raise BadInput(f"{path}: none of its kernels, copies and operators has a usable time: {events.first}; record it again")
        raise BadInput(f"{path}: has no instructions of gpipe-train, and no kernels, copies or operators of PyTorch's profiler; {RECORD}")
    windows = _windows(path, events.ranges, options.steps_by)
    spans, workers = _gpu_spans(events) if events.gpu else _operator_spans(events.operators, windows)
    timeline = _timeline(path, spans, workers, windows, options.steps_by)
    if events.left_out:
        timeline.remarks.insert(0, f"{events.left_out} of {events.count} events ha{'s' if events.left_out == 1 else 've'} no usable time, "
                                   f"and {'is' if events.left_out == 1 else 'are'} left out; the first is {events.first}.")
    return timeline


class _Event:
    """A kernel, a copy, an operator, a range or a launch with a usable time, in picoseconds."""

    __slots__ = ("index", "data", "kind", "start", "end", "process", "launch", "issued")

    def __init__(self, index, data, kind, start, end):
        self.index, self.data, self.kind, self.start, self.end = index, data, kind, start, end
        pid = data.get("pid")
        self.process = pid if isinstance(pid, (int, str)) else None
        args = data.get("args")
        self.launch = whole(args.get("correlation", args.get("External id"))) if isinstance(args, dict) else -1
        self.issued = None  # when the host launched it

    @property
    def name(self):
        return text(self.data.get("name"))

    @property
    def args(self):
        args = self.data.get("args")
        return args if isinstance(args, dict) else {}


class _Events:
    """The events of a file by what they are. Those without a usable time are left out, and counted."""

    def __init__(self, path, events):
        self.path = path
        self.gpu, self.operators, self.ranges, self.launches = [], [], [], {}
        self.count = self.left_out = 0
        self.first = ""  # of those that are left out
        self._sort(self._near(self._timed(events)))

    def _leave_out(self, index, data, why):
        self.left_out += 1
        self.first = self.first or f"{say_event(index, data)}: {why}"

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
                self._leave_out(index, data, f"ts is {_say(data, 'ts')}")
            elif duration is None or duration < 0 or duration > LONGEST:
                self._leave_out(index, data, f"dur is {_say(data, 'dur')}")
            elif category in GPU_KINDS and start == 0 and duration == 0:  # as CUPTI marks an event whose times were lost
                self._leave_out(index, data, "ts and dur are 0")
            else:
                found.append((category, _Event(index, data, GPU_KINDS.get(category, COMPUTE), start, start + duration)))
        return found

    def _near(self, found):
        """Without events that lie far from most others."""
        middle = sorted(it.start for _, it in found)[len(found) // 2] if found else 0
        near = []
        for category, it in found:
            if abs(it.start - middle) > LONGEST:
                self._leave_out(it.index, it.data, f"ts is {_say(it.data, 'ts')}, more than 11 days from the other events")
            else:
                near.append((category, it))
        return near

    def _sort(self, found):
        for category, it in found:
            if category in LAUNCHES:
                self.launches.setdefault(it.launch, []).append(it)
        for category, it in found:
            if category in RANGES:
                self.ranges.append(it)
                if category != "user_annotation":
                    self.operators.append(it)
            elif category in GPU_KINDS:
                launches = self.launches.get(it.launch, ()) if it.launch >= 0 else ()
                if launches and all(it.end < launch.start - LOST for launch in launches):
                    self._leave_out(it.index, it.data, "ends more than a second before it is launched")
                else:
                    self.gpu.append(it)


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


def _owners(events):
    """The process of each GPU event, and when it launched the event.

    The events of one GPU are explained by one process: by the one with the fewest events that have no launch before them, and among
    such by the shortest time from launch to start. If a merge gave GPUs of two hosts one number, most ids occur once for each process:
    then each event belongs to the latest launch before it.
    """
    processes = {it.process for launches in events.launches.values() for it in launches}
    groups, owners = {}, {}
    for it in events.gpu:
        groups.setdefault((it.process, _device(it)), []).append(it)
    for group in groups.values():
        options = {it: _options(it, events.launches) for it in group}
        owner = min(sorted(processes, key=str), default=None, key=lambda process: (
            sum(process not in options[it] for it in group if options[it]),
            sum(it.start - options[it][process] for it in group if process in options[it])))
        nearest = {it: max(found, key=found.get) for it, found in options.items() if found}
        mixed = len(processes) > 1 and _is_mixed(nearest, events.launches)
        for it in group:
            owners[it] = nearest.get(it, owner) if mixed else owner
            it.issued = options[it].get(owners[it])
    return owners


def _options(event, launches):
    """{process: the latest launch with the event's id before the event}."""
    options = {}
    for it in launches.get(event.launch, ()) if event.launch >= 0 else ():
        if it.start <= event.start + SKEW and it.start > options.get(it.process, it.start - 1):
            options[it.process] = it.start
    return options


def _is_mixed(nearest, launches):
    """Whether most ids that several processes use have events of several processes."""
    found = {}
    for it, process in nearest.items():
        if len({launch.process for launch in launches[it.launch]}) > 1:
            found.setdefault(it.launch, set()).add(process)
    return 2 * sum(len(processes) > 1 for processes in found.values()) > len(found)


def _gpu_spans(events):
    """Pairs of a span of a GPU and its process, and the Workers."""
    owners = _owners(events)
    keys = sorted({(_device(it), owners[it]) for it in events.gpu}, key=lambda key: (key[0], str(key[1])))
    order = {key: index for index, key in enumerate(keys)}
    spans, lanes = [], [{} for _ in keys]
    for it in events.gpu:
        worker, stream = order[_device(it), owners[it]], _stream(it)
        lane = lanes[worker].setdefault(stream, len(lanes[worker]))
        name = it.name
        spans.append((Span(worker, kind_of_nccl(name) or it.kind, name, it.start, it.end, -1, lane, bytes=whole(it.args.get("bytes"), 0),
                           issued=it.issued, detail=name), owners[it]))
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


def _timeline(path, owned, workers, windows, steps_by):
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
    steps = steps_of(path, spans)
    if any(a.end > b.start for a, b in zip(steps, steps[1:])) and len({process for _, process in owned}) > 1:
        remarks.append("Steps of the processes overlap, so a step has less idle time than its row says.")
    return Timeline(os.path.basename(path), "torch", workers, spans, steps, remarks=remarks)
