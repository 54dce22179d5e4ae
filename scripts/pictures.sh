#!/bin/sh
# Draws docs/pictures/: each schedule on the same small chain of layers, by the program itself, with a
# processor for each worker. scripts/pictures.sh [BUILD]
set -eu
cd "$(dirname "$0")/.."
program=${1:-build}/gpipe-train
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
{
    echo "model:"
    echo "  input: {shape: [256]}"
    echo "  layers:"
    for _ in $(seq 32); do echo "    - linear: {out: 256, bias: false}"; done
    echo "  loss: mse"
    echo "data: {batch: 4096, train: {synthetic: {samples: 4096}}}"
    echo "pipeline: {devices: [{cpu: {count: 4}}], micro_batches: 8, checkpoint: never, balance: [BALANCE]}"
    echo "optimizer: {sgd: {lr: 0.1}}"
    echo "train: {steps: 1}"
} >"$folder/chain.yaml"
draw() { # name, schedule, balance, more options
    name=$1 schedule=$2 balance=$3
    shift 3
    sed "s/BALANCE/$balance/" "$folder/chain.yaml" >"$folder/$name.yaml"
    XDG_CACHE_HOME=$folder "$program" --plan --processors 4 --svg "docs/pictures/$name.svg" --set "pipeline.schedule=$schedule" "$@" \
        "$folder/$name.yaml" >/dev/null
}
mkdir -p docs/pictures
draw gpipe gpipe "8, 8, 8, 8"
draw gpipe-checkpoints gpipe "8, 8, 8, 8" --set pipeline.checkpoint=always
draw 1f1b 1f1b "8, 8, 8, 8"
draw interleaved "{interleaved: {chunks: 2}}" "4, 4, 4, 4, 4, 4, 4, 4"
draw zb_h1 zb_h1 "8, 8, 8, 8"
draw zb_h2 zb_h2 "8, 8, 8, 8"
draw zb_v zb_v "4, 4, 4, 4, 4, 4, 4, 4"

# README's first example. Its data may be absent: as many generated samples stand for them.
XDG_CACHE_HOME=$folder "$program" --plan --processors 4 --svg docs/pictures/digits.svg \
    --set 'data.train={synthetic: {samples: 1438}}' --set 'data.eval={synthetic: {samples: 359}}' configs/digits.yaml >/dev/null
