"""gpipe-train --check: the certificate of right plans, and the sentence for each of many that were spoilt.

Usage: test_check.py PROGRAM [unittest's arguments]
"""
import copy
import itertools
import json
import os
import re
import sys
import unittest

import test_cli

CONFIG = """\
model:
  input: {shape: [2, 8, 8]}
  layers:
    - conv: {out: 4, kernel: 3, pad: 1}
    - batch_norm: {sync: %s}
    - relu: {name: a}
    - conv: {out: 4, kernel: 3, pad: 1}
    - relu
    - conv: {out: 4, kernel: 3, pad: 1}
    - add: [a, -1]
    - flatten
    - linear: 3
  loss: cross_entropy
data:
  train: {synthetic: {samples: 64}}
  eval: {synthetic: {samples: 22}}
  batch: 22
pipeline:
  devices: [cpu, cpu, cpu]
  balance: [3, 2, 4]
  micro_batches: 4
  schedule: %s
  checkpoint: %s
  replicas: %s
optimizer: {sgd: {lr: 0.1}, clip_norm: 1}
train: {steps: 3}
"""


class Spoilt:
    """A plan, and what may be done to it. Waits go on naming the instructions that they named."""

    def __init__(self, plan, program=0):
        self.plan = copy.deepcopy(plan)
        self.program = self.plan["programs"][program]
        self.workers = [worker["instructions"] for worker in self.program["workers"]]

    def at(self, op, stage, micro=None, edge=None, collective=None):
        """(worker, pc) of an instruction."""
        for w, instrs in enumerate(self.workers):
            for pc, instr in enumerate(instrs):
                if (instr["op"], instr["stage"]) == (op, stage) and micro in (None, instr.get("micro")) and \
                        edge in (None, instr.get("edge")) and collective in (None, instr.get("collective")):
                    return w, pc
        raise KeyError((op, stage, micro, edge, collective))

    def instr(self, *what, **more):
        w, pc = self.at(*what, **more)
        return self.workers[w][pc]

    def edge(self, carries, start=None, to=None):
        for number, edge in enumerate(self.plan["edges"]):
            if edge["carries"] == carries and start in (None, edge["from"]) and to in (None, edge["to"]):
                return number
        raise KeyError((carries, start, to))

    def collective(self, kind, carries, stage=None):
        for number, its in enumerate(self.plan["collectives"]):
            if (its["kind"], its["carries"]) == (kind, carries) and stage in (None, *its["collectors"]):
                return number
        raise KeyError((kind, carries, stage))

    def renumber(self, worker, place):
        """`place`: new pc of each old one of the worker; None: it is gone."""
        for instr in itertools.chain(*self.workers):
            for key in ("waits", "host_waits"):
                if key in instr:
                    moved = [[w, place(pc)] if w == worker else [w, pc] for w, pc in instr[key]]
                    instr[key] = [wait for wait in moved if wait[1] is not None]

    def remove(self, *what, **more):
        w, pc = self.at(*what, **more)
        self.workers[w].pop(pc)
        self.renumber(w, lambda old: None if old == pc else old - (old > pc))

    def insert(self, worker, pc, instr):
        self.renumber(worker, lambda old: old + (old >= pc))
        self.workers[worker].insert(pc, instr)

    def twice(self, *what, **more):
        w, pc = self.at(*what, **more)
        self.insert(w, pc + 1, copy.deepcopy(self.workers[w][pc]))

    def move(self, what, before, behind=0):
        """An instruction to the place before another one of its worker; behind 1: to the one behind it."""
        (w, old), (_, new) = self.at(*what), self.at(*before)
        new += behind
        instr = self.workers[w].pop(old)
        self.workers[w].insert(new - (old < new), instr)
        order = list(range(len(self.workers[w])))
        order.insert(new - (old < new), order.pop(old))
        self.renumber(w, order.index)

    def exchange_slots(self, frame, stage, one, other):
        """All that uses the slot of micro-batch `one` uses that of `other`."""
        slot = self.instr("F" if frame != "gradient" else "B", stage, other)["slots"][frame]
        for instr in itertools.chain(*self.workers):
            if instr["stage"] == stage and instr.get("micro") == one and frame in instr.get("slots", {}):
                instr["slots"][frame] = slot


