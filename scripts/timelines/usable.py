"""Which events of a capture have a time that can be. One lost time would make a step last for days.

The capture is the largest group of events that begin without a pause of an hour between them, and other groups with at least a tenth as
many. Events with one start count once there: lost times are often equal. An event that begins or ends further from the capture than an
hour, and than 100 times its length, has lost its time. Readers leave such events out, and a remark counts them.
"""
from statistics import median_low

TIMES_AS_LONG = 100
GROUP_SHARE, LEAST_GROUP = 0.1, 3  # of a further group: starts as a share of the largest group's, and in all
MOST_OVERLAPS = 10  # of a span, in the mean over a queue
MOST_MISPLACED = 0.1  # of the spans may be taken out to bring the steps into order


class LeftOut:
    """Counts the events that are left out, and remembers the first one."""

    def __init__(self):
        self.count, self.first = 0, ""

    def add(self, name, why):
        self.count += 1
        self.first = self.first or f"{name}: {why}"

    def remark(self, total, events):
        """What a report says; `events` names what there are `total` of."""
        return (f"{self.count} of {total} {events} ha{'s' if self.count == 1 else 've'} no usable time, "
                f"and {'is' if self.count == 1 else 'are'} left out; the first is {self.first}.")


class Limits:
    """Where the events of a capture with these starts can be. `hour` is in the unit of the times."""

    def __init__(self, starts, hour):
        times = sorted(set(starts))
        groups, first = [], 0
        for at in range(len(times)):
            if at + 1 == len(times) or times[at + 1] - times[at] > hour:
                groups.append((at - first + 1, times[first], times[at]))
                first = at + 1
        most = max(groups, default=None)
        self.bounds = []
        for count, start, end in groups:
            if (count, start, end) == most or count >= max(LEAST_GROUP, GROUP_SHARE * most[0]):
                far = max(hour, TIMES_AS_LONG * (end - start))
                self.bounds.append((start - far, end + far))

    def has_start(self, time):
        """Whether an event can begin at the time."""
        return any(first <= time <= last for first, last in self.bounds)

    def has(self, start, end):
        """Whether an event can begin and end at these times."""
        return any(first <= start and end <= last for first, last in self.bounds)


def overlong(spans):
    """The index of each span of a stream that lasts while two later ones begin and longer than all other spans together: a stream runs
    one thing after another. `spans`: (start, end, launch), sorted by start. Spans of one launch, a graph, may run side by side."""
    found, rest = [], sum(end - start for start, end, _ in spans)
    for index in sorted(range(len(spans)), key=lambda it: spans[it][0] - spans[it][1]):
        start, end, launch = spans[index]
        rest -= end - start
        if end - start <= rest or index + 2 >= len(spans):
            break
        inside = 0
        for other in spans[index + 1:]:
            if other[0] >= end or inside == 2:
                break
            inside += launch is None or other[2] != launch
        if inside < 2:
            break
        found.append(index)
    return found


def intruders(spans, jitter):
    """The spans of a queue that overlap two or more others, the worst ones first until none is left. `spans`: sorted by start;
    `jitter(time)`: how far spans may overlap there.

    A span that overlaps only one other is no intruder: either of them may be wrong.
    """
    beside, active, pairs = [set() for _ in spans], [], 0
    for index, span in enumerate(spans):
        active = [it for it in active if spans[it].end - jitter(spans[it].end) > span.start]
        for it in active:
            beside[it].add(index)
            beside[index].add(it)
        pairs += len(active)
        if pairs > MOST_OVERLAPS * len(spans):
            return []  # the clock jumped: most spans overlap
        active.append(index)
    found = []
    while True:
        worst = max(range(len(spans)), key=lambda it: len(beside[it]))
        if len(beside[worst]) < 2:
            return found
        for it in beside[worst]:
            beside[it].discard(worst)
        beside[worst].clear()
        found.append(spans[worst])


def misplaced(spans):
    """The spans that must be left out so that steps begin in the order of their numbers: those that begin before the middle of the step
    before theirs. None if the middles are out of order, too, or if these are many."""
    starts = {}
    for span in spans:
        if span.step >= 0:
            starts.setdefault(span.step, []).append(span.start)
    numbers = sorted(starts)
    if sorted(numbers, key=lambda number: (min(starts[number]), number)) == numbers:
        return []
    middles = [median_low(starts[number]) for number in numbers]
    if any(a > b for a, b in zip(middles, middles[1:])):
        return []
    before = dict(zip(numbers[1:], middles))
    found = [span for span in spans if span.step >= 0 and span.start < before.get(span.step, span.start)]
    return found if len(found) <= MOST_MISPLACED * len(spans) else []
