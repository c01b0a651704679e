"""Opens the database, which recovers; it is whole, and no row is missing whose commit was acknowledged."""
import sqlite3
import sys

from mark import passed

base = sqlite3.connect("base.db")
try:
    if base.execute("pragma integrity_check").fetchall() != [("ok",)]:
        sys.exit("the database is damaged")
    rows = base.execute("select n, body from t order by n").fetchall()
except sqlite3.OperationalError as error:
    rows = []
    if "no such table" not in str(error):
        sys.exit(f"the database cannot be read: {error}")
except sqlite3.DatabaseError as error:
    sys.exit(f"the database is corrupt: {error}")
count = len(rows)
for number, body in rows:
    if body != str(number) * 600 + "x" * (count - number + 1):
        sys.exit(f"row {number} is none of {count} commits")
if count < passed():
    sys.exit(f"{count} commits are found, and {passed()} were acknowledged")
