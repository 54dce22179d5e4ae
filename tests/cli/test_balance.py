"""gpipe-balance from outside: what users type, and what they get.

    test_balance.py GPIPE_BALANCE GPIPE_TRAIN

No result depends on how long anything takes: balances come from profiles that are written here. Standard library only.
"""

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
# Eight layers.
model:
  input: {shape: [2, 4, 4]}
  layers:
    - conv: {out: 8, kernel: 3, pad: 1}
    - batch_norm
    - relu: {name: a}
    - conv: {out: 8, kernel: 3, pad: 1}
    - add: [a, -1]
    - dropout: 0.2
    - flatten
    - linear: {out: 3}
  loss: cross_entropy
data:
  train: {tensors: nowhere.safetensors}  # not read
  batch: 16
pipeline:  # on this machine
  devices: [cpu, cpu]  # one stage each

  micro_batches: 4
optimizer:
  sgd: {lr: 0.02, momentum: 0.9}
train: {epochs: 2, init: nowhere-either.safetensors}
"""
NAMES = ["0", "1", "a", "3", "4", "5", "6", "7"]


def profile_of(forward, names=None, **more):
    """Milliseconds of each layer's forward; backward takes twice that."""
    layers = [{"forward": time, "backward": 2 * time} for time in forward]
    for layer, name in zip(layers, names or []):
        layer["name"] = name
    return {"gpipe_profile": 2, "micro_batch": 4, "devices": [{"device": "cpu", "layers": layers}], **more}


