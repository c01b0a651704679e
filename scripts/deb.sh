#!/usr/bin/env bash
# Makes a Debian package of an installed tree (`make deb`): deb.sh TREE DIRECTORY
set -euo pipefail
tree=$1 into=$2
cd_to=$(dirname "$0")/..
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$cd_to/Cargo.toml")
architecture=$(dpkg --print-architecture)
documents=$tree/usr/share/doc/loadline
install -d "$documents" "$tree/DEBIAN"
# Workloads and studies, to begin with; the guides, to read.
install -d "$tree/usr/share/loadline"
cp -r "$cd_to/workloads" "$cd_to/studies" "$tree/usr/share/loadline"
cp -r "$cd_to/docs/." "$cd_to/README.md" "$documents"
cp "$cd_to/LICENSE" "$documents/copyright"
gzip -9nc "$cd_to/CHANGELOG.md" >"$documents/changelog.gz"
find "$tree/usr/share/man" -name '*.1' -exec gzip -9nf {} +
# glibc as the one that it was built with, or newer; liblzma and others are not linked
needs=$(cd "$into" && mkdir -p debian && : >debian/control && dpkg-shlibdeps -O -e"$OLDPWD/$tree/usr/bin/loadline" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
rm -rf "$into/debian"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: loadline
Version: $version
Architecture: $architecture
Section: utils
Priority: optional
Maintainer: The loadline maintainers <loadline@localhost>
Depends: ${needs:-libc6}
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
