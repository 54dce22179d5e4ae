#!/usr/bin/env python3
"""Prints how long a CI run took: a table of its steps, and one of its tests by preset and label.

    scripts/ci-times.py FOLDER
    scripts/ci-times.py --self-test

FOLDER has `steps`, one line "SECONDS<tab>NAME" for each step, and for each preset that was tested PRESET.xml (ctest's
JUnit) and PRESET.json (what `ctest --show-only=json-v1` prints). A test with several labels counts for its first one, so that a row adds up. Tests run two at a time: their
seconds add up to more than the step's.
"""

import collections
import json
import os
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SLOWEST = 8


def read_steps(folder):
    """[(seconds, name)] in the order in which they ran."""
    lines = (folder / "steps").read_text().splitlines()
    return [(int(seconds), name) for seconds, name in (line.split("\t", 1) for line in lines)]


def read_labels(path):
    """{test: its first label}."""
    labels = {}
    for test in json.loads(path.read_text())["tests"]:
        every = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        labels[test["name"]] = every[0][0] if every and every[0] else "none"
    return labels


def read_tests(path):
    """[(seconds, name, label)] of the tests that ran."""
    labels = read_labels(path.with_suffix(".json"))
    return [(float(case.get("time")), case.get("name"), labels[case.get("name")])
            for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase") if case.get("status") != "notrun"]


def table_of_steps(steps):
    lines = ["%8s  step" % "seconds"]
    lines += ["%8d  %s" % step for step in steps]
    lines.append("%8d  all steps (%.1f minutes)" % (sum(s for s, _ in steps), sum(s for s, _ in steps) / 60))
    return lines


def table_of_labels(presets):
    """presets: {preset: [(seconds, name, label)]}."""
    labels = sorted({label for tests in presets.values() for _, _, label in tests})
    lines = ["", "seconds of tests by preset and label", "%-10s%s%10s%8s" % (
        "preset", "".join("%10s" % label for label in labels), "all", "tests")]
    for preset, tests in presets.items():
        by_label = collections.Counter()
        for seconds, _, label in tests:
            by_label[label] += seconds
        lines.append("%-10s%s%10.0f%8d" % (preset, "".join("%10.0f" % by_label[label] for label in labels),
                                          sum(by_label.values()), len(tests)))
    return lines


def table_of_slowest(presets):
    every = [(seconds, preset, name) for preset, tests in presets.items() for seconds, name, _ in tests]
    return ["", "the slowest tests"] + ["%8.1f  %s (%s)" % (seconds, name, preset)
                                        for seconds, preset, name in sorted(every, reverse=True)[:SLOWEST]]


def report(folder):
    presets = {path.stem: read_tests(path) for path in sorted(folder.glob("*.xml"))}
    return table_of_steps(read_steps(folder)) + table_of_labels(presets) + table_of_slowest(presets)


class SelfTest(unittest.TestCase):
    def test_table(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "steps").write_text("60\tset-up\n120\ttests of release\n")
            (folder / "release.xml").write_text(
                '<testsuite><testcase name="bits" time="2.5" status="run"/>'
                '<testcase name="gpu_ops" time="0" status="notrun"/>'
                '<testcase name="plain" time="1.5" status="run"/></testsuite>')
            (folder / "release.json").write_text(json.dumps({"tests": [
                {"name": "bits", "properties": [{"name": "LABELS", "value": ["pipeline", "threads"]}]},
                {"name": "gpu_ops", "properties": []}, {"name": "plain", "properties": []}]}))
            text = "\n".join(report(folder))
        self.assertIn("     180  all steps (3.0 minutes)", text)
        self.assertRegex(text, r"preset +none +pipeline +all +tests")
        self.assertRegex(text, r"release +2 +2 +4 +2")
        self.assertIn("     2.5  bits (release)", text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        unittest.main(argv=sys.argv[:1])
    elif len(sys.argv) == 2 and os.path.isdir(sys.argv[1]):
        print("\n".join(report(pathlib.Path(sys.argv[1]))))
    else:
        sys.exit(__doc__)
