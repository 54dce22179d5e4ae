"""Whether the numbers of a sentence stand in the figures of the runs, for tests."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts"))
from timelines.sentence import ms, times  # noqa: E402


def numbers(value):
    """All numbers in nested dicts and lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for it in value for number in numbers(it)]
    return [value] if isinstance(value, (int, float)) else []


def unknown_numbers(text, runs):
    """The numbers of the text that are no figure as the sentences write it, and no ratio of two steps."""
    found = [number for run in runs for number in numbers(run)]
    known = {form for number in found for form in (ms(number), times(number), f"{100 * number:.0f}")}
    known |= {times(a["step_ms"] / b["step_ms"]) for a in runs for b in runs}
    known |= {str(i) for i in range(len(runs[0]["workers"]))}  # numbers of workers and stages
    return [number for number in re.findall(r"\d+(?:\.\d+)?", re.sub(r"cpu:\d+|layer \S+", "", text)) if number not in known]
