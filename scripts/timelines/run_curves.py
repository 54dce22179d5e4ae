"""Curves of a run for pages and pictures: rows of steps, joined where there are too many, with mean, smallest and largest value.

A spike of one step stays visible, since each row keeps its smallest and its largest value.
"""
from array import array

MOST_ROWS = 24000  # of all runs of a page
FEWEST_ROWS = 500  # of a run
MOST_EVALUATIONS = 4000  # of a run
MOST_EVENTS = 1000  # of a run

# key, title, unit, whether it is smoothed: a learning rate is no measurement, and its jumps must stay
CURVES = (
    ("loss", "loss", "", True),
    ("accuracy", "accuracy", "", True),
    ("lr", "learning rate", "", False),
    ("grad_norm", "norm of the gradients", "", True),
    ("samples_per_second", "samples/s", "", True),
    ("data_ms", "waiting for data before a step", "ms", True),
)
EVALUATED = ("loss", "accuracy")


def columns(run):
    """{key of CURVES: a value for each step}; NaN: none."""
    of = {key: run.columns[key] for key in ("loss", "accuracy", "lr", "grad_norm")}
    of["samples_per_second"] = run.samples_per_second()
    of["data_ms"] = array("d", (1e3 * value for value in run.columns["data_seconds"]))
    return of


def rows_for(count, runs):
    """How many steps a row joins, so that all runs of the page together have at most about MOST_ROWS."""
    most = max(FEWEST_ROWS, MOST_ROWS // max(1, runs))
    return -(-count // most) if count > most else 1


def join(values, bucket):
    """[(mean, smallest, largest)] of each `bucket` values, without NaN; None if there is no value."""
    out = []
    for at in range(0, len(values), bucket):
        its = [value for value in values[at:at + bucket] if value == value]
        out.append((sum(its) / len(its), min(its), max(its)) if its else None)
    return out


def rounded(value):
    """Six digits: enough for a figure, short in a page."""
    if value is None or value != value:
        return None
    short = float("%.6g" % value)
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def packed(values):
    """A list, or its only value if all are the same."""
    values = [rounded(value) for value in values]
    return values[0] if len(values) > 1 and all(value == values[0] for value in values) else values


def curve(values, bucket):
    """{"mean", "min", "max"} of the rows; only "mean" if a row is one step. None: there is no value."""
    if all(value != value for value in values):
        return None
    if bucket == 1:
        return {"mean": packed(values)}
    joined = join(values, bucket)
    return {name: packed([one[i] if one else None for one in joined]) for i, name in enumerate(("mean", "min", "max"))}


def thin(evaluations, most=MOST_EVALUATIONS):
    """At most about `most` evaluations; of each group those with the smallest and the largest loss and accuracy stay."""
    if len(evaluations) <= most:
        return evaluations
    group, out = -(-4 * len(evaluations) // most), []
    for at in range(0, len(evaluations), group):
        its = list(enumerate(evaluations[at:at + group]))
        kept = set()
        for key in EVALUATED:
            known = [(one[key], i) for i, one in its if one[key] == one[key]]
            if known:
                kept |= {min(known)[1], max(known)[1]}
        out += [one for i, one in its if i in kept or (not kept and i == 0)]
    return out


def of_run(run, runs=1):
    """The data of one run for run_page.js."""
    bucket = rows_for(len(run.steps), runs)
    first, last = list(run.steps[::bucket]), list(run.steps[bucket - 1::bucket])
    if len(last) < len(first):
        last.append(run.steps[-1])
    times = run.columns["time"]
    ends = [times[min(at + bucket, len(times)) - 1] for at in range(0, len(times), bucket)]
    of = {key: curve(values, bucket) for key, values in columns(run).items()}
    data = {"name": run.name, "bucket": bucket, "count": len(run.steps), "first": steps(first, bucket),
            "time": [rounded(value) for value in ends], "curves": {key: value for key, value in of.items() if value},
            "evaluations": [{"step": one["step"], "time": rounded(one["time"]), "loss": rounded(one["loss"]),
                             "accuracy": rounded(one["accuracy"])} for one in thin(run.evaluations)],
            "events": [{**one, "time": rounded(one["time"])} for one in run.events[:MOST_EVENTS]]}
    if bucket > 1:
        data["last"] = steps(last, bucket)
    return data


def steps(values, bucket):
    """A list, or [first, count] in a mapping if they are `bucket` apart."""
    if len(values) > 1 and all(b - a == bucket for a, b in zip(values, values[1:])):
        return {"from": values[0], "count": len(values)}
    return values
