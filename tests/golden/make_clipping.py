#!/usr/bin/env python3
"""Trains the network of make_training.py with clipped gradients (torch.nn.utils.clip_grad_norm_) and writes to tests/golden/clipping/,
for SGD, Adam and AdamW and for 1 and 4 micro-batches, the loss and the gradients' norm of every step and the weights at the end.

The bound is such that some steps are clipped and others are not. Adam has a large eps: c1's bias stands before a batch norm, its gradient is
nothing but rounding, which Adam would blow up. Its rate keeps every unit
further than 2e-6 from the kinks of relu and max_pool in every step: nearer, a processor's rounding decides on which side it is.
Made with PyTorch 2.9.1, Adam's two runs with 1.13 (which repeats sgd_4 to 1.2e-7):

    python3 tests/golden/make_clipping.py
"""
import json
import pathlib

import torch
import torch.nn.functional as F

import make_training
from make_training import BATCH, SAMPLES, Deferred, Net, save, weights_of

FOLDER = pathlib.Path(__file__).resolve().parent / "clipping"
EPOCHS = 3
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=0.011, eps=1e-3, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-3),
}
CLIP = 1.0


def train(initial, x, y, name, micro_batches):
    net = Net()
    net.load_state_dict(initial, strict=False)
    norms = [Deferred(net.b1), Deferred(net.b2)]
    optimizer = OPTIMIZERS[name](net.parameters())
    losses, lengths = [], []
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, BATCH):
            xs, ys = x[first : first + BATCH], y[first : first + BATCH]
            count = int((ys != -100).sum())
            optimizer.zero_grad()
            total = 0.0
            for xp, yp in zip(xs.chunk(micro_batches), ys.chunk(micro_batches)):
                loss = F.cross_entropy(net(xp), yp, reduction="sum") / count
                loss.backward()
                total += loss.item()
            lengths.append(torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP).item())
            optimizer.step()
            for norm in norms:
                norm.commit()
            losses.append(total)
    assert any(length > CLIP for length in lengths) and any(length < CLIP for length in lengths), lengths
    return {"clip_norm": CLIP, "losses": losses, "grad_norms": lengths}, weights_of(net)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    make_training.FOLDER = FOLDER
    initial = weights_of(Net())  # the same draws as make_training's
    x, y = torch.randn(SAMPLES, 3, 11, 9), torch.randint(0, 7, (SAMPLES,))
    y[5] = -100
    runs = {}
    for name in OPTIMIZERS:
        for micro_batches in (1, 4):
            run, weights = train(initial, x, y, name, micro_batches)
            save(f"{name}_{micro_batches}.safetensors", weights)
            runs[f"{name}_{micro_batches}"] = run
    (FOLDER / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
