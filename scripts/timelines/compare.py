"""Runs beside one another: the figures of each, the sentence on top, and the tables. The first run is the one to compare with."""
import textwrap
from statistics import median

from .figures import figures, instruction_times
from .read import say_steps
from .sentence import sentence
from .tables import WIDTH, change, clip, ms, percent, ratio, size, table
from .timeline import IDLE_KEYS, BadInput

SOURCES = {"trace": "timeline", "plan": "plan", "simulation": "simulation", "nsys": "Nsight Systems", "torch": "PyTorch's profiler"}
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_ROWS = 20  # of a table of instructions; --json has all
BESIDE = 4  # runs in one table
IDLE_WORDS = {"earlier_stage": "waiting for an earlier stage", "later_stage": "waiting for a later stage",
              "copy": "waiting for a copy", "collective": "waiting for a collective", "imbalance": "imbalance of the stages",
              "launch": "the host's launching", "data": "waiting for data"}
IDLE_HEADS = {"earlier_stage": "earlier", "later_stage": "later", "copy": "copy", "collective": "collect.",
              "imbalance": "imbal.", "launch": "launch", "data": "data"}


def compare(timelines, totals=False):
    """{"runs", "text", "tables"} of the timelines. `totals`: their numbers of workers may differ; only means are compared.

    `tables` is a list of texts, in the order in which they are printed.
    """
    check_workers(timelines, totals)
    runs = [figures(timeline) for timeline in timelines]
    text = " ".join([*said_first(timelines), sentence(runs)]).strip()  # sentence() gives each run its rows of stages, too
    tables = [legend(timelines, runs), *summary(runs), *idle_table(runs)]
    if not totals:
        tables += [worker_table(runs), worker_idle_table(runs), *stage_tables(runs)]
    tables += instruction_tables(timelines, runs, totals) + layer_tables(runs) + predicted_tables(runs)
    return {"runs": runs, "text": text, "tables": tables + remarks(timelines, runs)}


def said_first(timelines):
    """The remarks that come before all else, with the letter of their file if there are several."""
    return [(f"{letter}: " if len(timelines) > 1 else "") + timeline.said_first for letter, timeline in zip(LETTERS, timelines) if timeline.said_first]


def text_of(comparison):
    """What gpipe-compare prints."""
    top = [textwrap.fill(comparison["text"], WIDTH, break_on_hyphens=False) + "\n"] if comparison["text"] else []
    return "\n".join(top + comparison["tables"])


def check_workers(timelines, totals):
    """Workers are compared one by one, so all runs must have the same number."""
    counts = [len(timeline.workers) for timeline in timelines]
    other = next((i for i, count in enumerate(counts) if count != counts[0]), None)
    if other is not None and not totals:
        raise BadInput(f"{timelines[0].name} has {say_workers(counts[0])} and {timelines[other].name} has {counts[other]}, so they "
                       "cannot be compared worker by worker; add --totals to compare means over the workers")


def say_workers(count):
    return f"{count} worker" + ("s" if count != 1 else "")


def legend(timelines, runs):
    """Which letter is which file."""
    lines = []
    for letter, timeline, run in zip(LETTERS, timelines, runs):
        numbers = "one predicted step" if run["source"] in ("plan", "simulation") else say_steps(
            [step.number for step in timeline.steps])
        lines.append(f"{letter}  {clip(run['name'], 50)}: {SOURCES[run['source']]}, {numbers}, {say_workers(len(run['workers']))}")
    return "\n".join(lines) + "\n"


def groups(runs):
    """Indexes of the runs that stand in one table: the first run, and up to three others."""
    others = list(range(1, len(runs)))
    return [[0, *others[at:at + BESIDE - 1]] for at in range(0, max(len(others), 1), BESIDE - 1)]


def _side_by_side(title, runs, rows, sign="/"):
    """Tables with a column for each run. rows: (label, value of a run, its text, text of a value beside that of A)."""
    made = []
    for group in groups(runs):
        columns = [""]
        for i in group:
            columns += [LETTERS[i]] + ([f"{LETTERS[i]}{sign}A"] if i else [])
        lines = []
        for label, value, show, beside in rows:
            values = [value(runs[i]) for i in group]
            if all(it is None for it in values):
                continue
            line = [label]
            for i, it in zip(group, values):
                line += [show(it)] + ([beside(it, values[0])] if i else [])
            lines.append(line)
        made.append(table(title, columns, lines))
    return made


def _points(value, reference):
    """The difference of two shares in percentage points."""
    return "–" if value is None or reference is None else f"{100 * (value - reference):+.1f}".replace("-", "−")


def _difference(value, reference):
    return change(None if value is None or reference is None else value - reference)


