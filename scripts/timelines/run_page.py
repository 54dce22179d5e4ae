"""The page of runs: curves over steps and time, and the tables below them."""
import base64

from . import run_curves
from .html_parts import Cell, Column, bytes_text, escape, frame, milliseconds, read_part, section, stacked_bars, table
from .picture import svg
from .read import read
from .run_figures import duration, sentence, table_cells
from .timeline import BadInput

MARKER = "<!-- gpipe-report -->"  # at the end of the page: it may be written over
COLOURS = 8
WINDOWS = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)  # steps
LARGEST = 1e18  # a larger number of bytes or seconds is no measurement

TERMS = (("computing", "computing", "account-computing"), ("copying", "copying", "account-copying"),
         ("waiting", "waiting", "account-waiting"))
HOST_KINDS = {"arenas": "arenas of CPU workers", "training_data": "data, training", "evaluation_data": "data, evaluation",
              "shuffled_order": "data, shuffled order", "reading": "data, samples while they are read",
              "sources": "data, inflated files and tables", "state_copy": "copy of the run's state",
              "parameter": "largest parameter", "records": "records for the report and timeline",
              "signals": "signals and events between workers", "bound": "bound ops", "libraries": "kernels", "headers": "headers", "threads": "threads"}


def colour(index):
    return index % COLOURS + 1


def name_cell(index, name):
    """A run's name with the colour of its curves."""
    return Cell(name, html='<span class="run-swatch run-%d"></span>%s' % (colour(index), escape(name)))


def value_at(data, *keys):
    """A number in nested mappings and lists, or None."""
    for key in keys:
        if isinstance(data, dict):
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    if not isinstance(data, (int, float)) or isinstance(data, bool):
        return None
    return data if -LARGEST < data < LARGEST else None


# ---- sections ------------------------------------------------------------------------------------------------------

def runs_section(data):
    rows = table_cells(data)
    columns = [Column(head, "text" if i < 2 else "number") for i, (head, _) in enumerate(rows[0])]
    shown = [[name_cell(i, row[0][1])] + [cell for _, cell in row[1:]] for i, row in enumerate(rows)]
    body = table("runs", "Runs", columns, shown)
    remarks = "".join("<li>%s</li>\n" % escape(remark) for one in data["runs"] for remark in one["remarks"])
    return body + ('<ul class="remarks note">\n%s</ul>\n' % remarks if remarks else "")


def curves_section(curves):
    boxes = "".join(
        '<label><input type="checkbox" checked data-run="%d"><span class="swatch run-%d"></span><span>%s</span></label>' %
        (i, colour(i), escape(run["name"])) for i, run in enumerate(curves["runs"]))
    windows = "".join('<option value="%d">%s</option>' % (n, "no smoothing" if n == 1 else "mean of the last %s steps" % f"{n:,}")
                      for n in curves["windows"])
    controls = (
        '<div class="controls"><span class="group" role="group" aria-label="horizontal axis">over '
        '<button type="button" data-axis="step" aria-pressed="true">steps</button>'
        '<button type="button" data-axis="time" aria-pressed="false">time</button></span>'
        '<span class="group"><select id="window" aria-label="smoothing">%s</select></span>'
        '<span class="group"><button type="button" id="reset" title="everything (0, or a double click)">all</button></span>%s'
        '</div>\n' %
        (windows, boxes))
    joined = [run for run in curves["runs"] if run["bucket"] > 1]
    note = ("Drag over a curve to zoom in, Shift and drag to move, Ctrl and the wheel to zoom, a double click for everything. "
            "Keys: + and -, left and right, 0. Thick lines are means, thin lines single steps. Circles are evaluations, "
            "vertical lines events.")
    if joined:
        note += (" To keep the page small, a point stands for several steps: %s. It shows their smallest and largest value." %
                 ", ".join("%s %d" % (run["name"], run["bucket"]) for run in joined))
    missing = [title for key, title, *_ in run_curves.CURVES if not any(
        key in run["curves"] or key in run_curves.EVALUATED and any(one[key] is not None for one in run["evaluations"])
        for run in curves["runs"])]
    if missing:
        note += " No run has: %s.%s" % (", ".join(missing), " The norm is written with optimizer.clip_norm and with -v."
                                        if "norm of the gradients" in missing else "")
    return section("Curves", controls + '<div class="charts" id="charts"></div><div id="tip" hidden></div>\n', note, "curves")


