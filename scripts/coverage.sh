#!/usr/bin/env bash
# How much of src/ the tests go through: builds with gcc's --coverage and no optimisation (preset coverage), runs the
# tests, all but the long trainings, and prints lines and branches of each room. Arguments go to scripts/coverage.py,
# which says what is counted: --least 30. Afterwards, scripts/coverage.py build-coverage --missing src/base/status.c
# lists the lines themselves. Takes about eight minutes on two cores.
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
