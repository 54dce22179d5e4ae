#!/usr/bin/env python3
"""Writes the golden values of tests/golden/*.safetensors with PyTorch, in double precision on the CPU.

One file per family of layers, tensors named <case>.<what>: input0 …, weight, bias, output, grad_output, grad_input0 …,
grad_weight, grad_bias; batch_norm also running_mean and running_var (before), new_running_mean and new_running_var (after),
evaluated (the output in evaluation before the step). test_golden.c has the same cases in the program's own terms; the two
lists are written apart on purpose. Made with PyTorch 2.9.1:

    pip install torch==2.9.1 numpy
    python3 tests/golden/make_golden.py

The format is written here by hand, so that nothing else is needed.
"""
import json
import pathlib
import struct

import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).resolve().parent
REAL = torch.float64


def save(name, tensors):
    """safetensors: header length, JSON header, data; sorted by name, so that the same values give the same bytes."""
    types = {torch.float64: "F64", torch.int64: "I64"}
    header, data = {}, b""
    for key in sorted(tensors):
        tensor = tensors[key].detach().contiguous()
        raw = tensor.numpy().tobytes()
        header[key] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (FOLDER / name).write_bytes(struct.pack("<Q", len(text)) + text + data)
    print(f"{name}: {len(tensors)} tensors, {8 + len(text) + len(data)} bytes")


def rounded(*shape):
    """Values that f32 holds exactly, so that an f32 device starts from the same numbers."""
    return torch.randn(*shape, dtype=torch.float32).to(REAL)


def record(out, case, forward, inputs, parameters):
    """Runs forward and backward with a random gradient and keeps everything."""
    leaves = [value.clone().requires_grad_() for value in inputs]
    named = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    output = forward(leaves, named)
    grad_output = rounded(*output.shape)
    output.backward(grad_output)
    for i, leaf in enumerate(leaves):
        out[f"{case}.input{i}"] = leaf
        out[f"{case}.grad_input{i}"] = leaf.grad
    for name, value in named.items():
        out[f"{case}.{name}"] = value
        out[f"{case}.grad_{name}"] = value.grad
    out[f"{case}.output"] = output
    out[f"{case}.grad_output"] = grad_output


def conv():
    cases = {
        "plain": ((2, 3, 6, 5), dict(out_channels=4, kernel_size=3)),
        "same": ((2, 2, 5, 7), dict(out_channels=3, kernel_size=3, padding=1, bias=False)),
        "odd": ((3, 3, 7, 8), dict(out_channels=5, kernel_size=(3, 2), stride=(2, 3), padding=(2, 1))),
        "dilated": ((2, 2, 9, 8), dict(out_channels=3, kernel_size=(2, 3), dilation=(3, 2), padding=(1, 2))),
        "grouped": ((2, 6, 5, 5), dict(out_channels=4, kernel_size=3, groups=2, stride=2, padding=1)),
        "depthwise": ((2, 3, 6, 6), dict(out_channels=6, kernel_size=3, groups=3, padding=1)),
        "pointwise": ((3, 5, 3, 2), dict(out_channels=2, kernel_size=1)),
        "all": ((2, 4, 10, 9), dict(out_channels=6, kernel_size=(3, 4), stride=(2, 1), padding=(3, 0), dilation=(2, 2), groups=2)),
        "overhang": ((1, 1, 6, 6), dict(out_channels=2, kernel_size=3, stride=4)),
    }
    out = {}
    for case, (shape, options) in cases.items():
        layer = torch.nn.Conv2d(shape[1], **options)
        parameters = {name: rounded(*value.shape) for name, value in layer.named_parameters()}
        record(out, case, lambda x, p: F.conv2d(x[0], p["weight"], p.get("bias"), layer.stride, layer.padding, layer.dilation, layer.groups), [rounded(*shape)], parameters)
    save("conv.safetensors", out)


def linear():
    out = {}
    forward = lambda x, p: F.linear(x[0], p["weight"], p.get("bias"))
    record(out, "row", forward, [rounded(4, 7)], {"weight": rounded(5, 7), "bias": rounded(5)})
    record(out, "rows", forward, [rounded(2, 3, 6)], {"weight": rounded(4, 6), "bias": rounded(4)})
    record(out, "unbiased", forward, [rounded(1, 9)], {"weight": rounded(2, 9)})
    save("linear.safetensors", out)


