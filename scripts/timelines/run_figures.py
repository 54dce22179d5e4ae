"""What a run came to, in numbers: the entries of gpipe-report --json, and the table on the terminal."""
import math
from statistics import median

from .run_config import differences, line_differences

STATUS = {"done": "done", "interrupted": "interrupted", "failed": "failed", "running": "running",
          "no end": "no end: killed, or it still runs"}


def known(value):
    """The same data with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _last(values):
    return next((value for value in reversed(values) if value == value), None)


def _best(values, steps, better):
    """(value, step) of the best; of equal ones the earliest."""
    best = None
    for value, step in zip(values, steps):
        if value == value and (best is None or better(value, best[0])):
            best = (value, step)
    return {"value": best[0], "step": best[1]} if best else None


def _lower(a, b):
    return a < b


def _higher(a, b):
    return a > b


def _both(values, steps, better):
    return {"last": _last(values), "best": _best(values, steps, better)}


def _curves(run):
    """Last and best value, in training and in evaluations."""
    evaluated = [one["step"] for one in run.evaluations]
    of = {"loss": _both(run.columns["loss"], run.steps, _lower), "accuracy": _both(run.columns["accuracy"], run.steps, _higher)}
    its = {key: _both([one[key] for one in run.evaluations], evaluated, better)
           for key, better in (("loss", _lower), ("accuracy", _higher))}
    return of, its


def _speed(run):
    values = [value for value in run.samples_per_second() if value == value]
    seconds = sum(value for value in run.columns["seconds"] if value > 0)
    data = sum(value for value in run.columns["data_seconds"] if value > 0)
    share = data / (seconds + data) if seconds + data > 0 else None
    return {"median_samples_per_second": median(values) if values else None, "step_seconds": seconds, "data_seconds": data,
            "data_share": share}


def _memory(run):
    account = run.account or {}
    sizes = {key: account.get(key) for key in ("planned_bytes", "program_bytes", "resident_bytes", "host")}
    return sizes if account else None


def figures(run):
    """The entry of one run in gpipe-report --json."""
    training, evaluations = _curves(run)
    times = [value for value in run.columns["time"] if value == value] + [one["time"] for one in run.evaluations]
    times += [one["time"] for one in run.events]
    times = [value for value in times if known(value) is not None]
    return known({
        "name": run.name, "folder": run.path, "status": run.status, "version": run.about.get("version"),
        "steps": run.steps[-1] if run.steps else 0, "planned_steps": run.planned_steps,
        "devices": [device for device in run.about.get("devices") or [] if isinstance(device, str)]
        if isinstance(run.about.get("devices"), list) else [],
        "epoch": run.epochs[-1] if run.epochs else 0, "seconds": max(times) if times else 0.0,
        "training": training, "evaluations": {"count": len(run.evaluations), **evaluations},
        "grad_norm": _both(run.columns["grad_norm"], run.steps, _lower)["last"], "lr": _last(run.columns["lr"]),
        "speed": _speed(run), "memory": _memory(run), "account": run.account,
        "events": run.events, "remarks": run.remarks})


def differing(runs):
    """[(key, [value of each run, or None])], and whether the keys are lines of files that could not be read."""
    if len(runs) < 2:
        return [], False
    if all(run.config is not None for run in runs):
        rows, by_line = differences([run.config for run in runs]), False
    elif all(run.config_text for run in runs):
        rows, by_line = line_differences([run.config_text for run in runs]), True
    else:
        rows, by_line = [], False
    if not by_line:
        versions = [run.about.get("version") for run in runs]
        if any(version != versions[0] for version in versions):
            rows.append(("version of gpipe-train", [str(version) if version else None for version in versions]))
    return rows, by_line


def of_runs(runs):
    """The whole of gpipe-report --json, but for "text"."""
    rows, by_line = differing(runs)
    return {"runs": [figures(run) for run in runs], "differences": {key: values for key, values in rows},
            "differences_by_line": by_line}


def sentence(data):
    """One sentence with the best evaluations, or the losses if there is none; each number stands in the table."""
    for key in ("accuracy", "loss"):
        best = [(one["name"], one["evaluations"][key]["best"]) for one in data["runs"] if one["evaluations"][key]["best"]]
        if best:
            best.sort(key=lambda pair: pair[1]["value"], reverse=key == "accuracy")
            parts = ["%s %s at step %d" % (name, short(its["value"]), its["step"]) for name, its in best]
            named = [name for name, _ in best]
            parts += ["%s has none" % one["name"] for one in data["runs"] if one["name"] not in named]
            return "Best evaluation, %s: %s." % (key, _listed(parts))
    last = [(one["name"], one["training"]["loss"]["last"], one["steps"]) for one in data["runs"]]
    return "Last loss: %s." % _listed(["%s has none" % name if value is None else "%s %s at step %d" % (name, short(value), step)
                                       for name, value, step in last])


def _listed(parts, most=6):
    return ", ".join(parts[:most]) + (", and %d more runs" % (len(parts) - most) if len(parts) > most else "")


# ---- text ----------------------------------------------------------------------------------------------------------

def printable(text):
    """Without characters that would move a terminal's cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def short(value, digits=4):
    """A number for a table; "-": there is none."""
    if value is None or value != value:
        return "-"
    if value and (abs(value) >= 1e6 or abs(value) < 1e-4):
        return "%.*e" % (digits - 1, value)
    return "%.*g" % (digits, value) if abs(value) < 10 ** digits else "%.0f" % value


