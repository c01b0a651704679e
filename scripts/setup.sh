#!/usr/bin/env bash
# Installs what is missing: a C compiler, the tools of the file systems, Rust. Says what it does; does nothing twice.
# Arguments are further packages (fio for the benchmark). Made for Debian and Ubuntu; elsewhere it says what to install.
set -euo pipefail

packages=()
need() { # program package
    command -v "$1" >/dev/null 2>&1 || PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || packages+=("$2")
}
need cc gcc
need make make
need mkfs.ext4 e2fsprogs
need mkfs.xfs xfsprogs
need mkfs.btrfs btrfs-progs
need losetup mount
need blkid util-linux
for extra in "$@"; do need "$extra" "$extra"; done

root=()
if [ "$(id -u)" != 0 ]; then root=(sudo); fi

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
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

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
