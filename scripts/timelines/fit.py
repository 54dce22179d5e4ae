"""Joins a measured timeline with a plan: which instruction of the plan each span is. A plan of another run does not fit."""
from .timeline import BadInput


def say_plan():
    return "give the plan of this run: gpipe-train --plan --json prints it, and the run folder has it in plan.json"


def fit(path, timeline, plan_name):
    """Checks that each instruction of the timeline is the plan's, and sets Span.program where the file did not name it."""
    plan = timeline.plan
    workers = plan.data["workers"]
    if len(workers) != len(timeline.workers):
        raise BadInput(f"{path}: has {len(timeline.workers)} workers, and {plan_name} has {len(workers)}; {say_plan()}")
    if not any(worker.get("instructions") for program in plan.data["programs"] for worker in program["workers"]):
        timeline.remarks.append("The plan has no instructions, so nothing predicted is beside each of them.")
        return
    by_step = {}
    for span in timeline.spans:
        if span.pc >= 0 and span.step >= 0:
            by_step.setdefault((span.step, span.program), []).append(span)
    for (step, program), spans in by_step.items():
        _fit_step(path, plan, plan_name, step, program, spans)


def _fit_step(path, plan, plan_name, step, program, spans):
    programs = plan.data["programs"]
    candidates = [program] if program >= 0 else [i for i, it in enumerate(programs) if it["pass"] == "training"]
    worst = None
    for candidate in candidates:
        odd = next((span for span in spans if _planned_name(plan, candidate, span) != span.name), None)
        if odd is None:
            for span in spans:
                span.program = candidate
            return
        if worst is None:
            worst = candidate, odd
    if worst is None:
        raise BadInput(f"{path}: step {step} trains, and {plan_name} has no program that trains; {say_plan()}")
    candidate, odd = worst
    planned = _planned_name(plan, candidate, odd)
    raise BadInput(f"{path}: instruction {odd.pc} of worker {odd.worker} in step {step} is {odd.name}, and in {plan_name} "
                   f"{'there is none' if planned is None else 'it is ' + planned}; {say_plan()}")


def _planned_name(plan, program, span):
    instructions = plan.instructions(program, span.worker)
    return instructions[span.pc]["name"] if span.pc < len(instructions) else None