def duration(seconds):
    """4.1 s, 3 min 20 s, 2 h 5 min."""
    if seconds < 100:
        return "%.1f s" % seconds
    minutes, rest = divmod(int(seconds + 0.5), 60)
    if minutes < 100:
        return "%d min %d s" % (minutes, rest)
    return "%d h %d min" % divmod(minutes, 60)


def size(count):
    """36.1 MiB."""
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << bits:
            return "%.1f %s" % (count / (1 << bits), unit)
    return "%d B" % count


def share(value):
    return "-" if value is None else "%.1f%%" % (100 * value)


def _with_step(best):
    return "%s (%d)" % (short(best["value"]), best["step"]) if best else "-"


def cells(one, evaluated=True):
    """The row of a run in the table: [(head, cell)]. evaluated: some run has evaluations; their best values are shown then."""
    training, evaluations, speed = one["training"], one["evaluations"], one["speed"]
    of = evaluations if evaluated else training
    steps = "%d/%d" % (one["steps"], one["planned_steps"]) if one["planned_steps"] else str(one["steps"])
    rate = speed["median_samples_per_second"]
    memory = (one["memory"] or {}).get("resident_bytes")
    return [("run", one["name"]), ("status", one["status"]), ("steps", steps), ("time", duration(one["seconds"])),
            ("loss", short(training["loss"]["last"])), *([("eval loss", short(of["loss"]["last"]))] if evaluated else []),
            ("best (step)", _with_step(of["loss"]["best"])), ("accuracy", short(of["accuracy"]["last"])),
            ("best (step)", _with_step(of["accuracy"]["best"])),
            ("samples/s", "-" if rate is None else "%.0f" % rate), ("data", share(speed["data_share"])),
            ("memory", size(memory) if isinstance(memory, int) else "-")]


def table_cells(data):
    """cells() of all runs."""
    evaluated = any(one["evaluations"]["count"] for one in data["runs"])
    return [cells(one, evaluated) for one in data["runs"]]


def table(rows, right=()):
    """Lines of a table; the first row is its head. Columns in `right` are aligned at their right end."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) if i in right else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def text(data):
    """What the program prints: the runs, what differs, remarks."""
    rows = table_cells(data)
    lines = table([[head for head, _ in rows[0]]] + [[cell for _, cell in row] for row in rows], right=range(2, 12))
    names = [one["name"] for one in data["runs"]]
    differs = data["differences"]
    if len(names) > 1:
        lines.append("")
        if differs:
            head = "lines of config.yaml that differ" if data["differences_by_line"] else "what differs"
            lines += table([[head, *names]] + [[key, *("-" if value is None else _cut(value) for value in values)]
                                               for key, values in differs.items()])
        else:
            lines.append("the configurations do not differ")
    lines += ["", printable(sentence(data))]
    remarks = [remark for one in data["runs"] for remark in one["remarks"]]
    if remarks:
        lines += ["", *("remark: " + printable(remark) for remark in remarks)]
    return "\n".join(lines) + "\n"


def _cut(value, most=40):
    return value if len(value) <= most else value[:most - 1] + "…"
