"""Both databases: every test that takes ``url``, ``store`` or ``world`` runs on SQLite and PostgreSQL."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from mos.postgres import server
from mos.world import World

from studio.mos.store.database import Store

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Path]:
    """The socket folder of a PostgreSQL server, started once."""
    with server() as folder:
        yield folder


def new_database(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a new, empty database; an SQLite file lies in ``folder``."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'studio.sqlite'}"
    socket: Path = request.getfixturevalue("postgresql")
    schema = f"studio_{next(_NUMBERS)}"  # as isolated as a database of its own, and faster to create
    with psycopg.connect(f"host={socket} user=studio dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"postgresql://studio@/postgres?host={socket}&options=-csearch_path%3D{schema}"


DATABASES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database."""
    return new_database(request.param, tmp_path, request)


@pytest.fixture(params=DATABASES)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Another studio's listening tests on either database, with its own clip folder."""
    folder = tmp_path / "other"
    folder.mkdir()
    world = World(Store(new_database(request.param, folder, request)), folder / "clips")
    yield world
    world.listening.close()


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
