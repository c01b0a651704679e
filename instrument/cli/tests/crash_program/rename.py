"""Saves a configuration by create, write and rename, ten times: `rename.py sync` as it must be, `rename.py` without fsync.

Beside it stands a log, which is synced after each save, as programs have one. Its fsync commits the rename, too: on a file
system that writes data later, the name is then on the device and the bytes are not.
"""
import os
import sys

from mark import contents, mark

SYNCS = "sync" in sys.argv
log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
for version in range(1, 11):
    new = os.open("config.new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(new, contents(version))
    if SYNCS:
        os.fsync(new)
    os.close(new)
    os.rename("config.new", "config")
    if SYNCS:
        here = os.open(".", os.O_RDONLY)
        os.fsync(here)
        os.close(here)
        mark(f"saved {version}")
    os.write(log, f"saved {version}\n".encode())
    os.fsync(log)
