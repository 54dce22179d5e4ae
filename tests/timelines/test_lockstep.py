#!/usr/bin/env python3
"""scripts/lockstep.py: the tables of docs/lockstep.md are what gpipe-balance --simulate prints."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "lockstep.py")
BALANCE = os.environ["GPIPE_BALANCE"]

spec = importlib.util.spec_from_file_location("lockstep", SCRIPT)
lockstep = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lockstep)


def run(*arguments):
    """The script as a user runs it."""
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=100)


class TestLockstep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.simulator = lockstep.Simulator(BALANCE)
        with open(lockstep.PAGE, encoding="utf-8") as file:
            cls.page = file.read()

    def step(self, *question, **more):
        return self.simulator.answer(lockstep.pipeline(*question, **more))["step"]

    def test_tables_are_those_of_the_page(self):
        lockstep.check_page(self.page, self.simulator)

    def test_a_wrong_number_is_found(self):
        for name in lockstep.TABLES:
            begin = self.page.index(f"<!-- table: {name} -->")
            digit = begin + re.search(r"\d+\.\d", self.page[begin:]).end() - 1
            wrong = self.page[:digit] + str((int(self.page[digit]) + 1) % 10) + self.page[digit + 1:]
            with self.assertRaisesRegex(lockstep.Failure, f"the table '{name}' is not what"):
                lockstep.check_page(wrong, self.simulator)
            self.assertEqual(lockstep.update_page(wrong, self.simulator), self.page)

    def test_a_page_without_a_table_is_a_sentence(self):
        with self.assertRaisesRegex(lockstep.Failure, "needs the lines '<!-- table: recomputing -->'"):
            lockstep.check_page(self.page.replace("<!-- table: recomputing -->", ""), self.simulator)

    def test_one_host_thread_delays_each_stage_by_a_forward_pass(self):
        """A step in lockstep: (m + p - 1) clocks forward and back, and 2 (p - 1) copies. Without it, (p - 1) forwards more."""
        for stages, micro_batches, forward, copy in ((2, 3, 2, 1), (3, 5, 4, 1), (8, 9, 2, 0.5)):
            its = lockstep.device("queued", "one", 0, 0)
            after = (micro_batches + stages - 1) * 3 * forward + 2 * (stages - 1) * copy
            self.assertAlmostEqual(self.step(stages, micro_batches, forward, copy, True, its), after)
            self.assertAlmostEqual(self.step(stages, micro_batches, forward, copy, False, its), after + (stages - 1) * forward)

    def test_the_story(self):
        """One thread that issues copies first delays none; free threads do; lockstep on them does not, and with tiny micro-batches
        loses only because all threads wake up in each clock."""
        delays = [self.simulator.answer(lockstep.pipeline(4, 16, 4, 0.4, in_lockstep, lockstep.device("queued", hosts)))["copy_delay"]
                  for hosts, in_lockstep in (("one", True), ("per_device", False), ("per_device", True))]
        self.assertEqual((delays[0], delays[2]), (0, 0))
        self.assertGreater(delays[1], 1)
        for wake, faster in (0, True), (lockstep.WAKE, False):
            free, both = (self.step(4, 256, 0.25, 0.035, in_lockstep, lockstep.device("queued", wake=wake)) for in_lockstep in (False, True))
            self.assertEqual(both < free, faster)

    def test_small_micro_batches_are_limited_by_issuing(self):
        """8 stages, 256 micro-batches of 0.25 ms: for each the host thread issues 2 computations of 0.3 ms and 2 copies of
        0.02 ms; stage 0 receives nothing forward and stage 7 nothing back."""
        step = self.step(8, 256, 0.25, 0.035, True, lockstep.device("queued", "one"))
        issuing = 256 * (8 * 2 * 0.3 + 7 * 2 * 0.02)
        self.assertGreater(step, issuing)
        self.assertLess(step, issuing * 1.01)

    def test_recomputes_delay_gradients_in_lockstep(self):
        """Each of 3 copies on the way back waits for a recompute of 4 ms."""
        steps = [self.step(4, 16, 4.0, 0.41, True, lockstep.device(copies), checkpoint="always")
                 for copies in ("queued", "beside")]
        self.assertAlmostEqual(steps[0] - steps[1], 3 * 4)

    def test_the_copy_is_fitted(self):
        rate, busy = lockstep.unet(self.simulator, 50, 20, "same_queue")
        self.assertTrue(0 < busy < 100)
        self.assertAlmostEqual(lockstep.fit_copy(self.simulator, 50, "same_queue", rate), 20, delta=0.02)

    def test_pictures(self):
        sys.path.insert(0, os.path.join(ROOT, "scripts"))
        try:
            from timelines import picture  # noqa: F401
            from timelines.read import read  # noqa: F401
        except ImportError as error:
            self.skipTest(f"scripts/timelines is not complete: {error}")
        with tempfile.TemporaryDirectory() as folder:
            lockstep.draw(self.simulator, folder)
            for name, title, sides in lockstep.PICTURES:
                with open(os.path.join(folder, name + ".svg"), encoding="utf-8") as file:
                    text = "".join(xml.etree.ElementTree.fromstring(file.read()).itertext())
                for words in (title, *(label for label, _ in sides)):
                    self.assertIn(words, text)
                self.assertTrue(os.path.exists(os.path.join(ROOT, "docs", "pictures", name + ".svg")))

    def test_what_is_refused(self):
        done = run("--balance", "/nowhere/gpipe-balance", "--check")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "lockstep: /nowhere/gpipe-balance: No such file or directory; build it, or name another "
                                      "one with --balance\n")
        done = run("--balance", "/bin/false", "--check")
        self.assertEqual((done.returncode, done.stderr), (2, "lockstep: /bin/false --simulate fails: exit status 1\n"))
        self.assertEqual(run("--check", "--tables").returncode, 2)


if __name__ == "__main__":
    unittest.main()
