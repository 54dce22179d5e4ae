"""What a timeline is, whatever recorded or planned it: workers, spans, steps.

Readers (read_trace, read_plan, read_nsys) make a Timeline from a file; figures, attribution, tables and pages use nothing else.
Times are milliseconds from the timeline's zero, as floats; durations likewise.
"""
import re
import sys
from dataclasses import dataclass, field

# Kinds of spans. Waiting has no spans: it is the time in which a worker has none.
COMPUTE = "compute"
COPY = "copy"
COLLECTIVE = "collective"  # all-reduces, barriers of a communicator
KINDS = (COMPUTE, COPY, COLLECTIVE)

# An instruction by its name, "F s1 m3": operation, stage, micro-batch.
INSTRUCTION = re.compile(r"(load|F|R|B|I|W|send|recv|post|collect|norm|clip|total|reduce|update|step) s(\d{1,6})(?: m(\d{1,6}))?(?: [ec]\d+)?$")

# Where idle time goes: the keys of the contract, in the order of the tables.
IDLE_KEYS = ("earlier_stage", "later_stage", "copy", "collective", "imbalance", "launch", "data")


SLOTS = {"slots": True} if sys.version_info >= (3, 10) else {}  # less memory for what there are many of


class BadInput(Exception):
    """A file or an option that cannot be used. The text is one sentence with the file, the cause, and what to do."""


@dataclass
class Worker:
    name: str  # "cpu:0", "cuda:1"; unique in a timeline
    stages: tuple = ()  # stages that it has; empty: not known
    lanes: tuple = ("computes",)  # what runs side by side on it, for the tracks of a page
    process: int = 0  # of the run, that has it


@dataclass(**SLOTS)
class Span:
    """Something that a worker did. Several spans may belong to one instruction: the kernels of a forward pass."""

    worker: int  # index in Timeline.workers
    kind: str  # one of KINDS
    name: str  # the instruction, "F s1 m3"; where there is none: of a kernel or a copy
    start: float
    end: float
    step: int = -1  # Step.number; -1: in none
    lane: int = 0  # index in Worker.lanes
    op: str = ""  # of the instruction: load F R B I W send recv norm clip total reduce step; "": not known
    stage: int = -1
    micro: int = -1  # micro-batch
    program: int = -1  # index in the plan's programs
    pc: int = -1  # index in the worker's program
    bytes: int = 0
    issued: float = None  # when the host issued it; None: not known
    detail: str = ""  # the kernel's name, what a copy carries


@dataclass(**SLOTS)
class LayerSpan:
    """The part of an instruction that computes one layer. Not counted as busy: the instruction is."""

    worker: int
    layer: str
    op: str
    start: float
    end: float
    step: int = -1
    stage: int = -1
    micro: int = -1


@dataclass(**SLOTS)
class Step:
    """From the first to the last activity of any worker in one training step."""

    number: int  # as the program counts them
    start: float
    end: float


@dataclass
class Plan:
    """A plan as JSON (docs/timelines.md, "The plan as JSON")."""

    data: dict

    @property
    def identity(self):
        return str(self.data.get("identity", ""))

    def program(self, index):
        programs = self.data.get("programs", [])
        return programs[index] if 0 <= index < len(programs) else None

    def instructions(self, program, worker):
        """The instructions of one worker; their index is the pc."""
        it = self.program(program)
        return it["workers"][worker].get("instructions", []) if it and worker < len(it["workers"]) else []


@dataclass
class Timeline:
    name: str  # what tables call it: the file's name
    source: str  # "trace", "plan", "simulation", "nsys"
    workers: list
    spans: list  # sorted by start
    steps: list  # of training, sorted by start; spans of evaluations have step -1
    waiting_for_data: list = field(default_factory=list)  # (start, end): the trainer had no mini-batch
    layers: list = field(default_factory=list)  # LayerSpan
    memory: dict = field(default_factory=dict)  # worker -> [(time, bytes alive from then on)]
    plan: Plan = None  # what the run was planned to do; of a plan, itself
    remarks: list = field(default_factory=list)  # sentences about what the file could not say
    said_first: str = ""  # the one of them without which the figures mislead: it comes before the sentence on top; "": none


def kind_of_nccl(name):
    """The kind of a kernel of NCCL, by its name: sends and receives are copies. None: it is another kernel."""
    name = name.lower()
    if "nccl" not in name:
        return None
    return COPY if "sendrecv" in name.replace("_", "") else COLLECTIVE


def union(intervals):
    """Disjoint intervals, sorted, that cover what the given (start, end) cover."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        elif end > start:
            merged.append((start, end))
    return merged


def length(intervals):
    """What disjoint intervals cover."""
    return sum(end - start for start, end in intervals)


def without(intervals, taken):
    """Disjoint sorted `intervals` less disjoint sorted `taken`."""
    rest, at = [], 0
    for start, end in intervals:
        while at < len(taken) and taken[at][1] <= start:
            at += 1
        i = at
        while i < len(taken) and taken[i][0] < end:
            if taken[i][0] > start:
                rest.append((start, taken[i][0]))
            start = max(start, taken[i][1])
            i += 1
        if start < end:
            rest.append((start, end))
    return rest