class Balance(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gp-test-balance-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("c.yaml", CONFIG)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text if isinstance(text, str) else json.dumps(text, indent=1))

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def run_program(self, *arguments, program=None):
        environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache")}
        os.makedirs(self.path("cache"), exist_ok=True)
        process = subprocess.run([program or BALANCE, *arguments], cwd=self.folder, env=environment, timeout=PATIENCE,
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True)
        process.stderr = process.stderr.replace(self.folder + "/", "")
        return process

    def expect(self, arguments, status=0, err="", **options):
        process = self.run_program(*arguments, **options)
        self.assertEqual((process.stderr, process.returncode), (err, status), arguments)
        return process.stdout

    def arenas(self, before):
        """Bytes of the two workers' arenas where the cut stands behind so many layers; oneDNN's part differs by processor."""
        out = self.expect(["--plan", "--set", f"pipeline.balance=[{before}, {len(NAMES) - before}]", "--set",
                           "data.train={synthetic: {samples: 64, seed: 1}}", "--set", "train={epochs: 2}", "c.yaml"],
                          program=TRAIN)
        return [int(number) for number in re.search(r"\n +in bytes +(\d+) +(\d+) ", out).groups()]

    def small_memory(self):
        """Worker 0 has room for some layers, but not for the even cut."""
        few, half = self.arenas(1)[0], self.arenas(4)[0]
        self.assertLess(few + 4096, half)
        return "pipeline.devices=[{cpu: {memory: %d}}, cpu]" % ((few + half) // 2)

    def kept(self):
        folder = self.path("cache/gpipe/profiles")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def taking(self, kept):
        """How a profile that was just kept says how it was taken; GP_DISTURBED_SLOWDOWN and GP_DISTURBED_SPREAD."""
        devices = json.loads(self.read(kept))["devices"]
        slowdown = max(device["slowdown"] for device in devices)
        spread = max(device.get("spread", 0) for device in devices)
        if slowdown < 1.15 and spread >= 0.1:
            return "taken just now, spread %.0f%%: disturbed by other programs" % (100 * spread)
        return "taken just now, slowdown %.2f%s" % (slowdown, ": disturbed by other programs" if slowdown >= 1.15 else "")

    def test_wrong_command_lines(self):
        see = ": see gpipe-balance --help\n"
        seconds = "option --seconds takes a number above 0 and up to 86400, not "
        for arguments, sentence in {
            (): "no configuration is given; usage: gpipe-balance [options] config.yaml\n",
            ("c.yaml", "d.yaml"): "only one configuration may be given; d.yaml is the second\n",
            ("--profil", "p", "c.yaml"): "unknown option --profil: did you mean --profile?\n",
            ("--frobnicate", "c.yaml"): "unknown option --frobnicate" + see,
            ("-x", "c.yaml"): "unknown option -x" + see,
            ("c.yaml", "-qx"): "unknown option -x" + see,
            ("--set", "data.batch", "8", "c.yaml"): "option --set takes one word, key.path=value: write --set data.batch=8\n",
            ("--batch-size", "8", "c.yaml"): "unknown option --batch-size: write --set data.batch=8\n",
            ("--output", "x", "c.yaml"): "unknown option --output: -o FILE takes the profile; --write changes the "
                                         "configuration\n",
            ("--plan", "c.yaml"): "unknown option --plan: it is an option of gpipe-train\n",
            ("--config", "c.yaml"): "unknown option --config: the configuration is a word without an option: "
                                    "gpipe-balance net.yaml\n",
            ("--json=all", "c.yaml"): "option --json takes no value\n",
            ("c.yaml", "--seconds"): "option --seconds needs a value\n",
            **{("--seconds=" + bad, "c.yaml"): f'{seconds}"{bad}"\n' for bad in ("0", "-1", "x", "1s", "nan", "1e9")},
            ("c.yaml", "-o", ""): "option -o needs the name of a file\n",
            ("c.yaml", "--profile="): "option --profile needs the name of a file\n",
            ("--profile", "p", "--again", "c.yaml"): "--profile times nothing, so --again cannot be used with it\n",
            ("--profile", "p", "-oq", "c.yaml"): "--profile times nothing, so -o cannot be used with it\n",
            ("--profile", "p", "--seconds=3", "c.yaml"): "--profile times nothing, so --seconds cannot be used with it\n",
            ("none.yaml",): "none.yaml: cannot be opened: No such file or directory\n",
            ("--set", "a", "c.yaml"): "--set a: needs the form key.path=value\n",
        }.items():
            self.expect(arguments, 2, "gpipe-balance: " + sentence)
        self.assertRegex(self.expect(["--version"]), r"\Agpipe-balance \d+\.\d+\.\d+\n\Z")
        for word in ("usage: gpipe-balance [options] config.yaml\n", "--seconds S", "--profile FILE", "--write", "--json"):
            self.assertIn(word, self.expect(["--help"]))

    def test_profiles_that_cannot_be_used(self):
        whole = json.dumps(profile_of([1] * 8, NAMES))
        for name, text, sentence in (
            ("empty", "", 'empty:1:1: not a profile: "gpipe_profile" is missing'),
            ("cut", whole[:50], None),
            ("other", profile_of([1] * 7), "other: the profile has 7 layers, but the model has 8"),
            ("names", profile_of([1] * 8, NAMES[::-1]),
             'names: the profile is of another model: its layer 0 is "7", but the model\'s is "0"'),
            ("shapes", profile_of([1] * 8, NAMES, model="0123456789abcdef"),
             "shapes: the profile is of another model: its layers have the same names, but other options or shapes"),
            ("negative", whole.replace('"forward": 1', '"forward": -1', 1),
             "negative:1:93: devices.0.layers.0.forward: -1 is too small; it must be at least 0"),
            ("gpu", whole.replace('"cpu"', '"cuda:0"'), "gpu: the profile has no times for device cpu, only for cuda:0"),
            ("binary", "\x00\x01\x02", None),
        ):
            self.write(name, text)
            process = self.run_program("--profile", name, "c.yaml")
            self.assertEqual((process.returncode, process.stdout), (1, ""), name)
            if sentence:
                self.assertEqual(process.stderr, "gpipe-balance: " + sentence + "\n")
            else:
                self.assertRegex(process.stderr, r"\Agpipe-balance: %s:\d+:\d+: [^\n]+\n\Z" % name)
        self.expect(["--profile", "none", "c.yaml"], 1,
                    "gpipe-balance: none: cannot be opened: No such file or directory\n")
        self.expect(["--profile", "cache", "c.yaml"], 1, "gpipe-balance: cache: is a directory, not a file\n")

    def test_what_is_printed(self):
        """Of a profile written elsewhere: that it was, layers, stages, the step, what to type."""
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2], NAMES, machine="a phone", micro_batch=2))
        out = self.expect(["--profile", "p.json", "c.yaml"])
        self.assertRegex(out, r"\Aprofile      p\.json\n             taken on another machine \(a phone\), with "
                         r"micro-batches of 2\n\nlayers on cpu, a micro-batch of 2; memory of one of 4\n")
        self.assertRegex(out, r"\n  conv 0 +8 ms +16 ms  █{12} ")
        self.assertRegex(out, r"\n  relu a +1 ms +2 ms  █▌ {11}")
        self.assertRegex(out, r"\n      0  cpu +1  0 … 0 +48 ms  █+▉ +\d+%\n      1  cpu +7  1 … 7 +58.5 ms  █{12} +\d+%\n")
        self.assertRegex(out, r"the even cut \[4, 4\]: \d+ ms, 1\.\d\d times as long\n")
        self.assertRegex(out, r"\nbalance      \[1, 7\]\n.*balance: \[1, 7\]\n"
                         r"to write it  gpipe-balance --write --profile p\.json c\.yaml\n"
                         r"to train     gpipe-train --set 'pipeline\.balance=\[1, 7\]' c\.yaml\n\Z")
        self.assertNotIn("configured", out)
        out = self.expect(["--profile", "p.json", "--set", "pipeline.balance=[7, 1]", "c.yaml"])
        self.assertRegex(out, r"the configured \[7, 1\]: \d+ ms, 1\.\d\d times as long\n")
        self.assertIn("\nto train     gpipe-train --set 'pipeline.balance=[1, 7]' c.yaml\n", out)
        self.assertEqual(self.kept(), [])

    def paste(self, out, label):
        """What a shell makes of a line of the report."""
        command = re.search("^%s +(.*)$" % label, out, re.M).group(1)
        for name, program in (("gpipe-balance ", BALANCE), ("gpipe-train ", TRAIN)):
            if command.startswith(name):
                command = "'%s' %s" % (program, command[len(name):])
        process = subprocess.run(["sh", "-c", command], cwd=self.folder, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "XDG_CACHE_HOME": self.path("cache")}, capture_output=True, text=True)
        self.assertEqual((process.stderr, process.returncode), ("", 0), command)
        return process.stdout

    def test_what_is_printed_can_be_pasted(self):
        """Names that a shell would take apart, and what --set and -o said."""
        name = "it's a $HOME; file.yaml"
        text = CONFIG.replace("tensors: nowhere.safetensors", "synthetic: {samples: 64, seed: 1}").replace(
            ", init: nowhere-either.safetensors", "")
        for config in (name, "-c.yaml"):
            self.write(config, text)
            self.write("my profile.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2]))
            out = self.expect(["--profile", "my profile.json", "--set", "train={steps: 3}", "--", config])
            self.paste(out, "to write it")
            self.assertEqual(self.read(config), text.replace("  devices:", "  balance: [1, 7]\n  devices:"))
            self.write(config, text)
            self.paste(out, "to train")
            run = re.search(r"gpipe-train (--set .*)", out).group(1)
            self.assertEqual(run, "--set 'train={steps: 3}' --set 'pipeline.balance=[1, 7]' " +
                             {name: "'it'\\''s a $HOME; file.yaml'", "-c.yaml": "-- -c.yaml"}[config])
        out = self.expect(["--seconds", "0.2", "-o", "new one.json", name])
        self.assertIn(" --write --profile 'new one.json' ", out)

    def test_a_balance_that_does_not_suit_is_left_aside(self):
        """By those who look for one; by a run it is refused, with what helps."""
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2]))
        other = CONFIG.replace("  devices:", "  balance: [1, 3, 4]  # of three\n  devices:")
        self.write("c.yaml", other)
        refused = ("gpipe-train: c.yaml:18:12: pipeline.balance: has 3 entries, but there are 2 devices; each needs one, "
                   "which pipeline.balance=auto finds; pipeline.devices lists the devices\n")
        self.expect(["--plan", "c.yaml"], 2, refused, program=TRAIN)
        out = self.expect(["--profile", "p.json", "c.yaml"])
        self.assertIn("\n             the configured [1, 3, 4] is not a cut of 8 layers into 2 stages\n", out)
        self.assertEqual(self.paste(out, "to write it").splitlines()[-1], "c.yaml: the balance was written")
        self.assertEqual(self.read("c.yaml"), other.replace("[1, 3, 4]", "[1, 7]"))
        for devices, found in (("[cpu]", "[8]"), ("[cpu, cpu, cpu]", "[1, ")):
            out = self.expect(["--profile", "p.json", "--set", "pipeline.devices=" + devices, "c.yaml"])
            self.assertIn("\nbalance      " + found, out)
        self.write("c.yaml", CONFIG.replace("  devices:", "  balance: [4, 5]\n  devices:"))
        self.assertIn("the configured [4, 5] is not a cut of 8 layers", self.expect(["--profile", "p.json", "c.yaml"]))
        self.write("c.yaml", CONFIG.replace("[cpu, cpu]", "[{cpu: {count: 9}}]\n  balance: [1, 1, 1, 1, 1, 1, 1, 1, 1]"))
        self.expect(["--profile", "p.json", "c.yaml"], 2,
                    "gpipe-balance: c.yaml:18:14: pipeline.devices: 9 stages are more than the model's 8 layers\n")
        self.write("s.txt", "F0 F1 B0 B1\nF0 B0 F1 B1\n")
        of_file = ["--set", "pipeline.schedule={file: s.txt}", "--set", "pipeline.micro_batches=2"]
        self.write("c.yaml", other)
        self.assertIn("the configured [1, 3, 4] is not a cut of", self.expect(["--profile", "p.json", *of_file, "c.yaml"]))
        self.write("names.yaml", CONFIG.replace("  devices:", "  balance: [a]\n  devices:"))
        self.assertIn("\nbalance      [2, 6]\n", self.expect(["--profile", "p.json", "names.yaml"]))

    def test_no_command_is_printed_that_would_be_refused(self):
        """--write, where --set says what the file does not."""
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2]))
        out = self.expect(["--profile", "p.json", "--set", "pipeline.devices=[cpu, cpu, cpu]", "c.yaml"])
        self.assertNotIn("to write it", out)
        self.assertIn("\nto train     gpipe-train --set 'pipeline.devices=[cpu, cpu, cpu]' --set 'pipeline.balance=[1, ", out)

    def test_json(self):
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2], machine="a phone"))
        report = json.loads(self.expect(["--profile", "p.json", "--json", "c.yaml"]))
        self.assertEqual(report["balance"], [1, 7])
        self.assertEqual([stage["micro_batch"] for stage in report["stages"]], [24, 29.25])
        self.assertEqual([layer["name"] for layer in report["layers"]], NAMES)
        self.assertEqual(report["layers"][0]["times"]["cpu"],
                         {"forward": 8, "backward_input": 8, "backward_weight": 8, "recompute": 8, "update": 0})
        self.assertEqual((report["profile"], report["measured"]), ("p.json", False))
        self.assertEqual(report["taken"], "on another machine (a phone)")
        self.assertGreater(report["even"]["step"], report["step"])
        self.assertTrue(0 < report["bubble"] < 1)

    def test_stages_with_replicas(self):
        """Each replica has half of a micro-batch's samples, and so takes half of its time."""
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2]))
        options = ["--profile", "p.json", "--set", "data.drop_last=true", "--set", "pipeline.micro_batches=2"]
        alone = json.loads(self.expect(["--json", *options, "c.yaml"]))["stages"]
        stages = json.loads(self.expect(["--json", *options, "--set", "pipeline.replicas=2", "c.yaml"]))["stages"]
        self.assertEqual([stage["worker"] for stage in stages], [0, 2])
        self.assertEqual([stage["layers"] for stage in stages], [stage["layers"] for stage in alone])
        self.assertEqual([2 * stage["micro_batch"] for stage in stages], [stage["micro_batch"] for stage in alone])
        err = self.run_program("--write", "--profile", "p.json", "--set", "pipeline.devices=[[cpu, cpu]]", "--set",
                               "data.drop_last=true", "c.yaml").stderr
        self.assertIn("--write: the balance is for the replicas of --set, but c.yaml has others; change the file first", err)

    def test_stages_with_different_numbers_of_replicas(self):
        """Profiled layers cost what their stage's share does: a stage with more replicas gets more of them."""
        self.write("p.json", profile_of([8, 8, 8, 8, 2, 2, 2, 2]))
        options = ["--profile", "p.json", "--set", "data.drop_last=true", "--set", "pipeline.micro_batches=2", "--json"]
        found = []
        for devices in ("[cpu, cpu]", "[[cpu, cpu, cpu, cpu], cpu]", "[cpu, [cpu, cpu, cpu, cpu]]"):
            report = json.loads(self.expect([*options, "--set", f"pipeline.devices={devices}", "c.yaml"]))
            found.append(report["balance"])
        self.assertEqual(found, [[3, 5], [4, 4], [1, 7]])

    def test_the_smallest_replica_limits_the_stage(self):
        """The second stage's layers must fit on each of its replicas, in any order."""
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2]))
        options = ["--profile", "p.json", "--set", "data.drop_last=true", "--set", "pipeline.micro_batches=2", "--json"]
        found, most = set(), max(self.arenas(1)) // 1024
        for kib in range(most // 8, most + 20, most // 14):
            few, many = "{cpu: {memory: %dKiB}}" % kib, "{cpu: {memory: 4GiB}}"
            ways = []
            for replicas in (f"{few}, {few}", f"{many}, {few}", f"{few}, {many}"):
                process = self.run_program(*options, "--set", f"pipeline.devices=[[cpu, cpu], [{replicas}]]", "c.yaml")
                ways.append(str(json.loads(process.stdout)["balance"]) if process.returncode == 0 else "does not fit")
            self.assertEqual(len(set(ways)), 1, (kib, ways))
            found.add(ways[0])
        self.assertGreater(len(found), 1)

    def test_shards_of_the_optimizer_leave_room_for_layers(self):
        """Eight replicas that share out the optimizer get as many layers as fit: each has an eighth of its state."""
        layers = ", ".join(["{linear: 256}, relu"] * 7 + ["{linear: 10}"])
        self.write("s.yaml", f"model: {{input: {{shape: [64]}}, layers: [{layers}], loss: cross_entropy}}\n"
                             "data: {train: {synthetic: {samples: 64, seed: 1}}, batch: 8}\n"
                             "optimizer: {adam: {lr: 0.01}}\ntrain: {steps: 1}\n")
        for most in (4, 6):
            plan = ["--plan", "--json", "--set", "pipeline.shard_optimizer=true", "s.yaml"]
            devices = "pipeline.devices=[[%s], cpu]"
            fixed = json.loads(self.expect(["--set", devices % ", ".join(["cpu"] * 8), "--set",
                                            f"pipeline.balance=[{most}, {15 - most}]", *plan], program=TRAIN))
            limit = "{cpu: {memory: %d}}" % max(worker["arena_bytes"] for worker in fixed["workers"][:8])
            found = json.loads(self.expect(["--set", devices % ", ".join([limit] * 8), "--set", "pipeline.balance=auto", *plan],
                                           program=TRAIN))
            self.assertGreaterEqual(found["stages"][0]["layers"], most)

    def test_limits_of_replicas_name_both(self):
        """Workers count replicas, the list of devices does not."""
        self.write("p.json", profile_of([1] * 8))
        few, many = "{cpu: {memory: 4KiB}}", "{cpu: {memory: 4GiB}}"
        for devices, name in ((f"[cpu, {few}]", "worker 1"), (f"[[cpu, cpu], {few}]", "worker 2 (device 1)"),
                              (f"[[cpu, cpu], [{many}, {few}]]", "worker 3 (replica 1 of device 1)")):
            process = self.run_program("--profile", "p.json", "--set", "data.drop_last=true", "--set", "pipeline.micro_batches=2",
                                       "--set", f"pipeline.devices={devices}", "c.yaml")
            self.assertIn(f"{name} has 4.00 KiB", process.stdout + process.stderr)

    def test_a_cut_that_does_not_fit_says_so(self):
        """A small device gets few layers; the even cut would be faster, if there were room for it."""
        self.write("p.json", profile_of([1] * 8, NAMES))
        options = ["--profile", "p.json", "--processors", "2", "--set", self.small_memory()]
        report = json.loads(self.expect([*options, "--json", "c.yaml"]))
        self.assertEqual((report["fits"], report["even"]["fits"]), (True, False))
        self.assertLess(report["even"]["step"], report["step"])
        out = self.expect([*options, "c.yaml"])
        self.assertRegex(out, r"the even cut \[4, 4\]: \d+ ms, 0\.\d\d times as long\n"
                         r" +it does not fit: worker 0 needs [^\n]+, but its memory is [\d.]+ KiB")

    def test_a_remedy_may_be_to_keep_less(self):
        """What checkpoint: always as a name would do, without the outputs that are kept."""
        options = ["--plan", "--set", "pipeline.balance=[8]", "--set", "pipeline.devices=[cpu]", "--set", "data.train={synthetic: {samples: 64, seed: 1}}",
                   "--set", "train={epochs: 2}", "c.yaml"]
        keep = ["--set", "pipeline.checkpoint={mode: always, keep: ['0', '1', a]}"]
        bare = self.expect([*options, "--set", "pipeline.checkpoint=always"], program=TRAIN)
        full = self.expect([*options, *keep], program=TRAIN)
        need, more = (int(re.search(r"in bytes +(\d+)", out).group(1)) for out in (bare, full))
        self.assertLess(need, more)
        limit = ["--set", "pipeline.devices=[{cpu: {memory: %d}}]" % need]
        refused = self.run_program(*options, *keep, *limit, program=TRAIN)
        self.assertEqual(refused.returncode, 2)
        self.assertTrue(refused.stderr.endswith("; it fits with checkpoint: always\n"), refused.stderr)

    def test_more_threads_than_processors(self):
        """One processor takes the sum of all work, and the report says so; so do the commands that it prints."""
        self.write("p.json", profile_of([1] * 8, NAMES))
        one, two, more = (json.loads(self.expect(["--profile", "p.json", "--processors", number, "--json", "c.yaml"]))
                          for number in ("1", "2", "5"))
        self.assertEqual([(report["processors"], report["threads"]) for report in (one, two, more)], [(1, 2), (2, 2), (5, 2)])
        self.assertEqual(two["step"], more["step"])
        self.assertGreater(one["step"], 1.2 * two["step"])
        warning = ("\nwarning      2 threads compute on 1 processor, so they take turns; the prediction includes this\n"
                   "             list fewer devices in pipeline.devices, or give them fewer threads: at most 1 in all\n")
        for number, count in (("1", 1), ("2", 0)):
            out = self.expect(["--profile", "p.json", "--processors", number, "c.yaml"])
            self.assertEqual((out.count(warning), out.count("threads compute on")), (count, count))
            self.assertIn(f" --write --profile p.json --processors {number} c.yaml\n", out)

    def test_cuts_within_the_spread_are_equal(self):
        """Their times have no more digits than the spread allows; a disturbed profile says so."""
        for forward, spread, said in (([1] * 8, 0.02, r"the configured \[4, 4\]: [\d.]+ m?s, equal: times are known to ±3%\n"),
                                      ([3, 1, 1, 1, 1, 1, 1, 1], 0.02, r"the configured \[4, 4\]: [\d.]+ m?s, 1\.\d\d times as long\n"),
                                      ([3, 1, 1, 1, 1, 1, 1, 1], 0, r"the configured \[4, 4\]: [\d.]+ m?s, 1\.\d\d times as long\n")):
            profile = profile_of(forward, NAMES, **({"taken": "2026-11-25T01:00:00Z"} if spread else {}))
            if spread:
                profile["devices"][0]["spread"] = spread
            self.write("p.json", profile)
            out = self.expect(["--profile", "p.json", "--processors", "2", "--set", "pipeline.balance=[4, 4]", "c.yaml"])
            self.assertRegex(out, said)
            self.assertNotIn("disturbed", out)
        profile["devices"][0].update(slowdown=2.26)
        self.write("p.json", profile)
        out = self.expect(["--profile", "p.json", "--processors", "2", "c.yaml"])
        self.assertIn("\nwarning      other programs disturbed the timing of layers (slowdown 2.26), ", out)

    def test_slow_devices_and_slowdown(self):
        """Busy is in proportion to the slowdown, and so is what a step takes."""
        self.write("p.json", profile_of([1] * 8, copies=[{"from": "cpu", "to": "cpu", "per_mib": 0},
                                                        {"from": "host", "to": "cpu", "per_mib": 0}]))
        one = json.loads(self.expect(["--profile", "p.json", "--json", "c.yaml"]))
        slow = profile_of([1] * 8, copies=[{"from": "cpu", "to": "cpu", "per_mib": 0},
                                           {"from": "host", "to": "cpu", "per_mib": 0}])
        slow["devices"][0]["slowdown"] = 2.5
        self.write("p.json", slow)
        two = json.loads(self.expect(["--profile", "p.json", "--json", "c.yaml"]))
        self.assertAlmostEqual(two["step"] / one["step"], 2.5)
        self.assertEqual((one["slowdown"], two["slowdown"]), ({"cpu": 1}, {"cpu": 2.5}))
        sentence = "             on cpu whole rounds took 2.50 times as long as the sum of the times below (slowdown)\n"
        self.assertIn(sentence, self.expect(["--profile", "p.json", "c.yaml"]))
        slow["devices"][0]["slowdown"] = 1.004
        self.write("p.json", slow)
        self.assertNotIn("slowdown", self.expect(["--profile", "p.json", "c.yaml"]))

    def unequal(self, forward, devices):
        """A configuration with these devices, and a profile where two threads are twice as fast."""
        self.write("u.yaml", CONFIG.replace("[cpu, cpu]", devices))
        profile = profile_of(forward, NAMES)
        layers = [{name: value / 2 if name != "name" else value for name, value in layer.items()}
                  for layer in profile["devices"][0]["layers"]]
        profile["devices"].append({"device": "cpu", "threads": 2, "layers": layers})
        self.write("p.json", profile)

    def test_the_order_of_devices(self):
        """The layer that cannot be cut goes to the fast device, wherever that stands in the configuration."""
        slow_first = "[cpu, {cpu: {threads: 2}}]"
        placed = "[{cpu: {threads: 2}}, {cpu: {threads: 1}}]"
        self.unequal([12, 1, 1, 1, 1, 1, 1, 1], slow_first)
        options = ["--profile", "p.json", "--orders"]
        out = self.expect([*options, "u.yaml"])
        self.assertIn("\norder        %s\n             the best of 2 orders: in the configured order, the bottleneck stage takes "
                      "1.85 times as long\n" % placed, out)
        self.assertRegex(out, r"\n      0  cpu, 2 threads [^\n]+\n      1  cpu ")
        self.assertIn("\nto write it  gpipe-balance --orders --write --profile p.json u.yaml\n"
                      "to train     gpipe-train --set 'pipeline.devices=%s' --set 'pipeline.balance=[2, 6]' u.yaml\n" % placed,
                      out)
        as_is = json.loads(self.expect(["--profile", "p.json", "--processors", "3", "--json", "u.yaml"]))
        self.assertNotIn("order", as_is)
        found = json.loads(self.expect([*options, "--processors", "3", "--json", "u.yaml"]))
        self.assertEqual((found["order"], found["balance"]), ([1, 0], [2, 6]))
        self.assertLess(found["step"], as_is["step"])
        self.expect([*options, "--write", "u.yaml"])
        self.assertEqual(self.read("u.yaml"), CONFIG.replace("  devices: [cpu, cpu]",
                                                             "  balance: [2, 6]\n  devices: " + placed))
        self.assertIn("\norder        as configured: the best of 2 orders\n", self.expect([*options, "u.yaml"]))

    def test_the_order_of_memories(self):
        """No cut fits as the devices stand; in another order one does, and that is what is found."""
        self.unequal([1] * 8, "[{cpu: {memory: 1GiB}}, {cpu: {memory: 4MiB}}]")
        self.write("u.yaml", self.read("u.yaml").replace("linear: {out: 3}", "linear: {out: 4000}"))  # 2 MB, three times
        refused = self.run_program("--profile", "p.json", "u.yaml")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn("the plan does not fit: worker 1 needs", refused.stderr)
        out = self.expect(["--profile", "p.json", "--orders", "u.yaml"])
        self.assertIn("in the configured order, no cut fits\n", out)

    def test_orders_that_are_refused(self):
        """Twelve that differ have 12! orders; and a search looks for something else."""
        devices = ", ".join("{cpu: {memory: %dMiB}}" % (100 + d) for d in range(12))
        self.write("u.yaml", CONFIG.replace("[cpu, cpu]", "[%s]" % devices).replace(
            "    - flatten", "    - relu\n" * 6 + "    - flatten"))
        self.write("p.json", profile_of([1] * 14))
        self.expect(["--profile", "p.json", "--orders", "u.yaml"], 2, "gpipe-balance: balance: 12 devices of 12 kinds have "
                    "more orders than the 10000 that --orders can try\n")
        self.expect(["-o", "u.yaml", "u.yaml"], 2, "gpipe-balance: -o u.yaml: would write over the configuration: choose "
                    "another name\n")
        self.expect(["--profile", "p.json", "--orders", "--set", "pipeline.devices=[cpu, cpu]", "--set",
                     "pipeline.checkpoint=[never, always]", "u.yaml"], 2,
                    "gpipe-balance: --orders: the stages have different checkpoint modes, for the configured order of the "
                    "devices; give one mode for all stages (pipeline.checkpoint)\n")
        self.expect(["--search", "--orders", "u.yaml"], 2, "gpipe-balance: --search keeps the order of the devices, so "
                    "--orders cannot be used with it\n")

    def test_write_changes_nothing_else(self):
        self.write("p.json", profile_of([8, 1, 1, 1, 1, 1, 1, 2]))
        out = self.expect(["--profile", "p.json", "--write", "c.yaml"])
        self.assertTrue(out.endswith("\nc.yaml: the balance was written\n"))
        self.assertEqual(self.read("c.yaml"), CONFIG.replace("  devices:", "  balance: [1, 7]\n  devices:"))
        self.write("p.json", profile_of([1, 1, 1, 1, 1, 1, 1, 7]))
        json.loads(self.expect(["--profile", "p.json", "--write", "--json", "c.yaml"]))
        self.assertEqual(self.read("c.yaml"), CONFIG.replace("  devices:", "  balance: [7, 1]\n  devices:"))
        self.expect(["--profile", "p.json", "--write", "--set", "pipeline={devices: [cpu, cpu, cpu], micro_batches: 4}",
                     "c.yaml"], 2,
                    "gpipe-balance: --write: the balance is for the 3 devices of --set, but c.yaml has 2; change the file first\n")
        self.expect(["--profile", "p.json", "--write", "--set", "model.layers=[flatten, linear: 8, relu, linear: 8, relu, "
                     "linear: 8, relu, linear: 3]", "c.yaml"], 2,
                    "gpipe-balance: --write: the balance is for the model of --set, but c.yaml has a different one; change the file first\n")
        self.expect(["--profile", "p.json", "--write", "--set", "model.layers.3.conv.bias=false", "c.yaml"], 2,
                    "gpipe-balance: --write: the balance is for the model of --set, but c.yaml has a different one; change the file first\n")
        self.write("alias.yaml", CONFIG.replace("pipeline:", "spare: &p").replace("optimizer:", "pipeline: *p\noptimizer:"))
        self.assertEqual(self.run_program("--profile", "p.json", "--write", "alias.yaml").returncode, 2)

    def test_write_refuses_what_it_may_not_replace(self):
        """Before anything is measured."""
        os.chmod(self.path("c.yaml"), 0o444)
        for options in ([], ["--search"]):
            self.expect([*options, "--write", "c.yaml"], 1,
                        "gpipe-balance: c.yaml: is read-only, and is not changed: make it writable, or change it by hand\n")
        os.chmod(self.path("c.yaml"), 0o644)
        os.link(self.path("c.yaml"), self.path("second.yaml"))
        self.expect(["--write", "c.yaml"], 1, "gpipe-balance: c.yaml: has 2 hard links, which replacing the file would "
                    "split: change it by hand, or change a copy\n")
        self.assertEqual(self.read("second.yaml"), CONFIG)

    def test_measured_once(self):
        """Kept by what it is of, found again by all, measured anew when asked to; nothing else is written."""
        out = self.expect(["--seconds", "0.3", "c.yaml"])
        together = len(os.sched_getaffinity(0)) > 1
        self.assertRegex(out, r"\Aprofile      measured in [\d.]+ m?s, [\d,]+ rounds?, within ±\d+\.\d%%%s\n             kept in \S+\.json\n" %
                         (", 2 devices of the host at work" if together else ""))
        self.assertEqual(len(self.kept()), 1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.yaml", "cache"])
        kept = "cache/gpipe/profiles/" + self.kept()[0]
        before = self.read(kept)
        again = self.expect(["c.yaml"])
        self.assertRegex(again, r"\Aprofile      \S+/%s\n             %s\n"
                         r"( +on cpu whole rounds took [\d.]+ times [^\n]+\n)?\nlayers" % (kept, re.escape(self.taking(kept))))
        self.assertEqual(out[out.index("\nlayers"):], again[again.index("\nlayers"):])
        self.assertEqual(self.read(kept), before)
        self.assertEqual(json.loads(before)["together"], 2 if together else 1)
        names = [layer["name"] for layer in json.loads(before)["devices"][0]["layers"]]
        self.assertEqual(names, NAMES)
        self.expect(["--seconds", "0.3", "--set", "data.batch=32", "c.yaml"])
        self.assertEqual(len(self.kept()), 2)
        self.expect(["--seconds", "0.3", "--set", "pipeline.devices=[cpu, {cpu: 2}]", "c.yaml"])
        self.assertEqual(len(self.kept()), 3)
        self.expect(["--seconds", "0.3", "--set", "pipeline.devices=[cpu]", "c.yaml"])
        self.assertEqual(len(self.kept()), 4 if together else 3)
        self.expect(["--seconds", "0.3", "-o", "mine.json", "c.yaml"])
        self.assertEqual(len(self.kept()), 4 if together else 3)
        self.assertEqual(self.read(kept), before)
        self.expect(["--profile", "mine.json", "c.yaml"])
        for damage in ("", "{", before.replace('"micro_batch": 4', '"micro_batch": 5'), before[:-20]):
            self.write(kept, damage)
            self.assertRegex(self.expect(["--seconds", "0.3", "c.yaml"]), r"\Aprofile      measured in ")
            self.expect(["c.yaml"])

    def test_what_is_kept_goes_by_times_and_not_by_names_or_memory(self):
        """Other names of layers, a device with too little memory for the largest layer: the profile that was measured fits."""
        self.write("d.yaml", CONFIG.replace("relu: {name: a}", "relu: {name: b}").replace("[a, -1]", "[b, -1]"))
        self.assertIn("measured in", self.expect(["--seconds", "0.2", "c.yaml"]))
        for arguments in (["d.yaml"], ["c.yaml"],
                          ["--set", self.small_memory(), "c.yaml"]):
            self.assertNotIn("measured in", self.expect(["--seconds", "0.2", *arguments]))
        self.assertEqual(len(self.kept()), 1)
        self.write("e.yaml", CONFIG.replace("    - flatten\n", "    - flatten\n    - linear: 4000\n"))
        small = "pipeline.devices=[cpu, {cpu: {memory: 2MiB}}]"
        out = self.expect(["--seconds", "0.2", "--set", small, "e.yaml"])
        self.assertIn("measured in", out)
        self.assertRegex(out, r"\n      1  cpu +[12]  ")

    def test_a_cache_that_cannot_be_written(self):
        self.write("cache", "no folder")
        environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache")}
        process = subprocess.run([BALANCE, "--seconds", "0.3", "c.yaml"], cwd=self.folder, env=environment,
                                 timeout=PATIENCE, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((process.returncode, process.stderr), (0, ""))
        self.assertNotIn("kept in", process.stdout)
        os.remove(self.path("cache"))
        process = self.run_program("--seconds", "0.3", "-o", "none/p.json", "c.yaml")
        self.assertEqual((process.returncode, process.stdout), (1, ""))
        self.assertRegex(process.stderr, r"\Agpipe-balance: none/p\.json\S*: cannot be created: No such file or directory\n\Z")

    def test_gpipe_train_uses_what_was_kept(self):
        """--plan looks and measures nothing; a short run counts, at rates that it measures briefly; a long one measures by itself."""
        self.write("t.yaml", re.sub(r"tensors: nowhere.safetensors", "synthetic: {samples: 64, seed: 1}", CONFIG)
                   .replace(", init: nowhere-either.safetensors", ""))
        counted = self.expect(["--plan", "t.yaml"], program=TRAIN)
        self.assertIn("\n             counted, with assumed rates; no profile fits; gpipe-balance measures one\n", counted)
        self.expect(["-q", "-o", "run", "t.yaml"], program=TRAIN)
        self.assertEqual(self.kept(), [])
        brief = self.expect(["--plan", "t.yaml"], program=TRAIN)
        self.assertRegex(brief, r"\n             counted, with this machine's briefly measured rates of 20\d\d-\d\d-\d\d; "
                                r"no profile fits; gpipe-balance measures one\n")
        self.assertEqual(re.findall(r"\n +\d  cpu .*", brief.split("copies")[0])[0].split()[2:6],
                         re.findall(r"\n +\d  cpu .*", counted.split("copies")[0])[0].split()[2:6])  # the same cut
        self.expect(["--seconds", "0.3", "t.yaml"])
        kept = "cache/gpipe/profiles/" + self.kept()[0]
        self.assertRegex(self.expect(["--plan", "t.yaml"], program=TRAIN), r"\n             from the profile %s\n"
                         r"             %s\n(warning      batch norm sees [^\n]+\n {13}[^\n]+\n)?\Z" %
                         (re.escape(self.path(kept)), re.escape(self.taking(kept))))
        profile = json.loads(self.read(kept))
        profile["devices"][0].update(slowdown=1, spread=0)
        for layer, time in zip(profile["devices"][0]["layers"], [8, 1, 1, 1, 1, 1, 1, 2]):
            layer.update(forward=time, backward_input=time, backward_weight=time, recompute=time, update=0)
        self.write(kept, profile)
        self.expect(["-q", "-o", "cut", "t.yaml"], program=TRAIN)
        self.assertIn("balance: [1, 7]", re.sub(r"\n *- ", " ", self.read("cut/config.yaml")))
        with open(self.path("run/model.safetensors"), "rb") as one, open(self.path("cut/model.safetensors"), "rb") as two:
            self.assertEqual(one.read(), two.read())
        os.remove(self.path(kept))
        long = subprocess.Popen([TRAIN, "-o", "long", "--set", "train.epochs=100000000", "t.yaml"], cwd=self.folder,
                                env={**os.environ, "XDG_CACHE_HOME": self.path("cache")}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)
        self.assertEqual(long.stdout.readline(), "timing 8 layers on cpu, micro-batches of 4 samples: at most 10 s\n")
        line = long.stdout.readline()
        while line.startswith("timing 8 layers on cpu, micro-batches of 4 samples: round "):
            line = long.stdout.readline()
        self.assertRegex(line, r"\A8 layers, ")
        self.assertRegex(long.stdout.readline(), r"\Apredicted times: from the profile \S+; taken just now, (slowdown|spread) \d")
        long.kill()
        long.stdout.close()
        long.wait()
        self.assertEqual(len(self.kept()), 1)

    def test_the_report_predicts_from_the_profile_that_was_kept(self):
        """With a balance that is written down, and with -v too."""
        self.write("t.yaml", CONFIG.replace("{tensors: nowhere.safetensors}", "{synthetic: {samples: 64, seed: 1}}").replace(
            ", init: nowhere-either.safetensors", "").replace("  devices:", "  balance: [3, 5]\n  devices:"))
        self.assertIn("; predicted from counted costs\n", self.expect(["-o", "run", "t.yaml"], program=TRAIN))
        out = self.expect(["-o", "run", "--set", "pipeline.balance=auto", "--set", "train.epochs=100000000", "t.yaml"], 2,
                          "gpipe-train: run already holds a run (metrics.jsonl): choose another folder with -o, continue that run "
                          "with --resume, or replace it with --force\n", program=TRAIN)
        self.assertEqual(out, "")  # no layer was timed for nothing
        self.expect(["--seconds", "0.2", "t.yaml"])
        for more in ([], ["-v"]):
            out = self.expect(["--force", "-o", "run", *more, "t.yaml"], program=TRAIN)
            self.assertIn("; predicted from a profile\n", out)


    def test_rates_of_this_machine(self):
        """gpipe-balance leaves them, --plan reads them, and says so; a damaged file is ignored."""
        self.write("t.yaml", re.sub(r"tensors: nowhere.safetensors", "synthetic: {samples: 64, seed: 1}", CONFIG)
                   .replace(", init: nowhere-either.safetensors", ""))
        plan = ["--plan", "--set", "model.layers.7.linear.out=5", "t.yaml"]
        assumed = "\n             counted, with assumed rates; no profile fits; gpipe-balance measures one\n"
        self.assertIn(assumed, self.expect(plan, program=TRAIN))
        self.assertFalse(os.path.exists(self.path("cache/gpipe")))  # planning leaves nothing
        self.expect(["--seconds", "0.2", "t.yaml"])
        folder = self.path("cache/gpipe/rates")
        [name] = os.listdir(folder)
        path = os.path.join(folder, name)
        self.assertRegex(self.expect(plan, program=TRAIN),
                         r"\n             counted, with this machine's measured rates of 20\d\d-\d\d-\d\d; no profile fits\n")
        with open(path) as file:
            text = file.read()
        slow = {**json.loads(text), "taken": "2001-02-03T04:05:06Z", "load": 0}
        slow["devices"][0].update(slowdown=1, spread=0)  # a disturbed one is not used for long
        for layer in slow["devices"][0]["layers"]:
            layer.update(forward=1e6, backward_input=1e6, backward_weight=1e6)
        with open(path, "w") as file:
            json.dump(slow, file)
        out = self.expect(plan, program=TRAIN)
        self.assertIn("\n             counted, with this machine's measured rates of 2001-02-03; no profile fits\n", out)
        self.assertRegex(out, r"\npredicted    a step of 16 samples: [\d.]+ s ")
        with open(path, "w") as file:
            file.write(text[:40])
        self.assertIn(assumed, self.expect(plan, program=TRAIN))

    def test_a_sweep_over_micro_batches_has_one_scale(self):
        """A profile of 4 samples, 1000 times slower than counted: no other size is planned as if it were counted."""
        self.write("t.yaml", re.sub(r"tensors: nowhere.safetensors", "synthetic: {samples: 64, seed: 1}", CONFIG)
                   .replace(", init: nowhere-either.safetensors", ""))
        self.expect(["--seconds", "0.2", "t.yaml"])
        [name] = self.kept()
        kept = "cache/gpipe/profiles/" + name
        profile = json.loads(self.read(kept))
        for layer in profile["devices"][0]["layers"]:
            layer.update(forward=10, backward_input=10, backward_weight=10, recompute=10, update=0)
        profile["devices"][0].update(slowdown=1, spread=0)
        self.write(kept, profile)
        steps = {}
        for pieces in (2, 3, 4, 8):
            out = self.expect(["--plan", "--set", f"pipeline.micro_batches={pieces}", "t.yaml"], program=TRAIN)
            time, unit = re.search(r"\npredicted    a step of 16 samples: ([\d.]+) (m?s) ", out).groups()
            steps[pieces] = float(time) * (1 if unit == "s" else 1e-3)
            self.assertIn(("from the profile %s\n" if pieces == 4 else
                           "scaled from the profile %s, of micro-batches of 4 samples\n") % self.path(kept), out)
            self.assertIn("\n             taken just now, slowdown 1.00\n", out)
        for pieces, step in steps.items():
            self.assertTrue(0.5 < step / steps[4] < 2, steps)

    def test_a_long_update_counts_in_the_cut(self):
        """Four micro-batches share the update: 48 ms of it are as much of a stage as 12 ms of each micro-batch."""
        def cut(updates):
            self.write("p.json", profile_of([1] * 8))
            profile = json.loads(self.read("p.json"))
            for layer, update in zip(profile["devices"][0]["layers"], updates):
                layer["update"] = update
            self.write("p.json", profile)
            return json.loads(self.expect(["--profile", "p.json", "--json", "--set", "pipeline.checkpoint=never", "c.yaml"]))["balance"]

        self.assertEqual(cut([0] * 8), [4, 4])
        self.assertEqual(cut([0] * 7 + [48]), [6, 2])

    def test_age_and_slowdown_are_shown(self):
        """Of a profile that --profile names; for people and for programs. `load` is a key of earlier versions."""
        self.write("p.json", {**profile_of([1] * 8), "taken": "2001-02-03T04:05:06Z", "load": 1.5})
        profile = json.loads(self.read("p.json"))
        profile["devices"][0]["slowdown"] = 1.4
        self.write("p.json", profile)
        out = self.expect(["--profile", "p.json", "c.yaml"])
        self.assertRegex(out, r"\Aprofile      p.json\n             taken [\d]+ days ago, slowdown 1.40\n")
        self.assertTrue(self.expect(["--profile", "p.json", "--write", "c.yaml"]).endswith(
            "\nc.yaml: the balance was written\n"))
        self.write("c.yaml", CONFIG)
        found = json.loads(self.expect(["--profile", "p.json", "--json", "c.yaml"]))
        self.assertEqual((found["taken_at"], found["slowdown"]), ("2001-02-03T04:05:06Z", {"cpu": 1.4}))

    def test_progress(self):
        """On standard error, so that reports stay whole; -q is silent."""
        process = self.run_program("--seconds", "1", "--json", "c.yaml")
        self.assertEqual(process.returncode, 0)
        json.loads(process.stdout)
        self.assertRegex(process.stderr, r"\Atiming 8 layers on cpu, micro-batches of 4 samples: at most 1 s\n")
        self.expect(["-q", "--seconds", "1", "--again", "c.yaml"])


if __name__ == "__main__":
    BALANCE, TRAIN = map(os.path.abspath, sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
