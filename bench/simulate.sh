#!/bin/sh
# Measures gpipe-balance --simulate for 1,024 stages and 4,096 micro-batches, by schedule: processor time, wall time and memory.
# bench/simulate.sh [build/gpipe-balance]
set -eu
program=${1:-build/gpipe-balance}
file=$(mktemp)
trap 'rm -f "$file"' EXIT
for schedule in gpipe 1f1b '{interleaved: {chunks: 2}}' zb_h1 zb_h2 zb_v; do
    devices=1024
    case $schedule in *interleaved* | zb_v) devices=512 ;; esac
    printf '{schedule: %s, stages: %d, micro_batches: 4096, forward: 18.522, backward_input: 18.086, backward_weight: 9.337, %s}\n' \
        "$schedule" "$devices" "copy: 0.601" >"$file"
    /usr/bin/time -f "%U s user, %S s system, %e s, %M KiB  $schedule" "$program" --simulate "$file" >/dev/null
done
