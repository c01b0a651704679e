#!/usr/bin/env bash
# Makes a Debian package of an installed tree (`make deb`): deb.sh TREE DIRECTORY
set -euo pipefail
tree=$(realpath "$1") into=$(realpath "$2")
sources=$(dirname "$0")/..
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$sources/Cargo.toml")
architecture=$(dpkg --print-architecture)
documents=$tree/usr/share/doc/loadline
install -d "$documents" "$tree/DEBIAN"
# Workloads and studies, to begin with; the guides, to read.
install -d "$tree/usr/share/loadline"
cp -r "$sources/workloads" "$sources/studies" "$tree/usr/share/loadline"
cp -r "$sources/docs/." "$sources/README.md" "$documents"
cp "$sources/LICENSE" "$documents/copyright"
gzip -9nc "$sources/CHANGELOG.md" >"$documents/changelog.gz"
find "$tree/usr/share/man" -name '*.1' -exec gzip -9nf {} +
# The libraries that it is linked with, in versions that have what it uses; without dpkg-dev only their names.
depends() {
    mkdir -p "$into/shlibs/debian"
    printf 'Source: loadline\n\nPackage: loadline\nArchitecture: any\n' >"$into/shlibs/debian/control"
    (cd "$into/shlibs" && dpkg-shlibdeps -O "$tree/usr/bin/loadline" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}
needs=$(depends || true)
rm -rf "$into/shlibs"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: loadline
Version: $version
Architecture: $architecture
Section: utils
Priority: optional
Maintainer: The loadline maintainers <loadline@localhost>
Depends: ${needs:-libc6, libgcc-s1}
Recommends: e2fsprogs, xfsprogs, btrfs-progs, mount, util-linux
Suggests: fio, mariadb-server, postgresql, redis-server, librocksdb7.8
Installed-Size: $(du -ks --exclude DEBIAN "$tree" | cut -f1)
Description: laboratory for storage stacks
 Puts a known load on file systems and devices, says how much each carries, which
 is better, and where the time goes. Runs Filebench's workloads unchanged; has
 emulated SSDs, crash checking, a write-optimised file system and a prefetcher.
CONTROL
package=$into/loadline_${version}_$architecture.deb
dpkg-deb --build --root-owner-group "$tree" "$package" >/dev/null
echo "deb: $package"
