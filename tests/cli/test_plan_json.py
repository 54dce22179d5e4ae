"""gpipe-train --plan --json from outside: the plan as JSON (docs/timelines.md) against the text of --plan and of the programs, and
plan.json and timelines of runs against it.

    test_plan_json.py BUILD/gpipe-train BUILD/gpipe-balance
"""
import json
import math
import os
import re
import signal
import subprocess
import sys
import unittest

import test_cli
from test_cli import CONFIG, PATIENCE, Group, sets

BALANCE = None
SPREAD_LEAST, SPREAD_SCALED, SPREAD_COUNTED = 0.03, 0.1, 0.3  # as GP_SPREAD_…
# Eight layers on four stages: the output of layer "a" goes over two stages.
FOUR = ["pipeline={devices: [cpu, cpu, cpu, cpu], micro_batches: 4, balance: [3, 1, 1, 3]}"]
ON_GPUS = ["pipeline={devices: ['cuda:0', 'cuda:1', 'cuda:2', 'cuda:3'], micro_batches: 4, balance: [3, 1, 1, 3]}"]
SHARED_GPU = ["pipeline={devices: ['cuda:0', 'cuda:0', cpu, cpu], micro_batches: 4, balance: [3, 1, 1, 3]}"]
PLANS = {
    "one": ["pipeline={devices: [cpu], micro_batches: 1}"],
    "gpipe": FOUR,
    "lockstep": FOUR + ["pipeline.lockstep=true"],
    "always": FOUR + ["pipeline.checkpoint=always"],
    "clipped": FOUR + ["optimizer.clip_norm=1"],
    "1f1b": FOUR + ["pipeline.schedule=1f1b"],
    "zb_h1": FOUR + ["pipeline.schedule=zb_h1"],
    "interleaved": ["pipeline={devices: [cpu, cpu], schedule: {interleaved: {chunks: 2}}, micro_batches: 4, balance: [3, 1, 1, 3]}"],
    "zb_v": ["pipeline={devices: [cpu, cpu], schedule: zb_v, micro_batches: 4, balance: [3, 1, 1, 3]}"],
    "gpus": ON_GPUS,
    "gpus without lockstep": ON_GPUS + ["pipeline.lockstep=false"],
    "gpus 1f1b": ON_GPUS + ["pipeline.schedule=1f1b"],
    "shared gpu": SHARED_GPU + ["pipeline.lockstep=true"],
    "threads": ["pipeline={devices: [cpu: {threads: 2}, cpu], micro_batches: 4}"],
    "evaluation only": FOUR + ["train={steps: 0}"],
}
PRINTED = {}  # name -> (JSON, text): each is printed once


def seconds_text(seconds, spread=0):
    """As --plan prints a time whose relative spread is that: with the digits that it allows, two at least."""
    if spread:
        digits = max(2, math.floor(math.log10(seconds)) - math.floor(math.log10(seconds * spread)) + 1)
        seconds = float("%.*g" % (digits, seconds))
    seconds = float("%.3g" % seconds)
    units = ["s", "ms", "µs"]
    while seconds < 1 and len(units) > 1:
        seconds *= 1000
        units.pop(0)
    return "%.3g %s" % (seconds, units[0])


def bytes_text(count):
    """As --plan prints a size."""
    if count < 1024:
        return "%d B" % count if count else "-"
    value, units = count / 1024, ["KiB", "MiB", "GiB"]
    while value >= 1023.95:
        value /= 1024
        units.pop(0)
    return ("%.2f %s" if value < 10 else "%.1f %s") % (value, units[0])


def programs_of(text):
    """The programs that --plan -v prints: [(pass, samples, [worker: [{op, stage, micro, edge, collective, clock}]])]."""
    programs = []
    for line in text.splitlines():
        head = re.fullmatch(r"# (\w+), a mini-batch of (\d+) samples", line)
        if head:
            programs.append((head.group(1), int(head.group(2)), []))
        elif programs and re.fullmatch(r"worker \d+:", line):
            programs[-1][2].append([])
        elif programs and line and not line.startswith("programs "):
            words = line.split()
            fields = {"op": words[0]}
            for word in words[1:]:
                for key, letter in (("stage", "s"), ("micro", "m"), ("edge", "e"), ("collective", "c"), ("clock", "@")):
                    if re.fullmatch(letter + r"\d+", word):
                        fields[key] = int(word[1:])
            programs[-1][2][-1].append(fields)
    return programs


