"""Another process that holds the locks of a data folder."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Holds SQLite's write locks and the locks of files until its input ends.
HOLDER = """
import fcntl, sqlite3, sys
held = []
for name in sys.argv[1:]:
    if name.endswith(".sqlite"):
        connection = sqlite3.connect(name, isolation_level=None)
        connection.execute("BEGIN EXCLUSIVE")
        held.append(connection)
    else:
        file = open(name, "ab")
        fcntl.flock(file, fcntl.LOCK_EX)
        held.append(file)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(*files: Path) -> Iterator[None]:
    command = [sys.executable, "-c", HOLDER, *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.communicate()


def locks_of(folder: Path) -> list[Path]:
    """Everything in a data folder that a writer locks: databases, the library, and journals."""
    return [
        path for pattern in ("**/*.sqlite", "library/lock", "**/.*.lock", "**/*.jsonl") for path in folder.glob(pattern)
    ]
