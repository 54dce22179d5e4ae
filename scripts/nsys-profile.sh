#!/usr/bin/env bash
# Records a run of gpipe-train under NVIDIA's Nsight Systems, and exports the report to SQLite for gpipe-compare.
#
#   scripts/nsys-profile.sh [options] config.yaml [options of gpipe-train]
#
#   --steps A:B       capture steps A to B, then end the run (default: 3:6); "all" captures the whole run
#   -o NAME           write NAME.nsys-rep, NAME.sqlite and NAME.plan.json (default: the configuration's name)
#   --cpu-sampling    also sample what the processors do; it slows the run down
#   --force           replace files of an earlier capture
#   --help            print this text
#
# The run folder is NAME.run, unless the options of gpipe-train name one. $GPIPE_PROGRAM names the program; else it is
# build/gpipe-train, the one installed with this script, or the one in PATH.
# Exit status: 0 recorded; 1 nsys is missing, or the run failed; 2 wrong usage.
# docs/nsight.md has more.
set -uo pipefail

self=${BASH_SOURCE[0]}
here=$(cd "$(dirname "$self")" && pwd)

help() { sed -n '2,15s/^# \{0,1\}//p' "$self"; }
say() { printf 'nsys-profile: %s\n' "$*" >&2; }
refuse() {
    say "$@"
    exit 2
}
fail() {
    say "$@"
    exit 1
}

steps=3:6 name='' sampling='' force=''
while [ $# -gt 0 ]; do
    case $1 in
    --steps | -o) [ $# -ge 2 ] || refuse "option $1 needs a value: see --help" ;;&
    --steps) steps=$2 && shift ;;
    --steps=*) steps=${1#*=} ;;
    -o) name=$2 && shift ;;
    --cpu-sampling) sampling=yes ;;
    --force) force=yes ;;
    -h | --help) help && exit 0 ;;
    --) shift && break ;;
    -*) refuse "unknown option $1: options of gpipe-train follow the configuration; see --help" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || refuse "no configuration is given; usage: nsys-profile.sh [options] config.yaml [options of gpipe-train]"
config=$1
shift

if [ "$steps" != all ] && [[ ! $steps =~ ^[1-9][0-9]*(:[1-9][0-9]*)?$ ]]; then
    refuse "option --steps takes the first and the last step, as in 3:6, or \"all\", not \"$steps\""
fi
[ -f "$config" ] || refuse "$config: there is no such configuration"
if [ -z "$name" ]; then
    name=$(basename "$config")
    name=${name%.*}
fi
case $name in -* | '' | */) refuse "option -o needs the name of a file, not \"$name\"" ;; esac
for word in "$@"; do
    case $word in --capture-steps*) refuse "use --steps in place of --capture-steps" ;; esac
done

# ---- what the machine has -----------------------------------------------------------------------------------------------

find_nsys() {
    local folder
    if command -v nsys; then return; fi
    for folder in /usr/local/cuda/bin /opt/nvidia/nsight-systems/*/bin /opt/nvidia/nsight-systems-cli/*/bin; do
        if [ -x "$folder/nsys" ]; then
            printf '%s\n' "$folder/nsys"
            return
        fi
    done
    return 1
}

find_program() {
    if [ -n "${GPIPE_PROGRAM:-}" ]; then
        command -v "$GPIPE_PROGRAM"
    elif [ -x "$here/../build/gpipe-train" ]; then
        printf '%s\n' "$here/../build/gpipe-train"
    elif [ -x "$here/../../../bin/gpipe-train" ]; then # this script is installed in share/gpipe/scripts/
        printf '%s\n' "$here/../../../bin/gpipe-train"
    else
        command -v gpipe-train
    fi
}

nsys=$(find_nsys) || fail "nsys (NVIDIA Nsight Systems) is not there. It is in NVIDIA's packages nsight-systems-cli and" \
    "cuda-nsight-systems-13-0, in Debian's nsight-systems, and at https://developer.nvidia.com/nsight-systems/get-started"
program=$(find_program) || fail "gpipe-train is not there: build it, or name it with GPIPE_PROGRAM"

for file in "$name.nsys-rep" "$name.sqlite" "$name.plan.json"; do
    if [ -e "$file" ] && [ -z "$force" ]; then
        refuse "$file: is there already; choose another name with -o, or replace it with --force"
    fi
done
rm -f "$name.nsys-rep" "$name.sqlite" "$name.plan.json" || fail "$name: files of an earlier capture cannot be removed"

# ---- the plan -----------------------------------------------------------------------------------------------------------

# Only what changes the configuration: other options have no meaning for a plan.
settings=()
words=("$@")
has_folder=''
for ((i = 0; i < ${#words[@]}; i++)); do
    case ${words[i]} in
    --set) settings+=(--set "${words[i + 1]-}") && i=$((i + 1)) ;;
    --set=*) settings+=("${words[i]}") ;;
    -o | -o?* | --resume) has_folder=yes ;;
    esac
done
if ! "$program" --plan --json ${settings[@]+"${settings[@]}"} "$config" >"$name.plan.json" 2>/dev/null; then
    rm -f "$name.plan.json"
    say "this gpipe-train writes no plan as JSON, so nothing predicted will be beside the capture"
elif [ "$steps" != all ] && ! grep -qE '"device": *"cuda' "$name.plan.json"; then
    rm -f "$name.plan.json"
    refuse "$config: no stage is on a GPU, so there is nothing to capture: name GPUs with" \
        "--set 'pipeline.devices=[cuda:0]', or record a timeline with gpipe-train --trace"
fi

# ---- the run ------------------------------------------------------------------------------------------------------------

profile=(profile "--trace=cuda,nvtx,cudnn,cublas" --force-overwrite=true --output="$name")
if [ -n "$sampling" ]; then
    profile+=(--sample=process-tree --cpuctxsw=process-tree)
else
    profile+=(--sample=none --cpuctxsw=none)
fi
run=()
[ -n "$has_folder" ] || run+=(-o "$name.run")
[ -n "$has_folder" ] || [ -z "$force" ] || run+=(--force)
if [ "$steps" != all ]; then
    # The program calls cudaProfilerStart before the first of these steps and cudaProfilerStop after the last. Then nsys
    # sends SIGTERM, upon which the program saves and ends.
    profile+=(--capture-range=cudaProfilerApi --capture-range-end=stop-shutdown --kill=sigterm)
    run+=(--capture-steps "$steps")
fi
"$nsys" "${profile[@]}" "$program" ${run[@]+"${run[@]}"} "$@" "$config"
status=$?
if [ ! -e "$name.nsys-rep" ]; then
    fail "nsys wrote no $name.nsys-rep (exit status $status); the output of the run is above"
fi
# After the capture the run was ended on purpose, with 130 as it says or 143 as a shell says.
case $steps:$status in
all:0 | *:0 | [!a]*:130 | [!a]*:143) ;;
*) say "the run ended with exit status $status; its report is kept" ;;
esac
"$nsys" export --type sqlite --force-overwrite=true --output="$name.sqlite" "$name.nsys-rep" >/dev/null ||
    fail "nsys could not export $name.nsys-rep; its output is above"
[ -e "$name.sqlite" ] || fail "nsys export wrote no $name.sqlite"

compare=gpipe-compare
command -v gpipe-compare >/dev/null || compare=$here/compare-timelines.py
printf 'wrote %s\nnext: %q %q -o %q\n' "$name.sqlite" "$compare" "$name.sqlite" "$name.html"
