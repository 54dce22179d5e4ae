"""What each instruction waited for: from the plan if the timeline has one, else from the names and their order.

A Graph has a Node for each instruction of one step. A node waits for the node before it in its queue and for the nodes in
`waits`. The waits of a barrier are apart (`meets`): a barrier waits until the others have reached theirs.
"""
import re
from dataclasses import dataclass, field

from .timeline import COLLECTIVE, COMPUTE, COPY, SLOTS

COPY_OPS = ("load", "send", "recv", "post", "collect")
ONCE_OPS = ("norm", "clip", "total", "reduce", "update")  # in a mini-batch
COLLECTIVE_OPS = (*ONCE_OPS, "barrier")
_EDGE = re.compile(r"\b[ec](\d+)\b")


@dataclass(**SLOTS)
class Node:
    """One instruction. A node without spans was not recorded, and takes no time."""

    worker: int
    queue: int
    op: str
    stage: int = -1
    micro: int = -1
    edge: int = -1  # of a post or collect: the collective
    samples: int = -1  # of its micro-batch; -1: not known
    before: int = -1  # node before it in its queue; -1: none
    waits: list = field(default_factory=list)  # other nodes that must end first
    meets: list = field(default_factory=list)  # of a barrier: nodes that must end first
    pulled: int = -1  # without a plan: a node that may have read the slot that this one writes; -1: none
    spans: list = field(default_factory=list)  # indexes in Timeline.spans, sorted by start


@dataclass
class Graph:
    """The instructions of one step, so sorted that what a node waits for stands before it in `order`."""

    nodes: list
    order: list


class NoOrder(Exception):
    """The instructions wait for one another in a circle."""


def kind_of(op):
    """The kind of an instruction's time."""
    if op in COPY_OPS:
        return COPY
    return COLLECTIVE if op in COLLECTIVE_OPS else COMPUTE


def edge_of(name):
    """The edge in the name of a copy, "send s0 m3 e1", or the collective in "post s0 c1"; -1 if there is none."""
    found = _EDGE.search(name)
    return int(found.group(1)) if found else -1


def sort_nodes(nodes):
    """The indexes of the nodes in an order in which each stands after what it waits for."""
    after = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for i, node in enumerate(nodes):
        for j in (*node.waits, *node.meets, *([node.before] if node.before >= 0 else [])):
            after[j].append(i)
            missing[i] += 1
    order = [i for i, count in enumerate(missing) if count == 0]
    for i in order:
        for j in after[i]:
            missing[j] -= 1
            if missing[j] == 0:
                order.append(j)
    if len(order) < len(nodes):
        raise NoOrder()
    return order


# ---- from the plan ----------------------------------------------------------------------------------------------------

def _link(nodes, places, waits_of):
    """Fills in `waits` and `meets`; places[worker][pc] is the index of a node."""
    for worker in places:
        for i in worker:
            node, given = nodes[i], [places[w][pc] for w, pc in waits_of(i)]
            if node.op != "barrier":
                node.waits = [j for j in given if nodes[j].op != "barrier"]
                node.meets = _arrivals(nodes, [j for j in given if nodes[j].op == "barrier"])
            else:
                node.meets = [j for j in given if nodes[j].op != "barrier"]
                node.meets += _arrivals(nodes, [j for j in given if nodes[j].op == "barrier"])


def _arrivals(nodes, barriers):
    """A worker has reached its barrier if what it did before has ended."""
    return [nodes[j].before for j in barriers if nodes[j].before >= 0]


