"""The numbers of one timeline: an entry of `runs` in the JSON of gpipe-compare (docs/compare.md defines each of them).

Times are milliseconds of one step, and medians over the steps. The interface of gpipe-compare fixes the keys name, steps, step_ms,
between_ms and workers; the other keys are extra.
"""
from dataclasses import dataclass, field
from statistics import mean, median

from . import attribute
from .depend import Graphs
from .read import number, text, whole
from .timeline import COLLECTIVE, COMPUTE, COPY, IDLE_KEYS, length, union, without


def figures(timeline, causes=None):
    """The entry of one timeline. `causes`: the Causes of its idle time; None: they are computed here."""
    causes = causes or Causes.of(timeline)
    covered = cover(timeline)
    steps = timeline.steps
    lengths = [step.end - step.start for step in steps]
    workers = [_worker(timeline, covered, causes.shares, w) for w in range(len(timeline.workers))]
    gaps = between(timeline)
    parts = [causes.between[number] for number in gaps if number in causes.between]
    alone = [causes.bubbles[step.number] for step in steps if step.number in causes.bubbles]
    return {
        "name": timeline.name,
        "source": timeline.source,
        "steps": len(steps),
        "first_step": steps[0].number,
        "last_step": steps[-1].number,
        "step_ms": median(lengths),
        "step_spread": spread(lengths),
        "between_ms": median(gaps.values()) if gaps else 0.0,
        "between_data_ms": median(part["data"] for part in parts) if parts else 0.0,
        "gaps": len(gaps),
        "bubble": median(_bubble(covered, step, len(workers)) for step in steps),
        "schedule_bubble": median(alone) if alone else None,
        "mean": _mean_worker(workers),
        "workers": workers,
        "instructions": instruction_rows(timeline),
        "layers": layer_rows(timeline),
        "memory": memory_rows(timeline),
        "planned": planned(timeline),
        "remarks": ([timeline.said_first] if timeline.said_first else []) + timeline.remarks,
    }


@dataclass
class Causes:
    """What attribute.py says about a timeline. By the numbers of its steps: shares of the workers, gaps, bubbles."""

    shares: dict
    between: dict = field(default_factory=dict)
    bubbles: dict = field(default_factory=dict)

    @classmethod
    def of(cls, timeline):
        graphs = Graphs(timeline)
        shares, bubbles = attribute.attribute(timeline, graphs), attribute.schedule_bubble(timeline, graphs)
        return cls(shares, attribute.between(timeline), bubbles)


def cover(timeline):
    """{(step, worker): (computing, copying, collectives)}, each disjoint sorted intervals."""
    found = {}
    for span in timeline.spans:
        if span.step >= 0:
            found.setdefault((span.step, span.worker), {COMPUTE: [], COPY: [], COLLECTIVE: []})[span.kind].append(
                (span.start, span.end))
    return {key: tuple(union(kinds[kind]) for kind in (COMPUTE, COPY, COLLECTIVE)) for key, kinds in found.items()}


def _cover_of(covered, step, worker):
    return covered.get((step.number, worker), ([], [], []))


def _bubble(covered, step, workers):
    """The share of the workers' time in which they do not compute."""
    time = (step.end - step.start) * workers
    return 1 - sum(length(_cover_of(covered, step, w)[0]) for w in range(workers)) / time if time else 0.0


def _worker(timeline, covered, shares, w):
    busy, copy, exposed, collective, idle = [], [], [], [], []
    for step in timeline.steps:
        computing, copying, meeting = _cover_of(covered, step, w)
        busy.append(float(length(computing)))
        copy.append(float(length(copying)))
        exposed.append(float(length(without(copying, computing))))
        collective.append(float(length(meeting)))
        idle.append(max(0.0, step.end - step.start - busy[-1] - exposed[-1]))
    worker = timeline.workers[w]
    terms = [shares[step.number][w].idle_by for step in timeline.steps]
    return {
        "name": worker.name,
        "stages": list(worker.stages),
        "busy_ms": median(busy),
        "copy_ms": median(copy),
        "copy_exposed_ms": median(exposed),
        "collective_ms": median(collective),
        "idle_ms": median(idle),
        "idle": idle_terms(median(idle), terms),
    }


def idle_terms(idle_ms, terms):
    """Medians of the terms over the steps, scaled so that they add up to idle_ms.

    Medians of terms do not add up to the median of their sums. If the medians are all 0, the means are scaled instead.
    """
    for middle in (median, mean):
        values = {key: middle([term[key] for term in terms]) for key in IDLE_KEYS}
        total = sum(values.values())
        if total > 0:
            return {key: value * idle_ms / total for key, value in values.items()}
    return dict.fromkeys(IDLE_KEYS, 0.0)


def _mean_worker(workers):
    keys = ("busy_ms", "copy_ms", "copy_exposed_ms", "collective_ms", "idle_ms")
    result = {key: mean(worker[key] for worker in workers) for key in keys}
    result["idle"] = {key: mean(worker["idle"][key] for worker in workers) for key in IDLE_KEYS}
    return result