def differences_section(data):
    names = [one["name"] for one in data["runs"]]
    if len(names) < 2:
        return ""
    if not data["differences"]:
        return section("What differs", "<p>The configurations do not differ.</p>\n", name="differences")
    rows = [[key, *values] for key, values in data["differences"].items()]
    head = "line of config.yaml" if data["differences_by_line"] else "key"
    return section("What differs", table("differences", "Configurations", [Column(head)] + [Column(name) for name in names], rows,
                                         "A dash: the configuration does not have it."), name="differences")


def account_rows(index, one):
    account = one["account"]
    expected, measured = value_at(account, "expected", "step"), value_at(account, "measured", "step")
    known = expected is not None and measured is not None
    off = [value_at(account, "off", term) for term, *_ in TERMS]
    shares = [value_at(account, *keys)
              for keys in (("expected", "bubble"), ("measured", "bubble"), ("data", "share"), ("stolen",))]
    times = [expected, measured, measured - expected if known else None, *off]
    return [name_cell(index, one["name"]), *(Cell(time, milliseconds(None if time is None else 1e3 * time)) for time in times),
            *(Cell(share, "–" if share is None else "%.1f %%" % (100 * share)) for share in shares),
            str(account.get("source", ""))]


def bars_of_workers(one):
    """Predicted beside measured, a pair of bars for each worker."""
    account, rows = one["account"], []
    devices = one.get("devices") or []
    count = 0
    for side in ("expected", "measured"):
        busy = account.get(side, {}).get("busy") if isinstance(account.get(side), dict) else None
        count = max(count, len(busy) if isinstance(busy, list) else 0)
    for worker in range(min(count, 64)):
        for side, words in (("expected", "predicted"), ("measured", "measured")):
            values = {term: 1e3 * max(0, value_at(account, side, key, worker) or 0)
                      for term, key in (("computing", "busy"), ("copying", "copying"), ("waiting", "waiting"))}
            label = "worker %d%s, %s" % (worker, " (%s)" % devices[worker] if worker < len(devices) else "", words)
            rows.append((label, values, milliseconds(sum(values.values()))))
    return rows


def account_section(data):
    with_account = [(i, one) for i, one in enumerate(data["runs"]) if one["account"]]
    without = [one["name"] for one in data["runs"] if not one["account"]]
    note = "No report: %s. A run writes it when it ends, after at least two full steps." % ", ".join(without) if without else ""
    body = ""
    if with_account:
        columns = [Column("run"), *(Column(head, "number") for head in (
            "predicted step", "measured step", "difference", "from computing", "from copying", "from waiting", "bubble predicted",
            "bubble measured", "waiting for data", "CPU steal")), Column("predicted from")]
        body += table("account", "Predicted and measured step", columns, [account_rows(i, one) for i, one in with_account],
                      "The differences from computing, copying and waiting add up to the difference of the step.")
        for i, one in with_account:
            body += stacked_bars("workers-%d" % i, "Time of a step in %s" % one["name"], bars_of_workers(one), TERMS)
    return section("Report at the end of the run", body, note, "account")


