#!/usr/bin/env python3
"""Trains a small network with PyTorch's optimizers and schedulers, and with frozen layers, and writes to
tests/golden/optimizers/ what came of it: the data, the initial weights, and runs.json: for each run the changes to
network.yaml, and, for 1 and for 4 micro-batches, rates, losses and the weights at the end (of each tensor its norm and
its first values).

Rates are those of PyTorch's schedulers, stepped once per step: from the start of the run, but the cosine after the
warm-up. Nothing before a batch norm has a bias: its gradient would be nothing but rounding, which Adam makes large. Made
with PyTorch 2.9.1:

    pip install torch==2.9.1 numpy
    python3 -B tests/golden/make_optimizers.py
"""
import json
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, MultiStepLR, StepLR

import make_training
from make_training import Deferred, weights_of

FOLDER = pathlib.Path(__file__).resolve().parent / "optimizers"
SAMPLES, BATCH, EPOCHS = 44, 12, 8
EPOCH_STEPS = -(-SAMPLES // BATCH)
STEPS = EPOCHS * EPOCH_STEPS

# section `optimizer`, optimizer, its options, whether norms and biases are left alone, scheduler, its options, warm-up, from
CONSTANT = (LambdaLR, {"lr_lambda": lambda _: 1.0}, 0, 0)
RUNS = {
    "sgd": ("sgd: 0.1", SGD, {"lr": 0.1}, False, *CONSTANT),
    "momentum": ("sgd: {lr: 0.05, momentum: 0.8}", SGD, {"lr": 0.05, "momentum": 0.8}, False, *CONSTANT),
    "decay": ("sgd: {lr: 0.1, weight_decay: 0.05}", SGD, {"lr": 0.1, "weight_decay": 0.05}, False, *CONSTANT),
    "nesterov": (
        "sgd: {lr: 0.05, momentum: 0.9, nesterov: true, weight_decay: 0.02}",
        SGD,
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.02},
        False,
        *CONSTANT,
    ),
    "sgd no_decay": (
        "sgd: {lr: 0.05, momentum: 0.9, weight_decay: 0.1}, no_decay: norms_and_biases",
        SGD,
        {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1},
        True,
        *CONSTANT,
    ),
    "adam": ("adam: {}", Adam, {}, False, *CONSTANT),
    "adam decay": (
        "adam: {lr: 0.01, betas: [0.8, 0.95], eps: 1e-4, weight_decay: 0.05}",
        Adam,
        {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.05},
        False,
        *CONSTANT,
    ),
    "adam no_decay": (
        "adam: {lr: 0.005, betas: [0.3, 0.9], weight_decay: 0.1}, no_decay: norms_and_biases",
        Adam,
        {"lr": 0.005, "betas": (0.3, 0.9), "weight_decay": 0.1},
        True,
        *CONSTANT,
    ),
    "adamw": ("adamw: {}", AdamW, {}, False, *CONSTANT),
    "adamw no_decay": (
        "adamw: {lr: 0.01, betas: [0.9, 0.99], eps: 1e-6, weight_decay: 0.5}, no_decay: norms_and_biases",
        AdamW,
        {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.5},
        True,
        *CONSTANT,
    ),
    "step": ("sgd: 0.1, lr_schedule: {step: 7}", SGD, {"lr": 0.1}, False, StepLR, {"step_size": 7}, 0, 0),
    "step warmup": (
        "sgd: 0.1, lr_schedule: {step: {every: 2 epochs, gamma: 0.5}}, warmup: 10",
        SGD,
        {"lr": 0.1},
        False,
        StepLR,
        {"step_size": 2 * EPOCH_STEPS, "gamma": 0.5},
        10,
        0,
    ),
    "multistep": (
        "sgd: {lr: 0.1, momentum: 0.5}, lr_schedule: {multistep: [3, 10, 11]}",
        SGD,
        {"lr": 0.1, "momentum": 0.5},
        False,
        MultiStepLR,
        {"milestones": [3, 10, 11]},
        0,
        0,
    ),
    "multistep warmup": (
        "sgd: 0.1, lr_schedule: {multistep: {milestones: [1 epoch, 5 epochs], gamma: 0.3}}, warmup: {length: 2 epochs, from: 0.2}",
        SGD,
        {"lr": 0.1},
        False,
        MultiStepLR,
        {"milestones": [EPOCH_STEPS, 5 * EPOCH_STEPS], "gamma": 0.3},
        2 * EPOCH_STEPS,
        0.2,
    ),
    "cosine": ("sgd: 0.1, lr_schedule: cosine", SGD, {"lr": 0.1}, False, CosineAnnealingLR, {"T_max": STEPS}, 0, 0),
    "cosine warmup": (
        "adamw: 0.01, lr_schedule: {cosine: {min: 0.002}}, warmup: {length: 5, from: 0.1}",
        AdamW,
        {"lr": 0.01},
        False,
        CosineAnnealingLR,
        {"T_max": STEPS - 5, "eta_min": 0.002},
        5,
        0.1,
    ),
}


