#!/usr/bin/env python3
"""Times gpipe-train beside PyTorch, torchgpipe and torch.distributed.pipelining on CPUs, in turn.

    pip install torch            # 2.4 or later; with an older one the rows of torch.distributed.pipelining are left out
    git clone https://github.com/kakaobrain/torchgpipe
    bench/pipelines.py [--program build/gpipe-train] [--torchgpipe FOLDER] [--rounds 3] [--steps 30] [--model small|resnet50]

Every program trains the same network on random data with SGD and momentum: the same batch, micro-batches and, for pipelines, the
same two stages. A round runs every program once. Printed: samples per second by the median step of each round (the first quarter
of the steps is warm-up), the median over the rounds, and the ratio to eager PyTorch with two threads.

torchgpipe runs all stages that are on `cpu` in one worker. Its stages do not overlap there; it computes each with two threads.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = {
    "small": {"batch": 64, "shape": [1, 28, 28], "cut": 4, "config": """layers: [
    conv: {out: 16, kernel: 5, pad: 2}, batch_norm, relu, max_pool: 2,
    conv: {out: 32, kernel: 5, pad: 2}, batch_norm, relu, max_pool: 2, flatten, linear: 10]"""},
    "resnet50": {"batch": 64, "shape": [3, 32, 32], "cut": 10, "config": "resnet: {depth: 50, classes: 10}"},
}
MICRO_BATCHES = 4


def small_network(nn):
    return nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def resnet50(nn):
    """ResNet-50 as a sequence: the stem's four layers, 16 bottleneck blocks, the head's three."""

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = 4 * width
            self.body = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(self.body(x) + self.shortcut(x))

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for group, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if group > 0 and block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def network(name):
    import torch
    torch.manual_seed(1)
    return {"small": small_network, "resnet50": resnet50}[name](torch.nn)


def random_data(name):
    import torch
    case = MODELS[name]
    return torch.randn(case["batch"], *case["shape"]), torch.randint(0, 10, (case["batch"],))


def median_step(steps, step):
    """Seconds of the median call of `step` after the first quarter."""
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[steps // 4:])


def train_module(name, model, steps):
    import torch
    x, y = random_data(name)
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()

    return median_step(steps, step)


def eager(options, threads):
    import torch
    torch.set_num_threads(threads)
    return train_module(options.model, network(options.model), options.steps)


def torchgpipe(options, checkpoint):
    import torch
    sys.path.insert(0, options.torchgpipe)
    from torchgpipe import GPipe
    torch.set_num_threads(2)
    model = network(options.model)
    cut = MODELS[options.model]["cut"]
    model = GPipe(model, balance=[cut, len(model) - cut], devices=["cpu", "cpu"], chunks=MICRO_BATCHES, checkpoint=checkpoint)
    return train_module(options.model, model, options.steps)


def pipelining_rank(rank, options, schedule, port, result):
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = network(options.model)
    cut = MODELS[options.model]["cut"]
    part = model[:cut] if rank == 0 else model[cut:]
    stage = pipelining.PipelineStage(part, rank, 2, torch.device("cpu"))
    # PyTorch 2.9.1 first sends an i64 and receives it as f32, which gloo refuses. That exchange only warms up GPU connections.
    stage._get_init_p2p_neighbors_ops = lambda: []
    kind = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B}[schedule]
    runner = kind(stage, n_microbatches=MICRO_BATCHES, loss_fn=torch.nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(part.parameters(), lr=0.001, momentum=0.9)
    x, y = random_data(options.model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            runner.step(x)
        else:
            runner.step(target=y, losses=[])
        optimizer.step()

    seconds = median_step(options.steps, step)
    if rank == 1:
        pathlib.Path(result).write_text(str(seconds), encoding="utf-8")
    dist.destroy_process_group()


def pipelining(options, schedule):
    import socket
    import torch.multiprocessing
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        torch.multiprocessing.spawn(pipelining_rank, (options, schedule, port, f"{folder}/seconds"), nprocs=2)
        return float(pathlib.Path(f"{folder}/seconds").read_text(encoding="utf-8"))


def ours(options, pipeline):
    case = MODELS[options.model]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "net.yaml"
        config.write_text(f"""
