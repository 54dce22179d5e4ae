#!/usr/bin/env bash
# clang-tidy (14) over src/ with the checks of .clang-tidy, two files at a time; fails if it prints anything.
#
#   scripts/tidy.sh [FILE…]          the named files, or all of src/
#   GPIPE_TIDY=deep scripts/tidy.sh  the analyser follows calls: many times slower, and sees what cannot happen
set -euo pipefail
cd "$(dirname "$0")/.."

options=(-p build-clang --quiet)
if [ "${GPIPE_TIDY-}" != deep ]; then
    for word in -analyzer-config mode=shallow; do options+=("--extra-arg=-Xclang" "--extra-arg=$word"); done
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
[ $# -gt 0 ] || mapfile -t -d '' files < <(find src -name '*.c' -print0 | sort -z)
[ $# -eq 0 ] || files=("$@")
cmake --preset clang >/dev/null
# What it counts of headers that are not ours goes to the other stream.
printf '%s\0' "${files[@]}" | xargs -0 -P2 -n4 clang-tidy-14 "${options[@]}" >"$log" 2>/dev/null || {
    cat "$log"
    exit 1
}
echo "tidy: ${#files[@]} files are clean"
