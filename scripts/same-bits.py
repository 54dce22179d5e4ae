#!/usr/bin/env python3
"""Runs the same configurations with the programs of two builds, and compares what they write. scripts/same-bits.sh builds both.

    same-bits.py OLD NEW [--quick] [--text] [--allow REGEX]… [--jobs N] [--seed N] [GROUP …]
    same-bits.py --list | --self-test
"""
import argparse
import concurrent.futures
import difflib
import importlib.util
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
DATA = pathlib.Path(os.environ.get("GPIPE_TEST_DATA", ROOT.parent / "shared" / "data"))
PATIENCE = 600

# Layers, losses and transforms that the golden networks lack.
NETWORKS = {
    "pictures": """\
model:
  input: {shape: [3, 10, 12]}
  layers:
    - conv: {out: 8, kernel: 3, pad: 1, name: a}
    - instance_norm: {affine: true}
    - leaky_relu: {name: b, checkpoint: false}
    - conv: {out: 8, kernel: 1, freeze: true}
    - group_norm: 4
    - silu
    - add: [b, -1]
    - dropout: {p: 0.2, channels: true}
    - avg_pool: {kernel: 3, stride: 2, pad: 1, ceil: true, name: c}
    - conv: {out: 8, kernel: 3, pad: 1, bias: false}
    - batch_norm
    - gelu: {tanh: true}
    - concat: [c, -1]
    - upsample: 2
    - sigmoid
    - max_pool: {kernel: 2, ceil: true}
    - conv: {out: 5, kernel: 1, name: last}
    - global_avg_pool
    - flatten
  loss: {cross_entropy: {smoothing: 0.1}}
data:
  train: {synthetic: {samples: 44}, transform: [random_horizontal_flip, random_erasing]}
  eval: {synthetic: {samples: 20, seed: 2}}
  batch: 11
optimizer: {adamw: {lr: 0.01}, lr_schedule: cosine, clip_norm: 1, no_decay: norms_and_biases}
train: {epochs: 2, seed: 3}
""",
    "rows": """\
model:
  input: {shape: [5, 12]}
  layers:
    - linear: {out: 16, name: a}
    - layer_norm
    - gelu
    - linear: {out: 16, bias: false}
    - tanh
    - add: [a, -1]
    - dropout: 0.3
    - layer_norm
    - linear: 24
    - relu
    - linear: {out: 16, init: {weight: {normal: 0.05}, bias: 0}}
    - add: [5, -1]
    - identity
    - linear: {out: 7, name: last}
  loss: bce_logits
data:
  train: {synthetic: {samples: 50}}
  eval: {synthetic: {samples: 20, seed: 2}}
  batch: 12
  drop_last: true
optimizer: {adam: {lr: 0.005, weight_decay: 1e-3}, lr_schedule: {step: {every: 3, gamma: 0.5}}, warmup: 2}
train: {epochs: 2, seed: 5}
""".replace("[5, -1]", '["5", -1]'),
    "widths": """\
model:
  input: {shape: [33]}
  layers: [linear: 40, batch_norm, relu, linear: 24, group_norm: 3, silu, linear: 12, sigmoid, linear: 3]
  loss: mse
data:
  train: {synthetic: {samples: 70}}
  batch: 35
optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
train: {epochs: 3, seed: 7}
""",
}
SCHEDULES = {"gpipe": 1, "1f1b": 1, "{interleaved: {chunks: 2}}": 2, "zb_h1": 1, "zb_h2": 1, "zb_v": 2}  # stages on a device
CHECKPOINTS = ["never", "except_last", "always", "{mode: always, keep: [%s]}"]
KEPT = {"training": "a", "pictures": "b", "rows": "a", "widths": "0"}
LAYERS = {"training": 14, "pictures": 19, "rows": 14, "widths": 9}


class Case:
    """One configuration. `settings` are values of --set; `words` are further arguments, in which {run} is the run folder."""

    def __init__(self, group, name, config, settings=(), words=("-q",), program="gpipe-train", before=None, text=False):
        self.group, self.name, self.config, self.settings = group, name, config, list(settings)
        self.words, self.program, self.before, self.text = list(words), program, before, text

    def command(self, build, run, words=None):
        sets = [word for value in self.settings for word in ("--set", value)]
        words = [word.format(run=run) for word in (self.words if words is None else words)]
        return [str(build / self.program), *words, *sets, str(self.config)]