def samples_of(program, micro):
    """The samples of a micro-batch: all have the same number, but the last one may have fewer. -1: not known."""
    samples, count = program.get("samples") or 0, program.get("micro_batches") or 0
    if micro < 0 or samples <= 0 or count <= 0:
        return -1
    most = -(-samples // count)
    return max(0, min(most, samples - micro * most))


def plan_graph(program):
    """The graph of a plan's program, without spans, and places[worker][pc] = node. The program is checked by its reader."""
    nodes, places, waits = [], [], []
    for w, worker in enumerate(program["workers"]):
        last, its = {}, []
        for instruction in worker.get("instructions", []):
            queue = instruction.get("queue", 0)
            edge = instruction.get("edge", edge_of(instruction.get("name", "")))
            micro = instruction.get("micro", -1)
            node = Node(w, queue, instruction.get("op", ""), instruction.get("stage", -1), micro, -1 if edge is None else edge,
                        samples_of(program, micro), last.get(queue, -1))
            last[queue] = len(nodes)
            its.append(len(nodes))
            nodes.append(node)
            waits.append(instruction.get("waits", []))
        places.append(its)
    _link(nodes, places, lambda i: waits[i])
    return Graph(nodes, sort_nodes(nodes)), places


def _fits(timeline, indexes, graph, places):
    """Whether each span is the instruction that its pc says."""
    for i in indexes:
        span = timeline.spans[i]
        if span.pc < 0:
            continue
        if span.worker >= len(places) or span.pc >= len(places[span.worker]):
            return False
        node = graph.nodes[places[span.worker][span.pc]]
        if span.op and (span.op, span.stage) != (node.op, node.stage):
            return False
    return True


# ---- from names and order ---------------------------------------------------------------------------------------------

def _named_nodes(timeline, indexes):
    """A node for each named instruction: its spans have the same worker, name and pc. Sorted by start."""
    nodes, known = [], {}
    for i in indexes:
        span = timeline.spans[i]
        if not span.op:
            continue
        key = (span.worker, span.op, span.stage, span.micro, edge_of(span.name), span.pc)
        if key not in known:
            known[key] = len(nodes)
            nodes.append(Node(span.worker, span.lane, span.op, span.stage, span.micro, edge_of(span.name)))
        nodes[known[key]].spans.append(i)
    return sorted(nodes, key=lambda node: _rank(timeline.spans[node.spans[0]], node.op))


def _rank(span, op):
    """Of instructions that start together the shorter one comes first; a send comes before its receive, posts before the collect."""
    return span.start, span.end, op in ("recv", "collect")


def _sources(nodes):
    """{index of a receive: the stage that its value came from}; those that are not known are missing. `nodes` as in feeds().

    Exports of Nsight have no sends, since a GPU does nothing in them. There a value of a micro-batch is a gradient if the next
    stage has begun its backward pass.
    """
    senders = {(n.edge, n.micro): n.stage for n in nodes if n.op == "send" and n.edge >= 0}
    sources, begun = {}, set()
    for i, node in enumerate(nodes):
        s, m = node.stage, node.micro
        if node.op == "recv":
            if (node.edge, m) in senders:
                sources[i] = senders[node.edge, m]
            elif m >= 0 and not senders:
                if ("B", s + 1, m) in begun:
                    sources[i] = s + 1
                elif ("F", s - 1, m) in begun:
                    sources[i] = s - 1
        elif node.op in ("F", "B", "I"):
            begun.add(("F" if node.op == "F" else "B", s, m))
    return sources


def feeds(nodes):
    """For each node the earlier nodes whose results it reads, as the names say. `nodes` are sorted by start."""
    sources = _sources(nodes)
    made, sent, came, posted, collected, forward = {}, {}, {}, {}, {}, {}
    result = []
    for i, node in enumerate(nodes):
        s, m, op = node.stage, node.micro, node.op
        found = []
        if op == "recv":
            source = sources.get(i, -1)
            if (node.edge, m) in sent:
                found = [sent[node.edge, m]]
            elif i in sources:
                found = [made[o, source, m] for o in (("F",) if source < s else ("B", "I")) if (o, source, m) in made]
            came.setdefault((s, m, source < s if source >= 0 else None), []).append(i)
        elif op == "load":
            came.setdefault((s, m, True), []).append(i)
        elif op in ("F", "R"):
            found = came.get((s, m, True), []) + came.get((s, m, None), [])
            if op == "F" and not any(nodes[j].op == "recv" for j in found) and ("F", s - 1, m) in made:
                found = found + [made["F", s - 1, m]]
        elif op in ("B", "I"):
            found = came.get((s, m, False), []) + [made[o, s, m] for o in ("F", "R") if (o, s, m) in made][-1:]
            if not any(nodes[j].op == "recv" for j in found):
                found += [made[o, s + 1, m] for o in ("B", "I") if (o, s + 1, m) in made][:1]
        elif op == "W":
            found = [made["I", s, m]] if ("I", s, m) in made else []
        elif op == "send":
            results = [made[o, s, m] for o in ("F", "B", "I") if (o, s, m) in made]
            found = [max(results)] if results else []
            sent[node.edge, m] = i
        elif op == "post":
            results = [made[o, s, -1] for o in ONCE_OPS if (o, s, -1) in made] or forward.get(s, [])
            found = [max(results)] if results else []
            posted.setdefault(node.edge, []).append(i)
        elif op == "collect":
            found = posted.get(node.edge, [])
            collected.setdefault(s, []).append(i)
        elif op in ("step", "clip", "total", "reduce", "update"):
            found = collected.get(s, [])[-1:]
            found += [made[o, s, -1] for o in ONCE_OPS if (o, s, -1) in made]
        if op == "F":
            forward[s] = [i]
        if op not in COPY_OPS:
            made[op, s, -1 if op in (*ONCE_OPS, "step") else m] = i
        result.append(sorted(set(found)))
    return result


def named_graph(timeline, indexes):
    """The graph of a step that has names but no plan; None: there are no names."""
    nodes = _named_nodes(timeline, indexes)
    if not nodes:
        return None
    last = {}
    for i, node in enumerate(nodes):
        node.before = last.get((node.worker, node.queue), -1)
        last[node.worker, node.queue] = i
    for node, found in zip(nodes, feeds(nodes)):
        node.waits = [j for j in found if j != node.before]
    _guess_slots(timeline, nodes)
    return Graph(nodes, list(range(len(nodes))))


def _guess_slots(timeline, nodes):
    """Names do not say which slot an instruction writes. It may have waited for the last receive of what its stage sent.

    The receiver may be late in ending that span, since it says before that the value was pulled.
    """
    sources = _sources(nodes)
    last = {}
    for i, node in enumerate(nodes):
        if node.op == "recv":
            last[sources.get(i, -1)] = i
        elif node.op in ("F", "R", "B", "I"):
            node.pulled = last.get(node.stage, -1)


# ---- both -------------------------------------------------------------------------------------------------------------

class Graphs:
    """The graphs of a timeline's steps. Steps with the same program of the plan share the work."""

    def __init__(self, timeline):
        self.timeline = timeline
        self.by_step = {}
        for i, span in enumerate(timeline.spans):
            self.by_step.setdefault(span.step, []).append(i)
        self.programs = {}
        self.made = {}

    def spans(self, number):
        """Indexes of the step's spans, sorted by start."""
        return self.by_step.get(number, [])

    def _program(self, index):
        if index not in self.programs:
            program = self.timeline.plan.program(index) if self.timeline.plan else None
            self.programs[index] = None
            if program and any(w.get("instructions") for w in program["workers"]):
                self.programs[index] = plan_graph(program)
        return self.programs[index]

    def of(self, number):
        """The graph of a step; None: its spans have no names. It is made once, so do not change it. Raises NoOrder."""
        if number not in self.made:
            self.made[number] = self._make(number)
        return self.made[number]

    def _make(self, number):
        indexes = self.spans(number)
        programs = {self.timeline.spans[i].program for i in indexes if self.timeline.spans[i].pc >= 0}
        planned = self._program(programs.pop()) if len(programs) == 1 else None
        if not planned or not _fits(self.timeline, indexes, *planned):
            return named_graph(self.timeline, indexes)
        graph, places = planned
        nodes = [Node(n.worker, n.queue, n.op, n.stage, n.micro, n.edge, n.samples, n.before, n.waits, n.meets)
                 for n in graph.nodes]
        for i in indexes:
            span = self.timeline.spans[i]
            if span.pc >= 0:
                nodes[places[span.worker][span.pc]].spans.append(i)
        return Graph(nodes, graph.order)


def _recorded(graph, i):
    """The recorded nodes that stand for node i: itself, or what an unrecorded one waited for."""
    found, open_, seen = [], [i], {i}
    while open_:
        at = open_.pop()
        node = graph.nodes[at]
        if node.spans:
            found.append(at)
            continue
        for j in (*node.waits, *node.meets, *([node.before] if node.before >= 0 else [])):
            if j not in seen:
                seen.add(j)
                open_.append(j)
    return found


def dependencies(timeline):
    """For each span the indexes of the spans of the same step that it waited for.

    These are the ends of what the plan says, and what the instruction read. Without both: the instruction before it in its
    queue. Of an instruction with several spans only the first has waited for others.
    """
    result = [[] for _ in timeline.spans]
    graphs = Graphs(timeline)
    for step in sorted(graphs.by_step):
        graph = graphs.of(step) if step >= 0 else None
        if graph:
            _arrows(timeline, graph, result)
    return result


def _arrows(timeline, graph, result):
    recorded = sorted((i for i, n in enumerate(graph.nodes) if n.spans), key=lambda i: graph.nodes[i].spans[0])
    read = feeds([graph.nodes[i] for i in recorded])
    for place, i in enumerate(recorded):
        node = graph.nodes[i]
        found = {recorded[j] for j in read[place]}
        for j in (*node.waits, *node.meets, *_meets_before(graph, node)):
            found.update(_recorded(graph, j))
        if not found and node.before >= 0:
            found.update(_recorded(graph, node.before))
        last = timeline.spans[node.spans[0]].start
        ends = [graph.nodes[j].spans[-1] for j in found if j != i]
        result[node.spans[0]] = sorted(j for j in ends if timeline.spans[j].start <= last)


def _meets_before(graph, node):
    """What the barriers between a node and the recorded one before it wait for."""
    found = []
    at = node.before
    while at >= 0 and not graph.nodes[at].spans:
        found += graph.nodes[at].meets
        at = graph.nodes[at].before
    return found
