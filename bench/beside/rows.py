"""The rows of bench/peers.py: which processes each one starts, with which environment."""
import dataclasses
import json
import pathlib
import re
import shutil
import socket
import subprocess

from beside.networks import MICRO_BATCHES, NETWORKS, TINY, configuration

CHILD = pathlib.Path(__file__).resolve().parent / "torch_row.py"
TWO_STAGES = "{devices: [cpu, cpu], micro_batches: %d, " % MICRO_BATCHES
# malloc keeps what is freed, and takes blocks of every size from its heap.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
               "MALLOC_MMAP_MAX_": "0"}
# Open MPI refuses root, and more processes than it counts cores, if these do not say otherwise.
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    pipeline: str = ""  # of gpipe-train's configuration; empty: a row of PyTorch
    child: tuple = ()  # arguments of torch_row.py
    environment: tuple = ()  # pairs
    processes: int = 1


ROWS = {
    "ours_1x1": Row("gpipe-train, 1 stage x 1 thread", "{devices: [cpu]}"),
    "ours_1x2": Row("gpipe-train, 1 stage x 2 threads", "{devices: [{cpu: 2}]}"),
    "ours_never": Row("gpipe-train, 2 x 1, never", TWO_STAGES + "checkpoint: never}"),
    "ours_except_last": Row("gpipe-train, 2 x 1, except_last", TWO_STAGES + "checkpoint: except_last}"),
    "ours_1f1b": Row("gpipe-train, 2 x 1, 1f1b, never", TWO_STAGES + "schedule: 1f1b, checkpoint: never}"),
    "ours_replicas": Row("gpipe-train, 2 replicas x 1 thread", "{devices: [cpu], replicas: 2, checkpoint: never}"),
    "ours_replicas_mpi": Row("gpipe-train, 2 replicas, 2 processes", "{devices: [cpu], replicas: 2, checkpoint: never}", processes=2),
    "eager_1": Row("PyTorch eager, 1 thread", child=("eager", "1")),
    "eager_2": Row("PyTorch eager, 2 threads", child=("eager", "2")),
    "tuned_2": Row("PyTorch tuned, 2 threads", child=("fused", "2"), environment=tuple(KEEP_MEMORY.items())),
    "bf16_2": Row("PyTorch bf16, 2 threads", child=("bf16", "2")),
    "compile_2": Row("torch.compile, 2 threads", child=("compile", "2")),
    "torchgpipe_never": Row("torchgpipe, 2 stages, never", child=("torchgpipe", "never")),
    "torchgpipe_except_last": Row("torchgpipe, 2 stages, except_last", child=("torchgpipe", "except_last")),
    "ddp_2": Row("PyTorch DDP, gloo, 2 processes", child=("ddp",), processes=2),
    "pipelining_gpipe": Row("torch.distributed.pipelining, GPipe", child=("pipelining", "gpipe"), processes=2),
    "pipelining_1f1b": Row("torch.distributed.pipelining, 1F1B", child=("pipelining", "1f1b"), processes=2),
}


def compiler():
    return shutil.which("g++") or shutil.which("clang++")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Programs:
    """Commands of rows: gpipe-train, the environment's Python, and a folder for configurations, profiles and run folders."""

    def __init__(self, program, python, folder):
        self.program, self.python, self.folder, self.runs = program, python, pathlib.Path(folder), 0

    def config(self, network, row):
        path = self.folder / f"{network}-{row}.yaml"
        path.write_text(configuration(TINY if network == "tiny" else NETWORKS[network], ROWS[row].pipeline), encoding="utf-8")
        return path

    def commands(self, network, row):
        """Commands, additions to the environment, and the file that gets a line after each step."""
        self.runs += 1
        it, run = ROWS[row], self.folder / f"run-{self.runs}"
        if it.pipeline:
            command = [self.program, "-q", "-o", run, self.config(network, row)]
            if it.processes > 1:
                command = ["mpirun", "-np", str(it.processes), "--bind-to", "none", *command]
            # Profiles are kept in the folder: the first of the runs measures one, the others use it.
            return [command], {"XDG_CACHE_HOME": str(self.folder), **LAUNCHER}, run / "metrics.jsonl"
        command = [self.python, "-B", CHILD, f"{run}.jsonl", network, *it.child]
        if it.processes > 1:
            port = free_port()
            return [[*command, str(rank), str(port)] for rank in range(it.processes)], dict(it.environment), f"{run}.jsonl"
        return [command], dict(it.environment), f"{run}.jsonl"

    def planned(self, network, row):
        """Bytes of the plan: the arenas, and all of the run (None if the plan does not print it)."""
        config = self.config(network, row)
        plan = json.loads(self.output("--plan", "--json", config))
        text = re.search(r"all of the run.*\n\s+in bytes\s+(\d+)", self.output("--plan", config))
        return sum(worker["arena_bytes"] for worker in plan["workers"]), int(text[1]) if text else None

    def output(self, *arguments):
        return subprocess.run([self.program, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout

    def parameters(self):
        """{network: number of parameters} of ours, and of PyTorch's."""
        ours = {name: re.search(r"([\d,]+) parameters", self.output("--plan", self.config(name, "ours_1x1")))[1] for name in NETWORKS}
        theirs = subprocess.run([self.python, "-B", CHILD, "-", "tiny", "parameters"], stdout=subprocess.PIPE, text=True, check=True)
        return {name: int(number.replace(",", "")) for name, number in ours.items()}, json.loads(theirs.stdout)
