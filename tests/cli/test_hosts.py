"""Two network namespaces as two hosts, with a process of the run on each: Open MPI goes over TCP between them, and the
program's own connection too. The link has 1 Gbit/s and 1 ms (delayed_link.py). Without /dev/net/tun it has the rate and the delay
that the kernel can give it. The first line says which, and what was measured.

    test_hosts.py PROGRAM [--moments N] [--seed S] [TEST…]

At N random moments the link is cut, or a process is killed or stopped. Prints its seed. Exit status 77: this needs root, ip
(iproute2), unshare and Open MPI's mpirun. Part of scripts/test-long.sh. Standard library only.
"""

import collections
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import delayed_link
import runs
import test_processes
from runs import OPTIONS, main, snapshots
from test_processes import PATIENCE, Launched, children, rank_of

NETWORK, ADDRESSES = "10.77.0.0/24", ("10.77.0.1", "10.77.0.2")
NAMES = tuple("gp%d%s" % (os.getpid(), letter) for letter in "ab")  # of namespaces and hosts
ENDS = tuple("gpv%d%s" % (os.getpid() % 100000, letter) for letter in "ab")  # of the link
AGENT = """#!/bin/sh
# mpirun starts a host's daemon with it, as with ssh: [options] HOST COMMAND…
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; $*"
"""


def call(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).returncode == 0


def join_by_kernel():
    """A link that the kernel shapes as well as it can. Returns what it has."""
    call("ip", "link", "add", ENDS[0], "netns", NAMES[0], "type", "veth", "peer", "name", ENDS[1], "netns", NAMES[1])
    shaped = [call("tc", "-n", name, "qdisc", "add", "dev", end, "root", *how, check=False)
              for name, end in zip(NAMES, ENDS)
              for how in (("netem", "rate", "1gbit", "delay", "1ms"), ("tbf", "rate", "1gbit", "burst", "256kb", "latency", "10ms"))]
    return "1 Gbit/s and 1 ms, by the kernel" if shaped[0] else "1 Gbit/s, no delay" if shaped[1] else "its own speed"


def join_hosts(folder):
    """Makes both namespaces and the link between them. Returns what starts a host's daemon, and the process that delays; or None."""
    for name in NAMES:
        os.makedirs("/etc/netns/" + name)
        with open("/etc/netns/%s/hosts" % name, "w") as file:  # ip netns exec shows it as /etc/hosts
            file.write("127.0.0.1 localhost\n" + "".join("%s %s\n" % pair for pair in zip(ADDRESSES, NAMES)))
        call("ip", "netns", "add", name)
    try:
        link, has = delayed_link.join(NAMES, ENDS), "1 Gbit/s and 1 ms, by a process"
    except OSError as error:
        link, has = None, "%s (%s)" % (join_by_kernel(), error)
    for name, end, address in zip(NAMES, ENDS, ADDRESSES):
        call("ip", "-n", name, "addr", "add", address + "/24", "dev", end)
        call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "-n", name, "link", "set", end, "up")
    trip, rate = delayed_link.measure(NAMES, ADDRESSES)
    print("the link has %s; measured: round trip %.2f ms, %.0f Mbit/s" % (has, trip * 1e3, rate * 8e-6), flush=True)
    assert not link or trip >= 2 * delayed_link.DELAY
    agent = os.path.join(folder, "agent")
    with open(agent, "w") as file:
        file.write(AGENT)
    os.chmod(agent, 0o755)
    return agent, link


def part_hosts():
    for name in NAMES:
        call("ip", "netns", "delete", name, check=False)
        shutil.rmtree("/etc/netns/" + name, ignore_errors=True)


