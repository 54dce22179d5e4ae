"""Which step an activity of an Nsight capture belongs to: by ranges that name steps, or by the gaps between iterations.

Ranges. An activity belongs to the step in whose range its thread issued it. A thread without such ranges (PyTorch's backward
thread) takes those of its process, a process without any takes those of the first process that has some.

Gaps. A gap is a time in which no GPU does anything. Sorted by length, the gaps between iterations stand out: after the shortest
of them the lengths drop by a factor, and so they do after the gaps between micro-batches. The rule tries these boundaries, the
longest gaps first: those with a drop of 4 or more, then those of 2 or more. It takes the first one that leaves three or more
steps with equally many activities (10 % around their median). A first or last step with another number is left out: it was cut
off, or warms up. If no boundary passes, two steps are enough. If none passes then, the whole capture is one step.
"""
import fnmatch
import re
from bisect import bisect_right

CLEAR_DROP, LEAST_DROP = 4.0, 2.0
REGULAR = 0.1
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
    """(start, end) of each iteration, and how many ragged ones at the ends were left out. `activities` by start."""
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
            found = _regular(starts, sorted(at for _, at in gaps[:count]), until)
            if found and len(found[0]) >= least:
                return found
    return [(starts[0], until)], 0


def _boundaries(lengths):
    """How many of the longest gaps to take: the numbers to try, in their order."""
    drops = [(k, lengths[k - 1] / (lengths[k] if k < len(lengths) else 1)) for k in range(1, len(lengths) + 1)]
    clear = [k for k, drop in drops if drop >= CLEAR_DROP]
    return clear[:MOST_BOUNDARIES] + [k for k, drop in drops if LEAST_DROP <= drop < CLEAR_DROP][:MOST_BOUNDARIES]


def _regular(starts, cuts, until):
    """The steps between the cuts if the inner ones are alike; None: they are not."""
    edges = [starts[0], *cuts, until]
    at = [bisect_right(starts, edge - 1) for edge in edges[:-1]] + [len(starts)]
    counts = [b - a for a, b in zip(at, at[1:])]
    inner = sorted(counts[1:-1] if len(counts) > 2 else counts)
    typical = inner[len(inner) // 2]
    if typical < 2 or any(abs(count - typical) > REGULAR * typical for count in inner):
        return None
    steps = list(zip(edges, edges[1:]))
    kept = [step for i, step in enumerate(steps)
            if 0 < i < len(steps) - 1 or abs(counts[i] - typical) <= REGULAR * typical]
    return kept, len(steps) - len(kept)
