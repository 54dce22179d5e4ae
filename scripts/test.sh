#!/usr/bin/env bash
# Installs what is missing, builds the release preset with all tests (warnings are errors) and runs them. Arguments go to
# ctest: scripts/test.sh -L pipeline
#
# Open MPI and Chromium are installed too, so that their tests run. If that needs a password, or fails, these tests are skipped.
# ctest's summary comes last. Before it stands what was skipped, why, and what brings it.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --tests
cmake --preset release
cmake --build --preset release

# ctest's log has what each test printed; a test that is skipped says why.
skipped() {
    awk '/^[0-9]+\/[0-9]+ Testing: / { said = 0 }
         /^skipped: / && !said { said = 1; tests[substr($0, 10)]++ }
         END { for (why in tests) printf("skipped %d test%s: %s\n", tests[why], (tests[why] > 1 ? "s" : ""), why) }' \
        build/Testing/Temporary/LastTest.log | sort
}

summary=$(mktemp)
trap 'rm -f "$summary"' EXIT
status=0
ctest --preset release "$@" </dev/null |
    awk -v summary="$summary" '/^[0-9]+% tests passed/ { ends = 1 } ends { print >summary; next } { print; fflush() }' ||
    status=$?
if [ -s "$summary" ]; then
    echo
    why=$(skipped)
    echo "$why"
    case $why in *MPI* | *mpirun* | *browser*)
        echo "Open MPI and Chromium come with: scripts/setup.sh --tests (as root, or with sudo)" ;;
    esac
    case $why in *CUDA* | *GPU* | *driver*) echo "A GPU and the CUDA toolkit: docs/gpu.md" ;; esac
    echo
    cat "$summary"
fi
exit "$status"
