#!/usr/bin/env python3
"""Computes figures for scripts/gpu-check.sh from the files of a run.

    gpu-figures.py peak GPU                            known peak rates of a GPU
    gpu-figures.py rate METRICS WORK GPU PRECISION     images/s, share of the peak, and the floor beside it
    gpu-figures.py enqueue TRACE METRICS               the host's time per computation, and how often the GPU waited for it
    gpu-figures.py ops TIMES GPU TABLE                 ops by time, and the bandwidth of a copy; writes TABLE
    gpu-figures.py ncu CSV TABLE                       own kernels, measured by Nsight Compute; writes TABLE
    gpu-figures.py micro METRICS METRICS METRICS       images/s of one micro-batch, four of its size, four of a quarter
    gpu-figures.py pytorch RESULTS METRICS METRICS     images/s of PyTorch and of gpipe-train, in f32 and TF32
    gpu-figures.py lockstep MICRO JSON …               time of a step with lockstep and without, from gpipe-compare --json
    gpu-figures.py table RESULTS                       the table of all steps
    gpu-figures.py --self-test
    gpu-figures.py --try PROGRAM                       runs time_ops on a small network, and reads its output
"""
import collections
import csv
import json
import pathlib
import statistics
import subprocess
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
    text = "%.0f images/s (without overlap: %.0f), %.1f GFLOP and %.2f GB each" % (rate, alone, work.flops / work.samples / 1e9, work.bytes / work.samples / 1e9)
    if not peak:
        return text + "; this GPU's peak is not in the table"
    achieved = rate * work.flops / work.samples
    whole = peak.tf32 if precision == "tf32" else peak.f32
    floor = work.samples / work.floor
    return text + ", %.0f %% of the peak; floor %.0f images/s (%.0f %%)" % (100 * achieved / whole, floor, 100 * rate / floor)


Times = collections.namedtuple("Times", "samples copy ops")
Op = collections.namedtuple("Op", "step layer name precision flops bytes seconds")


def read_times(lines):
    """What time_ops printed."""
    samples, copy, ops = 0, 0.0, []
    for line in lines:
        words = line.split()
        if words[0] == "samples":
            samples = int(words[1])
        elif words[0] == "copy":
            copy = float(words[1])
        else:
            ops.append(Op(*words[:4], *map(float, words[4:])))
    if not samples or not ops:
        raise ValueError("no op was timed")
    return Times(samples, copy, ops)


def group_ops(ops):
    """[(pass, op, precision, count, flops, bytes, seconds)], the slowest first."""
    groups = collections.OrderedDict()
    for op in ops:
        key = op.step, op.name, op.precision
        count, flops, moved, seconds = groups.get(key, (0, 0.0, 0.0, 0.0))
        groups[key] = count + 1, flops + op.flops, moved + op.bytes, seconds + op.seconds
    return sorted((key + sums for key, sums in groups.items()), key=lambda row: -row[-1])


def share(part, whole):
    return "%.0f %%" % (100 * part / whole) if whole else "-"


def per_second(amount, seconds, unit):
    return amount / seconds / unit if seconds else 0.0


def ops_table(times, peak):
    """Bandwidth counts each operand once; its share is that of a copy within the GPU, as measured in the same run."""
    rows = ["%-8s %-30s %-4s %5s %9s %8s %7s %8s %7s" % ("pass", "op", "", "count", "ms", "GB/s", "of copy", "TFLOP/s", "of peak")]
    for step, name, precision, count, flops, moved, seconds in group_ops(times.ops):
        bandwidth, speed = per_second(moved, seconds, 1e9), per_second(flops, seconds, 1e12)
        whole = (peak.tf32 if precision == "tf32" else peak.f32) / 1e12 if peak else 0.0
        row = step, name, precision, count, 1e3 * seconds, bandwidth, share(bandwidth, times.copy / 1e9), speed, share(speed, whole)
        rows.append("%-8s %-30s %-4s %5d %9.3f %8.0f %7s %8.2f %7s" % row)
    return "\n".join(rows)


def ops_text(times):
    own = [op for op in times.ops if not is_product(op.name)]
    seconds = sum(op.seconds for op in own)
    bandwidth = per_second(sum(op.bytes for op in own), seconds, 1e9)
    slowest = [row for row in group_ops(times.ops) if not is_product(row[1])][0]
    text = "a copy moves %.0f GB/s, own kernels %.0f GB/s (%s)" % (times.copy / 1e9, bandwidth, share(bandwidth, times.copy / 1e9))
    return text + "; the largest part of their time is %s, %s: %.2f ms" % (slowest[1], slowest[0], 1e3 * slowest[-1])


NCU = ("Kernel Name", "gpu__time_duration.sum", "dram__bytes.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed")


