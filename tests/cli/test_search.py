"""gpipe-balance --search from outside.

    test_search.py GPIPE_BALANCE GPIPE_TRAIN

Times come from a profile that is written here, so that no result depends on how long anything takes. Standard library
only.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import surroundings  # noqa: F401

PATIENCE = 300
BALANCE = TRAIN = None

CONFIG = """\
# A chain of unequal layers.
model:
  input: {shape: [12]}
  layers: [linear: 64, relu, linear: 64, relu, linear: 48, relu, linear: 32, linear: 5]
  loss: cross_entropy
data: {train: {synthetic: {samples: 64, seed: 1}}, batch: 16}
pipeline:  # on this machine
  devices: [cpu, cpu]
  micro_batches: 3  # an odd number
  replicas: 1
  lockstep: true
optimizer: {sgd: {lr: 0.02}}
train: {steps: 2}
"""
# Three layers that no cut divides, of activations larger than their parameters. None of their ops is oneDNN's, whose
# workspaces differ by processor: the bytes of these plans are the same on every machine.
BLOCK = "sequential: {layers: [layer_norm, gelu, layer_norm, gelu, layer_norm, sigmoid]}"
BLOCKS = f"""\
model:
  input: {{shape: [64, 16]}}
  layers:
    - {BLOCK}
    - {BLOCK}
    - {BLOCK}
  loss: cross_entropy
data: {{train: {{synthetic: {{samples: 16, seed: 1}}}}, batch: 8}}
pipeline:  # all alike
  devices: [{{cpu: {{memory: MEMORY, count: 3}}}}]
  checkpoint: except_last  # as torchgpipe
