#!/usr/bin/env bash
# Installs what is missing to build and test gpipe, and nothing else. Takes a second when nothing is missing.
#
#   scripts/setup.sh          what building and testing need
#   scripts/setup.sh --mpi    also Open MPI, for runs of several processes
#   scripts/setup.sh --tests  also what all tests need: Open MPI and Chromium
#   scripts/setup.sh --ci     also what .ci/run needs: Open MPI, clang, its sanitizers and fuzzer, clang-format, clang-tidy,
#                             debootstrap
#
# Without Open MPI or Chromium some tests are skipped: --tests goes on with a warning if it cannot install them.
# Debian packages come from apt-get (as root, or with sudo). If the system has no oneDNN 3, the script downloads it from
# PyPI, pinned by hash, into .deps/onednn of this checkout. docs/dependencies.md says what each package is used for.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
complain() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    complain "$@"
    exit 1
}

onednn_version=2023.2.0 # the wheels' number of oneDNN 3.2
onednn_folder=.deps/onednn
packages=(gcc g++ libc6-dev libgomp1 cmake ninja-build pkg-config python3
    libyaml-dev libjansson-dev zlib1g-dev libxxhash-dev libcmocka-dev)
ci_packages=(clang libclang-rt-14-dev clang-format clang-tidy)
mpi_packages=(libopenmpi-dev openmpi-bin)
optional_packages=() # one entry, several packages: all or none

for option in "$@"; do
    case "$option" in
    --mpi) packages+=("${mpi_packages[@]}") ;;
    --tests) optional_packages+=("${mpi_packages[*]}" chromium) ;;
    --ci) packages+=("${mpi_packages[@]}" "${ci_packages[@]}") optional_packages+=(debootstrap) ;;
    *) fail "unknown option $option; the options are --mpi, --tests and --ci" ;;
    esac
done

# ---- Debian packages --------------------------------------------------------------------------------------------------

is_installed() {
    dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi

# Mirrors fail now and then: three times, then give up. What apt says is shown where it did not help.
apt() {
    local attempt log
    log=$(mktemp)
    for attempt in 1 2 3; do
        if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
            -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
        [ "$attempt" = 3 ] || sleep $((attempt * 5))
    done
    cat "$log" >&2
    rm -f "$log"
    return 1
}

updated=
# Status 1, and a sentence: they could not be installed.
install_packages() {
    local package missing=()
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; then
        complain "installing packages needs root, and there is no sudo: run as root: apt-get install ${missing[*]}"
        return 1
    fi
    if [ "${as_root[*]}" = "sudo -n" ] && ! sudo -n true 2>/dev/null; then
        complain "installing packages needs root: run as root: apt-get install ${missing[*]}"
        return 1
    fi
    say "installing ${missing[*]}"
    if [ -z "$updated" ] && ! apt update; then
        complain "apt-get update failed three times (its output is above): check the network connection"
        return 1
    fi
    updated=yes
    apt install --no-install-recommends "${missing[@]}" && return 0
    complain "apt-get install failed three times (its output is above)"
    return 1
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    fail "this system has no apt-get: install the packages that docs/dependencies.md lists in another way, then build with cmake"
fi
# Another python3 than Debian's, before it on the path, brings its own pip.
python3 -c 'import pip' 2>/dev/null || packages+=(python3-pip)
install_packages "${packages[@]}" || exit 1

# For these no user is asked for a password.
if [ ${#as_root[@]} -gt 0 ]; then as_root=(sudo -n); fi
for names in ${optional_packages[@]+"${optional_packages[@]}"}; do
    # shellcheck disable=SC2086
    install_packages $names || say "warning: $names could not be installed; what needs them is left out"
done

# ---- oneDNN -----------------------------------------------------------------------------------------------------------

scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# Asks as cmake/Dependencies.cmake does.
system_has_onednn() {
    mkdir "$scratch/probe"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(probe C)' 'find_package(dnnl 3 REQUIRED CONFIG)' \
        >"$scratch/probe/CMakeLists.txt"
    cmake -S "$scratch/probe" -B "$scratch/probe/build" -G Ninja >/dev/null 2>&1
}

download_onednn() {
    printf '%s\n' \
        "onednn-cpu-gomp==$onednn_version --hash=sha256:2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb" \
        "onednn-devel-cpu-gomp==$onednn_version --hash=sha256:9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284" \
        >"$scratch/requirements.txt"
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --dest "$scratch/wheels" -r "$scratch/requirements.txt" </dev/null >"$scratch/log" 2>&1; then
        tail -n 3 "$scratch/log" >&2
        fail "pip could not download oneDNN $onednn_version from PyPI (the end of its output is above): check the network connection"
    fi
}

# Headers, the library (once: the wheel has three copies of it) and the licences. The folder appears whole or not at all.
unpack_onednn() {
    python3 - "$scratch" <<'PYTHON'
import pathlib, sys, zipfile

scratch = pathlib.Path(sys.argv[1])
wanted = {"include": "include", "lib/libdnnl.so.3": "lib/libdnnl.so.3", "share/doc/onednn": "doc"}
for wheel in sorted(scratch.glob("wheels/*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            inner = entry.filename.partition(".data/data/")[2]
            for source, target in wanted.items():
                if entry.is_dir() or (inner != source and not inner.startswith(source + "/")):
                    continue
                path = scratch / "onednn" / (target + inner[len(source):])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))
PYTHON
    local file
    for file in include/oneapi/dnnl/dnnl.h lib/libdnnl.so.3; do
        [ -f "$scratch/onednn/$file" ] || fail "the downloaded wheels of oneDNN $onednn_version lack $file"
    done
    echo "$onednn_version" >"$scratch/onednn/version"
    rm -rf "$onednn_folder"
    mv "$scratch/onednn" "$onednn_folder"
}

install_onednn() {
    [ "$(cat "$onednn_folder/version" 2>/dev/null)" != "$onednn_version" ] || return 0
    mkdir -p .deps
    scratch=$(mktemp -d .deps/new.XXXXXX)
    if system_has_onednn; then return 0; fi
    [ "$(uname -m)" = x86_64 ] ||
        fail "oneDNN 3 is not installed, and PyPI has it for x86_64 only, not for $(uname -m): build it from source, and name its folder with cmake -DGP_ONEDNN_DIR=FOLDER"
    say "installing oneDNN 3.2 into $onednn_folder"
    download_onednn
    unpack_onednn
}

install_onednn
say "everything that is needed is installed; build with: cmake --preset release && cmake --build --preset release"
