"""scripts/nsys-profile.sh with a made-up nsys, which records its arguments and writes what the real one would."""
import json
import os
import subprocess
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts", "nsys-profile.sh")

# Notes each call as a line of JSON. profile: writes the report, and exits with $NSYS_STATUS. export: writes the database.
NSYS = """#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
with open(os.environ["NOTES"], "a") as notes:
    notes.write(json.dumps(["nsys", *words]) + "\\n")
out = [word.split("=", 1)[1] for word in words if word.startswith("--output=")][0]
if words[0] == "profile" and not os.environ.get("NSYS_NO_REPORT"):
    open(out + ".nsys-rep", "w").write("report")
    sys.exit(int(os.environ.get("NSYS_STATUS", "0")))
if words[0] == "profile":
    sys.exit(5)
if os.environ.get("NSYS_NO_EXPORT"):
    sys.exit(3)
open(out, "w").write("export of " + words[-1])
"""
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
with open(os.environ["NOTES"], "a") as notes:
    notes.write(json.dumps(["program", *sys.argv[1:]]) + "\\n")
if os.environ.get("NO_JSON"):
    sys.exit("unknown option --json")
print('{"format":"gpipe-plan","workers":[{"device":"%s"}]}' % os.environ.get("DEVICE", "cuda"))
"""


class NsysProfile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.bin = os.path.join(self.folder, "tools of mine")
        os.mkdir(self.bin)
        self.write("tools of mine/nsys", NSYS)
        self.program = self.write("tools of mine/program", PROGRAM)
        self.write("net.yaml", "")
        self.notes = os.path.join(self.folder, "notes")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def run_script(self, *words, **env):
        path = env.pop("PATH", f"{self.bin}:/usr/bin:/bin")
        return subprocess.run(["bash", SCRIPT, *words], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={"PATH": path, "NOTES": self.notes, "GPIPE_PROGRAM": self.program, **env})

    def test_an_installed_script_runs_the_program_of_its_tree(self):
        os.makedirs(os.path.join(self.folder, "prefix/share/gpipe/scripts"))
        os.mkdir(os.path.join(self.folder, "prefix/bin"))
        with open(SCRIPT, encoding="utf-8") as file:
            script = self.write("prefix/share/gpipe/scripts/nsys-profile.sh", file.read())
        self.write("prefix/bin/gpipe-train", PROGRAM)
        made = subprocess.run(["bash", script, "net.yaml"], cwd=self.folder, capture_output=True, text=True, check=False,
                              env={"PATH": f"{self.bin}:/usr/bin:/bin", "NOTES": self.notes})
        self.assertEqual(made.returncode, 0, made.stderr)
        profile = next(call for call in self.calls() if call[:2] == ["nsys", "profile"])
        self.assertTrue(any(os.path.realpath(word) == os.path.join(self.folder, "prefix/bin/gpipe-train") for word in profile))

    def calls(self):
        with open(self.notes, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def expect(self, done, status, error=""):
        self.assertEqual((done.returncode, done.stderr), (status, error))
        return done

    def refuse(self, status, sentence, *words, **env):
        self.expect(self.run_script(*words, **env), status, f"nsys-profile: {sentence}\n")
        self.assertFalse(os.path.exists(self.notes))

    def test_records_exports_and_names_the_next_command(self):
        done = self.expect(self.run_script("net.yaml"), 0)
        plan, profile, export = self.calls()
        self.assertEqual(plan, ["program", "--plan", "--json", "net.yaml"])
        self.assertEqual(profile, [
            "nsys", "profile", "--trace=cuda,nvtx,cudnn,cublas", "--force-overwrite=true", "--output=net", "--sample=none",
            "--cpuctxsw=none", "--capture-range=cudaProfilerApi", "--capture-range-end=stop-shutdown", "--kill=sigterm",
            self.program, "-o", "net.run", "--capture-steps", "3:6", "net.yaml"])
        self.assertEqual(export, ["nsys", "export", "--type", "sqlite", "--force-overwrite=true", "--output=net.sqlite",
                                  "net.nsys-rep"])
        self.assertTrue(done.stdout.startswith("wrote net.sqlite\nnext: "), done.stdout)
        self.assertTrue(done.stdout.endswith(" net.sqlite -o net.html\n"), done.stdout)
        with open(os.path.join(self.folder, "net.plan.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"format": "gpipe-plan", "workers": [{"device": "cuda"}]})

    def test_options_after_the_configuration_are_the_programs(self):
        self.write("a net.yaml", "")
        done = self.expect(self.run_script("--steps", "7", "-o", "my run", "a net.yaml", "--set", "data.batch=8", "-v", "-o",
                                           "runs/x y", "--set=train.seed=2", "--trace", "t.json"), 0)
        plan, profile, _ = self.calls()
        self.assertEqual(plan, ["program", "--plan", "--json", "--set", "data.batch=8", "--set=train.seed=2", "a net.yaml"])
        self.assertIn("--output=my run", profile)
        at = profile.index(self.program)
        self.assertEqual(profile[at + 1:], ["--capture-steps", "7", "--set", "data.batch=8", "-v", "-o", "runs/x y",
                                            "--set=train.seed=2", "--trace", "t.json", "a net.yaml"])
        self.assertTrue(done.stdout.endswith(" my\\ run.sqlite -o my\\ run.html\n"), done.stdout)

    def test_all_steps_have_no_capture_range(self):
        self.expect(self.run_script("--steps=all", "net.yaml"), 0)
        profile = self.calls()[1]
        self.assertFalse([word for word in profile if "capture" in word or "kill" in word])

    def test_the_processors_are_sampled_only_on_demand(self):
        self.expect(self.run_script("--cpu-sampling", "net.yaml"), 0)
        profile = self.calls()[1]
        self.assertIn("--sample=process-tree", profile)
        self.assertNotIn("--sample=none", profile)

    def test_a_run_that_nsys_has_ended_after_the_capture_is_no_failure(self):
        for status in ("130", "143"):
            self.expect(self.run_script("--force", "net.yaml", NSYS_STATUS=status), 0)
        self.expect(self.run_script("--force", "net.yaml", NSYS_STATUS="1"), 0,
                    "nsys-profile: the run ended with exit status 1; its report is kept\n")
        self.expect(self.run_script("--force", "--steps", "all", "net.yaml", NSYS_STATUS="130"), 0,
                    "nsys-profile: the run ended with exit status 130; its report is kept\n")

    def test_what_is_there_is_replaced_only_with_force(self):
        for name in ("net.nsys-rep", "net.sqlite", "net.plan.json"):
            path = self.write(name, "earlier")
            self.refuse(2, f"{name}: is there already; choose another name with -o, or replace it with --force", "net.yaml")
            os.remove(path)
        self.write("net.sqlite", "earlier")
        self.expect(self.run_script("--force", "net.yaml"), 0)
        self.assertIn("--force", self.calls()[1])
        with open(os.path.join(self.folder, "net.sqlite"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "export of net.nsys-rep")

    def test_without_a_plan_as_json_the_rest_goes_on(self):
        self.expect(self.run_script("net.yaml", NO_JSON="1"), 0, "nsys-profile: this gpipe-train writes no plan as JSON, so "
                    "nothing predicted will be beside the capture\n")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "net.plan.json")))

    def test_a_run_without_a_gpu_is_refused_unless_all_of_it_is_captured(self):
        self.expect(self.run_script("net.yaml", DEVICE="cpu"), 2, "nsys-profile: net.yaml: no stage is on a GPU, so there is "
                    "nothing to capture: name GPUs with --set 'pipeline.devices=[cuda:0]', or record a timeline with "
                    "gpipe-train --trace\n")
        self.assertEqual(len(self.calls()), 1)  # the plan
        self.assertFalse(os.path.exists(os.path.join(self.folder, "net.plan.json")))
        self.expect(self.run_script("--steps", "all", "net.yaml", DEVICE="cpu"), 0)

    def test_no_report(self):
        self.expect(self.run_script("net.yaml", NSYS_NO_REPORT="1"), 1,
                    "nsys-profile: nsys wrote no net.nsys-rep (exit status 5); the output of the run is above\n")

    def test_no_export(self):
        self.expect(self.run_script("net.yaml", NSYS_NO_EXPORT="1"), 1,
                    "nsys-profile: nsys could not export net.nsys-rep; its output is above\n")

    def test_without_nsys(self):
        for tool in ("bash", "basename", "dirname", "rm", "sed"):
            os.symlink(os.path.join("/usr/bin", tool), os.path.join(self.folder, tool))
        if any(os.path.exists(path) for path in ("/usr/local/cuda/bin/nsys", "/opt/nvidia")):
            self.skipTest("this machine has nsys")
        self.refuse(1, "nsys (NVIDIA Nsight Systems) is not there. It is in NVIDIA's packages nsight-systems-cli and "
                    "cuda-nsight-systems-13-0, in Debian's nsight-systems, and at "
                    "https://developer.nvidia.com/nsight-systems/get-started", "net.yaml", PATH=self.folder)

    def test_without_the_program(self):
        self.refuse(1, "gpipe-train is not there: build it, or name it with GPIPE_PROGRAM", "net.yaml",
                    GPIPE_PROGRAM="/no/program")

    def test_wrong_usage(self):
        self.refuse(2, "no configuration is given; usage: nsys-profile.sh [options] config.yaml [options of gpipe-train]")
        self.refuse(2, "other.yaml: there is no such configuration", "other.yaml")
        self.refuse(2, "option --steps needs a value: see --help", "--steps")
        self.refuse(2, "option -o needs a value: see --help", "-o")
        self.refuse(2, 'option -o needs the name of a file, not "runs/"', "-o", "runs/", "net.yaml")
        self.refuse(2, "unknown option --set: options of gpipe-train follow the configuration; see --help", "--set", "a=b",
                    "net.yaml")
        self.refuse(2, "use --steps in place of --capture-steps", "net.yaml", "--capture-steps=3")
        for steps in ("0:3", "3:", "x", "3:6:9", ""):
            self.refuse(2, f'option --steps takes the first and the last step, as in 3:6, or "all", not "{steps}"', "--steps",
                        steps, "net.yaml")

    def test_help(self):
        done = self.expect(self.run_script("--help"), 0)
        self.assertIn("--cpu-sampling", done.stdout)
        self.assertTrue(done.stdout.startswith("Records a run"), done.stdout)
        self.assertIn("wrong usage", done.stdout)
        self.assertNotIn("set -uo", done.stdout)


class RealProgram(unittest.TestCase):
    def test_a_run_without_a_gpu_is_refused_by_the_program(self):
        program = os.environ.get("GPIPE_TRAIN")
        if not program:
            self.skipTest("GPIPE_TRAIN does not name the program")
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(os.path.dirname(SCRIPT), "..", "configs", "resnet-synthetic.yaml")
            done = subprocess.run([program, "--capture-steps", "3:6", "-o", os.path.join(folder, "run"), config], cwd=folder,
                                  capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (
            2, "gpipe-train: --capture-steps 3:6: no device of the run has a profiler: name a GPU in pipeline.devices, or record "
            "a timeline with --trace\n"))


if __name__ == "__main__":
    unittest.main()