def drop_plans_of_gpus():
    """Programs without CUDA refuse them."""
    for name in [name for name, changes in PLANS.items() if changes[0] in ON_GPUS + SHARED_GPU]:
        del PLANS[name]


class Json(Group):
    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = self.path("no times of other tests")

    def plan(self, changes=(), *arguments, config="c.yaml"):
        done = self.expect(["--plan", "--json", *arguments, config, *sets(changes)], 0)
        self.assertEqual(done.out[-2:], "}\n")
        return json.loads(done.out)

    def text(self, changes=(), *arguments):
        return self.expect(["--plan", "-v", *arguments, "c.yaml", *sets(changes)], 0).out


def of_each_plan(check):
    """A test of the JSON and the text of each plan; each is printed once."""

    def test(self):
        for name, changes in PLANS.items():
            with self.subTest(plan=name):
                if name not in PRINTED:
                    PRINTED[name] = self.plan(changes), self.text(changes)
                check(self, *PRINTED[name])

    test.__doc__ = check.__doc__
    return test


class Plans(Json):
    @of_each_plan
    def test_instructions_are_those_of_the_text(self, plan, text):
        wanted = programs_of(text)
        self.assertEqual([(p["pass"], p["samples"]) for p in plan["programs"]], [program[:2] for program in wanted])
        for program, (_, _, workers) in zip(plan["programs"], wanted):
            found = [[{key: i[key] for key in ("op", "stage", "micro", "edge", "collective", "clock") if key in i} for i in worker["instructions"]]
                     for worker in program["workers"]]
            self.assertEqual(found, workers)
            for worker in program["workers"]:
                for i in worker["instructions"]:
                    fields = "".join(" %s%d" % (key[0], i[key]) for key in ("stage", "micro", "edge", "collective") if key in i)
                    self.assertEqual(i["name"], "barrier, clock %d" % i["clock"] if i["op"] == "barrier" else i["op"] + fields)

    def test_two_sizes_of_mini_batches(self):
        plan = self.plan(FOUR)
        self.assertEqual([(p["pass"], p["samples"], p["micro_batches"]) for p in plan["programs"]],
                         [("training", 16, 4), ("training", 2, 2), ("evaluation", 14, 4)])

    @of_each_plan
    def test_times_follow_from_the_waits(self, plan, text):
        """An instruction starts when the one before it in its queue and its waits have ended, and not later."""
        for program in plan["programs"]:
            last = 0
            for worker in program["workers"]:
                before = {}
                for i in worker["instructions"]:
                    ends = [program["workers"][w]["instructions"][pc]["end_ms"] for w, pc in i["waits"]]
                    ready = max([before.get(i["queue"], 0), *ends])
                    self.assertAlmostEqual(i["end_ms" if i["op"] == "barrier" else "start_ms"], ready, places=9, msg=i)
                    self.assertGreaterEqual(i["end_ms"], i["start_ms"])
                    before[i["queue"]] = i["end_ms"]
                    last = max(last, i["end_ms"])
            self.assertEqual(program["step_ms"], last)
            self.assertGreater(last, 0)

    @of_each_plan
    def test_waits_have_no_circle(self, plan, text):
        """Instructions can be put in an order in which each comes after all that it waits for."""
        for program in plan["programs"]:
            before, done, moved = [{} for _ in program["workers"]], set(), True
            at = [{q: [pc for pc, i in enumerate(w["instructions"]) if i["queue"] == q] for q in range(3)} for w in program["workers"]]
            while moved:
                moved = False
                for w, worker in enumerate(program["workers"]):
                    for queue in at[w].values():
                        while queue and all(tuple(wait) in done for wait in worker["instructions"][queue[0]]["waits"]):
                            done.add((w, queue.pop(0)))
                            moved = True
            self.assertEqual([queue for worker in at for queue in worker.values() if queue], [])

    @of_each_plan
    def test_a_receive_waits_for_its_send(self, plan, text):
        for program in plan["programs"]:
            for w, worker in enumerate(program["workers"]):
                for i in worker["instructions"]:
                    waits = [(at, program["workers"][at]["instructions"][pc]) for at, pc in i["waits"]]
                    posts = [(it["stage"], it["collective"]) for _, it in waits if it["op"] == "post"]
                    if i["op"] == "collect":
                        collective, root, count = plan["collectives"][i["collective"]], len(plan["stages"]) - 1, len(plan["stages"])
                        of = [root] if collective["kind"] == "broadcast" else list(range(count - 1))
                        self.assertEqual(sorted(posts), [(s, i["collective"]) for s in of])
                    elif i["op"] != "barrier":
                        self.assertEqual(posts, [])
                    sends = [(it["edge"], it["micro"], it["bytes"]) for _, it in waits if it["op"] == "send"]
                    if i["op"] == "recv":
                        self.assertEqual(sends, [(i["edge"], i["micro"], i["bytes"])])
                    elif i["op"] != "barrier":
                        self.assertEqual(sends, [])

    def test_each_kind_of_wait_is_there(self):
        """The plans of these tests have each kind of wait, so that the other tests look at all of them."""

        def kind(program, w, i, wait):
            it = program["workers"][wait[0]]["instructions"][wait[1]]
            if i["op"] == "barrier":
                return "barrier"
            return it["op"] if wait[0] != w else "same queue" if it["queue"] == i["queue"] else "mark"

        kinds = {kind(program, w, i, wait) for name in ("gpipe", "lockstep", "gpus", "shared gpu") if name in PLANS
                 for program in self.plan(PLANS[name])["programs"] for w, worker in enumerate(program["workers"]) for i in worker["instructions"] for wait in i["waits"]}
        self.assertEqual(kinds, {"send", "recv", "post", "barrier"} | ({"mark"} if "gpus" in PLANS else set()))

    def test_barriers(self):
        """Without GPUs a barrier waits for the receives that copy from its worker (plan/meets.h); on a shared GPU all meet."""
        program = self.plan(FOUR + ["pipeline.lockstep=true"])["programs"][0]
        first = next(i for i in program["workers"][0]["instructions"] if i["op"] == "barrier" and i["waits"])
        for at, pc in first["waits"]:
            it = program["workers"][at]["instructions"][pc]
            self.assertEqual((it["op"], it["micro"]), ("recv", 0))
        self.assertNotIn("host_waits", first)
        if "shared gpu" not in PLANS:
            return
        program = self.plan(SHARED_GPU + ["pipeline.lockstep=true"])["programs"][0]
        barriers = [[pc for pc, i in enumerate(worker["instructions"]) if i["op"] == "barrier"] for worker in program["workers"]]
        for w, key, others in ((0, "host_waits", (1, 2, 3)), (2, "waits", (3,)), (3, "waits", (2,))):
            for number, pc in enumerate(barriers[w]):
                i = program["workers"][w]["instructions"][pc]
                self.assertEqual(i[key], [[v, barriers[v][number] - 1] for v in others if barriers[v][number] > 0])
        for pc in barriers[0]:
            self.assertEqual(program["workers"][0]["instructions"][pc]["waits"], [])

    @of_each_plan
    def test_queues(self, plan, text):
        gpu = [worker["device"] == "cuda" for worker in plan["workers"]]
        for program in plan["programs"]:
            for w, worker in enumerate(program["workers"]):
                for i in worker["instructions"]:
                    kind = plan["edges"][i["edge"]]["carries"] if i["op"] == "recv" else ""
                    wanted = 1 if i["op"] == "load" or kind in ("activation", "skip") else 2 if kind == "gradient" else 0
                    self.assertEqual(i["queue"], wanted if gpu[w] else 0)

    @of_each_plan
    def test_sums(self, plan, text):
        """Busy and copying are the sums over a worker's instructions, and the bubble follows from them."""
        for program in plan["programs"]:
            for worker in program["workers"]:
                of = {True: 0.0, False: 0.0}
                for i in worker["instructions"]:
                    if i["op"] not in ("send", "post", "barrier"):
                        of[i["op"] in ("load", "recv", "collect")] += i["end_ms"] - i["start_ms"]
                self.assertAlmostEqual(of[False], worker["busy_ms"], places=9)
                self.assertAlmostEqual(of[True], worker["copy_ms"], places=9)
            busy = sum(worker["busy_ms"] for worker in program["workers"])
            self.assertAlmostEqual(program["bubble"], 1 - busy / program["step_ms"] / len(program["workers"]))

    @of_each_plan
    def test_stages_workers_and_edges(self, plan, text):
        stages, layers = plan["stages"], plan["layers"]
        self.assertEqual([layer["name"] for layer in layers[:3]], ["0", "1", "a"])
        self.assertEqual((layers[0]["kind"], layers[-1]["kind"]), ("conv", "cross_entropy"))
        at = 0
        for s, stage in enumerate(stages):
            self.assertEqual(stage["first_layer"], at)
            self.assertEqual([layer["stage"] for layer in layers[at : at + stage["layers"]]], [s] * stage["layers"])
            self.assertIn(s, plan["workers"][stage["worker"]]["stages"])
            at += stage["layers"]
        self.assertEqual((at, layers[-1]["stage"]), (8, len(stages) - 1))
        self.assertEqual(sum(stage["parameters"] for stage in stages), 1139)
        self.assertEqual(sorted(s for worker in plan["workers"] for s in worker["stages"]), list(range(len(stages))))
        self.assertEqual(len({worker["name"] for worker in plan["workers"]}), len(plan["workers"]))
        program = plan["programs"][0]
        for worker in program["workers"]:
            for i in worker["instructions"]:
                if "edge" in i:
                    edge = plan["edges"][i["edge"]]
                    self.assertEqual(edge["from" if i["op"] == "send" else "to"], i["stage"])
                    if i["micro"] == 0:
                        self.assertEqual(edge["bytes"], i["bytes"])

    def test_a_skip_goes_over_two_stages(self):
        """Layer "a" has 8x4x4 values of 4 bytes and is added on the third stage; a micro-batch has 4 samples."""
        edges = self.plan(FOUR)["edges"]
        self.assertIn({"from": 0, "to": 2, "carries": "skip", "bytes": 4 * 8 * 4 * 4 * 4, "read_by": ["F"]}, edges)
        for edge in edges:
            del edge["read_by"]
        # "a" is used on the second stage too: its gradient goes from the third to the second, as that of layer "3" does, and then back.
        self.assertEqual(edges.count({"from": 2, "to": 1, "carries": "gradient", "bytes": 4 * 8 * 4 * 4 * 4}), 2)

    def test_loads_have_bytes(self):
        """4 samples of 2x4x4 values of 4 bytes, and 4 classes of 8 bytes; the mini-batch of 2 has micro-batches of 1."""
        plan = self.plan(["pipeline={devices: [cpu], micro_batches: 4}"])
        for program, samples in zip(plan["programs"], (4, 1)):
            load = program["workers"][0]["instructions"][0]
            self.assertEqual((load["op"], load["bytes"]), ("load", samples * (2 * 4 * 4 * 4 + 8)))

    @of_each_plan
    def test_the_text_has_the_same_numbers(self, plan, text):
        main = plan["programs"][0]
        self.assertIn("schedule %s, lockstep %s, " % (plan["schedule"], "on" if plan["lockstep"] else "off"), text)
        predicted = re.search(r"^predicted .*: (.*?) \(.*bubble (\d+)%\n +(.*)$", text, re.M)
        self.assertEqual(predicted.groups(), (seconds_text(main["step_ms"] / 1000, 2), "%.0f" % (100 * main["bubble"]), plan["source"]))
        self.assertEqual(plan["times"], "counted")
        columns = ["arena_bytes", *plan["workers"][0]["memory"]]
        for key in columns:
            row = re.search(r"^  +%s  +(.*)$" % ("in bytes" if key == "arena_bytes" else key), text, re.M).group(1).strip()
            numbers = [worker[key] if key == "arena_bytes" else worker["memory"][key] for worker in plan["workers"]]
            cells = re.split(r" {2,}", row)[: len(numbers)]
            self.assertEqual(cells, [str(n) if key == "arena_bytes" else bytes_text(n) for n in numbers], key)
        for stage, line in zip(plan["stages"], re.findall(r"^ +\d+  (?:cpu|cuda)\S*.*$", text, re.M)):
            self.assertEqual(re.search(r" ([\d,]+) +\d+%", line).group(1), "{:,}".format(stage["parameters"]))

    @of_each_plan
    def test_memory_peaks_where_the_text_says(self, plan, text):
        most = re.split(r" {2,}", re.search(r"^  most in use +(.*)$", text, re.M).group(1))
        pcs = re.split(r" {2,}", re.search(r"^    instruction +(.*)$", text, re.M).group(1))
        for w, worker in enumerate(plan["workers"]):
            alive = [i["bytes_alive"] for program in plan["programs"] for i in program["workers"][w]["instructions"]]
            self.assertEqual(bytes_text(max(alive)), most[w])
            self.assertLessEqual(max(alive), worker["arena_bytes"])
            self.assertIn(max(alive), [program["workers"][w]["instructions"][int(pcs[w])]["bytes_alive"] for program in plan["programs"]
                                       if int(pcs[w]) < len(program["workers"][w]["instructions"])])

    def test_processors(self):
        """Four threads on one processor: the step takes the sum of all work that is not a copy or a wait, at least."""
        shared, alone = self.plan(FOUR, "--processors", "1"), self.plan(FOUR, "--processors", "8")
        self.assertEqual((shared["processors"], alone["processors"]), (1, 8))
        self.assertEqual(shared["identity"], alone["identity"])
        work = sum(worker["busy_ms"] for worker in alone["programs"][0]["workers"])
        self.assertGreaterEqual(shared["programs"][0]["step_ms"], work * (1 - 1e-9))
        self.assertLess(alone["programs"][0]["step_ms"], work)

    def test_times_of_a_profile(self):
        """A profile that was kept is used; micro-batches of another size take its times in proportion."""
        done = subprocess.run([BALANCE, "-q", "--seconds", "0.01", "c.yaml"], cwd=self.folder, capture_output=True, text=True,
                              timeout=PATIENCE, env={**os.environ, "XDG_CACHE_HOME": self.path("cache")})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache")}
        for changes, times in (([], "profile"), (["pipeline.micro_batches=2"], "scaled")):
            plan = json.loads(self.expect(["--plan", "--json", "c.yaml", *sets(changes)], 0, env=environment).out)
            text = self.expect(["--plan", "c.yaml", *sets(changes)], 0, env=environment).out
            self.assertEqual(plan["times"], times)
            self.assertTrue(plan["source"].startswith("from the profile " if times == "profile" else "scaled"), plan["source"])
            self.assertIn(plan["source"] + "\n", text)
            devices = json.loads(self.read_text(self.kept_profile()))["devices"]
            spread = max(it.get("spread", 0) + max(0, it["slowdown"] - 1) for it in devices) + (SPREAD_SCALED if times == "scaled" else 0)
            self.assertIn(": %s (" % seconds_text(plan["programs"][0]["step_ms"] / 1000, max(spread, SPREAD_LEAST)), text)

    def kept_profile(self):
        folder = "cache/gpipe/profiles"
        [name] = os.listdir(self.path(folder))
        return os.path.join(folder, name)

    def read_text(self, name):
        with open(self.path(name)) as file:
            return file.read()


