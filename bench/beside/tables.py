"""Figures of bench/peers.py as tables. A figure is {network: {row: [value of each round, or None]}}; no file or process is touched here."""
import statistics

from beside.networks import NETWORKS
from beside.rows import ROWS

# What is printed, ours, the other.
RATIOS = [
    ("ours 1 stage x 1 thread / eager, 1 thread", "ours_1x1", "eager_1"),
    ("ours 1 x 2 / eager, 2", "ours_1x2", "eager_2"),
    ("ours 1 x 2 / tuned, 2", "ours_1x2", "tuned_2"),
    ("ours 1 x 2 / bf16, 2", "ours_1x2", "bf16_2"),
    ("ours 1 x 2 / torch.compile, 2", "ours_1x2", "compile_2"),
    ("ours 2 x 1 never / torchgpipe never", "ours_never", "torchgpipe_never"),
    ("ours 2 x 1 except_last / torchgpipe except_last", "ours_except_last", "torchgpipe_except_last"),
    ("ours 2 x 1 never / pipelining GPipe", "ours_never", "pipelining_gpipe"),
    ("ours 2 x 1 1f1b / pipelining 1F1B", "ours_1f1b", "pipelining_1f1b"),
    ("ours 2 replicas, 2 processes / PyTorch DDP", "ours_replicas_mpi", "ddp_2"),
    ("ours 2 replicas, 2 processes / 2 threads", "ours_replicas_mpi", "ours_replicas"),
    ("ours 2 replicas / ours 1 x 2", "ours_replicas", "ours_1x2"),
    ("ours 2 x 1 never / ours 1 x 1 (bound 1.60)", "ours_never", "ours_1x1"),
]
# Ours, the other, the least median ratio that is aimed at, by network.
MARKS = [
    ("ours_1x2", "eager_2", {"small": 2.0, "resnet50": 2.5, "resnet50-224": 1.3, "unet": 2.0}),
    ("ours_1x2", "tuned_2", {"small": 1.6, "resnet50": 2.3, "resnet50-224": 1.15, "unet": 1.8}),
    ("ours_never", "torchgpipe_never", {"small": 3.0, "resnet50": 3.5, "resnet50-224": 1.6, "unet": 2.5}),
    ("ours_never", "ours_1x1", {"small": 1.5, "resnet50": 1.5, "resnet50-224": 1.5, "unet": 1.45}),
]
FIRST, COLUMN = 48, 22
MIB = 1 << 20


def ratios(ours, others):
    """(least, median, greatest) of the ratios of two lists, round by round. Rounds in which either is missing do not count. Or None."""
    pairs = [a / b for a, b in zip(ours, others) if a is not None and b is not None]
    return (min(pairs), statistics.median(pairs), max(pairs)) if pairs else None


def median(values):
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


def line(title, cells):
    return f"{title:{FIRST}}" + "".join(f"{cell:>{COLUMN}}" for cell in cells)


def rows_of(figures):
    return [row for row in ROWS if any(median(rows.get(row, [])) is not None for rows in figures.values())]


def header(title, networks):
    return ["", title, line("", [NETWORKS[network].title for network in networks])]


def values(records, get):
    """Figures from {network: {row: [Measured of each round, or None]}}."""
    return {network: {row: [one and get(network, one) for one in some] for row, some in rows.items()} for network, rows in records.items()}


def ratio_cell(of):
    return f"{of[1]:.2f} ({of[0]:.2f}-{of[2]:.2f})" if of else "-"


def ratio_table(rates):
    """One line for each pair of rows that has a ratio for a network: median (least-greatest)."""
    lines = header("samples/s as ratios: median (least-greatest)", rates)
    for title, ours, other in RATIOS:
        found = [ratios(rows.get(ours, []), rows.get(other, [])) for rows in rates.values()]
        if any(found):
            lines.append(line(title, [ratio_cell(of) for of in found]))
    return lines


