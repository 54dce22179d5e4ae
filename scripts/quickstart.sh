#!/usr/bin/env bash
# From a fresh Debian 12 to a network that reads handwritten digits, in minutes: installs what is missing, builds,
# fetches UCI's 1,797 digits, trains on four of every five through two pipeline stages, and evaluates on the fifth.
# Can be run again; the run folder is runs/digits.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# What a step says is shown where it fails.
quietly() {
    "$@" >"$log" 2>&1 </dev/null && return
    local status=$?
    cat "$log" >&2
    printf 'quickstart: the command "%s" failed; its output is above\n' "$*" >&2
    exit "$status"
}

echo "== 1/4 set-up"
scripts/setup.sh
echo "== 2/4 build (build/)"
quietly cmake --preset release
quietly cmake --build --preset release --target gpipe-train gpipe-balance
echo "== 3/4 data (data/digits/)"
scripts/fetch-digits.sh data/digits
echo "== 4/4 training: build/gpipe-train -o runs/digits --force configs/digits.yaml"
build/gpipe-train -o runs/digits --force configs/digits.yaml

accuracy=$(sed -n 's/.*"event": *"eval".*"accuracy": *\([0-9.]*\).*/\1/p' runs/digits/metrics.jsonl | tail -n 1)
awk -v accuracy="$accuracy" 'BEGIN {
    printf "\n%.1f %% of the held-out digits are read right.\n", 100 * accuracy
    exit !(accuracy >= 0.98)
}' || { echo "quickstart: this run should read at least 98 % of the digits right" >&2 && exit 1; }
cat <<'TEXT'
The run folder runs/digits has metrics.jsonl (loss and time of each step), model.safetensors (the model after the last
step), best.safetensors (the model of the best evaluation) and config.yaml, which repeats the run to the bit.

What to try next:
  build/gpipe-train --plan configs/digits.yaml
      prints the two stages, what is copied between them, the memory of each to the byte, and the predicted time of a step
  build/gpipe-train -o runs/cut --force --set 'pipeline.balance=[7, 7]' configs/digits.yaml
      cuts the network after layer 7. The model is the same to the bit:
      cmp runs/digits/model.safetensors runs/cut/model.safetensors
  build/gpipe-train -o runs/three --force --set 'pipeline.devices=[cpu, cpu, cpu]' --set pipeline.checkpoint=never \
      configs/digits.yaml
      trains with three stages and without recomputation. The model is the same again
  build/gpipe-train -q -o runs/fast --force --set optimizer.sgd.lr=0.2 configs/digits.yaml
  scripts/report.py runs/digits runs/fast
      trains with a larger learning rate, prints what came of both runs, and writes a page with their curves: report.html
      (installed, the program is gpipe-report)
  build/gpipe-train --predict y.safetensors --weights runs/digits/best.safetensors configs/digits.yaml
      writes what the best model predicts for the held-out digits
  build/gpipe-train configs/mnist.yaml
      trains on MNIST. First put its four files into data/mnist/: train-images-idx3-ubyte.gz,
      train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz
  docs/tutorial.md
      trains a network of your own on data of your own; docs/configuration.md lists every key
TEXT
