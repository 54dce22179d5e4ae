"""The tables below the timelines, made of the entries that figures() returns for each run (docs/compare.md defines them)."""
from . import colours
from .html_parts import Cell, Column, bytes_text, escape, number, section, stacked_bars, table

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WHY = {"earlier_stage": "an earlier stage", "later_stage": "a later stage", "copy": "a copy", "collective": "a collective",
       "imbalance": "imbalance of the stages", "launch": "the host's launching", "data": "data"}
TALL = 30  # rows: of more, the table scrolls


def letter(index):
    """A, B, … of a run; a number after Z."""
    return LETTERS[index] if index < len(LETTERS) else str(index + 1)


def tables(comparison):
    """The HTML of all tables; "" if there are no runs."""
    runs = comparison.get("runs") or []
    if not runs:
        return ""
    return (section("Steps [ms]", step_table(runs), "Milliseconds of one step, as medians over the steps.", "section-steps")
            + section("Where idle time goes", idle_bars(runs) + idle_table(runs),
                      "The causes of a worker's idle time add up to the whole of it.", "section-idle")
            + section("Workers [ms of a step]", worker_table(runs), name="section-workers")
            + pair_section("instructions", "Instructions", "instruction", runs, instruction_label)
            + pair_section("layers", "Layers", "layer", runs, lambda row: (row.get("layer", ""), row.get("op", ""))))


def run_name(runs, index):
    return f"{letter(index)}  {runs[index].get('name', '')}" if len(runs) > 1 else str(runs[index].get("name", ""))


def percent(value):
    """A share as a cell that sorts by its value."""
    return Cell(value, "–" if value is None else f"{number(100 * value, 1)} %")


def size(value):
    return Cell(value, bytes_text(value))


def ratio(value, reference, digits=2):
    """How a time compares with that of A: less is better. The sign says it besides the colour."""
    if value is None or not reference:
        return Cell(None)
    quotient = value / reference
    style = "better" if quotient < 0.95 else "worse" if quotient > 1.05 else ""
    mark = {"better": "▼ ", "worse": "▲ "}.get(style, "")
    return Cell(quotient, f"{mark}{number(quotient, digits)}×", style=style)


def step_table(runs):
    """One row for each run."""
    columns = [Column("run"), Column("steps", "number", 0), Column("step", "number"), Column("middle half of the steps"),
               Column("between steps", "number"), Column("busy", "number", note="mean over the workers"),
               Column("copying", "number", note="mean over the workers"),
               Column("exposed copying", "number", note="copying while the worker computes nothing; mean over the workers"),
               Column("idle", "number", note="mean over the workers"),
               Column("bubble", "number", note="share of the workers' time in which they do not compute"),
               Column("bubble of the schedule", "number", note="with all stages equally long and free copies"),
               Column("planned step", "number")]
    if len(runs) > 1:
        columns.insert(3, Column("step / A", "number"))
    rows = []
    for index, run in enumerate(runs):
        spread, mean, planned = run.get("step_spread") or {}, run.get("mean") or means(run), run.get("planned") or {}
        ends = [spread.get("lower_ms"), spread.get("upper_ms")]
        row = [run_name(runs, index), run.get("steps"), run.get("step_ms"),
               "–" if None in ends else f"{number(ends[0])} to {number(ends[1])}", run.get("between_ms"),
               *(mean.get(key) for key in ("busy_ms", "copy_ms", "copy_exposed_ms", "idle_ms")),
               percent(run.get("bubble")), percent(run.get("schedule_bubble")), planned.get("step_ms")]
        if len(runs) > 1:
            row.insert(3, ratio(run.get("step_ms"), runs[0].get("step_ms")) if index else Cell(1, "1"))
        rows.append(row)
    return table("steps", "Steps [ms]", *used_columns(columns, rows), style="bare")


def used_columns(columns, rows):
    """Without the columns that have no value in any row."""
    def is_used(index):
        return any((row[index].value if isinstance(row[index], Cell) else row[index]) not in (None, "–") for row in rows)
    kept = [index for index in range(len(columns)) if index == 0 or is_used(index)]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def means(run):
    """Means over the workers, if the run has none."""
    workers = run.get("workers") or []
    keys = ("busy_ms", "copy_ms", "copy_exposed_ms", "idle_ms")
    return {key: sum(worker.get(key) or 0 for worker in workers) / len(workers) for key in keys} if workers else {}


def each_worker(runs):
    """(label, index of the run, worker, memory), the same worker of all runs together."""
    for place in range(max(len(run.get("workers") or []) for run in runs)):
        for index, run in enumerate(runs):
            workers, memory = run.get("workers") or [], run.get("memory") or []
            if place < len(workers):
                label = workers[place].get("name", "")
                yield (f"{letter(index)}  {label}" if len(runs) > 1 else label, index, workers[place],
                       memory[place] if place < len(memory) else {})


