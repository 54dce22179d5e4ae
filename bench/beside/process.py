"""Runs one row: its processes are watched from outside until they have trained long enough, and killed then.

Every program appends a line {"event": "step", "seconds": …} to a file after each step; metrics.jsonl of gpipe-train is such a file.
/proc gives what the processes have used: peak of resident memory, page faults, context switches, processor time.
"""
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

WARM_UP_STEPS, LEAST_STEPS = 2, 3
POLL = 0.1
TICK = os.sysconf("SC_CLK_TCK")


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class RowFailed(Exception):
    """The row cannot run here; the message says why."""


@dataclasses.dataclass
class Used:
    """What processes have used since they began."""
    steps: int = 0
    faults: int = 0
    switches: int = 0  # voluntary, of the threads that are still there
    user: float = 0  # seconds
    system: float = 0
    busy: float = 0  # seconds of all processors, by all programs
    steal: float = 0  # seconds that the hypervisor gave to other machines
    at: float = 0  # time, seconds


@dataclasses.dataclass
class Measured:
    step: float  # median, seconds
    steps: int
    peak: int  # bytes, all processes together
    faults: float  # this and the next three: for each step
    switches: float
    user: float
    system: float
    others: float  # share of the processors' time that other programs took
    steal: float  # share that the hypervisor gave to other machines


def status_number(path, label):
    for line in pathlib.Path(path).read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(label):
            return int(line.split()[1])
    return 0


def peak_of(pid):
    return 1024 * status_number(f"/proc/{pid}/status", "VmHWM:")


def processors_used(text):
    """Seconds of all processors from /proc/stat: busy, and taken by the hypervisor."""
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(field) / TICK for field in text.split("\n", 1)[0].split()[1:9])
    return user + nice + system + irq + softirq, steal


def used_by(pids, steps):
    used = Used(steps, at=time.monotonic())
    used.busy, used.steal = processors_used(pathlib.Path("/proc/stat").read_text(encoding="ascii"))
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        used.faults += int(fields[7])
        used.user += int(fields[11]) / TICK
        used.system += int(fields[12]) / TICK
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended
                used.switches += status_number(task / "status", "voluntary_ctxt_switches:")
    return used


def warm_up(seconds, wanted):
    """How many of the steps are warm-up: two at least, and a quarter of the time wanted. None if there are not yet so many."""
    total = 0.0
    for i, one in enumerate(seconds):
        total += one
        if i + 1 >= WARM_UP_STEPS and total >= wanted / 4:
            return i + 1
    return None


def enough(seconds, skipped, wanted):
    """Whether the steps after the warm-up take the time wanted, and are three at least."""
    rest = seconds[skipped:] if skipped else []
    return len(rest) >= LEAST_STEPS and sum(rest) >= wanted


class Steps:
    """The seconds of the steps in a file that a program is still writing."""

    def __init__(self, path):
        self.path, self.read, self.seconds = pathlib.Path(path), 0, []

    def update(self):
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.read)
            whole = file.read().rpartition(b"\n")[0]
        if whole:
            self.read += len(whole) + 1
            lines = [json.loads(line) for line in whole.splitlines() if line]
            self.seconds += [line["seconds"] for line in lines if line["event"] == "step"]


def descendants(pid):
    """Processes that this one has started, and so on."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text(encoding="ascii").split()):
                found += [child, *descendants(child)]
    return found


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Processes:
    """The processes of a row, each the leader of its own group. Leaving the block kills the groups.

    The end of this process kills the leaders.
    """

    def __init__(self, commands, environment):
        self.commands, self.environment = commands, {**os.environ, **environment}
        self.running, self.files = [], []

    def __enter__(self):
        try:
            for command in self.commands:
                self.files.append(tempfile.TemporaryFile())
                self.running.append(subprocess.Popen([str(word) for word in command], env=self.environment, stdin=subprocess.DEVNULL,
                                                     stdout=subprocess.DEVNULL, stderr=self.files[-1], start_new_session=True,
                                                     preexec_fn=die_with_parent))
        except OSError as why:
            self.__exit__()
            raise RowFailed(f"{self.commands[len(self.running)][0]}: {why.strerror}") from why
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        started = [pid for process in self.running for pid in descendants(process.pid)]  # not of the group: mpirun's
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.running:
            process.wait()
        for file in self.files:
            file.close()

    def pids(self):
        """With those that a launcher has started."""
        return [pid for process in self.running for pid in (process.pid, *descendants(process.pid))]

    def check(self):
        """Raises RowFailed if a process has ended: none ends by itself."""
        for process, file in zip(self.running, self.files):
            if process.poll() is not None:
                file.seek(0)
                lines = file.read().decode(errors="replace").strip().splitlines()
                raise RowFailed(lines[-1] if lines else f"{process.args[0]} ended with status {process.returncode}, without a message")


def measure(commands, environment, path, wanted, limit):
    """Runs `commands` until the program that writes `path` has trained for `wanted` seconds after its warm-up. Gives up after `limit`."""
    steps, begin, skipped = Steps(path), None, None
    end = time.monotonic() + limit
    with Processes(commands, environment) as processes:
        while True:
            time.sleep(POLL)
            processes.check()
            steps.update()
            try:
                now = used_by(processes.pids(), len(steps.seconds))
            except OSError:  # a process has just ended: check() says why
                continue
            skipped = skipped or warm_up(steps.seconds, wanted)
            begin = begin or (now if skipped else None)
            if enough(steps.seconds, skipped, wanted):
                return figures(steps.seconds[skipped:], begin, now, sum(peak_of(pid) for pid in processes.pids()))
            if time.monotonic() > end:
                raise RowFailed(f"only {len(steps.seconds)} steps within {limit:.0f} seconds")


def figures(seconds, begin, end, peak):
    between = max(end.steps - begin.steps, 1)
    each = {name: (getattr(end, name) - getattr(begin, name)) / between for name in ("faults", "switches", "user", "system")}
    own, whole = (each["user"] + each["system"]) * between, max(end.at - begin.at, POLL) * os.cpu_count()
    return Measured(statistics.median(seconds), len(seconds), peak, **each, others=max(end.busy - begin.busy - own, 0) / whole,
                    steal=(end.steal - begin.steal) / whole)


def peak_after(commands, environment, path, count, limit):
    """Peak resident bytes of the processes after `count` steps."""
    steps, end = Steps(path), time.monotonic() + limit
    with Processes(commands, environment) as processes:
        while len(steps.seconds) < count:
            time.sleep(POLL)
            processes.check()
            steps.update()
            if time.monotonic() > end:
                raise RowFailed(f"only {len(steps.seconds)} steps within {limit:.0f} seconds")
        return sum(peak_of(pid) for pid in processes.pids())
