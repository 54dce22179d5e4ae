#!/usr/bin/env bash
# Shows that a change keeps every bit: trains some hundred small configurations with the programs of two commits, and
# compares models, best models, snapshots, predictions and losses (scripts/same-bits.py; docs/testing.md).
#
#   scripts/same-bits.sh                        the working tree against the last commit
#   scripts/same-bits.sh --old COMMIT           against this commit, which is built in a worktree under build-old/
#   scripts/same-bits.sh --old FOLDER           against programs that are built: FOLDER is a build folder
#   scripts/same-bits.sh --new FOLDER           these programs in place of the working tree's
#   scripts/same-bits.sh --quick                every sixth configuration, and no large models
#   scripts/same-bits.sh --text [--allow REGEX] also plans, simulations and written configurations; lines that match
#                                               --allow may differ. Lists arenas that grew
#   scripts/same-bits.sh training rows          these groups; --list names the groups
#   scripts/same-bits.sh --self-test            checks this script itself
#
# Exit status: 0 all are equal; 1 something differs; 2 the command line is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

old=HEAD new= words=()
while [ $# -gt 0 ]; do
    case $1 in
    --old | --new)
        [ $# -gt 1 ] || { printf 'same-bits: %s needs a value\n' "$1" >&2 && exit 2; }
        declare "${1#--}=$2"
        shift
        ;;
    -h | --help)
        sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
        exit
        ;;
    --list | --self-test) exec python3 -B scripts/same-bits.py "$1" ;;
    *) words+=("$1") ;;
    esac
    shift
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# build FOLDER: the programs of the sources there, in FOLDER/build.
build() {
    (cd "$1" && cmake --preset release && cmake --build --preset release --target gpipe-train gpipe-balance fill_weights train_on_host) \
        >"$log" 2>&1 && return
    cat "$log" >&2
    printf 'same-bits: the build of %s failed\n' "$1" >&2
    exit 1
}

if [ ! -x "$old/gpipe-train" ]; then
    commit=$(git rev-parse --verify --quiet "$old^{commit}") ||
        { printf 'same-bits: %s is neither a commit nor a folder with gpipe-train\n' "$old" >&2 && exit 2; }
    tree=$PWD/build-old/$commit
    if [ ! -d "$tree" ]; then
        git worktree prune
        git worktree add --quiet --detach "$tree" "$commit"
        [ ! -e .deps ] || ln -s "$PWD/.deps" "$tree/.deps"
    fi
    build "$tree"
    old=$tree/build
fi
if [ -z "$new" ]; then
    build .
    new=build
fi
python3 -B scripts/same-bits.py "$old" "$new" ${words[@]+"${words[@]}"}
