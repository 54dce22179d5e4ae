"""Runs of several processes over MPI, started by mpirun: they end with what a run of one process ends with, say what is
wrong once, and end in time when a process is lost.

    test_processes.py PROGRAM [--moments N] [--matrix M] [--matrix-seed T] [--hang LIBRARY] [--faults LIBRARY]
                      [--other-version PROGRAM] [--on-host PROGRAM] [--seed S] [TEST…]

N processes are killed, stopped or told to end at random moments; by default few. M runs are drawn at random, with seed T: always
the same ones if it is not given. The libraries are built from hang.c and faults.c;
without them, no worker hangs, and no process stops in a snapshot. The other program is the same with another number of its
version, the one on the host has host memory in a GPU's place. Prints its seed. Exit status 77: the program has no MPI, or there is no mpirun. Standard library only.
"""

import array
import collections
import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import runs
import trace_check
from runs import OPTIONS, Runs, main, read, snapshots
from test_cli import MOVED, PIXELS, results, sets, write_pixels, write_tensors

# 8 layers with a skip, batch norm and dropout. Mini-batches of 16 samples, the last of an epoch of 2.
CONFIG = runs.TRAINED
# For replicas: no share without a sample.
SHARED = ["pipeline.micro_batches=2", "data.drop_last=true"]
SYNC = "model.rules={batch_norm: {sync: true}}"
FOUR = ["pipeline.devices=[cpu, cpu, cpu, cpu]", "pipeline.balance=[3, 1, 1, 3]"]
PATIENCE = 60  # seconds until a run counts as hanging
HERE = os.path.dirname(os.path.abspath(__file__))
# Open MPI's; others ignore them. And the sanitizers': whole stacks, since MPI has unloaded its parts by the end.
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "ASAN_OPTIONS": "fast_unwind_on_malloc=0",
            "LSAN_OPTIONS": "print_suppressions=0:suppressions=" + os.path.join(HERE, "mpi_leaks.txt"),
            "TSAN_OPTIONS": "suppressions=" + os.path.join(HERE, "mpi_races.txt")}


def has_mpi(program=None):
    return "\nMPI: none\n" not in subprocess.run([program or OPTIONS.program, "--version"], capture_output=True, text=True).stdout


def children(pid):
    """All descendants."""
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, task)) as file:
            own = [int(word) for word in file.read().split()]
        for child in own:
            try:
                found += [child] + children(child)
            except OSError:  # it has just ended
                pass
    return found


def rank_of(pid):
    """None: not a process of the run."""
    try:
        if os.path.realpath("/proc/%d/exe" % pid) != os.path.realpath(OPTIONS.program):
            return None
        variables = dict(word.split("=", 1) for word in read("/proc/%d/environ" % pid).decode().split("\0") if "=" in word)
    except OSError:
        return None
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        if name in variables:
            return int(variables[name])
    return None


def clear(line):
    """Without the code that clears the line of progress, which stands before an error."""
    return line.removeprefix("\x1b[K")


def skip_without_mpi(program):
    """Ends a test program with status 77."""
    if not has_mpi(program) or not shutil.which("mpirun"):
        print("skipped: " + ("there is no mpirun" if has_mpi(program) else "this program was built without MPI"))
        sys.exit(77)


def hiding(folder, then="true"):
    """What runs a command that sees an empty folder in place of this one."""
    return ["unshare", *([] if os.getuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c",
            'mount -t tmpfs none %s && %s && exec "$@"' % (folder, then), "sh"]


class Launched(Runs):
    config = CONFIG
    more = {}  # of the launcher's variables

    @staticmethod
    def program():
        return OPTIONS.program

    @classmethod
    def setUpClass(cls):
        if not has_mpi():
            raise unittest.SkipTest("the program was built without MPI")
        super().setUpClass()
        cls.single = {}

    def launch(self, folder, *parts, prefix=(), environment=None, quiet=True):
        """mpirun with parts of (processes, arguments)."""
        command = ["mpirun", "--bind-to", "none"]
        for i, (processes, arguments) in enumerate(parts):
            command += [":"] if i else []
            command += ["-np", str(processes), *(prefix if i == len(parts) - 1 else ())]
            command += [self.program(), *(["-q"] if quiet else []), "-o", folder, *arguments]
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, env={**os.environ, **LAUNCHER, **self.more, **(environment or {})})
        self.addCleanup(self.finish, process)
        return process

    @staticmethod
    def finish(process):
        if process.poll() is None:
            for child in children(process.pid):
                os.kill(child, signal.SIGKILL)
            process.kill()
            process.wait()
        process.stdout.close()

    def end(self, process):
        """Its status, and what the program said."""
        out, _ = process.communicate(timeout=PATIENCE)
        said = [line[len("gpipe-train: "):].replace(self.folder + "/", "")
                for line in map(clear, out.splitlines()) if line.startswith("gpipe-train: ")]
        return process.returncode, said, out

    def together(self, processes, *arguments, folder=None, environment=None):
        """A run that must succeed, in the folder that is returned."""
        folder = folder or os.path.join(self.folder, "several")
        process = self.launch(folder, (processes, ["--force", "c.yaml", *arguments]), environment=environment)
        status, said, out = self.end(process)
        self.assertEqual((status, said, out), (0, [], ""), arguments)
        return folder

    def by_itself(self, arguments):
        """A run of one process; kept."""
        key = " ".join(arguments)
        if key not in self.single:
            folder = os.path.join(self.folder, "single-%d" % len(self.single))
            subprocess.run([self.program(), "-q", "-o", folder, "c.yaml", *arguments], cwd=self.folder, check=True)
            self.single[key] = folder
        return self.single[key]

    def expect_equal(self, one, several, files=("model.safetensors", "best.safetensors")):
        for name in files:
            self.assertEqual(read(os.path.join(several, name)), read(os.path.join(one, name)), name)
        self.assertEqual(results(several), results(one))


# Open MPI sends what is longer only when its receive is there.
EAGER = {"OMPI_MCA_btl_%s_eager_limit" % link: "256" for link in ("vader", "tcp", "self")}


