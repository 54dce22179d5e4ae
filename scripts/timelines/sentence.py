"""The sentences on top of a comparison. Each number in them stands in the tables, and each cause is decided by these numbers."""
from .stages import stage_rows
from .timeline import IDLE_KEYS

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TERMS = ("busy_ms", "copy_exposed_ms") + IDLE_KEYS
BUSY = 0.99  # a worker that computes for this part of the step is hardly ever idle
COVERED = 0.8  # of the difference of the steps, by what the sentence names
ALIKE = 0.5  # the plan has a stage's balance too if it predicted at least this part of what the stage exceeds the mean by
NOTCH = 1.57  # times the middle half by the root of the count: how exact a median is (McGill, Tukey and Larsen 1978)
CLOSE = 1.05  # medians whose ratio is less are called equally fast if the steps spread more; else the sentence asks for steps
WORDS = {
    "busy_ms": "computing",
    "copy_exposed_ms": "copies exposed",
    "earlier_stage": "waiting for an earlier stage",
    "later_stage": "waiting for a later stage",
    "copy": "waiting for a copy",
    "collective": "waiting for a collective",
    "imbalance": "imbalance",
    "launch": "the host's launching",
    "data": "waiting for data",
}
COPIES = {"recv": "receives", "load": "loads", "send": "sends", "post": "posts", "collect": "collects"}


def sentence(runs):
    """What the tables say first. One run: what costs most, and why. More: why each is faster or slower than the first."""
    for run in runs:
        run.setdefault("stages", stage_rows(run))
    if len(runs) == 1:
        return _capital(_one(runs[0]))
    return " ".join(_capital(_against(runs[0], run, LETTERS[i % 26])) for i, run in enumerate(runs) if i > 0)