optimizer: {{sgd: {{lr: 0.02}}}}
train: {{steps: 2}}
"""
TIMES = [4, 0.5, 6, 0.5, 5, 0.5, 3, 1]
SIZES = [1, 2, 3, 4, 8, 16]


class Search(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gp-test-search-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("c.yaml", CONFIG)
        layers = [{"forward": time, "backward": 2 * time} for time in TIMES]
        self.write("p.json", json.dumps({"gpipe_profile": 2, "micro_batch": 4,
                                         "devices": [{"device": "cpu", "layers": layers}]}))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def run_program(self, *arguments, program=None, cache=None):
        """With a processor for each thread, however many this machine has; arguments may say another number."""
        environment = {**os.environ, "XDG_CACHE_HOME": cache or self.folder}
        enough = [] if program else ["--processors", "64"]
        return subprocess.run([program or BALANCE, *enough, *arguments], cwd=self.folder, env=environment, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def search(self, *more, free="--search=micro_batches"):
        process = self.run_program(free, "--profile", "p.json", "--json", *more, "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        return json.loads(process.stdout)

    def settings_of(self, plan):
        return ["--set", f"pipeline.micro_batches={plan['micro_batches']}",
                "--set", f"pipeline.schedule={plan['schedule']}",
                "--set", f"pipeline.checkpoint={plan['checkpoint']}", "--set", "pipeline.lockstep=auto",
                "--set", f"pipeline.devices={plan['devices']}"]

    def test_each_size_is_measured_once(self):
        """However many plans there are of it, and though none can be kept; not at all where all are."""
        self.write("few.yaml", CONFIG.replace("batch: 16", "batch: 2").replace("micro_batches: 3", "micro_batches: 2"))
        # Of 1 and 2 samples, with 1 and 2 threads.
        for cache, again, measured in ((self.folder, [], 4), (self.folder, [], 0), (self.folder, ["--again"], 4),
                                       (self.path("c.yaml"), [], 4)):
            process = self.run_program("--search=micro_batches", "--seconds", "0.2", "--json", *again, "few.yaml", cache=cache)
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            self.assertEqual(json.loads(process.stdout)["measured"], measured, (cache, again))
            for kept in glob.glob(self.path("gpipe/profiles/*.json")):  # whatever else this machine does
                with open(kept) as file:
                    profile = json.load(file)
                for device in profile["devices"]:
                    device.update(slowdown=1, spread=0.01)
                with open(kept, "w") as file:
                    json.dump(profile, file)

    def test_a_size_that_cannot_be_measured_is_not_announced(self):
        """Batch norm refuses one sample of one value: no line says that it is timed, and each other size has one line."""
        self.write("norm.yaml", CONFIG.replace("relu, linear: 64, relu, linear: 48", "batch_norm, linear: 64, relu, linear: 48")
                   .replace("batch: 16", "batch: 2").replace("micro_batches: 3", "micro_batches: 1"))
        process = self.run_program("--search=micro_batches", "--seconds", "4", "norm.yaml")
        self.assertEqual(process.returncode, 0, process.stderr)
        lines = [line for line in process.stderr.splitlines() if ": at most " in line]
        self.assertEqual([re.sub(r" s$", "", line.split(": at most ")[0]) for line in lines],
                         ["timing 8 layers on cpu, micro-batches of 2 samples", "timing 8 layers on cpu, 2 threads, micro-batches of 2 samples"])

    def test_micro_batches_and_replicas_stay(self):
        """Unless the search is told to change them; --write leaves their lines alone."""
        self.write("c.yaml", CONFIG.replace("  replicas: 1\n", "  replicas: 2\n"))
        found = self.search(free="--search")
        self.assertEqual({plan["micro_batches"] for plan in found["plans"]}, {3})
        self.assertEqual({plan["workers"] / len(plan["balance"]) for plan in found["plans"] if "z" not in plan["schedule"]
                          and "i" not in plan["schedule"]} & {2}, {2})
        self.assertEqual({plan["devices"] for plan in found["plans"]},
                         {"[[{cpu: {threads: 1}}, {cpu: {threads: 1}}], [{cpu: {threads: 1}}, {cpu: {threads: 1}}]]"})
        for free, kept, others in (("--search", "micro_batches and replicas", "micro_batches,replicas"),
                                   ("--search=replicas", "micro_batches", "micro_batches,replicas"),
                                   ("--search=micro_batches", "replicas", "micro_batches,replicas"),
                                   ("--search=micro_batches,replicas", None, None)):
            process = self.run_program(free, "--profile", "p.json", "c.yaml")
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            said = f"\n             {kept} as configured; --search={others} tries others too\n"
            self.assertEqual(said in process.stdout, kept is not None, process.stdout)
            self.assertEqual(" as configured; " in process.stdout, kept is not None)
            self.assertIn(f"to write it  gpipe-balance {free} --write ", process.stdout)
        process = self.run_program("--search", "--profile", "p.json", "--write", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        for line in ("  devices: [cpu, cpu]", "  micro_batches: 3  # an odd number", "  replicas: 2"):
            self.assertIn(line, self.read("c.yaml").splitlines())
        for wrong in ("batch", "micro_batches,", "replicas,x"):
            process = self.run_program(f"--search={wrong}", "c.yaml")
            self.assertEqual((process.returncode, process.stderr.splitlines()[0]), (2,
                "gpipe-balance: option --search takes micro_batches, replicas or both, as in --search=micro_batches,replicas, "
                f'not "{wrong}"'))

    def profile_of(self, factors, **keys):
        """Of devices with so many threads: the times by these factors."""
        devices = [{"device": "cpu", "threads": threads, **keys.get("device", {}),
                    "layers": [{"forward": time * factor, "backward": 2 * time * factor} for time in TIMES]}
                   for threads, factor in factors.items()]
        self.write("p.json", json.dumps({"gpipe_profile": 2, "micro_batch": 4, "devices": devices, **keys.get("root", {})}))

    def test_threads_are_divided_among_stages(self):
        """As many threads as the devices have, and their memory, in every number of equal stages."""
        self.profile_of({1: 1, 2: 0.5, 4: 0.25})
        devices = "pipeline.devices=[{cpu: {memory: 2MiB, count: 4}}]"
        found = self.search("--set", devices, free="--search")
        one = "{cpu: {threads: %d, memory: %d}}"
        self.assertEqual({plan["devices"] for plan in found["plans"]},
                         {"[%s]" % ", ".join([one % (threads, threads << 21)] * (4 // threads)) for threads in (1, 2, 4)})
        # No bubble, and no stage that is longer than the others.
        self.assertEqual((found["plans"][0]["devices"], found["plans"][0]["balance"]), ("[%s]" % (one % (4, 4 << 21)), [8]))
        process = self.run_program("--search", "--profile", "p.json", "--write", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertRegex(process.stdout, r"\n          balance \[8\] on 1 device of 2 threads\n")
        self.assertIn("  devices: [{cpu: {threads: 2}}]", self.read("c.yaml"))
        process = self.run_program("-q", "-o", "run", "c.yaml", program=TRAIN)
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        # Not more of them than there are processors, nor where the profile has no times of such stages.
        self.write("c.yaml", CONFIG)
        self.assertNotIn("threads: 2", str(self.search("--processors", "1", free="--search")))
        self.profile_of({1: 1})
        self.assertNotIn("threads: 2", str(self.search(free="--search")))
        process = self.run_program("--search", "--profile", "p.json", "c.yaml")
        self.assertIn("\n             the profile has no times of 2 threads: no stages of so many were tried\n", process.stdout)

    def test_plans_within_the_spread_are_equal(self):
        """Of these the simplest is recommended: fewest stages, then fewest micro-batches. Times have no more digits."""
        self.profile_of({1: 1, 2: 0.54})
        exact = self.search()["plans"]
        self.assertFalse(any(plan["equal"] and plan["step"] > exact[0]["step"] for plan in exact))
        self.assertEqual(len(exact[0]["balance"]), 2)
        one = min(plan["step"] for plan in exact if len(plan["balance"]) == 1)
        two = min(plan["step"] for plan in exact)
        self.assertTrue(1.01 < one / two < 1.3, one / two)
        self.profile_of({1: 1, 2: 0.54}, device={"spread": one / two - 0.99})
        found = self.search()
        plans = found["plans"]
        self.assertTrue(found["ranked"])
        self.assertEqual((plans[0]["balance"], plans[0]["micro_batches"], plans[0]["equal"]), ([8], 1, True))
        self.assertEqual([plan["step"] for plan in plans[1:]], sorted(plan["step"] for plan in plans[1:]))
        for plan in plans:
            self.assertEqual(plan["equal"], plan["step"] <= two * (1 + found["spread"]))
        self.profile_of({1: 1, 2: 0.54}, device={"spread": 0.02}, root={"taken": "2026-11-25T01:00:00Z"})
        found = self.search()
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "c.yaml")
        self.assertIn(f"\n  times are known to ±{100 * found['spread']:.0f}%; of plans that differ by less (equal), the simplest is "
                      "first\n", process.stdout)
        rows = [line for line in process.stdout.splitlines() if re.match(r"  +\d+  \w", line)]
        self.assertTrue(any(" equal" in row for row in rows), process.stdout)
        for row in rows:
            self.assertNotRegex(row, r"\d\.\d+% (slower|faster)")
        # 3 % of 148 ms are 4 ms: "148 ms"; of 30 % "100 ms".
        self.profile_of({1: 1, 2: 0.54}, device={"spread": 0.09}, root={"taken": "2026-11-25T01:00:00Z"})
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "c.yaml")
        for row in process.stdout.splitlines():
            if re.match(r"  +\d+  \w", row):
                self.assertRegex(row, r" \d\.?\d? ?0* (ms|s) ")

    def test_a_disturbed_profile_ranks_nothing(self):
        self.profile_of({1: 1, 2: 0.54}, device={"slowdown": 2.26}, root={"taken": "2026-11-25T01:00:00Z"})
        found = self.search()
        self.assertFalse(found["ranked"])
        order = [(len(plan["balance"]), plan["micro_batches"], plan["workers"]) for plan in found["plans"]]
        self.assertEqual(order, sorted(order))
        process = self.run_program("--search", "--profile", "p.json", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertIn("\nwarning      not ranked: other programs disturbed the timing of layers (slowdown 2.26); search again when\n",
                      process.stdout)
        for word in (" slower", " faster", "to write it", "to train"):
            self.assertNotIn(word, process.stdout)
        process = self.run_program("--search", "--profile", "p.json", "--write", "c.yaml")
        self.assertEqual((process.returncode, process.stderr),
                         (1, "gpipe-balance: --write: other programs disturbed the timing of layers (slowdown 2.26), so that no plan "
                          "is recommended; search again when they have ended\n"))
        self.assertEqual(self.read("c.yaml"), CONFIG)

    def test_plans_say_what_batch_norm_sees(self):
        self.write("c.yaml", CONFIG.replace("relu, linear: 64, relu, linear: 48", "batch_norm, linear: 64, relu, linear: 48"))
        found = self.search("--set", "data.batch=32", free="--search=micro_batches,replicas")
        for plan in found["plans"]:
            piece = -(-32 // plan["micro_batches"])
            last = 32 - piece * (-(-32 // piece) - 1)
            replicas = plan["devices"].count("[[") + 1
            self.assertIn(plan["batch_norm_samples"], {-(-size // replicas) for size in (piece, last)} | {last // 2 or 1})
        process = self.run_program("--search", "--profile", "p.json", "c.yaml")
        self.assertIn("; batch norm of 4 samples\n", process.stdout)
        self.assertIn("\nwarning      batch norm sees 4 samples of a mini-batch of 16 at a time;\n             below 16 ", process.stdout)
        self.write("c.yaml", CONFIG)
        self.assertNotIn("batch norm", self.run_program("--search", "--profile", "p.json", "c.yaml").stdout)

    def test_tries_all_and_sorts_by_time(self):
        found = self.search()
        plans = found["plans"]
        self.assertEqual(found["tried"], len(SIZES) * 6 * 3)
        self.assertEqual((len(plans), found["too_large"], found["refused"]), (found["tried"], 0, 0))
        self.assertEqual(sorted({plan["micro_batches"] for plan in plans}), SIZES)
        self.assertEqual({plan["schedule"] for plan in plans},
                         {"gpipe", "1f1b", "{interleaved: {chunks: 2}}", "zb_h1", "zb_h2", "zb_v"})
        steps = [plan["step"] for plan in plans]
        self.assertEqual(steps, sorted(steps))
        for plan in plans:
            twice = plan["schedule"] in ("zb_v", "{interleaved: {chunks: 2}}")
            self.assertEqual((len(plan["balance"]), sum(plan["balance"])), (4 if twice else 2, len(TIMES)))
        # Recomputing takes time, and one micro-batch leaves a device idle.
        best = plans[0]
        self.assertEqual(best["checkpoint"], "never")
        self.assertGreater(best["micro_batches"], 2)

    def test_a_found_plan_is_what_its_settings_give(self):
        plans = self.search()["plans"]
        for plan in plans[::23]:
            process = self.run_program("--profile", "p.json", "--json", *self.settings_of(plan), "c.yaml")
            self.assertEqual(process.returncode, 0, process.stderr)
            alone = json.loads(process.stdout)
            self.assertEqual((alone["balance"], alone["step"], alone["bubble"]),
                             (plan["balance"], plan["step"], plan["bubble"]))

    def test_memory_is_a_limit(self):
        memories = sorted(max(plan["memory"]) for plan in self.search()["plans"])
        limit = memories[len(memories) // 2]
        found = self.search("--set", "pipeline.devices=[{cpu: {memory: %d, count: 2}}]" % limit)
        self.assertGreater(found["too_large"], 0)
        self.assertTrue(found["plans"])
        for plan in found["plans"]:
            self.assertLessEqual(max(plan["memory"]), limit)

    def search_blocks(self, memory):
        self.write("c.yaml", BLOCKS.replace("MEMORY", str(memory)))
        layers = [{"forward": 5, "backward": 10}] * 3
        copies = [{"from": start, "to": "cpu", "latency": 1, "per_mib": 0.05} for start in ("host", "cpu")]
        self.write("p.json", json.dumps({"gpipe_profile": 2, "micro_batch": 1, "copies": copies,
                                         "devices": [{"device": "cpu", "layers": layers}]}))
        return self.search()["plans"]

    def test_stages_recompute_only_where_memory_is_short(self):
        """With 1f1b the first stage has most micro-batches alive. What fits with one mode for all is slower."""
        expected = {51000: "[always, always, never]", 77000: '{mode: [except_last, never, never], keep: ["0.1"]}'}
        for memory, policy in expected.items():
            best, *others = self.search_blocks(memory)
            self.assertEqual((best["schedule"], best["checkpoint"]), ("1f1b", policy))
            self.assertLessEqual(max(best["memory"]), memory)
            uniform = [plan for plan in others if plan["checkpoint"] in ("never", "except_last", "always")]
            self.assertTrue(uniform)
            for plan in uniform:
                self.assertLess(best["step"], 0.95 * plan["step"])
        # With more of it there is nothing to choose.
        self.assertEqual(self.search_blocks(90000)[0]["checkpoint"], "never")

    def test_a_policy_by_stage_is_written_and_runs(self):
        best = self.search_blocks(77000)[0]
        before = self.read("c.yaml").splitlines()
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--write", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertIn("      memory  compared\n", process.stdout)
        compared = [re.search(r"iB  (.*)$", row).group(1) for row in process.stdout.splitlines() if re.match(r"  +\d+  \w", row)]
        self.assertTrue(compared)
        for cell in compared:
            self.assertRegex(cell, r"^(-|([\d.]+% slower)?(, )?([\d.]+% more memory)?)$")
        self.assertIn("\n  compared: time with the first plan, memory (of the largest worker) with the plan that needs least\n", process.stdout)
        self.assertIn(f"\n          checkpoint {best['checkpoint']}\n", process.stdout)
        self.assertIn(f" --set 'pipeline.checkpoint={best['checkpoint']}' ", process.stdout)
        after = self.read("c.yaml").splitlines()
        self.assertEqual([line for line in before if line not in after], ["  checkpoint: except_last  # as torchgpipe"])
        self.assertIn(f"  checkpoint: {best['checkpoint']}  # as torchgpipe", after)
        # What it says is what was found, to the byte, and trains to the bits of any other policy.
        process = self.run_program("--plan", "c.yaml", program=TRAIN)
        self.assertIn("checkpoint [except_last, never, never], 1 output kept\n", process.stdout)
        for memory in best["memory"]:
            self.assertIn(f" {memory}", process.stdout)
        models = []
        for name, policy in (("a", best["checkpoint"]), ("b", "always")):
            process = self.run_program("-q", "-o", name, "--set", f"pipeline.checkpoint={policy}", "c.yaml",
                                       program=TRAIN)
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            with open(self.path(name + "/model.safetensors"), "rb") as file:
                models.append(file.read())
        self.assertEqual(*models)
        self.assertIn('keep: ["0.1"]', self.read("a/config.yaml").replace("\n", ""))

    def test_what_is_written_fits_an_evaluation_too(self):
        """Which may need more copies under way than training, under every schedule but gpipe."""
        text = CONFIG.replace("batch: 16}", "batch: 16, eval: {synthetic: {samples: 64, seed: 1}}}")
        self.write("c.yaml", text)
        plans = self.search()["plans"]
        memories = sorted({max(plan["memory"]) for plan in plans})
        for limit in memories[:: max(1, len(memories) // 6)]:
            self.write("c.yaml", text.replace("[cpu, cpu]", "[{cpu: {memory: %d, count: 2}}]" % limit))
            process = self.run_program("--search=micro_batches", "--profile", "p.json", "--write", "c.yaml")
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            process = self.run_program("--plan", "c.yaml", program=TRAIN)
            self.assertEqual((process.returncode, process.stderr), (0, ""), limit)
        self.write("c.yaml", CONFIG)
        without = {self.key_of(plan): plan["memory"] for plan in self.search()["plans"]}
        self.assertTrue(any(plan["memory"] > without[self.key_of(plan)] for plan in plans))

    @staticmethod
    def key_of(plan):
        return plan["micro_batches"], plan["schedule"], plan["checkpoint"]

    def test_a_gpus_libraries_leave_less_room(self):
        """256 MiB are theirs: a plan by stage is within what is left."""
        limit = 90000
        devices = ", ".join('{"cuda:%d": {memory: %d}}' % (gpu, (256 << 20) + limit) for gpu in range(3))
        self.search_blocks(limit)
        self.write("c.yaml", self.read("c.yaml").replace("{cpu: {memory: %d, count: 3}}" % limit, devices))
        with open(self.path("p.json")) as file:
            self.write("p.json", file.read().replace('"cpu"', '"cuda"'))
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--json", "c.yaml")
        if "without CUDA" in process.stderr:
            self.skipTest("built without CUDA")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        plans = json.loads(process.stdout)["plans"]
        self.assertTrue(any(plan["checkpoint"].startswith(("[", "{")) for plan in plans))
        for plan in plans:
            self.assertLessEqual(max(plan["memory"]), limit)

    def test_where_none_fits_a_sentence_says_why(self):
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--set",
                                   "pipeline.devices=[{cpu: {memory: 4KiB, count: 2}}]", "c.yaml")
        self.assertEqual((process.returncode, process.stdout), (2, ""))
        self.assertRegex(process.stderr, r"^gpipe-balance: none of \d+ plans fits; the first one, 3 micro-batches, schedule "
                         r"gpipe, checkpoint never: worker 0 needs .* but its memory is 4\.00 KiB")

    def test_write_changes_the_pipeline_and_nothing_else(self):
        os.chmod(self.path("c.yaml"), 0o600)
        os.symlink("c.yaml", self.path("link.yaml"))
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--write", "link.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        best = self.search("--set", "pipeline.lockstep=auto")["plans"][0]
        before, after = CONFIG.splitlines(), self.read("c.yaml").splitlines()
        kept = [line for line in after if line in before]
        self.assertEqual([line for line in before if line in kept], kept)
        self.assertEqual([line for line in before if line not in after],
                         ["  micro_batches: 3  # an odd number", "  lockstep: true"])
        self.assertIn(f"  micro_batches: {best['micro_batches']}  # an odd number", after)
        self.assertIn("  lockstep: auto", after)
        self.assertIn(f"  schedule: {best['schedule']}", after)
        self.assertIn(f"  balance: {best['balance']}", after)
        self.assertEqual(os.stat(self.path("c.yaml")).st_mode & 0o777, 0o600)
        self.assertTrue(os.path.islink(self.path("link.yaml")))
        process = self.run_program("-q", "-o", "run", "c.yaml", program=TRAIN)
        self.assertEqual((process.returncode, process.stderr), (0, ""))

    def test_what_it_looks_for_need_not_suit(self):
        """What was written for two devices, on one; and the schedule's file, which is not even read."""
        for more in ("", "\n  schedule: {file: no.txt}"):
            text = CONFIG.replace("  lockstep: true", "  balance: [3, 5]\n  checkpoint: [never, always]" + more)
            self.write("c.yaml", text)
            found = self.search("--set", "pipeline.devices=[cpu]", "--set", "data.batch=4")
            self.assertEqual(found["plans"][0]["balance"], [8])
            self.write("c.yaml", text.replace("[cpu, cpu]", "[cpu, cpu, cpu]"))
            process = self.run_program("--search=micro_batches", "--profile", "p.json", "--write", "c.yaml")
            self.assertEqual((process.returncode, process.stderr), (0, ""))
            self.assertIn("to write it  gpipe-balance --search=micro_batches --write --profile p.json --processors 64 c.yaml\n", process.stdout)
            self.assertEqual(self.run_program("--plan", "c.yaml", program=TRAIN).stderr, "")

    def test_the_report_names_age_and_slowdown(self):
        """Those of the profiles, if one says them. `load` is a key of earlier versions."""
        with open(self.path("p.json")) as file:
            profile = json.load(file)
        profile.update(taken="2001-02-03T04:05:06Z", load=1.5)
        profile["devices"][0]["slowdown"] = 1.4
        with open(self.path("loaded.json"), "w") as file:
            json.dump(profile, file)
        process = self.run_program("--search=micro_batches", "--profile", "loaded.json", "--set", "data.batch=2", "c.yaml")
        self.assertRegex(process.stdout.splitlines()[1],
                         r"\A             profiles: 0 measured now, the oldest taken \d+ days ago, slowdown up to 1\.40\Z")
        process = self.run_program("--search=micro_batches", "--profile", "loaded.json", "--json", "--set", "data.batch=2", "c.yaml")
        found = json.loads(process.stdout)
        self.assertEqual(found["slowdown"], 1.4)

    def test_the_report_compares_the_plans(self):
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "c.yaml")
        self.assertEqual(process.returncode, 0, process.stderr)
        lines = process.stdout.splitlines()
        self.assertEqual(lines[0], "search       108 plans for a batch of 16 on 2 devices: 108 fit")
        rows = [line for line in lines if "%" in line]
        self.assertGreater(len(rows), 3)
        self.assertTrue(all("% slower" in row or "% more memory" in row for row in rows[1:]))
        self.assertIn("--set 'pipeline.balance=[", process.stdout)
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--set", "train.steps=3", "c.yaml")
        self.assertIn("\nto write it  gpipe-balance --search=micro_batches --write --profile p.json --processors 64 --set train.steps=3 c.yaml\n",
                      process.stdout)
        self.assertIn("\nto train     gpipe-train --set train.steps=3 --set pipeline.micro_batches=", process.stdout)
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--set", "pipeline.checkpoint=always", "--set",
                                   "pipeline.micro_batches=2", "--set", "train.steps=3", "c.yaml")
        train = process.stdout[process.stdout.index("to train"):]
        self.assertTrue(train.startswith("to train     gpipe-train --set train.steps=3 --set pipeline.micro_batches="))
        self.assertEqual(train.count("pipeline.checkpoint="), 1)

    def test_more_threads_than_processors(self):
        """One processor does the work of two workers, and copies besides: one worker alone is recommended."""
        found = self.search("--processors", "1")
        self.assertEqual((found["processors"], found["threads"]), (1, 2))
        self.assertEqual(found["tried"], len(SIZES) * (6 * 3 + 2 * 3))
        self.assertEqual({plan["workers"] for plan in found["plans"]}, {1, 2})
        self.assertEqual((found["plans"][0]["workers"], found["plans"][0]["balance"]), (1, [len(TIMES)]))
        # A layer's 3 times its forward, for 4 samples; a batch of 16.
        work = sum(TIMES) * 3 * 4
        for plan in found["plans"]:
            self.assertGreater(plan["step"], 0.999 * work)
        alone = min(plan["step"] for plan in self.search("--processors", "2")["plans"])
        self.assertLess(alone, 0.7 * work)
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--processors", "1", "--write", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertIn("\nwarning      2 threads compute on 1 processor, so they take turns; the steps below include this\n"
                      "             use only the first device: with all of them a step is at most 10% faster\n", process.stdout)
        self.assertIn(" --set 'pipeline.devices=[{cpu: {threads: 1}}]' ", process.stdout)
        self.assertIn("devices: [{cpu: {threads: 1}}]", self.read("c.yaml"))
        process = self.run_program("--plan", "--processors", "1", "c.yaml", program=TRAIN)
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertNotIn("warning", process.stdout)

    def test_replicas(self):
        """All divisors of the number of devices, unless the configuration says how many there are."""
        self.write("c.yaml", CONFIG.replace("  replicas: 1\n", "").replace("[cpu, cpu]", "[cpu, cpu, cpu, cpu]"))
        found = self.search(free="--search=micro_batches,replicas")
        ways = {"[{cpu: {threads: 1}}, {cpu: {threads: 1}}, {cpu: {threads: 1}}, {cpu: {threads: 1}}]": 4,
                "[[{cpu: {threads: 1}}, {cpu: {threads: 1}}], [{cpu: {threads: 1}}, {cpu: {threads: 1}}]]": 2,
                "[[{cpu: {threads: 1}}, {cpu: {threads: 1}}, {cpu: {threads: 1}}, {cpu: {threads: 1}}]]": 1}
        self.assertEqual(found["tried"], len(SIZES) * (6 * 3 + 6 * 3 + 2 * 3))
        self.assertEqual({plan["devices"] for plan in found["plans"]}, set(ways))
        for plan in found["plans"]:
            twice = plan["schedule"] in ("zb_v", "{interleaved: {chunks: 2}}")
            self.assertEqual((len(plan["balance"]), plan["workers"]), ((1 + twice) * ways[plan["devices"]], 4))
        # No stage waits for another, and the profile's times are in proportion to samples.
        self.assertEqual(len(found["plans"][0]["balance"]), 1)
        for plan in found["plans"][::41]:
            process = self.run_program("--profile", "p.json", "--json", *self.settings_of(plan), "c.yaml")
            alone = json.loads(process.stdout)
            self.assertEqual((alone["balance"], alone["step"]), (plan["balance"], plan["step"]))
        for said in ("pipeline.replicas=1", "pipeline.replicas=2", "pipeline.devices=[[cpu, cpu], cpu]"):
            self.assertEqual(len({plan["devices"] for plan in self.search("--set", said)["plans"]}), 1)
        layers = [{"forward": time, "backward": 2 * time} for time in TIMES]
        self.write("p.json", json.dumps({"gpipe_profile": 2, "micro_batch": 4, "devices": [
            {"device": "cpu", "layers": layers}, {"device": "cpu", "threads": 2, "layers": layers}]}))
        unlike = self.search("--set", "pipeline.devices=[cpu, {cpu: {threads: 2}}]", "--set", "data.batch=2")["plans"]
        self.assertEqual({len(plan["balance"]) for plan in unlike}, {2, 4})

    def test_replicas_are_written(self):
        self.write("c.yaml", CONFIG.replace("  replicas: 1\n", ""))
        process = self.run_program("--search=micro_batches,replicas", "--profile", "p.json", "--write", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertIn("balance [8], 2 replicas of the stage; memory of the workers ", process.stdout)
        self.assertIn(" --set 'pipeline.devices=[[{cpu: {threads: 1}}, {cpu: {threads: 1}}]]' ", process.stdout)
        self.assertIn("devices: [[{cpu: {threads: 1}}, {cpu: {threads: 1}}]]", self.read("c.yaml"))
        process = self.run_program("--plan", "c.yaml", program=TRAIN)
        self.assertEqual((process.returncode, process.stderr), (0, ""))

    def test_replicas_of_stages_recompute_where_memory_is_short(self):
        """The modes and kept outputs of a stage fit each of its replicas."""
        blocks = BLOCKS.replace("[{cpu: {memory: MEMORY, count: 3}}]", "[%s]" % ", ".join(["[cpu, cpu]"] * 2))
        self.write("p.json", json.dumps({"gpipe_profile": 2, "micro_batch": 4, "devices": [
            {"device": "cpu", "layers": [{"forward": 5, "backward": 10}] * 3}]}))
        self.write("c.yaml", blocks)
        memory = [max(plan["memory"]) for plan in self.search(free="--search=micro_batches,replicas")["plans"]]
        limit = "{cpu: {memory: %d}}" % ((min(memory) + max(memory)) // 2)
        self.write("c.yaml", blocks.replace("cpu, cpu", f"{limit}, {limit}"))
        plans = self.search(free="--search=micro_batches,replicas")["plans"]
        self.assertTrue(any(plan["checkpoint"][0] in "[{" for plan in plans))
        for plan in plans:
            if plan["checkpoint"][0] in "[{":
                process = self.run_program("--plan", *self.settings_of(plan), "--set", f"pipeline.balance={plan['balance']}",
                                           "c.yaml", program=TRAIN)
                self.assertEqual((process.returncode, process.stderr), (0, ""))
                for memory in plan["memory"]:
                    self.assertIn(f" {memory}", process.stdout)

    def test_taking_turns_must_gain_a_tenth(self):
        """Four workers on two processors are 0.5 % faster than two; on three processors 12 % faster than three."""
        for processors, recommended in ((2, 2), (3, 4)):
            plans = self.search("--processors", str(processors), "--set", "pipeline.devices=[cpu, cpu, cpu, cpu]",
                                "--set", "data.batch=8")["plans"]
            best = {workers: min(plan["step"] for plan in plans if plan["workers"] == workers) for workers in (processors, 4)}
            self.assertLess(best[4], best[processors])
            self.assertEqual(best[4] < best[processors] / 1.1, recommended == 4)
            self.assertEqual((plans[0]["workers"], plans[0]["step"]), (recommended, best[recommended]))
            self.assertEqual([plan["step"] for plan in plans[1:]], sorted(plan["step"] for plan in plans[1:]))

    def test_all_devices_where_fewer_do_not_fit(self):
        memory = max(min(self.search()["plans"], key=lambda plan: max(plan["memory"]))["memory"])
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--processors", "1", "--set",
                                   f"pipeline.devices=[{{cpu: {{memory: {memory}, count: 2}}}}]", "c.yaml")
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertIn("\n             plans on only the first device do not fit, or are more than 10% slower\n", process.stdout)
        self.assertNotIn("on the first", process.stdout.replace("only the first", ""))
        self.write("p.json", self.read("p.json").replace('"device": "cpu"', '"device": "cpu", "threads": 4'))
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--processors", "1", "--set",
                                   "pipeline.devices=[{cpu: {threads: 4}}]", "c.yaml")
        self.assertIn("\nwarning      4 threads compute on 1 processor, so they take turns; the steps below include this\n"
                      "             give the device at most 1 thread\n", process.stdout)

    def test_what_does_not_go_together(self):
        process = self.run_program("--search", "-o", "x.json", "c.yaml")
        self.assertEqual((process.returncode, process.stderr.splitlines()[0]),
                         (2, "gpipe-balance: --search times several sizes of micro-batch, so -o cannot be used with it"))
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--write", "--set", "data.batch=8", "c.yaml")
        self.assertEqual(process.returncode, 2)
        self.assertIn("--write: the search was for data.batch 8 (--set), but c.yaml has 16; change the file first", process.stderr)
        process = self.run_program("--search=micro_batches", "--profile", "p.json", "--write", "--set",
                                   "pipeline.devices=[{cpu: {memory: 1GiB}}, cpu]", "c.yaml")
        self.assertEqual(process.returncode, 2)
        self.assertIn("but device 0 of c.yaml is a different one", process.stderr)
        self.assertEqual(self.read("c.yaml"), CONFIG)


if __name__ == "__main__":
    BALANCE, TRAIN = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