def batch_norm():
    cases = {
        "picture": ((3, 4, 5, 3), dict()),
        "row": ((6, 5), dict()),
        "options": ((2, 3, 3, 4), dict(eps=1e-2, momentum=0.3)),
        "plain": ((4, 2, 2, 3), dict(affine=False, momentum=0.25)),
        "one_sample": ((1, 3, 4, 2), dict()),
        "offset": ((4, 2, 3, 3), dict()),
        "deferred": ((7, 3, 2, 3), dict(momentum=0.2)),
    }
    out = {}
    for case, (shape, options) in cases.items():
        kind = torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d
        layer = kind(shape[1], dtype=REAL, **options)
        layer.running_mean.copy_(rounded(shape[1]))
        layer.running_var.copy_(rounded(shape[1]).abs() + 0.5)
        out[f"{case}.running_mean"] = layer.running_mean.clone()
        out[f"{case}.running_var"] = layer.running_var.clone()
        # "offset": a mean far from 0, where a one-pass variance would lose its digits.
        x = (rounded(*shape) + (1024 if case == "offset" else 0)).to(torch.float32).to(REAL)
        parameters = {name: rounded(*value.shape) for name, value in layer.named_parameters()}
        layer.eval()
        out[f"{case}.evaluated"] = torch.func.functional_call(layer, parameters, (x,))
        layer.train()
        record(out, case, lambda x, p: torch.func.functional_call(layer, p, (x[0],)), [x], parameters)
        out[f"{case}.new_running_mean"] = layer.running_mean.clone()
        out[f"{case}.new_running_var"] = layer.running_var.clone()
    save("batch_norm.safetensors", out)


def pool():
    out = {}
    cases = {
        "halves": ((2, 3, 6, 5), dict(kernel_size=2)),
        "padded": ((2, 2, 7, 6), dict(kernel_size=3, stride=2, padding=1)),
        "overlap": ((1, 2, 5, 6), dict(kernel_size=(3, 2), stride=1)),
        "gaps": ((2, 1, 9, 8), dict(kernel_size=(2, 3), stride=(3, 4), padding=(1, 1))),
    }
    for case, (shape, options) in cases.items():
        record(out, case, lambda x, p: F.max_pool2d(x[0], **options), [rounded(*shape)], {})
    # Equal values and values below 0 at the border: the first wins, padding never does.
    ties = torch.tensor([[[[-1, -1, -2], [-1, -1, -2], [-3, -3, -3]], [[0, 1, 1], [1, 1, 0], [1, 0, 1]]]], dtype=REAL)
    record(out, "ties", lambda x, p: F.max_pool2d(x[0], 2, 1, 1), [ties], {})
    record(out, "global", lambda x, p: F.adaptive_avg_pool2d(x[0], 1), [rounded(2, 3, 5, 4)], {})
    save("pool.safetensors", out)


def shapes():
    """What computes little and has an order: relu, flatten, add, concat, dropout's ends."""
    out = {}
    record(out, "relu", lambda x, p: F.relu(x[0]), [rounded(2, 3, 4, 3)], {})
    zeros = torch.tensor([[0.0, -0.0, 1.0, -1.0]], dtype=REAL)
    record(out, "relu_zero", lambda x, p: F.relu(x[0]), [zeros], {})
    record(out, "flatten", lambda x, p: torch.flatten(x[0], 1), [rounded(2, 3, 4, 2)], {})
    record(out, "flatten_rows", lambda x, p: torch.flatten(x[0], 1), [rounded(2, 3, 4)], {})
    record(out, "add", lambda x, p: x[0] + x[1] + x[2], [rounded(2, 3, 2, 2) for _ in range(3)], {})
    record(out, "concat", lambda x, p: torch.cat(x, 1), [rounded(2, c, 3, 2) for c in (2, 1, 3)], {})
    record(out, "concat_row", lambda x, p: torch.cat(x, 1), [rounded(3, c) for c in (4, 2)], {})
    record(out, "dropout_none", lambda x, p: F.dropout(x[0], 0.0, True), [rounded(2, 3, 2, 2)], {})
    record(out, "dropout_all", lambda x, p: F.dropout(x[0], 1.0, True), [rounded(2, 3, 2, 2)], {})
    save("shapes.safetensors", out)


