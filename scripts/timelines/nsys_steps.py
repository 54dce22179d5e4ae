"""Which step an activity of an Nsight capture belongs to: by ranges that name steps, or by the gaps between iterations.

Ranges. An activity belongs to the step in whose range its thread issued it. A thread without such ranges (PyTorch's backward
thread) takes those of its process, a process without any takes those of the first process that has some.

Gaps. A gap is a time in which no GPU does anything. Sorted by length, the gaps between iterations stand out: after the shortest
of them the lengths drop by a factor, and so they do after the gaps between micro-batches. The rule tries these boundaries, the
longest gaps first: those with a drop of 4 or more, then those of 2 or more. It takes the first one that leaves three or more alike
steps. They have equally many activities (10 % around their median) of the same names (four fifths of them), and at most three times
and at least a third of the median's busy time; NCCL's kernels do not count there, since they wait for other GPUs. A first or last step
that is not like the others is left out: it was cut off, or warms up. If no boundary passes, two steps are enough. If none passes then,
or if steps would leave out a quarter of the time in which the GPUs are busy, the whole capture is one step.

One iteration has layers that are like one another, too. If all copies to the device come before the second step, and all copies to the
host after the last one but one, the steps are parts of one iteration.
"""
import fnmatch
import re
from bisect import bisect_right
from collections import Counter

from .nsys_tables import COPY, TO_DEVICE, TO_HOST
from .timeline import kind_of_nccl

CLEAR_DROP, LEAST_DROP = 4.0, 2.0
REGULAR = 0.1
ALIKE = 0.8  # of an iteration's activities have the names of another one's
TIMES_AS_BUSY = 3  # at most, as another iteration
MOST_OUTSIDE = 0.25  # of the busy time: if so much or more lies outside the steps, all is one step
MOST_BOUNDARIES = 50  # that are tried


def matcher(pattern):
    """Whether a range's name is the pattern, or the pattern and a number ("iteration" accepts "iteration_7"), or fits its
    wildcards."""
    if any(c in pattern for c in "*?["):
        return lambda name: fnmatch.fnmatchcase(name, pattern)
    numbered = re.compile(re.escape(pattern) + r"[\s_#:=-]*\d*$")
    return lambda name: bool(numbered.match(name))


class ByRanges:
    """Steps from NVTX ranges. `ranges` are in the order of their start."""

    def __init__(self, ranges):
        self.incomplete = set()
        threads = {}
        for it in ranges:
            mine = threads.setdefault(it.tid, [])
            if mine and mine[-1].end is not None and it.start < mine[-1].end:
                continue  # inside the one before: the outer one is the step
            mine.append(it)
        self.threads = {tid: _Numbered(mine, self.incomplete) for tid, mine in threads.items()}
        self.processes = {}
        for tid, mine in self.threads.items():
            kept = self.processes.get(tid >> 24)
            if kept is None or len(mine.starts) > len(kept.starts):
                self.processes[tid >> 24] = mine
        self.first = next(iter(self.processes.values()), None)

    def require(self, tids):
        """Steps that one of these threads does not have from beginning to end are incomplete."""
        seen = [set(self.threads[tid].numbers) if tid in self.threads else set() for tid in tids]
        if seen:
            self.incomplete |= set.union(*seen) - set.intersection(*seen)

    def step(self, tid, issued):
        """The step's number; -1: none."""
        mine = self.threads.get(tid) or self.processes.get(tid >> 24) or self.first
        number = mine.at(issued)
        return -1 if number in self.incomplete else number


class _Numbered:
    """The step ranges of one thread with their numbers: those in the names, or counted from 1."""

    def __init__(self, ranges, incomplete):
        self.starts = [it.start for it in ranges]
        self.ends = [it.end for it in ranges]
        found = [re.search(r"(?<!\d)\d{1,18}$", it.name) for it in ranges]
        numbers = [int(match[0]) if match else None for match in found]
        if None in numbers or any(a >= b for a, b in zip(numbers, numbers[1:])):
            numbers = list(range(1, len(ranges) + 1))
        self.numbers = numbers
        incomplete.update(number for number, end in zip(numbers, self.ends) if end is None)

    def at(self, time):
        i = bisect_right(self.starts, time) - 1
        if i < 0 or (self.ends[i] is not None and time > self.ends[i]):
            return -1
        return self.numbers[i]


