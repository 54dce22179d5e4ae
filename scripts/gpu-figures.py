#!/usr/bin/env python3
"""Figures for scripts/gpu-check.sh, each from files that a run left.

    gpu-figures.py peak GPU                            the rates that are known of a GPU of that name
    gpu-figures.py rate METRICS WORK GPU PRECISION     images/s, share of the peak, and the floor beside it
    gpu-figures.py enqueue TRACE METRICS               the host's time per instruction, and whether the GPU waited for it
    gpu-figures.py table RESULTS                       the table of all steps
    gpu-figures.py --self-test
"""
import collections
import json
import pathlib
import statistics
import sys
import tempfile

# Without sparsity: f32 on CUDA cores, TF32 on tensor cores (TFLOP/s), memory (GB/s). From NVIDIA's data sheets. The first
# whose words are all in the device's name.
PEAKS = [
    ("H200", 66.9, 494.7, 4800),
    ("H100 NVL", 60.0, 417.5, 3938),
    ("H100 PCIe", 51.2, 378.0, 2039),
    ("H100", 66.9, 494.7, 3350),
    ("A100 SXM4 80GB", 19.5, 156.0, 2039),
    ("A100 80GB PCIe", 19.5, 156.0, 1935),
    ("A100", 19.5, 156.0, 1555),
    ("L40S", 91.6, 183.0, 864),
    ("L4", 30.3, 60.0, 300),
    ("RTX 4090", 82.6, 82.6, 1008),
]
Peak = collections.namedtuple("Peak", "name f32 tf32 bytes")
# Steps, from 0. In the first few plans are carried out for the first time, and memory grows; the second to the ninth and
# every sixteenth are recorded, and begin when the one before is over; the others begin while it is under way.
ALONE, BEHIND = slice(4, 9), slice(17, 31)


def find_peak(device):
    words = device.replace("-", " ").split()
    for name, f32, tf32, gigabytes in PEAKS:
        if all(word in words for word in name.split()):
            return Peak(name, f32 * 1e12, tf32 * 1e12, gigabytes * 1e9)
    return None


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def step_rates(lines):
    """Samples per second, medians: of steps that begin behind the one before, and of steps that begin alone."""
    steps = [line for line in lines if line.get("event") == "step"]
    if len(steps) < BEHIND.stop:
        raise ValueError("the run has fewer than %d steps" % BEHIND.stop)
    return tuple(statistics.median(step["samples"] / step["seconds"] for step in steps[which]) for which in (BEHIND, ALONE))


Work = collections.namedtuple("Work", "samples flops bytes floor")


def read_work(lines, peak, precision):
    """Operations and bytes of a step, and the seconds that it takes at the least: each op by itself at the faster of what
    may be had, one after the other. Operands count as read and written once, as count_work has it."""
    samples, flops, moved, floor = 0, 0.0, 0.0, 0.0
    for line in lines:
        words = line.split()
        if words[0] == "samples":
            samples = int(words[1])
            continue
        computes, moves = float(words[2]), float(words[3])
        flops += computes
        moved += moves
        if peak:
            rate = peak.tf32 if words[1] == "tf32" or (precision == "tf32" and is_product(words[0])) else peak.f32
            floor += max(computes / rate, moves / peak.bytes)
    if not samples or not flops:
        raise ValueError("nothing was counted")
    return Work(samples, flops, moved, floor)


def is_product(op):
    return op.startswith(("conv_", "linear_"))


def rate_text(rates, work, peak, precision):
    rate, alone = rates
    text = "%.0f images/s (steps alone: %.0f), %.1f GFLOP and %.2f GB each" % (rate, alone, work.flops / work.samples / 1e9, work.bytes / work.samples / 1e9)
    if not peak:
        return text + "; this GPU's peak is not in the table"
    achieved = rate * work.flops / work.samples
    whole = peak.tf32 if precision == "tf32" else peak.f32
    floor = work.samples / work.floor
    return text + ", %.0f %% of the peak; floor %.0f images/s (%.0f %%)" % (100 * achieved / whole, floor, 100 * rate / floor)


def spans_of(events):
    """{(worker, step): its instructions in order} of training mini-batches; times in µs. A worker's tracks are its queues."""
    workers = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "thread_name":
            workers[event["tid"]] = event["args"]["name"].split(" (")[0]
    found = collections.defaultdict(list)
    for event in events:
        args = event.get("args", {})
        if event["ph"] == "X" and "issued" in args and args["pass"] == "training":
            found[workers[event["tid"]], args["step"]].append(event)
    for spans in found.values():
        spans.sort(key=lambda span: span["args"]["pc"])
    return dict(sorted(found.items()))


