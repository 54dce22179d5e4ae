#!/usr/bin/env bash
# Runs the tests that plan memory or compare numbers (label `machine`) once for each instruction set. oneDNN chooses formats
# and scratchpads by the instruction set, and no test may depend on them. Prints one line per set: passed, FAILED, or skipped
# and why. Exit status 1 if a test failed.
#
#   scripts/test-isa.sh                         all of SSE41 AVX2 AVX512_CORE unset formats
#   scripts/test-isa.sh SSE41 AVX2              these
#   scripts/test-isa.sh --build DIR SSE41       the tests of another build than build/
#   scripts/test-isa.sh --self-test             checks this script itself
#
# unset: all instructions of the processor. formats: the library of tests/machine, which makes oneDNN choose weights in blocks of
# 16 channels and larger scratchpads, as it does with AVX-512, on any processor. It goes with AVX2 at most, so that it asks the
# same of every processor.
set -euo pipefail
cd "$(dirname "$0")/.."

cpuinfo=${GP_CPUINFO:-/proc/cpuinfo} # another one in the self-test
build=build
log=$(mktemp)
trap 'rm -f "$log"' EXIT

has() {
    local flag
    for flag in "$@"; do grep -qw "$flag" "$cpuinfo" || return 1; done
}

has_set() {
    case $1 in
    SSE41) has sse4_1 ;;
    AVX2) has avx2 ;;
    AVX512_CORE) has avx512f avx512cd avx512bw avx512dq avx512vl ;;
    esac
}

failed=0
run() {
    local set=$1 start=$SECONDS
    shift
    if env "$@" ctest --test-dir "$build" -L '^machine$' --no-tests=error --output-on-failure </dev/null >"$log" 2>&1; then
        printf '%-12s passed in %d s\n' "$set" $((SECONDS - start))
    else
        cat "$log"
        printf '%-12s FAILED\n' "$set"
        failed=1
    fi
}

run_set() {
    local library=$build/tests/libgp_other_machine.so
    case $1 in
    SSE41 | AVX2 | AVX512_CORE)
        if ! has_set "$1"; then
            printf '%-12s skipped: this processor has no %s\n' "$1" "$1"
        elif [ "$1" = AVX2 ] && ! has avx512f; then
            printf '%-12s skipped: this processor has AVX2 at most, as with unset\n' "$1"
        else
            run "$1" ONEDNN_MAX_CPU_ISA="$1"
        fi
        ;;
    unset) run unset -u ONEDNN_MAX_CPU_ISA ;;
    formats)
        if [ -f "$library" ]; then
            run formats ONEDNN_MAX_CPU_ISA=AVX2 LD_PRELOAD="$PWD/$library" GP_MACHINE_WEIGHTS=16 GP_MACHINE_SCRATCHPAD=200000
        else
            printf '%-12s skipped: no %s; a build with sanitizers has none\n' formats "$library"
        fi
        ;;
    *)
        printf 'test-isa: unknown set %s; known sets are SSE41, AVX2, AVX512_CORE, unset and formats\n' "$1" >&2
        exit 2
        ;;
    esac
}

# A ctest that fails with one set, on processors that have less or more than this one.
self_test() {
    local folder out status
    folder=$(mktemp -d)
    printf '#!/bin/sh\n[ "${ONEDNN_MAX_CPU_ISA-unset}" != "$BROKEN" ]\n' >"$folder/ctest"
    chmod +x "$folder/ctest"
    echo 'flags : sse4_1 avx2' >"$folder/small"
    echo 'flags : sse4_1 avx2 avx512f avx512cd avx512bw avx512dq avx512vl' >"$folder/large"
    check() { # processor, set that fails, expected status, expected lines
        status=0
        out=$(PATH=$folder:$PATH GP_CPUINFO=$folder/$1 BROKEN=$2 scripts/test-isa.sh SSE41 AVX2 AVX512_CORE unset |
            sed 's/ in [0-9]* s//; s/:.*//; s/  */ /') || status=$?
        if [ "$status" != "$3" ] || [ "$out" != "$4" ]; then
            printf 'test-isa: self-test: with %s and %s broken, the exit status is %s and the output is\n%s\n' "$1" "$2" "$status" "$out"
            exit 1
        fi
    }
    check small none 0 $'SSE41 passed\nAVX2 skipped\nAVX512_CORE skipped\nunset passed'
    check large none 0 $'SSE41 passed\nAVX2 passed\nAVX512_CORE passed\nunset passed'
    check small SSE41 1 $'SSE41 FAILED\nAVX2 skipped\nAVX512_CORE skipped\nunset passed'
    check small unset 1 $'SSE41 passed\nAVX2 skipped\nAVX512_CORE skipped\nunset FAILED'
    check large AVX512_CORE 1 $'SSE41 passed\nAVX2 passed\nAVX512_CORE FAILED\nunset passed'
    check small AVX512_CORE 0 $'SSE41 passed\nAVX2 skipped\nAVX512_CORE skipped\nunset passed'
    rm -rf "$folder"
    echo "test-isa: skips sets that the processor lacks, and fails if a set fails"
}

if [ "${1-}" = --self-test ]; then
    self_test
    exit
fi
if [ "${1-}" = --build ]; then
    build=$2
    shift 2
fi
[ $# -gt 0 ] || set -- SSE41 AVX2 AVX512_CORE unset formats
for name in "$@"; do run_set "$name"; done
exit $failed