def summary(runs):
    """The figures of a step, in all and as means over the workers."""
    def of(*keys):
        def value(run):
            for key in keys:
                run = run.get(key) if run else None
            return run
        return value

    def if_many(key):
        return lambda run: run["step_spread"][key] if run["steps"] > 1 else None

    rows = [("step [ms], median", of("step_ms"), ms, ratio),
            ("  shortest", if_many("min_ms"), ms, ratio),
            ("  lower quartile", if_many("lower_ms"), ms, ratio),
            ("  upper quartile", if_many("upper_ms"), ms, ratio),
            ("  longest", if_many("max_ms"), ms, ratio),
            ("  predicted by the plan", predicted_step, ms, ratio),
            ("between steps [ms]", lambda run: run["between_ms"] if run["gaps"] else None, ms, ratio),
            ("  waiting for data", lambda run: run["between_data_ms"] if run["gaps"] else None, ms, ratio),
            ("busy [ms of a step]", of("mean", "busy_ms"), ms, ratio),
            ("copying", of("mean", "copy_ms"), ms, ratio),
            ("exposed copying", of("mean", "copy_exposed_ms"), ms, ratio),
            ("collectives", lambda run: run["mean"]["collective_ms"] or None, ms, ratio),
            ("idle", of("mean", "idle_ms"), ms, ratio),
            ("bubble", of("bubble"), percent, _points),
            ("  of the schedule alone", of("schedule_bubble"), percent, _points),
            ("  predicted by the plan", lambda run: (run["planned"] or {}).get("bubble") if run["source"] not in PREDICTED else None,
             percent, _points),
            ("most memory alive", most_alive, size, ratio)]
    return _side_by_side("Step (busy to idle: mean over the workers)", runs, rows)


PREDICTED = ("plan", "simulation")


def predicted_step(run):
    """What the plan of a measured run predicted."""
    return (run["planned"] or {}).get("step_ms") if run["source"] not in PREDICTED else None


def most_alive(run):
    return max((row["peak_bytes"] for row in run["memory"] if row["peak_bytes"] is not None), default=None)


def idle_table(runs):
    """Where idle time goes, as means over the workers."""
    rows = [(IDLE_WORDS[key], lambda run, key=key: run["mean"]["idle"][key], ms, _difference) for key in IDLE_KEYS]
    rows.append(("idle in all", lambda run: run["mean"]["idle_ms"], ms, _difference))
    return _side_by_side("Where idle time goes [ms of a step, mean over the workers]", runs, rows, " − ")


def _each_worker(runs):
    """(label of the row, letter, run, index of the worker) of the rows of a table of workers."""
    for w in range(len(runs[0]["workers"])):
        for letter, run in zip(LETTERS, runs):
            yield run["workers"][w]["name"] if run is runs[0] or run["workers"][w]["name"] != runs[0]["workers"][w]["name"] else "", \
                letter, run, w


def worker_table(runs):
    """What each worker did."""
    rows = []
    for label, letter, run, w in _each_worker(runs):
        worker, memory = run["workers"][w], run["memory"][w]
        rows.append([label, letter, *(ms(worker[key]) for key in ("busy_ms", "copy_ms", "copy_exposed_ms", "idle_ms")),
                     percent(worker["busy_ms"] / run["step_ms"] if run["step_ms"] else None),
                     size(memory["peak_bytes"]), size(memory["planned_bytes"])])
    return table("Workers [ms of a step]",
                 ["worker", "<", "busy", "copying", "exposed", "idle", "share", "alive", "planned"], rows)


def worker_idle_table(runs):
    """Where the idle time of each worker goes."""
    rows = [[label, letter, *(ms(run["workers"][w]["idle"][key]) for key in IDLE_KEYS), ms(run["workers"][w]["idle_ms"])]
            for label, letter, run, w in _each_worker(runs)]
    return table("Where the idle time of each worker goes [ms of a step]",
                 ["worker", "<", *(IDLE_HEADS[key] for key in IDLE_KEYS), "idle"], rows)


def stage_tables(runs):
    """How long each stage computes, if there are several."""
    stages = sorted({row["stage"] for run in runs for row in run["stages"]})
    if len(stages) < 2:
        return []
    found = [{row["stage"]: row for row in run["stages"]} for run in runs]
    rows = []
    for stage in stages:
        label = str(stage)
        for letter, its in zip(LETTERS, found):
            row = its.get(stage)
            if row:
                rows.append([label, letter, ms(row["computes_ms"]), ratio(row["of_mean"], 1), ms(row["predicted_ms"]),
                             ratio(row["of_predicted"], 1), ratio(row["planned_of_mean"], 1)])
                label = ""
    return [table("Stages [ms of a step]", ["stage", "<", "computes", "of the mean", "predicted", "of predicted", "planned of the mean"],
                  rows)]