def enqueue_text(events):
    """From an instruction's coming to the next one's the host enqueued it. The GPU waited for the host where a computation
    was enqueued after the one before it had ended."""
    costs, between, late, busy, computed, starved = [], [], 0.0, 0.0, 0, 0
    ended = {}  # of each worker, by step
    for (worker, step), spans in spans_of(events).items():
        for span, after in zip(spans, spans[1:]):
            if span["cat"] == "compute":
                costs.append(after["args"]["issued"] - span["args"]["issued"])
        computations = [span for span in spans if span["cat"] == "compute"]
        if computations and (worker, step - 1) in ended:
            between.append(computations[0]["ts"] - ended[worker, step - 1])
        if computations:
            ended[worker, step] = max(span["ts"] + span["dur"] for span in computations)
        for before, span in zip(computations, computations[1:]):
            idle = min(span["ts"], span["args"]["issued"]) - (before["ts"] + before["dur"])
            late += max(idle, 0)
            starved += idle > 0
            computed += 1
        busy += sum(span["dur"] for span in computations)
    if not costs:
        raise ValueError("the timeline has no instructions that were enqueued")
    costs.sort()
    share = 100 * late / (late + busy) if late + busy else 0.0
    text = "median %.0f µs, 95 %% under %.0f µs of host per computation" % (statistics.median(costs), costs[int(0.95 * (len(costs) - 1))])
    text += "; the GPU waited for the host at %d of %d, %.1f %% of its time" % (starved, computed, share)
    if between:
        text += "; %.0f µs between steps alone" % statistics.median(between)
    return text


def behind_text(rates):
    return "; steps alone take %.2f times as long as behind one another" % (rates[0] / rates[1])


def table_text(lines):
    """Lines of "step<tab>result<tab>seconds<tab>figure"."""
    rows = [line.rstrip("\n").split("\t") for line in lines if line.strip()]
    width = max([len("step")] + [len(row[0]) for row in rows])
    text = ["%-*s  %-8s %8s  %s" % (width, "step", "result", "seconds", "figure")]
    text += ["%-*s  %-8s %8s  %s" % (width, name, result, seconds, figure) for name, result, seconds, figure in rows]
    results = collections.Counter(row[1] for row in rows)
    text.append(", ".join("%d %s" % (results[result], result) for result in sorted(results)))
    return "\n".join(line.rstrip() for line in text)


# ---- self-test -------------------------------------------------------------------------------------------------------


def made_up_trace():
    """One worker: load, F, B, step, twice. B of the second step is enqueued 50 µs after its F has ended."""
    events = [
        {"ph": "M", "tid": 1, "name": "thread_name", "args": {"name": "worker 0 (cuda:0), stage 0: computes"}},
        {"ph": "M", "tid": 2, "name": "thread_name", "args": {"name": "worker 0 (cuda:0), stage 0: receives"}},
        {"ph": "M", "tid": 1, "name": "thread_sort_index", "args": {"sort_index": 1}},
        {"ph": "C", "tid": 0, "name": "memory of worker 0", "ts": 1, "args": {"bytes alive": 1}},
    ]

    def add(step, pc, name, issued, start, duration, kind="compute", what="training"):
        args = {"step": step, "pass": what, "clock": 0, "pc": pc, "issued": issued}
        events.append({"ph": "X", "tid": 1 if kind == "compute" else 2, "name": name, "cat": kind, "ts": start, "dur": duration, "args": args})

    add(1, 0, "load s0 m0", 0, 1, 5, "copy")
    add(1, 1, "F s0 m0", 10, 20, 1000)
    add(1, 3, "step", 50, 2020, 100)
    add(1, 2, "B s0 m0", 30, 1020, 1000)
    add(2, 0, "load s0 m0", 3000, 3001, 5, "copy")
    add(2, 1, "F s0 m0", 3010, 3020, 1000)
    add(2, 2, "B s0 m0", 4070, 4080, 790)
    add(2, 3, "step", 4100, 4870, 100)
    add(2, 1, "F s0 m0", 9000, 9001, 7, what="evaluation")
    return events


def expect(got, want):
    if got != want:
        sys.exit("self-test:\n  got  %r\n  want %r" % (got, want))


