"""Links between processes, measured by a launch with mpirun: they get into the kept profile, and plans use them.

    test_links.py PROGRAM [--seed S] [TEST…]

PROGRAM is gpipe-train; gpipe-balance lies beside it. No test looks at how long anything takes. Exit status 77: there is no
mpirun. Standard library only.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time

from runs import OPTIONS, main
from test_processes import CONFIG, LAUNCHER, PATIENCE, Launched, children, rank_of, skip_without_mpi

PAIR = "pipeline.links={processes: 2, processes_per_host: 2}"


class Links(Launched):
    config = CONFIG

    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.folder, self.id().split(".")[-1] + "-cache")
        self.environment = {**os.environ, **LAUNCHER, "XDG_CACHE_HOME": self.cache}
        self.more = {"XDG_CACHE_HOME": self.cache, "OMPI_MCA_odls_base_sigkill_timeout": "2"}

    def call(self, program, *arguments, processes=0, status=0):
        """What it printed, and what it said on standard error."""
        launcher = ["mpirun", "--bind-to", "none", "-np", str(processes)] if processes else []
        path = os.path.join(os.path.dirname(OPTIONS.program), program)
        done = subprocess.run([*launcher, path, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def balance(self, *arguments, **more):
        return self.call("gpipe-balance", "-q", "--seconds", "0.1", *arguments, "c.yaml", **more)

    def plan(self, *arguments, **more):
        return self.call("gpipe-train", "--plan", *arguments, "c.yaml", **more)[0]

    def kept(self):
        """The one profile that is kept; None: there is none."""
        paths = glob.glob(os.path.join(self.cache, "gpipe", "profiles", "*.json"))
        self.assertLessEqual(len(paths), 1)
        if not paths:
            return None
        with open(paths[0]) as file:
            return json.load(file)

    def expect_host(self, profile):
        """Measured on one host: no process was on another."""
        self.assertEqual(list(profile["links"]), ["host"])
        self.assertGreater(profile["links"]["host"]["latency"], 0)
        self.assertGreater(profile["links"]["host"]["per_mib"], 0)

    def test_balancing_measures_links(self):
        out, _ = self.balance(processes=3, *("--set", "pipeline.devices=[cpu, cpu, cpu]"))
        self.assertEqual(out.count("\nbalance      "), 1, out)  # process 0 alone prints
        self.assertRegex(out, r"\nlinks        between processes of a host: [\d.]+ [nµm]?s, [\d.]+ [KMG]?B/s\n")
        self.expect_host(self.kept())

    def test_plans_use_them(self):
        self.balance(processes=2)
        profile = self.kept()
        link = profile["links"]["host"]
        plan = json.loads(self.plan("--json", "--set", PAIR))
        process, host, network = plan["links"]
        self.assertEqual((plan["processes"], plan["hosts"], host["from"]), (2, 1, "profile"))
        self.assertAlmostEqual(host["latency_us"] / (1e3 * link["latency"]), 1, 9)
        self.assertAlmostEqual(host["bytes_per_s"] * 1e-3 * link["per_mib"] / 2**20, 1, 9)
        self.assertFalse({"from", "latency_us"} & {*process, *network})
        self.assertRegex(self.plan("--set", PAIR), r"\n  between processes of a host [^\n]+/s +profile +\d+ ")
        self.assertRegex(self.plan(processes=2), r"\n  between processes of a host [^\n]+/s +profile +\d+ ")  # the launch says where they are
        self.assertNotIn("\nlinks, ", self.plan())
        self.assertRegex(self.plan("--set", "pipeline.links.processes=2"), r"\n  between hosts +as devices copy +not known +\d+ ")
        given = PAIR[:-1] + ", host: {latency: 5 us, bandwidth: 3 MB/s}}"
        self.assertRegex(self.plan("--set", given), r"\n  between processes of a host 5 µs, 3 MB/s +by hand +\d+ ")

    def test_a_kept_profile_gets_links(self):
        self.balance("--set", "pipeline.devices=[cpu, cpu]")
        self.assertNotIn("links", self.kept())
        taken = self.kept()["taken"]
        report = json.loads(self.balance("--json", processes=2)[0])
        self.assertFalse(report["measured"])  # the layers
        profile = self.kept()
        self.expect_host(profile)
        self.assertEqual(profile["taken"], taken)
        self.assertAlmostEqual(report["links"]["host"]["latency_us"] / (1e3 * profile["links"]["host"]["latency"]), 1, 9)
        self.balance(processes=2)
        self.assertEqual(self.kept(), profile)

    def test_a_run_measures_links(self):
        """A long one. Its plan is that of the other process, else it would not begin."""
        process = self.launch(self.run_folder, (2, ["c.yaml", "--set", "train={steps: 100000000}"]))
        start = time.monotonic()
        while not os.path.exists(os.path.join(self.run_folder, "metrics.jsonl")) and process.poll() is None:
            self.assertLess(time.monotonic() - start, PATIENCE)
            time.sleep(0.01)
        for pid in children(process.pid):
            if rank_of(pid) == 1:
                os.kill(pid, signal.SIGTERM)
        status, said, out = self.end(process)
        self.assertEqual((status, said), (130, []), out)
        self.expect_host(self.kept())

    def test_changes(self):
        """Each configuration of a run may need a profile of its own; all get the links that were measured once."""
        with open(os.path.join(self.folder, "changes.yaml"), "w") as file:
            file.write(self.config.replace("train: {epochs: 2}", "train: {steps: 100000000}") + "changes:\n  2: {data.batch: 8}\n")
        process = self.launch(self.run_folder, (2, ["changes.yaml"]))
        self.mark = 0
        self.assertTrue(self.await_lines(process, 4))
        for pid in children(process.pid):
            if rank_of(pid) == 1:
                os.kill(pid, signal.SIGTERM)
        status, said, out = self.end(process)
        self.assertEqual((status, said), (130, []), out)
        links = []
        for path in glob.glob(os.path.join(self.cache, "gpipe", "profiles", "*.json")):
            with open(path) as file:
                links.append(json.load(file)["links"])
        self.assertEqual(len(links), 2)
        self.assertEqual(links[0], links[1])

    def test_a_cut_by_links_has_the_same_bits(self):
        """The cut that process 0 finds with its profile is that of the run; given by hand, it ends with the same bits."""
        self.balance(processes=2)
        several = self.together(2, "--set", "pipeline.balance=auto")
        with open(os.path.join(several, "metrics.jsonl")) as file:
            balance = json.loads(file.readline())["balance"]
        self.expect_equal(self.by_itself(["--set", "pipeline.balance=%s" % balance]), several)

    def test_what_needs_no_help(self):
        """Process 0 does it alone."""
        path = os.path.join(self.folder, "by-hand.json")
        self.balance("-o", path)
        with open(path) as file:
            profile = json.load(file)
        profile["links"] = {"host": {"latency": 0.5, "per_mib": 2}}
        with open(path, "w") as file:
            json.dump(profile, file)
        out, _ = self.call("gpipe-balance", "--profile", path, "c.yaml", processes=2)
        self.assertEqual(out.count("\nlinks        between processes of a host: 500 µs, 524.3 MB/s\n"), 1, out)
        self.assertEqual(out.count("\nbalance      "), 1, out)
        self.assertEqual(self.call("gpipe-balance", "--version", processes=2)[0].count("gpipe-balance "), 1)

    def test_what_is_wrong_is_said_once(self):
        _, err = self.balance(processes=3, status=2)
        self.assertEqual(err.count("gpipe-balance: "), 1, err)
        self.assertIn("there are 3 processes, but only 2 workers", err)
        _, err = self.balance("--no-such-option", processes=3, status=2)
        self.assertEqual(err.count("gpipe-balance: "), 1, err)


if __name__ == "__main__":
    SOME = sys.argv[1:2]
    if SOME:
        skip_without_mpi(os.path.abspath(SOME[0]))
    main(Links)
