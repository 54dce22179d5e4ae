#!/usr/bin/env bash
# A machine where nothing is installed: a Debian 12 root below FOLDER, with a clone of this checkout in it. Needs root.
#
#   scripts/fresh-root.sh make FOLDER               makes it, or makes it again
#   scripts/fresh-root.sh run FOLDER COMMAND...     runs a command there, in the clone
#   scripts/fresh-root.sh run --user FOLDER COMMAND...  as a user who is not root and has no sudo
#
# debootstrap takes Debian's minimal set of packages. Of this machine the root has mirrors and proxies of apt and pip, certificates,
# DNS, downloaded packages and the data of tests, but no program. The clone has the last commit.
# Mounts belong to a namespace of the command: they end with it, and so does each process that it leaves.
# Exit status 3 of make: this machine cannot make such a root; the last line says why.
set -euo pipefail

release=bookworm
clone=/work/gpipe # within the root
source=$(cd "$(dirname "$0")/.." && pwd)
packages=/var/cache/apt/archives

lack() {
    printf 'fresh-root: no fresh root: %s\n' "$*" >&2
    exit 3
}

# The mirrors of Debian that apt uses here: "URI SUITE COMPONENT" in each line.
mirrors() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
        grep -E " $release(-updates|-security)? main\$" | sort -u
}

write_settings() {
    local root=$1 path
    sed 's/^/deb /' <<<"$found" >"$root/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(https?|ftp|Check-|Languages)' >"$root/etc/apt/apt.conf.d/90machine" || true
    # Nobody needs this root after a power cut.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    for path in /etc/pip.conf /usr/local/share/ca-certificates /opt/wheels; do
        [ ! -e "$path" ] || { mkdir -p "$root${path%/*}" && cp -rL "$path" "$root$path"; }
    done
}

make() {
    local folder=$1 root=$1/root found
    [ "$(id -u)" = 0 ] || lack "only root can make one"
    command -v debootstrap >/dev/null || lack "debootstrap is not installed (scripts/setup.sh --ci)"
    unshare --mount --pid --fork --kill-child true 2>/dev/null || lack "this machine has no namespaces of mounts and processes"
    found=$(mirrors || true)
    [ -n "$found" ] || { apt-get -q update >/dev/null && found=$(mirrors || true); }
    [ -n "$found" ] || lack "apt has no mirror of Debian 12 here"
    # Mirrors fail now and then: twice, then give up. That is a failure, and no lack of this machine.
    local attempt
    for attempt in 1 2; do
        rm -rf "$folder"
        mkdir -p "$root" "$packages"
        debootstrap --variant=minbase --cache-dir="$packages" "$release" "$root" \
            "$(grep -m 1 " $release " <<<"$found" | cut -d ' ' -f 1)" >"$folder/log" 2>&1 && break
        tail -n 20 "$folder/log" >&2
        [ "$attempt" = 1 ] || { echo "fresh-root: debootstrap failed twice (the end of its output is above)" >&2 && exit 1; }
    done
    write_settings "$root"
    mkdir -p "$root${clone%/*}"
    git -c advice.detachedHead=false clone --quiet --no-hardlinks "$source" "$root$clone"
    [ -z "$(git -C "$source" status --porcelain)" ] || echo "fresh-root: what is not committed is not in the clone"
    chroot "$root" useradd --create-home --shell /bin/bash tester
    echo "fresh-root: $root has Debian $(cat "$root/etc/debian_version") with $(ls "$root/var/lib/dpkg/info" | grep -c '\.list$') packages"
}

# In the new namespaces. The packages are shared, so that none is downloaded twice.
enter() {
    local root=$1 user=$2 data=${GPIPE_TEST_DATA:-$source/../shared/data}
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount --bind "$packages" "$root$packages"
    if [ -d "$data" ]; then
        mkdir -p "$root/work/shared/data"
        mount --bind -o ro "$data" "$root/work/shared/data"
    fi
    local name variables=()
    while IFS= read -r name; do variables+=("$name=${!name}"); done < <(compgen -e | grep -E \
        '^(CI|TERM|PIP_.*|[a-zA-Z]+_(proxy|PROXY)|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(CTEST|CMAKE_BUILD)_PARALLEL_LEVEL|GPIPE_TEST_(SIZE|SEED))$')
    exec chroot --userspec="$user" "$root" /usr/bin/env -i HOME="$([ "$user" = root ] && echo /root || echo "/home/$user")" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${variables[@]}" \
        /bin/bash -c 'cd "$0" && exec "$@"' "$clone" "$@"
}

case ${1-} in
make) make "${2:?a folder}" ;;
run)
    shift
    user=root
    if [ "$1" = --user ]; then
        user=tester
        shift
        chroot "$1/root" chown -R tester: "$clone"
    fi
    root=$(cd "$1/root" && pwd)
    shift
    # This script again, as the first process of the namespaces.
    exec unshare --mount --pid --fork --kill-child --propagation private "$0" enter "$root" "$user" "$@"
    ;;
enter)
    shift
    enter "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