def cross_entropy():
    """output is the mean over the targets that count; sum is the sum, right the number of right ones."""
    out = {}
    cases = {
        "plain": (rounded(6, 5), torch.tensor([0, 4, 2, 1, 3, 2])),
        "ignored": (rounded(5, 3), torch.tensor([0, -100, 2, -100, 1])),
        "nothing_counts": (rounded(2, 3), torch.tensor([-100, -100])),
        "large": (rounded(4, 6) * 512, torch.tensor([5, 0, 1, 2])),
        "ties": (torch.ones(3, 4, dtype=REAL), torch.tensor([0, 1, 3])),
    }
    for case, (logits, target) in cases.items():
        x = logits.clone().requires_grad_()
        total = F.cross_entropy(x, target, reduction="sum")
        counts = max(1, int((target != -100).sum()))
        (total / counts).backward()
        first = (logits == logits.max(1, keepdim=True).values).to(torch.int64).argmax(1)
        out[f"{case}.input0"] = logits
        out[f"{case}.target"] = target
        out[f"{case}.sum"] = total
        out[f"{case}.right"] = (first == target).sum().to(REAL)
        out[f"{case}.counts"] = torch.tensor(float(counts), dtype=REAL)
        out[f"{case}.grad_input0"] = x.grad
    save("cross_entropy.safetensors", out)


def conv_corners():
    """Options together, kernels larger than the picture, channels in the numbers that vector units like."""
    cases = {
        "dilated_stride": ((2, 3, 11, 9), dict(out_channels=4, kernel_size=3, stride=2, dilation=2, padding=1)),
        "dilated_stride_apart": ((1, 2, 13, 10), dict(out_channels=3, kernel_size=(2, 4), stride=(3, 1), dilation=(4, 2), padding=(0, 3))),
        "kernel_beyond_input": ((2, 3, 2, 3), dict(out_channels=4, kernel_size=5, padding=2)),
        "kernel_beyond_row": ((2, 2, 6, 1), dict(out_channels=3, kernel_size=(3, 7), padding=(0, 3), bias=False)),
        "dilation_beyond_input": ((1, 4, 3, 3), dict(out_channels=4, kernel_size=3, padding=4, dilation=4, groups=4)),
        "pad_beyond_kernel": ((1, 2, 3, 4), dict(out_channels=2, kernel_size=2, padding=(3, 4))),
        "pointwise_padded": ((2, 3, 3, 3), dict(out_channels=5, kernel_size=1, padding=1, stride=2)),
        "pointwise_grouped": ((2, 8, 3, 4), dict(out_channels=12, kernel_size=1, groups=4, bias=False)),
        "stride_beyond_kernel": ((2, 3, 9, 10), dict(out_channels=3, kernel_size=2, stride=(4, 5), padding=1)),
        "whole": ((3, 4, 4, 5), dict(out_channels=6, kernel_size=(4, 5))),
        "depthwise_wide": ((1, 16, 6, 5), dict(out_channels=16, kernel_size=3, padding=1, groups=16, bias=False)),
        "depthwise_stride": ((2, 8, 8, 7), dict(out_channels=8, kernel_size=5, stride=2, padding=2, groups=8)),
        "depthwise_dilated": ((1, 5, 9, 9), dict(out_channels=15, kernel_size=3, padding=2, dilation=2, groups=5)),
        "grouped_wide": ((1, 32, 3, 4), dict(out_channels=16, kernel_size=3, padding=1, groups=8, bias=False)),
        "wide": ((1, 16, 5, 5), dict(out_channels=16, kernel_size=3, padding=1, stride=2)),
        "column": ((2, 3, 8, 1), dict(out_channels=4, kernel_size=(3, 1), stride=(2, 1), padding=(1, 0))),
        "one_place": ((4, 3, 1, 1), dict(out_channels=2, kernel_size=3, padding=1)),
    }
    out = {}
    for case, (shape, options) in cases.items():
        layer = torch.nn.Conv2d(shape[1], **options)
        parameters = {name: rounded(*value.shape) for name, value in layer.named_parameters()}
        record(out, case, lambda x, p: F.conv2d(x[0], p["weight"], p.get("bias"), layer.stride, layer.padding, layer.dilation, layer.groups), [rounded(*shape)], parameters)
    save("conv_corners.safetensors", out)


