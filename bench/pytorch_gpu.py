#!/usr/bin/env python3
"""Times PyTorch's training of ResNet-50 on the GPU of this machine, for comparison with tests/gpu/resnet50.yaml.

    bench/pytorch_gpu.py [--batch 128] [--steps 40] [--out FILE]

The same network, batch size, loss and optimizer, on random pictures in the GPU's memory, in three ways:
  f32    no TF32, as `train.precision: f32`
  tf32   TF32 in convolutions and products, as `train.precision: tf32`
  amp    autocast to float16 with a gradient scaler, channels last: the usual fast way in PyTorch
Prints images per second of each, and writes them to FILE as JSON. A figure is the median step by CUDA events; the first quarter of
the steps is warm-up. Exit status 77 and one sentence if PyTorch, torchvision or a GPU is missing.
"""
import argparse
import json
import statistics
import sys

SKIPPED = 77


def skip(cause):
    print("skipped: %s" % cause)
    sys.exit(SKIPPED)


def load():
    """torch and torchvision's models, once both and a GPU are there."""
    try:
        import torch
        from torchvision import models
    except Exception as error:  # an installation may be broken in any way
        skip("PyTorch cannot be imported: %s" % error)
    if not torch.cuda.is_available():
        skip("PyTorch sees no GPU")
    return torch, models


def set_precision(torch, way):
    torch.backends.cuda.matmul.allow_tf32 = way == "tf32"
    torch.backends.cudnn.allow_tf32 = way == "tf32"
    torch.backends.cudnn.benchmark = True


def measure(torch, models, way, batch, steps):
    set_precision(torch, way)
    torch.manual_seed(1)
    amp = way == "amp"
    layout = torch.channels_last if amp else torch.contiguous_format
    model = models.resnet50(weights=None).cuda().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    loss_of = torch.nn.CrossEntropyLoss()
    pictures = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=layout)
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    events[0].record()
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = loss_of(model(pictures), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        events[step + 1].record()
    torch.cuda.synchronize()
    seconds = [a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:])]
    return batch / statistics.median(seconds[steps // 4:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out")
    options = parser.parse_args()
    torch, models = load()
    print("PyTorch %s, cuDNN %s, %s" % (torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name(0)))
    results = {}
    for way in ("f32", "tf32", "amp"):
        results[way] = measure(torch, models, way, options.batch, options.steps)
        print("%-4s %.0f images/s" % (way, results[way]), flush=True)
        if options.out:
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(results, file)


if __name__ == "__main__":
    main()
