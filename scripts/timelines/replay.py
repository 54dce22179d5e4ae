"""Plays the instructions of a step with given durations: what the step would have been.

An instruction starts when the one before it in its queue and all that it waits for have ended. Nothing else takes time: no
launching, no handing over between threads.
"""
from .depend import COPY_OPS
from .timeline import length, union


def times_of(graph, spans):
    """(starts, ends) of the nodes as recorded. A node without spans takes no time after what it waits for."""
    starts, ends = [0.0] * len(graph.nodes), [0.0] * len(graph.nodes)
    for i in graph.order:
        node = graph.nodes[i]
        if node.spans and node.op != "barrier":
            starts[i] = spans[node.spans[0]].start
            ends[i] = max(spans[j].end for j in node.spans)
        else:
            starts[i] = ends[i] = ready(graph, ends, i)
    return starts, ends


def ready(graph, ends, i):
    """When all that node i waits for has ended; −infinity if it waits for nothing."""
    node = graph.nodes[i]
    latest = ends[node.before] if node.before >= 0 else float("-inf")
    for j in node.waits:
        latest = max(latest, ends[j])
    for j in node.meets:
        latest = max(latest, ends[j])
    return latest


def play(graph, durations):
    """(starts, ends) of the nodes if each takes its duration; the first starts at 0."""
    starts, ends = [0.0] * len(graph.nodes), [0.0] * len(graph.nodes)
    for i in graph.order:
        starts[i] = max(0.0, ready(graph, ends, i))
        ends[i] = starts[i] + durations[i]
    return starts, ends


# ---- durations ---------------------------------------------------------------------------------------------------------

def durations_of(graph, starts, ends):
    """How long each node took."""
    return [end - start if end > start else 0.0 for start, end in zip(starts, ends)]


def _means(durations, keys):
    sums = {}
    for key, duration in zip(keys, durations):
        its = sums.setdefault(key, [0.0, 0])
        its[0] += duration
        its[1] += 1
    return {key: total / count for key, (total, count) in sums.items()}


def steady(graph, durations):
    """Each duration replaced by the mean of its kind: same op, stage, edge, and size of the micro-batch."""
    keys = [(n.op, n.stage, n.edge, n.samples) for n in graph.nodes]
    means = _means(durations, keys)
    return [means[key] for key in keys]


def equal(graph, durations):
    """As steady, but all stages are equally long: a computation takes the mean over the stages that have its op."""
    calm = steady(graph, durations)
    stages = {}
    for node, duration in zip(graph.nodes, calm):
        if node.op not in COPY_OPS:
            stages.setdefault((node.op, node.samples), {})[node.stage] = duration
    means = {key: sum(its.values()) / len(its) for key, its in stages.items()}
    return [duration if node.op in COPY_OPS else means[node.op, node.samples] for node, duration in zip(graph.nodes, calm)]


def free_copies(graph, durations):
    """The same durations, but copies take no time."""
    return [0.0 if node.op in COPY_OPS else duration for node, duration in zip(graph.nodes, durations)]


# ---- results -----------------------------------------------------------------------------------------------------------

def bubble(graph, starts, ends, workers):
    """The share of the workers' time in which they do not compute; 0 if nothing takes time."""
    computing = [[] for _ in range(workers)]
    for node, start, end in zip(graph.nodes, starts, ends):
        if node.op not in COPY_OPS:
            computing[node.worker].append((start, end))
    whole = workers * max(ends, default=0.0)
    return 1 - sum(length(union(its)) for its in computing) / whole if whole > 0 else 0.0
