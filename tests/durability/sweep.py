"""Let the disk fail at one point after the other of a write, and look whether anything acknowledged is lost.

The tests run it as a program with ``faults.c`` preloaded. A line of its input asks for the sweeps of a path, which run
in a process forked from one that has imported the studio. A line of its output is JSON: a list of what was found for
each fault, or the traceback of a sweep that broke off::

    echo "PATH POINTS FAULT..." | python -m durability.sweep FOLDER

A point is a number of units after which the disk fails (see ``faults.c``), or becomes read-only (EROFS). LOCKED has one
point, at which another process holds every lock of the data folder. For faults that are errors one process goes
on after each of them, as a server does; it must refuse with an error that says so, keep everything readable, and save
the same item once the disk works again. For faults that end the process each point has a process of its own.
"""

import errno
import json
import mmap
import os
import signal
import struct
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from durability.database_paths import DATABASE_PATHS
from durability.locks import locked, locks_of
from durability.removal_paths import REMOVAL_PATHS
from durability.write_paths import FILE_PATHS, WritePath
from sqlalchemy.exc import DBAPIError

from studio.cli import _end
from studio.core import locks
from studio.core.errors import BadFile, StudioError, Unavailable
from studio.library import index
from studio.mos.store import database

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EROFS": errno.EROFS, "EDQUOT": errno.EDQUOT}
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM}
LOCKED = "LOCKED"
LOCK_WAIT_S = 0.2  # here; `test_locked.py` measures the times of a server
FULL = ("ENOSPC", "EDQUOT")  # a disk that can still be read and replace existing data
DENSE = 12  # points at the start of a write that are all tried
# These differ from another fault at the same point by what the process is told, not by where it can be: even points do.
EVEN = ("EDQUOT", "EROFS", "SIGTERM")


WRITE_PATHS = {one.__name__: one for one in (*FILE_PATHS, *REMOVAL_PATHS, *DATABASE_PATHS)}


class Disk:
    """The counters of ``faults.c``."""

    def __init__(self) -> None:
        with Path(os.environ["FAULT_CONTROL"]).open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 32)

    def fails_after(self, units: int, fault: str) -> None:
        """Fail once, or permanently if the fault is an error, after so many units."""
        self._shared[:] = struct.pack("qqqq", units, 0, ERRORS.get(fault, errno.ENOSPC), SIGNALS.get(fault, 0))

    def works(self) -> int:
        """Stop failing; returns the units used since ``fails_after``."""
        used = struct.unpack("qqqq", self._shared[:])[1]
        self._shared[:] = struct.pack("qqqq", -1, 0, 0, 0)
        return used


def points(cost: int, most: int, dense: bool) -> list[int]:
    """Points of a write of so many units, evenly from the first to the last; dense at both ends where that is asked."""
    if cost <= most:
        return list(range(cost))
    evenly = {round(n * (cost - 1) / (most - 1)) for n in range(most)}
    if not dense:
        return sorted(evenly)
    return sorted(evenly | set(range(min(DENSE, cost))) | set(range(max(0, cost - 4), cost)))


