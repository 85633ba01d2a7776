"""A PostgreSQL server for the tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from needs import needs

from studio.bench.mos.site import postgresql_server, programs


@contextmanager
def server() -> Iterator[Path]:
    """The socket folder of a running server. No test cuts the power, so it does not wait for the disk."""
    needs(programs(), "a PostgreSQL server (Debian's package postgresql)")
    with postgresql_server(is_durable=False) as folder:
        yield folder
