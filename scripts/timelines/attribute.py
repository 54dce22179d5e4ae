"""Where the time of each worker goes in a step, and what it waited for while it was idle. docs/idle-time.md defines it.

The walk: an idle interval ends with the worker's next activity. What that activity waited for last, and what that one waited
for, and so on, is a path back through time. Each moment of the idle interval lies on one place of the path, and has its cause.
"""
import bisect
from dataclasses import dataclass, field

from . import replay
from .depend import Graphs, NoOrder, kind_of
from .timeline import COLLECTIVE, COMPUTE, COPY, IDLE_KEYS, length, union, without

EARLIER, LATER, COPYING, TOGETHER, IMBALANCE, LAUNCH, DATA = IDLE_KEYS
STAGES = (EARLIER, LATER)
MOVABLE = (EARLIER, LATER, TOGETHER)  # what imbalance may be a part of


@dataclass
class WorkerShare:
    """One worker's step [ms]: busy + copy_exposed + idle is the length of the step; idle_by adds up to idle."""

    busy: float = 0.0
    copy: float = 0.0
    copy_exposed: float = 0.0
    idle: float = 0.0
    idle_by: dict = field(default_factory=lambda: dict.fromkeys(IDLE_KEYS, 0.0))


def attribute(timeline, graphs=None):
    """{step number: [WorkerShare per worker]}. `graphs`: those of the timeline if they exist already."""
    graphs = graphs or Graphs(timeline)
    data = union(timeline.waiting_for_data)
    return {step.number: _Step(timeline, graphs, step, data).shares() for step in timeline.steps}


def between(timeline):
    """{step number: {"ms", "data", "launch"}} of the gap from the end of the step to the start of the next one."""
    data = union(timeline.waiting_for_data)
    result = {}
    for step, after in zip(timeline.steps, timeline.steps[1:]):
        if after.number != step.number + 1:
            continue
        gap = [(step.end, after.start)] if after.start > step.end else []
        rest = length(without(gap, data))
        result[step.number] = {"ms": length(gap), "data": length(gap) - rest, "launch": rest}
    return result


def schedule_bubble(timeline, graphs=None):
    """{step number: bubble that the schedule alone would have}: all stages equally long, copies free, nothing else.

    Steps without names are left out. `graphs` as in attribute().
    """
    graphs = graphs or Graphs(timeline)
    result = {}
    for step in timeline.steps:
        graph = _graph_of(graphs, step)
        if graph:
            durations = replay.durations_of(graph, *replay.times_of(graph, timeline.spans))
            ideal = replay.play(graph, replay.free_copies(graph, replay.equal(graph, durations)))
            result[step.number] = replay.bubble(graph, *ideal, len(timeline.workers))
    return result


def _graph_of(graphs, step):
    try:
        return graphs.of(step.number)
    except NoOrder:  # the plan's instructions wait in a circle: it is the plan of no run
        return None


# ---- the walk ---------------------------------------------------------------------------------------------------------

