#!/usr/bin/env bash
# Installs what is missing: a C compiler, the tools of the file systems, Rust. Says what it does; does nothing twice.
# --tests installs as well what the tests need (ground/needs), --mpi what `make mpi` needs. Other arguments are further
# packages (fio for the benchmark). Made for Debian and Ubuntu; elsewhere it says what to install.
set -euo pipefail

packages=()
need() { # program, file:path, glob:pattern of paths, lib:name of a shared library, or mpi: (C programs over MPI); package
    case "$1" in
    file:*) [ -e "${1#file:}" ] || packages+=("$2") ;;
    glob:*) compgen -G "${1#glob:}" >/dev/null || packages+=("$2") ;;
    # openmpi-bin brings mpicc, without the headers that it needs.
    mpi:) echo '#include <mpi.h>' | mpicc -E -x c - >/dev/null 2>&1 || packages+=("$2") ;;
    lib:*) [[ "$(PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null)" == *"${1#lib:}"* ]] || packages+=("$2") ;;
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || packages+=("$2") ;;
    esac
}
need cc gcc
need make make
need mkfs.ext4 e2fsprogs
need mkfs.xfs xfsprogs
need mkfs.btrfs btrfs-progs
need losetup mount
need blkid util-linux

# What tests start. A package that is named here belongs to a need of ground/needs, or to a program that
# systems/prefetch-preload/tests/programs.rs runs.
need_for_tests() {
    need git git
    need rsync rsync
    need sqlite3 sqlite3
    need /usr/lib/dovecot/imap dovecot-imapd
    need lib:librocksdb.so rocksdb-tools
    need python3 python3
    need perl perl
    need bzip2 bzip2
    need xz xz-utils
    need zstd zstd
    need openssl openssl
    need jq jq
    need ps procps
    need file file
    need curl curl
    need objdump binutils
    need redis-server redis-server
    need redis-benchmark redis-tools
    need strace strace
    need gdb gdb
    need stress-ng stress-ng
    need fio fio
    need runc runc
    need dbench dbench
    need mariadbd mariadb-server
    need file:/usr/lib/mysql/plugin/ha_rocksdb.so mariadb-plugin-rocksdb
    need file:/usr/lib/postgresql postgresql
    need sysbench sysbench
    need mpirun openmpi-bin
    need ip iproute2
    need chromium chromium
    need qemu-system-x86_64 qemu-system-x86
    need mkfs.f2fs f2fs-tools
    need sshfs sshfs
    need file:/usr/lib/openssh/sftp-server openssh-sftp-server
}
# What builds and runs ranks that speak through MPI (`make mpi`).
need_for_mpi() {
    need mpirun openmpi-bin
    need mpi: libopenmpi-dev
    need 'glob:/usr/lib/llvm-*/lib/clang/*/include/stddef.h' libclang-dev
}
for extra in "$@"; do
    case "$extra" in
    --tests) need_for_tests ;;
    --mpi) need_for_mpi ;;
    *) need "$extra" "$extra" ;;
    esac
done

root=()
if [ "$(id -u)" != 0 ]; then root=(sudo); fi

# Without root, tests run without these: they are listed as not run. Only what builds them must be there.
may_install() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || { [ -t 0 ] && command -v sudo >/dev/null 2>&1; }; }
if [ ${#packages[@]} -gt 0 ] && [[ "${1-}" = --tests || "${1-}" = --mpi ]] && command -v cc >/dev/null && ! may_install; then
    echo "setup: not root, and no sudo: tests that need ${packages[*]} will not run"
    packages=()
fi

# Some packages are servers: Debian would start them as they are installed. A policy of ours forbids it meanwhile
# (https://people.debian.org/~hmh/invokerc.d-policyrc.d-specification.txt); one that is there is left alone.
policy=/usr/sbin/policy-rc.d
ours=
forbid_services() {
    if [ ! -e "$policy" ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
        "${root[@]}" chmod 755 "$policy"
    fi
}
allow_services() {
    if [ -n "$ours" ]; then "${root[@]}" rm -f "$policy"; fi
}

if [ ${#packages[@]} -gt 0 ]; then
    echo "setup: installing ${packages[*]}"
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: no apt-get here; install these with your system's package manager: ${packages[*]}" >&2
        exit 3
    fi
    if ! command -v "${root[0]:-true}" >/dev/null 2>&1; then
        echo "setup: become root, or install sudo, to install: ${packages[*]}" >&2
        exit 3
    fi
    trap allow_services EXIT
    forbid_services
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

# A kernel for guests (docs/guests.md): fetched and unpacked, not installed. Where the archive has none, tests in guests are
# listed as not run.
kernels=/var/cache/loadline/kernels
kernel_for_guests() {
    if compgen -G "$kernels/linux-image-6.12.*/package" >/dev/null; then return; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then return; fi
    local list='^linux-image-6\.12\.[0-9.]+(\+[a-z0-9]+)?(-[0-9]+)?-amd64$' name half
    name=$(apt-cache search --names-only "$list" | awk '{print $1}' | sort -V | tail -1)
    if [ -z "$name" ]; then
        apt-get update -qq
        name=$(apt-cache search --names-only "$list" | awk '{print $1}' | sort -V | tail -1)
    fi
    if [ -z "$name" ]; then echo "setup: the archive has no Linux 6.12: tests in guests will not run"; return; fi
    echo "setup: fetching $name for guests"
    mkdir -p "$kernels"
    half=$(mktemp -d "$kernels/.half-XXXXXX")
    if (cd "$half" && apt-get download -qq "$name" && dpkg-deb -x ./*.deb .) 2>/dev/null; then
        (cd "$half" && echo "$(basename ./*.deb .deb) sha256:$(sha256sum ./*.deb | cut -d' ' -f1)" >package && rm ./*.deb)
        chmod 755 "$half"
        mv -T "$half" "$kernels/$name" 2>/dev/null || true
    else
        echo "setup: $name could not be fetched: tests in guests will not run"
    fi
    rm -rf "$half"
}
if [ "${1-}" = --tests ]; then kernel_for_guests; fi

# The compiler must be at least the rust-version of Cargo.toml.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml" | head -1)
have=$(rustc --version 2>/dev/null | awk '{print $2}') || true
if [ -z "$have" ] || [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -1)" != "$wanted" ]; then
    echo "setup: Rust $wanted or newer is needed, found: ${have:-none}"
    if apt-cache show rustup >/dev/null 2>&1; then
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq rustup >/dev/null
        rustup default stable
    else
        echo "setup: install it with rustup (https://rustup.rs), then run make again" >&2
        exit 3
    fi
fi