def read_ncu(lines):
    """{kernel: (launches, seconds, bytes)} of a raw page as CSV with base units; what the tool prints before it is left out."""
    lines = list(lines)
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        raise ValueError("Nsight Compute measured no kernel")
    found = {}
    for row in csv.DictReader(lines[first:]):
        if not row["ID"]:
            continue  # the units
        name = row[NCU[0]].split("(")[0]
        launches, seconds, moved = found.get(name, (0, 0.0, 0.0))
        found[name] = launches + 1, seconds + 1e-9 * float(row[NCU[1]].replace(",", "")), moved + float(row[NCU[2]].replace(",", ""))
    if not found:
        raise ValueError("Nsight Compute measured no kernel")
    return found


def ncu_table(found):
    rows = ["%-40s %8s %9s %8s" % ("kernel", "launches", "ms", "GB/s")]
    for name, (launches, seconds, moved) in sorted(found.items(), key=lambda item: -item[1][1]):
        rows.append("%-40s %8d %9.3f %8.0f" % (name, launches, 1e3 * seconds, per_second(moved, seconds, 1e9)))
    return "\n".join(rows)


def micro_text(rates):
    one, same, quarter = rates
    return "%.0f images/s in one micro-batch; four of its size %.0f (%.2f times); four of a quarter %.0f (%.2f times)" % (
        one, same, same / one, quarter, quarter / one)


def pytorch_text(results, ours):
    """results: {way: images/s} of PyTorch; ours: {precision: images/s}."""
    parts = []
    for way in results:
        beside = " (ours %.0f, %.2f times)" % (ours[way], ours[way] / results[way]) if way in ours else ""
        parts.append("%s %.0f%s" % (way, results[way], beside))
    return "images/s of PyTorch: " + ", ".join(parts)


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
    text = "median %.0f µs, 95 %% under %.0f µs of host time per computation" % (statistics.median(costs), costs[int(0.95 * (len(costs) - 1))])
    text += "; the GPU waited for the host before %d of %d computations, %.1f %% of its time" % (starved, computed, share)
    if between:
        text += "; %.0f µs between steps without overlap" % statistics.median(between)
    return text


def behind_text(rates):
    return "; steps without overlap take %.2f times as long" % (rates[0] / rates[1])


def lockstep_text(pairs):
    """pairs: (micro-batches, what gpipe-compare --json says of a run in lockstep and one without)."""
    parts = []
    for micro, compared in pairs:
        together, free = compared["runs"]
        exposed = [sum(worker["copy_exposed_ms"] for worker in run["workers"]) for run in (together, free)]
        parts.append("%s micro-batches: %.2f ms a step in lockstep, %.2f without (%.2f times), copies exposed %.2f and %.2f ms" % (
            micro, together["step_ms"], free["step_ms"], free["step_ms"] / together["step_ms"], *exposed))
    return "; ".join(parts)


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


def made_up_comparison():
    """What gpipe-compare --json says of two runs of two workers."""
    return {"runs": [{"step_ms": 10.0, "workers": [{"copy_exposed_ms": 1.0}, {"copy_exposed_ms": 0.5}]},
                     {"step_ms": 12.0, "workers": [{"copy_exposed_ms": 4.0}, {"copy_exposed_ms": 0.0}]}], "text": ""}


def expect(got, want):
    if got != want:
        sys.exit("self-test:\n  got  %r\n  want %r" % (got, want))


