"""gpipe-report: reading run folders, the numbers of its table and its JSON, its messages."""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/report.py"
sys.path.insert(0, str(ROOT / "scripts"))
from timelines import run_curves, run_figures, run_picture  # noqa: E402
from timelines.run_config import differences, line_differences, read_config  # noqa: E402
from timelines.run_folder import read_run  # noqa: E402

START = {"event": "start", "version": "0.1.0", "devices": ["cpu", "cpu"], "steps": 4, "time": 0.25}
# Four steps of 10 samples. With the wait before it a step took 0.2, 0.2, 0.5, 0.5 s: 50, 50, 20, 20 samples/s.
STEPS = [
    {"event": "step", "step": 1, "epoch": 1, "loss": 4.0, "lr": 0.5, "samples": 10, "seconds": 0.1, "data_seconds": 0.1,
     "accuracy": 0.25, "grad_norm": 3.0, "time": 1.0},
    {"event": "step", "step": 2, "epoch": 1, "loss": 0.5, "lr": 0.5, "samples": 10, "seconds": 0.2, "data_seconds": 0.0,
     "accuracy": 0.75, "grad_norm": 1.5, "time": 1.25},
    {"event": "step", "step": 3, "epoch": 2, "loss": 2.0, "lr": 0.25, "samples": 10, "seconds": 0.4, "data_seconds": 0.1,
     "accuracy": 0.75, "grad_norm": 1.0, "time": 2.0},
    {"event": "step", "step": 4, "epoch": 2, "loss": 1.0, "lr": 0.25, "samples": 10, "seconds": 0.5, "data_seconds": 0.0,
     "accuracy": 0.5, "grad_norm": 2.0, "time": 2.5}]
EVALUATIONS = [{"event": "eval", "step": 2, "epoch": 1, "loss": 1.5, "accuracy": 0.625, "seconds": 0.1, "time": 1.5},
               {"event": "eval", "step": 4, "epoch": 2, "loss": 1.75, "accuracy": 0.625, "seconds": 0.1, "time": 2.75}]
ACCOUNT = {"source": "counted", "steps": 3, "recorded": 2,
           "expected": {"step": 0.2, "bubble": 0.5, "busy": [0.125, 0.125], "copying": [0.025, 0.025], "waiting": [0.05, 0.05]},
           "measured": {"step": 0.5, "bubble": 0.625, "busy": [0.2, 0.175], "copying": [0.05, 0.05], "waiting": [0.25, 0.275],
                        "median": 0.45},
           "off": {"computing": 0.0625, "copying": 0.0275, "waiting": 0.21}, "data": {"steps": 4, "seconds": 0.2, "share": 0.125},
           "stolen": 0.0, "planned_bytes": 4 << 20, "program_bytes": 1 << 20, "resident_bytes": 3 << 20,
           "host": {"arenas": 2 << 20, "threads": 1 << 20}}
END = {"event": "end", "status": "done", "steps": 4, "seconds": 2.5, "account": ACCOUNT, "time": 3.0}
WHOLE = [START, *STEPS[:2], EVALUATIONS[0], *STEPS[2:], EVALUATIONS[1], END]
CONFIG = """# gpipe-train 0.1.0: the configuration as it ran
model:
  layers:
    - conv:
        out: 32
    - add: [-1, stem]
    - "odd: name"
    - - a
      - b
data:
  train:
    tensors: "a\\"b\\\\c\\u2028.safetensors"
  empty: {}
  none:
optimizer:
  sgd:
    lr: %s
changes:
  3:
    optimizer.sgd.lr: 0.25
"""


def lines(events):
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)


