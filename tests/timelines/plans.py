"""A small plan, for tests. Two GPUs; each letter is 1 ms:

                          0         1
                          01234567890
    worker 0 computes     aabb.....cc      a: F s0 m0, b: F s0 m1, c: B s0 m0
      receives gradients  ........r..      r: recv s0 m0 e1
    worker 1 computes     ...eefff...      e: F s1 m0, f: B s1 m0
      receives            ..s........      s: recv s1 m0 e0

The step lasts 11 ms. Worker 0 computes 6 ms, copies 1 ms and is idle 4 ms; worker 1 computes 5 ms, copies 1 ms and is idle 5 ms.
"""
import copy


def instruction(name, start, end, queue=0, waits=(), alive=0, **more):
    parts = name.split()
    return {"name": name, "op": parts[0], "stage": int(parts[1][1:]), "micro": int(parts[2][1:]), "clock": 0, "queue": queue,
            "start_ms": float(start), "end_ms": float(end), "bytes_alive": alive, "waits": [list(it) for it in waits], **more}


PROGRAM = {
    "pass": "training", "samples": 8, "micro_batches": 2, "step_ms": 11.0, "bubble": 0.5,
    "workers": [
        {"busy_ms": 6.0, "copy_ms": 1.0, "instructions": [
            instruction("F s0 m0", 0, 2, alive=100), instruction("send s0 m0 e0", 2, 2, alive=100, edge=0, bytes=64),
            instruction("F s0 m1", 2, 4, alive=300), instruction("recv s0 m0 e1", 8, 9, 2, [(1, 3)], alive=200, edge=1, bytes=64),
            instruction("B s0 m0", 9, 11, 0, [(0, 3)], alive=50)]},
        {"busy_ms": 5.0, "copy_ms": 1.0, "instructions": [
            instruction("recv s1 m0 e0", 2, 3, 1, [(0, 1)], alive=10, edge=0, bytes=64),
            instruction("F s1 m0", 3, 5, 0, [(1, 0)], alive=40), instruction("B s1 m0", 5, 8, alive=70),
            instruction("send s1 m0 e1", 8, 8, alive=70, edge=1, bytes=64)]}]}


def plan(**changes):
    """The plan as an object; a new one each time."""
    return copy.deepcopy({
        "format": "gpipe-plan", "version": 1, "kind": "plan", "name": "small.yaml", "times": "counted", "source": "counted",
        "schedule": "gpipe", "lockstep": False, "processors": 0, "identity": "00000000000000aa",
        "layers": [{"name": "a", "kind": "linear", "stage": 0}, {"name": "b", "kind": "linear", "stage": 1}],
        "stages": [{"worker": 0, "first_layer": 0, "layers": 1}, {"worker": 1, "first_layer": 1, "layers": 1}],
        "workers": [{"name": "cuda:0", "device": "cuda", "stages": [0], "arena_bytes": 400},
                    {"name": "cuda:1", "device": "cuda", "stages": [1], "arena_bytes": 80}],
        "edges": [{"from": 0, "to": 1, "carries": "activation", "bytes": 64},
                  {"from": 1, "to": 0, "carries": "gradient", "bytes": 64}],
        "programs": [PROGRAM], **changes})


def run_of(program=0, step=3, at=0.0, scale=1.0):
    """Events of a run of the plan: each instruction when it was planned, times `scale`, from `at` on."""
    from traces import span, track

    events, lanes = [], {}
    for w, worker in enumerate(PROGRAM["workers"]):
        for q, lane in enumerate(("computes", "receives", "receives gradients")):
            lanes[w, q] = 1 + w + 2 * q
            events.append(track(lanes[w, q], f"worker {w} (cuda:{w}), stage {w}: {lane}"))
        for pc, it in enumerate(worker["instructions"]):
            more = {} if program is None else {"program": program}
            events.append(span(lanes[w, it["queue"]], it["name"], at + it["start_ms"] * scale, at + it["end_ms"] * scale, step, pc=pc,
                               **more))
    return events
