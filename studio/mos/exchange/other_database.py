"""Another studio's database, looked at without touching it, and merged into ours."""

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption
from studio.mos.exchange.foreign_rows import check_campaigns
from studio.mos.exchange.merge import Merged, campaigns_of, clips_of, copy_clips, copy_traces, merge
from studio.mos.service import Listening
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import SIGNATURE, Store, schema_of
from studio.mos.store.migrations import MIGRATIONS


def merge_from(
    listening: Listening,
    other: str,
    clips: Path | None = None,
    *,
    only: str | None = None,
    dry: bool = False,
    accept_removals: bool = False,
) -> list[Merged]:
    """Bring another database's campaigns here, in one transaction; a second time adds nothing.

    Args:
        other: a SQLite file, or the address of a database.
        clips: the other studio's folder of clips; beside its file unless given.
        only: the one campaign that is wanted.
        dry: change nothing, and answer what would come.
        accept_removals: forget here who was forgotten there.

    Raises:
        BadFile: the database or a clip cannot be read, or the two contradict each other; nothing was changed.
        BadOption: the address is none, or it has no such campaign.
    """
    with opened_other(other) as (store, beside), store.read() as theirs:
        folder = ClipFolder(clips or beside or listening.clips.root)
        check_campaigns(theirs, campaigns_of(theirs, only))

        def work(ours: Session) -> list[Merged]:
            found = merge(theirs, ours, only, accept_removals=accept_removals)
            if dry:
                raise _Enough(found)
            copy_traces([trace for one in found for trace in one.traces], folder, listening.clips)
            return found

        if not dry:
            copy_clips(clips_of(theirs, only), folder, listening.clips)
        try:
            brought = listening.store.write(work).result()
        except _Enough as enough:
            return enough.found
        for trace in (trace for one in brought for trace in one.dropped):
            listening.clips.drop_trace(trace)
        if accept_removals and any(one.removals for one in brought):
            listening.store.empty_log()
        return brought


class _Enough(Exception):
    """What would come is known; raised so that the store takes it all back."""

    def __init__(self, found: list[Merged]) -> None:
        super().__init__()
        self.found = found


@contextmanager
def opened_other(other: str) -> Generator[tuple[Store, Path | None]]:
    """A database of another studio, and the clips beside it.

    Neither is changed: a SQLite file is copied first, and one on a server must have this studio's schema.

    Raises:
        BadFile, BadOption: it is absent, or no database of a studio.
    """
    try:
        url = make_url(other) if "://" in other else None
    except ArgumentError as error:
        raise BadOption(f"{other!r} is not a database address", "give a file, or postgresql://...") from error
    if url is not None and url.get_backend_name() != "sqlite":
        _check_schema(schema_of(other), url.render_as_string(hide_password=True))
        store = Store(other)
        try:
            yield store, None
        finally:
            store.close()
        return
    file = Path(other if url is None else url.database or "")
    if not file.is_file():
        raise BadFile(f"there is no database {file}", "give the file studio.sqlite of the other data folder")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "other.sqlite"
        _copy(file, copy)
        store = Store(f"sqlite:///{copy}")
        try:
            yield store, file.parent / "clips"
        finally:
            store.close()


def _check_schema(schema: int | None, name: str) -> None:
    """Before it is opened as ours, which would make or change tables in it. Raises BadFile."""
    if schema is None:
        raise BadFile(f"{name} holds no listening tests", "check its name and its schema")
    if schema < len(MIGRATIONS):
        raise BadFile(
            f"{name} has schema {schema}, this studio reads {len(MIGRATIONS)}; another's database is not changed",
            "let its owner open it once with a studio of this version",
        )


def _copy(file: Path, copy: Path) -> None:
    """A copy of a database as it stands, also of one in use."""
    try:
        source, target = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True), sqlite3.connect(copy)
        try:
            found = list(source.execute("SELECT type, name FROM sqlite_master"))
            if not {name for kind, name in found if kind == "table"} >= SIGNATURE:
                raise BadFile(
                    f"{file} holds no listening tests", "give the file studio.sqlite of the other data folder"
                )
            if views := [name for kind, name in found if kind == "view"]:
                raise BadFile(
                    f"{file} holds the view {views[0]!r:.80}, which no studio makes", "restore a backup of it"
                )
            source.backup(target)
            for name in (name for kind, name in found if kind == "trigger"):  # ours only guard writing, as none is here
                target.execute(f'DROP TRIGGER "{name.replace(chr(34), chr(34) * 2)}"')
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise BadFile(
            f"{file} cannot be read: {error}", "give the file studio.sqlite of the other data folder"
        ) from error