def activation():
    functions = {
        "leaky": torch.nn.LeakyReLU(),
        "leaky_slope": torch.nn.LeakyReLU(0.2),
        "leaky_minus": torch.nn.LeakyReLU(-1.5),
        "leaky_none": torch.nn.LeakyReLU(0.0),
        "gelu": torch.nn.GELU(),
        "gelu_tanh": torch.nn.GELU(approximate="tanh"),
        "silu": torch.nn.SiLU(),
        "sigmoid": torch.nn.Sigmoid(),
        "tanh": torch.nn.Tanh(),
    }
    # Both zeros, where they bend, where they end, and far out.
    corners = [0.0, -0.0, 1e-6, -1e-6, 0.5, -0.5, 0.75, -0.75, 1, -1, 3, -3, 6, -6, 9, -9, 14, -14, 30, -30, 88, -88, 100, -100, 1e4, -1e4]
    out = {}
    for case, function in functions.items():
        forward = lambda x, p: function(x[0])
        record(out, case, forward, [rounded(2, 3, 5, 4) * 2], {})
        record(out, case + "_rows", forward, [rounded(3, 2, 7)], {})
        record(out, case + "_corners", forward, [torch.tensor([corners], dtype=torch.float32).to(REAL)], {})
    record(out, "channels_none", lambda x, p: F.dropout2d(x[0], 0.0, True), [rounded(2, 3, 2, 2)], {})
    record(out, "channels_all", lambda x, p: F.dropout2d(x[0], 1.0, True), [rounded(2, 3, 2, 2)], {})
    save("activation.safetensors", out)


def sample_norm():
    cases = {
        "instance": ((2, 3, 4, 5), torch.nn.InstanceNorm2d(3)),
        "instance_affine": ((3, 4, 3, 2), torch.nn.InstanceNorm2d(4, eps=0.1, affine=True)),
        "instance_row": ((2, 5, 1, 4), torch.nn.InstanceNorm2d(5)),
        "instance_pair": ((2, 2, 2, 1), torch.nn.InstanceNorm2d(2)),
        "instance_wide": ((1, 70, 3, 2), torch.nn.InstanceNorm2d(70, affine=True)),
        "instance_offset": ((2, 3, 4, 4), torch.nn.InstanceNorm2d(3)),
        "layer": ((4, 7), torch.nn.LayerNorm(7)),
        "layer_rows": ((2, 3, 6), torch.nn.LayerNorm(6)),
        "layer_eps": ((3, 2, 5), torch.nn.LayerNorm(5, eps=0.5)),
        "layer_one_sample": ((1, 9), torch.nn.LayerNorm(9)),
        "layer_wide": ((2, 2, 130), torch.nn.LayerNorm(130, eps=1e-6)),
        "layer_offset": ((3, 8), torch.nn.LayerNorm(8)),
        "layer_constant": ((2, 6), torch.nn.LayerNorm(6)),
        "group": ((2, 6, 4, 3), torch.nn.GroupNorm(2, 6)),
        "group_one": ((2, 5, 3, 3), torch.nn.GroupNorm(1, 5)),
        "group_each": ((3, 4, 2, 3), torch.nn.GroupNorm(4, 4)),
        "group_plain": ((2, 6, 3, 2), torch.nn.GroupNorm(3, 6, eps=0.2, affine=False)),
        "group_row": ((4, 12), torch.nn.GroupNorm(3, 12)),
        "group_wide": ((1, 132, 2, 2), torch.nn.GroupNorm(2, 132)),
        "group_many": ((1, 96, 2, 3), torch.nn.GroupNorm(32, 96)),
        "group_one_sample": ((1, 4, 5, 5), torch.nn.GroupNorm(2, 4)),
    }
    out = {}
    for case, (shape, layer) in cases.items():
        x = rounded(*shape)
        if case.endswith("offset"):
            x = (x + 1024).to(torch.float32).to(REAL)
        if case.endswith("constant"):
            x = x[:, :1].expand(*shape)
        parameters = {name: rounded(*value.shape) for name, value in layer.named_parameters()}
        layer = layer.to(REAL).train()
        record(out, case, lambda x, p: torch.func.functional_call(layer, p, (x[0],)), [x], parameters)
        layer.eval()
        out[f"{case}.evaluated"] = torch.func.functional_call(layer, parameters, (x,))
    save("sample_norm.safetensors", out)


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for family in (conv, linear, batch_norm, pool, shapes, cross_entropy):
        family()
    for seed, family in enumerate((conv_corners, activation, sample_norm), 101):
        torch.manual_seed(seed)
        family()
