"""The commands of a page of documents, in order: the files that it shows are written, its commands run, and what they print is compared.

A file stands in a fence after a paragraph that ends with a colon and names it in backquotes. A command is a line of a fence that begins with
"$ "; what follows, up to the next command, is its output. There "…" stands for anything, a line "…" for any lines, and a line "^C" for
Ctrl-C, pressed when the line before it has appeared. Numbers, sizes, times and bars need not be equal; what depends on the machine's
load is left out."""
import os
import re
import signal
import subprocess
import threading
import time

FENCE = re.compile(r"(?P<before>[^\n]*)\n\n?```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
UNIT = r" ?(ns|µs|ms|s|KiB|MiB|GiB)\b"
NUMBER = re.compile(rf"(?<![\w.])[-+±]?\d+(,\d{{3}})*(\.\d+)?(e[-+]?\d+)?(%|{UNIT})?|…{UNIT}")
BARS = re.compile("[█▉▊▋▌▍▎▏]+")
VARIES = re.compile(r"samples/s +\d+m\d+s left|^ *CPU steal|^timing \d+ layers|the workers' threads")


def steps_of(text):
    """[("file", name, text) or ("command", line, lines of output)] of a page."""
    steps = []
    for match in FENCE.finditer(text):
        name = re.search(r"`([\w.-]+\.(?:py|yaml))`[^`]*:$", match["before"])
        if name:
            steps.append(("file", name[1], match["text"]))
            continue
        for line in match["text"].splitlines():
            if line.startswith("$ "):
                steps.append(("command", line[2:], []))
            elif steps and steps[-1][0] == "command":
                steps[-1][2].append(line)
    return steps


def plain(line):
    """A line without what differs from run to run."""
    line = re.sub(r"the prediction is .*", "the prediction is", line.rstrip())
    return " ".join(NUMBER.sub("#", BARS.sub("", line)).split())


def pattern_of(lines):
    """What output must match: a regular expression of plain lines, each with a newline."""
    return "".join("(.*\n)*?" if line == "…" else ".*".join(re.escape(part) for part in plain(line).split("…")) + "\n"
                   for line in lines)


class Command:
    """One command, run in a folder; Ctrl-C where the page presses it."""

    def __init__(self, command, lines, folder, env, patience):
        self.command, self.lines = command, lines
        self.printed = []
        self.process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=env, text=True, encoding="utf-8", errors="replace",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        reader = threading.Thread(target=self.read)
        reader.start()
        end = time.monotonic() + patience
        if "^C" in lines:
            before = re.compile(pattern_of(lines[:lines.index("^C")]))
            while reader.is_alive() and not before.match(self.text()) and time.monotonic() < end:
                time.sleep(0.01)
            os.killpg(self.process.pid, signal.SIGINT)
        reader.join(max(0, end - time.monotonic()))
        if reader.is_alive():
            os.killpg(self.process.pid, signal.SIGKILL)
            reader.join()
        self.process.wait()

    def read(self):
        with self.process.stdout as file:
            for line in file:
                self.printed.append(line)

    def text(self):
        return "".join(plain(line) + "\n" for line in list(self.printed) if not VARIES.search(line))

    def check(self, test):
        """`test` is a unittest.TestCase."""
        wanted = [line for line in self.lines if line != "^C"]
        status = 130 if "^C" in self.lines else 0
        shown = "$ %s\n%s" % (self.command, "".join(self.printed))
        test.assertEqual(self.process.returncode, status, shown)
        if not re.fullmatch(pattern_of(wanted), self.text()):
            test.fail("the page shows other output\n%s\nthe page:\n%s\nas regular expression:\n%s\nprinted, plain:\n%s"
                      % (shown, "\n".join(wanted), pattern_of(wanted), self.text()))
