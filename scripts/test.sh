#!/usr/bin/env bash
# Installs what is missing, builds the release preset with all tests (warnings are errors) and runs them. ctest's summary
# comes last. Arguments go to ctest: scripts/test.sh -L pipeline
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake --preset release
cmake --build --preset release
ctest --preset release "$@" </dev/null
