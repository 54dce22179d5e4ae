"""Timelines whose numbers are written by hand, for the tests of the page and of the pictures."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts"))
from timelines.timeline import COMPUTE, COPY, LayerSpan, Plan, Span, Step, Timeline, Worker  # noqa: E402

MIB = 1 << 20

# worker, kind, name, start, end, op, stage, micro-batch, pc, bytes; milliseconds in the step of 10 ms
INSTRUCTIONS = (
    (0, COMPUTE, "F s0 m0", 0, 2, "F", 0, 0, 0, 0),
    (0, COPY, "send s0 m0 e0", 2, 2.5, "send", 0, 0, 1, 2048),
    (1, COPY, "recv s1 m0 e0", 2.5, 3, "recv", 1, 0, 0, 2048),
    (1, COMPUTE, "F s1 m0", 3, 4, "F", 1, 0, 1, 0),
    (1, COMPUTE, "B s1 m0", 4, 6, "B", 1, 0, 2, 0),
    (0, COMPUTE, "B s0 m0", 6, 9, "B", 0, 0, 2, 0),
    (0, COMPUTE, "step s0", 9, 10, "step", 0, -1, 3, 0),
)
WAITS = ((), (0,), (1,), (2,), (3,), (4, 0), (5,))  # what each of them waited for


def plan():
    """Predicts 1 ms for F s0 m0, and nothing for the other instructions. Worker 0's arena has 4 MiB."""
    return Plan({"format": "gpipe-plan", "workers": [{"arena_bytes": 4 * MIB}, {"arena_bytes": 2 * MIB}],
                 "programs": [{"workers": [{"instructions": [{"start_ms": 0.25, "end_ms": 1.25}]}, {"instructions": []}]}]})


def small(name="a.json", steps=2, pace=1.0, with_plan=True, with_layers=False):
    """Two workers. Step i (from 1) starts at (i − 1) · 12 ms; step 2 takes 1.5 times as long as the others: 15 ms."""
    spans, all_steps, layers, at = [], [], [], 0.0
    for number in range(1, steps + 1):
        stretch = pace * (1.5 if number == 2 else 1)
        for worker, kind, label, start, end, op, stage, micro, pc, size in INSTRUCTIONS:
            spans.append(Span(worker, kind, label, at + start * stretch, at + end * stretch, step=number, op=op, stage=stage,
                              micro=micro, program=0, pc=pc, bytes=size))
        if with_layers:
            layers += [LayerSpan(0, "conv1", "F", at, at + 1.5 * stretch, step=number, stage=0, micro=0),
                       LayerSpan(0, "relu", "F", at + 1.5 * stretch, at + 2 * stretch, step=number, stage=0, micro=0)]
        all_steps.append(Step(number, at, at + 10 * stretch))
        at += 10 * stretch + 2
    memory = {0: [(0.0, MIB), (2.0, 3 * MIB), (9.0, MIB)], 1: [(2.5, 2 * MIB)]}
    return Timeline(name, "trace", [Worker("cpu:0", (0,)), Worker("cpu:1", (1,))], spans, all_steps,
                    waiting_for_data=[(10.0, 12.0)], layers=layers, memory=memory, plan=plan() if with_plan else None)


def small_waits(timeline):
    """The dependencies of small()."""
    count = len(INSTRUCTIONS)
    return [[step * count + other for other in waits] for step in range(len(timeline.steps)) for waits in WAITS]


def many(count, workers=8, steps=10):
    """`count` forward and backward passes of 1 ms, one after another on each worker; every tenth is a copy."""
    spans, each, ops = [], count // workers, ("F", "B")
    for worker in range(workers):
        for i in range(each):
            is_copy = i % 10 == 9
            op = "send" if is_copy else ops[i % 2]
            spans.append(Span(worker, COPY if is_copy else COMPUTE, f"{op} s{worker} m{i % 16}", float(i), i + 1.0,
                              step=1 + i * steps // each, op=op, stage=worker, micro=i % 16, pc=i % 100))
    spans.sort(key=lambda span: span.start)
    all_steps = [Step(1 + i, float(i * each // steps), float((i + 1) * each // steps)) for i in range(steps)]
    return Timeline(f"{count} spans", "trace", [Worker(f"cpu:{w}", (w,)) for w in range(workers)], spans, all_steps)


def many_waits(timeline):
    """Each span of many() waited for the one before it on its worker, and for the one before it in the list."""
    last, waits = {}, []
    for index, span in enumerate(timeline.spans):
        waits.append(sorted({other for other in (last.get(span.worker, -1), index - 1) if other >= 0}))
        last[span.worker] = index
    return waits


def comparison(timelines, text="B is 1.50× slower than A."):
    """What gpipe-compare --json prints for small(): the figures of its step 1, and more of them for a second run."""
    runs = []
    for index, timeline in enumerate(timelines):
        pace = 1 + index / 2
        idle = {"earlier_stage": 3.0, "later_stage": 0.0, "copy": 0.5, "collective": 0.0, "imbalance": 3.0, "launch": 0.0,
                "data": 0.0}
        workers = [{"name": worker.name, "stages": list(worker.stages), "busy_ms": (6.0, 3.0)[w] * pace, "copy_ms": 0.5 * pace,
                    "copy_exposed_ms": 0.5 * pace, "idle_ms": (3.5, 6.5)[w] * pace,
                    "idle": {key: value * pace * (0 if w == 0 and key == "earlier_stage" else 1) for key, value in idle.items()}}
                   for w, worker in enumerate(timeline.workers[:2])]
        rows = [("B", 0, 3.0), ("F", 0, 2.0), ("B", 1, 2.0), ("F", 1, 1.0), ("step", 0, 1.0)]
        runs.append({"name": timeline.name, "steps": len(timeline.steps), "step_ms": 10.0 * pace, "between_ms": 2.0,
                     "bubble": 0.55, "workers": workers, "memory": [{"peak_bytes": 3 * MIB, "planned_bytes": 4 * MIB}] * 2,
                     "instructions": [{"op": op, "stage": stage, "count": 1, "median_ms": ms * pace, "total_ms": ms * pace,
                                       "share": ms / 9, "predicted_ms": 1.0 if (op, stage) == ("F", 0) else None}
                                      for op, stage, ms in rows],
                     "layers": [{"layer": layer, "op": "F", "count": 1, "median_ms": ms * pace, "total_ms": ms * pace,
                                 "share": ms / 2}
                                for layer, ms in (("conv1", 1.5), ("relu", 0.5))]})
    return {"runs": runs, "text": text, "tables": []}
