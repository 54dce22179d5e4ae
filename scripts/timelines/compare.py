"""Runs beside one another: the figures of each, the sentence on top, and the tables. The first run is the one to compare with."""
from .figures import figures
from .timeline import BadInput

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def compare(timelines, totals=False):
    """{"runs", "text", "tables"} of the timelines. `totals`: their numbers of workers may differ."""
    check_workers(timelines, totals)
    runs = [figures(timeline) for timeline in timelines]
    return {"runs": runs, "text": sentence(timelines, runs), "tables": {}}


def check_workers(timelines, totals):
    """Workers are compared one by one, so runs must have as many."""
    counts = [len(timeline.workers) for timeline in timelines]
    other = next((i for i, count in enumerate(counts) if count != counts[0]), None)
    if other is not None and not totals:
        raise BadInput(f"{timelines[0].name} has {counts[0]} workers and {timelines[other].name} has {counts[other]}, so they cannot "
                       "be compared worker by worker; add --totals to compare means over the workers")


def sentence(timelines, runs):
    """The sentence on top."""
    try:
        from .sentence import sentence as words
    except ImportError:  # until branch `cause` is merged
        return ""
    return words(runs)
