#!/usr/bin/env bash
# Reports how much of src/ the tests run. Builds with gcc's --coverage and no optimisation (preset coverage), runs all tests
# but the long trainings, and prints lines and branches of each room. Arguments go to scripts/coverage.py (--least 30), which
# explains the figures. Afterwards, scripts/coverage.py build-coverage --missing src/base/status.c lists the lines of a file.
# Takes about eight minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset coverage >/dev/null
cmake --build --preset coverage -- --quiet
find build-coverage -name '*.gcda' -delete
# What the counters cannot write is not for standard error, which tests look at.
export GCOV_ERROR_FILE=/dev/null
ctest --preset coverage -LE training -j"${CTEST_PARALLEL_LEVEL:-2}" </dev/null || failed=1
scripts/coverage.py build-coverage "$@"
exit "${failed:-0}"
