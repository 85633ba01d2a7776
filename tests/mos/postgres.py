"""A PostgreSQL server for the tests: temporary folder, Unix socket, removed afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from needs import needs


def _programs() -> Path | None:
    """The folder of the newest installed server: Debian keeps it off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def server() -> Iterator[Path]:
    """The socket folder of a running server. PostgreSQL refuses to run as root, so root starts it as user postgres."""
    programs = _programs()
    needs(programs, "a PostgreSQL server (Debian's package postgresql)")
    assert programs is not None
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="mos-", dir="/tmp"))  # a socket's path has at most 107 characters
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"

    def call(program: str, *args: str) -> None:
        command = [*user, str(programs / program), "-D", str(data), *args]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, done.stderr

    try:
        call("initdb", "-U", "studio", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        # no test cuts the power, so fsync is not needed
        call("pg_ctl", "-w", "-l", str(folder / "log"), "start", "-o", f"-h '' -k {folder} -F -c max_connections=60")
        try:
            yield folder
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
