"""Reads run folders of gpipe-train: metrics.jsonl, config.yaml, plan.json.

A run may be over, interrupted, resumed or still going, and its file may end within a line. Lines that cannot be used are skipped,
and a remark says which.
"""
import json
import math
import os
import re
import stat
import sys
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from .run_config import read_config
from .timeline import BadInput

METRICS = "metrics.jsonl"
INDEX = "model.safetensors.index.json"
LONGEST_LINE = 1 << 20  # bytes
MOST_REMARKS = 5  # of one kind
NUMBERS = ("loss", "accuracy", "lr", "grad_norm", "samples", "seconds", "data_seconds", "time")
NOT_FINITE = {"loss": "loss", "grad_norm": "norm of the gradients"}
NAN, LARGEST = math.nan, sys.float_info.max
_SNAPSHOT = re.compile(r"step-([0-9]{1,18})(\.safetensors)?$", re.ASCII)
DECODER = json.JSONDecoder()


@dataclass
class Run:
    """One run folder. `columns` has one array per key, as long as `steps`; NaN: absent or not finite."""

    path: str
    name: str
    steps: array = field(default_factory=lambda: array("q"))
    epochs: array = field(default_factory=lambda: array("q"))
    columns: dict = field(default_factory=lambda: {key: array("d") for key in NUMBERS})
    evaluations: list = field(default_factory=list)  # dicts of step, epoch, loss, accuracy, time
    starts: list = field(default_factory=list)  # events "start" and "resume"
    ends: list = field(default_factory=list)
    events: list = field(default_factory=list)  # dicts of kind, step, time, text
    snapshots: list = field(default_factory=list)  # steps
    planned_steps: int = None  # of the whole run, as the last start, resume or change says
    status: str = "no end"  # done, interrupted, failed, running, no end
    config: dict = None  # key path -> value as text; None: it cannot be read
    config_text: str = ""
    plan_path: str = None
    remarks: list = field(default_factory=list)

    @property
    def about(self):
        """What the last start or resume says of the run."""
        return self.starts[-1] if self.starts else {}

    @property
    def account(self):
        """The report at the end of the run, or None."""
        account = self.ends[-1].get("account") if self.ends else None
        return account if isinstance(account, dict) else None

    def samples_per_second(self):
        """Of each step: its samples by its time, with the wait for data before it."""
        columns = self.columns
        values = array("d")
        for samples, seconds, data in zip(columns["samples"], columns["seconds"], columns["data_seconds"]):
            whole = seconds + (data if data == data else 0)
            values.append(samples / whole if whole > 0 else NAN)
        return values


def number(value):
    """A float; NaN for null, for what is no number, and for numbers that are not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NAN
    try:
        value = float(value)
    except OverflowError:
        return NAN
    return value if math.isfinite(value) else NAN


def is_count(value):
    """A whole number from 0 to 2^53."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1 << 53


