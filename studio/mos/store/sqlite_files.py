"""The files of a SQLite database: locks that protect its log, and copies of a database in a read-only folder."""

import os
import shutil
import struct
from pathlib import Path

from studio.core.errors import Unavailable

try:
    import fcntl
except ImportError:
    fcntl = None

_SHARED_FIRST, _SHARED_BYTES = 0x4000_0002, 510  # SQLite's reader bytes; removing the log locks all of them
_TRIES = 5
_INDEX_BYTES = 36_864  # of a new log: its index and a page


def is_writable(database: Path) -> bool:
    """Whether SQLite can write a database file (which need not exist) and its log.

    On a full disk it cannot even read, unless a process that has the database open has created the log's index.
    """
    folder = database.parent
    has_index = not database.exists() or database.with_name(f"{database.name}-shm").exists()
    if not has_index and shutil.disk_usage(folder).free < _INDEX_BYTES:
        return False
    return os.access(folder, os.W_OK) and (not database.exists() or os.access(database, os.W_OK))


def copy_database(database: Path, target: Path) -> None:
    """Copy a database and its log from a folder where SQLite cannot create the files that it needs to read a log.

    The copy is repeated if another machine writes to the files. Raises OSError; Unavailable: they change every time.
    """
    names = ("", "-wal")
    for _ in range(_TRIES):
        before = _versions(database, names)
        for name in names:
            source, copy = (file.with_name(file.name + name) for file in (database, target))
            copy.unlink(missing_ok=True)
            if source.exists():
                shutil.copyfile(source, copy)
        if _versions(database, names) == before:
            return
    raise Unavailable("the database changes while it is copied", "stop the program that writes it, and try again")


def _versions(database: Path, names: tuple[str, ...]) -> list[tuple[int, int, int] | None]:
    versions: list[tuple[int, int, int] | None] = []
    for name in names:
        file = database.with_name(database.name + name)
        status = file.stat() if file.exists() else None
        versions.append(status and (status.st_ino, status.st_size, status.st_mtime_ns))
    return versions


class SqliteFiles:
    """Locks and watches the files of one SQLite database; created once its write-ahead log exists.

    SQLite's last connection removes the log on closing. It detects other connections by POSIX locks, which a process
    loses as soon as it closes *any* descriptor of the file: after one read of the database file in the server and one
    command-line call, the server would write into an unlinked log.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log = database.with_name(database.name + "-wal")
        self._descriptor = os.open(database, os.O_RDONLY)
        self._lock(True)
        self._known = self._file_ids()

    def is_intact(self) -> bool:
        """Whether the paths still name the files that were opened."""
        seen = self._file_ids()
        if self._known[1] is None:
            self._known = (self._known[0], seen[1])  # there is no log before the first write
        return seen == self._known

    @property
    def is_log_away(self) -> bool:
        """Whether only the log is missing (unlinked or renamed) and no other process has created a new one."""
        seen = self._file_ids()
        return seen[0] == self._known[0] and seen[1] is None and self._known[1] is not None

    @property
    def is_missing(self) -> bool:
        """Whether the database file does not exist."""
        return not self._database.exists()

    def release_log(self) -> None:
        """Allow removal of the log, also by our own connections, which must be closed before ``close``."""
        self._lock(False)

    def close(self) -> None:
        """Close the descriptor; call only after all connections of this process are closed."""
        os.close(self._descriptor)

    def _file_ids(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        return _identity(self._database), _identity(self._log)

    def _lock(self, held: bool) -> None:
        """Take or release a read lock of the open file description, which closing another descriptor does not drop."""
        if fcntl is None or not hasattr(fcntl, "F_OFD_SETLK"):  # Linux only; elsewhere files are only watched
            return
        kind = fcntl.F_RDLCK if held else fcntl.F_UNLCK
        lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0)
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, lock)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