def ms(value):
    """Milliseconds as the sentences have them."""
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def times(ratio):
    """A ratio as the sentences have it."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _capital(text):
    return text[:1].upper() + text[1:]


# ---- two runs -----------------------------------------------------------------------------------------------------------

def terms(run):
    """What the mean worker does in a step: computing, copying exposed, and each term of its idle time."""
    mean = run["mean"]
    return {key: mean["idle"][key] if key in IDLE_KEYS else mean[key] for key in TERMS}


def noise(a, b):
    """Differences of at most this many milliseconds are within the spread of the steps of A or B: their middle half."""
    return max(_middle_half(run) for run in (a, b))


def _middle_half(run):
    return run["step_spread"]["upper_ms"] - run["step_spread"]["lower_ms"]


def apart(a, b):
    """Whether the steps tell which run is faster: the middle halves are apart, and so are the intervals of the medians."""
    fast, slow = sorted((a, b), key=lambda run: run["step_ms"])
    exact = sum(NOTCH * _middle_half(run) / run.get("steps", 1) ** 0.5 for run in (a, b))
    return fast["step_spread"]["upper_ms"] < slow["step_spread"]["lower_ms"] and slow["step_ms"] - fast["step_ms"] > exact


def named(a, b):
    """The terms whose differences make up that of the steps, the largest first."""
    whole = b["step_ms"] - a["step_ms"]
    before, after = terms(a), terms(b)
    differences = sorted(TERMS, key=lambda key: -abs(after[key] - before[key]))
    chosen, rest = [], whole
    for key in differences:
        difference = after[key] - before[key]
        if abs(rest) <= (1 - COVERED) * abs(whole) or difference == 0:
            break
        chosen.append(key)
        rest -= difference
    return chosen


def _against(a, b, letter):
    still = noise(a, b)
    ratio = a["step_ms"] / b["step_ms"] if b["step_ms"] else float("inf")
    how = f"{times(ratio)}× faster" if ratio >= 1 else f"{times(1 / ratio) if ratio else '∞'}× slower"
    if how.startswith("1.00×") or not apart(a, b):
        return _alike(a, b, letter, still)
    before, after = terms(a), terms(b)
    chosen = named(a, b)
    clauses = [f"{WORDS[key]} {ms(before[key])} → {ms(after[key])} ms" for key in chosen]
    unchanged = [key for key in ("imbalance", "copy_exposed_ms") if key not in chosen
                 and abs(after[key] - before[key]) <= still and min(before[key], after[key]) > 0.05 * a["step_ms"]]
    clauses += [f"{WORDS[key]} unchanged ({ms(before[key])} and {ms(after[key])} ms)" for key in unchanged]
    return (f"{letter} is {how} than A ({ms(a['step_ms'])} → {ms(b['step_ms'])} ms a step): "
            f"{', '.join(clauses)}{_loader(a, b, still)}.")


def _alike(a, b, letter, still):
    """Neither run is faster: the medians are equal, or the steps vary too much to tell."""
    low, high = sorted((a["step_ms"], b["step_ms"]))
    if high >= CLOSE * low and high > low:
        how = "slower" if b["step_ms"] > a["step_ms"] else "faster"
        return (f"{letter} may be {how} than A ({ms(a['step_ms'])} → {ms(b['step_ms'])} ms a step), but their steps vary too much "
                f"to tell; record more steps{_loader(a, b, still)}.")
    within = ", which is within the spread of the steps" if ms(low) != ms(high) and still > 0 else ""
    return f"{letter} is as fast as A: {ms(a['step_ms'])} and {ms(b['step_ms'])} ms a step{within}{_loader(a, b, still)}."


def _loader(a, b, still):
    """The wait for data between steps is no part of a step."""
    before, after = a.get("between_data_ms", 0.0), b.get("between_data_ms", 0.0)
    if abs(after - before) <= max(still, 0.05 * a["step_ms"]):
        return ""
    return f"; between steps the wait for data goes {ms(before)} → {ms(after)} ms"


# ---- one run ------------------------------------------------------------------------------------------------------------

def beyond_the_schedule(run, worker):
    """The waits for other stages of a worker, less what the schedule alone makes it wait: {key: milliseconds}.

    With a bubble b of the schedule, a worker that computes for t milliseconds waits t·b/(1−b)."""
    share = run.get("schedule_bubble") or 0.0
    waits = {key: worker["idle"][key] for key in ("earlier_stage", "later_stage")}
    own, whole = worker["busy_ms"] * share / (1 - share) if share < 1 else 0.0, sum(waits.values())
    return {key: max(0.0, wait - own * wait / whole) if whole > 0 else 0.0 for key, wait in waits.items()}


def costs_most(run):
    """(milliseconds, worker, key): the largest part of a worker's step in which it computes nothing.

    Waits that the schedule itself makes count only if nothing else costs 5 % of the step: no change of a stage, a copy or a
    loader shortens them."""
    found = [(it["idle"][key], w, key) for w, it in enumerate(run["workers"]) for key in IDLE_KEYS]
    beyond = [beyond_the_schedule(run, it) for it in run["workers"]]
    found += [(it["copy_exposed_ms"], w, "copy_exposed_ms") for w, it in enumerate(run["workers"])]
    first = max(found, key=lambda it: (beyond[it[1]].get(it[2], it[0]), it[0], -it[1]))
    if beyond[first[1]].get(first[2], first[0]) >= 0.05 * run["step_ms"]:
        return first
    return max(found, key=lambda it: (it[0], -it[1]))


def _one(run):
    amount, w, key = costs_most(run)
    data = run.get("between_data_ms", 0.0)
    if data > max(amount, 0.05 * run["step_ms"]):
        return f"before each step of {ms(run['step_ms'])} ms the trainer waits {ms(data)} ms for data: the loader is too slow."
    worker = run["workers"][w]
    name = f"worker {w} ({worker['name']})"
    if amount <= 0:
        return f"of {ms(run['step_ms'])} ms a step, {name} computes {ms(worker['busy_ms'])} ms, and no worker is idle."
    if all(it["busy_ms"] >= BUSY * run["step_ms"] for it in run["workers"]):
        return f"of {ms(run['step_ms'])} ms a step, {name} computes {ms(worker['busy_ms'])} ms, and workers are hardly ever idle."
    if key == "copy_exposed_ms":
        return (f"of {ms(run['step_ms'])} ms a step, {name} copies {ms(amount)} ms and computes nothing meanwhile"
                f"{_cause(run, key)}.")
    part = "most of it" if amount >= worker["idle_ms"] / 2 else "the largest part of it"
    if amount < max(worker["idle"].values()):
        part = "apart from the schedule's own waits mostly"
    return (f"of {ms(run['step_ms'])} ms a step, {name} idles {ms(worker['idle_ms'])} ms, "
            f"{part} {WORDS[key]} {ms(amount)} ms{_cause(run, key)}.")


def _cause(run, key):
    if key in ("copy", "copy_exposed_ms"):
        return _slow_copies(run)
    if key == "imbalance":
        return _slow_stage(run)
    if key == "data":
        return ": the loader is too slow"
    if key in ("earlier_stage", "later_stage") and run.get("schedule_bubble") is not None:
        return f": the bubble is {100 * run['bubble']:.0f} %, and {100 * run['schedule_bubble']:.0f} % is the schedule's own"
    return ""


def _slow_copies(run):
    rows = [row for row in run["instructions"] if row["op"] in COPIES and row["stage"] >= 0]
    if not rows:
        return ""
    row = max(rows, key=lambda it: it["total_ms"])
    text = f": {COPIES[row['op']]} of stage {row['stage']} take {ms(row['total_ms'])} ms, the median {ms(row['median_ms'])} ms"
    if run.get("source") == "trace" and row["op"] in ("send", "post"):
        return text + f". A {row['op']} copies nothing, so its thread had no processor"
    return text if row.get("predicted_ms") is None else f"{text}, predicted {ms(row['predicted_ms'])} ms"


def _slow_stage(run):
    rows = run["stages"]
    if not rows or rows[0]["of_mean"] is None:
        return ""
    slow = rows[0]
    text = f": stage {slow['stage']} computes {times(slow['of_mean'])} times as long as the mean of the stages"
    planned = slow["planned_of_mean"]
    if planned is None or slow["of_predicted"] is None:
        return text + _slow_layer(run, slow)
    if planned - 1 >= ALIKE * (slow["of_mean"] - 1):
        return f"{text}, and the plan has this balance too ({times(planned)} times the mean)"
    others = [row for row in run["stages"][1:] if row["of_predicted"] is not None][:1]
    beside = "".join(f", stage {row['stage']} {times(row['of_predicted'])} times" for row in others)
    return f"{text}. It takes {times(slow['of_predicted'])} times as long as predicted{beside}" + _slow_layer(run, slow)


def _slow_layer(run, slow):
    """The layer that takes most of the stage, if spans of layers were recorded."""
    rows = [row for row in run.get("layers", []) if row["total_ms"] >= slow["computes_ms"] / 4]
    if not rows:
        return ""
    row = max(rows, key=lambda it: it["total_ms"])
    return f"; its layer {row['layer']} takes {ms(row['total_ms'])} ms in {row['op']}"
