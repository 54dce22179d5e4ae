"""Timelines of plans: gpipe-train --plan --json, and gpipe-balance --simulate --json. A plan is one step as it is predicted."""
import os

from .depend import NoOrder, plan_graph
from .read import number, read_json, text, whole
from .timeline import COMPUTE, COPY, BadInput, Plan, Span, Step, Timeline, Worker

LANES = ("computes", "receives", "receives gradients", "collects gradients")
OPS = {"load": COPY, "send": COPY, "recv": COPY, "post": COPY, "collect": COPY, "barrier": None,
       "F": COMPUTE, "R": COMPUTE, "B": COMPUTE, "I": COMPUTE, "W": COMPUTE, "norm": COMPUTE, "clip": COMPUTE, "total": COMPUTE,
       "reduce": COMPUTE, "update": COMPUTE, "step": COMPUTE}
WHOLE = ("stage", "micro", "clock", "edge", "collective", "bytes", "bytes_alive")
LATEST = 1e12  # milliseconds
AGAIN = "print it again with gpipe-train --plan --json or gpipe-balance --simulate FILE --json"


def is_plan(data):
    """Whether an object is a plan, or the result of a simulation of any version."""
    return isinstance(data, dict) and (data.get("format") == "gpipe-plan" or {"step", "cost", "bubble"} <= data.keys())


def read_plan(path):
    """The Plan in a file."""
    path = os.fspath(path)
    data = read_json(path)
    if not is_plan(data):
        raise BadInput(f"{path}: is no plan; {AGAIN}")
    return Plan(check_plan(path, data))


def _list_of_objects(path, holder, key, where):
    value = holder.get(key)
    if not isinstance(value, list) or not all(isinstance(it, dict) for it in value):
        raise BadInput(f"{path}: {where}{key} is no list of objects; {AGAIN}")
    return value


def check_plan(path, data):
    """The plan, if the keys that all readers need have what they must have."""
    if not isinstance(data, dict):
        raise BadInput(f"{path}: the plan is no object; {AGAIN}")
    if data.get("format") != "gpipe-plan":
        raise BadInput(f"{path}: has the figures of a simulation and no instructions, as older versions printed it; {AGAIN}")
    if whole(data.get("version")) != 1:
        raise BadInput(f"{path}: is a plan of version {text(str(data.get('version')))[:20]}, and this program reads version 1; "
                       "use programs of one version")
    workers = _list_of_objects(path, data, "workers", "")
    for w, worker in enumerate(workers):
        if "arena_bytes" in worker and whole(worker["arena_bytes"]) < 0:
            raise BadInput(f"{path}: workers[{w}].arena_bytes is no whole number from 0; {AGAIN}")
    for p, program in enumerate(_list_of_objects(path, data, "programs", "")):
        where = f"programs[{p}]."
        its = _list_of_objects(path, program, "workers", where)
        if len(its) != len(workers):
            raise BadInput(f"{path}: {where}workers has {len(its)} entries for {len(workers)} workers; {AGAIN}")
        if program.get("pass") not in ("training", "evaluation"):
            raise BadInput(f"{path}: {where}pass is neither training nor evaluation; {AGAIN}")
        for key in ("samples", "micro_batches"):
            if key in program and whole(program[key]) < 0:
                raise BadInput(f"{path}: {where}{key} is no whole number from 0; {AGAIN}")
        for w, worker in enumerate(its):
            if "instructions" in worker:
                _check_instructions(path, worker, f"{where}workers[{w}].", its)
        _check_order(path, program, where)
    return data


def _check_order(path, program, where):
    """Instructions that wait for one another in a circle would never run."""
    if any(worker.get("instructions") for worker in program["workers"]):
        try:
            plan_graph(program)
        except NoOrder:
            raise BadInput(f"{path}: {where}workers: instructions wait for one another in a circle; {AGAIN}") from None


