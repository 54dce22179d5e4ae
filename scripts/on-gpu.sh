#!/usr/bin/env bash
# Runs gpipe-train ($GPIPE_PROGRAM, or build/gpipe-train) on a GPU: replaces cpu in the options that set the pipeline, and
# adds two GPU stages if no option sets devices. Tests of the program use it in place of the program. Arguments are the
# program's.
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
