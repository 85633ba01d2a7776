"""SQLite's files while they are open: held, so that no other process takes the log away, and watched, in case it did.

SQLite's last connection to leave removes the write-ahead log. It learns who else is there from POSIX locks, and a
process loses all of those on a file as soon as it closes *any* descriptor of it: one careless read of the database in
the server, one command-line call after it, and the server writes on into a log that has no name any more.
"""

import os
import struct
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None

_SHARED_FIRST, _SHARED_BYTES = 0x4000_0002, 510  # SQLite's bytes for readers: whoever removes the log locks them whole


class SqliteFiles:
    """Holds and watches one database's files; made once its log is there."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log = database.with_name(database.name + "-wal")
        self._descriptor = os.open(database, os.O_RDONLY)
        self._hold(True)
        self._known = self._seen()

    def are_ours(self) -> bool:
        """Whether the names still lead to the files that were opened."""
        seen = self._seen()
        if self._known[1] is None:
            self._known = (self._known[0], seen[1])  # no log until something was written
        return seen == self._known

    @property
    def are_gone(self) -> bool:
        """Whether there is no database of that name at all."""
        return not self._database.exists()

    def let_go(self) -> None:
        """Allow the log to be removed, by our own connections too, which must be closed before ``close``."""
        self._hold(False)

    def close(self) -> None:
        """Give the descriptor back; only when no connection of this process is left."""
        os.close(self._descriptor)

    def _seen(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        return _identity(self._database), _identity(self._log)

    def _hold(self, held: bool) -> None:
        """A reader's lock of the open file, not of the process: closing another descriptor does not end it."""
        if fcntl is None or not hasattr(fcntl, "F_OFD_SETLK"):  # Linux has it; elsewhere the files are watched only
            return
        kind = fcntl.F_RDLCK if held else fcntl.F_UNLCK
        lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0)
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, lock)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
