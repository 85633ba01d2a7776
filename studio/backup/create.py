"""A backup of everything that the studio was given to keep, taken beside a running server.

The order of copying keeps everything that was acknowledged before:

* uploads, then the database: uploads are deleted when the database has taken them in;
* the database, then the other files: a clip is on disk before a row names it. Clips that were deleted between the two
  are found missing, and the database is copied again;
* sounds of the library, then their notes: a sound is on disk before its note.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import studio
from studio.backup.containers import (
    DATABASE,
    MANIFEST,
    SETTINGS,
    Manifest,
    Member,
    Writer,
    is_member_name,
    reason,
    writing,
)
from studio.backup.database import counts, named_files, snapshot, sqlite_file
from studio.core.durable import PART, is_part
from studio.core.errors import BadFile, NotStored
from studio.core.files import MAX_SETTINGS_BYTES, read_bounded
from studio.library.annotations import read_journal

_LOOKS = 3  # at the database, where files that it names are missing
_MADE_ANEW = ("library/index.sqlite", "library/lock", "takes/")  # takes/: unfinished utterances of live screens

Progress = Callable[[int, int], None]


def create_backup(
    data: Path, database: str, target: Path, settings: Path | None = None, progress: Progress = lambda done, of: None
) -> Manifest:
    """Back a data folder up into a new folder, or into a file whose name ends in ``.zip``.

    Args:
        database: its address; ``studio.sqlite`` in the data folder, if there is one, where this is empty.
        settings: the server's settings file.
        progress: called with the bytes that were copied, and about how many there are.

    Raises:
        BadFile: the data folder, the database or the settings cannot be read, or a file has an impossible name.
        BadOption: there is something of the target's name, or the database's address is not valid.
        NotStored: the disk refused it; nothing is left of the backup.
    """
    data = data.absolute()
    if not data.is_dir():
        raise BadFile(f"there is no data folder {data}", "give it with --data")
    if target.resolve().is_relative_to(data.resolve()):
        raise BadFile(f"{target} lies in the data folder", "give a place outside of it")
    if not database and (data / DATABASE).is_file():
        database = f"sqlite:///{data / DATABASE}"
    file = sqlite_file(database) if database else None
    try:
        size_of_database = 0 if file is None else sum(_size(one) for one in (file, file.with_name(f"{file.name}-wal")))
        size = size_of_database + sum(_size(path) for _, path in _files(data, file))
        _check_room(target, size + size_of_database)  # the snapshot is copied into the backup
        beside_target = {"prefix": f"{target.name}.", "suffix": PART, "dir": target.absolute().parent}
        with writing(target) as writer, tempfile.TemporaryDirectory(**beside_target) as beside:
            backup = _Backup(data, Path(beside), writer, lambda done: progress(done, size))
            return backup.run(database, file, settings)
    except OSError as error:
        raise NotStored(
            f"the backup cannot be made: {reason(error)}", "make room, see who may read the file, or give another place"
        ) from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # deleted since it was listed
        return 0


def _check_room(target: Path, needed: int) -> None:
    folder = next(one for one in target.absolute().parents if one.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise NotStored(f"the backup needs up to {needed:,} bytes, and {free:,} are free", "give another place")


def _files(data: Path, database: Path | None) -> Iterator[tuple[str, Path]]:
    """Every file of a data folder that cannot be made anew, with its name in the backup; links are followed.

    Raises:
        BadFile: a file has a name that a backup cannot hold.
        OSError: a folder cannot be read.
    """
    databases = {data / DATABASE} if database is None else {data / DATABASE, database.absolute()}
    skipped = {f"{one}{suffix}" for one in databases for suffix in ("", "-wal", "-shm", "-journal")}
    real: dict[Path, str] = {}  # folders without links, by the path that led to them
    for folder, folders, names in os.walk(data, onerror=_raise_unless_deleted, followlinks=True):
        here = Path(folder)
        real[here] = os.path.realpath(here)
        if real[here] in (real.get(above) for above in here.parents):  # a link leads back
            folders.clear()
            continue
        folders[:] = sorted((name for name in folders if not is_part(name)), key=lambda name: (name == "notes", name))
        for path in (here / name for name in sorted(names)):
            name = path.relative_to(data).as_posix()
            is_temporary = path.name.startswith(".") or is_part(name)
            if is_temporary or name.startswith(_MADE_ANEW) or name == MANIFEST or str(path) in skipped:
                continue
            if not path.is_file():  # deleted since it was listed, or a socket
                continue
            if not is_member_name(name):
                raise BadFile(f"a backup cannot hold the file {name!r}", "rename it: UTF-8, no backslash")
            yield name, path


def _raise_unless_deleted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class _Backup:
    def __init__(self, data: Path, beside: Path, writer: Writer, progress: Callable[[int], None]) -> None:
        self._data, self._beside, self._writer, self._progress = data, beside, writer, progress
        self._files: dict[str, Member] = {}
        self._done = 0

    def run(self, database: str, file: Path | None, settings: Path | None) -> Manifest:
        """Copy everything, the manifest last."""
        kind, copy, missing, found = "", self._beside / DATABASE, set[str](), dict[str, int]()
        if settings is not None:  # in place of one in the data folder
            self._files[SETTINGS] = self._writer.add(SETTINGS, BytesIO(_settings(settings)), self._count)
        self._copy_files(file, "uploads/")
        for _ in range(_LOOKS):
            if database:
                copy.unlink(missing_ok=True)
                kind = snapshot(database, copy)
            self._copy_files(file)
            missing = named_files(copy) - self._files.keys() if kind else set()
            if not missing:
                break
        if kind:
            found = counts(copy)
            with copy.open("rb") as source:
                self._files[DATABASE] = self._writer.add(DATABASE, source, self._count)
        made = Manifest(
            studio=studio.__version__,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            database=kind,
            files=self._files,
            counts=found | _kinds(self._files),
            missing=tuple(sorted(missing)),
        )
        self._writer.add(MANIFEST, BytesIO(made.to_json()), lambda _: None)
        return made

    def _copy_files(self, database: Path | None, below: str = "") -> None:
        for name, path in _files(self._data, database):
            if name in self._files or not name.startswith(below):
                continue
            try:
                if name.startswith("library/annotations/") and name.endswith(".jsonl"):
                    self._files[name] = self._writer.add(name, BytesIO(read_journal(path)), self._count)
                else:
                    with path.open("rb") as file:
                        self._files[name] = self._writer.add(name, file, self._count)
            except FileNotFoundError:  # deleted since it was listed
                continue

    def _count(self, size: int) -> None:
        self._done += size
        self._progress(self._done)


def _settings(file: Path) -> bytes:
    try:
        return read_bounded(file, MAX_SETTINGS_BYTES)
    except OSError as error:
        raise BadFile(f"the settings {file} cannot be read: {error.strerror}", "give the server's TOML file") from error


def _kinds(files: dict[str, Member]) -> dict[str, int]:
    places = {
        "clips": ("clips/", ".wav"),
        "utterances": ("library/sounds/", ""),
        "journals": ("library/annotations/", ".jsonl"),
    }
    return {
        kind: sum(name.startswith(start) and name.endswith(end) for name in files)
        for kind, (start, end) in places.items()
    }
