#!/usr/bin/env python3
"""Trains random networks in gpipe-train and in PyTorch (f64), and compares the results.

Both programs start from the same weights and use the same data. Compared are the loss of each step, the loss of the evaluation, and
every parameter and running statistic at the end.

    pip install torch numpy
    scripts/compare-pytorch.py [--program build/gpipe-train] [--cases 200] [--seed 1] [--keep FOLDER]

A case is a random chain of layers with skips, over pictures, rows or vectors. Loss, optimizer, schedule, number of micro-batches, cut
and checkpoint mode are random too. Dropout is left out, since each program draws its own random numbers.

The script prints each case that differs by more than rounding, and then exits with status 1. --keep keeps the files of each case.
Rarely, rounding alone makes a case differ: at the kink of a relu, or when a max_pool has two equal maxima.
"""
import argparse
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

LOSS, TENSOR = 5e-5, 2e-4  # relative; a tensor's to its largest element
STEPS = 4
DIVERGED = 1e4  # a loss beyond which nothing is compared: rounding grows with it


class DeferredNorm(torch.nn.Module):
    """Batch norm over micro-batches: each by itself, running statistics once per mini-batch over all of it."""

    def __init__(self, width, eps, momentum, affine, frozen):
        super().__init__()
        self.eps, self.momentum, self.frozen = eps, momentum, frozen
        self.weight = torch.nn.Parameter(1 + 0.3 * torch.randn(width)) if affine else None
        self.bias = torch.nn.Parameter(0.3 * torch.randn(width)) if affine else None
        self.register_buffer("running_mean", 0.1 * torch.randn(width))
        self.register_buffer("running_var", 1 + torch.rand(width))
        self.seen = []

    def forward(self, x):
        if not self.training or self.frozen:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0, self.eps)
        self.seen.append(x.detach())
        return F.batch_norm(x, None, None, self.weight, self.bias, True, 0, self.eps)

    def commit(self):
        if not self.seen:
            return
        x = torch.cat(self.seen).transpose(0, 1).flatten(1)
        self.running_mean.lerp_(x.mean(1), self.momentum)
        self.running_var.lerp_(x.var(1), self.momentum)
        self.seen = []


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.nodes = []  # (module or "add" or "concat", indices of what it takes; -1: the input)
        self.parts = torch.nn.ModuleDict()

    def forward(self, x):
        values = []
        for what, takes in self.nodes:
            given = [values[i] if i >= 0 else x for i in takes]
            if what == "add":
                value = sum(given[1:], given[0])
            elif what == "concat":
                value = torch.cat(given, 1)
            else:
                value = what(given[0])
            values.append(value)
        return values[-1]


class Pool(torch.nn.Module):
    def __init__(self, function, **options):
        super().__init__()
        self.function, self.options = function, options

    def forward(self, x):
        return self.function(x, **self.options)


def pair(rng, low, high):
    a = rng.randint(low, high)
    return [a, rng.randint(low, high)] if rng.random() < 0.3 else [a, a]


def yaml_pair(p):
    return p[0] if p[0] == p[1] else p


def conv(rng, shape):
    channels = shape[0]
    groups = rng.choice([g for g in (1, 1, 1, 2, 3, channels) if channels % g == 0])
    out = groups * rng.randint(1, 4)
    kernel, stride, dilation = pair(rng, 1, 4), pair(rng, 1, 2), pair(rng, 1, 2)
    pad = pair(rng, 0, 2)
    if any((k - 1) * d + 1 > s + 2 * p for k, d, s, p in zip(kernel, dilation, shape[1:], pad)):
        return None
    bias = rng.random() < 0.7
    module = torch.nn.Conv2d(channels, out, kernel, stride, pad, dilation, groups, bias)
    options = {"out": out, "kernel": yaml_pair(kernel), "stride": yaml_pair(stride), "pad": yaml_pair(pad), "dilation": yaml_pair(dilation), "groups": groups}
    if not bias:
        options["bias"] = False
    return "conv", options, module