class Bits(Launched):
    """Equal to the bit: models, losses, accuracies and norms.

    Some tests are named after faults of other programs. Of two more, torchgpipe's issue 7 (there is no second machine at all) is
    tested by test_hosts.py, and PyTorch's issue 188833 (a receive that is posted ahead holds up a later send on the same link) by
    tests/process/test_two_ends.c."""

    def compare(self, processes, changes, *more, environment=None):
        with self.subTest(processes=processes, changes=changes, more=more):
            arguments = [*sets(changes), *more]
            self.expect_equal(self.by_itself(arguments), self.together(processes, *arguments, environment=environment))

    def test_schedules(self):
        """PyTorch's issue 127964: skips go only through GPipe. Here a value skips two stages; the last mini-batch has fewer
        micro-batches than there are stages. The next test has the two schedules with several stages per worker."""
        for processes, schedule, checkpoint in (
            (2, "gpipe", "except_last"), (4, "gpipe", "always"), (3, "1f1b", "except_last"), (4, "1f1b", "never"),
            (2, "zb_h1", "never"), (4, "zb_h1", "never"), (3, "zb_h2", "never"), (4, "zb_h2", "never"),
        ):
            self.compare(processes, FOUR + ["pipeline.schedule=" + schedule, "pipeline.checkpoint=" + checkpoint],
                         environment=EAGER)

    def test_crossing_sends_and_receives(self):
        """PyTorch's pull request 127332: the interleaved schedule hangs, since sends and receives cross between ranks. Each
        message waits for its receive here. A value skips a stage."""
        three = ["pipeline.devices=[cpu, cpu, cpu]", "pipeline.balance=[1, 1, 1, 1, 2, 2]"]
        for processes in (2, 3):
            self.compare(processes, three + ["pipeline.schedule={interleaved: {chunks: 2}}"], environment=EAGER)
            self.compare(processes, three + ["pipeline.schedule=zb_v", "pipeline.micro_batches=6"], environment=EAGER)

    def test_lockstep(self):
        for lockstep in ("true", "false"):
            self.compare(3, FOUR + ["pipeline.lockstep=" + lockstep, "pipeline.checkpoint=never"])

    def test_fewer_micro_batches_than_stages(self):
        """torchtitan's issue 775: it hangs."""
        for schedule in ("gpipe", "1f1b", "zb_h1", "zb_h2"):
            self.compare(4, FOUR + ["pipeline.micro_batches=2", "pipeline.schedule=" + schedule])
        for schedule in ("interleaved", "zb_v"):
            self.compare(3, ["pipeline.devices=[cpu, cpu, cpu]", "pipeline.balance=[1, 1, 1, 1, 2, 2]",
                             "pipeline.micro_batches=2", "pipeline.schedule=" + schedule])

    def test_clipping_and_norms(self):
        self.compare(3, FOUR + ["optimizer.clip_norm=0.5"])
        self.compare(2, FOUR + ["optimizer={adam: {lr: 0.001}, clip_norm: 0.5}", "pipeline.schedule=1f1b"])
        arguments = ["-v", *sets(FOUR)]
        one, several = os.path.join(self.folder, "one"), os.path.join(self.folder, "several")
        subprocess.run([OPTIONS.program, "-v", "--force", "-o", one, "c.yaml", *sets(FOUR)], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)
        status, _, out = self.end(self.launch(several, (2, ["--force", "-v", "c.yaml", *sets(FOUR)])))
        self.assertEqual(status, 0, out)
        self.expect_equal(one, several)
        self.assertTrue(any("norm" in key for key in results(several)[0]), results(several)[0])
        self.assertEqual(len(re.findall("^done: ", out, re.M)), 1, arguments)

    def test_replicas(self):
        unequal = "pipeline.devices=[[cpu, cpu], [cpu, cpu, cpu]]"
        for processes, changes in (
            (2, ["pipeline.devices=[[cpu, cpu]]"]),
            (2, ["pipeline.devices=[cpu]", "pipeline.replicas=2"]),
            (2, ["pipeline.replicas=2"]),
            (4, ["pipeline.replicas=2", "pipeline.schedule=1f1b"]),
            (2, ["pipeline.devices=[[cpu, cpu], cpu]"]),
            (3, ["pipeline.devices=[[cpu, cpu], cpu]", "optimizer.clip_norm=0.5"]),
            (2, [unequal, "pipeline.schedule=1f1b", "optimizer.clip_norm=0.5"]),
            (4, [unequal]),
            (2, ["pipeline.replicas=2", "pipeline.shard_optimizer=true"]),
            (4, ["pipeline.replicas=2", "pipeline.shard_optimizer=true", "pipeline.schedule=zb_h1", SYNC]),
            (3, [unequal, "pipeline.shard_optimizer=true", "pipeline.schedule=1f1b", SYNC]),
        ):
            balance = [] if changes == ["pipeline.devices=[[cpu, cpu]]"] or "pipeline.devices=[cpu]" in changes else [
                "pipeline.balance=[4, 4]"]
            self.compare(processes, changes + balance + SHARED)

    def test_ranks_by_hand(self):
        """Process 0 has the last stage, process 1 the first, and both have one of those between."""
        one = self.by_itself(sets(FOUR))
        ranks = "[{cpu: {rank: 1}}, {cpu: {rank: 0}}, {cpu: {rank: 1}}, {cpu: {rank: 0}}]"
        several = self.together(2, *sets(FOUR), "--set", "pipeline.devices=" + ranks)
        self.expect_equal(one, several)
        with open(os.path.join(several, "config.yaml")) as file:
            self.assertIn("rank: 1", file.read())

    def test_changes(self):
        with open(os.path.join(self.folder, "changes.yaml"), "w") as file:
            file.write(self.config + "changes:\n  3: {optimizer.sgd.lr: 0.01}\n"
                       "  6: {data.batch: 8, optimizer.clip_norm: 1}\n")
        one, several = os.path.join(self.folder, "one"), os.path.join(self.folder, "several")
        arguments = ["--force", "changes.yaml", *sets(FOUR)]
        subprocess.run([OPTIONS.program, "-q", "-o", one, *arguments], cwd=self.folder, check=True)
        status, said, out = self.end(self.launch(several, (3, arguments)))
        self.assertEqual((status, said), (0, []), out)
        self.expect_equal(one, several)

    def test_targets_move_where_their_pictures_are_not_read(self):
        """The first process reads pictures, the last their targets. Padded pixels do not count, in the divisor of both."""
        write_pixels(os.path.join(self.folder, "pixels.safetensors"))
        for processes, more in ((2, []), (4, FOUR), (2, ["pipeline.replicas=2", *SHARED])):
            self.compare(processes, more, *PIXELS, *MOVED)

    def test_resumed_with_other_numbers_of_processes(self):
        one = self.by_itself([])
        folder = os.path.join(self.folder, "resumed")
        for processes, steps, changes in ((2, 3, ["train.save_every=3"]), (4, 5, FOUR), (1, 6, []), (3, 8, FOUR)):
            arguments = ["c.yaml", *sets(changes), "--set", "train.steps=%d" % steps]
            arguments += ["--resume"] if os.path.exists(folder) else []
            if processes == 1:
                subprocess.run([OPTIONS.program, "-q", "-o", folder, *arguments], cwd=self.folder, check=True)
                continue
            status, said, out = self.end(self.launch(folder, (processes, arguments)))
            self.assertEqual((status, said), (0, []), out)
        self.assertEqual(read(os.path.join(folder, "model.safetensors")), read(os.path.join(one, "model.safetensors")))
        steps = [[line for line in results(run) if line["event"] == "step"] for run in (folder, one)]
        self.assertEqual(*steps)

    def test_a_finished_run_ends_all_processes(self):
        folder = self.together(2, "--set", "train.save_every=3")
        self.assertEqual(self.end(self.launch(folder, (2, ["c.yaml", "--set", "train.save_every=3", "--resume"])))[:2], (0, []))

    def test_processors_of_all_processes(self):
        """Each process is bound to a processor of its own, as mpirun does it."""
        own = sorted(os.sched_getaffinity(0))
        if len(own) < 2 or not shutil.which("taskset"):
            self.skipTest("there is one processor only")
        arguments = ["--force", "c.yaml"]
        for second, expected in ((own[1], 2), (own[0], 1)):
            os.sched_setaffinity(0, own[:1])
            try:
                process = self.launch(self.run_folder, (1, arguments), (1, arguments), prefix=["taskset", "-c", str(second)])
            finally:
                os.sched_setaffinity(0, own)
            status, said, out = self.end(process)
            self.assertEqual((status, [line for line in said if "take turns" not in line]), (0, []), out)
            with open(os.path.join(self.run_folder, "plan.json")) as file:
                self.assertEqual(json.load(file)["processors"], expected)

    def test_processors_of_a_plan(self):
        """Process 0, which plans alone, is bound to one; the launcher is not. A number that is asked for counts."""
        own = sorted(os.sched_getaffinity(0))
        if len(own) < 2 or not shutil.which("taskset"):
            self.skipTest("there is one processor only")
        for more, expected in ((), 2), (("--processors", "5"), 5):
            plan = subprocess.run(["mpirun", "--bind-to", "none", "-np", "2", "taskset", "-c", str(own[0]), OPTIONS.program, "--plan", "--json",
                                   *more, "c.yaml"], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=PATIENCE,
                                  env={**os.environ, **LAUNCHER, **self.more})
            self.assertEqual((plan.returncode, json.loads(plan.stdout)["processors"]), (0, expected))

    def test_replicas_share_out_a_snapshot(self):
        """Each process keeps some tensors."""
        folder = self.together(2, *sets(SHARED + ["pipeline.devices=[cpu]", "pipeline.balance=[8]", "pipeline.replicas=2"]),
                               "--set", "train.save_every=3")
        with open(os.path.join(folder, "snapshots", "step-00000003", "model.safetensors.index.json")) as file:
            keepers = collections.Counter(json.load(file)["weight_map"].values())
        self.assertEqual(sorted(keepers), ["part-0000%d-of-00002.safetensors" % rank for rank in (0, 1)])
        self.assertLess(max(keepers.values()), 3 * min(keepers.values()))

    def test_weights_of_two_snapshots(self):
        """Part 0 of step 6, and part 1 of step 3."""
        arguments = ["--set", "train.save_every=3", "--set", "train.steps=6"]
        folder = os.path.join(self.together(2, *arguments), "snapshots")
        mixed, part = os.path.join(self.folder, "mixed"), "part-00001-of-00002.safetensors"
        shutil.copytree("%s/step-00000006" % folder, mixed)
        self.run_program("-q", "--predict", "y", "--weights", "mixed")
        shutil.copy("%s/step-00000003/%s" % (folder, part), mixed)
        for arguments in (["--predict", "y2", "--weights", "mixed"], ["--set", "train.init=mixed"]):
            _, said = self.run_program("-q", *arguments, status=1, err=None)
            self.assertIn("mixed/model.safetensors.index.json: the checksum of %s is not that of the file; the weights are damaged, or "
                          "are of several files: take another copy" % part, said)

    def test_a_process_that_does_not_see_the_run_folder(self):
        """It sees another folder in its place, in which a run has left the same configuration."""
        arguments = ["--set", "train.save_every=3"]
        folder = self.together(2, *arguments)
        shutil.copy(os.path.join(folder, "config.yaml"), os.path.join(self.folder, "before.yaml"))
        hide = hiding("several", "cp before.yaml several/config.yaml")
        if subprocess.run([*hide, "true"], cwd=self.folder, capture_output=True).returncode != 0:
            self.skipTest("no folder can be hidden from a process")
        arguments = ["--force", "c.yaml", *arguments]
        status, said, out = self.end(self.launch(folder, (1, arguments), (1, arguments), prefix=hide))
        self.assertEqual((status, said),
                         (0, ["warning: process 1: does not see the run folder several of process 0; process 0 writes all "
                              "snapshots, and they take longer"]), out)
        self.assertTrue(glob.glob(os.path.join(folder, "snapshots", "*.safetensors")))
        self.expect_equal(self.by_itself(arguments[2:]), folder)

    def test_a_timeline_has_all_workers(self):
        names = []
        for processes in (1, 3):
            path = os.path.join(self.folder, "trace-%d.json" % processes)
            arguments = ["--force", "--trace", path, "--trace-steps", "2:3", "c.yaml", *sets(FOUR)]
            if processes == 1:
                subprocess.run([OPTIONS.program, "-q", "-o", self.run_folder, *arguments], cwd=self.folder, check=True)
            else:
                status, said, out = self.end(self.launch(self.run_folder, (processes, arguments)))
                self.assertEqual((status, said), (0, []), out)
            with open(path) as file:
                trace = json.load(file)
            # How far process 0 reads ahead depends on the time.
            events = [event for event in trace["traceEvents"]
                      if event["ph"] == "X" and not event["name"].startswith(("wait", "read "))]
            names.append(collections.Counter((event["pid"], event["tid"], event["name"]) for event in events))
        self.assertGreaterEqual(len({key[:2] for key in names[0]}), 4)
        self.assertEqual(names[1], names[0])
        tracks = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"]
        self.assertEqual(tracks[:4], ["worker %d (cpu:0), stage %d, process %d" % (w, w, p) for w, p in enumerate((0, 0, 1, 2))])
        self.assertEqual([worker["process"] for worker in trace["otherData"]["plan"]["workers"]], [0, 0, 1, 2])

    def test_it_says_which_process_has_which_worker(self):
        host = os.uname().nodename
        process = self.launch(self.run_folder, (3, ["--force", "c.yaml", *sets(FOUR)]), quiet=False)
        status, said, out = self.end(process)
        self.assertEqual(status, 0, out)
        self.assertIn("\n  process 0 (host %s): workers 0, 1\n  process 1 (host %s): worker 2\n  process 2 (host %s): worker 3\n" %
                      (host, host, host), out)
        process = self.launch(self.run_folder, (2, ["--plan", "c.yaml", "--set", "pipeline.devices=[{cpu: {rank: 1}}, {cpu: {rank: 1}}]"]), quiet=False)
        status, said, out = self.end(process)
        self.assertEqual(status, 0, out)
        self.assertRegex(out, r"(?m)^        0  none +0 B +[0-9.]+ [KM]iB$")
        self.assertRegex(out, r"(?m)^        1  0, 1 +[0-9.]+ [KM]iB +[0-9.]+ [KM]iB$")
        self.assertRegex(out, r"(?m)^warning      process 0 has no worker; start fewer, or give devices other ranks$")


