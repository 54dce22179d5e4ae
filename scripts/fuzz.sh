#!/usr/bin/env bash
# Fuzzes the readers: builds the targets of tests/fuzz (preset fuzz), makes their seeds, and runs each.
#
#   scripts/fuzz.sh RUNS [TARGET…]   RUNS executions of each named target, or of all
#   scripts/fuzz.sh --table          the totals of all runs in the folder
#
# Corpora, logs and findings are in $GPIPE_FUZZ (build-fuzz/fuzzing); a run continues with the corpus of the run before it.
# The target timelines is no libFuzzer's: tests/timelines/test_mutants.py spoils files for gpipe-compare and gpipe-report, one for each
# 100 RUNS and 330 at least.
# Each input has 5 s (sanitizers cost five to ten times) and the process 512 MiB. Fails if it finds an input that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${GPIPE_FUZZ:-build-fuzz/fuzzing}
targets=(config program_text safetensors tensors idx snapshot profile splice claim guard handshake opening calls folder)

executions() { cat "$folder/$1"/log.* 2>/dev/null | awk '/^stat::number_of_executed_units:/ {all += $2} END {print all + 0}'; }

table() {
    local target found all=0
    printf '%-14s %14s %10s %10s\n' target executions corpus findings
    for target in "${targets[@]}"; do
        found=$(find "$folder/$target" -maxdepth 1 -name 'found-*' 2>/dev/null | wc -l)
        all=$((all + found))
        printf '%-14s %14s %10s %10s\n' "$target" "$(executions "$target")" \
            "$(find "$folder/$target/corpus" -type f 2>/dev/null | wc -l)" "$found"
    done
    return $((all > 0))
}

fuzz() {
    local target=$1 its=$folder/$1 log
    mkdir -p "$its/corpus"
    log=$(mktemp "$its/log.XXXXXX")
    "build-fuzz/tests/fuzz/fuzz_$target" -runs="$runs" -seed="${GPIPE_FUZZ_SEED:-1}" -timeout=5 -rss_limit_mb=512 \
        -max_len=4096 -dict="$its/dictionary" -artifact_prefix="$its/found-" -print_final_stats=1 -verbosity=0 \
        "$its/corpus" "$its/seeds" >"$log" 2>&1 && return
    tail -n 60 "$log" >&2
    echo "fuzz: $target: inputs that fail: $its" >&2
    return 1
}

if [ "${1-}" = --table ]; then
    table
    exit
fi
runs=${1:?scripts/fuzz.sh RUNS [TARGET…]}
shift
failed=0
mutants=$((runs / 100))
case " ${*:-timelines} " in *" timelines "*)
    tests/timelines/test_mutants.py $((mutants > 330 ? mutants : 330)) "${GPIPE_FUZZ_SEED:-1}" || failed=1
    ;;
esac
if [ $# -gt 0 ]; then
    targets=()
    for target in "$@"; do [ "$target" = timelines ] || targets+=("$target"); done
    [ ${#targets[@]} -gt 0 ] || exit $failed
fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -- --quiet
scripts/fuzz-seeds.py "$folder"
build-fuzz/tests/fuzz/seed_programs "$folder/program_text/seeds"
for target in "${targets[@]}"; do
    fuzz "$target" || failed=1
done
table || failed=1
exit $failed