# Runs of which some layers are frozen: neither trained nor, a batch norm, in training mode.
LAYERS = {"c1": "0.conv", "b1": "1.batch_norm", "c2": "3.conv", "f1": "6.linear", "fc": "8.linear"}
FROZEN = {
    "frozen front": ("adamw no_decay", ["c1", "b1"]),
    "frozen norm": ("nesterov", ["b1"]),
    "frozen middle": ("sgd no_decay", ["b1", "c2", "f1"]),
    "frozen end": ("cosine warmup", ["fc"]),
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(2, 6, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(6)
        self.c2 = nn.Conv2d(6, 8, 3, stride=2)
        self.f1 = nn.Linear(32, 16)
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.b1(self.c1(x)))
        x = torch.relu(self.c2(x)).flatten(1)
        return self.fc(torch.relu(self.f1(x)))


def rates(rate, scheduler, options, warmup, start):
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=rate)
    schedule = scheduler(optimizer, **options)
    optimizer.step()
    for step in range(1, STEPS + 1):
        yield rate * (start + (1 - start) * step / warmup) if step <= warmup else schedule.get_last_lr()[0]
        if scheduler is not CosineAnnealingLR or step > warmup:
            schedule.step()


def groups(net, options, spare):
    if not spare:
        return net.parameters()
    alone = [p for name, p in net.named_parameters() if name.endswith("bias") or name.startswith("b1.")]
    others = [p for p in net.parameters() if all(p is not q for q in alone)]
    return [{"params": others, "weight_decay": options["weight_decay"]}, {"params": alone, "weight_decay": 0.0}]


def train(initial, x, y, run, micro_batches, frozen=()):
    _, kind, options, spare, *schedule = run
    net = Net()
    net.load_state_dict(initial, strict=False)
    for name in frozen:
        getattr(net, name).requires_grad_(False).eval()
    norm = Deferred(net.b1)
    optimizer = kind(groups(net, options, spare), foreach=False, **options)
    losses, used = [], []
    for step, rate in enumerate(rates(optimizer.defaults["lr"], *schedule)):
        first = step % EPOCH_STEPS * BATCH
        xs, ys = x[first : first + BATCH], y[first : first + BATCH]
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        total = 0.0
        for xp, yp in zip(xs.chunk(micro_batches), ys.chunk(micro_batches)):
            loss = F.cross_entropy(net(xp), yp, reduction="sum") / len(ys)
            loss.backward()
            total += loss.item()
        optimizer.step()
        if net.b1.training:
            norm.commit()
        losses.append(total)
        used.append(rate)
    weights = {name: [value.norm().item(), *value.flatten()[:4].tolist()] for name, value in weights_of(net).items()}
    return {"losses": losses, "rates": used, "weights": weights}


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    make_training.FOLDER = FOLDER
    net = Net()
    with torch.no_grad():
        for tensor, low, high in ((net.b1.weight, 0.5, 1.5), (net.b1.bias, -1, 1), (net.b1.running_mean, -1, 1), (net.b1.running_var, 0.5, 2)):
            tensor.uniform_(low, high)
    initial = weights_of(net)
    x, y = torch.randn(SAMPLES, 2, 6, 6), torch.randint(0, 5, (SAMPLES,))
    make_training.save("data.safetensors", {"x": x, "y": y})
    make_training.save("initial.safetensors", initial)
    runs = {}
    for name, run in RUNS.items():
        runs[name] = {"changes": [f"optimizer={{{run[0]}}}"]}
        runs[name] |= {str(m): rounded(train(initial, x, y, run, m)) for m in (1, 4)}
    for name, (like, frozen) in FROZEN.items():
        runs[name] = {"changes": runs[like]["changes"] + [f"model.layers.{LAYERS[layer]}.freeze=true" for layer in frozen]}
        runs[name] |= {str(m): rounded(train(initial, x, y, RUNS[like], m, frozen)) for m in (1, 4)}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(run)}" for name, run in runs.items())
    (FOLDER / "runs.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
