"""The configuration is one that was saved, whole, and no older than the last one that is said to be durable."""
import sys

from mark import contents, passed

try:
    found = open("config", "rb").read()
except FileNotFoundError:
    sys.exit("config is missing") if passed() else sys.exit(0)
versions = [version for version in range(1, 11) if found == contents(version)]
if found == b"old":  # from before the first save
    versions = [0]
if not versions:
    sys.exit(f"config holds {len(found)} bytes, {found[:12]!r}")
if versions[0] < passed():
    sys.exit(f"config is version {versions[0]}, and {passed()} was saved")
