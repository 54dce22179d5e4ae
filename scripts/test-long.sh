#!/usr/bin/env bash
# The long tests at full size: hours on two cores. CI runs the same tests small.
#
#   scripts/test-long.sh [--seed S] [--build FOLDER] [NAME…]   the named ones, or all
#
#   sizes      every test of the release build that can run larger (tests/size.h)
#   calls      a failure of each call of a run that can fail
#   mutants    200,000 programs changed at random
#   kills      200 kills at random moments, and 200 runs for each fault of a system call
#   processes  50 processes of runs over MPI that are killed, stopped or told to end at random moments, and 600 runs over MPI
#              that are drawn at random
#   sanitized  all runs over MPI, with AddressSanitizer and with ThreadSanitizer; builds them (presets asan, tsan)
#   hosts      two network namespaces as two hosts, 1 Gbit/s and 1 ms: 50 times the link is cut, or a process is killed or
#              stopped (root)
#   fuzz       a million inputs for each fuzz target
#
# S is a number (default: today's date); it is printed. FOLDER has a release build (default: build/). The last lines are one
# per name. Exit status 1 if one failed.
set -uo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,19s/^# \{0,1\}//p' "$0"; }

names=() seed=$(date +%Y%m%d) build=build
while [ $# -gt 0 ]; do
    case "$1" in
    --seed) seed=${2:?--seed wants a number} && shift ;;
    --build) build=${2:?--build wants a folder} && shift ;;
    --help) usage && exit 0 ;;
    sizes | calls | mutants | kills | processes | sanitized | hosts | fuzz) names+=("$1") ;;
    *)
        printf 'test-long: unknown name "%s"; scripts/test-long.sh --help lists them\n' "$1" >&2
        exit 2
        ;;
    esac
    shift
done
[ ${#names[@]} -gt 0 ] || names=(sizes calls mutants kills processes sanitized hosts fuzz)
[ -x "$build/gpipe-train" ] || {
    printf 'test-long: %s/gpipe-train does not exist; build it first: cmake --preset release && cmake --build --preset release\n' "$build" >&2
    exit 2
}

sizes() {
    GPIPE_TEST_SIZE=large GPIPE_TEST_SEED=$seed ctest --test-dir "$build" --output-on-failure --timeout 36000 \
        -R '^(bits|delays|fuse|cuda_order|cuda_faults|cli_mnist|exponential)$'
}
calls() {
    "$build/tests/test_failing_reads" 1000000 && "$build/tests/test_failing_runs" 1000000
}
mutants() { "$build/tests/test_mutants" 200000 "$seed"; }
kills() {
    python3 -B tests/cli/test_kills.py "$build/gpipe-train" --faults "$build/tests/libgp_faults.so" --kills 200 --seed "$seed"
}
processes() {
    python3 -B tests/cli/test_processes.py "$build/gpipe-train" --hang "$build/tests/libgp_hang.so" \
        --faults "$build/tests/libgp_faults.so" --moments 50 --seed "$seed" --matrix 600 --matrix-seed "$seed"
}
sanitized() {
    local preset prefix=()
    # clang 14's runtime knows address spaces that are shuffled by 28 bits at most.
    if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]; then prefix=(setarch -R); fi
    for preset in asan tsan; do
        cmake --preset "$preset" >/dev/null && cmake --build --preset "$preset" --target gpipe-train -- --quiet || return 1
        ONEDNN_ITT_TASK_LEVEL=0 "${prefix[@]}" python3 -B tests/cli/test_processes.py "build-$preset/gpipe-train" \
            --seed "$seed" || return 1
    done
}
hosts() {
    python3 -B tests/cli/test_hosts.py "$build/gpipe-train" --moments 50 --seed "$seed" || [ $? = 77 ]
}
fuzz() { GPIPE_FUZZ_SEED=$seed scripts/fuzz.sh 1000000; }

echo "test-long: seed $seed"
failed=0 results=()
for name in "${names[@]}"; do
    start=$SECONDS
    if "$name"; then result=passed; else result=FAILED failed=1; fi
    results+=("$(printf '%-9s %s in %d s, seed %s' "$name" "$result" $((SECONDS - start)) "$seed")")
done
printf '%s\n' "${results[@]}"
exit $failed
