#!/usr/bin/env bash
# How much of src/ the tests go through: builds with gcc's --coverage (preset coverage), runs all tests, and prints lines
# and branches of each room. Arguments go to scripts/coverage.py, which says what is counted: --least 30, and
# --missing FILE… for the lines themselves.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset coverage >/dev/null
cmake --build --preset coverage -- --quiet
find build-coverage -name '*.gcda' -delete
ctest --preset coverage </dev/null
scripts/coverage.py build-coverage "$@"
