"""Timelines of PyTorch's profiler (export_chrome_trace), as far as they go: computing, copying and idle time per GPU and step.

A worker is a GPU. Kernels compute, memory copies and sends of NCCL are copies, other NCCL kernels are collectives. A capture without
GPU is read too: the worker is the process, and its operators compute.

A step is a range of the profiler ("ProfilerStep#3"), or the range that --steps-by names. Its number is the one at the end of the name
if they count up, else steps count from 1. GPU work belongs to the step in which the host
launched it. Without such a range the whole capture is one step.
"""
import bisect
import os
import re

from .read import text, whole
from .read_trace import steps_of, times
from .timeline import COMPUTE, COPY, BadInput, Span, Timeline, Worker, kind_of_nccl

PROFILER_STEP = re.compile(r"ProfilerStep#(\d{1,9})$")
GPU_KINDS = {"kernel": COMPUTE, "gpu_memcpy": COPY, "gpu_memset": COMPUTE, "memcpy": COPY, "memset": COMPUTE}
RANGES = ("user_annotation", "operator", "cpu_op")
RECORD = "record with torch.profiler, or choose another file"


def timeline_of_torch(path, data, options):
    """The Timeline of an object with the key traceEvents that has no workers of gpipe-train."""
    gpu, operators, ranges, launched = [], [], [], {}
    for index, event in enumerate(data["traceEvents"]):
        if not isinstance(event, dict):
            raise BadInput(f"{path}: event {index + 1} is no object; {RECORD}")
        if event.get("ph") != "X" or not isinstance(event.get("cat"), str):
            continue
        category = event["cat"].lower()
        if category in GPU_KINDS:
            gpu.append((event, GPU_KINDS[category], *times(path, index, event)))
        elif category in RANGES:
            start, end = times(path, index, event)
            ranges.append((text(event.get("name")), start, end))
            if category != "user_annotation":
                operators.append((event, COMPUTE, start, end))
        elif category in ("cuda_runtime", "cuda_driver", "runtime"):
            launched[_correlation(event)] = times(path, index, event)[0]
    if not gpu and not operators:
        raise BadInput(f"{path}: has no instructions of gpipe-train, and no kernels, copies or operators of PyTorch's profiler; {RECORD}")
    windows = _windows(path, ranges, options.steps_by)
    spans, workers = _gpu_spans(gpu, launched) if gpu else _operator_spans(operators, {name for name, _, _ in windows.names})
    return _timeline(path, spans, workers, windows, options.steps_by)


class _Windows:
    """The ranges that are steps, sorted by start."""

    def __init__(self, names, numbers):
        self.names, self.numbers = names, numbers
        self.starts = [start for _, start, _ in names]

    def step_at(self, time):
        """The number of the step that contains a time; -1: none."""
        at = bisect.bisect_right(self.starts, time) - 1
        return self.numbers[at] if at >= 0 and time < self.names[at][2] else -1


def _windows(path, ranges, steps_by):
    if steps_by:
        pattern = re.compile(re.escape(steps_by) + r"[\s_#:=-]*\d{0,9}")
        found = sorted((it for it in ranges if pattern.fullmatch(it[0])), key=lambda it: it[1])
        if not found:
            names = sorted({it[0] for it in ranges})[:5]
            raise BadInput(f"{path}: has no range {steps_by}; its ranges are {', '.join(names) if names else 'none'}")
        ends = [re.search(r"\d+$", it[0]) for it in found]
        numbers = [int(match[0]) for match in ends if match]
        if len(numbers) < len(found) or any(a >= b for a, b in zip(numbers, numbers[1:])):
            numbers = list(range(1, len(found) + 1))
        return _Windows(found, numbers)
    found = {}
    for name, start, end in ranges:
        match = PROFILER_STEP.match(name)
        if match:
            old = found.get(int(match[1]))
            found[int(match[1])] = (name, min(start, old[1]), max(end, old[2])) if old else (name, start, end)
    order = sorted(found, key=lambda it: found[it][1])
    return _Windows([found[it] for it in order], order)


def _correlation(event):
    args = event.get("args")
    return whole(args.get("correlation", args.get("External id"))) if isinstance(args, dict) else -1


def _gpu_spans(events, launched):
    """Spans of the GPUs and their Workers."""
    devices, lanes = {}, {}
    for event, _, _, _ in events:
        devices.setdefault(_device(event), None)
    order = {device: index for index, device in enumerate(sorted(devices))}
    spans = []
    for event, kind, start, end in events:
        worker, stream = order[_device(event)], _stream(event)
        lane = lanes.setdefault(worker, {}).setdefault(stream, len(lanes[worker]))
        args = event["args"] if isinstance(event.get("args"), dict) else {}
        name = text(event.get("name"))
        correlation = _correlation(event)
        spans.append(Span(worker, kind_of_nccl(name) or kind, name, start, end, -1, lane, bytes=whole(args.get("bytes"), 0),
                          issued=launched.get(correlation) if correlation >= 0 else None, detail=name))
    workers = [Worker(f"cuda:{device}", (), tuple(f"stream {stream}" for stream in lanes[index]))
               for device, index in order.items()]
    return spans, workers


def _device(event):
    args = event.get("args")
    device = whole(args.get("device")) if isinstance(args, dict) else -1
    return device if device >= 0 else whole(event.get("pid"), 0)


def _stream(event):
    args = event.get("args")
    stream = args.get("stream") if isinstance(args, dict) else None
    return text(str(stream if stream is not None else event.get("tid")))[:20]


def _operator_spans(events, steps):
    """Outermost operators of each thread. Ranges that are steps are none."""
    events = sorted((it for it in events if text(it[0].get("name")) not in steps), key=lambda it: (it[2], -it[3]))
    spans, lanes, last = [], {}, {}
    for event, kind, start, end in events:
        lane = lanes.setdefault(text(str(event.get("tid")))[:20], len(lanes))
        if end <= last.get(lane, float("-inf")):
            continue
        last[lane] = end
        name = text(event.get("name"))
        spans.append(Span(0, kind, name, start, end, -1, lane, detail=name))
    return spans, [Worker("cpu", (), tuple(f"thread {thread}" for thread in lanes) or ("computes",))]


def _timeline(path, spans, workers, windows, steps_by):
    remarks = []
    for span in spans:
        span.step = windows.step_at(span.start if span.issued is None else span.issued)
    if not any(span.step >= 0 for span in spans):
        if steps_by:
            raise BadInput(f"{path}: no kernel, copy or operator lies in the range {steps_by}; name another range with --steps-by")
        remarks.append("No range of the capture names its steps, so all of it counts as one step; name such a range with --steps-by.")
        for span in spans:
            span.step = 1
    zero = min(span.start for span in spans)
    for span in spans:
        span.start, span.end = span.start - zero, span.end - zero
        span.issued = None if span.issued is None else span.issued - zero
    spans.sort(key=lambda span: span.start)
    steps = steps_of(path, spans)
    return Timeline(os.path.basename(path), "torch", workers, spans, steps, remarks=remarks)