class Report(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gp-report-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_folder(self, name, text=None, config=CONFIG % "0.5"):
        path = self.folder / name
        path.mkdir(parents=True)
        text = lines(WHOLE) if text is None else text if isinstance(text, (str, bytes)) else lines(text)
        (path / "metrics.jsonl").write_bytes(text.encode() if isinstance(text, str) else text)
        if config is not None:
            (path / "config.yaml").write_text(config)
        return path

    def report(self, *arguments):
        command = [sys.executable, SCRIPT, *map(os.fspath, arguments)]
        return subprocess.run(command, cwd=self.folder, capture_output=True, stdin=subprocess.DEVNULL, encoding="utf-8",
                              timeout=100)

    def text(self, *arguments):
        done = self.report("--text", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def json(self, *arguments):
        done = self.report("--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refuse(self, sentence, *arguments, status=2):
        done = self.report(*arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", "gpipe-report: " + sentence + "\n"))


class Numbers(Report):
    def test_of_a_whole_run(self):
        self.run_folder("a")
        data = self.json("a")
        [one] = data["runs"]
        keys = ("name", "status", "version", "steps", "planned_steps", "epoch", "seconds", "lr", "grad_norm", "remarks")
        self.assertEqual({key: one[key] for key in keys},
                         {"name": "a", "status": "done", "version": "0.1.0", "steps": 4, "planned_steps": 4, "epoch": 2,
                          "seconds": 3.0, "lr": 0.25, "grad_norm": 2.0, "remarks": []})
        self.assertEqual(one["training"], {"loss": {"last": 1.0, "best": {"value": 0.5, "step": 2}},
                                           "accuracy": {"last": 0.5, "best": {"value": 0.75, "step": 2}}})
        self.assertEqual(one["evaluations"], {"count": 2, "loss": {"last": 1.75, "best": {"value": 1.5, "step": 2}},
                                              "accuracy": {"last": 0.625, "best": {"value": 0.625, "step": 2}}})
        speed = one["speed"]
        self.assertAlmostEqual(speed["median_samples_per_second"], 35)  # between 20 and 50
        self.assertAlmostEqual(speed["data_share"], 0.2 / 1.4)  # of 1.2 s of steps and 0.2 s of waits
        self.assertEqual(one["memory"], {"planned_bytes": 4 << 20, "program_bytes": 1 << 20, "resident_bytes": 3 << 20,
                                         "host": {"arenas": 2 << 20, "threads": 1 << 20}})
        self.assertEqual(one["events"], [{"kind": "end", "step": 4, "time": 3.0, "text": "done"}])

    def test_the_table_and_what_differs(self):
        self.run_folder("a")
        self.run_folder("b", [START, *STEPS[:2], EVALUATIONS[0]], CONFIG % "0.125")
        self.assertEqual(self.text("a", "b", "--names", "old,new run"), """\
run      status  steps   time  loss  eval loss  best (step)  accuracy  best (step)  samples/s   data   memory
old      done      4/4  3.0 s     1       1.75      1.5 (2)     0.625    0.625 (2)         35  14.3%  3.0 MiB
new run  no end    2/4  1.5 s   0.5        1.5      1.5 (2)     0.625    0.625 (2)         50  25.0%        -

what differs      old  new run
optimizer.sgd.lr  0.5  0.125

Best evaluation, accuracy: old 0.625 at step 2, new run 0.625 at step 2.
""")

    def test_runs_without_evaluations_show_their_training(self):
        self.run_folder("a", STEPS)
        self.assertEqual(self.text("a").splitlines(), [
            "run  status  steps   time  loss  best (step)  accuracy  best (step)  samples/s   data  memory",
            "a    no end      4  2.5 s     1      0.5 (2)       0.5     0.75 (2)         35  14.3%       -", "",
            "Last loss: a 1 at step 4."])

    def test_a_run_without_evaluations_beside_others(self):
        self.run_folder("a")
        self.run_folder("b", STEPS)
        self.assertEqual(self.text("a", "b").splitlines()[-1], "Best evaluation, accuracy: a 0.625 at step 2, b has none.")

    def test_names_come_from_the_ends_of_the_paths(self):
        for name in ("x/a", "y/a"):
            self.run_folder(name)
        self.assertEqual([one["name"] for one in self.json("x/a", "y/a")["runs"]], ["x/a", "y/a"])
        self.assertEqual([one["name"] for one in self.json("x/a/.")["runs"]], ["a"])

    def test_time_is_added_up_when_a_line_has_none(self):
        """Steps with their waits: 0.2, 0.4, 0.9, 1.4 s; the evaluation of 0.1 s after step 2 comes before step 3."""
        old = [{key: value for key, value in event.items() if key != "time"} for event in WHOLE]
        run = read_run(self.run_folder("a", old))
        for found, wanted in zip(run.columns["time"], (0.2, 0.4, 1.0, 1.5)):
            self.assertAlmostEqual(found, wanted)
        self.assertEqual(len(run.remarks), 1)
        self.assertIn("not every line has a time", run.remarks[0])

    def test_not_finite_losses_are_events_and_never_best(self):
        broken = [START, STEPS[0], {**STEPS[1], "loss": None}, {**EVALUATIONS[0], "loss": None, "accuracy": 0.99},
                  {**END, "status": "failed", "steps": 1, "account": None}]
        [one] = self.json(self.run_folder("a", broken))["runs"]
        self.assertEqual(one["status"], "failed")
        self.assertEqual(one["training"]["loss"], {"last": 4.0, "best": {"value": 4.0, "step": 1}})
        self.assertEqual(one["evaluations"]["loss"], {"last": None, "best": None})
        self.assertEqual([(event["kind"], event["step"], event["text"]) for event in one["events"]],
                         [("end", 1, "failed"), ("not finite", 2, "the loss is not finite"),
                          ("not finite", 2, "the loss of the evaluation is not finite")])
        self.assertIn("-", self.text("a"))


class Events(Report):
    def test_of_a_run_that_was_resumed_and_changed(self):
        events = [START, *STEPS[:2], {"event": "end", "status": "interrupted", "steps": 2, "time": 1.3},
                  {"event": "resume", "step": 2, "changes": {"optimizer.sgd.lr": 0.25, "data.shuffle": True}, "steps": 9,
                   "time": 1.3},
                  STEPS[2], {"event": "change", "step": 4, "steps": 7, "changes": {"data.batch": 20}, "time": 2.1}, STEPS[3]]
        folder = self.run_folder("a", events)
        (folder / "snapshots").mkdir()
        for name in ("step-00000002.safetensors", "step-00000009.safetensors", "step-.safetensors", "other", "step-00000004",
                     "step-00000003.safetensors-1"):
            (folder / "snapshots" / name).write_text("")
        for step, files in ((1, ["part-0.safetensors", "model.safetensors.index.json"]), (3, ["part-0.safetensors"])):
            path = folder / "snapshots" / ("step-%08d" % step)  # of several processes; without its index it is not whole
            path.mkdir()
            for name in files:
                (path / name).write_text("")
        [one] = self.json("a")["runs"]
        self.assertEqual((one["status"], one["planned_steps"], one["account"]), ("no end", 7, None))
        self.assertEqual([(event["kind"], event["step"], event["text"]) for event in one["events"]],
                         [("snapshot", 1, "snapshot"), ("end", 2, "interrupted"), ("resume", 2, "resumed after step 2"),
                          ("change", 2, "optimizer.sgd.lr: 0.25, data.shuffle: true"), ("snapshot", 2, "snapshot"),
                          ("change", 4, "data.batch: 20")])

    def test_steps_that_come_again_replace_the_earlier_ones(self):
        again = {**STEPS[1], "loss": 9.0, "time": 2.6}
        run = read_run(self.run_folder("a", [*STEPS[:2], EVALUATIONS[0], *STEPS[2:], again, {**STEPS[2], "time": 2.7}]))
        self.assertEqual((list(run.steps), list(run.columns["loss"]), run.evaluations), ([1, 2, 3], [4.0, 9.0, 2.0], []))
        sentence = "%s/a/metrics.jsonl:6: step 2 comes after step 4; the earlier lines of these steps are left out"
        self.assertEqual(run.remarks, [sentence % self.folder])

    def test_a_run_that_holds_its_folder_is_running(self):
        folder = self.run_folder("a", [START, STEPS[0]])
        code = ("import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(1, flush=True); "
                "sys.stdin.read()")
        with subprocess.Popen([sys.executable, "-c", code, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            holder.stdout.readline()
            with open("/proc/locks") as file:
                shown = str(os.stat(folder).st_ino) in file.read()
            found = read_run(folder).status
            holder.stdin.close()
        if not shown:
            self.skipTest("/proc/locks does not show the lock of another process")
        self.assertEqual(found, "running")
        self.assertEqual(read_run(folder).status, "no end")


class Lines(Report):
    def test_the_last_line_may_be_cut_off(self):
        whole = lines([START, *STEPS[:2]])
        for cut in (10, 100):
            run = read_run(self.run_folder("a%d" % cut, whole + lines(STEPS[2:3])[:cut]))
            self.assertEqual(list(run.steps), [1, 2])
            self.assertEqual(run.remarks, ["%s:4: the last line is cut off: the run writes it now, or was killed while it did" %
                                           (self.folder / ("a%d/metrics.jsonl" % cut))])
        run = read_run(self.run_folder("b", whole + lines(STEPS[2:3])[:-1]))  # only the newline is missing
        self.assertEqual((list(run.steps), run.remarks), ([1, 2, 3], []))

    def test_lines_that_cannot_be_used_are_skipped(self):
        bad = {b"{\"event\":\"step\",": "is not JSON", b"[" * 100000: "is not JSON", b"\xff\xfe\x00": "is not JSON",
               b"17": "is JSON, but no event of a run", b"{\"event\":3}": "is JSON, but no event of a run",
               b"{\"event\":\"party\"}": 'the event "party" is not known',
               b"{\"event\":\"step\",\"loss\":1}": '"step" is no whole number from 0',
               b"{\"event\":\"eval\",\"step\":-1}": '"step" is no whole number from 0',
               b"{\"event\":\"step\",\"step\":true}": '"step" is no whole number from 0',
               b"{\"event\":\"change\",\"step\":1e99}": '"step" is no whole number from 0',
               b"x" * (1 << 20) + b"y": "is longer than 1 MiB"}
        for index, (line, why) in enumerate(bad.items()):
            text = lines(STEPS[:1]).encode() + b"\n" + line + b"\n" + lines(STEPS[1:]).encode()
            run = read_run(self.run_folder("a%d" % index, text))
            self.assertEqual(list(run.steps), [1, 2, 3, 4])
            self.assertEqual(run.remarks, ["%s/a%d/metrics.jsonl:3: %s; the line is skipped" % (self.folder, index, why)])
        run = read_run(self.run_folder("many", "x\n" * 100 + lines(STEPS)))
        self.assertEqual(len(run.remarks), 6)
        self.assertTrue(run.remarks[5].endswith("metrics.jsonl: 95 more lines are skipped"))

    def test_values_of_other_types_count_as_absent(self):
        odd = {"event": "step", "step": 1, "epoch": "x", "loss": "1", "lr": [], "samples": True, "seconds": 10 ** 400,
               "data_seconds": {}, "accuracy": None, "grad_norm": 1e308, "time": "now"}
        text = lines([{**START, "steps": "many", "devices": 3, "version": ["x"]}, odd]) + \
            '{"event":"eval","step":1,"loss":NaN,"accuracy":1e999,"time":-5}\n' + \
            '{"event":"end","status":7,"account":{"expected":{"step":1e999,"busy":7},"measured":[],"host":3,' \
            '"planned_bytes":1%s}}\n' % ("0" * 400)
        folder = self.run_folder("a", text)
        [one] = self.json(folder)["runs"]
        self.assertEqual((one["status"], one["planned_steps"], one["devices"], one["evaluations"]["accuracy"]["last"]),
                         ("no end", None, [], None))
        done = self.report(folder, "--svg", "a.svg", "-o", "a.html")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class BadInput(Report):
    def test_folders_that_hold_no_run(self):
        (self.folder / "empty").mkdir()
        (self.folder / "file").write_text("x")
        self.run_folder("nothing", "")
        self.run_folder("junk", bytes(range(256)) * 40)
        self.run_folder("text", "hello\nworld\n")
        (self.folder / "odd/metrics.jsonl").mkdir(parents=True)
        os.mkdir(self.folder / "pipe")
        os.mkfifo(self.folder / "pipe/metrics.jsonl")
        wrote = "name a folder that gpipe-train -o wrote"
        for name, sentence in {
            "none": "none: no such folder: " + wrote,
            "": ": no such folder: " + wrote,
            "file": "file: is a file, not a run folder: name the folder, as -o of gpipe-train does",
            "empty": "empty: is no run folder: it has no metrics.jsonl; " + wrote,
            "nothing": "nothing/metrics.jsonl: is empty: the run has not begun yet; try again after its first step",
            "odd": "odd/metrics.jsonl: is not a regular file: " + wrote,
            "pipe": "pipe/metrics.jsonl: is not a regular file: " + wrote,
            "junk": "junk/metrics.jsonl: none of its 41 lines is an event of a run: " + wrote,
            "text": "text/metrics.jsonl: none of its 2 lines is an event of a run: " + wrote,
            "x" * 300: "x" * 300 + ": cannot be read: File name too long; " + wrote,
        }.items():
            self.refuse(sentence, name)
        self.refuse("none: no such folder: " + wrote, "none", "-o", "empty/metrics.jsonl")
        self.assertEqual(os.listdir(self.folder / "empty"), [])
        self.assertFalse((self.folder / "report.html").exists())

    def test_no_permission(self):
        metrics = self.run_folder("a") / "metrics.jsonl"
        metrics.chmod(0)
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root may read everything
        self.folder.chmod(0o755)
        command = ["/usr/bin/python3" if other else sys.executable, SCRIPT, "a"]
        try:
            subprocess.run([*command[:2], "--version"], cwd=self.folder, capture_output=True, check=True, **other)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("another user cannot run the scripts")
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **other)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "gpipe-report: a/metrics.jsonl: cannot be read: Permission denied; check who may read it\n"))
        self.folder.joinpath("a").chmod(0)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, **other)
        self.assertEqual((done.returncode, done.stderr),
                         (2, "gpipe-report: a: cannot be read: Permission denied; name a folder that gpipe-train -o wrote\n"))
        self.folder.joinpath("a").chmod(0o700)

    def test_command_lines(self):
        self.run_folder("a")
        self.run_folder("b")
        os.symlink("a", self.folder / "link")
        see = ": see gpipe-report --help"
        for arguments, sentence in {
            (): "the following arguments are required: RUN" + see,
            ("a", "--frobnicate"): "unrecognized arguments: --frobnicate" + see,
            ("a", "./a"): "./a: is the same run as a: name each run once",
            ("a", "link"): "link: is the same run as a: name each run once",
            ("a", "b", "--names", "x"): "--names has 1 name for 2 runs: give one name for each run",
            ("a", "b", "--names", "x,x"): '--names: "x" is given twice: give each run a name of its own',
            ("a", "b", "--names", "x,"): '--names: "" is empty: give each run a name of its own',
            ("a", "-o", ""): "option -o needs the name of a file",
            ("a", "-o", "b"): "b: is a folder: choose the name of a file with -o",
            ("a", "-o", "x", "--svg", "./x"): "./x: is named with -o and with --svg: choose two names",
            ("a", "--text", "-o", "x.html"): "--text writes no page: leave out -o",
        }.items():
            self.refuse(sentence, *arguments)

    def test_help_readme_and_page_have_the_same_options(self):
        option = re.compile(r"(?<![\w-])(-\w(?![\w-])|--[a-z][a-z-]*)")
        asked = self.report("--help")
        self.assertEqual((asked.returncode, asked.stderr), (0, ""))
        listed = {name for line in asked.stdout.splitlines() if line.startswith("  -") for name in option.findall(line[:24])}
        self.assertGreater(len(listed), 8)
        readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        [synopsis] = [line for line in readme if line.startswith("    gpipe-report ")]
        self.assertEqual(set(option.findall(synopsis)), listed - {"-h", "--help", "--version"})
        page = (ROOT / "docs/reports.md").read_text(encoding="utf-8")
        self.assertLessEqual(listed - {"-h", "--help", "--version", "--title"}, set(option.findall(page)))
        done = self.report("--version")
        self.assertRegex(done.stdout, r"\Agpipe-report \d+\.\d+\.\d+\n\Z")

    def test_outputs_that_are_no_reports_stay(self):
        folder = self.run_folder("a")
        (self.folder / "thesis.html").write_text("<html>my life</html>")
        for option in ("-o", "--svg", "--png"):
            self.refuse("thesis.html: exists and is no report: choose another name with %s, or remove it" % option,
                        "a", option, "thesis.html")
            for name in ("metrics.jsonl", "model.safetensors", "plan.json"):
                self.refuse("a/%s: is a file of the run a: choose another name with %s" % (name, option), "a", option,
                            "a/" + name)
        self.assertEqual((self.folder / "thesis.html").read_text(), "<html>my life</html>")
        self.assertEqual((folder / "metrics.jsonl").read_text(), lines(WHOLE))
        self.assertFalse((folder / "plan.json").exists())
        for _ in range(2):  # its own output is written over
            self.assertEqual(self.report("a", "-o", "a/page.html", "--svg", "a.svg").returncode, 0)
        self.assertEqual(sorted(os.listdir(folder)), ["config.yaml", "metrics.jsonl", "page.html"])
        self.refuse("no/page.html: cannot be written: No such file or directory", "a", "-o", "no/page.html", status=1)

    def test_a_reader_that_goes_away(self):
        self.run_folder("a")
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([sys.executable, SCRIPT, "--json", self.folder / "a"], stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (1, b""))

    def test_a_full_device(self):
        self.run_folder("a")
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([sys.executable, SCRIPT, "--text", "a"], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                  encoding="utf-8", timeout=100)
        self.assertEqual((done.returncode, done.stderr), (1, "gpipe-report: cannot print: no space left on device\n"))

    def test_control_characters_do_not_reach_the_terminal(self):
        self.run_folder("a\x1b[2J\nb", "{\n" + lines(STEPS))
        out = self.text("a\x1b[2J\nb")
        self.assertNotIn("\x1b", out)
        self.assertIn("a\\x1b[2J\\nb", out)
        done = self.report("none\x1b[2J")
        self.assertEqual(done.stderr, "gpipe-report: none\\x1b[2J: no such folder: name a folder that gpipe-train -o wrote\n")


class Configurations(Report):
    def test_as_gpipe_train_writes_them(self):
        self.assertEqual(read_config(CONFIG % "0.5"), {
            "model.layers.0.conv.out": "32", "model.layers.1.add": "[-1, stem]", "model.layers.2": "odd: name",
            "model.layers.3.0": "a", "model.layers.3.1": "b", "data.train.tensors": 'a"b\\c\u2028.safetensors',
            "data.empty": "{}", "data.none": "", "optimizer.sgd.lr": "0.5", "changes.3.optimizer.sgd.lr": "0.25"})

    def test_other_yaml_is_compared_by_lines(self):
        for text in ("a: &x 1\n", "a: {b: 1}\n", "a:\n  - b\n c: 1\n", "just words\n", "a: 1\na: 2\n", "a: 'x'\n",
                     "a: |\n  text\n", ""):
            self.assertIsNone(read_config(text), text)
        self.assertEqual(line_differences(["a: 1\nb: {c: 2}\n", "b: {c: 2}\nd: 3\n"]),
                         [("a: 1", ["yes", None]), ("d: 3", [None, "yes"])])
        self.run_folder("a", config="x: {y: 1}\nz: 2\n")
        self.run_folder("b", config="x: {y: 3}\nz: 2\n")
        data = self.json("a", "b")
        self.assertEqual((data["differences_by_line"], data["differences"]),
                         (True, {"x: {y: 1}": ["yes", None], "x: {y: 3}": [None, "yes"]}))

    def test_keys_that_one_does_not_have(self):
        self.assertEqual(differences([{"a": "1", "b": "2"}, {"a": "1", "c": "3"}]), [("b", ["2", None]), ("c", [None, "3"])])

    def test_of_real_runs(self):
        """Every configuration that gpipe-train resolves can be read, and is the same when it is printed again."""
        program = os.environ.get("GPIPE_TRAIN", str(ROOT / "build/gpipe-train"))
        if not os.path.exists(program):
            self.skipTest("gpipe-train is not built")
        config = """{model: {input: {shape: [1, 4, 4]}, layers: [{conv: {out: 2, kernel: 3, name: "a b: c"}}, relu, flatten,
                    {linear: 2}], loss: cross_entropy}, data: {train: {synthetic: {samples: 8}}, batch: 4},
                    optimizer: {sgd: {lr: 0.1}}, train: {steps: %d}, %s}"""
        for name, steps, more in (("a", 2, "pipeline: {devices: [cpu, cpu]}"), ("b", 3, "changes: {2: {optimizer.sgd.lr: 0.2}}")):
            (self.folder / (name + ".yaml")).write_text(config % (steps, more))
            subprocess.run([program, "-q", "-o", name, name + ".yaml"], cwd=self.folder, check=True,
                           env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")})
        data = self.json("a", "b")
        found = data["differences"]
        self.assertFalse(data["differences_by_line"])
        self.assertEqual(found["train.steps"], ["2", "3"])
        self.assertEqual(found["changes.2.optimizer.sgd.lr"], [None, "0.2"])
        self.assertEqual(found["pipeline.devices.1.cpu.threads"], ["1", None])
        self.assertEqual([(one["status"], one["steps"], one["remarks"]) for one in data["runs"]],
                         [("done", 2, []), ("done", 3, [])])
        self.assertIn(("change", 2, "optimizer.sgd.lr: 0.2"),
                      [(event["kind"], event["step"], event["text"]) for event in data["runs"][1]["events"]])


class Curves(Report):
    def test_spikes_stay_when_steps_are_joined(self):
        values = [1.0] * 100000
        values[77777] = 50.0
        values[12345] = math.nan
        bucket = run_curves.rows_for(len(values), 2)
        self.assertEqual(bucket, 9)  # 24,000 rows for two runs, 12,000 each: 100,000 / 12,000, rounded up
        curve = run_curves.curve(values, bucket)
        self.assertEqual((max(curve["max"]), curve["min"]), (50.0, 1))
        self.assertEqual(curve["mean"][77777 // 9], 6.44444)  # (8 + 50) / 9
        self.assertEqual(len(curve["mean"]), 11112)

    def test_pictures_of_extreme_values(self):
        self.assertEqual([run_picture.nice_ticks(*limits) for limits in ((0, 4), (-1, 1), (0.1, 0.35))],
                         [[0, 1, 2, 3, 4], [-1, -0.5, 0, 0.5, 1], [0.1, 0.2, 0.30000000000000004]])
        for limits in ((-1e308, 1e308), (0, 5e-324), (1e16, 1e16 + 2), (3, 3)):
            self.assertEqual(run_picture.nice_ticks(*limits), [limits[0]])
            runs = [read_run(self.run_folder("a%g%g" % limits, [{**step, "loss": loss} for step, loss in zip(STEPS, limits)]))]
            self.assertIn("</svg>", run_picture.svg(runs, "extreme"))

    def test_short_runs_keep_every_step(self):
        run = read_run(self.run_folder("a"))
        data = run_curves.of_run(run, 3)
        self.assertEqual((data["bucket"], data["first"], data["time"]), (1, {"from": 1, "count": 4}, [1, 1.25, 2, 2.5]))
        self.assertEqual(data["curves"]["loss"], {"mean": [4, 0.5, 2, 1]})
        self.assertEqual(data["curves"]["samples_per_second"], {"mean": [50, 50, 20, 20]})
        self.assertEqual(data["curves"]["data_ms"], {"mean": [100, 0, 100, 0]})

    def test_many_evaluations_keep_the_best(self):
        many = [{"step": i, "time": i, "loss": 1.0, "accuracy": 0.5} for i in range(20000)]
        many[7777]["accuracy"], many[8888]["loss"] = 0.9, 0.1
        kept = run_curves.thin(many)
        self.assertLessEqual(len(kept), 4000)
        self.assertTrue({7777, 8888} <= {one["step"] for one in kept})


class Words(unittest.TestCase):
    def test_durations_and_numbers(self):
        self.assertEqual([run_figures.duration(value) for value in (4.14, 99.9, 200, 7500)],
                         ["4.1 s", "99.9 s", "3 min 20 s", "2 h 5 min"])
        self.assertEqual([run_figures.short(value) for value in (0.0022138, 7073.2, 123456.7, 1.5e-7, 2e9, 0.0, None, math.nan)],
                         ["0.002214", "7073", "123457", "1.500e-07", "2.000e+09", "0", "-", "-"])


if __name__ == "__main__":
    unittest.main()
