#!/usr/bin/env bash
# gpipe-train ($GPIPE_PROGRAM, or build/gpipe-train) with a GPU wherever it is asked for the CPU, or for nothing: what tests
# of the program are given to try it on one. Arguments are the program's.
set -euo pipefail
program=${GPIPE_PROGRAM:-$(dirname "$0")/../build/gpipe-train}
words=() devices=
for word in "$@"; do
    case $word in pipeline*) word=${word//cpu/cuda:0} ;; esac
    case $word in pipeline.devices=* | pipeline=*devices*) devices=given ;; esac
    words+=("$word")
done
[ -n "$devices" ] || words=(--set 'pipeline.devices=[cuda:0, cuda:0]' "${words[@]}")
exec "$program" "${words[@]}"
