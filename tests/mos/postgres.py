"""A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket, gone afterwards."""

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
    """The folder of the newest server installed: Debian keeps it off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


@contextmanager
def server() -> Iterator[Path]:
    """The folder of a running server's socket. It refuses to be root, so root runs it as its own user, postgres."""
    programs = _programs()
    needs(programs, "a PostgreSQL server (Debian's package postgresql)")
    assert programs is not None
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="mos-", dir="/tmp"))  # a socket's path has 107 characters at most
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
        # no test pulls this machine's plug, so its disk need not be waited for
        call("pg_ctl", "-w", "-l", str(folder / "log"), "start", "-o", f"-h '' -k {folder} -F -c max_connections=60")
        try:
            yield folder
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
