#!/bin/sh
# Makes data/digits/{train,eval}.safetensors: UCI's 1,797 optical digits (E. Alpaydin, C. Kaynak; CC BY 4.0), 8x8 grey.
# They come out of scikit-learn's wheel on PyPI (10 MB), of which one file is taken; nothing is installed. Does nothing
# where the files are there already. Usage: fetch-digits.sh [FOLDER]
set -eu

scripts=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$scripts/../data/digits}

if python3 "$scripts/digits.py" --check "$folder"; then
    echo "$folder: the digits are there already"
    exit 0
fi

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "fetch-digits.sh: $1" >&2
    exit 1
}

# Before the download, so that nothing is fetched in vain.
mkdir -p "$folder" 2> "$temporary/log" && [ -w "$folder" ] ||
    fail "cannot write into $folder: name another folder, as in fetch-digits.sh data/digits"

python3 -m pip --version > "$temporary/log" 2>&1 ||
    fail "python3 -m pip does not run: install pip (Debian: apt-get install python3-pip)"

# One wheel for every machine, so that one checksum holds: it is opened, never run.
cat > "$temporary/requirements.txt" << 'REQUIREMENTS'
scikit-learn==1.7.2 --hash=sha256:89877e19a80c7b11a2891a27c21c4894fb18e2c2e077815bcade10d34287b20d
REQUIREMENTS
echo "fetching scikit-learn's wheel from PyPI (10 MB) for the digits in it"
if ! python3 -m pip --disable-pip-version-check download --quiet --retries 2 --timeout 20 --no-deps \
    --only-binary=:all: --platform manylinux2014_x86_64 --python-version 3.11 --implementation cp --abi cp311 \
    --require-hashes -r "$temporary/requirements.txt" -d "$temporary" > "$temporary/log" 2>&1; then
    tail -n 5 "$temporary/log" >&2
    fail "the wheel could not be downloaded (is there a network?); nothing was written, run it again"
fi

python3 "$scripts/digits.py" "$temporary"/scikit_learn-*.whl "$folder"
python3 "$scripts/digits.py" --check "$folder" || fail "$folder: the files do not have the checksums that they should"
