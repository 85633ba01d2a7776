"""A PostgreSQL server in a temporary folder, for benches and tests."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.core.errors import NeedsPackage, StudioError


def programs() -> Path | None:
    """The folder of the newest installed server: Debian keeps it off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def postgresql_server(*, is_durable: bool = True) -> Iterator[Path]:
    """The socket folder of a running server, removed afterwards.

    PostgreSQL refuses to run as root, so root starts it as user postgres. Raises NeedsPackage, StudioError.

    Args:
        is_durable: a commit waits for the disk.
    """
    where = programs()
    if where is None:
        raise NeedsPackage("there is no PostgreSQL server", "install one: on Debian, apt install postgresql")
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="mos-", dir="/tmp"))  # a socket's path has at most 107 characters
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"

    def call(program: str, *args: str) -> None:
        command = [*user, str(where / program), "-D", str(data), *args]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise StudioError(f"{program} failed: {done.stderr.strip()}", "see whether another user may start it")

    try:
        call("initdb", "-U", "studio", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-h '' -k {folder} -c max_connections=60{'' if is_durable else ' -F'}"
        call("pg_ctl", "-w", "-l", str(folder / "log"), "start", "-o", options)
        try:
            yield folder
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