def key(path, value):
    """Sets plan[path[0]][path[1]]… to a value, or to what a function makes of the one that is there."""
    def spoil(its):
        at = its.plan
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value(at[path[-1]]) if callable(value) else value
    return spoil


def field(name, value, *what, **more):
    def spoil(its):
        its.instr(*what, **more)[name] = value
    return spoil


def layers_of(stage, first, count):
    def spoil(its):
        its.plan["stages"][stage]["first_layer"] += first
        its.plan["stages"][stage]["layers"] += count
    return spoil


def over(stage, one, other):
    """A buffer lies over another one."""
    def spoil(its):
        buffers = its.plan["stages"][stage]["buffers"]
        buffers[one]["offset"] = buffers[other]["offset"]
    return spoil


def crossing(its):
    """Each of two workers receives before it sends: PyTorch 172668."""
    back, forth = its.edge("gradient", 1, 0), its.edge("activation", 0, 1)
    its.move(("recv", 0, 0, back), ("send", 0, 0, forth))


def members(kind, carries, which, change):
    def spoil(its):
        change(its.plan["collectives"][its.collective(kind, carries)][which])
    return spoil


TRAINING = "training, 22 samples: "
WHERE = r"worker \d, instruction \d+ \([^)]+\): "
# Of one worker for each stage, 1f1b, except_last.
SINGLE = {
    "a layer stands on no stage (Megatron 1304)": (layers_of(1, 1, -1), "layer 3 stands on no stage"),
    "the last layer stands on no stage": (layers_of(2, 0, -1), r"layer .* \(8\) is said to be on stage 2, which has layers 5 to 7"),
    "a layer stands on two stages": (layers_of(1, -1, 1), "layer 2 stands on two stages: 1 is the second"),
    "a layer says another stage": (key(["layers", 0, "stage"], 1), r"layer \S+ \(0\) is said to be on stage 1, which has layers 3 to 4"),
    "a stage without a layer": (key(["stages", 1, "layers"], 0), "stage 1 has no layer"),
    "a stage on no worker": (key(["stages", 1, "worker"], 7), "stage 1 is on worker 7: there are 3 workers, counted from 0"),
    "an instruction on another worker": (field("stage", 1, "F", 0, 1),
                                         TRAINING + WHERE + "stage 1 is on worker 1"),
    "no forward": (lambda its: its.remove("F", 1, 2), TRAINING + r"stage 1: micro-batch 2 has no forward \(F\)"),
    "a second forward": (lambda its: its.twice("F", 1, 2), TRAINING + WHERE + r"is there a second time: the first is instruction \d+"),
    "no backward": (lambda its: its.remove("B", 0, 1), TRAINING + r"stage 0: micro-batch 1 has no backward \(B, or I and W\)"),
    "a gradient that is added twice": (lambda its: its.twice("B", 0, 1), TRAINING + WHERE + "is there a second time: .*"),
    "no recompute": (lambda its: its.remove("R", 0, 1), TRAINING + r"stage 0: micro-batch 1 is never recomputed \(R\), and its forward kept nothing"),
    "a recompute of what is kept": (field("keep", True, "F", 0, 1), TRAINING + WHERE + "recomputes what the forward has kept"),
    "a recompute after the backward": (lambda its: its.move(("R", 0, 0), ("B", 0, 0), 1),
                                       TRAINING + WHERE + r"may begin before worker 0, instruction \d+ \(R s0 m0\) has ended, and must not"),
    "nothing is loaded": (lambda its: its.remove("load", 0, 3), TRAINING + "stage 0: micro-batch 3 is never loaded"),
    "nothing is sent": (lambda its: its.remove("send", 0, 2, its.edge("activation", 0, 1)),
                        TRAINING + r"edge \d, from stage 0 to stage 1: micro-batch 2 is never sent"),
    "nothing is received": (lambda its: its.remove("recv", 2, 2, its.edge("skip")),
                            TRAINING + r"edge \d, from stage 0 to stage 2: micro-batch 2 is never received"),
    "a copy is sent twice": (lambda its: its.twice("send", 1, 1), TRAINING + WHERE + "is there a second time: .*"),
    "a copy goes the wrong way": (lambda its: its.instr("send", 0, 2, its.edge("activation", 0, 1)).update(edge=its.edge("gradient", 1, 0)),
                                  TRAINING + WHERE + r"edge \d goes from stage 1 to stage 0"),
    "a receive that does not wait": (field("waits", [], "recv", 1, 0, 0),
                                     TRAINING + WHERE + r"may begin before worker 0, instruction \d+ \(send s0 m0 e0\) has ended, and must not"),
    "a forward before its receive": (lambda its: its.move(("F", 1, 0), ("recv", 1, 0)),
                                     TRAINING + WHERE + r"may begin before worker 1, instruction \d+ \(recv s1 m0 e\d\) has ended, and must not"),
    "a send before its forward": (lambda its: its.move(("send", 0, 1), ("F", 0, 1)),
                                  TRAINING + WHERE + r"may begin before worker 0, instruction \d+ \(F s0 m1\) has ended, and must not"),
    "sends and receives that cross (PyTorch 172668)": (crossing, TRAINING + "no instruction can go on: worker 0, instruction .* waits for worker 1, .*"),
    "no step": (lambda its: its.remove("step", 1), TRAINING + "stage 1 never takes its step"),
    "a step before the last backward": (lambda its: its.move(("step", 1), ("B", 1, 3)),
                                        TRAINING + WHERE + r"may begin before worker 1, instruction \d+ \(B s1 m3\) has ended, and must not"),
    "no norm": (lambda its: its.remove("norm", 1), TRAINING + "stage 1 never finds the norm of its gradients"),
    "no clip": (lambda its: its.remove("clip", 2), TRAINING + r"stage 2 never finds the factor that clips \(clip\)"),
    "the norm before the last backward": (lambda its: its.move(("norm", 1), ("B", 1, 3)), TRAINING + WHERE + "may begin before .*"),
    "gradients that are overwritten": (field("first", True, "B", 1, 2), TRAINING + WHERE + r"overwrites gradients \(first\) to which others have been added"),
    "gradients of the step before are kept": (field("first", False, "B", 1, 0),
                                              TRAINING + WHERE + "adds to gradients that the step before has left: it has no flag first"),
    "gradients in another order": (lambda its: (its.instr("B", 2, 1).update(micro=2, name="B s2 m2"), its.twice("B", 2, 2))[0],
                                   TRAINING + ".*"),
    "a gradient that is summed where it should be averaged (DeepSpeed 7773)": (
        key(["programs", 0, "micro_batch_samples"], 22), TRAINING + "4 micro-batches of 22 samples, the last one of 4, do not make the "
        "mini-batch, by whose size gradients are divided"),
    "two inputs in one slot": (lambda its: its.exchange_slots("stash", 0, 1, 0),
                               TRAINING + WHERE + r"may write stash slot 0 while micro-batch \d still needs it: .*"),
    "two outputs in one slot": (lambda its: its.exchange_slots("outbox", 0, 1, 0), TRAINING + WHERE + "may write outbox slot 0 before worker .* has copied out of it"),
    "a slot that there is not": (lambda its: its.instr("F", 0, 0)["slots"].update(stash=50), TRAINING + WHERE + r"uses stash slot 50(: the stage has \d+|, but micro-batch 0 is in slot \d+)"),
    "a backward of another slot": (lambda its: its.instr("B", 0, 1)["slots"].update(stash=0),
                                   TRAINING + WHERE + r"uses stash slot \d, but micro-batch 1 is in slot \d"),
    "no slot is named": (lambda its: its.instr("F", 1, 0).pop("slots"), TRAINING + WHERE + r"names no \S+ slot"),
    "two parameters on one address": (over(0, 3, 2), "worker 0: .* and .* lie on the same bytes, from [0-9]+ on"),
    "slots over parameters": (key(["stages", 0, "frames", "stash", "offset"], 0), "worker 0: .* lie on the same bytes, from 0 on"),
    "transients over slots": (key(["workers", 1, "transient", "offset"], lambda offset: offset - 128), "worker 1: .* and the transient area lie on the same bytes, from .*"),
    "an arena that is too small": (key(["workers", 2, "arena_bytes"], lambda bytes: bytes - 4096), "worker 2: the transients of evaluations end beyond the arena"),
    "too few bytes in use": (field("bytes_alive", 7, "F", 0, 0), TRAINING + WHERE + "is said to have 7 bytes in use, but what stays and all slots in use take [0-9]+"),
    "too many bytes in use": (field("bytes_alive", 1 << 40, "F", 0, 0), TRAINING + WHERE + "has [0-9]+ bytes in use, but the arena has [0-9]+"),
    "a part that is not posted": (lambda its: its.remove("post", 0), TRAINING + r"collective \d \(squares\): stage 0 never posts"),
    "a part that is not collected": (lambda its: its.remove("collect", 0), TRAINING + r"collective \d \(scalars\): stage 0 never collects"),
    "a part that is posted early": (lambda its: its.move(("post", 0), ("norm", 0)), TRAINING + WHERE + "may begin before .*"),
    "a stage that takes no part": (lambda its: its.instr("post", 0).update(collective=its.collective("broadcast", "scalars")),
                                   TRAINING + WHERE + r"stage 0 is none of those that post in collective \d"),
    "a barrier of one worker": (lambda its: its.insert(0, 0, {"op": "barrier", "stage": 0, "name": "barrier", "clock": 0, "queue": 0, "waits": []}),
                                TRAINING + "worker 1 has 0 barriers, but worker 0 has 1"),
    "far too many micro-batches": (key(["programs", 0, "micro_batches"], 60000), TRAINING + "[0-9]+ instructions are too few for 60000 micro-batches on 3 stages"),
    "a norm in an evaluation": (lambda its: its.plan["programs"][-1]["workers"][0]["instructions"].append(copy.deepcopy(its.instr("norm", 0))),
                                "evaluation, 22 samples: " + WHERE + "belongs to training"),
}
SINGLE.update({
    "an update that nobody shares": (lambda its: its.insert(0, its.at("step", 0)[1], {"op": "update", "stage": 0, "name": "update s0", "clock": 0, "queue": 0, "waits": []}),
                                     TRAINING + WHERE + "the stage shares its parameters with no other replica: they would be updated twice"),
    "a send of another frame": (field("keep", True, "send", 0, 1, None), TRAINING + WHERE + "(reads another frame than its forward pass .*|names no saved slot)"),
    "a flag where it means nothing": (field("keep", True, "norm", 0), TRAINING + WHERE + "cannot have the flag keep"),
    "a pass in another queue": (lambda its: [its.plan["workers"][0].update(device="cuda"), its.instr("R", 0, 0).update(queue=3)],
                                TRAINING + WHERE + "stands in queue 3, beside the passes of the worker"),
    "a norm that is missing on the others": (lambda its: its.plan["collectives"].pop(its.collective("gather", "squares")), r".*(collective|posts squares).*"),
    "a stage that receives nothing": (lambda its: [edge.update(carries="gradient") for edge in its.plan["edges"] if (edge["from"], edge["to"]) == (1, 2)],
                                      "stage 2 receives nothing from the stage before it"),
    "a stage that loads nothing": (lambda its: its.plan["stages"][0].pop("loads_read_by"), "stage 0 loads nothing: the first stage has the input, the last one the target"),
    "nobody reads what arrives": (lambda its: its.plan["edges"][0].update(read_by=[]), r"edge 0 brings stage \d what its forward pass \(F\) does not read"),
    "a slot of no bytes": (key(["stages", 1, "frames", "stash", "bytes"], 0), TRAINING + WHERE + "goes beyond the end of its stash slot of 0 bytes"),
    "an outbox that is too small": (key(["stages", 0, "frames", "outbox", "bytes"], lambda bytes: bytes // 2), TRAINING + WHERE + "sends more than its outbox slot of [0-9]+ bytes holds"),
    "no room for parameters": (lambda its: its.plan["stages"][1]["buffers"].clear(), "stage 1 has buffers of 0 bytes for [0-9]+ parameters"),
    "nobody reads what is loaded": (lambda its: its.plan["stages"][0].update(loads_read_by=["B"]), r"stage 0 loads what its forward pass \(F\) does not read"),
    "a load that is too large": (key(["stages", 0, "frames", "stash", "bytes"], lambda bytes: bytes // 2), TRAINING + WHERE + "goes beyond the end of its stash slot of [0-9]+ bytes"),
    "a first stage that is a replica": (lambda its: its.plan["stages"][0].update(replicas=2, replica=1), "stage 0 is replica 1 of stage 0, but does not follow replica 0 with its layers"),
    "a slot that is too small": (key(["stages", 1, "frames", "gradient", "bytes"], 128), TRAINING + WHERE + "goes beyond the end of its gradient slot of 128 bytes"),
    "less is sent than received": (field("bytes", 4, "send", 0, 0, 0), TRAINING + WHERE + "receives [0-9]+ bytes, but 4 are sent"),
    "transients of evaluations over parameters": (key(["workers", 1, "evaluation"], {"offset": 0, "bytes": 300}),
                                                  "worker 1: .* and the transients of evaluations lie on the same bytes"),
    "layers that are not there": (lambda its: its.plan["layers"].pop(4), r"layer \S+ has number 5 after 3: numbers rise one by one"),
    "a stage of too many layers": (key(["stages", 2, "layers"], 40), "there is no layer 9, which a stage has"),
    "micro-batches of other sizes": (lambda its: its.program.update(micro_batch_samples=7, last_samples=1), TRAINING + "4 micro-batches of 7 samples, .*"),
    "a wait for what has no name": (lambda its: its.plan["workers"][0].pop("device"), "worker 0: device: is missing, or no text"),
    "posts in another order": (lambda its: its.move(("post", 2, None, None, its.collective("broadcast", "scalars")), ("collect", 2)), TRAINING + ".*"),
})
# Halves of backward passes: zb_h1.
SPLIT = {
    "half of a backward is counted twice (PyTorch 180952)": (
        lambda its: its.insert(*its.at("I", 1, 2), {**copy.deepcopy(its.instr("I", 1, 2)), "op": "B", "name": "B s1 m2"}),
        TRAINING + WHERE + r"the micro-batch has also a backward in halves \(I, W\): its gradients would count twice"),
    "no half for weights": (lambda its: its.remove("W", 1, 2), TRAINING + r"stage 1: micro-batch 2 has no backward for weights \(W\): its gradients are not added"),
    "weights before inputs": (lambda its: its.move(("W", 1, 0), ("I", 1, 0)), TRAINING + WHERE + "may begin before .*"),
}
# Two replicas of each stage, batch norm synchronised.
REPLICAS = {
    "no sum of replicas": (lambda its: its.remove("reduce", 1), TRAINING + r"stage 1 never adds up the gradients that collective \d+ has brought \(reduce\)"),
    "a sum before the parts": (lambda its: its.move(("reduce", 1), ("collect", 1, None, None, its.collective("scatter", "gradients", 1))),
                               TRAINING + WHERE + "may begin before .*"),
    "a replica is left out": (members("scatter", "gradients", "contributors", lambda its: its.pop()), r"collective \d+ \(gradients\): stage 5 posts 0 times, and must once"),
    "a replica is missing": (key(["stages", 1, "replicas"], 3), "stage 1 is replica 1 of stage 0, but does not follow replica 0 with its layers"),
    "no total": (lambda its: its.remove("total", 4), TRAINING + r"stage 4 never adds up the loss \(total\)"),
    "passes of a group in another order": (lambda its: its.move(("F", 1, 1), ("F", 1, 0)),
                                           TRAINING + WHERE + "comes where stage 0, with which it synchronises batch norm, has F s0 m0"),
    "a sum that does not come back": (
        lambda its: [its.plan["collectives"][its.collective("exchange", "gradients")].update(carries="statistics")], "stage 4 posts gradients in 0 collectives, and must in 1"),
}


# Queues: what a GPU's thread waits for, and what it does not.
QUEUES = {
    "sends and receives that cross": (crossing, TRAINING + "no instruction can go on: worker 0, instruction .* waits for worker 1, .*"),
    "a load that comes after its reader": (lambda its: its.move(("load", 0, 1), ("F", 0, 1), 1),
                                           TRAINING + r"no instruction can go on: worker 0, instruction \d+ \(F s0 m1\) waits for worker 0, instruction \d+ \(load s0 m1\).*"),
    "a receive that comes after its reader": (lambda its: its.move(("recv", 1, 1), ("F", 1, 1), 1), TRAINING + "no instruction can go on: .*"),
    "a receive without a wait": (field("waits", [], "recv", 1, 2), TRAINING + WHERE + "may .*"),
}


class Check(test_cli.Group):
    def plan(self, schedule="1f1b", checkpoint="except_last", replicas=1, sync="false", more=()):
        self.write("c.yaml", CONFIG % (sync, schedule, checkpoint, replicas))
        return json.loads(self.expect(["--plan", "--json", *more, "c.yaml"], 0).out)

    def check(self, plan):
        with open(self.path("p.json"), "w") as file:
            json.dump(plan, file)
        return self.run_program("--check", "p.json")

    def refuses(self, plan, cases):
        right = self.check(plan)
        self.assertEqual((right.returncode, right.err), (0, ""))
        for name, (spoil, sentence) in cases.items():
            with self.subTest(name):
                its = Spoilt(plan)
                spoil(its)
                self.assertNotEqual(its.plan, plan)
                done = self.check(its.plan)
                self.assertEqual((done.returncode, done.out), (1, ""), done.err)
                self.assertRegex(done.err, r"\Agpipe-train: p\.json: (%s)\n\Z" % sentence)

    def test_spoilt_plans(self):
        self.refuses(self.plan(), SINGLE)

    def test_spoilt_halves(self):
        self.refuses(self.plan("zb_h1"), SPLIT)

    def test_spoilt_replicas(self):
        self.refuses(self.plan(replicas=2, sync="true"), REPLICAS)

    def test_spoilt_queues(self):
        gpus = ["--set", "pipeline.devices=[cuda:0, cuda:0, cuda:0]"]
        self.write("c.yaml", CONFIG % ("false", "1f1b", "except_last", 1))
        if self.run_program("--plan", *gpus, "c.yaml").returncode != 0:
            self.skipTest("built without CUDA")
        self.refuses(self.plan(more=gpus), QUEUES)

    def test_there_are_many(self):
        self.assertGreaterEqual(len(SINGLE) + len(SPLIT) + len(REPLICAS) + len(QUEUES), 30)

    def test_the_certificate(self):
        self.write("c.yaml", CONFIG % ("false", "gpipe", "except_last", 1))
        done = self.expect(["--check", "c.yaml"], 0)
        self.assertRegex(done.out, r"""\Achecked      c\.yaml: 3 programs, of which 2 train; 3 workers, \d+ instructions
layers       9, each on one of 3 stages
passes       \d+: each F, and in training each B, or I and W, once for each micro-batch and stage
copies       \d+, each sent once and received once
order        nothing is read before it is written
gradients    24 sums: each micro-batch once on each stage, in one order; the micro-batches add up to the mini-batch
slots        \d+ lives: no two in one slot at a time
memory       no buffer lies over another one
peak         worker 0 has at most [^\n]+ in use
             worker 1 has at most [^\n]+ in use
             worker 2 has at most [^\n]+ in use
deadlock     none
             none if links are first in, first out, and hold each message until the receiver's slot is free
             none if each send blocks its worker until the receive begins
\Z""")
        self.assertFalse(os.path.exists(self.path("runs")))
        with open(self.path("p.json"), "w") as file:
            file.write(self.expect(["--plan", "--json", "c.yaml"], 0).out)
        self.assertEqual(self.expect(["--check", "p.json"], 0).out, done.out)
        crossing = self.expect(["--check", "--set", "pipeline.schedule=1f1b", "c.yaml"], 0).out
        self.assertRegex(crossing, r"\n             one if each send blocks its worker until the receive begins\n"
                                   r"             \(no instruction can go on: worker 0, instruction \d+ \(send s0 [^\n]+\)\n\Z")

    def test_every_kind_of_plan(self):
        for schedule, checkpoint in itertools.product(("gpipe", "1f1b", "zb_h1", "zb_h2"), ("never", "always", "except_last")):
            for replicas, sync, more in ((1, "false", ()), (2, "true", ()), (2, "false", ("--set", "pipeline.shard_optimizer=true")),
                                         (4, "2", ("--set", "data.batch=5"))):
                self.write("c.yaml", CONFIG % (sync, schedule, checkpoint, replicas))
                self.expect(["--check", *more, "c.yaml"], 0)
        for schedule in ("{interleaved: {chunks: 2}}", "zb_v"):
            self.write("c.yaml", CONFIG.replace("  balance: [3, 2, 4]\n", "").replace("[cpu, cpu, cpu]", "[cpu, cpu]")
                       % ("true", schedule, "except_last", 2))
            self.expect(["--check", "c.yaml"], 0)
        self.write("c.yaml", CONFIG % ("false", "gpipe", "always", 1))
        self.expect(["--check", "--set", "pipeline.lockstep=true", "c.yaml"], 0)
        if self.run_program("--plan", "--set", "pipeline.devices=[cuda:0, cuda:0, cuda:0]", "c.yaml").returncode == 0:
            for schedule in ("gpipe", "1f1b", "zb_h1"):
                self.expect(["--check", "--set", "pipeline.devices=[cuda:0, cuda:0, cuda:0]", "--set", "pipeline.schedule=" + schedule, "c.yaml"], 0)

    def test_an_older_plan(self):
        """It has neither flags nor slots, buffers and members: what it does not show is said."""
        plan = self.plan()
        for stage in plan["stages"]:
            for name in ("number", "loads_read_by", "buffers", "frames"):
                stage.pop(name, None)
        for worker in plan["workers"]:
            for name in ("transient", "evaluation"):
                worker.pop(name)
        for its in plan["edges"]:
            its.pop("read_by")
        for its in plan["collectives"]:
            its.pop("contributors")
            its.pop("collectors")
        for program in plan["programs"]:
            for name in ("micro_batch_samples", "last_samples"):
                program.pop(name)
            for instr in itertools.chain(*(worker["instructions"] for worker in program["workers"])):
                for name in ("keep", "first", "slots"):
                    instr.pop(name, None)
        done = self.check(plan)
        self.assertEqual((done.returncode, done.err), (0, ""))
        self.assertIn("\nnot shown    flags, slots and buffers, and who takes part in collectives: the file is of an older version\n", done.out)
        its = Spoilt(plan)
        its.remove("B", 0, 1)
        self.assertEqual(self.check(its.plan).returncode, 1)

    def test_files_that_are_no_plan(self):
        plan = self.plan()
        for spoil, sentence in (
                (key(["kind"], "simulation"), "is the plan of a simulation, which has no memory: only plans of runs can be checked"),
                (lambda its: its.plan.update(left_out="3 instructions; gpipe-train --plan --json prints them"),
                 "the file leaves out its instructions: 3 instructions; gpipe-train --plan --json prints them"),
                (key(["stages"], {}), "stages: must be a list"),
                (key(["edges", 0, "to"], 77), "edge 0: to: is 77, but must be from 0 to 2"),
                (key(["programs", 0, "samples"], "x"), "program 0: samples: must be a whole number"),
                (field("op", "jump", "F", 0, 0), r'program 0, worker 0, instruction \d+: op: "jump" is not known to this version'),
                (field("micro", 4, "F", 0, 0), r"program 0, worker 0, instruction \d+: micro: is 4, but must be from 0 to 3"),
                (field("waits", [[0, 5000]], "F", 0, 0), "program 0: a wait names instruction 5000 of worker 0: there is none"),
                (field("waits", [[0]], "F", 0, 0), r"program 0, worker 0, instruction \d+: waits: must be pairs \[worker, instruction\]")):
            its = Spoilt(plan)
            spoil(its)
            done = self.check(its.plan)
            self.assertEqual((done.returncode, done.out), (1, ""))
            self.assertRegex(done.err, r"\Agpipe-train: p\.json: %s\n\Z" % sentence)
        text = json.dumps(plan)
        self.write("cut.json", text[:len(text) // 2])
        done = self.run_program("--check", "cut.json")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.err, r"\Agpipe-train: cut\.json:1:\d+: is no JSON: [^\n]+\n\Z")
        for beside in ("--plan", "--expand", "--resume"):
            done = self.run_program("--check", beside, "c.yaml")
            self.assertEqual((done.returncode, done.err), (2, "gpipe-train: --check and %s cannot be used together\n" % beside))

    def test_values_of_other_types(self):
        """Each value of a plan, replaced by others, gives a certificate or a sentence."""
        plan = self.plan("zb_h1", replicas=2)
        plan["programs"] = plan["programs"][:1]
        places = []

        def walk(at, path):
            for name, value in (at.items() if isinstance(at, dict) else enumerate(at)):
                places.append((*path, name))
                if isinstance(value, (dict, list)):
                    walk(value, (*path, name))
        walk(plan, ())
        for number, path in enumerate(places[::max(1, len(places) // 120)]):
            its = Spoilt(plan)
            key(list(path), [None, -1, 1 << 62, "x", [], {}, True, 0.5][number % 8])(its)
            done = self.check(its.plan)
            self.assertIn(done.returncode, (0, 1, 2) if path == ("format",) else (0, 1), (path, done.err))  # then it is a configuration
            if done.returncode == 1:
                self.assertRegex(done.err, r"\Agpipe-train: p\.json\S*: [^\n]+\n\Z")


if __name__ == "__main__":
    test_cli.PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
