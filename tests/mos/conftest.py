"""Both databases: every test that takes ``url``, ``store`` or ``world`` runs on SQLite and on a real PostgreSQL."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from mos.postgres import server
from mos.world import World

from studio.mos.store import Store

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The socket folder of a PostgreSQL server, started once."""
    with server() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'studio.sqlite'}"
    folder: Path = request.getfixturevalue("postgresql")
    schema = f"studio_{next(_NUMBERS)}"  # to a store as good as a database of its own, and made in no time
    with psycopg.connect(f"host={folder} user=studio dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"postgresql://studio@/postgres?host={folder}&options=-csearch_path%3D{schema}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An open store, closed afterwards."""
    opened = Store(url)
    yield opened
    opened.close()


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    """A studio's listening tests on that store, with real clips."""
    return World(store, tmp_path / "clips")