def worker_table(runs):
    columns = [Column("worker"), Column("busy", "number"), Column("busy share", "number"), Column("copying", "number"),
               Column("exposed copying", "number"), Column("idle", "number"), Column("most memory alive", "number"),
               Column("planned memory", "number")]
    rows = []
    for label, index, worker, memory in each_worker(runs):
        step = runs[index].get("step_ms")
        busy = worker.get("busy_ms")
        rows.append([label, busy, percent(busy / step if step and busy is not None else None), worker.get("copy_ms"),
                     worker.get("copy_exposed_ms"), worker.get("idle_ms"), size(memory.get("peak_bytes")),
                     size(memory.get("planned_bytes"))])
    return table("workers", "Workers [ms of a step]", *used_columns(columns, rows), style="bare")


def idle_bars(runs):
    keys = [(key, "waiting for " + WHY[key] if key not in ("imbalance", "launch") else WHY[key],
             "idle-" + key.replace("_", "-")) for key, *_ in colours.IDLE]
    rows = [(label, worker.get("idle") or {}, f"{number(worker.get('idle_ms'))} ms")
            for label, _, worker, _ in each_worker(runs)]
    return stacked_bars("idle", "Idle time of each worker in a step", rows, keys)


def idle_table(runs):
    columns = [Column("worker"), *(Column(words, "number") for _, words, *_ in colours.IDLE), Column("idle", "number")]
    rows = [[label, *((worker.get("idle") or {}).get(key) for key, *_ in colours.IDLE), worker.get("idle_ms")]
            for label, _, worker, _ in each_worker(runs)]
    return table("idle", "Causes of idle time [ms of a step]", columns, rows)


def instruction_label(row):
    stage = row.get("stage", -1)
    return f"{row.get('op', '')} s{stage}" if stage is not None and stage >= 0 else str(row.get("op", ""))


def meter(value, most):
    """A number with a bar behind it, as long as the number is large."""
    width = 100 * value / most if most > 0 else 0
    return Cell(value, style="metered",
                html=f'<span class="meter" style="width:{width:.1f}%"></span><span>{escape(number(value))}</span>')


def pair_section(key, heading, head, runs, label):
    """Rows of all runs side by side, what costs most first, with the ratio to A."""
    found = [{label(row): row for row in run.get(key) or []} for run in runs]
    labels = {name: None for rows in found for name in rows}
    if not labels:
        return ""
    order = sorted(labels, key=lambda name: -max(rows[name].get("total_ms") or 0 for rows in found if name in rows))
    is_layer = key == "layers"
    columns = [Column(head)] + ([Column("pass")] if is_layer else [])
    for index in range(len(runs)):
        mark = f"{letter(index)}: " if len(runs) > 1 else ""
        columns += [Column(mark + "count", "number", 0), Column(mark + "median", "number", 3),
                    Column(mark + "in a step", "number"), Column(mark + "share", "number")]
        if any(row.get("predicted_ms") is not None for row in found[index].values()):
            columns += [Column(mark + "predicted", "number", 3, "median that the plan predicted"),
                        Column(mark + "measured / predicted", "number")]
        if index:
            columns.append(Column(f"{letter(index)} / A", "number", note="time in a step"))
    most = max((row.get("total_ms") or 0 for rows in found for row in rows.values()), default=0)
    rows = []
    for name in order:
        row = list(name) if is_layer else [name]
        for index, rows_of in enumerate(found):
            row += pair_cells(rows_of, name, most)
            if index:
                row.append(ratio(rows_of.get(name, {}).get("total_ms"), found[0].get(name, {}).get("total_ms")))
        rows.append(row)
    text = table(key, f"{heading} [ms]", columns, rows, style="bare tall" if len(rows) > TALL else "bare")
    return section(f"{heading} [ms]", text, "What takes most time in a step comes first. A click on a header sorts.",
                   f"section-{key}")


def pair_cells(rows, name, most):
    """The cells of one run in a row of pair_section()."""
    row = rows.get(name)
    has_prediction = any(other.get("predicted_ms") is not None for other in rows.values())
    if row is None:
        return [None] * (6 if has_prediction else 4)
    cells = [row.get("count"), row.get("median_ms"), meter(row.get("total_ms") or 0, most), percent(row.get("share"))]
    if has_prediction:
        expected = row.get("predicted_ms")
        cells += [expected, ratio(row.get("median_ms"), expected)]
    return cells
