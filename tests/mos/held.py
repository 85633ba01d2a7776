"""Small writes, what another connection sees of them, and a writer kept busy so that they wait."""

import threading
from collections.abc import Callable

from sqlalchemy import create_engine, text
from sqlmodel import Session

from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Secret


def keep(name: str, value: str = "x") -> Callable[[Session], str]:
    """A write of one row; answers its name."""

    def work(session: Session) -> str:
        session.add(Secret(name=name, value=value))
        return name

    return work


def names(url: str) -> set[str]:
    """What another connection sees."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = set(connection.execute(text("SELECT name FROM secret")).scalars())
    engine.dispose()
    return found


def hold(store: Store) -> tuple[threading.Event, threading.Event]:
    """Keep the writer busy: what is written meanwhile waits, and then shares a commit."""
    busy, go_on = threading.Event(), threading.Event()

    def work(_session: Session) -> None:
        busy.set()
        go_on.wait(20)

    store.write(work)
    return busy, go_on