def _check_instructions(path, worker, where, workers):
    last = {}
    for i, it in enumerate(_list_of_objects(path, worker, "instructions", where)):
        at = f"{where}instructions[{i}]"
        start, end, queue = number(it.get("start_ms")), number(it.get("end_ms")), whole(it.get("queue", 0))
        if text(it.get("op")) not in OPS or not isinstance(it.get("name"), str):
            raise BadInput(f"{path}: {at} has no known op and name; {AGAIN}")
        if start is None or end is None or not 0 <= start <= end:
            raise BadInput(f"{path}: {at} ({text(it['name'])}): start_ms and end_ms are no times in order; {AGAIN}")
        odd = next((key for key in WHOLE if key in it and whole(it[key]) < 0), None)
        if odd:
            raise BadInput(f"{path}: {at} ({text(it['name'])}): {odd} is no whole number from 0; {AGAIN}")
        if end > LATEST:
            raise BadInput(f"{path}: {at} ({text(it['name'])}): ends after {end:g} ms, which is no time of a step; {AGAIN}")
        if not 0 <= queue < len(LANES):
            raise BadInput(f"{path}: {at} ({text(it['name'])}): queue is not 0, 1, 2 or 3; {AGAIN}")
        if start < last.get(queue, 0) - 1e-6 * (1 + end):
            raise BadInput(f"{path}: {at} ({text(it['name'])}) begins before the instruction before it in its queue ends; {AGAIN}")
        last[queue] = end
        waits = it.get("waits", [])
        if not isinstance(waits, list) or not all(_is_wait(wait, workers) for wait in waits):
            raise BadInput(f"{path}: {at} ({text(it['name'])}): waits names no instruction; {AGAIN}")


def _is_wait(wait, workers):
    if not isinstance(wait, list) or len(wait) != 2 or whole(wait[0]) < 0 or whole(wait[1]) < 0 or wait[0] >= len(workers):
        return False
    instructions = workers[wait[0]].get("instructions")
    return isinstance(instructions, list) and wait[1] < len(instructions)


def timeline_of_plan(path, data):
    """The Timeline of a plan's largest training program: one step."""
    plan = Plan(check_plan(path, data))
    training = [p for p, program in enumerate(data["programs"]) if program["pass"] == "training"]
    if not training:
        raise BadInput(f"{path}: the plan trains no step, so it has no step time; plan a run with train.epochs or train.steps")
    left_out = text(data.get("left_out")) or text(data["programs"][training[0]].get("left_out"))
    if left_out:
        raise BadInput(f"{path}: the instructions are left out ({left_out}); simulate fewer micro-batches or stages")
    index = max(training, key=lambda p: (number(data["programs"][p].get("samples")) or 0, -p))
    spans, memory, lanes = [], {}, set()
    for w in range(len(data["workers"])):
        for pc, it in enumerate(plan.instructions(index, w)):
            lanes.add((w, it.get("queue", 0)))
            if number(it.get("bytes_alive")) is not None:
                memory.setdefault(w, []).append((float(it["start_ms"]), float(it["bytes_alive"])))
            if OPS[it["op"]]:
                spans.append(_span(w, index, pc, it))
    if not spans:
        raise BadInput(f"{path}: the plan has no instructions; {AGAIN}")
    spans.sort(key=lambda span: span.start)
    kind = "simulation" if data.get("kind") == "simulation" else "plan"
    steps = [Step(1, spans[0].start, max(span.end for span in spans))]
    return Timeline(os.path.basename(path), kind, _workers(data, lanes), spans, steps, memory=memory, plan=plan)


def _span(worker, program, pc, it):
    return Span(worker, OPS[it["op"]], text(it["name"]), float(it["start_ms"]), float(it["end_ms"]), 1, it.get("queue", 0), it["op"],
                whole(it.get("stage")), whole(it.get("micro")), program, pc, whole(it.get("bytes"), 0),
                detail=text(it.get("carries")))


def _workers(data, lanes):
    from .read_trace import unique_names

    devices = [text(it.get("name")) or f"worker {w}" for w, it in enumerate(data["workers"])]
    names = unique_names(devices, range(len(devices)))
    stages = [it.get("stages") if isinstance(it.get("stages"), list) else [] for it in data["workers"]]
    counts = [4 if (w, 3) in lanes else 3 if any((w, q) in lanes for q in (1, 2)) else 1 for w in range(len(names))]
    return [Worker(name, tuple(whole(s) for s in stages[w]), LANES[:counts[w]]) for w, name in enumerate(names)]
