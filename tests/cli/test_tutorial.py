"""docs/tutorial.md: all its commands in order, with the output that it shows. test_tutorial.py PROGRAM."""
import os
import sys
import tempfile
import unittest

import pages

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 240


class Tutorial(unittest.TestCase):
    def test_commands(self):
        with open(os.path.join(HERE, "../../docs/tutorial.md"), encoding="utf-8") as file:
            steps = pages.steps_of(file.read())
        self.assertGreater(sum(kind == "command" for kind, _, _ in steps), 7)
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PATH": os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"],
                   "XDG_CACHE_HOME": os.path.join(folder, "cache")}
            for kind, name, content in steps:
                if kind == "file":
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        file.write(content)
                else:
                    pages.Command(name, content, folder, env, PATIENCE).check(self)

    def test_a_page(self):
        """Of another output, and of Ctrl-C."""
        page = "`a.py`, short:\n\n```python\nprint(12)\n```\n\n```\n$ python3 a.py\n7\n…\n$ read x\n```\n"
        self.assertEqual(pages.steps_of(page), [("file", "a.py", "print(12)\n"), ("command", "python3 a.py", ["7", "…"]),
                                                ("command", "read x", [])])
        with tempfile.TemporaryDirectory() as folder:
            for command, lines, fits in (("echo took 3 ms; echo left", ["took 12.5 s", "…"], True), ("echo a b", ["a … b"], False),
                                         ("echo a 1 b", ["a … b"], True), ("echo a", ["b"], False), ("echo a; echo b", ["a"], False),
                                         ("exit 1", [], False), ("trap 'echo c; exit 130' INT; echo a; while :; do sleep .01; done",
                                                                 ["a", "^C", "c"], True)):
                run = pages.Command(command, lines, folder, None, PATIENCE)
                if fits:
                    run.check(self)
                else:
                    self.assertRaises(AssertionError, run.check, self)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