def memory_section(data):
    have = [(i, one) for i, one in enumerate(data["runs"]) if one["memory"]]
    if not have:
        return ""
    rows = []
    hosts = [one["memory"]["host"] for _, one in have]
    kinds = dict.fromkeys(kind for host in hosts if isinstance(host, dict) for kind in host)
    for kind in kinds:
        values = [value_at(one["memory"], "host", kind) for _, one in have]
        rows.append([HOST_KINDS.get(kind, kind), *(Cell(value, bytes_text(value)) for value in values)])
    for key, words in (("program_bytes", "the program and its libraries"), ("planned_bytes", "planned, in all"),
                       ("resident_bytes", "resident, measured")):
        values = [value_at(one["memory"], key) for _, one in have]
        rows.append([words, *(Cell(value, bytes_text(value)) for value in values)])
    used = [(value_at(one["memory"], "resident_bytes"), value_at(one["memory"], "planned_bytes")) for _, one in have]
    rows.append(["resident beside planned", *(Cell(a / b, "%.1f %%" % (100 * a / b)) if a and b else None for a, b in used)])
    columns = [Column("memory of the host")] + [Column(one["name"], "number") for _, one in have]
    return section("Memory planned beside resident", table("memory", "Host memory", columns, rows), name="memory")


def plan_pictures(run):
    """The plan as SVG for light and for dark readers, or a sentence why there is none."""
    if not run.plan_path:
        return "%s has no plan.json, as runs of older versions" % run.name
    try:
        plan = read(run.plan_path)
        plan.name = run.name
        return tuple(svg([plan], title="", theme=theme) for theme in ("light", "dark"))
    except BadInput as problem:
        return "the plan of %s cannot be drawn: %s" % (run.name, problem)


def image(text, theme, name):
    """An image, since the style sheet of one SVG would change all of the page."""
    encoded = base64.b64encode(text.encode("utf-8", "backslashreplace")).decode("ascii")
    return '<img class="plan-picture %s" alt="the plan of %s" src="data:image/svg+xml;base64,%s">\n' % (
        theme, escape(name), encoded)


def plan_section(runs):
    body, notes = "", []
    for run in runs:
        pictures = plan_pictures(run)
        if isinstance(pictures, str):
            notes.append(pictures)
        else:
            body += "".join(image(text, theme, run.name) for text, theme in zip(pictures, ("light", "dark")))
    return section("Plan", body, ". ".join(notes) + "." if notes else "As plan.json of the run folder has it.", "plan")


def events_section(data):
    rows = []
    for i, one in enumerate(data["runs"]):
        for event in one["events"][:run_curves.MOST_EVENTS]:
            time = Cell(event["time"], "–" if event["time"] is None else duration(event["time"]))
            rows.append([name_cell(i, one["name"]), event["step"], time, event["kind"], event["text"]])
    columns = [Column("run"), Column("step", "number", 0), Column("time", "number"), Column("event"), Column("text")]
    return section("Events", table("events", "Resumed, changed, saved, ended", columns, rows), name="events") if rows else ""


def configurations_section(runs):
    body = ""
    for run in runs:
        text = "\n".join(escape(line) for line in run.config_text[:200000].split("\n"))
        body += "<details><summary>%s</summary><pre>%s</pre></details>\n" % (escape(run.name), text) if run.config_text else ""
    return section("Configurations", body, "As they ran, from each config.yaml.", "configurations") if body else ""


def windows(runs):
    """Lengths of smoothing that make sense for the longest run; the first is what the page begins with."""
    most = max((len(run.steps) for run in runs), default=0)
    lengths = [n for n in WINDOWS if n == 1 or n <= most / 4]
    return lengths, max(n for n in lengths if n <= max(1, most / 30))


def page(runs, data, title):
    """The HTML. `data` is run_figures.of_runs of the same runs."""
    lengths, begin = windows(runs)
    curves = {"runs": [run_curves.of_run(run, len(runs)) for run in runs], "windows": lengths, "window": begin,
              "curves": [{"key": key, "title": text, "unit": unit, "smooth": smooth, "evaluated": key in run_curves.EVALUATED}
                         for key, text, unit, smooth in run_curves.CURVES]}
    body = "".join((runs_section(data), curves_section(curves), differences_section(data), account_section(data),
                    memory_section(data), plan_section(runs), events_section(data), configurations_section(runs)))
    return frame(title, body, lead=sentence(data), data={"curves": curves}, styles=[read_part("run_page.css")],
                 scripts=[read_part("run_data.js"), read_part("run_page.js")]) + MARKER + "\n"