class Gpus(Launched):
    """Host memory in a GPU's place: the whole program, with messages from and to GPUs over MPI."""

    @staticmethod
    def program():
        return OPTIONS.on_host

    def setUp(self):
        if not OPTIONS.on_host:
            self.skipTest("there is no program with host memory for a GPU")
        super().setUp()

    def compare(self, one, several, *more):
        with self.subTest(several=several, more=more):
            self.expect_equal(self.by_itself(sets(["pipeline.devices=" + one, *more])),
                              self.together(2, *sets(["pipeline.devices=" + several, *more])))

    def test_gpus_of_two_processes(self):
        self.compare("[cuda:0, cuda:1]", "[{cuda:0: {rank: 0}}, {cuda:1: {rank: 1}}]")
        self.compare("[cuda:0, cuda:1]", "[cuda, cuda]", "pipeline.schedule=1f1b", "optimizer.clip_norm=0.5")
        self.compare("[[cuda:0, cuda:1]]", "[[cuda, cuda]]", *SHARED, "pipeline.shard_optimizer=true")

    def test_a_cpu_and_a_gpu(self):
        self.compare("[cpu, cuda:0]", "[{cpu: {rank: 0}}, {cuda:0: {rank: 1}}]")
        self.compare("[cuda:0, cpu]", "[{cuda:0: {rank: 0}}, {cpu: {rank: 1}}]", "pipeline.schedule=1f1b")

    def test_one_gpu_for_two_processes(self):
        """NCCL connects no two processes on one GPU."""
        shared = "[{cuda:0: {rank: 0}}, {cuda:0: {rank: 1}}]"
        self.compare("[cuda:0, cuda:1]", shared)
        arguments = sets(["pipeline.devices=" + shared, "pipeline.transport=nccl"])
        status, said, out = self.end(self.launch(os.path.join(self.folder, "refused"), (2, ["c.yaml", *arguments])))
        self.assertEqual((status, said), (2, [
            "--set pipeline.transport=nccl: pipeline.transport: nccl connects no processes on one GPU, but worker 0 of process 0 "
            "and worker 1 of process 1 are both on host memory 0; give each process a GPU of its own, or use auto or mpi"]), out)