class Hosts(Launched):
    config, layers, steps = runs.CONFIG, 8, runs.STEPS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(part_hosts)
        cls.agent, link = join_hosts(cls.folder)
        if link:
            cls.addClassCleanup(link.communicate)

    def launch(self, folder, *parts, prefix=(), environment=None):
        """One process on each host."""
        (processes, arguments), = parts
        return self.start_program(OPTIONS.program, processes, ["-q", "-o", folder, *arguments], environment)

    def start_program(self, program, processes, arguments, environment=None):
        options = ["--mca", "plm_rsh_agent", self.agent, "--mca", "oob_tcp_if_include", NETWORK, "--mca", "btl_tcp_if_include", NETWORK,
                   "--mca", "btl", "tcp,self", "--host", ",".join(NAMES), "-np", str(processes), "--bind-to", "none", "-x", "XDG_CACHE_HOME"]
        command = ["ip", "netns", "exec", NAMES[0], "unshare", "-u", "sh", "-c", 'hostname %s; exec "$@"' % NAMES[0], "sh", "mpirun",
                   *options, program, *arguments]
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, env={**os.environ, **test_processes.LAUNCHER, "XDG_CACHE_HOME": self.cache(), **(environment or {})})
        self.addCleanup(self.finish, process)
        return process

    def cache(self):
        return os.path.join(self.folder, self.id().split(".")[-1] + "-cache")

    def set_link(self, state):
        call("ip", "-n", NAMES[0], "link", "set", ENDS[0], state)

    def test_bits(self):
        for changes in ((), ("--set", "pipeline.replicas=2", "--set", "pipeline.micro_batches=2", "--set", "data.drop_last=true")):
            arguments = ["--set", "pipeline.devices=[cpu, cpu]", "--set", "pipeline.balance=size", *changes]
            self.expect_equal(self.by_itself(arguments), self.together(2, *arguments))

    def test_the_link_is_measured(self):
        """Both processes are on hosts of their own: the profile has what the network takes, and the run's plan has it from there."""
        balance = os.path.join(os.path.dirname(OPTIONS.program), "gpipe-balance")
        arguments = ["c.yaml", "--set", "pipeline.devices=[cpu, cpu]"]
        status, _, out = self.end(self.start_program(balance, 2, ["-q", "--seconds", "0.1", *arguments]))
        self.assertEqual(status, 0, out)
        paths = glob.glob(os.path.join(self.cache(), "gpipe", "profiles", "*.json"))
        self.assertEqual(len(paths), 1)
        with open(paths[0]) as file:
            links = json.load(file)["links"]
        self.assertEqual(list(links), ["network"])
        print("measured: %.3g ms, %.4g MB/s" % (links["network"]["latency"], 2**20 / 1e3 / links["network"]["per_mib"]), flush=True)
        folder = self.together(2, *arguments[1:], "--set", "pipeline.balance=auto")
        with open(os.path.join(folder, "plan.json")) as file:
            plan = json.load(file)
        self.assertEqual((plan["processes"], plan["hosts"], plan["links"][2].get("from")), (2, 2, "profile"))

    def disturb(self):
        """One run; None where it ended before."""
        arguments = ["c.yaml", "--set", "pipeline.devices=[cpu, cpu]", "--set", "pipeline.balance=size", "--set", "pipeline.timeout=3",
                     "--resume" if snapshots(self.run_folder) else "--force"]
        self.mark = time.time_ns()
        process = self.launch(self.run_folder, (2, arguments))
        begun = self.await_lines(process, self.rng.randrange(60))
        ranks = {rank_of(pid): pid for pid in children(process.pid)} if begun else {}
        ranks.pop(None, None)
        kind = self.rng.choice(["cut", "killed", "stopped"])
        if len(ranks) == 2:
            pid = ranks[self.rng.randrange(2)]
            start = time.monotonic()
            if kind == "cut":
                self.set_link("down")
            else:
                os.kill(pid, signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
            while any(rank_of(each) is not None for each in ranks.values()):
                self.assertLess(time.monotonic() - start, PATIENCE, kind)
                time.sleep(0.02)
            self.set_link("up")
        status, said, out = self.end(process)
        if status == 0 or any(sentence.endswith("when all was saved; the run is complete, and does not wait for it") for sentence in said):
            return None  # the run had ended before
        self.assertNotEqual(status, 130, out)
        # Without the link each side knows of the other one only. A launcher may end process 0 before it speaks.
        self.assertLessEqual(len(said), 2 if kind == "cut" else 1, out)
        for sentence in said:
            self.assertRegex(sentence, r"process [01] \(host gp\d+[ab], pid \d+\) has (ended without a word|given no sign of life for 3 s)")
        return kind

    def test_moments(self):
        counts = collections.Counter()
        while sum(counts.values()) < OPTIONS.moments:
            kind = self.disturb()
            if kind is None:
                shutil.rmtree(self.run_folder)
            else:
                counts[kind] += 1
        self.run_program("-q", "--resume" if snapshots(self.run_folder) else "--force")
        self.expect_as_alone()
        print("%d disturbed: %s" % (sum(counts.values()), dict(counts)), flush=True)


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(shutil.which(name) for name in ("mpirun", "ip", "tc", "unshare")):
        print("skipped: two hosts need root, mpirun, ip, tc and unshare")
        sys.exit(77)
    main(Hosts, moments={"type": int, "default": 6})
