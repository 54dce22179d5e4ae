#!/usr/bin/env python3
"""Writes tests/golden/windows.safetensors and losses.safetensors with PyTorch, in double precision on the CPU: pools over a
grid of kernels, strides, paddings, ceil_mode and count_include_pad, upsampling, identity; losses over a grid of shapes,
label smoothing and ignore_index. test_golden_grids.c has the same grids in the program's own terms; the two are written
apart on purpose. Made with PyTorch 2.9.1:

    pip install torch==2.9.1 numpy
    python3 tests/golden/make_pools_losses.py
"""
import torch
import torch.nn.functional as F

from make_golden import REAL, record, rounded, save

# kernel, stride, padding: overhang on one side or both, windows that would begin behind the input, gaps, the whole input
WINDOWS = [
    (2, 2, 0),
    (3, 2, 1),
    (3, 3, 1),
    ((2, 3), 2, 1),
    (3, 1, 1),
    ((4, 2), (3, 1), (2, 1)),
    (5, 4, 2),
    ((1, 3), 2, (0, 1)),
    (2, 3, 1),
    (4, 4, 0),
    ((7, 6), 1, 0),
    (3, 5, 1),
]


def windows():
    out = {}
    x = rounded(1, 2, 7, 6)
    for i, (kernel, stride, pad) in enumerate(WINDOWS):
        for ceil in (False, True):
            record(out, f"max_{i}_{ceil:d}", lambda v, p: F.max_pool2d(v[0], kernel, stride, pad, ceil_mode=ceil), [x], {})
            for count in (False, True):
                record(out, f"avg_{i}_{ceil:d}_{count:d}", lambda v, p: F.avg_pool2d(v[0], kernel, stride, pad, ceil, count), [x], {})
    # Rounded up, one window may be larger than its input.
    small = rounded(2, 1, 2, 5)
    record(out, "max_larger", lambda v, p: F.max_pool2d(v[0], 3, 2, 0, ceil_mode=True), [small], {})
    record(out, "avg_larger", lambda v, p: F.avg_pool2d(v[0], 3, 2, 0, True, True), [small], {})
    record(out, "max_large", lambda v, p: F.max_pool2d(v[0], (17, 16), 1), [rounded(1, 2, 18, 17)], {})
    for name, scale in (("both", (2, 2)), ("pair", (2, 3)), ("one", (1, 1))):
        forward = lambda v, p: torch.nn.Upsample(scale_factor=tuple(map(float, scale)))(v[0])
        record(out, f"upsample_{name}", forward, [rounded(2, 3, 3, 2)], {})
    record(out, "identity", lambda v, p: torch.nn.Identity()(v[0]) * 1, [rounded(2, 3, 3, 2)], {})
    save("windows.safetensors", out)


SHAPES = {"row": (4,), "rows": (3, 4), "picture": (4, 2, 3)}
SMOOTHING, IGNORE, SAMPLES = (0.0, 0.1, 1.0), (-100, 255, 1), 7


def keep(out, case, logits, target, total, counts):
    """counts: elements that count; loss and gradients are 0 where none does, which PyTorch's mean would make NaN."""
    (total / max(1, counts)).backward()
    out[f"{case}.input0"] = logits
    out[f"{case}.target"] = target
    out[f"{case}.sum"] = total
    out[f"{case}.counts"] = torch.tensor(float(counts), dtype=REAL)
    out[f"{case}.grad_input0"] = logits.grad


def losses():
    out = {}
    for name, shape in SHAPES.items():
        # PyTorch has the classes second, we have them last in [t, C]: transposed there.
        order = (0, 2, 1) if name == "rows" else tuple(range(len(shape) + 1))
        for s, smoothing in enumerate(SMOOTHING):
            for ignore in IGNORE + ("all",):
                x = (rounded(SAMPLES, *shape) * 4).requires_grad_()
                logits = x.permute(order)
                target = torch.randint(0, 4, (SAMPLES, *logits.shape[2:]))
                number = -100 if ignore == "all" else ignore
                target[torch.rand(target.shape) < (2 if ignore == "all" else 0.3)] = number
                total = F.cross_entropy(logits, target, reduction="sum", ignore_index=number, label_smoothing=smoothing)
                case = f"cross_entropy_{name}_{s}_{ignore}"
                keep(out, case, x, target, total, int((target != number).sum()))
                if ignore != "all":
                    mean = F.cross_entropy(logits, target, ignore_index=number, label_smoothing=smoothing)
                    assert torch.allclose(mean, total / max(1, int((target != number).sum())))
                first = logits.detach() == logits.detach().max(1, keepdim=True).values
                right = (first.to(torch.int64).argmax(1) == target) & (target != number)
                out[f"{case}.right"] = right.sum().to(REAL)
        for kind, function in (("mse", F.mse_loss), ("bce_logits", F.binary_cross_entropy_with_logits)):
            x = (rounded(SAMPLES, *shape) * 4).requires_grad_()
            target = rounded(SAMPLES, *shape) if kind == "mse" else torch.rand(SAMPLES, *shape).to(REAL)
            total = function(x, target, reduction="sum")
            assert torch.allclose(function(x, target), total / x.numel())
            keep(out, f"{kind}_{name}", x, target, total, x.numel())
    x = torch.tensor([[800.0, -800.0, 50.0, -50.0, 0.0]] * SAMPLES, dtype=REAL, requires_grad=True)
    target = torch.tensor([[0.0, 1.0, 1.0, 0.0, 0.5]] * SAMPLES, dtype=REAL)
    keep(out, "bce_logits_large", x, target, F.binary_cross_entropy_with_logits(x, target, reduction="sum"), x.numel())
    save("losses.safetensors", out)


if __name__ == "__main__":
    torch.manual_seed(3)
    torch.set_num_threads(1)
    windows()
    losses()
