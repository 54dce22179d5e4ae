#!/usr/bin/env python3
"""Trains networks without convolutions and linear layers with each instruction set: the models must be equal to the byte.

Usage: test_loop_versions.py PROGRAM

oneDNN computes nothing here, so only the loops of the CPU device differ from set to set. oneDNN's own results may differ.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import surroundings  # noqa: F401

NETWORKS = {
    "batch norm": "batch_norm, relu, max_pool: 2, batch_norm, gelu, dropout: 0.2, avg_pool: 2, batch_norm, relu",
    "other norms": "instance_norm: {affine: true}, leaky_relu, max_pool: {kernel: 3, stride: 2, pad: 1}, group_norm: 2, silu, "
                   "upsample: 2, group_norm: 1, tanh",
}
OPTIMIZERS = {"batch norm": "sgd: {lr: 0.1, momentum: 0.9, weight_decay: 0.001}", "other norms": "adamw: {lr: 0.01}"}
SETS = ["SSE41", "AVX2", None]


def train(program, name, isa):
    environment = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
    if isa:
        environment["ONEDNN_MAX_CPU_ISA"] = isa
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "net.yaml"
        config.write_text(f"""
model:
  input: {{shape: [10, 12, 12]}}
  layers: [{NETWORKS[name]}, global_avg_pool, flatten]
  loss: cross_entropy
data: {{train: {{synthetic: {{samples: 96}}}}, batch: 24}}
pipeline: {{devices: [{{cpu: 2}}], micro_batches: 2}}
optimizer: {{{OPTIMIZERS[name]}, clip_norm: 1}}
train: {{steps: 12, save_every: never}}
""", encoding="utf-8")
        subprocess.run([program, "-q", "-o", f"{folder}/run", str(config)], check=True, env=environment)
        return {path.name: path.read_bytes() for path in pathlib.Path(folder, "run").rglob("*.safetensors")}


def main():
    program = sys.argv[1]
    for name in NETWORKS:
        models = {isa: train(program, name, isa) for isa in SETS}
        assert models["SSE41"], f"{name}: no model was written"
        for isa in SETS[1:]:
            assert models[isa] == models["SSE41"], f"{name}: {isa or 'all instructions'} gave other parameters than SSE41"
    print(f"test_loop_versions: {len(NETWORKS)} networks, the same parameters with {len(SETS)} instruction sets")


if __name__ == "__main__":
    main()
