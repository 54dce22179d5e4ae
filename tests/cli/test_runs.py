"""Of runs.py: which tests a command line names. Standard library only."""

import argparse
import contextlib
import io
import unittest

from runs import select


class First(unittest.TestCase):
    def test_a(self):
        pass

    def test_b(self):
        pass


class Second(unittest.TestCase):
    def test_a(self):
        pass


class Select(unittest.TestCase):
    def chosen(self, *names):
        return [test.id().split(".", 1)[1] for test in select((First, Second), names, argparse.ArgumentParser())]

    def test_names(self):
        self.assertEqual(self.chosen("test_b"), ["First.test_b"])
        self.assertEqual(self.chosen("test_a"), ["First.test_a", "Second.test_a"])
        self.assertEqual(self.chosen("Second.test_a", "First.test_b"), ["Second.test_a", "First.test_b"])
        self.assertEqual(select((First, Second), [], argparse.ArgumentParser()).countTestCases(), 3)

    def test_unknown_names_are_refused(self):
        for names in (["test_c"], ["test_a", "test_c"], ["Second.test_b"], ["Third.test_a"], ["First"], ["id"], ["First.setUp"]):
            said = io.StringIO()
            with self.subTest(names=names), contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
                self.chosen(*names)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn('there is no test "%s"; the classes are First, Second; name a test as test_x or Class.test_x' % names[-1], said.getvalue())


if __name__ == "__main__":
    unittest.main(verbosity=2)