class Identity(Json):
    def identity(self, *changes):
        found = self.plan(changes)["identity"]
        self.assertRegex(found, r"\A[0-9a-f]{16}\Z")
        return found

    def test_equal_plans_have_equal_identities(self):
        """What changes neither layers nor programs: learning rate, seed, name and place of the configuration."""
        self.assertEqual(self.identity(*FOUR), self.identity(*FOUR, "optimizer.sgd.lr=0.5", "train.seed=7"))
        self.write("other.yaml", CONFIG)
        self.assertEqual(self.plan(config="other.yaml")["identity"], self.identity())
        # auto finds the balance that is written here.
        balance = [stage["layers"] for stage in self.plan()["stages"]]
        self.assertEqual(self.identity("pipeline.balance=%s" % balance), self.identity())

    def test_different_plans_have_different_identities(self):
        changes = {
            "plain": FOUR, "balance": FOUR + ["pipeline.balance=[2, 2, 1, 3]"], "schedule": FOUR + ["pipeline.schedule=1f1b"],
            "lockstep": FOUR + ["pipeline.lockstep=true"], "checkpoint": FOUR + ["pipeline.checkpoint=never"],
            "micro-batches": FOUR + ["pipeline.micro_batches=2"], "batch": FOUR + ["data.batch=20"],
            "workers": ["pipeline={devices: [cpu, cpu], micro_batches: 4, balance: [4, 4]}"], "devices": ON_GPUS,
            "threads": FOUR + ["pipeline.devices=[cpu, cpu, cpu, cpu: {threads: 2}]"],
            "loss": FOUR + ["model.loss=cross_entropy", "model.layers=[{conv: {out: 8, kernel: 3, pad: 1}}, batch_norm, {relu: {name: b}}, "
                            "{conv: {out: 8, kernel: 3, pad: 1}}, {add: [b, -1]}, {dropout: 0.2}, flatten, {linear: {out: 3}}]"],
        }
        if "gpus" not in PLANS:
            del changes["devices"]
        found = {name: self.identity(*change) for name, change in changes.items()}
        self.assertEqual(len(set(found.values())), len(found), found)


