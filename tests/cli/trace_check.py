"""What must hold of a timeline that a run has written (--trace), whatever the run: arrows, layers and waits fit its instructions."""

import bisect
import json


def read_events(path):
    with open(path) as file:
        return json.load(file)["traceEvents"]


def check(test, path, seconds):
    """Each arrow has two ends, in one mini-batch's step, and leads forward; each layer lies within its instruction; nothing lasts longer
    than the run, which took so many seconds. Returns the microseconds of all waits, and of those without a cause."""
    events = read_events(path)
    work = [it for it in events if it["ph"] == "X" and it["cat"] in ("compute", "copy", "wait") and it["name"] != "wait" and "pc" in it["args"]]
    tracks, places = {}, {}
    for it in sorted(work, key=lambda it: it["ts"]):
        tracks.setdefault(it["tid"], []).append(it)
        places.setdefault(place_of(it), []).append(it)
    starts = {track: [it["ts"] for it in spans] for track, spans in tracks.items()}

    for it in events:
        if it["ph"] == "X":
            test.assertLessEqual(it["ts"] + it["dur"], seconds * 1e6, it)
            test.assertGreaterEqual(it["ts"], 0, it)
        if it["ph"] == "X" and it["cat"] == "layer":
            holders = [span for span in places.get(place_of(it), ())
                       if span["ts"] <= it["ts"] and it["ts"] + it["dur"] <= span["ts"] + span["dur"] + 0.0015]
            test.assertEqual(len(holders), 1, it)

    ends = {}
    for it in events:
        if it["ph"] in "sf":
            at = bisect.bisect_right(starts[it["tid"]], it["ts"]) - 1
            span = tracks[it["tid"]][at]
            test.assertLessEqual(it["ts"], span["ts"] + span["dur"], it)
            ends.setdefault(it["id"], []).append((it["ph"], it["ts"], span["args"]["step"], span["args"]["pass"], it["tid"]))
    for number, pair in ends.items():
        test.assertEqual(sorted(end[0] for end in pair), ["f", "s"], (number, pair))
        [arrives], [leaves] = [end for end in pair if end[0] == "f"], [end for end in pair if end[0] == "s"]
        test.assertEqual(arrives[2:4], leaves[2:4], pair)
        test.assertLessEqual(leaves[1], arrives[1], pair)

    # A wait for a message from another process is a wait for its send.
    processes = {it["tid"]: it["args"]["name"].rpartition(", process ")[2].partition(":")[0] for it in events
                 if it["ph"] == "M" and it["name"] == "thread_name" and ", process " in it["args"]["name"]}
    came = {(pair[0][4], pair[0][1]) if pair[0][0] == "f" else (pair[1][4], pair[1][1]) for pair in ends.values()
            if processes.get(pair[0][4]) != processes.get(pair[1][4])}
    for it in events:
        if it["ph"] == "X" and it["cat"] == "wait" and it["name"] == "wait" and any(
                abs(it["ts"] + it["dur"] - ts) < 0.002 for track, ts in came if track == it["tid"]):
            test.assertFalse(it["args"]["for"].startswith("nothing"), it)

    waits = [it for it in events if it["ph"] == "X" and it["cat"] == "wait" and "for" in it["args"]]
    return sum(it["dur"] for it in waits), sum(it["dur"] for it in waits if it["args"]["for"].startswith("nothing"))


def place_of(event):
    return event["tid"], event["args"]["pc"], event["args"]["step"], event["args"]["pass"]
