"""Opens another studio's database read-only and merges it into ours."""

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption
from studio.mos.import_export.foreign_rows import check_campaigns
from studio.mos.import_export.merge import MergeReport, campaigns_of, clips_of, copy_clips, copy_traces, merge_campaigns
from studio.mos.service import ListeningTests
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import STUDIO_TABLES, Store, schema_version
from studio.mos.store.migrations import MIGRATIONS


def merge_from(
    listening: ListeningTests,
    other: str,
    clips: Path | None = None,
    *,
    only: str | None = None,
    dry: bool = False,
    accept_removals: bool = False,
) -> list[MergeReport]:
    """Merge another database's campaigns in one transaction; idempotent.

    Args:
        other: a SQLite file or a database URL.
        clips: the other studio's clip folder; by default beside its file.
        only: name of a single campaign to merge.
        dry: change nothing, only return the report.
        accept_removals: erase here the raters who were erased there.

    Raises:
        BadFile: the database or a clip cannot be read, or the databases are inconsistent; nothing was changed.
        BadOption: the URL is invalid, or the campaign does not exist.
    """
    with open_other_database(other) as (store, beside), store.read() as theirs:
        folder = ClipFolder(clips or beside or listening.clips.root)
        check_campaigns(theirs, campaigns_of(theirs, only))

        def work(ours: Session) -> list[MergeReport]:
            found = merge_campaigns(theirs, ours, only, accept_removals=accept_removals)
            if dry:
                raise _DryRun(found)
            copy_traces([trace for one in found for trace in one.traces], folder, listening.clips)
            return found

        if not dry:
            copy_clips(clips_of(theirs, only), folder, listening.clips)
        try:
            brought = listening.store.write(work).result()
        except _DryRun as enough:
            return enough.found
        for trace in (trace for one in brought for trace in one.dropped):
            listening.clips.drop_trace(trace)
        if accept_removals and any(one.removals for one in brought):
            listening.store.truncate_log()
        return brought


class _DryRun(Exception):
    """Raised at the end of a dry run, so that the store rolls back."""

    def __init__(self, found: list[MergeReport]) -> None:
        super().__init__()
        self.found = found


@contextmanager
def open_other_database(other: str) -> Generator[tuple[Store, Path | None]]:
    """Open another studio's database and its clip folder, without changing them.

    A SQLite file is copied first; a database on a server must have this version's schema.

    Raises:
        BadFile, BadOption: it is missing, or not a studio's database.
    """
    try:
        url = make_url(other) if "://" in other else None
    except ArgumentError as error:
        raise BadOption(f"{other!r} is not a database address", "give a file, or postgresql://...") from error
    if url is not None and url.get_backend_name() != "sqlite":
        _check_schema(schema_version(other), url.render_as_string(hide_password=True))
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
    """Check the schema before opening, which would migrate the database. Raises BadFile."""
    if schema is None:
        raise BadFile(f"{name} holds no listening tests", "check its name and its schema")
    if schema < len(MIGRATIONS):
        raise BadFile(
            f"{name} has schema {schema}, this studio reads {len(MIGRATIONS)}; another's database is not changed",
            "let its owner open it once with a studio of this version",
        )


def _copy(file: Path, copy: Path) -> None:
    """Copy a database, which may be in use."""
    try:
        source, target = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True), sqlite3.connect(copy)
        try:
            found = list(source.execute("SELECT type, name FROM sqlite_master"))
            if not {name for kind, name in found if kind == "table"} >= STUDIO_TABLES:
                raise BadFile(
                    f"{file} holds no listening tests", "give the file studio.sqlite of the other data folder"
                )
            if views := [name for kind, name in found if kind == "view"]:
                raise BadFile(
                    f"{file} holds the view {views[0]!r:.80}, which no studio makes", "restore a backup of it"
                )
            source.backup(target)
            for name in (
                name for kind, name in found if kind == "trigger"
            ):  # ours only guard writes, which do not happen here
                target.execute(f'DROP TRIGGER "{name.replace(chr(34), chr(34) * 2)}"')
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise BadFile(
            f"{file} cannot be read: {error}", "give the file studio.sqlite of the other data folder"
        ) from error