def between(timeline):
    """{number of a step: milliseconds between it and the next one}; 0 if they overlap.

    A gap in which an evaluation runs, or in which steps are missing, is left out.
    """
    evaluations = union((span.start, span.end) for span in timeline.spans if span.step < 0)
    gaps, at = {}, 0
    for step, following in zip(timeline.steps, timeline.steps[1:]):
        while at < len(evaluations) and evaluations[at][1] <= step.end:
            at += 1
        has_evaluation = at < len(evaluations) and evaluations[at][0] < following.start
        if following.number == step.number + 1 and not has_evaluation:
            gaps[step.number] = max(0.0, following.start - step.end)
    return gaps


def quantile(values, q):
    """The q-quantile of a list, linear between its sorted values: 0.5 is the median."""
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def spread(values):
    """Smallest, quartiles, and largest."""
    return {"min_ms": min(values), "lower_ms": quantile(values, 0.25), "upper_ms": quantile(values, 0.75), "max_ms": max(values)}


def instruction_times(timeline):
    """{(op, stage): {step: durations}}. The spans of one instruction (kernels of one forward pass) are one duration.

    Spans without instruction, of other programs, go by their own names, with stage -1.
    """
    parts, rows = {}, {}
    for span in timeline.spans:
        if span.step < 0:
            continue
        if span.op:
            which = span.pc if span.pc >= 0 else span.name
            parts.setdefault((span.op, span.stage, span.step, span.worker, which), []).append((span.start, span.end))
        else:
            rows.setdefault((span.detail or span.name, -1), {}).setdefault(span.step, []).append(span.end - span.start)
    for (op, stage, step, _, _), intervals in parts.items():
        rows.setdefault((op, stage), {}).setdefault(step, []).append(length(union(intervals)))
    return rows


def instruction_rows(timeline):
    """A row for each kind of instruction and stage, longest in all first."""
    predicted = predicted_times(timeline)
    rows = []
    for (op, stage), by_step in instruction_times(timeline).items():
        rows.append({"op": op, "stage": stage, **_row(timeline, by_step), "predicted_ms": predicted.get((op, stage))})
    return _shared(rows)


def _row(timeline, by_step):
    """count and total_ms are of one step (medians); a step that has none counts as 0."""
    steps = [by_step.get(step.number, ()) for step in timeline.steps]
    return {"count": median(len(durations) for durations in steps),
            "median_ms": median(duration for durations in steps for duration in durations),
            "total_ms": median(sum(durations) for durations in steps)}


def _shared(rows):
    total = sum(row["total_ms"] for row in rows)
    for row in rows:
        row["share"] = row["total_ms"] / total if total else 0.0
    return sorted(rows, key=lambda row: -row["total_ms"])


def layer_rows(timeline):
    """A row for each layer and op, longest in all first; none if the timeline has no spans of layers.

    The spans of a layer in one instruction (its kernels, or those for inputs and for weights) are one duration.
    """
    parts, found = {}, {}
    for it in timeline.layers:
        if it.step >= 0:
            parts.setdefault((it.layer, it.op, it.step, it.worker, it.stage, it.micro), []).append((it.start, it.end))
    for (layer, op, step, *_), intervals in parts.items():
        found.setdefault((layer, op), {}).setdefault(step, []).append(length(union(intervals)))
    return _shared([{"layer": layer, "op": op, **_row(timeline, by_step)} for (layer, op), by_step in found.items()])


def predicted_times(timeline):
    """{(op, stage): median predicted duration}, from the programs of the plan that the steps ran."""
    if not timeline.plan or timeline.source in ("plan", "simulation"):
        return {}
    used = {(span.program, span.worker) for span in timeline.spans if span.step >= 0 and span.program >= 0}
    found = {}
    for program, worker in used:
        for it in timeline.plan.instructions(program, worker):
            found.setdefault((it["op"], whole(it.get("stage"))), []).append(it["end_ms"] - it["start_ms"])
    return {key: median(durations) for key, durations in found.items()}


def memory_rows(timeline):
    """Per worker: the most bytes alive within the steps, the most that the plan has alive, and the size of the arena."""
    rows = []
    for w in range(len(timeline.workers)):
        planned_bytes, arena = _planned_memory(timeline, w)
        rows.append({"peak_bytes": _peak(timeline, w), "planned_bytes": planned_bytes, "arena_bytes": arena})
    return rows


def _peak(timeline, w):
    changes = timeline.memory.get(w)
    if not changes:
        return None
    start, end = timeline.steps[0].start, timeline.steps[-1].end
    before = [alive for time, alive in changes if time <= start][-1:]
    return max(before + [alive for time, alive in changes if start < time <= end], default=None)


def _planned_memory(timeline, w):
    if not timeline.plan:
        return None, None
    alive = [number(it.get("bytes_alive")) or 0 for p, program in enumerate(timeline.plan.data["programs"]) if program["pass"] == "training"
             for it in timeline.plan.instructions(p, w)]
    arena = number(timeline.plan.data["workers"][w].get("arena_bytes"))
    return max(alive, default=0) or arena, arena


def planned(timeline):
    """What the plan predicts for the steps: {step_ms, bubble, identity, times}; None without a plan."""
    if not timeline.plan:
        return None
    first = {}
    for span in timeline.spans:
        if span.step >= 0 and span.program >= 0:
            first.setdefault(span.step, span.program)
    programs = [timeline.plan.program(program) for program in first.values()]
    result = {"identity": timeline.plan.identity, "times": text(timeline.plan.data.get("times"))}
    for key in ("step_ms", "bubble"):
        values = [number(program.get(key)) for program in programs if program]
        result[key] = median(values) if values and None not in values else None
    return result