def by_gaps(activities):
    """(start, end) of each iteration, how many ragged ones at the ends were left out, and the share of the activities' time that lies
    outside of the iterations found. From MOST_OUTSIDE on, all is one step. `activities` by start."""
    starts = [it.start for it in activities]
    gaps, until = [], activities[0].end
    for it in activities:
        if it.start > until:
            gaps.append((it.start - until, it.start))
        until = max(until, it.end)
    gaps.sort(reverse=True)
    boundaries = _boundaries([length for length, _ in gaps])
    for least in (3, 2):
        for count in boundaries:
            found = _regular(activities, starts, sorted(at for _, at in gaps[:count]), until)
            if found and len(found[0]) >= least and not _is_one_iteration(activities, found[0]):
                outside = _outside(activities, found[0])
                return (*found, outside) if outside < MOST_OUTSIDE else ([(starts[0], until)], 0, outside)
    return [(starts[0], until)], 0, 0.0


def _is_one_iteration(activities, steps):
    """Whether data come to the device before the second step only, and back to the host from the last one on."""
    to_device = [it.start for it in activities if it.what == COPY and it.copy_kind == TO_DEVICE]
    to_host = [it.start for it in activities if it.what == COPY and it.copy_kind == TO_HOST]
    return bool(to_device and to_host) and max(to_device) < steps[0][1] and min(to_host) >= steps[-1][0]


def _outside(activities, steps):
    """The share of the activities' time that belongs to no step."""
    starts = [start for start, _ in steps]
    busy = inside = 0
    for it in activities:
        at = bisect_right(starts, it.start) - 1
        busy += it.end - it.start
        inside += it.end - it.start if at >= 0 and it.start < max(steps[at][1], steps[at][0] + 1) else 0
    return 1 - inside / busy if busy else 0.0


def _boundaries(lengths):
    """How many of the longest gaps to take: the numbers to try, in their order."""
    drops = [(k, lengths[k - 1] / (lengths[k] if k < len(lengths) else 1)) for k in range(1, len(lengths) + 1)]
    clear = [k for k, drop in drops if drop >= CLEAR_DROP]
    return clear[:MOST_BOUNDARIES] + [k for k, drop in drops if LEAST_DROP <= drop < CLEAR_DROP][:MOST_BOUNDARIES]


def _regular(activities, starts, cuts, until):
    """The steps between the cuts if the inner ones are alike, and how many at the ends are not; None: the inner ones are not."""
    edges = [starts[0], *cuts, until]
    at = [bisect_right(starts, edge - 1) for edge in edges[:-1]] + [len(starts)]
    inner = list(range(1, len(cuts))) or list(range(len(cuts) + 1))
    typical = sorted(inner, key=lambda i: at[i + 1] - at[i])[len(inner) // 2]
    count = at[typical + 1] - at[typical]
    names = Counter((it.what, it.name) for it in activities[at[typical]:at[typical + 1]])

    def busy(i):
        return sum(it.end - it.start for it in activities[at[i]:at[i + 1]] if not kind_of_nccl(it.name))
    typical_busy = busy(typical)

    def is_alike(i):
        size = at[i + 1] - at[i]
        if abs(size - count) > REGULAR * count:
            return False
        if not typical_busy <= TIMES_AS_BUSY * busy(i) <= TIMES_AS_BUSY**2 * typical_busy:
            return False
        common = names & Counter((it.what, it.name) for it in activities[at[i]:at[i + 1]])
        return sum(common.values()) >= ALIKE * max(size, count)

    if count < 2 or not all(is_alike(i) for i in inner):
        return None
    steps = list(zip(edges, edges[1:]))
    kept = [step for i, step in enumerate(steps) if 0 < i < len(steps) - 1 or is_alike(i)]
    return kept, len(steps) - len(kept)
