"""Inserts rows into SQLite, one transaction each: `sqlite.py JOURNAL_MODE SYNCHRONOUS`, such as `wal full`."""
import sqlite3
import sys

from mark import mark

base = sqlite3.connect("base.db", isolation_level=None)
base.execute(f"pragma journal_mode = {sys.argv[1]}")
base.execute(f"pragma synchronous = {sys.argv[2]}")
base.execute("create table t (n integer primary key, body text)")
for number in range(1, 31):
    base.execute("begin immediate")
    base.execute("insert into t values (?, ?)", (number, str(number) * 600))
    base.execute("update t set body = body || 'x' where n <= ?", (number,))
    base.execute("commit")
    mark(f"commit {number}")
