"""``studio.bench.mos.server`` with a fault: ``python planted_server.py NAME``; the kill harnesses have to find it."""

import os
import sys
import threading
import time
from typing import Any, BinaryIO

from sqlmodel import Session

from studio.bench.mos.server import PROGRAM, fork_servers
from studio.core import durable
from studio.mos.store import database


def acknowledge_before_commit() -> None:
    """Acknowledge writes some time before their commit."""
    run_job = database.run_job

    def early(job: database.Job, session: Session) -> None:
        run_job(job, session)
        database.resolve([job])
        time.sleep(0.05)

    database.run_job = early


def synchronous_off() -> None:
    """SQLite does not wait for the disk."""
    settings = database.sqlite_settings

    def without_sync(connection: Any, record: Any) -> None:
        settings(connection, record)
        connection.execute("PRAGMA synchronous=OFF")

    database.sqlite_settings = without_sync


def acknowledge_before_write() -> None:
    """Write lines of an annotation's journal some time after the response."""
    append = durable.append

    def late(file: BinaryIO, start: int, data: bytes) -> None:
        own = os.fdopen(os.dup(file.fileno()), "ab", buffering=0)
        threading.Timer(0.05, append, (own, start, data)).start()

    durable.append = late


PLANTS = {
    "acknowledge-before-commit": acknowledge_before_commit,
    "synchronous-off": synchronous_off,
    "acknowledge-before-write": acknowledge_before_write,
}


def program(plant: str) -> tuple[str, ...]:
    """Arguments of Python that start the server, with a fault unless ``plant`` is empty."""
    return (__file__, plant) if plant else PROGRAM


if __name__ == "__main__":
    PLANTS[sys.argv[1]]()
    fork_servers()
