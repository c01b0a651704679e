"""Appends records to a log in preallocated space, as databases do: `append.py checksum` as it must be, else without.

Each record begins with its length and spans three blocks. A block of it may be on the device without the others.
"""
import os
import sys
import zlib

from mark import contents, mark

CHECKSUM = "checksum" in sys.argv
log = os.open("log", os.O_CREAT | os.O_RDWR)
os.write(log, bytes(256 << 10))
os.fsync(log)
here = os.open(".", os.O_RDONLY)
os.fsync(here)
place = 0
for number in range(1, 11):
    body = contents(number)[:12000]
    head = len(body).to_bytes(4, "little") + (zlib.crc32(body) if CHECKSUM else 0).to_bytes(4, "little")
    place += os.pwrite(log, head + body, place)
    os.fdatasync(log)
    mark(f"record {number}")