class Walk:
    """The nodes of a step with their times, measured or played. `add(key, start, end)` gets each piece of idle time."""

    def __init__(self, graph, starts, ends, gap, issued=None):
        self.graph, self.starts, self.ends = graph, starts, ends
        self.gap = gap  # (add, node, from, to): divides time in which a node's inputs were ready and it had not started
        self.issued = issued or (lambda i: None)
        self.end = max(range(len(ends)), key=ends.__getitem__, default=-1)  # the node that ends the step

    def last(self, i, until):
        """What node i waited for: (end, node) of the last one to end, and when the last barrier opened; both at most `until`.
        A barrier itself is passed over: what its own worker did before it counts as what node i waited for."""
        nodes, node = self.graph.nodes, self.graph.nodes[i]
        best, by, met = float("-inf"), -1, float("-inf")
        found, meets, at = list(node.waits), list(node.meets), node.before
        while at >= 0 and nodes[at].op == "barrier":
            found += nodes[at].waits
            meets += nodes[at].meets
            at = nodes[at].before
        found += [j for j in (at, node.pulled) if j >= 0]
        for j in (self._posting(j, until) for j in found):
            if self.starts[j] <= until and min(self.ends[j], until) > best:
                best, by = min(self.ends[j], until), j
        for j in meets:
            if self.starts[j] <= until:
                met = max(met, min(self.ends[j], until))
        return best, by, met

    def _posting(self, i, until):
        """In the place of a post that stands after `until`: the backward pass that posted early, within it."""
        nodes = self.graph.nodes
        while nodes[i].op == "post" and self.starts[i] > until and nodes[i].before >= 0:
            i = nodes[i].before
        return i

    def explain(self, add, own, i, start, end):
        """Divides the idle time from start to end of worker `own`, which ends as node i starts."""
        at, direction = end, None
        for _ in range(2 * len(self.graph.nodes) + 1):
            ended, by, met = self.last(i, at)
            begin = max(start, min(ended, at))
            self._waited(add, i, begin, at, met)
            if by < 0 or begin <= start:
                return
            if direction is None and self.graph.nodes[by].worker != own:
                direction = self.direction(self.graph.nodes[i], self.graph.nodes[by])
            at = self.ran(add, own, by, start, begin, direction)
            i = by
            if at <= start:
                return
        add(LAUNCH, start, at)

    def tail(self, add, own, stage, start, end):
        """The idle time of worker `own` from its last instruction, on `stage`, to the end of the step."""
        i, after = self.end, _Place(own, stage)
        at = end if i < 0 else min(end, self.ends[i])
        if at < end:
            add(LAUNCH, max(at, start), end)
        while i >= 0 and at > start:
            node = self.graph.nodes[i]
            at = self.ran(add, own, i, start, at, self.direction(after, node))
            if at <= start:
                return
            ended, by, met = self.last(i, at)
            begin = max(start, min(ended, at))
            self._waited(add, i, begin, at, met)
            i, at = by, begin
        if at > start:
            add(LAUNCH, start, at)

    def ran(self, add, own, i, start, end, direction):
        """Node i ran until `end`. Returns from when on it is explained."""
        begin = max(start, min(self.starts[i], end))
        if begin < end:
            kind = kind_of(self.graph.nodes[i].op)
            if kind == COMPUTE:
                add(direction or LAUNCH, begin, end)
            else:
                add(COPYING if kind == COPY else TOGETHER, begin, end)
        return begin

    def _waited(self, add, i, begin, end, met):
        """From `begin` node i had its inputs; a barrier opened at `met`; it started at `end`."""
        issued = self.issued(i)
        if issued is not None:
            met = min(met, issued)
        opened = min(max(begin, met), end)
        if opened > begin:
            add(TOGETHER, begin, opened)
        if end > opened:
            self.gap(add, i, opened, end)

    @staticmethod
    def direction(node, other):
        """Whether `other` is before or after `node` in the pipeline."""
        mine, its = (node.stage, other.stage) if node.stage >= 0 and other.stage >= 0 else (node.worker, other.worker)
        if mine == its:
            mine, its = node.worker, other.worker
        return EARLIER if its < mine else LATER


class _Place:
    """The place in the pipeline from which a worker looks at what still runs."""

    def __init__(self, worker, stage):
        self.worker, self.stage = worker, stage


def _gap_of_play(add, _node, start, end):
    """Played instructions start as soon as they can."""
    add(LAUNCH, start, end)


def _terms_of_play(graph, times, workers):
    """idle_by of each worker of a played step."""
    starts, ends = times
    walk = Walk(graph, starts, ends, _gap_of_play)
    its = [[] for _ in range(workers)]
    for i, node in enumerate(graph.nodes):
        if ends[i] > starts[i]:
            its[node.worker].append(i)
    finish = max(ends, default=0.0)
    result = []
    for w in range(workers):
        idle = without([(0.0, finish)] if finish > 0 else [], union((starts[i], ends[i]) for i in its[w]))
        result.append(_divide(walk, w, idle, {starts[i]: i for i in reversed(its[w])}, its[w][-1:]))
    return result


def _divide(walk, w, idle, first, last):
    """idle_by of worker w, whose idle intervals are given; first[start] is the node that starts then."""
    sums = dict.fromkeys(IDLE_KEYS, 0.0)

    def add(key, start, end):
        sums[key] += end - start

    for start, end in idle:
        if end in first:
            walk.explain(add, w, first[end], start, end)
        else:
            stage = walk.graph.nodes[last[0]].stage if last else -1
            walk.tail(add, w, stage, start, end)
    return sums


# ---- one step ---------------------------------------------------------------------------------------------------------