class Options(Json):
    def test_json_needs_a_plan(self):
        self.expect(["--json", "c.yaml"], 2, "gpipe-train: option --json needs --plan: only a plan is printed as JSON\n", out="")
        self.expect(["--json", "--expand", "c.yaml"], 2, "gpipe-train: option --json needs --plan: only a plan is printed as JSON\n", out="")
        self.expect(["--json=1", "--plan", "c.yaml"], 2, "gpipe-train: option --json takes no value\n", out="")

    def test_a_broken_configuration_prints_nothing(self):
        self.write("c.yaml", CONFIG.replace("kernel: 3", "kernel: 33", 1))
        done = self.run_program("--plan", "--json", "c.yaml")
        self.assertEqual((done.returncode, done.out), (2, ""))
        self.assertRegex(done.err, r"\Agpipe-train: c\.yaml:\d+:\d+: .*kernel.*\n\Z")
        self.expect(["--plan", "--json", "gone.yaml"], 2, "gpipe-train: gone.yaml: cannot be opened: No such file or directory\n", out="")
        os.remove(self.path("d.safetensors"))
        self.write("c.yaml", CONFIG)
        done = self.run_program("--plan", "--json", "c.yaml")
        self.assertEqual((done.returncode, done.out), (1, ""))

    def test_a_plan_that_exceeds_its_memory_prints_nothing(self):
        done = self.run_program("--plan", "--json", "--set", "pipeline.devices=[cpu: {memory: 1KiB}, cpu]", "c.yaml")
        self.assertEqual((done.returncode, done.out), (2, ""))

    def test_how_much_is_printed_changes_nothing(self):
        wanted = self.expect(["--plan", "--json", "c.yaml"], 0).out
        for more in (["-q"], ["-v"], ["-o", "run"], ["--svg", "a.svg"], ["--force"], ["--resume"]):
            self.assertEqual(self.expect(["--plan", "--json", *more, "c.yaml"], 0).out, wanted, more)
        for name in ("ONEDNN_VERBOSE", "DNNL_VERBOSE"):  # oneDNN writes to standard output
            self.assertEqual(self.expect(["--plan", "--json", "c.yaml"], 0, env={**os.environ, name: "all"}).out, wanted)
        cuda = ["--plan", "--json", "--set", "pipeline.devices=[cuda:0, cuda:0]", "c.yaml"]
        planned = self.run_program(*cuda)
        if planned.returncode == 0:  # cuDNN and cuBLASLt, too, where told to
            for more in ({"CUDNN_LOGLEVEL_DBG": "3", "CUDNN_LOGDEST_DBG": "stdout"}, {"CUBLASLT_LOG_LEVEL": "5"}):
                self.assertEqual(self.run_program(*cuda, env={**os.environ, **more}).out, planned.out, more)
        self.assertTrue(os.path.exists(self.path("a.svg")))
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_reader_that_went_away(self):
        for stream in ("/dev/full",):
            with open(stream, "w") as full:
                done = self.run_program("--plan", "--json", "c.yaml", stdout=full)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.err.startswith("gpipe-train: "), done.err)

    def test_names_may_hold_anything(self):
        """Quotes and backslashes in the name of the configuration and of a layer; a byte that is no UTF-8 in the path."""
        self.write('a "b" \\ c.yaml', CONFIG.replace("[a, -1]", "['q\"\\', -1]").replace("name: a", "name: 'q\"\\'"))
        plan = self.plan(config='a "b" \\ c.yaml')
        self.assertEqual((plan["name"], plan["layers"][2]["name"]), ('a "b" \\ c.yaml', 'q"\\'))
        os.rename(self.path("c.yaml"), os.path.join(os.fsencode(self.folder), b"\xff\xc3\xa9.yaml"))
        done = subprocess.run([test_cli.PROGRAM, "--plan", "--json", b"\xff\xc3\xa9.yaml"], cwd=self.folder, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.decode())["name"], "\ufffdé.yaml")