def instruction_tables(timelines, runs, totals):
    """Kinds of instructions, most expensive first: of A, and of A beside each of the others."""
    if totals:
        found = [_rows_by_op(timeline) for timeline in timelines]
    else:
        found = [{instruction_label(row): row for row in run["instructions"]} for run in runs]
    return _pairs("Instructions [ms]", "instruction", found)


def instruction_label(row):
    """ "F s1", as in the names of spans; a kernel's name alone."""
    return f"{row['op']} s{row['stage']}" if row["stage"] >= 0 else row["op"]


def layer_tables(runs):
    return _pairs("Layers [ms]", "layer", [{f"{row['layer']} {row['op']}": row for row in run["layers"]} for run in runs])


def _rows_by_op(timeline):
    """Rows of ops over all stages."""
    merged = {}
    for (op, _), by_step in instruction_times(timeline).items():
        for step, durations in by_step.items():
            merged.setdefault(op, {}).setdefault(step, []).extend(durations)
    rows = {}
    for op, by_step in merged.items():
        steps = [by_step.get(step.number, ()) for step in timeline.steps]
        rows[op] = {"count": median(map(len, steps)), "median_ms": median(d for step in steps for d in step),
                    "total_ms": median(map(sum, steps))}
    whole = sum(row["total_ms"] for row in rows.values())
    for row in rows.values():
        row["share"] = row["total_ms"] / whole if whole else 0.0
    return rows


def _pairs(title, head, found):
    """A table of the rows of the first run, with those of another run beside them for each other run."""
    if not any(found):
        return []
    made = []
    for other in range(1, len(found)) if len(found) > 1 else [None]:
        beside = found[other] if other is not None else {}
        labels = sorted({**found[0], **beside},
                        key=lambda label: -max(rows[label]["total_ms"] for rows in (found[0], beside) if label in rows))
        shown = [label for label in labels if any(rows[label]["total_ms"] > 0 for rows in (found[0], beside) if label in rows)]
        shown = (shown or labels)[:MOST_ROWS]
        letters = ["A"] + ([LETTERS[other]] if other is not None else [])
        columns = [head] + [text for letter in letters for text in (f"{letter}: count", "median", "a step", "share")]
        lines = [_pair_row(label, found[0], beside, other is not None) for label in shown]
        if other is not None:
            columns.append(f"{LETTERS[other]}/A")
        made.append(table(title, columns, lines) + _left_out(labels[len(shown):], found[0], beside))
    return made


def _pair_row(label, first, second, is_pair):
    line = [label]
    for rows in (first, second) if is_pair else (first,):
        row = rows.get(label)
        line += [f"{row['count']:g}", ms(row["median_ms"]), ms(row["total_ms"]), percent(row["share"])] if row else ["–"] * 4
    if is_pair:
        line.append(ratio(second[label]["total_ms"] if label in second else None,
                          first[label]["total_ms"] if label in first else None))
    return line


def _left_out(labels, first, second):
    if not labels:
        return ""
    rest = [ms(sum(rows[label]["total_ms"] for label in labels if label in rows)) for rows in (first, second) if rows]
    return f"  and {len(labels)} more, {' and '.join(rest)} ms in all; --json has them\n"


def predicted_tables(runs):
    """What the plan predicted beside what was measured; rows with the largest difference in a step first."""
    made = []
    for letter, run in zip(LETTERS, runs):
        rows = [row for row in run["instructions"] if row["predicted_ms"] is not None]
        if not rows:
            continue
        rows.sort(key=lambda row: -abs(row["median_ms"] - row["predicted_ms"]) * row["count"])
        lines = [[instruction_label(row), f"{row['count']:g}", ms(row["predicted_ms"]), ms(row["median_ms"]),
                  ratio(row["median_ms"], row["predicted_ms"]), change((row["median_ms"] - row["predicted_ms"]) * row["count"])]
                 for row in rows[:MOST_ROWS]]
        made.append(table(f"Predicted beside measured, {letter} [ms]",
                          ["instruction", "count", "predicted", "measured", "ratio", "a step"], lines))
    return made


def remarks(timelines, runs):
    """What a reader should know about the files."""
    lines = []
    for letter, timeline in zip(LETTERS, timelines):
        lines += [f"{letter}: {remark}" for remark in timeline.remarks]
    identities = [timeline.plan.identity if timeline.plan else "" for timeline in timelines]
    for letter, identity in list(zip(LETTERS, identities))[1:]:
        if identity and identities[0]:
            lines.append(f"A and {letter} have {'the same plan' if identity == identities[0] else 'different plans'}.")
    return ["\n".join(lines) + "\n"] if lines else []
