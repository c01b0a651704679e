#!/bin/bash
# Stands in for mount.fuse.betrfs while xfstests runs: `SOURCE DIR [-sfnvw] [-N NAMESPACE] [-t TYPE] [-o OPTIONS]`.
source=$1 dir=$2 options=
shift 2
while [ $# -gt 0 ]; do
    case $1 in
    -o) options=$options,$2; shift ;;
    -t | -N) shift ;;
    -r) options=$options,ro ;;
    esac
    shift
done
exec "$BETRFS_PROGRAM" attach "$source" "$dir" "${options#,}"