class Runs(Json):
    def of_run(self, folder):
        with open(os.path.join(folder, "plan.json")) as file:
            return json.load(file)

    def expect_plan(self, folder, name="c.yaml"):
        """plan.json is the plan of the folder's config.yaml."""
        found, wanted = self.of_run(folder), self.plan(config=os.path.join(folder, "config.yaml"))
        self.assertEqual((found.pop("name"), wanted.pop("name")), (name, "config.yaml"))
        self.assertEqual(found, wanted)

    def test_every_run_has_its_plan(self):
        for changes in (["train.epochs=1"], FOUR + ["train.epochs=1", "pipeline.lockstep=true"],
                        ["pipeline={devices: [cpu, cpu], schedule: zb_v, micro_batches: 4}", "train.epochs=1"],
                        ["train={steps: 0}"]):
            folder = self.train(*sets(changes))
            self.expect_plan(folder)
            self.assertEqual([name for name in os.listdir(folder) if "tmp" in name], [])

    def test_a_run_that_replaces_another(self):
        folder = self.train()
        before = self.of_run(folder)["identity"]
        self.expect(["-q", "-o", folder, "--force", "--set", "pipeline.micro_batches=2", "c.yaml"], 0)
        self.assertNotEqual(self.of_run(folder)["identity"], before)
        self.expect_plan(folder)
        with open(os.path.join(folder, "plan.json"), "w") as file:
            file.write("mine")
        os.remove(os.path.join(folder, "config.yaml"))
        for name in ("metrics.jsonl", "model.safetensors", "best.safetensors"):
            os.remove(os.path.join(folder, name))
        self.expect(["-o", folder, "c.yaml"], 2, "gpipe-train: %s already holds a run (plan.json): choose another folder with -o, continue "
                    "that run with --resume, or replace it with --force\n" % os.path.basename(folder))

    def test_a_run_that_changes_its_plan(self):
        """`changes`, and --set of a run that goes on: the file is that of the configuration that holds."""
        folder = self.train("--set", "train={epochs: 2, save_every: 2}", "--set", "changes={5: {data.batch: 20}}")
        self.assertEqual([p["samples"] for p in self.of_run(folder)["programs"] if p["pass"] == "training"], [20, 10])
        folder = self.train("--set", "train={epochs: 2, save_every: 2}")
        self.assertEqual([p["samples"] for p in self.of_run(folder)["programs"] if p["pass"] == "training"], [16, 2])
        os.remove(os.path.join(folder, "plan.json"))  # as of an older version
        self.expect(["-q", "-o", folder, "--resume", "--set", "train.epochs=4", "--set", "data.batch=20", "c.yaml"], 0)
        self.assertEqual([p["samples"] for p in self.of_run(folder)["programs"] if p["pass"] == "training"], [20, 10])

    def test_a_plan_that_cannot_be_written_ends_the_run(self):
        os.makedirs(self.path("run/plan.json"))
        self.expect(["-q", "-o", "run", "--force", "c.yaml"], 2, "gpipe-train: run/plan.json: is a folder, and a run writes a file there: "
                    "remove it, or choose another folder with -o\n", out="")