class Matrix(Launched):
    """Runs drawn at random: stages, replicas of each, schedules, checkpoint modes, lockstep, shards, synchronised batch norm,
    empty shares, ranks and numbers of processes. Each has the bits of one process without shards, ranks and recomputing. Timelines of
    both fit their instructions (trace_check.py)."""

    SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb_h1", "zb_h2", "zb_v")
    NORM = 1  # the layer that is a batch norm

    def draw_devices(self, rng, replicas, processes):
        """The list of devices, half of them with a rank; processes 0: none has."""
        ranks = [rng.randrange(processes) if processes and rng.random() < 0.5 else None for _ in range(sum(replicas))]
        names = iter(["cpu" if rank is None else "{cpu: {rank: %d}}" % rank for rank in ranks])
        return "pipeline.devices=[%s]" % ", ".join("[%s]" % ", ".join(next(names) for _ in range(count)) for count in replicas)

    def draw_sync(self, rng, number, balance, replicas, twice):
        """Of the replicas of the batch norm's stage; by turns none, all, a group."""
        stage = next(s for s in range(len(balance)) if sum(balance[: s + 1]) > self.NORM)
        entries = len(replicas)
        count = replicas[stage if stage < entries else stage - entries if twice == "interleaved" else 2 * entries - 1 - stage]
        groups = [n for n in range(2, count + 1) if count % n == 0] or [4]  # without replicas any number is allowed
        return ("false", "true", str(rng.choice(groups)))[(number + number // 6) % 3]

    def draw(self, rng, number):
        """What decides the bits; and the replicas."""
        schedule = self.SCHEDULES[number % 6]
        entries = 1 + (number + number // 3) % 3
        replicas = [rng.randint(1, 4) for _ in range(entries)]
        batch, pieces = rng.randint(5, 25), rng.randint(1, 5)
        if number % 3 == 1:  # shares 3, 3, 3, 0 of each micro-batch
            replicas[rng.randrange(entries)], batch, pieces = 4, 9 * rng.randint(1, 2), 0
        if sum(replicas) == 1:
            replicas[0] = 2
        pieces = pieces or batch // 9
        stages = entries * (2 if schedule in ("interleaved", "zb_v") else 1)
        cuts = sorted(rng.sample(range(1, 8), stages - 1))
        balance = [b - a for a, b in zip([0] + cuts, cuts + [8])]
        optimizer = rng.choice(["{adam: {lr: 0.01}}", "{sgd: {lr: 0.05, momentum: 0.9}, clip_norm: 0.3}",
                                "{adamw: {lr: 0.01, weight_decay: 0.1}, clip_norm: 1}"])
        sync = self.draw_sync(rng, number, balance, replicas, schedule)
        return ["pipeline.schedule=" + schedule, "pipeline.balance=%s" % balance, "data.batch=%d" % batch,
                "pipeline.micro_batches=%d" % pieces, "model.rules={batch_norm: {sync: %s}}" % sync, "optimizer=" + optimizer], replicas

    def test_random_runs(self):
        rng = random.Random(OPTIONS.matrix_seed)
        traced = random.Random("traces %d" % OPTIONS.matrix_seed)
        waits = collections.Counter()
        for number in range(OPTIONS.matrix):
            common, replicas = self.draw(rng, number)
            common.append("data.eval={tensors: d.safetensors, take: [%d, 64]}" % traced.randint(45, 63))
            plain = sets([*common, self.draw_devices(rng, replicas, 0), "pipeline.checkpoint=never"])
            processes = rng.randint(2, min(4, sum(replicas)))
            more = ["pipeline.checkpoint=" + rng.choice(["never", "except_last", "always"]),
                    "pipeline.shard_optimizer=" + rng.choice(["true", "false"])]
            if number % 6 == 0:  # GPipe's only
                more.append("pipeline.lockstep=" + rng.choice(["true", "false"]))
            ranked = (number + number // 2) % 2
            arguments = sets([*common, self.draw_devices(rng, replicas, processes if ranked else 0), *more])
            with self.subTest(number=number, processes=processes, arguments=arguments):
                trace = [*(["--trace-steps", "2:3"] if number % 4 == 1 else []), *(["--trace-layers"] if number % 3 else []), "--trace"]
                for planned in (plain, arguments):
                    subprocess.run([OPTIONS.program, "--check", "c.yaml", *planned], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
                start = time.monotonic()
                one = self.by_itself([*plain, *trace, "one.json"])
                several = self.together(processes, *arguments, *trace, "several.json")
                seconds = time.monotonic() - start
                self.expect_equal(one, several)
                for name in ("one.json", "several.json"):
                    all_, lost = trace_check.check(self, os.path.join(self.folder, name), seconds)
                    waits.update(all=all_, nothing=lost)
            shutil.rmtree(self.single.pop(" ".join([*plain, *trace, "one.json"]), ""), ignore_errors=True)
        print("of %.0f ms of waits %.1f ms have no cause" % (waits["all"] / 1e3, waits["nothing"] / 1e3), flush=True)
        if OPTIONS.matrix >= 200:  # a loaded machine may hold up some threads of a few runs
            self.assertLess(waits["nothing"], 0.01 * waits["all"])


class Data(Launched):
    """Each process reads what its own stages load."""

    HALVES = ["pipeline.devices=[[cpu, cpu]]", *SHARED]  # each process has the same half of each micro-batch
    LAST_FIRST = ["pipeline.devices=[{cpu: {rank: 1}}, {cpu: {rank: 0}}]"]

    def write_file(self, name, x, y, shape=(64, 2, 4, 4)):
        write_tensors(os.path.join(self.folder, name), x=("F32", list(shape), array.array("f", x).tobytes()),
                      y=("I64", [shape[0]], array.array("q", y).tobytes()))

    def data_of(self, name):
        return ["data.train={tensors: %s, take: [0, 50]}" % name, "data.eval={tensors: %s, take: [50, 64]}" % name]

    def failure(self, processes, *arguments):
        """What is said, and the exit status; no run is there afterwards."""
        folder = os.path.join(self.folder, "fails")
        if processes > 1:
            status, said, _ = self.end(self.launch(folder, (processes, ["--force", *arguments])))
        else:
            done = subprocess.run([OPTIONS.program, "-q", "--force", "-o", folder, *arguments], cwd=self.folder,
                                  capture_output=True, text=True)
            status, said = done.returncode, [line[len("gpipe-train: "):].replace(self.folder + "/", "")
                                             for line in done.stderr.splitlines()]
        shutil.rmtree(folder, ignore_errors=True)
        return said, status

    def test_targets_that_do_not_count(self):
        """How many count is known only when all processes have read theirs."""
        rng = random.Random(2)
        x = [rng.random() - 0.5 for _ in range(64 * 32)]
        self.write_file("ignored.safetensors", x, [-100 if n % 16 < 7 or n % 5 == 0 else n % 3 for n in range(64)])
        data = self.data_of("ignored.safetensors")
        for processes, changes in (
            (2, self.HALVES), (3, ["pipeline.devices=[[cpu, cpu], cpu]", *SHARED]),
            (3, ["pipeline.devices=[cpu, [cpu, cpu]]", *SHARED]), (4, FOUR),
            (4, ["pipeline.devices=[[cpu, cpu, cpu, cpu]]", *SHARED]),
        ):
            with self.subTest(processes=processes, changes=changes):
                arguments = sets([*changes, *data])
                self.expect_equal(self.by_itself(arguments), self.together(processes, *arguments))
        self.expect_equal(self.by_itself(sets(data)), self.together(2, *sets([*self.LAST_FIRST, *data])))

    def read_by_process_0(self, processes, changes):
        """For each pass, how many samples of a mini-batch."""
        path = os.path.join(self.folder, "reads.json")
        arguments = ["--force", "--trace", path, "--trace-steps", "1:8", *sets(changes)]
        if processes > 1:
            self.assertEqual(self.end(self.launch(self.run_folder, (processes, ["c.yaml", *arguments])))[:2], (0, []))
        else:
            self.run_program("-q", *arguments)
        found = collections.defaultdict(set)
        with open(path) as file:
            for event in json.load(file)["traceEvents"]:
                if event["ph"] == "X" and event["name"].startswith("read mini-batch"):
                    found[event["args"]["pass"]].add(event["args"]["samples"])
        return dict(found)

    def test_a_process_reads_its_own_share(self):
        """Mini-batches of 16 and 14 samples, in two micro-batches."""
        self.assertEqual(self.read_by_process_0(1, self.HALVES), {"training": {16}, "evaluation": {14}})
        self.assertEqual(self.read_by_process_0(2, self.HALVES), {"training": {8}, "evaluation": {8}})

    def test_a_process_without_data_reads_nothing(self):
        ranks = "pipeline.devices=[{cpu: {rank: 1}}, {cpu: {rank: 0}}, {cpu: {rank: 1}}]"
        self.assertEqual(self.read_by_process_0(2, [ranks, "pipeline.balance=[3, 2, 3]"]), {})
        self.assertEqual(self.read_by_process_0(2, self.LAST_FIRST), {"training": {16, 2}, "evaluation": {14}}) # targets

    def test_a_sample_that_is_not_finite(self):
        """It is named as by a run of one process, whichever process reads it."""
        for at, value in ((1, "nan"), (6, "inf")):
            x = [0.0] * (64 * 32)
            x[at * 32 + 5] = float(value)
            self.write_file("bad.safetensors", x, [n % 3 for n in range(64)])
            data = [*self.data_of("bad.safetensors"), "data.shuffle=false"]
            alone = self.failure(1, "c.yaml", *sets([*self.HALVES, *data]))
            self.assertRegex(alone[0][0], r"sample %d of bad.safetensors: x\[%d, 0, 1, 1\] is %s" % (at, at, value))
            self.assertEqual(self.failure(2, "c.yaml", *sets([*self.HALVES, *data])), alone)
            alone = self.failure(1, "c.yaml", *sets(data))
            self.assertEqual(self.failure(2, "c.yaml", *sets([*self.LAST_FIRST, *data])), alone)

    def test_a_class_that_does_not_exist(self):
        """There are too many classes to look at all of them before the run."""
        samples, side = 1032, 64
        pixels = samples * side * side
        config = ("model:\n  input: {shape: [1, %d, %d]}\n  layers:\n    - conv: {out: 2, kernel: 1}\n"
                  "    - conv: {out: 2, kernel: 1}\n"
                  "  loss: cross_entropy\ndata:\n  train: {tensors: many.safetensors}\n  eval: {tensors: many.safetensors}\n"
                  "  batch: 16\n  shuffle: false\n"
                  "pipeline: {devices: [[cpu, cpu]], micro_batches: 2}\noptimizer: {sgd: {lr: 0.01}}\ntrain: {steps: 3}\n"
                  % (side, side))
        with open(os.path.join(self.folder, "many.yaml"), "w") as file:
            file.write(config)
        for at in (17, 22):  # in the second mini-batch: of the first process, of the other one
            y = bytearray(pixels)
            y[at * side * side] = 9
            write_tensors(os.path.join(self.folder, "many.safetensors"),
                          x=("U8", [samples, 1, side, side], bytes(pixels)), y=("U8", [samples, side, side], bytes(y)))
            sentence = ("many.safetensors: sample %d: class 9 is out of range; the model has 2 outputs, for the classes 0 … 1"
                        % at)
            arguments = ["many.yaml", "--set", "train.steps=%d" % (3 if at == 17 else 0)]
            sentence = ("" if at == 17 else "evaluation after step 0: ") + sentence
            for processes, changes in ((1, []), (2, []), (2, self.LAST_FIRST)):
                self.assertEqual(self.failure(processes, *arguments, *sets(changes)), ([sentence], 1))


class BadInput(Launched):
    """One sentence, once, and no run folder."""

    def refuse(self, processes, sentence, *arguments, status=2):
        with self.subTest(arguments=arguments):
            ended, said, out = self.end(self.launch(self.run_folder, (processes, ["c.yaml", *arguments])))
            self.assertEqual((said, ended), ([sentence], status), out)
            self.assertFalse(os.path.exists(self.run_folder))

    def test_processes_and_ranks(self):
        self.refuse(3, "c.yaml:18:13: pipeline.devices: there are 3 processes, but only 2 workers; start fewer processes, "
                    "or name more devices")
        absent = "[cpu, {cpu: {rank: 2}}]"
        where = "--set pipeline.devices=%s: pipeline.devices: worker 1 has rank 2, but " % absent
        self.refuse(2, where + "2 workers can be in 2 processes at most, numbered from 0",
                    "--set", "pipeline.devices=" + absent)
        absent = "[cpu, cpu, {cpu: {rank: 2}}]"
        where = "--set pipeline.devices=%s: pipeline.devices: worker 2 has rank 2, but " % absent
        self.refuse(2, where + "there are 2 processes, numbered from 0", "--set", "pipeline.devices=" + absent, "--set", "pipeline.balance=[3, 2, 3]")

    def test_ranks_without_a_launcher(self):
        devices = "[cpu, {cpu: {rank: 1}}]"
        self.run_program("-q", "--set", "pipeline.devices=" + devices, status=2,
                         err="gpipe-train: --set pipeline.devices=%s: pipeline.devices: the ranks need 2 processes, but "
                         "the program was started as one; start it with mpirun -np 2 gpipe-train\n" % devices)
        self.assertFalse(os.path.exists(self.run_folder))

    def test_transports(self):
        self.refuse(2, "--set pipeline.transport=threads: pipeline.transport: threads connect the workers of one process, "
                    "but there are 2 processes", "--set", "pipeline.transport=threads")
        self.refuse(2, "--set pipeline.transport=nccl: pipeline.transport: nccl connects GPUs of several processes, but worker "
                    "0 is on cpu; use auto or mpi", "--set", "pipeline.transport=nccl")

    def test_command_lines_and_files(self):
        self.refuse(2, "unknown option --nonsense: see gpipe-train --help", "--nonsense")
        self.refuse(2, "--set data.train={tensors: none.safetensors}: none.safetensors: cannot be opened: No such file or "
                    "directory", "--set", "data.train={tensors: none.safetensors}", status=1)
        os.mkdir(self.run_folder)
        with open(os.path.join(self.run_folder, "metrics.jsonl"), "w"):
            pass
        ended, said, out = self.end(self.launch(self.run_folder, (2, ["c.yaml"])))
        self.assertEqual((len(said), ended), (1, 2), out)

    def test_data_that_one_process_does_not_have(self):
        """Process 1 has an empty folder in place of the data."""
        hide = hiding("data")
        data = os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        shutil.copy(os.path.join(self.folder, "d.safetensors"), data)
        if subprocess.run([*hide, "true"], cwd=self.folder, capture_output=True).returncode != 0:
            self.skipTest("no folder can be hidden from a process")
        changes = sets(["data.train={tensors: data/d.safetensors, take: [0, 50]}",
                        "data.eval={tensors: data/d.safetensors, take: [50, 64]}"])
        arguments = ["c.yaml", *changes]
        ended, said, out = self.end(self.launch(self.run_folder, (1, arguments), (1, arguments), prefix=hide))
        self.assertEqual((said, ended),
                         (["process 1: data.train: data/d.safetensors: cannot be opened: No such file or directory"], 1), out)

    def refuse_over(self, arguments, prefix, sentence, status=1):
        """--force, over a run that is there; its files stay. The last process is started with the prefix."""
        self.run_program("-q", *sets(["train={steps: 2, save_every: 1}"]))
        def files():
            return {path: read(path) for path in glob.glob(os.path.join(self.run_folder, "**"), recursive=True)
                    if os.path.isfile(path)}
        before = files()
        self.assertEqual(len(before), 7)
        arguments = ["c.yaml", "--force", *arguments]
        ended, said, out = self.end(self.launch(self.run_folder, (1, arguments), (1, arguments), prefix=prefix))
        self.assertEqual((len(said), ended), (1, status), out)
        self.assertRegex(said[0], r"\A" + sentence + r"\Z")
        self.assertEqual(files(), before)

    def test_another_version(self):
        if not OPTIONS.other_version:
            self.skipTest("no program of another version was named")
        own = subprocess.run([OPTIONS.program, "--version"], capture_output=True, text=True).stdout.split()[1]
        self.refuse_over([], ["sh", "-c", 'shift; exec %s "$@"' % OPTIONS.other_version, "sh"],
                         "process 1: it runs version 99.1 of the program, but process 0 runs version %s: install the same on all "
                         "hosts" % re.escape(own))

    def test_replicas_with_another_instruction_set(self):
        with open("/proc/cpuinfo") as file:
            if " avx " not in file.read():
                self.skipTest("this processor has SSE4.1 at most")
        self.refuse_over(sets(SHARED + ["pipeline.devices=[[cpu, cpu]]"]), ["env", "ONEDNN_MAX_CPU_ISA=SSE41"],
                         r"process 1: it computes with oneDNN \S+ with SSE4\.1, .*, but process 0 with oneDNN \S+ with .*: "
                         "replicas of a stage must compute alike")

    def test_a_full_disk(self):
        """Process 1 cannot write its part of the first snapshot. The run goes on, and its next snapshots are whole."""
        if not OPTIONS.faults:
            self.skipTest("no library was named that fills a disk")
        arguments = ["c.yaml", *sets(["train.save_every=3"])]
        full = ["env", "LD_PRELOAD=" + OPTIONS.faults, "GP_FAULTS=fail 1 1 28",
                "GP_FAULTS_FOLDER=" + os.path.join(os.path.realpath(self.run_folder), "snapshots")]
        status, said, out = self.end(self.launch(self.run_folder, (1, arguments), (1, arguments), prefix=full))
        self.assertEqual((status, len(said)), (0, 1), out)
        self.assertRegex(said[0], r"\Awarning: no snapshot was written: process 1: \S+/part-00001-of-00002\.safetensors\S*: "
                         r"cannot be created: No space left on device; free space on that file system; the run goes on\Z")
        self.assertEqual([os.path.basename(path) for path in snapshots(self.run_folder)], ["step-00000006", "step-00000008"])
        self.assertEqual(len(os.listdir(os.path.join(self.run_folder, "snapshots"))), 2)
        self.expect_equal(self.by_itself(arguments[1:]), self.run_folder)

    def test_replicas_of_two_kinds(self):
        for devices, sentence in (
            ("[[cpu, ref]]", "a stage has replicas on cpu and ref: they must be of one kind"),
            ("[[cpu, {cpu: {threads: 2}}]]", "a stage has replicas with 1 and 2 threads: they must have as many"),
        ):
            self.refuse(2, "--set pipeline.devices=%s: pipeline.devices.0: %s" % (devices, sentence),
                        "--set", "pipeline.devices=" + devices)

    def test_sync_without_replicas(self):
        """It is allowed, and has no effect."""
        for sync in ("true", "4"):
            arguments = sets(["model.rules={batch_norm: {sync: %s}}" % sync])
            self.expect_equal(self.by_itself([]), self.together(2, *arguments))

    def test_another_configuration_file(self):
        """Process 1 finds another file of the same name in its folder. A process that finds none goes on."""
        for folder, more in (("other", "# another line\n"), ("same", ""), ("none", None)):
            os.makedirs(os.path.join(self.folder, folder), exist_ok=True)
            if more is not None:
                with open(os.path.join(self.folder, folder, "c.yaml"), "w") as file:
                    file.write(self.config + more)
            arguments = ["c.yaml"]
            process = self.launch(self.run_folder, (1, arguments), (1, arguments),
                                  prefix=["sh", "-c", 'cd %s && exec "$@"' % folder, "sh"])
            status, said, out = self.end(process)
            with self.subTest(folder=folder):
                if more:
                    self.assertEqual((said, status), (["c.yaml: process 1 has another file of this name than process 0; all need "
                                                       "the same"], 2), out)
                    self.assertFalse(os.path.exists(self.run_folder))
                else:
                    self.assertEqual((said, status), ([], 0), out)
                    self.expect_equal(self.by_itself([]), self.run_folder)
                    shutil.rmtree(self.run_folder)

    def test_resumed_with_fewer_devices_than_processes(self):
        """The snapshot's devices hold, and not those of the file."""
        self.run_program("-q", *sets(["pipeline.devices=[cpu]", "train={steps: 2, save_every: 2}"]))
        before = read(os.path.join(self.run_folder, "metrics.jsonl"))
        ended, said, out = self.end(self.launch(self.run_folder, (2, ["c.yaml", "--resume"])))
        self.assertEqual((said, ended),
                         (["c.yaml: pipeline.devices: there are 2 processes, but only 1 worker; start fewer processes, or name "
                           "more devices; --resume goes on with the devices of the snapshot: to change them, give them with "
                           "--set pipeline.devices=[…]"], 2), out)
        self.assertEqual(read(os.path.join(self.run_folder, "metrics.jsonl")), before)
        status, said, out = self.end(self.launch(self.run_folder, (2, ["c.yaml", "--resume", *sets(["pipeline.devices=[cpu, cpu]",
                                                                                                      "train.steps=4"])])))
        self.assertEqual((status, said), (0, []), out)

    def test_a_loss_that_is_not_finite(self):
        """The tensor is named, in whichever process it is."""
        changes = sets(FOUR + ["optimizer.sgd.lr=1e30"])
        _, errors = self.run_program("-q", *changes, status=1, err=None)
        sentence = errors.rstrip("\n")[len("gpipe-train: "):]
        self.assertRegex(sentence, "first not finite: micro-batch .* of ")
        for ranks in ([0, 0, 1, 1], [1, 1, 0, 0]):
            devices = "pipeline.devices=[%s]" % ", ".join("{cpu: {rank: %d}}" % rank for rank in ranks)
            ended, said, out = self.end(
                self.launch(self.run_folder, (2, ["--force", "c.yaml", *changes, "--set", devices])))
            self.assertEqual((said, ended), ([sentence], 1), out)


class Faults(Launched):
    """A process is killed, stopped, or told to end, at random moments. All processes end, it is said once, and a resumed
    run reaches the same parameters."""

    config, layers, steps = runs.CONFIG, 8, runs.STEPS
    # mpirun ends the others so many seconds after it has seen that one is lost; it sleeps as long twice.
    more = {"OMPI_MCA_odls_base_sigkill_timeout": "2"}
    SENTENCE = {
        signal.SIGKILL: r"process %d \(host \S+, pid %d\) has ended without a word",
        signal.SIGSTOP: r"process %d \(host \S+, pid %d\) has given no sign of life for 5 s",
    }
    SENTENCE_OF_2 = SENTENCE[signal.SIGSTOP].replace("5 s", "2 s")  # with pipeline.timeout: 2
    SAVED = ", when all was saved; the run is complete, and does not wait for it"

    def begin(self):
        """A run, resumed if there is a snapshot, and the processes by rank; as soon as it has begun."""
        stages = self.rng.randint(2, 4)
        processes = self.rng.randint(2, min(3, stages))
        arguments = ["c.yaml", *sets(["pipeline.devices=[%s]" % ", ".join(["cpu"] * stages), "pipeline.balance=size",
                                      "pipeline.timeout=5"])]  # a first pass takes seconds under sanitizers on a busy machine
        arguments.append("--resume")
        self.mark = time.time_ns()
        process = self.launch(self.run_folder, (processes, arguments))
        begun = self.await_lines(process, self.rng.randrange(60))
        ranks = {rank_of(pid): pid for pid in children(process.pid)} if begun else {}
        ranks.pop(None, None)
        return process, ranks, processes

    def end(self, process):
        """Without the warning that a process which was killed has written a best model after its last snapshot."""
        status, said, out = super().end(process)
        return status, [line for line in said if "best.safetensors is not the model of step" not in line], out

    def await_end(self, pid):
        """mpirun may end before its processes; those that have ended may wait for their parent."""
        start = time.monotonic()
        while rank_of(pid) is not None:
            self.assertLess(time.monotonic() - start, PATIENCE, "process %d goes on" % pid)
            time.sleep(0.01)

    def disturb(self, number):
        """One run; False where it ended before."""
        process, ranks, processes = self.begin()
        if len(ranks) < processes:
            status, said, out = self.end(process)
            self.assertEqual((status, said), (0, []), out)
            return False
        rank = self.rng.randrange(processes)
        pid = ranks[rank]
        time.sleep(self.rng.random() * 0.02)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
        status, said, out = self.end(process)
        if status == 0:
            return False
        for other in ranks.values():
            self.await_end(other)
        if number == signal.SIGTERM:
            self.assertEqual((status, said), (130, []), out)
        else:
            self.assertEqual(len(said), 1, out)
            late = said[0].endswith(self.SAVED)
            self.assertRegex(said[0], (r"\Awarning: %s" if late else r"\A%s\Z") % self.SENTENCE[number] % (rank, pid))
            return not late  # the run had ended before
        return True

    def test_lost_and_stopped(self):
        counts = collections.Counter()
        while sum(counts.values()) < OPTIONS.moments:
            shutil.rmtree(self.run_folder, ignore_errors=True)
            while sum(counts.values()) < OPTIONS.moments:
                number = self.rng.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
                goes_on = True
                with self.subTest(signal=number.name, moment=sum(counts.values())):
                    goes_on = self.disturb(number)
                if not goes_on:
                    break
                counts[number.name] += 1
            self.run_program("-q", "--resume")
            self.expect_as_alone()
        print("%d disturbed: %s" % (sum(counts.values()), dict(counts)), flush=True)


    def test_a_timeout_that_changes(self):
        """From step 3 on it is 2 s, for processes that are stopped, too."""
        with open(os.path.join(self.folder, "timeouts.yaml"), "w") as file:
            file.write(self.config + "changes: {3: {pipeline.timeout: 2}}\n")
        process = self.launch(self.run_folder, (2, ["timeouts.yaml", "--set", "train={steps: 1000000}"]))
        self.mark = 0
        self.assertTrue(self.await_lines(process, 30))
        pid = next(pid for pid in children(process.pid) if rank_of(pid) == 1)
        os.kill(pid, signal.SIGSTOP)
        status, said, out = self.end(process)
        self.await_end(pid)
        self.assertEqual((status, len(said)), (1, 1), out)
        self.assertRegex(said[0], self.SENTENCE_OF_2 % (1, pid))


    def test_the_folder_moves(self):
        """The parts of all processes go where it is now."""
        while True:
            self.mark = time.time_ns()
            process = self.launch(self.run_folder, (2, ["c.yaml", "--force", *self.LINES]))
            begun = self.await_lines(process, 5)
            pids = [pid for pid in children(process.pid) if rank_of(pid) is not None] if begun else []
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            if len(pids) == 2 and not snapshots(self.run_folder):
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            self.end(process)
            shutil.rmtree(self.run_folder)
        moved = self.move_folder()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out)
        self.expect_moved(moved, [line for line in out.splitlines() if line.startswith("gpipe-train: ")])

    def test_lost_in_a_snapshot(self):
        """Process 1 stops before it makes its part, and before it writes to it. Process 0 removes what was begun, and begins no
        other snapshot of a run that has failed."""
        if not OPTIONS.faults:
            self.skipTest("no library was named that stops a process")
        folder, log = os.path.join(self.run_folder, "snapshots"), os.path.join(self.folder, "calls")
        counted = {"LD_PRELOAD": OPTIONS.faults, "GP_FAULTS_LOG": log, "GP_FAULTS_FOLDER": os.path.realpath(folder)}
        for call in (1, 2):
            arguments = ["c.yaml", "--force", *sets(["pipeline.timeout=2", "pipeline.balance=[4, 4]", "train.save_every=7"])]
            stops = ["env", "GP_FAULTS=stop-before %d" % call]
            status, said, out = self.end(self.launch(self.run_folder, (1, arguments), (1, arguments), prefix=stops, environment=counted))
            self.assertEqual((status, len(said)), (1, 1), out)
            self.assertRegex(said[0], self.SENTENCE_OF_2.replace("%d", r"\d+"))
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(read(log).decode().splitlines().count("mkdir step-00000004"), 1)
            os.remove(log)


class Hangs(Launched):
    """A worker computes an instruction that never ends. It is said once which one, all processes end, and a resumed run
    reaches the same parameters."""

    config, layers, steps = runs.CONFIG, 8, runs.STEPS
    more = Faults.more

    def expect_hung(self, rank):
        if not OPTIONS.hang:
            self.skipTest("no library was named that lets a worker hang")
        arguments = ["c.yaml", *sets(["pipeline.timeout=6", "train.save_every=1", "pipeline.balance=[4, 4]"])]
        process = self.launch(self.run_folder, (2, arguments), environment={
            "LD_PRELOAD": OPTIONS.hang, "GP_HANG_RANK": str(rank), "GP_HANG_AT": "400"})
        self.mark = 0
        pids = []
        if self.await_lines(process, 0):
            pids = [pid for pid in children(process.pid) if rank_of(pid) is not None]
        status, said, out = self.end(process)
        for pid in pids:
            Faults.await_end(self, pid)
        self.assertEqual((status, len(said)), (1, 1), out)
        self.assertRegex(said[0], r"^process %d: worker %d \(cpu\) has computed [FRBIW] s%d m\d for \d+\.\d s, longer than "
                         r"pipeline\.timeout \(6 s\)$" % (rank, rank, rank))
        self.assertTrue(snapshots(self.run_folder))
        self.run_program("-q", "--resume", *sets(["train.save_every=7"]))
        self.expect_as_alone()
        return out

    def test_in_another_process(self):
        self.expect_hung(1)

    def test_in_process_0(self):
        """Its guard says it, and ends it. It clears the line of the terminal before: what hangs may have left one of progress."""
        out = self.expect_hung(0)
        terminal = subprocess.run(["mpirun", "-np", "1", "test", "-t", "1"], env={**os.environ, **LAUNCHER}).returncode == 0
        self.assertEqual(out.count("\x1b[K"), int(terminal), out)


class Ends(Launched):
    """A process is stopped when all is saved, and MPI waits for it."""

    def stopped_at_the_end(self, timeout):
        if not OPTIONS.hang:
            self.skipTest("no library was named that stops a process")
        process = self.launch(self.run_folder, (2, ["c.yaml", "--force", *sets(["pipeline.timeout=%d" % timeout])]), environment={
            "LD_PRELOAD": OPTIONS.hang, "GP_HANG_RANK": "1", "GP_HANG_AT": "END"})
        start = time.monotonic()
        while True:
            self.assertLess(time.monotonic() - start, PATIENCE)
            time.sleep(0.01)
            found = [pid for pid in children(process.pid) if rank_of(pid) == 1]
            if found and read("/proc/%d/stat" % found[0]).decode().rsplit(")", 1)[1].split()[0] == "T":
                return process, found[0]

    def test_it_goes_on(self):
        process, pid = self.stopped_at_the_end(60)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.end(process)[:2], (0, []))
        self.expect_equal(self.by_itself(sets(["pipeline.timeout=60"])), self.run_folder)

    def test_it_does_not(self):
        """The run is complete, and says so. mpirun ends the process, and has a status of its own for that."""
        process, pid = self.stopped_at_the_end(2)
        status, said, out = self.end(process)
        self.assertEqual(len(said), 1, out)
        self.assertRegex(said[0], r"\Awarning: process 1 \(host \S+, pid %d\) has given no sign of life for 2 s, when all was saved; the run "
                         r"is complete, and does not wait for it\Z" % pid)
        self.expect_equal(self.by_itself(sets(["pipeline.timeout=60"])), self.run_folder)
        end = json.loads(read(os.path.join(self.run_folder, "metrics.jsonl")).splitlines()[-1])
        self.assertEqual((end["event"], end["status"]), ("end", "done"))


class Deliveries(Launched):
    """MPI loses a message without a word, as it may when only its own connection breaks. It is said once which process waits for
    which, and a resumed run reaches the same parameters."""

    config, layers, steps = runs.CONFIG, 8, runs.STEPS

    def test_a_message_of_a_step(self):
        if not OPTIONS.hang:
            self.skipTest("no library was named that loses a message")
        arguments = ["c.yaml", *sets(["pipeline.timeout=1", "train.save_every=1", "pipeline.balance=[4, 4]"])]
        process = self.launch(self.run_folder, (2, arguments), environment={
            "LD_PRELOAD": OPTIONS.hang, "GP_HANG_RANK": "1", "GP_HANG_AT": "LOSE 150"}, quiet=False)
        status, said, out = self.end(process)
        self.assertEqual((status, said), (1, ["process 0 has waited for 1 s for a message of process 1, which has sent it: MPI does "
                                              "not deliver it; the connection of MPI between the two may be broken"]), out)
        self.assertTrue(snapshots(self.run_folder))
        self.assertIn("no model saved: --resume goes on from the last snapshot", out)
        self.run_program("-q", "--resume", *sets(["train.save_every=7"]))
        self.expect_as_alone()


class Starts(Launched):
    """What comes before the processes have met."""

    def test_a_signal_while_mpi_starts(self):
        if not OPTIONS.hang:
            self.skipTest("no library was named that sends a signal")
        for rank in ("0", "1"):
            arguments = ["c.yaml", "--force", *sets(["train={steps: 5000}", "pipeline.balance=[4, 4]"])]
            process = self.launch(self.run_folder, (2, arguments), environment={
                "LD_PRELOAD": OPTIONS.hang, "GP_HANG_RANK": rank, "GP_HANG_AT": "TERM"})
            status, said, out = self.end(process)
            self.assertEqual((status, said), (130, []), out)

    @staticmethod
    def listening(pid):
        """Where a process listens, as pairs of an address, as the kernel writes it, and a port."""
        own, found = set(), set()
        for number in os.listdir("/proc/%d/fd" % pid):
            own.add(os.readlink("/proc/%d/fd/%s" % (pid, number)))
        for kind in ("tcp", "tcp6"):
            with open("/proc/%d/net/%s" % (pid, kind)) as file:
                for words in (line.split() for line in file):
                    if words[3] == "0A" and "socket:[%s]" % words[9] in own:
                        address, port = words[1].split(":")
                        found.add((address, int(port, 16)))
        return found

    def test_process_0_stalls_while_others_join(self):
        """For longer than another process waits for its answer (5 s). 200 strangers who say nothing are at the door, too. Nobody
        but this machine reaches it."""
        if not OPTIONS.hang:
            self.skipTest("no library was named that stops a process")
        process = self.launch(self.run_folder, (3, ["c.yaml", "--force", *sets(FOUR)]), environment={
            "LD_PRELOAD": OPTIONS.hang, "GP_HANG_RANK": "0", "GP_HANG_AT": "STOP", "OMPI_MCA_btl": "vader,self"})
        stopped, start = None, time.monotonic()
        while stopped is None:
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic() - start, PATIENCE)
            time.sleep(0.01)
            first = [pid for pid in children(process.pid) if rank_of(pid) == 0]
            if first and read("/proc/%d/stat" % first[0]).decode().rsplit(")", 1)[1].split()[0] == "T":
                stopped, = first
        at = self.listening(stopped)
        self.assertEqual([address for address, _ in at], ["0100007F"], at)
        (_, port), = at
        strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        time.sleep(6)
        os.kill(stopped, signal.SIGCONT)
        status, said, out = self.end(process)
        for stranger in strangers:
            stranger.close()
        self.assertEqual((status, said), (0, []), out)
        self.expect_equal(self.by_itself(sets(FOUR)), self.run_folder)

    def test_slurm_without_pmi(self):
        """srun says nothing of PMIx. MPI is not started, and one task speaks."""
        for rank in (0, 1, 3):
            said = ("gpipe-train: srun started 4 processes, but does not connect them; with Slurm, try srun --mpi=pmix\n" if rank == 0
                    else "")
            self.run_program("-q", status=1, err=said, environment={"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": str(rank)})
            self.assertFalse(os.path.exists(self.run_folder))

    def test_a_plan_under_slurm(self):
        """It knows which processes are on one host."""
        for tasks, hosts in (("2", 1), ("1(x2)", 2)):
            out, _ = self.run_program("--plan", "--json", environment={
                "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": tasks})
            self.assertEqual(json.loads(out)["hosts"], hosts)

    def test_processes_that_do_not_see_one_another(self):
        """Another launcher than MPI's: each is alone in its world. Process 0 says it; nothing has been touched."""
        for rank in ("0", "1"):
            self.run_program("-q", environment={"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": rank}, status=1,
                             err="" if rank == "1" else "gpipe-train: the launcher started 2 processes, but MPI knows 1: they do "
                             "not see one another; with Slurm, try srun --mpi=pmix\n")
            self.assertFalse(os.path.exists(self.run_folder))

    def test_processes_with_other_arguments(self):
        sentence = ["process 1 was started with other arguments than process 0; all need the same"]
        whole = ["c.yaml"]
        for other in (["d.yaml"], ["c.yaml", "--set", "data.batch=2"], ["--nonsense"], []):
            for parts in (((1, whole), (1, other)), ((1, other), (2, whole))):
                with self.subTest(parts=parts):
                    status, said, out = self.end(self.launch(self.run_folder, *parts))
                    self.assertEqual((status, said), (2, sentence), out)
                    self.assertFalse(os.path.exists(self.run_folder))
        status, said, out = self.end(self.launch(self.run_folder, (3, ["--nonsense"])))
        self.assertEqual((status, said), (2, ["unknown option --nonsense: see gpipe-train --help"]), out)


if __name__ == "__main__":
    SOME = sys.argv[1:2]
    if SOME:
        skip_without_mpi(os.path.abspath(SOME[0]))
    main(Bits, Gpus, Matrix, Data, BadInput, Faults, Hangs, Ends, Deliveries, Starts, moments={"type": int, "default": 6},
         matrix={"type": int, "default": 12}, hang={"type": os.path.abspath}, faults={"type": os.path.abspath},
         **{"matrix-seed": {"type": int, "default": 1}, "other-version": {"type": os.path.abspath},
            "on-host": {"type": os.path.abspath}})