def pool(rng, shape, kind):
    kernel, stride = pair(rng, 1, 4), pair(rng, 1, 3)
    pad = [rng.randint(0, k // 2) for k in kernel]
    ceil = rng.random() < 0.4
    if any(k > s + 2 * p for k, s, p in zip(kernel, shape[1:], pad)):
        return None
    options = {"kernel": yaml_pair(kernel), "stride": yaml_pair(stride), "pad": yaml_pair(pad), "ceil": ceil}
    if kind == "max_pool":
        return kind, options, Pool(F.max_pool2d, kernel_size=kernel, stride=stride, padding=pad, ceil_mode=ceil)
    count = rng.random() < 0.5
    options["count_pad"] = count
    return kind, options, Pool(F.avg_pool2d, kernel_size=kernel, stride=stride, padding=pad, ceil_mode=ceil, count_include_pad=count)


def divisors(rng, n):
    return rng.choice([d for d in range(1, n + 1) if n % d == 0])


def affine_norm(module):
    with torch.no_grad():
        for p in module.parameters():
            p += 0.3 * torch.randn_like(p)
    return module


def propose(rng, shape, frozen):
    """One layer that takes `shape`: kind, options, module."""
    kind = rng.choice(
        ["relu", "leaky_relu", "gelu", "silu", "sigmoid", "tanh", "identity"]
        + ["conv"] * 6 + ["batch_norm"] * 3 + ["instance_norm", "group_norm", "max_pool", "avg_pool", "max_pool", "avg_pool", "upsample"]
        + ["linear"] * 4 + ["layer_norm"] * 2
    )
    eps = rng.choice([1e-5, 1e-3])
    if kind == "leaky_relu":
        slope = rng.choice([0.01, 0.2])
        return kind, {"slope": slope}, torch.nn.LeakyReLU(slope)
    if kind == "gelu":
        approximate = rng.random() < 0.5
        return kind, {"tanh": approximate}, torch.nn.GELU("tanh" if approximate else "none")
    plain = {"relu": torch.nn.ReLU, "silu": torch.nn.SiLU, "sigmoid": torch.nn.Sigmoid, "tanh": torch.nn.Tanh, "identity": torch.nn.Identity}
    if kind in plain:
        return kind, {}, plain[kind]()
    affine = rng.random() < 0.7
    if len(shape) == 3:
        if kind == "conv":
            return conv(rng, shape)
        if kind in ("max_pool", "avg_pool"):
            return pool(rng, shape, kind)
        if kind == "upsample":
            scale = pair(rng, 1, 2)
            return (kind, {"scale": yaml_pair(scale)}, torch.nn.Upsample(scale_factor=tuple(map(float, scale)))) if shape[1] * shape[2] < 200 else None
        if kind == "instance_norm":
            if shape[1] * shape[2] < 4:
                return None
            return kind, {"eps": eps, "affine": affine}, affine_norm(torch.nn.InstanceNorm2d(shape[0], eps=eps, affine=affine))
    if kind == "batch_norm" and len(shape) != 2:
        momentum = rng.choice([0.1, 0.3])
        return kind, {"eps": eps, "momentum": momentum, "affine": affine}, DeferredNorm(shape[0], eps, momentum, affine, frozen)
    if kind == "group_norm" and len(shape) != 2:
        groups = divisors(rng, shape[0])
        if math.prod(shape) // groups < 4:
            return None
        return kind, {"groups": groups, "eps": eps, "affine": affine}, affine_norm(torch.nn.GroupNorm(groups, shape[0], eps, affine))
    if len(shape) < 3 and kind == "linear":
        out, bias = rng.randint(2, 9), rng.random() < 0.7
        return kind, {"out": out, "bias": bias}, torch.nn.Linear(shape[-1], out, bias)
    if len(shape) < 3 and kind == "layer_norm" and shape[-1] >= 4:
        return kind, {"eps": eps}, affine_norm(torch.nn.LayerNorm(shape[-1], eps))
    return None


class Case:
    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.batch, self.pieces = rng.randint(4, 12), rng.randint(1, 4)
        rank = rng.choice([3, 3, 3, 2, 1])
        self.input = {3: [rng.randint(1, 6), rng.randint(5, 14), rng.randint(5, 14)], 2: [rng.randint(2, 6), rng.randint(3, 8)], 1: [rng.randint(3, 12)]}[rank]
        self.net, self.layers, self.normed = Network(), [], False
        self.shapes, self.names, self.frozen = [], [], []
        shape, length = self.input, rng.randint(2, 12)
        while len(self.layers) < length:
            shape = self.grow(shape)
        if len(shape) == 3 and rng.random() < 0.6:
            if rng.random() < 0.4:
                self.append("global_avg_pool", {}, Pool(F.adaptive_avg_pool2d, output_size=1), [shape[0], 1, 1])
            self.append("flatten", {}, torch.nn.Flatten(), [math.prod(self.shapes[-1])])
        shape = self.shapes[-1]
        if len(shape) < 3:  # something to train, and no activation that ends the network flat
            out = rng.randint(2, 6)
            shape = [*shape[:-1], out]
            self.append("linear", {"out": out}, torch.nn.Linear(self.shapes[-1][-1], out), shape)
        elif shape[0] < 2 or not list(self.net.parameters()):
            self.append("conv", {"out": 3, "kernel": 1}, torch.nn.Conv2d(shape[0], 3, 1), [3, *shape[1:]])
        self.output = self.shapes[-1]
        self.choose_loss()
        self.choose_training()

    def append(self, kind, options, module, shape, takes=None, frozen=False):
        index = len(self.layers)
        name = f"{kind}.{index}" if self.rng.random() < 0.3 else None
        self.names.append(name or str(index))
        if isinstance(module, torch.nn.Module):
            self.net.parts[self.names[-1].replace(".", "/")] = module
        if frozen:
            options = {**options, "freeze": True}
            for parameter in module.parameters():
                parameter.requires_grad_(False)
        if name:
            options = {**options, "name": name}
        self.layers.append({kind: options} if options else kind)
        self.net.nodes.append((module, takes or [index - 1]))
        self.shapes.append(list(shape))

    def grow(self, shape):
        rng = self.rng
        same = [i for i, s in enumerate(self.shapes) if s == shape][:-1]
        if same and rng.random() < 0.25:
            other = rng.choice(same)
            self.append("add", {"from": [self.reference(other), -1]}, "add", shape, [other, len(self.layers) - 1])
            return shape
        near = [i for i, s in enumerate(self.shapes[:-1]) if len(s) == 3 and len(shape) == 3 and s[1:] == shape[1:]]
        if near and rng.random() < 0.2:
            other = rng.choice(near)
            shape = [shape[0] + self.shapes[other][0], *shape[1:]]
            self.append("concat", {"from": [-1, self.reference(other)]}, "concat", shape, [len(self.layers) - 1, other])
            return shape
        frozen = rng.random() < 0.1
        proposal = propose(rng, shape, frozen)
        if proposal is None:
            return shape
        kind, options, module = proposal
        with torch.no_grad():
            module.eval()
            try:
                out = list(module(torch.zeros(2, *shape)).shape[1:])
            except RuntimeError:  # no output left
                return shape
        if kind == "batch_norm":
            # More than one value per channel in every micro-batch.
            if len(shape) == 1 or shape[1] * shape[2] < 4:
                return shape
            self.normed = True
        self.append(kind, options, module, out, frozen=frozen and kind != "identity")
        return out

    def reference(self, index):
        name = self.names[index]
        return name

    def choose_loss(self):
        rng, shape = self.rng, self.output
        kinds = ["mse", "bce_logits"] + (["cross_entropy"] * 3 if (shape[0] if len(shape) == 3 else shape[-1]) >= 2 else [])
        kind = rng.choice(kinds)
        self.samples = self.batch * 2 + rng.randint(0, self.batch - 1)
        x = torch.randn(self.samples, *self.input)
        if kind != "cross_entropy":
            self.loss = kind
            y = torch.rand(self.samples, *shape)
            function = F.mse_loss if kind == "mse" else F.binary_cross_entropy_with_logits
            self.total = lambda p, t: (function(p, t.double(), reduction="sum"), t.numel())
        else:
            smoothing, ignore = rng.choice([0, 0, 0.1]), rng.choice([-100, 0])
            self.loss = {kind: {"smoothing": smoothing, "ignore": ignore}}
            classes = shape[0] if len(shape) == 3 else shape[-1]
            rest = shape[1:] if len(shape) == 3 else shape[:-1]
            y = torch.randint(0, classes, (self.samples, *rest))

            def total(p, t):
                if len(shape) == 2:
                    p = p.transpose(1, 2)
                value = F.cross_entropy(p, t, reduction="sum", ignore_index=ignore, label_smoothing=smoothing)
                return value, int((t != ignore).sum())

            self.total = total
        self.x, self.y = x, y

    def choose_training(self):
        rng = self.rng
        self.drop_last = rng.random() < 0.3
        decay = rng.choice([0, 0.01])
        lr = rng.choice([0.01, 0.05])
        kind = rng.choice(["sgd", "sgd", "adam", "adamw"])
        self.spare = rng.random() < 0.3 and decay > 0
        if kind == "sgd":
            momentum = rng.choice([0, 0.9])
            nesterov = momentum > 0 and rng.random() < 0.3
            options = {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": decay}
            build = lambda groups: torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=decay)
        else:
            options = {"lr": lr, "betas": [0.8, 0.99], "eps": 1e-2, "weight_decay": decay}
            which = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
            build = lambda groups: which(groups, lr=lr, betas=(0.8, 0.99), eps=1e-2, weight_decay=decay)
        self.optimizer, self.build = {kind: options}, build
        if self.spare:
            self.optimizer["no_decay"] = "norms_and_biases"
        self.clip = rng.choice([None, None, 0.1, 1.0])
        if self.clip:
            self.optimizer["clip_norm"] = self.clip
        self.schedule = rng.choice([None, {"step": {"every": 2, "gamma": 0.5}}, {"multistep": {"milestones": [1, 3], "gamma": 0.3}}, {"cosine": {"min": 0.001}}])
        self.warmup = rng.choice([0, 0, 2])
        if self.schedule:
            self.optimizer["lr_schedule"] = self.schedule
        if self.warmup:
            self.optimizer["warmup"] = {"length": self.warmup, "from": 0.1}
        self.lr = lr

    def rate(self, step):
        if step <= self.warmup:
            return self.lr * (0.1 + 0.9 * step / self.warmup)
        if not self.schedule:
            return self.lr
        ((kind, options),) = self.schedule.items()
        if kind == "step":
            return self.lr * 0.5 ** ((step - 1) // 2)
        if kind == "multistep":
            return self.lr * 0.3 ** sum(m <= step - 1 for m in options["milestones"])
        return 0.001 + (self.lr - 0.001) * (1 + math.cos(math.pi * (step - self.warmup - 1) / (STEPS - self.warmup))) / 2

    def state(self):
        return {name.removeprefix("parts.").replace("/", "."): value.detach().clone() for name, value in self.net.state_dict().items() if name.startswith("parts.")}

    def batches(self):
        while True:
            for first in range(0, self.samples, self.batch):
                end = min(first + self.batch, self.samples)
                if end - first == self.batch or not self.drop_last:
                    yield slice(first, end)

    def train(self):
        """The losses of the steps, the evaluation's, and the state, in f64."""
        net = self.net.double().train()
        x, y = self.x.double(), self.y
        plain, spared = [], []
        norms = (DeferredNorm, torch.nn.GroupNorm, torch.nn.LayerNorm, torch.nn.InstanceNorm2d)
        for module in net.parts.values():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad:
                    (spared if self.spare and (name == "bias" or isinstance(module, norms)) else plain).append(parameter)
        if not plain and not spared:
            return None
        groups = [g for g in ({"params": plain}, {"params": spared, "weight_decay": 0}) if g["params"]]
        optimizer, losses = self.build(groups), []
        for step, where in zip(range(1, STEPS + 1), self.batches()):
            for group in optimizer.param_groups:
                group["lr"] = self.rate(step)
            optimizer.zero_grad()
            n = where.stop - where.start
            size = -(-n // self.pieces)
            parts = [self.total(net(a), b) for a, b in zip(x[where].split(size), y[where].split(size))]
            loss = sum(value for value, _ in parts) / max(sum(count for _, count in parts), 1)
            loss.backward()
            for p in plain + spared:
                if p.grad is None:
                    p.grad = torch.zeros_like(p)
            if self.clip:
                torch.nn.utils.clip_grad_norm_(plain + spared, self.clip)
            optimizer.step()
            for module in net.modules():
                if isinstance(module, DeferredNorm):
                    module.commit()
            losses.append(loss.item())
        net.eval()
        with torch.no_grad():
            value, count = self.total(net(x), y)
        return losses, (value / max(count, 1)).item(), self.state()

    def config(self):
        rng, count = self.rng, len(self.layers)
        stages = rng.randint(1, min(4, count))
        cuts = sorted(rng.sample(range(1, count), stages - 1)) if stages > 1 else []
        balance = [b - a for a, b in zip([0, *cuts], [*cuts, count])]
        return {
            "model": {"input": {"shape": self.input}, "layers": self.layers, "loss": self.loss},
            "data": {"train": {"tensors": "data.safetensors"}, "eval": {"tensors": "data.safetensors"}, "batch": self.batch, "shuffle": False, "drop_last": self.drop_last},
            "pipeline": {"devices": ["cpu"] * stages, "balance": balance, "micro_batches": self.pieces, "checkpoint": rng.choice(["never", "except_last", "always"]), "lockstep": rng.choice([True, False])},
            "optimizer": self.optimizer,
            "train": {"steps": STEPS, "init": "init.safetensors"},
        }


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor.numpy()).tobytes()
        header[name] = {"dtype": {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return {n: torch.from_numpy(np.frombuffer(raw[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]], np.float32).reshape(t["shape"]).copy()) for n, t in header.items()}


def relative(got, want):
    return abs(got - want) / max(abs(want), 1e-2)


def compare(program, case, folder):
    """The largest difference, as a share of what is allowed, and what it is of; None where nothing is trained, or it diverges."""
    write_safetensors(folder / "data.safetensors", {"x": case.x, "y": case.y})
    write_safetensors(folder / "init.safetensors", {n: t.float() for n, t in case.state().items()})
    (folder / "c.yaml").write_text(json.dumps(case.config(), indent=1))
    expected = case.train()
    if expected is None or max(map(abs, [*expected[0], expected[1]])) > DIVERGED:
        return None
    done = subprocess.run([program, "-q", "--force", "-o", folder / "run", folder / "c.yaml"], capture_output=True, text=True)
    if done.returncode != 0:
        return math.inf, done.stderr.strip()
    losses, evaluation, state = expected
    events = [json.loads(line) for line in open(folder / "run" / "metrics.jsonl")]
    worst = (0.0, "nothing")
    got = [e["loss"] for e in events if e["event"] == "step"]
    if len(got) != len(losses):
        return math.inf, f"{len(got)} steps"
    found = [(relative(a, b) / LOSS, f"loss of step {i + 1}: {a}, PyTorch {b}") for i, (a, b) in enumerate(zip(got, losses))]
    last = [e["loss"] for e in events if e["event"] == "eval"][-1]
    found.append((relative(last, evaluation) / LOSS, f"loss of the evaluation: {last}, PyTorch {evaluation}"))
    tensors = read_safetensors(folder / "run" / "model.safetensors")
    if sorted(tensors) != sorted(state):
        return math.inf, f"names {sorted(set(tensors) ^ set(state))}"
    for name, want in state.items():
        difference = (tensors[name].double() - want.double()).abs().max().item()
        found.append((difference / max(want.abs().max().item(), 1e-2) / TENSOR, name))
    return max([worst, *found], key=lambda f: f[0] if not math.isnan(f[0]) else math.inf)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default="build/gpipe-train", help="gpipe-train to compare (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=200, help="number of networks (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="number of the first case (default: %(default)s)")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the files of each case in FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(1)
    differ = compared = 0
    largest = (0.0, "", 0)
    for seed in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(options.keep) / str(seed) if options.keep else pathlib.Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            found = compare(options.program, Case(seed), folder)
            if found is None:
                continue
            compared += 1
            share, what = found
            if share <= 1:
                largest = max(largest, (share, what, seed))
                continue
            differ += 1
            print(f"case {seed}: {what}: the difference is {share:.3g} times the tolerance", flush=True)
    print(f"{compared} networks compared, {differ} differ; largest difference of the others: {largest[0]:.2g} of the tolerance (case {largest[2]}, {largest[1]})")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