def cut(count, device="cpu"):
    return "pipeline.devices=[%s]" % ", ".join([device] * count)


def pipelines(network, device="cpu", most=4):
    """Numbers of devices with schedules and checkpoint modes; micro-batches and lockstep alternate with them."""
    turn = 0
    for count, (schedule, chunks) in itertools.product(range(1, most + 1), SCHEDULES.items()):
        if count * chunks > LAYERS[network]:
            continue
        for checkpoint in CHECKPOINTS:
            turn += 1
            settings = [cut(count, device), "pipeline.schedule=" + schedule, "pipeline.micro_batches=%d" % (1, 4, 7)[turn % 3],
                        "pipeline.checkpoint=" + (checkpoint % KEPT[network] if "%" in checkpoint else checkpoint)]
            if schedule == "gpipe" and device == "cpu":
                settings.append("pipeline.lockstep=" + ("true", "false")[turn // 4 % 2])
            yield ", ".join(setting.partition("=")[2] for setting in settings), settings


def each_pipeline(group, network, config, device="cpu", most=4, program="gpipe-train"):
    return [Case(group, name, config, [*settings, "train.save_every=3"], program=program)
            for name, settings in pipelines(network, device, most)]


def optimizers():
    cases = []
    for name, run in json.loads((GOLDEN / "optimizers" / "runs.json").read_text()).items():
        for index, micro_batches in enumerate(("1", "4")):
            settings = [*run["changes"], "pipeline.micro_batches=" + micro_batches, cut(1 + 2 * index)]
            cases.append(Case("optimizers", f"{name}, {micro_batches} micro-batches", GOLDEN / "optimizers" / "network.yaml", settings))
    return cases


def clipping():
    kinds = {"sgd": "{lr: 0.05, momentum: 0.9, weight_decay: 1e-3}", "adam": "{lr: 0.011, eps: 1e-3, weight_decay: 1e-3}",
             "adamw": "{lr: 0.01, eps: 1e-3}"}
    return [Case("clipping", f"{kind}, {micro_batches} micro-batches, {count} devices", GOLDEN / "training" / "network.yaml",
                 [f"optimizer={{{kind}: {options}, clip_norm: 1}}", cut(count), f"pipeline.micro_batches={micro_batches}"])
            for kind, options in kinds.items() for micro_batches in (1, 4) for count in (1, 2, 3)]


def predictions():
    return [Case("predictions", f"{name}, {count} devices, {schedule}", GOLDEN / "predictions" / f"{name}.yaml",
                 [cut(count), "pipeline.schedule=" + schedule],
                 ["-q", "--weights", str(GOLDEN / "predictions" / f"{name}.weights.safetensors"), "--predict",
                  "{run}/predicted.safetensors"])
            for name in ("classes", "pixels", "rows") for count in (1, 2, 3) for schedule in ("gpipe", "1f1b")]


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def models(folder, fill):
    """torchvision's models with the weights and data of tests/golden."""
    golden = module(GOLDEN / "test_models.py")
    cases = []
    for name, size in (("resnet18", 64), ("resnet50", 64), ("vgg11_bn", 32)):
        home = folder / name
        home.mkdir()
        golden.write_data(home / "data.safetensors", 8, size)
        config = home / "model.yaml"
        config.write_text(golden.CONFIG.format(model=golden.MODELS[name], size=size, samples=8))
        subprocess.run([fill, config, home / "weights.safetensors"], check=True)
        for count, settings in ((1, []), (3, ["pipeline.checkpoint=always", "pipeline.micro_batches=2"]),
                                (2, ["pipeline.schedule=zb_h1", "pipeline.micro_batches=4"])):
            cases.append(Case("models", f"{name}, {count} devices", config, ["train.steps=2", "train.eval_every=2", cut(count), *settings]))
    return cases


def configs():
    cases = []
    mnist, digits = DATA / "mnist", ROOT / "data" / "digits"
    files = f"{{images: {mnist}/t10k-images-idx3-ubyte.gz, labels: {mnist}/t10k-labels-idx1-ubyte.gz}}"
    sets = {
        "resnet-synthetic": (ROOT / "configs", ["train.steps=2", "data.batch=16"]),
        "digits": (ROOT / "configs", [f"data.train.tensors={digits}/train.safetensors", f"data.eval.tensors={digits}/eval.safetensors",
                                      "train.epochs=1"]),
        **{name: (folder, [f"data.train.idx={files}", "data.train.take=[0, 1600]", f"data.eval.idx={files}",
                           "data.eval.take=[9000, 9200]", "train.epochs=1"])
           for name, folder in (("mnist", ROOT / "configs"), ("mnist-augmented", ROOT / "configs"), ("mnist-t10k", ROOT / "tests" / "cli"))},
    }
    for name, (folder, settings) in sets.items():
        if "mnist" in name and not mnist.is_dir() or name == "digits" and not digits.is_dir():
            print(f"same-bits: {name}.yaml is left out: its data are not here")
            continue
        for count, schedule in ((1, "gpipe"), (2, "gpipe"), (2, "1f1b"), (3, "zb_h2"), (2, "zb_v")):
            cases.append(Case("configs", f"{name}.yaml, {count} devices, {schedule}", folder / f"{name}.yaml",
                              [*settings, cut(count), "pipeline.schedule=" + schedule]))
    return cases


def threads(written):
    return [Case("threads", f"{network}, {devices}", config, [f"pipeline.devices={devices}", "pipeline.micro_batches=3"])
            for network, config in written.items() for devices in ("[cpu: 2]", "[cpu: 2, cpu: 2]", "[cpu: 3, cpu, cpu: 2]")]


def resumed(written):
    """The old program trains, and only its first snapshot stays. Each program goes on from there, with another cut."""
    cases = []
    for network, config in written.items():
        for count, schedule in ((1, "gpipe"), (3, "gpipe"), (2, "1f1b"), (2, "zb_v")):
            common = ["pipeline.micro_batches=2", "train.save_every=3", "train.keep=9"]
            first = [*common, cut(2), "pipeline.schedule=" + ("gpipe" if schedule == "gpipe" else "1f1b")]
            cases.append(Case("resumed", f"{network}, {count} devices, {schedule}", config,
                              [*common, cut(count), "pipeline.schedule=" + schedule], ["-q", "--resume"],
                              before=[word for value in first for word in ("--set", value)]))
    return cases


def text_cases(written):
    """What is printed of plans. A process's own processors and kept profiles do not matter."""
    cases = []
    for network, config in written.items():
        for name, settings in pipelines(network):
            cases.append(Case("plan", f"{network}, {name}", config, settings, ["--plan", "-v", "--processors", "64"], text=True))
            cases.append(Case("plan-json", f"{network}, {name}", config, settings, ["--plan", "--json", "--processors", "64"], text=True))
        cases.append(Case("expand", network, config, words=["--expand"], text=True))
    return cases


def simulations(folder):
    cases = []
    for index, (schedule, stages, micro_batches) in enumerate(itertools.product(SCHEDULES, (1, 2, 4), (1, 4, 9))):
        for extra in ("", ", processors: 2", ", device: {copies: queued, hosts: one}"):
            config = folder / f"simulate-{len(cases)}.yaml"
            config.write_text(f"{{schedule: {schedule}, stages: {stages * SCHEDULES[schedule]}, micro_batches: {micro_batches}, forward: 1.5, "
                              f"backward_input: 2, backward_weight: 1, copy: 0.25{extra}}}\n")
            words = ["--simulate"] if index % 2 else ["--json", "--simulate"]
            cases.append(Case("simulate", f"{schedule}, {stages}, {micro_batches}{extra}", config, [], words, "gpipe-balance", text=True))
    return cases


def all_cases(folder, old, new, options):
    written = {"training": GOLDEN / "training" / "network.yaml"}
    for name, text in NETWORKS.items():
        written[name] = folder / f"{name}.yaml"
        written[name].write_text(text)
    cases = [case for name, config in written.items() for case in each_pipeline(name, name, config)]
    cases += optimizers() + clipping() + predictions() + threads(written) + resumed(written) + configs()
    if not options.quick and (not options.groups or "models" in options.groups):
        fill = next((build / "tests" / "fill_weights" for build in (new, old) if (build / "tests" / "fill_weights").exists()), None)
        cases += models(folder, fill) if fill else []
    if all((build / "tests" / "train_on_host").exists() for build in (old, new)):
        for name, config in written.items():
            cases += each_pipeline("cuda", name, config, "cuda:0", 2, "tests/train_on_host")[:: 5]
    else:
        print("same-bits: the CUDA device on host memory is left out: tests/train_on_host is not in both builds")
    if options.text:
        cases += text_cases(written) + simulations(folder)
    return cases


GROUPS = ["training", *NETWORKS, "optimizers", "clipping", "predictions", "threads", "resumed", "configs", "models", "cuda",
          "plan", "plan-json", "expand", "simulate"]


# --- comparing

def safetensors(raw):
    """Tensors by name, and what stands beside them. Of a snapshot's header, the configuration is text and the length of
    metrics.jsonl depends on times; its checksum covers both."""
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    beside = header.pop("__metadata__", {})
    beside = {key: value for key, value in beside.items() if key not in ("config", "metrics_bytes", "xxh3-128")}
    data = raw[8 + length :]
    return {name: (t["dtype"], tuple(t["shape"]), data[t["data_offsets"][0] : t["data_offsets"][1]]) for name, t in header.items()}, beside


def tensor_difference(a, b):
    """In words: the first tensor that differs, and by how much."""
    one, other = safetensors(a)[0], safetensors(b)[0]
    if list(one) != list(other):
        return "the names differ: " + " ".join(sorted(set(one) ^ set(other)) or ["their order"])
    differing = [name for name in one if one[name] != other[name]]
    if not differing:
        return "the tensors are equal, the header differs"
    name = differing[0]
    (kind, shape, x), (other_kind, other_shape, y) = one[name], other[name]
    text = f"{len(differing)} of {len(one)} tensors differ; {name} "
    if kind != "F32" or (kind, shape) != (other_kind, other_shape):
        return text + f"is {kind}{list(shape)} and {other_kind}{list(other_shape)}"
    x, y = (struct.unpack(f"<{len(v) // 4}f", v) for v in (x, y))
    count = sum(p != q for p, q in zip(x, y))
    return text + f"in {count} of {len(x)} elements, by up to {max(abs(p - q) for p, q in zip(x, y)):.3g}"


def numbers(raw):
    """The events of metrics.jsonl, without times and reports."""
    kept = ("event", "step", "epoch", "loss", "lr", "samples", "accuracy", "grad_norm", "best", "status", "skipped")
    events = [json.loads(line) for line in raw.decode().splitlines()]
    return [{key: event[key] for key in kept if key in event} for event in events]


def differences(old, new):
    """{file: what differs} of two run folders, and how many files were compared."""
    def files(run):
        return {str(path.relative_to(run)): path for path in sorted(run.rglob("*")) if path.suffix in (".safetensors", ".jsonl")}
    one, other = files(old), files(new)
    found = {name: "only one of the programs wrote it" for name in one.keys() ^ other.keys()}
    for name in one.keys() & other.keys():
        a, b = one[name].read_bytes(), other[name].read_bytes()
        if a == b:
            continue
        if name.endswith(".jsonl"):
            a, b = numbers(a), numbers(b)
            if a != b:
                first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                found[name] = f"event {first + 1} is {a[first : first + 1]} and {b[first : first + 1]}"
        elif "snapshots" not in name or safetensors(a) != safetensors(b):
            found[name] = tensor_difference(a, b)
    return found, len(one.keys() | other.keys())


def lines_of(text, allowed, folders):
    for folder, name in folders:
        text = text.replace(str(folder), name)
    try:
        text = json.dumps(json.loads(text), indent=1)
    except ValueError:
        pass
    return [line for line in text.splitlines() if not any(pattern.search(line) for pattern in allowed)]


def text_difference(a, b, allowed, folders=()):
    """The first lines that differ, or None."""
    changed = [line for line in difflib.unified_diff(lines_of(a, allowed, folders), lines_of(b, allowed, folders), lineterm="", n=0)
               if not line.startswith(("---", "+++", "@@"))]
    return "\n      ".join([f"{len(changed)} lines differ", *changed[:6]]) if changed else None


class Comparison:
    def __init__(self, old, new, folder, allowed, text):
        self.builds, self.folder, self.allowed, self.text = (old, new), folder, allowed, text
        self.arenas = []  # (case, old bytes, new bytes)

    def run(self, program, case, run, words=None):
        environment = {**os.environ, "XDG_CACHE_HOME": str(run / "cache")}
        return subprocess.run(case.command(program, run, words), env=environment, capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, cwd=run)

    def compare(self, case):
        """(files compared, {what: difference}) of one case."""
        with tempfile.TemporaryDirectory(dir=self.folder) as home:
            runs = [pathlib.Path(home) / name for name in ("old", "new")]
            for run in runs:
                (run / "cache").mkdir(parents=True)
            if case.before:
                words = ["-q", "-o", str(runs[0] / "out"), *case.before]
                done = subprocess.run([str(self.builds[0] / case.program), *words, str(case.config)], capture_output=True, text=True)
                if done.returncode:
                    return 1, {"first run": "the old program fails: " + done.stderr.strip()}
                snapshots = sorted((runs[0] / "out" / "snapshots").iterdir())
                for path in snapshots[1:]:
                    path.unlink()
                shutil.copytree(runs[0] / "out", runs[1] / "out")
            words = None if case.text or "--predict" in case.words else [*case.words, "-o", "{run}/out"]
            ends = [self.run(build, case, run, words) for build, run in zip(self.builds, runs)]
            if any(end.returncode for end in ends):
                texts = [f"status {end.returncode} {end.stderr.strip().splitlines()[-1:]}" for end in ends]
                return 1, {"exit": "both " * (texts[0] == texts[1]) + " and ".join(dict.fromkeys(texts))}
            if case.text:
                if case.group == "plan-json":
                    self.arenas.append((case.name, *(arena_bytes(end.stdout) for end in ends)))
                found = text_difference(*(end.stdout + end.stderr for end in ends), self.allowed)
                return 1, {"output": found} if found else {}
            found, count = differences(*runs)
            if self.text and (runs[0] / "out" / "config.yaml").exists():
                configs = ((run / "out" / "config.yaml").read_text() for run in runs)
                changed = text_difference(*configs, self.allowed, [(run, "RUN") for run in runs])
                found.update({"config.yaml": changed} if changed else {})
                count += 1
            return count, found if count else {"files": "nothing was written"}


def arena_bytes(plan):
    return [worker["arena_bytes"] for worker in json.loads(plan)["workers"]]


def report_arenas(arenas):
    if not arenas:
        return
    pairs = [(name, sum(old), sum(new)) for name, old, new in arenas]
    grown = [pair for pair in pairs if pair[2] > pair[1]]
    total = [sum(pair[i] for pair in pairs) for i in (1, 2)]
    print(f"arenas of {len(pairs)} plans: {sum(new < old for _, old, new in pairs)} smaller, {len(grown)} larger, "
          f"together {total[0]:,} and {total[1]:,} bytes")
    for name, old, new in sorted(grown, key=lambda pair: pair[1] / pair[2])[:10]:
        print(f"  larger: {name}: {old:,} and {new:,} bytes")


def report(results):
    """Prints the table; True if all are equal."""
    rows = {}
    for case, (count, found) in results:
        row = rows.setdefault(case.group, [0, 0, 0])
        row[0] += 1
        row[1] += count
        row[2] += len(found)
    print(f"{'group':12} {'runs':>6} {'compared':>9} {'differ':>7}")
    for group, row in rows.items():
        print(f"{group:12} {row[0]:6} {row[1]:9} {row[2]:7}")
    total = [sum(row[i] for row in rows.values()) for i in range(3)]
    print(f"{'all':12} {total[0]:6} {total[1]:9} {total[2]:7}")
    for case, (_, found) in results:
        for name, text in found.items():
            print(f"DIFFERS: {case.group}: {case.name}: {name}: {text}")
    return not total[2] and total[0] > 0


def compare_all(old, new, options, folder):
    cases = all_cases(folder, old, new, options)
    if options.groups:
        cases = [case for case in cases if case.group in options.groups]
    if options.quick:
        cases = random.Random(options.seed).sample(cases, (len(cases) + 5) // 6)
    comparison = Comparison(old, new, folder, [re.compile(text) for text in options.allow], options.text)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(zip(cases, pool.map(comparison.compare, cases)))
    results.sort(key=lambda result: GROUPS.index(result[0].group))
    equal = report(results)
    report_arenas(comparison.arenas)
    print("all are equal" if equal else "NOT equal")
    return equal


# --- the check of this script

# A gpipe-train that changes what the real one wrote. Words before the program's: what to change, and in which files.
CHANGED = """\
import glob, os, subprocess, sys
what, files, program, *words = sys.argv[1:]
done = subprocess.run([program, *words], capture_output=True, text=True)
print(done.stdout.replace("model", "step", 1) if what == "text" else done.stdout, end="")
print(done.stderr, end="", file=sys.stderr)
"""
CHANGED += """
folder = words[words.index("-o") + 1] if "-o" in words and files else None
for path in glob.glob(os.path.join(folder, files)) if folder else []:
    raw = bytearray(open(path, "rb").read())
    if what == "losses":
        raw = raw.replace(b'"loss":1.', b'"loss":2.', 1)
    else:
        raw[-1] ^= 1
    open(path, "wb").write(raw)
"""
CHANGED += """
sys.exit(3 if what == "status" else done.returncode)
"""


def self_test(program):
    """A program that changes one bit of a file, a loss, a line or its exit status must be found, and only there."""
    def run(what, files, *words):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "old").mkdir(), (folder / "new").mkdir()
            os.symlink(program, folder / "old" / "gpipe-train")
            wrapper = folder / "new" / "gpipe-train"
            (folder / "changed.py").write_text(CHANGED)
            wrapper.write_text(f"#!/bin/sh\nexec python3 -B {folder}/changed.py {what} '{files}' {program} \"$@\"\n")
            wrapper.chmod(0o755)
            for name in ("old", "new"):
                os.symlink(program.parent / "gpipe-balance", folder / name / "gpipe-balance")
            done = subprocess.run([sys.executable, "-B", __file__, folder / "old", folder / "new", "--quick", *words],
                                  capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr
    for what, files, words, status, expected in (
        ("nothing", "", ["clipping"], 0, "all are equal"),
        ("model", "model.safetensors", ["clipping"], 1, "model.safetensors: 1 of 15 tensors differ"),
        ("snapshot", "snapshots/*[6-9].safetensors", ["resumed"], 1, "snapshots/step-00000006.safetensors: 1 of"),
        ("losses", "metrics.jsonl", ["clipping"], 1, "metrics.jsonl: event"),
        ("status", "", ["clipping"], 1, "status 3"),
        ("text", "", ["--text", "expand"], 1, "output: 2 lines differ"),
        ("text", "", ["--text", "--allow", "(model|step) as a list", "expand"], 0, "all are equal"),
    ):
        found, output = run(what, files, *words)
        if found != status or expected not in output:
            sys.exit(f"same-bits: self-test: with {what} changed, the status is {found}, not {status}, or the output lacks {expected!r}:\n{output}")
    print("same-bits: finds a changed bit, loss, line and exit status")


def main():
    parser = argparse.ArgumentParser(prog="same-bits")
    parser.add_argument("old", type=pathlib.Path, nargs="?")
    parser.add_argument("new", type=pathlib.Path, nargs="?")
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--allow", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="of --quick: which configurations")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_intermixed_args()
    if options.list:
        print(*GROUPS)
        return
    if options.self_test:
        self_test((options.old or ROOT / "build").resolve() / "gpipe-train")
        return
    unknown = [group for group in options.groups if group not in GROUPS]
    if unknown or not options.new:
        parser.error(f"no group {unknown[0]}; groups are {' '.join(GROUPS)}" if unknown else "two build folders are needed")
    with tempfile.TemporaryDirectory(prefix="gp-same-bits-") as folder:
        sys.exit(0 if compare_all(options.old.resolve(), options.new.resolve(), options, pathlib.Path(folder)) else 1)


if __name__ == "__main__":
    main()