class _Step:
    """One step of a timeline, as recorded."""

    def __init__(self, timeline, graphs, step, data):
        self.timeline, self.step = timeline, step
        self.data = [(start, end) for start, end in data if start < step.end and end > step.start]
        self.indexes = graphs.spans(step.number)
        self.all_ends = None  # per worker: when its activities ended, sorted
        self.planned = timeline.source in ("plan", "simulation")
        self.graph = _graph_of(graphs, step)
        if self.graph:
            self.starts, self.ends = replay.times_of(self.graph, timeline.spans)
            self.node_of = {j: i for i, node in enumerate(self.graph.nodes) for j in node.spans}
            self.walk = Walk(self.graph, self.starts, self.ends, self._gap, self._issued)

    def shares(self):
        """WorkerShare per worker."""
        by_worker = [[] for _ in self.timeline.workers]
        for i in self.indexes:
            by_worker[self.timeline.spans[i].worker].append(i)
        shares = [self._share(w, indexes) for w, indexes in enumerate(by_worker)]
        if self.graph:
            self._move_imbalance(shares)
        return shares

    def _share(self, w, indexes):
        whole = [(self.step.start, self.step.end)]
        kinds = {COMPUTE: [], COPY: [], COLLECTIVE: []}
        for i in indexes:
            span = self.timeline.spans[i]
            start, end = max(span.start, self.step.start), min(span.end, self.step.end)
            if end > start:
                kinds[span.kind].append((start, end))
        busy, copy, together = (union(kinds[kind]) for kind in (COMPUTE, COPY, COLLECTIVE))
        idle = without(whole, union(busy + copy))
        share = WorkerShare(length(busy), length(copy), length(without(copy, busy)), length(idle))
        alone = without(idle, together)
        share.idle_by[TOGETHER] += length(idle) - length(alone)
        self._idle(share.idle_by, w, indexes, alone)
        return share

    def _idle(self, sums, w, indexes, idle):
        """Divides the idle intervals of worker w."""
        def add(key, start, end):
            sums[key] += end - start

        first = {}
        for i in reversed(indexes):
            span = self.timeline.spans[i]
            if span.end > span.start or span.start not in first:
                first[max(span.start, self.step.start)] = i
        for start, end in idle:
            i = first.get(end)
            node = self.node_of.get(i, -1) if self.graph else -1
            if i is None and self.graph:
                self.walk.tail(add, w, self._last_stage(indexes), start, end)
            elif node >= 0:
                self.walk.explain(add, w, node, start, end)
            else:
                self._guess(add, w, i, start, end)

    def _last_stage(self, indexes):
        last = max(indexes, key=lambda i: self.timeline.spans[i].end, default=None)
        return -1 if last is None else self.timeline.spans[last].stage

    def _launch(self, add, start, end):
        """Time without another cause: waiting for data if the trainer had none, else the host's launching."""
        rest = without([(start, end)], self.data)
        for begin, stop in rest:
            add(LAUNCH, begin, stop)
        for begin, stop in without([(start, end)], rest):
            add(DATA, begin, stop)

    def _issued(self, i):
        spans = self.graph.nodes[i].spans
        return self.timeline.spans[spans[0]].issued if spans else None

    def _comes_from_far(self, node):
        """Whether messages from other processes make it ready: they travel after they were sent or posted."""
        process = self.timeline.workers[node.worker].process
        its = (self.graph.nodes[j].worker for j in node.waits)
        return node.op in ("recv", "collect") and any(self.timeline.workers[worker].process != process for worker in its)

    def _gap(self, add, i, start, end):
        """A device's copy that was issued and has its value waits for other copies. A thread copies as soon as it runs."""
        issued, node = self._issued(i), self.graph.nodes[i]
        if self._comes_from_far(node):
            add(COPYING if node.op == "recv" else TOGETHER, start, end)
            return
        queued = self.planned or (issued is not None and len(self.timeline.workers[node.worker].lanes) > 1)
        if node.op not in ("recv", "load") or not queued:
            self._launch(add, start, end)
            return
        middle = min(max(start, issued), end) if issued is not None else start
        if middle > start:
            self._launch(add, start, middle)
        add(COPYING, middle, end)

    # ---- captures without names ----

    def _guess(self, add, w, i, start, end):
        """Until the host issued the next activity: launch. Then: for the worker whose activity ended last."""
        if i is not None and self.timeline.spans[i].issued is not None:
            issued = min(max(start, self.timeline.spans[i].issued), end)
            if issued > start:
                self._launch(add, start, issued)
            start = issued
        if start >= end:
            return
        others = [other for other in range(len(self.timeline.workers)) if other != w]
        ended, last = max(((self._last_end(other, end), other) for other in others), default=(start, w))
        if ended <= start:
            self._launch(add, start, end)
            return
        add(EARLIER if last < w else LATER, start, ended)
        if ended < end:
            self._launch(add, ended, end)

    def _last_end(self, worker, until):
        """When the worker's last activity ended that ended by then."""
        if self.all_ends is None:
            self.all_ends = [[] for _ in self.timeline.workers]
            for i in self.indexes:
                self.all_ends[self.timeline.spans[i].worker].append(self.timeline.spans[i].end)
            for its in self.all_ends:
                its.sort()
        at = bisect.bisect_right(self.all_ends[worker], until)
        return self.all_ends[worker][at - 1] if at else float("-inf")

    # ---- imbalance ----

    def _move_imbalance(self, shares):
        """Moves the waiting that vanishes with equal stages from the terms that it was counted in."""
        durations = replay.durations_of(self.graph, self.starts, self.ends)
        now = _terms_of_play(self.graph, replay.play(self.graph, replay.steady(self.graph, durations)), len(shares))
        then = _terms_of_play(self.graph, replay.play(self.graph, replay.equal(self.graph, durations)), len(shares))
        for share, before, after in zip(shares, now, then):
            _move(share.idle_by, before, after)


def _move(terms, before, after):
    """terms[IMBALANCE] gets what is less in `after` than in `before`, over all that can move, but not more than there is."""
    less = {key: before[key] - after[key] for key in MOVABLE}
    total = min(sum(less.values()), sum(terms[key] for key in MOVABLE))
    for key in sorted(MOVABLE, key=lambda k: -less[k]):
        part = min(max(0.0, total), terms[key], max(0.0, less[key]))
        terms[key] -= part
        terms[IMBALANCE] += part
        total -= part