def expect_error(function, *arguments):
    try:
        function(*arguments)
    except ValueError:
        return
    sys.exit("self-test: %s accepts files without figures" % function.__name__)


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
    expect(behind_text((750, 500)), "; steps without overlap take 1.50 times as long")

    peak = Peak("made up", 100.0, 1000.0, 10.0)
    # 2 s and 1 s; 0.2 s and 1 s where factors are rounded; 3 s of bytes.
    lines = ["samples 10", "conv_forward f32 200 10", "relu_forward f32 10 30"]
    expect(read_work(lines, peak, "f32"), Work(10, 210.0, 40.0, 5.0))
    expect(read_work(lines, peak, "tf32").floor, 4.0)
    expect(read_work(["samples 1", "conv_forward tf32 200 1"], peak, "f32").floor, 0.2)
    expect_error(read_work, ["samples 10"], peak, "f32")
    expect(lockstep_text([("4", made_up_comparison())]), "4 micro-batches: 10.00 ms a step in lockstep, 12.00 without (1.20 times), "
           "copies exposed 1.50 and 4.00 ms")
    work = Work(10, 210e9, 40e9, 5.0)
    big = Peak("made up", 100e9, 1000e9, 10e9)
    expect(
        rate_text((1.0, 0.9), work, big, "f32"),
        "1 images/s (without overlap: 1), 21.0 GFLOP and 4.00 GB each, 21 % of the peak; floor 2 images/s (50 %)",
    )
    expect(rate_text((2.0, 1.0), work, None, "f32"), "2 images/s (without overlap: 1), 21.0 GFLOP and 4.00 GB each; this GPU's peak is not in the table")

    lines = ["samples 4", "copy 4e9", "forward a conv_forward tf32 2e9 1e6 0.001", "forward b relu_forward f32 1 3e6 0.001",
             "adding c relu_forward f32 1 1e6 0.001", "forward d relu_forward f32 1 1e6 0.001"]
    times = read_times(lines)
    expect(
        ops_table(times, Peak("made up", 1e12, 4e12, 10.0)).splitlines()[1:],
        ["forward  relu_forward                   f32      2     2.000        2    50 %     0.00     0 %",
         "forward  conv_forward                   tf32     1     1.000        1    25 %     2.00    50 %",
         "adding   relu_forward                   f32      1     1.000        1    25 %     0.00     0 %"],
    )
    expect(
        ops_text(times),
        "a copy moves 4 GB/s, own kernels 2 GB/s (42 %); the largest part of their time is relu_forward, forward: 2.00 ms",
    )
    expect(ops_table(read_times(["samples 1", "copy 0", "step - sgd f32 1 1 0"]), None).splitlines()[1].split()[4:], ["0.000", "0", "-", "0.00", "-"])
    expect_error(read_times, ["samples 4", "copy 1"])
    lines = ["==PROF== Connected", '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes.sum"', '"","","ns","byte"',
             '"0","gp_kernel_relu(args)","1,000","4,000"', '"1","gp_kernel_relu(args)","1000","2000"', '"2","gp_kernel_sgd(args)","500","500"']
    expect(
        ncu_table(read_ncu(lines)).splitlines()[1:],
        ["gp_kernel_relu                                  2     0.002        3", "gp_kernel_sgd                                   1     0.001        1"],
    )
    expect_error(read_ncu, ["==PROF== Connected"])
    expect_error(read_ncu, lines[:3])
    expect(micro_text((100, 110, 90)), "100 images/s in one micro-batch; four of its size 110 (1.10 times); four of a quarter 90 (0.90 times)")
    expect(
        pytorch_text({"f32": 100, "tf32": 200, "amp": 400}, {"f32": 110, "tf32": 150}),
        "images/s of PyTorch: f32 100 (ours 110, 1.10 times), tf32 200 (ours 150, 0.75 times), amp 400",
    )

    expect(
        enqueue_text(made_up_trace()),
        "median 25 µs, 95 % under 30 µs of host time per computation; the GPU waited for the host before 1 of 4 computations, 1.2 % of its time; "
        "900 µs between steps without overlap",
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
    print("gpu-figures: the figures of sample files are right")


SMALL = """model:
  input: {shape: [2, 8, 8]}
  layers: [{conv: {out: 4, kernel: 3}}, batch_norm, relu, flatten, {linear: 5}]
  loss: cross_entropy
data: {train: {synthetic: {samples: 8}}, batch: 8}
pipeline: {devices: [cuda:0], micro_batches: 2}
optimizer: {sgd: {lr: 0.1}}
train: {steps: 1}
"""


def try_program(program):
    """With host memory in a GPU's place nothing takes time; every pass and every kind of op is there."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "small.yaml"
        path.write_text(SMALL)
        ran = subprocess.run([program, str(path)], check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit("%s: exit status %d: %s" % (program, ran.returncode, ran.stderr))
    times = read_times(ran.stdout.splitlines())
    expect(times.samples, 4)
    expect([op.name for op in times.ops if op.step == "adding" and is_product(op.name)], ["linear_backward_weights", "linear_backward_data", "conv_backward_weights"])
    expect({op.step for op in times.ops}, {"forward", "backward", "adding", "step"})
    expect([op.layer for op in times.ops if op.name == "norm_commit"], ["1"])
    print(ops_table(times, None))


def median_rate(path):
    return step_rates(read_lines(path))[0]


def write_table(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text + "\n\n")


def main(words):
    if words == ["--self-test"]:
        return self_test()
    if words == ["made-up-trace"]:
        return print(json.dumps({"traceEvents": made_up_trace()}))
    if words == ["made-up-comparison"]:
        return print(json.dumps(made_up_comparison()))
    if len(words) >= 3 and len(words) % 2 and words[0] == "lockstep":
        texts = [pathlib.Path(path).read_text(encoding="utf-8") for path in words[2::2]]
        return print(lockstep_text(list(zip(words[1::2], map(json.loads, texts)))))
    if len(words) == 2 and words[0] == "--try":
        return try_program(words[1])
    if len(words) == 4 and words[0] == "ops":
        with open(words[1], encoding="utf-8") as file:
            times = read_times(file)
        write_table(words[3], ops_table(times, find_peak(words[2])))
        return print(ops_text(times))
    if len(words) == 3 and words[0] == "ncu":
        with open(words[1], encoding="utf-8") as file:
            found = read_ncu(file)
        write_table(words[2], ncu_table(found))
        return print("%d own kernels in kernels.txt" % len(found))
    if len(words) == 4 and words[0] == "micro":
        return print(micro_text([median_rate(path) for path in words[1:]]))
    if len(words) == 4 and words[0] == "pytorch":
        ours = {way: median_rate(path) for way, path in zip(("f32", "tf32"), words[2:]) if pathlib.Path(path).exists()}
        return print(pytorch_text(json.loads(pathlib.Path(words[1]).read_text(encoding="utf-8")), ours))
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