class _Reader:
    def __init__(self, run, file_name):
        self.run, self.file_name, self.line = run, file_name, 0
        self.told, self.untimed, self.went_back = {}, False, 0
        self.last_time = 0.0
        self.values = [(key, column) for key, column in run.columns.items() if key != "time"]

    def remark(self, kind, text):
        self.told[kind] = self.told.get(kind, 0) + 1
        if self.told[kind] <= MOST_REMARKS:
            self.run.remarks.append(text)

    def skip(self, why):
        self.remark("skipped", "%s:%d: %s; the line is skipped" % (self.file_name, self.line, why))

    def take(self, text):
        """One whole line. Returns whether it was an event."""
        try:
            event = DECODER.decode(str(text, "utf-8"))
        except (ValueError, RecursionError):
            self.skip("is not JSON")
            return False
        kind = event.get("event") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            self.skip("is JSON, but no event of a run")
            return False
        take = {"step": self.step, "eval": self.evaluation, "start": self.start, "resume": self.start, "change": self.change,
                "end": self.end}.get(kind)
        if take is None:
            self.skip("the event %s is not known" % json.dumps(kind[:40]))
            return False
        return take(event)

    def at_step(self, event):
        if not is_count(event.get("step")):
            self.skip('"step" is no whole number from 0')
            return None
        return event["step"]

    def time(self, event):
        """NaN and a note when the event has no time, or one before the last."""
        time = number(event.get("time"))
        if not time >= self.last_time:
            self.untimed = True
            return NAN
        self.last_time = time
        return time

    def step(self, event):
        run, step = self.run, self.at_step(event)
        if step is None:
            return False
        if run.steps and step <= run.steps[-1]:
            self.go_back(step)
        run.steps.append(step)
        epoch = event.get("epoch")
        run.epochs.append(epoch if is_count(epoch) else 0)
        for key, column in self.values:
            value = event.get(key)
            column.append(value if type(value) is float and -LARGEST < value < LARGEST else number(value))
        run.columns["time"].append(self.time(event))
        for key, words in NOT_FINITE.items():
            if key in event and math.isnan(run.columns[key][-1]):
                run.events.append({"kind": "not finite", "step": step, "time": run.columns["time"][-1],
                                   "text": "the %s is not finite" % words})
        return True

    def go_back(self, step):
        """The file repeats steps: those from `step` on count as their last lines say, as after a resume."""
        run, keep = self.run, bisect_left(self.run.steps, step)
        self.went_back += len(run.steps) - keep
        self.remark("back", "%s:%d: step %d comes after step %d; the earlier lines of these steps are left out" %
                    (self.file_name, self.line, step, run.steps[-1]))
        for column in (run.steps, run.epochs, *run.columns.values()):
            del column[keep:]
        run.evaluations = [one for one in run.evaluations if one["step"] < step]
        run.events = [one for one in run.events if one["step"] < step or one["kind"] == "resume"]

    def evaluation(self, event):
        step = self.at_step(event)
        if step is None:
            return False
        epoch = event.get("epoch")
        one = {"step": step, "epoch": epoch if is_count(epoch) else 0, "loss": number(event.get("loss")),
               "accuracy": number(event.get("accuracy")), "seconds": number(event.get("seconds")), "time": self.time(event)}
        self.run.evaluations.append(one)
        if math.isnan(one["loss"]):
            self.note("not finite", step, one["time"], "the loss of the evaluation is not finite")
        return True

    def note(self, kind, step, time, text):
        self.run.events.append({"kind": kind, "step": step, "time": time, "text": text})

    def start(self, event):
        run, resumed = self.run, event["event"] == "resume"
        step = event.get("step", 0) if resumed else 0
        step = step if is_count(step) else (run.steps[-1] if run.steps else 0)
        run.starts.append(event)
        run.planned_steps = event["steps"] if is_count(event.get("steps")) else None
        run.status = "no end"
        time = self.time(event)
        if resumed:
            self.note("resume", step, time, "resumed after step %d" % step)
            self.changes(event, step, time)
        return True

    def change(self, event):
        step = self.at_step(event)
        if step is None:
            return False
        if is_count(event.get("steps")):
            self.run.planned_steps = event["steps"]
        self.changes(event, step, self.time(event))
        return True

    def changes(self, event, step, time):
        changes = event.get("changes")
        if isinstance(changes, dict) and changes:
            text = ", ".join("%s: %s" % (key, value if isinstance(value, str) else json.dumps(value))
                             for key, value in changes.items())
            self.note("change", step, time, text)

    def end(self, event):
        run = self.run
        run.ends.append(event)
        status = event.get("status")
        run.status = status if status in ("done", "interrupted", "failed") else "no end"
        step = event.get("steps")
        step = step if is_count(step) else (run.steps[-1] if run.steps else 0)
        self.note("end", step, self.time(event), str(status))
        return True


def _read_lines(run, path, reader):
    """Every line of metrics.jsonl; returns how many were events."""
    found = 0
    with open(path, "rb") as file:
        while True:
            line = file.readline(LONGEST_LINE)
            if not line:
                return found
            reader.line += 1
            whole = line.endswith(b"\n")
            if not whole and len(line) == LONGEST_LINE:
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
                reader.skip("is longer than 1 MiB")
            elif not line.strip():
                continue
            elif whole or _is_json(line):
                found += reader.take(line)
            else:
                run.remarks.append("%s:%d: the last line is cut off: the run writes it now, or was killed while it did" %
                                   (reader.file_name, reader.line))


def _is_json(line):
    try:
        DECODER.decode(str(line, "utf-8"))
        return True
    except (ValueError, RecursionError):
        return False


def _count_time(run):
    """The time of each line, if some line has none: the steps' own seconds and waits, and the evaluations' seconds, added up."""
    columns, total, at = run.columns, 0.0, 0
    waiting = [one for one in run.evaluations if not math.isnan(one["seconds"])]
    ends = []
    for index, step in enumerate(run.steps):
        while at < len(waiting) and waiting[at]["step"] < step:
            total += waiting[at]["seconds"]
            at += 1
        for key in ("seconds", "data_seconds"):
            value = columns[key][index]
            total += value if value > 0 else 0
        columns["time"][index] = total
        ends.append(total)
    for one in run.evaluations + run.events:
        at = bisect_left(run.steps, one["step"] + 1) - 1
        one["time"] = ends[at] if at >= 0 else 0.0


