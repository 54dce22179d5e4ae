#!/usr/bin/env python3
"""One of PyTorch's rows of bench/peers.py, in a process of its own. Trains until it is killed; appends a line to FILE after each step.

Usage: torch_row.py FILE NETWORK eager|fused|bf16|compile|torchgpipe|ddp|pipelining|parameters [THREADS|MODE|SCHEDULE [RANK PORT]]

NETWORK may be tiny. parameters prints the numbers of parameters of all networks, as JSON.
"""
import dataclasses
import json
import os
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from beside.modules import Part, modules, torchgpipe_sequence  # noqa: E402
from beside.networks import MICRO_BATCHES, NETWORKS, TINY  # noqa: E402


def random_data(network):
    x = torch.randn(network.batch, *network.shape).contiguous(memory_format=torch.channels_last)
    if network.loss == "cross_entropy":
        return x, torch.randint(0, 2 if network is TINY else 10, (network.batch,)), torch.nn.CrossEntropyLoss()
    return x, torch.rand(network.batch, 1, *network.shape[1:]), torch.nn.BCEWithLogitsLoss()


def sgd(parameters, fused=False):
    return torch.optim.SGD(parameters, lr=0.001, momentum=0.9, **({"fused": True} if fused else {}))


def repeat(path, step):
    with open(path, "a", encoding="utf-8") as file:
        while True:
            start = time.perf_counter()
            step()
            print(json.dumps({"event": "step", "seconds": time.perf_counter() - start}), file=file, flush=True)


def train(path, network, model, fused=False, half=False):
    x, y, loss_of = random_data(network)
    model = model.to(memory_format=torch.channels_last)
    optimizer = sgd(model.parameters(), fused)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()

    repeat(path, step)


def torchgpipe(path, name, network, checkpoint):
    from torchgpipe import GPipe
    torch.set_num_threads(2)
    sequence = torchgpipe_sequence(modules(name))
    balance = [network.cut, len(sequence) - network.cut]
    train(path, network, GPipe(sequence, balance=balance, devices=["cpu", "cpu"], chunks=MICRO_BATCHES, checkpoint=checkpoint))


def ddp(path, name, network, rank, port):
    """Each process has half of the mini-batch; batch norm normalises each half, as our replicas do."""
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    half = dataclasses.replace(network, batch=network.batch // 2)
    model = Part(modules(name)).to(memory_format=torch.channels_last)
    train(path if rank == 0 else os.devnull, half, torch.nn.parallel.DistributedDataParallel(model))


def pipelining(path, name, network, schedule, rank, port):
    import torch.distributed as dist
    from torch.distributed import pipelining as stages
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    layers = modules(name)
    part = Part(layers[:network.cut] if rank == 0 else layers[network.cut:])
    stage = stages.PipelineStage(part, rank, 2, torch.device("cpu"))
    # PyTorch 2.9.1 first sends an i64 and receives it as f32, which gloo refuses. That exchange only warms up GPU connections.
    stage._get_init_p2p_neighbors_ops = lambda: []
    kind = {"gpipe": stages.ScheduleGPipe, "1f1b": stages.Schedule1F1B}[schedule]
    x, y, loss_of = random_data(network)
    runner = kind(stage, n_microbatches=MICRO_BATCHES, loss_fn=loss_of)
    optimizer = sgd(part.parameters())

    def step():
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            runner.step(x.contiguous())  # gloo sends contiguous tensors only
        else:
            runner.step(target=y, losses=[])
        optimizer.step()

    repeat(path if rank == 1 else os.devnull, step)


def main():
    path, name, kind, *rest = sys.argv[1:]
    network = TINY if name == "tiny" else NETWORKS[name]
    if kind == "parameters":
        print(json.dumps({each: sum(p.numel() for p in Part(modules(each)).parameters()) for each in NETWORKS}))
    elif kind == "torchgpipe":
        torchgpipe(path, name, network, rest[0])
    elif kind == "ddp":
        ddp(path, name, network, int(rest[0]), rest[1])
    elif kind == "pipelining":
        pipelining(path, name, network, rest[0], int(rest[1]), rest[2])
    else:
        torch.set_num_threads(int(rest[0]))
        model = Part(modules(name))
        train(path, network, torch.compile(model) if kind == "compile" else model, fused=kind == "fused", half=kind == "bf16")


if __name__ == "__main__":
    main()
