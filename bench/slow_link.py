#!/usr/bin/env python3
"""Two replicas in two processes over TCP, on a link whose rate is limited: steps of one build beside those of another.

Usage: slow_link.py [CASE…] --against OTHER/gpipe-train [--rates 1gbit 200mbit] [--rounds 5] [--steps 10]

Each process runs in a network namespace of its own; tc limits the link between them to the rate in each direction (tbf). The two builds
run by turns; the median of a run's steps but the first two counts. The table has the medians and the least of the rounds, and the
median of their ratios. Needs root, iproute2, unshare and Open MPI. All cases unless some are named: a network, and its mini-batch."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NETWORK, ADDRESSES = "10.79.0.0/24", ("10.79.0.1", "10.79.0.2")
NAMES = tuple("slow%d%s" % (os.getpid(), letter) for letter in "ab")  # of namespaces and hosts
ENDS = tuple("slv%d%s" % (os.getpid() % 100000, letter) for letter in "ab")  # of the link
AGENT = """#!/bin/sh
# mpirun starts a host's daemon with it, as with ssh: [options] HOST COMMAND…
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; $*"
"""
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


MODELS = {"3 of 2048": ("[256]", "layers: [{linear: 2048}, relu%s, {linear: 10}]" % (3 * ", {linear: 2048}, relu")),
          "8 of 1024": ("[256]", "layers: [{linear: 1024}, relu%s, {linear: 10}]" % (8 * ", {linear: 1024}, relu")),
          "resnet50": ("[3, 32, 32]", "resnet: {depth: 50, classes: 10}")}
CASES = {"%s, %d" % case: case for case in (("3 of 2048", 1024), ("3 of 2048", 4096), ("8 of 1024", 4096), ("resnet50", 128), ("resnet50", 512))}


def configuration(case, steps, options):
    model, batch = CASES[case]
    return ("model: {input: {shape: %s}, %s, loss: cross_entropy}\ndata: {train: {synthetic: {samples: %d}}, batch: %d}\n"
            "pipeline: {devices: [[{cpu: {rank: 0, threads: 1}}, {cpu: {rank: 1, threads: 1}}]], micro_batches: 1%s}\n"
            "optimizer: {sgd: {lr: 0.001, momentum: 0.9}}\ntrain: {steps: %d}\n" % (*MODELS[model], 2 * batch, batch, options, steps))


def call(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).returncode == 0


def join_hosts(folder):
    """Makes both namespaces and the link between them."""
    for name, end in zip(NAMES, ENDS):
        os.makedirs("/etc/netns/" + name)
        with open("/etc/netns/%s/hosts" % name, "w") as file:  # ip netns exec shows it as /etc/hosts
            file.write("127.0.0.1 localhost\n" + "".join("%s %s\n" % pair for pair in zip(ADDRESSES, NAMES)))
        call("ip", "netns", "add", name)
    call("ip", "link", "add", ENDS[0], "netns", NAMES[0], "type", "veth", "peer", "name", ENDS[1], "netns", NAMES[1])
    for name, end, address in zip(NAMES, ENDS, ADDRESSES):
        call("ip", "-n", name, "addr", "add", address + "/24", "dev", end)
        call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "-n", name, "link", "set", end, "up")
    agent = os.path.join(folder, "agent")
    with open(agent, "w") as file:
        file.write(AGENT)
    os.chmod(agent, 0o755)
    return agent


def limit(rate):
    for name, end in zip(NAMES, ENDS):
        call("tc", "-n", name, "qdisc", "replace", "dev", end, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")


def part_hosts():
    for name in NAMES:
        call("ip", "netns", "delete", name, check=False)
        shutil.rmtree("/etc/netns/" + name, ignore_errors=True)


def run(program, folder, agent):
    """Milliseconds of a step, and the bits of the last loss."""
    options = ["--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", NETWORK, "--mca", "btl_tcp_if_include", NETWORK, "--mca", "btl",
               "tcp,self", "--host", ",".join(NAMES), "-np", "2", "--bind-to", "none"]
    subprocess.run(["ip", "netns", "exec", NAMES[0], "unshare", "-u", "sh", "-c", 'hostname %s; exec "$@"' % NAMES[0], "sh", "mpirun", *options,
                    program, "-q", "--force", "-o", "run", "c.yaml"], cwd=folder, check=True, env={**os.environ, **LAUNCHER})
    with open(os.path.join(folder, "run", "metrics.jsonl")) as file:
        steps = [line for line in map(json.loads, file) if line["event"] == "step"]
    return 1000 * statistics.median(step["seconds"] for step in steps[2:]), steps[-1]["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "gpipe-train"))
    parser.add_argument("--against", required=True)
    parser.add_argument("--rates", nargs="+", default=["1gbit", "200mbit"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--shard-optimizer", action="store_true")
    arguments = parser.parse_args()
    programs = [os.path.abspath(arguments.against), os.path.abspath(arguments.program)]
    options = ", shard_optimizer: true" if arguments.shard_optimizer else ""
    print("%-15s %9s %9s %9s %6s %9s %9s %6s   ratios of the rounds" % ("case", "rate", "other ms", "this ms", "ratio", "least", "least", "ratio"))
    with tempfile.TemporaryDirectory() as folder:
        try:
            agent = join_hosts(folder)
            for case in arguments.cases or CASES:
                with open(os.path.join(folder, "c.yaml"), "w") as file:
                    file.write(configuration(case, arguments.steps, options))
                for rate in arguments.rates:
                    limit(rate)
                    rounds = [[run(program, folder, agent) for program in programs] for _ in range(arguments.rounds)]
                    losses = {loss for pair in rounds for _, loss in pair}
                    assert len(losses) == 1, losses
                    times = [[pair[p][0] for pair in rounds] for p in range(2)]
                    ratios = [this / other for other, this in zip(*times)]
                    least = [min(its) for its in times]
                    print("%-15s %9s %9.1f %9.1f %6.2f %9.1f %9.1f %6.2f   %s" %
                          (case, rate, *map(statistics.median, times), statistics.median(ratios), *least, least[1] / least[0],
                           " ".join("%.2f" % ratio for ratio in sorted(ratios))), flush=True)
        finally:
            part_hosts()


if __name__ == "__main__":
    main()