def _holder(folder):
    """Whether a process holds the lock of a run on this folder (/proc/locks); False if that cannot be known."""
    try:
        about = os.stat(folder)
        wanted = "%02x:%02x:%d" % (os.major(about.st_dev), os.minor(about.st_dev), about.st_ino)
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            return any(" FLOCK " in line and wanted in line.split() for line in file)
    except OSError:
        return False


def _find_snapshots(run, path):
    try:
        names = os.listdir(os.path.join(path, "snapshots"))
    except OSError:
        return
    for name in names:
        match = _SNAPSHOT.match(name)
        # Several processes write a folder, which its index makes whole.
        if match and (match[2] or os.path.isfile(os.path.join(path, "snapshots", name, INDEX))):
            run.snapshots.append(int(match[1]))
    run.snapshots.sort()
    for step in run.snapshots:
        at = bisect_left(run.steps, step)
        if at < len(run.steps) and run.steps[at] == step:
            run.events.append({"kind": "snapshot", "step": step, "time": run.columns["time"][at], "text": "snapshot"})


def _read_configuration(run, path):
    config = os.path.join(path, "config.yaml")
    try:
        if not stat.S_ISREG(os.stat(config).st_mode):  # a pipe would block
            run.remarks.append("%s: is not a regular file; the configuration is not compared" % config)
            return
        with open(config, "rb") as file:
            run.config_text = file.read(1 << 24).decode("utf-8", "replace")
    except OSError as problem:
        run.remarks.append("%s: cannot be read: %s; the configuration is not compared" % (config, problem.strerror))
        return
    run.config = read_config(run.config_text)
    if run.config is None:
        run.remarks.append("%s: is not as gpipe-train writes it; it is compared line by line" % config)


def check_folder(path):
    """Refuses what is no run folder; returns the path of its metrics."""
    metrics = os.path.join(path, METRICS)
    try:
        about = os.stat(path)
        if not stat.S_ISDIR(about.st_mode):
            raise BadInput("%s: is a file, not a run folder: name the folder, as -o of gpipe-train does" % path)
        file = os.stat(metrics)
    except FileNotFoundError:
        if os.path.isdir(path):
            raise BadInput("%s: is no run folder: it has no %s; name a folder that gpipe-train -o wrote" %
                           (path, METRICS)) from None
        raise BadInput("%s: no such folder: name a folder that gpipe-train -o wrote" % path) from None
    except (OSError, ValueError) as problem:
        raise BadInput("%s: cannot be read: %s; name a folder that gpipe-train -o wrote" %
                       (path, getattr(problem, "strerror", None) or "its name is not valid")) from None
    if not stat.S_ISREG(file.st_mode):
        raise BadInput("%s: is not a regular file: name a folder that gpipe-train -o wrote" % metrics)
    if file.st_size == 0:
        raise BadInput("%s: is empty: the run has not begun yet; try again after its first step" % metrics)
    return metrics


def read_run(path, name=None):
    """The run in a folder. Raises BadInput if there is none."""
    metrics = check_folder(path)
    run = Run(path, name or os.path.basename(os.path.realpath(path)))
    reader = _Reader(run, metrics)
    try:
        found = _read_lines(run, metrics, reader)
    except OSError as problem:
        raise BadInput("%s: cannot be read: %s; check who may read it" % (metrics, problem.strerror)) from None
    if found == 0:
        raise BadInput("%s: none of its %d lines is an event of a run: name a folder that gpipe-train -o wrote" %
                       (metrics, reader.line))
    for kind, count in reader.told.items():
        if count > MOST_REMARKS:
            run.remarks.append("%s: %d more lines %s" % (
                metrics, count - MOST_REMARKS, "are skipped" if kind == "skipped" else "repeat steps"))
    if reader.untimed:
        _count_time(run)
        run.remarks.append("%s: not every line has a time, so the time is the sum of the steps' and evaluations' seconds" %
                           metrics)
    if run.status == "no end" and _holder(path):
        run.status = "running"
    if not run.steps and not run.evaluations:
        run.remarks.append("%s: the run has no step and no evaluation yet" % metrics)
    _find_snapshots(run, path)
    run.events.sort(key=lambda one: one["step"])
    _read_configuration(run, path)
    plan = os.path.join(path, "plan.json")
    run.plan_path = plan if os.path.isfile(plan) else None
    return run