class Sweep:
    """One write path under one fault; ``problems`` are messages."""

    def __init__(self, path: type[WritePath], fault: str, root: Path, most: int) -> None:
        self.path, self.fault, self.root, self.most = path, fault, root, most
        self.disk = Disk()
        self.problems: list[str] = []
        self.acknowledged: list[str] = []
        self.refused, self.refused_name = 0, ""

    def run(self) -> dict[str, object]:
        """Try all points."""
        cost = self._cost()
        tried = [0] if self.fault == LOCKED else points(cost, self.most, self.fault not in EVEN)
        for number, units in enumerate(tried, 2):
            (self._ends if self.fault in SIGNALS else self._fails)(number, units)
        self.open.close()
        return {
            "path": self.path.__name__,
            "fault": self.fault,
            "units": cost,
            "points": len(tried),
            "refused": self.refused,
            "acknowledged": len(self.acknowledged),
            "problems": self.problems,
        }

    def _cost(self) -> int:
        """Save two items on a working disk; the units of the second one."""
        self.open = self.path(self.root)
        for number in range(2):
            self.open.prepare(number)
            self.disk.fails_after(1 << 60, self.fault)
            self.acknowledged.append(self.open.save(number))
            cost = self.disk.works()
        self._look("at the beginning")
        if self.fault in SIGNALS:
            self.open.close()
        return cost

    def _fails(self, number: int, units: int) -> None:
        """The disk fails: saved items stay, and the same item can be saved later."""
        when = f"{self.fault} after {units} units"
        self.open.prepare(number)
        with self._failing(units):
            self._try(self.open, number, when)
            # A sync of a transaction that failed: SQLite must roll back before it reads, which needs the disk.
            reads = self.fault == "EROFS" or (self.path.reads_when_full and self.fault in FULL)
            if reads and not any(self.root.rglob("*-journal")):
                self._look(f"{when}, while the disk fails")
            if self.fault == "EROFS":
                self.disk.fails_after(0, self.fault)
                self._starts_read_only(number, when)
        self._look(when)
        try:
            self.acknowledged.append(self.open.save(number))
        except Exception:  # noqa: BLE001 - reported
            self.problems.append(f"{when}, saved again: {traceback.format_exc()}")
        self._look(f"{when}, saved again")

    @contextmanager
    def _failing(self, units: int) -> Iterator[None]:
        with ExitStack() as held:
            if self.fault == LOCKED:
                held.enter_context(locked(*locks_of(self.root)))
            else:
                self.disk.fails_after(units, self.fault)
                held.callback(self.disk.works)
            yield

    def _try(self, opened: WritePath, number: int, when: str) -> None:
        """Save an item, or be refused with an error that the server answers with 503."""
        try:
            self.acknowledged.append(opened.save(number))
        except (Unavailable, OSError, DBAPIError):
            self._refuse(number)
        except BadFile as error:
            if "cannot be opened" in str(error):  # a database at the start of a server
                self._refuse(number)
            else:
                self.problems.append(f"{when}: {error!r}")
        except Exception:  # noqa: BLE001 - reported
            self.problems.append(f"{when}: {traceback.format_exc()}")

    def _starts_read_only(self, number: int, when: str) -> None:
        """A new process on a read-only medium refuses to open the folder or to save there, in words."""
        try:
            with closing(self.path(self.root)) as opened:
                opened.prepare(number)
                opened.save(number)
        except (StudioError, OSError, DBAPIError):
            return
        except Exception:  # noqa: BLE001 - reported
            self.problems.append(f"{when}, opened again: {traceback.format_exc()}")
            return
        if self.path.reads_when_full:  # databases are opened as a copy there, and migrated in it
            self.problems.append(f"{when}: saved on a read-only disk")

    def _ends(self, number: int, units: int) -> None:
        """The process ends: the next one has everything acknowledged."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.close(read)
            signal.signal(signal.SIGTERM, _end)
            try:
                opened = self.path(self.root)
                opened.prepare(number)
                os.write(write, b"\n")
                self.disk.fails_after(units, self.fault)
                os.write(write, opened.save(number).encode())
                opened.close()
            except SystemExit:
                opened.close()
            except Exception:  # noqa: BLE001 - the parent reports it
                os.write(write, b"\n" + traceback.format_exc().encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            _, _, said = pipe.read().decode().partition("\n")
        os.waitpid(child, 0)
        self.disk.works()
        if "Traceback" in said:
            self.problems.append(f"{self.fault} after {units} units: {said}")
        elif said:
            self.acknowledged.append(said)
        else:
            self._refuse(number)
        self._look(f"{self.fault} after {units} units")

    def _refuse(self, number: int) -> None:
        self.refused += 1
        self.refused_name = self.path.replaces.format(number)

    def _look(self, when: str) -> None:
        try:
            found = self.path.read(self.root)
        except Exception:  # noqa: BLE001 - reported
            self.problems.append(f"{when}: unreadable: {traceback.format_exc()}")
            return
        wanted = set(self.acknowledged)
        if self.path.replaces:  # a refused item may exist all the same
            wanted = {self.acknowledged[-1]} if found != {self.refused_name} else set()
        if lost := wanted - found:
            self.problems.append(f"{when}: {len(lost)} acknowledged items are lost: {sorted(lost)[:3]}")


def sweep(folder: Path, name: str, most: str, *faults: str) -> list[dict[str, object]]:
    """Sweep a path under each of these faults, in a folder of its own for each."""
    locks.LOCK_WAIT_S = database._LOCK_WAIT_S = LOCK_WAIT_S
    index.BUSY_MS = round(1000 * LOCK_WAIT_S)
    found = []
    for fault in faults:
        root = folder / fault
        root.mkdir()
        found.append(Sweep(WRITE_PATHS[name], fault, root, int(most)).run())
    return found


def serve(folder: Path) -> None:
    """Answer each line of the input from a process of its own, one after the other; their files are removed."""
    for line in sys.stdin:
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
            if not (child := os.fork()):
                try:
                    said = json.dumps(sweep(Path(made), *line.split()))
                except BaseException:  # noqa: BLE001 - reported
                    said = json.dumps(traceback.format_exc())
                print(said, flush=True)
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