def rate_table(rates):
    lines = header("samples/s: medians of the rounds", rates)
    for row in rows_of(rates):
        cells = [median(rows.get(row, [])) for rows in rates.values()]
        lines.append(line(ROWS[row].title, ["-" if cell is None else f"{cell:,.1f}" if cell < 1000 else f"{cell:,.0f}" for cell in cells]))
    return lines


def mebibytes(value):
    return "-" if value is None else f"{value / MIB:,.0f}"


def memory_table(peaks, empty, planned):
    """Peaks less what the empty process takes, {"ours": bytes, "torch": bytes}, beside the plan's bytes (arenas, all of the run)."""
    ours, torch = mebibytes(empty["ours"]), mebibytes(empty["torch"])
    lines = header(f"MiB: peak resident, less {ours} of gpipe-train and its libraries, and {torch} of PyTorch's", peaks)
    for row in rows_of(peaks):
        if ROWS[row].processes == 1:
            loaded = empty["ours" if ROWS[row].pipeline else "torch"]
            cells = [median(rows.get(row, [])) for rows in peaks.values()]
            lines.append(line(ROWS[row].title, [mebibytes(None if cell is None else cell - loaded) for cell in cells]))
    for i, title in enumerate(("arenas", "all of the run")):
        for row in [row for row in ROWS if any(row in planned.get(network, {}) for network in peaks)]:
            cells = [planned.get(network, {}).get(row, (None, None))[i] for network in peaks]
            lines.append(line(f"planned, {title}: {ROWS[row].title.split(', ', 1)[1]}", [mebibytes(cell) for cell in cells]))
    return lines


def use_cell(some):
    there = [one for one in some if one]
    if not there:
        return "-"
    names = ("faults", "switches", "user", "system")
    faults, switches, user, system = (statistics.median(getattr(one, name) for one in there) for name in names)
    return f"{faults:,.0f} {switches:,.0f} {1e3 * user:,.0f}+{1e3 * system:,.0f}"


def use_table(records):
    """What a step uses, by rows of one process whose threads stay: torchgpipe's end with each step, and their switches with them."""
    lines = header("a step: page faults, voluntary context switches, processor time in ms (user+system)", records)
    for row in rows_of(values(records, lambda _, one: one.step)):
        if ROWS[row].processes == 1 and not row.startswith("torchgpipe"):
            lines.append(line(ROWS[row].title, [use_cell(rows.get(row, [])) for rows in records.values()]))
    return lines


def disturbance(records):
    """One line: what other programs and the hypervisor took while rows were measured."""
    there = [one for rows in records.values() for some in rows.values() for one in some if one]
    if not there:
        return []
    others, steal = ([getattr(one, name) for one in there] for name in ("others", "steal"))
    shares = [f"{100 * statistics.median(of):.0f} %, at most {100 * max(of):.0f} %" for of in (others, steal)]
    return [f"# share of the processors' time, median of the rows: other programs {shares[0]}; CPU steal {shares[1]}"]


def mark_table(rates, peaks, empty):
    """The marks of issue 17: met or missed by the median ratio."""
    lines = header("marks", rates)
    titles = {(ours, other): title for title, ours, other in RATIOS}
    for ours, other, marks in MARKS:
        cells = []
        for network, rows in rates.items():
            of = ratios(rows.get(ours, []), rows.get(other, []))
            cells.append(f"{of[1]:.2f} of {marks[network]:.2f} {'met' if of[1] >= marks[network] else 'missed'}" if of else "-")
        lines.append(line(titles[ours, other], cells))
    cells = []
    for rows in peaks.values():
        ours, other = median(rows.get("ours_1x2", [])), median(rows.get("eager_2", []))
        if ours is None or other is None:
            cells.append("-")
            continue
        share = (ours - empty["ours"]) / (other - empty["torch"])
        cells.append(f"{share:.2f} of 1.00 {'met' if share < 1 else 'missed'}")
    lines.append(line("memory: ours 1 x 2 / eager, 2 (below 1)", cells))
    return lines
