#!/bin/sh
# Makes docs/pictures/report-light.png and report-dark.png, and prints what README shows: the quickstart's digits with two learning
# rates, trained by the program itself. Needs data/digits (scripts/fetch-digits.sh) and Chromium. scripts/report-pictures.sh [BUILD]
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "${1:-build}/gpipe-train") || exit
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME="$folder"
"$program" -q -o "$folder/runs/digits" configs/digits.yaml
"$program" -q -o "$folder/runs/fast" --set optimizer.sgd.lr=0.2 configs/digits.yaml
report=$PWD/scripts/report.py
(cd "$folder" && "$report" runs/digits runs/fast)
python3 -B - "$folder/report.html" <<'PYTHON'
import sys

sys.path.insert(0, "tests/timelines")
from browser import Browser

with Browser(width=1000, height=1100) as page:
    for theme in ("light", "dark"):
        page.emulate(dark=theme == "dark")
        page.open(sys.argv[1])
        bottom = page.evaluate("document.getElementById('chart-samples_per_second').getBoundingClientRect().bottom + scrollY + 16")
        page.screenshot("docs/pictures/report-%s.png" % theme, clip=(0, 0, 1000, bottom))
        if page.errors:
            sys.exit("report-pictures.sh: the page has errors: %s" % page.errors)
PYTHON