model:
  input: {{shape: {case["shape"]}}}
  {case["config"]}
  loss: cross_entropy
data: {{train: {{synthetic: {{samples: {case["batch"] * 8}}}}}, batch: {case["batch"]}}}
pipeline: {pipeline}
optimizer: {{sgd: {{lr: 0.001, momentum: 0.9}}}}
train: {{steps: {options.steps}}}
""", encoding="utf-8")
        subprocess.run([options.program, "-q", "-o", f"{folder}/run", str(config)], check=True)
        with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    seconds = [line["seconds"] for line in lines if line["event"] == "step"]
    return statistics.median(seconds[options.steps // 4:])


TWO_STAGES = "{devices: [cpu, cpu], micro_batches: %d, " % MICRO_BATCHES
ROWS = {
    "PyTorch, eager, 1 thread": (eager, 1),
    "PyTorch, eager, 2 threads": (eager, 2),
    "torchgpipe, checkpoint never": (torchgpipe, "never"),
    "torchgpipe, checkpoint except_last": (torchgpipe, "except_last"),
    "torch.distributed.pipelining, GPipe": (pipelining, "gpipe"),
    "torch.distributed.pipelining, 1F1B": (pipelining, "1f1b"),
    "gpipe-train, 1 stage, 1 thread": (ours, "{devices: [cpu]}"),
    "gpipe-train, 1 stage, 2 threads": (ours, "{devices: [{cpu: 2}]}"),
    "gpipe-train, 2 stages, never": (ours, TWO_STAGES + "checkpoint: never}"),
    "gpipe-train, 2 stages, except_last": (ours, TWO_STAGES + "checkpoint: except_last}"),
    "gpipe-train, 2 stages, 1f1b, never": (ours, TWO_STAGES + "schedule: 1f1b, checkpoint: never}"),
}


def measure(options, row):
    """One row in a process of its own, as each program would run. Seconds of a step, or None if it cannot run here."""
    command = [sys.executable, __file__, "--row", row, "--model", options.model, "--steps", str(options.steps), "--program",
               options.program, "--torchgpipe", options.torchgpipe]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"# {row}: left out: {(done.stderr.strip().splitlines() or ['no message'])[-1]}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/gpipe-train")
    parser.add_argument("--torchgpipe", default="torchgpipe", metavar="FOLDER", help="a checkout of kakaobrain/torchgpipe")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--model", choices=list(MODELS), default="small")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        function, argument = ROWS[options.row]
        print(function(options, argument))
        return
    figures = {row: [] for row in ROWS}
    for turn in range(options.rounds):
        for row in ROWS:
            if turn > 0 and not figures[row]:
                continue  # it cannot run here
            seconds = measure(options, row)
            if seconds:
                figures[row].append(MODELS[options.model]["batch"] / seconds)
    print(f"# {time.strftime('%Y-%m-%d')}, {platform.processor() or platform.machine()}, {os.cpu_count()} processors; "
          f"{options.model}, batch {MODELS[options.model]['batch']}, {MICRO_BATCHES} micro-batches in pipelines, {options.steps} steps, "
          f"{options.rounds} rounds")
    base = figures["PyTorch, eager, 2 threads"]
    for row, values in figures.items():
        if values:
            ratios = [value / other for value, other in zip(values, base)]
            print(f"{row:38} {statistics.median(values):9.1f} samples/s   x eager with 2 threads: "
                  f"{min(ratios):.2f} {statistics.median(ratios):.2f} {max(ratios):.2f}" if ratios else
                  f"{row:38} {statistics.median(values):9.1f} samples/s")


if __name__ == "__main__":
    main()