def expect_error(function, *arguments):
    try:
        function(*arguments)
    except ValueError:
        return
    sys.exit("self-test: %s takes what says nothing" % function.__name__)


def self_test():
    expect(find_peak("NVIDIA H100 80GB HBM3").name, "H100")
    expect(find_peak("NVIDIA H100 PCIe").bytes, 2039e9)
    expect(find_peak("NVIDIA A100-SXM4-80GB").bytes, 2039e9)
    expect(find_peak("NVIDIA A100-SXM4-40GB").bytes, 1555e9)
    expect(find_peak("NVIDIA L40S").name, "L40S")
    expect(find_peak("GeForce 256"), None)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "metrics.jsonl"
        seconds = [9] * 4 + [0.5, 0.4, 0.5, 0.5, 0.6] + [7] * 8 + [0.1] * 7 + [0.2] * 7 + [8]
        steps = [{"event": "step", "samples": 100, "seconds": each} for each in seconds]
        path.write_text("\n".join(json.dumps(line) for line in [{"event": "start"}, *steps, {"event": "end"}]) + "\n")
        expect(step_rates(read_lines(path)), (750, 200))
    expect_error(step_rates, [{"event": "step", "samples": 1, "seconds": 1}] * 30)
    expect(behind_text((750, 500)), "; steps alone take 1.50 times as long as behind one another")

    peak = Peak("made up", 100.0, 1000.0, 10.0)
    # 2 s and 1 s; 0.2 s and 1 s where factors are rounded; 3 s of bytes.
    lines = ["samples 10", "conv_forward f32 200 10", "relu_forward f32 10 30"]
    expect(read_work(lines, peak, "f32"), Work(10, 210.0, 40.0, 5.0))
    expect(read_work(lines, peak, "tf32").floor, 4.0)
    expect(read_work(["samples 1", "conv_forward tf32 200 1"], peak, "f32").floor, 0.2)
    expect_error(read_work, ["samples 10"], peak, "f32")
    work = Work(10, 210e9, 40e9, 5.0)
    big = Peak("made up", 100e9, 1000e9, 10e9)
    expect(
        rate_text((1.0, 0.9), work, big, "f32"),
        "1 images/s (steps alone: 1), 21.0 GFLOP and 4.00 GB each, 21 % of the peak; floor 2 images/s (50 %)",
    )
    expect(rate_text((2.0, 1.0), work, None, "f32"), "2 images/s (steps alone: 1), 21.0 GFLOP and 4.00 GB each; this GPU's peak is not in the table")

    expect(
        enqueue_text(made_up_trace()),
        "median 25 µs, 95 % under 30 µs of host per computation; the GPU waited for the host at 1 of 4, 1.2 % of its time; "
        "900 µs between steps alone",
    )
    expect_error(enqueue_text, [event for event in made_up_trace() if event["ph"] != "X"])

    expect(
        table_text(["build\tok\t12\tsm_90\n", "a longer name\tFAILED\t3\t\n", "none\tskipped\t0\tno nsys\n", "\n"]),
        "step           result    seconds  figure\n"
        "build          ok             12  sm_90\n"
        "a longer name  FAILED          3\n"
        "none           skipped         0  no nsys\n"
        "1 FAILED, 1 ok, 1 skipped",
    )
    print("gpu-figures: what is known of made-up files comes out")


def main(words):
    if words == ["--self-test"]:
        return self_test()
    if len(words) == 2 and words[0] == "peak":
        peak = find_peak(words[1])
        return print("%s: %.1f TFLOP/s f32, %.1f TF32, %.0f GB/s" % (peak.name, peak.f32 / 1e12, peak.tf32 / 1e12, peak.bytes / 1e9) if peak else "not in the table")
    if len(words) == 5 and words[0] == "rate":
        peak = find_peak(words[3])
        with open(words[2], encoding="utf-8") as file:
            work = read_work(file, peak, words[4])
        return print(rate_text(step_rates(read_lines(words[1])), work, peak, words[4]))
    if len(words) == 3 and words[0] == "enqueue":
        with open(words[1], encoding="utf-8") as file:
            return print(enqueue_text(json.load(file)["traceEvents"]) + behind_text(step_rates(read_lines(words[2]))))
    if len(words) == 2 and words[0] == "table":
        with open(words[1], encoding="utf-8") as file:
            return print(table_text(file))
    sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError) as error:
        sys.exit("gpu-figures: %s" % error)