class Traces(Json):
    def expect_trace(self, path, plan):
        """The plan in it, and the instruction that each span names."""
        with open(self.path(path)) as file:
            text = file.read()
        self.assertTrue(text.startswith('{"displayTimeUnit":"ms","traceEvents":['))  # what --trace knows its files by
        trace = json.loads(text)
        self.assertEqual(list(trace), ["displayTimeUnit", "traceEvents", "otherData"])
        self.assertEqual(trace["otherData"]["plan"], plan)
        workers = {e["tid"]: int(e["args"]["name"].split()[1]) for e in trace["traceEvents"]
                   if e["name"] == "thread_name" and e["args"]["name"].startswith("worker ")}
        found = set()
        for event in trace["traceEvents"]:
            if event["ph"] != "X" or event["tid"] not in workers:
                continue
            args, worker = event["args"], workers[event["tid"]]
            if "pc" not in args and event["cat"] != "layer":
                self.fail(event)
            if event["cat"] == "layer":
                continue
            program = plan["programs"][args["program"]]
            i = program["workers"][worker]["instructions"][args["pc"]]
            self.assertEqual(args["pass"], program["pass"])
            self.assertIn(event["name"], ("wait", i["name"]))
            if event["name"] != "wait":
                found.add((args["program"], worker, args["pc"]))
        return found

    def count(self, plan):
        return {(p, w, pc) for p, program in enumerate(plan["programs"]) for w, worker in enumerate(program["workers"])
                for pc in range(len(worker["instructions"]))}

    def test_a_trace_has_its_plan(self):
        for changes in (FOUR, ["pipeline={devices: [cpu, cpu], schedule: zb_v, micro_batches: 4}"]):
            folder = self.train("--trace", "t.json", *sets(changes))
            plan = Runs.of_run(self, folder)
            self.assertEqual(self.expect_trace("t.json", plan), self.count(plan))

    def test_a_trace_that_replaces_another(self):
        self.train("--trace", "t.json")
        folder = self.train("--trace", "t.json", "--set", "train.epochs=1")
        self.expect_trace("t.json", Runs.of_run(self, folder))

    def test_a_run_that_is_interrupted(self):
        self.write("c.yaml", CONFIG.replace("epochs: 2", "epochs: 2000000"))
        process = self.start("-o", "run", "--trace", "t.json", "--trace-steps", "1:20000", "c.yaml")
        while process.stdout.readline() and not os.path.exists(self.path("run/metrics.jsonl")):
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130)
        with open(self.path("t.json")) as file:
            trace = json.load(file)
        self.assertEqual(trace["otherData"]["plan"], Runs.of_run(self, self.path("run")))

    def test_a_timeline_of_a_changed_plan(self):
        """It begins after the change: the plan is the second one."""
        folder = self.train("--trace", "t.json", "--trace-steps", "5:6", "--set", "changes={5: {data.batch: 20}}",
                            "--set", "train.epochs=2")
        self.expect_trace("t.json", Runs.of_run(self, folder))


if __name__ == "__main__":
    test_cli.PROGRAM = os.path.abspath(sys.argv.pop(1))
    BALANCE = os.path.abspath(sys.argv.pop(1))
    configuration = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../configs/resnet-synthetic.yaml")
    if b"without CUDA" in subprocess.run([test_cli.PROGRAM, "--plan", "--set", "pipeline.devices=[cuda:0]", configuration],
                                         capture_output=True).stderr:
        drop_plans_of_gpus()
    unittest.main()
