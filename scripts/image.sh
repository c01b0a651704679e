#!/usr/bin/env bash
# Makes an OCI image (a tar as `podman load`, `skopeo` and `docker load` take it) without a daemon: image.sh DIRECTORY, in
# which the Debian package lies. Two layers: Debian with the tools of the file systems, and the package. Root is needed, for
# debootstrap. Format: opencontainers/image-spec, image-layout.md, config.md, manifest.md.
set -euo pipefail
into=$(realpath "$1")
if [ -z "${BASE-}" ]; then "$(dirname "$0")/setup.sh" debootstrap; fi
package=$(ls "$into"/loadline_*.deb)
version=$(dpkg-deb -f "$package" Version)
architecture=$(dpkg-deb -f "$package" Architecture)
suite=${SUITE:-bookworm}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# BASE names a tree of Debian that was made before.
if [ -n "${BASE-}" ]; then
    cp -a --one-file-system "$BASE" "$work/debian"
else
    debootstrap --variant=minbase --include=e2fsprogs,xfsprogs,btrfs-progs,mount,util-linux "$suite" "$work/debian" >"$work/log" || {
        tail "$work/log" >&2
        exit 1
    }
fi
rm -rf "$work/debian/var/cache/apt/archives/"*.deb "$work/debian/var/lib/apt/lists/"*
mkdir "$work/package"
dpkg-deb -x "$package" "$work/package"

layout=$work/layout
mkdir -p "$layout/blobs/sha256"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
# Puts a file into the layout; its digest and size.
put() {
    local digest
    digest=$(sha256sum "$1" | cut -d' ' -f1)
    size=$(stat -c %s "$1")
    mv "$1" "$layout/blobs/sha256/$digest"
    digest=sha256:$digest
    put=$digest
}
layers= unpacked=
for layer in debian package; do
    # the same tree gives the same layer
    tar -C "$work/$layer" --sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 -cf "$work/layer.tar" .
    inside=sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
    gzip -6n "$work/layer.tar"
    put "$work/layer.tar.gz"
    layers+="${layers:+,}{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"$put\",\"size\":$size}"
    unpacked+="${unpacked:+,}\"$inside\""
done
printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/usr/bin/loadline"],"WorkingDir":"/usr/share/loadline","Env":["PATH=/usr/sbin:/usr/bin:/sbin:/bin","LOADLINE_HOME=/results"],"Volumes":{"/results":{}}},"rootfs":{"type":"layers","diff_ids":[%s]}}' \
    "$architecture" "$unpacked" >"$work/config"
put "$work/config"
config="{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"$put\",\"size\":$size}"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' "$config" "$layers" >"$work/manifest"
put "$work/manifest"
printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"%s","size":%s,"annotations":{"org.opencontainers.image.ref.name":"loadline:%s"}}]}' \
    "$put" "$size" "$version" >"$layout/index.json"
image=$into/loadline_${version}_$architecture.oci.tar
tar -C "$layout" -cf "$image" oci-layout index.json blobs
echo "image: $image"
